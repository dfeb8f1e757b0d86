"""The gate's verdict as other programs read it: SARIF 2.1.0, JUnit, GitHub's commands and summary, GitLab's report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from repl.present.text import count_text
from repl.version import VERSION
from runner.change_gate import mark_of

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME = "https://github.com/pm-orchestrator/pm-orchestrator"
_MARKS = {"pass": "✅", "fail": "❌", "not_verified": "⚠️"}


def formed(form: str, fields: Mapping[str, Any]) -> str:
    """The verdict in one of these forms; as JSON in any other."""
    make = {"sarif": sarif, "junit": junit, "github": github, "gitlab": gitlab, "summary": summary}.get(form)
    return make(fields) if make is not None else json.dumps(fields, indent=1, ensure_ascii=False) + "\n"


def sarif(fields: Mapping[str, Any]) -> str:
    """One run: a rule for each criterion in force, a result for each place, what was not verified as notifications."""
    rules = [
        {"id": one["id"], "name": one["name"].replace(" ", ""), "shortDescription": {"text": one["name"]}}
        for one in fields["criteria_results"]
    ]
    driver = {"name": "pm gate", "version": VERSION, "informationUri": _HOME, "rules": rules}
    notices = [
        {"level": "warning", "message": {"text": _unverified(one)}, "descriptor": {"id": one["criterion"]}}
        for one in fields["not_verified"]
    ]
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {"executionSuccessful": not notices, "toolExecutionNotifications": notices, "exitCode": _code(fields)}
        ],
        "results": [_result(issue) for issue in fields["issues"]],
        "columnKind": "utf16CodeUnits",
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _result(issue: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "ruleId": issue["criterion"],
        "level": "error",
        "message": {"text": _message(issue)},
        "partialFingerprints": {"pmGate/v1": mark_of(issue)},
    }
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(issue.get("path") or ".")}}
    if issue.get("path") and issue.get("line"):
        place["region"] = {"startLine": issue["line"]}
    return told | {"locations": [{"physicalLocation": place}]}


def junit(fields: Mapping[str, Any]) -> str:
    """A test case for each criterion; one that is not verified is an error, never a skip that looks like success."""
    results = fields["criteria_results"]
    listed = [*results, *({"id": one["criterion"], "name": "", **one} for one in _lacking(fields))]
    counts = {"failures": sum(not one.get("passed", True) for one in listed)}
    suite = ET.Element("testsuite", {"name": "pm gate", "tests": str(len(listed)), "skipped": "0"})
    errors = 0
    for one in listed:
        case = ET.SubElement(suite, "testcase", {"classname": "pm.gate", "name": f"{one['id']} {one['name']}"})
        if not one.get("passed", True):
            failure = ET.SubElement(case, "failure", {"message": _plain(str(one.get("reason", "")))})
            own = [issue for issue in fields["issues"] if issue["criterion"] == one["id"]]
            failure.text = _plain("\n".join(f"{_where(issue)}: {_message(issue)}" for issue in own))
        elif one.get("outcome", "not_verified") == "not_verified":
            errors += 1
            ET.SubElement(case, "error", {"message": _plain(f"not verified: {one['why']} ({one['next']})")})
    suite.attrib |= {name: str(count) for name, count in (counts | {"errors": errors}).items()}
    top = ET.Element("testsuites")
    top.append(suite)
    return ET.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


def github(fields: Mapping[str, Any]) -> str:
    """Annotations, as commands in the log of a job."""
    lines = [
        f"::error {_place(issue)}title={_property(issue['criterion'])}::{_command(_message(issue))}"
        for issue in fields["issues"]
    ]
    lines += [f"::warning title=not verified::{_command(_unverified(one))}" for one in fields["not_verified"]]
    return "".join(f"{line}\n" for line in lines)


def summary(fields: Mapping[str, Any]) -> str:
    """The summary of a job, in Markdown."""
    word = fields["verification"].replace("_", " ")
    lines = [f"## pm gate: {word}", "", "| | criterion | |", "|---|---|---|"]
    for one in fields["criteria_results"]:
        reason = str(one.get("reason") or "").replace("|", "\\|").replace("\n", " ")[:300]
        lines.append(f"| {_mark(one)} | {one['id']} {one['name']} | {reason.replace('<', '&lt;')} |")
    lines += [f"| ⚠️ | {one['criterion']} | {_unverified(one)} |" for one in _lacking(fields)]
    lines += ["", f"{count_text(len(fields['files']), 'file')}, tree `{fields['tree'][:12]}`", ""]
    return "\n".join(lines) + "\n"


def _mark(result: Mapping[str, Any]) -> str:
    """One that only informs has passed nothing: `0 of 4 faults noticed` is no success."""
    outcome = result.get("outcome", "")
    return "ℹ️" if result.get("advisory") and outcome == "pass" else _MARKS.get(outcome, "")


def gitlab(fields: Mapping[str, Any]) -> str:
    """GitLab's code-quality report."""
    listed = [
        {
            "description": _message(issue),
            "check_name": issue["criterion"],
            "fingerprint": mark_of(issue),
            "severity": "major",
            "location": {"path": issue.get("path") or ".", "lines": {"begin": issue.get("line") or 1}},
        }
        for issue in fields["issues"]
    ]
    return json.dumps(listed, indent=1, ensure_ascii=False) + "\n"


def _lacking(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What is not verified without being a criterion in force."""
    known = {one["id"] for one in fields["criteria_results"]}
    return [one for one in fields["not_verified"] if one["criterion"] not in known]


def _message(issue: Mapping[str, Any]) -> str:
    text = f"{issue['criterion']}: {issue.get('message') or issue['type']}"
    return text + (f" ({issue['suggestion']})" if issue.get("suggestion") else "")


def _unverified(one: Mapping[str, Any]) -> str:
    return f"{one['criterion']} not verified: {one['why']} ({one['next']})"


def _where(issue: Mapping[str, Any]) -> str:
    return f"{issue.get('path', 'the change')}" + (f":{issue['line']}" if issue.get("line") else "")


def _code(fields: Mapping[str, Any]) -> int:
    return {"failed": 1, "verified": 0}.get(fields["verification"], 6)


def _plain(text: str) -> str:
    """Without what XML cannot hold."""
    return "".join(char for char in text if char in "\t\n" or char.isprintable())


def _place(issue: Mapping[str, Any]) -> str:
    parts = [f"file={_property(issue['path'])}"] if issue.get("path") else []
    parts += [f"line={issue['line']}"] if issue.get("path") and issue.get("line") else []
    return "".join(f"{part}," for part in parts)


def _command(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _command(text).replace(":", "%3A").replace(",", "%2C")
