"""The collector's API over a real wire, to the letter of contracts 8."""

from __future__ import annotations

import asyncio
import errno
import gzip
import json
import os
import socket
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.collector.http.support import SECRET, Capture, event, new_trace, uuid_of
from tests.service.support import TOKEN, Served, serving
from tests.support.s3 import BUCKET, s3_environment
from tracer.blobs import blob_id_of
from tracer.capture.document import trace_schema


@pytest.fixture(
    scope="module", params=["sqlite and a folder", pytest.param("postgres and a bucket", marks=pytest.mark.torture)]
)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("captures") / "project"
    folder.mkdir()
    with ExitStack() as stack:
        given: dict[str, str] = {}
        if request.param.startswith("postgres"):
            server = request.getfixturevalue("postgres_server")
            given = {
                **stack.enter_context(s3_environment()),
                "PM_COLLECTOR_DATABASE": server.new_database(),
                "PM_COLLECTOR_BLOBS": f"s3://{BUCKET}/captures",
            }
        yield stack.enter_context(serving(folder, [], given=given))


@pytest.fixture
def capture(served: Served) -> Capture:
    return Capture(served)


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    return found


# -- the way of a trace


def test_a_trace_is_opened_filled_finalized_and_read_whole(capture: Capture) -> None:
    told = capture.append(
        event(1), event(2, "terminal_command", {"cwd": "/w", "command": "make test", "shell": "bash"})
    )
    assert told.json() == {"accepted": 2, "duplicates": 0, "seq_last": 2, "gaps": []}
    assert capture.post("/finalize", {"final_state": {"pr": {"title": "Fix", "diff": "--- a\n+++ b\n"}}}).json() == {
        "trace_id": capture.trace_id,
        "status": "finalized",
    }
    document = capture.get().json()
    jsonschema.Draft202012Validator(trace_schema()).validate(document)
    assert [each["type"] for each in document["events"]] == ["thought", "terminal_command"]
    diff = document["final_state"]["pr"]["diff_blob_id"]
    assert capture.client.get(f"/blobs/{diff}").content == b"--- a\n+++ b\n"
    thought = document["events"][0]["payload"]["content_blob_id"]
    assert capture.client.get(f"/blobs/{thought}", headers=capture.headers).content == b"thought 1"
    inlined = capture.get("?blobs=inline").json()
    assert all(blob["storage_uri"].startswith("data:") for blob in inlined["artifacts"]["blobs"])


def test_a_content_that_the_store_has_lost_is_told_in_the_document_that_holds_the_others(
    capture: Capture, served: Served
) -> None:
    chunks = ("kept ", "lost " * 30_000)
    capture.append(
        *(event(seq, "terminal_output", {"stream": "stdout", "chunk": text}) for seq, text in enumerate(chunks, 1))
    )
    named = capture.get().json()
    lost = named["events"][1]["payload"]["chunk_blob_id"]
    asyncio.run(served.app.state.service.collector.blobs.delete([lost]))
    told = capture.get("?blobs=inline").json()
    jsonschema.Draft202012Validator(trace_schema()).validate(told)
    uris = {each["blob_id"]: each["storage_uri"] for each in told["artifacts"]["blobs"]}
    assert uris.pop(lost) == f"lost:{lost}"
    assert [uri.partition(":")[0] for uri in uris.values()] == ["data"]


def test_the_metadata_view_carries_the_durable_high_water_mark(capture: Capture) -> None:
    assert capture.append(event(1), event(4)).json()["gaps"] == [[2, 3]]
    metadata = capture.get("?view=metadata").json()
    assert metadata["ingestion"]["seq_last"] == 4
    assert metadata["ingestion"]["gaps"] == [[2, 3]]
    assert (metadata["status"], metadata["event_count"], "events" in metadata) == ("open", 2, False)


def test_a_batch_that_is_sent_again_is_counted_and_changes_nothing(capture: Capture) -> None:
    first = [event(1), event(2)]
    capture.append(*first)
    assert capture.append(*first, event(3)).json() == {"accepted": 1, "duplicates": 2, "seq_last": 3, "gaps": []}
    assert len(capture.get("/events").json()["events"]) == 3


