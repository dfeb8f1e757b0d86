"""Q7-Q9: the test, lint and type-check commands ended with 0, and nobody moved the goalposts.

A command that could not be run is not verified: that is told, and is no fault of the answer.
"""

from __future__ import annotations

from runner.criteria.finding import at, finding_of
from runner.criteria.integrity import moved_goalposts
from runner.criteria.model import CommandKind, CommandResult, Evidence, Finding, Place

__all__ = ["q7_test", "q8_lint", "q9_typecheck"]

_NOUN: dict[CommandKind, str] = {"test": "test", "lint": "lint", "typecheck": "type-check"}
_NAMED = 5
_TAIL_LINES = 5


def q7_test(evidence: Evidence) -> Finding:
    """The test command exits 0."""
    return _check(evidence, "test")


def q8_lint(evidence: Evidence) -> Finding:
    """The lint command exits 0."""
    return _check(evidence, "lint")


def q9_typecheck(evidence: Evidence) -> Finding:
    """The type-check command exits 0."""
    return _check(evidence, "typecheck")


def _check(evidence: Evidence, kind: CommandKind) -> Finding:
    results = [result for result in evidence.commands if result.kind == kind]
    not_run = evidence.not_checked.get(kind)
    if not results and not_run is None:
        reason = f"no {_NOUN[kind]} command is configured or was detected"
        return Finding(passed=False, reason=reason, places=(at("command", reason),))
    faults = [fault for result in results if (fault := _fault(result)) is not None]
    moved = moved_goalposts(evidence, kind)
    if faults or moved:
        reasons = [reason for reason, _ in faults]
        if moved:
            reasons.append(finding_of(moved).reason)
        return Finding(passed=False, reason="; ".join(reasons), places=(*(place for _, place in faults), *moved))
    if not_run is not None:
        return Finding(passed=True, not_verified=not_run)
    flaky = [result.command for result in results if result.flaky]
    return Finding(passed=True, reason=f"flaky: failed once, passed when repeated: {flaky[0]}" if flaky else "")


def _fault(result: CommandResult) -> tuple[str, Place] | None:
    if result.exit_code == 0 and not result.timed_out:
        return None
    if result.timed_out:
        reason = f"{result.command}: stopped after {result.duration_s:.0f} s"
        advice = "make the command end in time"
    elif result.exit_code is None:
        reason = f"{result.command}: did not end by itself"
        advice = "run the command yourself and mend what it shows"
    else:
        reason = f"{result.command} exited {result.exit_code}"
        advice = "mend what the command reports; do not weaken the check"
    if result.failing:
        more = len(result.failing) - _NAMED
        reason += ": " + ", ".join(result.failing[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    tail = [line for line in result.output_tail.strip().split("\n") if line.strip()][-_TAIL_LINES:]
    if tail:
        reason += f" ({' | '.join(line.strip()[:200] for line in tail[-2:])})"
    place = Place(type="command", message=reason, excerpt="\n".join(tail)[:1000], suggestion=advice)
    return reason, place
