"""The events of a conversation as typed values: one reader and one constructor each.

An entry holds its line's `data` as it was decoded, so unknown keys and events survive; each event's class reads the
keys it knows when asked. A value of another type than its key's gives way to the key's default: nothing here raises.
Every view and the start-up path read facts: imports json and typing alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from tracer.names import OVERLOAD, REFUSALS, EventName, SessionEventName

T = TypeVar("T")


KINDS: Final[dict[str, type[Entry]]] = {}
"""The class of each event."""


class Entry(NamedTuple):
    """One event of a conversation trace (seed 001, 2.1). `timestamp` is ISO 8601 UTC with milliseconds and `Z`.

    An event that has no class of its own stays a plain `Entry`. Make entries with `entry_of`, which finds the class.
    """

    timestamp: str
    event: str
    session_id: str
    task_id: str
    data: dict[str, Any]
    subtask_id: str | None = None
    iteration_index: int | None = None

    @classmethod
    def __init_subclass__(  # type: ignore[explicit-override]  # no typing_extensions at start-up
        cls, *, event: EventName | SessionEventName | Literal["UNDO"]
    ) -> None:
        KINDS[event] = cls

    def to_dict(self) -> dict[str, Any]:
        """The line's JSON object, keys in the seed's order, absent optional keys left out."""
        fields: dict[str, Any] = {
            "timestamp": self.timestamp,
            "event": self.event,
            "session_id": self.session_id,
            "task_id": self.task_id,
        }
        if self.subtask_id is not None:
            fields["subtask_id"] = self.subtask_id
        if self.iteration_index is not None:
            fields["iteration_index"] = self.iteration_index
        fields["data"] = self.data
        return fields

    @property
    def failed(self) -> bool:
        """Whether it reports that something did not go well."""
        match self:
            case LlmResponse() | FinalSummary():
                return self.status != "COMPLETE"
            case QualityJudgment() | IterationEnd():
                return self.judgment != "PASS"
        return isinstance(self, RejectionDetails)


class Part(NamedTuple):
    """An object inside an event's data; it keeps unknown keys the same way."""

    data: Mapping[str, Any]


class Key(Generic[T]):
    """A typed key of `data`, called as the attribute is unless `name` says otherwise."""

    __slots__ = ("_name", "_read")

    def __init__(self, read: Callable[[Any], T], name: str = "") -> None:
        self._read = read
        self._name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    def __get__(self, holder: Entry | Part, owner: type | None = None) -> T:
        return self._read(holder.data.get(self._name))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _or_none(kind: type[T]) -> Callable[[Any], T | None]:
    return lambda value: value if isinstance(value, kind) else None


_text_or_none = _or_none(str)


def _whole(value: Any) -> int | None:
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def _number(value: Any) -> float | None:
    return value if type(value) is float else _whole(value)


def _count(value: Any) -> int:
    return _whole(value) or 0


def _flag(value: Any) -> bool:
    return value is True


def _texts(value: Any) -> tuple[str, ...]:
    return tuple([item for item in value if isinstance(item, str)]) if isinstance(value, list | tuple) else ()


def _texts_or_none(value: Any) -> tuple[str, ...] | None:
    return _texts(value) or None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


P = TypeVar("P", bound=Part)


def _part(kind: Callable[[Any], P]) -> Callable[[Any], P | None]:
    return lambda value: kind(value) if isinstance(value, dict) else None


def _filled(kind: Callable[[Any], P]) -> Callable[[Any], P]:
    return lambda value: kind(value if isinstance(value, dict) else {})


