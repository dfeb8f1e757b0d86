"""Removes captures that the collector has whole after a while; anything unsent, running or unreadable stays.

Removal renames first, so that a kill leaves no half capture; the next removal takes what it left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from collector.client.spool import Spool, captures_folder, list_spools
from tracer.clock import now_epoch_ms
from tracer.durable import sync_folder
from tracer.errors import RecordError
from tracer.lock import each_unheld

_GONE: Final = ".gone-"


class Kept(NamedTuple):
    """A capture that was sent whole: when (ms since 1970), and what it takes here (bytes)."""

    spool: Spool
    sent_at_ms: int
    size: int


class Unsent(NamedTuple):
    """A capture that the collector does not have whole: how many of its events are missing there."""

    spool: Spool
    events: int


def gone_name(folder: Path) -> Path:
    """The name under which a capture's folder is removed: nobody lists it any more."""
    return folder.with_name(f"{_GONE}{folder.name}")


def unsent(state_root: Path) -> list[Unsent]:
    """The captures that are not at their collector, or not all of them, newest first; running ones are left out."""
    return [
        Unsent(spool, max(spool.last_event() - spool.sent.seq, 0))
        for spool in list_spools(state_root)
        if spool.recorder is None and not _is_sent(spool)
    ]


def sent_before(state_root: Path, *, older_than_ms: int) -> list[Kept]:
    """The captures that were sent whole longer than `older_than_ms` ago, oldest first."""
    before = now_epoch_ms() - older_than_ms
    found = [
        Kept(spool, sent_at_ms, _size(spool.folder))
        for spool in list_spools(state_root)
        if _is_sent(spool) and spool.recorder is None
        if (sent_at_ms := _sent_at_ms(spool)) is not None and sent_at_ms < before
    ]
    return sorted(found, key=lambda kept: kept.sent_at_ms)


def prune_sent(state_root: Path, chosen: Sequence[Kept]) -> list[Kept]:
    """Remove them; those that somebody writes to now, or that changed since, stay. What was removed."""
    removed: list[Kept] = []
    for kept in each_unheld(chosen, lambda kept: kept.spool.folder / "writer.lock"):
        try:
            if _is_sent(kept.spool) and _sent_at_ms(kept.spool) == kept.sent_at_ms:
                kept.spool.folder.rename(gone_name(kept.spool.folder))
                removed.append(kept)
        except OSError as error:
            raise RecordError(f"{str(kept.spool.folder)!r} cannot be removed", why=error) from error
    folder = captures_folder(state_root)
    with contextlib.suppress(OSError):
        for gone in folder.glob(f"{_GONE}*"):  # what was renamed, by us or by one that was killed
            shutil.rmtree(gone, ignore_errors=True)
        sync_folder(folder)
    return removed


def _is_sent(spool: Spool) -> bool:
    sent = spool.sent
    return sent.finalized and sent.seq >= spool.last_event()


def _sent_at_ms(spool: Spool) -> int | None:
    try:
        return (spool.folder / "sent.json").stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def _size(folder: Path) -> int:
    total = 0
    for place, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(place) / name).lstat().st_size
    return total
