"""The captures of a project as rows: spools on this machine, traces of the local collector, and both where both are.

Blocks (a page calls it in a thread). The collector's database is read only where there is one: looking makes nothing.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from collector.spool import Spool, captures_folder
from collector.spools import list_spools
from tracer.errors import PmError

if TYPE_CHECKING:
    from collector.collector import Collector
    from runner.settings.layers import Settings
    from tracer.statedir import StateDir

__all__ = ["CaptureRow", "checks_text", "read_captures", "view_stored"]

_MOST: Final = 500
_INLINE: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRow:
    """One capture. `path` is its event file, None where only the collector has it; `checks` its QA in words."""

    trace_id: str
    state: str
    title: str
    events: int
    created_at_ms: int
    checks: str = ""
    path: Path | None = None


def read_captures(state_dir: StateDir, settings: Settings) -> list[CaptureRow]:
    """All captures, newest first; `problem`s of single ones leave them out."""
    stored = {str(trace["trace_id"]): trace for trace in _stored(state_dir, settings)}
    rows = [_local(spool, stored.pop(spool.trace_id, None)) for spool in list_spools(state_dir.root)]
    rows += [_remote(trace) for trace in stored.values()]
    rows += [_file(path) for path in captures_folder(state_dir.root).glob("*.jsonl")]
    return sorted(rows, key=lambda row: -row.created_at_ms)


def checks_text(trace: dict[str, Any]) -> str:
    """`tests passed · judge 4.2`; the status where there is no result yet."""
    found = trace.get("qa")
    qa: dict[str, Any] = found if isinstance(found, dict) else {}
    parts = []
    tests = qa.get("tests")
    if isinstance(tests, dict):
        passed: Any = tests.get("final_passed")
        why = tests.get("not_testable")
        parts.append({True: "tests passed", False: "tests failed"}.get(passed, f"not tested: {why}" if why else ""))
    judge = qa.get("judge")
    if isinstance(judge, dict):
        overall, flags = judge.get("overall"), judge.get("flags") or []
        parts.append(f"judge {overall}" if overall is not None else " ".join(str(flag) for flag in flags[:2]))
    told = " · ".join(part for part in parts if part)
    return told or {"qa_running": "being checked", "finalized": "not checked yet"}.get(str(trace.get("status")), "")


def view_stored(state_dir: StateDir, settings: Settings, trace_id: str) -> Path:
    """The events of a trace that only the collector has, in a temporary file (the caller removes it).

    Raises:
        PmError: the collector cannot be read, or the trace is gone.

    """
    handle = tempfile.NamedTemporaryFile(  # noqa: SIM115 - the viewer needs its name after this
        mode="wb", prefix="pm-capture-", suffix=".jsonl", delete=False
    )
    with handle:
        asyncio.run(_write_events(state_dir, settings, trace_id, handle))
    return Path(handle.name)


async def _write_events(state_dir: StateDir, settings: Settings, trace_id: str, file: Any) -> None:
    from collector.opening import open_collector

    async with open_collector(state_dir, settings) as collector:
        after = 0
        while page := (await collector.events_page(trace_id, after=after)).events:
            after = page[-1].seq
            for stored in page:
                event = orjson.loads(stored.body)
                event["payload"] = await _with_contents(collector, trace_id, event.get("payload") or {})
                file.write(orjson.dumps(event) + b"\n")


async def _with_contents(collector: Collector, trace_id: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with short contents in the place of their blobs' ids."""
    shown = dict(payload)
    for name, blob_id in payload.items():
        if not name.endswith("_blob_id") or not isinstance(blob_id, str):
            continue
        try:
            found = await collector.open_blob(blob_id, trace_id=trace_id)
        except PmError:
            continue
        with found.file as file:
            data = file.read(_INLINE + 1)
        if len(data) <= _INLINE and b"\0" not in data:
            del shown[name]
            shown[name.removesuffix("_blob_id")] = data.decode("utf-8", "replace")
    return shown


def _stored(state_dir: StateDir, settings: Settings) -> list[dict[str, Any]]:
    database = str(settings.get("collector.database") or "")
    if not database and not (state_dir.root / "collector.sqlite").exists():
        return []
    return asyncio.run(_listing(state_dir, settings))


async def _listing(state_dir: StateDir, settings: Settings) -> list[dict[str, Any]]:
    from collector.opening import open_collector  # pydantic models, the store and the intake: 150 ms

    async with open_collector(state_dir, settings) as collector:
        traces, _following = await collector.listing(limit=_MOST)
        return [trace if trace["status"] == "open" else await collector.metadata(trace["trace_id"]) for trace in traces]


def _local(spool: Spool, stored: dict[str, Any] | None) -> CaptureRow:
    sent, events = spool.sent, spool.last_event()
    if spool.recorder is not None:
        state = "paused" if spool.paused else "recording"
    elif sent.finalized:
        state = "sent"
    else:
        state = "cut off" if spool.final is None and spool.header.get("kind") == "recording" else "not sent"
    return CaptureRow(
        trace_id=spool.trace_id,
        state=state,
        title=_title(spool.header.get("request")),
        events=events,
        created_at_ms=int(spool.header.get("created_at_ms") or 0),
        checks=checks_text(stored) if stored is not None else "",
        path=spool.events_path,
    )


def _remote(trace: dict[str, Any]) -> CaptureRow:
    return CaptureRow(
        trace_id=str(trace["trace_id"]),
        state="collected",
        title=_title(trace),
        events=int(trace.get("event_count") or 0),
        created_at_ms=int(trace.get("created_at_ms") or 0),
        checks=checks_text(trace),
    )


def _file(path: Path) -> CaptureRow:
    facts = path.stat()
    return CaptureRow(
        trace_id=path.stem,
        state="file",
        title=path.name,
        events=0,
        created_at_ms=facts.st_mtime_ns // 1_000_000,
        path=path,
    )


def _title(request: Any) -> str:
    try:
        return str(request["task"]["bug_report"]["title"])
    except (KeyError, TypeError):
        return ""
