"""The container sandbox: docker or podman, through its command line, hardened by default.

No host folder is mounted: the tree goes in by standard input, so a remote engine works alike. The limits in force are
read inside a first container. Containers are named and labelled before they start, so `clean` finds leftovers.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from collector.qa.sandbox.owners import MARK_LABEL, first_that_works, is_stale, labels
from collector.qa.sandbox.port import Job, Limits, Outcome, SandboxFacts
from collector.qa.sandbox.script import PROBE, WORKSPACE, held_from, script_arguments
from collector.qa.sandbox.talk import SETUP_LIMIT_S, Talk, outcome_of, talk
from runner.processes.command import ProcessResult, run_command
from runner.processes.environment import command_environment
from runner.processes.process import Process, uninterrupted
from tracer.clock import short_token
from tracer.errors import SandboxError
from tracer.redaction.cuts import beginning

_ENGINE_LIMIT_S = 120.0
_PULL_LIMIT_S = 900.0
_MARGIN_S = 120.0
_LINGER_S = 15.0
_KILLED = 137
_FIRST_ID = 1879048192  # above every range that distributions hand out
_USER = "65534:65534"  # nobody in every common image
_ENVIRONMENT = ("DOCKER_*", "CONTAINER_*", "CONTAINERS_*", "PODMAN_*", "XDG_RUNTIME_DIR", "STORAGE_DRIVER")
_PROBE_LIMITS = Limits(time_s=60.0, workspace_bytes=16 << 20, output_bytes=1 << 20, memory_bytes=128 << 20, pids=64)


class Way(NamedTuple):
    """What is asked of the engine beyond what every engine has."""

    user_mapping: bool = False
    cpu: bool = True
    limits: bool = True


# An engine without cgroups of its own refuses limits outright: what it can do is tried all the same, and the rest told.
_WAYS = (Way(user_mapping=True), Way(), Way(cpu=False), Way(cpu=False, limits=False))


def run_arguments(
    engine: str, job: Job, *, name: str, marks: dict[str, str], word_arguments: list[str], way: Way
) -> list[str]:
    """The whole command line of one run; pure."""
    limits = job.limits
    size = f"rw,exec,nosuid,nodev,size={limits.workspace_bytes},mode=1777"
    hardening = [
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        f"--user={_USER}",
        f"--network={job.network or 'none'}",
        *([f"--memory={limits.memory_bytes}", f"--memory-swap={limits.memory_bytes}"] if way.limits else []),
        *([f"--pids-limit={limits.pids}"] if way.limits else []),
        *([f"--cpus={limits.cpus:g}"] if way.cpu else []),
        f"--tmpfs={WORKSPACE}:{size}",
        f"--tmpfs=/tmp:{size}",
        "--shm-size=67108864",
        "--ipc=private",
        "--log-driver=none",
        "--hostname=sandbox",
        "--pull=never",
    ]
    if engine == "podman":  # its own defaults would open more than docker's
        hardening += ["--read-only-tmpfs=false", "--http-proxy=false", "--image-volume=ignore"]
        hardening += [f"--timeout={int(limits.time_s + SETUP_LIMIT_S + _MARGIN_S)}"]
        hardening += [f"--{kind}map=0:{_FIRST_ID}:65536" for kind in ("uid", "gid")] if way.user_mapping else []
    environment = {"HOME": "/tmp/home", "LANG": "C.UTF-8", "CI": "true", **dict(job.environment)}  # noqa: S108 - inside
    return [
        "run",
        "--interactive",
        f"--name={name}",
        *(f"--label={key}={value}" for key, value in marks.items()),
        *hardening,
        *(f"--env={key}={value}" for key, value in environment.items()),
        f"--workdir={WORKSPACE}",
        "--entrypoint=sh",
        job.image,
        "-c",
        *word_arguments,
    ]


class ContainerSandbox:
    """One engine. `pull` lets it fetch an image that is not there."""

    def __init__(self, engine: Literal["docker", "podman"], *, pull: bool = False) -> None:
        self.engine = engine
        self._command = (engine, "--log-level=error")
        self._pull = pull
        self._environment = command_environment(extra_names=_ENVIRONMENT)
        self._facts: dict[str, SandboxFacts] = {}
        self._ids: dict[str, str] = {}
        self._pinned: dict[str, str] = {}
        self._way: Way | None = None
        self._lock = asyncio.Lock()

    async def facts(self, image: str) -> SandboxFacts:
        """What the engine holds with this image, seen from inside one container."""
        async with self._lock:
            if image not in self._facts:
                # The server's version: a client alone (no daemon, no machine) is no engine.
                form = "{{.Server.Version}}" if self.engine == "docker" else "{{.Client.Version}}"
                version = (await self._ask("version", f"--format={form}")).strip()
                await self._find_image(image)
                self._facts[image] = await self._try_out(image, version)
            return self._facts[image]

    async def image_id(self, image: str) -> str:
        await self.facts(image)
        return self._ids[image]

    async def run(self, job: Job) -> Outcome:
        await self.facts(job.image)
        return await self._run(job, self._way or Way())

    async def clean(self) -> int:
        """Remove stale containers of ours; how many."""
        removed = 0
        for name in (await self._ask("ps", "--all", f"--filter=label={MARK_LABEL}", "--format={{.Names}}")).split():
            shown = await self._call("inspect", "--type=container", "--format={{json .Config.Labels}}", name)
            if shown.ok and is_stale(_labels_of(shown.text)):
                await self._remove(name)
                removed += 1
        return removed

    async def _run(self, job: Job, way: Way) -> Outcome:
        name, word = f"pm-qa-{short_token(16)}", short_token(32)
        lives_s = job.limits.time_s + SETUP_LIMIT_S + _MARGIN_S
        argv = [
            *self._command,
            *run_arguments(
                self.engine,
                job,
                name=name,
                marks=labels(lives_s=lives_s, label=job.label),
                word_arguments=script_arguments(
                    job.command, probe=job.probe, reports=job.reports, save=job.save is not None
                ),
                way=way,
            ),
        ]
        try:
            async with Process(
                argv,
                cwd="/",
                env=self._environment,
                stdin="open",
                stderr_keep_bytes=job.limits.keep_bytes,
                linger_s=_LINGER_S,
            ) as process:
                try:
                    heard = await talk(process, job, word=word)
                    outcome = outcome_of(heard, job) or await self._unsaid(name, heard, process)
                finally:
                    draining = asyncio.create_task(_drain(process))  # a full pipe would hold the engine up
                    try:
                        await uninterrupted(self._remove(name))
                    finally:
                        draining.cancel()
        except OSError as error:
            raise _broken(self.engine, f"{self.engine}: {error.strerror}") from error
        return outcome

    async def _unsaid(self, name: str, heard: Talk, process: Process) -> Outcome:
        """No last words: killed for memory as a whole, ended from inside, or the engine's own failure."""
        said = heard.stderr.value().decode("utf-8", "replace").strip()
        if heard.frames.stage == "setup" or heard.cut is not None:
            raise _broken(self.engine, _last_line(said) or "nothing was started in time")
        await process.wait()
        form = "--format={{.State.OOMKilled}} {{.State.ExitCode}}"
        shown = await self._call("inspect", "--type=container", form, name)
        killed_for_memory, _, code = shown.text.strip().rpartition("\n")[2].partition(" ")
        if not shown.ok or (killed_for_memory != "true" and code == str(_KILLED)):
            raise _broken(self.engine, "somebody else ended the container")
        is_oom = killed_for_memory == "true"
        return heard.outcome("oom" if is_oom else "escaped", killed_for_memory=int(is_oom))

    async def _find_image(self, image: str) -> None:
        form = "--format={{.Id}}{{range .RepoDigests}} {{.}}{{end}}"
        shown = await self._call("image", "inspect", form, image)
        if not shown.ok and self._pull:
            await self._call("pull", "--quiet", image, limit_s=_PULL_LIMIT_S)
            shown = await self._call("image", "inspect", form, image)
        if not shown.ok:
            raise SandboxError(
                f"the image {image!r} is not here",
                why=_last_line(shown.text),
                next_step=f"{self.engine} pull {image}, or set qa.pull = true",
            )
        image_id, *names = shown.text.split()
        digests = [name for name in names if not name.startswith("localhost/")]  # made here: no registry has it
        self._ids[image] = "sha256:" + image_id.removeprefix("sha256:")
        repository = image.rpartition("@")[0] or image.rpartition(":")[0]
        named = [digest for digest in digests if digest.startswith(f"{repository}@")]
        self._pinned[image] = (named or digests or [""])[0]

    async def _try_out(self, image: str, version: str) -> SandboxFacts:
        """Run the probe and read what it saw."""
        # Docker maps users for all or for none.
        ways = (
            [way for way in _WAYS if self.engine == "podman" or not way.user_mapping]
            if self._way is None
            else [self._way]
        )
        job = Job(
            image=image, source=Path(), command=("sh", "-c", PROBE), limits=_PROBE_LIMITS, label="capability probe"
        )
        way, outcome = await first_that_works(ways, lambda tree, way: self._run(replace(job, source=tree), way))
        self._way = way
        if not outcome.passed:
            raise _broken(self.engine, f"the capability probe ended {outcome.kind} {outcome.exit_code}")
        held = held_from(outcome.stdout.decode("utf-8", "replace"), _PROBE_LIMITS)
        lesser = not {"memory", "pids", "network", "read_only", "capabilities", "no_new_privileges"} <= set(held)
        pinned = self._pinned[image]
        return SandboxFacts(name=self.engine, version=version, lesser=lesser, held=held, pinned=pinned)

    async def _remove(self, name: str) -> None:
        how = ["rm", "--force", "--volumes", *(["--time=0"] if self.engine == "podman" else []), name]
        for pause in (0.2, 1.0, 3.0):
            if (await self._call(*how)).ok or not (await self._call("container", "inspect", "--format=x", name)).ok:
                return
            await asyncio.sleep(pause)
        raise _broken(self.engine, f"the container {name} could not be removed")

    async def _ask(self, *arguments: str) -> str:
        done = await self._call(*arguments)
        if not done.ok:
            raise _broken(self.engine, _last_line(done.text) or f"{self.engine} {arguments[0]} failed")
        return done.text

    async def _call(self, *arguments: str, limit_s: float = _ENGINE_LIMIT_S) -> ProcessResult:
        return await run_command([*self._command, *arguments], cwd="/", env=self._environment, timeout_s=limit_s)


async def _drain(process: Process) -> None:
    async for _ in process.chunks():
        pass


def _labels_of(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return beginning(lines[-1], 500) if lines else ""


def _broken(engine: str, why: str) -> SandboxError:
    return SandboxError(
        f"the sandbox ({engine}) is broken, so nothing is known about the tests",
        why=why,
        next_step=f"try `{engine} run --rm IMAGE true`, then `pm doctor`",
    )
