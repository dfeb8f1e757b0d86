"""The report that an agent ends its answer with: found, read tolerantly, and taken out of what people read. Pure.

It stands in a fenced block ```` ```pm-report ````, or an executor got it apart from the text. It is never required.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from tracer.names import ReportStatus
from tracer.redaction.cuts import beginning

_STATUSES: Final = frozenset(get_args(ReportStatus))
_BLOCK: Final = re.compile(
    r"^[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?:json[ \t]+)?pm-report\b[^\n]*\n(?P<body>.*?)"
    r"(?:^[ \t]*(?P=mark)[ \t]*$\n?|\Z)",
    re.MULTILINE | re.DOTALL,
)
_MOST_BYTES: Final = 64 * 1024  # of a block
_MOST_ITEMS: Final = 200  # of a list
_MOST_TEXT: Final = 2_000  # characters of an item
# What stands in a list to say that it is empty.
_EMPTY_ITEMS: Final = frozenset(re.split(r"\|", "|none|nothing|n/a|na|no|nil|null|keine|nichts|なし|无"))


def _texts(told: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "maxItems": _MOST_ITEMS, "description": told}


def _objects(told: str, required: str, **properties: str) -> dict[str, Any]:
    fields = {name: {"type": kind} for name, kind in properties.items()}
    items = {"type": "object", "required": [required], "properties": fields}
    return {"type": "array", "items": items, "maxItems": _MOST_ITEMS, "description": told}


REPORT_SCHEMA: Final[Mapping[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "pm-report",
    "description": "What an agent says of its work at the end of its answer, in one fenced block pm-report",
    "type": "object",
    "required": ["status"],
    "properties": {
        "status": {
            "enum": list(get_args(ReportStatus)),
            "description": "question: you need an answer to go on; blocked: you cannot go on, the question says why; "
            "nothing_to_do: what was asked for is there already",
        },
        "done": _texts("what you did"),
        "left": _texts("parts of the task that are not done"),
        "files": _texts("files you created, changed, renamed or deleted, relative to the workspace"),
        "commands": _objects("commands you ran, and how they ended", "run", run="string", exit="integer"),
        "tests_changed": _objects("existing tests you changed, and why", "test", test="string", why="string"),
        "question": {"type": ["string", "null"], "description": "what you need to know"},
        "choices": _texts("possible answers to the question"),
    },
}


def read_report(text: str) -> dict[str, Any] | None:
    """The last report in an answer that can be read; None without one."""
    for block in reversed(_blocks(text)):
        if len(block["body"]) > _MOST_BYTES:
            continue
        try:
            found = clean_report(json.loads(block["body"]))
        except (ValueError, RecursionError):
            continue
        if found is not None:
            return found
    return None


def clean_report(value: object) -> dict[str, Any] | None:
    """`value` as a report: known keys of the right shape, cut to size; None where it has no status."""
    if not isinstance(value, Mapping):
        return None
    status = value.get("status")
    name = status.strip().lower().replace(" ", "_").replace("-", "_") if isinstance(status, str) else ""
    if name not in _STATUSES:
        return None
    report: dict[str, Any] = {"status": name}
    for key in ("done", "left", "files", "choices"):
        report[key] = _listed(value.get(key), _item)
    report["commands"] = _listed(value.get("commands"), _command)
    report["tests_changed"] = _listed(value.get("tests_changed"), _test)
    report["question"] = _item(value.get("question"))
    return report


def _listed(value: object, read: Callable[[object], Any]) -> list[Any]:
    given = value if isinstance(value, list | tuple) else [value]
    return [item for item in map(read, given[:_MOST_ITEMS]) if item is not None]


def _item(value: object) -> str | None:
    if isinstance(value, Mapping):
        value = next((value[key] for key in ("path", "file", "item", "text") if key in value), None)
    text = beginning(value.strip(), _MOST_TEXT) if isinstance(value, str) else ""
    return None if text.lower().strip(" .-()。") in _EMPTY_ITEMS else text


def _command(value: object) -> dict[str, Any] | None:
    given = value if isinstance(value, Mapping) else {"run": value}
    run = _item(next((given[key] for key in ("run", "command", "cmd") if key in given), None))
    code = next((given[key] for key in ("exit", "exit_code") if key in given), None)
    return None if run is None else {"run": run, "exit": code if type(code) is int and abs(code) < 1 << 31 else None}


def _test(value: object) -> dict[str, Any] | None:
    given = value if isinstance(value, Mapping) else {"test": value}
    test = _item(next((given[key] for key in ("test", "name", "path") if key in given), None))
    return None if test is None else {"test": test, "why": _item(given.get("why")) or ""}


def prose_of(text: str) -> str:
    """An answer as people read it: without its report, which speaks for it where there is nothing else."""
    blocks = _blocks(text)
    if not blocks:
        return text
    prose = _BLOCK.sub("", text).strip()
    return prose or _told(read_report(text)) or text


def _told(report: Mapping[str, Any] | None) -> str:
    if report is None:
        return ""
    lists = [(name, report[name.lower()]) for name in ("Done", "Left", "Files")]
    parts = ["\n".join([f"{name}:", *(f"- {item}" for item in items)]) for name, items in lists if items]
    return "\n\n".join([*parts, *filter(None, [report["question"]])]) or report["status"]


def _blocks(text: str) -> list[re.Match[str]]:
    return list(_BLOCK.finditer(text)) if "pm-report" in text else []
