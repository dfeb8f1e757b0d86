"""What a shell's marks and screen say: a history line's number and text, a summary's verdict, what a command looks at.

Pure: text in, values or drafts of events out; the scribe decides what is recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from collector.recorder.marks import Mark
from collector.recorder.plain_text import PlainText
from collector.recorder.recognise import Line
from collector.spool import Draft

__all__ = ["looks", "numbered", "placed", "shows", "told_by_summary"]

_HISTORY: Final = re.compile(rb"\s*(\d+)\*? {1,2}(.*)", re.DOTALL)
_SUMMARY_LINES: Final = 30
_RAN: Final = r"^Ran \d+ tests? in [\d.]+s\s+"
# Of each runner: what it prints where a test failed (one is enough), and where none did.
_SUMMARIES: Final = tuple(
    (re.compile(failed, re.MULTILINE), re.compile(passed, re.MULTILINE))
    for failed, passed in (
        (_RAN + r"FAILED \(", _RAN + r"OK\b"),  # unittest
        (r"^FAIL(?:\t|$)", r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))"),  # go test
        (r"^test result: FAILED\.", r"^test result: ok\."),  # cargo
        (r"^\s*Tests:?\s+(?:.*[,|] *)?\d+ failed\b", r"^\s*Tests:?\s+\d+ passed\b"),  # jest, vitest
        (r"^\s*\d+ failing\b", r"^\s*\d+ passing\b"),  # mocha
        (r"^[#ℹ] fail [1-9]", r"^[#ℹ] fail 0$"),  # node --test
    )
)


def looks(
    line: Line, clean: Callable[[str], str], *, place: Callable[[str], str], context: Mapping[str, Any], ts_ms: int
) -> list[Draft]:
    """Looking at files and starting debuggers, as their own events beside the command.

    `place` answers where a path of the command line is, `clean` what is stored of a text.
    """
    drafts: list[Draft] = []
    if line.viewed is not None:
        kind, path, number, query = line.viewed
        payload: dict[str, Any] = {"kind": kind}
        if path:
            payload["file_path"] = clean(place(path))
        if number is not None:
            payload["line"] = number
        if query:
            payload["query"] = clean(query)
        drafts.append(Draft(type="navigation", payload=payload, context=context, ts_ms=ts_ms))
    if line.debugger:
        payload = {"action": "attach", "expression": clean(line.debugger)}
        drafts.append(Draft(type="debug_action", payload=payload, context=context, ts_ms=ts_ms))
    return drafts


def placed(path: str, *, cwd: str, top: str) -> str:
    """`path`, as it is named in the folder `cwd`, from the workspace `top`; one that lies elsewhere in full."""
    if path.startswith("~"):
        return path
    full = os.path.normpath(os.path.join(os.path.realpath(cwd), path))  # noqa: PTH118 - a text; nothing need be there
    inside = os.path.relpath(full, os.path.realpath(top))
    return full if inside.split("/")[0] == ".." else inside


def numbered(mark: Mark) -> tuple[int, str]:
    """The number and the text of a line of bash's history."""
    match = _HISTORY.fullmatch(mark.text.rstrip(b"\r\n"))
    if match is None:
        return -1, ""
    return int(match[1]), match[2].decode("utf-8", "replace")


def shows(drawn: bytes, text: str) -> bool:
    """Whether what was drawn at the prompt ends with the command `text`; wrapping and blanks do not count."""
    plain = PlainText()
    lines = plain.feed(drawn.replace(b"\r", b"")) + plain.close()
    return "".join(lines.split()).endswith("".join(text.split()))


def told_by_summary(end: str) -> int | None:
    """0 or 1 where the last lines are the summary of a test runner; None where nobody can tell."""
    last = end.splitlines()[-_SUMMARY_LINES:]
    for line in reversed(last[-8:]):
        if re.search(r"\b\d+ (?:failed|errors?)\b.* in [\d.]+s", line):
            return 1
        if re.search(r"\b\d+ passed\b.* in [\d.]+s", line):
            return 0
    text = "\n".join(last)
    for failed, passed in _SUMMARIES:
        if failed.search(text):
            return 1
        if passed.search(text):
            return 0
    return None
