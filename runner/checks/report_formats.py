"""Reads what test runners write: JUnit XML, TAP, CTRF, JSON of go, jest, vitest and RSpec, and the text of some.

A report is a stranger's file: no document type, no entities, nothing fetched, bounded in size and number. One that
breaks off is partial, one that cannot be read is told apart from one that is not there. Pure.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, iterparse

from runner.checks.reports import OUTCOMES, CaseResult, Reading, TestOutcome, TestReport, merged
from tracer.redaction.cuts import beginning, ending

_MOST_TESTS: Final = 100_000
_MOST_BYTES: Final = 64 << 20
_MESSAGE: Final = 500
_TRACE: Final = 4000
_NAME: Final = 500
_LONGEST_LINE: Final = 2000
_GO: Final[Mapping[str, TestOutcome]] = {"pass": "passed", "fail": "failed", "skip": "skipped"}
_WORDS: Final[Mapping[str, TestOutcome]] = {
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped",
    "pending": "skipped",
    "todo": "skipped",
    "disabled": "skipped",
}


class UnreadableError(ValueError):
    """It is a report by its beginning, and cannot be read."""


def read_reports(files: Mapping[str, bytes], *, output: bytes = b"", root: str = "") -> tuple[Reading, TestReport]:
    """All that the report files and the command's output tell, as one report; paths are told relative to `root`."""
    found: list[TestReport] = []
    unreadable = False
    for read, data in (*((_from_file, data) for data in files.values()), (_from_output, output)):
        try:
            report = read(data)
        except UnreadableError:
            unreadable = True
            continue
        if report is not None:
            found.append(report)
    report = _relative(merged(found), root)
    if unreadable and not report.tests:
        return "unreadable", report
    if not found:
        return "no_report", report
    if not report.complete or unreadable:
        return "partial", report
    return ("read" if report.ran else "no_tests"), report


def _relative(report: TestReport, root: str) -> TestReport:
    """Without the folder that it ran in: the same test has the same id in every copy."""
    if not root:
        return report
    folder = f"{root.rstrip('/')}/"
    tests = (
        test._replace(id=test.id.replace(folder, ""), file=test.file.removeprefix(folder)) for test in report.tests
    )
    return merged([TestReport(tuple(tests), report.complete, report.source)])


def _from_file(data: bytes) -> TestReport:
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if len(data) > _MOST_BYTES:
        raise UnreadableError
    if data.startswith(b"<"):
        return junit_report(data)
    if data.startswith((b"{", b"[")):
        return go_report(data) or _json_report(data)
    report = _from_output(data)
    if report is None:
        raise UnreadableError
    return report


def junit_report(data: bytes) -> TestReport:
    """The tests of one JUnit XML file.

    Raises:
        UnreadableError: not one of its tests could be read.

    """
    cases: list[CaseResult] = []
    declared = 0
    complete = True
    try:
        for event, element in iterparse(io.BytesIO(data), events=("start", "end"), forbid_dtd=True):
            tag = element.tag.rpartition("}")[2]
            if event == "start":
                declared += _whole(element.get("tests")) if tag == "testsuite" else 0
            elif tag == "testcase":
                cases.append(_junit_case(element))
                element.clear()
            elif tag == "testsuite":
                element.clear()
            if len(cases) >= _MOST_TESTS:
                complete = False
                break
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:
        if not cases or isinstance(error, DefusedXmlException):
            raise UnreadableError from error  # LookupError: an encoding that Python does not know
        complete = False
    # No more than that: runners count a test twice that fails and then breaks, and a suite's in each one around it.
    missing = declared > 0 and not cases
    return merged([TestReport(tuple(cases), complete=complete and not missing, source="junit")])


