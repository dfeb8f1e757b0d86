"""What runs of the tests say: of the base, of the change, and of the change with the tests as they were. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from runner.checks.bought.by_sight import bare_values, looks_for_runner, never_unequal
from runner.checks.bought.requested import asks_for_tests
from runner.checks.harness import Sorted, expectations, place_of
from runner.checks.not_begun import has_not_begun, telling_line
from runner.checks.report_formats import said_by_lines
from runner.checks.reports import CaseResult, CommandRun, Comparison, TestReport, compare, renamed
from runner.gate.criterion import ChangedFile, NotVerified, Place, SuiteEvidence, at
from runner.gate.definitions import functions_of
from runner.gate.evidence_criteria import names_of_tests, skip_in, tests_in
from runner.gate.languages import by_path
from runner.gate.source import open_source
from runner.gate.wording import pattern
from tracer.redaction.cuts import beginning

_ASSERT = pattern("evidence_criteria", "assert")
MAY_CHANGE = frozenset({"change", "allowed"})  # what a task may do to tests: before it, or of the change as it is
_SHOWN = 5
_SLOWER = 2  # a run that is ended in less than that many times the base's time did not hang
_NOT_BEGUN = (126, 127)  # what shells end with where a program is not there, or is none


class BaseRun(NamedTuple):
    """The tests before the task. `not_isolated` says why they ran in the folder itself.

    `reached`: by path, the test files that ran it, where the run itself measured that. `blameless`: the
    runner told of trouble of its own before any test, and named no code of the project.
    """

    run: CommandRun
    not_isolated: str = ""
    reached: Mapping[str, Sequence[str]] = {}
    blameless: bool = False

    @property
    def could_not_begin(self) -> bool:
        """Whether there was no program to run, or it failed by something else than the project's code."""
        return self.blameless or (self.run.exit_code in _NOT_BEGUN and not self.run.report.tests)

    @property
    def not_verified(self) -> NotVerified | None:
        """Why this suite can show nothing here; one without tests may get its first ones."""
        told = self.run.not_verified
        if told is None and self.could_not_begin:
            why = f"the test command cannot run here ({beginning(telling_line(self.run), 200)})"
            return NotVerified(why=why, next="make it run, or name another: --test CMD")
        return None if self.run.reading == "no_tests" and self.run.doubt is None else told


def new_passing(before: BaseRun, run: CommandRun) -> dict[str, None]:
    """The tests that were not there before and pass."""
    new = compare(before.run.report, run.report).new
    return dict.fromkeys(name for name in new if run.report.outcomes[name] == "passed")


def unshown(before: BaseRun, run: CommandRun, tests: Mapping[str, str]) -> list[CaseResult]:
    """The tests that pass in `run` and that the base has, but could not show: it broke before they ran.

    What is not built or imported names no test, yet each of them failed. `tests` are the files as they were before.
    """
    if before.run.outcome != "failed":
        return []
    known = before.run.report.outcomes
    moved = {case.short for case in before.run.report.tests if case.outcome == "passed"}
    new = (case for case in run.report.tests if case.outcome == "passed" and case.id not in known)
    new = (case for case in new if case.short not in moved)
    return [case for case in new if any(text for _, text in place_of(case, tests))]


def as_told(run: CommandRun, names: Collection[str] = ()) -> CommandRun:
    """The same with what its output says of tests, where it left no report: enough for doubts, not for proof.

    `names` are those by which tests that pass are told.
    """
    return run if run.reading != "no_report" else replace(run, report=renamed(said_by_lines(run.output_tail), names))


def still_told(was: CommandRun, run: CommandRun, policy: str) -> Iterable[Place]:
    """Tests that failed before, and that the output of a command without a report tells to fail, or tells no more."""
    outcomes, gone = run.report.outcomes, "passed" if policy in MAY_CHANGE else "failed"
    left = [name for name in was.report.failing if outcomes.get(name, gone) != "passed"]
    if run.reading == "no_report" and run.exit_code == 0 != was.exit_code and left:
        what = f"the test command ends with 0, and its output does not say that these pass: {', '.join(left[:_SHOWN])}"
        yield at("bought", what, suggestion="leave the tests and what runs them alone")


