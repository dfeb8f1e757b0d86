"""Two texts, or a unified diff, as lines for a diff view. Pure.

Lines are matched by difflib where that is quick; texts past `MAX_MATCHED` lines are compared by their common beginning
and end alone, and the first line says so.
"""

from __future__ import annotations

import difflib
from typing import Final, Literal, NamedTuple

__all__ = ["MAX_MATCHED", "DiffLine", "compare", "from_unified"]

MAX_MATCHED: Final = 5_000
Kind = Literal["same", "gone", "new", "changed", "note"]


class DiffLine(NamedTuple):
    """One row: the old text left, the new text right; `changed` has both, `note` stands across."""

    kind: Kind
    left: str
    right: str


def compare(old: str, new: str) -> list[DiffLine]:
    """`old` and `new` line by line."""
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
