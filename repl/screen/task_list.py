"""The tasks of the project, newest first, drawn from values; it knows nothing of where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from typing_extensions import override

from repl.present.progress import short_id
from repl.present.words import cost_text
from repl.screen.cells import fit, shown
from tracer.catalog import TaskRow

__all__ = ["TaskList", "status_word"]

_WORDS = {
    "RUNNING": "run", "QUEUED": "wait", "AWAITING_RESPONSE": "asks", "UNFINISHED": "stop", "COMPLETE": "done",
    "INCOMPLETE": "limit", "ERROR": "error", "CANCELLED": "ended",
}  # fmt: skip
_MARKS = {"COMPLETE": "good", "ERROR": "bad", "INCOMPLETE": "bad", "AWAITING_RESPONSE": "strong", "RUNNING": "strong"}


def status_word(status: str) -> str:
    """The short word of a status: `run`, `done`, `stop` and so on."""
    return _WORDS.get(status, shown(status).lower())


class TaskList(ScrollView, can_focus=True, inherit_bindings=False):
    """The list; `rows` are shown as they are given. Posts `Moved` when another task is selected."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "task-list--cursor", "task-list--good", "task-list--bad", "task-list--strong", "task-list--dim",
    }  # fmt: skip
    DEFAULT_CSS = """
    TaskList {
        overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
        & > .task-list--cursor { text-style: bold; }
        &:focus > .task-list--cursor { text-style: reverse; }
        & > .task-list--good { color: $text-success; }
        & > .task-list--bad { color: $text-error; }
        & > .task-list--strong { text-style: bold; }
        & > .task-list--dim { text-style: dim; }
    }
    """
    HELP = "The tasks of this project, newest first. Letters act on the selected one; : runs any command."
    cursor: reactive[int] = reactive(0, init=False)

    class Moved(Message):
        """Another task is selected."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.rows: Sequence[TaskRow] = ()

    def show(self, rows: Sequence[TaskRow]) -> None:
        """Show other rows; the selected task stays selected while it is among them."""
        selected = self.selected
        if rows == self.rows:
            return
        self.rows = rows
        self.virtual_size = Size(0, len(rows))
        at = next((n for n, row in enumerate(rows) if selected is not None and row.task_id == selected.task_id), None)
        self.set_reactive(TaskList.cursor, min(self.cursor if at is None else at, max(len(rows) - 1, 0)))
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    @property
    def selected(self) -> TaskRow | None:
        """The task under the cursor."""
        return self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else None

    def validate_cursor(self, cursor: int) -> int:
        """Keep the cursor inside the list."""
        return max(0, min(cursor, len(self.rows) - 1))

    def watch_cursor(self) -> None:
        """Bring the row into view and tell."""
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def _reveal(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True, immediate=True)

    def on_click(self, event: Click) -> None:
        """A click selects."""
        inside = event.get_content_offset(self)
        if inside is not None and inside.y + self.scroll_offset.y < len(self.rows):
            self.cursor = inside.y + self.scroll_offset.y

    @override
    def render_line(self, y: int) -> Strip:
        """The row at `y` of the pane."""
        width, base = self.scrollable_content_region.width, self.rich_style
        number = y + self.scroll_offset.y
        if not self.rows and y < 2:
            text = ("no tasks in this project", "type a request, or /demo")[y]
            return Strip([Segment(fit(f" {text}", width), self._style("dim"))]).apply_style(base)
        if number >= len(self.rows):
            return Strip.blank(width, base)
        row = self.rows[number]
        here = number == self.cursor
        identity = short_id(row.task_id)
        left = f"{'>' if here else ' '} {identity.rjust(3, '0') if identity.isdigit() else shown(identity)} "
        word = f"{status_word(row.status):<5} "
        cost = "" if row.cost_usd is None else cost_text(row.cost_usd)
        right = f"{row.iterations} it {cost:>7}" if width >= 34 else f"{row.iterations} it"
        title = fit(shown(row.title), max(width - len(left) - len(word) - len(right) - 2, 0))
        tone = _MARKS.get(row.status, "dim")
        segments = [Segment(left), Segment(word, self._style(tone)), Segment(title), Segment(f" {right}")]
        strip = Strip(segments).adjust_cell_length(width)
        if here:
            strip = Strip([Segment(strip.text)], width).apply_style(self._style("cursor"))
        return strip.apply_style(base)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"task-list--{name}", partial=True)
