"""What the `pm serve` that runs in a state directory says of itself, for the commands beside it.

Told by the first one that runs there, held by its lock: a service that was killed has said nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tracer.durable import replace
from tracer.errors import LockedError, RecordError
from tracer.lock import FileLock, holder_of

_LOCK, _SAID = "serve.lock", "serving.json"


class Running(NamedTuple):
    """A service: the address it prints in links, where its collector keeps captures and tokens, its token's file."""

    address: str
    store: str
    token_file: str


@contextmanager
def announced(state_root: Path, running: Running) -> Iterator[None]:
    """Say so while the block runs; where another service has, that stands."""
    lock = FileLock(state_root / _LOCK)
    with suppress(LockedError, RecordError):
        lock.acquire(what="the word of the service that runs here", patience_s=0)
    try:
        if lock.held:
            with suppress(OSError):  # a full disk: the service answers so, and the commands beside it do without
                replace(state_root / _SAID, json.dumps(running._asdict()).encode())
        yield
    finally:
        lock.release()


def running_service(state_root: Path) -> Running | None:
    """The service that runs in this state directory, or None."""
    if holder_of(state_root / _LOCK) is None:
        return None
    try:
        return Running(**json.loads((state_root / _SAID).read_bytes()))
    except (OSError, ValueError, TypeError):  # it has not come to say it, or a later version says something else
        return None
