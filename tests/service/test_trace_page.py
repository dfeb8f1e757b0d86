"""Traces of any length in pages: from any event on, by a filter, one event in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.pages import trace
from service.pages.trace import read_rows
from tests.service.support import BAD, GOOD, serving
from tests.tracer.support import SEED_LINES
from tracer.rows.filters import NO_FILTER, parse


@pytest.fixture
def long(tmp_path: Path) -> Path:
    first, *body, last = SEED_LINES.splitlines(keepends=True)
    path = tmp_path / "long.jsonl"
    path.write_bytes(first + b"".join(body) * 100 + last + b'{"torn')
    return path


def test_any_event_is_reached_by_its_number(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_CHUNK", 1000)
    lines = long.read_bytes().split(b"\n")
    seen: list[int | None] = []
    after: int | None = 0
    while after is not None:
        page = read_rows(long, NO_FILTER, after)
        seen += [row.seq for row in page.rows]
        after = page.following
    assert seen == list(range(len(lines)))
    for number in (0, 1, 57, 801):
        (row, *_) = read_rows(long, NO_FILTER, number).rows
        assert (row.seq, row.size) == (number, len(lines[number]))
    monkeypatch.setattr(trace, "_BLOCK", 300)
    for wanted in ("event:quality_judgment", "text:todo", "event:final_summary"):
        found = [row.seq for row in read_rows(long, parse(wanted), 0).rows]
        monkeypatch.setattr(trace, "_near", lambda _data, _names: True)
        assert [row.seq for row in read_rows(long, parse(wanted), 0).rows] == found != []
        monkeypatch.undo()
        monkeypatch.setattr(trace, "_BLOCK", 300)
    assert page.rows[-1].kind == "incomplete"
    assert read_rows(long, NO_FILTER, 99_999).rows == ()


def test_a_filter_goes_on_from_where_it_stopped_looking(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = SEED_LINES.count(b"QUALITY_JUDGMENT")
    page = read_rows(long, parse("event:quality_judgment"), 0)
    assert (len(page.rows), page.following is None) == (min(200, count * 100), count * 100 <= 200)
    monkeypatch.setattr(trace, "_LOOK_S", 0)
    monkeypatch.setattr(trace, "_BLOCK", 1000)
    for wanted in ("text:nowhere", "it:99"):
        page = read_rows(long, parse(wanted), 0)
        assert page.rows == ()
        assert 0 < (page.following or 0) < 801


def test_one_event_is_shown_in_full_and_bars_lead_to_their_events(project: Path) -> None:
    with serving(project, [BAD, GOOD]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "Write login.py"}).json()["task_id"]
        served.until_ended(task_id)
        place = f"/tasks/{task_id}/trace"
        page = served.client.get(place).text
        assert "iteration 1" in page
        assert 'href="?fact=4#fact-4"' in page
        assert "<rect " in page
        one = served.client.get(f"{place}?fact=4").text
        assert "Event 4" in one
        assert "criteria_results" in one
        part = served.client.get(f"{place}?fact=4&part=true").text
        assert part.strip().startswith("<pre")
        assert served.client.get(f"{place}?fact=4000").status_code == 404
        assert served.client.get(f"{place}?q=colour:red").status_code == 422
