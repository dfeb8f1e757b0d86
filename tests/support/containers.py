"""A real container engine for tests, and the image they run in.

The image is `PM_TEST_IMAGE`, by default Docker's own `python:3.11-slim`; it must hold sh, tar, git, python3 and pytest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import lru_cache
from typing import Literal

from tests.support.tools import need

__all__ = ["IMAGE", "container_engine"]

IMAGE = os.environ.get("PM_TEST_IMAGE", "docker.io/library/python:3.11-slim")


def container_engine() -> Literal["podman", "docker"]:
    """The engine that answers and has the image; the test is skipped (or fails) where none does."""
    found = _find()
    need(found, "container engine", how=f"install podman or docker, with the image {IMAGE} (PM_TEST_IMAGE)")
    assert found is not None
    return found


@lru_cache(maxsize=1)
def _find() -> Literal["podman", "docker"] | None:
    engines: tuple[Literal["podman", "docker"], ...] = ("podman", "docker")
    for engine in engines:
        if shutil.which(engine) is None:
            continue
        command = [engine, "image", "inspect", "--format", "x", IMAGE]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return engine
    return None
