"""Which pieces of output belong to which command: what a first look at a session's events finds out.

A piece belongs to the command that its context names, else to the last one before it. About 41 bytes are kept of each;
the texts stay where they are. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from tracer.capture.events import Event, TerminalCommandEvent, TerminalOutputEvent

__all__ = ["Outputs", "Printed"]

_KEPT: Final = struct.Struct("<32sq?")
_PREFIX: Final = "sha256:"
_NOBODY: Final = -1


class Printed(NamedTuple):
    """One piece of output."""

    blob_id: str
    ts_ms: int
    is_truncated: bool


class Outputs:
    """The pieces by the `seq` of their command."""

    def __init__(self) -> None:
        self._kept: dict[int, bytearray] = {}
        self._commands: dict[str, int] = {}
        self._last = _NOBODY

    def take(self, event: Event) -> None:
        """See the next event."""
        if isinstance(event, TerminalCommandEvent):
            self._last = event.seq
            self._commands[event.event_id] = event.seq
            if event.context.correlation_id is not None:
                self._commands[event.context.correlation_id] = event.seq
        elif isinstance(event, TerminalOutputEvent):
            output, context = event.payload, event.context
            owner = self._commands.get(context.parent_event_id or "")
            if owner is None:
                owner = self._commands.get(context.correlation_id or "", self._last)
            digest = bytes.fromhex(output.chunk_blob_id.removeprefix(_PREFIX))
            self._kept.setdefault(owner, bytearray()).extend(_KEPT.pack(digest, event.ts_ms, output.is_truncated))

    def of(self, seq: int) -> Iterator[Printed]:
        """What the command with that `seq` printed, in order."""
        for digest, ts_ms, is_truncated in _KEPT.iter_unpack(self._kept.get(seq, b"")):
            yield Printed(_PREFIX + digest.hex(), ts_ms, is_truncated)

    def of_nobody(self) -> Iterator[Printed]:
        """What was printed before any command."""
        return self.of(_NOBODY)
