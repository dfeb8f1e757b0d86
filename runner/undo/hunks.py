"""A task's changes in hunks: git compares the versions of all files at once, and a hunk can be taken out of a text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from runner.undo.plan import trees_of, unkept
from runner.workspace.git.put_files import Side
from runner.workspace.git.repository import Git, GitError, parse_raw
from tracer.facts import Issue
from tracer.unified_diff import HunkHeader, hunk_header, split_lines

_DIFF: Final = (
    *("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"),
    *("-U3", "--inter-hunk-context=0", "--diff-algorithm=histogram", "--indent-heuristic"),
)


class Hunk(NamedTuple):
    """One change with the lines around it, each marked as in a diff; `id` is the file's path and its number there.

    What has no lines to choose from (a binary file, a link, a mode) is one hunk, which begins at line 0.
    """

    id: str
    old_start: int
    new_start: int
    lines: tuple[bytes, ...]
    findings: tuple[Issue, ...] = ()

    def side(self, mark: bytes) -> list[bytes]:
        """The lines before (`-`) or after (`+`) it."""
        found: list[bytes] = []
        last = False
        for line in self.lines:
            if line[:1] == b"\\" and last:
                found[-1] = found[-1][:-1]
            last = line[:1] in {b" ", mark}
            found += [line[1:] + b"\n"] if last else []
        return found


def parse_hunks(path: str, patch: Iterable[bytes]) -> tuple[Hunk, ...]:
    """The hunks of one file's part of a unified diff, given as lines. Pure."""
    found: list[tuple[HunkHeader, list[bytes]]] = []
    for line in patch:
        if header := hunk_header(line):
            found.append((header, []))
        elif found:
            found[-1][1].append(line or b" ")
    return tuple(
        Hunk(f"{path}:{number}", header.old_start, header.new_start, tuple(lines))
        for number, (header, lines) in enumerate(found, 1)
    )


def without(content: bytes, hunks: Iterable[Hunk]) -> bytes:
    """`content` as the hunks left it, with these taken out. Pure.

    Raises:
        GitError: it is not what the hunks left.

    """
    lines = split_lines(content)
    for hunk in sorted(hunks, key=lambda one: one.new_start, reverse=True):
        old, new = hunk.side(b"-"), hunk.side(b"+")
        at = hunk.new_start - bool(new)  # of an empty range, git names the line before it
        if lines[at : at + len(new)] != new:
            raise GitError(f"{hunk.id} is not in what the task left")
        lines[at : at + len(new)] = old
    return b"".join(lines)


def hunks_of(git: Git, changed: Mapping[str, tuple[Side, Side]], *, store: Path) -> dict[str, tuple[Hunk, ...]]:
    """The hunks of every path; git compares the texts, all at once."""
    why = unkept(git, (side for pair in changed.values() for side in pair))
    found: dict[str, tuple[Hunk, ...]] = {}
    texts: dict[str, tuple[Side, Side]] = {}
    for path, (old, new) in changed.items():
        sides = [side for side in (old, new) if side is not None]
        if lost := [why[side[1]] for side in sides if side[1] in why]:
            found[path] = (whole(path, lost[:1]),)
        elif all(side[0].startswith("100") for side in sides):
            if old is not None and new is not None and old[0] != new[0]:
                found[path] = (Hunk(f"{path}:mode", 0, 0, (f"-mode {old[0]}".encode(), f"+mode {new[0]}".encode())),)
            if old is None or new is None or old[1] != new[1]:
                texts[path] = (old, new)
        else:
            marked = [f"{mark}{_told(git, side)}" for mark, side in (("-", old), ("+", new)) if side is not None]
            found[path] = (whole(path, marked),)
    for path, patch in _patches(git, texts, store=store).items():
        hunks = parse_hunks(path, patch) or (whole(path, ["an empty or binary file"]),)
        found[path] = (*hunks, *found.get(path, ()))
    return found


def _patches(git: Git, texts: Mapping[str, tuple[Side, Side]], *, store: Path) -> dict[str, list[bytes]]:
    if not texts:
        return {}
    trees = trees_of(git, texts, store=store)
    raw, _, text = git.run(*_DIFF, "-z", "--raw", "--no-abbrev", "-p", *trees).partition(b"\0\0")
    patches: list[list[bytes]] = []
    for line in text.split(b"\n"):
        if line.startswith(b"diff --git "):  # lines of files have a mark before them
            patches.append([])
        elif patches:
            patches[-1].append(line)
    if patches:
        patches[-1].pop()  # what follows the last newline
    return dict(zip((os.fsdecode(entry.path) for entry in parse_raw(raw)), patches, strict=True))


def _told(git: Git, side: tuple[str, str]) -> str:
    if side[0] == "120000":
        return f"link to {git.run('cat-file', 'blob', side[1]).decode('utf-8', 'backslashreplace')}"
    return "repository" if side[0] == "160000" else "file"


def whole(path: str, texts: Sequence[str]) -> Hunk:
    """A change that cannot be divided, told in words."""
    lines = [text if text[:1] in {"-", "+"} else f"\\ {text}" for text in texts]
    return Hunk(f"{path}:1", 0, 0, tuple(line.encode("utf-8", "backslashreplace") for line in lines))


def moved_pairs(changed: Mapping[str, tuple[Side, Side]]) -> dict[str, str]:
    """The pairs of a deleted and an added path with the same content, in both directions, where there is no choice."""
    gone: dict[Side, list[str]] = {}
    come: dict[Side, list[str]] = {}
    for path, (old, new) in changed.items():
        if new is None:
            gone.setdefault(old, []).append(path)
        elif old is None:
            come.setdefault(new, []).append(path)
    pairs = [(one[0], come[side][0]) for side, one in gone.items() if len(one) == len(come.get(side, ())) == 1]
    return {one: other for pair in pairs for one, other in (pair, pair[::-1])}
