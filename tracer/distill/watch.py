"""Distills sessions as they grow, so that those run by hand are kept before their provider deletes them.

A session is distilled when its file has been quiet for some seconds; one session stays one trace. What ended while
nobody watched is caught up with at the start. A folder that does not exist yet is noticed when it appears.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from tracer.clock import monotonic
from tracer.distill.listing import list_native
from tracer.distill.locate import PROVIDERS, guess_provider, provider_root, session_at
from tracer.distill.many import Outcome
from tracer.distill.model import NativeSession, Provider, Request
from tracer.distill.session import distill
from tracer.errors import PmError

__all__ = ["watch_sessions"]

_QUIET_S: Final = 5.0
_STEP_MS: Final = 500


async def watch_sessions(
    request: Request,
    *,
    folder: Path,
    provider: Provider | None = None,
    environ: Mapping[str, str] | None = None,
    quiet_s: float = _QUIET_S,
) -> AsyncIterator[Outcome]:
    """Every session distilled, until the caller stops; `folder` is where the traces go (to know what is there)."""
    pending: dict[Path, float] = {}
    caught_up = await asyncio.to_thread(list_native, [folder], provider=provider, environ=environ)
    for row in caught_up:
        if row.distilled != "yes":
            yield await asyncio.to_thread(_distill, row.session.path, request)
    roots = [provider_root(name, environ) for name in ((provider,) if provider else PROVIDERS)]
    async for changed in _changes(roots):
        now = monotonic()
        pending.update((path, now) for path in map(_session_file, changed) if path is not None)
        for path in [path for path, seen in pending.items() if now - seen >= quiet_s]:
            del pending[path]
            yield await asyncio.to_thread(_distill, path, request)


async def _changes(roots: list[Path]) -> AsyncIterator[set[Path]]:
    """Changed files, or an empty set at least every half second; watches each folder as soon as it exists."""
    from watchfiles import awatch  # 70 ms, only for --watch

    while True:
        existing = [root for root in roots if root.is_dir()]
        if not existing:
            await asyncio.sleep(_STEP_MS / 1000)
            continue
        watcher = awatch(
            *existing, watch_filter=None, debounce=200, step=50, rust_timeout=_STEP_MS, yield_on_timeout=True
        )
        async for changes in watcher:
            yield {Path(name) for _, name in changes}
            if len(existing) < len(roots) and any(root.is_dir() for root in roots if root not in existing):
                break


def _session_file(path: Path) -> Path | None:
    """The main session file that a changed file belongs to, None for any other file."""
    if path.suffix not in {".jsonl", ".json"} or not path.is_file() or path.is_symlink():
        return None
    if path.parent.name == "subagents":
        path = path.parent.parent.with_suffix(".jsonl")
    elif path.name.startswith("agent-") or path.name in {"projects.json", "settings.json", "logs.json"}:
        return None
    known = path.parent.name == "chats" or path.name.startswith("rollout-") or "projects" in path.parts
    return path if known and path.is_file() else None


def _distill(path: Path, request: Request) -> Outcome:
    session = NativeSession(provider="claude", session_id=path.stem, path=path)
    try:
        session = session_at(path, guess_provider(path))
        return Outcome(session, distill(session, request), None)
    except PmError as error:
        return Outcome(session, None, error)
