"""What a trace adds up to, gathered while it is indexed: verdicts, tokens, money, times, and how it ends.

Fed one row at a time; of long answers only the end of the line is read, where usage and cost stand. FINAL_SUMMARY's own
totals win over the sums. Cost unknown for any answer makes the sum unknown: never 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from tracer.facts import FinalSummary, Usage, read_fact
from tracer.rows.row import Row
from tracer.rows.row_file import RowFile

_TAIL: Final = 16 << 10
_USAGE: Final = re.compile(rb'"usage":(\{[^{}]*\})')
_COST: Final = re.compile(rb'"cost_usd":([0-9.eE+-]+|null)')
_KEPT: Final = 50


@dataclass(slots=True)
class Totals:
    """Sums so far. `judgments` keeps the last 50; `tokens` and `cost_usd` are None while nothing was told."""

    family: str = ""
    judgments: list[str] = field(default_factory=list)
    judged: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    cost_unknown: bool = False
    first_ms: int | None = None
    last_ms: int | None = None
    last_event: str = ""
    status: str = ""
    iterations: int = 0
    failed: int = 0


class Digest:
    """Totals over the rows fed so far (`done` lines)."""

    def __init__(self, file: RowFile) -> None:
        self.totals = Totals()
        self.done = 0
        self._file = file
        self._generation = file.generation

    def step(self, lines: int = 16) -> bool:
        """Take in up to `lines` further lines; whether any were left."""
        if self._generation != self._file.generation:
            self.totals, self.done, self._generation = Totals(), 0, self._file.generation
        stop = min(self._file.index.count, self.done + lines)
        if self.done >= stop:
            return False
        for seq in range(self.done, stop):
            try:
                self._add(self._file.row(seq))
            except IndexError:
                return False
            self.done = seq + 1
        return True

    def _add(self, row: Row) -> None:
        totals = self.totals
        totals.failed += row.mark == "x"
        if row.kind != "fact":
            return
        totals.family = totals.family or row.family
        if row.epoch_ms is not None:
            totals.first_ms = row.epoch_ms if totals.first_ms is None else totals.first_ms
            totals.last_ms = row.epoch_ms
        iteration = row.group.iteration
        totals.last_event = row.event if iteration is None else f"{row.event}[{iteration}]"
        if row.event == "QUALITY_JUDGMENT":
            totals.judged += 1
            totals.judgments = [*totals.judgments, row.summary.split(" ", 1)[0]][-_KEPT:]
        elif row.event in {"LLM_RESPONSE", "SESSION_INTERRUPTED"}:
            self._answer(row)
        elif row.event == "ITERATION_END":
            totals.iterations += 1
        elif row.event == "FINAL_SUMMARY":
            self._final(row)
        elif row.event == "USER_REQUEST":
            totals.status = ""

    def _answer(self, row: Row) -> None:
        size = min(row.size, _TAIL)
        end = self._file.peek(row.offset + row.size - size, size)
        found = _USAGE.search(end)
        if found:
            usage = _loaded(found.group(1))
            if isinstance(usage, dict) and (count := Usage(usage).total) is not None:
                self.totals.tokens = (self.totals.tokens or 0) + count
        told = _COST.findall(end)  # those before its own are of each model, in the whole session
        cost = _loaded(told[-1]) if told else None
        if isinstance(cost, int | float):
            self.totals.cost_usd = (self.totals.cost_usd or 0.0) + cost
        elif found:
            self.totals.cost_unknown = True

    def _final(self, row: Row) -> None:
        final = read_fact(self._file.decode(row).value)
        if not isinstance(final, FinalSummary):
            return
        totals = self.totals
        totals.status = final.status
        if final.total_iterations is not None:
            totals.iterations = final.total_iterations
        if final.usage is not None:
            totals.tokens = final.usage.total
        if final.cost_usd is not None:
            totals.cost_usd, totals.cost_unknown = float(final.cost_usd), False


def _loaded(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
