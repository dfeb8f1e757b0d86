"""Distills many sessions: all at once, one process per core, or each as soon as its file stops growing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Final, NamedTuple

from tracer.clock import monotonic
from tracer.distill.locate.find import PROVIDERS, guess_provider, provider_root, session_at, with_agents
from tracer.distill.locate.listing import list_native
from tracer.distill.native import Distilled, NativeSession, Provider, Request
from tracer.distill.one import distill
from tracer.errors import PmError
from tracer.pool import process_pool

# Below this many bytes starting processes (150 ms each) costs more than it saves.
_WORTH_IT = 8 * 1024 * 1024
# From here on each of two workers is sure to want the gate of all rules.
_WORTH_A_GATE = 128 * 1024 * 1024


class Outcome(NamedTuple):
    """What became of one session: a trace, or the error that kept it from one."""

    session: NativeSession
    distilled: Distilled | None
    error: PmError | None


def distill_many(
    sessions: Sequence[NativeSession], request: Request, *, workers: int | None = None
) -> Iterator[Outcome]:
    """Distill every session, yielding each as it is done, in no order. `workers` defaults to the number of cores."""
    count = min(workers or os.cpu_count() or 1, len(sessions))
    size = sum(session.size for session in sessions)
    if count < 2 or (workers is None and size < _WORTH_IT):
        for session in sessions:
            yield _one(session, request)
        return
    warm = ["tracer.distill.warm", "tracer.distill.warm_gate"] if size > _WORTH_A_GATE else ["tracer.distill.warm"]
    with process_pool(count, preload=warm) as pool:
        # The largest first, so that no core waits for one that was started last.
        ordered = sorted(sessions, key=lambda session: -session.size)
        for done in as_completed([pool.submit(_one, session, request) for session in ordered]):
            yield done.result()


def _one(session: NativeSession, request: Request) -> Outcome:
    try:
        return Outcome(session, distill(with_agents(session), request), None)
    except PmError as error:
        return Outcome(session, None, error)


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
            yield await asyncio.to_thread(_one, row.session, request)
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
