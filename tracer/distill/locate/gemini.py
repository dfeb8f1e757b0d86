"""Where Gemini CLI keeps sessions: `tmp/<project>/chats/session-<time>-<id8>.json[l]`, agents below `chats/<id>/`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from tracer.distill.native import AgentFile, NativeSession
from tracer.distill.native_files import entries, head_of, is_plain_folder, json_file, text_field

_NAME: Final = re.compile(r"session-.*\.jsonl?")
_AGENT_FILE: Final = re.compile(r"([A-Za-z0-9_-]{1,128})\.jsonl?")
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def sessions(root: Path) -> Iterator[NativeSession]:
    """Every session below `root`, without its agents."""
    projects = _projects(root.parent)
    for project in entries(root, folders=True):
        chats = Path(project.path) / "chats"
        if not is_plain_folder(chats):
            continue
        for entry in entries(chats):
            if _NAME.fullmatch(entry.name):
                session = _session(Path(entry.path), projects)
                if session is not None:
                    yield session


def by_id(root: Path, session_id: str, _cwd: Path | None) -> NativeSession | None:
    """The file whose header holds `session_id`; its name holds only the first eight characters."""
    return next((session for session in sessions(root) if session.session_id == session_id), None)


def describe(path: Path) -> NativeSession:
    """The session in `path`, without its agents."""
    parents = path.parents
    session = _session(path, _projects(parents[3]) if len(parents) > 3 else {})
    return session or NativeSession.at(path, "gemini", path.stem)


def _session(path: Path, projects: dict[str, str]) -> NativeSession | None:
    head = head_of(path)
    session_id = text_field(head[:4096], "sessionId")
    if session_id is None:
        return None
    return NativeSession.at(path, "gemini", session_id, cwd=_cwd(path, head, projects))


def _cwd(path: Path, head: bytes, projects: dict[str, str]) -> str | None:
    """The working directory: from the project folder's mark, the list of projects, or the hash of a known one."""
    folder = path.parent.parent
    marked = head_of(folder / ".project_root", 4096).decode("utf-8", "replace").strip()
    if marked.startswith("/"):
        return marked
    if folder.name in projects:
        return projects[folder.name]
    project_hash = text_field(head[:4096], "projectHash")
    for known in (*projects.values(), str(Path.cwd()), *_mentioned(head)):
        if project_hash and hashlib.sha256(known.encode()).hexdigest() == project_hash:
            return known
    return None


def _mentioned(head: bytes) -> list[str]:
    """Absolute paths in the session's first arguments, and the folders above them: one of them is the project."""
    found: dict[str, None] = {}
    for match in re.finditer(rb'"(/[^"\\\n]{1,1024})"', head):
        path = Path(match.group(1).decode("utf-8", "replace"))
        for folder in (path, *path.parents):
            found[str(folder)] = None
        if len(found) > 500:
            break
    return list(found)


def _projects(gemini: Path) -> dict[str, str]:
    """Short project name -> working directory, from `projects.json`."""
    projects = json_file(gemini / "projects.json").get("projects")
    if not isinstance(projects, dict):
        return {}
    return {name: path for path, name in projects.items() if isinstance(name, str) and isinstance(path, str)}


def with_agents(session: NativeSession) -> NativeSession:
    """`session` with its subagents (0.61 on; older versions store none)."""
    if not _SAFE_ID.fullmatch(session.session_id):
        return session
    folder = session.path.parent / session.session_id
    if not is_plain_folder(folder):
        return session
    found = [
        AgentFile(path=Path(entry.path), agent_id=match.group(1))
        for entry in entries(folder)
        if (match := _AGENT_FILE.fullmatch(entry.name))
    ]
    return replace(session, agents=tuple(sorted(found, key=lambda file: file.path.name)))
