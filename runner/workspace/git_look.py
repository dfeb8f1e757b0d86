"""What differs between an index and the disk, by as few readings of a large index as there can be.

Two commands run side by side: one asks after every known file, the other walks the folders. Where it is not known yet
whether the index holds flags that hide changes, the second one lists the known files with their flags besides.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from runner.workspace.git import Git, RawEntry, parse_raw

__all__ = ["ABSENT", "Look", "look_at"]

ABSENT = "000000"
_CHANGED = ("diff-files", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=all")
_OTHERS = ("ls-files", "-z", "--others", "--exclude-standard")
_FEW_LINKS = 200
_GITLINK_MODE = b"\x00\x00\xe0\x00"


class Look(NamedTuple):
    """What differs between an index and the disk; `is_plain`: no submodules, conflicts or flags that hide changes.

    `hidden` are known files that git passes over in silence.
    """

    changed: list[RawEntry]
    others: set[bytes]
    is_plain: bool
    hidden: set[bytes]


def look_at(git: Git, scope: Sequence[str], *, known_plain: bool) -> Look:
    """What differs between git's index and the disk; `scope` is a pathspec after `--`, or nothing.

    Raises:
        GitError: files came or went meanwhile, or the index is damaged.

    """
    listing = (*_OTHERS, *(() if known_plain else ("--cached", "-v")), *scope)
    with ThreadPoolExecutor(2) as pool:
        changed = pool.submit(git.run, *_CHANGED, *scope)
        listed = pool.submit(git.run, *listing)
        is_plain = known_plain or not _may_have_gitlinks(git)
    if known_plain:
        others = set(listed.result().split(b"\0")) - {b""}
    else:
        others, are_usual = _sorted_by_tag(listed.result())
        is_plain = is_plain and are_usual
    return Look(parse_raw(changed.result()), others, is_plain, _behind_links(git, others, scope))


def _sorted_by_tag(tagged: bytes) -> tuple[set[bytes], bool]:
    """The unknown paths, which stand first, and whether all the others have the tag of an ordinary entry."""
    others, at = set(), 0
    while tagged.startswith(b"? ", at):
        end = tagged.index(b"\0", at)
        others.add(tagged[at + 2 : end])
        at = end + 1
    ordinary = tagged.count(b"\0H ", at) + tagged.startswith(b"H ", at)
    return others, tagged.count(b"\0", at) == ordinary


def _may_have_gitlinks(git: Git) -> bool:
    """Whether the bytes of a gitlink's mode occur in the index, or part of the index is in another file."""
    if any(git.git_dir.glob("sharedindex.*")):
        return True
    return git.index is not None and git.index.exists() and _GITLINK_MODE in git.index.read_bytes()


def _behind_links(git: Git, untracked: Iterable[bytes], scope: Sequence[str]) -> set[bytes]:
    """Known files under what is a link now: git says nothing of them when the link leads in a circle."""
    top = os.fsencode(git.top)
    links = [path for path in untracked if os.path.islink(top + b"/" + path)]  # noqa: PTH114 - names are bytes
    if not links:
        return set()
    # A few links are asked for by name; more would not fit on a command line.
    few = [os.fsdecode(link) + "/" for link in links] if len(links) <= _FEW_LINKS else scope[1:]
    known = git.run("ls-files", "-z", "--", *few).split(b"\0")
    roots = tuple(link + b"/" for link in links)
    return {path for path in known if path and path.startswith(roots)}
