"""What the quality checks of a capture came to, as its page shows it: the proof, the runs, the judge's scores. Pure.

Everything is read with care: parts come from workers of any version, and a part that is missing is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from service.views import Shown, shown

__all__ = ["CaseRow", "Evidence", "Judged", "Proof", "Run", "Score", "judged", "proof_of"]

_VERDICTS: Final[Mapping[str, str]] = {
    "proven": "The tests tell the fix from the bug: they fail at the base commit and pass with the fix, each time.",
    "passes_at_base": "The tests pass at the base commit too, so they do not show the bug.",
    "fails_at_head": "The tests still fail with the fix.",
    "flaky": "The tests give different results when they are repeated, so they prove nothing.",
    "unchanged": "Nothing was changed, so there is nothing to prove.",
    "no_tests": "The command found no tests.",
}
_REASONS: Final[Mapping[str, str]] = {
    "redacted": "something in the fix was replaced by redaction, so its failing would say nothing",
    "sandbox": "the sandbox could not be used; that says nothing about the tests",
    "no_source": "there is no bundle, and no repository address that may be fetched",
    "no_patch": "the session holds no change",
    "no_tests": "the command found no tests",
    "patch_does_not_apply": "the change does not fit the base commit",
    "build_failed": "the build before the tests failed",
    "source_unavailable": "the repository could not be fetched",
    "tool_missing": "the test runner is not in the sandbox",
    "policy": "the server's rules do not allow it",
    "profile": "no test command is known for this repository",
}
_NAMES: Final[Mapping[str, str]] = {
    "root_cause_identification": "Root cause",
    "plan_quality": "Plan",
    "experiment_iterate_loop": "Experiment and iterate",
    "use_of_signals_tests_logs": "Use of tests and logs",
    "minimality_of_fix": "Minimality of the fix",
    "clarity": "Clarity",
}
_MOST_TESTS: Final = 200


class Run(NamedTuple):
    """One run of the test command; the blobs are ids or empty."""

    phase: str
    command: str
    exit_code: str
    seconds: float
    passed: bool
    blobs: tuple[tuple[str, str], ...]


class CaseRow(NamedTuple):
    """One test before and after the fix."""

    name: str
    before: str
    after: str
    flaky: bool


class Proof(NamedTuple):
    """What the tests said. `outcome` is passed, failed or not tested; `sentence` says what that means."""

    outcome: str
    tone: str
    sentence: str
    runner: str
    image: str
    sandbox: str
    counts: tuple[tuple[str, int], ...]
    runs: tuple[Run, ...]
    tests: tuple[CaseRow, ...]
    left_out: int


class Evidence(NamedTuple):
    """An event that a score rests on; `seq` None where it is not on hand."""

    event_id: str
    seq: int | None


class Score(NamedTuple):
    """One dimension; `value` None where the judge gave none, `spread` the distance between the votes."""

    name: str
    value: float | None
    spread: float
    evidence: tuple[Evidence, ...]


class Judged(NamedTuple):
    """What the judge said."""

    model: str
    rubric: str
    overall: float | None
    scores: tuple[Score, ...]
    flags: tuple[str, ...]
    reason: str
    rationale: Shown
    votes: int
    blobs: tuple[tuple[str, str], ...]


def proof_of(tests: Mapping[str, Any] | None) -> Proof | None:
    """The proof in `qa.tests`; None where no tests were looked at."""
    if not tests:
        return None
    detail = _object(tests.get("detail"))
    proof, sandbox = _object(detail.get("proof")), _object(detail.get("sandbox"))
    untestable, final = tests.get("not_testable"), tests.get("final_passed")
    if untestable or final is None:
        outcome, tone = "not tested", "warn"
        word = str(untestable or "")
        sentence = f"Nothing could be tested: {detail.get('why') or _REASONS.get(word, word.replace('_', ' '))}."
    else:
        outcome, tone = ("passed", "good") if final else ("failed", "bad")
        sentence = _sentence(proof, passed=bool(final))
    counts = tuple(
        (name.replace("_", " "), count)
        for name, count in _object(proof.get("counts")).items()
        if isinstance(count, int) and not isinstance(count, bool)
    )
    rows = [row for row in _list(proof.get("tests")) if isinstance(row, dict)]
    return Proof(
        outcome=outcome,
        tone=tone,
        sentence=_text(sentence),
        runner=_text(tests.get("runner")),
        image=_text(tests.get("container_image")),
        sandbox=_text(sandbox.get("name")),
        counts=counts,
        runs=tuple(_run(run) for run in _list(tests.get("invocations")) if isinstance(run, dict)),
        tests=tuple(_test(row) for row in rows[:_MOST_TESTS]),
        left_out=max(0, len(rows) - _MOST_TESTS) + _number(proof.get("tests_left_out")),
    )


def _sentence(proof: Mapping[str, Any], *, passed: bool) -> str:
    verdict = str(proof.get("verdict", ""))
    told = _VERDICTS.get(verdict) or verdict.replace("_", " ")
    return told or ("The tests pass with the fix." if passed else "The tests fail with the fix.")


def _run(run: Mapping[str, Any]) -> Run:
    names = (("stdout_blob_id", "stdout"), ("stderr_blob_id", "stderr"), ("report_blob_id", "report"))
    return Run(
        phase="base commit" if run.get("phase") == "base" else "with the fix",
        command=_text(run.get("command")),
        exit_code="cut off" if run.get("exit_code") is None else str(run.get("exit_code")),
        seconds=_number(run.get("duration_ms")) / 1000,
        passed=bool(run.get("passed")),
        blobs=tuple((label, str(run[name])) for name, label in names if run.get(name)),
    )


def _test(row: Mapping[str, Any]) -> CaseRow:
    return CaseRow(_text(row.get("id")), _text(row.get("before")), _text(row.get("after")), bool(row.get("flaky")))


def judged(judge: Mapping[str, Any] | None, *, rationale: str, seqs: Mapping[str, int]) -> Judged | None:
    """The verdict in `qa.judge`; `rationale` is its blob's text, `seqs` tells where cited events stand."""
    if not judge:
        return None
    detail, scores = _object(judge.get("detail")), _object(judge.get("scores"))
    spread, citations = _object(detail.get("spread")), _object(detail.get("citations"))
    names = (("rationale_blob_id", "rationale"), ("request_blob_id", "request"), ("response_blob_id", "response"))
    return Judged(
        model=_text(judge.get("model")),
        rubric=_text(judge.get("rubric_version")),
        overall=_score(judge.get("overall")),
        scores=tuple(
            Score(
                label,
                _score(scores.get(name)),
                _score(spread.get(name)) or 0.0,
                tuple(Evidence(str(each), seqs.get(str(each))) for each in _list(citations.get(name))[:50]),
            )
            for name, label in _NAMES.items()
        ),
        flags=tuple(_text(flag).replace("_", " ") for flag in _list(judge.get("flags"))),
        reason=_text(detail.get("reason")),
        rationale=shown(rationale),
        votes=_number(detail.get("votes")),
        blobs=tuple((label, str(judge[name])) for name, label in names if judge.get(name)),
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return shown(" ".join(str(value).split()), limit=600).text if value else ""


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _score(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
