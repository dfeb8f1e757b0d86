"""Uploads and garbage collection kept apart, between tasks of a process and between processes on one machine.

A lock file held shared by uploads and exclusively by collection. It is taken without waiting and tried again, so that
neither a thread nor the event loop is blocked; a collection announces itself, so that a stream of uploads cannot keep
it out for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from typing import Final

__all__ = ["FileGate"]

_PAUSES_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)


class FileGate:
    """See the module; `path` is the lock file, made when first needed."""

    def __init__(self, path: str) -> None:
        self._path = path

    @contextlib.asynccontextmanager
    async def hold(self, *, exclusive: bool) -> AsyncIterator[None]:
        """Inside: no collection (shared), or neither upload nor collection (exclusive)."""
        door = await _locked(f"{self._path}.door", fcntl.LOCK_EX)  # whoever waits stops those who come after
        try:
            held = await _locked(self._path, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        finally:
            os.close(door)
        try:
            yield
        finally:
            os.close(held)


async def _locked(path: str, kind: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for tries in range(1 << 62):
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)])
            else:
                return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    raise AssertionError  # pragma: no cover
