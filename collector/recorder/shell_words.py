"""What a shell's marks and screen say: a history line's number and text, a summary's verdict, what a command looks at.

Pure: text in, values or drafts of events out; the scribe decides what is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from collector.recorder.marks import Mark
from collector.recorder.plain_text import PlainText
from collector.recorder.recognise import Line
from collector.spool import Draft

__all__ = ["looks", "numbered", "shows", "told_by_summary"]

_HISTORY: Final = re.compile(rb"\s*(\d+)\*? {1,2}(.*)", re.DOTALL)


def looks(line: Line, clean: Callable[[str], str], *, context: Mapping[str, Any], ts_ms: int) -> list[Draft]:
    """Looking at files and starting debuggers, as their own events beside the command."""
    drafts: list[Draft] = []
    if line.viewed is not None:
        kind, path, number, query = line.viewed
        payload: dict[str, Any] = {"kind": kind}
        if path and ".." not in path.split("/"):
            payload["file_path"] = clean(path)
        if number is not None:
            payload["line"] = number
        if query:
            payload["query"] = clean(query)
        drafts.append(Draft(type="navigation", payload=payload, context=context, ts_ms=ts_ms))
    if line.debugger:
        payload = {"action": "attach", "expression": clean(line.debugger)}
        drafts.append(Draft(type="debug_action", payload=payload, context=context, ts_ms=ts_ms))
    return drafts


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
    """0 or 1 where the last lines are pytest's own summary; None where nobody can tell."""
    for line in reversed(end.splitlines()[-8:]):
        if re.search(r"\b\d+ (?:failed|errors?)\b.* in [\d.]+s", line):
            return 1
        if re.search(r"\b\d+ passed\b.* in [\d.]+s", line):
            return 0
    return None
