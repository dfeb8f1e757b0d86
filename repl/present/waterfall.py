"""The waterfall of a task (`tracer.rows.waterfall`) in lines: what, how long, tokens, and a bar on one scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from repl.present.text import ascii_only, count_text, one_line, tokens_text, width_cut
from tracer.clock import seconds_text
from tracer.rows.waterfall import Bar, Lane, Waterfall

_FULL, _OPEN, _INSTANT = "█", "░", "│"
_LABEL, _LEAST, _USUAL = 26, 16, 100  # cells: of a label at least, of a bar at least, of a line without a terminal

Place = tuple[int, int]  # the numbers of a lane and of its bar, -1 for the lane's own line


class BarLine(NamedTuple):
    """One line. `place` names it for folding, `seq` is the event that tells it; `hidden` counts what it folds away."""

    text: str
    place: Place
    seq: int
    mark: str = ""
    bar: str = ""
    open: bool = False
    hidden: int = 0


def waterfall_lines(
    found: Waterfall, *, columns: int, folded: frozenset[Place] = frozenset(), most_tools: int = 0, plain: bool = False
) -> list[BarLine]:
    """The bars in lines of `columns`; what stands below a place in `folded` is left out.

    `most_tools`: of one answer's tool calls only so many, the longest (0: all). `plain`: in ASCII.
    """
    from rich.cells import set_cell_size  # 5 ms, for wide characters

    shown = [one for at, lane in enumerate(found.lanes) for one in _shown(lane, at, folded, most_tools)]
    tokens = any(bar.tokens for _, bar, _ in shown)
    width = columns or _USUAL
    label = max(_LABEL, width * 2 // 5)
    room = max(width - label - (24 if tokens else 12), _LEAST)
    lines = []
    for place, bar, hidden in shown:
        more = f" (+{hidden})" if hidden else ""
        text = "  " * bar.depth + (f"{bar.mark} " if bar.mark else "") + one_line(f"{bar.name}  {bar.detail}".rstrip())
        cut = width_cut(text, label - len(more) - 2 * plain) + more  # the mark of a cut is three letters in ASCII
        left = set_cell_size(ascii_only(cut) if plain else cut, label)
        took = seconds_text(bar.duration_ms)
        told = f" {tokens_text(bar.tokens, short=True) if bar.tokens else '':>11}" if tokens else ""
        picture = _picture(bar, found.total_ms, room)
        lines.append(
            BarLine(f"{left} {took:>10}{told} {picture}".rstrip(), place, bar.seq, bar.mark, picture, bar.open, hidden)
        )
    return lines


def _shown(lane: Lane, at: int, folded: frozenset[Place], most_tools: int) -> Iterator[tuple[Place, Bar, int]]:
    """The bars of lane `at` that are shown, each with its place and how many it hides."""
    place, lift = (at, -1), 0
    if lane.id:  # a subtask: a line of its own above its bars
        hidden = len(lane.bars) if place in folded else 0
        yield place, _lane_bar(lane), hidden
        if hidden:
            return
        lift = 1
    longest = _longest(lane.bars, most_tools)
    under: int | None = None  # the depth whose inner bars are folded away
    for number, bar in enumerate(lane.bars):
        if under is not None and bar.depth > under:
            continue
        under = None
        place = (at, number)
        inner = _inner(lane.bars, number)
        hidden = len(inner) if place in folded else 0
        if hidden:
            under = bar.depth
        elif bar.kind == "tool" and longest is not None and number not in longest:
            continue
        elif longest is not None:
            hidden = sum(inner_bar.kind == "tool" and at not in longest for at, inner_bar in inner)
            hidden = hidden if bar.kind == "request" else 0
        yield place, bar._replace(depth=bar.depth + lift), hidden


def _inner(bars: Sequence[Bar], number: int) -> list[tuple[int, Bar]]:
    found = []
    for at in range(number + 1, len(bars)):
        if bars[at].depth <= bars[number].depth:
            break
        found.append((at, bars[at]))
    return found


def _longest(bars: Sequence[Bar], most: int) -> set[int] | None:
    """The numbers of the tool calls that are shown, `most` of each answer; None where all are."""
    if not most:
        return None
    kept: set[int] = set()
    for number, bar in enumerate(bars):
        if bar.kind == "request":
            tools = [at for at, inner in _inner(bars, number) if inner.kind == "tool"]
            kept.update(sorted(tools, key=lambda at: -(bars[at].duration_ms or 0))[:most])
    return kept


def _lane_bar(lane: Lane) -> Bar:
    """A subtask's own line: from where it begins to where it ends."""
    starts = [bar.start_ms for bar in lane.bars if bar.start_ms is not None]
    ends = [bar.end_ms for bar in lane.bars if bar.end_ms is not None]
    last = next((bar for bar in reversed(lane.bars) if bar.kind == "iteration"), None)
    tokens = sum(bar.tokens or 0 for bar in lane.bars) or None
    return Bar(
        "iteration", 0, f"subtask {lane.id.rpartition('-')[2]}", lane.bars[0].seq, min(starts, default=None),
        max(ends, default=None), any(bar.open for bar in lane.bars), last.mark if last else "", tokens, lane.title,
    )  # fmt: skip


def _picture(bar: Bar, total: int, room: int) -> str:
    if bar.start_ms is None or bar.end_ms is None:
        return ""
    first = min(bar.start_ms * room // max(total, 1), room - 1)
    after = -(-bar.end_ms * room // max(total, 1))  # rounded up: what took time has a cell
    if bar.end_ms == bar.start_ms and not bar.open:
        return " " * first + _INSTANT
    cells = max(min(after, room) - first, 1)
    return " " * first + _FULL * (cells - bar.open) + (_OPEN if bar.open else "")


def heading(found: Waterfall) -> str:
    """What the lines show, in words: `7.9 s · 2 lanes`."""
    count = len({lane.id for lane in found.lanes})
    lanes = count_text(count, "lane") if count > 1 else ""
    return " · ".join(part for part in (seconds_text(found.total_ms), lanes) if part)
