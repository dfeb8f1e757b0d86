"""Paid collection from end to end: PostgreSQL, S3, a server, two workers, a contributor, an exporter, a withdrawal."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from collector.opening import open_blobs
from tests.collector.judge.rigs import a_reply
from tests.collector.recorder.support import Recording, desk
from tests.repl.support import Ran, command_line, environment, pm_process
from tests.support.containers import IMAGE, container_engine
from tests.support.model_server import ModelServer, Recorded, Turn
from tests.support.postgres import postgres_dsn, postgres_server  # noqa: F401
from tests.support.s3 import BUCKET, s3_environment
from tests.support.tools import need, need_program

pytestmark = [pytest.mark.container, pytest.mark.torture, pytest.mark.timeout(600)]
PATIENCE_S = 240
ENDED = ("complete", "qa_failed")
NOT_ALLOWED = 4
LETTERS = "abcdefghijklmnopqrstuvwxyz"
COMMAND = "python -m pytest -q -p no:cacheprovider test_cart.py"
SHELLS = ("bash", "zsh")


def judged(request: Recorded) -> Turn:
    """A judge's answer that cites an event of the packet."""
    text = request.body["messages"][0]["content"]
    cited = re.search(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text if isinstance(text, str) else str(text))
    assert cited is not None
    return Turn(text=json.dumps(a_reply(4, cite=[cited[0]])))


class Site:
    """The operator's machine: what the server and the workers are started with, and what lies in the database."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.environ = environ
        folder.mkdir()

    def pm(self, *words: str, **extra: str) -> Ran:
        ran = pm_process(*words, cwd=self.folder, **self.environ, **extra)
        assert ran.code == 0, ran.out + ran.err
        return ran

    @contextmanager
    def running(self, *words: str) -> Iterator[Path]:
        """A process of `pm`; its log."""
        log = self.folder.with_name(f"{words[-1].strip('-')}-{time.monotonic_ns()}.log")
        with log.open("wb") as out:
            process = subprocess.Popen(
                command_line(*words), cwd=self.folder, env=environment(**self.environ), stdout=out, stderr=out
            )
        try:
            yield log
            assert process.poll() is None, log.read_text()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    def in_database(self) -> bytes:
        """Every value of every row of every table, as text and as bytes."""
        import psycopg

        found = bytearray()
        with psycopg.connect(self.environ["PM_COLLECTOR_DATABASE"]) as connection:
            tables = connection.execute(
                "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables"
                " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            ).fetchall()
            for (table,) in tables:
                for row in connection.execute(f"SELECT * FROM {table}"):
                    found += b"\0".join(each if isinstance(each, bytes) else str(each).encode() for each in row)
        return bytes(found)

    def in_bucket(self) -> dict[str, bytes]:
        """All objects by their blob's id."""

        async def read() -> dict[str, bytes]:
            blobs = open_blobs(self.environ["PM_COLLECTOR_BLOBS"], default=self.folder, environ=self.environ)
            return {each.blob_id: await blobs.read(each.blob_id) async for each in blobs.stored()}

        return asyncio.run(read())


def wait_for(what: Callable[[], Any], *, told: Callable[[], str]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.2)
    raise AssertionError(told())


def printed(shell: str) -> bytes:
    return f"word-of-{shell}-4711".encode()


def is_bundle(content: bytes) -> bool:
    return content.startswith(b"# v2 git bundle")


def fix(recording: Recording, shell: str) -> None:
    recording.run("python -m pytest -q test_cart.py")
    recording.run(f"printf '%s-%s\\n' word-of {shell}-4711")
    recording.run("pm think 'total leaves the first price out' --kind hypothesis")
    recording.run("sed -i 's/prices\\[1:\\]/prices/' cart.py")
    recording.run("python -m pytest -q test_cart.py")
    recording.run("git commit -qam 'Sum all prices'")


def recorded(folder: Path, shell: str, address: str, token: str) -> str:
    """Record the fix as an annotator does; the trace's id."""
    folder.mkdir()
    words = random.Random(shell)
    files = {
        "_dot_pm-orchestrator__qa_dot_toml": f'[qa]\nrunner = "pytest"\ncommand = "{COMMAND}"\n',
        "_dot_gitignore": ".pm-orchestrator/*\n!.pm-orchestrator/qa.toml\n__pycache__\n",
        # so that the bundle is too long for the database
        "words_dot_txt": "".join("".join(words.choices(LETTERS, k=7)) + "\n" for _ in range(20_000)),
    }
    at = desk(folder, **files)
    with Recording(at, shell, "--server", address, consent="all", PM_CAPTURE_TOKEN=token) as recording:
        fix(recording, shell)
        recording.terminal.send(b"exit\r")
        recording.terminal.wait_for(f"Send this to {address}?", seconds=60)
        recording.terminal.send(b"y\r")
        assert recording.terminal.ends(seconds=60) == 0
    assert at.spool.sent.finalized
    return at.spool.trace_id