def is_settled(evidence: SuiteEvidence, run: CommandRun) -> bool:
    """Whether nothing is left to be tried out: a fault or a question was found, or nothing can be shown."""
    untold = evidence.not_verified is not None and run.reading != "no_report"
    faults = evidence.bought or evidence.unfixed or evidence.failing or evidence.broken or evidence.fault
    return bool(faults or evidence.asks or untold or evidence.not_isolated or evidence.expectations)


# Of tests without names only how the command ends is known.
NOTHING_NOTICED = at(
    "idle",
    "the tests that the change brings pass with nothing behind it",
    suggestion="add a test that fails without it",
)


def is_lost(run: CommandRun) -> bool:
    """Whether a run shows not one test that passes: the suite could not work where it ran."""
    return not any(test.outcome == "passed" for test in run.report.tests) and run.exit_code != 0


def _against(before: BaseRun, was: TestReport, run: CommandRun) -> Comparison:
    change = compare(was, run.report)
    # What we gave too little time reported nothing; what hangs since the change is the change's fault.
    cut_off = run.timed_out and run.duration_s < _SLOWER * before.run.duration_s
    return replace(change, gone=(), muted=()) if cut_off else change


def evidence_of(
    command: str, before: BaseRun, ran: tuple[CommandRun, bool], found: Sorted, policy: str
) -> SuiteEvidence:
    """What one run says: of everything as the task left it."""
    run, flaky = ran
    was, now = before.run.report, run.report
    if run.command != command:  # only the tests that reach the change were run
        was = replace(was, tests=tuple(case for case in was.tests if case.id in now.outcomes))
    change = _against(before, was, run)
    counts = now.counts
    red = tuple(name for name in change.muted if name in was.failing)
    told = run.not_verified
    cut = run.reading == "partial" and before.run.reading == "read" and run.exit_code == 0
    if told is None and run.outcome == "passed" and before.run.reading == "read" and not now.tests:
        told = NotVerified(why="the tests reported nothing this time", next="pm show, then run them yourself")
    failing = (*change.broken, *change.new_failing)
    only_old = bool(change.still_failing) and not failing and set(now.failing) <= set(change.still_failing)
    same = run.exit_code == before.run.exit_code and now.outcomes == was.outcomes
    as_little = same and before.could_not_begin and (has_not_begun(run) or not before.blameless)
    only_old = only_old and not as_little
    fault = "" if run.outcome != "failed" or failing or only_old else _fault(run)
    if fault and as_little:
        told, fault = before.not_verified, ""
    evidence = SuiteEvidence(
        command=run.command,
        passed=counts["passed"],
        failed=0 if as_little else counts["failed"] + counts["error"],
        skipped=counts["skipped"],
        new=len([name for name in change.new if now.outcomes[name] == "passed"]),
        fixed=len(change.fixed),
        failing=failing,
        removed={"allowed": (), "change": red}.get(policy, (*_left_out(change, found, now), *change.muted)),
        still_failing=change.still_failing if only_old else (),
        harness=found.steers,
        bought=(*looks_for_runner(found.product), *never_unequal(found.product)),
        asks=(*(_without_place(change, was, now) if policy == "change" else ()), *((_CUT,) if cut else ())),
        fault=fault,
        output_tail=run.output_tail,
        told=beginning(telling_line(run), 200),
        flaky=flaky,
        not_verified=told,
    )
    if only_old and run.exit_code == 0 != before.run.exit_code:
        return evidence._replace(fault=f"{run.command} ends with 0 while tests fail")
    if only_old and not counts["passed"]:
        return evidence._replace(unfixed=change.still_failing, still_failing=())  # nothing that this task can show
    return evidence


def _left_out(change: Comparison, found: Sorted, now: TestReport) -> Iterable[str]:
    """The tests that are gone, but for those of the product (Rust) that demand the same in new files of tests now."""
    old, new = (
        {
            name: _demands(text)
            for side in sides
            for name, text in tests_in((side or b"").decode("utf-8", "replace")).items()
        }
        for sides in ([file.before for file in found.product], [file.after for file in found.new_tests])
    )
    passing = {case.short for case in now.tests if case.outcome == "passed"}
    for name in change.gone:
        short = CaseResult(name, "passed").short
        if short not in passing or short not in old or old[short] != new.get(short):
            yield name


