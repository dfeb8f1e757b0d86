"""The trace page: events in pages however many there are, one of them in full, and the waterfall with its outline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import orjson
from fastapi import APIRouter, Query, Request

from service.pages.task import Page, find_task, render
from service.pages.values import Shown, line_of, shown
from service.state import state_of
from tracer.catalog.tasks import list_tasks
from tracer.clock import monotonic, now_epoch_ms, seconds_text
from tracer.errors import NotFoundError, UsageError
from tracer.redaction.redactor import Clean
from tracer.rows.filters import NO_FILTER, Filter, parse
from tracer.rows.row import Row
from tracer.rows.row_file import RowFile
from tracer.rows.search import holds, look_for
from tracer.rows.waterfall import Bar, Lane, Waterfall, read_waterfall
from tracer.statedir import StateDir

router = APIRouter(include_in_schema=False)

_PAGE: Final = 200
_CHUNK: Final = 1 << 20
_LOOK_S: Final = 0.5
"""How long a filter may look at once; the page says how far it came."""
_BLOCK: Final = 1 << 17
_SMALL: Final = 2_000
"""Events up to which the waterfall is drawn without being asked for."""
_TOOLS: Final = 200  # of one answer
_BARS: Final = 2_000
_WIDTH: Final = 1_000


class Rows(NamedTuple):
    """A page of events; `following` is the number to go on from, None at the end; `looked` how far a filter came."""

    rows: tuple[Row, ...]
    following: int | None
    looked: int


class BarView(NamedTuple):
    """One bar of the waterfall in user units, with what it is made of."""

    bar: Bar
    x: float
    width: float
    took: str
    below: tuple[BarView, ...]
    left_out: int


@router.get("/tasks/{task_id}/trace")
async def trace_page(
    request: Request,
    task_id: str,
    q: Annotated[str, Query(max_length=500)] = "",
    start: Annotated[int, Query(ge=0, le=1 << 40, alias="from")] = 0,
    fact: Annotated[int | None, Query(ge=0, le=1 << 40)] = None,
    *,
    part: bool = False,
    waterfall: bool = False,
) -> Page:
    state_dir = state_of(request).state_dir
    problem, wanted = "", NO_FILTER
    try:
        wanted = parse(q)
    except UsageError as error:
        problem = ": ".join(filter(None, (error.what, error.why)))
    ref = await asyncio.to_thread(find_task, state_dir, task_id)
    values: dict[str, Any] = {"task_id": task_id, "query": q, "problem": problem}
    if part and fact is not None:
        one = await asyncio.to_thread(_fact, ref.path, fact)
        return Page(render("trace_part.html", chunk=None, one=one, fact=fact, **values))
    if fact is not None and not start:
        start = max(0, fact - 5)
    chunk = await asyncio.to_thread(read_rows, ref.path, wanted, start)
    values |= {"chunk": chunk, "start": start, "before": max(0, start - _PAGE) if start and not wanted else None}
    if part:
        return Page(render("trace_part.html", one=None, fact=None, **values))
    page = await asyncio.to_thread(_page, state_dir, ref.path, fact, waterfall=waterfall, **values)
    return Page(page, status_code=422 if problem else 200)


def _page(state_dir: StateDir, path: Path, fact: int | None, *, waterfall: bool, **values: Any) -> Clean:
    row = next(iter(list_tasks(state_dir, task_id=values["task_id"])), None)
    total = row.facts if row is not None else 0
    drawn = None
    if waterfall or total <= _SMALL:
        working = row is not None and row.status == "RUNNING"
        found = read_waterfall(path, project=state_dir.project, now_ms=now_epoch_ms() if working else None)
        drawn = waterfall_view(found)
    one = _fact(path, fact) if fact is not None else None
    return render("trace.html", total=total, lanes=drawn, one=one, fact=fact, **values)


def read_rows(path: Path, wanted: Filter, start: int) -> Rows:
    """Up to 200 events from number `start` on that fit; what is before it is not decoded.

    Raises NotFoundError: the file is gone.
    """
    with closing(RowFile(path)) as file:
        return _rows(file, path, wanted, start)


def _rows(file: RowFile, path: Path, wanted: Filter, start: int) -> Rows:
    found: list[Row] = []
    tests = [look_for(text) for text in wanted.texts]
    names = [name.encode() for name in wanted.events] if all(name.isascii() for name in wanted.events) else []
    names = [] if any(name.endswith(b"*") for name in names) else [b'"%s"' % name for name in names]
    until = monotonic() + _LOOK_S
    seq = start
    with path.open("rb") as stream:
        offset = _line_start(stream, start)
        if offset is None:
            return Rows((), None, start)
        stream.seek(offset)
        while block := stream.read(_BLOCK):
            block += stream.readline()
            if not (_near(block, names) and all(test(block) != "no" for test in tests)):
                offset, seq = offset + len(block), seq + block.count(b"\n")
                if monotonic() > until:
                    return Rows((*found,), seq, seq)
                continue
            end = offset + len(block)
            for line in block.removesuffix(b"\n").split(b"\n"):
                whole = offset + len(line) < end
                if _near(line, names) and all(test(line) != "no" for test in tests):
                    row = file.row_at(offset, len(line), seq=seq, whole=whole)
                    if not wanted or holds(file, row, wanted, tests):
                        if len(found) == _PAGE:
                            return Rows(tuple(found), seq, seq)
                        found.append(row)
                offset, seq = offset + len(line) + 1, seq + 1
                if wanted and not seq % 256 and monotonic() > until:
                    return Rows(tuple(found), seq, seq)
    return Rows(tuple(found), None, seq)


def _near(data: bytes, names: list[bytes]) -> bool:
    return not names or any(name in data for name in names)


def _line_start(stream: Any, number: int) -> int | None:
    """The byte at which line `number` begins; None where there are fewer."""
    offset = 0
    while number:
        chunk = stream.read(_CHUNK)
        if not chunk:
            return None
        count = chunk.count(b"\n")
        if count < number:
            number, offset = number - count, offset + len(chunk)
            continue
        at = -1
        for _ in range(number):
            at = chunk.find(b"\n", at + 1)
        return offset + at + 1
    return offset


def _fact(path: Path, seq: int) -> Shown:
    """One event as it is stored. Raises NotFoundError: there is none of this number."""
    found = read_rows(path, NO_FILTER, seq).rows
    if not found:
        raise NotFoundError(f"there is no event {seq}", next_step="open the list of events")
    with closing(RowFile(path)) as file:
        told = file.decode(found[0])
    if told.value is None:
        return shown(told.raw.decode("utf-8", "replace"))
    return shown(orjson.dumps(told.value, option=orjson.OPT_INDENT_2).decode())


def waterfall_view(found: Waterfall) -> list[tuple[Lane, tuple[BarView, ...]]]:
    """The lanes as trees of bars, drawn to one scale; of very many bars the first."""
    scale = _WIDTH / (found.total_ms or 1)
    left = _BARS
    lanes = []
    for lane in found.lanes:
        bars = lane.bars[:left]
        left -= len(bars)
        lanes.append((lane, tuple(_tree(iter(bars), scale))))
    return lanes


def _tree(bars: Iterator[Bar], scale: float) -> list[BarView]:
    """The bars, which come in the order to draw them, each below the one it is part of."""
    roots: list[tuple[Bar, list[Any]]] = []
    stack: list[tuple[Bar, list[Any]]] = []
    for bar in bars:
        node: tuple[Bar, list[Any]] = (bar, [])
        while stack and stack[-1][0].depth >= bar.depth:
            stack.pop()
        (stack[-1][1] if stack else roots).append(node)
        stack.append(node)
    return [_drawn(node, scale) for node in roots]


def _drawn(node: tuple[Bar, list[Any]], scale: float) -> BarView:
    bar, below = node
    start, end = bar.start_ms or 0, bar.end_ms or 0
    bar = bar._replace(name=line_of(bar.name), detail=line_of(bar.detail, limit=160))
    took = seconds_text(bar.duration_ms)
    parts = tuple(_drawn(each, scale) for each in below[:_TOOLS])
    x = min(start * scale, _WIDTH - 2)
    width = 0 if bar.start_ms is None else max(2.0, (end - start) * scale)
    return BarView(bar, round(x, 1), round(min(width, _WIDTH - x), 1), took, parts, len(below) - len(parts))