def test_creating_again_with_the_same_id_gives_a_further_key_and_no_second_trace(served: Served) -> None:
    body = new_trace(trace_id=uuid_of(77))
    first, second = (served.client.post("/traces", json=body) for _each in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["ingest_key"] != second.json()["ingest_key"]
    for key in (first.json()["ingest_key"], second.json()["ingest_key"]):
        headers = {"authorization": f"Bearer {key}"}
        assert served.client.get(f"/traces/{uuid_of(77)}?view=metadata", headers=headers).status_code == 200
    listed = [each["trace_id"] for each in served.client.get("/traces?limit=500").json()["traces"]]
    assert listed.count(uuid_of(77)) == 1
    other = new_trace(trace_id=uuid_of(77), environment={"os": "macos"})
    assert problem(served.client.post("/traces", json=other), 409)["code"] == "usage"


def test_events_are_read_in_pages(capture: Capture) -> None:
    capture.append(*(event(seq) for seq in range(1, 8)))
    first = capture.get("/events?limit=4").json()
    assert ([each["seq"] for each in first["events"]], first["next"], first["seq_last"]) == ([1, 2, 3, 4], 4, 7)
    second = capture.get(f"/events?limit=4&after={first['next']}").json()
    assert ([each["seq"] for each in second["events"]], second["next"]) == ([5, 6, 7], None)


def test_the_list_has_the_newest_first_a_cursor_and_a_status(served: Served) -> None:
    captures = [Capture(served) for _each in range(3)]
    captures[1].post("/finalize")
    first = served.client.get("/traces?limit=2").json()
    second = served.client.get(f"/traces?limit=1&after={first['next']}").json()
    ids = [each["trace_id"] for each in (*first["traces"], *second["traces"])]
    assert sorted(ids) == sorted(each.trace_id for each in captures)
    finalized = served.client.get("/traces?status=finalized&limit=1").json()["traces"]
    assert [each["trace_id"] for each in finalized] == [captures[1].trace_id]
    assert served.client.get("/traces?limit=500").json()["next"] is None


def test_after_finalize_events_answer_409_and_finalize_is_idempotent(capture: Capture) -> None:
    capture.append(event(1))
    assert capture.post("/finalize", {"final_state": {"pr": {"title": "one"}}}).status_code == 202
    assert capture.post("/finalize", {"final_state": {"pr": {"title": "two"}}}).status_code == 202
    assert capture.get("?view=metadata").json()["final_state"]["pr"]["title"] == "one"
    problem(capture.append(event(2)), 409)


def test_checks_can_be_asked_for_again_once_the_trace_is_finalized(capture: Capture) -> None:
    problem(capture.post("/qa"), 409)
    capture.post("/finalize")
    assert capture.post("/qa").status_code == 202


# -- what is refused, and where


def test_a_batch_is_all_or_nothing_and_the_place_is_named(capture: Capture) -> None:
    bad = event(2, "test_run", {"command": "make", "runner": "rspec", "exit_code": 0, "duration_ms": 1, "passed": True})
    told = problem(capture.append(event(1), bad), 422)
    assert told["errors"][0]["place"] == "events[1].payload.runner"
    assert capture.get("/events").json()["events"] == []


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([event(1), event(2, event_id=uuid_of(1))], 409),
        ([event(2), event(1)], 409),
        ([event(1), event(1, event_id=uuid_of(9))], 409),
        ([event(0)], 422),
        ([event(1, "keystroke")], 422),
        ([event(1, wrong=1)], 422),
        ([event(1, "file_edit", {"file_path": "../x", "edit_kind": "patch", "patch": "x"})], 422),
        ([event(1, payload={"kind": "plan", "content_blob_id": "sha256:" + "0" * 64})], 422),
        ([event(1, payload={"kind": "plan", "content": "a\0b"})], 422),
        ([event(1, ts_ms=2**70)], 422),
    ],
)
def test_what_breaks_a_rule_is_refused_with_nothing_stored(
    capture: Capture, events: list[dict[str, Any]], status: int
) -> None:
    assert problem(capture.append(*events), status)["detail"]
    assert capture.get("/events").json()["events"] == []


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no json",
        b'{"events": [1]}',
        b'{"events": "x"}',
        b'{"events": [], "more": 1}',
        b"[" * 100_000,
        b'{"events": [' + b"[" * 2000 + b"]" * 2000 + b"]}",
        b'{"events": [{"seq": 1e999}]}',
        b'{"events": ["\\ud800"]}',
        b'{"events": ["\xff"]}',
    ],
)
def test_hostile_bodies_get_422_with_a_place(capture: Capture, raw: bytes) -> None:
    answer = capture.client.post(f"/traces/{capture.trace_id}/events", content=raw, headers=capture.headers)
    assert problem(answer, 422)["errors"][0]["place"]


def test_an_empty_batch_is_fine(capture: Capture) -> None:
    assert capture.append().json() == {"accepted": 0, "duplicates": 0, "seq_last": 0, "gaps": []}


