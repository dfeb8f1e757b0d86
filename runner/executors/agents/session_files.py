"""Where the command lines keep their own sessions: found by id, never by "the newest file".

Layouts are in docs/executors.md. Nothing here raises for a missing folder or a damaged file: it is then not found.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_TAIL = 4 << 20


def home_of(environ: Mapping[str, str]) -> Path:
    """The home folder the agent will see."""
    return Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - never raises, unlike Path.home


def claude_session(environ: Mapping[str, str], session_id: str, workspace: str) -> Path | None:
    """`projects/<folder of the workspace>/<id>.jsonl`; the folder's name is the path with all else made `-`."""
    base = Path(environ.get("CLAUDE_CONFIG_DIR") or home_of(environ) / ".claude") / "projects"
    slug = re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(workspace))
    if len(slug) <= 200:
        path = base / slug / f"{session_id}.jsonl"
        return path if path.is_file() else None
    return _one(str(base), "*", f"{glob.escape(session_id)}.jsonl")


def claude_cost_before(path: Path) -> float | None:
    """The money of a session's earlier runs where this version adds it to the new run's total, else None."""
    for line in _records_from_end(path):
        if line.get("type") == "cost-state":
            total = line.get("totalCostUSD")
            return float(total) if isinstance(total, int | float) else None
    return None


def codex_home(environ: Mapping[str, str]) -> Path:
    """`CODEX_HOME`, else `~/.codex`."""
    return Path(environ.get("CODEX_HOME") or home_of(environ) / ".codex")


def codex_session(environ: Mapping[str, str], thread_id: str) -> Path | None:
    """`sessions/YYYY/MM/DD/rollout-<time>-<thread id>.jsonl`, in the folder of the day it began."""
    name = f"rollout-*-{glob.escape(thread_id)}.jsonl"
    return _one(str(codex_home(environ) / "sessions"), "*", "*", "*", name)


class CodexTotals(NamedTuple):
    """Token counts of a whole thread; input includes cached, output includes reasoning."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0


def codex_totals(path: Path) -> CodexTotals | None:
    """The last cumulative count of a thread's file; zero where it holds none, None where it cannot be read."""
    try:
        path.stat()
    except OSError:
        return None
    for line in _records_from_end(path):
        payload = line.get("payload")
        if isinstance(payload, dict) and payload.get("type") == "token_count":
            info = payload.get("info")
            total = info.get("total_token_usage") if isinstance(info, dict) else None
            if isinstance(total, dict):
                return CodexTotals(
                    int(total.get("input_tokens", 0)),
                    int(total.get("cached_input_tokens", 0)),
                    int(total.get("output_tokens", 0)),
                    int(total.get("reasoning_output_tokens", 0)),
                )
    return CodexTotals()


def codex_model(path: Path) -> str | None:
    """The model of a thread's last turn."""
    for line in _records_from_end(path):
        payload = line.get("payload")
        if line.get("type") == "turn_context" and isinstance(payload, dict) and isinstance(payload.get("model"), str):
            return str(payload["model"])
    return None


def gemini_session(environ: Mapping[str, str], session_id: str) -> Path | None:
    """`tmp/<project>/chats/session-<minute>-<8 of the id>.json[l]` whose `sessionId` is the whole id."""
    base = str(home_of(environ) / ".gemini" / "tmp")
    pattern = os.path.join(glob.escape(base), "*", "chats", f"session-*-{glob.escape(session_id[:8])}.json*")  # noqa: PTH118
    for name in sorted(glob.glob(pattern)):  # noqa: PTH207 - the home folder is data, not a pattern
        with Path(name).open("rb") as file:
            if f'"{session_id}"'.encode() in file.read(4096):
                return Path(name)
    return None


def _one(base: str, *parts: str) -> Path | None:
    found = glob.glob(os.path.join(glob.escape(base), *parts))  # noqa: PTH118, PTH207 - as above
    return Path(max(found, key=os.path.getmtime)) if found else None


def _records_from_end(path: Path) -> Iterator[dict[str, Any]]:
    """The records in the last megabytes, newest first; what cannot be read is passed over."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            size = file.tell()
            file.seek(max(size - _TAIL, 0))
            data = file.read(_TAIL)
    except OSError:
        return
    yield from records_in(reversed(data.split(b"\n")))


def records_in(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON objects among lines, in order; what is none is passed over."""
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record
