"""`pm serve` as people run it: a process of its own, ended by a signal."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from starlette.applications import Starlette

from service import security, server
from tests.collector.http.support import event, new_trace
from tests.repl.support import pm

ROOT = Path(__file__).parents[2]
CODE = "import sys; from repl.cli import main; sys.exit(main())"


def start(project: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, "serve", "--port", "0"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    return process, found[0]


def headers(project: Path) -> dict[str, str]:
    token = (project / ".pm-orchestrator" / "serve-token").read_text().strip()
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.torture)])
def test_a_signal_ends_it_quietly_with_exit_0(project: Path, number: signal.Signals) -> None:
    process, url = start(project)
    with httpx2.Client(base_url=url, headers=headers(project), timeout=60) as client:
        trace_id = client.post("/traces", json=new_trace()).json()["trace_id"]
        assert client.post(f"/traces/{trace_id}/events", json={"events": [event(1)]}).status_code == 200
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, ""), out


async def test_a_signal_before_the_server_listens_to_signals_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was ignored for the second after `serving …` was printed: whoever stopped it then waited for ever."""
    monkeypatch.setattr(server, "_calm_collector", lambda: signal.raise_signal(signal.SIGTERM))
    app = Starlette()
    app.state.service = SimpleNamespace(closing=asyncio.Event())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with asyncio.timeout(30):
            await server.run_server(app, listener)


@pytest.mark.torture
def test_what_was_acknowledged_is_there_after_a_kill(project: Path) -> None:
    process, url = start(project)
    with httpx2.Client(base_url=url, headers=headers(project), timeout=60) as client:
        trace_id = client.post("/traces", json=new_trace()).json()["trace_id"]
        for seq in range(1, 20):
            assert client.post(f"/traces/{trace_id}/events", json={"events": [event(seq)]}).status_code == 200
        process.kill()
        process.communicate(timeout=60)
    process, url = start(project)
    try:
        page = httpx2.get(f"{url}/traces/{trace_id}/events", headers=headers(project)).json()
        assert [each["seq"] for each in page["events"]] == list(range(1, 20))
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("database", "message"),
    [
        ("mysql://user:hidden-word@host/captures", "is not a SQLite file or a postgresql:// address"),
        ("/dev/null/captures.sqlite", "/dev/null"),
    ],
)
def test_a_store_that_cannot_be_used_is_told_before_anything_is_said_to_be_served(
    project: Path, database: str, message: str
) -> None:
    ran = pm("serve", "--port", "0", cwd=project, PM_COLLECTOR_DATABASE=database)
    assert (ran.code in {3, 5, 8}, ran.out) == (True, "")
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert "hidden-word" not in ran.out + ran.err


def test_another_token_replaces_that_of_a_running_service(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "_LOOK_S", 0.0)
    path = project / "serve-token"
    old = security.read_or_make_token(path)
    session = security.Session(old, file=path)
    code = session.link_code()
    new = security.read_or_make_token(path, new=True)
    assert (session.is_token(new.encode()), session.is_token(old.encode())) == (True, False)
    assert not session.redeem(code), "a link made with the old token"
    path.unlink()
    assert session.is_token(new.encode()), "without its file the token stays"