def test_limits_answer_413_with_the_limit(project: Path) -> None:
    given = {
        "PM_COLLECTOR_MAX_BATCH_EVENTS": "3",
        "PM_COLLECTOR_MAX_BATCH_BYTES": "4000",
        "PM_COLLECTOR_MAX_FIELD_BYTES": "1024",
        "PM_COLLECTOR_MAX_TRACE_EVENTS": "4",
        "PM_COLLECTOR_MAX_BLOB_BYTES": "2000",
    }
    with serving(project, [], given=given) as served:
        capture = Capture(served)
        rules: dict[str, int] = {}
        long = event(1, payload={"kind": "plan", "content": "x" * 1500})
        for answer in (
            capture.append(*(event(seq) for seq in range(1, 5))),
            capture.append(long, long, long),
            capture.append(long),
            capture.put_blob(b"x" * 2001, blob_id_of(b"x" * 2001)),
        ):
            error = problem(answer, 413)["errors"][0]
            rules[error["rule"]] = error["limit"]
        assert rules == {"batch_events": 3, "body_bytes": 2000, "inline_bytes": 1024} | {"body_bytes": 2000}
        capture.append(event(1), event(2), event(3))
        assert problem(capture.append(event(4), event(5)), 413)["errors"][0]["limit"] == 4


def test_unknown_and_deleted_traces_are_told_apart(served: Served, capture: Capture) -> None:
    problem(served.client.get(f"/traces/{uuid_of(5)}"), 404)
    problem(served.client.post(f"/traces/{uuid_of(5)}/events", json={"events": []}), 404)
    problem(served.client.delete(f"/traces/{uuid_of(5)}"), 404)
    problem(served.client.get("/traces/no-uuid"), 422)
    capture.append(event(1))
    thought = capture.get().json()["events"][0]["payload"]["content_blob_id"]
    assert served.client.delete(f"/traces/{capture.trace_id}").status_code == 204
    assert served.client.delete(f"/traces/{capture.trace_id}").status_code == 204
    problem(served.client.get(f"/traces/{capture.trace_id}"), 410)
    problem(served.client.get(f"/traces/{capture.trace_id}/events"), 410)
    assert capture.client.post(f"/traces/{capture.trace_id}/events", json={"events": []}).status_code in {404, 410}
    assert served.client.get(f"/blobs/{thought}", headers=capture.headers).status_code in {401, 404}
    listed = served.client.get("/traces?limit=500").json()["traces"]
    assert capture.trace_id not in [each["trace_id"] for each in listed]


# -- who may


def test_without_a_token_nothing_is_told(capture: Capture) -> None:
    for headers in ({"authorization": ""}, {"authorization": "Bearer nonsense"}, {"authorization": "Basic abc"}):
        for method, path in (
            ("POST", "/traces"),
            ("GET", "/traces"),
            ("GET", f"/traces/{capture.trace_id}"),
            ("POST", f"/traces/{capture.trace_id}/events"),
            ("GET", "/blobs/" + "0" * 64),
            ("PUT", "/blobs/" + "0" * 64),
            ("DELETE", f"/traces/{capture.trace_id}"),
        ):
            answer = capture.client.request(method, path, headers=headers)
            problem(answer, 401)
            assert answer.headers["www-authenticate"] == "Bearer"


def test_an_ingest_key_opens_its_own_trace_only(served: Served) -> None:
    mine, other = Capture(served), Capture(served)
    other.append(event(1))
    blob = other.get().json()["events"][0]["payload"]["content_blob_id"]
    problem(served.client.get(f"/traces/{other.trace_id}", headers=mine.headers), 403)
    problem(served.client.post(f"/traces/{other.trace_id}/events", json={"events": []}, headers=mine.headers), 403)
    problem(served.client.post("/traces", json=new_trace(), headers=mine.headers), 403)
    problem(served.client.get("/traces", headers=mine.headers), 403)
    problem(served.client.get(f"/blobs/{blob}", headers=mine.headers), 404)
    problem(served.client.put(f"/blobs/{'0' * 64}?trace={other.trace_id}", headers=other.headers, content=b"x"), 422)
    problem(served.client.delete(f"/traces/{other.trace_id}", headers=mine.headers), 403)
    for path in ("/", "/api/tasks", "/captures", "/openapi.json"):
        problem(served.client.get(path, headers=mine.headers), 401)


