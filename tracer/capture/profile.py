"""How a captured fix is to be tested: the QA profile that a trace may carry, as the client sends it.

It only asks: which images, commands and hosts are really used, the server's own lists decide.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tracer.capture.fields import Closed, Name, Text

__all__ = ["QaProfile", "Runner"]

Runner = Literal["pytest", "go test", "npm test", "make test", "custom"]


class QaProfile(Closed):
    """`runner` alone is enough for all but `custom`, which needs a `command`."""

    runner: Runner
    image: Name | None = None
    """The container image; the server's own for the runner where it is left out."""
    command: Text | None = None
    """The test command in words, such as `pytest tests/unit`; the runner's usual one where it is left out."""
    build: list[Text] = Field(default_factory=list, max_length=20)
    """Commands of the build phase, run before the tests, in order."""
    network: bool = False
    """Whether the build phase asks for the network; the test phase never has it."""
    reports: list[Name] = Field(default_factory=list, max_length=20)
    """Where the command leaves JUnit reports: names or globs relative to the repository."""
