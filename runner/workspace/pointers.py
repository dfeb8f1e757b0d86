"""Files that git keeps as a pointer (git-lfs): the pointer in a tree stands for the bytes on disk.

The filters that turn one into the other are never run, so a file that was touched but not changed would look changed;
its hash is in the pointer and tells.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from runner.workspace.model import Side
from runner.workspace.notes import note_hash

__all__ = ["is_pointer", "media_of", "same_content"]

_POINTER = re.compile(
    rb"\Aversion https?://[^\n]+\n(?:[a-z0-9.-]+ [^\n]*\n)*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n\Z"
)
_LONGEST = 1024


def is_pointer(content: bytes) -> bool:
    """Whether this is the text of a pointer."""
    return len(content) <= _LONGEST and _POINTER.match(content) is not None


def same_content(pointer: bytes, content: bytes) -> bool:
    """Whether `content` (or the note that stands for it) is what `pointer` points to."""
    match = _POINTER.match(pointer)
    wanted = match[1].decode() if match else None
    return wanted is not None and wanted == (note_hash(content) or hashlib.sha256(content).hexdigest())


def media_of(pointer: bytes, git_dir: Path, *, limit: int) -> Side:
    """What the pointer points to, where the repository holds it; else nothing, marked as cut."""
    match = _POINTER.match(pointer)
    if match is None:
        return Side(pointer)
    name = match[1].decode()
    for root in (git_dir, git_dir.parent.parent):  # of a worktree, the common folder is two levels up
        try:
            with (root / "lfs" / "objects" / name[:2] / name[2:4] / name).open("rb") as file:
                content = file.read(limit + 1)
        except OSError:
            continue
        return Side(content[:limit], cut=len(content) > limit)
    return Side(b"", cut=True)
