"""`pm gate hook` and `pm gate install`: a host's session as a task, blocks and letting go, and other people's files."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from runner.hosted import answer_of
from runner.hosts import HOSTS, Call
from runner.isolation.folder_lease import FolderLease
from tests.repl.support import command_line, environment, pm
from tests.repl.test_gate_command import BROKEN, MENDED, OLD_MARK, shop
from tracer.statedir import StateDir

__all__ = ["shop"]

PAYLOADS: dict[str, dict[str, dict[str, Any]]] = {
    # As each host documents them; what the real Claude Code, Codex and Gemini send is in the tests marked real_cli.
    "claude": {
        "prompt": {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "P"},
        "stop": {
            "hook_event_name": "Stop",
            "session_id": "s",
            "stop_hook_active": False,
            "last_assistant_message": "A",
        },
    },
    "codex": {
        "prompt": {"hook_event_name": "UserPromptSubmit", "session_id": "s", "turn_id": "1", "prompt": "P"},
        "stop": {"hook_event_name": "Stop", "session_id": "s", "turn_id": "1", "last_assistant_message": "A"},
    },
    "gemini": {
        "prompt": {"hook_event_name": "BeforeAgent", "session_id": "s", "prompt": "P"},
        "stop": {"hook_event_name": "AfterAgent", "session_id": "s", "prompt": "P", "prompt_response": "A"},
    },
    "copilot": {
        "prompt": {"sessionId": "s", "timestamp": 1, "prompt": "P"},
        "stop": {"sessionId": "s", "timestamp": 2, "transcriptPath": "/nowhere.jsonl", "stopReason": "end_turn"},
    },
    "cursor": {
        "prompt": {"hook_event_name": "beforeSubmitPrompt", "conversation_id": "s", "prompt": "P"},
        "stop": {"hook_event_name": "stop", "conversation_id": "s", "status": "completed", "loop_count": 0},
    },
    "kiro": {
        "prompt": {"hook_event_name": "userPromptSubmit", "prompt": "P"},
        "stop": {"hook_event_name": "stop", "assistant_response": "A"},
    },
}
BLOCKED = {
    "claude": lambda told: told["decision"] == "block" and told["reason"],
    "codex": lambda told: told["decision"] == "block" and told["reason"],
    "gemini": lambda told: told["decision"] == "deny" and told["reason"],
    "copilot": lambda told: told["decision"] == "block" and told["reason"],
    "cursor": lambda told: told["followup_message"],
}


class Session:
    """One session of a host, as its hooks see it."""

    def __init__(self, host: str, folder: Path, **environ: str) -> None:
        self.host, self.folder, self.environ = host, folder, environ

    def call(self, role: str, **more: Any) -> tuple[int, dict[str, Any], str]:
        payload = {**PAYLOADS[self.host][role], **more}
        where = {"workspace_roots": [str(self.folder)]} if self.host == "cursor" else {"cwd": str(self.folder)}
        ended = pm("gate", "hook", self.host, cwd="/", stdin=json.dumps({**payload, **where}), **self.environ)  # type: ignore[arg-type]
        return ended.code, json.loads(ended.out) if ended.out else {}, ended.err

    def prompt(self, text: str = "mend half in calc.py") -> dict[str, Any]:
        code, told, _ = self.call("prompt", prompt=text)
        assert code == 0
        return told

    def stop(self, answer: str = "Done: half divides by two.", **more: Any) -> dict[str, Any]:
        names = [name for name in PAYLOADS[self.host]["stop"] if "response" in name or "message" in name]
        code, told, err = self.call("stop", **dict.fromkeys(names, answer), **more)
        assert code == (1 if err and self.host == "kiro" else 0)
        return told | ({"stderr": err} if err else {})

    def facts(self) -> list[dict[str, Any]]:
        lines = (self.folder / ".pm-orchestrator" / "gate.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize(  # a host for each form of the refusal; the others have it from one of these
    "host",
    ["claude", "cursor", "gemini", *(pytest.param(host, marks=pytest.mark.torture) for host in ("codex", "copilot"))],
)
def test_a_lazy_answer_is_sent_back_with_reasons_and_the_mended_one_let_go(shop: Path, host: str) -> None:
    session = Session(host, shop)
    assert session.prompt() in ({}, {"continue": True})
    (shop / "calc.py").write_text(OLD_MARK + MENDED + "# TODO: the rest\n")
    lazy = session.stop()
    assert "calc.py:4: TODO found" in BLOCKED[host](lazy)
    (shop / "calc.py").write_text(OLD_MARK + MENDED)
    mended = session.stop()
    assert not mended.keys() & {"decision", "followup_message"}
    assert [fact["verification"] for fact in session.facts()[1::2]] == ["failed", "not_verified"]
    shown = json.loads(pm("show", "1", "--json", cwd=shop).out)
    assert (shown["status"], shown["iterations"], shown["judgments"]) == ("COMPLETE", 2, ["REJECT", "PASS"])
    assert pm("trace", "verify", "1", cwd=shop).code == 0
    assert pm("gate", "--status", cwd=shop).code == 0


def test_a_host_that_cannot_be_blocked_is_told_and_the_record_says_not_verified(shop: Path) -> None:
    session = Session("kiro", shop)
    session.prompt()
    (shop / "calc.py").write_text(OLD_MARK + MENDED + "# TODO: the rest\n")
    assert "NOT VERIFIED: rejected 1 time" in session.stop()["stderr"]
    assert json.loads(pm("show", "1", "--json", cwd=shop).out)["reason"] == "max_iterations"


def test_an_agent_that_never_mends_is_let_go_loudly_before_its_host_would(shop: Path) -> None:
    session = Session("claude", shop)
    session.prompt()
    (shop / "calc.py").write_text(OLD_MARK + MENDED + "# TODO: the rest\n")
    told = [session.stop() for _ in range(4)]
    assert [one.get("decision") for one in told] == ["block", "block", "block", None]
    assert "NOT VERIFIED" in told[3]["systemMessage"]
    assert session.facts()[-1]["verification"] == "failed"
    shown = json.loads(pm("show", "1", "--json", cwd=shop).out)
    assert (shown["status"], shown["reason"]) == ("INCOMPLETE", "max_iterations")
    assert "was let go, and nothing has changed since" in session.stop()["systemMessage"]
    (shop / "calc.py").write_text(MENDED)
    assert "files changed after task-001 was judged" in session.stop()["systemMessage"]


def test_a_host_may_submit_our_own_words_and_leave_its_answer_to_a_transcript(shop: Path, tmp_path: Path) -> None:
    events = [("user.message", "mend half"), ("assistant.message", "Half is done."), ("assistant.message", "")]
    said = tmp_path / "events.jsonl"
    lines = [json.dumps({"type": kind, "data": {"content": text}}) for kind, text in events]
    said.write_text("\n".join([*lines, '{"type": "assistant.turn_end"}', '{"torn']))
    session = Session("copilot", shop)
    session.prompt()
    (shop / "calc.py").write_text(OLD_MARK + MENDED + "# TODO: the rest\n")
    told = []
    for _ in range(4):
        told.append(session.stop(transcriptPath=str(said)))
        session.prompt(told[-1].get("reason", "thank you"))
    assert [one.get("decision") for one in told] == ["block", "block", "block", None]
    assert "NOT VERIFIED" in told[3]["stderr"]
    assert json.loads(pm("show", "1", "--json", cwd=shop).out)["answer"] == "Half is done."


def test_a_transcript_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """The hook hung at a pipe until its host ended it."""
    os.mkfifo(tmp_path / "pipe")
    for name in (str(tmp_path / "pipe"), "/dev/zero", "no\0name", ""):
        answer = answer_of(HOSTS["copilot"], Call("stop", "agentStop", "s", "/", transcript=name))
        assert (answer.output, answer.extra) == ("", {"hosted": True})


@pytest.mark.parametrize(
    ("path", "text", "runs", "told"),
    [
        ("calc.py", OLD_MARK + MENDED + "# TODO: the rest\n", False, "TODO found"),
        ("calc.py", OLD_MARK + MENDED, True, "nothing found"),
        ("NOTES.md", "# How to halve\n", False, "tests not run: the change reaches no test"),
        ("test_calc.md", "# What test_calc is for\n", True, "nothing found"),  # a test has its name
    ],
)
def test_a_stop_runs_tests_only_where_they_could_say_something(
    shop: Path, tmp_path: Path, path: str, text: str, runs: bool, told: str
) -> None:
    (shop / "test_calc.py").write_text("def test_calc(): ...\n")
    ran = tmp_path / "ran"
    session = Session("claude", shop, PM_TEST=f"touch {ran}")
    session.prompt("mend half in calc.py and document it")
    (shop / path).write_text(text)
    said = session.stop()
    assert told in str(said), said
    assert ran.exists() is runs


def test_small_talk_costs_one_turn_and_a_question_none(shop: Path) -> None:
    session = Session("claude", shop)
    session.prompt("What does half do?")
    assert "answered" in session.stop("It halves a number.")["systemMessage"]
    session.prompt("thank you for that")
    assert session.stop("You are welcome.")["decision"] == "block"
    assert "NOT VERIFIED" in session.stop("There was nothing to change.")["systemMessage"]
    assert pm("respond", "2", "accept", cwd=shop).code == 0  # no Claude Code is on this PATH: nobody asks it
    assert json.loads(pm("show", "2", "--json", cwd=shop).out)["status"] == "COMPLETE"
    session.prompt()
    (shop / "calc.py").write_text(OLD_MARK + MENDED)
    assert "nothing found" in session.stop()["systemMessage"]


def test_a_question_in_a_session_changes_no_verdict(shop: Path) -> None:
    (shop / "calc.py").write_text(OLD_MARK + MENDED + "# TODO: the rest\n")
    assert pm("gate", "--fast", cwd=shop).code == 1
    session = Session("claude", shop)
    session.prompt("What does half do?")
    assert "answered, nothing was changed" in session.stop("It halves a number.")["systemMessage"]
    assert pm("gate", "--status", cwd=shop).out.startswith("holds: FAILED (gate,")
    session.prompt("mend half in calc.py, and say so in notes.txt")
    (shop / "notes.txt").write_text("half is right\n")
    assert "nothing found" in session.stop()["systemMessage"]
    status = pm("gate", "--status", cwd=shop)  # what failed is a part of this tree still
    assert (status.code, status.out.startswith("stale: FAILED (gate,")) == (6, True), status
    assert "only what changed since was judged again: pm gate" in status.err
    assert pm("gate", "--fast", cwd=shop).code == 1


def test_a_broken_off_turn_keeps_its_baseline_and_an_agents_question_its_task(shop: Path) -> None:
    session = Session("claude", shop)
    session.prompt()
    (shop / "calc.py").write_text(OLD_MARK + MENDED + "# TODO: broken off\n")
    session.prompt("go on, please, and keep it short")
    assert "TODO found" in session.stop()["reason"]
    (shop / "calc.py").write_text(OLD_MARK + BROKEN)
    asked = session.stop('```pm-report\n{"status": "question", "question": "By two or by three?"}\n```')
    assert "By two or by three?" in asked["systemMessage"]
    session.prompt("by two")
    (shop / "calc.py").write_text(OLD_MARK + MENDED)
    assert "nothing found" in session.stop()["systemMessage"]
    listed = json.loads(pm("tasks", "--json", cwd=shop).out)["tasks"]
    assert [row["task_id"] for row in listed] == ["task-001"]


@pytest.mark.torture
def test_what_the_agent_does_to_the_commands_and_the_policy_counts_for_nothing(shop: Path) -> None:
    pm("config", "trust", "--yes", cwd=shop)
    (shop / "Makefile").write_text("test:\n\tfalse\n")
    session = Session("claude", shop)
    session.prompt()
    (shop / "Makefile").write_text("test:\n\ttrue\n")
    (shop / ".pm-orchestrator" / "config.toml").write_text('[gate]\ntests = "change"\n')
    (shop / "calc.py").write_text(OLD_MARK + MENDED)
    assert "Q10" in session.stop()["reason"]  # the state directory is the user's


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ("", "JSONDecodeError"),
        ("[1]", "no event of claude"),
        ('{"hook_event_name": "Stop", "session_id": 7}', "no baseline"),
        ('{"hook_event_name": "Notification"}', "no event of claude"),
        ("[" * 100_000, "Error"),
    ],
)
def test_what_cannot_be_read_blocks_nobody_and_is_on_record(shop: Path, payload: str, told: str) -> None:
    ended = pm("gate", "hook", "claude", cwd=shop, stdin=payload)
    message = json.loads(ended.out)
    assert (ended.code, message.keys()) == (0, {"systemMessage"})
    assert "NOT VERIFIED" in message["systemMessage"]
    assert told in message["systemMessage"]
    last = json.loads((shop / ".pm-orchestrator" / "gate.jsonl").read_text().splitlines()[-1])
    assert last["verification"] == "not_verified"
    assert pm("gate", "--status", cwd=shop).code == 6


def test_a_missing_state_blocks_nobody(shop: Path) -> None:
    session = Session("claude", shop)
    session.prompt()
    for path in sorted((shop / ".pm-orchestrator").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (shop / "calc.py").write_text(MENDED)
    assert "NOT VERIFIED: task-001 is not on record any more" in session.stop()["systemMessage"]
    (shop / ".pm-orchestrator").chmod(0o500)
    assert "NOT VERIFIED" in session.stop()["systemMessage"] or os.geteuid() == 0
    (shop / ".pm-orchestrator").chmod(0o700)


def test_inside_a_run_of_pm_its_hooks_are_silent(shop: Path) -> None:
    session = Session("claude", shop, PM_ORCHESTRATOR_PROCESS="x")
    assert session.prompt() == {}
    assert session.stop() == {}
    assert not (shop / ".pm-orchestrator").exists()


def test_a_part_is_sent_back_once(shop: Path) -> None:
    session = Session("claude", shop)
    session.prompt()
    (shop / "calc.py").write_text(OLD_MARK + MENDED + "# TODO: the rest\n")
    part = {"hook_event_name": "SubagentStop", "agent_id": "a1"}
    assert "TODO found" in session.stop(**part)["reason"]
    assert session.stop(**part) == {}
    done = {"hook_event_name": "TaskCompleted", "task_id": "7"}
    code, told, err = session.call("stop", **done)
    assert (code, told, "TODO found" in err) == (2, {}, True)
    assert pm("gate", "--session", "--fast", cwd=shop).code == 1


@pytest.mark.torture
def test_a_killed_hook_leaves_not_verified(shop: Path) -> None:
    pm("config", "trust", "--yes", cwd=shop)
    session = Session("claude", shop)
    (shop / "Makefile").write_text("test:\n\tsleep 20\n")
    session.prompt()
    (shop / "calc.py").write_text(OLD_MARK + MENDED)
    payload = json.dumps({**PAYLOADS["claude"]["stop"], "cwd": str(shop)}).encode()
    command = command_line("gate", "hook", "claude")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, env=environment(), cwd=shop) as hook:  # type: ignore[call-overload]
        hook.stdin.write(payload)
        hook.stdin.close()
        trace = next((shop / ".pm-orchestrator" / "traces").glob("*.jsonl"))
        until = time.monotonic() + 60
        while "LLM_RESPONSE" not in trace.read_text() and time.monotonic() < until:
            time.sleep(0.05)
        hook.send_signal(signal.SIGKILL)
        assert hook.stdout.read() == b""
    assert hook.returncode == -signal.SIGKILL
    assert session.facts()[-1]["not_verified"][0]["why"] == "the hook did not end"
    assert pm("gate", "--status", cwd=shop).code == 6
    assert "task-001 was not judged to its end" in session.prompt("now the tests")["systemMessage"]


@pytest.mark.parametrize(
    ("broken_off", "cap", "blocks"),
    [(2, "", 3), (0, "2", 1), (0, "0", 3)],  # Claude Code: 0 is no limit
)
def test_no_turn_is_sent_back_more_often_than_it_may_be(shop: Path, broken_off: int, cap: str, blocks: int) -> None:
    """Each turn that was broken off let the next one be sent back four times more: past the host's own limit."""
    session = Session("claude", shop, CLAUDE_CODE_STOP_HOOK_BLOCK_CAP=cap)
    session.prompt()
    (shop / "calc.py").write_text(OLD_MARK + MENDED + "# TODO: the rest\n")
    for number in range(broken_off):
        session.prompt(f"go on, {number}")
    told = [session.stop() for _ in range(blocks + 1)]
    assert [one.get("decision") for one in told] == ["block"] * blocks + [None]
    assert f"{blocks} of at most {blocks}" in told[-2]["systemMessage"]


