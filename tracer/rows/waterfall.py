"""What a task spent its time on, as bars on one scale: the waterfall of the terminal and of the page.

`read_waterfall(path, project=...)` reads a task's trace and its agents' sessions; `waterfall(entries, steps=...)`,
which is pure, takes a trace's entries in their order. A lane is the task itself (`""`) or a subtask; what the task
itself did after its subtasks began is a lane by itself, the last one. A lane's bars stand in the order to draw them,
each below the one it is part of (`depth` one less):

    0  iteration · plan (asking for one) · waiting (for the user)
    1    request (the agent works) · tests before · judging
    2      tool call · check · review

Times are milliseconds since the first entry. A tool call whose time nobody recorded has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tracer import facts
from tracer.insights.agentic_trace import Step, steps_below
from tracer.journal.reading import iter_lines
from tracer.names import PLAN_SUFFIX, REVIEW, REVIEW_SUFFIX
from tracer.rows.line import Mark, epoch_ms, verdict_mark

BarKind = Literal["iteration", "plan", "waiting", "request", "judging", "tool", "check", "review"]
StepsOf = Callable[[str], Sequence[Step]]
_COMMANDS: Final = {"Q7": "tests", "Q8": "lint", "Q9": "type check", "Q11": "faults"}
_DAMAGED: Final = facts.Entry("", "", "", "", {})  # keeps its number
_SECOND: Final = 1000  # what the times of tool calls are exact to


class Bar(NamedTuple):
    """One bar. `seq` is the line (from 0) that tells it, for links; `open`: no end was recorded, it goes on.

    `mark` is `x` failed, `v` passed; `detail` says more: a tool's argument, a verdict. Both texts are recorded ones.
    """

    kind: BarKind
    depth: int
    name: str
    seq: int
    start_ms: int | None = None
    end_ms: int | None = None
    open: bool = False
    mark: Mark = ""
    tokens: int | None = None
    detail: str = ""

    @property
    def duration_ms(self) -> int | None:
        """How long it took; None where no time is told."""
        return None if self.start_ms is None or self.end_ms is None else self.end_ms - self.start_ms


class Lane(NamedTuple):
    """The bars of the task itself (`id` and `title` empty) or of one subtask."""

    id: str
    title: str
    bars: tuple[Bar, ...]


class Waterfall(NamedTuple):
    """`total_ms` is the length of the scale, `began_ms` where it begins (since 1970); no lane without a bar."""

    lanes: tuple[Lane, ...]
    began_ms: int
    total_ms: int


@dataclass(slots=True)
class _Loop:
    """A lane as it is gathered: `request` and `iteration` are the bars that wait for their end."""

    bars: list[Bar] = field(default_factory=list)
    iteration: int | None = None
    request: int | None = None
    reviews: list[Bar] = field(default_factory=list)
    answered: tuple[int, int] | None = None


def waterfall(
    entries: Iterable[facts.Entry], *, steps: StepsOf = lambda _path: (), now_ms: int | None = None
) -> Waterfall:
    """The bars of a task's `entries`.

    `steps` gives the steps of an answer's agent session by the path that the trace names (`steps_below`). `now_ms`
    (since 1970) is where open bars end, of a task that works; without it they end with the last entry.
    """
    gathered = _Gathered(steps)
    for seq, entry in enumerate(entries):
        gathered.add(seq, entry)
    return gathered.whole(now_ms)


def read_waterfall(path: Path, *, project: Path, now_ms: int | None = None) -> Waterfall:
    """The waterfall of the trace at `path`; its agents' sessions are named relative to `project`.

    Raises NotFoundError, TraceError: there is no trace, or it cannot be read.
    """
    entries = (facts.fact_in(line) or _DAMAGED for _, line in iter_lines(path))
    return waterfall(entries, steps=steps_below(project), now_ms=now_ms)


class _Gathered:
    def __init__(self, steps: StepsOf) -> None:
        self._steps = steps
        self._loops: dict[str, _Loop] = {"": _Loop()}
        self._titles: dict[str, str] = {}
        self._began: int | None = None
        self._last = 0
        self._ended = False

    def add(self, seq: int, entry: facts.Entry) -> None:
        time = epoch_ms(entry.timestamp)
        if time is None:
            return
        if self._began is None:
            self._began = time
        before, self._last = self._last, max(self._last, time - self._began)
        now = self._last
        lane = (entry.subtask_id or "").removesuffix(REVIEW_SUFFIX).removesuffix(PLAN_SUFFIX)
        loop = self._loops.setdefault("" if lane == entry.task_id else lane, _Loop())
        self._ended = False
        match entry:
            case facts.UserRequest() if entry.action is not None:
                if loop.request is None and loop.answered is None:  # else the agent was steered at work
                    loop.bars.append(Bar("waiting", 0, "waiting for you", seq, before, now, detail=entry.action))
            case facts.ChunkingPlan():
                self._titles.update({part.id: part.title for part in entry.subtasks})
            case facts.LlmRequest():
                self._request(loop, seq, entry, before)
            case facts.LlmResponse():
                self._response(loop, seq, entry)
            case facts.QualityJudgment():
                self._judgment(loop, seq, entry)
            case facts.IterationEnd() if loop.iteration is not None:
                bar = loop.bars[loop.iteration]
                loop.bars[loop.iteration] = _closed(bar, now, verdict_mark(entry.judgment), detail=entry.judgment)
                loop.iteration = None
            case facts.FinalSummary():
                self._ended = True

    def whole(self, now_ms: int | None) -> Waterfall:
        began = self._began or 0
        end = self._last if now_ms is None or self._ended else max(self._last, now_ms - began)
        lanes = []
        for lane, loop in self._loops.items():
            if loop.answered is not None and loop.iteration is not None and not self._ended:
                seq, since = loop.answered
                loop.bars += [Bar("judging", 1, "judging", seq, since, open=True), *loop.reviews]
            bars = tuple(bar._replace(end_ms=end) if bar.open else bar for bar in loop.bars)
            lanes.append(Lane(lane, self._titles.get(lane, ""), bars))
        own, *parts = lanes
        begun = min((start for lane in parts for start in _starts(lane.bars)), default=end)
        late = next((at for at, bar in enumerate(own.bars) if bar.depth == 0 and (bar.start_ms or 0) > begun), None)
        if parts and late is not None:
            parts.append(Lane("", "", own.bars[late:]))
            own = own._replace(bars=own.bars[:late])
        return Waterfall(tuple(lane for lane in (own, *parts) if lane.bars), began, end)

    def _request(self, loop: _Loop, seq: int, entry: facts.LlmRequest, before: int) -> None:
        now = self._last
        if entry.purpose == REVIEW:
            loop.reviews.append(Bar("review", 2, "review", seq, now, open=True, detail=entry.executor))
            return
        if entry.purpose:
            loop.request = _append(loop, Bar("plan", 0, "plan", seq, now, open=True, detail=entry.executor))
            return
        tests = entry.base_tests
        took = tests.duration_ms if tests is not None else None
        start = now if took is None else max(now - took, before)  # one that was known already took no time here
        if loop.request is not None:  # asked again: nobody knows what became of the other
            loop.bars[loop.request] = _closed(loop.bars[loop.request], now, "x", detail="interrupted")
        if loop.iteration is None:
            name = "" if entry.iteration_index is None else f" {entry.iteration_index}"
            loop.iteration = _append(loop, Bar("iteration", 0, f"iteration{name}", seq, start, open=True))
        if tests is not None and took is not None:
            loop.bars.append(_check("tests before", seq, start, now, tests.outcome, tests.command))
        loop.request = _append(loop, Bar("request", 1, entry.executor or "agent", seq, now, open=True))
        loop.answered = None

    def _response(self, loop: _Loop, seq: int, entry: facts.LlmResponse) -> None:
        if entry.purpose == REVIEW:
            closed = [_closed(bar, self._last, _answer_mark(entry), tokens=_tokens(entry)) for bar in loop.reviews[-1:]]
            loop.reviews[-1:] = closed
            return
        if loop.request is None:
            return
        asked = loop.bars[loop.request]
        detail = entry.status if entry.failed else ""
        bar = _closed(asked, self._last, _answer_mark(entry), tokens=_tokens(entry), detail=detail)
        loop.bars[loop.request], loop.request = bar, None
        if bar.kind == "request":
            loop.bars += self._tools(seq, entry, bar)
            loop.answered = (seq, self._last)

    def _tools(self, seq: int, entry: facts.LlmResponse, request: Bar) -> list[Bar]:
        """The tool calls of one answer: by its session where that can be read, else as the executor saw them."""
        began, start, end = self._began or 0, request.start_ms or 0, request.end_ms or 0
        bars = []
        for step in self._steps(entry.agentic_trace) if entry.agentic_trace else ():
            if step.kind != "tool":
                continue
            mark: Mark = "x" if step.failed else ""
            if step.seconds is None:
                bars.append(Bar("tool", 2, step.name, seq, mark=mark, detail=step.args))
                continue
            at = step.seconds * 1000 - began
            if start - _SECOND < at <= end:  # a session may hold the calls of several answers
                at = max(at, start)
                till = min(at + (step.duration_ms or 0), end)
                bars.append(Bar("tool", 2, step.name, seq, at, till, mark=mark, detail=step.args))
        return bars or [
            Bar("tool", 2, call.name, seq, mark="x" if call.ok is False else "", detail=call.summary)
            for call in entry.tool_calls
        ]

    def _judgment(self, loop: _Loop, seq: int, entry: facts.QualityJudgment) -> None:
        now = self._last
        asked = sum(bar.duration_ms or 0 for bar in loop.reviews)
        start = now if entry.duration_ms is None else now - entry.duration_ms - asked
        start = min([max(start, loop.answered[1] if loop.answered is not None else 0), *_starts(loop.reviews)])
        mark = verdict_mark(entry.judgment)
        failed = " ".join(result.id for result in entry.failures)
        name = "judging the whole" if entry.whole else "judging"
        depth = 0 if loop.iteration is None else 1
        detail = f"{entry.judgment} {failed}".strip()
        loop.bars.append(Bar("judging", depth, name, seq, start, now, mark=mark, detail=detail))
        for result in entry.criteria_results:
            if result.duration_ms is not None and start < now:
                till = min(start + result.duration_ms, now)
                command = entry.tests.command if entry.tests is not None and result.id == "Q7" else result.name
                name = _COMMANDS.get(result.id, result.id)
                loop.bars.append(_check(name, seq, start, till, result.outcome, command)._replace(depth=depth + 1))
                start = till
        loop.bars += [bar._replace(depth=depth + 1) for bar in loop.reviews]
        loop.reviews, loop.answered = [], None


def _append(loop: _Loop, bar: Bar) -> int:
    loop.bars.append(bar)
    return len(loop.bars) - 1


def _starts(bars: Iterable[Bar]) -> list[int]:
    return [bar.start_ms for bar in bars if bar.start_ms is not None]


def _closed(bar: Bar, end: int, mark: Mark, *, tokens: int | None = None, detail: str = "") -> Bar:
    return bar._replace(end_ms=end, open=False, mark=mark, tokens=tokens, detail=detail or bar.detail)


def _check(name: str, seq: int, start: int, end: int, outcome: str, detail: str) -> Bar:
    mark: Mark = "v" if outcome == "pass" else "x" if outcome == "fail" else ""
    return Bar("check", 1, name, seq, start, end, mark=mark, detail=detail)


def _answer_mark(entry: facts.LlmResponse) -> Mark:
    return "x" if entry.failed else ""


def _tokens(entry: facts.LlmResponse) -> int | None:
    return entry.usage.total if entry.usage is not None else None
