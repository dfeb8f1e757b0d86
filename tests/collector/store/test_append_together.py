"""Appends of a group are what they would be one after the other: same answers, same rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from collector.store.plan import Append
from collector.store.port import AppendResult, BlobRow, TokenRow, TraceLimits
from collector.store.sqlite import write
from collector.store.sqlite.schema import migrate
from collector.store.sqlite.write import append_together
from tests.collector.store.samples import blob, event, trace, uid
from tracer.errors import PmError

OPEN, CLOSED, UNKNOWN = (1, 2, 3), 4, 9
UPLOADED = blob("uploaded for the first trace")
TABLES = ("traces", "events", "blobs", "blob_holds", "trace_blobs", "trace_gaps", "blob_numbers")


def opened() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    for number in (*OPEN, CLOSED):
        token = TokenRow(uid(number), "ingest", f"hash {number}", uid(number))
        write.create(connection, trace(number), token, b"", 1)
    write.finalize(connection, uid(CLOSED), final_state=None, blobs=(), references=(), at_ms=2)
    row = BlobRow(UPLOADED.blob_id, "", "text/plain", UPLOADED.byte_len, UPLOADED.redaction)
    write.put_blob(connection, row, trace_id=uid(1), submitted_id=None, data=UPLOADED.data, now_ms=1)
    return connection


def rows(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}


def told(outcome: AppendResult | PmError) -> object:
    return (type(outcome), str(outcome)) if isinstance(outcome, PmError) else outcome


events = st.builds(
    lambda seq, number, identity: event(seq, number=number, identity=b"%016d" % identity),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 2),
)
runs = st.builds(lambda first, count: [event(seq) for seq in range(first, first + count)], *[st.integers(1, 30)] * 2)
blobs = st.lists(st.sampled_from("abcdefgh"), unique=True).map(lambda texts: [blob(text) for text in texts])
appends = st.builds(
    Append,
    st.sampled_from([*OPEN, CLOSED, UNKNOWN]).map(uid),
    st.lists(events, max_size=4) | runs,
    blobs | st.integers(0, 90).map(lambda count: [blob(f"{at}") for at in range(count)]),
    st.sampled_from([(), (), (), (UPLOADED.blob_id,), (blob("a").blob_id,)]),
    st.none() | st.integers(-5, 5),
    st.none() | st.builds(TraceLimits, events=st.integers(1, 20), size=st.integers(100, 5_000)),
    st.integers(1, 9),
)


@given(st.lists(appends, max_size=8))
def test_a_group_is_what_its_appends_are_one_by_one(group):
    with closing(opened()) as together, closing(opened()) as alone:
        outcomes = append_together(together, group)
        one_by_one = [outcome for append in group for outcome in append_together(alone, [append])]
        assert [told(each) for each in outcomes] == [told(each) for each in one_by_one]
        assert rows(together) == rows(alone)


def test_a_conflict_in_the_group_hinders_no_other():
    with closing(opened()) as connection:
        group = [
            Append(uid(1), [event(1)], [blob("a")], (), None, None, 1),
            Append(uid(1), [event(1, number=77)], [blob("b")], (), None, None, 1),
            Append(uid(2), [event(1)], [blob("a")], (), None, None, 1),
            Append(uid(1), [event(1)], [], (), None, None, 1),
            Append(uid(1), [event(2)], [], (), None, None, 1),
        ]
        first, conflict, other, again, following = append_together(connection, group)
        assert first == other == AppendResult(1, 0, 1)
        assert isinstance(conflict, PmError)
        assert again == AppendResult(0, 1, 1)
        assert following == AppendResult(1, 0, 2)
        held_by = "SELECT held_by + more FROM blobs JOIN blob_holds USING (number) WHERE blob_id = ?"
        assert connection.execute(held_by, (blob("a").blob_id,)).fetchone() == (2,)
        assert connection.execute("SELECT 1 FROM blobs WHERE blob_id = ?", (blob("b").blob_id,)).fetchone() is None
