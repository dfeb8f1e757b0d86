"""The diff screen, and two texts or a unified diff as its lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final, Literal, NamedTuple

from rich.segment import Segment
from textual.app import ComposeResult
from textual.events import Resize
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static
from typing_extensions import override

from repl.present.cells import fit, shown
from repl.screen.hints import Hints
from repl.screen.keymap import KEYS
from repl.screen.line_view import LineView
from tracer.unified_diff import LineKind, in_columns, kinds_of_lines, same_ends

MAX_MATCHED: Final = 5_000
Kind = Literal["same", "gone", "new", "changed", "note"]
_KINDS: Final[dict[LineKind, Kind]] = {"same": "same", "removed": "gone", "added": "new", "changed": "changed"}


class DiffLine(NamedTuple):
    """One row: the old text left, the new text right; `changed` has both, `note` stands across."""

    kind: Kind
    left: str
    right: str


def compare(old: str, new: str) -> list[DiffLine]:
    before, after = old.split("\n"), new.split("\n")
    if old == new:
        return _rows([("note", "the two are the same"), *_all("same", before)])
    if max(len(before), len(after)) > MAX_MATCHED:
        return _rows(_by_ends(before, after))
    lines: list[tuple[LineKind, str]] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=True)
    for tag, start, stop, first, last in matcher.get_opcodes():
        if tag == "equal":
            lines += _all("same", before[start:stop])
        else:
            lines += [*_all("removed", before[start:stop]), *_all("added", after[first:last])]
    return _rows(lines)


def from_unified(text: str) -> list[DiffLine]:
    """The lines of a unified diff: headers across, removed lines left of what replaced them."""
    return _rows(kinds_of_lines(line for line in text.split("\n") if line))


def _rows(lines: Iterable[tuple[LineKind, str]]) -> list[DiffLine]:
    return [DiffLine(_KINDS.get(kind, "note"), left or "", right or "") for kind, left, right in in_columns(lines)]


def _all(kind: LineKind, lines: Iterable[str]) -> Iterable[tuple[LineKind, str]]:
    return ((kind, line) for line in lines)


def _by_ends(before: list[str], after: list[str]) -> Iterator[tuple[LineKind, str]]:
    start, end = same_ends(before, after)
    yield "note", f"more than {MAX_MATCHED:,} lines: only the same beginning and end are matched"
    yield from _all("same", before[:start])
    yield from _all("removed", before[start : len(before) - end])
    yield from _all("added", after[start : len(after) - end])
    yield from _all("same", before[len(before) - end :])


_WIDE = 100


class DiffView(LineView):
    """Shows `lines`; side by side where `side_by_side` is true."""

    STYLE_PREFIX = "diff"
    COMPONENT_CLASSES: ClassVar[set[str]] = {"diff--gone", "diff--new", "diff--note"}

    def __init__(self, lines: Sequence[DiffLine]) -> None:
        super().__init__()
        self.lines = lines
        self.side_by_side: bool | None = None
        self.wide = False
        self._shown: list[tuple[str, str, str]] = []

    def on_resize(self, _event: Resize) -> None:
        self.lay_out()

    def lay_out(self) -> None:
        self.wide = self.size.width >= _WIDE if self.side_by_side is None else self.side_by_side
        rows: list[tuple[str, str, str]] = []
        for line in self.lines:
            if line.kind == "note" or self.wide:
                rows.append(line)
            elif line.kind == "same":
                rows.append(("same", line.left, ""))
            else:
                rows += [("gone", line.left, "")] if line.kind in {"gone", "changed"} else []
                rows += [("new", line.right, "")] if line.kind in {"new", "changed"} else []
        self._shown = rows
        self.lines_changed()

    @override
    def line_count(self) -> int:
        return len(self._shown)

    def jump(self, *, backwards: bool) -> None:
        here = self.scroll_offset.y
        starts = [
            number
            for number, row in enumerate(self._shown)
            if row[0] not in {"same", "note"} and (number == 0 or self._shown[number - 1][0] in {"same", "note"})
        ]
        later = [start for start in starts if (start < here if backwards else start > here)]
        if later:
            self.scroll_to(y=later[-1 if backwards else 0], animate=False, immediate=True)

    @override
    def line(self, number: int, width: int) -> Strip:
        kind, left, right = self._shown[number]
        columns = self.wide and kind != "note"
        return Strip(self._columns(kind, left, right, width) if columns else self._one(kind, left))

    def _one(self, kind: str, text: str) -> list[Segment]:
        mark = {"gone": "- ", "new": "+ ", "note": ""}.get(kind, "  ")
        return [Segment(mark + shown(text), None if kind == "same" else self.tone(kind))]

    def _columns(self, kind: str, left: str, right: str, width: int) -> list[Segment]:
        half = (width - 3) // 2
        gone = self.tone("gone") if kind in {"gone", "changed"} else None
        new = self.tone("new") if kind in {"new", "changed"} else None
        mark = {"gone": "-", "new": "+", "changed": "~"}.get(kind, " ")
        return [Segment(fit(shown(left), half), gone), Segment(f" {mark} "), Segment(fit(shown(right), half), new)]


class DiffScreen(Screen[None]):
    """A diff with its title; Esc or q goes back."""

    BINDINGS = KEYS["diff"]
    HELP = "The two versions line by line: - only left, + only right, ~ changed. n and N go from change to change."

    def __init__(self, title: str, lines: Sequence[DiffLine]) -> None:
        super().__init__()
        self._heading = title
        self._diff = lines

    @override
    def compose(self) -> ComposeResult:
        yield Static(shown(self._heading), id="diff-title", markup=False)
        yield DiffView(self._diff)
        yield Hints()

    def on_mount(self) -> None:
        self.query_one(DiffView).focus()

    def action_jump(self, backwards: bool) -> None:  # noqa: FBT001 - written in the binding
        self.query_one(DiffView).jump(backwards=backwards)

    def action_flip(self) -> None:
        view = self.query_one(DiffView)
        view.side_by_side = not view.wide
        view.lay_out()