def _junit_case(element: Any) -> CaseResult:
    class_name, name = element.get("classname") or "", element.get("name") or ""
    outcome: TestOutcome = "passed"
    message = trace = ""
    for child in element:
        tag = child.tag.rpartition("}")[2]
        kind: TestOutcome | None = {"failure": "failed", "error": "error", "skipped": "skipped"}.get(tag)  # type: ignore[assignment]
        if kind is not None and OUTCOMES.index(kind) >= OUTCOMES.index(outcome) - (outcome == "passed"):
            outcome, message = kind, beginning(child.get("message") or child.text or "", _MESSAGE)
            trace = ending(child.text or "", _TRACE)
    shown = f"{class_name}::{name}" if class_name and name and class_name != name else class_name or name
    return CaseResult(
        beginning(shown, _NAME),
        outcome,
        _seconds(element.get("time")),
        message,
        element.get("file") or "",
        trace,
        whole=outcome == "error" and not class_name,
    )


def go_report(output: bytes) -> TestReport | None:
    """The tests in the output of `go test -json`; None where there is none of it."""
    cases: list[CaseResult] = []
    said = False
    running: set[tuple[str, str]] = set()
    failed: set[str] = set()
    for event in _json_lines(output):
        action = str(event.get("Action"))
        said = said or "Action" in event
        package, test = str(event.get("Package", "")), str(event.get("Test") or "")
        outcome = _GO.get(action)
        if action == "run" and test:
            running.add((package, test))
        if outcome is None:
            continue
        running.discard((package, test))
        if outcome == "failed" and test:
            failed.add(package)
        if not test and (outcome != "failed" or package in failed):
            continue
        # A package that fails without a failing test was not built, or its process ended.
        name = f"{package}::{test}" if test else package
        result = outcome if test else "error"
        cases.append(
            CaseResult(beginning(name, _NAME), result, _seconds(event.get("Elapsed")), file=package, whole=not test)
        )
        if len(cases) >= _MOST_TESTS:
            break
    return merged([TestReport(tuple(cases), complete=not running, source="go")]) if said else None


def shown_output(output: bytes) -> str:
    """The output for people: of the events of `go test -json`, what they print."""
    if b'"Action":' not in output:
        return output.decode("utf-8", "replace")
    lines = []
    for line in output.splitlines(keepends=True):
        event = next(_json_lines(line), None)
        lines.append(line.decode("utf-8", "replace") if event is None else str(event.get("Output", "")))
    return "".join(lines)


def _json_lines(output: bytes) -> Iterator[dict[str, Any]]:
    for line in output.split(b"\n"):
        if line.startswith(b"{"):
            try:
                event = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(event, dict):
                yield event


def _json_report(data: bytes) -> TestReport:
    """CTRF, RSpec's JSON, or that of jest and vitest."""
    try:
        whole = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise UnreadableError from error
    if not isinstance(whole, dict):
        raise UnreadableError
    results = whole.get("results")
    if isinstance(results, dict) and isinstance(results.get("tests"), list):
        declared = _dict(results.get("summary")).get("tests")
        return _listed("ctrf", _dicts(results["tests"]), _ctrf_case, declared)
    if isinstance(whole.get("examples"), list):
        broken = _whole(_dict(whole.get("summary")).get("errors_outside_of_examples_count"))
        report = _listed("rspec", _dicts(whole["examples"]), _rspec_case, None)
        outside = (CaseResult("errors outside of examples", "error", whole=True),) if broken else ()
        return TestReport((*report.tests, *outside), report.complete, report.source)
    if isinstance(whole.get("testResults"), list):
        cases = [case for suite in _dicts(whole["testResults"]) for case in _jest_cases(suite)]
        complete = not whole.get("wasInterrupted") and len(cases) >= _whole(whole.get("numTotalTests"))
        return merged([TestReport(tuple(cases[:_MOST_TESTS]), complete, "jest")])
    raise UnreadableError


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(values: list[Any]) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)][:_MOST_TESTS]


def _listed(
    source: str, tests: list[dict[str, Any]], case: Callable[[dict[str, Any]], CaseResult], declared: Any
) -> TestReport:
    return merged([TestReport(tuple(case(test) for test in tests), len(tests) >= _whole(declared), source)])


