"""`pm serve` as people run it: a process of its own, ended by a signal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.collector.http.support import event, new_trace

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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_quietly_with_exit_0(project: Path, number: signal.Signals) -> None:
    process, url = start(project)
    with httpx2.Client(base_url=url, headers=headers(project), timeout=60) as client:
        trace_id = client.post("/traces", json=new_trace()).json()["trace_id"]
        assert client.post(f"/traces/{trace_id}/events", json={"events": [event(1)]}).status_code == 200
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, ""), out


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


def test_a_store_that_cannot_be_used_is_told_in_three_lines(project: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PM_COLLECTOR_DATABASE": "mysql://user:hidden-word@host/captures"}
    ran = subprocess.run(
        [sys.executable, "-c", CODE, "serve", "--port", "0"],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 3
    assert ran.stderr.splitlines()[0] == "pm: collector.database names no database we know"
    assert "Traceback" not in ran.stderr
    assert "hidden-word" not in ran.stdout + ran.stderr
