"""Files whose bytes are not kept (too large, unreadable): a short text with size and hash stands for them.

Hashes of large files are remembered by size, times and file number, so that an unchanged file is read once per process.
"""

from __future__ import annotations

import hashlib
import os
import re

__all__ = ["FileHashes", "is_note", "note_for", "note_hash"]

_NOTE = re.compile(rb"\Apm-orchestrator: content not kept\nsize \d+\n(?:sha256 ([0-9a-f]{64})|changed \d+)\n\Z")
_BLOCK = 1 << 20


class FileHashes:
    """sha256 of files, remembered while nothing about the file changes (change time included)."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int, int, int], str] = {}

    def of(self, path: bytes, facts: os.stat_result) -> str:
        """The file's hash in hex; OSError where it cannot be read."""
        key = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        if key not in self._known:
            digest = hashlib.sha256()
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - the name may not be text
                while block := file.read(_BLOCK):
                    digest.update(block)
            self._known[key] = digest.hexdigest()
        return self._known[key]


def note_for(path: bytes, facts: os.stat_result, hashes: FileHashes) -> bytes:
    """The text that stands for the file."""
    try:
        mark = f"sha256 {hashes.of(path, facts)}"
    except OSError:
        mark = f"changed {facts.st_mtime_ns}"
    return f"pm-orchestrator: content not kept\nsize {facts.st_size}\n{mark}\n".encode()


def is_note(content: bytes) -> bool:
    """Whether this is such a text."""
    return _NOTE.match(content) is not None


def note_hash(content: bytes) -> str | None:
    """The sha256 of the file that a note stands for; None for any other content."""
    match = _NOTE.match(content)
    return match[1].decode() if match and match[1] else None
