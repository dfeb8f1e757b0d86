"""Listing native sessions, finding traces and watching."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.tracer.distill.support import unpack
from tracer.catalog.agentic import TraceQuery, find_traces
from tracer.catalog.store import rebuild
from tracer.distill.locate.find import latest_session
from tracer.distill.locate.listing import list_native, retention_days
from tracer.distill.many import watch_sessions
from tracer.distill.native import Request
from tracer.distill.one import distill_session
from tracer.errors import NotFoundError
from tracer.statedir import StateDir

SOME = ("claude/bugfix@2.0.76", "codex/happy", "gemini/bugfix")


@pytest.fixture
def home(tmp_path):
    for scenario in SOME:
        unpack(scenario, tmp_path / "home")
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def state_dir(tmp_path):
    return StateDir(tmp_path / ".pm-orchestrator")


def test_the_list_says_what_is_distilled_and_what_changed_since(home, state_dir, tmp_path):
    rows = list_native([state_dir.agentic_traces], environ=home)
    assert {row.session.provider: row.distilled for row in rows} == {"claude": "no", "codex": "no", "gemini": "no"}
    for row in rows[:2]:
        distill_session(row.session.path, project_root=tmp_path)
    later = time.time() + 60
    os.utime(rows[0].session.path, (later, later))
    after = {row.session.path: row for row in list_native([state_dir.agentic_traces], environ=home)}
    assert [after[row.session.path].distilled for row in rows] == ["changed", "yes", "no"]
    assert after[rows[0].session.path].trace is not None


def test_the_days_left_follow_the_providers_settings(home, tmp_path):
    assert (retention_days("claude", home), retention_days("codex", home), retention_days("gemini", home)) == (
        30,
        None,
        30,
    )
    (tmp_path / "home" / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 7}')
    (tmp_path / "home" / ".gemini" / "settings.json").write_text('{"general":{"sessionRetention":{"maxAge":"2w"}}}')
    assert (retention_days("claude", home), retention_days("gemini", home)) == (7, 14)
    days = {row.session.provider: row.days_left for row in list_native([], environ=home)}
    assert days == {"claude": 6, "codex": None, "gemini": 13}


def test_the_newest_session_of_a_project_is_found_and_no_others(home, tmp_path):
    newest = latest_session("codex", project=Path("/home/dev/proj"), environ=home)
    assert newest.provider == "codex"
    with pytest.raises(NotFoundError) as caught:
        latest_session(project=tmp_path, environ=home)
    assert str(tmp_path / "home" / ".codex") in caught.value.why


@pytest.fixture
def traces(home, state_dir, tmp_path):
    labels = {"claude": "sync:alpha", "codex": "fix:beta", "gemini": "sync:gamma"}
    for row in list_native([], environ=home):
        name = row.session.provider
        distill_session(row.session.path, project_root=tmp_path, label=labels[name], success=name != "gemini")
    return state_dir


@pytest.mark.parametrize(
    ("query", "modules"),
    [
        ({}, {"alpha", "beta", "gamma"}),
        ({"operation": "sync"}, {"alpha", "gamma"}),
        ({"operation": "s*", "provider": "google"}, {"gamma"}),
        ({"module": "b*"}, {"beta"}),
        ({"provider": "claude"}, {"alpha"}),
        ({"outcome": "failure"}, {"gamma"}),
        ({"outcome": "success"}, {"alpha", "beta"}),
        ({"outcome": "unknown"}, set()),
        ({"model": "gpt*"}, {"beta"}),
        ({"least_cost": 0.1}, {"beta"}),
        ({"most_cost": 0.1}, {"alpha", "gamma"}),
        ({"least_errors": 1}, {"alpha", "gamma"}),
        ({"text": "zerodivisionERROR"}, {"alpha", "gamma"}),
        ({"text": "nowhere in any of them"}, set()),
        ({"since": "2026-11-21T10:31"}, {"gamma"}),
        ({"until": "2026-11-21T10:31"}, {"alpha", "beta"}),
    ],
)
def test_traces_are_found_by_each_condition(traces, query, modules):
    assert {row.module for row in find_traces(traces, TraceQuery(**query))} == modules


def test_a_lost_catalogue_comes_back_with_the_same_answers(traces):
    before = find_traces(traces, TraceQuery())
    traces.catalog.unlink()
    assert find_traces(traces, TraceQuery()) == before
    assert rebuild(traces) == 3
    assert find_traces(traces, TraceQuery()) == before


async def test_watching_catches_up_and_then_follows(home, state_dir, tmp_path):
    request = Request(project_root=tmp_path, state_dir=state_dir.root)
    seen = []

    async def watch() -> None:
        async for outcome in watch_sessions(request, folder=state_dir.agentic_traces, environ=home, quiet_s=0.2):
            seen.append((outcome.session.provider, outcome.distilled.status))  # noqa: PERF401 - read while it grows

    watching = asyncio.create_task(watch())
    try:
        async with asyncio.timeout(30):
            while len(seen) < 3:
                await asyncio.sleep(0.05)
            native = latest_session("claude", environ=home)
            await asyncio.sleep(0.5)
            records = native.path.read_text()
            native.path.write_text(records + records.splitlines()[1].replace("msg_", "msg_new") + "\n")
            while len(seen) < 4:
                await asyncio.sleep(0.05)
    finally:
        watching.cancel()
    assert sorted(seen[:3]) == [("claude", "created"), ("codex", "created"), ("gemini", "created")]
    assert seen[3] == ("claude", "updated")
