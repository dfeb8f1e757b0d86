"""`pm capture` from the command line: what it takes is safe, what it sends arrives, what fails says how to go on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from collector.client.spool import Draft, Spool, list_spools, sent_before
from tests.collector.recorder.support import Asked, Desk, Wire, create_request, desk, problem, wire
from tests.repl.support import Ran, command_line, environment, pm
from tracer.clock import new_id

SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ456789"


@pytest.fixture
def at(tmp_path: Path) -> Desk:
    return desk(tmp_path)


def capture(at: Desk, server: Wire | None, *words: str, stdin: str = "", token: str | None = None) -> Ran:
    address = server.address if server is not None else "http://127.0.0.1:9"
    key = token if token is not None else server.key if server is not None else "nobody"
    environ = at.environ("bash", PM_CAPTURE_SERVER=address, PM_CAPTURE_TOKEN=key)
    return pm("capture", *words, cwd=at.repo, stdin=stdin, **environ)


def begun(at: Desk, server: Wire | None, *words: str) -> Spool:
    ran = capture(at, server, "new", "--title", "empty cart", "--consent", "output", *words)
    assert ran.code == 0, ran.err
    return next(spool for spool in list_spools(at.state) if spool.trace_id == ran.out.strip())


def lines(*events: dict[str, Any]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def a_thought(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "thought", "payload": {"content": text, "kind": "plan", "links_to": []}, **more}


def test_a_capture_is_begun_filled_ended_and_listed(at: Desk) -> None:
    with wire() as server:
        spool = begun(at, server)
        appended = capture(
            at, server, "append", spool.trace_id[:8], "-", "--json", stdin=lines(a_thought("a"), a_thought("b"))
        )
        ended = capture(at, server, "finalize", spool.trace_id, "--json")
        listed = capture(at, server, "list")
        assert server.created == [spool.trace_id]
        assert [event["payload"]["content"] for event in server.events.values()] == ["a", "b"]
        assert server.finalized == [spool.trace_id]
        body = server.asked[0].json()
    assert json.loads(appended.out)["accepted"] == 2
    assert json.loads(ended.out)["finalized"] is True
    assert "sent" in listed.out
    assert "2 events" in listed.out
    assert body["task"]["bug_report"]["title"] == "empty cart"
    assert body["developer"]["consent_flags"]["store_terminal_output"] is True
    assert body["repo"]["commit_base"]
    assert body["environment"]["os"]
    assert "ann@example.com" not in json.dumps(body)


def test_events_are_safe_when_nobody_is_there_and_go_out_later(at: Desk) -> None:
    spool = begun(at, None, "--offline")
    ran = capture(at, None, "append", spool.trace_id, "-", stdin=lines(a_thought("kept")))
    assert ran.code == 5
    assert ran.err.startswith("pm: the collector at http://127.0.0.1:9 cannot be reached\n")
    assert "nothing is lost" in ran.err
    assert "next:" in ran.err
    with wire() as server:
        again = capture(at, server, "append", spool.trace_id)
        assert again.code == 0, again.err
        assert len(server.events) == 1
        elsewhere = capture(at, None, "append", spool.trace_id)
        assert elsewhere.code == 0, "what one collector has is not begun at another because a setting changed"


def test_the_same_events_again_are_taken_once(at: Desk) -> None:
    with wire() as server:
        spool = begun(at, server)
        event = a_thought("once", event_id=new_id())
        capture(at, server, "append", spool.trace_id, "-", stdin=lines(event))
        capture(at, server, "append", spool.trace_id, "-", stdin=lines(event, a_thought("new")))
        assert [each["payload"]["content"] for each in server.events.values()] == ["once", "new"]


def test_a_known_id_with_other_content_is_a_conflict_and_nothing_of_the_file_is_taken(at: Desk) -> None:
    spool = begun(at, None, "--offline")
    secret = a_thought("the key is AKIAQWERTYUIOPASDFGH", event_id=new_id())
    output = {
        "type": "terminal_output",
        "event_id": new_id(),
        "payload": {"stream": "stdout", "chunk": "a\n", "is_truncated": False},
    }
    snapshot = {
        "type": "file_snapshot",
        "event_id": new_id(),
        "payload": {
            "file_path": "a.py",
            "content": "token = 'ghp_0123456789012345678901234567890123ab'\n",
            "snapshot_reason": "pre_test",
        },
    }
    events = [secret, output, snapshot]
    whole = lines(*events)
    for _ in range(2):
        ran = capture(at, None, "append", spool.trace_id, "-", "--offline", stdin=whole)
        assert ran.code == 0, ran.err
    others = [
        {**secret, "payload": {**secret["payload"], "content": "other"}},
        {**secret, "seq": 9},
        {**secret, "actor": {"kind": "ide"}},
        {**snapshot, "payload": {**snapshot["payload"], "content": "x\n"}},
        {**snapshot, "type": "file_edit"},
    ]
    for other in others:
        ran = capture(at, None, "append", spool.trace_id, "-", "--offline", stdin=lines(a_thought("new"), other))
        assert ran.code == 2, other
    twice = new_id()
    ran = capture(
        at, None, "append", spool.trace_id, "-", "--offline",
        stdin=lines(a_thought("a", event_id=twice), a_thought("b", event_id=twice)),
    )  # fmt: skip
    assert (ran.code, "already there with other content" in ran.err) == (2, True)
    assert [line.seq for line in spool.lines()] == [1, 2, 3]


@pytest.mark.parametrize("wrapped", ["list", "object", "lines"])
def test_events_come_as_lines_as_a_list_or_as_a_request(at: Desk, wrapped: str) -> None:
    spool = begun(at, None, "--offline")
    events = [a_thought("a"), a_thought("b")]
    text = {"list": json.dumps(events), "object": json.dumps({"events": events}), "lines": lines(*events)}[wrapped]
    ran = capture(at, None, "append", spool.trace_id, "-", "--offline", stdin=text)
    assert ran.code == 0, ran.err
    assert [line.seq for line in spool.lines()] == [1, 2]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"type": "thought", "payload": {"content": "x", "kind": "guess", "links_to": []}}, "events[0].payload.kind"),
        ({"type": "nonsense", "payload": {}}, "events[0]"),
        ({"type": "thought", "payload": {"content": "x", "kind": "plan"}, "seq": 0}, "seq"),
        ({"type": "file_edit", "payload": {"file_path": "../x", "edit_kind": "patch", "patch": ""}}, "file_path"),
    ],
)
def test_an_event_that_breaks_the_schema_is_refused_before_it_is_kept(
    at: Desk, event: dict[str, Any], told: str
) -> None:
    spool = begun(at, None, "--offline")
    ran = capture(
        at, None, "append", spool.trace_id, "-", "--offline", stdin=lines(a_thought("good"), event)[0:0] + lines(event)
    )
    assert ran.code == 2
    assert told in ran.err
    assert list(spool.lines()) == []


def test_the_place_of_a_bad_event_is_its_place_in_what_was_given(at: Desk) -> None:
    """Whatever was taken before, and however many are looked at together."""
    spool = begun(at, None, "--offline")
    known = [a_thought(str(number), event_id=f"00000000-0000-4000-8000-{number:012}") for number in range(700)]
    assert capture(at, None, "append", spool.trace_id, "-", "--offline", stdin=lines(*known[:100])).code == 0
    bad = {"type": "thought", "payload": {"content": "x", "kind": "guess", "links_to": []}}
    ran = capture(at, None, "append", spool.trace_id, "-", "--offline", stdin=lines(*known, bad))
    assert (ran.code, "events[700].payload.kind: " in ran.err) == (2, True), ran.err
    assert len(list(spool.lines())) == 100


def test_one_bad_event_keeps_its_whole_batch_out(at: Desk) -> None:
    spool = begun(at, None, "--offline")
    ran = capture(at, None, "append", spool.trace_id, "-", "--offline", stdin=lines(a_thought("good"), {"type": "?"}))
    assert ran.code == 2
    assert list(spool.lines()) == []


def test_text_that_is_no_json_is_told_by_line(at: Desk) -> None:
    spool = begun(at, None, "--offline")
    ran = capture(at, None, "append", spool.trace_id, "-", "--offline", stdin=lines(a_thought("a")) + "{broken\n")
    assert ran.code == 2
    assert "line 2 is no JSON" in ran.err


def test_secrets_of_other_programs_events_never_reach_the_spool(at: Desk) -> None:
    spool = begun(at, None, "--offline", "--description", f"the key {SECRET} is wrong")
    content = f'KEY = "{SECRET}"\nx = 1\n'
    patch = f'--- a/s.py\n+++ b/s.py\n@@ -1,2 +1,2 @@\n KEY = "{SECRET}"\n-x = 1\n+x = 2\n'
    events = [
        a_thought(f"uses {SECRET}"),
        {"type": "file_snapshot", "payload": {"file_path": "s.py", "content": content, "snapshot_reason": "pre_test"}},
        {"type": "file_edit", "payload": {"file_path": "s.py", "edit_kind": "patch", "patch": patch}},
        {
            "type": "terminal_command",
            "payload": {"cwd": str(at.repo), "command": f"curl -H {SECRET}", "shell": "bash", "note": SECRET},
        },
    ]
    ran = capture(at, None, "append", spool.trace_id, "-", "--offline", stdin=lines(*events))
    assert ran.code == 0, ran.err
    everything = b"".join(path.read_bytes() for path in spool.folder.rglob("*") if path.is_file())
    assert SECRET.encode() not in everything
    stored = [json.loads(line.raw)["payload"] for line in spool.lines()]
    marker = stored[1]["content"].split('"')[1]
    assert marker.startswith("[REDACTED:")
    assert f' KEY = "{marker}"\n-x = 1\n+x = 2\n' in stored[2]["patch"]
    assert stored[3]["cwd"] == "$PROJECT_ROOT"


@pytest.mark.parametrize("more", [("--store", "redacted"), ("--store", "raw")])
def test_without_consent_to_output_none_of_it_is_kept(at: Desk, more: tuple[str, ...]) -> None:
    consent = "code" if "raw" in more else "none"
    ran = capture(at, None, "new", "--title", "quiet", "--consent", consent, "--offline", *more)
    assert ran.code == 0, ran.err
    output = {"stream": "stdout", "chunk": "it was PRINTED", "is_truncated": False}
    run = {"command": "pytest", "runner": "pytest", "exit_code": 1, "duration_ms": 5, "passed": False}
    events = [
        {"type": "terminal_output", "payload": output},
        {"type": "test_run", "payload": {**run, "report": "it was PRINTED"}},
    ]
    ran = capture(at, None, "append", at.spool.trace_id, "-", "--offline", stdin=lines(*events))
    assert ran.code == 0, ran.err
    assert all(b"PRINTED" not in path.read_bytes() for path in at.spool.folder.rglob("*") if path.is_file())
    kept = [json.loads(line.raw)["payload"] for line in at.spool.lines()]
    assert (kept[0]["chunk"], kept[0]["characters"]) == ("", len("it was PRINTED"))
    assert kept[1] == run


def test_programs_that_append_at_once_keep_seqs_apart_and_take_each_event_once(at: Desk) -> None:
    spool = begun(at, None, "--offline")
    events = at.home / "events.jsonl"
    events.write_text(lines(*({**a_thought(f"note {number}"), "event_id": new_id()} for number in range(400))))
    words = command_line("capture", "append", spool.trace_id, str(events), "--offline")
    children = [subprocess.Popen(words, cwd=at.repo, env=environment(**at.environ("bash"))) for _child in range(4)]
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]
    kept = [json.loads(line.raw) for line in spool.lines()]
    assert [event["seq"] for event in kept] == list(range(1, 401))
    assert len({event["event_id"] for event in kept}) == 400


def test_raw_mode_without_consent_to_code_is_refused(at: Desk) -> None:
    ran = capture(at, None, "new", "--title", "x", "--consent", "output", "--store", "raw", "--offline")
    assert ran.code == 2
    assert "nobody consented" in ran.err
    assert list_spools(at.state) == []


def test_a_request_from_a_file_is_checked_and_used(at: Desk) -> None:
    good = capture(at, None, "new", "--from", "-", "--offline", stdin=json.dumps(create_request()))
    assert good.code == 0, good.err
    bad = capture(at, None, "new", "--from", "-", "--offline", stdin=json.dumps(create_request(repo={})))
    assert bad.code == 2
    assert "repo.repo_id" in bad.err


def test_the_same_trace_id_twice_is_a_conflict_and_not_a_second_capture(at: Desk) -> None:
    trace_id = new_id()
    begun(at, None, "--offline", "--trace-id", trace_id)
    again = capture(at, None, "new", "--title", "x", "--consent", "none", "--offline", "--trace-id", trace_id)
    assert again.code == 2
    assert "already" in again.err
    assert len(list_spools(at.state)) == 1


def test_a_revoked_key_is_exit_4_and_keeps_the_events(at: Desk) -> None:
    with wire() as server:
        spool = begun(at, server)
        server.answers.append(lambda _asked: problem(401, "credentials", "the key was revoked"))
        ran = capture(at, server, "append", spool.trace_id, "-", stdin=lines(a_thought("kept")))
    assert ran.code == 4
    assert len(ran.err.splitlines()) == 3
    assert "the key was revoked" in ran.err
    assert len(list(spool.lines())) == 1


def test_nothing_more_is_taken_after_the_end(at: Desk) -> None:
    spool = begun(at, None, "--offline")
    capture(at, None, "finalize", spool.trace_id, "--offline")
    ran = capture(at, None, "append", spool.trace_id, "-", "--offline", stdin=lines(a_thought("late")))
    assert ran.code == 2
    assert "closed" in ran.err


def test_get_writes_the_document_whole_or_not_at_all(at: Desk, tmp_path: Path) -> None:
    with wire() as server:
        spool = begun(at, server)
        good = capture(at, server, "get", spool.trace_id[:8], "-o", str(tmp_path / "t.json"))
        server.answers.append(lambda _asked: problem(404, "not_found", "no such trace"))
        bad = capture(at, server, "get", spool.trace_id, "-o", str(tmp_path / "u.json"))
    assert good.code == 0, good.err
    assert json.loads((tmp_path / "t.json").read_text())["status"] == "open"
    assert bad.code == 7
    assert not (tmp_path / "u.json").exists()


def test_get_writes_to_a_pipe_and_leaves_it_one(at: Desk, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with wire() as server:
            spool = begun(at, server)
            ran = capture(at, server, "get", spool.trace_id[:8], "-o", str(pipe))
        assert ran.code == 0, ran.err
        assert json.loads(os.read(reader, 1 << 16))["status"] == "open"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_capture_is_deleted_at_its_collector_after_a_yes(at: Desk) -> None:
    with wire() as server:
        spool = begun(at, server)
        refused = capture(at, server, "delete", spool.trace_id[:8])
        assert (refused.code, server.deleted) == (2, [])
        assert "--yes" in refused.err
        deleted = capture(at, server, "delete", spool.trace_id[:8], "--yes")
        assert (deleted.code, server.deleted) == (0, [spool.trace_id])
        assert "pm record discard" in deleted.err
    assert spool.folder.is_dir()


def test_a_capture_that_was_deleted_at_its_collector_is_told_so_and_not_sent_again(at: Desk) -> None:
    with wire() as server:
        spool = begun(at, server)
        capture(at, server, "append", spool.trace_id, "-", stdin=lines(a_thought("a")))

        def gone(asked: Asked) -> tuple[int, dict[str, str], bytes]:
            if asked.key == "ingest-key-of-the-test":
                return problem(401, "credentials", "this token is unknown here")
            return problem(410, "not_found", f"trace {spool.trace_id!r} was deleted: on request, at 2026-11-28")

        server.answers = [gone, gone]  # by somebody else: its key went with it
        ran = capture(at, server, "finalize", spool.trace_id)
        assert (ran.code, "was deleted: on request" in ran.err) == (7, True), ran.err
        assert "not sent: 1 capture" in capture(at, server, "list").err
        assert capture(at, server, "delete", spool.trace_id, "--yes").code == 0
        again = capture(at, server, "finalize", spool.trace_id)
        listed = capture(at, server, "list")
    assert (again.code, f"pm record discard {spool.trace_id[:8]}" in again.err) == (7, True), again.err
    assert listed.out.split()[:2] == [spool.trace_id[:8], "deleted"]
    assert "not sent" not in listed.err
    assert sent_before(at.state, older_than_ms=-1_000) == [], "what the collector does not have stays here"


def test_the_collectors_list_is_shown_whole(at: Desk) -> None:
    with wire() as server:
        server.created = [new_id() for _ in range(5)]
        listed = capture(at, server, "list", "--remote")
        assert [line.split()[0] for line in listed.out.splitlines()] == server.created


def test_the_whole_preview_shows_each_line_that_would_be_sent(at: Desk) -> None:
    spool = begun(at, None, "--offline", "--description", "Two items.\nOne is charged.")
    printed = {"stream": "stdout", "chunk": "first\nsecond\nthird", "is_truncated": False}
    held = spool.blobs.put_bytes(b"one\ntwo of the blob\n")
    kept = {"file_path": "a.py", "reason": "manual_checkpoint", "content_blob_id": held}
    spool.append([Draft(type="terminal_output", payload=printed), Draft(type="file_snapshot", payload=kept)])
    shown = pm("record", "preview", "--full", spool.trace_id[:8], cwd=at.repo, **at.environ("bash")).out
    for line in ("One is charged.", "second", "two of the blob", spool.header["request"]["developer"]["developer_id"]):
        assert line in shown


def test_get_with_a_dash_writes_to_stdout(at: Desk) -> None:
    with wire() as server:
        spool = begun(at, server)
        got = capture(at, server, "get", spool.trace_id, "-o", "-")
    assert json.loads(got.out)["status"] == "open"
    assert not (at.repo / "-").exists()


def test_an_unknown_capture_is_exit_7_and_an_empty_list_says_how_to_begin(at: Desk) -> None:
    assert capture(at, None, "append", "ffff", "--offline").code == 7
    listed = capture(at, None, "list")
    assert listed.code == 0
    assert "no captured sessions" in listed.out
    assert "pm record" in listed.err


def test_a_key_file_that_others_can_read_is_refused(at: Desk, tmp_path: Path) -> None:
    spool = begun(at, None, "--offline")
    key = tmp_path / "key"
    key.write_text("some-token\n", encoding="ascii")
    key.chmod(0o644)
    ran = capture(at, None, "append", spool.trace_id, "--token-file", str(key))
    assert ran.code == 3
    assert "chmod 600" in ran.err


def test_consent_is_asked_for_once_in_a_repository(at: Desk) -> None:
    begun(at, None, "--offline")
    again = capture(at, None, "new", "--title", "second", "--offline", "--json")
    assert again.code == 0, again.err
    spool = next(each for each in list_spools(at.state) if each.trace_id == json.loads(again.out)["trace_id"])
    assert spool.header["request"]["developer"]["consent_flags"]["store_terminal_output"] is True


def test_a_discarded_capture_is_gone(at: Desk) -> None:
    spool = begun(at, None, "--offline")
    refused = pm("record", "discard", spool.trace_id[:8], cwd=at.repo, **at.environ("bash"))
    assert refused.code == 2
    assert "--yes" in refused.err
    ran = pm("record", "discard", spool.trace_id[:8], "--yes", cwd=at.repo, **at.environ("bash"))
    assert ran.code == 0, ran.err
    assert list_spools(at.state) == []
    assert not spool.folder.exists()


@pytest.mark.parametrize("words", [("withdraw", "--consent", "output"), ("get", "--view", "metadata")])
def test_what_was_sent_can_be_had_back_by_its_own_key_when_the_token_has_ended(
    at: Desk, words: tuple[str, ...]
) -> None:
    with wire() as server:
        spool = begun(at, server)
        assert capture(at, server, "append", spool.trace_id, "-", stdin=lines(a_thought("a"))).code == 0
        ran = capture(at, server, words[0], spool.trace_id[:8], *words[1:], token="ended")
        assert ran.code == 0, ran.err
        # and the other way round: the trace's key has ended, and its maker has a token
        (spool.folder / "ingest-key").write_text("ended", encoding="ascii")
        ran = capture(at, server, words[0], spool.trace_id[:8], *words[1:])
        assert ran.code == 0, ran.err
        ran = capture(at, server, words[0], spool.trace_id[:8], *words[1:], token="ended")
        assert ran.code == 4


def test_who_gave_no_key_is_told_so_and_who_has_an_old_one_where_another_comes_from(at: Desk) -> None:
    with wire() as server:
        keyless = capture(at, server, "list", "--remote", token="")
        assert (keyless.code, "there is no key for the collector" in keyless.err) == (4, True), keyless.err
        assert "next:  PM_CAPTURE_TOKEN=…" in keyless.err
        old = capture(at, server, "list", "--remote", token="ended")
        assert (old.code, "refused the key" in old.err) == (4, True)
        assert "then PM_CAPTURE_TOKEN=… or --token-file FILE here" in old.err


@pytest.mark.parametrize("words", [("verify",), ("qa", "show"), ("qa", "status"), ("export",)])
def test_of_a_capture_that_was_recorded_here_a_command_for_the_collector_says_where_it_is(
    at: Desk, words: tuple[str, ...]
) -> None:
    with wire() as server:
        spool = begun(at, server, "--offline")
        ran = capture(at, server, *words, spool.trace_id[:8])
        assert (ran.code, "it was recorded here and not sent" in ran.err) == (7, True), ran.err
        assert capture(at, server, "append", spool.trace_id, "-", stdin=lines(a_thought("a"))).code == 0
        ran = capture(at, server, *words, spool.trace_id[:8])
        assert (ran.code, f"it was sent to {server.address}, and is in the folder of that" in ran.err) == (7, True)
        assert f"next:  pm capture get {spool.trace_id[:8]} --view metadata" in ran.err
