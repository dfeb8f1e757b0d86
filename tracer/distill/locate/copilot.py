"""Where GitHub Copilot CLI keeps sessions: `session-state/<session id>/events.jsonl`, subagents in the same file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tracer.distill.native import NativeSession
from tracer.distill.native_files import entries, head_of, text_field

_FILE: Final = "events.jsonl"


def sessions(root: Path) -> Iterator[NativeSession]:
    """Every session below `root`."""
    for folder in entries(root, folders=True):
        if (found := by_id(root, folder.name, None)) is not None:
            yield found


def by_id(root: Path, session_id: str, _cwd: Path | None) -> NativeSession | None:
    """The session in the folder of this name."""
    path = root / session_id / _FILE
    return describe(path) if head_of(path, 1) else None


def describe(path: Path) -> NativeSession:
    """The session in `path`."""
    head = head_of(path)
    named = text_field(head, "sessionId") or path.parent.name
    version = text_field(head, "copilotVersion")
    return NativeSession.at(path, "copilot", named, cwd=text_field(head, "cwd"), cli_version=version)


def with_agents(session: NativeSession) -> NativeSession:
    """`session` as it is: no subagent has a file of its own."""
    return session
