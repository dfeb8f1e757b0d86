"""What was sent goes after a while; what was not sent never does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.client.spool import Spool, list_spools, prune_sent, sent_before, unsent
from repl.cli import main
from tests.collector.recorder.support import spool_in, thought
from tracer.clock import now_epoch_ms
from tracer.lock import FileLock

DAY_MS = 86_400_000


def a_spool(state: Path, *, events: int = 2, sent: int = 2, finalized: bool = True, days_ago: float = 40) -> Spool:
    spool = spool_in(state)
    spool.append([thought(f"thought {number}") for number in range(events)])
    if finalized:
        spool.close(None)
    spool.note_sent(created=sent > 0, seq=sent, finalized=finalized)
    at = now_epoch_ms() / 1000 - days_ago * 86_400
    os.utime(spool.folder / "sent.json", (at, at))
    return spool


def pruned(state: Path, days: int = 30) -> set[str]:
    found = sent_before(state, older_than_ms=days * DAY_MS)
    return {kept.spool.trace_id for kept in prune_sent(state, found)}


@pytest.mark.torture
@given(
    facts=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.sampled_from([0.0, 29.5, 30.5, 900.0])),
        max_size=5,
    )
)
def test_only_what_the_collector_has_whole_goes_and_only_when_it_is_old(
    tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[int, int, bool, float]]
) -> None:
    state = tmp_path_factory.mktemp("state")
    made = {
        a_spool(state, events=events, sent=min(sent, events), finalized=finalized, days_ago=days).trace_id: (
            finalized and sent >= events,
            days > 30,
        )
        for events, sent, finalized, days in facts
    }
    waiting = {each.spool.trace_id for each in unsent(state)}
    assert waiting == {name for name, (whole, _) in made.items() if not whole}
    assert pruned(state) == {name for name, (whole, old) in made.items() if whole and old}
    assert {spool.trace_id for spool in list_spools(state)} == {
        name for name, (whole, old) in made.items() if not (whole and old)
    }


def test_one_that_is_written_to_or_recorded_into_stays(tmp_path: Path) -> None:
    writing, recording, free = (a_spool(tmp_path) for _ in range(3))
    with FileLock(writing.folder / "writer.lock"), FileLock(recording.folder / "recorder.lock"):
        assert pruned(tmp_path) == {free.trace_id}
    assert pruned(tmp_path) == {writing.trace_id, recording.trace_id}


def test_one_that_changed_since_it_was_chosen_stays(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    chosen = sent_before(tmp_path, older_than_ms=DAY_MS)
    spool.bind("http://127.0.0.1:2")  # another collector: what the first has counts for nothing
    assert prune_sent(tmp_path, chosen) == []
    assert [each.events for each in unsent(tmp_path)] == [2]


def test_what_a_kill_left_half_removed_is_removed_by_the_next(tmp_path: Path) -> None:
    half = tmp_path / "captures" / ".gone-0000"
    (half / "blobs").mkdir(parents=True)
    spool = a_spool(tmp_path)
    pruned(tmp_path)
    assert [path.name for path in (tmp_path / "captures").iterdir()] == []
    assert not spool.folder.exists()


@pytest.fixture
def state(project: Path) -> Path:
    return project / ".pm-orchestrator"


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["--json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_the_command_shows_first_and_deletes_with_yes(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, fresh, kept = a_spool(state), a_spool(state, days_ago=1), a_spool(state, sent=1, finalized=False)
    code, shown = told(capsys, "admin", "prune", "captures")
    assert (code, shown["captures"], shown["dry_run"], shown["unsent"]) == (0, [old.trace_id], True, 1)
    assert old.folder.exists()
    assert told(capsys, "admin", "prune", "captures", "--yes")[1]["captures"] == [old.trace_id]
    assert not old.folder.exists()
    assert told(capsys, "admin", "prune", "captures", "--older-than", "12h", "--yes")[1]["captures"] == [fresh.trace_id]
    assert kept.folder.exists()
    assert main(["admin", "prune", "captures", "--older-than", "soon"]) == 2


@pytest.mark.parametrize(("setting", "left"), [("30d", 0), ("60d", 1), ("always", 1)])
def test_a_new_capture_lets_old_ones_go(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, setting: str, left: int
) -> None:
    monkeypatch.setenv("PM_CAPTURE_KEEP_SENT", setting)
    old = a_spool(state)
    request = state.parent / "request.json"
    request.write_text(json.dumps(old.header["request"]))
    assert main(["capture", "new", "--from", str(request), "--offline"]) == 0
    assert old.folder.exists() == bool(left)
    assert ("deleted here: 1 capture" in capsys.readouterr().err) == (not left)


def test_a_setting_that_makes_no_sense_stops_no_capture(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PM_CAPTURE_KEEP_SENT", "soon")
    old = a_spool(state)
    request = state.parent / "request.json"
    request.write_text(json.dumps(old.header["request"]))
    assert main(["capture", "new", "--from", str(request), "--offline"]) == 0
    assert "capture.keep_sent is 'soon'" in capsys.readouterr().err
    assert old.folder.exists()
    assert main(["admin", "prune", "captures"]) == 3


def test_doctor_and_the_list_say_what_was_not_sent(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_spool(state)
    assert main(["capture", "list"]) == 0
    assert "not sent" not in capsys.readouterr().err
    waiting = a_spool(state, events=5, sent=2, finalized=False)
    assert main(["capture", "list"]) == 0
    assert f"not sent: 1 capture, 3 events   pm record upload {waiting.trace_id[:8]}" in capsys.readouterr().err
    _, found = told(capsys, "doctor")
    (check,) = [each for each in found["checks"] if each["name"] == "captures"]
    assert (check["status"], check["found"]) == ("warn", "2 here, 1 not sent (3 events)")
