"""What session commands ask of the full screen (`repl.shell.View`), handed on to the app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from repl.screen.outside import edit_outside

if TYPE_CHECKING:
    from repl.screen.app import PmApp

__all__ = ["ScreenView"]


class ScreenView:
    """The view of `app`. Commands that only read run in threads; those that call this one run in the app's loop."""

    name: Literal["line", "screen", "pipe"] = "screen"

    def __init__(self, app: PmApp) -> None:
        self._app = app

    def leave(self, to: str = "") -> None:
        """`/exit` and `/line`; `/screen` is already here."""
        if to != "screen":
            self._app.action_quit_asking(to)

    def clear(self) -> None:
        """`/clear`: empty the transcript once the command is done."""
        self._app.call_later(self._app.action_clear)

    def set_option(self, name: str, value: Any) -> None:
        """`/live`, `/plain`, `/theme`."""
        app = self._app
        if name == "live":
            app.live_text = bool(value)
        elif name == "theme":
            app.choose_theme(str(value))
        elif name == "plain":
            app.set_class(bool(value), "-ascii")
            app.choose_theme("mono" if value else str(app.session.settings.get("repl.theme")))

    def key_rows(self) -> list[tuple[str, str, str]]:
        """(action id, keys, what it does) of every binding that can be rebound."""
        from repl.screen.keymap import binding_rows

        return [(row.id, " ".join(row.keys), row.what) for row in binding_rows(self._app.keymap_changes)]

    async def edit_text(self, text: str, *, suffix: str) -> str | None:
        """The person's editor, in place of the screen for a while."""
        return edit_outside(self._app, text, suffix=suffix)

    async def open_trace(self, task_id: str) -> None:
        """`/trace T --screen`."""
        session = self._app.session
        self._app.show_trace(session.resolve(task_id).path, follow=task_id in session.running)
