"""A diff as pages show it: lines with their numbers, syntax colours, and the findings that stand at them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from tracer.facts import Issue
from tracer.trace_text import escape_controls
from tracer.unified_diff import LineKind, hunk_header, in_columns

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_MOST: Final = 2_000
_LONG: Final = 500  # characters of a line that is coloured
_COLOURED: Final = 100_000  # characters of a hunk that is coloured
_NAME: Final = re.compile(r'\+\+\+ "?b/(.*?)"?\t?$')
_HEADS: Final = ("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "rename ", "old mode", "new mode")
_KINDS: Final[dict[str, LineKind]] = {"+": "added", "-": "removed", " ": "same"}
# The first that fits the beginning of Pygments' short name of a token.
_CLASSES: Final = (("k", "k"), ("ow", "k"), ("s", "s"), ("c", "c"), ("m", "m"), ("nf", "f"), ("nc", "f"), ("nd", "f"))

Spans = tuple[tuple[str, str], ...]
Findings = Mapping[tuple[str, int], tuple[str, ...]]


class DiffLine(NamedTuple):
    """One line; `kind` is added, removed, place, file or same. `spans` are its parts with their class of colour.

    `old` and `new` are its numbers before and after, None where it has none.
    """

    kind: LineKind
    text: str
    old: int | None = None
    new: int | None = None
    spans: Spans = ()
    findings: tuple[str, ...] = ()


def findings_at(issues: Iterable[Issue]) -> dict[tuple[str, int], tuple[str, ...]]:
    """The words of each finding by path and line."""
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for one in issues:
        if one.path and one.line is not None:
            words = " ".join(part for part in (one.criterion, one.message or one.excerpt, one.suggestion) if part)
            found[one.path, one.line] = (*found.get((one.path, one.line), ()), escape_controls(words))
    return found


def diff_lines(text: str, findings: Findings | None = None) -> tuple[DiffLine, ...]:
    """The lines of a unified diff; at most 2,000."""
    lines = text.split("\n")
    kept: list[DiffLine] = []
    path, at = "", 0
    while at < min(len(lines), _MOST):
        line = lines[at]
        at += 1
        if found := hunk_header(line.encode("utf-8", "replace")):
            kept.append(DiffLine("place", escape_controls(line)))
            left = [found.old_count, found.new_count]
            start = at
            while at < len(lines) and (max(left) > 0 or lines[at].startswith("\\")):  # what it says it has, no more
                left[0] -= lines[at][:1] in {"-", " ", ""}
                left[1] -= lines[at][:1] in {"+", " ", ""}
                at += 1
            kept += hunk_lines(path, found.old_start, found.new_start, lines[start : min(at, _MOST)], findings)
            continue
        if name := _NAME.match(line):
            path = name[1]
        kept.append(DiffLine("file" if line.startswith(_HEADS) else "place", escape_controls(line)))
    if len(lines) > at:
        kept.append(DiffLine("place", f"… {len(lines) - at} more lines"))
    return tuple(kept)


def hunk_lines(
    path: str, old: int, new: int, lines: Sequence[str], findings: Findings | None = None
) -> Iterator[DiffLine]:
    """The lines of one hunk, which begins at line `old` before and at line `new` after."""
    coloured = _colours(path, lines)
    for line, spans in zip(lines, coloured, strict=True):
        kind = _KINDS.get(line[:1], "same" if not line else "place")
        here = kind in {"removed", "same"}, kind in {"added", "same"}
        said = findings.get((path, new), ()) if findings and here[1] else ()
        yield DiffLine(kind, escape_controls(line), old if here[0] else None, new if here[1] else None, spans, said)
        old, new = old + here[0], new + here[1]


def side_by_side(lines: Iterable[DiffLine]) -> Iterator[tuple[DiffLine | None, DiffLine | None]]:
    """The lines in two columns: what was removed beside what came in its place."""
    return ((left, right) for _, left, right in in_columns((line.kind, line) for line in lines))


def _colours(path: str, lines: Sequence[str]) -> list[Spans]:
    """The parts of each line: those after the change are read together, and those before it."""
    plain: list[Spans] = [(("", escape_controls(line)),) for line in lines]
    lexer = _lexer(path.rpartition("/")[2]) if sum(map(len, lines)) <= _COLOURED else None
    if lexer is None or any(len(line) > _LONG for line in lines):
        return plain
    for marks in ("- ", "+ "):
        chosen = [number for number, line in enumerate(lines) if line[:1] and line[0] in marks]
        parts = _by_line(lexer, "\n".join(lines[number][1:] for number in chosen))
        for number, spans in zip(chosen, parts, strict=False):
            plain[number] = (("", lines[number][0]), *spans)
    return plain


def _by_line(lexer: Lexer, text: str) -> list[Spans]:
    from pygments.token import STANDARD_TYPES  # with the lexer: 15 ms for pages that show code

    found: list[list[tuple[str, str]]] = [[]]
    for token, value in lexer.get_tokens(text):
        short = STANDARD_TYPES.get(token, "")
        css = next((name for begins, name in _CLASSES if short.startswith(begins)), "")
        for number, part in enumerate(value.split("\n")):
            if number:
                found.append([])
            if part:
                found[-1].append((css, escape_controls(part)))
    return [tuple(spans) for spans in found]


@lru_cache(64)
def _lexer(name: str) -> Lexer | None:
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
