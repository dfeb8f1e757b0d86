"""The lesser sandbox: bubblewrap, with the machine's own tools read-only; recorded as lesser.

Inside: an empty root, size-limited work and temporary folders, own namespaces, no capabilities. Memory is watched, not
enforced by the kernel; there is no CPU limit and no image. It ends with this process, also on kill -9.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from collector.qa.sandbox.owners import first_that_works
from collector.qa.sandbox.port import Guarantee, Job, Limits, Outcome, SandboxFacts
from collector.qa.sandbox.script import PROBE, WORKSPACE, held_from, process_limit, script_arguments
from collector.qa.sandbox.talk import Cut, outcome_of, talk
from runner.processes.bubblewrap import bubblewrap_command
from runner.processes.command import run_command
from runner.processes.environment import command_environment
from runner.processes.process import Process
from runner.processes.process_table import ProcessEntry, entry_of, send_signal, snapshot
from tracer.clock import monotonic, short_token
from tracer.errors import SandboxError

_END_LIMIT_S: Final = 20.0
_PAUSE_S: Final = 0.02
_AT_ONCE: Final = 100


def memory_below(pid: int) -> int:
    """Bytes that belong to `pid` and its descendants alone; pages shared with files are not counted."""
    return sum(_own_bytes(entry.pid) for entry in _members(pid))


async def end_below(pid: int) -> None:
    """Kill `pid`, a namespace's first process (the kernel then ends the rest), and wait until all below it are gone."""
    members = await asyncio.to_thread(_members, pid)
    members.sort(key=lambda entry: (entry.pid != pid, len(entry.start), entry.start))
    give_up = monotonic() + _END_LIMIT_S
    while members and monotonic() < give_up:
        for entry in members[:_AT_ONCE]:  # the oldest first: the keeper, then the namespace's first process
            send_signal(entry, signal.SIGKILL)
        await asyncio.sleep(_PAUSE_S)
        found = [(entry, entry_of(entry.pid)) for entry in members if entry.pid != pid]
        members = [entry for entry, now in found if now is not None and now.start == entry.start]


def _members(pid: int) -> list[ProcessEntry]:
    table = snapshot()
    members = {pid}
    while more := {entry.pid for entry in table.values() if entry.parent in members and entry.pid not in members}:
        members |= more
    return [table[member] for member in members if member in table]