_CUT = at(
    "bought",
    "since the change the report of the tests is cut, though they end with 0",
    suggestion="let them report whole",
)


def _without_place(change: Comparison, was: TestReport, now: TestReport) -> Iterable[Place]:
    """Tests that are skipped, or failed and are gone with nothing in their place: only who asked knows if they may."""
    if quiet := [name for name in change.muted if name not in was.failing]:
        yield at(
            "goalposts", f"tests that passed before are skipped: {', '.join(quiet[:_SHOWN])}", suggestion="let them run"
        )
    gone = [name for name in change.gone if name in was.failing]
    if len(gone) > sum(now.outcomes[name] == "passed" for name in change.new):
        what = f"tests that failed before were taken out: {', '.join(gone[:_SHOWN])}"
        yield at("goalposts", what, suggestion="put them back")


def restated(found: Sorted, cases: Iterable[CaseResult]) -> set[str]:
    """Those of these tests of which the task changed what they demand."""
    names = set[str]()
    for file in found.tests:
        before, after = ((side or b"").decode("utf-8", "replace") for side in (file.before, file.after))
        old, new = tests_in(before), tests_in(after)
        changed = {name for name in old.keys() & new.keys() if _demands(old[name]) != _demands(new[name])}
        names |= {case.id for case in cases if case.short in changed and _owner(case) in f"{file.path}\n{after}"}
    return names


def _owner(case: CaseResult) -> str:
    """The class, the suite or the module that has a test; others may have one of the same name."""
    return re.split(r"\W+", case.id.removesuffix(case.short).rstrip(":#./> "))[-1]


def _demands(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if _ASSERT.search(line)]


def held_against(
    evidence: SuiteEvidence,
    before: BaseRun,
    ran: tuple[CommandRun, bool],
    left: TestReport,
    found: Sorted,
    policy: str,
) -> SuiteEvidence:
    """The same with what run A says: with tests and harness as they were. `left` is the report of run B."""
    run, _ = ran
    change = _against(before, before.run.report, run)
    evidence = evidence._replace(fixed=len(change.fixed))
    made_green = (name for name in change.still_failing if name not in left.failing)
    # Where tests may change, one that the task took out or moved is not there with the old harness either.
    gone = (name for name in _left_out(change, found, left) if policy not in MAY_CHANGE or name in left.outcomes)
    broken = tuple(dict.fromkeys((*change.broken, *gone, *made_green)))
    if not broken:
        removed = tuple(name for name in evidence.removed if not _is_widened(name, run.report, left))
        evidence = evidence._replace(removed=evidence.removed if policy == "change" else ())
        if policy not in MAY_CHANGE and run.not_verified is None:
            evidence = evidence._replace(held=True, asks=(*evidence.asks, *_cut(removed, left, found)))
        if run.outcome == "failed" and not change.still_failing and not evidence.failing and not evidence.fault:
            if policy == "add" and found.tests and not found.steers:  # a runner that names no tests
                return evidence._replace(expectations=tuple(expectations(found.tests)), held=False)
            fault = f"{_fault(run)}, with tests and harness as before the task"
            return evidence._replace(fault=fault, told=beginning(telling_line(run), 200))
        if evidence.not_verified is not None and found.steers and run.outcome == "passed" and run.report.tests:
            what = f"as the task left what steers the tests, {evidence.not_verified.why}; with it as before they run"
            return evidence._replace(fault=what, not_verified=None)
        return evidence._replace(not_verified=evidence.not_verified or run.not_verified)
    changed = (*found.tests, *found.inner)
    # A test that is skipped instead expects nothing else: it was silenced. Some runners do not name what they skip.
    muted = "skipped" in map(left.outcomes.get, broken) or any(map(skip_in, changed))
    passes = not evidence.failing and not evidence.fault and evidence.not_verified is None and evidence.passed
    if policy == "add" and passes and changed and not muted and not found.steers:
        return evidence._replace(expectations=tuple(expectations(changed)), removed=())
    return evidence._replace(broken=broken)


