"""One fact with everything it holds, for `trace --full`: texts in full, other values as JSON, blobs opened.

Every line is escaped and indented by six blanks, so that nothing recorded can look like a line of the trace itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from repl.present.text import escape
from tracer.blobs import DirectoryBlobs
from tracer.errors import PmError
from tracer.facts import Entry

_INDENT = "      "


def full_lines(entry: Entry, *, blobs: Path) -> list[str]:
    """The lines below the fact's own line."""
    lines: list[str] = []
    for key, value in entry.data.items():
        if value is None or value in ([], {}, ""):
            continue
        lines.extend(_field(key, value))
        if isinstance(value, str) and value.startswith("sha256:") and key.endswith("blob"):
            lines.extend(_blob(value, blobs))
    return lines


def _field(key: str, value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    parts = escape(text).split("\n")
    name = escape(key)
    if len(parts) == 1 and len(parts[0]) < 100:
        return [f"{_INDENT}{name}: {parts[0]}"]
    return [f"{_INDENT}{name}:", *(f"{_INDENT}  {part}" for part in parts)]


def _blob(blob_id: str, blobs: Path) -> list[str]:
    try:
        content = DirectoryBlobs(blobs).read(blob_id)
    except (PmError, OSError) as error:
        return [f"{_INDENT}  (not readable: {escape(str(error))})"]
    return [f"{_INDENT}  {part}" for part in escape(content.decode("utf-8", "backslashreplace")).split("\n")]
