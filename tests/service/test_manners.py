"""Problems as pages by Accept, the access log, the time a head may take, the page of the API."""

from __future__ import annotations

import json
import re
import socket
import threading
from pathlib import Path

import pytest

from service import server
from tests.service.support import GOOD, serving

HTML = {"accept": "text/html,application/xhtml+xml"}


def test_problems_are_pages_for_browsers_and_documents_for_programs(project: Path) -> None:
    with serving(project, [GOOD]) as served:
        for path, status in (
            ("/tasks/task-9", 404),
            ("/nothing", 404),
            ("/captures/" + "0" * 36, 404),
            ("/?after=x", 422),
        ):
            page = served.client.get(path, headers=HTML)
            assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8"), path
            assert "<h1>" in page.text
            assert "script-src 'self'" in page.headers["content-security-policy"]
        assert served.client.get("/static/<script>x", headers=HTML).text.count("&lt;script") == 1
        foreign = served.client.get("/", headers={**HTML, "host": "evil.example"})
        assert (foreign.status_code, "403 Forbidden" in foreign.text) == (403, True)
        answer = served.client.post("/tasks", content="prompt=", headers=HTML)
        assert "go back and write" in answer.text
        document = served.client.get("/tasks/task-9")
        assert document.headers["content-type"] == "application/problem+json"
        assert served.client.head("/tasks/task-9", headers=HTML).text == ""


def until_told(log: Path) -> None:
    """The line is written after the answer is sent."""
    for _attempt in range(1500):
        if log.exists() and log.stat().st_size:
            return
        threading.Event().wait(0.02)


def test_the_access_log_tells_each_request_without_codes_and_follows_a_rotation(project: Path) -> None:
    log = project / "access.jsonl"
    with serving(project, [GOOD], given={"PM_SERVICE_ACCESS_LOG": str(log)}) as served:
        served.client.get('/login?code=secret"x', headers={"user-agent": 'a"b'})
        until_told(log)
        log.rename(project / "old.jsonl")
        served.client.get("/healthz")
        until_told(log)
    first, second = (json.loads(path.read_text()) for path in (project / "old.jsonl", log))
    assert (first["path"], first["status"], first["client"]) == ("/login", 403, "127.0.0.1")
    assert "secret" not in json.dumps(first)
    assert (second["path"], second["status"], log.stat().st_mode & 0o777) == ("/healthz", 200, 0o600)


def test_a_head_that_does_not_come_whole_ends_the_connection(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.2)
    with serving(project, [GOOD]) as served:
        place = ("127.0.0.1", int(served.url.rpartition(":")[2]))
        whole = f"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:{place[1]}\r\n".encode()
        for sent in (b"", b"GET / HT", whole):
            with socket.create_connection(place, timeout=30) as client:
                client.sendall(sent)
                told = b""
                while piece := client.recv(65536):
                    told += piece
            assert told.startswith(b"HTTP/1.1 408 Request Timeout\r\n"), sent
        with socket.create_connection(place, timeout=30) as client:  # a second request on the same connection
            client.sendall(whole + b"\r\n")
            while not told.endswith(b'"ok"}'):
                told += client.recv(65536)
            client.sendall(whole)
            while piece := client.recv(65536):
                told += piece
        assert told.count(b"408 Request Timeout") == 2


def test_the_api_s_page_names_every_operation_and_loads_nothing_foreign(project: Path) -> None:
    with serving(project, [GOOD]) as served:
        page = served.client.get("/docs").text
        document = served.client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["tags"], path
            assert f"{method.upper()} {path}" in page
    assert "https://" not in page
    assert "`" not in re.sub(r"<pre.*?</pre>", "", page, flags=re.DOTALL), "code is marked up"
    assert "<code>integer, from 1, to 500, default 100</code>" in page


def test_a_filter_that_names_no_event_is_refused(project: Path) -> None:
    with serving(project, [GOOD]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "x"}).json()["task_id"]
        served.until_ended(task_id)
        told = served.client.get(f"/api/tasks/{task_id}/trace?event=LLM_REQEST")
        assert (told.status_code, told.json()["next"]) == (422, "did you mean LLM_REQUEST?")
        assert served.client.get(f"/api/tasks/{task_id}/trace?event=llm_request,NEW_*").status_code == 200
