"""The modification prompt: short, gravest first, and the first request inserted as data at the end.

Pure. It says what was found (criterion, place, excerpt, suggestion), what is required, what was already tried, and
the original request. Nothing in it is expanded as a template; it always starts from the first request, so corrections
never nest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["SEVERITY", "modification_prompt"]

# Gravest first: what makes the rest moot stands at the top.
SEVERITY = ("Q5", "Q6", "Q1", "Q4", "Q3", "Q2", "Q7", "Q9", "Q8")
_PLACES_EACH = 8
_PLACES_ALL = 24
_LINE = 240
_TRIED = 5
_REQUIRED = {
    "Q1": "Every file you name as created or changed exists in the workspace with that change.",
    "Q2": "Remove TODO markers by doing the work they stand for.",
    "Q3": "Write all code out in full; leave nothing out and nothing to be filled in.",
    "Q4": "Everything delivered parses: whole files and whole code blocks.",
    "Q5": "Make the change in the workspace.",
    "Q6": "Finish the work yourself; leave no step to the user and claim only what is done.",
    "Q7": "The tests pass, without deleting, skipping or weakening any.",
    "Q8": "The lint command passes, without changing its settings.",
    "MERGE": "Do the work again on the files as they are now, and keep what the others did.",
    "Q9": "The type check passes, without changing its settings.",
}


def modification_prompt(
    *,
    request: str,
    criteria_results: Sequence[Mapping[str, Any]],
    issues: Sequence[Mapping[str, Any]] = (),
    tried: Sequence[str] = (),
    details: str = "",
) -> str:
    """The prompt for the next attempt.

    `request` is the task's first prompt; `criteria_results` and `issues` are those of the REJECT just recorded;
    `tried` holds one summary for each earlier rejected attempt, oldest first; `details` is shown as it is.
    """
    failed = sorted((result for result in criteria_results if not result["passed"]), key=_severity)
    parts = [_headline(failed)]
    if failed:
        parts += ["", "What was found:", *_found(failed, issues), "", "What is required:"]
        parts += [f"- {result['id']} {result['name']}: {_required(result)}" for result in failed]
    if details:
        parts += ["", details]
    if tried:
        parts += ["", "Already tried, and rejected (do something else):"]
        first = len(tried) - _TRIED
        parts += [f"- attempt {index + 1}: {_one_line(text)}" for index, text in enumerate(tried) if index >= first]
    parts += ["", "The original request:", "", request]
    return "\n".join(parts)


def _severity(result: Mapping[str, Any]) -> tuple[int, str]:
    name = str(result["id"])
    return (SEVERITY.index(name) if name in SEVERITY else len(SEVERITY), name)


def _headline(failed: Sequence[Mapping[str, Any]]) -> str:
    """One line for the trace: `Fix: Remove TODO markers by doing the work they stand for.`."""
    if not failed:
        return "Fix: earlier answers to this request were not accepted."
    return f"Fix: {_required(failed[0])}"


def _required(result: Mapping[str, Any]) -> str:
    return _REQUIRED.get(str(result["id"]), f"{result['name']} holds.")


def _found(failed: Sequence[Mapping[str, Any]], issues: Sequence[Mapping[str, Any]]) -> list[str]:
    lines: list[str] = []
    shown = 0
    for result in failed:
        own = [issue for issue in issues if issue["criterion"] == result["id"] and not issue.get("preexisting")]
        lines.append(f"- {result['id']} {result['name']}: {_one_line(str(result.get('reason', '')))}")
        room = min(_PLACES_EACH, _PLACES_ALL - shown)
        lines += [f"  - {_place(issue)}" for issue in own[:room]]
        shown += min(room, len(own))
        if len(own) > room:
            lines.append(f"  - and {len(own) - room} more")
    return lines


def _place(issue: Mapping[str, Any]) -> str:
    where = str(issue.get("path", "your answer"))
    if issue.get("line"):
        where += f":{issue['line']}" if issue.get("path") else f", line {issue['line']}"
    text = where + f": {_one_line(str(issue.get('message', issue['type'])))}"
    if issue.get("excerpt"):
        text += f": `{_one_line(str(issue['excerpt']))}`"
    if issue.get("suggestion"):
        text += f" -> {_one_line(str(issue['suggestion']))}"
    return text


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LINE else flat[: _LINE - 1] + "…"
