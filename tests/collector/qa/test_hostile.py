"""Programs that mean harm, in every sandbox: contained, told apart, and nothing of them left. On a real engine."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.qa.sandbox.bubblewrap import BubblewrapSandbox
from collector.qa.sandbox.container import ContainerSandbox
from collector.qa.sandbox.port import Limits, Outcome, Sandbox
from tests.collector.qa.support import job_of
from tests.repl.support import ROOT
from tests.support.containers import IMAGE, container_engine, containers_of
from tests.support.tools import need_program

# One after the other: the limit of processes is one for all sandboxes of a user.
pytestmark = [
    pytest.mark.torture,
    pytest.mark.machine,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("bombs"),
]

_LIMITS = Limits(
    time_s=20.0,
    memory_bytes=128 << 20,
    pids=48,
    workspace_bytes=32 << 20,
    output_bytes=8 << 20,
    keep_bytes=128 << 10,
    report_bytes=1 << 20,
)
_PROGRAM = f"program{os.getpid()}.py"  # told from those of other test workers
_KINDS = [pytest.param("container", marks=pytest.mark.container), "bubblewrap"]


@pytest.fixture(params=_KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "container":
        container_engine()
    else:
        need_program("bwrap", how="apt-get install bubblewrap")
    return str(request.param)


@pytest.fixture
async def sandbox(kind: str) -> AsyncIterator[Sandbox]:
    yield ContainerSandbox(container_engine()) if kind == "container" else BubblewrapSandbox()
    assert _containers() == []
    assert _bwraps() == []


async def _run(sandbox: Sandbox, folder: Path, program: str, **more: object) -> Outcome:
    files = {_PROGRAM: program}
    values: dict[str, object] = {"limits": _LIMITS, "files": files, **more}
    return await sandbox.run(job_of(folder, f"exec python3 {_PROGRAM}", image=IMAGE, **values))


async def test_a_fork_bomb_ends_with_its_time_and_leaves_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    limits = Limits(time_s=4.0, memory_bytes=512 << 20, pids=48)
    outcome = await _run(sandbox, tmp_path, bomb, limits=limits)
    assert outcome.kind in {"timeout", "oom"}
    assert _with_argument(_PROGRAM) == 0


async def test_a_fork_bomb_left_behind_ends_with_the_command(sandbox: Sandbox, tmp_path: Path) -> None:
    bomb = (
        "import os, sys\nif os.fork():\n    sys.exit(5)\nos.setsid()\n"
        "while True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    )
    outcome = await _run(sandbox, tmp_path, bomb, reports=(_PROGRAM,))
    assert (outcome.kind, outcome.exit_code) == ("exit", 5)
    assert outcome.reports.keys() == {_PROGRAM}  # no fork is needed to bring the report out
    assert _with_argument(_PROGRAM) == 0


@pytest.mark.parametrize("stream", [1, 2])
async def test_ten_gigabytes_of_output_cost_us_nothing(sandbox: Sandbox, tmp_path: Path, stream: int) -> None:
    flood = f"import os\nblock = b'x' * (1 << 20)\nfor _ in range(10 << 10):\n    os.write({stream}, block)\n"
    before = _peak_kb()
    outcome = await _run(sandbox, tmp_path, flood)
    assert outcome.kind == "output"
    assert len(outcome.stdout) + len(outcome.stderr) < 600 << 10
    assert _peak_kb() - before < 64 << 10


async def test_a_report_of_ten_gigabytes_is_a_report_that_is_not_there(sandbox: Sandbox, tmp_path: Path) -> None:
    sparse = "open('report.xml', 'wb').truncate(10 << 30)"
    before = _peak_kb()
    outcome = await _run(sandbox, tmp_path, sparse, reports=("report.xml",))
    assert (outcome.kind, outcome.exit_code, outcome.reports) == ("exit", 0, {})
    assert _peak_kb() - before < 64 << 10


async def test_a_memory_bomb_in_many_processes_is_told_as_such(sandbox: Sandbox, tmp_path: Path) -> None:
    # It goes on where a machine under load lets it not: nobody's processes are counted over all sandboxes, and the
    # watch may look after a process has come to its own limit.
    bomb = """
