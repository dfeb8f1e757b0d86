"""A screen that is a list: columns, a filter, and what Enter does with a row. Rows are read in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from typing_extensions import override

from repl.present.cells import fit, shown
from repl.screen.hints import Hints
from repl.screen.keymap import KEYS


@dataclass(frozen=True, slots=True)
class PageRow:
    """One row: its cells, and what Enter is given."""

    cells: tuple[str, ...]
    value: Any = None


class _Rows(OptionList, inherit_bindings=False):
    """The rows. Enter is the screen's, so that the line of keys names it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        one for one in OptionList.BINDINGS if isinstance(one, Binding) and one.key != "enter"
    ]


class Listing(Screen[None]):
    """A list. Subclasses give `heading`, `widths` (cells of each column but the last), `empty`, `read` and `open`."""

    heading: str = ""
    columns: ClassVar[tuple[str, ...]] = ()
    widths: ClassVar[tuple[int, ...]] = ()
    empty: ClassVar[tuple[str, str]] = ("nothing here", "")
    BINDINGS = KEYS["page"]

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[PageRow] = []
        self._found: list[PageRow] = []
        self._wanted = ""
        # Held, not looked up: the thread that reads may answer while the page is being taken down.
        self._listing = _Rows()
        self._foot = Static(id="page-foot", markup=False)

    @override
    def compose(self) -> ComposeResult:
        yield Static(f" {self.heading}", id="page-title", markup=False)
        yield Static(id="page-columns", markup=False)
        yield self._listing
        yield self._foot
        yield Input(id="page-input", placeholder="filter: Enter keeps it, Esc clears it")
        yield Hints()

    def on_mount(self) -> None:
        self._listing.focus()
        self._foot.update(" looking …")
        self.action_look()

    def on_resize(self, event: Resize) -> None:
        self.query_one("#page-columns", Static).update(" " + self._line(self.columns, event.size.width - 2))
        if self._rows:
            self._show()

    @work(exclusive=True, group="look")
    async def action_look(self) -> None:
        try:
            self._rows = list(await asyncio.to_thread(self.read))
            problem = ""
        except Exception as error:  # noqa: BLE001 - top of the screen: one page's trouble must not end the session
            self._rows, problem = [], f"{type(error).__name__}: {error}"
            self.failed(problem)
        self._show()
        if problem:
            self._foot.update(shown(f" cannot be read: {problem}"))

    def read(self) -> Sequence[PageRow]:
        """The rows. Blocks: it is called in a thread."""
        raise NotImplementedError

    def open(self, value: Any) -> None:
        """What Enter does with a row's value."""

    def failed(self, problem: str) -> None:
        """The rows could not be read."""

    def content(self, row: PageRow, width: int) -> Content:
        return Content(self._line(row.cells, width))

    def _line(self, cells: Sequence[str], width: int) -> str:
        parts = [fit(shown(cell), size) for cell, size in zip(cells, self.widths, strict=False)]
        return fit("  ".join([*parts, *(shown(cell) for cell in cells[len(self.widths) :])]), max(width, 10))

    def _show(self) -> None:
        wanted = self._wanted.lower()
        self._found = [row for row in self._rows if wanted in " ".join(row.cells).lower()]
        listing = self._listing
        kept = listing.highlighted
        width = self.app.size.width - 3
        listing.clear_options()
        listing.add_options([Option(self.content(row, width)) for row in self._found])
        listing.highlighted = min(kept or 0, len(self._found) - 1) if self._found else None
        foot = "" if self._rows else f" {self.empty[0]}\n {self.empty[1]}"
        self._foot.update(foot or f" {len(self._found)} of {len(self._rows)}")

    @on(OptionList.OptionSelected)
    def chosen(self, event: OptionList.OptionSelected) -> None:
        self.open(self._found[event.option_index].value)

    def selected(self) -> PageRow | None:
        at = self._listing.highlighted
        return self._found[at] if at is not None and at < len(self._found) else None

    def action_open(self) -> None:
        row = self.selected()
        if row is not None:
            self.open(row.value)

    def action_filter(self) -> None:
        line = self.query_one("#page-input", Input)
        line.display = True
        line.focus()

    @on(Input.Changed, "#page-input")
    def filter_changed(self, event: Input.Changed) -> None:
        self._wanted = event.value.strip()
        self._show()

    @on(Input.Submitted, "#page-input")
    def filter_kept(self) -> None:
        self.query_one("#page-input", Input).display = False
        self._listing.focus()

    def action_copy(self) -> None:
        row = self.selected()
        if row is not None:
            self.app.copy_to_clipboard("  ".join(row.cells))
            self.notify("copied")

    def action_move(self, step: int) -> None:
        listing = self._listing
        listing.action_cursor_down() if step > 0 else listing.action_cursor_up()

    def action_back(self) -> None:
        line = self.query_one("#page-input", Input)
        if line.display:
            line.value = ""
            self.filter_kept()
        else:
            self.dismiss()
