"""The verdict, fail-closed: everything in force must pass, and whatever is unclear is a REJECT (contracts 2).

What could not be checked for reasons of our own is `not_verified`: it rejects nothing and is never told as passed.

A check that raises, answers something else than a Finding, or is missing fails by name; an earlier failure stops no
later check. Only transient trouble (time, network, rate limit, overload) is a RETRY, with an empty result list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.criteria.model import Criterion, Evidence, Finding, Place, Verdict

__all__ = ["TRANSIENT", "judge"]

TRANSIENT = frozenset({"timeout", "network", "rate_limit", "overloaded"})
_EXCERPT = 160


def judge(evidence: Evidence, criteria: Sequence[Criterion]) -> Verdict:
    """Judge one answer by `criteria` (those in force, Q1 first).

    RETRY where the answer ended in transient trouble; PASS where every criterion passes; REJECT for all else.
    """
    if _is_transient(evidence):
        trouble = evidence.error_kind or evidence.status.lower()
        return Verdict(judgment="RETRY", criteria_results=(), summary=f"transient trouble: {trouble}")
    if not criteria:
        return Verdict(judgment="REJECT", criteria_results=(), summary="no criteria in force")
    findings = [(criterion, _run(criterion, evidence)) for criterion in criteria]
    results = tuple(_result(criterion, finding) for criterion, finding in findings)
    issues = tuple(
        _issue(criterion.id, place) for criterion, found in findings if not found.passed for place in found.places
    )
    failed = [(criterion, finding) for criterion, finding in findings if not finding.passed]
    return Verdict(
        judgment="REJECT" if failed else "PASS",
        criteria_results=results,
        issues=tuple(issue for issue in issues if not issue.get("preexisting")),
        summary="; ".join(f"{criterion.id}: {finding.reason}" for criterion, finding in failed)
        or _passed_text(findings),
        notes=_notes(evidence, findings),
        ask_person=any(place.type == "ask_person" for _, finding in failed for place in finding.places),
    )


def _is_transient(evidence: Evidence) -> bool:
    if evidence.error_kind is not None:
        return evidence.error_kind in TRANSIENT
    return evidence.status == "TIMEOUT"


def _run(criterion: Criterion, evidence: Evidence) -> Finding:
    try:
        finding: object = criterion.check(evidence)
    except Exception as error:  # noqa: BLE001 - a team's criterion is a plug-in: its crash is a REJECT that names it
        detail = f"{type(error).__name__}: {error}".replace("\n", " ")[:_EXCERPT]
        return Finding(
            passed=False,
            reason=f"the check crashed ({detail})",
            places=(
                Place(
                    type="crash",
                    message=f"criterion {criterion.id} ({criterion.name}) crashed: {detail}",
                    suggestion="this is no fault of the answer: repair or remove the criterion",
                ),
            ),
        )
    if not isinstance(finding, Finding):
        kind = type(finding).__name__
        return Finding(passed=False, reason=f"the check crashed (it answered {kind}, not a Finding)")
    return finding


def _result(criterion: Criterion, finding: Finding) -> dict[str, Any]:
    result: dict[str, Any] = {"id": criterion.id, "name": criterion.name, "passed": finding.passed}
    unverified = finding.not_verified
    if not finding.passed:
        return {**result, "outcome": "fail", "reason": finding.reason or "failed without a reason"}
    if unverified is not None:
        told = {"reason": f"not verified: {unverified.why}", "why": unverified.why, "next": unverified.next}
        return {**result, "outcome": "not_verified", **told}
    return {**result, "outcome": "pass", **({"reason": finding.reason} if finding.reason else {})}


def _passed_text(findings: Sequence[tuple[Criterion, Finding]]) -> str:
    """`Q1 Q2 Q3; Q7 not verified: folder not trusted`."""
    passed = " ".join(criterion.id for criterion, finding in findings if finding.not_verified is None)
    unverified = [
        f"{criterion.id} not verified: {finding.not_verified.why}"
        for criterion, finding in findings
        if finding.not_verified is not None
    ]
    return "; ".join([passed, *unverified])


def _issue(criterion: str, place: Place) -> dict[str, Any]:
    issue: dict[str, Any] = {"criterion": criterion, "type": place.type, "message": place.message}
    if place.path is not None:
        issue["path"] = place.path
    if place.line is not None:
        issue["line"] = place.line
    if place.excerpt:
        issue["excerpt"] = place.excerpt[:_EXCERPT]
    if place.suggestion:
        issue["suggestion"] = place.suggestion
    if place.preexisting:
        issue["preexisting"] = True
    return issue


def _notes(evidence: Evidence, findings: Sequence[tuple[Criterion, Finding]]) -> tuple[str, ...]:
    """What is worth saying without rejecting: old markers, text that was not parsed, flaky runs."""
    notes = [
        f"{criterion.id}: {'' if place.type == 'not_parsed' else 'was there before: '}{place.message}{_at(place)}"
        for criterion, finding in findings
        for place in finding.places
        if place.preexisting
    ]
    notes += [
        f"flaky: {result.command} failed once and passed when repeated" for result in evidence.commands if result.flaky
    ]
    return tuple(notes)


def _at(place: Place) -> str:
    if place.path is None:
        return ""
    return f" at {place.path}:{place.line}" if place.line else f" in {place.path}"
