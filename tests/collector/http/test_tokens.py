"""Tokens of the collector on the command line and over the wire: shown once, hashed, revocable."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from collector import tokens
from collector.opening import shown_store
from collector.store.sqlite.store import open_sqlite
from collector.tokens import Access, Tokens, draw_token
from repl.cli import main
from repl.commands.setup.running import Running, announced
from tests.collector.http.support import Capture, new_trace
from tests.service.support import serving
from tracer.errors import NotFoundError
from tracer.redaction.engine import build_redactor
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir


def said(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_token_made_on_the_command_line_opens_the_service_until_it_is_revoked(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_BELIEVED_S", 0.0)
    made = said(capsys, "admin", "tokens", "new", "--label", "laptop")
    listed = said(capsys, "admin", "tokens", "list")["tokens"]
    assert [(each["token_id"], each["label"], each["revoked"]) for each in listed] == [
        (made["token_id"], "laptop", False)
    ]
    assert made["token"] not in json.dumps(listed)
    with serving(project, []) as served:
        headers = {"authorization": f"Bearer {made['token']}"}
        assert served.client.post("/traces", json=new_trace(), headers=headers).status_code == 201
        assert served.client.get("/api/tasks", headers=headers).status_code == 401
        capture = Capture(served)
        said(capsys, "admin", "tokens", "revoke", made["token_id"])
        assert served.client.get("/traces", headers=headers).status_code == 401
        further = said(capsys, "admin", "tokens", "new", "--trace", capture.trace_id)
        headers = {"authorization": f"Bearer {further['token']}"}
        assert served.client.get(f"/traces/{capture.trace_id}", headers=headers).status_code == 200
        keys = [each for each in said(capsys, "admin", "tokens", "list", "--all")["tokens"] if each["kind"] == "ingest"]
        assert {each["trace_id"] for each in keys} >= {capture.trace_id}
        for each in keys:
            main(["admin", "tokens", "revoke", each["token_id"]])
        assert served.client.get(f"/traces/{capture.trace_id}", headers=headers).status_code == 401
        assert capture.get().status_code == 401


ANSWERS = {
    # role: create, list, read, events, blob, check again, withdraw, delete, on its own developer's trace
    "contributor": (201, 200, 200, 200, 404, 403, 200, 204),
    "reviewer": (403, 200, 200, 200, 404, 409, 403, 403),
    "exporter": (403, 200, 200, 200, 404, 403, 403, 403),
    "operator": (201, 200, 200, 200, 404, 409, 200, 204),
}


def test_each_role_may_do_what_it_is_for_and_nothing_else(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blob = "sha256:" + "0" * 64
    with serving(project, []) as served:
        for role, wanted in ANSWERS.items():
            own, other = (
                Capture(served).trace_id,
                Capture(served, developer=new_trace()["developer"] | {"developer_id": "dev-2"}),
            )
            made = said(capsys, "admin", "tokens", "new", "--role", role, "--developer", "dev-1")

            def asked(method: str, path: str, made: dict[str, Any] = made, **more: Any) -> int:
                headers = {"authorization": f"Bearer {made['token']}"}
                return served.client.request(method, path, headers=headers, **more).status_code

            def each(trace_id: str, developer: str) -> tuple[int, ...]:
                sent = new_trace()
                sent["developer"]["developer_id"] = developer
                return (
                    asked("POST", "/traces", json=sent),
                    asked("GET", "/traces"),
                    asked("GET", f"/traces/{trace_id}"),
                    asked("GET", f"/traces/{trace_id}/events"),
                    asked("GET", f"/blobs/{blob}?trace={trace_id}"),
                    asked("POST", f"/traces/{trace_id}/qa"),
                    asked("POST", f"/traces/{trace_id}/consent", json={"withdraw": ["allow_llm_judge"]}),
                    asked("DELETE", f"/traces/{trace_id}?erase=now"),
                )

            assert (role, each(own, "dev-1")) == (role, wanted)
            # What it creates is its developer's, whatever id the recorder sent; another's opens to none.
            assert (role, each(other.trace_id, "dev-2")) == (role, (wanted[0], 200, 403, 403, 403, 403, 403, 403))
            assert asked("GET", f"/blobs/{blob}") == 403, "of which trace?"
            assert asked("GET", "/revocations") == 403, "of all developers?"
            assert asked("GET", "/tasks") == 401
            headers = {"authorization": f"Bearer {made['token']}"}
            seen = served.client.get("/traces", headers=headers).json()["traces"]
            assert {row["developer"]["developer_id"] for row in seen} <= {"dev-1"}
        revoked = {each["trace_id"] for each in served.client.get("/revocations").json()["revocations"]}
        assert len(revoked) == 2, "what a contributor and an operator deleted"
        rows = said(capsys, "admin", "audit", "--limit", "500")["audit"]
        assert {(row["role"], row["action"]) for row in rows} >= {("contributor", "delete"), ("reviewer", "read")}
    assert main(["admin", "tokens", "new", "--role", "contributor"]) == 2


def test_a_token_says_whose_trace_it_makes_and_opens_no_other_by_repeating_its_creation(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--role", "contributor", "--developer", "dev-17", "--project", "shop")
    bound = said(capsys, "admin", "tokens", "new", *flags)["token"]
    headers = {"authorization": f"Bearer {bound}"}
    recorded = new_trace() | {"trace_id": "3f0c4a52-7d1e-4c55-9b11-0a2f6f1f8a10"}
    recorded["developer"]["developer_id"] = "dev-05d10805a7e31f4c"
    with serving(project, []) as served:
        assert served.client.post("/traces", json=recorded).status_code == 201, "the operator's, under the id it has"
        recorded["repo"]["repo_id"] = "shop"
        assert served.client.post("/traces", json=recorded, headers=headers).status_code == 409
        recorded["trace_id"] = "3f0c4a52-7d1e-4c55-9b11-0a2f6f1f8a11"
        for _ in range(2):
            assert served.client.post("/traces", json=recorded, headers=headers).status_code == 201
        (own,) = served.client.get("/traces", headers=headers).json()["traces"]
        assert own["developer"]["developer_id"] == "dev-17"
        refused = served.client.post("/traces", json=recorded | {"repo": new_trace()["repo"]}, headers=headers)
        assert (refused.status_code, "developer dev-17, project shop" in refused.text) == (403, True)
        assert f"the new trace is of the project {new_trace()['repo']['repo_id']}" in refused.text


OTHER_FIX = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x / 3\n+x / 2\n"


def test_whose_profile_is_approved(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"profile": {"runner": "custom", "command": "npx jest"}, "where": 'status != "open"'}
    with serving(project, []) as served:
        capture = Capture(served)
        assert capture.post("/finalize").status_code == 202
        approved = []
        for role, status in (("reviewer", 202), ("operator", 202), ("exporter", 403)):
            token = said(capsys, "admin", "tokens", "new", "--role", role)["token"]
            headers = {"authorization": f"Bearer {token}"}
            answer = served.client.post("/traces/qa", json=asked, headers=headers)
            assert (role, answer.status_code) == (role, status)
            approved += answer.json().get("trace_ids", ())
        assert approved == [capture.trace_id] * 2
        path = f"/traces/{capture.trace_id}/qa"
        assert served.client.post(path, json={"profile": "recorded"}, headers=capture.headers).status_code == 403
        assert served.client.post(path, json={"profile": {"runner": "rake"}}).status_code == 422
        for headers, name, status in (
            (capture.headers, "a.py", 403),
            (None, "tests/test_a.py", 422),
            (None, "a.py", 202),
        ):
            other = {"alternatives": {"the other": OTHER_FIX.replace("a.py", name)}}
            assert served.client.post(path, json=other, headers=headers).status_code == status
        assert served.client.post(path, json={"alternatives": {"none": "no diff"}}).status_code == 422
        assert served.client.post("/traces/qa", json=asked | other).status_code == 422
    with sqlite3.connect(project / ".pm-orchestrator/collector.sqlite") as database:
        notes = database.execute("SELECT result_json FROM qa_facts WHERE step = 'profile' ORDER BY rowid").fetchall()
        patches = "SELECT result_json FROM qa_facts WHERE step = 'alternatives'"
        assert [[each["name"] for each in json.loads(text)["patches"]] for (text,) in database.execute(patches)] == [
            ["the other"]
        ]
    assert [json.loads(text)["approved"] for (text,) in notes] == [False, True]


def test_a_profile_that_would_be_refused_is_refused_when_it_is_asked_for(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = said(capsys, "admin", "tokens", "new", "--role", "reviewer")["token"]
    reviewer = {"authorization": f"Bearer {token}"}
    foreign: dict[str, Any] = {"runner": "custom", "command": "cat /etc/shadow"}
    with serving(project, []) as served:
        capture = Capture(served)
        assert capture.post("/finalize").status_code == 202
        for path, more in ((f"/traces/{capture.trace_id}/qa", {}), ("/traces/qa", {"where": "true"})):
            refused = served.client.post(path, json={"profile": foreign, **more}, headers=reviewer)
            assert refused.status_code == 403
            assert "needs an operator's approval" in refused.json()["detail"]
            assert "'cat /etc/shadow' is not on this server's list (qa.commands)" in refused.json()["detail"]
            assert "operator" in refused.json()["next"]
            for headers, profile, counts in (
                (reviewer, {"runner": "pytest"}, "lists"),
                (reviewer, "repository", "lists"),
                (None, foreign, "approved"),
                (None, None, None),
            ):
                answer = served.client.post(path, json={"profile": profile, **more}, headers=headers)
                assert (answer.status_code, answer.json()["profile"]) == (202, counts)
            impossible = served.client.post(path, json={"profile": foreign | {"network": True}, **more})
            assert (impossible.status_code, "qa.build_network" in impossible.json()["detail"]) == (422, True)
    with sqlite3.connect(project / ".pm-orchestrator/collector.sqlite") as database:
        (noted,) = database.execute("SELECT count(*) FROM qa_facts WHERE step = 'profile'").fetchone()
    assert noted == 6, "what is refused is not noted"


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_an_empty_condition_is_refused_and_not_taken_for_every_trace(
    project: Path, capsys: pytest.CaptureFixture[str], empty: str
) -> None:
    with serving(project, []) as served:
        capture = Capture(served)
        assert capture.post("/finalize").status_code == 202
        refused = served.client.post("/traces/qa", json={"where": empty})
        assert (refused.status_code, refused.json()["code"]) == (422, "usage")
        assert "true" in refused.json()["next"]
        every = served.client.post("/traces/qa", json={"where": "true"})
        assert (every.status_code, every.json()["trace_ids"]) == (202, [capture.trace_id])
    for words in (["qa"], ["qa", "--step", "judge"], ["export", "--format", "json", "-o", str(project / "set")]):
        assert main(["capture", *words, "--where", empty]) == 2
        told = capsys.readouterr()
        assert "the condition (where) is empty" in told.err
        assert "for every trace write: true" in told.err
    assert not (project / "set").exists()


def test_a_token_ends_with_its_days_and_its_refusal_says_why(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_BELIEVED_S", 0.0)
    for days in ("0", "-3"):
        assert main(["admin", "tokens", "new", "--expires", days]) == 2
        assert f"--expires {days}" in capsys.readouterr().err
    revoked = said(capsys, "admin", "tokens", "new", "--expires", "90", "--label", "laptop")
    assert main(["admin", "tokens", "list"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["token", "role", "made", "ends", "state", "for"]
    assert row[head.index("ends") : head.index("ends") + 10] > row[head.index("made") : head.index("made") + 10]
    said(capsys, "admin", "tokens", "revoke", revoked["token_id"])
    with monkeypatch.context() as patched:
        patched.setattr(tokens, "now_epoch_ms", lambda: 1_700_000_000_000)
        ended = said(capsys, "admin", "tokens", "new", "--expires", "1")
    with serving(project, []) as served:
        for token, why in (
            (ended["token"], "this token ended on 2023-11-15"),
            (revoked["token"], "this token was revoked on "),
            ("pm_admin_mistyped", "this token is unknown here"),
        ):
            answer = served.client.get("/traces", headers={"authorization": f"Bearer {token}"})
            assert (answer.status_code, why in answer.json()["detail"]) == (401, True), answer.text
            assert "pm admin tokens new" in answer.json()["next"]


@pytest.mark.parametrize("days", ["0", "-1", "36501", "99999999999", "9" * 40])
def test_a_token_that_would_end_on_no_real_day_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str], days: str
) -> None:
    for more in ([], ["--trace", "3f0c4a52"]):
        assert main(["admin", "tokens", "new", f"--expires={days}", *more]) == 2
        assert f"--expires {days} is no number of days to come" in capsys.readouterr().err
    assert main(["admin", "audit", f"--limit={'9' * 40}"]) == 0
    assert not (project / ".pm-orchestrator" / "collector.sqlite").exists()


def test_an_ingest_key_ends_with_its_days_and_has_no_role(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(project, []) as served:
        trace_id = Capture(served).trace_id
    key = said(capsys, "admin", "tokens", "new", "--trace", trace_id[:8], "--expires", "5")["token_id"]
    rows = {row["token_id"]: row for row in said(capsys, "admin", "tokens", "list", "--all")["tokens"]}
    assert rows[key]["expires_at"] is not None
    for more in (["--role", "reviewer"], ["--developer", "dev-1"], ["--project", "shop"]):
        assert main(["admin", "tokens", "new", "--trace", trace_id[:8], *more]) == 2
        assert "--trace goes with none of" in capsys.readouterr().err


def test_the_audit_tells_of_no_trace_that_never_was(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = f"/traces/{'0' * 8}-0000-4000-8000-{'0' * 12}"
    with serving(project, []) as served:
        capture = Capture(served)
        assert served.client.delete(nothing).status_code == 404
        assert served.client.get(nothing).status_code == 404
        assert served.client.delete(f"/traces/{capture.trace_id}", headers=capture.headers).status_code == 204
        rows = said(capsys, "admin", "audit")["audit"]
    assert [(row["action"], row["subject"]) for row in rows] == [
        ("create", capture.trace_id),
        ("delete", capture.trace_id),
    ]


def test_what_a_command_on_tokens_answers_is_called_by_its_name(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = said(capsys, "admin", "tokens", "new")
    named = [made, said(capsys, "admin", "tokens", "list"), said(capsys, "admin", "tokens", "revoke", made["token_id"])]
    assert [each["command"] for each in named] == ["admin tokens new", "admin tokens list", "admin tokens revoke"]


def test_the_audit_names_what_was_made_and_tells_what_was_refused(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(project, []) as served:
        capture = Capture(served)
        assert served.client.post("/traces", content=b"{bad").status_code == 422
        reader = said(capsys, "admin", "tokens", "new", "--role", "reviewer", "--label", "anna")
        headers = {"authorization": f"Bearer {reader['token']}"}
        refused = served.client.delete(f"/traces/{capture.trace_id}", headers=headers)
        assert (refused.status_code, "a token with the role reviewer may not delete" in refused.text) == (403, True)
        listing = served.client.get("/traces", headers=capture.headers)
        assert (listing.status_code, "an ingest key may not list traces" in listing.text) == (403, True)
    assert main(["admin", "audit", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["audit"]
    assert [(row["action"], row["role"], row["subject"]) for row in rows][:2] == [
        ("create", "operator", capture.trace_id),
        ("create refused", "operator", rows[1]["subject"]),
    ]
    assert [(row["action"], row["subject"]) for row in rows][2:] == [
        ("token new", reader["token_id"]),
        ("delete refused", capture.trace_id),
        ("list refused", ""),
    ]
    assert main(["admin", "audit"]) == 0
    assert f"delete refused    reviewer     anna {reader['token_id'][:8]}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("database", "shown"),
    [
        ("postgresql://pm:hidden@db.example.org:5433/pm?sslmode=require", "PostgreSQL db.example.org:5433/pm"),
        ("postgres:///pm?host=/run/postgresql&password=hidden", "PostgreSQL /run/postgresql/pm"),
        ("/srv/captures.sqlite", "SQLite /srv/captures.sqlite"),
    ],
)
def test_how_a_store_is_named(project: Path, database: str, shown: str) -> None:
    settings = load_settings(project=project, environ={"PM_COLLECTOR_DATABASE": database})
    assert shown_store(StateDir(project), settings) == shown


def test_a_token_is_never_made_in_a_store_beside_that_of_the_running_service(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = project / ".pm-orchestrator"
    assert main(["admin", "tokens", "list"]) == 0
    assert "no admin tokens" in capsys.readouterr().err
    assert not (state / "collector.sqlite").exists(), "looking makes nothing"
    state.mkdir(exist_ok=True)
    elsewhere = Running("http://127.0.0.1:8765", "PostgreSQL db.example.org/pm", str(state / "serve-token"))
    with announced(state, elsewhere), announced(state, elsewhere._replace(store="another")):
        for words in (["tokens", "new"], ["tokens", "list"], ["audit"], ["prune", "uploads"]):
            assert main(["admin", *words]) == 3
            assert "the service that runs here uses PostgreSQL db.example.org/pm" in capsys.readouterr().err
        assert not (state / "collector.sqlite").exists()
        assert main(["serve", "link"]) == 0
        assert capsys.readouterr().out.startswith("http://127.0.0.1:8765/login?code=")
    assert said(capsys, "admin", "tokens", "new")["store"] == f"SQLite {state / 'collector.sqlite'}"


def test_an_unknown_token_or_trace_is_not_found(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admin", "tokens", "revoke", "no-such-id"]) == 7
    assert main(["admin", "tokens", "new", "--trace", "3f0c4a52-7d1e-4c55-9b11-0a2f6f1f8a10"]) == 7
    capsys.readouterr()


async def test_revoking_twice_says_so(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "c.sqlite") as store:
        kept = Tokens(store)
        made = await kept.new_admin("x")
        assert await kept.access(made.token) == Access(made.token_id, None)
        assert await kept.revoke(made.token_id)
        assert await kept.access(made.token) is None
        assert not await kept.revoke(made.token_id)
        with pytest.raises(NotFoundError):
            await kept.revoke("other")
        assert await kept.access("x" * 10_000) is None


def test_a_token_in_a_text_is_replaced_like_any_secret(tmp_path: Path) -> None:
    redactor = build_redactor(state_dir=tmp_path, environ={}, host="", persons=())
    for token in (draw_token("admin"), draw_token("ingest")):
        text, counts = redactor.redact_text(f"$ pm admin tokens new\n{token}\n")
        assert token not in text
        assert counts == {"pm-token": 1}


def test_the_schema_is_printed_and_garbage_is_collected(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "trace"]) == 0
    assert json.loads(capsys.readouterr().out)["$schema"].endswith("2020-12/schema")
    found = said(capsys, "admin", "prune", "uploads")
    assert (found["blobs"], found["leftovers"], found["bytes"]) == (0, 0, 0)


def test_a_refusal_names_the_roles_that_may_and_one_of_them_then_does(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each call that is refused to a role says whose tokens may do it; a token made by what it says is let through."""
    with serving(project, []) as served:
        capture = Capture(served)
        assert capture.post("/finalize").status_code == 202
        of_trace = f"/traces/{capture.trace_id}"
        calls = [
            ("POST", "/traces", new_trace()),
            ("POST", f"{of_trace}/qa", {}),
            ("POST", f"{of_trace}/consent", {"withdraw": ["store_terminal_output"]}),
            ("GET", of_trace, None),
            ("GET", "/revocations", None),
            ("DELETE", of_trace, None),
        ]
        for role in ("metrics", "exporter", "reviewer", "contributor"):
            made = said(capsys, "admin", "tokens", "new", "--role", role, *(["--developer", "x"] * (role[0] == "c")))
            for method, path, body in calls[:-1] if role == "contributor" else calls:
                headers = {"authorization": f"Bearer {made['token']}"}
                refused = served.client.request(method, path, json=body, headers=headers)
                if refused.status_code != 403:
                    continue
                words = refused.json()["next"].split("pm admin tokens new ")[1].split()
                named = words[words.index("--role") + 1]
                assert f"role {named}" in refused.json()["next"], (role, method, path)
                developer = ["--developer", "dev-1"] * ("--developer" in words)
                other = said(capsys, "admin", "tokens", "new", "--role", named, *developer)
                headers = {"authorization": f"Bearer {other['token']}"}
                if method != "DELETE":
                    assert served.client.request(method, path, json=body, headers=headers).status_code < 300, words
        for path in ("/traces", "/revocations"):
            refused = served.client.get(path, headers=capture.headers)
            assert (refused.status_code, "--role" in refused.json()["next"]) == (403, True)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/json"])
