"""The state of a task: frozen values that `evolve` folds from its events. Pure.

`Trail` and `Sharded` (persistent collections) keep folds over millions of events linear. NamedTuples rather
than dataclasses: `_replace` costs a third of `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from runner.agent_report import prose_of
from runner.core.request import Request
from tracer.facts import FinalSummary, LlmRequest, LlmResponse, QualityJudgment, Question, Spent, Subtask
from tracer.names import PLAN_SUFFIX

T = TypeVar("T")


class Trail(NamedTuple, Generic[T]):
    """A linked list from the newest item back; share freely, `then` never changes the one it is called on."""

    length: int = 0
    newest: T | None = None
    earlier: Trail[T] | None = None

    def then(self, item: T) -> Trail[T]:
        """The same items and `item` after them."""
        return Trail(self.length + 1, item, self)

    def items(self) -> tuple[T, ...]:
        """All items, oldest first."""
        trail: Trail[T] | None = self
        found: list[T] = []
        while trail is not None and trail.newest is not None:
            found.append(trail.newest)
            trail = trail.earlier
        return tuple(found[::-1])


EMPTY_TRAIL: Trail[str] = Trail()


V = TypeVar("V")
_PARTS: Final = 64


@dataclass(frozen=True, slots=True)
class Sharded(Generic[V]):
    """Share freely: `having` never changes the one it is called on."""

    parts: tuple[dict[str, V], ...] = ({},) * _PARTS

    def having(self, key: str, value: V) -> Sharded[V]:
        """The same entries, and `value` under `key`."""
        at = hash(key) % _PARTS
        parts = self.parts
        return Sharded((*parts[:at], {**parts[at], key: value}, *parts[at + 1 :]))

    def get(self, key: str) -> V | None:
        """The value under `key`; None where there is none."""
        return self.parts[hash(key) % _PARTS].get(key)

    def items(self) -> Iterator[tuple[str, V]]:
        """Keys with their values."""
        for part in self.parts:
            yield from part.items()

    def values(self) -> Iterator[V]:
        """The values."""
        for part in self.parts:
            yield from part.values()


LoopPhase = Literal["new", "requested", "answered", "judged", "rejected", "ended"]


class Totals(NamedTuple):
    """Sums over all recorded answers. `cost_usd` is of the `priced` ones; `cost_known`: no other cost anything."""

    cost_usd: float = 0.0
    cost_known: bool = True
    priced: int = 0
    answers: int = 0
    spent_ms: int = 0
    usage: Mapping[str, int] = {}

    @property
    def cost(self) -> float | None:
        """The whole cost in dollars; None where any of it is unknown."""
        return self.cost_usd if self.priced and self.cost_known else None

    @property
    def told_cost(self) -> float | None:
        """The cost as it is told: a zero beside which nothing was counted says nothing."""
        return self.cost if self.cost_usd or self.usage else None

    def after(self, earlier: Spent) -> Totals:
        """These with what earlier files of the task took."""
        if not earlier.answers:
            return self
        counts, cost = earlier.usage.counts, earlier.cost_usd
        return Totals(
            cost_usd=self.cost_usd + (cost or 0.0),
            cost_known=self.cost_known and cost is not None,
            priced=self.priced + (cost is not None),
            answers=self.answers + earlier.answers,
            spent_ms=self.spent_ms + earlier.duration_ms,
            usage={key: self.usage.get(key, 0) + counts.get(key, 0) for key in self.usage.keys() | counts.keys()},
        )


NO_REQUEST: Final = LlmRequest("", "LLM_REQUEST", "", "", {})
NO_ANSWER: Final = LlmResponse("", "LLM_RESPONSE", "", "", {})
NO_JUDGMENT: Final = QualityJudgment("", "QUALITY_JUDGMENT", "", "", {})


class LoopState(NamedTuple):
    """One loop of ask, judge, reject. `iteration_index` is the current one; `attempts` counts its unanswered requests.

    `counted` is the number of iterations that ended in PASS or REJECT; only they count against the limit. `fresh`: the
    next request starts on what other subtasks merged meanwhile. `totals` are this loop's own. `replies` holds what the
    agent asked and the user answered; `replied`: the newest is not sent yet. `harmed` names what was harmed while its
    agents worked: what came about between two requests is none of theirs. `request` is the newest one, `open_ref` the
    session that it began or went on in while it has no answer; `interrupted`: what that one did is recorded.
    `sessions` holds the sums of each session by its name, `traces` the agentic traces that were made of them.
    """

    phase: LoopPhase = "new"
    iteration_index: int = 0
    attempts: int = 0
    base: str | None = None
    first_base: str | None = None
    answer: LlmResponse = NO_ANSWER
    judgment: QualityJudgment = NO_JUDGMENT
    modification: str = ""
    tried: Trail[str] = EMPTY_TRAIL
    counted: int = 0
    retries: int = 0
    session_ref: str | None = None
    passed: bool = False
    fresh: bool = False
    totals: Totals = Totals()
    replies: Trail[str] = EMPTY_TRAIL
    replied: bool = False
    harmed: frozenset[str] = frozenset()
    request: LlmRequest = NO_REQUEST
    open_ref: str | None = None
    interrupted: bool = False
    sessions: Mapping[str, Totals] = {}
    traces: frozenset[str] = frozenset()

    def spent_in(self, session_ref: str | None) -> float | None:
        """What the answers in a session have cost so far; None where any of it is unknown."""
        totals = self.sessions.get(session_ref or "", Totals())
        return totals.cost_usd if totals.cost_known else None

    @property
    def question(self) -> Question | None:
        """What this loop rests with until the user answers."""
        rests = self.phase == "ended" and self.retries == 0 and not self.replied
        return self.judgment.question if rests else None


class Plan(NamedTuple):
    """A chunking plan as recorded; one without subtasks means that the task runs in one piece.

    `proposed`: it waits for the person. `edited` is what they made of it, `replan` says that they want another one and
    `hint` with which words. `repairs` counts the subtasks that the judgment of the whole added. `names` finds a subtask
    by its id.
    """

    subtasks: tuple[Subtask, ...] = ()
    reason: str = ""
    mode: str = ""
    isolation: str = ""
    proposed: bool = False
    edited: Mapping[str, Any] | None = None
    replan: bool = False
    hint: str = ""
    repairs: int = 0
    names: Mapping[str, Subtask] = {}


def answer_in(fact: LlmResponse) -> str:
    """What an LLM_RESPONSE answers, without its report; empty where there is nothing, as of a plan or a review."""
    is_plan = fact.subtask_id is not None and fact.subtask_id.endswith(PLAN_SUFFIX)
    return prose_of(fact.output) if fact.output.strip() and not (is_plan or fact.purpose) else ""


class TaskState(NamedTuple):
    """A task, folded from its facts. `final` is its FINAL_SUMMARY once it has ended.

    `granted` is the number of iterations a person added; `action` a person's answer that is not yet acted upon;
    `worked_until_ms` is the end of the last stretch of time that `totals.spent_ms` counts; `begun_ms` is when the first
    request was recorded (milliseconds since 1970 UTC, 0 where the trace does not tell); `answer` is the last text that
    an agent gave as an answer, of whichever loop, `files` what all answers changed; `allowed`: a person has allowed its
    changes of tests; `conflict` says why the result does not go into the user's files.
    """

    task_id: str = ""
    session_id: str = ""
    request: Request = Request()
    rules: str | None = None
    plan: Plan | None = None
    main: LoopState = LoopState()
    subtasks: Sharded[LoopState] = Sharded()
    totals: Totals = Totals()
    judgments: Trail[str] = EMPTY_TRAIL
    history: Trail[str] = EMPTY_TRAIL
    granted: int = 0
    action: str = ""
    hint: str = ""
    final: FinalSummary | None = None
    facts: int = 0
    worked_until_ms: int = 0
    begun_ms: int = 0
    answer: str = ""
    files: tuple[str, ...] = ()
    allowed: bool = False
    conflict: QualityJudgment | None = None

    @property
    def works_apart(self) -> bool:
        """Whether the task, in one piece, works in a worktree of its own."""
        return self.plan is not None and not self.plan.subtasks and self.plan.isolation == "worktrees"

    @property
    def last_judgments(self) -> tuple[QualityJudgment, ...]:
        """The newest QUALITY_JUDGMENT of the task, or of each of its subtasks while the whole has none."""
        loops = (self.main,) if self.main.judgment.data else self.subtasks.values()
        return tuple(loop.judgment for loop in loops if loop.judgment.data)

    @property
    def requested(self) -> bool:
        """Whether the task has its request."""
        return bool(self.task_id)

    @property
    def iterations(self) -> int:
        """How many iterations have ended, over all subtasks."""
        return self.judgments.length

    @property
    def planned(self) -> tuple[Subtask, ...]:
        """The subtasks of the plan, one that is only proposed too; empty for a task in one piece."""
        return self.plan.subtasks if self.plan else ()

    def subtask(self, subtask_id: str | None) -> Subtask:
        """The subtask of that id; an empty one where there is none, and for the task's own loop."""
        found = self.plan.names.get(subtask_id) if self.plan and subtask_id else None
        return Subtask({}) if found is None else found

    @property
    def asking(self) -> str | None:
        """The subtask whose question is put to the user first; None for the task's own loop, and where none asks."""
        return next((item.id for item in self.planned if self.loop(item.id).question is not None), None)

    @property
    def question(self) -> Question | None:
        """What the user is asked."""
        return self.loop(self.asking).question

    def loop(self, subtask_id: str | None) -> LoopState:
        """The loop of `subtask_id`, a new one if it has no facts yet; None is the task's own."""
        if subtask_id is None:
            return self.main
        return self.subtasks.get(subtask_id) or _NEW_LOOP


_NEW_LOOP = LoopState()
EMPTY = TaskState()
