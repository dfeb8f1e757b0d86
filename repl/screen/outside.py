"""Programs of the user's own, in place of the screen for a while: editor and pager; tasks go on behind them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from textual.app import App, SuspendNotSupported

from repl.editing import edit_text, program_of, run_program
from repl.present.text import escape
from tracer.errors import PmError, UnavailableError

if TYPE_CHECKING:
    from repl.screen.themes import Themed


def open_text(app: App[Any], text: str, *, program: str) -> None:
    """Show `text` in the `editor` or the `pager`; changes made there are not taken over."""
    shown = escape(text) if program == "pager" else text
    app.run_worker(_instead(app, edit_text(shown, os.environ, kind=program)), group="outside")


def open_file(app: App[Any], path: str, *, program: str) -> None:
    """Open the file at `path` in the `editor` or the `pager`."""
    app.run_worker(edit_file(app, path, program=program), group="outside")


async def edit_file(app: App[Any], path: str, *, program: str = "editor") -> None:
    """The same, and wait for its end."""
    await _instead(app, run_program([*program_of(program, os.environ), path], os.environ))


async def edit_outside(app: App[Any], text: str, *, suffix: str = ".md") -> str | None:
    """`text` as the user left it in the editor; None where the editor could not be run or failed."""
    changed: str | None = await _instead(app, edit_text(text, os.environ, suffix=suffix))
    return changed


async def _instead(app: App[Any], work: Coroutine[Any, Any, Any]) -> Any:
    """Give the terminal away until `work` is done; what went wrong is shown, and None is returned."""
    running, themed = asyncio.ensure_future(work), cast("Themed", app)
    try:
        with app.batch_update(), app.suspend():  # nothing may be drawn meanwhile, and the app goes on
            themed.outside = running
            await asyncio.wait({running})
            themed.outside = None
        return running.result()
    except (PmError, SuspendNotSupported) as error:
        running.cancel()
        what = error.what if isinstance(error, UnavailableError) else str(error)
        app.notify(what, severity="error", markup=False)
        return None
