"""Reads what insights look at: agentic traces, and the judgments in conversation traces. Lines are bounded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tracer.errors import NotFoundError
from tracer.insights.model import Trace, parse_trace

__all__ = ["judgments", "read_agentic"]

_LONGEST_LINE = 16 << 20
_JUDGMENT = b'"QUALITY_JUDGMENT"'


def read_agentic(path: Path) -> Trace:
    """The agentic trace at `path`; lines over 16 MB count as damaged. Raises `NotFoundError`."""
    try:
        with path.open("rb") as file:
            return parse_trace(path.name, _lines(file))
    except OSError as error:
        raise NotFoundError(
            f"{path} cannot be read", why=str(error), next_step="pm traces lists those there are"
        ) from error


def judgments(paths: Iterable[Path], *, since: str | None = None) -> Iterator[dict[str, Any]]:
    """The data of every QUALITY_JUDGMENT in conversation traces, file by file; from `since` (ISO time) on.

    A file that vanishes or cannot be read is passed over: it tells nothing.
    """
    for path in paths:
        try:
            with path.open("rb") as file:
                for line in _lines(file):
                    if _JUDGMENT in line and (data := _judgment(line, since)) is not None:
                        yield data
        except OSError:
            continue


def _judgment(line: bytes, since: str | None) -> dict[str, Any] | None:
    try:
        fact = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fact, dict) or fact.get("event") != "QUALITY_JUDGMENT":
        return None
    data = fact.get("data")
    recent = since is None or str(fact.get("timestamp", "")) >= since
    return data if recent and isinstance(data, dict) else None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of `file`; of one that is too long only its beginning, which is then no whole JSON."""
    while line := file.readline(_LONGEST_LINE):
        yield line
        while len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            line = file.readline(_LONGEST_LINE)
