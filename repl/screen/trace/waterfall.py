"""The waterfall of the trace that the viewer shows: lanes and bars that fold, and lead to the events that tell them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from textual.content import Content
from textual.events import Resize
from typing_extensions import override

from repl.present.waterfall import BarLine, Place, waterfall_lines
from repl.screen.keymap import KEYS
from repl.screen.listing import Listing, PageRow
from repl.screen.trace.source import trace_name
from tracer.clock import now_epoch_ms
from tracer.rows.waterfall import read_waterfall
from tracer.statedir import StateDir

_AGAIN_S = 1.0


class WaterfallScreen(Listing):
    """The waterfall of the task's trace at `path`; `show_event` is told the line of the bar that was chosen."""

    columns = ("what · how long · tokens · when",)
    empty = ("nothing has taken time yet", "")
    BINDINGS = KEYS["waterfall"]
    HELP = "What the time went into. Enter shows the event behind a bar; space folds what stands below it."

    def __init__(self, path: Path, *, title: str, show_event: Callable[[int], object]) -> None:
        super().__init__()
        self.heading = title
        self._path, self._show_event = path, show_event
        self._folded: frozenset[Place] = frozenset()
        self._width = 80

    @override
    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(_AGAIN_S, self._look_again)

    @override
    def on_resize(self, event: Resize) -> None:
        self._width = event.size.width - 3
        super().on_resize(event)
        self.action_look()

    def _look_again(self) -> None:
        if any(row.value.open for row in self._rows):
            self.action_look()

    @override
    def read(self) -> Sequence[PageRow]:
        state_dir = StateDir(self._path.parents[1])  # it holds traces/
        works = state_dir.writer_of(trace_name(self._path)) is not None
        now_ms = now_epoch_ms() if works else None
        found = read_waterfall(self._path, project=state_dir.project, now_ms=now_ms)
        return [
            PageRow((line.text,), line) for line in waterfall_lines(found, columns=self._width, folded=self._folded)
        ]

    @override
    def open(self, value: Any) -> None:
        self.dismiss()
        self._show_event(value.seq)

    @override
    def content(self, row: PageRow, width: int) -> Content:
        line: BarLine = row.value
        content = super().content(row, width)
        start = len(line.text) - len(line.bar.lstrip())
        tone = {"x": "$text-error", "v": "$text-success"}.get(line.mark, "$text-primary")
        return content.stylize(tone, start)

    def action_fold(self) -> None:
        row = self.selected()
        if row is not None:
            self._folded = self._folded ^ {row.value.place}
            self.action_look()
