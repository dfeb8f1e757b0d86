"""One recorded session from its first prompt to its closed spool: terminal, watcher, scribe and, if live, the sender.

When `record_session` returns the spool is closed and whole. When the process is killed at any point, everything that
was written is in the spool, and `close_interrupted` closes it later from the working tree as it then is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from collector.client import CollectorClient
from collector.client_send import send_spool
from collector.recorder.marks import Mark, Token
from collector.recorder.scribe import Item, Scribe, ScribeOptions
from collector.recorder.shells import Shell, prepare
from collector.recorder.terminal import PtyShell
from collector.recorder.watching import Watcher
from collector.spool import Spool
from runner.workspace.git import Git
from tracer.clock import now_epoch_ms
from tracer.errors import LockedError, PmError
from tracer.lock import FileLock

__all__ = ["RECORDING", "Ended", "close_interrupted", "record_session", "request_stop"]

RECORDING = "PM_RECORDING"
_LIVE_S = 2.0
_LONGEST_LIVE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a session ended: the shell's status, and why recording ended before it, if it did."""

    status: int
    marked: bool
    failed: PmError | None
    live_trouble: PmError | None = None


async def record_session(
    spool: Spool,
    git: Git,
    shell: Shell,
    *,
    cwd: str,
    options: ScribeOptions,
    environ: Mapping[str, str],
    client: CollectorClient | None = None,
) -> Ended:
    """Run the shell and record it; `client` sends as it goes.

    Raises:
        LockedError: another process records into this spool.
        RecordError: it cannot be written.

    """
    lock = FileLock(spool.folder / "recorder.lock")
    lock.acquire(what="this recording")
    try:
        spool.reopen()
        return await _recorded(
            spool, git, shell, cwd=cwd, options=options, environ=environ, client=client, gave_up=lock.release
        )
    finally:
        lock.release()


async def _recorded(
    spool: Spool,
    git: Git,
    shell: Shell,
    *,
    cwd: str,
    options: ScribeOptions,
    environ: Mapping[str, str],
    client: CollectorClient | None,
    gave_up: Callable[[], None],
) -> Ended:
    nonce = secrets.token_hex(16)
    marked = False
    ready = prepare(shell, spool.folder / "shell", nonce=nonce, environ={**environ, RECORDING: str(spool.folder)})

    def on_token(token: Token, typed: bytes) -> None:
        nonlocal marked
        if isinstance(token, Mark):
            marked = True
            scribe.put(Item("mark", now_epoch_ms(), token, typed))
        else:
            scribe.put(Item("output", now_epoch_ms(), token))

    terminal = PtyShell(ready, cwd=cwd, nonce=nonce, on_token=on_token, settled=lambda: scribe.settled())  # noqa: PLW0108 - made below
    scribe = Scribe(spool, git, options, tell=terminal.say, gave_up=gave_up)
    watcher = Watcher(
        git.top,
        left_out=options.left_out,
        saved=lambda paths: scribe.put(Item("files", now_epoch_ms(), paths)),
        tell=terminal.say,
    )
    live = _Live(spool, client, begun=scribe.begun) if client is not None else None
    scribe.look_first()

    def started() -> None:
        scribe.start()
        watcher.start()

    try:
        status = await terminal.run(started=started, beside=live)
    finally:
        watcher.stop()
        scribe.put(Item("end", now_epoch_ms()))
        scribe.join()
    return Ended(status=status, marked=marked, failed=scribe.failed, live_trouble=live.trouble if live else None)


class _Live:
    """Sends what is new every two seconds; trouble makes it try less often, and never disturbs the shell."""

    def __init__(self, spool: Spool, client: CollectorClient, *, begun: threading.Event) -> None:
        self._begun = begun
        self._spool = Spool.open(spool.folder)  # one of its own: the scribe's belongs to another thread
        self._client = client
        self.trouble: PmError | None = None

    async def __call__(self) -> None:
        pause = _LIVE_S
        while True:
            await asyncio.sleep(pause)
            try:
                if self._begun.is_set() and self._spool.last_event() > self._spool.sent.seq:
                    self._spool.header = Spool.open(self._spool.folder).header  # the bundle's id may have come since
                    await send_spool(self._spool, self._client, final=False)
            except PmError as error:
                self.trouble = error
                pause = min(pause * 2, _LONGEST_LIVE_S)
            else:
                self.trouble, pause = None, _LIVE_S


def close_interrupted(spool: Spool, git: Git, options: ScribeOptions, *, tell: Callable[[str], None]) -> bool:
    """Close a recording whose recorder was killed: last edits, commits, final state. False where one is running.

    Raises:
        RecordError: it cannot be written.

    """
    if spool.final is not None:
        return True
    lock = FileLock(spool.folder / "recorder.lock")
    try:
        lock.acquire(what="this recording")
    except LockedError:
        return False
    try:
        scribe = Scribe(spool, git, options, tell=tell)
        scribe.look_first()
        scribe.start()
        scribe.put(Item("end", now_epoch_ms()))
        scribe.join()
        if scribe.failed is not None:
            raise scribe.failed
    finally:
        lock.release()
    return True


def request_stop(spool: Spool) -> bool:
    """Ask the running recorder to end its shell; False where none runs on this machine."""
    holder = spool.recorder
    if holder is None or holder.pid <= 0:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(holder.pid, signal.SIGUSR1)
        return True
    return False
