"""Calling the person back: when, how, and not too often."""

from __future__ import annotations

from pathlib import Path

import pytest

from repl.notify import Notifier, reports
from runner.core.task import TaskOutcome
from tracer.settings.layers import load_settings


def notifier(project: Path, **environ: str) -> tuple[Notifier, list[str]]:
    written: list[str] = []
    settings = load_settings(project=project, environ={"HOME": str(project), **environ})
    return Notifier(settings, write=written.append), written


ENDED = TaskOutcome(task_id="task-001", status="COMPLETE")


def test_a_short_task_in_a_focused_terminal_is_silent(project: Path) -> None:
    made, written = notifier(project)
    made.task_rests(ENDED, 3.0)
    assert written == []


@pytest.mark.parametrize(("focused", "seconds"), [(True, 31.0), (False, 1.0)])
def test_a_long_task_or_a_lost_focus_rings_once_in_five_seconds(project: Path, focused: bool, seconds: float) -> None:
    made, written = notifier(project)
    made.focused = focused
    made.task_rests(ENDED, seconds)
    made.task_rests(ENDED, seconds)
    assert written == ["\x07"]


def test_osc9_names_the_task_and_off_is_off(project: Path) -> None:
    made, written = notifier(project, PM_REPL_NOTIFY="osc9")
    made.task_rests(ENDED, 60)
    assert written == ["\x1b]9;task-001 COMPLETE\x07"]
    made, written = notifier(project, PM_REPL_NOTIFY="off")
    made.task_rests(ENDED, 60)
    assert written == []


def test_a_command_gets_the_task_and_a_missing_one_rings_instead(project: Path) -> None:
    script = project / "notify"
    script.write_text(f'#!/bin/sh\necho "$PM_TASK_STATUS $1" > {project}/told\n')
    script.chmod(0o755)
    made, written = notifier(project, PM_REPL_NOTIFY="command", PM_REPL_NOTIFY_COMMAND=str(script))
    made.task_rests(ENDED, 60)
    made.wait()
    assert (project / "told").read_text() == "COMPLETE task-001 COMPLETE\n"
    assert written == []
    made, written = notifier(project, PM_REPL_NOTIFY="command", PM_REPL_NOTIFY_COMMAND="/nothing/here")
    made.task_rests(ENDED, 60)
    assert written == ["\x07"]


def test_title_and_focus_reports_are_given_back_even_after_an_error() -> None:
    written: list[str] = []
    with pytest.raises(KeyError), reports("shop\x07", write=written.append):
        raise KeyError
    assert written[0].count("\x07") == 1
    assert written[-1] == "\x1b[?1004l\x1b[23;2t"
