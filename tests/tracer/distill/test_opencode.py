"""opencode's sessions: a database that opencode 1.18.33 wrote, against a model on loopback."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from tests.tracer.distill.support import DATA, lines_of, of_type
from tracer.distill.locate.find import find_sessions, guess_provider, session_at, session_named
from tracer.distill.native import Distilled, Request
from tracer.distill.one import distill
from tracer.errors import TraceError
from tracer.prices import Tokens, cost_usd


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "home" / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.decompress((DATA / "opencode" / "bugfix" / "opencode.db.gz").read_bytes()))
    return path


def distilled(path: Path, **more: object) -> Distilled:
    folder = path.parents[4]
    return distill(session_at(path), Request(project_root=folder, output_dir=folder / "out", **more))  # type: ignore[arg-type]


def test_what_it_thought_and_did_is_told_as_of_the_others(database: Path) -> None:
    made = distilled(database)
    meta, *lines = lines_of(made.path)
    assert made.path.name.endswith("_session__proj_opencode.jsonl")
    assert (meta["provider"], meta["model"], meta["success"]) == ("opencode", "claude-sonnet-4-5-20250929", True)
    assert [line["text"] for line in of_type(lines, "thought")] == [
        "Let me read the function first.",
        "The divisor is one too small.\n\nLet me see it fail.",
        "A test keeps it so.",
    ]
    tools = [(line["name"], line["status"]) for line in of_type(lines, "tool")]
    assert tools == [
        ("read", "ok"), ("bash", "error"), ("edit", "error"), ("edit", "ok"), ("read", "error"), ("write", "ok"),
        ("bash", "ok"),
    ]  # fmt: skip
    summaries = [line["args_summary"] for line in of_type(lines, "tool")]
    assert summaries[0] == "average.py (2 lines)"
    assert "ZeroDivisionError" in of_type(lines, "tool")[1]["output_tail"]
    assert [line["text"] for line in of_type(lines, "message")] == [
        "I will look at average.py.",
        "The average is right now.",
    ]
    assert "assert average([1, 3])" not in json.dumps(lines)  # what a file was written with


def test_its_own_figure_is_the_cost_and_agrees_with_ours(database: Path) -> None:
    meta = distilled(database).meta
    told = sqlite3.connect(database).execute("SELECT cost FROM session").fetchone()[0]
    tokens = meta["tokens"]
    assert (tokens["input"], tokens["output"], tokens["cached"]) == (6130, 330, 1100)
    ours = cost_usd(meta["model"], Tokens(fresh=6130, cached=1100, cache_write=500, output=330), one_request=False)
    assert meta["cost_usd"] == pytest.approx(told, rel=0.01)
    assert ours == pytest.approx(told, rel=0.01)


def test_it_is_found_below_its_home_and_by_its_id_and_a_subagent_belongs_to_its_parent(database: Path) -> None:
    environ = {"HOME": str(database.parents[3])}
    (found,) = find_sessions(environ=environ)
    assert (found.provider, found.cwd, found.cli_version) == ("opencode", "/home/dev/proj", "1.18.33")
    assert session_named(found.session_id[:12], environ=environ).session_id == found.session_id
    assert guess_provider(database) == "opencode"
    with sqlite3.connect(database) as changed:
        columns = [row[1] for row in changed.execute("PRAGMA table_info(session)")]
        values = ", ".join({"id": "'ses_child'", "parent_id": "id", "agent": "'explore'"}.get(c, c) for c in columns)
        changed.execute(f"INSERT INTO session SELECT {values} FROM session")
        reply = {"role": "assistant", "modelID": "x", "time": {"created": 1}, "tokens": {"input": 7, "output": 1}}
        changed.execute("INSERT INTO message VALUES ('m', 'ses_child', 1, 1, ?)", (json.dumps(reply),))
        part = json.dumps({"type": "reasoning", "text": "A look."})
        changed.execute("INSERT INTO part VALUES ('p', 'm', 'ses_child', 1, 1, ?)", (part,))
    assert len(find_sessions(environ=environ)) == 1
    meta, *lines = lines_of(distilled(database).path)
    assert meta["tokens"]["input"] == 6137
    assert [agent["type"] for agent in meta["agents"]] == ["explore"]
    assert [line["text"] for line in lines if line.get("agent")] == ["A look."]


def test_what_is_damaged_is_left_out_and_told(database: Path) -> None:
    with sqlite3.connect(database) as changed:
        changed.execute("UPDATE part SET data = '{' WHERE data LIKE '%average([1]))%'")
    assert "1 records left out" in of_type(lines_of(distilled(database).path), "error")[0]["text"]
    with sqlite3.connect(database) as changed:
        changed.execute("DROP TABLE part")
    with pytest.raises(TraceError) as caught:
        distilled(database)
    assert "no such table" in str(caught.value.why)
    database.write_bytes(database.read_bytes()[:3000])
    with pytest.raises(TraceError):
        distilled(database)
    assert find_sessions(environ={"HOME": str(database.parents[3])}) == []
