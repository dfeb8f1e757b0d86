"""What a profile's setup commands leave (packages, mostly), kept as a tar under the hash of all that went into them.

Setup sees the files that pin dependencies and nothing else, so that whose code it was makes no difference to what is
kept; where that is not enough (`pip install -e .`) it sees the tree, and what it leaves is kept for that tree alone.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tomllib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from tracer.capture.canonical import canonical_json
from tracer.clock import short_token
from tracer.durable import ensure_folder

_PATTERNS: Final = tuple(
    pattern for pattern, _ in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["patterns"]
)


def pins_dependencies(path: str) -> bool:
    """Whether the file says what the repository's tests need."""
    name = path.rpartition("/")[2]
    return any(fnmatchcase(name, pattern) for pattern in _PATTERNS)


def layer_key(*inputs: Sequence[object] | str | bool) -> str:
    """The name of what setup leaves, by everything that it depends on."""
    return hashlib.sha256(canonical_json(list(inputs))).hexdigest()


class KeptLayers:
    """The kept layers in `folder`; the one used longest ago goes first where there are more than `most_bytes`."""

    def __init__(self, folder: Path, *, most_bytes: int) -> None:
        self._folder = folder
        self._most_bytes = most_bytes

    def find(self, key: str) -> Path | None:
        """The layer, if it is kept."""
        path = self._folder / f"{key}.tar"
        try:
            os.utime(path)
        except OSError:
            return None
        return path

    def keep(self, key: str, *, before: Path, after: Path) -> Path:
        """Keep what the tar `after` has beside the files of the tar `before`."""
        ensure_folder(self._folder)
        aside = self._folder / f".{key}.{short_token()}"
        try:
            with tarfile.open(before) as tar:
                known = {_plain(member.name) for member in tar}
            with tarfile.open(after) as saved, tarfile.open(aside, "w") as layer:
                _copy((member for member in saved if _plain(member.name) not in known), saved, layer)
            self._make_room(aside.stat().st_size)
            aside.rename(self._folder / f"{key}.tar")
        finally:
            aside.unlink(missing_ok=True)
        return self._folder / f"{key}.tar"

    def _make_room(self, size: int) -> None:
        kept = sorted(self._folder.glob("*.tar"), key=lambda path: path.stat().st_mtime)
        size += sum(path.stat().st_size for path in kept)
        for path in kept:
            if size > self._most_bytes:
                size -= path.stat().st_size
                path.unlink(missing_ok=True)


def lay_over(tree: Path, layer: Path) -> None:
    """Add a layer's files to a tree's tar."""
    with tarfile.open(layer) as found, tarfile.open(tree, "a") as tar:
        _copy(found, found, tar)


def _copy(members: Iterable[tarfile.TarInfo], source: tarfile.TarFile, target: tarfile.TarFile) -> None:
    for member in members:
        target.addfile(member, source.extractfile(member) if member.isreg() else None)


def _plain(name: str) -> str:
    return name.removeprefix("./").rstrip("/")
