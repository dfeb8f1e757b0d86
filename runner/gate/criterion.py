"""What a criterion is given and what it gives back. Pure values: nothing here touches the disk.

Evidence is gathered once for each answer by `runner.checks.evidence` and then only read. A criterion is a function
`(Evidence) -> Finding`, or one that may wait and ask models, `async (Evidence, Models) -> Finding`; `verdict` gives it
an id, a name and says whether it is mandatory. The reason of a finding is its first places in full, `TODO found at
src/login.py:2`, then how many more there are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import FunctionType, MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from runner.gate.request_kind import Kind
from tracer.facts import Report
from tracer.redaction.cuts import beginning

_ASYNC = 0x80  # inspect.CO_COROUTINE
Judgment = Literal["PASS", "REJECT", "RETRY"]
CommandKind = Literal["test", "lint", "typecheck"]


class ChangedFile(NamedTuple):
    """A file this task changed, whole. `path` is relative to the workspace with `/`; None content: absent on that side.

    `too_large` marks content cut at the reading limit, `unstable` a file that changed while it was read.
    """

    path: str
    before: bytes | None
    after: bytes | None
    too_large: bool = False
    unstable: bool = False


class ClaimedPath(NamedTuple):
    """A path that the answer claims or the task expects, looked up on disk.

    `source` is `answer` (claimed as delivered), `request` (named by the request) or `expected` (listed by the task).
    """

    path: str
    source: Literal["answer", "request", "expected"]
    exists: bool
    inside: bool
    size: int | None = None
    changed: bool = False


class NotVerified(NamedTuple):
    """Why something could not be checked, in a few words, and the next step that lets it be checked.

    `ran`: the check's command was run, and did not settle it.
    """

    why: str
    next: str
    ran: bool = False


NOT_TRUSTED = NotVerified(why="folder not trusted", next="pm config trust")


class CommandResult(NamedTuple):
    """One run of a test, lint or type-check command. `exit_code` is None where it did not end by itself.

    `origin` says why it is in force.
    """

    kind: CommandKind
    command: str
    origin: Literal["given", "configured", "detected"]
    exit_code: int | None
    output_tail: str = ""
    duration_s: float = 0.0
    timed_out: bool = False
    flaky: bool = False
    failing: tuple[str, ...] = ()


HarmKind = Literal[
    "deleted", "reset", "overwritten", "repository", "head", "commits", "history", "ref", "stash", "config", "hook",
    "outside",
]  # fmt: skip


class Harm(NamedTuple):
    """What happened to something of the user's that no change of the work calls for: a file, or the repository.

    `deleted`, `reset` and `overwritten` are files that held work in no commit; `what` is the path or the name in the
    repository, `before` and `after` its short values there. `commits` only adds to the branch, `history` loses some.
    `outside`: a file outside the workspace was written.
    """

    kind: HarmKind
    what: str
    before: str = ""
    after: str = ""


class Survivor(NamedTuple):
    """A fault in a changed function that no test noticed: `old` became `new`; `kind` `stub` is the whole function."""

    path: str
    line: int
    function: str
    kind: str
    old: str
    new: str


class Strength(NamedTuple):
    """How many faults in changed functions the tests noticed.

    `functions` of all `of_functions` changed ones were tried; `untried` faults were left when the time was used up,
    `refused` ones did not build and count for nothing.
    """

    killed: int
    survivors: tuple[Survivor, ...] = ()
    functions: int = 0
    of_functions: int = 0
    untried: int = 0
    refused: int = 0

    @property
    def total(self) -> int:
        """The faults that count."""
        return self.killed + len(self.survivors)

    @property
    def percent(self) -> float:
        """The share of faults that the tests noticed; 100 where there was none to notice."""
        return 100.0 * self.killed / self.total if self.total else 100.0


class SessionCall(NamedTuple):
    """A tool call of the agent's own session. `text` is what it was told, cut to 500 characters; `ok` None: untold."""

    name: str
    text: str
    ok: bool | None = None
    output: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """All it says of itself: a command that starts another one tells so in its output."""
        return self.name, self.text, self.output


