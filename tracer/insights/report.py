"""What agentic traces tell: loops, failing commands, time and tokens by phase, and two groups of runs compared.

Output tokens by phase are an estimate (`estimated` says so). A comparison gives medians with 95 % intervals; below 5
runs a side there is no verdict, only `too few runs`.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple

from tracer.facts import QualityJudgment
from tracer.insights.agentic_trace import Step, Trace
from tracer.insights.loops import Loop, find_loops, normal_args

_EXCERPT = 300
_TOP = 20
_PHASES = ("think", "read", "edit", "run", "test", "plan", "other")
_LONGEST_GAP_S = 3600  # a longer pause is a person's, not the agent's


class FailedCommand(NamedTuple):
    """A command (or a call of another tool) that failed: how often, out of how many calls, in how many traces."""

    tool: str
    args: str
    failed: int
    calls: int
    traces: int
    last_output: str


class Omen(NamedTuple):
    """The last thought before a call that failed."""

    trace: str
    line: int
    tool: str
    args: str
    thought: str


class PhaseShare(NamedTuple):
    """One phase of the work: seconds, calls, and output tokens (estimated; None where no trace tells any)."""

    phase: str
    seconds: int
    calls: int
    output_tokens: int | None


class Rejections(NamedTuple):
    """How often a criterion rejected, out of how many judgments it stood in; the newest reason."""

    criterion: str
    name: str
    rejected: int
    judged: int
    last_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Insights:
    """Everything `pm sessions insights` shows. `damaged` counts unreadable lines; `failed` counts failed runs."""

    traces: int
    failed: int
    damaged: int
    loops: tuple[tuple[str, Loop], ...]
    failed_commands: tuple[FailedCommand, ...]
    omens: tuple[Omen, ...]
    phases: tuple[PhaseShare, ...]
    rejections: tuple[Rejections, ...] = ()
    estimated: tuple[str, ...] = ("phases.output_tokens",)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; loops carry their trace's name and how many times."""
        loops = [{"trace": name, **loop._asdict(), "times": loop.times} for name, loop in self.loops]
        rows = {
            name: [row._asdict() for row in getattr(self, name)]
            for name in ("failed_commands", "omens", "phases", "rejections")
        }
        return asdict(self) | rows | {"loops": loops}


def insights(traces: Iterable[Trace], judgments: Iterable[QualityJudgment] = ()) -> Insights:
    """Look at `traces` together, and at `judgments` (oldest first)."""
    known = list(traces)
    loops = [(trace.name, loop) for trace in known for loop in find_loops(trace.steps)]
    return Insights(
        traces=len(known),
        failed=sum(trace.success is False for trace in known),
        damaged=sum(trace.damaged for trace in known),
        loops=tuple(sorted(loops, key=lambda found: -found[1].times)),
        failed_commands=_failed_commands(known),
        omens=tuple(omen for trace in known for omen in _omens(trace)),
        phases=_phases(known),
        rejections=rejections(judgments),
    )


def _failed_commands(traces: list[Trace]) -> tuple[FailedCommand, ...]:
    calls: Counter[tuple[str, str]] = Counter()
    failures: dict[tuple[str, str], list[tuple[str, Step]]] = {}
    for trace in traces:
        for step in trace.steps:
            if step.kind == "tool":
                key = (step.name, normal_args(step.args))
                calls[key] += 1
                if step.failed:
                    failures.setdefault(key, []).append((trace.name, step))
    rows = [
        FailedCommand(
            tool, args, len(found), calls[tool, args], len({name for name, _ in found}), found[-1][1].output[-_EXCERPT:]
        )
        for (tool, args), found in failures.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.failed, row.tool, row.args))[:_TOP])


def _omens(trace: Trace) -> Iterable[Omen]:
    """The last thought of the same agent before each failed call, unless another call stands between."""
    last: dict[str | None, Step] = {}
    for step in trace.steps:
        if step.kind == "thought" and step.text.strip():
            last[step.agent] = step
        elif step.kind == "tool":
            thought = last.pop(step.agent, None)
            if step.failed and thought is not None:
                yield Omen(trace.name, step.line, step.name, step.args, thought.text.strip()[-_EXCERPT:])


def _phases(traces: list[Trace]) -> tuple[PhaseShare, ...]:
    seconds: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    told = False
    for trace in traces:
        seconds.update(_times(trace.steps))
        calls.update(step.phase for step in trace.steps if step.kind == "tool")
        output = trace.number("tokens", "output")
        if output is not None:
            told = True
            tokens.update(_shared(output, trace.steps))
    return tuple(
        PhaseShare(phase, seconds[phase], calls[phase], tokens[phase] if told else None)
        for phase in _PHASES
        if seconds[phase] or calls[phase] or tokens[phase]
    )


def _times(steps: Iterable[Step]) -> Counter[str]:
    """Seconds by phase: what follows a call is its own time, as far as the trace tells, and thinking beyond that."""
    seconds: Counter[str] = Counter()
    before: Step | None = None
    for step in (step for step in steps if step.seconds is not None and step.agent is None):
        if before is not None and before.seconds is not None and step.seconds is not None:
            gap = min(max(step.seconds - before.seconds, 0), _LONGEST_GAP_S)
            own = gap if before.duration_ms is None else min(gap, round(before.duration_ms / 1000))
            seconds[before.phase] += own
            seconds["think"] += gap - own
        before = step
    return seconds


def _shared(output: float, steps: Iterable[Step]) -> Counter[str]:
    """`output` tokens shared out by the characters each phase wrote."""
    written: Counter[str] = Counter()
    for step in steps:
        if step.kind in {"thought", "tool"} or (step.kind == "message"):
            written[step.phase] += len(step.text) + len(step.args)
    total = sum(written.values())
    if not total:
        return Counter({"think": round(output)})
    return Counter({phase: round(output * count / total) for phase, count in written.items()})


def rejections(judgments: Iterable[QualityJudgment]) -> tuple[Rejections, ...]:
    """How often each criterion rejected, most first."""
    judged: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    names: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for result in (result for judgment in judgments for result in judgment.criteria_results):
        if not result.id or result.outcome == "not_verified":
            continue
        judged[result.id] += 1
        names[result.id] = result.name or result.id
        if result.passed is False:
            failed[result.id] += 1
            reasons[result.id] = result.reason[:_EXCERPT]
    rows = [Rejections(c, names[c], failed[c], judged[c], reasons.get(c, "")) for c in judged]
    return tuple(sorted(rows, key=lambda row: (-row.rejected, row.criterion)))


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


_MEASURES: tuple[tuple[str, str, Callable[[Trace], float | None]], ...] = (
    ("success", "share", lambda trace: None if trace.success is None else float(trace.success)),
    ("duration", "s", lambda trace: trace.number("duration_sec")),
    ("cost", "USD", lambda trace: trace.number("cost_usd")),
    ("input tokens", "tokens", lambda trace: trace.number("tokens", "input")),
    ("output tokens", "tokens", lambda trace: trace.number("tokens", "output")),
    ("tool calls", "calls", lambda trace: sum(step.kind == "tool" for step in trace.steps)),
    ("failed calls", "calls", lambda trace: sum(step.failed for step in trace.steps)),
    ("thoughts", "thoughts", lambda trace: trace.thoughts),
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
