"""Captures to send, and a service that takes them."""

from __future__ import annotations

import itertools
from typing import Any
from uuid import UUID

import httpx2

from tests.service.support import Served

BASE = "0123456789abcdef0123456789abcdef01234567"
SECRET = "-".join(["sk", "ant", "api03", "A1b2C3d4E5f6G7h8" * 6 + "AA"])
_COUNT = itertools.count(1)


def uuid_of(number: int) -> str:
    """A UUID that is the same each time."""
    return str(UUID(int=number + (4 << 76) + (8 << 60)))


def new_trace(**more: Any) -> dict[str, Any]:
    """The body of `POST /traces`."""
    return {
        "repo": {"repo_id": "shop-api", "commit_base": BASE},
        "task": {"bug_report": {"title": "Total is wrong", "description": "Two items add up to one"}},
        "developer": {
            "developer_id": "dev-1",
            "consent_flags": {"store_raw_code": True, "store_terminal_output": True, "allow_llm_judge": True},
        },
        "environment": {"os": "linux", "language": ["python"]},
        "ingestion": {"mode": "incremental", "client_session_id": "session-1"},
        **more,
    }


def event(seq: int, kind: str = "thought", payload: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One event as sent."""
    return {
        "event_id": uuid_of(seq),
        "seq": seq,
        "ts_ms": 1_700_000_000_000 + seq,
        "type": kind,
        "actor": {"kind": "human"},
        "payload": {"kind": "hypothesis", "content": f"thought {seq}"} if payload is None else payload,
        **more,
    }


class Capture:
    """One trace on a running service, driven with its ingest key."""

    def __init__(self, served: Served, **more: Any) -> None:
        answer = served.client.post("/traces", json=new_trace(**more))
        assert answer.status_code == 201, answer.text
        self.trace_id: str = answer.json()["trace_id"]
        self.key: str = answer.json()["ingest_key"]
        self.client = served.client
        self.headers = {"authorization": f"Bearer {self.key}"}

    def append(self, *events: dict[str, Any]) -> httpx2.Response:
        return self.client.post(f"/traces/{self.trace_id}/events", json={"events": list(events)}, headers=self.headers)

    def get(self, rest: str = "") -> httpx2.Response:
        return self.client.get(f"/traces/{self.trace_id}{rest}", headers=self.headers)

    def post(self, rest: str, json: Any = None) -> httpx2.Response:
        return self.client.post(f"/traces/{self.trace_id}{rest}", json=json, headers=self.headers)

    def put_blob(self, data: bytes, name: str, kind: str = "application/octet-stream") -> httpx2.Response:
        headers = {**self.headers, "content-type": kind}
        return self.client.put(f"/blobs/{name}", content=data, headers=headers)
