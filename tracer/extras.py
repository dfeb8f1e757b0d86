"""Packages that only some users need (the extras in pyproject.toml): a missing one is said with how to add it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from tracer.errors import ConfigError


@contextmanager
def needs_extra(extra: Literal["acp", "postgres", "s3", "telemetry"], *, wanted_by: str) -> Iterator[None]:
    """Wrap the imports that `extra` brings; `wanted_by` is what the user chose (a setting, an executor).

    Raises:
        ConfigError: one of them is not installed, or cannot be loaded.

    """
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"{wanted_by} needs a package that is not installed",
            why=str(error),
            next_step=f"pip install 'pm-orchestrator[{extra}]'",
        ) from error