def _ctrf_case(test: dict[str, Any]) -> CaseResult:
    suite = test.get("suite")
    above = [str(part) for part in suite] if isinstance(suite, list) else [str(suite)] if suite else []
    return CaseResult(
        beginning(" > ".join((*above, str(test.get("name", "")))), _NAME),
        _WORDS.get(str(test.get("status")), "error"),
        _seconds(test.get("duration")) / 1000,
        beginning(str(test.get("message") or ""), _MESSAGE),
        str(test.get("filePath") or ""),
    )


def _rspec_case(test: dict[str, Any]) -> CaseResult:
    return CaseResult(
        beginning(f"{test.get('file_path', '')}::{test.get('full_description', '')}", _NAME),
        _WORDS.get(str(test.get("status")), "error"),
        _seconds(test.get("run_time")),
        beginning(str(_dict(test.get("exception")).get("message", "")), _MESSAGE),
        str(test.get("file_path") or "").removeprefix("./"),
    )


def _jest_cases(suite: dict[str, Any]) -> Iterator[CaseResult]:
    file = str(suite.get("name") or "")
    tests = suite.get("assertionResults")
    cases = _dicts(tests) if isinstance(tests, list) else []
    for test in cases:
        messages = test.get("failureMessages")
        yield CaseResult(
            beginning(f"{file}::{test.get('fullName') or test.get('title')}", _NAME),
            _WORDS.get(str(test.get("status")), "error"),
            _seconds(test.get("duration")) / 1000,
            beginning(str(messages[0] if isinstance(messages, list) and messages else ""), _MESSAGE),
            file,
        )
    if suite.get("status") == "failed" and not any(test.get("status") == "failed" for test in cases):
        message = beginning(str(suite.get("message") or ""), _MESSAGE)
        yield CaseResult(beginning(file, _NAME), "error", 0.0, message, file, whole=True)


