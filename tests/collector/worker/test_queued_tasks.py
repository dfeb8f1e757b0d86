"""Whole tasks on workers: fetched from an allowed host, recorded fact by fact in PostgreSQL, seen from anywhere."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from collector.queued_tasks import MOST_ATTEMPTS, open_queued_tasks
from collector.task_source import check_out
from tests.collector.judge.command import environment, pm_command
from tests.collector.qa.test_checkout import _served  # git's own server on loopback
from tracer.errors import NotFoundError, UsageError

pytestmark = pytest.mark.xdist_group("postgres")
FIXED = "def half(x):\n    return x / 2\n"


class Sample:
    """A repository with a wrong function, as `_served` wants it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "calc.py").write_text("def half(x):\n    return x / 3\n")
        for words in (
            ["init", "-q", "-b", "main"],
            ["add", "-A"],
            ["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "base"],
        ):
            subprocess.run(["git", *words], cwd=folder, check=True)
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
        self.commit = done.stdout.strip()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Sample]]:
    sample = Sample(tmp_path / "sample")
    (tmp_path / "served").mkdir()
    with _served(sample, tmp_path / "served") as address:  # type: ignore[arg-type]  # only its folder is used
        subprocess.run(
            ["git", "-C", str(tmp_path / "served" / "calc.git"), "config", "uploadpack.allowAnySHA1InWant", "true"],
            check=True,
        )
        yield address, sample


def variables(dsn: str, address: str, script: Path) -> dict[str, str]:
    return {
        "PM_COLLECTOR_DATABASE": dsn,
        "PM_QA_REMOTES": address,
        "PM_EXECUTOR": "scripted",
        "PM_SCRIPT": str(script),
    }


def start(folder: Path, *words: str, log: Path, **environ: str) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    with log.open("wb") as out:
        return subprocess.Popen(
            pm_command("-C", str(folder), *words), env=environment(**environ), stdout=out, stderr=subprocess.STDOUT
        )


def script_of(folder: Path, *, delay_ms: int = 0) -> Path:
    path = folder / "script.jsonl"
    reply = {
        "output": "Divided by two in calc.py.",
        "files": {"calc.py": FIXED, "NEW.md": "new\n"},
        "delay_ms": delay_ms,
    }
    path.write_text(json.dumps(reply) + "\n")
    return path


async def rows(dsn: str, query: str) -> list[Any]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        return await (await connection.execute(query)).fetchall()  # type: ignore[call-overload,no-any-return]


async def test_a_task_is_stored_and_queued_together_and_begins_a_bounded_number_of_times(postgres_dsn: str) -> None:
    async with open_queued_tasks(postgres_dsn) as tasks:
        await tasks.submit(task_id="t1", repository="https://example.org/x", commit="a" * 40, request={"prompt": "p"})
        assert await rows(postgres_dsn, "SELECT entrypoint, convert_from(payload, 'UTF8') FROM pgqueuer") == [
            ("task", "t1")
        ]
        assert await tasks.pending() == ["t1"]
        for attempt in range(1, MOST_ATTEMPTS + 1):
            begun = await tasks.begin("t1")
            assert begun is not None
            assert begun.attempt == attempt
        assert await tasks.begin("t1") is None
        ended = await tasks.get("t1")
        assert (ended.status, (ended.result or {})["reason"]) == ("ERROR", "crash")
        assert await tasks.pending() == []
        with pytest.raises(NotFoundError):
            await tasks.get("t2")


async def test_facts_are_kept_by_attempt_in_order_and_once(postgres_dsn: str) -> None:
    async with open_queued_tasks(postgres_dsn) as tasks:
        await tasks.submit(task_id="t1", repository="r", commit="c", request={})
        await tasks.begin("t1")
        for seq in (1, 0, 1):
            await tasks.add_fact("t1", 1, seq, b"line %d\n" % seq)
        assert await tasks.facts("t1", attempt=1) == [(0, b"line 0\n"), (1, b"line 1\n")]
        assert await tasks.facts("t1", attempt=1, after=0) == [(1, b"line 1\n")]
        assert await tasks.facts("t1", attempt=2) == []
        await tasks.begin("t1")
        assert not await tasks.end("t1", attempt=1, status="COMPLETE", result={}, diff="")
        assert await tasks.end("t1", attempt=2, status="COMPLETE", result={}, diff="d\0")
        assert ((await tasks.get("t1")).status, (await tasks.get("t1")).diff) == ("COMPLETE", "d")


