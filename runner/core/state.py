"""The state of a task: frozen values that `evolve` folds from its events. Pure.

`FrozenList` and `FrozenMap` (persistent collections) keep folds over millions of events linear. NamedTuples rather
than dataclasses: `_replace` costs a third of `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

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
        return tuple(self._backwards())[::-1]

    def _backwards(self) -> Iterator[T]:
        trail: Trail[T] | None = self
        while trail is not None and trail.length and trail.newest is not None:
            yield trail.newest
            trail = trail.earlier


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


# The loop that asks for a plan is `<task>-plan`; it has no judgments.
PLAN_SUFFIX: Final = "-plan"
_OVERLOAD: Final = frozenset({"rate_limit", "overloaded"})  # the provider's load, which passes
LoopPhase = Literal["new", "requested", "answered", "judged", "rejected", "ended"]


class Limits(NamedTuple):
    """When to give up. None means no limit; `on_limit` says whether a person is asked when iterations run out.

    `parallel` is how many subtasks are asked at once.
    """

    max_iterations: int = 3
    timeout_s: float | None = None
    budget_usd: float | None = None
    on_limit: str = "fail"
    max_retries: int = 2
    max_overload_retries: int = 5
    max_attempts: int = 3
    parallel: int = 3

    def retries_after(self, kind: str) -> int:
        """How often in a row the same request is sent again after trouble of this `kind`."""
        return self.max_overload_retries if kind in _OVERLOAD else self.max_retries


class Request(NamedTuple):
    """What the person asked for: USER_REQUEST's data, read once.

    `plan` is one the person gave; `into` names the branch that gets the result (empty: the person's files); `partial`:
    what was merged is handed over even where the whole is not COMPLETE.
    """

    prompt: str = ""
    title: str = ""
    kind: str = "auto"
    workspace: str = ""
    executor: Mapping[str, Any] = {}
    checks: Mapping[str, Any] = {}
    chunk: str = "never"
    limits: Limits = Limits()
    continues: Mapping[str, Any] | None = None
    plan: Mapping[str, Any] | None = None
    approve_plan: bool = False
    into: str = ""
    partial: bool = False


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


class LoopState(NamedTuple):
    """One loop of ask, judge, reject. `iteration_index` is the current one; `attempts` counts its unanswered requests.

    `counted` is the number of iterations that ended in PASS or REJECT; only they count against the limit. `fresh`: the
    next request starts on what other subtasks merged meanwhile. `totals` are this loop's own.
    """

    phase: LoopPhase = "new"
    iteration_index: int = 0
    attempts: int = 0
    base: str | None = None
    first_base: str | None = None
    answer: Mapping[str, Any] = {}
    judgment: Mapping[str, Any] = {}
    modification: str = ""
    tried: Trail[str] = EMPTY_TRAIL
    counted: int = 0
    retries: int = 0
    session_ref: str | None = None
    passed: bool = False
    fresh: bool = False
    totals: Totals = Totals()


class Plan(NamedTuple):
    """A chunking plan as recorded; one without subtasks means that the task runs in one piece.

    `proposed`: it waits for the person. `edited` is what they made of it, `replan` says that they want another one and
    `hint` with which words. `repairs` counts the subtasks that the judgment of the whole added. `names` finds a subtask
    by its id.
    """

    subtasks: tuple[Mapping[str, Any], ...] = ()
    reason: str = ""
    mode: str = ""
    isolation: str = ""
    proposed: bool = False
    edited: Mapping[str, Any] | None = None
    replan: bool = False
    hint: str = ""
    repairs: int = 0
    names: Mapping[str, Mapping[str, Any]] = {}

    def subtask(self, subtask_id: str) -> Mapping[str, Any]:
        """The subtask of that id; an empty one where there is none."""
        return self.names.get(subtask_id, {})


def answer_in(data: Mapping[str, Any], subtask_id: object) -> str:
    """The text of an LLM_RESPONSE that answers the request, empty where there is none; a plan answers nothing."""
    output = data.get("output")
    is_plan = isinstance(subtask_id, str) and subtask_id.endswith(PLAN_SUFFIX)
    return output if isinstance(output, str) and output.strip() and not is_plan else ""


class TaskState(NamedTuple):
    """A task, folded from its facts. `final` is FINAL_SUMMARY's data once the task has ended.

    `granted` is the number of iterations a person added; `action` a person's answer that is not yet acted upon;
    `worked_until_ms` is the end of the last stretch of time that `totals.spent_ms` counts; `begun_ms` is when the first
    request was recorded (milliseconds since 1970 UTC, 0 where the trace does not tell); `answer` is the last text that
    an agent gave as an answer, of whichever loop.
    """

    task_id: str = ""
    session_id: str = ""
    request: Request | None = None
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
    final: Mapping[str, Any] | None = None
    facts: int = 0
    worked_until_ms: int = 0
    begun_ms: int = 0
    answer: str = ""

    @property
    def last_judgments(self) -> tuple[Mapping[str, Any], ...]:
        """The newest QUALITY_JUDGMENT of the task, or of each of its subtasks while the whole has none."""
        loops = (self.main,) if self.main.judgment else (loop for _, loop in self.subtasks.items())
        return tuple(loop.judgment for loop in loops if loop.judgment)

    @property
    def iterations(self) -> int:
        """How many iterations have ended, over all subtasks."""
        return self.judgments.length

    def loop(self, subtask_id: str | None) -> LoopState:
        """The loop of `subtask_id`, a new one if it has no facts yet; None is the task's own."""
        if subtask_id is None:
            return self.main
        return self.subtasks.get(subtask_id) or _NEW_LOOP


_NEW_LOOP = LoopState()
EMPTY = TaskState()