def _seconds(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return 0.0
    return seconds if 0 <= seconds < 1e9 else 0.0


def _whole(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


_TAP: Final = re.compile(
    r"^(?P<indent> *)(?:(?P<ok>ok|not ok)(?!\S)[ \t]*\d*[ \t]*(?:- )?(?P<name>[^#\n]*)(?P<directive>#.*)?"
    r"|1\.\.(?P<plan>\d+)|(?P<bail>Bail out!).*)$"
)
# tape names a test in a comment and reports its assertions, most by the same default name.
_TAPE: Final = re.compile(r"\A(?!(?s:.*)^ *# Subtest)(?s:.*)^# pass +\d+$", re.MULTILINE)
# node names a file that did not load as it does a test.
_FILE: Final = re.compile(r"^(?:/.*|\S*)[\w)\]]\.[cm]?[jt]sx?$")
_ESCAPES: Final = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


def tap_report(text: str) -> TestReport | None:
    """The tests of a TAP stream, nested ones by the names around them; None where it is none."""
    points: dict[int, int] = {}  # for each depth: how many points were seen, less what the plan says
    inner: dict[int, list[CaseResult]] = {}
    complete, planned = True, False
    grouped, group = _TAPE.match(text) is not None, ""
    match, ends = None, ""
    for line in text.split("\n"):
        if ends:  # what a test tells of itself may look like points
            ends = "" if line.rstrip() == ends else ends
            continue
        if match is not None and match["ok"] and line.strip() == "---":
            ends = line.rstrip().replace("---", "...")
            continue
        if grouped and line.startswith("# "):
            group = line[2:].strip()
        match = _TAP.match(line.rstrip())
        if match is None:
            continue
        depth = len(match["indent"]) // 4
        if match["bail"]:
            complete = False
        elif match["plan"] is not None:
            inner.setdefault(depth, [])
            planned = planned or depth == 0
            points[depth] = points.get(depth, 0) - int(match["plan"])
        else:
            points[depth] = points.get(depth, 0) + 1
            complete = complete and points.pop(depth + 1, 0) == 0
            own = _tap_cases(match, inner.pop(depth + 1, []))
            own = [case._replace(id=beginning(group, _NAME)) for case in own] if group else own
            inner.setdefault(depth, []).extend(own)
    if not planned:
        return None
    complete = complete and points.get(0, 0) == 0
    return merged([TestReport(tuple(inner.get(0, [])[:_MOST_TESTS]), complete, "tap")])


def _tap_cases(match: re.Match[str], inside: list[CaseResult]) -> list[CaseResult]:
    name, directive = match["name"].strip(), (match["directive"] or "").lower()
    outcome: TestOutcome = "passed" if match["ok"] == "ok" else "failed"
    if re.match(r"#\s*(?:skip|todo)", directive):
        outcome = "skipped"
    found = [case._replace(id=beginning(f"{name} > {case.id}", _NAME)) for case in inside]
    if not found or (outcome == "failed" and not any(case.outcome == "failed" for case in found)):
        file = outcome == "failed" and _FILE.search(name) is not None
        found.append(CaseResult(beginning(name, _NAME), outcome, whole=file and not found))
    return found


class _Text(NamedTuple):
    """How a runner prints its tests: a line a test, the lines that tell how many there are, and its last word."""

    source: str
    line: re.Pattern[str]
    end: re.Pattern[str]
    """Its numbers, added up, say how many tests the lines should show."""
    words: Mapping[str, TestOutcome]


_TEXTS: Final = (
    _Text(
        "libtest",
        re.compile(r"^test (?P<name>.+?)(?: - should panic)? \.\.\. (?P<word>ok|FAILED|ignored)\b", re.MULTILINE),
        re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE),
        {"ok": "passed", "FAILED": "failed", "ignored": "skipped"},
    ),
    _Text(
        "nextest",
        re.compile(r"^ *(?P<word>[A-Z]+)(?: \d+/\d+)? \[ *(?P<s>[\d.]+)s\] +(?:\( *\d+/\d+\) +)?(?P<name>\S+ \S+)$",
                   re.MULTILINE),
        re.compile(r"^ *Summary \[[^\]]*\] +(\d+) tests? run\b", re.MULTILINE),
        {"PASS": "passed", "LEAK": "passed", "FAIL": "failed", "SKIP": "skipped", "SLOW": "skipped"},
    ),
    _Text(
        "ctest",
        re.compile(r"^ *\d+/\d+ +Test +#\d+: (?P<name>\S+) \.*[ *]*(?P<word>Passed|[A-Z][A-Za-z ]*?)(?= {2,}|\Z)"
                   r"(?: +(?P<s>[\d.]+) sec)?", re.MULTILINE),
        re.compile(r"^\d+% tests passed, \d+ tests failed out of (\d+)", re.MULTILINE),
        {"Passed": "passed", "Skipped": "skipped", "Not Run (Disabled)": "skipped"},
    ),
    _Text(
        "minitest",
        re.compile(r"^(?P<name>[^\s#]+#.+?) = (?P<s>[\d.]+) s = (?P<word>[.FES])$", re.MULTILINE),
        re.compile(r"^(\d+) runs, \d+ assertions, \d+ failures, \d+ errors, \d+ skips", re.MULTILINE),
        {".": "passed", "F": "failed", "E": "error", "S": "skipped"},
    ),
    _Text(
        "unittest",
        re.compile(r"^(?P<name>\w+ \([\w.]+\))(?:\n.*)? \.\.\. (?P<word>ok|FAIL|ERROR|skipped|expected failure)",
                   re.MULTILINE),
        re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE),
        {"ok": "passed", "FAIL": "failed", "ERROR": "error", "skipped": "skipped", "expected failure": "passed"},
    ),
)  # fmt: skip


def _from_output(data: bytes) -> TestReport | None:
    """The tests that a command's output names; formats are told by their own marks."""
    found = go_report(data)
    if found is not None:
        return found
    # A test may print what it likes: no line of a runner is that long, and patterns may take their time on longer ones.
    lines = (line for line in data[-_MOST_BYTES:].split(b"\n") if len(line) <= _LONGEST_LINE)
    text = _ESCAPES.sub(b"", b"\n".join(lines)).decode("utf-8", "replace").replace("\r\n", "\n")
    reports = [_go_text(text), tap_report(text), *(_read_text(text, form) for form in _TEXTS)]
    told = [report for report in reports if report is not None]
    return merged(told) if told else None