async def test_code_comes_from_listed_hosts_and_whole_ids_only(tmp_path: Path, served: tuple[str, Sample]) -> None:
    address, sample = served
    (tmp_path / "tree").mkdir()
    await check_out(f"{address}calc.git", sample.commit, tmp_path / "tree", remotes=(address,))
    assert (tmp_path / "tree" / "calc.py").read_text().endswith("x / 3\n")
    for repository, commit in (
        (f"file://{sample.folder}", sample.commit),
        (f"{address}calc.git", "main"),
        (f"{address}calc.git", "--upload-pack=x"),
        ("https://elsewhere.example/x", sample.commit),
    ):
        with pytest.raises(UsageError):
            await check_out(repository, commit, tmp_path / "tree", remotes=(address,))


async def test_a_secret_in_the_request_never_reaches_the_database(tmp_path: Path, postgres_dsn: str) -> None:
    secret = "-".join(["sk", "ant", "api03", "A1b2C3d4E5f6G7h8" * 6 + "AA"])
    words = ["run", "--queue", "--repository", "https://example.org/x", "--commit", "a" * 40, f"use {secret} to log in"]
    seen = start(tmp_path / "here", *words, log=tmp_path / "seen.log", PM_COLLECTOR_DATABASE=postgres_dsn)
    try:
        async with open_queued_tasks(postgres_dsn) as tasks:
            async with asyncio.timeout(40):
                while not (listed := await tasks.listing()):
                    assert seen.poll() is None, (tmp_path / "seen.log").read_text()
                    await asyncio.sleep(0.05)
    finally:
        seen.terminate()
        seen.wait(20)
    assert listed[0].request["prompt"].startswith("use [REDACTED:")
    assert secret not in json.dumps(listed[0].request)


@pytest.mark.torture
async def test_a_queued_task_runs_on_a_worker_and_is_seen_from_here(
    tmp_path: Path, postgres_dsn: str, served: tuple[str, Sample]
) -> None:
    address, sample = served
    environ = variables(postgres_dsn, address, script_of(tmp_path))
    worker = start(tmp_path / "worker", "worker", log=tmp_path / "worker.log", **environ)
    words = ["run", "--queue", "--repository", f"{address}calc.git", "--commit", sample.commit, "mend half()"]
    seen = start(tmp_path / "here", *words, log=tmp_path / "seen.log", PM_COLLECTOR_DATABASE=postgres_dsn)
    try:
        code = await asyncio.to_thread(seen.wait, 60)
    finally:
        worker.terminate()
        worker.wait(30)
    told = (tmp_path / "seen.log").read_text()
    assert code == 0, told + (tmp_path / "worker.log").read_text()
    assert "USER_REQUEST: mend half()" in told
    assert "FINAL_SUMMARY" in told
    async with open_queued_tasks(postgres_dsn) as tasks:
        (task,) = await tasks.listing()
    assert (task.status, task.attempt) == ("COMPLETE", 1)
    subprocess.run(["git", "apply"], input=(task.diff or "").encode(), cwd=sample.folder, check=True)
    assert (sample.folder / "calc.py").read_text() == FIXED
    assert (sample.folder / "NEW.md").read_text() == "new\n"


@pytest.mark.torture
async def test_a_task_whose_worker_is_killed_is_begun_again_by_another(
    tmp_path: Path, postgres_dsn: str, served: tuple[str, Sample]
) -> None:
    address, sample = served
    slow = variables(postgres_dsn, address, script_of(tmp_path, delay_ms=60_000))
    quick = {"PM_WORKER_HEARTBEAT": "2"}
    async with open_queued_tasks(postgres_dsn) as tasks:
        request = {"prompt": "mend half()", "flags": {}}
        await tasks.submit(task_id="t1", repository=f"{address}calc.git", commit=sample.commit, request=request)
        first = start(tmp_path / "a", "worker", log=tmp_path / "a.log", **slow, **quick)
        deadline = time.monotonic() + 40
        while not await tasks.facts("t1", attempt=1, after=1):
            assert time.monotonic() < deadline, (tmp_path / "a.log").read_text()
            await asyncio.sleep(0.1)
        os.kill(first.pid, signal.SIGKILL)
        first.wait(10)
        fast = variables(postgres_dsn, address, script_of(tmp_path))
        second = start(tmp_path / "b", "worker", log=tmp_path / "b.log", **fast, **quick)
        try:
            while (await tasks.get("t1")).status in {"QUEUED", "RUNNING"}:
                assert time.monotonic() < deadline + 40, (tmp_path / "b.log").read_text()
                await asyncio.sleep(0.1)
        finally:
            second.terminate()
            second.wait(30)
        ended = await tasks.get("t1")
        assert (ended.status, ended.attempt) == ("COMPLETE", 2)
        assert await tasks.facts("t1", attempt=1)
        assert b"FINAL_SUMMARY" in (await tasks.facts("t1", attempt=2))[-1][1]
