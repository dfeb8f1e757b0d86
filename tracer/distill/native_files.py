"""Bounded reading of files and folders that other programs wrote: lines, records, times, heads.

A file is never read whole. A line over 16 MB, or one with too many values, becomes `Unreadable` and reading continues
after it. Links, devices and pipes are refused. Every byte goes through the hash that becomes the trace's provenance.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import orjson

from tracer import clock
from tracer.errors import NotFoundError, PmError, TraceError
from tracer.json_values import clean_json

K = TypeVar("K")
V = TypeVar("V")
MAX_LINE: Final = 16 * 1024 * 1024
_CHUNK: Final = 1 << 16  # as fast as 128 or 256 kB, faster than 1 MB, and four times this much is held
# A parsed value costs about 100 bytes: 400,000 of them are 40 MB.
_MAX_VALUES: Final = 400_000
DENSE_FROM: Final = 1 << 20
_LONGEST_ID: Final = 200
_LAST_MS: Final = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that cannot be held in memory: its length in bytes."""

    length: int


@dataclass(slots=True)
class Source:
    """Provenance of what was read: bytes, records (lines) and the sha256 over all bytes, files in reading order."""

    size: int = 0
    records: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def to_dict(self) -> dict[str, Any]:
        """As `meta.source` holds it."""
        return {"bytes": self.size, "records": self.records, "sha256": self.digest.hexdigest()}


def open_native(path: Path) -> IO[bytes]:
    """`path` opened for reading, only if it is a plain file and no link. Raises `NotFoundError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NotFoundError(f"no session file {str(path)!r}", next_step="`pm sessions` lists what is there") from error
    except OSError as error:
        why = "it is a symbolic link" if path.is_symlink() else str(error.strerror)
        raise TraceError(f"cannot read {str(path)!r}", why=why, next_step="name the session file itself") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise TraceError(f"cannot read {str(path)!r}", why="it is not a plain file")
    return os.fdopen(descriptor, "rb", buffering=0)


def read_lines(stream: IO[bytes], source: Source) -> Iterator[bytes | Unreadable]:
    """Each line without its newline, empty ones left out; the last one also where its newline is missing."""
    for batch in read_batches(stream, source):
        for line in batch:
            yield line if isinstance(line, Unreadable) else line.removesuffix(b"\n")


def read_batches(stream: IO[bytes], source: Source) -> Iterator[list[bytes | Unreadable]]:
    """The lines of `read_lines`, each with its newline, as many at a time as one reading of the file brought."""
    parts: list[bytes] = []
    held = 0
    while chunk := stream.read(_CHUNK):
        source.digest.update(chunk)
        source.size += len(chunk)
        pieces = io.BytesIO(chunk).readlines()  # shares the bytes; `split` takes seven times as long
        del chunk
        tail = b"" if pieces[-1].endswith(b"\n") else pieces.pop()
        if not pieces:
            held += len(tail)
            if held <= MAX_LINE:
                parts.append(tail)
            else:
                parts.clear()
            continue
        held += len(pieces[0]) - 1
        too_long = held > MAX_LINE
        if parts and not too_long:
            pieces[0] = b"".join((*parts, pieces[0]))
        lines: list[bytes | Unreadable] = [piece for piece in (pieces[1:] if too_long else pieces) if piece != b"\n"]
        if too_long:
            lines.insert(0, Unreadable(held))
        source.records += len(lines)
        yield lines
        parts = [tail] if tail else []
        held = len(tail)
    if held:
        source.records += 1
        yield [Unreadable(held) if held > MAX_LINE else b"".join(parts)]


def too_dense(line: bytes) -> bool:
    """Whether parsing `line` could take more memory than the promise allows."""
    if len(line) < DENSE_FROM:
        return False
    return line.count(b",") + line.count(b"[") + line.count(b"{") > _MAX_VALUES


def decode_record(line: bytes) -> dict[str, Any] | None:
    """The JSON object in `line`, or None. Lone surrogates and stray bytes become U+FFFD instead of an error."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        if line.lstrip()[:1] != b"{":
            return None
        try:
            record = clean_json(json.loads(line.decode("utf-8", "replace")))
        except (ValueError, RecursionError):
            return None
    return record if isinstance(record, dict) else None


def as_object(value: Any) -> dict[str, Any]:
    """`value` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str:
    """`value` where it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def keep(held: dict[K, V], key: K, value: V, most: int) -> None:
    """Put `value` under `key`; where there are more than `most`, the oldest goes."""
    held[key] = value
    if len(held) > most:
        del held[next(iter(held))]


def short_id(value: str) -> str:
    """`value`, or its hash where it is longer than any provider's: thousands of identifiers are held in memory."""
    if len(value) <= _LONGEST_ID:
        return value
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def epoch_ms(value: Any) -> int | None:
    """Milliseconds since 1970 UTC of an ISO 8601 text (without a zone: UTC) or a number of milliseconds."""
    if type(value) is str:
        moment = clock.epoch_ms(value)
        return moment if moment is not None and 0 <= moment <= _LAST_MS else None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LAST_MS:
        return int(value)
    return None


_HEAD: Final = 64 * 1024
_JSON_FILE: Final = 1 << 20


def entries(folder: Path, *, folders: bool = False) -> Iterator[os.DirEntry[str]]:
    """Plain files of `folder`, or its plain folders; never links; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as found:
            for entry in found:
                is_wanted = entry.is_dir if folders else entry.is_file
                if is_wanted(follow_symlinks=False):
                    yield entry
    except OSError:
        return


def is_plain_folder(folder: Path) -> bool:
    """A folder that is no link."""
    return folder.is_dir() and not folder.is_symlink()


def head_of(path: Path, size: int = _HEAD) -> bytes:
    """The first bytes of a plain file, nothing where it cannot be read."""
    try:
        with open_native(path) as stream:
            return stream.read(size) or b""
    except (PmError, OSError):
        return b""


def json_file(path: Path) -> dict[str, Any]:
    """The object in a small JSON file; an empty one where it cannot be read or holds something else."""
    try:
        return as_object(orjson.loads(head_of(path, _JSON_FILE)))
    except orjson.JSONDecodeError:
        return {}


def text_field(head: bytes, key: str) -> str | None:
    """The first string value of `key` in `head` (JSON, perhaps cut off), decoded."""
    match = re.search(rb'"' + re.escape(key.encode()) + rb'"\s*:\s*("(?:[^"\\]|\\.){0,4096}")', head)
    if match is None:
        return None
    try:
        value = orjson.loads(match.group(1))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, str) else None
