"""Finds native sessions below the providers' folders, by id, by project, newest first, or all.

The providers' own folders may be links (people keep dotfiles elsewhere); below them no link is followed, and an id
from outside never becomes a path unless it is a plain name. Heads of files are read, never whole files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

from tracer.distill.locate import claude, codex, copilot, gemini, opencode
from tracer.distill.native import NativeSession, Provider
from tracer.distill.native_files import open_native
from tracer.errors import NotFoundError, TraceError, UsageError

PROVIDERS: Final[tuple[Provider, ...]] = get_args(Provider)
_HEAD: Final = 4 << 20  # a session's own instructions come before its first prompt
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# The variable that moves a provider's folder, the folder in the user's home without it, and what of it holds sessions.
_ROOTS: Final[Mapping[Provider, tuple[str, str, str]]] = {
    "claude": ("CLAUDE_CONFIG_DIR", ".claude", "projects"),
    "codex": ("CODEX_HOME", ".codex", ""),
    "gemini": ("GEMINI_CLI_HOME", "", ".gemini/tmp"),
    "copilot": ("COPILOT_HOME", ".copilot", "session-state"),
    "opencode": ("XDG_DATA_HOME", ".local/share", "opencode"),
}
_MODULES: Final = {"claude": claude, "codex": codex, "gemini": gemini, "copilot": copilot, "opencode": opencode}


# What stands in the first bytes of a file; asked in this order.
_MARKS: Final[Mapping[Provider, tuple[bytes, ...]]] = {
    "codex": (b'"session_meta"', b'"response_item"'),
    "copilot": (b'"copilotVersion"',),
    "gemini": (b'"projectHash"', b'"type":"gemini"'),
    "claude": (b'"parentUuid"', b'"sessionId"'),
}


def provider_root(provider: Provider, environ: Mapping[str, str] | None = None) -> Path:
    """The folder below which `provider` keeps its sessions (below CLAUDE_CONFIG_DIR and its like, else ~)."""
    environ = os.environ if environ is None else environ
    variable, usual, below = _ROOTS[provider]
    home = Path(environ.get("HOME") or Path.home())
    return Path(environ.get(variable) or home / usual) / below


def find_sessions(
    provider: Provider | None = None, *, project: Path | None = None, environ: Mapping[str, str] | None = None
) -> list[NativeSession]:
    """All sessions found, newest first; `project` keeps those that ran in this folder.

    Subagents' files are not sessions of their own. Files that cannot be read are passed over.
    """
    found: list[NativeSession] = []
    for name in (provider,) if provider else PROVIDERS:
        root = provider_root(name, environ)
        found.extend(session for session in _MODULES[name].sessions(root) if _is_in(session, project))
    return sorted(found, key=lambda session: (-session.modified_ms, str(session.path)))


def latest_session(
    provider: Provider | None = None, *, project: Path | None = None, environ: Mapping[str, str] | None = None
) -> NativeSession:
    """The newest session, of `project` if given, with its subagents. Raises `NotFoundError`."""
    sessions = find_sessions(provider, project=project, environ=environ)
    if not sessions:
        searched = ", ".join(str(provider_root(name, environ)) for name in ((provider,) if provider else PROVIDERS))
        of_project = f" of {project}" if project else ""
        raise NotFoundError(
            f"no native session{of_project} found",
            why=f"searched {searched}",
            next_step="`pm sessions` lists every session found; `--session PATH` names one",
        )
    return with_agents(sessions[0])


def session_by_id(
    provider: Provider, session_id: str, *, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> NativeSession:
    """The session with this native id, with its subagents; `cwd` is a hint where to look first."""
    if not _SAFE_ID.fullmatch(session_id) or ".." in session_id:
        raise UsageError(f"{session_id!r} is no session id", why="ids are letters, digits, dots, dashes")
    root = provider_root(provider, environ)
    found = _MODULES[provider].by_id(root, session_id, cwd)
    if found is None:
        raise NotFoundError(
            f"no {provider} session {session_id!r}",
            why=f"searched {root}",
            next_step=f"`pm sessions --provider {provider}` lists what is there",
        )
    return with_agents(found)


def session_that_holds(prompt: str, provider: Provider, *, since_ms: int) -> NativeSession:
    """The newest session that was written since then and holds `prompt`. Raises `NotFoundError`."""
    wanted = json.dumps(prompt, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
    for session in find_sessions(provider):
        if session.modified_ms < since_ms:
            break
        with open_native(session.path) as stream:
            if wanted in stream.read(_HEAD + len(wanted)):
                return with_agents(session)
    raise NotFoundError(f"no {provider} session holds the prompt")


def session_named(
    name: str, provider: Provider | None = None, *, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> NativeSession:
    """The session (of any provider, if none is given) whose id is `name`, else the only one whose id begins so."""
    for asked in (provider,) if provider else PROVIDERS:
        try:
            return session_by_id(asked, name, cwd=cwd, environ=environ)
        except NotFoundError:
            continue
    begun = [session for session in find_sessions(provider, environ=environ) if session.session_id.startswith(name)]
    if not begun:
        raise NotFoundError(f"no session {name!r}", next_step="`pm sessions` lists every session found")
    if len(begun) > 1:
        named = ", ".join(session.session_id for session in begun[:3])
        raise UsageError(
            f"{len(begun)} session ids begin with {name!r}",
            why=named if len(begun) <= 3 else f"{named}, …",
            next_step="give more of the id",
        )
    return with_agents(begun[0])


def session_at(path: Path, provider: Provider | None = None) -> NativeSession:
    """The session in the file `path`, wherever it lies, with the subagents beside it. Raises `NotFoundError`."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the links that are to be refused
    if path.parent.is_symlink():
        raise TraceError(
            f"cannot read {str(path)!r}",
            why="its folder is a symbolic link",
            next_step="name the file by its real path",
        )
    open_native(path).close()
    provider = provider or guess_provider(path)
    return with_agents(_MODULES[provider].describe(path))


def guess_provider(path: Path) -> Provider:
    """Which provider wrote `path`, by its place and else by its first bytes."""
    name, parts = path.name, path.parts
    if name.startswith("rollout-") or ".codex" in parts:
        return "codex"
    if ".gemini" in parts or (name.startswith("session-") and path.parent.name == "chats"):
        return "gemini"
    if ".copilot" in parts:
        return "copilot"
    if ".claude" in parts:
        return "claude"
    with open_native(path) as stream:
        head = stream.read(65536)
    if head.startswith(b"SQLite format 3"):
        return "opencode"
    for provider, marks in _MARKS.items():
        if any(mark in head for mark in marks):
            return provider
    raise TraceError(
        f"cannot tell which agent wrote {str(path)!r}",
        why="neither its name nor its first lines are a known session's",
        next_step="add --provider claude, codex, gemini, copilot or opencode",
    )


def with_agents(session: NativeSession) -> NativeSession:
    """`session` with the files of its subagents looked up."""
    found: NativeSession = _MODULES[session.provider].with_agents(session)
    return found


def _is_in(session: NativeSession, project: Path | None) -> bool:
    if project is None:
        return True
    if session.cwd is None:
        return False
    spellings = {str(project), str(project.resolve())}
    return session.cwd in spellings or str(Path(session.cwd).resolve()) in spellings