def _own_bytes(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/statm").read_bytes().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


_NOBODY = "65534"
# The kernel counts no process against root, not even root of a user namespace that root made: so each command becomes
# nobody. The script itself does not: the death of its parent could not end it then, and commands could get at it.
_AS_ROOT = [
    *("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"),
    *("--cap-add", "CAP_KILL"),
]
_DROP = (
    *("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--no-new-privs"),
    *("--inh-caps=-all", "--bounding-set=-all", "--"),
)
_AS_USER = ["--cap-drop", "ALL", "--unshare-user", "--uid", _NOBODY, "--gid", _NOBODY]
_PROBE_LIMITS = Limits(time_s=30.0, workspace_bytes=16 << 20, output_bytes=1 << 20, pids=64)
_SYSTEM = ("/usr", "/opt")
_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Of /etc only what programs need to start and to know names and certificates: no configuration of services.
_SETTINGS = (
    *("passwd", "group", "nsswitch.conf", "hosts", "host.conf", "gai.conf", "localtime", "ld.so.cache", "ld.so.conf"),
    *("ld.so.conf.d", "alternatives", "ssl", "ca-certificates", "pki", "mime.types", "services", "protocols", "php"),
)
_NOTES = (
    "memory is watched ten times a second, not enforced by the kernel",
    "no CPU limit",
    "the machine's own programs, no image",
)


def bubblewrap_arguments(job: Job, *, tools: tuple[Path, ...], word_arguments: list[str], as_root: bool) -> list[str]:
    """The whole command line of one run."""
    limits = job.limits
    size = str(limits.workspace_bytes)
    environment = {
        "PATH": ":".join([*(str(path / "bin") for path in tools), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": "/tmp/home",  # noqa: S108 - inside
        "LANG": "C.UTF-8",
        "CI": "true",
        **dict(job.environment),
    }
    # prlimit stands inside: outside, the limit would also count what else the user runs.
    bounded = ["prlimit", "--core=0", f"--data={2 * limits.memory_bytes}", f"--nproc={limits.pids}", "--"]
    options = [
        *("--as-pid-1", "--clearenv", *(_AS_ROOT if as_root else _AS_USER)),
        *("--hostname", "sandbox", "--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", size, "--tmpfs", "/tmp"),  # noqa: S108 - a fresh one
        *("--perms", "1777", "--size", size, "--tmpfs", WORKSPACE),
        *_system(tools),
        *("--remount-ro", "/", "--chdir", WORKSPACE),
        *(word for key, value in environment.items() for word in ("--setenv", key, value)),
    ]
    return bubblewrap_command([*bounded, "/bin/sh", "-c", *word_arguments], options=options, network=False)


def _system(tools: tuple[Path, ...]) -> Iterator[str]:
    parents = {Path("/etc"), Path("/run"), *(parent for tool in tools for parent in tool.parents)} - {Path("/")}
    for folder in sorted(parents):
        yield from ("--perms", "0755", "--dir", str(folder))
    for place in _SYSTEM:
        yield from ("--ro-bind-try", place, place)
    for place in _LINKS:
        if Path(place).is_symlink():
            yield from ("--symlink", str(Path(place).readlink()), place)
        else:
            yield from ("--ro-bind-try", place, place)
    for name in _SETTINGS:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    for tool in tools:
        yield from ("--ro-bind", str(tool), str(tool))


class BubblewrapSandbox:
    """The lesser adapter; `tools` are further program folders, `passed_over` why no container engine was taken."""

    def __init__(self, *, tools: tuple[Path, ...] | None = None, passed_over: tuple[str, ...] = ()) -> None:
        self._passed_over = passed_over
        self._tools = _own_tools() if tools is None else tools
        self._facts: SandboxFacts | None = None
        self._as_root = False
        self._lock = asyncio.Lock()

    async def facts(self, image: str) -> SandboxFacts:  # noqa: ARG002 - there are no images here
        """What it holds on this machine, seen from inside."""
        async with self._lock:
            if self._facts is None:
                self._facts = await self._try_out()
            return self._facts

    async def image_id(self, image: str) -> str:  # noqa: ARG002 - there are no images here
        """The machine's own system stands for an image."""
        return f"host:{platform.system().lower()}-{platform.release()}"

    async def run(self, job: Job) -> Outcome:
        if job.network:  # it could only share this machine's own, with every service on it
            raise SandboxError(
                "bubblewrap has no network of its own for a build",
                why="it would share this server's",
                next_step="install podman, or leave network out of the profile",
            )
        await self.facts(job.image)
        return await self._run(job, as_root=self._as_root)

    async def clean(self) -> int:
        """Nothing outlives this process."""
        return 0

    async def _run(self, job: Job, *, as_root: bool) -> Outcome:
        word = short_token(32)
        arguments = script_arguments(
            job.command,
            probe=job.probe,
            reports=job.reports,
            save=job.save is not None,
            become=_DROP if as_root else (),
        )
        argv = bubblewrap_arguments(job, tools=self._tools, word_arguments=arguments, as_root=as_root)
        try:
            async with Process(
                argv,
                cwd="/",
                env=command_environment(),
                stdin="open",
                stderr_keep_bytes=job.limits.keep_bytes,
                grace_s=0,
            ) as process:

                async def watch() -> Cut | None:
                    used = await asyncio.to_thread(memory_below, process.pid)
                    return "oom" if used > job.limits.memory_bytes else None

                heard = await talk(process, job, word=word, watch=watch)
                if heard.cut is None and heard.archive_whole:
                    await process.wait()
                else:
                    await end_below(process.pid)
                outcome = outcome_of(heard, job)
        except OSError as error:
            raise _broken(f"{argv[0]}: {error.strerror}") from error
        if outcome is not None:
            return outcome
        said = heard.stderr.value().decode("utf-8", "replace").strip()
        if heard.frames.stage != "running":
            raise _broken(said[-500:] or "nothing was started")
        return heard.outcome("escaped")

    async def _try_out(self) -> SandboxFacts:
        missing = [name for name in ("bwrap", "prlimit") if shutil.which(name) is None]
        if missing:
            raise _broken(f"{', '.join(missing)} not installed")
        ways = (True, False) if os.geteuid() == 0 and shutil.which("setpriv") else (False,)
        self._as_root, facts = await first_that_works(ways, lambda tree, way: self._try_way(tree, as_root=way))
        return facts

    async def _try_way(self, source: Path, *, as_root: bool) -> SandboxFacts:
        job = Job(image="", source=source, command=("sh", "-c", PROBE), limits=_PROBE_LIMITS)
        outcome = await self._run(job, as_root=as_root)
        if not outcome.passed:
            raise _broken(outcome.stderr.decode("utf-8", "replace")[-500:] or f"the probe ended {outcome.kind}")
        text = outcome.stdout.decode("utf-8", "replace")
        held: list[Guarantee] = [
            name for name in held_from(text, _PROBE_LIMITS) if name not in {"memory", "cpu", "pids"}
        ]
        # The kernel does not count the processes of its own root against this limit.
        if process_limit(text) == _PROBE_LIMITS.pids and (as_root or os.geteuid() != 0):
            held.append("pids")
        return SandboxFacts(
            name="bubblewrap",
            version=(await run_command(["bwrap", "--version"], cwd="/")).text.rpartition(" ")[2].strip(),
            lesser=True,
            held=tuple(held),
            notes=(*_NOTES, *self._passed_over),
        )


def _own_tools() -> tuple[Path, ...]:
    """Where this Python lives, unless the system folders hold it: so that its pytest is found inside."""
    places = dict.fromkeys(Path(place).resolve() for place in (sys.prefix, sys.base_prefix))
    return tuple(place for place in places if not any(place.is_relative_to(system) for system in _SYSTEM))


def _broken(why: str) -> SandboxError:
    return SandboxError(
        "the sandbox (bubblewrap) is broken, so nothing is known about the tests",
        why=why,
        next_step="apt-get install bubblewrap, and allow unprivileged user namespaces",
    )
