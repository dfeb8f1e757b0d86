"""Whatever is sent to append is stored whole or refused with its place; nothing in between, and never a 5xx."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.collector.http.support import Capture, event
from tests.service.support import Served, serving

HASH = "sha256:" + "0" * 64
VALID: tuple[tuple[str, dict[str, Any]], ...] = (
    ("file_edit", {"file_path": "src/a.py", "edit_kind": "patch", "patch": "--- a\n", "pre_hash": HASH}),
    ("file_snapshot", {"file_path": "src/a.py", "content": "x = 1\n", "snapshot_reason": "pre_test"}),
    ("terminal_command", {"cwd": "/w", "command": "make", "shell": "bash", "env_hash": None}),
    ("terminal_output", {"stream": "stdout", "chunk": "ok\n", "is_truncated": False}),
    ("test_run", {"command": "make", "runner": "pytest", "exit_code": 0, "duration_ms": 1, "passed": True}),
    ("debug_action", {"action": "breakpoint", "file_path": "a.py", "line": 1, "value": "1"}),
    ("navigation", {"kind": "open", "file_path": "a.py", "line": 1}),
    ("thought", {"kind": "plan", "content": "why", "links_to": []}),
    ("commit", {"commit_sha": "0" * 40, "message": "fix", "diff": "--- a\n"}),
    ("pr_metadata", {"title": "fix", "url": "https://host/1"}),
    ("error", {"message": "boom", "source": "ide", "detail": "trace"}),
)
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text()
    | st.sampled_from(["../x", "/etc/passwd", "a\0b", "\ud800", HASH, "sha256:zz", "<script>", "\u202e", "1" * 5000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("fuzz") / "project"
    folder.mkdir()
    with serving(folder, []) as running:
        yield running


def spots(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(spot for name, inner in items for spot in spots(inner, (*at, name)))]


@st.composite
def batches(draw: Any) -> Any:
    """A valid batch with up to three of its values replaced, removed or added to."""
    chosen = draw(st.lists(st.sampled_from(VALID), min_size=1, max_size=4))
    body: Any = {"events": [event(seq, kind, copy.deepcopy(payload)) for seq, (kind, payload) in enumerate(chosen, 1)]}
    for _each in range(draw(st.integers(0, 3))):
        spot = draw(st.sampled_from(spots(body)))
        if not spot:
            continue
        parent = body
        for name in spot[:-1]:
            parent = parent[name]
        what = draw(st.sampled_from(["replace", "remove", "add"]))
        if what == "remove":
            del parent[spot[-1]]
        elif what == "add" and isinstance(parent, dict):
            parent[draw(st.text(max_size=12))] = draw(ODD)
        else:
            parent[spot[-1]] = draw(ODD)
    return body


def send(capture: Capture, raw: bytes) -> Any:
    path = f"/traces/{capture.trace_id}/events"
    return capture.client.post(path, content=raw, headers={**capture.headers, "content-type": "application/json"})


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=batches())
def test_a_changed_batch_is_stored_whole_or_refused_with_its_place(served: Served, body: Any) -> None:
    capture = Capture(served)
    answer = send(capture, json.dumps(body).encode("utf-8", "surrogatepass"))
    stored = capture.get("/events").json()["events"]
    if answer.status_code == 200:
        assert len(stored) == answer.json()["accepted"]
        assert capture.get().status_code == 200
    else:
        assert answer.status_code in {409, 413, 422}, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.status_code == 409 or answer.json()["errors"][0]["place"]
        assert stored == []


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    raw=st.binary(max_size=300) | st.text(alphabet='{}[]":,0123456789eE+-.\\utrfalsn ', max_size=200).map(str.encode)
)
def test_any_bytes_are_refused_with_a_place_or_are_an_empty_batch(served: Served, raw: bytes) -> None:
    answer = send(Capture(served), raw)
    assert answer.status_code in {200, 422}, answer.text
    if answer.status_code == 422:
        assert answer.json()["errors"][0]["place"]
