"""How many requests, and how many bytes of them, may be under way at once; more are told to come again.

Requests wait in no queue of ours: what is admitted waits for its commit, and the number and size of what waits are
bounded, so memory is too, however many clients there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tracer.errors import UnavailableError


class BusyError(UnavailableError):
    """Too much is under way; nothing of this request was looked at (HTTP 429)."""

    retry_after_s = 1

    def __init__(self) -> None:
        super().__init__("the collector is busy", why="too many requests are waiting", next_step="try again in 1 s")


class Admission:
    """At most `calls` requests with `size` bytes of bodies together; one that is alone is always let in."""

    def __init__(self, *, calls: int, size: int) -> None:
        self._calls = calls
        self._size = size
        self.calls_now = 0
        self.size_now = 0

    @contextmanager
    def admitted(self, size: int) -> Iterator[None]:
        """Let one request of `size` bytes in while the block runs. Raises BusyError: it has to come again."""
        if self.calls_now and (self.calls_now >= self._calls or self.size_now + size > self._size):
            raise BusyError
        self.calls_now += 1
        self.size_now += size
        try:
            yield
        finally:
            self.calls_now -= 1
            self.size_now -= size