def test_guessing_tokens_is_slowed_down(project: Path) -> None:
    with serving(project, []) as served:
        statuses = [
            served.client.get("/traces", headers={"authorization": f"Bearer pm_admin_{number}"}).status_code
            for number in range(140)
        ]
        assert statuses[:50] == [401] * 50
        assert 429 in statuses
        assert served.client.get("/traces").status_code == 200


def test_keys_are_kept_as_hashes_only(served: Served, capture: Capture) -> None:
    kept = b"".join(path.read_bytes() for path in (served.project / ".pm-orchestrator").rglob("*") if path.is_file())
    assert capture.key.encode() not in kept
    assert capture.key.removeprefix("pm_ingest_").encode() not in kept


# -- blobs


def test_small_blobs_that_are_damaged_are_an_error_until_they_are_sent_again(project: Path) -> None:
    data = b"what was printed"
    with serving(project, []) as served:
        capture = Capture(served)
        given = {"headers": capture.headers}
        name = served.client.put(f"/blobs/{blob_id_of(data)}", content=data, **given).json()["blob_id"]
        for damaged in (b"What was printed", b"what"):
            with closing(sqlite3.connect(project / ".pm-orchestrator/collector.sqlite")) as database, database:
                database.execute("UPDATE blobs SET data = ? WHERE blob_id = ?", (damaged, name))
            told = problem(served.client.get(f"/blobs/{name}", **given), 500)
            assert (told["code"], name in told["detail"]) == ("trace", True)
            assert served.client.put(f"/blobs/{name}", content=data, **given).status_code == 201
            assert served.client.get(f"/blobs/{name}", **given).content == data


def test_a_blob_is_stored_under_its_hash_and_named_by_events(capture: Capture) -> None:
    data = b"a report\n" * 10_000
    name = blob_id_of(data)
    stored = capture.put_blob(data, name, "text/plain")
    assert (stored.status_code, stored.json()["byte_length"], stored.json()["submitted_id"]) == (201, len(data), name)
    run = {"command": "pytest", "runner": "pytest", "exit_code": 1, "duration_ms": 5, "passed": False}
    assert capture.append(event(1, "test_run", {**run, "report_blob_id": name})).status_code == 200
    answer = capture.client.get(f"/blobs/{stored.json()['blob_id']}", headers=capture.headers)
    assert (answer.content, answer.headers["content-type"]) == (data, "text/plain; charset=utf-8")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_uploaded_secret_is_replaced_and_the_sent_name_still_works(capture: Capture) -> None:
    data = f"token = {SECRET}\n".encode()
    stored = capture.put_blob(data, blob_id_of(data)).json()
    assert stored["blob_id"] != stored["submitted_id"]
    assert stored["redaction"]["applied"] is True
    capture.append(event(1, payload={"kind": "plan", "content_blob_id": stored["submitted_id"]}))
    named = capture.get().json()["events"][0]["payload"]["content_blob_id"]
    assert named == stored["blob_id"]
    assert SECRET.encode() not in capture.client.get(f"/blobs/{named}").content
    assert SECRET not in capture.get("?blobs=inline").text


def test_an_admin_uploads_for_a_trace_by_naming_it(served: Served, capture: Capture) -> None:
    data = f"a plan, {SECRET}\n".encode()
    name = blob_id_of(data)
    answer = served.client.put(f"/blobs/{name}?trace={capture.trace_id.upper()}", content=data)
    assert answer.status_code == 201
    assert capture.append(event(1, payload={"kind": "plan", "content_blob_id": name})).json()["accepted"] == 1
    stored = capture.get().json()["events"][0]["payload"]["content_blob_id"]
    assert SECRET not in served.client.get(f"/blobs/{stored}").text


def test_what_cannot_be_redacted_is_not_slipped_in_through_an_upload_for_no_trace(served: Served) -> None:
    data = b"# v2 git bundle\n\0\3\4"
    name = blob_id_of(data)
    assert served.client.put(f"/blobs/{name}", content=data).status_code == 201
    capture = Capture(served, developer={"developer_id": "d"})
    named = event(1, payload={"kind": "plan", "content_blob_id": name})
    assert problem(capture.append(named), 422)["errors"][0]["rule"] == "consent"
    final = {"final_state": {"bundle_blob_id": name}}
    assert problem(capture.post("/finalize", final), 422)["errors"][0]["rule"] == "consent"
    assert problem(capture.put_blob(data, name), 422)["errors"][0]["rule"] == "consent"