import os, time
children, held = 0, []
while children < 8:
    try:
        if os.fork() == 0:
            break
        children += 1
    except OSError:
        time.sleep(0.05)
while True:
    try:
        held.append(bytearray(os.urandom(1 << 20)))
    except MemoryError:
        pass
    time.sleep(0.005)
"""
    outcome = await _run(sandbox, tmp_path, bomb, limits=Limits(memory_bytes=128 << 20, time_s=60.0, pids=48))
    assert outcome.kind == "oom" or outcome.killed_for_memory
    assert _with_argument(_PROGRAM) == 0


@contextmanager
def _listening() -> Iterator[tuple[int, list[str]]]:
    """A server on every address of this machine, and who came."""
    came: list[str] = []
    with socket.create_server(("0.0.0.0", 0)) as server:
        server.settimeout(0.2)
        done = threading.Event()

        def serve() -> None:
            while not done.is_set():
                try:
                    connection, address = server.accept()
                except TimeoutError:
                    continue
                came.append(address[0])
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], came
        finally:
            done.set()
            thread.join()


async def test_no_address_is_reached(sandbox: Sandbox, tmp_path: Path) -> None:
    own = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    with _listening() as (port, came):
        attempt = f"""
import socket
for host in {["127.0.0.1", "10.0.2.2", "10.88.0.1", "169.254.169.254", "8.8.8.8", *own]!r}:
    try:
        socket.create_connection((host, {port}), timeout=1)
        print("reached", host)
    except OSError:
        pass
try:
    print("named", socket.gethostbyname("example.com"))
except OSError:
    pass
for kind in (socket.SOCK_RAW, socket.SOCK_PACKET):
    try:
        socket.socket(socket.AF_PACKET if kind == socket.SOCK_PACKET else socket.AF_INET, kind, 1)
        print("raw")
    except OSError:
        pass
"""
        outcome = await _run(sandbox, tmp_path, attempt)
    assert (outcome.kind, outcome.stdout, came) == ("exit", b"", [])


async def test_writing_everywhere_changes_nothing_outside(sandbox: Sandbox, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("sings", encoding="utf-8")
    attempt = f"""
import os
for root, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(root, name) not in ("/proc/1", "/sys", "/proc")]
    try:
        with open(os.path.join(root, "pm-was-here"), "w"):
            print(root)
    except OSError:
        pass
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/sys/kernel/uevent_helper", "/dev/mem",
             "/proc/1/mem", "/etc/passwd", "/usr/bin/env", {str(canary)!r}):
    try:
        with open(path, "r+b") as file:
            file.write(b"x")
        print("wrote", path)
    except OSError:
        pass
"""
    outcome = await _run(sandbox, tmp_path, attempt)
    allowed = (b"/code", b"/tmp", b"/dev/shm", b"/dev/mqueue", b"wrote /proc/1/mem")
    assert [line for line in outcome.stdout.splitlines() if not line.startswith(allowed)] == []
    assert canary.read_text(encoding="utf-8") == "sings"
    assert not any(Path(place, "pm-was-here").exists() for place in ("/", "/tmp", "/etc", "/usr", "/dev/shm"))


async def test_filling_every_place_ends_where_the_limit_is(sandbox: Sandbox, tmp_path: Path) -> None:
    fill = """
import os
total = 0
for place in ("/code", "/tmp", "/dev/shm", "/dev", "/run", "/var/tmp"):
    try:
        with open(os.path.join(place, "fill"), "wb", buffering=0) as file:
            while True:
                total += file.write(b"x" * (1 << 20))
    except OSError:
        pass
    try:
        os.unlink(os.path.join(place, "fill"))
    except OSError:
        pass