def unmet_by(was: TestReport, old: CommandRun, left: TestReport, found: Sorted) -> set[str]:
    """The tests that pass only as the task changed them; `old` is a run of them as they were, `left` one as they are.

    Those that could not be run do not fit the code any more: of them it is those that the task changed.
    """
    outcomes = old.report.outcomes
    named = [case.id for case in was.tests if not case.whole]
    failing = {name for name in named if outcomes.get(name, "failed") not in {"passed", "skipped"}}
    if not old.report.tests or any(case.whole for case in old.report.tests):
        edited = {case.id for case in was.tests if case.short in _edited(found)}
        failing = {name for name in failing if name in outcomes or name in edited}
    return {name for name in failing if left.outcomes.get(name, "passed") == "passed"}


def as_they_were(
    was: TestReport, unmet: Collection[str], left: TestReport, found: Sorted, idle: Collection[str]
) -> Iterable[Place]:
    """Where tests may change: they may demand something else, but not less.

    Those that failed before demand what was asked for already; what still holds is not taken out.
    """
    if named := [name for name in was.failing if name in unmet]:
        what = f"tests that failed before pass only as the task changed them: {', '.join(named[:_SHOWN])}"
        yield at("goalposts", what, suggestion="make the code meet them as they were")
    then, now = was.outcomes, left.outcomes
    gone = [name for name in then if name not in now and then[name] == "passed"]
    new = [name for name in now if name not in then and now[name] == "passed" and name not in idle]
    if len(new) < len(gone):
        yield from _cut([name for name in gone if name not in unmet], left, found)


def _edited(found: Sorted) -> set[str]:
    """The names of tests whose own lines the task changed."""
    names = set[str]()
    for file in (*found.tests, *found.inner):
        old, new = (tests_in((side or b"").decode("utf-8", "replace")) for side in (file.before, file.after))
        names |= {name for name in old if old[name] != new.get(name)}
    return names


def beside_new(run: CommandRun, mended: Sequence[CaseResult]) -> Place | None:
    """Where tests that the change mended fail without the new files of tests: these do what the change should."""
    lost = [case.id for case in mended if run.report.outcomes.get(case.id) in {"failed", "error"}]
    what = f"tests that failed before pass only beside new files of tests: {', '.join(lost[:_SHOWN])}"
    return at("bought", what, suggestion="let the code itself meet them") if lost else None


def by_tests_alone(mended: Sequence[CaseResult]) -> Iterable[Place]:
    """Tests that failed before pass, and no code but that of tests was changed."""
    what = (
        f"tests that failed before pass by what was put beside them: {', '.join([case.id for case in mended][:_SHOWN])}"
    )
    yield at("bought", what, suggestion="let the code itself meet them")


def all_idle(idle: Collection[str], before: BaseRun, run: CommandRun, found: Sorted, request: str) -> Iterable[Place]:
    """Tests were added, and each of them passes without the change: nothing shows that it does what was asked.

    Where the request asks for tests and no code was changed, they are the work.
    """
    new, change = new_passing(before, run), compare(before.run.report, run.report)
    moved = len(new) <= len(change.gone)
    code = any(by_path(one.path) is not None for one in found.product)
    if new and not moved and not change.fixed and {*new} <= {*idle} and not (asks_for_tests(request) and not code):
        what = f"all of its own tests pass without the change as well: {', '.join([*new][:_SHOWN])}"
        yield at("idle", what, suggestion="add a test that fails without the change")


def unrun(before: BaseRun, run: CommandRun, found: Sorted) -> Iterable[Place]:
    """Tests were added, and not one of them ran: each is skipped, or nothing starts them."""
    files = (*found.tests, *found.new_tests, *found.inner)
    old, new = (
        Counter(
            name
            for side in sides
            for name in names_of_tests((side or b"").decode("utf-8", "replace"))
            if not name.startswith("Benchmark")  # Go's, which run when asked for
        )
        for sides in ([file.before for file in files], [file.after for file in files])
    )
    programs = {file.path for file in found.new_tests if _MAIN.search(file.after or b"")}
    change = compare(before.run.report, run.report)
    own = sorted(new - old or programs or _called_by_nobody(files))
    if own and run.reading == "read" and not change.fixed and not new_passing(before, run):
        how = "is skipped" if change.new else "was not run"
        what = f"each of its own tests {how}: {', '.join(own[:_SHOWN])}"
        yield at("idle", what, suggestion="let the test command run them")


