"""A redactor of a made-up person on a made-up machine; secrets are put together here so that none stands in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracer.redaction.engine import ProjectRedactor, build_redactor

Make = Callable[..., ProjectRedactor]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Builds a redactor; keyword arguments go to `build_redactor`."""

    def build(**options: Any) -> ProjectRedactor:
        environ = {"HOME": "/home/janedoe", "USER": "janedoe"} | options.pop("environ", {})
        defaults: dict[str, Any] = {"state_dir": tmp_path / "state", "host": "wonderbox", "persons": ("Jane Q. Doe",)}
        return build_redactor(environ=environ, **(defaults | options))

    return build


@pytest.fixture
def redactor(make: Make) -> ProjectRedactor:
    return make()
