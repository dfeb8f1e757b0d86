"""The trace viewer: timeline, detail, filter, search and follow over any trace file.

What is shown is in `TraceModel`; this screen turns keys into calls and the model's changes into repaints, at most ten
a second. Nothing of a line is decoded before its row is selected. Leaving ends the background thread.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.widgets import Input, Static
from typing_extensions import override

from repl.screen.cells import shown
from repl.screen.detail import Detail
from repl.screen.fact_list import FactList
from repl.screen.hints import Hints
from repl.screen.trace_actions import TraceActions
from repl.screen.trace_model import TraceModel
from repl.screen.trace_title import filter_text, follow_text, index_text, title_text
from tracer import filters
from tracer.errors import UsageError

__all__ = ["TraceScreen"]

_TICK_S = 0.1
_NARROW = 100
_LARGE = 64 << 10
_SAMPLED = 200


class TraceInput(Input):
    """The line at the foot; Tab completes a filter."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "complete", "complete", show=False, id="trace.complete")]

    def action_complete(self) -> None:
        """Take the first completion of the filter; nothing for searches and line numbers."""
        screen = self.screen
        if isinstance(screen, TraceScreen) and screen.asked == "filter":
            offered = screen.completions(self.value)
            if offered:
                self.value = offered[0]
                self.cursor_position = len(self.value)


