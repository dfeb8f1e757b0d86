"""A redactor of a made-up person on a made-up machine; secrets are put together here so that none stands in a file.

The tests of this folder run in one worker, `xdist_group("redaction")`: the rules are compiled once then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tracer.redaction.positives import Positive, positives
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


@pytest.fixture
def canaries(request: pytest.FixtureRequest) -> list[Positive]:
    """Some or all made-up positives, as `canaries_of` says."""
    return positives()[request.param]
