"""Rows over real files: every line is a row, from both ends, while the file grows, is cut or is replaced."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.errors import NotFoundError, TraceError
from tracer.rows import filters
from tracer.rows import row_file as index_module
from tracer.rows.digest import Digest
from tracer.rows.line import epoch_ms, head_of, head_of_fields
from tracer.rows.row import Group
from tracer.rows.row_file import LineIndex, RowFile
from tracer.rows.search import Background, FilterScan, find, look_for


def fact(event: str, data: dict[str, Any], *, iteration: int | None = None, subtask: str | None = None) -> bytes:
    fields: dict[str, Any] = {
        "timestamp": "2025-01-23T10:30:05.100Z", "event": event, "session_id": "s", "task_id": "task-001",
    }  # fmt: skip
    if subtask is not None:
        fields["subtask_id"] = subtask
    if iteration is not None:
        fields["iteration_index"] = iteration
    return json.dumps({**fields, "data": data}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def opened(path: Path, content: bytes, *, step: int = 1 << 20) -> RowFile:
    path.write_bytes(content)
    file = RowFile(path)
    while file.index_some(step):
        pass
    return file


def scanned(file: RowFile, text: str) -> list[int]:
    scan = FilterScan(file, filters.parse(text))
    while scan.step(3):
        pass
    return list(scan.matches)


def test_every_family_of_trace_has_rows_with_event_time_and_summary(tmp_path: Path) -> None:
    lines = [
        fact("USER_REQUEST", {"prompt": "\n  add a check\nmore"}),
        (
            b'{"timestamp":"2025-01-23T10:30:05.100Z","event":"TASK_STATE_CHANGE","session_id":"s","task_id":"task-001",'
            b'"from_state":"QUEUED","to_state":"RUNNING","data":{}}\n'
        ),
        b'{"type":"tool","ts":"2026-03-21T14:56:01","name":"run","args_summary":"make test","status":"error"}\n',
        (
            b'{"event_id":"e","seq":1,"ts_ms":1737628205100,"type":"test_run","actor":{"kind":"human"},"payload":'
            b'{"command":"pytest","passed":false}}\n'
        ),
        b'{"whatever":1}\n',
    ]
    file = opened(tmp_path / "t.jsonl", b"".join(lines))
    rows = [file.row(seq) for seq in range(file.count)]
    assert [row.family for row in rows] == ["conversation", "tracepack", "agentic", "capture", "other"]
    assert [row.summary for row in rows] == [
        "add a check", "task-001  QUEUED -> RUNNING", "run make test", "failed  pytest", "whatever=1",
    ]  # fmt: skip
    assert [row.mark for row in rows] == ["", "", "x", "x", ""]
    assert rows[0].epoch_ms == rows[3].epoch_ms == 1737628205100


def test_a_torn_tail_and_an_unreadable_line_are_rows_of_their_own(tmp_path: Path) -> None:
    file = opened(tmp_path / "t.jsonl", fact("USER_REQUEST", {"prompt": "p"}) + b"not json\n" + b'{"timestamp":"20')
    kinds = [(file.row(seq).kind, file.row(seq).summary) for seq in range(file.count)]
    assert kinds[1] == ("unreadable", kinds[1][1])
    assert kinds[1][1].startswith("line 1 not readable, 8 bytes")
    assert kinds[2] == ("incomplete", "line 2 incomplete, 16 bytes")


def test_a_long_line_gives_its_row_from_the_first_bytes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'first "line" é\n' + "x" * 2_000_000
    file = opened(tmp_path / "t.jsonl", fact("LLM_RESPONSE", {"output": text, "status": "COMPLETE"}, iteration=2))
    read: list[int] = []
    plain = file._read

    def counted(offset: int, size: int) -> bytes:
        read.append(size)
        return plain(offset, size)

    monkeypatch.setattr(file, "_read", counted)
    row = file.row(0)
    assert (row.event, row.group, row.summary) == ("LLM_RESPONSE", Group(None, 2), 'first "line" é')
    assert max(read) <= 16 << 10


def test_the_end_is_readable_before_anything_is_indexed(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(fact("LLM_REQUEST", {"prompt": f"{n} " + "y" * 300_000}, iteration=n) for n in range(9)))
    file = RowFile(path)
    assert [row.summary[:1] for row in file.tail(3)] == ["6", "7", "8"]
    assert [row.summary[:1] for row in file.tail(99, before=file.tail(3)[0].offset)] == ["0", "1", "2", "3", "4", "5"]
    assert file.count == 0


def test_lines_are_framed_by_newline_bytes_not_by_unicode_separators(tmp_path: Path) -> None:
    file = opened(tmp_path / "t.jsonl", fact("USER_REQUEST", {"prompt": "a\u2028b\u0085c"}))
    assert file.count == 1
    assert file.row(0).summary == "a\u2028b\u0085c"


def test_growth_is_followed_and_a_completed_tail_becomes_a_fact(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = fact("USER_REQUEST", {"prompt": "whole"})
    file = opened(path, line + line[:20])
    assert file.row(1).kind == "incomplete"
    with path.open("ab") as out:
        out.write(line[20:] + line)
    assert file.poll()
    while file.index_some():
        pass
    assert [file.row(seq).kind for seq in range(file.count)] == ["fact"] * 3


def test_a_write_in_progress_is_not_called_torn_until_it_rests(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = fact("USER_REQUEST", {"prompt": "whole"})
    file = opened(path, line)
    with path.open("ab") as out:
        out.write(line[:20])
    file.poll()
    file.index_some()
    assert file.count == 1
    assert file.poll()
    assert file.row(1).kind == "incomplete"


def test_a_tail_moved_aside_takes_its_row_away(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = fact("USER_REQUEST", {"prompt": "whole"})
    file = opened(path, line + b"torn")
    os.truncate(path, len(line))
    file.poll()
    file.poll()
    assert (file.count, file.generation) == (1, 0)


def test_a_replaced_or_shortened_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    file = opened(path, fact("USER_REQUEST", {"prompt": "old"}) * 3)
    path.write_bytes(fact("USER_REQUEST", {"prompt": "new"}))
    assert file.poll()
    while file.index_some():
        pass
    assert (file.generation, file.count, file.row(0).summary) == (1, 1, "new")


def test_a_missing_file_and_a_folder_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        RowFile(tmp_path / "none.jsonl")
    with pytest.raises(TraceError):
        RowFile(tmp_path)


def test_groups_change_where_iteration_or_subtask_change_whatever_the_order_of_keys(tmp_path: Path) -> None:
    odd = b'{ "iteration_index": 1, "event": "LLM_REQUEST", "timestamp": "2025-01-23T10:30:05Z", "data": {"x": 1}}\n'
    content = fact("USER_REQUEST", {"prompt": "p"}) + fact("LLM_REQUEST", {"prompt": "p"}, iteration=0) * 2 + odd
    content += fact("LLM_REQUEST", {"prompt": "p"}, iteration=0, subtask="t-sub-1")
    for step in (7, 64, 1 << 20):
        file = opened(tmp_path / "t.jsonl", content, step=step)
        assert [file.index.group_of(line) for line in range(5)] == [
            Group(None, None), Group(None, 0), Group(None, 0), Group(None, 1), Group("t-sub-1", 0),
        ]  # fmt: skip


@given(st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")), max_size=12), st.integers(1, 50))
def test_index_and_backward_reading_find_the_same_lines_for_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], step: int
) -> None:
    path = tmp_path_factory.mktemp("rows") / "t.jsonl"
    content = b"\n".join(lines)
    file = opened(path, content, step=step)
    forward = [(row.offset, row.size) for row in map(file.row, range(file.count))]
    assert forward == [(row.offset, row.size) for row in file.tail(100)]
    assert b"".join(content[offset : offset + size + 1] for offset, size in forward) == content
    assert [file.seq_of(offset) for offset, _size in forward] == list(range(file.count))
    file.close()


def test_a_thinned_index_still_finds_every_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MAX_STARTS", 4)
    content = b"".join(fact("USER_REQUEST", {"prompt": str(number)}) for number in range(50))
    file = opened(tmp_path / "t.jsonl", content, step=100)
    assert file.index.stride > 4
    assert len(file.index.starts) <= 4
    assert [file.row(seq).summary for seq in range(50)] == [str(number) for number in range(50)]
    assert [file.seq_of(file.row(seq).offset) for seq in range(50)] == list(range(50))


def test_too_many_groups_turn_grouping_off_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MAX_RUNS", 3)
    index = LineIndex()
    for line in range(6):
        index.add_run(line, Group(None, line))
    assert not index.runs_whole
    assert index.group_of(5) == Group(None, None)


def test_filters_and_search_find_what_a_full_decode_would(tmp_path: Path) -> None:
    words = ["Todo", 'say "hi"', "a/b", "日本", "Straße", "nw3", "true", "output", "K elvin \u212a", "tab\there"]
    content = b""
    for ascii_only in (True, False):
        for word in words:
            fields = {"timestamp": "2025-01-23T10:30:05Z", "event": "LLM_RESPONSE", "session_id": "s", "task_id": "t"}
            line = json.dumps(
                {**fields, "data": {"output": f"x {word} y", "status": "COMPLETE"}}, ensure_ascii=ascii_only
            )
            content += line.replace("/", "\\/" if ascii_only else "/").encode() + b"\n"
    file = opened(tmp_path / "t.jsonl", content)
    for word in [*words, "complete", "missing", "\t", "k", "s", "w3", "é"]:
        wanted = json.dumps(word, ensure_ascii=False)
        expected = [
            seq
            for seq in range(file.count)
            if (value := file.decode(file.row(seq)).value) and filters.parse(f"text:{wanted}").accepts_text(value)
        ] if '"' not in word and "\t" not in word else None  # fmt: skip
        scan = FilterScan(file, filters.Filter(texts=(word.lower(),)))
        while scan.step():
            pass
        found = list(scan.matches)
        if expected is not None:
            assert found == expected, word
        assert find(file, word, range(file.count), lambda: False) == (found[0] if found else None)


def test_search_does_not_take_keys_numbers_or_escape_letters_for_text() -> None:
    line = b'{"output":"a\\nw3","passed":true,"n":17,"other":"status: ok"}'
    assert look_for("passed")(line) != "yes"
    assert look_for("nw3")(line) != "yes"
    assert look_for("true")(line) != "yes"
    assert look_for("17")(line) != "yes"
    assert look_for("status")(line) in {"yes", "maybe"}
    assert look_for("gone")(line) == "no"


def test_filter_by_event_iteration_and_failure(tmp_path: Path) -> None:
    content = fact("USER_REQUEST", {"prompt": "p"})
    for iteration, judgment in enumerate(("REJECT", "PASS")):
        content += fact("LLM_REQUEST", {"prompt": "p"}, iteration=iteration)
        content += fact("QUALITY_JUDGMENT", {"judgment": judgment, "criteria_results": []}, iteration=iteration)
    file = opened(tmp_path / "t.jsonl", content + b"junk\n")
    assert scanned(file, "event:QUALITY_JUDGMENT") == [2, 4]
    assert scanned(file, "it:1") == [3, 4]
    assert scanned(file, "failed") == [2, 5]


def test_the_background_thread_indexes_filters_and_follows(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(fact("USER_REQUEST", {"prompt": "p"}) * 5)
    file = RowFile(path)
    background = Background(file)
    scan = background.filter(filters.parse("event:USER_REQUEST"))
    background.start()
    try:
        assert scan is not None
        wait_until(lambda: len(scan.matches) == 5)
        with path.open("ab") as out:
            out.write(fact("USER_REQUEST", {"prompt": "new"}))
        wait_until(lambda: len(scan.matches) == 6)
    finally:
        background.stop()
        file.close()


def wait_until(holds: Any) -> None:
    from threading import Event

    for _tick in range(6000):
        if holds():
            return
        Event().wait(0.01)
    raise AssertionError("did not happen within 60 s")


@given(
    st.dictionaries(
        st.text(max_size=12), st.none() | st.integers() | st.text() | st.lists(st.text(), max_size=2), max_size=5
    )
)
def test_any_json_object_has_a_head_and_a_summary(fields: dict[str, Any]) -> None:
    from tracer.rows.line import mark_and_summary

    head = head_of_fields(fields)
    mark, summary = mark_and_summary(head, fields)
    assert mark in {"", "x", "v"}
    assert "\n" not in summary


@pytest.mark.parametrize(
    ("time", "ms"),
    [("2025-01-23T10:30:05.100Z", 1737628205100), ("2026-03-21T14:56:01", 1774104961000), ("17", 17), ("soon", None)],
)
def test_stored_times_are_read_as_utc(time: str, ms: int | None) -> None:
    assert epoch_ms(time) == ms


def test_an_event_name_inside_a_string_is_not_taken_for_the_envelope() -> None:
    line = fact("LLM_RESPONSE", {"output": '{"event":"FAKE","iteration_index":9,"data":{'}, iteration=1)
    head = head_of(line)
    assert head is not None
    assert (head.event, head.group.iteration) == ("LLM_RESPONSE", 1)


def test_an_answers_own_cost_counts_not_that_of_each_model_in_its_whole_session(tmp_path: Path) -> None:
    told = {"usage_by_model": {"m": {"cost_usd": 0.75}}, "usage": {"input_tokens": 5}, "cost_usd": 0.25}
    answers = [fact("LLM_RESPONSE", told, iteration=at) for at in range(2)]
    digest = Digest(opened(tmp_path / "conversation-task-001.jsonl", b"".join(answers)))
    while digest.step():
        pass
    assert (digest.totals.cost_usd, digest.totals.tokens) == (0.5, 10)
