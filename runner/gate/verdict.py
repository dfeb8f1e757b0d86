"""The criteria in force (built-in and from entry points) and the verdict over all of them.

Fail-closed: one failed criterion is a REJECT, and what could not be checked (a check that crashed, was too slow or gave
no finding too) is `not_verified`: it rejects nothing and never counts as passed.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.gate import code_criteria, evidence_criteria
from runner.gate.criterion import (
    CommandKind,
    Criterion,
    Evidence,
    Finding,
    NotVerified,
    Place,
    Question,
    Verdict,
)
from runner.gate.report import question_of
from tracer.redaction.cuts import beginning

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from runner.gate.criterion import Models

GROUP = "pm_orchestrator.criteria"


def team_criteria(found: Iterable[EntryPoint] | None = None) -> tuple[Criterion, ...]:
    """The installed teams' criteria in the order of their ids; `found` is for tests.

    Called when a task is judged, not at start: where one is installed, reading the names costs about 45 ms.
    """
    if found is None and not _is_installed():
        return ()
    from importlib.metadata import entry_points  # 20 ms, only where a team has criteria

    kept: dict[str, Criterion] = {}
    for point in entry_points(group=GROUP) if found is None else found:
        one = _load(point)
        if kept.setdefault(one.id, one) != one:
            kept[one.id] = _broken(point, f"two have the id {one.id}; {point.value!r} is one")._replace(id=one.id)
    return tuple(kept[number] for number in sorted(kept))


def _is_installed() -> bool:
    """Whether any installed distribution names the group."""
    group = GROUP.encode()
    for place in sys.path:
        for listed in Path(place or ".").glob("*-info/entry_points.txt"):
            with suppress(OSError):
                if group in listed.read_bytes():
                    return True
    return False


def _load(point: EntryPoint) -> Criterion:
    try:
        loaded = point.load()
    except Exception as error:  # noqa: BLE001 - plug-in load: whatever it raises becomes a criterion that fails by name
        return _broken(point, f"{type(error).__name__}: {error}")
    if isinstance(loaded, Criterion):
        if loaded.id[:1].upper() == "Q" and loaded.id[1:].isdigit():
            return _broken(point, f"the id {loaded.id!r} is reserved for built-in criteria")
        return loaded if loaded.explain else loaded._replace(explain=(loaded.check.__doc__ or "").strip())
    if callable(loaded):
        text = str(loaded.__doc__ or "").strip()
        name = (text or point.name).split("\n", 1)[0].rstrip(".")
        return Criterion(id=point.name, name=name, check=loaded, explain=text)
    return _broken(point, f"{point.value!r} is neither a Criterion nor a function")


def _broken(point: EntryPoint, why: str) -> Criterion:
    def check(_evidence: Evidence) -> Finding:
        return _unchecked(point.name, f"the criterion could not be loaded ({why})")

    return Criterion(id=point.name, name="cannot be loaded", check=check, explain=f"Could not be loaded: {why}")


KIND_OF: dict[str, CommandKind] = {"Q7": "test", "Q8": "lint", "Q9": "typecheck"}


async def _reviewed(evidence: Evidence, models: Models) -> Finding:
    from runner.reviewer.review import q12_reviewed  # 5 ms, only where a review was asked for

    return await q12_reviewed(evidence, models)


def _untried(_evidence: Evidence) -> Finding:
    """Q11 where nobody gave it a copy: `runner.judging` does for tasks."""
    return Finding(passed=True, not_verified=NotVerified(why="no clean copy to try faults in", next="pm run"))


_OPTIONAL: dict[str, Any] = {"mandatory": False}
_EXPLAINED = tomllib.loads(Path(__file__).with_name("explain.toml").read_text(encoding="utf-8"))
BUILT_IN: tuple[Criterion, ...] = tuple(
    Criterion(id=number, name=name, check=check, explain=_EXPLAINED[number], **options)
    for number, name, check, options in (
        ("Q1", "Files Verified", evidence_criteria.q1_files, {}),
        ("Q2", "No TODO/FIXME", code_criteria.q2_marks, {}),
        ("Q3", "No Omission Markers", code_criteria.q3_omissions, {}),
        ("Q4", "No Incomplete Syntax", code_criteria.q4_syntax, {}),
        ("Q5", "Evidence Present", evidence_criteria.q5_evidence, {}),
        ("Q6", "No Early Termination", evidence_criteria.q6_termination, {}),
        ("Q7", "Test Passed", evidence_criteria.q7_test, _OPTIONAL),
        ("Q8", "Lint Passed", evidence_criteria.q8_lint, _OPTIONAL),
        ("Q9", "TypeCheck Passed", evidence_criteria.q9_typecheck, _OPTIONAL),
        ("Q10", "No Collateral", evidence_criteria.q10_collateral, {}),
        ("Q11", "Tests Can Fail", _untried, {**_OPTIONAL, "advisory": True}),
        ("Q12", "Reviewed", _reviewed, {**_OPTIONAL, "timeout_s": 600.0}),
    )
)


def criteria_in_force(
    *,
    commands: Iterable[CommandKind] = (),
    selected: Iterable[str] | None = None,
    required: Iterable[str] = (),
    team: Sequence[Criterion] = (),
    review: bool = False,
    strength: bool = False,
) -> tuple[Criterion, ...]:
    """The criteria to judge by, Q1 first.

    `commands` are the kinds that have a command, whether or not it could be run; `review`: a reviewer was asked for and
    there is a change to review, which puts Q12 in force, as `strength` does Q11; `selected` are ids asked for by the
    user (`--criteria`): optional ones outside it are left out, optional ones inside it are in force even without
    a command, and fail then; `required` ones are in force too, and not verified without one. Mandatory criteria
    cannot be deselected.
    """
    must = {*required, *(("Q12",) if review else ()), *(("Q11",) if strength else ())}
    kinds = set(commands)
    given = [name for name, kind in KIND_OF.items() if kind in kinds] if selected is None else selected
    wanted = {name.upper() for name in given}
    criteria = (*BUILT_IN, *sorted(team, key=lambda each: each.id))
    return tuple(one for one in criteria if one.mandatory or one.id in must or one.id.upper() in wanted)


TRANSIENT = frozenset({"timeout", "network", "rate_limit", "overloaded"})
_EXCERPT = 160
LISTED = 200  # places of one criterion; all are judged, the rest is counted
_NOTED = 3  # likewise of what was there before
_FILES = 50  # files that are told to have more places than are listed


def judge(evidence: Evidence, criteria: Sequence[Criterion], *, listed: int | None = LISTED) -> Verdict:
    """Judge one answer at once by `criteria` (those in force, Q1 first, none of which waits)."""
    found = [(criterion, run_criterion(criterion, evidence)) for criterion in criteria] if is_judged(evidence) else []
    return verdict_of(evidence, found, listed=listed)


def is_judged(evidence: Evidence) -> bool:
    """Whether there is an answer to judge: none where it ended in transient trouble."""
    return evidence.status != "TIMEOUT" if evidence.error_kind is None else evidence.error_kind not in TRANSIENT


def verdict_of(
    evidence: Evidence, findings: Sequence[tuple[Criterion, Finding]], *, listed: int | None = LISTED
) -> Verdict:
    """The verdict that `findings` come to: the one place that says PASS.

    RETRY where the answer ended in transient trouble; PASS where no criterion in force failed; REJECT for all else.
    `listed` bounds the places that are listed of each criterion.
    """
    if not is_judged(evidence):
        trouble = evidence.error_kind or evidence.status.lower()
        return Verdict(judgment="RETRY", criteria_results=(), summary=f"transient trouble: {trouble}")
    if not findings:
        return Verdict(judgment="REJECT", criteria_results=(), summary="no criteria in force")
    results = tuple(_result(criterion, finding, listed) for criterion, finding in findings)
    issues = tuple(
        _issue(criterion.id, place) for criterion, finding in findings for place in _counting(finding)[:listed]
    )
    failed = [(criterion, finding) for criterion, finding in findings if not finding.passed]
    unverified = [(criterion, finding) for criterion, finding in findings if finding.not_verified is not None]
    expected = evidence.tests.expectations if evidence.tests is not None else ()
    return Verdict(
        judgment="REJECT" if failed else "PASS",
        criteria_results=results,
        issues=issues,
        summary="; ".join(f"{criterion.id}: {finding.reason}" for criterion, finding in failed)
        or _passed_text(findings),
        notes=_notes(evidence, findings),
        question=question_of(evidence) if failed else next((one.question for _, one in findings if one.question), None),
        unsettled=tuple(one.id for one, found in unverified if found.needs_person or one.id in evidence.require),
        tests=_tests(evidence, findings),
        expectations=tuple(place._asdict() for place in expected[:LISTED]),
    )


def _tests(evidence: Evidence, findings: Sequence[tuple[Criterion, Finding]]) -> dict[str, Any] | None:
    """What the tests showed, with the outcome that their criterion came to."""
    tests = evidence.tests
    if tests is None:
        return None
    outcome = next((_outcome(one) for rule, one in findings if KIND_OF.get(rule.id) == "test"), "not_verified")
    counts = {name: getattr(tests, name) for name in ("command", "passed", "failed", "skipped", "new", "restated")}
    told = counts | {"outcome": outcome, "fixed": tests.fixed if evidence.files else None}
    return told | ({"not_isolated": tests.not_isolated} if tests.not_isolated else {})


def _outcome(finding: Finding) -> str:
    return "fail" if not finding.passed else "pass" if finding.not_verified is None else "not_verified"


def run_criterion(criterion: Criterion, evidence: Evidence) -> Finding:
    """What a criterion that does not wait finds; trouble of its own is `not_verified`."""
    try:
        return read_finding(criterion, criterion.check(evidence))  # type: ignore[call-arg]  # checks that wait take more
    except Exception as error:  # noqa: BLE001 - a team's criterion is a plug-in: whatever it raises is told by name
        return crashed(criterion, error)


def crashed(criterion: Criterion, error: BaseException) -> Finding:
    """A check that raised: not verified, and no fault of the answer."""
    detail = beginning(f"{type(error).__name__}: {error}".replace("\n", " "), _EXCERPT)
    return _unchecked(criterion.id, f"the check crashed ({detail})")


def too_slow(limit_s: float) -> Finding:
    """A check that did not end in time."""
    more = "give it more time: timeout_s of the criterion, --timeout of the task"
    why = f"the check gave no result within {limit_s:.3g} s"
    return Finding(passed=True, not_verified=NotVerified(why=why, next=more))


def read_finding(criterion: Criterion, value: object) -> Finding:
    """What a check gave back, if it is whole; anything else verifies nothing."""
    if not isinstance(value, Finding):
        return _unchecked(criterion.id, f"the check gave {type(value).__name__}, not a Finding")
    fault = _fault(value)
    return _unchecked(criterion.id, f"the check gave a Finding without a usable {fault}") if fault else value


def _fault(finding: Any) -> str:
    """The field of a finding that cannot be used, or an empty text."""
    told, asked, usage, cost = finding.not_verified, finding.question, finding.usage, finding.cost_usd
    whole = {
        "passed": type(finding.passed) is bool,
        "reason": isinstance(finding.reason, str),
        "places": isinstance(finding.places, tuple | list) and all(map(_is_place, finding.places)),
        "not_verified": told is None or (isinstance(told, NotVerified) and _are_texts(told.why, told.next)),
        "question": asked is None or (isinstance(asked, Question) and _are_texts(asked.text, *asked.choices)),
        "usage": usage is None or (isinstance(usage, Mapping) and all(map(_is_count, usage.values()))),
        "cost_usd": cost is None or (type(cost) in {int, float} and 0 <= cost < inf),
    }
    return next((name for name, usable in whole.items() if not usable), "")


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_place(one: Any) -> bool:
    if not isinstance(one, Place) or not (one.line is None or type(one.line) is int):
        return False
    return _are_texts(one.type, one.message, one.path or "", one.excerpt, one.suggestion)


def _are_texts(*values: object) -> bool:
    return all(isinstance(value, str) for value in values)


def _unchecked(name: str, why: str) -> Finding:
    own = any(name == one.id for one in BUILT_IN)
    following = "report this as a defect of pm" if own else "repair or uninstall the criterion"
    return Finding(passed=True, not_verified=NotVerified(why=why, next=following))


def _result(criterion: Criterion, finding: Finding, listed: int | None) -> dict[str, Any]:
    result: dict[str, Any] = {"id": criterion.id, "name": criterion.name, "passed": finding.passed}
    unverified = finding.not_verified
    if not finding.passed:
        result |= {"outcome": "fail", "reason": finding.reason or "failed without a reason"}
    elif unverified is not None:
        result |= {"outcome": "not_verified", "reason": f"not verified: {unverified.why}"}
        result |= {"why": unverified.why, "next": unverified.next, **({"ran": True} if unverified.ran else {})}
    else:
        result |= {"outcome": "pass", **({"reason": finding.reason} if finding.reason else {})}
    if criterion.advisory:
        result["advisory"] = True
    if finding.strength is not None:
        told = finding.strength._asdict()
        survivors = tuple(one._asdict() for one in told.pop("survivors")[:LISTED])
        result["strength"] = {"total": finding.strength.total, **told, "survivors": survivors}
    if unlisted := _counting(finding)[listed:] if listed is not None else ():
        result["left_out"] = len(unlisted)
        files = Counter(place.path for place in unlisted if place.path is not None)
        result["left_out_in"] = dict(files.most_common(_FILES))
    if finding.usage is not None:
        result["usage"] = dict(finding.usage)
    if finding.cost_usd is not None:
        result["cost_usd"] = finding.cost_usd
    return result


def _passed_text(findings: Sequence[tuple[Criterion, Finding]]) -> str:
    """`Q1 Q2 Q3; Q7 not verified: folder not trusted`."""
    passed = " ".join(criterion.id for criterion, finding in findings if finding.not_verified is None)
    unverified = [f"{one.id} not verified: {found.not_verified.why}" for one, found in findings if found.not_verified]
    return "; ".join([passed, *unverified])


def _counting(finding: Finding) -> list[Place]:
    """The places that reject; none where the criterion passed."""
    return [] if finding.passed else [place for place in finding.places if not place.preexisting]


def _issue(criterion: str, place: Place) -> dict[str, Any]:
    told = {
        "criterion": criterion, "type": place.type, "message": place.message, "path": place.path, "line": place.line,
        "excerpt": beginning(place.excerpt, _EXCERPT) or None, "suggestion": place.suggestion or None,
    }  # fmt: skip
    return {key: value for key, value in told.items() if value is not None}


def _notes(evidence: Evidence, findings: Sequence[tuple[Criterion, Finding]]) -> tuple[str, ...]:
    """What is worth saying without rejecting: old markers, text that was not parsed, flaky runs."""
    notes: list[str] = []
    for criterion, finding in findings:
        unread = [place for place in finding.places if place.type == "not_parsed"]
        notes += [f"{criterion.id}: {place.message}{_at(place)}" for place in unread]
        others = [place for place in finding.places if place.preexisting and place.type != "not_parsed"]
        for what, note in (("was there before", False), ("is a note beside the work", True)):
            if found := [place for place in others if (place.type == "note") is note]:
                told = ", ".join(f"{place.message}{_at(place)}" for place in found[:_NOTED])
                more = f" and {len(found) - _NOTED} more" if len(found) > _NOTED else ""
                notes.append(f"{criterion.id}: {what} and rejects nothing: {told}{more}")
    flaky = (result.command for result in evidence.commands if result.flaky)
    return (*notes, *(f"flaky: {command} failed once and passed when repeated" for command in flaky))


def _at(place: Place) -> str:
    return "" if place.path is None else f" at {place.path}:{place.line}" if place.line else f" in {place.path}"
