"""What the judge reads of one trace, taken from the store in bounded memory: the first and last events of each kind.

Events are read by pages and forgotten; only those that will stand in the packet keep their texts, and of a blob no
more than a packet can hold. A blob that is gone or withheld (consent) leaves its event with the facts it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson

from collector.qa.packet import BugText, Excerpt, Material, PacketLimits
from collector.store.port import StoredEvent, TraceRow

__all__ = ["EventReader", "ReadText", "gather_material"]

ReadText = Callable[[str, int], Awaitable[str]]
"""The first N characters of a blob as text, or an empty text where it is not here."""

_PAGE: Final = 500
_TEXT: Final = 48_000
_SECTIONS: Final[Mapping[str, str]] = {
    "thought": "thoughts",
    "test_run": "tests",
    "file_edit": "actions",
    "terminal_command": "actions",
    "terminal_output": "actions",
    "debug_action": "actions",
    "commit": "actions",
    "pr_metadata": "actions",
    "error": "actions",
}
_BLOBS: Final = ("content_blob_id", "patch_blob_id", "chunk_blob_id", "detail_blob_id", "value_blob_id")


class EventReader(Protocol):
    """The one method of the store that is needed."""

    async def read_events(self, trace_id: str, *, after: int = 0, limit: int = 1000) -> tuple[StoredEvent, ...]:
        """See `TraceStore.read_events`."""
        ...


@dataclass(slots=True)
class _Seen:
    """One event without its texts."""

    excerpt: Excerpt
    blob_id: str = ""


@dataclass(slots=True)
class _Ends:
    """The first and the last of a run of events; those between are counted."""

    first: int
    last: int
    head: list[_Seen] = field(default_factory=list)
    tail: deque[_Seen] = field(default_factory=deque)
    dropped: int = 0

    def add(self, seen: _Seen) -> None:
        if len(self.head) < self.first:
            self.head.append(seen)
            return
        self.tail.append(seen)
        if len(self.tail) > self.last:
            self.tail.popleft()
            self.dropped += 1

    def __iter__(self) -> Iterator[_Seen]:
        yield from self.head
        yield from self.tail


async def gather_material(
    row: TraceRow, *, events: EventReader, read_text: ReadText, proof: str = "", limits: PacketLimits | None = None
) -> Material:
    """The material of one finalized trace; `proof` is what our own test runs showed, as text."""
    limits = limits or PacketLimits()
    ends = {name: _Ends(limits.first, limits.last) for name in ("thoughts", "tests", "actions")}
    diff_blob, edits, after = _final_diff(row), deque[str](maxlen=limits.last), 0
    diff_source = ""
    while page := await events.read_events(row.trace_id, after=after, limit=_PAGE):
        after = page[-1].seq
        for event in page:
            section = _SECTIONS.get(event.type)
            if section is None:
                continue
            payload = orjson.loads(event.payload)
            ends[section].add(_seen(event, payload))
            if event.type == "file_edit":
                edits.append(event.event_id)
            elif payload.get("diff_blob_id") and not _final_diff(row):
                diff_blob, diff_source = payload["diff_blob_id"], event.event_id
    found = {name: tuple([await _with_text(seen, read_text) for seen in run]) for name, run in ends.items()}
    shown = {excerpt.event_id for excerpts in found.values() for excerpt in excerpts}
    sources = [*(event_id for event_id in edits if event_id in shown), *([diff_source] if diff_source else [])]
    return Material(
        bug=_bug(row),
        thoughts=found["thoughts"],
        tests=found["tests"],
        actions=found["actions"],
        diff=await read_text(diff_blob, limits.diff * 4) if diff_blob else "",
        diff_events=tuple(sources),
        proof=proof,
        thoughts_dropped=ends["thoughts"].dropped,
        tests_dropped=ends["tests"].dropped,
        actions_dropped=ends["actions"].dropped,
    )


def _final_diff(row: TraceRow) -> str:
    return str(((row.final_state or {}).get("pr") or {}).get("diff_blob_id") or "")


def _bug(row: TraceRow) -> BugText:
    report = (row.metadata.get("task") or {}).get("bug_report") or {}
    return BugText(**{name: str(report.get(name) or "") for name in BugText.__slots__})


def _seen(event: StoredEvent, payload: Mapping[str, Any]) -> _Seen:
    kind = str(payload.get("kind") or payload.get("action") or payload.get("stream") or payload.get("runner") or "")
    return _Seen(
        Excerpt(event_id=event.event_id, seq=event.seq, type=event.type, kind=kind, note=_note(event.type, payload)),
        next((str(payload[name]) for name in _BLOBS if payload.get(name)), ""),
    )


def _note(event_type: str, payload: Mapping[str, Any]) -> str:
    match event_type:
        case "test_run":
            verdict = "passed" if payload.get("passed") else "failed"
            return f"{payload.get('command', '')} -> {verdict}, exit {payload.get('exit_code')}"
        case "terminal_command":
            return str(payload.get("command", ""))
        case "file_edit":
            return str(payload.get("file_path", ""))
        case "commit" | "error":
            return str(payload.get("message", ""))
        case "pr_metadata":
            return "\n".join(str(payload[name]) for name in ("title", "description") if payload.get(name))
        case "debug_action":
            told = (payload.get("file_path"), payload.get("line"), payload.get("expression"))
            return " ".join(str(value) for value in told if value is not None)
        case _:
            return ""


async def _with_text(seen: _Seen, read_text: ReadText) -> Excerpt:
    if not seen.blob_id:
        return seen.excerpt
    row = seen.excerpt
    return Excerpt(
        event_id=row.event_id,
        seq=row.seq,
        type=row.type,
        kind=row.kind,
        note=row.note,
        text=await read_text(seen.blob_id, _TEXT),
    )
