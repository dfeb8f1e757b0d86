"""Small traces, events and blobs for the store's and the intake's tests."""

from __future__ import annotations

import uuid
from typing import Any

import orjson

from collector.intake.prepare import new_blob
from collector.store.port import NewBlob, StoredEvent, TraceRow

__all__ = ["KEY", "blob", "event", "metadata", "sent", "trace", "uid"]

KEY = b"k" * 32


def uid(number: int) -> str:
    return str(uuid.UUID(int=number))


def metadata(**changes: Any) -> dict[str, Any]:
    return {
        "repo": {"repo_id": "shop", "commit_base": "a" * 40},
        "task": {"bug_report": {"title": "totals are wrong", "description": "the tax is added twice"}},
        "developer": {
            "developer_id": "dev-1",
            "consent_flags": {"store_raw_code": True, "store_terminal_output": True, "allow_llm_judge": True},
        },
        "environment": {"os": "linux"},
        "ingestion": {"mode": "incremental", "client_session_id": "s-1"},
        "store": "redacted",
        **changes,
    }


def trace(number: int = 1, *, at_ms: int = 1_000, **changes: Any) -> TraceRow:
    return TraceRow(trace_id=uid(number), created_at_ms=at_ms, metadata=metadata(), **changes)


def sent(seq: int, *, of: str = "navigation", number: int | None = None, **payload: Any) -> dict[str, Any]:
    """An event as a client sends it."""
    return {
        "event_id": uid(number if number is not None else 10_000 + seq),
        "seq": seq,
        "ts_ms": 1_700_000_000_000 + seq,
        "type": of,
        "actor": {"kind": "human", "id": "dev-1"},
        "context": {"workspace_root": "/home/alice/shop", "branch": "main"},
        "payload": payload or {"kind": "open", "file_path": "src/shop.py"},
    }


def stored(value: dict[str, Any], *, identity: bytes = b"") -> StoredEvent:
    """The stored form of a complete event given as JSON."""
    envelope = {"actor": value["actor"], "context": value["context"]}
    parts = [orjson.dumps(part, option=orjson.OPT_SORT_KEYS) for part in (envelope, value["payload"])]
    return StoredEvent(value["event_id"], value["seq"], value["ts_ms"], value["type"], *parts, identity)


def event(seq: int, *, number: int | None = None, identity: bytes | None = None, **payload: Any) -> StoredEvent:
    value = sent(seq, number=number, **payload)
    return stored(value, identity=identity or b"%016d" % seq)


def blob(text: str, **changes: Any) -> NewBlob:
    return new_blob(text.encode(), rules=("secret_scan",), applied=True)._replace(**changes)
