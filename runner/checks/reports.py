"""What a run of a test command showed: every test by name, and whether that is the whole of it. Pure.

An exit code alone is no evidence: `CommandRun` tells a run whose report shows passing tests from one that ran none,
left no report, a cut one, or one that cannot be read. Only the first passes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, Literal, NamedTuple

from runner.gate.criterion import NotVerified

TestOutcome = Literal["passed", "failed", "error", "skipped"]
OUTCOMES: Final[tuple[TestOutcome, ...]] = ("skipped", "passed", "failed", "error")  # from best known to worst
Reading = Literal["read", "no_tests", "no_report", "partial", "unreadable"]
_BAD: Final = frozenset({"failed", "error"})


class CaseResult(NamedTuple):
    """One test of one run. `file` is the test's file or folder, `trace` the calls that it failed in, where told.

    `whole`: no test, but a file or a package that could not be loaded; what it holds is not named then.
    """

    id: str
    outcome: TestOutcome
    duration_s: float = 0.0
    message: str = ""
    file: str = ""
    trace: str = ""
    whole: bool = False

    @property
    def short(self) -> str:
        """Its name as its source has it: without file, class and parameters."""
        name = re.split(r"::| › | > |(?<=\w)#(?=\w)", self.id)[-1]
        return name.partition("[")[0].strip() if re.match(r"\w+\[", name) else name.strip()


@dataclass(frozen=True, slots=True)
class TestReport:
    """The tests of one run in the order reported, each id once, with its worst outcome.

    `complete` is false where the report itself shows that more tests were to run, or is cut. `source` names the
    formats it was read from.
    """

    __test__ = False  # no class of tests for pytest

    tests: tuple[CaseResult, ...] = ()
    complete: bool = True
    source: str = ""

    @property
    def outcomes(self) -> dict[str, TestOutcome]:
        """Each test's outcome by id."""
        return {test.id: test.outcome for test in self.tests}

    @property
    def failing(self) -> tuple[str, ...]:
        """The ids of tests that failed or broke."""
        return tuple(test.id for test in self.tests if test.outcome in _BAD)

    @property
    def ran(self) -> int:
        """How many tests were run, not skipped."""
        return sum(test.outcome != "skipped" for test in self.tests)

    @property
    def counts(self) -> dict[str, int]:
        """How many of each outcome."""
        found = Counter(test.outcome for test in self.tests)
        return {name: found[name] for name in OUTCOMES}