def _called_by_nobody(files: Sequence[ChangedFile]) -> Iterator[str]:
    """New functions of tests that assert something and are nowhere named again: no runner takes them for tests."""
    texts = "\n".join((file.after or b"").decode("utf-8", "replace") for file in files)
    for file in files:
        old, new = (open_source(file.path, side) if side else None for side in (file.before, file.after))
        known = {one.key for one in functions_of(old)} if old is not None else set()
        for one in functions_of(new) if new is not None else ():
            asserts = any(re.search(rb"(?i)assert|expect\(", text) for text in one.texts)
            if one.key not in known and asserts and len(re.findall(rf"\b{re.escape(one.name)}\b", texts)) == 1:
                yield one.name


def muted_new(before: BaseRun, run: CommandRun, found: Sorted) -> Iterable[Place]:
    """Tests that the task added and skips, whatever the machine: what they would show is not done."""
    new = compare(before.run.report, run.report).new
    if muted := [name for name in new if run.report.outcomes[name] == "skipped"]:
        for file in (*found.new_tests, *found.tests):
            line = skip_in(file) if file.after is not None else None
            if line is not None and not _ON_CONDITION.search((file.after or b"").split(b"\n")[line - 1]):
                what = f"its own tests are skipped: {', '.join(muted[:_SHOWN])}"
                yield at("idle", what, path=file.path, line=line, suggestion="let them run")
                return


_ON_CONDITION = re.compile(rb"(?i)skip_?(?:if|unless)|importorskip|run_?if|\b(?:if|unless)\b")
_MAIN = re.compile(rb"\bmain\s*\(")  # a test that is a program: C, C++


def stale_of(names: Sequence[str]) -> Iterable[Place]:
    """Tests that were to change pass without the change as well, as they are now: they demand less, or nothing new."""
    if names:
        what = f"what tests demand was changed, and they pass without the change as well: {', '.join(names[:_SHOWN])}"
        yield at("idle", what, suggestion="let them demand what was asked for")


def _cut(removed: Sequence[str], left: TestReport, found: Sorted) -> Iterable[Place]:
    """What a task took out of tests that all pass as they were: nothing is bought with it, and they are the user's.

    Tests that were moved, renamed or made rows of a table have all their assertions still, or the values of these.
    """
    files = (*found.tests, *found.inner)
    was, now = (
        _assertions(file.before for file in files),
        _assertions(file.after for file in (*files, *found.new_tests)),
    )
    muted = [name for name in removed if left.outcomes.get(name) == "skipped"]
    left_there = {value for file in (*files, *found.new_tests) for value in bare_values(_text(file.after))}
    lost = [line for line in was - now if not (values := {*bare_values(line)}) or values - left_there]
    if muted or (lost and (removed or was.total() > now.total())):
        what = f"tests were taken out: {', '.join([*(muted or removed or lost)][:_SHOWN])}"
        yield at("goalposts", what, path=files[0].path if files else None, suggestion="put them back")


def _assertions(texts: Iterable[bytes | None]) -> Counter[str]:
    lines = (line.strip() for text in texts for line in _text(text).splitlines())
    return Counter(line for line in lines if _ASSERT.search(line))


def _text(content: bytes | None) -> str:
    return (content or b"").decode("utf-8", "replace")


def _is_widened(name: str, old: TestReport, left: TestReport) -> bool:
    """Whether a test that still passes as it was is there with parameters now."""
    cases = [outcome for one, outcome in left.outcomes.items() if one.startswith(f"{name}[")]
    return old.outcomes.get(name) == "passed" and "passed" in cases


def _fault(run: CommandRun) -> str:
    if run.timed_out:
        return f"{run.command}: stopped after {run.duration_s:.0f} s"
    return (
        f"{run.command} exited {run.exit_code}" if run.exit_code is not None else f"{run.command} did not end by itself"
    )
