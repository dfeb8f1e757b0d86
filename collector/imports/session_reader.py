"""A native session of an agent read whole: the distiller's readers, with what the distilled trace leaves out kept.

The readers of `tracer.distill` speak to an Assembly; this one also notes every thought, message, call and result with
its full text, in order. Memory grows with the session, up to a limit beyond which the rest is left out and said so.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from typing_extensions import override

from tracer.distill.cleaner import Cleaner
from tracer.distill.native import Availability, NativeSession
from tracer.distill.native_files import Source
from tracer.distill.one import read_native
from tracer.distill.readers.assembly import Assembly, Result, Spool
from tracer.errors import TraceError
from tracer.json_values import clean_text
from tracer.redaction.cuts import beginning
from tracer.redaction.redactor import Redactor

_MOST_CHARS: Final = 512 << 20
_LONGEST: Final = 4 << 20
_LINE_NUMBER: Final = re.compile(r"^ *\d+(?:→|\t)", re.MULTILINE)


@dataclass(slots=True)
class Item:
    """One thing of a session. `kind` prompt, thought, message, error: `text`; call: the tool, arguments, outcome."""

    kind: Literal["prompt", "thought", "message", "error", "call"]
    at_ms: int
    text: str = ""
    agent: str | None = None
    name: str = ""
    arguments: Any = None
    operation: str = ""
    output: str | None = None
    failed: bool = False
    ended_ms: int | None = None
    path: str = ""
    """The file that a read showed, as the project names it."""
    content: bytes | None = None
    """The whole of that file, where its bytes are certain."""


@dataclass(frozen=True, kw_only=True)
class ReadSession:
    """Everything of a session; `left_out` items were beyond the limit."""

    items: tuple[Item, ...]
    cli_version: str | None
    left_out: int


def read_session(session: NativeSession, *, redactor: Redactor) -> ReadSession:
    """Read `session` and its subagents."""
    roots = (session.cwd,) if session.cwd else ()
    with Spool() as spool:
        reading = _Reading(spool, Cleaner(redactor, project_roots=roots))
        try:
            read_native(session, reading, Source())
        except OSError as error:
            raise TraceError(f"cannot read {str(session.path)!r}", why=error) from error
        reading.finish()
    if not any(item.kind != "error" for item in reading.items):
        raise TraceError(f"nothing to import in {str(session.path)!r}", why="no record of a conversation")
    return ReadSession(
        items=tuple(reading.items), cli_version=reading.cli_version or session.cli_version, left_out=reading.left_out
    )


class _Reading(Assembly):
    """An Assembly that keeps what it is told."""

    wants_silent_output = True

    def __init__(self, spool: Spool, cleaner: Cleaner) -> None:
        super().__init__(spool, cleaner)
        self.items: list[Item] = []
        self.left_out = 0
        self._open: dict[tuple[str | None, str], Item] = {}
        self._held = 0

    def _keep(self, item: Item) -> bool:
        self._held += len(item.text)
        if self._held > _MOST_CHARS:
            self.left_out += 1
            return False
        self.items.append(item)
        return True

    def _moment(self, at_ms: int | None) -> int:
        return self.at(at_ms) or 0

    @override
    def thought(self, at_ms: int | None, text: str, availability: Availability, *, agent: str | None = None) -> None:
        """See `Assembly`; a thought that is not shown is no item."""
        super().thought(at_ms, text, availability, agent=agent)
        if text.strip():
            self._keep(Item("thought", self._moment(at_ms), _plain(text), agent))

    @override
    def message(self, at_ms: int | None, role: str, text: str, *, agent: str | None = None) -> None:
        super().message(at_ms, role, text, agent=agent)
        if text.strip() and role != "user":
            self._keep(Item("message", self._moment(at_ms), _plain(text), agent))

    @override
    def prompt(self, at_ms: int | None, text: str) -> None:
        super().prompt(at_ms, text)
        if text.strip():
            self._keep(Item("prompt", self._moment(at_ms), _plain(text)))

    @override
    def error(self, at_ms: int | None, text: str, *, agent: str | None = None) -> None:
        super().error(at_ms, text, agent=agent)
        self._keep(Item("error", self._moment(at_ms), _plain(text), agent))

    @override
    def call(self, at_ms: int | None, call_id: str, name: str, arguments: Any, *, agent: str | None = None) -> None:
        """See `Assembly`; a repeated call is no item."""
        known = self.tools
        item = Item("call", self._moment(at_ms), agent=agent, name=beginning(_plain(name), 200), arguments=arguments)
        self._open.setdefault((agent, call_id), item)  # an early result is joined within the call below
        super().call(at_ms, call_id, name, arguments, agent=agent)
        if self.tools == known:
            if self._open.get((agent, call_id)) is item:
                del self._open[agent, call_id]
            return
        described = self.pending_call(call_id, agent=agent)
        item.operation = described.operation if described is not None else item.operation
        self._held += len(str(arguments)) if isinstance(arguments, str) else 1000
        self._keep(item)

    @override
    def result(self, call_id: str, result: Result, *, agent: str | None = None) -> None:
        described = self.pending_call(call_id, agent=agent)
        item = self._open.get((agent, call_id))
        if described is not None and item is not None and item.output is None:
            item.operation = described.operation
            item.output = _plain(beginning(result.output, _LONGEST))
            item.failed, item.ended_ms = result.failed, result.at_ms
            if described.has_path:
                item.path = _plain(described.pieces[-1])
                item.content = _whole_content(result)
            self._held += len(item.output)
        super().result(call_id, result, agent=agent)

    @override
    def fail(self, call_id: str, *, agent: str | None = None) -> None:
        super().fail(call_id, agent=agent)
        item = self._open.get((agent, call_id))
        if item is not None:
            item.failed = True


def _whole_content(result: Result) -> bytes | None:
    """The file's bytes, if what was shown can be turned into those whose hash the session tells."""
    expected = (result.extra or {}).get("sha256")
    if not isinstance(expected, str):
        return None
    bare = _LINE_NUMBER.sub("", result.output)
    for text in (result.output, bare, f"{result.output}\n", f"{bare}\n"):
        data = text.encode("utf-8", "replace")
        if hashlib.sha256(data).hexdigest() == expected.removeprefix("sha256:"):
            return data
    return None


def _plain(text: str) -> str:
    """`text` without what JSON or a database cannot hold."""
    return clean_text(text).replace("\0", "\ufffd")
