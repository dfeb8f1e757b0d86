"""Careful looks into folders that others write: entries without links, the heads of files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from tracer.distill.records import open_native
from tracer.errors import PmError

__all__ = ["entries", "head_of", "is_plain_folder", "text_field"]

_HEAD: Final = 64 * 1024


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
