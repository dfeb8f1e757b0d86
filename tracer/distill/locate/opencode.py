"""Where opencode keeps sessions: all in the SQLite database `opencode.db`, subagents' as sessions with a parent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tracer.distill.native import AgentFile, NativeSession
from tracer.distill.native_files import open_native
from tracer.errors import PmError, TraceError

if TYPE_CHECKING:
    import sqlite3

_FILE: Final = "opencode.db"
_SESSIONS: Final = (
    "SELECT s.id, s.directory, s.version, s.time_updated, (SELECT total(length(p.data)) FROM part p"
    " WHERE p.session_id = s.id) FROM session s WHERE s.parent_id IS NULL"
)
_AGENTS: Final = 1000


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database in the plain file `path`, for reading only. Raises `TraceError`."""
    import sqlite3  # 2 MB, for this provider only

    open_native(path).close()
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            yield database
    except sqlite3.Error as error:
        raise TraceError(f"cannot read {str(path)!r}", why=str(error)) from error


def sessions(root: Path) -> Iterator[NativeSession]:
    """Every session in the database of `root`; none where it cannot be read."""
    try:
        yield from _found(root / _FILE)
    except PmError:
        return


def by_id(root: Path, session_id: str, _cwd: Path | None) -> NativeSession | None:
    """The session with this id."""
    return next((session for session in sessions(root) if session.session_id == session_id), None)


def describe(path: Path) -> NativeSession:
    """The session that was written last in the database `path`. Raises `TraceError`."""
    found = _found(path)
    if not found:
        raise TraceError(f"no session in {str(path)!r}", next_step="`pm sessions` lists every session found")
    return max(found, key=lambda session: session.modified_ms)


def with_agents(session: NativeSession) -> NativeSession:
    """`session` with its subagents, and theirs."""
    agents: list[AgentFile] = []
    with opened(session.path) as database:
        above = [session.session_id]
        while above and len(agents) < _AGENTS:
            asked = "SELECT id, agent FROM session WHERE parent_id = ? ORDER BY id LIMIT ?"
            rows = database.execute(asked, (above.pop(0), _AGENTS)).fetchall()
            agents += [AgentFile(path=session.path, agent_id=str(name), kind=_text(kind)) for name, kind in rows]
            above += [str(name) for name, _kind in rows]
    return replace(session, agents=tuple(agents))


def _found(path: Path) -> list[NativeSession]:
    with opened(path) as database:
        rows = database.execute(_SESSIONS).fetchall()
    return [
        NativeSession(
            provider="opencode",
            session_id=str(name),
            path=path,
            cwd=_text(cwd),
            cli_version=_text(version),
            modified_ms=changed if type(changed) is int else 0,
            size=int(size),
        )
        for name, cwd, version, changed, size in rows
    ]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
