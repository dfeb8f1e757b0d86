"""Puts a trace into its folder: seed 000's file name, one file a session, whole or not at all, mode 0600.

Rule of identity: provider, session id and the start of the window (`source.since`) name a trace. Distilled again, the
session keeps its file and its name: unchanged bytes are left alone, others replace it in one step. Only another label
given by a person renames it; `formerly` keeps the names it had, by which records name it (`stored_at`). A name that is
taken gets `_2`, `_3` … before `.jsonl`. What the session file cannot tell stays too: the person's own prompt, and what
the caller knew better (`told`) as long as the session holds the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from filecmp import cmp
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from unicodedata import normalize

import orjson

from tracer.distill.native import Distilled
from tracer.distill.native_files import entries, head_of
from tracer.durable import ignored_folder, link_new, sync_file, sync_folder, write_all, written_aside
from tracer.errors import RecordError, told_as
from tracer.lock import FileLock

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.-]")
_META_LIMIT: Final = 16 * 1024 * 1024
_PART_LIMIT: Final = 80
_DIGITS: Final = 6
_BUFFER: Final = 1 << 20
_KNOWN_BETTER: Final = ("cost_usd", "duration_sec", "prompt", "success")
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
    """A part of a name; names of letters beyond ASCII, which all become `_`, are told apart by a hash."""
    text = normalize("NFC", text)
    name = _UNSAFE.sub("_", text)[:_PART_LIMIT]
    if text.isascii():
        return name or "session"
    digest = sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return f"{name[: _PART_LIMIT - _DIGITS - 1]}-{digest}"


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


def stored_at(path: Path) -> Path:
    """The file of the agentic trace that had the name `path`, `path` itself where there is none of another name."""
    if path.exists():
        return path
    return next((one.path for one in stored_traces(path.parent) if path.name in names_before(one.meta)), path)


def names_before(meta: Mapping[str, Any]) -> list[str]:
    """The names that a trace had before it was given other labels."""
    names = meta.get("formerly")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


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
    with _told(folder), written_aside(folder / "trace") as (descriptor, aside):
        written = _settled(find_trace(folder, meta), meta, relabel=relabel)
        size = _write(descriptor, written, lines())
        with _locked(folder):
            found = find_trace(folder, meta)
            settled = _settled(found, meta, relabel=relabel)
            if settled != written:  # another process stored or renamed it in between
                os.ftruncate(descriptor, 0)
                os.lseek(descriptor, 0, os.SEEK_SET)
                size = _write(descriptor, settled, lines())
            return _name(folder, found, settled, aside, size)


def tell_success(path: Path, *, success: bool) -> bool:
    """Write into the trace at `path` how the caller judged the run; whether that changed it. Raises `RecordError`."""
    with _told(path.parent), _locked(path.parent):
        if (meta := read_meta(path)) is None or meta.get("success") is success:
            return False
        meta["success"], meta["told"] = success, sorted({"success", *(meta.get("told") or ())})
        with path.open("rb") as file, written_aside(path) as (descriptor, aside):
            file.readline()
            _write(descriptor, meta, iter(lambda: file.read(_BUFFER), b""))
            Path(aside).replace(path)
            sync_folder(path.parent)
    return True


def _told(folder: Path) -> AbstractContextManager[None]:
    next_step = "free space or make the folder writable; the native session is untouched"
    return told_as(RecordError, f"cannot write an agentic trace to {str(folder)!r}", next_step=next_step)


def _locked(folder: Path) -> AbstractContextManager[object]:
    return FileLock(folder / ".lock").acquire(what="the folder of agentic traces", patience_s=_PATIENCE_S)


def _settled(found: StoredTrace | None, meta: Mapping[str, Any], *, relabel: bool) -> dict[str, Any]:
    """The meta line with what is kept of the trace that the session has."""
    settled = dict(meta)
    if found is None:
        return settled
    was = found.meta
    if not relabel and isinstance(was.get("label"), str):
        settled["label"] = was["label"]
    told = was["told"] if isinstance(was.get("told"), list) else []
    same = was.get("source") == meta["source"]
    kept = [name for name in told if name in _KNOWN_BETTER and name not in meta.get("told", ())]
    kept = [name for name in kept if name == "prompt" or (same and name in was)]
    for name in kept:
        settled = _with_prompt(settled, was) if name == "prompt" else settled | {name: was[name]}
    if kept:
        settled["told"] = sorted({*kept, *meta.get("told", ())})
    names = [*names_before(was), *([found.path.name] if settled["label"] != was.get("label") else ())]
    if names:
        settled["formerly"] = list(dict.fromkeys(names))
    return settled


def _with_prompt(meta: dict[str, Any], was: Mapping[str, Any]) -> dict[str, Any]:
    """The meta line with the person's prompt of `was`; what the session holds is what was sent."""
    if "sent_prompt_sha256" in meta:  # another prompt file was given
        return meta
    own = {name: was.get(name) for name in ("prompt_file", "prompt_sha256")}
    items = [(name, own.get(name, value)) for name, value in meta.items()]
    at = next(number for number, (name, _) in enumerate(items, 1) if name == "prompt_sha256")
    return dict([*items[:at], ("sent_prompt_sha256", meta["prompt_sha256"]), *items[at:]])


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
