"""Puts versions of files that the repository holds into the user's folder, each in one step.

Who is killed in between leaves every file either as it was or as it shall be.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from runner.workspace.git.entries import Entry, put_as_known, small_index
from runner.workspace.git.pointers import is_pointer, media_of
from runner.workspace.git.repository import ABSENT, Git
from tracer.clock import short_token

Side = Entry | None  # None where there is no file
SMALL = 1024  # what stands for content that lies elsewhere is no longer
WHOLE_FILE = 1 << 62


def entry_side(mode: str, blob: str) -> Side:
    """One side of git's raw diff format."""
    return None if mode == ABSENT else (mode, blob)


def stamp(path: Path) -> tuple[int, ...]:
    """What tells a file from the same file changed since."""
    try:
        facts = path.lstat()
    except OSError:
        return ()
    return () if stat.S_ISDIR(facts.st_mode) else (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_mode)


_IN_THE_WAY = {errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY}
Stamps = dict[str, tuple[int, ...]]


def put_files(
    git: Git, folder: Path, wanted: Mapping[str, Side], stamps: Stamps, *, start: str, store: Path
) -> list[str]:
    """Make the files in `folder` what is `wanted`; those that are not as `stamps` says stay, and are returned.

    `start` is what the repository puts before the paths, `store` where an index of ours may lie.
    """
    left = []
    aside = git.git_dir / f"pm-undo-{short_token()}"
    for old in git.git_dir.glob("pm-undo-*"):  # of one that was killed
        shutil.rmtree(old, ignore_errors=True)
    try:
        _write_aside(git, wanted, aside, start, store)
        for path in sorted(path for path, new in wanted.items() if new is None):
            if stamp(folder / path) == stamps[path]:
                (folder / path).unlink(missing_ok=True)
                _remove_empty((folder / path).parent, folder)
            else:
                left.append(path)
        for path in sorted(path for path, new in wanted.items() if new is not None):
            target = folder / path
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                if stamp(target) != stamps[path]:
                    raise FileExistsError(errno.EEXIST, "changed meanwhile")
                if target.is_dir() and not target.is_symlink():  # emptied by one that was killed, or by the user
                    for inner, _, _ in os.walk(target, topdown=False):
                        Path(inner).rmdir()
                _move(aside / (start + path), target)
            except OSError as error:
                if error.errno not in _IN_THE_WAY:
                    raise
                left.append(path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return left


def _write_aside(git: Git, wanted: Mapping[str, Side], aside: Path, start: str, store: Path) -> None:
    """The contents as git checks them out: line ends, modes and links as in the working tree."""
    entries = {os.fsencode(start + path): new for path, new in wanted.items() if new is not None}
    if not entries:
        return
    with small_index(git, store) as small:
        put_as_known(small, entries)
        small.run("checkout-index", "-a", "-f", "-q", f"--prefix={aside}/")
    for path, new in wanted.items():
        place = aside / (start + path)
        if new is not None and new[0].startswith("100") and place.stat().st_size < SMALL:
            text = place.read_bytes()
            if is_pointer(text) and not (media := media_of(text, git.git_dir, limit=WHOLE_FILE - 1)).cut:
                place.write_bytes(media.content)


def _remove_empty(folder: Path, top: Path) -> None:
    with suppress(OSError):
        while folder != top:
            folder.rmdir()
            folder = folder.parent


def _move(source: Path, target: Path) -> None:
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = target.with_name(f".{target.name}.{short_token()}.tmp")
        shutil.copy2(source, beside, follow_symlinks=False)
        beside.replace(target)
