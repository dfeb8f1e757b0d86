"""`pm record` in a real terminal, with real shells: what is recorded, and that the shell is the person's own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.client.spool import Spool
from collector.recorder.begin import open_repository
from collector.recorder.command_lines import read_line
from collector.recorder.scribe import Item, Scribe, ScribeOptions, Stopped
from collector.recorder.session import Echo, Line
from collector.recorder.shell_marks import Mark
from tests.collector.recorder.support import BUGGY, FIXED, Desk, Recording, desk, git, spool_in
from tests.repl.support import command_line, pm
from tests.repl.terminal import Terminal
from tests.support.tools import need_program
from tracer.blobs import blob_id_of
from tracer.errors import RecordError
from tracer.redaction.engine import build_redactor
from tracer.redaction.streams import audit

BOTH = pytest.mark.parametrize("shell", ["bash", "zsh"])
SLOW = pytest.mark.torture  # seconds each: make test runs the ones that touch everything, make torture all
SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
TEST_COMMAND = "python -m unittest -q test_cart_unit"
UNIT = (
    "import unittest\nfrom cart import total\n\n\nclass Cart(unittest.TestCase):\n"
    "    def test_total(self):\n        self.assertEqual(total([1, 2, 3]), 6)\n"
)


@pytest.fixture
def at(tmp_path: Path) -> Desk:
    return desk(tmp_path, test_cart_unit_dot_py=UNIT)


def eventually(check: object, *, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not check():  # type: ignore[operator]
        assert time.monotonic() < deadline, "never came true"
        time.sleep(0.05)


@BOTH
def test_a_bug_is_found_fixed_and_committed(at: Desk, shell: str) -> None:
    need_program(shell, how=f"install {shell}")
    with Recording(at, shell, "--no-upload") as recording:
        recording.run("mine one")
        recording.run(TEST_COMMAND)
        recording.run("pm think 'the first price is sliced off' --kind hypothesis")
        recording.run("sed -i 's/prices\\[1:\\]/prices/' cart.py")
        recording.run(f"{TEST_COMMAND} 2>&1 | tail -1")
        recording.run("false; (exit 3)")
        recording.run("git commit -qam 'Sum all prices'")
        assert recording.leave() == 0
    commands = [payload["command"] for payload in at.payloads("terminal_command")]
    assert commands == [
        "mine one",
        TEST_COMMAND,
        "sed -i 's/prices\\[1:\\]/prices/' cart.py",
        f"{TEST_COMMAND} 2>&1 | tail -1",
        "false; (exit 3)",
        "git commit -qam 'Sum all prices'",
        "exit",
    ]
    assert at.output_of("mine") == "my own alias one\n"
    assert "FAIL: test_total" in at.output_of(TEST_COMMAND + "") or "OK" in at.output_of(TEST_COMMAND)
    runs = at.payloads("test_run")
    assert [(run["runner"], run["passed"], run["exit_code"]) for run in runs] == [
        ("custom", False, 1),
        ("custom", True, 0),
    ]
    assert all(run["duration_ms"] > 0 for run in runs)
    (edit,) = at.payloads("file_edit")
    assert edit["file_path"] == "cart.py"
    assert "-    return sum(prices[1:])\n+    return sum(prices)\n" in edit["patch"]
    (commit,) = at.payloads("commit")
    assert commit["message"] == "Sum all prices"
    assert commit["commit_sha"] == git(at.repo, "rev-parse", "HEAD")
    assert "+    return sum(prices)\n" in commit["diff"]
    kinds = [(each["snapshot_reason"], each.get("checkpoint", "")) for each in at.payloads("file_snapshot")]
    assert kinds == [("manual_checkpoint", "before_first_edit"), ("pre_test", ""), ("post_test", "")]
    final = at.spool.final
    assert final is not None
    assert final["final_state"]["commit_head"] == commit["commit_sha"]
    assert "+    return sum(prices)\n" in final["final_state"]["pr"]["diff"]


@BOTH
@SLOW
def test_a_thought_is_linked_to_what_happened_since_the_last_one(at: Desk, shell: str) -> None:
    need_program(shell, how=f"install {shell}")
    with Recording(at, shell, "--no-upload") as recording:
        recording.run("echo first")
        recording.run("pm think why is that --kind plan")
        recording.run("echo second")
        recording.run("pm think so it is --kind decision")
        recording.leave()
    by_command = {each["payload"]["command"]: each["event_id"] for each in at.events("terminal_command")}
    plan, decision = at.payloads("thought")
    assert plan == {"content": "why is that", "kind": "plan", "links_to": [by_command["echo first"]]}
    assert decision["links_to"] == [by_command["echo second"]]


@contextlib.contextmanager
def no_signal_ignored() -> Iterator[None]:
    """Tests that run in the background were told by their shell to ignore some; whatever they start inherits it."""
    ignored = [
        each for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT) if signal.getsignal(each) is signal.SIG_IGN
    ]
    for each in ignored:
        signal.signal(each, signal.SIG_DFL)
    try:
        yield
    finally:
        for each in ignored:
            signal.signal(each, signal.SIG_IGN)


@BOTH
@SLOW
def test_the_shell_stays_the_persons_own(at: Desk, shell: str) -> None:
    need_program(shell, how=f"install {shell}")
    with no_signal_ignored(), Recording(at, shell, "--no-upload") as recording:
        recording.run('echo "[$PS1] [${ZDOTDIR-unset}]"')
        recording.run("(exit 7)")
        recording.run("echo status $?")
        recording.run("trap; env | grep -c __pm_")
        text = recording.terminal.text()
        recording.leave()
    assert "[mine> ] [unset]" in text
    assert "status 7" in text
    assert at.output_of("trap") == "0\n"
    assert "7717" not in text


NOT_FAILED = {"bash": "trap 'echo FAILED' ERR", "zsh": "TRAPZERR() { echo FAILED }"}


@BOTH
def test_what_the_person_asks_of_failures_and_tracing_sees_nothing_of_ours(at: Desk, shell: str) -> None:
    need_program(shell, how=f"install {shell}")
    with Recording(at, shell, "--no-upload") as recording:
        recording.run("set -e")
        recording.run("! true")
        recording.run("false && true")
        recording.run("set +e; (exit 3)")
        recording.run("echo status $?; IFS=:; set -x")
        recording.run("true traced")
        recording.run("set +x")
        recording.run(NOT_FAILED[shell])
        recording.run("false")
        text = recording.terminal.text()
        assert recording.leave() == 0
    assert "status 3" in text
    assert "__pm_" not in text
    assert at.output_of("true traced").count("\n") == 1
    assert at.output_of("false") == "FAILED\n"
    assert len(re.findall("^FAILED", text, re.MULTILINE)) == 1


@BOTH
def test_every_hook_of_the_person_runs_and_sees_the_exit_code(at: Desk, shell: str) -> None:
    need_program(shell, how=f"install {shell}")
    hooks = {
        "bash": "PROMPT_COMMAND=('echo \"one $? ${PIPESTATUS[*]}\"' 'echo \"two $?\"')\n",
        "zsh": 'a() { echo "one $? $pipestatus[*]" }\nb() { echo "two $?" }\n'
        "precmd_functions=(a b)\nsetopt ksharrays\n",
    }
    for name in (".bashrc", ".zshrc"):
        with (at.home / name).open("a", encoding="utf-8") as file:
            file.write(hooks[shell])
    with Recording(at, shell, "--no-upload") as recording:
        recording.run("(exit 3) | true | (exit 4)")
        text = recording.terminal.text()
        recording.leave()
    assert "one 4 3" in text
    assert "two 4" in text


def test_lines_pasted_at_once_each_keep_their_output_and_their_test_run(at: Desk) -> None:
    lines = ["echo one", TEST_COMMAND, "sed -i 's/prices\\[1:\\]/prices/' cart.py", TEST_COMMAND + " -v", "echo l''ast"]
    with Recording(at, "bash", "--no-upload") as recording:
        recording.terminal.send(b"\x1b[200~" + "\n".join(lines).encode() + b"\x1b[201~\r")
        recording.terminal.wait_for("\nlast", seconds=30)
        recording.prompt()
        recording.run("true")
        recording.leave()
    assert at.output_of("echo one") == "one\n"
    assert at.output_of("echo l") == "last\n"
    assert "FAILED (failures=1)" in "".join(each["chunk"] for each in at.payloads("terminal_output"))
    assert [run["passed"] for run in at.payloads("test_run")] == [False, True]


@BOTH
@SLOW
def test_a_line_with_a_leading_space_is_kept_out_with_its_output_and_a_repeated_one_is_not(
    at: Desk, shell: str
) -> None:
    need_program(shell, how=f"install {shell}")
    with Recording(at, shell, "--no-upload") as recording:
        recording.run("echo twice")
        recording.run("echo twice")
        recording.run(" echo private matter")
        recording.run("echo after")
        recording.leave()
    commands = [payload["command"] for payload in at.payloads("terminal_command")]
    assert commands == ["echo twice", "echo twice", "[not recorded: typed with a leading space]", "echo after", "exit"]
    assert b"private matter" not in at.spool.events_path.read_bytes()


@BOTH
@SLOW
def test_output_without_a_last_newline_is_kept_as_it_was(at: Desk, shell: str) -> None:
    need_program(shell, how=f"install {shell}")
    with Recording(at, shell, "--no-upload") as recording:
        recording.run("printf abc")
        recording.run("true")
        recording.leave()
    assert at.output_of("printf") == "abc"
    assert at.output_of("true") == ""


NON_BLOCKING = (
    "import fcntl, os, sys\n"
    "fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_NONBLOCK)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)


@pytest.mark.torture
def test_a_terminal_that_was_left_non_blocking_and_reads_slowly_ends_nothing(at: Desk) -> None:
    words = command_line("record", "--shell", "bash", "--consent", "output", "--title", "slow", "--no-upload")
    program = [sys.executable, "-c", NON_BLOCKING, *words]
    with Terminal(at.repo, program=program, **at.environ("bash")) as terminal:
        terminal.wait_for("mine>", seconds=30)
        terminal.send(b"seq 1 40000\r")
        time.sleep(1)  # nobody reads
        terminal.wait_for("\n40000\n", seconds=30)
        terminal.send(b"exit 0\r")
        assert terminal.ends(seconds=30) == 0
    assert at.output_of("seq").splitlines() == [str(number) for number in range(1, 40_001)]


def test_control_c_ends_the_program_and_not_the_recording(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.terminal.send(b"sleep 60\r")
        eventually(lambda: recording.terminal.pump() and "sleep 60" in recording.terminal.text())
        time.sleep(0.5)
        recording.terminal.send(b"\x03")
        recording.prompt()
        recording.run("echo status $?")
        assert "status 130" in recording.terminal.text()
        recording.leave()
    assert at.output_of("echo") == "status 130\n"


@SLOW
def test_control_z_stops_a_program_and_fg_brings_it_back(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.terminal.send(b"cat\r")
        time.sleep(0.5)
        recording.terminal.send(b"\x1a")
        recording.prompt()
        assert "Stopped" in recording.terminal.text()
        recording.terminal.send(b"fg\r")
        time.sleep(0.5)
        recording.terminal.send(b"back again\r\x04")
        recording.prompt()
        recording.leave()
    assert "back again" in at.output_of("fg")


@SLOW
def test_the_size_of_the_window_reaches_the_shell_also_when_it_changes(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("stty size")
        recording.terminal.child.setwinsize(40, 120)
        time.sleep(0.3)
        recording.run("stty size; echo")
        recording.leave()
    assert at.output_of("stty size") == "40 120\n\n"
    assert "30 100" in recording.terminal.text()


@pytest.mark.torture
def test_an_editor_draws_as_ever_and_its_save_is_the_persons_edit(at: Desk) -> None:
    need_program("vim", how="install vim")
    with Recording(at, "bash", "--no-upload") as recording:
        recording.terminal.send(b"vim -u NONE cart.py\r")
        eventually(lambda: recording.terminal.pump() and b"?1049h" in recording.terminal.raw)
        recording.terminal.send(b":%s/\\[1:\\]//\r:wq\r")
        recording.prompt()
        recording.leave()
    edits = [event for event in at.events("file_edit") if event["payload"]["file_path"] == "cart.py"]
    assert (at.repo / "cart.py").read_text() == FIXED
    assert len(edits) == 1
    assert edits[0]["actor"] == {"kind": "human", "id": None}
    assert "characters drawn, not kept" in at.output_of("vim")
    assert "sum(prices" not in at.output_of("vim")
    assert [each["file_path"] for each in at.payloads("file_edit")] == ["cart.py"]


@SLOW
def test_a_save_from_outside_is_recorded_while_nothing_is_typed(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        time.sleep(0.7)  # the watcher begins beside the shell
        (at.repo / "cart.py").write_text(FIXED, encoding="utf-8")
        eventually(lambda: recording.terminal.pump() and at.payloads("file_edit"))
        recording.leave()
    (edit,) = at.events("file_edit")
    assert edit["payload"]["file_path"] == "cart.py"
    assert edit["actor"]["kind"] == "human"


@SLOW
def test_what_git_ignores_and_what_is_configured_is_not_recorded(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload", PM_RECORD_IGNORE="*.secret,private") as recording:
        recording.run("echo 1 > out.log; mkdir private; echo 2 > private/x; echo 3 > a.secret; echo 4 > kept.txt")
        recording.leave()
    assert [each["file_path"] for each in at.payloads("file_edit")] == ["kept.txt"]


@SLOW
def test_binary_and_huge_files_are_named_and_their_content_is_left_out(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload", PM_RECORD_FILE_LIMIT="5000") as recording:
        recording.run(
            "printf 'a\\000b' > x.bin; head -c 9000 /dev/zero | tr '\\0' a > big.txt; printf '\\351' > latin.txt"
        )
        recording.run("printf 'now text' > x.bin")
        recording.leave()
    # A file may have been seen empty first, and one is kept again at last.
    reasons = [(each["file_path"], each.get("content_left_out")) for each in at.payloads("file_edit")]
    told = {path: why for path, why in reasons if why not in {None, "not kept before"}}
    assert told == {"big.txt": "larger than 5,000 bytes", "latin.txt": "no UTF-8 text", "x.bin": "binary"}
    assert not any(each["file_path"] == "big.txt" for each in at.payloads("file_snapshot"))
    kept_again = [each for each in at.payloads("file_snapshot") if each["file_path"] == "x.bin"]
    assert [(each["content"], each["checkpoint"]) for each in kept_again] == [("now text", "content_kept_again")]


@SLOW
def test_changes_from_before_the_recording_are_told_apart(at: Desk) -> None:
    (at.repo / "cart.py").write_text(BUGGY + "# mine\n", encoding="utf-8")
    (at.repo / "new.py").write_text("new = 1\n", encoding="utf-8")
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("true")
        recording.leave()
    told = [(each["file_path"], each["found"]) for each in at.payloads("file_edit")]
    assert told == [("cart.py", "before_recording"), ("new.py", "before_recording")]


@SLOW
def test_deleting_and_creating_files_are_edits_from_and_to_nothing(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("rm test_cart.py; echo 'x = 1' > fresh.py")
        recording.leave()
    edits = {each["file_path"]: each for each in at.payloads("file_edit")}
    assert edits["test_cart.py"]["post_hash"] is None
    assert edits["fresh.py"]["pre_hash"] is None
    assert "+++ /dev/null" in edits["test_cart.py"]["patch"]


def test_no_secret_reaches_the_disk_of_the_spool(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload", SHOP_API_TOKEN="very-hidden-value-42") as recording:
        recording.run(f"echo token={SECRET} $SHOP_API_TOKEN")
        recording.run(f"echo 'KEY = \"{SECRET}\"' > settings.py")
        recording.run(f"pm think 'the key {SECRET} is wrong'")
        recording.run("git add -A; git commit -qm 'add very-hidden-value-42'")
        recording.run("pwd")
        recording.leave()
    folder = at.spool.folder
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for secret in (SECRET.encode(), b"very-hidden-value-42", b"ann@example.com", str(at.home).encode()):
        assert secret not in everything.replace(str(folder).encode(), b""), secret
    assert "[REDACTED:" in at.output_of("echo token")
    assert at.output_of("pwd") == "$PROJECT_ROOT\n"
    redactor = build_redactor(state_dir=at.state, environ={"SHOP_API_TOKEN": "very-hidden-value-42"})
    assert [leak for leak in audit(redactor, folder) if leak.rule not in {"host-name", "user-name"}] == []


@SLOW
def test_without_consent_to_output_none_of_it_is_kept(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload", consent="none") as recording:
        recording.run("echo confidential; true")
        recording.run(TEST_COMMAND)
        recording.leave()
    outputs = at.payloads("terminal_output")
    assert outputs
    assert all(each["chunk"] == "" and each["is_truncated"] for each in outputs)
    assert outputs[0]["characters"] == len("confidential\n")
    assert [run["passed"] for run in at.payloads("test_run")] == [False]


@SLOW
def test_a_long_output_keeps_its_head_and_its_tail_and_says_what_is_missing(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload", PM_RECORD_OUTPUT_LIMIT="20000") as recording:
        recording.run("seq 1 20000")
        recording.leave()
    kept = at.output_of("seq")
    assert kept.startswith("1\n2\n3\n")
    assert kept.endswith("19999\n20000\n")
    assert "characters not kept" in kept
    assert len(kept) < 20000 + 70000
    assert [each["is_truncated"] for each in at.payloads("terminal_output")][-2:] == [True, False]


@SLOW
def test_while_paused_nothing_is_recorded_and_the_net_change_afterwards_is(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("echo before")
        recording.run("pm record pause")
        recording.run("echo hidden; echo 'x = 1' > while_paused.py")
        recording.run("pm record status")
        assert "paused" in recording.terminal.text()
        recording.run("pm record resume")
        recording.run("echo after")
        recording.leave()
    commands = [payload["command"] for payload in at.payloads("terminal_command")]
    assert commands == ["echo before", "echo after", "exit"]
    (edit,) = at.payloads("file_edit")
    assert (edit["file_path"], edit["found"]) == ("while_paused.py", "while_paused")
    assert b"hidden" not in at.spool.events_path.read_bytes()


@SLOW
def test_thoughts_and_snapshots_come_from_another_terminal_too(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("echo 'x = 1' >> cart.py")
        environ = at.environ("bash")
        noted = pm("think", "from the other side", "--kind", "postmortem", "--json", cwd=at.repo, **environ)
        kept = pm("snapshot", "test_cart.py", cwd=at.repo, **environ)
        recording.run("echo 'x = 2' >> cart.py")
        recording.leave()
    assert noted.code == 0, noted.err
    assert json.loads(noted.out)["kind"] == "postmortem"
    assert kept.out.split() == ["cart.py", "test_cart.py"]
    sequence = [event["seq"] for event in at.events()]
    assert sequence == list(range(1, len(sequence) + 1))
    first, second = at.payloads("file_edit")
    assert second["pre_hash"] == first["post_hash"]


@SLOW
def test_a_junit_report_goes_with_its_test_run(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("python -m pytest -q -p no:cacheprovider --junitxml=report.xml test_cart.py", seconds=60)
        recording.leave()
    runs = at.payloads("test_run")
    assert [(run["runner"], run["passed"]) for run in runs] == [("pytest", False)]
    assert 'tests="1"' in runs[0]["report"]


@SLOW
def test_amended_and_branched_commits_are_told_and_checkouts_are_not(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("git checkout -q -b fix; echo 'a = 1' > a.py; git add a.py; git commit -qm one")
        recording.run("git commit -q --amend -m 'two: starts and finishes'")
        recording.run("git checkout -q main; git merge -q fix; git checkout -q -b more; git rebase -q main")
        recording.leave()
    assert [each["message"] for each in at.payloads("commit")] == ["one", "two: starts and finishes"]
    assert {each["context"]["branch"] for each in at.events("commit")} == {"fix"}


@SLOW
def test_the_recorder_can_be_stopped_from_another_terminal(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("echo here")
        stopped = pm("record", "stop", cwd=at.repo, **at.environ("bash"))
        assert stopped.code == 0, stopped.err
        recording.terminal.ends()
    assert at.spool.final is not None
    assert at.spool.recorder is None


@SLOW
def test_a_closed_window_ends_the_shell_and_keeps_what_was_recorded(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("echo here")
        os.kill(recording.terminal.child.pid, signal.SIGHUP)
        assert recording.terminal.ends() == 143
    assert [each["command"] for each in at.payloads("terminal_command")] == ["echo here"]
    assert at.spool.final is not None


@SLOW
def test_a_recording_inside_a_recording_is_refused(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("pm record --consent none; echo status $?")
        assert "already" in recording.terminal.text()
        assert "status 2" in recording.terminal.text()
        recording.leave()


def test_a_killed_recorder_leaves_everything_and_upload_closes_it(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("echo 'x = 1' >> cart.py")
        recording.run("echo over")
        eventually(lambda: at.output_of("echo over") == "over\n")
        os.kill(recording.terminal.child.pid, signal.SIGKILL)
        recording.terminal.ends()
    (at.repo / "cart.py").write_text(FIXED, encoding="utf-8")
    assert at.spool.final is None
    told = pm("record", "status", cwd=at.repo, **at.environ("bash"))
    assert "cut off" in told.out
    sent = pm(
        "record", "upload", "--server", "http://127.0.0.1:9", cwd=at.repo, **at.environ("bash", PM_CAPTURE_TOKEN="x")
    )
    assert sent.code == 5
    assert "nothing is lost" in sent.err
    assert at.spool.final is not None
    assert len(at.payloads("file_edit")) == 2


@SLOW
def test_a_killed_recording_goes_on_in_a_new_shell(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("echo 'x = 1' >> cart.py")
        eventually(lambda: at.payloads("file_edit"))
        os.kill(recording.terminal.child.pid, signal.SIGKILL)
        recording.terminal.ends()
    another = at.environ("bash", SHELL="/usr/bin/fish")  # it goes on in the shell it began with
    with Terminal(at.repo, "record", "resume", "--no-upload", **another) as terminal:
        terminal.wait_for("mine>", seconds=30)
        terminal.send(b"echo 'x = 2' >> cart.py\r")
        eventually(lambda: terminal.pump() and len(at.payloads("file_edit")) == 2)
        terminal.send(b"exit\r")
        assert terminal.ends(seconds=30) == 0
    first, second = at.payloads("file_edit")
    assert second["pre_hash"] == first["post_hash"]
    assert at.spool.final is not None


@pytest.mark.torture
def test_what_was_undone_while_nothing_recorded_is_told_at_once_and_not_as_a_commands_doing(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("echo 'x = 1' >> cart.py")
        eventually(lambda: at.payloads("file_edit"))
        os.kill(recording.terminal.child.pid, signal.SIGKILL)
        recording.terminal.ends()
    git(at.repo, "checkout", "-q", "cart.py")
    with Terminal(at.repo, "record", "resume", "--no-upload", **at.environ("bash")) as terminal:
        terminal.wait_for("mine>", seconds=30)
        terminal.send(b"exit\r")
        assert terminal.ends(seconds=30) == 0
    undone = at.events("file_edit")[1]
    assert undone["payload"]["post_hash"] == blob_id_of(BUGGY.encode())
    assert undone["payload"]["found"] == "before_recording"
    assert undone["context"]["correlation_id"] is None


def _scribe(at: Desk, tell: Callable[[str], None], gave_up: Callable[[], None] = lambda: None) -> Scribe:
    repo = open_repository(at.repo)
    spool = spool_in(at.state, repo={"repo_id": "shop", "commit_base": git(at.repo, "rev-parse", "HEAD")})
    options = ScribeOptions(
        shell="zsh", redactor=None, env_hash="0" * 64, keep_output=True, left_out=lambda path: path.startswith(".pm")
    )
    return Scribe(spool, repo, options, tell=tell, gave_up=gave_up)


def _entered(text: str, ts_ms: int = 1) -> Item:
    return Item("mark", ts_ms, Mark("command", ("zsh",), text.encode()))


def _prompted(at: Desk, status: int, ts_ms: int = 2) -> Item:
    return Item("mark", ts_ms, Mark("prompt", (str(status), str(status), str(at.repo)), b""))


def test_a_full_disk_ends_the_recording_and_the_person_is_told_again_at_the_prompt(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    given_up: list[int] = []
    scribe = _scribe(at, told.append, lambda: given_up.append(len(told)))

    def full(_self: Spool, _data: bytes) -> None:
        raise RecordError("the capture cannot be written", why="No space left on device")

    monkeypatch.setattr(Spool, "_write", full)
    scribe.start()
    for _ in range(2):
        scribe.put(_entered("seq 100000"))
        scribe.put(Item("output", 1, b"100000\r\n"))
        scribe.put(_prompted(at, 0))
    scribe.put(Item("end", 3))
    scribe.join()
    assert isinstance(scribe.failed, RecordError)
    assert ["No space left on device" in line for line in told] == [True, True]
    assert given_up == [0]  # before anybody is told: `pm record status` must not say that it goes on


def test_a_test_run_that_was_stopped_has_not_failed_and_is_told_when_it_goes_on(at: Desk) -> None:
    scribe = _scribe(at, pytest.fail)
    scribe.start()
    for item in (
        _entered("pytest -q", 1000),
        _prompted(at, 148, 2000),
        _entered("sleep 5", 2100),
        _prompted(at, 148, 2200),
        _entered("fg %pytest", 3000),
        _prompted(at, 1, 4500),
        Item("end", 5000),
    ):
        scribe.put(item)
    scribe.join()
    (run,) = at.payloads("test_run")
    assert (run["command"], run["exit_code"], run["passed"], run["duration_ms"]) == ("pytest -q", 1, False, 1500)
    assert [payload["command"] for payload in at.payloads("terminal_command")] == ["pytest -q", "sleep 5", "fg %pytest"]


def test_which_stopped_command_goes_on() -> None:
    def after(text: str) -> str | None:
        stopped = Stopped()
        for job in ("vim a.py", "pytest -q", "less b.py"):
            stopped.stop(job, read_line(job))
        found = stopped.resumed_by(text)
        return found[0] if found is not None else None

    assert after("fg") == after("%%") == after("fg %+") == "less b.py"
    assert after("fg %1") == after("%1") == after("%vim") == "vim a.py"
    assert after("fg %2") == "pytest -q"
    assert after("echo fg") is after("fgrep x") is after("'") is None
    assert Stopped().resumed_by("fg") is None


@pytest.mark.torture
@BOTH
def test_what_a_person_edits_after_stopping_the_editor_is_still_theirs(at: Desk, shell: str) -> None:
    need_program(shell, how=f"install {shell}")
    editor = at.bin / "vim"
    editor.write_text("#!/bin/sh\necho editing\nread line\necho '# edited' >> \"$1\"\n", encoding="utf-8")
    editor.chmod(0o755)
    with Recording(at, shell, "--no-upload") as recording:
        recording.terminal.send(b"vim cart.py\r")
        recording.terminal.wait_for("editing")
        recording.prompts = recording.shown()
        recording.terminal.send(b"\x1a")
        recording.prompt()
        recording.run("echo between")
        recording.terminal.send(b"fg\r")
        time.sleep(0.5)
        recording.prompts = recording.shown()
        recording.terminal.send(b"\r")
        recording.prompt()
        assert recording.leave() == 0
    (edit,) = at.events("file_edit")
    assert edit["actor"] == {"kind": "human", "id": None}
    entered = [payload["command"] for payload in at.payloads("terminal_command")]
    assert entered == ["vim cart.py", "echo between", "fg", "exit"]


def test_a_shell_that_is_not_known_is_refused_with_a_way_out(at: Desk) -> None:
    ran = pm("record", "--shell", "fish", "--consent", "none", cwd=at.repo, **at.environ("bash"))
    assert ran.code == 2
    assert "--shell bash" in ran.err


def test_outside_a_repository_it_says_what_is_missing(tmp_path: Path) -> None:
    ran = pm("record", "--consent", "none", cwd=tmp_path)
    assert ran.code == 2
    assert "git init" in ran.err


def test_nobody_asked_is_nobody_who_consented(at: Desk) -> None:
    ran = pm("record", cwd=at.repo, **at.environ("bash"))
    assert ran.code == 2
    assert "--consent" in ran.err
    assert not (at.state / "captures").exists()


def _record_a_script(at: Desk, **stdin: Any) -> None:
    """`pm record` of what comes on standard input; `stdin` is how, as `subprocess.run` takes it."""
    done = subprocess.run(
        [str(at.bin / "pm"), "record", "--consent", "all", "--title", "scripted", "--no-upload"],
        **stdin,
        cwd=at.repo,
        env={**os.environ, **at.environ("bash")},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@SLOW
@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_a_script_on_stdin_is_recorded_as_if_it_were_typed(at: Desk, tmp_path: Path, kind: str) -> None:
    script = tmp_path / "script"
    script.write_bytes(b"sleep 0.5\necho from a script\n")
    with script.open("rb") as file:
        _record_a_script(at, **({"stdin": file} if kind == "file" else {"input": script.read_bytes()}))
    assert at.output_of("echo") == "from a script\n"


@SLOW
def test_lines_that_come_at_once_keep_edits_before_the_commit_and_the_commit_after_its_command(at: Desk) -> None:
    script = b"echo '# a' >> cart.py\necho b > b.txt\ngit add -A\ngit commit -qm both\necho last\n"
    _record_a_script(at, input=script)
    told = [(event["type"], event["payload"].get("command", "")) for event in at.events()]
    assert [command for kind, command in told if kind in {"terminal_command", "file_edit"}] == [
        "echo '# a' >> cart.py", "", "echo b > b.txt", "", "git add -A", "git commit -qm both", "echo last",
    ]  # fmt: skip
    at_commit = next(number for number, (kind, _command) in enumerate(told) if kind == "commit")
    assert ("terminal_command", "git commit -qm both") in told[:at_commit]
    edited = {event["payload"]["file_path"] for event in at.events()[:at_commit] if event["type"] == "file_edit"}
    assert edited == {"cart.py", "b.txt"}


@SLOW
def test_a_script_feeds_loops_here_documents_and_commands_that_read(at: Desk) -> None:
    here = b"".join(b"line %d\n" % number for number in range(40))
    loop, reading = b'for i in 1 2; do\necho "n $i"\ndone\n', b'read answer\nyes\necho "said $answer"\n'
    script = loop + b"cat <<X\n" + here + b"X\n" + reading
    began = time.monotonic()
    _record_a_script(at, input=script)
    assert time.monotonic() - began < 30
    assert at.output_of("for") == "n 1\nn 2\n"
    assert at.output_of("cat") == here.decode()
    assert at.output_of('echo "said').endswith("said yes\n")


@SLOW
def test_many_untracked_files_are_left_alone_until_they_are_touched(at: Desk) -> None:
    (at.repo / "data").mkdir()
    for number in range(301):
        (at.repo / "data" / f"{number}.txt").write_text("before\n", encoding="ascii")
    with Recording(at, "bash", "--no-upload") as recording:
        recording.terminal.wait_for("301 untracked files")
        recording.run("echo after >> data/7.txt; git add -f data/8.txt")
        recording.run("pm snapshot data/9.txt")
        recording.leave()
    edited = [each["file_path"] for each in at.payloads("file_edit")]
    assert edited == ["data/7.txt", "data/8.txt", "data/9.txt"]


@SLOW
def test_a_line_that_does_more_than_note_a_thought_is_recorded(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run(f"pm think why; {TEST_COMMAND}")
        recording.leave()
    assert [run["passed"] for run in at.payloads("test_run")] == [False]
    assert [each["content"] for each in at.payloads("thought")] == ["why"]


@SLOW
def test_a_private_line_typed_ahead_is_kept_out_too(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("echo known")
        recording.terminal.send(b"sleep 1\r echo private matter\r")
        recording.prompts = recording.shown()
        recording.prompt()
        recording.run("echo known")
        recording.run("true")
        recording.leave()
    commands = [payload["command"] for payload in at.payloads("terminal_command")]
    assert commands[:3] == ["echo known", "sleep 1", "[not recorded: typed with a leading space]"]
    assert b"private matter" not in at.spool.events_path.read_bytes()


@BOTH
def test_an_edit_and_a_commit_of_a_line_typed_ahead_are_that_line_s_own(tmp_path: Path, shell: str) -> None:
    need_program(shell, how=f"install {shell}")
    at = desk(tmp_path, release_dot_sh="sleep 0.05\necho b > b.txt\ngit add b.txt\ngit commit -qm released\n")
    with Recording(at, shell, "--no-upload") as recording:
        recording.run("echo known")
        recording.terminal.send(b"sleep 0.7\r")
        private = " sleep 0.05; echo '# a' >> cart.py && git commit -qam private"  # a file's time tells 10 ms, or less
        for line in (private, "sh release.sh", "echo last; sleep 0.2"):
            recording.terminal.send(f"{line}\r".encode())
        recording.terminal.wait_for("\nlast", seconds=30)
        recording.prompts = recording.shown()
        recording.prompt()
        recording.run("true")
        recording.leave()
    commands = {each["event_id"]: each["payload"]["command"] for each in at.events("terminal_command")}
    told = [
        (each["payload"].get("message", ""), commands.get(each["context"]["correlation_id"], ""))
        for each in at.events()
        if each["type"] in {"commit", "file_edit"}
    ]
    private = "[not recorded: typed with a leading space]"
    assert told == [("", private), ("private", private), ("", "sh release.sh"), ("released", "sh release.sh")]


@BOTH
@SLOW
def test_lines_typed_while_a_command_runs_are_none_of_its_output_and_their_edits_are_theirs(
    at: Desk, shell: str
) -> None:
    need_program(shell, how=f"install {shell}")
    with Recording(at, shell, "--no-upload") as recording:
        recording.run("echo known")
        recording.terminal.send(b"sleep 1.5; echo slow\r")
        time.sleep(0.5)
        recording.terminal.send(b"sleep 0.3; echo '# a' >> cart.py; sleep 0.3\r")
        for key in b" echo private matter\recho last":
            recording.terminal.send(bytes([key]))
        recording.terminal.pump(2.5)
        recording.terminal.send(b"\r")
        recording.terminal.wait_for("\nlast", seconds=30)
        recording.prompts = recording.shown()
        recording.run("true")
        recording.leave()
    commands = {each["event_id"]: each["payload"]["command"] for each in at.events("terminal_command")}
    assert [*commands.values()][:5] == [
        "echo known",
        "sleep 1.5; echo slow",
        "sleep 0.3; echo '# a' >> cart.py; sleep 0.3",
        "[not recorded: typed with a leading space]",
        "echo last",
    ]
    assert at.output_of("sleep 1.5") == "slow\n"
    assert at.output_of("echo last") == "last\n"
    assert b"private matter" not in at.spool.events_path.read_bytes()
    (edit,) = at.events("file_edit")
    assert commands[edit["context"]["correlation_id"]].startswith("sleep 0.3")


@SLOW
def test_what_a_command_asks_for_stays_in_its_output(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.terminal.send(b"read -p 'name? ' name; sleep 0.5; echo hello $name; cat\r")
        recording.terminal.wait_for("name? ", seconds=30)
        for key in b"Ann\r":
            recording.terminal.send(bytes([key]))
        recording.terminal.wait_for("hello Ann", seconds=30)
        for line in (b"first\r", b"second", b"\x04\x04"):
            recording.terminal.send(line)
            recording.terminal.pump(0.3)
        recording.prompts = recording.shown()
        recording.run("true")
        recording.leave()
    assert at.output_of("read") == "name? Ann\nhello Ann\nfirst\nfirst\nsecondsecond"


def test_the_echo_of_typed_lines_is_found_in_pieces_and_other_output_is_left() -> None:
    def cut(*steps: tuple[bytes, bytes]) -> tuple[bytes, list[bytes]]:
        echo, output, lines = Echo(), b"", list[bytes]()
        for typed, shown in steps:
            output += echo.typed(typed) if typed else b""
            for piece in echo.cut(shown):
                if isinstance(piece, Line):
                    lines.append(piece.shown)
                else:
                    output += piece
        return output, lines

    assert cut((b"make\r", b"make\r\n")) == (b"", [b"make\r\n"])
    assert cut((b"make\rls\r", b"..ma"), (b"", b"ke\r\nls\r"), (b"", b"\n...")) == (b".....", [b"make\r\n", b"ls\r\n"])
    assert cut((b"make\r", b"a make\r\nof it")) == (b"a of it", [b"make\r\n"])
    assert cut((b"l", b"l"), (b"s", b"passed"), (b"", b"s"), (b"\r", b"\r\n")) == (b"passed", [b"ls\r\n"])
    assert cut((b"abc", b"abc"), (b"\x04", b"abc")) == (b"abcabc", [])
    assert cut((b"\x1b[A", b"^[[A")) == (b"^[[A", [])
    assert cut((b"x" * 5000, b"x" * 5000)) == (b"x" * 5000, [])


@SLOW
def test_a_repeated_line_that_wraps_is_recognised(at: Desk) -> None:
    long = "echo " + " ".join(f"word{number}" for number in range(30))
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run(long)
        recording.run(long)
        recording.terminal.send(b"\x1b[A\r")  # once more, from the history
        recording.prompts = recording.shown()
        recording.prompt()
        recording.leave()
    commands = [payload["command"] for payload in at.payloads("terminal_command")]
    assert commands == [long, long, long, "exit"]


@SLOW
def test_a_file_whose_name_the_collector_refuses_holds_nothing_up(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("echo x > c:odd.txt; echo y > 'with space é.txt'")
        recording.leave()
    assert [each["file_path"] for each in at.payloads("file_edit")] == ["with space é.txt"]
    (told,) = at.payloads("error")
    assert "file_edit event could not be recorded" in told["message"]


@SLOW
def test_a_shell_that_suspends_itself_suspends_the_recorder_and_comes_back(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.terminal.send(b"suspend\r")
        eventually(lambda: recording.terminal.pump() and state_of(recording.terminal.child.pid) == "T")
        os.kill(recording.terminal.child.pid, signal.SIGCONT)
        time.sleep(0.3)
        recording.terminal.send(b"\r")
        recording.prompts = recording.shown()
        recording.prompt()
        recording.run("echo awake")
        assert recording.leave() == 0
    assert at.output_of("echo") == "awake\n"


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]


@SLOW
def test_consent_and_the_bug_are_asked_for_in_the_terminal_and_remembered(at: Desk) -> None:
    environ = at.environ("bash")
    with Terminal(at.repo, "record", "--shell", "bash", "--no-upload", **environ) as terminal:
        for question, answer in (
            ("Keep what your commands print", b"y\r"),
            ("May a language model", b"\r"),
            ("May code be kept as it is", b"n\r"),
            ("What is the bug", b"the total is wrong\r"),
        ):
            terminal.wait_for(question)
            terminal.send(answer)
        terminal.wait_for("consent: terminal output yes · scoring by a model no · unredacted code no")
        terminal.wait_for("mine>")
        terminal.send(b"exit\r")
        assert terminal.ends() == 0
    request = at.spool.header["request"]
    assert request["task"]["bug_report"]["title"] == "the total is wrong"
    assert request["developer"]["consent_flags"] == {
        "store_raw_code": False,
        "store_terminal_output": True,
        "allow_llm_judge": False,
    }
    again = pm("capture", "new", "--title", "second", "--offline", cwd=at.repo, **environ)
    assert again.code == 0, again.err


@SLOW
def test_a_commit_made_after_the_recorder_was_killed_belongs_to_the_session_that_goes_on(at: Desk) -> None:
    with Recording(at, "bash", "--no-upload") as recording:
        recording.run("echo 'x = 1' >> cart.py")
        eventually(lambda: recording.terminal.pump() and at.payloads("file_edit"))
        os.kill(recording.terminal.child.pid, signal.SIGKILL)
        recording.terminal.ends()
    git(at.repo, "commit", "-qam", "finished by hand")
    environ = at.environ("bash", PM_CAPTURE_TOKEN="x")
    assert pm("record", "upload", "--server", "http://127.0.0.1:9", cwd=at.repo, **environ).code == 5
    assert [each["message"] for each in at.payloads("commit")] == ["finished by hand"]