def test_wrong_names_and_bombs_are_refused(capture: Capture) -> None:
    bomb = gzip.compress(b"\0" * (65 << 20), 1)
    assert problem(capture.put_blob(b"x", "0" * 64), 422)["errors"][0]["rule"] == "sha256"
    problem(capture.put_blob(bomb, blob_id_of(bomb), "application/gzip"), 413)
    problem(capture.put_blob(b"x", blob_id_of(b"x"), "text/html"), 422)
    for name in ("..%2f..%2fetc%2fpasswd", "sha256:..", "SHA256:" + "0" * 64, "0" * 63):
        assert capture.put_blob(b"x", name).status_code in {404, 422}
        assert capture.client.get(f"/blobs/{name}").status_code in {404, 422}


def test_raw_mode_needs_consent(served: Served) -> None:
    refused = served.client.post(
        "/traces", json=new_trace(store="raw", developer={"developer_id": "d", "consent_flags": {}})
    )
    assert problem(refused, 422)["errors"][0]["rule"] == "consent"
    capture = Capture(served, store="raw")
    capture.append(event(1, payload={"kind": "plan", "content": SECRET}))
    blob = capture.get().json()["events"][0]["payload"]["content_blob_id"]
    assert capture.client.get(f"/blobs/{blob}").text == SECRET


def test_a_bundle_needs_consent_and_has_to_be_there(served: Served) -> None:
    data = b"# v2 git bundle\n\0\1\2"
    repo = {"repo_id": "r", "commit_base": "0" * 40, "bundle_blob_id": blob_id_of(data)}
    refused = served.client.post("/traces", json=new_trace(repo=repo))
    assert problem(refused, 422)["errors"][0]["rule"] == "unknown_blob"
    assert served.client.put(f"/blobs/{blob_id_of(data)}", content=data).status_code == 201
    capture = Capture(served, repo=repo)
    assert capture.client.get(f"/blobs/{blob_id_of(data)}", headers=capture.headers).content == data
    silent = new_trace(repo=repo, developer={"developer_id": "d"})
    assert problem(served.client.post("/traces", json=silent), 422)["errors"][0]["rule"] == "consent"


def test_a_body_that_breaks_off_stores_nothing_and_leaves_no_trace_in_the_log(
    served: Served, capture: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    data = b"x" * 1000
    name = blob_id_of(data)
    for method, path in (
        ("PUT", f"/blobs/{name}"),
        ("POST", f"/traces/{capture.trace_id}/events"),
        ("POST", "/traces"),
    ):
        with socket.create_connection((host, int(port))) as connection:
            head = f"{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
            connection.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode() + data[:500])
            threading.Event().wait(0.2)
    assert served.client.get(f"/blobs/{name}").status_code == 404
    assert capture.get("/events").json()["events"] == []
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_an_upload_without_room_is_told_to_come_again(
    capture: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Full(tempfile.SpooledTemporaryFile):  # type: ignore[type-arg]
        def write(self, _data: bytes) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("service.bodies.tempfile.SpooledTemporaryFile", Full)
    answer = capture.put_blob(b"x", blob_id_of(b"x"))
    assert "No space left" in problem(answer, 503)["detail"]
    assert answer.headers["retry-after"]


# -- under load


def test_more_than_may_wait_is_told_to_come_again(project: Path) -> None:
    with serving(project, [], given={"PM_COLLECTOR_WAITING": "1"}) as served:
        capture = Capture(served)
        big = [event(seq, payload={"kind": "plan", "content": "y" * 20_000}) for seq in range(1, 30)]

        def send(_number: int) -> Any:
            return capture.append(*big)

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(send, range(64)))
        statuses = {answer.status_code for answer in answers}
        assert statuses == {200, 429}
        assert all(answer.headers["retry-after"] == "1" for answer in answers if answer.status_code == 429)
        assert capture.get("?view=metadata").json()["event_count"] == 29


def test_many_clients_at_once_lose_nothing(served: Served) -> None:
    captures = [Capture(served) for _each in range(8)]

    def fill(capture: Capture) -> int:
        for seq in range(1, 21):
            assert capture.append(event(seq)).status_code == 200
        return len(capture.get("/events").json()["events"])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(fill, captures)) == [20] * 8


def test_ids_are_taken_in_either_case(served: Served, capture: Capture) -> None:
    path = f"/traces/{capture.trace_id.upper()}"
    body = json.dumps({"events": [event(1)]})
    assert served.client.post(f"{path}/events", content=body).json()["accepted"] == 1
    assert served.client.get(path).json()["trace_id"] == capture.trace_id


def test_a_wrong_method_names_the_right_ones(served: Served, capture: Capture) -> None:
    answer = served.client.get(f"/traces/{capture.trace_id}/finalize")
    problem(answer, 405)
    assert answer.headers["allow"] == "POST"
