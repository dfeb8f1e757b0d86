"""Events that editors add to the running recording through a Unix socket: JSON lines in, an answer line for each.

Only the user's own processes are heard (mode 0600, the peer's user id). A line is bounded; so is their rate: who writes
faster waits. Of many connections the one that was silent longest is closed, so that none holds up the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from collector.client.events import check_repeated, redacted_drafts
from collector.client.spool import Draft, Spool
from collector.intake.redact_code import TraceMap
from collector.recorder.command_lines import read_line
from collector.recorder.consent import WORDS, take_back
from collector.recorder.screen_text import placed
from collector.recorder.writer import PERSON, RecordWriter, ScribeOptions
from tracer.clock import new_id, now_epoch_ms
from tracer.errors import ConflictError, PmError, UsageError
from tracer.redaction.cuts import beginning

EDITOR_SOCKET: Final = "PM_RECORD_SOCKET"
LINK: Final = "editor.sock"
LONGEST: Final = 64 << 10
_ELSEWHERE: Final = "pm-record-"
_LISTENS_WITHIN_MS: Final = 60_000
_LONGEST_PATH: Final = 100  # 108 with Linux, 104 with macOS
_MOST_CONNECTIONS: Final = 16
_PER_S: Final = 50
_BURST: Final = 500
_IDE: Final = {"kind": "ide", "id": None}
_TYPES: Final = ("navigation", "debug_action", "test_run", "thought", "consent")
_KEYS: Final = frozenset({"type", "payload", "event_id", "ts_ms", "actor"})
_NEXT: Final = "docs/editors.md lists what a line may hold"

Answer = dict[str, Any]
Take = Callable[[bytes, Callable[[Answer], None]], None]


def plugin_source(editor: str) -> str:
    """What an editor loads to speak to the socket: `nvim`, in Lua."""
    return Path(__file__).with_name(f"{editor}.lua").read_text(encoding="utf-8")


def refusal(error: PmError) -> Answer:
    """The answer to a line that was not taken."""
    return {"ok": False, "error": error.what, "why": error.why, "next": error.next_step}


def _clear_up() -> None:
    """Remove the sockets of ours to which no recorder listens any more."""
    for left in Path(tempfile.gettempdir()).glob(f"{_ELSEWHERE}*"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asked:  # another user's, or gone meanwhile
            old = now_epoch_ms() - left.stat().st_mtime_ns // 1_000_000 > _LISTENS_WITHIN_MS
            if old and asked.connect_ex(str(left / LINK)) == errno.ECONNREFUSED:
                (left / LINK).unlink()
                left.rmdir()


class EditorSocket:
    """The socket of one recording. `take` gets each line, in the event loop, and how it is answered from any thread."""

    def __init__(self, folder: Path, *, take: Take) -> None:
        self._link = folder / LINK
        self._take = take
        self._open: dict[asyncio.StreamWriter, None] = {}
        self._server: asyncio.Server | None = None
        self._left: float = _BURST
        self._counted_at = 0.0
        self.path = ""

    async def start(self) -> str:
        """Listen, in the place of a socket that a killed recorder left; why there can be none here, or nothing."""
        self.close()
        place = self._link
        listening = socket.socket(socket.AF_UNIX)
        try:
            if len(os.fsencode(place)) > _LONGEST_PATH:  # no program could connect to it there
                _clear_up()
                place = Path(tempfile.mkdtemp(prefix=_ELSEWHERE)) / LINK
                self._link.symlink_to(place)
            listening.bind(str(place))
            place.chmod(0o600)  # nobody can connect before it listens
            self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=LONGEST)
        except OSError as error:
            listening.close()
            return f"editors cannot add events: {error}"
        self.path = str(place)
        return ""

    def close(self) -> None:
        """Close every connection, and remove the socket."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        with contextlib.suppress(OSError):
            elsewhere = self._link.readlink()
            elsewhere.unlink()
            elsewhere.parent.rmdir()
        self._link.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        while len(self._open) > _MOST_CONNECTIONS:
            silent = next(iter(self._open))
            del self._open[silent]
            silent.transport.abort()
        try:
            if _user_of(writer.get_extra_info("socket")) not in {None, os.geteuid()}:
                await _say(writer, refusal(UsageError("another user's recording")))
                return
            while (line := await _line(reader, writer)).endswith(b"\n"):  # what is cut off is no line
                await self._pace(len(line))
                if writer not in self._open:
                    return
                self._open[writer] = self._open.pop(writer)  # the newest now
                await _say(writer, await self._answered(line))
        except OSError:
            pass  # it went away
        finally:
            self._open.pop(writer, None)
            writer.close()

    async def _pace(self, size: int) -> None:
        now = asyncio.get_running_loop().time()
        self._left = min(self._left + (now - self._counted_at) * _PER_S, _BURST) - 1 - size / 1024
        self._counted_at = now
        if self._left < 0:
            await asyncio.sleep(-self._left / _PER_S)

    async def _answered(self, line: bytes) -> Answer:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = loop.create_future()

        def set_answer(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        def answer(said: Answer) -> None:
            loop.call_soon_threadsafe(set_answer, said)

        self._take(line, answer)
        return await answered


async def _line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    try:
        return await reader.readline()
    except ValueError:
        await _say(writer, refusal(UsageError(f"a line may have {LONGEST:,} bytes", next_step=_NEXT)))
        return b""


async def _say(writer: asyncio.StreamWriter, answer: Answer) -> None:
    writer.write(orjson.dumps(answer) + b"\n")
    await writer.drain()


def _user_of(peer: Any) -> int | None:
    """Who connected; None where the system does not tell (the file's mode stands alone then)."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    _pid, user, _group = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(user)


class Editor:
    """Writes what editors say, in the scribe's thread. `narrowed` is called with the flags that are left."""

    def __init__(
        self,
        spool: Spool,
        writer: RecordWriter,
        options: ScribeOptions,
        *,
        top: str,
        narrowed: Callable[[Mapping[str, bool]], None],
    ) -> None:
        self._spool = spool
        self._writer = writer
        self._redactor = options.redactor
        self._map = TraceMap(options.redactor) if options.redactor is not None else None
        self._top = top
        self._narrowed = narrowed

    def take(self, line: bytes, *, command: str) -> Answer:
        """Record one line and answer it. Raises UsageError: not valid; ConflictError: not now."""
        said = _message(line)
        if said["type"] == "consent":
            return self._take_back(said["payload"])
        if self._spool.paused:
            raise ConflictError("the recording is paused", next_step="pm record resume")
        event_id = str(said.get("event_id") or new_id()).lower()
        kind = str(said["type"])
        actor = PERSON if kind == "thought" else _IDE
        whole = {"seq": 1, "ts_ms": now_epoch_ms(), "actor": actor, "context": {}, **said, "event_id": event_id}
        whole["payload"] = self._completed(kind, said["payload"])
        outputs = self._spool.header["request"]["developer"]["consent_flags"].get("store_terminal_output") is True
        (draft,) = redacted_drafts([whole], self._redactor, self._map, outputs=outputs)
        known = self._writer.known.get(event_id)
        if known is not None:
            filled = {"seq", "context", "ts_ms"} - ({"ts_ms"} & said.keys())
            event = check_repeated(draft, self._spool, known, filled=filled)
            return {"ok": True, "event_id": event["event_id"], "duplicate": True}
        path = whole["payload"].get("file_path")
        if path and not path.startswith(("/", "~")) and not self._writer.files.not_ignored([path]):
            raise UsageError("this file is not recorded", why="git or record.ignore leaves it out")
        if kind in {"thought", "test_run"}:  # what it speaks of stands before it
            self._writer.sweep(PERSON, command=command)

        def drafts() -> list[Draft]:
            context, files = self._writer.context(command), self._writer.files
            payload = dict(draft.payload)
            if kind == "thought":
                payload["links_to"] = payload.get("links_to") or self._writer.acts.links()
            after = files.snapshot(sorted(files.known), "post_test", context=context) if kind == "test_run" else []
            return [replace(draft, seq=None, context=context, payload=payload), *after]

        event = self._writer.record(drafts)[0]
        return {"ok": True, "event_id": event["event_id"], "seq": event["seq"]}

    def _completed(self, kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The payload with what the recorder knows better: where a file stands, which runner a command is of."""
        payload = dict(given)
        path, command = payload.get("file_path"), payload.get("command")
        if isinstance(path, str) and kind in {"navigation", "debug_action"}:
            payload["file_path"] = placed(path, cwd=self._top, top=self._top)
        if isinstance(command, str) and kind == "test_run":
            test = read_line(command).test
            payload.setdefault("runner", test.runner if test is not None else "custom")
            payload.setdefault("passed", payload.get("exit_code") == 0)
        return payload

    def _take_back(self, payload: Mapping[str, Any]) -> Answer:
        given: Any = payload.get("withdraw")
        words = [word for word in WORDS if isinstance(given, list) and word in given]
        if not words or len(words) != len(given):
            raise UsageError(f"withdraw takes a list of {', '.join(WORDS)}", next_step=_NEXT)
        flags: dict[str, bool] = {}

        def nothing() -> list[Draft]:
            flags.update(take_back(self._spool, words))
            return []

        self._writer.record(nothing)
        self._narrowed(flags)
        return {"ok": True, "consent": [word for word, name in WORDS.items() if flags.get(name)]}


def _message(line: bytes) -> dict[str, Any]:
    try:
        said = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise UsageError("a line is one JSON object", why=str(error), next_step=_NEXT) from error
    if not isinstance(said, dict) or not isinstance(said.get("payload"), dict):
        raise UsageError("a line is an object with type and payload", next_step=_NEXT)
    unknown = sorted(said.keys() - _KEYS)
    if unknown:
        raise UsageError(
            f"unknown key {beginning(unknown[0], 80)!r}", why="the recorder fills in the rest", next_step=_NEXT
        )
    if said.get("type") not in _TYPES:
        raise UsageError(
            f"editors add no {beginning(str(said.get('type')), 80)!r}", why=f"only {', '.join(_TYPES)}", next_step=_NEXT
        )
    return said
