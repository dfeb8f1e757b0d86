"""The live stream: text with /live on, tools and thoughts with Ctrl+O, in line mode and full screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repl.present.live import LiveStream, wrapped
from runner.executors.executor_port import Live
from tests.repl.screen.running import enter, screen, until
from tests.repl.terminal import CTRL_D, ENTER, Terminal
from tests.repl.test_permissions import prepared

STEPS = [
    {"think": "Where is it defined?"},
    {"edit": ["{project}/a.txt", "new\n"]},
    {"say": "Half of the answer"},
    {"sleep": 2.5},
    {"say": " and the rest."},
]


def steps(project: Path) -> list[dict[str, object]]:
    return [
        {"edit": [str(project / "a.txt"), "new\n"]} if "edit" in step else step  # type: ignore[operator]
        for step in STEPS
    ]


def test_the_detail_shows_tools_with_their_end_then_thoughts_then_text() -> None:
    stream = LiveStream()
    for update in (
        Live(kind="tool_started", tool="edit", text="a.py"),
        Live(kind="tool_finished", tool="edit", text="a.py", ok=True),
        Live(kind="tool_started", tool="execute", text="pytest"),
        Live(kind="thinking", text="It fails."),
        Live(kind="text", text="Now I mend\nthe test."),
    ):
        stream.feed(update, now=10)
    doing = ["v edit a.py", "> execute pytest · 5 s", "… It fails."]
    assert stream.detail_rows(40, 8, now=15) == [*doing, "Now I mend", "the test."]
    assert stream.text_rows(40, 8) == ["Now I mend", "the test."]
    assert stream.detail_rows(40, 3, now=15)[-1] == "the test."
    assert stream.recent(40, now=15, most=2) == doing[1:]
    assert stream.recent(16, now=15) == ["v edit a.py", "> execute… · 5 s", "… It fails."]
    stream.reset()
    assert stream.detail_rows(40, 8, now=15) == []


def test_parallel_subtasks_do_not_mix_their_words() -> None:
    stream = LiveStream()
    stream.feed(Live(kind="text", text="of one", subtask_id="a"))
    stream.feed(Live(kind="text", text="of the other", subtask_id="b"))
    assert stream.text_rows(40, 5) == ["of the other"]


@given(st.text(), st.integers(2, 60))
def test_no_row_is_wider_than_the_terminal_or_holds_a_control(text: str, columns: int) -> None:
    from rich.cells import cell_len

    for row in wrapped(text, columns):
        assert cell_len(row) <= columns
        assert not {"\n", "\r", "\x1b", "\x07"} & set(row)


@pytest.mark.torture
@pytest.mark.parametrize("way", ["live", "detail"])
def test_line_mode_streams_dimmed_and_the_answered_line_replaces_it(project: Path, way: str) -> None:
    with Terminal(project, "--line", **{**prepared(project, steps(project)), "PM_KIND": "change"}) as terminal:
        terminal.wait_for("pm>")
        if way == "live":
            terminal.send(b"/live on" + ENTER)
            terminal.wait_for("live text on")
        terminal.send(b"write a.txt" + ENTER)
        terminal.wait_for("task-001 started")
        if way == "detail":
            terminal.send(b"\x0f")
            terminal.wait_for("v edit Edit ")
        terminal.wait_for("      Half of the answer")
        assert b"\x1b[0;2m" in terminal.raw
        terminal.wait_for("task-001 COMPLETE")
        terminal.wait_gone("      Half of the answer")
        terminal.wait_for("\n  Half of the answer")  # the answer itself, under its verdict
        terminal.send(CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.torture
async def test_the_full_screen_shows_the_detail_and_folds_it_again(project: Path) -> None:
    async with screen(project, **{**prepared(project, steps(project)), "PM_KIND": "change"}) as (app, pilot):
        await enter(pilot, "write a.txt")
        await until(pilot, lambda: app.session.running)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: any("Half of the answer" in line for line in app.home.transcript.live))
        assert any("v edit" in line for line in app.home.transcript.live), app.home.transcript.live
        await pilot.press("ctrl+o")
        await until(pilot, lambda: not any("Half of the answer" in line for line in app.home.transcript.live))
        await until(pilot, lambda: "task-001 COMPLETE" in app.home.transcript.text)