class Question(NamedTuple):
    """What is put to the user: by the `agent`, which cannot go on without an answer, or by the `gate`."""

    text: str
    by: Literal["agent", "gate"]
    choices: tuple[str, ...] = ()


class Place(NamedTuple):
    """One place a criterion points at. `line` is 1-based; `preexisting` is reported apart and never rejects."""

    type: str
    message: str
    path: str | None = None
    line: int | None = None
    excerpt: str = ""
    suggestion: str = ""
    preexisting: bool = False


class Expectation(NamedTuple):
    """One place where a task changed what a test expects: the lines before and after."""

    path: str
    line: int
    old: str
    new: str


class SuiteEvidence(NamedTuple):
    """What the tests showed: run by us, on a clean copy, against what they expected before the task.

    With tests and harness as they were `fixed` failed before and pass now, `broken` passed before and do not now;
    `restated`: changed, as was allowed, and fail without the change; `failing` fail as the task left them; `removed`
    ran before and do not run now. Of those that fail as before, `unfixed` concern the task, `still_failing` do not.
    `expectations`: only changed tests fail in their old form, and all pass in the new one; `held`: all pass in their
    old form. `idle` are new and pass without the change. `bought` shows that green was bought, `asks` is for a person
    to judge. `told` is the line of the output that says most of a `fault`; `not_isolated` says why the workspace's own
    folder was used.
    """

    command: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    new: int = 0
    fixed: int = 0
    restated: int = 0
    broken: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unfixed: tuple[str, ...] = ()
    still_failing: tuple[str, ...] = ()
    harness: tuple[str, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    held: bool = False
    idle: tuple[str, ...] = ()
    bought: tuple[Place, ...] = ()
    asks: tuple[Place, ...] = ()
    fault: str = ""
    told: str = ""
    output_tail: str = ""
    flaky: bool = False
    not_isolated: str = ""
    not_verified: NotVerified | None = None


class Evidence(NamedTuple):
    """Everything the criteria may look at for one answer.

    `diff` is the change as git writes it, of all files whose contents are at hand.
    `protected_changes` names what the task changed under the state directory, undone but for `lost_records`; `harm`
    what happened to the user's uncommitted files and repository (`harm_unknown`: why that cannot be told).
    `not_checked` holds the kinds of command that are there and could not be run, each with the reason.
    `report` is what the agent says of its work, None without one; `session` the calls of its session, None where no
    record of it exists; `unchanged_before` tells that the answer before this one changed nothing either.
    `tests` is what the test command showed; `tests_policy` what the task may do to tests: add, change, frozen, allowed.
    `require` are ids of criteria that must not stay unverified.
    `error_kind` is the executor's word for trouble (`AnswerError.kind`), None where the answer came whole.
    """

    request: str
    answer: str
    status: str = "COMPLETE"
    kind: Kind = "change"
    stop_reason: str | None = None
    error_kind: str | None = None
    files: tuple[ChangedFile, ...] = ()
    diff: bytes = b""
    claims: tuple[ClaimedPath, ...] = ()
    report: Report | None = None
    session: tuple[SessionCall, ...] | None = None
    unchanged_before: bool = False
    commands: tuple[CommandResult, ...] = ()
    not_checked: Mapping[CommandKind, NotVerified] = MappingProxyType({})
    protected_changes: tuple[str, ...] = ()
    lost_records: tuple[str, ...] = ()
    harm: tuple[Harm, ...] = ()
    harm_unknown: str = ""
    tests: SuiteEvidence | None = None
    tests_policy: str = "add"
    require: tuple[str, ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})


class Finding(NamedTuple):
    """A criterion's result: passed, or the reason with its places.

    `not_verified` says why it could not be judged: `passed` is then no PASS, and no fault of the answer either.
    `question` is put to the user where nothing failed. `strength` is what Q11 counted. `usage` (counts by name) and
    `cost_usd` are what the criterion spent by itself: what `Models.ask` costs is counted there. Usage without a cost is
    a cost that is unknown. `needs_person`: only a person can settle what is not verified.
    """

    passed: bool
    reason: str = ""
    places: tuple[Place, ...] = ()
    not_verified: NotVerified | None = None
    question: Question | None = None
    strength: Strength | None = None
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    needs_person: bool = False


