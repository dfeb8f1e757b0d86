"""The trace viewer: timeline, detail, filter, search and follow over any trace file, and what its keys do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.events import Resize
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Input, Static
from typing_extensions import override

from repl.present.cells import shown
from repl.screen.diff import DiffScreen, compare
from repl.screen.hints import Hints
from repl.screen.keymap import KEYS
from repl.screen.outside import open_text
from repl.screen.pickers import Choice
from repl.screen.themes import Themed
from repl.screen.trace.detail import Detail, plain_text
from repl.screen.trace.source import TraceModel, filter_text, follow_text, index_text, title_text
from repl.screen.trace.timeline import FactList, group_name
from tracer.errors import UsageError
from tracer.rows import filters
from tracer.rows.filters import Filter
from tracer.rows.row import Row

_TICK_S = 0.1
_NARROW = 100
_LARGE = 64 << 10
_SAMPLED = 200


class TraceInput(Input):
    """The line at the foot; Tab completes a filter."""

    BINDINGS = KEYS["trace_input"]

    def action_complete(self) -> None:
        screen = self.screen
        if isinstance(screen, TraceScreen) and screen.asked == "filter":
            offered = screen.completions(self.value)
            if offered:
                self.value = offered[0]
                self.cursor_position = len(self.value)


class TraceScreen(Screen[None]):
    """Shows the trace at `path`. `follow` starts at the end and stays there; `wanted` is a filter to begin with."""

    HELP = (
        "A trace as a timeline: events grouped by iteration and subtask, the selected one in full beside it.\n"
        "Filter with &: event:NAME,… it:0,2-3 sub:2 text:word failed. The letter j shows stored JSON here;\n"
        "move with the arrows, J and K, ctrl+d and ctrl+u, Home and End."
    )
    BINDINGS = KEYS["trace"]

    following: reactive[bool] = reactive(False, init=False)  # noqa: FBT003 - the reactive's default value

    def __init__(self, path: Path, *, follow: bool = False, wanted: str = "") -> None:
        super().__init__()
        self.model = TraceModel(path)
        self.facts = FactList(self.model, id="facts")
        self.facts.border_title = "Timeline"
        self.detail = Detail(id="detail")
        self.asked = self.filter_source = ""
        self._stop_search = Event()
        self.away_from: int | None = None
        self._start_following = follow
        if wanted:
            self.model.filter(filters.parse(wanted))

    @override
    def compose(self) -> ComposeResult:
        with Horizontal(id="trace-top"):
            yield Static(id="trace-title", markup=False)
            yield Static(id="trace-follow", markup=False)
        yield Static(id="trace-filter", markup=False)
        with Horizontal(id="trace-panes"):
            yield self.facts
            yield self.detail
        yield Hints()
        yield TraceInput(id="trace-input", select_on_focus=False)

    def on_mount(self) -> None:
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
        self.model.close()

    def on_resize(self, event: Resize) -> None:
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

    def show_state(self) -> None:
        self._write("#trace-title", " " + title_text(self.model))
        waiting = 0 if self.away_from is None else self.model.file.index.count - self.away_from
        self._write("#trace-follow", follow_text(following=self.following, waiting=waiting))
        bar = index_text(self.model, 20)
        self._write("#trace-filter", " " + (bar or filter_text(self.model)))

    def _write(self, selector: str, text: str) -> None:
        for line in self.query(selector).results(Static):  # none once the screen is being taken down
            if line.content != text:
                line.update(text)

    @on(FactList.Moved)
    def moved(self, event: FactList.Moved) -> None:
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

    def show_detail(self) -> None:
        row = self.facts.row()
        pane = self.detail
        if row is None:
            pane.show(None, None)
            pane.border_title = "nothing here"
            return
        pane.show(row, self.model.file.decode(row))
        group = "" if row.group.iteration is None else f"[{row.group.iteration}]"
        pane.border_title = shown(f"{'?' if row.seq is None else row.seq} {row.event}{group}").replace("[", "\\[")
        pane.border_subtitle = {"readable": "", "pretty": "JSON", "raw": "stored bytes"}[pane.mode]
        pane.needle = self.facts.needle

    def watch_following(self, following: bool) -> None:  # noqa: FBT001 - called by Textual
        self.away_from = None if following else self.model.file.index.count
        if self.is_mounted:
            self.show_state()

    # -- the line of input ------------------------------------------------------------------------------------------

    def action_ask(self, what: str, text: str = "") -> None:
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

    def apply_filter(self, text: str) -> bool:
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

    def close_input(self) -> None:
        line = self.query_one("#trace-input", Input)
        line.display = False
        self.facts.focus()

    def reason_against(self, action: str) -> str:
        comparable = {"LLM_RESPONSE", "LLM_REQUEST", "REJECTION_DETAILS"}
        if action == "compare" and self.detail.row is not None and self.detail.row.event not in comparable:
            return "answers and prompts can be compared"
        return ""

    # -- moving -----------------------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        if self.detail.has_focus:
            self.detail.scroll_relative(y=step, animate=False, immediate=True)
        elif step < 0 and self.facts.cursor == 0 and self.model.tail is not None:
            if added := self.model.more_tail():
                self.facts.resized()
                self.facts.go_to(added - 1)
        else:
            self.facts.cursor += step

    def action_page(self, step: int) -> None:
        self.action_move(step * max((self.detail if self.detail.has_focus else self.facts).size.height - 1, 1))

    def action_first(self) -> None:
        if self.detail.has_focus:
            self.detail.scroll_home(animate=False, immediate=True)
            return
        self.following = False
        self.model.show_head()
        self.facts.resized()
        self.facts.cursor = 0
        self.show_detail()

    def action_last(self) -> None:
        if self.detail.has_focus:
            self.detail.scroll_end(animate=False, immediate=True)
            return
        self.model.show_tail()
        self.facts.resized()
        self.following = True
        self.facts.cursor = len(self.model.timeline) - 1
        self.show_detail()
        self.show_state()

    def go_to_line(self, text: str) -> None:
        """Select line `text`; says so where there is no such line or the filter hides it."""
        if not text.isdecimal():
            if text:
                self.notify(f"{text!r} is not a line number", severity="warning", markup=False)
            return
        self.model.show_head()
        self.facts.resized()
        position = self.model.position_of(int(text))
        if position is None:
            known = self.model.file.count
            hidden = int(text) < known and self.model.scan is not None
            reason = "hidden by the filter" if hidden else f"not there; lines go from 0 to {known - 1}"
            self.notify(f"line {text} is {reason}", severity="warning", markup=False)
        else:
            self.facts.go_to(position)

    def action_follow(self) -> None:
        if self.following:
            self.following = False
        else:
            self.action_last()

    def action_refresh_now(self) -> None:
        self.model.file.poll()
        self.model.version = -1

    # -- groups -----------------------------------------------------------------------------------------------------

    def action_fold(self) -> None:
        self.facts.toggle_fold()

    def action_fold_to(self, folded: bool) -> None:  # noqa: FBT001 - written in the binding
        self.facts.fold(folded=folded)

    def action_latest(self) -> None:
        timeline = self.model.timeline
        row = self.facts.row()
        if timeline.folded:
            timeline.unfold_all()
        else:
            latest = self.model.latest_groups()
            timeline.fold_all_but(latest)
            starts = [start for group in latest if (start := timeline.first_of(group)) is not None]
            row = self.model.row(max(starts)) if starts else row
        self.facts.resized()
        position = self.model.position_of(row.seq) if row is not None and row.seq is not None else None
        if position is not None:
            self.facts.cursor = timeline.index_of(position)
        self.facts.show_cursor()

    @work
    async def action_iterations(self) -> None:
        groups = [group for group in self.model.timeline.groups() if group.iteration is not None]
        if not groups:
            self.notify("this trace has no iterations", severity="information")
            return
        here = self.facts.row()
        start = groups.index(here.group) if here is not None and here.group in groups else 0
        chosen = await self.app.push_screen_wait(Choice("Iterations", [group_name(g) for g in groups], start=start))
        if chosen is not None:
            position = self.model.timeline.first_of(groups[chosen])
            self.facts.go_to(position or 0)

    @work
    async def action_subtasks(self) -> None:
        names = [name for name in dict.fromkeys(g.subtask for g in list(self.model.file.index.groups)) if name]
        if not names:
            self.notify("this trace has no subtasks", severity="information")
            return
        chosen = await self.app.push_screen_wait(Choice("Subtasks", ["all", *names]))
        if chosen is not None:
            self.apply_filter("" if chosen == 0 else f'sub:"{names[chosen - 1]}"')

    def action_waterfall(self) -> None:
        from repl.screen.trace.waterfall import WaterfallScreen  # 10 ms, with the lists that it is one of

        title = f"{title_text(self.model)}   {follow_text(following=self.following, waiting=0)}".rstrip()
        show = lambda seq: self.go_to_line(str(seq))  # noqa: E731
        self.app.push_screen(WaterfallScreen(self.model.file.path, title=title, show_event=show))

    # -- the selected fact ------------------------------------------------------------------------------------------

    def action_mode(self) -> None:
        self.detail.next_mode()
        self.show_detail()

    def action_unfold(self) -> None:
        self.detail.toggle_unfolded()

    def action_detail(self) -> None:
        if len(self.model.timeline) and self.model.timeline.item(self.facts.cursor).position is None:
            self.facts.toggle_fold()
            return
        self.add_class("-detail")
        self.detail.focus()

    def action_copy(self) -> None:
        row, decoded = self.detail.row, self.detail.decoded
        if row is not None and decoded is not None:
            self._copy(plain_text(decoded), "the text")

    def action_copy_raw(self) -> None:
        if self.detail.decoded is not None:
            self._copy(self.detail.decoded.raw.decode("utf-8", "backslashreplace"), "the stored line")

    def _copy(self, text: str, what: str) -> None:
        self.app.copy_to_clipboard(text)
        large = "; some terminals take no more than 75,000" if len(text) > 75_000 else ""
        self.notify(f"copied {what}, {len(text):,} characters{large}")

    def action_open(self, program: str) -> None:
        row, decoded = self.detail.row, self.detail.decoded
        if row is not None and decoded is not None:
            open_text(self.app, plain_text(decoded), program=program)

    @work(exclusive=True, group="walk")
    async def action_previous(self) -> None:
        row = self.facts.row()
        found = await asyncio.to_thread(self.model.previous_like, row) if row is not None else None
        position = self.model.position_of(found.seq) if found is not None and found.seq is not None else None
        if position is None:
            self.notify("no such event before this one", severity="information")
        else:
            self.facts.go_to(position)

    @work(exclusive=True, group="walk")
    async def action_compare(self) -> None:
        row = self.facts.row()
        reason = self.reason_against("compare")
        if row is None or reason:
            self.notify(reason or "nothing here", severity="information")
            return
        pair = await asyncio.to_thread(self._pair, row)
        if pair is None:
            self.notify("nothing to compare with: the answer is the first of its kind", severity="information")
            return
        old, new = pair
        lines = await asyncio.to_thread(compare, self._text(old), self._text(new))
        title = (
            f" line {old.seq} {old.event}[{old.group.iteration}]  →  line {new.seq} {new.event}[{new.group.iteration}]"
        )
        await self.app.push_screen(DiffScreen(title, lines))

    def _pair(self, row: Row) -> tuple[Row, Row] | None:
        previous = self.model.previous_like(row)
        if row.event == "LLM_REQUEST":
            later = self.model.next_like(row)
            if later is not None:
                return row, later
        return None if previous is None else (previous, row)

    def _text(self, row: Row) -> str:
        return plain_text(self.model.file.decode(row))

    # -- search -----------------------------------------------------------------------------------------------------

    def action_next_match(self, backwards: bool) -> None:  # noqa: FBT001 - written in the binding
        if not self.facts.needle:
            self.notify("nothing searched yet: / searches", severity="information")
        else:
            self.search_on(backwards=backwards)

    @work(exclusive=True, group="search")
    async def search_on(self, *, backwards: bool, here: bool = False) -> None:
        """Find the next match (`here`: the selected line counts) in a thread, past the end from the other end."""
        self._stop_search.set()
        stop = self._stop_search = Event()
        needle = self.facts.needle
        self.model.show_head()
        row = self.facts.row()
        start = row.seq if row is not None and row.seq is not None else 0
        start -= 1 if here else 0
        try:
            found, wrapped = await asyncio.to_thread(self._search, needle, start, backwards, stop)
        finally:
            stop.set()
        position = None if found is None else self.model.position_of(found)
        if position is None:
            self.notify(f"{needle!r} does not occur", severity="information", markup=False)
            return
        if wrapped:
            self.notify(f"past the {'beginning' if backwards else 'end'}, on from the other end")
        self.facts.go_to(position)
        self.show_detail()
        self.detail.find_needle()

    def _search(self, needle: str, start: int, backwards: bool, stop: Event) -> tuple[int | None, bool]:  # noqa: FBT001 - internal
        found = self.model.search(needle, start, backwards=backwards, stopped=stop.is_set)
        if found is not None or stop.is_set():
            return found, False
        other_end = self.model.file.count if backwards else -1
        return self.model.search(needle, other_end, backwards=backwards, stopped=stop.is_set), True

    # -- leaving ----------------------------------------------------------------------------------------------------

    def action_back(self) -> None:
        if self.query_one("#trace-input", Input).display:
            self.close_input()
        elif self.detail.has_focus or self.has_class("-detail"):
            self.remove_class("-detail")
            self.facts.focus()
        elif self.facts.needle:
            self._stop_search.set()
            self.facts.needle = self.detail.needle = ""
        elif self.model.wanted != Filter():
            self.apply_filter("")
        else:
            self.action_leave()

    def action_leave(self) -> None:
        self._stop_search.set()
        leave = getattr(self.app, "leave_viewer", None)
        if leave is None:
            self.dismiss()
        else:
            leave()


class ViewerApp(Themed):
    """What `pm trace T --screen` opens: one trace, full screen; leaving the viewer ends the program with 0."""

    TITLE = "pm trace"

    def __init__(
        self, path: Path, *, follow: bool = False, wanted: str = "", theme: str = "auto", colour: bool = True
    ) -> None:
        super().__init__(theme=theme, colour=colour)
        self.viewer = TraceScreen(path, follow=follow, wanted=wanted)

    @override
    def get_default_screen(self) -> TraceScreen:
        return self.viewer

    def leave_viewer(self) -> bool:
        self.exit(0)
        return True
