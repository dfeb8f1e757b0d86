"""The effects of `pm check`: which files, read within limits, and the answer from a file or standard input.

In a git work tree only files that git does not ignore are taken; elsewhere hidden folders and the usual build folders
are left out. A file named by itself is always taken, unless it is excluded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.criteria.check import CheckReport, check, is_excluded
from runner.criteria.model import ChangedFile
from runner.evidence import look_up_claims
from runner.processes import run_command
from tracer.errors import NotFoundError, UsageError

__all__ = ["check_paths"]

READ_LIMIT = 64 * 1024 * 1024
_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", "dist", "build", "target"}
)
_LIST_LIMIT = 64 * 1024 * 1024


async def check_paths(
    *,
    root: Path,
    paths: Sequence[str] = (),
    answer: str | None = None,
    exclude: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> CheckReport:
    """Judge the files under `paths` (relative to `root`; the whole of `root` where nothing at all is named).

    Raises:
        NotFoundError: a path that does not exist.
        UsageError: a path outside `root`.

    """
    root = root.resolve()
    named = list(paths) or ([] if answer is not None else ["."])
    names: list[str] = []
    for path in named:
        names += await _expand(root, path, tuple(exclude))
    files = await asyncio.to_thread(_read_all, root, list(dict.fromkeys(names)))
    claims = await asyncio.to_thread(look_up_claims, root, answer) if answer is not None else ()
    return await asyncio.to_thread(check, files=files, answer=answer, claims=claims, options=options)


async def _expand(root: Path, path: str, exclude: tuple[str, ...]) -> list[str]:
    target = (root / path).resolve()
    if not target.is_relative_to(root):
        raise UsageError(f"{path!r} is outside the folder", next_step="pm -C DIR check PATH")
    if not target.exists():
        raise NotFoundError(f"no such file or folder: {path!r}", next_step="check the spelling")
    if target.is_file():
        name = target.relative_to(root).as_posix()
        return [] if is_excluded(name, exclude) else [name]
    listed = await _git_files(target)
    found = listed if listed is not None else await asyncio.to_thread(lambda: list(_walk(target)))
    names = ((target / name).relative_to(root).as_posix() for name in found)
    return sorted(name for name in names if not is_excluded(name, exclude) and not name.startswith(".pm-orchestrator/"))


async def _git_files(folder: Path) -> list[str] | None:
    """Tracked and new files below `folder` that git does not ignore; None where it is no git work tree."""
    result = await run_command(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=folder,
        timeout_s=60,
        keep_bytes=_LIST_LIMIT,
        label="check",
    )
    if not result.ok or result.dropped_bytes:
        return None
    return [name for name in result.output.decode("utf-8", "surrogateescape").split("\0") if name]


def _walk(folder: Path) -> Iterator[str]:
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.startswith("."))
        for name in files:
            yield (Path(base) / name).relative_to(folder).as_posix()


def _read_all(root: Path, names: Sequence[str]) -> tuple[ChangedFile, ...]:
    return tuple(file for name in names if (file := _read(root, name)) is not None)


def _read(root: Path, name: str) -> ChangedFile | None:
    """One file, whole up to the reading limit; None for links, special files and what vanished meanwhile."""
    path = root / name
    try:
        before = path.lstat()
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            content = file.read(READ_LIMIT + 1)
        after = path.lstat()
    except OSError:
        return None
    unstable = (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size)
    too_large = len(content) > READ_LIMIT
    return ChangedFile(path=name, before=None, after=content[:READ_LIMIT], too_large=too_large, unstable=unstable)
