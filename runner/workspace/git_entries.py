"""Entries of an index: put in as they lie on disk, or carried beside a large index that is not written again for a few.

Such an index is the user's as it was, and the `Overlay` beside it holds what differed from it on disk. What the few
paths hold is read through an index of their own, so that every rule of git for reading a file applies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from runner.workspace.git import Git, listed
from runner.workspace.git_trees import Entry
from tracer.clock import short_token

__all__ = ["Found", "Overlay", "lay_over", "put", "put_few", "read_entries", "small_index", "take_as_known"]

Overlay = Mapping[bytes, Entry | None]
_LISTED = re.compile(rb"(\d+) ([0-9a-f]+) \d\t(.*)", re.DOTALL)
_MOST_ARGUMENTS = 300


class Found(NamedTuple):
    """Paths to remove from an index, to read from disk, and entries to put in as they are."""

    removed: list[bytes]
    added: list[bytes]
    entries: list[bytes]


def put(git: Git, found: Found) -> None:
    """Bring the index up to what was found on disk."""
    if found.removed:
        git.run("update-index", "-z", "--force-remove", "--stdin", stdin=listed(found.removed))
    put_few(git, {}, found)


def put_few(git: Git, known: Mapping[bytes, Entry], found: Found) -> None:
    """The same into an index that is empty; `known` are earlier entries, by which git reads line ends and modes."""
    earlier = {path: known[path] for path in found.added if path in known}
    arguments: list[str] = []
    if len(earlier) <= _MOST_ARGUMENTS:
        for path, entry in earlier.items():
            arguments += ["--cacheinfo", f"{entry.mode.decode()},{entry.id.decode()},{os.fsdecode(path)}"]
    else:
        take_as_known(git, earlier)
    if found.added:
        command = ("update-index", "-z", "--add", "--remove", "--replace", *arguments, "--stdin")
        git.run(*command, stdin=listed(found.added))
    if found.entries:
        git.run("update-index", "-z", "--replace", "--index-info", stdin=listed(found.entries))


def take_as_known(git: Git, entries: Mapping[bytes, Entry]) -> None:
    """Put entries into the index as they are, without a look at the disk."""
    lines = [b"%s %s\t%s" % (entry.mode, entry.id, path) for path, entry in entries.items()]
    if lines:
        git.run("update-index", "-z", "--replace", "--index-info", stdin=listed(lines))


def lay_over(git: Git, overlay: Overlay) -> None:
    """Bring a large index up to the overlay beside it."""
    gone = [path for path, entry in overlay.items() if entry is None]
    if gone:
        git.run("update-index", "-z", "--force-remove", "--stdin", stdin=listed(gone))
    take_as_known(git, {path: entry for path, entry in overlay.items() if entry is not None})


def read_entries(git: Git) -> dict[bytes, Entry]:
    """Mode and id of every path of the index."""
    lines = (_LISTED.fullmatch(line) for line in git.run("ls-files", "-s", "-z").split(b"\0"))
    return {match[3]: Entry(match[1], match[2]) for match in lines if match is not None}


@contextmanager
def small_index(git: Git, store: Path) -> Iterator[Git]:
    """The repository with an empty index of its own, which is gone afterwards."""
    own = store / f"changed-{short_token(16)}.index"
    try:
        yield git.with_index(own)
    finally:
        own.unlink(missing_ok=True)
        Path(f"{own}.lock").unlink(missing_ok=True)
