"""`run`, `resume`, `respond`, `stop`, `retry` as a new user would use them, with their exit codes and records."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repl.dispatch import INSIDE_RUN
from repl.present.outcome import outcome_error
from runner.core.task import TaskOutcome
from runner.processes.process_table import MARK, entry_of
from tests.repl.scripts import BAD, GOOD, USAGE, run_scripted, script
from tests.repl.support import command_line, environment, pm
from tests.repl.terminal import Terminal
from tests.support.tools import need
from tracer.facts import Question
from tracer.names import TaskStatus


def records(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_rejected_answer_is_asked_again_and_each_fact_prints_once(project: Path) -> None:
    ran = run_scripted(project, {**BAD, **USAGE}, {**GOOD, **USAGE})
    assert ran.code == 0, ran.err
    lines = ran.err.splitlines()
    assert lines[0] == "task-001 started · change · scripted · up to 3 iterations"
    assert lines[1].startswith("  [0] answered ")
    assert "500 tok" in lines[1]
    assert lines[2].startswith("  [0] REJECT   Q2 ")
    assert lines[3].startswith("      fix: ")
    assert lines[5] == "  [1] PASS     Q1 Q2 Q3 Q4 Q5 Q6 Q10"
    answer, blank, closing = ran.out.splitlines()
    assert (answer, blank) == (GOOD["output"], "")
    assert closing.startswith(
        "task-001 COMPLETE, tests not run: no test command was found (pm config set run.test CMD) · "
    )
    assert " · 2 iterations · 1 file +2 -0 · 1,000 tok · cost n/a · " in closing


def test_retries_are_no_iterations_in_the_closing_line(project: Path) -> None:
    trouble = {"error": {"kind": "network", "message": "reset", "retry_after_s": 0}}
    ran = run_scripted(project, trouble, {**GOOD, **USAGE})
    assert ran.code == 0, ran.err
    assert " · 1 retry · 1 file " in ran.out.splitlines()[-1]


def test_a_prompt_that_is_too_long_is_told_as_that(project: Path) -> None:
    ran = run_scripted(project, {"error": {"kind": "context", "message": "prompt is too long: 3 > 2"}})
    assert ran.code == 6
    assert "stopped: the prompt is too long for the model" in ran.err
    assert "REJECT" not in ran.err


@pytest.mark.parametrize("reported", ["PROJ-142", "half(3) gives 1", "ログインできません", "Can you look into half()?"])
def test_an_untouched_tree_beside_i_fixed_the_bug_is_not_complete(project: Path, reported: str) -> None:
    ran = run_scripted(project, {"output": "I fixed the bug."}, words=(reported, "--max-iterations", "1"))
    assert ran.code == 6
    assert "REJECT   Q5 no file was changed" in ran.err


def test_our_own_output_in_the_workspace_is_no_change_of_the_task(project: Path, tmp_path: Path) -> None:
    path = script(project, *[{"output": "I fixed the bug."}] * 3)
    path = path.rename(tmp_path / "script.jsonl")
    with (project / "run.log").open("wb") as log:
        ran = subprocess.run(
            [sys.executable, "-m", "pm_orchestrator", "run", "--executor", "scripted", "--script", path, "Fix mean()"],
            cwd=project,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            check=False,
        )
    assert ran.returncode == 6, (project / "run.log").read_text()


def test_the_kind_is_settled_recorded_and_shown(project: Path) -> None:
    answer = {"output": "It divides without a remainder."}
    ran = run_scripted(project, answer, words=("why does half(3) give 1?",))
    assert ran.code == 0, ran.err
    assert ran.err.startswith("task-001 started · question · ")
    assert "kind        question" in pm("show", "1", cwd=project).out
    path = script(project, answer)
    asked = pm(cwd=project, stdin="/ask PROJ-142\n", PM_EXECUTOR="scripted", PM_SCRIPT=str(path))
    assert asked.code == 0, asked.err
    assert json.loads(pm("show", "2", "--json", cwd=project).out)["kind"] == "question"


def test_check_lists_every_place(project: Path) -> None:
    (project / "a.py").write_text("".join(f"A{number} = 1  # TODO: check\n\n" for number in range(250)))
    ran = pm("check", "a.py", cwd=project)
    assert ran.code == 1
    assert ran.out.count("a.py:") == 250
    assert "250 places found in 1 file" in ran.err
    (record,) = records(pm("check", "a.py", "--json", cwd=project).out)
    assert len(record["issues"]) == 250  # type: ignore[arg-type]


def test_json_of_run_is_one_object_with_everything_a_script_needs(project: Path) -> None:
    ran = run_scripted(project, GOOD, words=("write hello.py", "--json"))
    (record,) = records(ran.out)
    assert (record["type"], record["task_id"], record["status"]) == ("result", "task-001", "COMPLETE")
    assert record["files_modified"] == ["hello.py"]
    assert record["judgments"] == ["PASS"]
    assert len(str(record["chain_head"])) == 64


def test_jsonl_of_run_is_the_stored_lines_byte_for_byte_and_then_the_result(project: Path) -> None:
    ran = run_scripted(project, BAD, GOOD, words=("write hello.py", "--jsonl"))
    (trace,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    stored = trace.read_bytes()
    assert ran.raw.startswith(stored)
    (last,) = records(ran.raw[len(stored) :].decode())
    assert last["type"] == "result"


def test_a_run_at_its_limit_ends_6_with_one_error_record_and_says_how_to_go_on(project: Path) -> None:
    ran = run_scripted(project, BAD, BAD, words=("write hello.py", "--max-iterations", "2", "--json"))
    (record,) = records(ran.out)
    assert ran.code == 6
    assert record["type"] == "error"
    assert record["status"] == "INCOMPLETE"
    error = record["error"]
    assert isinstance(error, dict)
    assert error["exit"] == 6
    assert str(error["message"]).startswith("stopped: 2 of 2 iterations, last verdict REJECT")
    assert error["next"] == "pm resume 1 --max-iterations 4   or   pm respond 1 hint TEXT | accept"


def test_a_task_that_ended_short_is_resumed_in_a_new_file_and_completes(project: Path) -> None:
    run_scripted(project, BAD, GOOD, words=("write hello.py", "--max-iterations", "1"))
    ran = pm("resume", "1", "--max-iterations", "3", cwd=project)
    assert ran.code == 0, ran.err
    assert len(list((project / ".pm-orchestrator" / "traces").glob("*.jsonl"))) == 2


def test_resume_of_a_complete_task_changes_nothing_and_ends_0(project: Path) -> None:
    run_scripted(project, GOOD)
    before = {path: path.read_bytes() for path in (project / ".pm-orchestrator" / "traces").iterdir()}
    ran = pm("resume", "--last", cwd=project)
    assert ran.code == 0
    assert "nothing to resume" in ran.err
    assert before == {path: path.read_bytes() for path in (project / ".pm-orchestrator" / "traces").iterdir()}


def test_a_waiting_task_is_answered_with_respond(project: Path) -> None:
    first = run_scripted(project, BAD, GOOD, words=("write hello.py", "--max-iterations", "1", "--on-limit", "ask"))
    assert first.code == 6
    assert "pm respond 1 continue" in first.err
    assert pm("respond", "1", "hint", cwd=project).code == 2
    second = pm("respond", "1", "hint", "finish", "greet", cwd=project)
    assert second.code == 0, second.err
    assert "[0]" not in second.err  # what was shown before is not shown again


def test_accepting_a_waiting_task_ends_0_and_stopping_it_ends_1(project: Path) -> None:
    words = ("write hello.py", "--max-iterations", "1", "--on-limit", "ask")
    run_scripted(project, BAD, words=words)
    assert pm("respond", "1", "accept", cwd=project).code == 0
    run_scripted(project, BAD, words=words)
    assert pm("respond", "2", "stop", cwd=project).code == 1


def test_the_executors_that_stand_in_are_part_of_the_task_and_still_there_when_it_is_resumed(
    project: Path, tmp_path: Path
) -> None:
    words = ("--executor", "claude", "--fallback", "scripted", "--script", str(script(tmp_path, BAD, GOOD)))
    ran = pm("run", *words, "--max-iterations", "1", "write hello.py", cwd=project)
    assert ran.code == 6, ran.err
    assert "  [0] answered by scripted " in ran.err
    ran = pm("resume", "1", "--max-iterations", "2", cwd=project)
    assert ran.code == 0, ran.err
    answers = _data(project, "LLM_RESPONSE")
    assert [answer["executor"] for answer in answers] == ["scripted", "scripted"]


def _data(project: Path, event: str) -> list[dict[str, object]]:
    traces = sorted((project / ".pm-orchestrator" / "traces").glob("*.jsonl"))
    facts = [json.loads(line) for path in traces for line in path.read_text().splitlines()]
    return [fact["data"] for fact in facts if fact["event"] == event]


def test_the_end_of_a_task_tells_what_would_mend_its_trouble() -> None:
    ended = TaskOutcome(task_id="task-003", status="ERROR", reason="auth", detail="Invalid API key", next_step="log in")
    error = outcome_error(ended)
    assert error is not None
    assert (error.code, error.why, error.next_step) == (
        "credentials", "Invalid API key", "log in   then   pm resume 3",
    )  # fmt: skip


@pytest.mark.parametrize("status", ["AWAITING_RESPONSE", "INCOMPLETE"])
def test_a_question_of_the_agent_is_told_on_one_line_with_how_to_answer_it(status: TaskStatus) -> None:
    asked = Question({"text": "I cannot do this.\nWhich half do you mean?", "by": "agent"})
    error = outcome_error(TaskOutcome(task_id="task-003", status=status, reason="asked", question=asked))
    assert error is not None
    assert (error.code, error.why) == ("limit", "I cannot do this. Which half do you mean?")
    assert error.next_step.startswith("pm respond 3 hint")


_LEAVES_ONE_BEHIND = """
import asyncio, sys
from pathlib import Path
from runner.processes.process import Process

