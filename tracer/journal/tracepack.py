"""TracePack: the transition log of one session and its tasks, independent of the conversation traces.

One JSONL file per session, durable line by line, redacted like every record. Its own module with its own events: it is
complete when every conversation trace is deleted, and the other way round. `check` says whether starts and ends balance
and every state change was legal; TASK_END repeats the head of the task's chain.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from tracer import clock
from tracer.conversation import default_redactor
from tracer.errors import NotFoundError, TraceError, UsageError
from tracer.events import clean_line, counted
from tracer.journal.reading import iter_lines
from tracer.journal.writer import Closing, Journal
from tracer.json_values import clean_json
from tracer.names import PACK_EVENTS
from tracer.redaction.redactor import Redactor
from tracer.statedir import StateDir, valid_id

_NAME: Final = re.compile(r"trace-(.+)-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)(?:_([1-9]\d*))?\.jsonl")
_NEEDS_TASK: Final = frozenset(PACK_EVENTS[2:9])


class TracePack(Closing):
    """The writer of one session's log; belongs to one event loop. The file appears with SESSION_START."""

    def __init__(self, *, state_dir: StateDir | Path | str, session_id: str, redactor: Redactor | None = None) -> None:
        if not valid_id(session_id):
            raise UsageError(f"{session_id!r} cannot be a session id")
        self.state_dir = state_dir if isinstance(state_dir, StateDir) else StateDir(Path(state_dir))
        self.session_id = session_id
        self.path = _free_path(self.state_dir.tracepack, session_id)
        self._redactor = redactor
        self._journal: Journal | None = None
        self._opening = asyncio.Lock()

    async def append(
        self,
        event: str,
        *,
        task_id: str | None = None,
        from_state: str | None = None,
        to_state: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Record one event; the line's object as written, once it is durable."""
        if event not in PACK_EVENTS:
            raise UsageError(f"{event!r} is not a TracePack event", why=f"it is one of {', '.join(PACK_EVENTS)}")
        if event in _NEEDS_TASK and task_id is None:
            raise UsageError(f"{event} needs a task id")
        if self._redactor is None:
            self._redactor = default_redactor(self.state_dir)
        redacted = counted(self._redactor.redact_value(clean_json(dict(data or {}))))
        optional = {"task_id": task_id, "from_state": from_state, "to_state": to_state}
        fields: dict[str, Any] = {"timestamp": clock.now_iso(), "event": event, "session_id": self.session_id}
        fields |= {key: text for key, text in optional.items() if text is not None}
        journal = await self._ready()
        await journal.append(clean_line(fields, redacted), last=event == "SESSION_END")
        return {**fields, "data": redacted.value}

    async def _ready(self) -> Journal:
        async with self._opening:
            if self._journal is None:
                await asyncio.to_thread(self.state_dir.ensure)
                self._journal = await Journal.create(self.path, chained=False, copies=self.state_dir.copies)
            return self._journal

    async def close(self) -> None:
        """Close the log; without SESSION_END it reads as a session that was cut off."""
        async with self._opening:
            if self._journal is not None:
                await self._journal.close()


def _free_path(folder: Path, session_id: str) -> Path:
    stamp, number = clock.now_iso()[:19].replace(":", "-"), 1
    while (path := folder / f"trace-{session_id}-{stamp}{f'_{number}' if number > 1 else ''}.jsonl").exists():
        number += 1
    return path


def read_session(path: Path | str) -> list[dict[str, Any]]:
    """The session log's objects in file order; a torn tail is left out. Raises `NotFoundError`."""
    found: list[dict[str, Any]] = []
    for seq, line in iter_lines(path):
        try:
            fields = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise TraceError(f"line {seq + 1} of {os.fspath(path)!r} is damaged", why=str(error)) from error
        if not isinstance(fields, dict) or not all(
            isinstance(fields.get(key), str) for key in ("timestamp", "event", "session_id")
        ):
            raise TraceError(f"line {seq + 1} of {os.fspath(path)!r} is not a TracePack event")
        found.append(fields)
    return found


def session_files(state_dir: StateDir) -> list[Path]:
    """Every session log, the newest by its name's time first."""
    found = []
    for path in state_dir.tracepack.glob("trace-*.jsonl"):
        match = _NAME.fullmatch(path.name)
        if match:
            found.append((match[2], int(match[3] or 1), path.name, path))
    return [entry[-1] for entry in sorted(found, reverse=True)]


def find_session(state_dir: StateDir, selector: str | None) -> Path:
    """The log of the session that `selector` names or begins, or the newest one for None. Raises `NotFoundError`."""
    sessions: dict[str, Path] = {}  # the newest log of each
    for path in session_files(state_dir):
        match = _NAME.fullmatch(path.name)
        if match:
            sessions.setdefault(match[1], path)
    if selector is None:
        names = list(sessions)[:1]
    elif selector in sessions:
        names = [selector]
    else:
        names = [name for name in sessions if selector and name.startswith(selector)]
    if not names:
        what = "no session is recorded here" if selector is None else f"no session matches {selector!r}"
        raise NotFoundError(what, next_step="a session is recorded when a task runs")
    if len(names) > 1:
        raise NotFoundError(
            f"{selector!r} could be {len(names)} sessions: {', '.join(names[:5])}", next_step="type more of the id"
        )
    return sessions[names[0]]
