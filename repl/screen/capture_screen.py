"""One capture: the viewer's timeline and detail, with the thoughts that speak of the selected action beside them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static
from typing_extensions import override

from repl.screen.capture_thoughts import Thought, Thoughts
from repl.screen.captures import CaptureRow
from repl.screen.cells import shown
from repl.screen.hints import Hints
from repl.screen.trace_view import TraceScreen

__all__ = ["CaptureScreen"]


class CaptureScreen(TraceScreen):
    """Shows `capture`, whose events are in `path`; `temporary` removes that file when the screen is left."""

    HELP = (
        "A captured session as a timeline: the selected event in full beside it, and below it what the person\n"
        "thought about it. T goes to the next thought. The other keys are the trace viewer's."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("T", "next_thought", "next thought", id="capture.next_thought"),
    ]
    DEFAULT_CSS = """
    CaptureScreen {
        & > #capture-thoughts {
            height: auto; max-height: 9; border: round $border-blurred; &:focus { border: round $border; }
        }
    }
    """

    def __init__(self, capture: CaptureRow, path: Path, *, temporary: bool = False) -> None:
        super().__init__(path)
        self._capture = capture
        self._thoughts = Thoughts(path)
        self._temporary = path if temporary else None
        self._seen = -1

    @override
    def compose(self) -> ComposeResult:
        """The viewer's, with the thoughts above the keys."""
        for widget in super().compose():
            if isinstance(widget, Hints):
                with VerticalScroll(id="capture-thoughts") as pane:
                    pane.border_title = "Thoughts"
                    yield Static(id="capture-text", markup=False)
            yield widget

    @override
    def on_unmount(self) -> None:
        """Nothing stays behind."""
        super().on_unmount()
        if self._temporary is not None:
            with suppress(OSError):
                self._temporary.unlink()

    @override
    def tick(self) -> None:
        """Take over what is new, thoughts too."""
        super().tick()
        if self.model.file.size != self._seen:
            self._seen = self.model.file.size
            self._read_thoughts()

    @work(thread=True, exclusive=True, group="thoughts")
    def _read_thoughts(self) -> None:
        if self._thoughts.read_on():
            self.app.call_from_thread(self._show_thoughts)

    @override
    def show_state(self) -> None:
        """The title names the capture and what its checks came to."""
        super().show_state()
        capture = self._capture
        parts = (capture.trace_id[:8], capture.state, capture.title, capture.checks)
        self._write("#trace-title", " " + shown(" · ".join(part for part in parts if part)))

    @override
    def show_detail(self) -> None:
        """The selected event, and the thoughts about it."""
        super().show_detail()
        self._show_thoughts()

    def _show_thoughts(self) -> None:
        found = self._about_selected()
        text = "\n".join(f"{shown(each.kind)}: {shown(each.text)}" for each in found)
        self._write("#capture-text", text or "nothing was noted about this")

    def _about_selected(self) -> tuple[Thought, ...]:
        decoded = self.detail.decoded
        value = decoded.value if decoded is not None else None
        return self._thoughts.about(str(value.get("event_id"))) if value is not None else ()

    def action_next_thought(self) -> None:
        """Go to the next thought, from the top again after the last."""
        row = self.facts.row()
        start = row.seq if row is not None and row.seq is not None else -1
        count = self.model.file.count
        for seq in (*range(start + 1, count), *range(min(start + 1, count))):
            if self.model.file.row(seq).event == "thought":
                self.go_to_line(str(seq))
                return
        self.notify("no thoughts in this capture")
