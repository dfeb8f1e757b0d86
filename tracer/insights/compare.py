"""Two runs, or two groups of runs of one prompt each, side by side. Pure.

For each measure: how many runs tell it, the median, and an interval that holds the true median with at least the
stated confidence whatever the distribution (from order statistics). Below 5 runs a side there is no interval and no
verdict, only `too few runs`: a difference between two single runs says nothing about their prompts.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from tracer.insights.loops import find_loops
from tracer.insights.model import Trace

__all__ = ["FEWEST", "TOO_FEW", "Comparison", "Measured", "Row", "compare", "median_interval"]

FEWEST = 5
TOO_FEW: Final = "too few runs"
_CONFIDENCE = 0.95
Verdict = Literal["lower", "higher", "no clear difference", "too few runs"]


class Measured(NamedTuple):
    """One side of one measure. `low`, `high` and `confidence` are None where there are too few runs."""

    n: int
    median: float | None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None


class Row(NamedTuple):
    """One measure of both sides; `verdict` tells B against A."""

    measure: str
    unit: str
    a: Measured
    b: Measured
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both sides' run counts and every measure that at least one run tells."""

    a_runs: int
    b_runs: int
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        rows = [row._asdict() | {"a": row.a._asdict(), "b": row.b._asdict()} for row in self.rows]
        enough = min(self.a_runs, self.b_runs) >= FEWEST
        return {"a": {"n": self.a_runs}, "b": {"n": self.b_runs}, "enough": enough, "measures": rows}


def _told(*path: str) -> Callable[[Trace], float | None]:
    return lambda trace: trace.number(*path)


def _failed_calls(trace: Trace) -> float:
    return sum(step.failed for step in trace.steps)


def _thoughts(trace: Trace) -> float:
    return sum(step.kind == "thought" for step in trace.steps)


def _succeeded(trace: Trace) -> float | None:
    return None if trace.success is None else float(trace.success)


_MEASURES: tuple[tuple[str, str, Callable[[Trace], float | None]], ...] = (
    ("success", "share", _succeeded),
    ("duration", "s", _told("duration_sec")),
    ("cost", "USD", _told("cost_usd")),
    ("input tokens", "tokens", _told("tokens", "input")),
    ("output tokens", "tokens", _told("tokens", "output")),
    ("tool calls", "calls", lambda trace: sum(step.kind == "tool" for step in trace.steps)),
    ("failed calls", "calls", _failed_calls),
    ("thoughts", "thoughts", _thoughts),
    ("loops", "loops", lambda trace: len(find_loops(trace.steps))),
)


def compare(a: Iterable[Trace], b: Iterable[Trace]) -> Comparison:
    """Measure both sides. Success is compared as a share of the runs that tell it, all else by medians."""
    left, right = list(a), list(b)
    rows = []
    for measure, unit, read in _MEASURES:
        sides = [[value for trace in side if (value := read(trace)) is not None] for side in (left, right)]
        if any(sides):
            first, second = (_share(side) if measure == "success" else _median(side) for side in sides)
            rows.append(Row(measure, unit, first, second, _verdict(first, second)))
    return Comparison(a_runs=len(left), b_runs=len(right), rows=tuple(rows))


def _median(values: list[float]) -> Measured:
    if not values:
        return Measured(0, None)
    median = statistics.median(values)
    if len(values) < FEWEST:
        return Measured(len(values), median)
    return Measured(len(values), median, *median_interval(values))


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """The narrowest pair of order statistics around the median with 95 % confidence, and what they really have.

    With fewer than 6 values no pair reaches 95 %: the smallest and the largest are given, with their confidence.
    """
    ordered, n = sorted(values), len(values)
    weights = [math.comb(n, k) / 2**n for k in range(n + 1)]
    tail, below = 0.0, 0
    while below < (n - 1) // 2 and 2 * (tail + weights[below]) + 2 * weights[below + 1] <= 1 - _CONFIDENCE:
        tail += weights[below]
        below += 1
    confidence = 1 - 2 * (tail + weights[below])
    return ordered[below], ordered[n - 1 - below], round(confidence, 4)


def _share(values: list[float]) -> Measured:
    """A share with its Wilson interval (95 %)."""
    n = len(values)
    if not n:
        return Measured(0, None)
    share = sum(values) / n
    if n < FEWEST:
        return Measured(n, share)
    z = statistics.NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Measured(n, share, max(middle - reach, 0.0), min(middle + reach, 1.0), _CONFIDENCE)


def _verdict(a: Measured, b: Measured) -> Verdict:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return TOO_FEW
    if b.high < a.low:
        return "lower"
    return "higher" if b.low > a.high else "no clear difference"
