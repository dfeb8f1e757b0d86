"""What every sandbox promises, run on a container engine and on bubblewrap."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collector.qa.sandbox.bubblewrap import BubblewrapSandbox
from collector.qa.sandbox.container import ContainerSandbox
from collector.qa.sandbox.port import Limits, Sandbox
from tests.collector.qa.support import job_of
from tests.support.containers import IMAGE, container_engine, docker_command
from tests.support.tools import need_program


@pytest.fixture(scope="module")
def docker_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    with docker_command(tmp_path_factory.mktemp("d")) as address:
        yield address


@pytest.fixture(
    params=[
        pytest.param("container", marks=pytest.mark.container),
        pytest.param("docker", marks=pytest.mark.container),
        pytest.param("bubblewrap", marks=pytest.mark.machine),
    ]
)
async def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sandbox]:
    if request.param == "docker":
        address = request.getfixturevalue("docker_host")
        if address is not None:
            monkeypatch.setenv("DOCKER_HOST", address)
        yield ContainerSandbox("docker")
        return
    if request.param == "container":
        yield ContainerSandbox(container_engine())
        return
    need_program("bwrap", how="apt-get install bubblewrap")
    yield BubblewrapSandbox()


async def test_a_command_gives_its_exit_code_its_streams_and_its_reports(sandbox: Sandbox, tmp_path: Path) -> None:
    job = job_of(
        tmp_path,
        "cat deep/file.txt; echo fault >&2; echo '<x/>' > report.xml; mkdir out; echo 1 > out/a.xml; exit 3",
        image=IMAGE,
        files={"deep/file.txt": "content"},
        reports=("report.xml", "out/*.xml", "absent.xml"),
    )
    outcome = await sandbox.run(job)
    assert (outcome.kind, outcome.exit_code, outcome.stdout) == ("exit", 3, b"content")
    assert b"fault" in outcome.stderr
    assert outcome.reports == {"report.xml": b"<x/>\n", "out/a.xml": b"1\n"}


async def test_bytes_that_are_no_text_come_out_as_they_are(sandbox: Sandbox, tmp_path: Path) -> None:
    outcome = await sandbox.run(job_of(tmp_path, r"printf '\377\000\200 end 0 0\n'", image=IMAGE))
    assert outcome.stdout == b"\xff\x00\x80 end 0 0\n"


async def test_a_report_that_is_a_link_is_not_followed(sandbox: Sandbox, tmp_path: Path) -> None:
    outcome = await sandbox.run(job_of(tmp_path, "ln -s /etc/passwd r.xml", image=IMAGE, reports=("r.xml",)))
    assert outcome.reports == {}


async def test_a_tool_that_is_not_there_is_told_apart_from_a_failure(sandbox: Sandbox, tmp_path: Path) -> None:
    outcome = await sandbox.run(job_of(tmp_path, "exit 0", image=IMAGE, probe="no-such-tool --version"))
    assert (outcome.kind, outcome.exit_code) == ("missing", None)


async def test_a_command_that_takes_too_long_is_ended(sandbox: Sandbox, tmp_path: Path) -> None:
    job = job_of(tmp_path, "echo begun; sleep 1000", image=IMAGE, limits=Limits(time_s=1.0))
    outcome = await sandbox.run(job)
    assert (outcome.kind, outcome.exit_code, outcome.stdout) == ("timeout", None, b"begun\n")


@pytest.mark.parametrize("stream", ["", ">&2"])
async def test_a_command_that_writes_too_much_is_ended_and_little_is_kept(
    sandbox: Sandbox, tmp_path: Path, stream: str
) -> None:
    limits = Limits(output_bytes=2 << 20, keep_bytes=64 << 10)
    outcome = await sandbox.run(job_of(tmp_path, f"yes {stream}", image=IMAGE, limits=limits))
    assert outcome.kind == "output"
    assert len(outcome.stdout) + len(outcome.stderr) < 256 << 10
    assert outcome.dropped_bytes > 1 << 20


async def test_memory_beyond_the_limit_is_told_as_such(sandbox: Sandbox, tmp_path: Path) -> None:
    grow = "import time\nheld = []\nwhile True:\n    held.append(b'x' * (4 << 20)); time.sleep(0.01)"
    limits = Limits(memory_bytes=96 << 20, time_s=50.0)
    outcome = await sandbox.run(
        job_of(tmp_path, "python3 grow.py", image=IMAGE, files={"grow.py": grow}, limits=limits)
    )
    assert outcome.kind == "oom"


async def test_processes_left_behind_end_with_the_command(sandbox: Sandbox, tmp_path: Path) -> None:
    mark = f"7{abs(hash(str(tmp_path))) % 10**7}"
    outcome = await sandbox.run(job_of(tmp_path, f"sleep {mark} & setsid sleep {mark} & echo done", image=IMAGE))
    assert outcome.passed
    assert _processes(f"sleep {mark}") == []


async def test_there_is_no_network_no_root_and_nothing_to_write_but_the_work(sandbox: Sandbox, tmp_path: Path) -> None:
    script = """
    id -u
    grep -v -e lo: -e '|' /proc/net/dev
    for place in / /etc /usr /usr/bin /var /root /opt; do touch $place/x 2>/dev/null && echo wrote $place; done
    touch here /tmp/there && echo wrote
    """
    outcome = await sandbox.run(job_of(tmp_path, script, image=IMAGE))
    assert outcome.stdout.split() == [b"65534", b"wrote"]


async def test_the_first_process_cannot_be_killed_from_inside(sandbox: Sandbox, tmp_path: Path) -> None:
    outcome = await sandbox.run(job_of(tmp_path, "kill -9 1; kill -9 -1; exit 7", image=IMAGE))
    assert (outcome.kind, outcome.exit_code) == ("exit", 7)


async def test_the_tree_can_be_saved_and_used_again(sandbox: Sandbox, tmp_path: Path) -> None:
    saved = tmp_path / "saved.tar"
    built = await sandbox.run(job_of(tmp_path, "echo made > made.txt", image=IMAGE, save=saved, files={"old": "x"}))
    assert built.saved
    again = replace(job_of(tmp_path, "cat made.txt old", image=IMAGE), source=saved)
    assert (await sandbox.run(again)).stdout == b"made\nx"


async def test_a_tree_larger_than_the_work_folder_is_told_as_such(sandbox: Sandbox, tmp_path: Path) -> None:
    job = job_of(
        tmp_path, "exit 0", image=IMAGE, files={"big": "x" * (4 << 20)}, limits=Limits(workspace_bytes=1 << 20)
    )
    assert (await sandbox.run(job)).kind == "no_room"


async def test_a_cancelled_run_leaves_nothing_running(sandbox: Sandbox, tmp_path: Path) -> None:
    mark = f"8{abs(hash(str(tmp_path))) % 10**7}"
    running = asyncio.create_task(sandbox.run(job_of(tmp_path, f"sleep {mark}", image=IMAGE)))
    while not _processes(f"sleep {mark}"):
        await asyncio.sleep(0.05)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert _processes(f"sleep {mark}") == []


async def test_the_secrets_of_our_environment_are_not_inside(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-very-secret")
    monkeypatch.setenv("HTTP_PROXY", "http://user:word@proxy")
    outcome = await sandbox.run(job_of(tmp_path, "env; cat /proc/1/environ", image=IMAGE))
    assert b"secret" not in outcome.stdout
    assert b"proxy" not in outcome.stdout


def _processes(command: str) -> list[str]:
    done = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if line.strip() == command]