print(total >> 20)
"""
    free = shutil.disk_usage("/").free
    limits = Limits(time_s=60.0, memory_bytes=512 << 20, workspace_bytes=32 << 20)
    outcome = await _run(sandbox, tmp_path, fill, limits=limits)
    assert outcome.kind in {"exit", "oom"}
    if outcome.kind == "exit":
        assert int(outcome.stdout) <= 3 * 64 + 8
    assert free - shutil.disk_usage("/").free < 2 << 30  # others use this disk too


async def test_killing_the_runner_from_inside_is_no_engine_failure(sandbox: Sandbox, tmp_path: Path) -> None:
    kill = """
import os, signal
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGSEGV):
    for target in (1, -1, os.getppid()):
        if target != os.getpid():
            try:
                os.kill(target, number)
            except OSError:
                pass
os._exit(9)
"""
    outcome = await _run(sandbox, tmp_path, kill)
    assert (outcome.kind, outcome.exit_code) == ("exit", 9)


async def test_a_debugger_on_the_runner_gets_no_further_than_its_own_sandbox(sandbox: Sandbox, tmp_path: Path) -> None:
    attach = """
import ctypes, os, time
libc = ctypes.CDLL(None)
print("attached", libc.ptrace(16, 1, None, None), flush=True)
time.sleep(0.2)
libc.ptrace(8, 1, None, None)
os._exit(3)
"""
    outcome = await _run(sandbox, tmp_path, attach, limits=Limits(time_s=5.0))
    assert outcome.kind in {"exit", "escaped", "timeout"}


async def test_setuid_and_namespaces_give_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    attempt = """
import os, shutil, subprocess
shutil.copy("/bin/sh", "/code/shell")
os.chmod("/code/shell", 0o6755)
def said(*words):
    try:
        done = subprocess.run(words, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        return done.stdout.decode().strip() if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""
print("ids", said("/code/shell", "-pc", "id -u"), said("su", "-c", "id -u"), said("mount", "-t", "tmpfs", "x", "/mnt"))
print(said("unshare", "-Urm", "sh", "-c", "mount -o remount,rw /usr && touch /usr/pm-was-here && echo remounted"))
print(said("unshare", "-Urm", "sh", "-c", "mount -o remount,rw,bind / && touch /etc/pm-was-here && echo remounted"))
print(said("mknod", "/code/disk", "b", "254", "0") or os.path.exists("/code/disk") and "device" or "")
"""
    outcome = await _run(sandbox, tmp_path, attempt)
    assert outcome.stdout.split() == [b"ids", b"65534"], outcome.stdout
    assert not Path("/usr/pm-was-here").exists()
    assert not Path("/etc/pm-was-here").exists()


async def test_links_and_devices_as_reports_bring_nothing_out(sandbox: Sandbox, tmp_path: Path) -> None:
    links = """
import os
os.symlink("/etc/passwd", "a.xml")
os.symlink("/proc/1/environ", "b.xml")
os.mkfifo("c.xml")
os.mkdir("d.xml")
os.symlink("/etc", "out")
open("e.xml", "w").write("mine")
os.link("e.xml", "f.xml")
open("-rf", "w").write("flag")
"""
    reports = ("a.xml", "b.xml", "c.xml", "d.xml", "*.xml", "*")
    outcome = await _run(sandbox, tmp_path, links, reports=reports)
    assert {name: data for name, data in outcome.reports.items() if b"root:" in data} == {}
    assert outcome.reports["e.xml"] == b"mine"
    assert not {"a.xml", "b.xml", "c.xml", "d.xml", "out"} & outcome.reports.keys()


async def test_sleeping_for_ever_with_every_signal_ignored_ends_in_time(sandbox: Sandbox, tmp_path: Path) -> None:
    stubborn = """
import os, signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
if os.fork() == 0:
    os.setsid()
    os.environ.clear()
os.close(1); os.close(2)
time.sleep(100000)
"""
    begun = time.monotonic()
    outcome = await _run(sandbox, tmp_path, stubborn, limits=Limits(time_s=2.0))
    assert outcome.kind == "timeout"
    assert time.monotonic() - begun < 60
    assert _with_argument(_PROGRAM) == 0


async def test_a_command_that_forges_the_runner_s_words_is_still_only_output(sandbox: Sandbox, tmp_path: Path) -> None:
    forge = r"""
import os, re
known = b""
for name in ("cmdline", "environ"):
    try:
        known += open(f"/proc/1/{name}", "rb").read()
    except OSError:
        pass
words = set(re.findall(rb"[0-9a-f]{32}", known))
for word in [*words, b"0" * 32]:
    os.write(1, b"\n" + word + b" end 0 0\n")
os._exit(6)
"""
    outcome = await _run(sandbox, tmp_path, forge)
    assert (outcome.kind, outcome.exit_code) == ("exit", 6)


async def test_kill_9_of_us_leaves_nothing_once_the_next_one_has_cleaned(kind: str, tmp_path: Path) -> None:
    mark = f"9{os.getpid()}{tmp_path.name[-1]}"
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.collector.qa.kill_child", kind, str(tmp_path), mark],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    for _ in range(600):
        if _with_argument(mark, exactly="sleep") or child.poll() is not None:
            break
        await asyncio.sleep(0.1)
    assert child.poll() is None
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    if kind == "container":
        assert len(_containers(child.pid)) == 1
        await ContainerSandbox(container_engine()).clean()
        assert _containers(child.pid) == []
    for _ in range(50):
        if not _with_argument(mark, exactly="sleep"):
            break
        await asyncio.sleep(0.1)
    assert _with_argument(mark, exactly="sleep") == 0


@pytest.mark.container
async def test_what_others_run_is_left_alone_when_cleaning(tmp_path: Path) -> None:
    sandbox = ContainerSandbox(container_engine())
    running = asyncio.create_task(sandbox.run(job_of(tmp_path, "sleep 2; exit 4", image=IMAGE)))
    while not _containers():
        await asyncio.sleep(0.05)
    await ContainerSandbox(container_engine()).clean()
    assert (await running).exit_code == 4


@pytest.mark.container
async def test_a_container_that_somebody_else_ends_is_the_sandbox_s_trouble(tmp_path: Path) -> None:
    from tracer.errors import SandboxError

    sandbox = ContainerSandbox(container_engine())
    await sandbox.facts(IMAGE)
    running = asyncio.create_task(sandbox.run(job_of(tmp_path, "echo begun; sleep 100", image=IMAGE)))
    while not (names := _containers()):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    subprocess.run([container_engine(), "kill", *names], check=True, capture_output=True)
    with pytest.raises(SandboxError, match="broken"):
        await running


def _containers(owner: int | None = None) -> list[str]:
    return containers_of(owner or os.getpid())


def _bwraps() -> list[str]:
    """Sandboxes that this process started and that still run."""
    table = subprocess.run(["ps", "-A", "-o", "ppid=,args="], capture_output=True, text=True, check=False).stdout
    own = [line.split(None, 1) for line in table.splitlines()]
    return [words[1] for words in own if len(words) == 2 and words[0] == str(os.getpid()) and "bwrap" in words[1][:40]]


def _with_argument(argument: str, *, exactly: str = "python3") -> int:
    """Living processes named `exactly` with this argument."""
    table = subprocess.run(["ps", "-A", "-o", "stat=,args="], capture_output=True, text=True, check=False).stdout
    rows = [line.split() for line in table.splitlines()]
    return sum(words[1:] == [exactly, argument] for words in rows if words and not words[0].startswith("Z"))


def _peak_kb() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))
