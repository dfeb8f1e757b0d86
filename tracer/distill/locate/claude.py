"""Where Claude Code keeps sessions: `projects/<slug>/<id>.jsonl`, subagents in the file, beside it or below it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from tracer.distill.native import AgentFile, NativeSession
from tracer.distill.native_files import entries, head_of, is_plain_folder, text_field

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AGENT_FILE: Final = re.compile(r"agent-([A-Za-z0-9_-]{1,64})\.jsonl")


def slug(cwd: str) -> str:
    """The folder name Claude Code makes of a working directory."""
    return re.sub(r"[^A-Za-z0-9]", "-", cwd)


def sessions(root: Path) -> Iterator[NativeSession]:
    """Every session below `root`, without its agents; files without a conversation are left out."""
    for project in entries(root, folders=True):
        for entry in entries(Path(project.path)):
            if entry.name.endswith(".jsonl") and not _AGENT_FILE.fullmatch(entry.name):
                head = head_of(Path(entry.path))
                if b'"user"' in head or b'"assistant"' in head:
                    yield _session(Path(entry.path), head)


def by_id(root: Path, session_id: str, cwd: Path | None) -> NativeSession | None:
    """The file named after `session_id`, first in the folder of `cwd`."""
    folders = [root / slug(str(cwd))] if cwd is not None else []
    folders += [Path(entry.path) for entry in entries(root, folders=True)]
    for folder in folders:
        path = folder / f"{session_id}.jsonl"
        if is_plain_folder(folder) and path.is_file() and not path.is_symlink():
            return describe(path)
    return None


def describe(path: Path) -> NativeSession:
    """The session in `path`, without its agents."""
    return _session(path, head_of(path))


def _session(path: Path, head: bytes) -> NativeSession:
    # The name comes first: a session that went on from another may begin with the other's records.
    session_id = path.stem if _UUID.fullmatch(path.stem) else text_field(head, "sessionId") or path.stem
    cwd, version = text_field(head, "cwd"), text_field(head, "version")
    return NativeSession.at(path, "claude", session_id, cwd=cwd, cli_version=version)


def with_agents(session: NativeSession) -> NativeSession:
    """`session` with its subagents: below its own folder (2.1), or beside it under the same session id (2.0)."""
    found: list[AgentFile] = []
    own = session.path.with_suffix("")
    below = own / "subagents"
    if is_plain_folder(own) and is_plain_folder(below):
        found += [_agent(Path(entry.path)) for entry in entries(below) if _AGENT_FILE.fullmatch(entry.name)]
    for entry in entries(session.path.parent):
        if _AGENT_FILE.fullmatch(entry.name) and entry.name != session.path.name:
            head = head_of(Path(entry.path), 4096)
            if text_field(head, "sessionId") == session.session_id:
                found.append(_agent(Path(entry.path)))
    return replace(session, agents=tuple(sorted(found, key=lambda file: file.path.name)))


def _agent(path: Path) -> AgentFile:
    match = _AGENT_FILE.fullmatch(path.name)
    kind = text_field(head_of(path.with_suffix(".meta.json"), 4096), "agentType")
    return AgentFile(path=path, agent_id=match.group(1) if match else path.stem, kind=kind)
