"""What the trace viewer's keys do. Slow ones (search, comparing) run in threads and can be left with Esc."""

from __future__ import annotations

import asyncio
from threading import Event

from textual import work
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Input

from repl.screen.detail import Detail
from repl.screen.detail_lines import plain_text
from repl.screen.fact_list import FactList
from repl.screen.outside import open_outside
from repl.screen.trace_model import TraceModel
from tracer.filters import Filter
from tracer.rows.model import Row

__all__ = ["TraceActions"]


class TraceActions(Screen[None]):
    """The viewer's actions over its two panes and its model."""

    model: TraceModel
    following: reactive[bool] = reactive(False, init=False)  # noqa: FBT003 - the reactive's default value

    def __init__(self) -> None:
        super().__init__()
        self.filter_source = ""
        self._stop_search = Event()

    @property
    def facts(self) -> FactList:
        """The timeline."""
        return self.query_one("#facts", FactList)

    @property
    def detail(self) -> Detail:
        """The detail pane."""
        return self.query_one("#detail", Detail)

    def show_detail(self) -> None:
        """Decode the selected fact and show it."""
        raise NotImplementedError

    def reason_against(self, action: str) -> str:
        """Why the key of `action` does nothing now; empty where it acts."""
        raise NotImplementedError

    def show_state(self) -> None:
        """Write title, follow state and filter line."""
        raise NotImplementedError

    def close_input(self) -> None:
        """Back to the timeline."""
        raise NotImplementedError

    def apply_filter(self, text: str) -> bool:
        """Show only what the filter `text` keeps; whether it could be read."""
        raise NotImplementedError

    # -- moving -----------------------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """One row; scrolls the detail where it has the focus."""
        if self.detail.has_focus:
            self.detail.scroll_relative(y=step, animate=False, immediate=True)
        elif step < 0 and self.facts.cursor == 0 and self.model.tail is not None:
            self.read_back()
        else:
            self.facts.cursor += step

    def action_page(self, step: int) -> None:
        """One pane's height."""
        self.action_move(step * max((self.detail if self.detail.has_focus else self.facts).size.height - 1, 1))

    def action_first(self) -> None:
        """The first fact."""
        if self.detail.has_focus:
            self.detail.scroll_home(animate=False, immediate=True)
            return
        self.following = False
        self.model.show_head()
        self.facts.resized()
        self.facts.cursor = 0
        self.show_detail()

    def action_last(self) -> None:
        """The last fact, at once even where the index has not come so far; from then on the end is followed."""
        if self.detail.has_focus:
            self.detail.scroll_end(animate=False, immediate=True)
            return
        self.model.show_tail()
        self.facts.resized()
        self.following = True
        self.facts.cursor = len(self.model.timeline) - 1
        self.show_detail()
        self.show_state()

    def read_back(self) -> None:
        """Put earlier rows of the unnumbered tail before the first one shown."""
        added = self.model.more_tail()
        if added:
            self.facts.resized()
            self.facts.go_to(added - 1)

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
        """Follow the end, or stop following."""
        if self.following:
            self.following = False
        else:
            self.action_last()

    def action_refresh_now(self) -> None:
        """Look at the file at once instead of at the next tenth of a second."""
        self.model.file.poll()
        self.model.version = -1

    # -- groups -----------------------------------------------------------------------------------------------------

    def action_fold(self) -> None:
        """Fold or unfold the group under the cursor."""
        self.facts.toggle_fold()

    def action_fold_to(self, folded: bool) -> None:  # noqa: FBT001 - written in the binding
        """Fold, or unfold."""
        self.facts.fold(folded=folded)

    def action_latest(self) -> None:
        """Fold all but the latest iteration of every subtask; again: unfold all."""
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
        """Choose an iteration to go to."""
        from repl.screen.fact_list import group_name
        from repl.screen.pickers import Choice

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
        """Choose a subtask to see alone, or all."""
        from repl.screen.pickers import Choice

        names = [name for name in dict.fromkeys(g.subtask for g in list(self.model.file.index.groups)) if name]
        if not names:
            self.notify("this trace has no subtasks", severity="information")
            return
        chosen = await self.app.push_screen_wait(Choice("Subtasks", ["all", *names]))
        if chosen is not None:
            self.apply_filter("" if chosen == 0 else f'sub:"{names[chosen - 1]}"')

    # -- the selected fact ------------------------------------------------------------------------------------------

    def action_mode(self) -> None:
        """Readable, indented JSON, stored bytes, and round again."""
        self.detail.next_mode()
        self.show_detail()

    def action_unfold(self) -> None:
        """Unfold long values, or fold them again."""
        self.detail.toggle_unfolded()

    def action_detail(self) -> None:
        """Read the detail; on a group's header, fold or unfold it. In a narrow terminal it fills the screen."""
        if len(self.model.timeline) and self.model.item(self.facts.cursor).position is None:
            self.facts.toggle_fold()
            return
        self.add_class("-detail")
        self.detail.focus()

    def action_copy(self) -> None:
        """Copy the selected fact's text."""
        row, decoded = self.detail.row, self.detail.decoded
        if row is not None and decoded is not None:
            self._copy(plain_text(decoded), "the text")

    def action_copy_raw(self) -> None:
        """Copy the stored line."""
        if self.detail.decoded is not None:
            self._copy(self.detail.decoded.raw.decode("utf-8", "backslashreplace"), "the stored line")

    def _copy(self, text: str, what: str) -> None:
        self.app.copy_to_clipboard(text)
        large = "; some terminals take no more than 75,000" if len(text) > 75_000 else ""
        self.notify(f"copied {what}, {len(text):,} characters{large}")

    def action_open(self, program: str) -> None:
        """Open the selected fact's text in the editor or the pager."""
        row, decoded = self.detail.row, self.detail.decoded
        if row is not None and decoded is not None:
            open_outside(self.app, plain_text(decoded), program=program)

    @work(exclusive=True, group="walk")
    async def action_previous(self) -> None:
        """Go to the same fact of the previous iteration."""
        row = self.facts.row()
        found = await asyncio.to_thread(self.model.previous_like, row) if row is not None else None
        position = self.model.position_of(found.seq) if found is not None and found.seq is not None else None
        if position is None:
            self.notify("no such fact before this one", severity="information")
        else:
            self.facts.go_to(position)

    @work(exclusive=True, group="walk")
    async def action_compare(self) -> None:
        """The selected answer beside the previous one; a prompt beside the next."""
        row = self.facts.row()
        reason = self.reason_against("compare")
        if row is None or reason:
            self.notify(reason or "nothing here", severity="information")
            return
        pair = await asyncio.to_thread(self._pair, row)
        if pair is None:
            self.notify("nothing to compare with: the answer is the first of its kind", severity="information")
            return
        from repl.screen.diff_lines import compare
        from repl.screen.diff_view import DiffScreen

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
        return plain_text(self.model.decode(row))

    # -- search -----------------------------------------------------------------------------------------------------

    def action_next_match(self, backwards: bool) -> None:  # noqa: FBT001 - written in the binding
        """On to the next (previous) line that holds the text."""
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
        """One level back: input line, detail, highlighting, filter, and then the screen itself."""
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
        """Back to where the viewer was opened from; as the only screen, the program ends."""
        self._stop_search.set()
        leave = getattr(self.app, "leave_viewer", None)
        if leave is None:
            self.dismiss()
        else:
            leave()