@pytest.mark.xdist_group("postgres")
def test_a_fix_is_recorded_proven_judged_exported_and_withdrawn(tmp_path: Path, postgres_dsn: str) -> None:  # noqa: F811
    container_engine()
    for shell in SHELLS:
        need_program(shell, how=f"install {shell}")
    with ExitStack() as stack:
        model = stack.enter_context(ModelServer(judged, sides=False))
        bucket = stack.enter_context(s3_environment())
        site = Site(
            tmp_path / "site",
            PM_COLLECTOR_DATABASE=postgres_dsn,
            PM_COLLECTOR_BLOBS=f"s3://{BUCKET}/blobs",
            PM_QA_SANDBOX="container",
            PM_QA_PYTHON_IMAGE=IMAGE,
            PM_QA_TRIALS="2",
            PM_JUDGE_BASE_URL=model.url,
            PM_API_KEY="test-key-of-the-judge",
            **bucket,
        )
        serving = stack.enter_context(site.running("serve", "--port", "0"))
        found = wait_for(lambda: re.search(r"serving .* at (http\S+)", serving.read_text()), told=serving.read_text)
        for _ in range(2):
            stack.enter_context(site.running("admin", "worker"))
        held = ("--role", "contributor", "--developer", "dev-17")
        contributor = site.pm("admin", "tokens", "new", *held).out.split()[-1]
        exporter = site.pm("admin", "tokens", "new", "--role", "exporter").out.split()[-1]
        at = {"server": found[1], "contributor": contributor, "exporter": exporter}
        traces = {shell: recorded(tmp_path / shell, shell, found[1], contributor) for shell in SHELLS}
        for trace_id in traces.values():
            proven_and_judged(site, trace_id, at)
        assert len(model.requests) == len(traces), "each is judged once"
        for shell in SHELLS:
            assert printed(shell) in site.in_database()
        assert len([*filter(is_bundle, site.in_bucket().values())]) >= len(SHELLS)
        exported(site, set(traces.values()))
        withdrawn(site, traces["bash"], at)
        erased(site, traces["zsh"], at)


def proven_and_judged(site: Site, trace_id: str, at: Mapping[str, str]) -> None:
    """Wait for the workers; the exporter, who reads and changes nothing, sees what came of it."""
    words = ("--server", at["server"])
    token = {"PM_CAPTURE_TOKEN": at["exporter"]}

    def shown() -> Any:
        return json.loads(site.pm("capture", "get", trace_id, "--view", "metadata", *words, **token).out)

    qa = wait_for(lambda: (told := shown())["status"] in ENDED and told["qa"], told=lambda: str(shown()))
    assert qa["tests"]["detail"]["proof"]["verdict"] == "proven", qa
    assert qa["judge"]["overall"] == 4.0
    assert qa["tests"]["detail"]["profile"]["commands"] == [COMMAND], "the repository says how"
    for act in ("withdraw", "delete"):
        assert pm_process("capture", act, trace_id, "--yes", *words, cwd=site.folder, **token).code == NOT_ALLOWED


def exported(site: Site, wanted: set[str]) -> None:
    """Every proven fix is a task that Harbor's own models take."""
    harbor = os.environ.get("PM_TEST_HARBOR")
    need(harbor, "harbor", how="PM_TEST_HARBOR=$(tests/support/install_harbor.sh) (Python 3.12)")
    site.pm("capture", "export", "--where", 'qa.verdict == "proven"', "--format", "harbor", "-o", "first")
    text = "import sys; from harbor.models.task.task import Task; print(Task(sys.argv[1]).config.artifacts[0].source)"
    tasks = {folder.name: folder for folder in (site.folder / "first").glob("*/*") if folder.is_dir()}
    assert set(tasks) == wanted
    for folder in tasks.values():
        read = subprocess.run([str(harbor), "-c", text, folder], check=False, capture_output=True, text=True)
        assert read.stdout.split() == ["/code"], read.stderr


def withdrawn(site: Site, trace_id: str, at: Mapping[str, str]) -> None:
    """The contributor takes all consent back: nothing of what it covered is left, and the other capture is whole."""
    before = site.in_bucket()
    site.pm("capture", "withdraw", trace_id, "--server", at["server"], PM_CAPTURE_TOKEN=at["contributor"])
    rows = site.in_database()
    assert printed("bash") not in rows
    assert printed("zsh") in rows
    after = site.in_bucket()
    assert len([*filter(is_bundle, before.values())]) > len([*filter(is_bundle, after.values())]) > 0
    assert not [name for name, content in after.items() if printed("bash") in content]
    site.pm("capture", "verify", "--all")
    site.pm("capture", "export", "--where", 'qa.verdict == "proven"', "--format", "harbor", "-o", "second")
    assert not list((site.folder / "second").glob(f"*/{trace_id}"))
    site.pm("capture", "export", "--where", "true", "--format", "chat", "-o", "third")
    told = b"".join(path.read_bytes() for path in (site.folder / "third").rglob("*.jsonl"))
    assert printed("bash") not in told
    assert printed("zsh") in told
    site.pm("capture", "revocations", "-o", "revocations.json")
    checked = pm_process(
        "capture", "check-set", "first", "--revocations", "revocations.json", cwd=site.folder, **site.environ
    )
    assert (checked.code, trace_id in checked.out) == (1, True), checked.out + checked.err


def erased(site: Site, trace_id: str, at: Mapping[str, str]) -> None:
    words = (trace_id, "--yes", "--erase-now", "--server", at["server"])
    site.pm("capture", "delete", *words, PM_CAPTURE_TOKEN=at["contributor"])
    assert printed("zsh") not in site.in_database()
    left = site.in_bucket()
    assert not [name for name, content in left.items() if is_bundle(content) or printed("zsh") in content]
    rows = site.in_database()
    assert all(name.encode() in rows for name in left), "the other capture's"
