"""The final document of one trace of a million events: peak memory of making, verifying and exporting it, and time.

Each event has an id of its own, half of them name a blob of their own (500,000 blobs). Peak memory is the highest RSS
of a fresh process that does nothing else. PM_BENCH_EVENTS sets the number of events (default 1,000,000). The time is
printed beside a bare read of the same rows with sqlite3.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Figure, heading, show
from collector.final.document import materialize
from collector.final.trace_source import StoreSource
from collector.final.verify_session import stored_document_agrees, verify_source
from collector.handover.export import FORMATS, write_export
from collector.store.blobs import Contents, FolderBlobs, StoredContents
from collector.store.port import NewBlob, StoredEvent, TraceRow, TraceStore
from collector.store.sqlite.store import open_sqlite
from tracer.redaction.engine import build_redactor

_EVENTS = int(os.environ.get("PM_BENCH_EVENTS", "1000000"))
_BATCH = 10_000
_TRACE = "00000000-0000-0000-0000-000000000001"
_LIMIT_MB = 200
_METADATA = {
    "repo": {"repo_id": "shop", "commit_base": "a" * 40},
    "task": {"bug_report": {"title": "totals", "description": "wrong"}},
    "developer": {"developer_id": "dev-1"},
    "environment": {},
    "ingestion": {"mode": "incremental", "client_session_id": "s-1"},
    "store": "redacted",
}
_CONTEXT = b'{"branch":"main","commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}'


def _event(seq: int) -> tuple[StoredEvent, NewBlob | None]:
    envelope = b'{"actor":{"id":null,"kind":"human"},"context":%s}' % _CONTEXT
    event_id = f"00000000-0000-0000-0001-{seq:012x}"
    if seq % 2:
        payload = b'{"extra":{},"file_path":"src/shop.py","kind":"open","line":%d,"query":null}' % (seq % 900)
        return StoredEvent(event_id, seq, 1_700_000_000_000 + seq, "navigation", envelope, payload, b"%d" % seq), None
    data = b"thought number %d: " % seq + b"words " * 20
    blob_id = f"sha256:{hashlib.sha256(data).hexdigest()}"
    payload = b'{"content_blob_id":"%s","extra":{},"kind":"plan","links_to":[]}' % blob_id.encode()
    blob = NewBlob(blob_id, "text/plain", len(data), {"applied": True, "rules": ["secret_scan", "pii_mask"]}, data)
    return StoredEvent(event_id, seq, 1_700_000_000_000 + seq, "thought", envelope, payload, b"%d" % seq), blob


async def _fill(folder: Path) -> None:
    async with open_sqlite(folder / "c.sqlite") as store:
        await store.create_trace(TraceRow(trace_id=_TRACE, created_at_ms=1, metadata=_METADATA), ingest_key_hash="k")
        for first in range(1, _EVENTS + 1, _BATCH):
            made = [_event(seq) for seq in range(first, min(first + _BATCH, _EVENTS + 1))]
            await store.append_events(_TRACE, [event for event, _ in made], [blob for _, blob in made if blob])
        await store.finalize(_TRACE, final_state=None, at_ms=2)


async def _work(folder: Path, what: str) -> None:
    """One piece of work, alone in this process; prints seconds and the peak RSS in MB."""
    async with open_sqlite(folder / "c.sqlite") as store:
        blobs = FolderBlobs(folder / "blobs")
        started = time.perf_counter()
        if what == "materialize":
            made = await materialize(_TRACE, store=store, blobs=blobs)
            size = made.byte_length / 1e6
        elif what == "agrees":
            size = float(await stored_document_agrees(_TRACE, store=store) is True)
        elif what == "verify":
            source = await StoreSource.open(_TRACE, store=store, contents=StoredContents(store, blobs))
            size = float((await verify_source(source)).events)
        elif what.startswith("export-"):
            size = await _export(store, StoredContents(store, blobs), folder, what.removeprefix("export-"))
        else:
            size = 0.0
        seconds = time.perf_counter() - started
    sys.stdout.write(f"{seconds} {_peak_mb()} {size}\n")


async def _export(store: TraceStore, contents: Contents, folder: Path, form: str) -> float:
    """Write the trace in that format, audited; MB."""
    row = await store.get_trace(_TRACE)
    if row is None:
        raise SystemExit("the store was not filled")
    redactor = build_redactor(state_dir=folder, environ={}, rewrite_paths=True, truncate=False)
    with tempfile.TemporaryFile(dir=folder) as file:
        form = next(known for known in FORMATS if known == form)
        return await write_export(file, row, form, store=store, contents=contents, redactor=redactor, what=form) / 1e6


def _peak_mb() -> float:
    """VmHWM, not ru_maxrss: the latter begins with the peak of the process that started this one."""
    with Path("/proc/self/status").open(encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def _child(folder: Path, what: str) -> tuple[float, float, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.final_document", str(folder), what], check=True, capture_output=True
    )
    seconds, peak, size = done.stdout.split()
    return float(seconds), float(peak), float(size)


def _bare(folder: Path) -> float:
    """Seconds to read the same rows and hash them, with nothing but sqlite3."""
    digest = hashlib.sha256()
    started = time.perf_counter()
    connection = sqlite3.connect(folder / "c.sqlite")
    for row in connection.execute("SELECT * FROM events ORDER BY seq"):
        digest.update(str(row).encode())
    connection.close()
    return time.perf_counter() - started


def main() -> None:
    """Measure, against 200 MB."""
    heading(f"final document of a trace of {_EVENTS:,} events, {_EVENTS // 2:,} blobs")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = time.perf_counter()
        asyncio.run(_fill(folder))
        show(Figure("filling the store, s", time.perf_counter() - started))
        bare = _bare(folder)
        _, floor, _ = _child(folder, "nothing")
        show(Figure("RSS of a process that only opens the store, MB", floor))
        seconds, peak, size = _child(folder, "materialize")
        show(Figure("materialize: peak RSS, MB", peak, target=_LIMIT_MB, note=f"document of {size:.0f} MB"))
        show(Figure("materialize: s", seconds, note=f"{seconds / bare:.1f} x a bare read of the rows ({bare:.1f} s)"))
        seconds, peak, agrees = _child(folder, "agrees")
        show(Figure("stored document compared: peak RSS, MB", peak, target=_LIMIT_MB, note=f"{seconds:.1f} s"))
        if not agrees:
            raise SystemExit("the stored document is not what the trace makes")
        seconds, peak, events = _child(folder, "verify")
        show(Figure("verify: peak RSS, MB", peak, target=_LIMIT_MB, note=f"{seconds:.1f} s, {events:.0f} events"))
        for form in FORMATS:
            seconds, peak, size = _child(folder, f"export-{form}")
            show(Figure(f"export {form}: peak RSS, MB", peak, target=_LIMIT_MB, note=f"{seconds:.1f} s, {size:.0f} MB"))


if __name__ == "__main__":
    asyncio.run(_fill(Path(sys.argv[1])) if sys.argv[2] == "fill" else _work(Path(sys.argv[1]), sys.argv[2]))
