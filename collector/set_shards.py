"""The files of a set: rows appended to the split they belong to, a new file when one is full."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

__all__ = ["Shards"]

_SHARD_BYTES: Final = 64 << 20
_CHUNK: Final = 1 << 20


class _Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...

    def seek(self, offset: int, whence: int = ..., /) -> int: ...


@dataclass
class _Shard:
    path: Path
    file: BinaryIO
    rows: int = 0
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)


class Shards:
    """The shard files of each split; `done` and `open` shards together are what was written."""

    def __init__(self, folder: Path, *, name: str, most_rows: int) -> None:
        self._folder = folder
        self._name = name
        self._most_rows = most_rows
        self._open: dict[str, _Shard] = {}
        self._numbers: Counter[str] = Counter()
        self.written: list[dict[str, Any]] = []

    def add(self, split: str, row: _Readable) -> tuple[str, int]:
        """Append a row; the shard's path and the row's number in it, from 0."""
        size = row.seek(0, os.SEEK_END)
        row.seek(0)
        shard = self._open.get(split)
        if shard is None or shard.rows >= self._most_rows or shard.size + size > _SHARD_BYTES:
            shard = self._next(split)
        while chunk := row.read(_CHUNK):
            shard.file.write(chunk)
            shard.digest.update(chunk)
        shard.rows += 1
        shard.size += size
        return shard.path.as_posix(), shard.rows - 1

    def close(self) -> None:
        """Finish every shard."""
        for split in list(self._open):
            self._finish(split)
        self.written.sort(key=lambda shard: str(shard["path"]))

    def _next(self, split: str) -> _Shard:
        self._finish(split)
        path = Path(split) / f"{self._name}-{self._numbers[split]:05d}.jsonl"
        self._numbers[split] += 1
        (self._folder / split).mkdir(exist_ok=True)
        self._open[split] = _Shard(path, (self._folder / path).open("wb"))
        return self._open[split]

    def _finish(self, split: str) -> None:
        shard = self._open.pop(split, None)
        if shard is None:
            return
        with shard.file:
            shard.file.flush()
            os.fsync(shard.file.fileno())
        told = {"path": shard.path.as_posix(), "split": split, "rows": shard.rows, "bytes": shard.size}
        self.written.append({**told, "sha256": shard.digest.hexdigest()})
