"""A real container engine for tests, and the image they run in.

The image is `PM_TEST_IMAGE`, by default Docker's own `python:3.11-slim`; it must hold sh, tar, git, python3 and pytest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Literal

from tests.support.tools import need

__all__ = ["IMAGE", "container_engine", "containers_of", "docker_command"]

IMAGE = os.environ.get("PM_TEST_IMAGE", "docker.io/library/python:3.11-slim")


def container_engine() -> Literal["podman", "docker"]:
    """The engine that answers and has the image; the test is skipped (or fails) where none does."""
    found = _find()
    need(found, "container engine", how=f"install podman or docker, with the image {IMAGE} (PM_TEST_IMAGE)")
    assert found is not None
    return found


def containers_of(owner: int) -> list[str]:
    """The sandbox containers, running or not, that the process `owner` started; other test workers have their own."""
    engine = shutil.which("podman") or shutil.which("docker")
    if engine is None:
        return []
    form = '{{.Names}} {{index .Labels "pm-orchestrator.owner"}}'
    done = subprocess.run(
        [engine, "ps", "--all", "--filter=label=pm-orchestrator.qa", f"--format={form}"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    return [words[0] for words in rows if words[1].split("/")[2] == str(owner)]


@contextmanager
def docker_command(folder: Path) -> Iterator[str | None]:
    """The `DOCKER_HOST` under which docker's own command line works: its daemon's, or podman's Docker API.

    None stands for the default. The test is skipped (or fails) where there is neither.
    """
    need(shutil.which("docker"), "docker", how="install docker's command line")
    if _has_image("docker"):
        yield None
        return
    podman = shutil.which("podman")
    need(podman, "docker", how="start docker, or install podman for its Docker API")
    address = f"unix://{folder}/podman.sock"
    # In a folder of its own: podman leaves a file `oom` where it was started.
    service = subprocess.Popen([str(podman), "--log-level=error", "system", "service", "--time=0", address], cwd=folder)
    try:
        for _ in range(100):
            if _has_image("docker", DOCKER_HOST=address):
                break
            time.sleep(0.1)
        yield address
    finally:
        service.terminate()
        service.wait()


def _has_image(engine: str, **environ: str) -> bool:
    command = [engine, "image", "inspect", "--format", "x", IMAGE]
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, **environ}).returncode == 0


@lru_cache(maxsize=1)
def _find() -> Literal["podman", "docker"] | None:
    engines: tuple[Literal["podman", "docker"], ...] = ("podman", "docker")
    for engine in engines:
        if shutil.which(engine) is None:
            continue
        if _has_image(engine):
            return engine
    return None
