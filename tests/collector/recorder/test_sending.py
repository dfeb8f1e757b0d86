"""A spool reaches its collector whole and once, whatever happens on the way; each refusal is the right error."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collector.client import api
from collector.client.api import CollectorClient, TooLargeError, checked_address
from collector.client.send import Sending, send_spool
from collector.client.spool import Draft, Spool
from collector.patches import tree_patch
from tests.collector.recorder.support import Asked, Wire, create_request, problem, spool_in, thought, wire
from tests.service.support import TOKEN, serving
from tracer.blobs import blob_id_of
from tracer.errors import (
    ConfigError,
    ConflictError,
    CredentialsError,
    LimitError,
    NotFoundError,
    PmError,
    UnavailableError,
    UsageError,
)


def send(
    spool: Spool, server: Wire, *, token: str | None = None, patience_s: float = 3.0, final: bool = True
) -> Sending:
    async def sending() -> Sending:
        key = server.key if token is None else token
        async with CollectorClient(server.address, token=key, patience_s=patience_s) as client:
            return await send_spool(spool, client, final=final)

    return asyncio.run(sending())


def filled(state: Path, count: int) -> Spool:
    spool = spool_in(state)
    spool.append([thought(f"thought {number}") for number in range(count)])
    return spool


def test_a_spool_is_created_appended_and_finalized(tmp_path: Path) -> None:
    spool = filled(tmp_path, 3)
    spool.close({"commit_head": None})
    with wire() as server:
        sending = send(spool, server)
        assert server.created == [spool.trace_id]
        assert server.finalized == [spool.trace_id]
        assert [event["seq"] for event in server.events.values()] == [1, 2, 3]
    assert sending == Sending(accepted=3, seq_last=3, finalized=True)
    assert spool.sent.finalized
    assert spool.ingest_key == "ingest-key-of-the-test"


def test_events_go_with_the_traces_own_key(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    with wire() as server:
        send(spool, server)
        keys = {asked.path.split("/")[-1]: asked.key for asked in server.asked}
    assert keys["traces"] == server.key
    assert keys["events"] == "ingest-key-of-the-test"


def test_an_open_spool_is_sent_and_not_finalized(tmp_path: Path) -> None:
    with wire() as server:
        sending = send(filled(tmp_path, 2), server)
        assert server.finalized == []
    assert not sending.finalized


def test_sending_again_sends_only_what_is_new(tmp_path: Path) -> None:
    spool = filled(tmp_path, 2)
    with wire() as server:
        send(spool, server)
        spool.append([thought("later")])
        sending = send(spool, server)
        assert server.created == [spool.trace_id]
        assert len(server.events) == 3
    assert (sending.accepted, sending.duplicates) == (1, 0)


def test_a_lost_answer_is_no_lost_and_no_double_event(tmp_path: Path) -> None:
    spool = filled(tmp_path, 3)

    with wire() as server:

        def lost(asked: Asked) -> tuple[int, dict[str, str], bytes] | None:
            if not asked.path.endswith("/events"):
                server.answers.append(lost)
                return server._own(asked)
            server._own(asked)  # the collector took it
            return 0, {}, b""

        server.answers.append(lost)
        send(spool, server)
        assert sorted(event["seq"] for event in server.events.values()) == [1, 2, 3]
    assert spool.sent.seq == 3


def test_a_client_that_forgot_goes_on_at_the_servers_mark(tmp_path: Path) -> None:
    spool = filled(tmp_path, 4)
    with wire() as server:
        send(spool, server)
        spool.note_sent(seq=0)
        before = len(server.asked)
        sending = send(spool, server)
        assert not [asked for asked in server.asked[before:] if asked.path.endswith("/events")]
    assert sending.accepted == 0
    assert spool.sent.seq == 4


def test_a_server_that_was_restored_from_an_older_copy_is_filled_up(tmp_path: Path) -> None:
    spool = filled(tmp_path, 4)
    with wire() as server:
        send(spool, server)
        for event_id in [key for key, event in server.events.items() if event["seq"] > 2]:
            del server.events[event_id]
        sending = send(spool, server)
        assert len(server.events) == 4
    assert sending.accepted == 2


def test_a_busy_server_is_waited_for_as_long_as_it_says(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    with wire() as server:
        server.answers += [lambda _asked: problem(429, "unavailable", "too much", retry_after="0")] * 2
        send(spool, server)
        assert len(server.events) == 1


def test_a_server_that_stays_busy_is_an_error_after_our_patience(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    with wire() as server:
        server.answers += [lambda _asked: problem(503, "unavailable", "too much", retry_after="30")] * 9
        with pytest.raises(UnavailableError, match="busy") as caught:
            send(spool, server, patience_s=0.2)
    assert "nothing is lost" in caught.value.why
    assert caught.value.code == "unavailable"


def test_a_large_blob_is_sent_from_its_file_and_again_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_HELD", 10)
    monkeypatch.setattr(api, "_PIECE", 7)
    path, data = tmp_path / "bundle", b"0123456789" * 10
    path.write_bytes(data)
    with wire() as server:
        server.answers += [lambda _asked: problem(503, "unavailable", "too much", retry_after="0")]

        async def put() -> None:
            async with CollectorClient(server.address, token=server.key, patience_s=30) as client:
                await client.put_blob(blob_id_of(data), path, key=server.key)

        asyncio.run(put())
    assert [asked.body for asked in server.asked] == [data, data]


def test_nobody_there_is_an_error_that_says_the_events_are_safe(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    server = Wire(address="http://127.0.0.1:9")
    with pytest.raises(UnavailableError, match="cannot be reached") as caught:
        send(spool, server, patience_s=0.1)
    assert "stays in the spool" in caught.value.why
    assert len(list(spool.lines())) == 1


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (401, CredentialsError, "credentials"),
        (403, CredentialsError, "credentials"),
        (404, NotFoundError, "not_found"),
        (410, NotFoundError, "not_found"),
        (409, ConflictError, "usage"),
        (422, UsageError, "usage"),
        (413, LimitError, "limit"),
    ],
)
def test_each_refusal_is_the_error_it_means_in_the_servers_words(
    tmp_path: Path, status: int, kind: type[PmError], code: str
) -> None:
    spool = filled(tmp_path, 1)
    with wire() as server:

        def refuse(asked: Asked) -> tuple[int, dict[str, str], bytes] | None:
            if asked.path.endswith("/events"):
                return problem(status, "whatever", "events[0].payload.kind: not a kind")
            server.answers.append(refuse)
            return server._own(asked)

        server.answers.append(refuse)
        with pytest.raises(kind) as caught:
            send(spool, server)
    assert caught.value.code == code
    assert "events[0].payload.kind" in caught.value.why
    assert caught.value.next_step


def test_an_event_that_is_refused_is_told_by_its_seq_since_nobody_else_knows_the_batch(tmp_path: Path) -> None:
    spool = filled(tmp_path, 203)
    with wire() as server:

        def refuse(asked: Asked) -> tuple[int, dict[str, str], bytes] | None:
            if asked.path.endswith("/events") and server.events:
                return problem(422, "usage", "events[1].payload.kind: not a kind")
            server.answers.append(refuse)
            return server._own(asked)

        server.answers.append(refuse)
        with pytest.raises(UsageError) as caught:
            send(spool, server)
    assert "(seq 202 of this capture)" in caught.value.why


def test_a_revoked_key_is_told_and_the_spool_stays(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    with wire() as server, pytest.raises(CredentialsError, match="refused the key"):
        send(spool, server, token="revoked")
    assert len(list(spool.lines())) == 1


@pytest.mark.parametrize("refused", [True, False])
def test_the_history_leaves_when_the_collector_took_the_trace_and_not_before(tmp_path: Path, refused: bool) -> None:
    spool = spool_in(tmp_path)
    held = spool.blobs.put_bytes(b"# v2 git bundle")
    request = create_request()
    spool.update_header(request={**request, "repo": {**request["repo"], "bundle_blob_id": held}})
    with wire() as server:

        def first(asked: Asked) -> tuple[int, dict[str, str], bytes]:
            assert (asked.method, asked.path) == ("POST", "/traces")
            return (
                problem(403, "credentials", "of another")
                if refused
                else problem(422, "usage", "no", rule="unknown_blob")
            )

        server.answers.append(first)
        if refused:
            with pytest.raises(CredentialsError):
                send(spool, server)
        else:
            send(spool, server)
        assert bool(server.blobs) is not refused
        assert len(server.created) == (0 if refused else 1)


def test_without_any_key_nothing_is_asked(tmp_path: Path) -> None:
    with wire() as server:
        with pytest.raises(CredentialsError, match="no key"):
            send(filled(tmp_path, 1), server, token="")
        assert server.asked == []


def test_a_batch_that_is_too_large_is_halved_until_it_fits(tmp_path: Path) -> None:
    spool = filled(tmp_path, 7)
    with wire() as server:

        def small(asked: Asked) -> tuple[int, dict[str, str], bytes] | None:
            server.answers.append(small)
            if asked.path.endswith("/events") and len(asked.json()["events"]) > 2:
                return problem(413, "limit", "2 events at most")
            return server._own(asked)

        server.answers.append(small)
        sending = send(spool, server)
        assert len(server.events) == 7
    assert sending.accepted == 7


def test_one_event_that_is_too_large_is_the_error_it_is(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    with wire() as server:

        def never(asked: Asked) -> tuple[int, dict[str, str], bytes] | None:
            server.answers.append(never)
            return problem(413, "limit", "1 byte at most") if asked.path.endswith("/events") else server._own(asked)

        server.answers.append(never)
        with pytest.raises(TooLargeError):
            send(spool, server)


def test_blobs_that_events_name_are_there_before_the_events(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    blob_id = spool.blobs.put_bytes(b"a large patch")
    spool.append([Draft(type="commit", payload={"diff_blob_id": blob_id})])
    with wire() as server:
        send(spool, server)
        order = [asked.path for asked in server.asked]
    assert order.index(f"/blobs/{blob_id}") < next(at for at, path in enumerate(order) if path.endswith("/events"))


def test_blobs_of_the_end_are_there_before_it(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    blob_id = spool.blobs.put_bytes(b"a bundle")
    spool.close({"bundle_blob_id": blob_id})
    with wire() as server:
        send(spool, server)
        assert blob_id in server.blobs


def test_events_left_over_after_the_end_on_the_server_are_told(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    spool.close(None)
    with wire() as server:
        send(spool, server)
        spool.append([thought("too late")])
        with pytest.raises(ConflictError, match="finalized"):
            send(spool, server)


@pytest.mark.parametrize(
    "address", ["ftp://x", "nonsense", "http://", "http://user:pw@127.0.0.1", "http://example.com"]
)
def test_an_address_that_cannot_be_trusted_with_a_key_is_refused(address: str) -> None:
    with pytest.raises(ConfigError):
        checked_address(address)


def test_https_and_loopback_addresses_are_taken() -> None:
    assert checked_address("https://collector.example.com/") == "https://collector.example.com"
    assert checked_address("http://[::1]:80") == "http://[::1]:80"
    assert checked_address("http://example.com", allow_http=True) == "http://example.com"


@pytest.mark.parametrize("tree", [False, True], ids=["a bundle", "a redacted tree"])
def test_what_consent_was_withdrawn_for_meanwhile_does_not_leave_and_the_rest_is_sent_whole(
    tmp_path: Path, *, tree: bool
) -> None:
    """The contributor withdrew it at the collector between two uploads: the bundle of the commits would be refused."""
    flags = {"store_raw_code": True, "store_terminal_output": True, "allow_llm_judge": True}
    spool = spool_in(tmp_path, developer={"developer_id": "dev-1", "consent_flags": flags})
    spool.append([thought("before")])
    with serving(tmp_path, []) as served:
        address, headers = served.url, {"authorization": f"Bearer {TOKEN}"}

        async def sent() -> Sending:
            async with CollectorClient(address, token=TOKEN) as client:
                return await send_spool(spool, client)

        asyncio.run(sent())
        path = f"/traces/{spool.trace_id}"
        taken = {"withdraw": ["store_raw_code", "store_terminal_output"]}
        assert served.client.post(f"{path}/consent", json=taken, headers=headers).status_code == 200
        run = {"command": "pytest", "runner": "pytest", "exit_code": 0, "duration_ms": 5, "passed": True}
        printed = {"stream": "stdout", "chunk": "a word that was printed", "is_truncated": False}
        spool.append([
            Draft(type="terminal_output", payload=printed), Draft(type="test_run", payload={**run, "report": "<a/>"}),
            thought("after"),
        ])  # fmt: skip
        bundle = tree_patch([("a.py", "100644", b"x = 1\n")], left_out=0) if tree else b"# v2 git bundle\n\n\0\1"
        spool.close({"commit_head": "0" * 40, "bundle_blob_id": spool.blobs.put_bytes(bundle)})
        sending = asyncio.run(sent())
        whole = served.client.get(f"{path}?blobs=inline", headers=headers)
    assert (sending.accepted, sending.finalized, spool.sent.seq) == (3, True, 4)
    assert (whole.json()["final_state"]["bundle_blob_id"] is not None) is tree
    database = b"".join(each.read_bytes() for each in (tmp_path / ".pm-orchestrator").glob("collector.sqlite*"))
    assert b"a word that was printed" not in database
    assert b"after" in database