class TraceScreen(TraceActions):
    """Shows the trace at `path`. `follow` starts at the end and stays there; `wanted` is a filter to begin with."""

    HELP = (
        "A trace as a timeline: facts grouped by iteration and subtask, the selected one in full beside it.\n"
        "Filter with &: event:NAME,… it:0,2-3 sub:2 text:word failed. The letter j shows stored JSON here;\n"
        "move with the arrows, J and K, ctrl+d and ctrl+u, Home and End."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", id="trace.back"),
        Binding("f", "follow", "follow", id="trace.follow"),
        Binding("j", "mode", "raw", id="trace.raw"),
        Binding("l", "latest", "latest", id="trace.latest"),
        Binding("i", "iterations", "iterations", id="trace.iterations"),
        Binding("s", "subtasks", "subtasks", id="trace.subtasks"),
        Binding("equals_sign", "compare", "diff answers", id="trace.compare"),
        Binding("slash", "ask('search')", "search", id="trace.search"),
        Binding("ampersand", "ask('filter')", "filter", id="trace.filter"),
        Binding("g", "ask('go to line')", "goto", id="trace.goto"),
        Binding("y", "copy", "copy", id="trace.copy"),
        Binding("p", "previous", "previous iteration's same fact", show=False, id="trace.previous"),
        Binding("n", "next_match(False)", "next match", show=False, id="trace.next"),
        Binding("N", "next_match(True)", "previous match", show=False, id="trace.previous_match"),
        Binding("Y", "copy_raw", "copy the stored line", show=False, id="trace.copy_raw"),
        Binding("x", "unfold", "unfold long values", show=False, id="trace.unfold"),
        Binding("e", "open('editor')", "open in the editor", show=False, id="trace.editor"),
        Binding("o", "open('pager')", "open in the pager", show=False, id="trace.pager"),
        Binding("enter", "detail", "read the detail", show=False, id="trace.detail"),
        Binding("space", "fold", "fold or unfold the group", show=False, id="trace.fold"),
        Binding("left", "fold_to(True)", "fold", show=False, id="trace.fold_left"),
        Binding("right", "fold_to(False)", "unfold", show=False, id="trace.fold_right"),
        Binding("up,K", "move(-1)", "up", show=False, id="trace.up"),
        Binding("down,J", "move(1)", "down", show=False, id="trace.down"),
        Binding("pageup,ctrl+u", "page(-1)", "a page up", show=False, id="trace.page_up"),
        Binding("pagedown,ctrl+d", "page(1)", "a page down", show=False, id="trace.page_down"),
        Binding("home", "first", "first fact", show=False, id="trace.first"),
        Binding("end,G", "last", "last fact, and follow", show=False, id="trace.last"),
        Binding("tab", "app.focus_next", "next pane", show=False, id="trace.next_pane"),
        Binding("f5", "refresh_now", "look at the file again", show=False, id="trace.refresh"),
        Binding("q", "leave", "back to the list", show=False, id="trace.leave"),
        *(Binding(str(digit), f"ask('go to line', '{digit}')", "", show=False) for digit in range(10)),
    ]
    DEFAULT_CSS = """
    TraceScreen {
        & > #trace-top { height: 1; }
        #trace-title { width: 1fr; height: 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
        #trace-follow { width: auto; height: 1; text-style: bold; padding: 0 1; }
        & > #trace-filter { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & > #trace-panes { height: 1fr; }
        FactList { width: 45%; border: round $border-blurred; &:focus { border: round $border; } }
        Detail { width: 1fr; border: round $border-blurred; &:focus { border: round $border; } }
        & > Input { dock: bottom; height: 1; border: none !important; padding: 0; display: none; }
        &.-narrow FactList { width: 1fr; }
        &.-narrow Detail { display: none; }
        &.-narrow.-detail FactList { display: none; }
        &.-narrow.-detail Detail { display: block; }
    }
    """

    def __init__(self, path: Path, *, follow: bool = False, wanted: str = "") -> None:
        super().__init__()
        self.model = TraceModel(path)
        self.asked = ""
        self.away_from: int | None = None
        self._start_following = follow
        if wanted:
            self.model.filter(filters.parse(wanted))

    @override
    def compose(self) -> ComposeResult:
        """Title and follow state, filter, panes, keys."""
        with Horizontal(id="trace-top"):
            yield Static(id="trace-title", markup=False)
            yield Static(id="trace-follow", markup=False)
        yield Static(id="trace-filter", markup=False)
        with Horizontal(id="trace-panes"):
            facts = FactList(self.model, id="facts")
            facts.border_title = "Timeline"
            yield facts
            yield Detail(id="detail")
        yield Hints()
        yield TraceInput(id="trace-input", select_on_focus=False)

    def on_mount(self) -> None:
        """Begin to index once the first screen is painted."""
        self.facts.focus()
        if self._start_following:
            self.action_last()
        self.show_detail()
        self.show_state()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.model.background.start()
        self.set_interval(_TICK_S, self.tick)

    def on_unmount(self) -> None:
        """Nothing stays behind."""
        self.model.close()

    def on_resize(self, event: Resize) -> None:
        """Below 100 columns the detail is a screen of its own."""
        self.set_class(event.size.width < _NARROW, "-narrow")

    # -- the model's changes ----------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take over what the background found since the last time; paints nothing where nothing changed."""
        before = self.facts.row() if self.model.tail is not None else None
        empty = not len(self.model.timeline)
        if not self.model.refresh():
            return
        if before is not None and self.model.tail is None:
            seq = self.model.file.seq_of(before.offset)
            if seq is not None:
                self.facts.resized()
                self.facts.go_to(self.model.position_of(seq) or 0)
        self.facts.resized()
        if self.following:
            self.facts.cursor = len(self.model.timeline) - 1
        if empty or self.detail.row is None or self.detail.row.kind == "incomplete":
            self.show_detail()
        self.show_state()

    @override
    def show_state(self) -> None:
        """Write title, follow state and filter line; unchanged text is not painted again."""
        self._write("#trace-title", " " + title_text(self.model))
        waiting = 0 if self.away_from is None else self.model.file.index.count - self.away_from
        self._write("#trace-follow", follow_text(following=self.following, waiting=waiting))
        bar = index_text(self.model, 20)
        self._write("#trace-filter", " " + (bar or filter_text(self.model)))

    def _write(self, selector: str, text: str) -> None:
        line = self.query_one(selector, Static)
        if line.content != text:
            line.update(text)

    @on(FactList.Moved)
    def moved(self, event: FactList.Moved) -> None:
        """Another fact is selected: show it, and stop following where the person left the end."""
        at_end = event.index >= len(self.model.timeline) - 1
        if self.following and not at_end:
            self.following = False
        row = self.facts.row()
        if row is not None and row.size > _LARGE:
            self._show_soon()
        else:
            self.show_detail()

    @work(exclusive=True, group="detail")
    async def _show_soon(self) -> None:
        await asyncio.sleep(0.05)
        self.show_detail()

    @override
    def show_detail(self) -> None:
        """Decode the selected fact and show it."""
        row = self.facts.row()
        pane = self.detail
        if row is None:
            pane.show(None, None)
            pane.border_title = "nothing here"
            return
        pane.show(row, self.model.decode(row))
        group = "" if row.group.iteration is None else f"[{row.group.iteration}]"
        pane.border_title = shown(f"{'?' if row.seq is None else row.seq} {row.event}{group}").replace("[", "\\[")
        pane.border_subtitle = {"readable": "", "pretty": "JSON", "raw": "stored bytes"}[pane.mode]
        pane.needle = self.facts.needle

    def watch_following(self, following: bool) -> None:  # noqa: FBT001 - called by Textual
        """Count what arrives while scrolled away."""
        self.away_from = None if following else self.model.file.index.count
        if self.is_mounted:
            self.show_state()

    # -- the line of input ------------------------------------------------------------------------------------------

    def action_ask(self, what: str, text: str = "") -> None:
        """Open the input line for a search, a filter or a line number."""
        line = self.query_one("#trace-input", Input)
        self.asked = what
        line.placeholder = {
            "search": "search: text to find, Enter searches on, Esc closes",
            "filter": "filter: event: it: sub: text: failed, Tab completes, Enter applies",
            "go to line": "go to line number",
        }[what]
        line.value = text or (self.filter_source if what == "filter" else "")
        line.cursor_position = len(line.value)
        line.display = True
        line.focus()

    @on(Input.Submitted, "#trace-input")
    def answered(self, event: Input.Submitted) -> None:
        """Do what was asked for."""
        text = event.value.strip()
        if self.asked == "filter" and not self.apply_filter(text):
            return
        self.close_input()
        if self.asked == "search":
            self.facts.needle = self.detail.needle = text.lower()
            if text:
                self.search_on(backwards=False, here=True)
        elif self.asked == "go to line":
            self.go_to_line(text)

    @override
    def apply_filter(self, text: str) -> bool:
        """Show only what the filter `text` keeps; whether it could be read."""
        try:
            wanted = filters.parse(text)
        except UsageError as error:
            self.notify(f"{error.what}. {error.why}. {error.next_step}", severity="error", markup=False)
            return False
        row = self.facts.row()
        self.filter_source = text
        self.model.filter(wanted)
        self.facts.resized()
        position = self.model.position_of(row.seq) if row is not None and row.seq is not None else None
        self.facts.cursor = 0 if position is None else self.model.timeline.index_of(position)
        self.facts.resized()
        self.show_detail()
        self.show_state()
        return True

    def completions(self, text: str) -> list[str]:
        """What the filter `text` can become, from this trace's own events, subtasks and iterations."""
        model = self.model
        groups = list(model.file.index.groups)
        events = dict.fromkeys(row.event for row in map(model.file.row, range(min(model.file.count, _SAMPLED))))
        iterations = max((group.iteration + 1 for group in groups if group.iteration is not None), default=0)
        subtasks = dict.fromkeys(group.subtask for group in groups if group.subtask)
        return filters.complete(text, events=events, subtasks=subtasks, iterations=iterations)

    @override
    def close_input(self) -> None:
        """Back to the timeline."""
        line = self.query_one("#trace-input", Input)
        line.display = False
        self.facts.focus()

    @override
    def reason_against(self, action: str) -> str:
        """Why the key of `action` does nothing now; empty where it acts."""
        comparable = {"LLM_RESPONSE", "LLM_REQUEST", "REJECTION_DETAILS"}
        if action == "compare" and self.detail.row is not None and self.detail.row.event not in comparable:
            return "answers and prompts can be compared"
        return ""