async def main():
    async with Process(["sleep", "300"], cwd=".", state_dir=Path(sys.argv[1]), label="task-007") as process:
        print(process.pid, flush=True)
        await process.wait()

asyncio.run(main())
"""


def test_the_next_pm_ends_an_agent_that_a_killed_one_left_and_says_so(project: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", _LEAVES_ONE_BEHIND, str(project / ".pm-orchestrator")],
        stdout=subprocess.PIPE,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    owner.kill()
    owner.communicate()
    ran = run_scripted(project, GOOD)
    assert ran.code == 0, ran.err
    assert f"an agent of task-007 that a killed pm left running was ended (process {pid})" in ran.err
    assert entry_of(pid) is None


def test_retry_starts_a_new_task_with_the_same_request(project: Path) -> None:
    path = script(project, GOOD)
    run_scripted(project, GOOD)
    ran = pm("retry", "1", "--executor", "scripted", "--script", str(path), "--json", cwd=project)
    (record,) = records(ran.out)
    assert record["task_id"] == "task-002"


def test_the_request_comes_from_words_stdin_or_a_file(project: Path) -> None:
    other = {"output": "Done: wave() in wave.py", "files": {"wave.py": "def wave() -> int:\n    return 1\n"}}
    path = str(script(project, {**GOOD, "match": "stdin"}, other))
    (project / "request.md").write_text("write wave.py\nwith a greeting", encoding="utf-8")
    base = ("run", "--executor", "scripted", "--script", path, "--json")
    assert pm(*base, "-", cwd=project, stdin="write hello.py from stdin").code == 0
    assert pm(*base, "--label", "sync:wave", "@request.md", cwd=project).code == 0
    stdin, file = (
        json.loads(trace.read_bytes().split(b"\n")[0])["data"]
        for trace in sorted((project / ".pm-orchestrator" / "traces").glob("*.jsonl"))
    )
    assert [stdin["prompt"], file["prompt"]] == ["write hello.py from stdin", "write wave.py\nwith a greeting"]
    assert [file["prompt_file"], file["label"]] == ["request.md", "sync:wave"]
    assert stdin.keys().isdisjoint({"prompt_file", "label"})


def test_an_empty_binary_or_missing_request_is_a_usage_error(project: Path) -> None:
    assert pm("run", "-", cwd=project, stdin="  \n").code == 2
    assert pm("run", "-", cwd=project, stdin=b"\xff\xfe\x00").code == 2
    assert pm("run", "@nothing.md", cwd=project).code == 2
    assert pm("run", cwd=project).code == 2


def test_without_key_or_executor_the_first_run_says_three_lines_and_ends_4(project: Path) -> None:
    ran = pm("run", "hello", cwd=project)
    assert ran.code == 4
    assert ran.err.splitlines() == [
        "pm: no model credentials found",
        (
            "  looked in: PM_API_KEY, ANTHROPIC_API_KEY, key file (none), executors on PATH: claude (not found), "
            "codex (not found), gemini (not found)"
        ),
        (
            "  next:  export ANTHROPIC_API_KEY=...    or  install one of the executors    or try  pm demo"
            "   (no key needed)"
        ),
    ]
    assert not (project / ".pm-orchestrator" / "traces").exists()


def test_an_environment_name_and_a_config_key_stand_for_a_flag(project: Path) -> None:
    path = script(project, GOOD)
    ran = pm("run", "write hello.py", "--json", cwd=project, PM_EXECUTOR="scripted", PM_SCRIPT=str(path))
    assert ran.code == 0, ran.err
    pm("config", "set", "run.executor", "scripted", cwd=project)
    pm("config", "set", "run.script", str(path), cwd=project)
    (project / "hello.py").unlink()
    assert pm("run", "write hello.py", cwd=project).code == 0


def _running(project: Path, *extra: str, delay_ms: int = 20_000) -> subprocess.Popen[bytes]:
    path = script(project, {**GOOD, "delay_ms": delay_ms})
    words = ("run", "--executor", "scripted", "--script", str(path), "write hello.py", *extra)
    known = set((project / ".pm-orchestrator" / "traces").glob("*.jsonl"))
    process = subprocess.Popen(
        command_line(*words), cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    traces = project / ".pm-orchestrator" / "traces"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any(b'"LLM_REQUEST"' in path.read_bytes() for path in {*traces.glob("*.jsonl")} - known):
            return process
        time.sleep(0.02)
    process.kill()
    raise AssertionError(process.communicate())


def test_sigint_and_sigterm_leave_a_resumable_trace_and_say_how(project: Path) -> None:
    for number, code, word in ((signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")):
        process = _running(project, "--json")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        (record,) = records(out.decode())
        assert process.returncode == code
        error = record["error"]
        assert isinstance(error, dict)
        assert (error["code"], error["exit"]) == (word, code)
        assert b"pm resume task-00" in err
        assert b"Traceback" not in err
    tasks = records(pm("tasks", "--jsonl", cwd=project).out)
    assert {task.get("status") for task in tasks[:2]} == {"UNFINISHED"}


def test_stop_from_another_process_leaves_the_task_resumable(project: Path) -> None:
    process = _running(project)
    assert pm("stop", "1", cwd=project).code == 0
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"pm resume 1" in err
    again = pm("stop", "1", cwd=project)
    assert again.code == 7
    assert "is not running" in again.err


def test_a_second_process_follows_the_task_read_only_and_says_who_holds_it(project: Path) -> None:
    process = _running(project, delay_ms=1500)
    ran = pm("resume", "--last", cwd=project)
    process.communicate(timeout=60)
    assert ran.code == 0, ran.err
    assert f"task-001 is run by process {process.pid}" in ran.err
    assert "shown here, read only   pm stop 1 stops it" in ran.err
    assert ran.err.count("[0] PASS") == 1
    (trace,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    assert trace.read_bytes().count(b'"LLM_REQUEST"') == 1


def test_a_followed_task_that_is_stopped_elsewhere_is_resumable(project: Path) -> None:
    process = _running(project)
    follower = subprocess.Popen(
        command_line("--line", "--resume", "1"),
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert follower.stderr is not None
    said = b""
    while b"shown here, read only" not in said:  # it follows: only now may the other one stop
        line = follower.stderr.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    out, rest = follower.communicate(timeout=60)
    err = said + rest
    assert b"task-001 UNFINISHED" in out
    assert b"unfinished: task-001" not in err, "it is not this session's to resume"


@pytest.mark.parametrize(
    "words", [("show",), ("trace",), ("trace", "verify"), ("diff",), ("files",), ("export",)], ids=" ".join
)
def test_every_command_that_takes_a_task_takes_last(project: Path, words: tuple[str, ...]) -> None:
    run_scripted(project, GOOD)
    assert pm(*words, "--last", cwd=project).code == 0


def test_last_stands_in_the_task_s_place_among_other_arguments(project: Path) -> None:
    run_scripted(project, BAD, words=("write hello.py", "--max-iterations", "1", "--on-limit", "ask"))
    assert "exclude each other" in pm("show", "1", "--last", cwd=project).err
    assert pm("respond", "--last", "accept", cwd=project).code == 0


@pytest.mark.parametrize(
    "words",
    [("respond", "1", "stop"), ("stop", "1"), ("config", "set", "run.max_iterations", "9"), ("config", "trust")],
)
def test_an_agent_cannot_do_to_its_run_what_is_the_persons(project: Path, words: tuple[str, ...]) -> None:
    run_scripted(project, BAD, words=("write hello.py", "--max-iterations", "1", "--on-limit", "ask"))
    assert INSIDE_RUN == MARK
    ran = pm(*words, cwd=project, **{MARK: "x"})
    assert ran.code == 2
    assert "is for the user" in ran.err
    assert pm(cwd=project, stdin="/" + " ".join(words) + "\n", **{MARK: "x"}).code == 2
    assert pm("show", "1", "--json", cwd=project, **{MARK: "x"}).out.count("AWAITING_RESPONSE") == 1


def test_the_demo_shows_a_reject_then_a_pass_and_leaves_nothing(project: Path, tmp_path: Path) -> None:
    ran = pm("demo", cwd=project, TMPDIR=str(tmp_path), PM_EXECUTOR="nonsense")
    assert ran.code == 0, ran.err
    assert "QUALITY_JUDGMENT[0]: REJECT (Q2: " in ran.out
    assert "Q7: tests that failed before the task still fail: " in ran.out
    assert "QUALITY_JUDGMENT[1]: PASS (tests passed (3, 3 fixed))" in ran.out
    assert "tests before the task: 3 failed" in ran.err
    assert ran.out.splitlines()[-2].endswith("FINAL_SUMMARY: COMPLETE (2 iterations)")
    assert not list(tmp_path.glob("pm-demo-*"))
    assert not (project / ".pm-orchestrator").exists()
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_session_that_waits_for_its_pipe(project: Path, number: int) -> None:
    process = subprocess.Popen(
        command_line(),
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"/version\n")
    process.stdin.flush()
    assert process.stdout.readline().startswith(b"pm ")
    process.send_signal(number)
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)  # its stdin stays open: the end must not wait for it
    assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    assert b"Fatal" not in process.communicate()[1]


def test_a_person_at_the_terminal_is_asked_at_the_limit(project: Path) -> None:
    path = script(project, BAD, BAD, GOOD)
    words = ("run", "--executor", "scripted", "--script", str(path), "--max-iterations", "1", "write hello.py")
    with Terminal(project, *words) as terminal:
        terminal.wait_for("Enter later?")
        terminal.send(
            b"add more of it\r"
        )  # no decision of the list, though it begins with a letter of one: asked again
        terminal.send(b"hint finish greet\r")
        terminal.wait_for("2 iterations, last verdict REJECT")
        terminal.send(b"continue\r")
        terminal.wait_for("task-001 COMPLETE, tests not run")
        assert terminal.ends() == 0


ASKS = {"output": "I read hello.py.\n\nWhich greeting?\n\n- Hello\n- Moin"}


@pytest.mark.parametrize(("typed", "told"), [(b"2", "Moin"), (b"Guten Tag, please", "Guten Tag, please")])
def test_a_question_of_the_agent_is_answered_at_the_terminal(project: Path, typed: bytes, told: str) -> None:
    path = script(project, ASKS, GOOD)
    with Terminal(project, "run", "--executor", "scripted", "--script", str(path), "greet") as terminal:
        terminal.wait_for("your answer (1-2, a accept it as it is")
        assert "2. Moin" in terminal.text()
        terminal.send(typed + b"\r")
        terminal.wait_for("task-001 COMPLETE, tests not run")
        assert terminal.ends() == 0
    (trace,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    assert f"The user answers: {told}" in trace.read_text()


def test_only_what_asks_to_be_allowed_can_be(project: Path) -> None:
    run_scripted(project, ASKS, GOOD, words=("greet", "--on-limit", "ask"))
    refused = pm("respond", "1", "allow", cwd=project)
    assert (refused.code, "asks for nothing to be allowed" in refused.err) == (2, True)
    assert json.loads(pm("show", "1", "--json", cwd=project).out)["status"] == "AWAITING_RESPONSE"
    assert pm("respond", "1", "hint", "Moin", cwd=project).code == 0


def test_a_second_answer_that_changed_nothing_is_put_to_the_person_and_may_be_accepted(project: Path) -> None:
    claims = {"output": "I fixed it, all is well."}
    path = script(project, claims, claims, claims)
    with Terminal(project, "run", "--executor", "scripted", "--script", str(path), "greet") as terminal:
        terminal.wait_for("changed nothing for the second time")
        terminal.wait_for("your answer (a accept")
        terminal.send(b"accept\r")
        terminal.wait_for("task-001 COMPLETE · 2 iterations")
        assert terminal.ends() == 0


def test_a_question_without_anybody_to_answer_ends_with_6_and_is_answered_later(project: Path) -> None:
    ran = run_scripted(project, ASKS, GOOD, words=("greet", "--json", "--no-input"))
    (record,) = records(ran.out)
    assert (ran.code, record["status"], record["reason"]) == (6, "INCOMPLETE", "asked")
    assert (record["question"], record["choices"]) == ("Which greeting?", ["Hello", "Moin"])
    shown = json.loads(pm("show", "1", "--json", cwd=project).out)
    assert (shown["question"], shown["reason"]) == ("Which greeting?", "asked")
    assert pm("respond", "1", "allow", cwd=project).code != 0
    assert pm("respond", "1", "hint", "Moin", cwd=project).code == 0
    assert json.loads(pm("show", "1", "--json", cwd=project).out)["question"] is None
    assert pm("respond", "1", "accept", cwd=project).code != 0


def test_what_ended_with_a_question_is_accepted_later_without_another_request(project: Path) -> None:
    asks = {**GOOD, "report": {"status": "question", "question": "Is that all?"}}
    ran = run_scripted(project, asks, words=("greet", "--json", "--no-input"))
    assert (ran.code, records(ran.out)[0]["reason"]) == (6, "asked")
    assert "respond 1 hint TEXT | accept" in pm("show", "1", cwd=project).err
    accepted = pm("respond", "1", "accept", "--json", cwd=project)
    (record,) = records(accepted.out)
    assert (accepted.code, record["status"], record["reason"]) == (0, "COMPLETE", "accepted")
    assert record["files_modified"] == records(ran.out)[0]["files_modified"] != []
    assert pm("respond", "1", "accept", cwd=project).code != 0


CHANGED = {
    "output": "It adds from 2 on.",
    "usage": {"input_tokens": 400, "output_tokens": 100},
    "cost_usd": 0.01,
    "files": {"hello.py": "VALUE = 2\n"},
}


def test_what_ended_at_its_limit_is_accepted_later_and_keeps_what_it_took_and_said(project: Path) -> None:
    ran = run_scripted(project, {**CHANGED, "files": {}}, words=("set it", "--max-iterations", "1"))
    assert (ran.code, "pm respond 1 hint TEXT | accept" in ran.err) == (6, True)
    assert "  what it claimed last, and was rejected:\n" in ran.err
    accepted = pm("respond", "1", "accept", cwd=project)
    assert accepted.code == 0, accepted.err
    assert "task-001 COMPLETE · 0 files · 500 tok · $0.01 ·" in accepted.out
    shown = json.loads(pm("show", "1", "--json", cwd=project).out)
    told = [shown[key] for key in ("status", "answer", "iterations", "judgments", "cost_usd", "used")]
    assert told == ["COMPLETE", "It adds from 2 on.", 1, ["REJECT"], 0.01, 500]
    refused = pm("respond", "1", "accept", cwd=project)
    assert (refused.code, "pm show task-001" in refused.err) == (2, True)


def test_a_hint_to_what_ended_at_its_limit_is_in_the_next_request_and_the_sums_go_on(project: Path) -> None:
    run_scripted(project, {**CHANGED, "files": {}}, CHANGED, words=("set it", "--max-iterations", "1"))
    assert pm("respond", "1", "hint", "two, not one", cwd=project).code == 0
    newest = max((project / ".pm-orchestrator" / "traces").glob("conversation-*.jsonl")).read_text()
    assert "## Hint from the user\\ntwo, not one" in newest
    shown = json.loads(pm("show", "#1", "--json", cwd=project).out)
    assert (shown["iterations"], shown["judgments"], shown["cost_usd"]) == (2, ["REJECT", "PASS"], 0.02)
    told = pm("trace", "1", cwd=project).out
    assert (told.count("LLM_REQUEST"), told.count("FINAL_SUMMARY")) == (2, 2), "each file of the task, in order"
    assert told.index("REJECT") < told.rindex("PASS")


def test_a_full_disk_stops_the_task_with_8_and_says_so(project: Path) -> None:
    need(os.getuid() == 0 and shutil.which("mount"), "a small tmpfs", how="run as root on Linux")
    state = project / ".pm-orchestrator"
    state.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(state)], check=False)
    need(mounted.returncode == 0, "a small tmpfs", how="allow mounting")
    try:
        ran = run_scripted(project, {**GOOD, "output": "x" * 200_000}, words=("write hello.py", "--json"))
        (record,) = records(ran.out)
        assert ran.code == 8, ran.err
        assert record["type"] == "error"
        assert "free space" in ran.err
        assert "then pm resume 1" in ran.err
        assert "Traceback" not in ran.err
    finally:
        subprocess.run(["umount", "-l", str(state)], check=True)


def test_the_end_of_a_verbose_run_prints_the_chain_head_that_the_session_log_repeats(project: Path) -> None:
    ran = run_scripted(project, GOOD, words=("write hello.py", "--verbose"))
    (log,) = (project / ".pm-orchestrator" / "tracepack").glob("*.jsonl")
    (end,) = [event for event in records(log.read_text()) if event["event"] == "TASK_END"]
    data = end["data"]
    assert isinstance(data, dict)
    assert f"  chain head {data['chain_head']}" in ran.err.splitlines()
    assert pm("trace", "verify", "1", "--head", str(data["chain_head"]), cwd=project).code == 0


def test_a_flag_out_of_range_is_a_usage_error_and_says_what_the_flag_is_for(project: Path) -> None:
    ran = run_scripted(project, GOOD, words=("write hello.py", "--max-iterations", "0"))
    assert ran.code == 2
    assert "--max-iterations: 0 is below 1" in ran.err
    assert "next:  --max-iterations: " in ran.err


def test_a_question_is_not_held_against_tests_that_fail_before_it_is_asked(project: Path) -> None:
    (project / "test_a.py").write_text("def test_a():\n    assert False\n")
    path = script(project, {"output": "It has one test, and that fails."})
    words = ("--kind", "question", "--test", f"{sys.executable} -m pytest -q", "--script", str(path))
    ran = pm("run", "What is in this folder?", *words, "--executor", "scripted", "--json", cwd=project)
    told = json.loads(ran.out)
    assert (ran.code, told["status"], told["answer"]) == (0, "COMPLETE", "It has one test, and that fails.")
