"""Where Codex keeps sessions: `sessions/YYYY/MM/DD/rollout-<time>-<thread id>.jsonl`, one file for each thread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from tracer.distill.native import AgentFile, NativeSession
from tracer.distill.native_files import entries, head_of, text_field

_NAME: Final = re.compile(r"rollout-.*?-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.jsonl")
_DATE_PART: Final = re.compile(r"\d{2}|\d{4}")
_HEAD: Final = 256 * 1024
_AGENT_LIMIT: Final = 1000


def sessions(root: Path) -> Iterator[NativeSession]:
    """Every thread below `root` that is no subagent's, without its agents."""
    for path in _rollouts(root):
        head = head_of(path)
        if head and _parent_of(head, path) is None:
            yield _session(path, head)


def _rollouts(root: Path) -> Iterator[Path]:
    for name in ("sessions", "archived_sessions"):
        if not (root / name).is_symlink():
            yield from _below(root / name, depth=3)


def _below(folder: Path, *, depth: int) -> Iterator[Path]:
    for entry in entries(folder):
        if entry.name.startswith("rollout-") and entry.name.endswith(".jsonl"):
            yield Path(entry.path)
    if depth:
        for entry in entries(folder, folders=True):
            if _DATE_PART.fullmatch(entry.name):
                yield from _below(Path(entry.path), depth=depth - 1)


def by_id(root: Path, session_id: str, _cwd: Path | None) -> NativeSession | None:
    """The file whose name ends in the thread id."""
    return next((describe(path) for path in _rollouts(root) if path.name.endswith(f"-{session_id}.jsonl")), None)


def describe(path: Path) -> NativeSession:
    """The thread in `path`, without its agents."""
    return _session(path, head_of(path))


def _session(path: Path, head: bytes) -> NativeSession:
    named = _NAME.fullmatch(path.name)
    session_id = named.group(1) if named else text_field(head, "id") or path.stem
    cwd, version = text_field(head, "cwd"), text_field(head, "cli_version")
    return NativeSession.at(path, "codex", session_id, cwd=cwd, cli_version=version)


def _parent_of(head: bytes, path: Path) -> str | None:
    """The thread that spawned this one. `parent_thread_id` may stand behind a long system prompt in the first line."""
    line = head.split(b"\n", 1)[0]
    if b'"subagent"' not in line and b'"parent_thread_id"' not in line and len(line) == len(head) >= 65536:
        line = head_of(path, _HEAD).split(b"\n", 1)[0]
    if b'"parent_thread_id"' not in line:
        return None
    return text_field(line, "parent_thread_id")


def with_agents(session: NativeSession) -> NativeSession:
    """`session` with the threads it spawned, and those they spawned, from its day on."""
    day = session.path.parent
    root = day.parents[2] if len(day.parents) > 2 and _DATE_PART.fullmatch(day.name) else None
    candidates = _below(root, depth=3) if root is not None else _below(day, depth=0)
    parents: dict[str, list[AgentFile]] = {}
    for path in candidates:
        if path == session.path or path.parent < day:
            continue
        head = head_of(path)
        parent = _parent_of(head, path)
        if parent is not None:
            named = (text_field(head, key) for key in ("agent_role", "agent_path", "agent_nickname"))
            kind = next((name for name in named if name), None)
            agent = AgentFile(path=path, agent_id=_session(path, head).session_id, kind=kind)
            parents.setdefault(parent, []).append(agent)
    found: list[AgentFile] = []
    queue = [session.session_id]
    while queue and len(found) < _AGENT_LIMIT:
        children = parents.pop(queue.pop(0), [])
        found += sorted(children, key=lambda file: file.path.name)
        queue += [child.agent_id for child in children]
    return replace(session, agents=tuple(found))
