"""The subtasks of one task as lines, from its facts: a table that a view repaints in place, or one line per change.

How each stands is the runner's own reading of the record (`runner.core.subtasks`), so that every view and the
outcome say the same. Texts from plans are escaped here. Times are the caller's monotonic seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from repl.present.text import cost_text, count_text, one_line, padded, width_cut, width_of
from tracer.facts import ChunkingPlan, Entry, LlmRequest, QualityJudgment

if TYPE_CHECKING:
    from runner.core.state import TaskState
    from runner.core.subtasks import Standing

_WORDS: Final = {"failed": "fail", "skipped": "skip"}
_TITLE: Final = 28
_EARLY: Final = 64
_URGENT: Final = {"ask": 0, "run": 1, "failed": 2, "wait": 3, "done": 4, "skipped": 5}


class SubtaskBoard:
    """How the subtasks stand; empty for a task in one piece. `began` is when the plan was recorded."""

    def __init__(self) -> None:
        self.standings: tuple[Standing, ...] = ()
        self.began = 0.0
        self._early: list[Entry] = []
        self._open = True
        self._state: TaskState | None = None
        self._since: dict[str, tuple[tuple[Any, ...], float]] = {}
        self._conflicts: dict[str, str] = {}

    @property
    def done(self) -> int:
        return sum(one.status == "done" for one in self.standings)

    @property
    def running(self) -> tuple[int, ...]:
        return tuple(one.number for one in self.standings if one.status == "run")

    def numbered(self, subtask_id: str | None) -> int | None:
        """The number of a subtask, None for what is none."""
        return next((one.number for one in self.standings if one.subtask_id == subtask_id), None)

    def fact(self, fact: Entry | None, *, now: float) -> list[Standing]:
        """Take one stored fact; the subtasks whose line says something new, in the plan's order."""
        if fact is None:
            return []
        if self._state is None:
            self._keep(fact)
            if not isinstance(fact, ChunkingPlan):
                return []
            self.began = now
        self._take(fact)
        before = {one.subtask_id: one for one in self.standings}
        from runner.core.subtasks import standings  # 50 ms: only a task with a plan needs it

        self.standings = standings(self._state) if self._state is not None else ()
        for one in self.standings:
            doing = (one.status, one.phase, one.iterations)
            if self._since.get(one.subtask_id, ((), 0.0))[0] != doing:
                self._since[one.subtask_id] = (doing, now)
        return [one for one in self.standings if _is_news(before.get(one.subtask_id), one)]

    def _keep(self, fact: Entry) -> None:
        """Facts before a plan are few; once the task itself is asked, no plan follows and none is needed."""
        if isinstance(fact, LlmRequest) and fact.subtask_id is None:
            self._early, self._open = [], False
        elif self._open and len(self._early) < _EARLY:
            self._early.append(fact)

    def _take(self, fact: Entry) -> None:
        from runner.core.evolve import evolve, fold

        if self._state is None:
            self._state = fold(self._early)
            self._early.clear()
        else:
            self._state = evolve(self._state, fact)
        if isinstance(fact, QualityJudgment):
            self._conflicts[str(fact.subtask_id)] = ", ".join(fact.conflict[:3])

    def line(self, one: Standing, *, now: float | None = None) -> str:
        """`  run   2 API                           it 1   REJECT Q3, asking again   18 s`; without `now` no time."""
        elapsed = ""
        if now is not None and one.status == "run":
            elapsed = f"   {max(int(now - self._since.get(one.subtask_id, ((), now))[1]), 0)} s"
        text = standing_text(one, conflict=self._conflicts.get(one.subtask_id, ""))
        longest = max((width_of(_title(each)) for each in self.standings), default=0)
        return subtask_line(one, text + elapsed, width=min(max(longest, 14), _TITLE))

    def table(self, *, now: float | None = None, most: int = 12) -> list[str]:
        """One line each in the plan's order; of more than `most`, those that matter now and a count of the others."""
        if len(self.standings) <= most:
            return [self.line(one, now=now) for one in self.standings]
        kept = sorted(sorted(self.standings, key=lambda one: _URGENT.get(one.status, 9))[: most - 1])
        shown = {one.number for one in kept}
        left = [one for one in self.standings if one.number not in shown]
        counts = [(word, sum(one.status == word for one in left)) for word in _URGENT]
        rest = ", ".join(f"{count} {_WORDS.get(word, word)}" for word, count in counts if count)
        lines = [self.line(one, now=now) for one in self.standings if one.number in shown]
        return [*lines, f"  …     {len(left)} more: {rest}"]

    def bar(self, *, now: float | None = None) -> str:
        """`[########............] 1/4 subtasks · 29 s`, empty for a task in one piece."""
        total = len(self.standings)
        if not total:
            return ""
        filled = 20 * self.done // total
        parts = [f"[{'#' * filled}{'.' * (20 - filled)}] {self.done}/{total} subtasks"]
        failed = sum(one.status in {"failed", "skipped"} for one in self.standings)
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{max(int(now - self.began), 0)} s"] if now is not None else []
        return " · ".join(parts)


def subtask_line(one: Standing, text: str, *, width: int = _TITLE) -> str:
    word = _WORDS.get(one.status, one.status)
    return f"  {word:<5} {one.number} {padded(width_cut(_title(one), width), width)}  {text}".rstrip()


def standing_text(one: Standing, *, conflict: str = "") -> str:
    """What stands behind the title: `it 1   REJECT Q3, asking again`, `2 it   $0.02`, `after 2, 3`."""
    match one.status:
        case "wait":
            return f"after {', '.join(map(str, one.dependencies))}" if one.dependencies else ""
        case "done":
            cost = f"   {cost_text(one.cost_usd)}" if one.cost_usd is not None else ""
            return f"{one.iterations} it{cost}"
        case "run":
            return f"it {one.iterations}   {_doing(one, conflict)}"
        case "ask":
            return "waits for your answer"
        case "skipped":
            return one_line(one.detail, 80) or one_line(one.reason, 40)
        case _:
            why = one_line(one.detail, 80) or one.verdict
            ended = one_line(one.reason.replace("_", " "), 40)
            return ", ".join(part for part in (count_text(one.iterations, "iteration"), ended, why) if part)


def _doing(one: Standing, conflict: str) -> str:
    if one.verdict and one.phase in {"asking", "asking again"}:
        verdict = f"conflict in {one_line(conflict, 60)}" if conflict else one.verdict
        return f"{verdict}, asking again"
    return one.phase or "asking"


def _title(one: Standing) -> str:
    return one_line(one.title, _TITLE)


def _is_news(before: Standing | None, one: Standing) -> bool:
    """Whether a line per change tells it: another status, and each rejection once."""
    if before is None or before.status != one.status:
        return True
    return one.phase == "asking again" and before.phase != "asking again"