def test_every_body_of_the_collector_is_json_whatever_it_is_announced_as(project: Path, kind: str) -> None:
    headers = {"content-type": kind} if kind else {}
    with serving(project, []) as served:
        trace_id = served.client.post("/traces", content=json.dumps(new_trace()), headers=headers).json()["trace_id"]
        for path, body, status in (
            ("/events", {"events": []}, 200),
            ("/finalize", {}, 202),
            ("/qa", {"profile": "recorded"}, 202),
            ("/consent", {"withdraw": ["store_terminal_output"]}, 200),
        ):
            content = json.dumps(body)
            answer = served.client.post(f"/traces/{trace_id}{path}", content=content, headers=headers)
            assert (path, answer.status_code) == (path, status), answer.text
        many = served.client.post("/traces/qa", content='{"where": "true"}', headers=headers)
        assert (many.status_code, many.json()["trace_ids"]) == (202, [trace_id])


@pytest.mark.parametrize(
    ("profile", "place", "message"),
    [
        ("nonsense", "profile", "Input should be 'repository' or 'recorded', or an object"),
        (7, "profile", "Input should be 'repository' or 'recorded', or an object"),
        ({"runner": "rake"}, "profile.runner", "'pytest'"),
        ({"command": "x"}, "profile.runner", "Field required"),
        ({"runner": "pytest", "imgae": "x"}, "profile.imgae", "Extra inputs"),
        ({"runner": "pytest", "build": [["make"]]}, "profile.build[0]", "string"),
    ],
)
def test_what_is_wrong_with_a_profile_is_told_at_its_place_in_what_was_sent(
    project: Path, profile: Any, place: str, message: str
) -> None:
    with serving(project, []) as served:
        capture = Capture(served)
        answers = [served.client.post("/traces/qa", json={"where": "true", "profile": profile})]
        answers.append(served.client.post(f"/traces/{capture.trace_id}/qa", json={"profile": profile}))
        if profile != "nonsense":  # a runner's name may stand there
            sent = served.client.post("/traces", json=new_trace(qa_profile=profile))
            assert sent.json()["errors"][0]["place"] == f"qa_{place}"
        for answer in answers:
            assert answer.status_code == 422
            assert [each["place"] for each in answer.json()["errors"]] == [place]
            assert message in answer.json()["errors"][0]["message"]
            assert answer.json()["detail"].startswith(f"{place}: ")
