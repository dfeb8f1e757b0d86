"""The task API over a real wire, to the letter of contracts 7 and seed 001."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.tasks import WholeFile
from tests.service.support import BAD, GOOD, Served, serving


@pytest.fixture
def served(project: Path) -> Iterator[Served]:
    with serving(project, [BAD, GOOD]) as running:
        yield running


def start(served: Served, **body: Any) -> str:
    answer = served.client.post("/api/tasks", json={"prompt": "Write login.py", **body})
    assert answer.status_code == 202, answer.text
    task_id: str = answer.json()["task_id"]
    return task_id


def events(text: str) -> list[tuple[str, str, str]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if fields:
            found.append((fields.get("id", ""), fields.get("event", ""), fields.get("data", "")))
    return found


def test_a_submitted_task_runs_and_its_trace_has_the_seeds_shape(served: Served) -> None:
    task_id = start(served)
    assert served.until_ended(task_id)["status"] == "COMPLETE"
    document = served.client.get(f"/api/tasks/{task_id}/trace").json()
    assert list(document) == ["task_id", "trace_file", "entries", "summary"]
    assert document["task_id"] == "task-001"
    assert document["trace_file"].startswith(".pm-orchestrator/traces/conversation-task-001-")
    assert document["summary"] == {
        "total_iterations": 2,
        "judgments": ["REJECT", "PASS"],
        "final_status": "COMPLETE",
    }
    assert [entry["event"] for entry in document["entries"]][:3] == ["USER_REQUEST", "SYSTEM_RULES", "LLM_REQUEST"]


def test_the_list_and_the_task_say_what_was_not_verified(served: Served) -> None:
    task_id = start(served)
    served.until_ended(task_id)
    detail = served.client.get(f"/api/tasks/{task_id}").json()
    row = served.client.get("/api/tasks").json()["tasks"][0]
    assert row["verification"] == detail["verification"] == "not_verified"
    assert detail["kind"] == "change"
    assert [one["criterion"] for one in detail["not_verified"]] == ["Q7"]
    assert all(detail["not_verified"][0][key] for key in ("why", "next"))
    assert detail["tests"] is None or detail["tests"]["outcome"] == "not_verified"
    assert [one["path"] for one in detail["files"]] == ["login.py"]


def test_latest_and_raw_and_both_together(served: Served) -> None:
    task_id = start(served)
    served.until_ended(task_id)
    whole = served.client.get(f"/api/tasks/{task_id}/trace").json()
    stored = (served.project / whole["trace_file"]).read_bytes()
    raw = served.client.get(f"/api/tasks/{task_id}/trace?raw=true")
    assert raw.headers["content-type"].startswith("application/x-ndjson")
    assert raw.content == stored
    latest = served.client.get(f"/api/tasks/{task_id}/trace?latest=true").json()
    assert {entry.get("iteration_index") for entry in latest["entries"]} == {1, None}
    both = served.client.get(f"/api/tasks/{task_id}/trace?latest=true&raw=true").content
    assert [json.loads(line) for line in both.splitlines()] == latest["entries"]
    assert all(line + b"\n" in stored for line in both.splitlines())


def test_a_trace_is_filtered_by_event_iteration_text_and_failure(served: Served) -> None:
    task_id = start(served)
    served.until_ended(task_id)

    def kept(query: str) -> list[tuple[str, int | None]]:
        document = served.client.get(f"/api/tasks/{task_id}/trace?{query}").json()
        assert document["summary"]["total_iterations"] == 2
        return [(entry["event"], entry.get("iteration_index")) for entry in document["entries"]]

    assert kept("event=quality_judgment,ITERATION_END&iteration=1") == [("QUALITY_JUDGMENT", 1), ("ITERATION_END", 1)]
    assert kept("event=QUALITY_*&failed=true") == [("QUALITY_JUDGMENT", 0)]
    assert kept("event=LLM_RESPONSE&text=fully%20IMPLEMENTED") == [("LLM_RESPONSE", 1)]
    assert kept("iteration=0-1&event=LLM_REQUEST&latest=true") == [("LLM_REQUEST", 1)]
    lines = served.client.get(f"/api/tasks/{task_id}/trace?raw=true&event=FINAL_SUMMARY").content.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["FINAL_SUMMARY"]
    refused = served.client.get(f"/api/tasks/{task_id}/trace?iteration=last")
    assert (refused.status_code, refused.json()["code"]) == (422, "usage")


def test_the_list_has_the_newest_first_and_a_cursor(served: Served) -> None:
    ids = [start(served) for _each in range(3)]
    for task_id in ids:
        served.until_ended(task_id)
    first = served.client.get("/api/tasks?limit=2").json()
    assert [row["task_id"] for row in first["tasks"]] == ["task-003", "task-002"]
    second = served.client.get(f"/api/tasks?limit=2&after={first['next']}").json()
    assert [row["task_id"] for row in second["tasks"]] == ["task-001"]
    assert second["next"] is None
    assert set(first["tasks"][0]) == {
        *("task_id", "title", "status", "iterations", "cost_usd", "created_at", "updated_at", "verification")
    }


def test_events_carry_the_line_number_and_resume_behind_the_last_one(served: Served) -> None:
    task_id = start(served)
    text = served.client.get(f"/api/tasks/{task_id}/events").text
    facts = [(seq, json.loads(data)["event"]) for seq, name, data in events(text) if name == "fact"]
    assert [seq for seq, _ in facts] == [str(number) for number in range(len(facts))]
    assert facts[-1][1] == "FINAL_SUMMARY"
    again = served.client.get(f"/api/tasks/{task_id}/events", headers={"last-event-id": "8"}).text
    assert [seq for seq, name, _ in events(again) if name == "fact"] == [seq for seq, _ in facts[9:]]


def test_a_person_answers_a_waiting_task(project: Path) -> None:
    with serving(project, [BAD, GOOD], on_limit="ask") as served:
        task_id = start(served, max_iterations=1)
        assert served.until_ended(task_id)["status"] == "AWAITING_RESPONSE"
        answer = served.client.post(f"/api/tasks/{task_id}/respond", json={"action": "hint", "text": "use READY"})
        assert answer.status_code == 202
        assert served.until_ended(task_id)["status"] == "COMPLETE"


def test_cancel_ends_a_running_task_for_good_and_resume_takes_it_up_again(project: Path) -> None:
    with serving(project, [{**GOOD, "delay_ms": 60_000}, GOOD]) as served:
        task_id = start(served)
        assert served.client.post(f"/api/tasks/{task_id}/cancel").status_code == 202
        assert served.until_ended(task_id)["status"] == "CANCELLED"
        trace = served.client.get(f"/api/tasks/{task_id}/trace").json()
        assert trace["summary"]["final_status"] == "CANCELLED"


def test_shutting_down_leaves_a_running_task_resumable(project: Path) -> None:
    with serving(project, [{**GOOD, "delay_ms": 60_000}]) as served:
        task_id = start(served)
    with serving(project, [GOOD]) as served:
        assert served.client.get(f"/api/tasks/{task_id}").json()["status"] == "UNFINISHED"
        assert served.client.post(f"/api/tasks/{task_id}/resume").status_code == 202
        assert served.until_ended(task_id)["status"] == "COMPLETE"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/tasks/task-099", 404, "not_found"),
        ("/api/tasks/task-0", 404, "not_found"),
        ("/api/tasks/..%2f..%2fetc%2fpasswd", 404, "not_found"),
        ("/api/tasks?limit=0", 422, "usage"),
        ("/nothing", 404, "not_found"),
    ],
)
def test_errors_are_problem_documents(served: Served, path: str, status: int, code: str) -> None:
    start(served)
    answer = served.client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code


@pytest.mark.parametrize(
    "body", [{}, {"prompt": ""}, {"prompt": "x", "colour": 1}, {"prompt": "x", "max_iterations": True}, []]
)
def test_a_body_that_makes_no_sense_is_422_with_the_place(served: Served, body: Any) -> None:
    answer = served.client.post("/api/tasks", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"]


def test_the_scripted_executor_is_refused_over_http(served: Served) -> None:
    answer = served.client.post("/api/tasks", json={"prompt": "x", "executor": "scripted"})
    assert answer.status_code == 422
    assert "scripted" in answer.json()["detail"]


def test_without_the_token_nothing_but_health_answers(served: Served) -> None:
    with httpx2.Client(base_url=served.url) as stranger:
        refused = stranger.get("/api/tasks")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert stranger.get("/api/tasks", headers={"authorization": "Bearer wrong"}).status_code == 401
        assert stranger.get("/healthz").json() == {"status": "ok"}


def test_a_foreign_host_or_origin_is_refused_even_with_the_token(served: Served) -> None:
    assert served.client.get("/api/tasks", headers={"host": "evil.example"}).status_code == 403
    assert served.client.get("/api/tasks", headers={"origin": "http://evil.example"}).status_code == 403
    assert served.client.get("/api/tasks", headers={"origin": served.url}).status_code == 200


def test_a_body_over_the_limit_is_413(served: Served) -> None:
    answer = served.client.post("/api/tasks", content=b'{"prompt": "' + b"x" * (5 << 20) + b'"}')
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_that_is_not_announced_as_json_is_told_how(served: Served) -> None:
    answer = served.client.post("/api/tasks", content=b'{"prompt": "x"}', headers={"content-type": "text/plain"})
    assert answer.status_code == 422
    assert answer.json()["next"] == "send it with Content-Type: application/json"


def test_a_status_that_does_not_exist_is_refused(served: Served) -> None:
    assert served.client.get("/api/tasks?status=COMPLETE").json()["tasks"] == []
    assert served.client.get("/api/tasks?status=DONE").status_code == 422


def test_tasks_that_wait_and_tasks_that_run_are_told_apart(project: Path) -> None:
    with serving(project, [{**GOOD, "delay_ms": 3000}] * 5) as served:
        for _each in range(5):
            start(served)

        def listed(query: str = "") -> list[dict[str, Any]]:
            tasks: list[dict[str, Any]] = served.client.get(f"/api/tasks{query}").json()["tasks"]
            return tasks

        for status in ("QUEUED", "RUNNING"):
            wanted = [task["task_id"] for task in listed() if task["status"] == status]
            assert wanted
            assert [(task["task_id"], task["status"]) for task in listed(f"?status={status}")] == [
                (task_id, status) for task_id in wanted
            ]
        first = served.client.get("/api/tasks?status=RUNNING&limit=1").json()
        assert first["next"] == first["tasks"][0]["task_id"]


def test_a_range_of_the_raw_trace_that_is_not_there_is_a_problem_document(served: Served) -> None:
    task_id = start(served)
    served.until_ended(task_id)
    path = f"/api/tasks/{task_id}/trace?raw=true"
    assert served.client.get(path, headers={"range": "bytes=0-9"}).content == served.client.get(path).content[:10]
    for wanted, status in (("bytes=99999999-", 416), ("bytes=x-", 400)):
        answer = served.client.get(path, headers={"range": wanted})
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


async def test_a_trace_that_grows_while_it_is_sent_ends_where_it_was_announced(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"first\n")
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.start":
            path.write_bytes(b"first\nsecond\n")

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "headers": [], "path": "/"}
    await WholeFile(path)(scope, receive, send)
    length = dict(sent[0]["headers"])[b"content-length"]
    assert int(length) == len(b"".join(message["body"] for message in sent[1:])) == len(b"first\n")