def merged(reports: Iterable[TestReport]) -> TestReport:
    """One report of several: a test that stands in more than one keeps its worst outcome."""
    found: dict[str, CaseResult] = {}
    given = tuple(reports)
    for report in given:
        for test in report.tests:
            known = found.get(test.id)
            if known is None or OUTCOMES.index(test.outcome) > OUTCOMES.index(known.outcome):
                found[test.id] = test
    return TestReport(
        tests=tuple(found.values()),
        complete=all(report.complete for report in given),
        source="+".join(dict.fromkeys(report.source for report in given)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """One run of a test command. `exit_code` is None where it did not end by itself.

    `doubt` says why the command proves nothing however it ends (its exit code is thrown away, it only lists tests);
    `missing_tool` names a program without which it could not begin, `runners` the known ones that the command starts.
    """

    command: str
    exit_code: int | None
    reading: Reading
    report: TestReport = TestReport()
    duration_s: float = 0.0
    timed_out: bool = False
    output_tail: str = ""
    doubt: NotVerified | None = None
    missing_tool: str = ""
    runners: tuple[str, ...] = ()

    @property
    def not_verified(self) -> NotVerified | None:
        """Why this run, taken alone, says nothing about the code; None where it passed or failed."""
        if self.report.failing:
            return None
        if self.missing_tool:
            return NotVerified(why=f"{self.missing_tool} not found", next="install it, or name another: --test CMD")
        if self.timed_out:
            return NotVerified(why="the tests ran out of time", next="--timeout S, or a faster --test CMD")
        if self.doubt is not None:
            return self.doubt
        if self.reading == "no_tests":
            return NotVerified(why="the test command ran no tests", next="name one that does: --test CMD")
        if self.exit_code != 0 or self.reading == "read":
            return None
        return _UNTOLD[self.reading]

    @property
    def outcome(self) -> Literal["passed", "failed", "not_verified"]:
        """What it shows, taken alone; tests that should be there and are not take a comparison with the base."""
        if self.not_verified is not None:
            return "not_verified"
        return "failed" if self.report.failing or self.exit_code != 0 else "passed"


_UNTOLD: Final[Mapping[Reading, NotVerified]] = {
    "no_report": NotVerified(
        why="it ended with 0 and reported no tests",
        next="--test with the runner itself (pytest, npx jest, go test ./...)",
    ),
    "partial": NotVerified(
        why="it ended with 0 before all its tests had run", next="find what ends the test process, then run it again"
    ),
    "unreadable": NotVerified(
        why="its test report cannot be read", next="--test with the runner itself (pytest, npx jest, go test ./...)"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs of one suite, test by test: ids, in the order of the report that has them."""

    broken: tuple[str, ...] = ()  # passed before, fails now
    fixed: tuple[str, ...] = ()  # failed before, passes now
    still_failing: tuple[str, ...] = ()
    muted: tuple[str, ...] = ()  # ran before, is skipped now
    gone: tuple[str, ...] = ()  # ran before, is not there now
    new: tuple[str, ...] = ()  # was not there before
    new_failing: tuple[str, ...] = ()  # the new ones that fail

    @property
    def fewer(self) -> bool:
        """Whether tests that ran before do not run now."""
        return bool(self.gone or self.muted)


def compare(before: TestReport, after: TestReport) -> Comparison:
    """What became of the tests of `before`, and what `after` has besides."""
    was, now = before.outcomes, after.outcomes
    passed = [test for test, outcome in was.items() if outcome == "passed"]
    failed = [test for test, outcome in was.items() if outcome in _BAD]
    ran = [test for test, outcome in was.items() if outcome != "skipped"]
    new = tuple(test for test in now if test not in was)
    shown = [test for test in new if now[test] == "passed"]
    loaded = {case.id for case in before.tests if case.whole and any(_is_of(case, test) for test in shown)}
    return Comparison(
        broken=tuple(test for test in passed if now.get(test) in _BAD),
        fixed=tuple(test for test in failed if now.get(test) == "passed"),
        still_failing=tuple(test for test in failed if now.get(test) in _BAD),
        muted=tuple(test for test in ran if now.get(test) == "skipped"),
        gone=tuple(test for test in ran if test not in now and test not in loaded),
        new=new,
        new_failing=tuple(test for test in new if now[test] in _BAD),
    )


def _is_of(whole: CaseResult, test: str) -> bool:
    """Whether a test may be one of those that could not be loaded; without a file it cannot be told of which."""
    return not whole.file or test.startswith((f"{whole.id}::", f"{whole.id}."))


def named_as(run: CommandRun, names: Collection[str]) -> CommandRun:
    """The same, with its tests by the `names` that another run has for them, where a TAP stream tells more of some."""
    return replace(run, report=renamed(run.report, names)) if "tap" in run.report.source else run


def renamed(report: TestReport, names: Collection[str]) -> TestReport:
    """The report with failing tests by those of `names` that their own begin with: what went wrong may stand behind.

    Words may stand there where no other test has the name.
    """
    longest_first = sorted(names, key=len, reverse=True)

    def named(case: CaseResult, behind: re.Pattern[str], taken: Collection[str]) -> CaseResult:
        if case.outcome == "passed" or case.id in names:
            return case
        stems = (one for one in longest_first if case.id.startswith(one) and behind.match(case.id, len(one)))
        stem = next(stems, case.id)
        more = case.id[len(stem) :]
        return case._replace(id=stem, message=f"{more}\n{case.message}") if more and stem not in taken else case

    cases = [named(case, _MARK, ()) for case in _by_order(report.tests, [*names])]
    taken = {case.id for case in cases}
    return merged([replace(report, tests=tuple(named(case, _WORDS, taken) for case in cases))])


def _by_order(cases: Sequence[CaseResult], names: Sequence[str]) -> list[CaseResult]:
    """The cases with those that are told by a place in the source alone named by what stands there among `names`.

    That is the name that no case has between those of their neighbours, else the one before: a test may have failed at
    its second point only.
    """
    named, own, last = list(cases), {case.id for case in cases}, 0
    waiting: list[int] = []
    for at, case in enumerate((*cases, None)):
        if case is not None and case.id not in names:
            waiting += [at] if case.outcome != "passed" and _AT_PLACE.match(case.id) else []
            continue
        here = names.index(case.id) if case is not None else len(names)
        free = [name for name in names[last:here] if name not in own]
        free = (free[: len(waiting)] if last else free[-len(waiting) :]) or [*names[max(0, last - 1) : here + 1]][:1]
        for number, place in enumerate(waiting if free else ()):
            one = named[place]
            name = free[min(number, len(free) - 1)]
            named[place] = one._replace(id=name, message=f"{one.id}\n{one.message}")
        waiting, last = [], max(last, here + 1)
    return named


_AT_PLACE = re.compile(r"[\w./-]+\.\w+:\d+\b")
_MARK, _WORDS = re.compile(r"\s*[^\w\s]"), re.compile(r"\W")


_PASSING = re.compile(
    r"[\w./-]*[/.][a-zA-Z_][\w-]*:\d+(?::\d+)?|0x[0-9a-f]+|\b\d+(?:\.\d+)?\s*(?:m?s|seconds)\b"
    r"|duration_ms:? [\d.]+|(?m:^.*\bseed\b.*$)|(?<=') \(\d+\)(?= panicked)"
    r"|[\d.]+ (?:runs|assertions)/s|(?m:^\S+#\S+ =.*$|^test \S+ \.\.\. \w+$)"
)
_MOST_LINES = 12


def told_of(name: str, run: CommandRun) -> str:
    """How a test failed in a run, without what differs from run to run."""
    case = next((case for case in run.report.tests if case.id == name), None)
    if case is None:
        return "gone"
    if case.outcome == "passed":
        return "passed"
    text = case.message or _near(case, run)
    return "\n".join(line for line in _PASSING.sub("", text).splitlines() if line.strip())


def failed_at(name: str, run: CommandRun, paths: Collection[str]) -> frozenset[str]:
    """The lines of these files that the failure of a test passed through, as far as they are told."""
    case = next((case for case in run.report.tests if case.id == name), None)
    if case is None:
        return frozenset()
    names = "|".join(re.escape(path.rpartition("/")[2]) for path in paths)
    said = f"{case.message}\n{case.trace}\n{_near(case, run)}"
    return frozenset(re.findall(rf"(?:{names})[\"']?(?::|, line )(\d+)", said)) if names else frozenset()


def _near(case: CaseResult, run: CommandRun) -> str:
    """What the output says of a test; of others it tells in any order."""
    lines = run.output_tail.splitlines()
    near: set[int] = set()
    for number in (number for number, line in enumerate(lines) if case.short in line):
        told = range(number, min(number + _MOST_LINES, len(lines)))
        near.update(takewhile(lambda at: lines[at] != "", told))
    return "\n".join(lines[number] for number in sorted(near))