def _parts(kind: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    def read(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list | tuple):
            return ()
        return tuple([kind(item) for item in value if isinstance(item, dict)])

    return read


class FileCount(NamedTuple):
    """What a task did to one path: added, modified or deleted, and how many lines; None where nobody counted them."""

    path: str
    status: str = "modified"
    added: int | None = None
    removed: int | None = None


def _file_count(told: Mapping[str, Any]) -> FileCount:
    added, removed = _whole(told.get("added")), _whole(told.get("removed"))
    return FileCount(_text(told.get("path")), _text(told.get("status")), added, removed)


class Limits(NamedTuple):
    """When to give up. None means no limit; `on_limit` says whether a user is asked when iterations run out.

    `questions` there: they are not, but what is asked of them waits. `parallel` is how many subtasks are asked at once.
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
        """How often in a row the same request is sent again after an error of this `kind`."""
        return self.max_overload_retries if kind in OVERLOAD else self.max_retries

    def to_dict(self) -> dict[str, Any]:
        """As USER_REQUEST records it: what a user may set, and of the rest what is not the default."""
        usual = ("max_iterations", "timeout_s", "budget_usd", "on_limit", "parallel")
        found = {name: getattr(self, name) for name in usual}
        return found | {name: value for name, value in self._asdict().items() if value != self._field_defaults[name]}


def _usable_limit(name: str, value: object) -> bool:
    if name == "on_limit":
        return isinstance(value, str)
    if isinstance(value, bool):
        return False
    if name in {"timeout_s", "budget_usd"}:
        return value is None or (isinstance(value, int | float) and value >= 0)
    return isinstance(value, int) and value >= (1 if name == "parallel" else 0)


class ExecutorChoice(Part):
    """Who is asked, and with which model and permissions; `plans`: it has a model that can plan."""

    __slots__ = ()
    name = Key(_text)
    model = Key(_text_or_none)
    script = Key(_text_or_none)
    permissions = Key(_text_or_none)
    fallback = Key(_texts)
    options = Key(_mapping)
    continue_session = Key(_flag)
    plans = Key(_flag)

    @property
    def thinking(self) -> bool:
        """Whether the model may think before it answers; it may unless the record says no."""
        return bool(self.data.get("thinking", True))

    def changed(self, **values: Any) -> ExecutorChoice:
        """The same with other values."""
        return ExecutorChoice({**self.data, **values})


class ReviewChoice(Part):
    """Who reviews the change; without an executor `why` says why nobody can. `budget_usd` is for one review."""

    __slots__ = ()
    executor = Key(_text)
    model = Key(_text_or_none)
    budget_usd = Key(_number)
    why = Key(_text)


class CheckChoice(Part):
    """What is checked: `given` and `configured` are commands by kind, `detect` whether detected ones may run.

    `untrusted` are those that a file of the folder names which nobody trusts: they do not run, and that is said.
    `require` holds the criteria that must not end unverified; `harness` are files of the project that steer its tests,
    `needs` ignored folders that the tests need. `strength` is the percentage of faults that the tests must notice, None
    where the count informs, `strength_time` the seconds for it; records from before have none.
    """

    __slots__ = ()
    given = Key(_mapping)
    configured = Key(_mapping)
    untrusted = Key(_mapping)
    detect = Key(bool)
    options = Key(_mapping)
    timeout_s = Key(_number)
    link = Key(_texts)
    review = Key(_part(ReviewChoice))
    coverage = Key(_text)
    require = Key(_texts)
    harness = Key(_texts)
    needs = Key(_texts)
    strength = Key(_number)
    strength_time = Key(_number)

    @property
    def tests(self) -> str:
        """What the task may do to tests: `add` to them, `change` what they expect, or nothing: `frozen`."""
        if self.data.get("allow_test_changes") is True:  # records of the first version
            return "change"
        return _text(self.data.get("tests")) or "add"

    @property
    def base_tests(self) -> bool:
        """Whether the tests run once before the agent is asked; records from before say nothing."""
        return self.data.get("base_tests") is not False

    @property
    def criteria(self) -> list[str] | None:
        """The ids that were chosen; None means all in force."""
        chosen = self.data.get("criteria")
        return chosen if isinstance(chosen, list) else None


class Subtask(Part):
    """One part of a plan; `dependencies` are ids of the same plan."""

    __slots__ = ()
    description = Key(_text)
    acceptance = Key(_text)
    files_expected = Key(_texts)
    executor = Key(_text)
    model = Key(_text_or_none)

    @property
    def id(self) -> str:
        """The id; numbers in traces from elsewhere count as text."""
        return str(self.data.get("id"))

    @property
    def title(self) -> str:
        """What it is called: its title, else its description."""
        return str(self.data.get("title") or self.description)

    @property
    def dependencies(self) -> tuple[str, ...]:
        """The ids of what must pass before it."""
        listed = self.data.get("dependencies")
        return tuple([str(need) for need in listed]) if isinstance(listed, list | tuple) else ()


class RecordedPlan(Part):
    """A plan that an earlier file of the same task ran; `done` names what need not be done again."""

    __slots__ = ()
    done = Key(_texts)
    base = Key(_text_or_none)


class Usage(Part):
    """Token counts; None is unknown, never 0."""

    __slots__ = ()
    input_tokens = Key(_whole)
    output_tokens = Key(_whole)
    cached_tokens = Key(_whole)
    thinking_tokens = Key(_whole)

    @property
    def counts(self) -> dict[str, int]:
        """All that is known, by name."""
        return {name: value for name, value in self.data.items() if type(value) is int}

    @property
    def total(self) -> int | None:
        """Input and output together; None where neither is known."""
        known = [count for count in (self.input_tokens, self.output_tokens) if count is not None]
        return sum(known) if known else None


class Ended(Part):
    """What the end of a file left, for the file in which the user accepts it; `judgment` as they let it stand."""

    __slots__ = ()
    files_modified = Key(_texts)
    diff_blob = Key(_text_or_none)
    files = Key(_parts(_file_count))
    answer = Key(_text)
    judgment = Key(_mapping)


class Spent(Part):
    """What the files before this one took, all together; without `cost_usd` it is not known."""

    __slots__ = ()
    answers = Key(_count)
    judgments = Key(_texts)
    cost_usd = Key(_number)
    usage = Key(_filled(Usage))
    duration_ms = Key(_count)


class Continues(Part):
    """The file that a request follows: why that one ended, what it tried, which script replies are used up.

    `replies` are the agent's questions with the user's answers; `session_ref` is the session they are meant for.
    `apart` is the baseline of the worktree that the task works in, `ended` what the user accepts as it is, `hint` what
    they say to the next request, `spent` what was spent before.
    """

    __slots__ = ()
    reason = Key(_text)
    tried = Key(_texts)
    history = Key(_texts)
    plan = Key(_part(RecordedPlan))
    replies = Key(_texts)
    session_ref = Key(_text_or_none)
    apart = Key(_text_or_none)
    ended = Key(_part(Ended))
    hint = Key(_text)
    spent = Key(_filled(Spent))
    subtasks_tried = Key(_mapping)

    def tried_by(self, subtask_id: str | None) -> tuple[str, ...]:
        """What a loop of the files before this one tried."""
        return self.tried if subtask_id is None else _texts(self.subtasks_tried.get(subtask_id))


class UserRequest(Entry, event="USER_REQUEST"):
    """What the user asked for, or with an `action` a later answer of theirs."""

    __slots__ = ()
    prompt = Key(_text)
    title = Key(_text)
    kind = Key(_text)
    action = Key(_text_or_none)
    max_iterations = Key(_whole)
    limits_recorded = Key(_mapping, "limits")
    workspace = Key(_text)
    executor = Key(_filled(ExecutorChoice))
    checks = Key(_filled(CheckChoice))
    plan = Key(_or_none(dict))
    approve_plan = Key(_flag)
    into = Key(_text_or_none)
    partial = Key(_flag)
    isolation = Key(_text)
    label = Key(_text)
    prompt_file = Key(_text)
    continues = Key(_part(Continues))
    has_action = Key(lambda value: value is not None, "action")

    @property
    def chunk(self) -> str:
        """Whether the request may be split: `auto`, `always` or `never`."""
        return _text(self.data.get("chunk")) or "never"

    @property
    def limits_given(self) -> dict[str, Any]:
        """The usable limits that it names."""
        limits = self.limits_recorded.items()
        return {name: value for name, value in limits if name in Limits._fields and _usable_limit(name, value)}

    @property
    def limits(self) -> Limits:
        """Its limits, the defaults where it names none."""
        return Limits(**self.limits_given)

    @property
    def changes_only_terms(self) -> bool:
        """Whether an answer gives other limits or another branch, and so says nothing about a plan."""
        return "limits" in self.data or "into" in self.data

    @property
    def executor_name(self) -> str:
        """Who is to be asked; in old traces a bare name."""
        return _text(self.data.get("executor")) or self.executor.name


class SystemRules(Entry, event="SYSTEM_RULES"):
    """The mandatory rules as they are sent."""

    __slots__ = ()
    rules = Key(_text)
    sha256 = Key(_text)


class ChunkingPlan(Entry, event="CHUNKING_PLAN"):
    """How the request is split; without subtasks it runs in one piece. `proposed`: it waits for the user.

    `isolation`: `worktrees`, or `direct` for subtasks that run one after another in the user's folder.
    """

    __slots__ = ()
    subtasks = Key(_parts(Subtask))
    reason = Key(_text)
    mode = Key(_text)
    isolation = Key(_text)
    why = Key(_text)
    proposed = Key(_flag)
    base = Key(_text_or_none)
    done = Key(_texts)


class TestRun(Part):
    """What a run of the tests showed: of a judgment, or before the task. `outcome` as of a criterion; 0 is none.

    `fixed` failed before the task and pass with it, as they were before; None where that was not compared. `restated`
    demand something else now, as was allowed, and do not pass without the change.
    `why` and `next` where it is not verified; `not_isolated` says why no clean copy was used.
    """

    __slots__ = ()
    __test__ = False  # no class of tests for pytest
    command = Key(_text)
    origin = Key(_text)
    outcome = Key(_text)
    passed = Key(_count)
    failed = Key(_count)
    skipped = Key(_count)
    new = Key(_count)
    fixed = Key(_whole)
    restated = Key(_count)
    why = Key(_text)
    next = Key(_text)
    not_isolated = Key(_text)
    duration_ms = Key(_whole)


class LlmRequest(Entry, event="LLM_REQUEST"):
    """A request, recorded before it is sent; `purpose` is `plan` or `repair` where it asks for a plan, or `review`.

    `base_tests` is how the tests ended before the task.
    """

    __slots__ = ()
    prompt = Key(_text)
    attempt = Key(_whole)
    executor = Key(_text)
    model = Key(_text)
    base = Key(_text_or_none)
    purpose = Key(_text)
    waited_ms = Key(_whole)
    base_tests = Key(_part(TestRun))


class AgentError(Part):
    """Why an answer is none."""

    __slots__ = ()
    kind = Key(_text)
    message = Key(_text)
    next_step = Key(_text)
    retry_after_s = Key(_number)


class ReportedCommand(Part):
    """A command that the agent says it ran; `exit` None where it does not say how it ended."""

    __slots__ = ()
    run = Key(_text)
    exit = Key(_whole)


class ToolCall(Part):
    """A call of the agent's tools, as the executor saw it; `ok` None where nobody can tell."""

    __slots__ = ()
    name = Key(_text)
    summary = Key(_text)
    ok = Key(_or_none(bool))


class ReportedTest(Part):
    """An existing test that the agent says it changed."""

    __slots__ = ()
    test = Key(_text)
    why = Key(_text)


class Report(Part):
    """What the agent says of its own work (`runner.agent_report`): claims, to be held against what happened."""

    __slots__ = ()
    status = Key(_text)
    done = Key(_texts)
    left = Key(_texts)
    files = Key(_texts)
    commands = Key(_parts(ReportedCommand))
    tests_changed = Key(_parts(ReportedTest))
    question = Key(_text)
    choices = Key(_texts)


class Collateral(Part):
    """Something of the user's that was harmed: `kind` is a `HarmKind` of the gate, or `state` for the state dir."""

    __slots__ = ()
    kind = Key(_text)
    what = Key(_text)
    before = Key(_text)
    after = Key(_text)


class LlmResponse(Entry, event="LLM_RESPONSE"):
    """An answer, recorded before it is judged; `files_modified` comes from comparing the workspace.

    `purpose` is that of its request, `question` the hash of a review's question, `cached`: nobody was asked again.
    `left_blob` is what an undo of the answer reads.
    """

    __slots__ = ()
    output = Key(_text)
    status = Key(_text)
    files_modified = Key(_texts)
    usage = Key(_part(Usage))
    cost_usd = Key(_number)
    duration_ms = Key(_whole)
    session_ref = Key(_text_or_none)
    agentic_trace = Key(_text_or_none)
    report = Key(_part(Report))
    diff_blob = Key(_text_or_none)
    model = Key(_text)
    stop_reason = Key(_text_or_none)
    executor = Key(_text)
    tool_calls = Key(_parts(ToolCall))
    tool_call_count = Key(_whole)
    session_resumed = Key(_flag)
    time_limit = Key(_flag)
    purpose = Key(_text)
    question = Key(_text)
    cached = Key(_flag)
    has_fallback = Key(bool, "fallback_from")
    collateral = Key(_parts(Collateral))
    left_blob = Key(_text_or_none)

    @property
    def error(self) -> AgentError | None:
        """What went wrong; a bare text (traces from elsewhere) is its message."""
        value = self.data.get("error")
        if isinstance(value, dict):
            return AgentError(value)
        return AgentError({"message": value}) if isinstance(value, str) and value else None

    @property
    def unbilled(self) -> bool:
        """Whether a provider refused before anything was said, done or counted.

        Its unknown cost leaves the sum of a task known; an answer that was cut off may have cost something.
        """
        error = self.error
        if error is None or error.kind not in REFUSALS:
            return False
        return not (self.data.get("usage") or self.data.get("output") or self.data.get("tool_call_count"))


class SessionStarted(Entry, event="SESSION_STARTED"):
    """The agent's own session for the request before it, recorded as soon as it has a name."""

    __slots__ = ()
    session_ref = Key(_text)


class SessionInterrupted(Entry, event="SESSION_INTERRUPTED"):
    """What the session of a request without an answer did and cost; None is unknown."""

    __slots__ = ()
    session_ref = Key(_text)
    agentic_trace = Key(_text_or_none)
    usage = Key(_part(Usage))
    cost_usd = Key(_number)


class Unverified(NamedTuple):
    """One criterion that could not be checked: why, and the next step that lets it be checked.

    `ran`: its command was run all the same, and did not settle it.
    """

    criterion: str
    why: str
    next: str
    ran: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As stored and shown; `ran` where it did."""
        told = {"criterion": self.criterion, "why": self.why, "next": self.next}
        return told | ({"ran": True} if self.ran else {})


def _unverified(told: Mapping[str, Any]) -> Unverified:
    criterion, why, following = (_text(told.get(key)) for key in ("criterion", "why", "next"))
    return Unverified(criterion, why, following, _flag(told.get("ran")))


class Survivor(Part):
    """A fault in a changed function that no test noticed: `old` became `new`."""

    __slots__ = ()
    path = Key(_text)
    line = Key(_whole)
    function = Key(_text)
    kind = Key(_text)
    old = Key(_text)
    new = Key(_text)


class Strength(Part):
    """How many faults in changed functions the tests noticed; `untried` were left, `refused` did not build."""

    __slots__ = ()
    total = Key(_count)
    killed = Key(_count)
    survivors = Key(_parts(Survivor))
    functions = Key(_count)
    of_functions = Key(_count)
    untried = Key(_count)
    refused = Key(_count)


class CriterionResult(Part):
    """One criterion's result. `outcome` is `pass`, `fail` or `not_verified` (with `why` and `next`); old traces: "".

    `usage` and `cost_usd` are what it spent by itself, `duration_ms` what its command took. One that is `advisory`
    informs: whether it could be checked does not count. `strength` is what Q11 counted.
    """

    __slots__ = ()
    id = Key(_text)
    name = Key(_text)
    reason = Key(_text)
    outcome = Key(_text)
    why = Key(_text)
    next = Key(_text)
    left_out = Key(_whole)
    advisory = Key(_flag)
    strength = Key(_part(Strength))
    usage = Key(_part(Usage))
    cost_usd = Key(_number)
    duration_ms = Key(_whole)

    @property
    def passed(self) -> bool | None:
        """Whether it holds; None where the trace does not say."""
        value = self.data.get("passed")
        return value if isinstance(value, bool) else None


class Issue(Part):
    """One place where a criterion found something; `path` is relative to the workspace, `line` is 1-based."""

    __slots__ = ()
    criterion = Key(_text)
    type = Key(_text)
    path = Key(_text)
    line = Key(_whole)
    excerpt = Key(_text)
    suggestion = Key(_text)
    message = Key(_text)
    preexisting = Key(bool)

    @property
    def place(self) -> str:
        """`src/a.py:7`; empty where it names no file."""
        return f"{self.path}:{self.line}" if self.path and self.line is not None else self.path


class Question(Part):
    """What is put to the user; `by` is `agent` (it cannot go on without an answer) or `gate` (the user may decide)."""

    __slots__ = ()
    text = Key(_text)
    choices = Key(_texts)
    by = Key(_text)


class ChangedExpectation(Part):
    """One place where a task changed what a test expects: the lines before and after."""

    __slots__ = ()
    path = Key(_text)
    line = Key(_whole)
    old = Key(_text)
    new = Key(_text)


class QualityJudgment(Entry, event="QUALITY_JUDGMENT"):
    """What the criteria say of an answer; `whole`: of the merged result of all subtasks.

    `unreached`: the changed lines that no test reaches (`path:12-14`), where a coverage report was named.
    """

    __slots__ = ()
    judgment = Key(_text)
    criteria_results = Key(_parts(CriterionResult))
    summary = Key(_text)
    issues = Key(_parts(Issue))
    duration_ms = Key(_whole)
    whole = Key(_flag)
    asked = Key(_part(Question), "question")
    notes = Key(_texts)
    unreached = Key(_texts)
    unsettled = Key(_texts)
    tests = Key(_part(TestRun))
    expectations = Key(_parts(ChangedExpectation))
    conflict = Key(_texts)
    conflict_text = Key(_text)

    @property
    def question(self) -> Question | None:
        """What the user is asked about this answer; older traces only say that they are."""
        told = "the answer says that nothing needs to change"
        return self.asked or (Question({"text": told, "by": "gate"}) if self.data.get("ask_person") else None)

    @property
    def to_allow(self) -> tuple[str, ...]:
        """The criteria that hold if the user allows it: what they could not settle is asked, and was looked at."""
        asked = self.question is not None and self.question.by == "gate"
        return tuple(
            [one.criterion for one in self.unverified if asked and one.ran and one.criterion in self.unsettled]
        )

    @property
    def failures(self) -> tuple[CriterionResult, ...]:
        """The criteria that do not hold."""
        return tuple([result for result in self.criteria_results if result.passed is False])

    @property
    def damaged_results(self) -> bool:
        """Whether a result has no id, or does not say whether its criterion holds."""
        listed = self.data.get("criteria_results")
        results = self.criteria_results
        whole = all(type(result.data.get("id")) is str and result.passed is not None for result in results)
        return not isinstance(listed, list) or len(results) != len(listed) or not whole

    @property
    def strength(self) -> Strength | None:
        """What the tests noticed of the faults tried; None where none was."""
        return next((result.strength for result in self.criteria_results if result.strength is not None), None)

    @property
    def spenders(self) -> tuple[CriterionResult, ...]:
        """The criteria that spent something by themselves; a conflict repeats results that are counted already."""
        told = () if self.conflict else self.criteria_results
        return tuple([result for result in told if result.usage is not None or result.cost_usd is not None])

    @property
    def spent_usd(self) -> float | None:
        """What the criteria spent by themselves; None where one does not know it."""
        costs = [result.cost_usd for result in self.spenders]
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    @property
    def unverified(self) -> tuple[Unverified, ...]:
        """The criteria that could not be checked."""
        return tuple(
            Unverified(result.id or "?", result.why, result.next, _flag(result.data.get("ran")))
            for result in self.criteria_results
            if result.outcome == "not_verified" and not result.advisory
        )


class RejectionDetails(Entry, event="REJECTION_DETAILS"):
    """What failed, and the next prompt."""

    __slots__ = ()
    criteria_failed = Key(_texts)
    modification_prompt = Key(_text)


class IterationEnd(Entry, event="ITERATION_END"):
    """The end of an iteration, RETRY included."""

    __slots__ = ()
    judgment = Key(_text)
    stated_index = Key(_whole, "iteration_index")


class FinalSummary(Entry, event="FINAL_SUMMARY"):
    """The end of the task; nothing follows it."""

    __slots__ = ()
    status = Key(_text)
    total_iterations = Key(_whole)
    files_modified = Key(_texts)
    usage = Key(_part(Usage))
    cost_usd = Key(_number)
    duration_ms = Key(_whole)
    reason = Key(_text)
    detail = Key(_text)
    diff_blob = Key(_text_or_none)
    files = Key(_parts(_file_count))
    branch = Key(_text)
    left_blob = Key(_text_or_none)
    subtasks = Key(_parts(Part))
    verification = Key(_text)
    not_verified = Key(_parts(_unverified))

    @property
    def has_diff(self) -> bool:
        """Whether it tells the whole task's change (a null says that nothing changed); older traces do not."""
        return "diff_blob" in self.data

    @property
    def change(self) -> dict[str, Any]:
        """What it tells of the whole change, for the file that goes on from it."""
        return {key: self.data.get(key) for key in ("files_modified", "diff_blob", "files")}


class ReviewedPath(Part):
    """What was decided of one file, or a conflict in it.

    `before` and `after` are how it was before the task and as the task left it, `left` that without the hunks that are
    out, `taken` how it was on disk where all of that was kept (mode and git id).
    `discarded` are the ids of the hunks that are out, `decided` of all that were kept or discarded by name.
    """

    __slots__ = ()
    path = Key(_text)
    before = Key(_texts_or_none)
    after = Key(_texts_or_none)
    left = Key(_texts_or_none)
    taken = Key(_texts_or_none)
    discarded = Key(_texts)
    decided = Key(_texts)


class Undo(Entry, event="UNDO"):
    """A step of the record of what was undone, reviewed and committed of a task, beside its trace.

    `phase` is begun, planned or done, `kind` undo, redo, review or commit. `plan_blob` holds every change of a file,
    `state` the repository as it was; `left_blob` is what an answer left that was never recorded.
    """

    __slots__ = ()
    phase = Key(_text)
    kind = Key(_text)
    iteration = Key(_whole)
    plan_blob = Key(_text)
    state = Key(_text)
    left_blob = Key(_text)
    reviewed = Key(_parts(ReviewedPath))
    conflicts = Key(_parts(ReviewedPath))
    commit = Key(_text)


def entry_of(
    timestamp: str,
    event: str,
    session_id: str,
    task_id: str,
    data: dict[str, Any],
    subtask_id: str | None = None,
    iteration_index: int | None = None,
) -> Entry:
    """The entry of its event's own class."""
    return KINDS.get(event, Entry)(timestamp, event, session_id, task_id, data, subtask_id, iteration_index)


def read_fact(fields: object) -> Entry | None:
    """The entry in a decoded line from anywhere; None where it holds no data. Missing texts are empty."""
    if not isinstance(fields, dict):
        return None
    event, data, index = fields.get("event"), fields.get("data"), fields.get("iteration_index")
    if not isinstance(data, dict):
        return None
    return entry_of(
        _text(fields.get("timestamp")),
        _text(event),
        _text(fields.get("session_id")),
        _text(fields.get("task_id")),
        data,
        _text_or_none(fields.get("subtask_id")),
        index if type(index) is int and index >= 0 else None,
    )


def fact_in(line: bytes | str) -> Entry | None:
    """The entry in a stored line from anywhere; None for a damaged one (`pm trace verify` names it)."""
    try:
        return read_fact(json.loads(line))
    except (ValueError, RecursionError):
        return None
