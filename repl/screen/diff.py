"""The diff screen, and two texts or a unified diff as its lines."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
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

MAX_MATCHED: Final = 5_000
Kind = Literal["same", "gone", "new", "changed", "note"]


class DiffLine(NamedTuple):
    """One row: the old text left, the new text right; `changed` has both, `note` stands across."""

    kind: Kind
    left: str
    right: str


def compare(old: str, new: str) -> list[DiffLine]:
    before, after = old.split("\n"), new.split("\n")
    if old == new:
        return [DiffLine("note", "the two are the same", ""), *(DiffLine("same", line, line) for line in before)]
    if max(len(before), len(after)) > MAX_MATCHED:
        return _by_ends(before, after)
    lines: list[DiffLine] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=True)
    for tag, start, stop, first, last in matcher.get_opcodes():
        if tag == "equal":
            lines += [DiffLine("same", line, line) for line in before[start:stop]]
        else:
            lines += _pairs(before[start:stop], after[first:last])
    return lines


def from_unified(text: str) -> list[DiffLine]:
    """The lines of a unified diff: headers across, removed lines left of what replaced them."""
    lines: list[DiffLine] = []
    gone: list[str] = []
    new: list[str] = []
    for line in text.split("\n"):
        if line.startswith("-") and not line.startswith("--- "):
            gone.append(line[1:])
        elif line.startswith("+") and not line.startswith("+++ "):
            new.append(line[1:])
        else:
            lines += _pairs(gone, new)
            gone, new = [], []
            if line.startswith(" "):
                lines.append(DiffLine("same", line[1:], line[1:]))
            elif line:
                lines.append(DiffLine("note", line, ""))
    return lines + _pairs(gone, new)


def _pairs(gone: list[str], new: list[str]) -> list[DiffLine]:
    both = min(len(gone), len(new))
    lines = [DiffLine("changed", old, fresh) for old, fresh in zip(gone, new, strict=False)]
    lines += [DiffLine("gone", line, "") for line in gone[both:]]
    return lines + [DiffLine("new", "", line) for line in new[both:]]


def _by_ends(before: list[str], after: list[str]) -> list[DiffLine]:
    limit = min(len(before), len(after))
    start = 0
    while start < limit and before[start] == after[start]:
        start += 1
    end = 0
    while end < limit - start and before[-1 - end] == after[-1 - end]:
        end += 1
    note = DiffLine("note", f"more than {MAX_MATCHED:,} lines: only the same beginning and end are matched", "")
    head = [DiffLine("same", line, line) for line in before[:start]]
    middle = _pairs(before[start : len(before) - end], after[start : len(after) - end])
    return [note, *head, *middle, *(DiffLine("same", line, line) for line in before[len(before) - end :])]


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
