"""kill -9 of the server that checks captures itself, at any moment: every finalized trace ends with one result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.collector.judge.captures import events, uid
from tests.collector.judge.command import environment, pm_command
from tests.collector.judge.rigs import a_reply

ROOT = Path(__file__).resolve().parents[3]


class Server:
    """`pm serve` in a process group of its own, found by what it prints."""

    def __init__(self, folder: Path) -> None:
        recording = folder / "judge.jsonl"
        recording.write_text(json.dumps({"reply": a_reply(4, cite=[uid(1)])}) + "\n")
        self.folder = folder
        self.log = folder / f"serve-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                pm_command("-C", str(folder), "serve", "--port", "0"),
                env=environment(PM_JUDGE_RECORDING=str(recording)),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.url = self._address()

    def _address(self) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = [line.split(" at ")[1] for line in self.log.read_text().splitlines() if line.startswith("serving ")]
            if found and self._answers(found[0]):
                return found[0]
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def _answers(self, url: str) -> bool:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def call(self, method: str, path: str, body: Any = None) -> Any:
        token = (self.folder / ".pm-orchestrator" / "serve-token").read_text().strip()
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(30)


def finalized(server: Server, number: int) -> str:
    consent = {"store_raw_code": True, "store_terminal_output": True, "allow_llm_judge": True}
    created = server.call(
        "POST",
        "/traces",
        {
            "trace_id": uid(number),
            "repo": {"repo_id": "calc", "commit_base": "a" * 40},
            "task": {"bug_report": {"title": "half() is a third", "description": "half(6) gives 2"}},
            "developer": {"developer_id": "dev-1", "consent_flags": consent},
            "environment": {},
            "ingestion": {"mode": "batch", "client_session_id": "s"},
        },
    )
    server.call("POST", f"/traces/{created['trace_id']}/events", {"events": events()})
    server.call("POST", f"/traces/{created['trace_id']}/finalize", {})
    return str(created["trace_id"])


def wait_for_end(server: Server, trace_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        told: dict[str, Any] = server.call("GET", f"/traces/{trace_id}?view=metadata")
        if told["status"] in {"complete", "qa_failed"}:
            return told
        time.sleep(0.05)
    raise AssertionError("no result")


def facts(folder: Path, trace_id: str) -> list[tuple[str, str]]:
    import sqlite3

    with sqlite3.connect(folder / ".pm-orchestrator" / "collector.sqlite") as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = next(name for name in tables if name.startswith("qa"))
        return list(connection.execute(f"SELECT step, input_hash FROM {table} WHERE trace_id = ?", (trace_id,)))


def assert_one_result(folder: Path, told: dict[str, Any]) -> None:
    assert told["status"] == "complete"
    assert told["qa"]["judge"]["overall"] == 4.0
    assert told["qa"]["schema_valid"] is True
    steps = [step for step, _ in facts(folder, told["trace_id"])]
    assert {step: steps.count(step) for step in ("schema", "judge", "materialize")} == {
        "schema": 1,
        "judge": 1,
        "materialize": 1,
    }


def test_a_finalized_trace_is_checked_by_the_server_itself(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        told = wait_for_end(server, finalized(server, 800))
    finally:
        code = server.end()
    assert_one_result(tmp_path, told)
    assert code in {0, 143}


@pytest.mark.torture
@pytest.mark.parametrize("after_ms", [0, 5, 10, 20, 35, 50, 80, 120, 200, 400])
def test_a_server_killed_at_any_moment_leaves_one_result_after_its_restart(tmp_path: Path, after_ms: int) -> None:
    first = Server(tmp_path)
    ids = [finalized(first, 810), finalized(first, 811)]
    time.sleep(after_ms / 1000)
    first.kill()
    second = Server(tmp_path)
    try:
        for trace_id in ids:
            assert_one_result(tmp_path, wait_for_end(second, trace_id))
    finally:
        second.end()


@pytest.mark.machine
@pytest.mark.torture
def test_the_example_tells_its_whole_story(tmp_path: Path) -> None:
    import shutil

    from tests.support.tools import need

    need(shutil.which("podman") or shutil.which("docker") or shutil.which("bwrap"), "sandbox", how="install podman")
    need(shutil.which("curl"), "curl", how="install curl")
    program = tmp_path / "pm"
    words = " ".join(f"'{word}'" for word in pm_command())
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        [str(ROOT / "examples" / "e2e.sh")],
        env=environment(PM=str(program), PM_E2E_OUT=str(tmp_path / "final.json")),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    document = json.loads((tmp_path / "final.json").read_bytes())
    assert document["qa"]["tests"]["final_passed"] is True
    assert document["qa"]["tests"]["detail"]["proof"]["counts"]["fail_to_pass"] == 2
    assert document["qa"]["judge"]["overall"] == 4.5
