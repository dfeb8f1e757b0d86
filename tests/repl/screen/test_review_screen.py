"""The review screen: `v` opens it, x and a decide, u undoes, c puts the commit at the prompt."""

from __future__ import annotations

from pathlib import Path

from repl.screen.review import ReviewScreen
from tests.repl.screen.running import GOOD, enter, screen, until
from tests.repl.screen.test_home import finished


async def test_changes_are_discarded_kept_edited_undone_and_committed(project: Path) -> None:
    mine = project / "a.py"
    async with screen(project, GOOD) as (app, pilot):
        await enter(pilot, "make f")
        await finished(pilot, app)
        await enter(pilot, "/review 1")
        await until(pilot, lambda: isinstance(app.screen, ReviewScreen))
        shown = app.screen
        assert isinstance(shown, ReviewScreen)
        await until(pilot, lambda: shown.view.rows)

        def states() -> list[str]:
            return [hunk["state"] for file in shown.record["files"] for hunk in file["hunks"]]

        lines = [shown.view.render_line(y).text.rstrip() for y in range(shown.view.size.height)]
        assert any(line.endswith("1 + def f():") for line in lines), lines
        await pilot.press("x")
        assert mine.exists()
        await pilot.press("n", "x")
        await until(pilot, lambda: not mine.exists() and states() == ["discarded"])
        await pilot.press("x")
        await until(pilot, lambda: mine.exists() and states() == ["kept"])
        await pilot.press("X")
        await until(pilot, lambda: states() == ["discarded"])
        await pilot.press("a")
        await until(pilot, lambda: states() == ["kept"])
        await pilot.press("u", "y")
        await until(pilot, lambda: not mine.exists() and shown.record["undone"])
        await pilot.press("u", "y")
        await until(pilot, lambda: mine.exists() and not shown.record["undone"])
        colours = {segment.style.color for y in range(10) for segment in shown.view.render_line(y) if segment.style}
        app.choose_theme("mono")
        shown.show()
        without = {segment.style.color for y in range(10) for segment in shown.view.render_line(y) if segment.style}
        assert len(without) < len(colours)
        await pilot.press("c")
        await until(pilot, lambda: app.screen is app.home)
        assert app.home.prompt.whole == "/review 1 --commit -m 'make f'"