class ModelReply(NamedTuple):
    """What a model answered; with `trouble` there is no answer to rely on, and it says why."""

    text: str = ""
    trouble: str = ""
    cost_usd: float | None = None


class Models(Protocol):
    """How an async criterion asks a model: through an executor, read-only, recorded, within the task's limits."""

    async def ask(
        self,
        prompt: str,
        *,
        executor: str = "",
        model: str | None = None,
        schema: Mapping[str, Any] | None = None,
        keep: Callable[[str], bool] | None = None,
    ) -> ModelReply:
        """The answer to `prompt`, which is all that the model sees: it works in an empty folder.

        Without `executor` the reviewer (`--review`) answers, else who did the task. `schema` is the JSON Schema of the
        answer: a model that can be held to it is, the text is to be checked anyway. An answer that `keep` accepts
        is kept in the state dir, and given for the same question again.
        """
        ...


class Criterion(NamedTuple):
    """A registered criterion. `explain` is the text of `pm criteria explain`.

    One whose `check` is async is asked only where no other has failed: it may cost money. `timeout_s` is how long the
    check may take; where the task has less time left, that holds. One that is `advisory` informs: whether it could be
    checked does not count.
    """

    id: str
    name: str
    check: Callable[[Evidence], Finding] | Callable[[Evidence, Models], Awaitable[Finding]]
    mandatory: bool = True
    explain: str = ""
    timeout_s: float = 300.0
    advisory: bool = False

    @property
    def waits(self) -> bool:
        """Whether the check is async."""
        check = self.check
        if isinstance(check, FunctionType):
            return bool(check.__code__.co_flags & _ASYNC)
        from inspect import iscoroutinefunction  # 7 ms, only for what is no plain function

        return iscoroutinefunction(check) or iscoroutinefunction(getattr(check, "__call__", None))  # noqa: B004


class Verdict(NamedTuple):
    """What QUALITY_JUDGMENT records: `criteria_results`, `issues` and `tests` in the wire shape of contracts 1, 2, 11.

    `unreached` are changed lines that no test reaches, as a coverage report tells; `unsettled` criteria without which
    the task may not end COMPLETE, and that could not be verified.
    """

    judgment: Judgment
    criteria_results: tuple[dict[str, Any], ...]
    issues: tuple[dict[str, Any], ...] = ()
    summary: str = ""
    notes: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    question: Question | None = None
    unsettled: tuple[str, ...] = ()
    tests: Mapping[str, Any] | None = None
    expectations: tuple[Mapping[str, Any], ...] = ()


_EXCERPT = 160
_SHOWN = 3


def at(
    kind: str, message: str, *, path: str | None = None, line: int | None = None,
    excerpt: str = "", suggestion: str = "", preexisting: bool = False,
) -> Place:  # fmt: skip
    """A place of type `kind` with its excerpt cut to one short line."""
    return Place(kind, message, path, line, beginning(" ".join(excerpt.split()), _EXCERPT), suggestion, preexisting)


def finding_of(places: Iterable[Place]) -> Finding:
    """Passed where no place counts; places that were there before are carried along and never reject."""
    found = tuple(places)
    counting = [place for place in found if not place.preexisting]
    if not counting:
        return Finding(passed=True, places=found)
    distinct = list({_words(place): place for place in counting}.values())
    said = [_words(place, above=above) for above, place in zip((None, *distinct), distinct[:_SHOWN], strict=False)]
    more = len(distinct) - _SHOWN
    reason = ", ".join(said) + (f" and {more} more" if more > 0 else "")
    return Finding(passed=False, reason=reason, places=found)


def _words(place: Place, *, above: Place | None = None) -> str:
    """`TODO found at a.py:2`; without what the place `above` has said already."""
    if place.path is None:
        return place.message
    where = f"{place.path}:{place.line}" if place.line else place.path
    if above is not None and above.message == place.message:
        return where if above.path else f"also at {where}"
    return f"{place.message} at {where}" if place.line else f"{place.message}: {where}"
