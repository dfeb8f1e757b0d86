"""Per-test results from what test runners write: JUnit XML and `go test -json`.

A report is a stranger's file: no document type, no entities, nothing fetched, bounded in size and number; one that
cannot be read is a report that is not there. A test that stands in it more than once keeps its worst outcome. Pure.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

import orjson
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, iterparse

TestOutcome = Literal["passed", "failed", "error", "skipped"]
OUTCOMES: Final[tuple[TestOutcome, ...]] = ("skipped", "passed", "failed", "error")  # from best known to worst
_MOST_TESTS: Final = 100_000
_MESSAGE: Final = 500
_NAME: Final = 500
_GO: Final[dict[str, TestOutcome]] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


class CaseResult(NamedTuple):
    """One test of one run. `file` is the test's file or folder as far as the report tells."""

    id: str
    outcome: TestOutcome
    duration_ms: int = 0
    message: str = ""
    file: str = ""


def junit_results(reports: Mapping[str, bytes]) -> tuple[CaseResult, ...] | None:
    """The tests of all reports, in order; None where no report could be read."""
    found: dict[str, CaseResult] = {}
    read = False
    for data in reports.values():
        try:
            for _, element in iterparse(io.BytesIO(data), events=("end",), forbid_dtd=True):
                if element.tag.rpartition("}")[2] == "testcase":
                    _add(found, _of_case(element))
                    element.clear()
                if len(found) >= _MOST_TESTS:
                    break
        except (ParseError, DefusedXmlException, ValueError, LookupError):
            continue  # LookupError: an encoding that Python does not know
        read = True
    return tuple(found.values()) if read else None


def go_results(output: bytes) -> tuple[CaseResult, ...] | None:
    """The tests in the output of `go test -json`; None where there is none of it."""
    found: dict[str, CaseResult] = {}
    said = False
    for line in output.split(b"\n"):
        if not line.startswith(b"{"):
            continue
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        said = said or (isinstance(event, dict) and "Action" in event)
        outcome = _GO.get(str(event.get("Action"))) if isinstance(event, dict) else None
        if outcome is None or not event.get("Test") or len(found) >= _MOST_TESTS:
            continue
        package = str(event.get("Package", ""))
        name = f"{package}::{event['Test']}"[:_NAME]
        _add(found, CaseResult(name, outcome, _ms(event.get("Elapsed")), file=package))
    return tuple(found.values()) if said else None


def _of_case(element: Any) -> CaseResult:
    class_name, name = element.get("classname") or "", element.get("name") or ""
    outcome: TestOutcome = "passed"
    message = ""
    for child in element:
        tag = child.tag.rpartition("}")[2]
        kind: TestOutcome | None = {"failure": "failed", "error": "error", "skipped": "skipped"}.get(tag)  # type: ignore[assignment]
        if kind is not None and OUTCOMES.index(kind) >= OUTCOMES.index(outcome) - (outcome == "passed"):
            outcome, message = kind, (child.get("message") or child.text or "")[:_MESSAGE]
    shown = f"{class_name}::{name}" if class_name and name else class_name or name
    return CaseResult(shown[:_NAME], outcome, _ms(element.get("time")), message, element.get("file") or "")


def _add(found: dict[str, CaseResult], result: CaseResult) -> None:
    known = found.get(result.id)
    if known is None or OUTCOMES.index(result.outcome) > OUTCOMES.index(known.outcome):
        found[result.id] = result


def _ms(seconds: Any) -> int:
    try:
        value = float(seconds)
    except (TypeError, ValueError):
        return 0
    return int(value * 1000) if 0 <= value < 1e9 else 0


def counts(results: Iterable[CaseResult]) -> dict[str, int]:
    """How many of each outcome."""
    found = dict.fromkeys(OUTCOMES, 0)
    for result in results:
        found[result.outcome] += 1
    return {str(name): number for name, number in found.items()}
