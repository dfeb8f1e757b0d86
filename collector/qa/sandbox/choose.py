"""Which sandbox runs a trace's tests on this machine; a lesser one is taken only where allowed, and says so itself.

`auto`: podman, docker, then bubblewrap · `container`: podman or docker with every guarantee, or an error · or one by
name. An engine that is installed but does not work is passed over, and the reason is kept with the one that is taken.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import Literal

from collector.qa.sandbox.bubblewrap import BubblewrapSandbox
from collector.qa.sandbox.container import ContainerSandbox
from collector.qa.sandbox.port import Sandbox
from tracer.clock import monotonic
from tracer.errors import SandboxError

SandboxMode = Literal["auto", "container", "podman", "docker", "bubblewrap"]
_REMEMBERED_S = 600.0
_Engine = Literal["podman", "docker"]
_BY_MODE: dict[str, tuple[_Engine, ...]] = {"podman": ("podman",), "docker": ("docker",)}


async def choose_sandbox(mode: SandboxMode, *, image: str, pull: bool = False) -> Sandbox:
    """The sandbox for `mode`, tried out with `image`; SandboxError holds the reasons of all that were passed over."""
    if mode == "bubblewrap":
        return await _working(BubblewrapSandbox(), image)
    reasons: list[str] = []
    for engine in _BY_MODE.get(mode, ("podman", "docker")):
        if mode in {"auto", "container"} and shutil.which(engine) is None:
            reasons.append(f"{engine}: not installed")
            continue
        try:
            sandbox = await _working(ContainerSandbox(engine, pull=pull), image)
            facts = await sandbox.facts(image)
        except SandboxError as error:
            reasons.append(f"{engine}: {error.line}")
            continue
        if not facts.lesser or mode == engine:
            return sandbox
        reasons.append(f"{engine}: lacks {', '.join(facts.lacks)}")
    if mode == "auto":
        try:
            return await _working(BubblewrapSandbox(passed_over=tuple(reasons)), image)
        except SandboxError as error:
            reasons.append(f"bubblewrap: {error.why}")
    raise SandboxError(
        "no sandbox works here, so no tests were run",
        why="; ".join(reasons),
        next_step="install podman, or set qa.sandbox; pm doctor shows what is there",
    )


class SandboxChooser:
    """Chooses for each image, anew after ten minutes, and then removes the containers that killed runs left."""

    def __init__(self, mode: SandboxMode, *, pull: bool = False) -> None:
        self._mode: SandboxMode = mode
        self._pull = pull
        self._lock = asyncio.Lock()
        self._chosen: dict[str, tuple[Sandbox, float]] = {}

    async def __call__(self, image: str) -> Sandbox:
        """The sandbox for `image`. Raises as `choose_sandbox`; a failure is not remembered."""
        async with self._lock:
            known = self._chosen.get(image)
            if known is not None and monotonic() - known[1] < _REMEMBERED_S:
                return known[0]
            sandbox = await choose_sandbox(self._mode, image=image, pull=self._pull)
            await sandbox.clean()
            self._chosen[image] = (sandbox, monotonic())
            return sandbox


async def _working(sandbox: Sandbox, image: str) -> Sandbox:
    await sandbox.facts(image)
    return sandbox