def test_sessions_and_tasks_in_one_folder_do_not_wait_for_each_other_or_hide_its_changes(shop: Path) -> None:
    """The second one got a worktree that its agent never saw, and the first one's work counted as another's."""
    first, second, third = (Session("claude", shop) for _ in range(3))
    lease = FolderLease(shop, state_dir=StateDir(shop / ".pm-orchestrator"), task_id="task-009")
    for number, session in enumerate((first, second, third)):
        if number == 2:
            assert lease.take()  # a task of pm is at work there
        code, told, _ = session.call("prompt", session_id=f"s{number}", prompt=f"mend half in calc.py, {number}")
        assert (code, told) == (0, {})
    (shop / "calc.py").write_text(OLD_MARK + MENDED)
    for number, session in enumerate((first, second, third)):
        assert "nothing found" in session.stop(session_id=f"s{number}")["systemMessage"]
    lease.release()


def test_a_hook_that_is_there_twice_begins_one_task(shop: Path) -> None:
    payload = json.dumps({**PAYLOADS["claude"]["prompt"], "cwd": str(shop)}).encode()
    twins = [
        subprocess.Popen(command_line("gate", "hook", "claude"), stdin=subprocess.PIPE, env=environment(), cwd=shop)
        for _ in range(2)
    ]
    for twin in twins:
        twin.communicate(payload, timeout=60)
    listed = json.loads(pm("tasks", "--json", cwd=shop).out)["tasks"]
    assert [row["task_id"] for row in listed] == ["task-001"]


