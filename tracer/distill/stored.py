"""Puts a trace into its folder: seed 000's file name, one file a session, whole or not at all, mode 0600.

Rule of identity: provider, session id and the start of the window (`source.since`) name a trace. Distilled again, the
session keeps its file and its name: unchanged bytes are left alone, others replace it in one step. Only another label
given by a person renames it. A name that is taken gets `_2`, `_3` … before `.jsonl`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from filecmp import cmp
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson

from tracer.distill.native import Distilled
from tracer.distill.native_files import entries, head_of
from tracer.durable import ignored_folder, link_new, sync_file, sync_folder, write_all, written_aside
from tracer.errors import RecordError, told_as
from tracer.lock import FileLock

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.-]")
_META_LIMIT: Final = 16 * 1024 * 1024
_PART_LIMIT: Final = 80
_BUFFER: Final = 1 << 20
_PATIENCE_S: Final = 60.0


class StoredTrace(NamedTuple):
    """An agentic trace in a folder: its file and its meta line."""

    path: Path
    meta: dict[str, Any]


def trace_name(*, ts: str, label: str, provider: str, number: int = 1) -> str:
    """`trace_<YYYYMMDD>_<HHMM>_<operation>__<module>_<provider>[_<number>].jsonl`; `ts` is the meta line's."""
    operation, _, module = label.partition(":")
    stamp = f"{ts[:10].replace('-', '')}_{ts[11:16].replace(':', '')}"
    suffix = f"_{number}" if number > 1 else ""
    return f"trace_{stamp}_{_part(operation)}__{_part(module)}_{provider}{suffix}.jsonl"


def _part(text: str) -> str:
    return _UNSAFE.sub("_", text)[:_PART_LIMIT] or "session"


def prepare_folder(folder: Path) -> None:
    """Make `folder` (0700) with a `.gitignore` of its own."""
    next_step = "make it writable, or name another folder with -o"
    with told_as(RecordError, f"cannot write to {str(folder)!r}", next_step=next_step):
        ignored_folder(folder, b"*\n")


def read_meta(path: Path) -> dict[str, Any] | None:
    """The meta line of an agentic trace, None for anything else."""
    head = head_of(path)
    if not head.startswith(b'{"type":"meta"'):
        return None
    if b"\n" not in head:
        head = head_of(path, _META_LIMIT)
    try:
        meta = orjson.loads(head.split(b"\n", 1)[0])
    except orjson.JSONDecodeError:
        return None
    return meta if isinstance(meta, dict) else None


def stored_traces(folder: Path) -> Iterator[StoredTrace]:
    """Every agentic trace in `folder`, by name."""
    for entry in _trace_files(folder):
        if (meta := read_meta(folder / entry.name)) is not None:
            yield StoredTrace(folder / entry.name, meta)


def _trace_files(folder: Path) -> list[os.DirEntry[str]]:
    named = (entry for entry in entries(folder) if entry.name.startswith("trace_") and entry.name.endswith(".jsonl"))
    return sorted(named, key=lambda entry: entry.name)


def find_trace(folder: Path, meta: Mapping[str, Any]) -> StoredTrace | None:
    """The trace in `folder` of the session (and the run of it) that `meta` is about."""
    wanted = _identity_of(meta)
    for entry in _trace_files(folder):
        if _identity(entry) == wanted:
            path = folder / entry.name
            stored = read_meta(path)  # the file itself has the last word
            if stored is not None and _identity_of(stored) == wanted:
                return StoredTrace(path, stored)
    return None


def _identity(entry: os.DirEntry[str]) -> tuple[Any, ...] | None:
    """Whose trace `entry` is. Remembered as long as the file is the same: a folder of 1,000 is not read 1,000 times."""
    try:
        at = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return _identity_at(entry.path, (at.st_ino, at.st_dev, at.st_size, at.st_mtime_ns, at.st_ctime_ns))


@lru_cache(maxsize=20_000)
def _identity_at(path: str, _as_it_was: tuple[int, ...]) -> tuple[Any, ...] | None:
    meta = read_meta(Path(path))
    return None if meta is None else _identity_of(meta)


def _identity_of(meta: Mapping[str, Any]) -> tuple[Any, ...] | None:
    source = meta.get("source")
    if not isinstance(source, dict):
        return None
    return meta.get("provider"), meta.get("session_id"), source.get("since")


def store(folder: Path, meta: dict[str, Any], lines: Callable[[], Iterable[bytes]], *, relabel: bool) -> Distilled:
    """Write meta and lines aside, then give them the session's name; see the rule of identity above.

    Only naming is done under the folder's lock: writing and syncing of many sessions goes side by side.
    """
    prepare_folder(folder)
    next_step = "free space or make the folder writable; the native session is untouched"
    with (
        told_as(RecordError, f"cannot write an agentic trace to {str(folder)!r}", next_step=next_step),
        written_aside(folder / "trace") as (descriptor, aside),
    ):
        label = meta["label"]
        meta["label"] = _label(find_trace(folder, meta), label, relabel=relabel)
        size = _write(descriptor, meta, lines())
        with FileLock(folder / ".lock").acquire(what="the folder of agentic traces", patience_s=_PATIENCE_S):
            found = find_trace(folder, meta)
            named = _label(found, label, relabel=relabel)
            if named != meta["label"]:  # another process stored or renamed it in between
                meta["label"] = named
                os.ftruncate(descriptor, 0)
                os.lseek(descriptor, 0, os.SEEK_SET)
                size = _write(descriptor, meta, lines())
            return _name(folder, found, meta, aside, size)


def _label(found: StoredTrace | None, label: str, *, relabel: bool) -> str:
    """The label a trace gets: the one it has, unless a person gave another."""
    kept = None if found is None or relabel else found.meta.get("label")
    return kept if isinstance(kept, str) else label


def _name(folder: Path, found: StoredTrace | None, meta: dict[str, Any], aside: str, size: int) -> Distilled:
    if found is None:
        path = _claim(folder, aside, meta)
        return Distilled(path=path, status="created", meta=meta, size=size)
    status: Literal["updated", "unchanged"] = "unchanged" if cmp(aside, found.path, shallow=False) else "updated"
    path = found.path
    if status == "updated":
        if meta["label"] == found.meta.get("label"):
            Path(aside).replace(path)
        else:
            path = _claim(folder, aside, meta)
            found.path.unlink()
        sync_folder(folder)
    return Distilled(path=path, status=status, meta=meta, size=size)


def _write(descriptor: int, meta: Mapping[str, Any], lines: Iterable[bytes]) -> int:
    size, buffer = 0, bytearray(orjson.dumps(meta, option=orjson.OPT_APPEND_NEWLINE))
    for line in lines:
        buffer += line
        if len(buffer) > _BUFFER:
            write_all(descriptor, bytes(buffer))
            size += len(buffer)
            buffer.clear()
    write_all(descriptor, bytes(buffer))
    sync_file(descriptor)
    return size + len(buffer)


def _claim(folder: Path, aside: str, meta: Mapping[str, Any]) -> Path:
    number = 1
    while True:
        name = trace_name(ts=meta["ts"], label=meta["label"], provider=meta["provider"], number=number)
        try:
            link_new(aside, folder / name)
        except FileExistsError:
            number += 1
        else:
            return folder / name
