"""`pm distill`, `pm sessions` and `pm sessions find` as a user types them, on the providers' own files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.repl.support import pm
from tests.tracer.distill.support import unpack

_NEWEST = ("claude/happy", "codex/happy", "codex/bugfix", "gemini/bugfix")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with four sessions, all of them in /home/dev/proj."""
    for scenario in _NEWEST:
        unpack(scenario, tmp_path / "home")
    return tmp_path / "home"


def _ids(project: Path, home: Path) -> dict[str, list[str]]:
    told = json.loads(pm("sessions", "--json", cwd=project, HOME=str(home)).out)["sessions"]
    ids: dict[str, list[str]] = {}
    for session in told:
        ids.setdefault(session["provider"], []).append(session["session_id"])
    return ids


def test_what_the_list_shows_of_an_id_names_the_session(project: Path, home: Path) -> None:
    listed = pm("sessions", cwd=project, HOME=str(home)).out.splitlines()[1:]
    assert len(listed) == len(_NEWEST)
    for line in listed:
        agent, session, *_ = line.split()
        ran = pm("distill", "--session", session, "--json", cwd=project, HOME=str(home))
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["session_id"].startswith(session)
        assert any(known.startswith(session) for known in _ids(project, home)[agent])


def test_a_beginning_that_several_ids_share_is_refused(project: Path, home: Path) -> None:
    one, other = _ids(project, home)["codex"]
    shared = one[:6]
    assert other.startswith(shared)
    ran = pm("distill", "--session", shared, cwd=project, HOME=str(home))
    assert ran.code == 2
    assert one in ran.err
    assert pm("distill", "--session", "0" * 8, cwd=project, HOME=str(home)).code == 7


@pytest.mark.parametrize(
    ("since", "count"), [("2026-11-21", 4), ("2026-11-21T10:00", 4), ("2026-11-21T11:00+01:00", 4), ("2027-01-01", 0)]
)
def test_all_since_a_date_takes_what_was_used_since(project: Path, home: Path, since: str, count: int) -> None:
    moment = 1_795_257_000  # 2026-11-21T10:30 UTC
    for path in home.rglob("*.json*"):
        os.utime(path, (moment, moment))
    ran = pm("distill", "--all", "--since", since, "--json", cwd=project, HOME=str(home))
    assert ran.code == (0 if count else 7)
    made = [json.loads(line) for line in ran.out.splitlines()] if count else []
    assert len(made) == count
    traces = json.loads(pm("sessions", "find", "--since", since, "--json", cwd=project, HOME=str(home)).out)["traces"]
    assert len(traces) == count


@pytest.mark.parametrize("since", ["2026-13-41", "soon", "\u00b2d", ""])
def test_what_is_no_date_is_refused(project: Path, home: Path, since: str) -> None:
    ran = pm("sessions", "find", f"--since={since}", cwd=project, HOME=str(home))
    assert ran.code == (2 if since else 0)


def test_the_newest_of_a_project_is_one_file_however_often_it_is_taken(project: Path, home: Path) -> None:
    words = ("distill", "--provider", "claude", "--latest", "--project-root", "/home/dev/proj", "-o", "kept")
    first = pm(*words, "--label", "sync:scheduler", cwd=project, HOME=str(home))
    again = pm(*words, cwd=project, HOME=str(home))
    assert (first.code, again.code) == (0, 0)
    assert (first.out.split()[0], again.out.split()[0]) == ("created", "unchanged")
    assert [path.name for path in sorted((project / "kept").glob("trace_*"))] == [
        "trace_20261121_1030_sync__scheduler_anthropic.jsonl"
    ]
    assert (project / "kept" / ".gitignore").read_text() == "*\n"
    assert pm("distill", "--latest", cwd=project, HOME=str(home)).code == 7  # none ran in this folder