def test_tests_that_outlast_the_hosts_patience_are_not_verified(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host ended the hook, and nobody was told anything."""
    monkeypatch.setattr("runner.hosted._JUDGING_S", 0.5)
    session = Session("claude", shop, PM_TEST="sleep 60", PM_LINT="sleep 60")
    session.prompt()
    (shop / "calc.py").write_text(OLD_MARK + MENDED)
    told = session.stop()["systemMessage"]
    assert "lint not run: no time was left for sleep 60" in told
    assert "tests not run: the tests ran out of time" in told
    assert "Q2" not in told


def test_an_agent_does_not_end_its_own_hooks_before_it_is_judged(shop: Path) -> None:
    """The real Claude Code takes a change of its settings over at once: the answer was never judged, unsaid."""
    assert pm("gate", "install", "claude", "--user", "--yes", cwd=shop).code == 0
    ours = HOSTS["claude"].path(shop, os.environ, user=True)
    local = ours.with_name("settings.local.json")
    session = Session("claude", shop)

    def changed(path: Path) -> dict[str, Any]:
        return session.stop(hook_event_name="ConfigChange", file_path=str(path))

    session.prompt()
    local.write_text('{"model": "opus"}')
    assert (changed(ours), changed(local), changed(local.with_name("none"))) == ({}, {}, {})
    ours.unlink()
    assert changed(ours)["decision"] == "block"
    for text in ('{"disableAllHooks": true}', '{"env": {"PM_ORCHESTRATOR_PROCESS": "x"}}'):
        local.write_text(text)
        assert "would end its hooks before task-001 is judged: refused" in changed(local)["systemMessage"]
    (shop / "calc.py").write_text(OLD_MARK + MENDED)
    assert "its hooks are gone from" in session.stop()["systemMessage"]
    assert changed(local) == {}  # between two turns they are the user's to end


def test_the_plugins_own_command_needs_no_change(shop: Path) -> None:
    session = Session("claude", shop)
    session.prompt("/pm-gate:gate --fast")
    assert "answered" in session.stop("Nothing differs from HEAD.")["systemMessage"]


@pytest.mark.parametrize("host", sorted(HOSTS))
@pytest.mark.parametrize("scope", ["--project", "--user"])
def test_hooks_are_shown_merged_and_removed_without_a_trace(shop: Path, host: str, scope: str) -> None:
    path = HOSTS[host].path(shop, os.environ, user=scope == "--user")
    assert pm("gate", "install", host, scope, "--no-input", cwd=shop).code == 2
    assert not path.exists()
    before = sorted(str(one) for one in path.parents[1].rglob("*"))
    shown = pm("gate", "install", host, scope, "--yes", cwd=shop)
    assert shown.code == 0
    assert f"gate hook {host}" in shown.err
    assert path.stat().st_mode & 0o777 == (0o644 if scope == "--project" else 0o600)  # a project's is committed
    assert ("do not commit it" in shown.err) is (scope == "--project")  # no pm is on this PATH
    assert pm("gate", "install", host, scope, "--yes", cwd=shop).out.startswith("nothing to change")
    assert pm("gate", "uninstall", host, scope, "--yes", cwd=shop).code == 0
    kept = [one for one in path.parents[1].rglob("*") if "pm-orchestrator" not in str(one) and ".local" not in str(one)]
    assert sorted(map(str, kept)) == [one for one in before if "pm-orchestrator" not in one and ".local" not in one]


def test_a_users_own_hooks_stay_to_the_byte_and_so_does_a_later_edit(shop: Path) -> None:
    path = shop / ".claude" / "settings.json"
    path.parent.mkdir()
    own = '{ "model":"x",\r\n"hooks": {"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}'
    path.write_bytes(own.encode())
    pm("gate", "install", "claude", "--yes", cwd=shop)
    commands = [hook["command"] for group in json.loads(path.read_text())["hooks"]["Stop"] for hook in group["hooks"]]
    assert commands[0] == "say done"
    assert commands[1].endswith("gate hook claude")
    pm("gate", "uninstall", "claude", "--yes", cwd=shop)
    assert path.read_bytes() == own.encode()
    pm("gate", "install", "claude", "--yes", cwd=shop)
    edited = json.loads(path.read_text()) | {"theme": "dark"}
    path.write_text(json.dumps(edited))
    pm("gate", "uninstall", "claude", "--yes", cwd=shop)
    assert json.loads(path.read_text()) == json.loads(own) | {"theme": "dark"}
    path.write_text("{ // a comment\n}")
    assert pm("gate", "install", "claude", "--yes", cwd=shop).code == 3
    assert path.read_text() == "{ // a comment\n}"


@pytest.mark.parametrize("words", [("gate", "{}", "claude", "--user"), ("sessions", "hooks", "{}", "claude")])
@pytest.mark.parametrize("indent", [2, None])
def test_secrets_of_a_settings_file_are_not_shown_and_stay_in_it(
    project: Path, words: tuple[str, ...], indent: int | None
) -> None:
    key = f"sk-ant-api03-{secrets.token_hex(46)}xAA"
    path = HOSTS["claude"].path(project, os.environ, user=True)
    path.parent.mkdir(parents=True)
    own = json.dumps({"env": {"ANTHROPIC_API_KEY": key, "VISIBLE": "1"}}, indent=indent)
    path.write_text(own)
    for word in ("install", "uninstall"):
        refused = pm(*(one.format(word) for one in words), "--no-input", cwd=project)
        done = pm(*(one.format(word) for one in words), "--yes", cwd=project)
        assert (refused.code, done.code) == (2, 0)
        for shown in (refused, done):
            assert key not in shown.out + shown.err
            assert "[REDACTED:" in shown.err
            assert "VISIBLE" in shown.err
        assert json.loads(path.read_text())["env"]["ANTHROPIC_API_KEY"] == key
    assert path.read_text() == own
