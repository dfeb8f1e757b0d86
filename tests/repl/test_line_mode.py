"""The `pm>` prompt in a real terminal: typing, keys, a running task, signals, leaving."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from prompt_toolkit import PromptSession

from repl.line.view import LineView
from runner.isolation.folder_lease import FolderLease
from tests.repl.screen.running import make_session
from tests.repl.scripts import BAD, GOOD, run_scripted, script
from tests.repl.support import pm
from tests.repl.terminal import CTRL_C, CTRL_D, ENTER, ESC, UP, Terminal
from tracer.statedir import StateDir


def opened(project: Path, *replies: dict[str, object], words: tuple[str, ...] = ("--line",), **extra: str) -> Terminal:
    path = script(project, *replies) if replies else script(project, GOOD)
    return Terminal(project, *words, **{"PM_EXECUTOR": "scripted", "PM_SCRIPT": str(path), **extra})


def slow(reply: dict[str, object], milliseconds: int = 30_000) -> dict[str, object]:
    return {**reply, "delay_ms": milliseconds}


def events(project: Path) -> list[str]:
    (path,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    return [json.loads(line)["event"] for line in path.read_bytes().splitlines()]


def test_a_task_runs_from_greeting_to_summary_and_nothing_is_written_while_nothing_changes(project: Path) -> None:
    with opened(project, BAD, GOOD) as terminal:
        text = terminal.wait_for("? keys")
        assert "pm 0.1.0 · project · executor scripted · 0 tasks" in text
        terminal.wait_for("pm>")
        terminal.pump(0.6)
        before = len(terminal.raw)
        terminal.pump(1.0)
        assert len(terminal.raw) == before
        terminal.send(b"write hello.py" + ENTER)
        text = terminal.wait_for("COMPLETE, tests not run: no test command was found")
        assert text.count("[0] REJECT   Q2") == 1
        assert text.count("[1] PASS     Q1 Q2 Q3 Q4 Q5 Q6 Q10") == 1
        assert "/review 1   /trace 1" in text
        terminal.send(b"/trace 1 --latest" + ENTER)
        terminal.wait_for("FINAL_SUMMARY: COMPLETE (2 iterations)")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.torture
def test_keys_at_rest(project: Path) -> None:
    with opened(project) as terminal:
        terminal.wait_for("pm>")
        terminal.pump(0.4)
        terminal.send(b"some text")
        terminal.wait_for("pm> some text")
        terminal.send(CTRL_C)
        terminal.wait_gone("some text")
        terminal.send(CTRL_C)
        terminal.wait_for("Ctrl+D or /exit leaves")
        os.kill(terminal.child.pid, signal.SIGINT)  # the other way an interrupt arrives means the same
        terminal.pump(0.3)
        assert terminal.child.isalive()
        terminal.send(b"?")
        terminal.wait_for("edit the line in $VISUAL or $EDITOR")
        terminal.send(b"one\\" + ENTER + b"two\x1b\rthree\nfour")
        text = terminal.wait_for("four")
        assert "one\\" not in text
        assert "pm> one" in text
        terminal.send(CTRL_C)
        terminal.wait_gone("four")
        terminal.send(b"\x1b[200~" + b"\r".join(b"line %d" % n for n in range(25)) + b"\x1b[201~")
        terminal.wait_for("pm> [pasted 25 lines]")
        terminal.send(b"\x0f")
        terminal.wait_for("line 24")
        terminal.send(CTRL_C)
        terminal.wait_gone("line 24")
        terminal.send(b"/trcae" + ENTER)
        terminal.wait_for("unknown command /trcae · did you mean /trace?")
        terminal.send(b"/vers" + ENTER)
        text = terminal.wait_for("pm 0.1.0\n")
        assert "/version" in text
        terminal.send(b"/exit" + ENTER)
        assert terminal.ends() == 0


@pytest.mark.torture
def test_completion_shows_names_and_helps_and_enter_runs_what_was_typed(project: Path) -> None:
    with opened(project) as terminal:
        terminal.wait_for("pm>")
        terminal.pump(0.4)
        terminal.send(b"/tra")
        terminal.wait_for("show what happened in a task")
        terminal.send(ESC)
        terminal.wait_gone("show what happened in a task")
        assert terminal.last_line() == "pm> /tra"
        terminal.send(CTRL_C + b"/config set run.ma")
        terminal.wait_for("answers judged before the task stops")
        terminal.send(b"\t")
        terminal.wait_for("/config set run.max_iterations")
        terminal.send(CTRL_C + b"/versio")
        terminal.wait_for("print the version")
        terminal.send(ENTER)
        terminal.wait_for("pm 0.1.0\n")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


def test_typed_ahead_waits_can_be_pulled_back_and_esc_twice_stops(project: Path) -> None:
    with opened(project, slow(GOOD)) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("asking scripted")
        terminal.send(b"and then this" + ENTER)
        terminal.wait_for("queued 1")
        terminal.send(UP)
        terminal.wait_for("pm> and then this")
        terminal.send(CTRL_C)
        terminal.pump(0.3)
        terminal.send(ESC)
        terminal.wait_for("Esc again to stop task-001")
        terminal.send(ESC)
        terminal.wait_for("task-001 UNFINISHED")
        terminal.wait_for("/resume 1")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0
        assert "1 unfinished: task-001   pm resume 1" in terminal.text()
    assert events(project) == ["USER_REQUEST", "SYSTEM_RULES", "LLM_REQUEST"]


@pytest.mark.parametrize("way", ["key", "signal"])
def test_an_interrupt_while_a_task_runs_asks_first_and_leaves_the_same_log(project: Path, way: str) -> None:
    with opened(project, slow(GOOD)) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("asking scripted")

        def interrupt() -> None:
            if way == "key":
                terminal.send(CTRL_C)
            else:
                os.kill(terminal.child.pid, signal.SIGINT)

        interrupt()
        terminal.wait_for("again to stop task-001")
        interrupt()
        terminal.wait_for("task-001 UNFINISHED")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0
    assert events(project) == ["USER_REQUEST", "SYSTEM_RULES", "LLM_REQUEST"]


@pytest.mark.torture
def test_leaving_while_a_task_runs_asks_and_each_answer_does_what_it_says(project: Path) -> None:
    with opened(project, slow(GOOD)) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("asking scripted")
        terminal.send(CTRL_D)
        terminal.wait_for("w wait · s stop and leave (resumable) · c cancel")
        terminal.send(b"c")
        terminal.wait_gone("c cancel")
        terminal.send(CTRL_D)
        terminal.wait_for("w wait")
        terminal.send(b"s")
        assert terminal.ends() == 0
        assert "pm resume 1" in terminal.text()
    path = script(project, slow(GOOD, 1500), name="short.jsonl")
    with opened(project, PM_SCRIPT=str(path)) as terminal:
        terminal.wait_for("1 unfinished")
        terminal.pump(0.2)
        terminal.send(b"write hello.py again" + ENTER)
        terminal.wait_for("asking scripted")
        terminal.send(CTRL_D)
        terminal.wait_for("w wait")
        terminal.send(b"w")
        assert terminal.ends() == 0
        assert "task-002 COMPLETE" in terminal.text()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.torture)])
def test_a_termination_in_mid_answer_leaves_a_resumable_log_and_the_terminal_as_it_was(
    project: Path, number: int
) -> None:
    with opened(project, slow(GOOD)) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("asking scripted")
        os.kill(terminal.child.pid, number)
        assert terminal.ends() == 143
        assert "pm resume task-001" in terminal.text()
        assert terminal.raw.rfind(b"\x1b[?2004l") > terminal.raw.rfind(b"\x1b[?2004h")
        assert "Traceback" not in terminal.text()
    assert events(project) == ["USER_REQUEST", "SYSTEM_RULES", "LLM_REQUEST"]


def test_a_closed_terminal_leaves_a_resumable_log(project: Path) -> None:
    with opened(project, slow(GOOD)) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("asking scripted")
        pid = terminal.child.pid
        os.close(terminal.child.child_fd)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and os.waitpid(pid, os.WNOHANG)[0] == 0:
            time.sleep(0.05)
        assert time.monotonic() < deadline, "the program outlived its terminal"
    assert events(project) == ["USER_REQUEST", "SYSTEM_RULES", "LLM_REQUEST"]
    assert pm("tasks", "--json", cwd=project).out.count('"UNFINISHED"') == 1


@pytest.mark.torture
def test_a_followed_trace_is_interrupted_without_leaving(project: Path) -> None:
    with opened(project, slow(GOOD)) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("asking scripted")
        terminal.send(b"/trace --follow" + ENTER)
        terminal.wait_for("LLM_REQUEST[0]: (prompt sent)")
        terminal.pump(0.3)
        terminal.send(CTRL_C)
        terminal.wait_for("interrupted")
        terminal.send(CTRL_D)
        terminal.wait_for("w wait")
        terminal.send(b"s")
        assert terminal.ends() == 0


def test_history_is_searched_by_scope_masked_and_spared_for_lines_with_a_leading_space(project: Path) -> None:
    (project / ".pm-orchestrator").mkdir()
    with opened(project) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"/version" + ENTER)
        terminal.wait_for("pm 0.1.0\n")
        terminal.send(b" /help version" + ENTER)
        terminal.wait_for("usage: /version")
        terminal.send(b"/history sk-ant-api03-" + b"Q7" * 46 + b"AA" + ENTER)
        terminal.wait_for("nothing found")
        terminal.pump(0.5)
        terminal.send(b"\x12vers")
        terminal.wait_for("search project: /version")
        terminal.send(b"\x12")
        terminal.wait_for("search all: /version")
        terminal.send(ENTER)
        terminal.pump(0.3)
        assert terminal.last_line() == "pm> /version"
        terminal.send(CTRL_C + CTRL_D)
        assert terminal.ends() == 0
    saved = (project / ".pm-orchestrator" / "history.jsonl").read_text()
    assert '"/version"' in saved
    assert "/help version" not in saved
    assert "Q7Q7" not in saved
    assert "[REDACTED:" in saved


@pytest.mark.torture
def test_the_editor_gives_the_line_back(project: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "/version" > "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    with opened(project, VISUAL=str(editor)) as terminal:
        terminal.wait_for("pm>")
        terminal.pump(0.3)
        terminal.send(b"draft\x18\x05")
        terminal.wait_for("pm> /version")
        terminal.send(ENTER)
        terminal.wait_for("pm 0.1.0\n")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.torture
def test_a_rebound_key_works_and_hints_show_it(project: Path) -> None:
    pm("config", "set", "repl.keys.prompt.escape", "ctrl+x ctrl+x", "--user", cwd=project)
    with opened(project, slow(GOOD)) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("Ctrl+X Ctrl+X stop")
        terminal.wait_for("asking scripted")
        terminal.send(b"\x18\x18")
        terminal.wait_for("Ctrl+X Ctrl+X again to stop task-001")
        terminal.send(b"\x18\x18")
        terminal.wait_for("task-001 UNFINISHED")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.torture
def test_a_restarted_prompt_shows_what_the_last_session_ended_with(project: Path) -> None:
    with opened(project, GOOD) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("task-001 COMPLETE")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0
    with opened(project) as terminal:
        text = terminal.wait_for("that was the last session")
        assert "pm> write hello.py" in text
        assert "task-001 COMPLETE" in text
        terminal.send(b"/version" + ENTER)
        terminal.wait_for("pm 0.1.0\n")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


def test_what_is_printed_fits_the_terminal_as_it_is_now(project: Path) -> None:
    with opened(project, GOOD) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("task-001 COMPLETE")
        terminal.resize(24, 60)
        terminal.send(b"/trace 1 --waterfall" + ENTER)
        text = terminal.wait_for("v judging")
        bars = [line for line in text.split("\n") if "█" in line]
        assert bars
        assert not any(line.startswith("█") for line in bars)
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


def test_a_dumb_terminal_gets_plain_line_mode(project: Path) -> None:
    with opened(project, words=(), TERM="dumb") as terminal:
        terminal.wait_for("pm 0.1.0 - project - executor scripted - 0 tasks")
        terminal.wait_for("pm>")
        terminal.send(b"/version" + ENTER)
        terminal.wait_for("pm 0.1.0\n")
        terminal.pump(0.5)  # the next prompt must stand: on a slow machine the key would come too early
        terminal.send(CTRL_D)
        assert terminal.ends() == 0
        assert b"\x1b]2;" not in terminal.raw
        assert terminal.text().splitlines()[:4] == [
            "pm 0.1.0 - project - executor scripted - 0 tasks",
            "/help commands - ? keys - scripted does the work: /executor NAME changes that",
            "pm> /version",
            "pm 0.1.0",
        ], "what is printed stands before the next prompt: it is not drawn again"


def test_the_greeting_fits_a_terminal_that_is_not_utf8(project: Path) -> None:
    run_scripted(project, BAD, words=("a title " * 12, "--on-limit", "ask"))
    with Terminal(project, columns=80, TERM="dumb", PM_EXECUTOR="scripted") as terminal:
        terminal.wait_for("pm>")
        lines = terminal.text().splitlines()
        assert lines[1].endswith("...")
        assert lines[2].startswith("pm>")


@pytest.mark.torture
def test_a_narrow_terminal_drops_the_toolbar_from_the_right(project: Path) -> None:
    path = script(project, slow(GOOD))
    with Terminal(project, "--line", columns=40, PM_EXECUTOR="scripted", PM_SCRIPT=str(path)) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("task-001 · it 1/3")
        assert "? keys" not in terminal.last_line("task-001 ·")
        terminal.send(CTRL_D)
        terminal.wait_for("w wait")
        terminal.send(b"s")
        assert terminal.ends() == 0


def test_lines_from_a_pipe_run_in_order_and_end_with_the_worst_code(project: Path) -> None:
    path = script(project, BAD, GOOD)
    lines = "write hello.py\n/trace --latest\n/trace 99\n/version\n"
    ran = pm(cwd=project, stdin=lines, PM_EXECUTOR="scripted", PM_SCRIPT=str(path))
    assert ran.code == 7
    assert ran.out.index("task-001 started") < ran.out.index("task-001 COMPLETE") < ran.out.index("LLM_REQUEST[1]")
    assert ran.out.rstrip().endswith("pm 0.1.0")
    assert "\x1b" not in ran.out
    short = pm(cwd=project, stdin="write it\n", PM_EXECUTOR="scripted", PM_SCRIPT=str(script(project, BAD)))
    assert short.code == 6


def test_resuming_from_the_start_goes_on_with_the_task(project: Path) -> None:
    run_scripted(project, BAD, GOOD, words=("write hello.py", "--max-iterations", "1"))
    ran = pm("--last", cwd=project, stdin="/version\n")
    assert ran.code == 0, ran.err
    assert "task-001 COMPLETE" in ran.out


@pytest.mark.torture
def test_files_complete_after_an_at_sign_without_ignored_ones(project: Path) -> None:
    (project / "signup_form.py").write_text("x = 1\n")
    (project / "node_modules").mkdir()
    (project / "node_modules" / "signup_hidden.js").write_text("1")
    with opened(project) as terminal:
        terminal.wait_for("pm>")
        terminal.pump(0.3)
        terminal.send(b"look at @sign")
        terminal.wait_for("signup_form.py")
        assert "signup_hidden" not in terminal.text()
        terminal.send(b"\t")
        terminal.wait_for("pm> look at @signup_form.py")
        terminal.send(CTRL_C + CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.torture
def test_hostile_agent_text_cannot_move_the_cursor_or_ring(project: Path) -> None:
    hostile = {
        **GOOD,
        "output": "\x1b[2J\x1b]0;owned\x07\u202eevil\u2066 " + "日本" * 50_000,
        "files": {"a\x1b[31mb.py": "x = 1\n"},
        "delay_ms": 0,
    }
    with opened(project, hostile) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write a file" + ENTER)
        terminal.wait_for("task-001 COMPLETE")
        terminal.send(b"/trace --full" + ENTER)
        terminal.wait_for("FINAL_SUMMARY")
        terminal.wait_for("---\npm>")  # keys sent while the trace is printed would be lost
        for sequence in (b"\x1b[2J", b"\x1b]0;owned", b"\x1b[31mb", "\u202e".encode()):
            assert sequence not in terminal.raw
        terminal.send(CTRL_C + CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.torture
def test_a_question_of_the_agent_stands_in_a_box_and_is_answered_at_the_prompt(project: Path) -> None:
    with opened(project, {"output": "I read it.\n\nUp or down?"}, GOOD) as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("? task-001 asks")
        terminal.wait_for("/respond 1 hint")
        terminal.send(b"/respond 1 hint up" + ENTER)
        terminal.wait_for("task-001 COMPLETE, tests not run")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.torture
def test_a_task_at_its_limit_waits_for_respond_and_goes_on(project: Path) -> None:
    with opened(project, BAD, GOOD, PM_MAX_ITERATIONS="1") as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("/respond 1 continue")
        terminal.wait_for("1 waiting for your answer")
        terminal.send(b"/respond 1 hint don't stop" + ENTER)
        text = terminal.wait_for("task-001 COMPLETE, tests not run")
        assert text.count("[0] REJECT") == 1
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.torture
def test_resizing_keeps_the_line(project: Path) -> None:
    with opened(project) as terminal:
        terminal.wait_for("pm>")
        terminal.pump(0.3)
        terminal.send(b"half a line")
        terminal.wait_for("pm> half a line")
        terminal.child.setwinsize(30, 60)
        terminal.pump(0.5)
        terminal.send(b" more")
        terminal.pump(0.5)
        terminal.send(CTRL_C)
        terminal.pump(0.3)
        terminal.send(b"/version" + ENTER)
        terminal.wait_for("pm 0.1.0\n")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.torture
def test_a_task_is_taken_back_at_no_cost_before_its_agent_was_asked_and_a_slip_is_not_sent(project: Path) -> None:
    lease = FolderLease(project, state_dir=StateDir(project / ".pm-orchestrator").ensure(), task_id="other")
    assert lease.take()
    with opened(project, GOOD, PM_ISOLATION="folder") as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"taks" + ENTER)
        terminal.wait_for("not sent: it looks like the command /tasks")
        terminal.wait_for("pm> taks")
        terminal.send(CTRL_C)
        terminal.send(b"write hello.py" + ENTER)
        terminal.wait_for("queue pm>")
        terminal.wait_for("waits for another pm")
        terminal.send(ESC)
        terminal.wait_for("task-001 CANCELLED")
        terminal.wait_for("the agent was not asked: it cost nothing")
        terminal.send(CTRL_D)
        assert terminal.ends() in {0, 1}
    assert events(project) == ["USER_REQUEST", "SYSTEM_RULES", "USER_REQUEST", "FINAL_SUMMARY"]
    lease.release()


@pytest.mark.parametrize("gone", [EOFError(), OSError(errno.EIO, "Input/output error")])
async def test_a_terminal_that_is_gone_ends_line_mode_like_ctrl_d(
    project: Path, monkeypatch: pytest.MonkeyPatch, gone: Exception
) -> None:
    monkeypatch.setattr(PromptSession, "prompt_async", AsyncMock(side_effect=gone))
    async with make_session(project) as session:
        assert await LineView(session, model=session.context.output).run(greeting=[]) == ""
