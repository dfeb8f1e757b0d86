"""Captured sessions in the full screen: the rows of the list, and one capture with thoughts beside its events."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static
from typing_extensions import override

from collector.client.spool import Spool, captures_folder, list_spools
from repl.present.cells import shown
from repl.screen.hints import Hints
from repl.screen.keymap import KEYS
from repl.screen.trace.view import TraceScreen
from tracer.errors import PmError

if TYPE_CHECKING:
    from collector.collector import Collector
    from tracer.settings.layers import Settings
    from tracer.statedir import StateDir

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
    """All captures, newest first; damaged ones are left out."""
    stored = {str(trace["trace_id"]): trace for trace in asyncio.run(_stored(state_dir, settings))}
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

    Raises PmError: the collector cannot be read, or the trace is gone.
    """
    handle = tempfile.NamedTemporaryFile(  # noqa: SIM115 - the viewer needs its name after this
        mode="wb", prefix="pm-capture-", suffix=".jsonl", delete=False
    )
    with handle:
        asyncio.run(_write_events(state_dir, settings, trace_id, handle))
    return Path(handle.name)


async def _write_events(state_dir: StateDir, settings: Settings, trace_id: str, file: Any) -> None:
    from collector.opening import open_collector

    async with open_collector(state_dir, settings, environ=os.environ) as collector:
        after = 0
        while page := (await collector.events_page(trace_id, after=after)).events:
            after = page[-1].seq
            for stored in page:
                event = orjson.loads(stored.body)
                event["payload"] = await _with_contents(collector, trace_id, event.get("payload") or {})
                file.write(orjson.dumps(event) + b"\n")


async def _with_contents(collector: Collector, trace_id: str, payload: dict[str, Any]) -> dict[str, Any]:
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


async def _stored(state_dir: StateDir, settings: Settings) -> list[dict[str, Any]]:
    if not settings.get("collector.database") and not (state_dir.root / "collector.sqlite").exists():
        return []
    from collector.opening import open_collector  # pydantic models, the store and the intake: 150 ms

    async with open_collector(state_dir, settings, environ=os.environ) as collector:
        traces, _following = await collector.listing(limit=_MOST)
        return traces


def _local(spool: Spool, stored: dict[str, Any] | None) -> CaptureRow:
    told = spool.state()
    left = {"open": "cut off" if spool.header.get("kind") == "recording" else "not sent", "closed": "not sent"}
    return CaptureRow(
        trace_id=spool.trace_id,
        state=left.get(told["state"], told["state"]),
        title=spool.title,
        events=told["events"],
        created_at_ms=int(spool.header.get("created_at_ms") or 0),
        checks=checks_text(stored) if stored is not None else "",
        path=spool.events_path,
    )


def _remote(trace: dict[str, Any]) -> CaptureRow:
    return CaptureRow(
        trace_id=str(trace["trace_id"]),
        state="collected",
        title=trace["task"]["bug_report"]["title"],
        events=int(trace.get("event_count") or 0),
        created_at_ms=int(trace.get("created_at_ms") or 0),
        checks=checks_text(trace),
    )


def _file(path: Path) -> CaptureRow:
    made_ms = path.stat().st_mtime_ns // 1_000_000
    return CaptureRow(trace_id=path.stem, state="file", title=path.name, events=0, created_at_ms=made_ms, path=path)


_MARK: Final = b'"type":"thought"'


class Thought(NamedTuple):
    """One thought; `links` are the ids of the events it speaks of."""

    event_id: str
    seq: int
    kind: str
    text: str
    links: tuple[str, ...]


class Thoughts:
    """The thoughts in the event file `path`. `read_on` takes what is new; lookups are by an event's id."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = 0
        self._reading = Lock()
        self._about: dict[str, list[Thought]] = {}
        self._own: dict[str, Thought] = {}

    def read_on(self) -> bool:
        """Read whole lines that are new; whether a thought was among them. Blocks: for a thread."""
        found = False
        with self._reading:  # two readers at once would both count the same lines
            for thought in self._new():
                found = True
                self._own[thought.event_id] = thought
                for link in thought.links:
                    self._about.setdefault(link, []).append(thought)
        return found

    def about(self, event_id: str) -> tuple[Thought, ...]:
        """The thoughts that speak of the event, or the event itself where it is one."""
        own = self._own.get(event_id)
        return (own,) if own is not None else tuple(self._about.get(event_id, ()))

    def _new(self) -> Iterator[Thought]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._end)
                for raw in file:
                    if not raw.endswith(b"\n"):
                        return
                    self._end += len(raw)
                    if _MARK in raw:
                        thought = _thought(raw)
                        if thought is not None:
                            yield thought
        except OSError:
            return


def _thought(raw: bytes) -> Thought | None:
    try:
        event: dict[str, Any] = orjson.loads(raw)
        payload = event["payload"]
        links = tuple(str(link) for link in payload.get("links_to") or ())
        text = str(payload.get("content") or payload.get("content_blob_id") or "")
        return Thought(str(event["event_id"]), int(event["seq"]), str(payload.get("kind", "")), text, links)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        return None


class CaptureScreen(TraceScreen):
    """Shows `capture`, whose events are in `path`; `temporary` removes that file when the screen is left."""

    HELP = (
        "A captured session as a timeline: the selected event in full beside it, and below it what the user\n"
        "thought about it. T goes to the next thought. The other keys are the trace viewer's."
    )
    BINDINGS = KEYS["capture"]

    def __init__(self, capture: CaptureRow, path: Path, *, temporary: bool = False) -> None:
        super().__init__(path)
        self._capture = capture
        self._thoughts = Thoughts(path)
        self._temporary = path if temporary else None
        self._seen = -1

    @override
    def compose(self) -> ComposeResult:
        for widget in super().compose():
            if isinstance(widget, Hints):
                with VerticalScroll(id="capture-thoughts") as pane:
                    pane.border_title = "Thoughts"
                    yield Static(id="capture-text", markup=False)
            yield widget

    @override
    def on_unmount(self) -> None:
        super().on_unmount()
        if self._temporary is not None:
            with suppress(OSError):
                self._temporary.unlink()

    @override
    def tick(self) -> None:
        super().tick()
        if self.model.file.size != self._seen:
            self._seen = self.model.file.size
            self._read_thoughts()

    @work(thread=True, exclusive=True, group="thoughts")
    def _read_thoughts(self) -> None:
        if self._thoughts.read_on():
            self.app.call_from_thread(self._show_thoughts)

    @override
    def show_state(self) -> None:
        super().show_state()
        capture = self._capture
        parts = (capture.trace_id[:8], capture.state, capture.title, capture.checks)
        self._write("#trace-title", " " + shown(" · ".join(part for part in parts if part)))

    @override
    def show_detail(self) -> None:
        super().show_detail()
        self._show_thoughts()

    def _show_thoughts(self) -> None:
        found = self._about_selected()
        text = "\n".join(f"{shown(each.kind)}: {shown(each.text)}" for each in found)
        self._write("#capture-text", text or "nothing was noted about this")

    def _about_selected(self) -> tuple[Thought, ...]:
        decoded = self.detail.decoded
        value = decoded.value if decoded is not None else None
        return self._thoughts.about(str(value.get("event_id"))) if value is not None else ()

    def action_next_thought(self) -> None:
        row = self.facts.row()
        start = row.seq if row is not None and row.seq is not None else -1
        count = self.model.file.count
        for seq in (*range(start + 1, count), *range(min(start + 1, count))):
            if self.model.file.row(seq).event == "thought":
                self.go_to_line(str(seq))
                return
        self.notify("no thoughts in this capture")