def _read_text(text: str, form: _Text) -> TestReport | None:
    ends = form.end.findall(text)
    cases = []
    for match in form.line.finditer(text):
        named = match.groupdict()
        cases.append(
            CaseResult(
                beginning(named["name"], _NAME), form.words.get(named["word"], "failed"), _seconds(named.get("s"))
            )
        )
        if len(cases) >= _MOST_TESTS:
            break
    if not ends:
        return None
    declared = sum(int(number) for numbers in ends for number in ([numbers] if isinstance(numbers, str) else numbers))
    if declared and not cases:
        return None  # a summary alone names no test
    return merged([TestReport(tuple(cases), len(cases) >= declared, form.source)])


_GO_LINE: Final = re.compile(
    r"^ *--- (?P<word>PASS|FAIL|SKIP): (?P<name>\S+) \((?P<s>[\d.]+)s\)"
    r"|^=== RUN +(?P<run>\S+)"
    r"|^(?P<end>ok|FAIL)[ \t]+(?P<package>\S+)[ \t]+(?:[\d.]+s|\(cached\)|\[[^\]]*\])",
    re.MULTILINE,
)


def _go_text(text: str) -> TestReport | None:
    """What `go test -v` prints; a package's tests come before its own line."""
    cases: list[CaseResult] = []
    waiting: list[CaseResult] = []
    running: set[str] = set()
    complete, ended = True, False
    for match in _GO_LINE.finditer(text):
        if match["run"]:
            running.add(match["run"])
        elif match["word"]:
            running.discard(match["name"])
            waiting.append(CaseResult(match["name"], _GO[match["word"].lower()], _seconds(match["s"])))
        else:
            ended, package = True, match["package"]
            complete = complete and not running
            if match["end"] == "FAIL" and not any(case.outcome == "failed" for case in waiting):
                waiting.append(CaseResult("", "error", whole=True))
            cases += [case._replace(id=f"{package}::{case.id}".removesuffix("::"), file=package) for case in waiting]
            waiting, running = [], set()
    if not ended:
        return None
    return merged([TestReport(tuple(cases[:_MOST_TESTS]), complete and not waiting, "go")])


_SAID_LINE: Final = re.compile(
    r"^[ \t]*(?:(?P<first>ok|not ok|OK|PASS(?:ED)?|FAIL(?:ED|URE)?|[✓✔√✗✘×✖])[ \t:.-]+(?P<name>\S.*?)"
    r"|(?P<before>\S.*?)(?:[ \t]*\.{2,}[ \t]*|:[ \t]+|[ \t]+[-–][ \t]+|[ \t]*\[[ \t]*)"
    r"(?P<last>(?i:ok|pass(?:ed)?|fail(?:ed|ure)?)|[✓✔√✗✘×✖])[ \t]*\]?)(?:[ \t]*\(?[\d.]+[ \t]*m?s\)?)?[ \t]*$",
    re.MULTILINE,
)
_BAD_WORD: Final = re.compile(r"(?i)not|fail|[✗✘×✖]")


def said_by_lines(text: str) -> TestReport:
    """What single lines of a project's own runner say: `ok name`, `name: FAILED`, with the text around each.

    That is no report: programs print such lines too. It may raise a doubt, and never shows that tests passed.
    """
    found = list(_SAID_LINE.finditer(text))
    ends, cases = [0, *(match.end() for match in found)], []
    for number, match in enumerate(found):
        start, end = ends[number], found[number + 1].start() if number + 1 < len(found) else len(text)
        bad = _BAD_WORD.search(match["first"] or match["last"])
        name = beginning(match["name"] or match["before"], _NAME)
        cases.append(CaseResult(name, "failed" if bad else "passed", message=text[start:end].strip() if bad else ""))
    return merged([TestReport(tuple(cases), complete=False, source="lines")])
