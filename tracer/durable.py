"""The few file operations that make bytes survive a crash; every writer of records goes through them.

Promises: when `sync_file` returns, the file's bytes and size are on the device (`F_FULLFSYNC` on macOS, where a plain
fsync stops at the drive's cache); when `sync_folder` returns, so are its names. `publish` makes a file appear whole or
not at all, and never over an existing one. All functions raise OSError; callers say what could not be recorded.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from tracer.clock import short_token

TEMPORARY_SUFFIX = ".tmp"
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte of `data`, however short the kernel's single writes are."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_file(descriptor: int) -> None:
    """Return when the file's bytes are on the device."""
    if _FULL_SYNC is not None:  # macOS
        with contextlib.suppress(OSError):  # not every file system there knows it
            fcntl.fcntl(descriptor, _FULL_SYNC)
            return
    _sync_data(descriptor)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Return when the names in `folder` are on the device."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network and FUSE file systems cannot sync a folder
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


def ensure_folder(folder: str | os.PathLike[str], mode: int = 0o700) -> None:
    """Make `folder` and its missing parents, each durable in its own parent."""
    path = os.fspath(folder)
    missing: list[str] = []
    while path and not os.path.isdir(path):
        missing.append(path)
        parent = os.path.dirname(path)
        if parent == path:
            break
        path = parent
    for name in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, mode)
        sync_folder(os.path.dirname(name) or ".")


def unlock_mode(path: str | os.PathLike[str]) -> bool:
    """Give the owner back the rights to a folder or file that pm writes; whether any was missing."""
    mode = os.lstat(path).st_mode
    needed = {stat.S_IFDIR: stat.S_IRWXU, stat.S_IFREG: stat.S_IRUSR | stat.S_IWUSR}.get(stat.S_IFMT(mode), 0)
    if mode & needed == needed:
        return False
    os.chmod(path, stat.S_IMODE(mode) | needed)
    return True


def create_aside(path: str | os.PathLike[str], mode: int = 0o600) -> tuple[int, str]:
    """A fresh file beside `path`, hidden and ending in `.tmp`: its descriptor (append mode) and name."""
    folder, name = os.path.split(os.fspath(path))
    aside = os.path.join(folder, f".{name}.{short_token()}{TEMPORARY_SUFFIX}")
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(aside, flags, mode), aside
    except OSError as error:
        raise _about(path, error) from error


def _about(path: str | os.PathLike[str], error: OSError) -> OSError:
    """`error`, told of the file that is wanted: nobody knows the name of the one aside."""
    return OSError(error.errno, error.strerror, os.fspath(path))


@contextlib.contextmanager
def written_aside(path: str | os.PathLike[str], mode: int = 0o600) -> Iterator[tuple[int, str]]:
    """`create_aside` for a block that gives the file its name: closed at the end, and gone if it got none."""
    descriptor, aside = create_aside(path, mode)
    try:
        yield descriptor, aside
    except OSError as error:
        if error.filename != aside:
            raise
        raise _about(path, error) from error
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(aside)


def link_new(aside: str, path: str | os.PathLike[str]) -> None:
    """Give the file `aside` the name `path`, which must be free, and forget the old name; both durably."""
    try:
        os.link(aside, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path)) from error
        os.rename(aside, path)
    else:
        os.unlink(aside)
    sync_folder(os.path.dirname(os.fspath(path)) or ".")


def publish(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Make the file `path` with `data` in it: whole and durable when this returns, absent if it raises."""
    with written_aside(path, mode) as (descriptor, aside):
        write_all(descriptor, data)
        sync_file(descriptor)
        link_new(aside, path)


def ignored_folder(folder: str | os.PathLike[str], patterns: bytes) -> None:
    """Make `folder` and in it a `.gitignore` of `patterns`; one that is there stays as it is."""
    ensure_folder(folder)
    target = os.path.join(folder, ".gitignore")
    if not os.path.exists(target):
        with contextlib.suppress(FileExistsError):  # another process was first
            publish(target, patterns, 0o644)


def _own_descriptor(path: str | os.PathLike[str]) -> int | None:
    """The number of this process's descriptor that `path` names (`/dev/stdout`, `/dev/fd/3`), or None."""
    name = os.path.abspath(path)
    folder, last = os.path.split(name)
    if folder in {"/dev/fd", "/proc/self/fd"} and last.isdecimal():
        return int(last)
    return {"/dev/stdout": 1, "/dev/stderr": 2}.get(name)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is a device, pipe or descriptor: putting a file in its place would destroy it."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return _own_descriptor(path) is not None or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def replace(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Replace the file `path` by `data`: readers see the old bytes or the new ones, never a mixture."""
    with replacing(path, mode) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file aside that takes the place of `path` if the block ends well, and goes if it does not.

    Where `path` is no file (`/dev/stdout`, a named pipe) it gets what was written, at the end, and stays what it is.
    """
    if is_stream(path):
        import shutil  # with tempfile 12 ms, for a rare case
        import tempfile

        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            own = _own_descriptor(path)  # written from where it stands: opened anew it would begin at the file's start
            with open(os.dup(own) if own is not None else path, "wb") as stream:
                shutil.copyfileobj(file, stream)
        return
    with written_aside(path, mode) as (descriptor, aside):
        with open(descriptor, "wb", closefd=False) as file:
            yield file
        sync_file(descriptor)
        os.replace(aside, path)
        sync_folder(os.path.dirname(os.fspath(path)) or ".")


@contextlib.contextmanager
def output_file(path: str | os.PathLike[str], mode: int = 0o600) -> Iterator[BinaryIO]:
    """The file that a user names with `-o`: written aside, so that it appears whole or stays as it was.

    A link stays a link, and a file that is replaced keeps its mode (`mode` is that of a new one). Devices and pipes are
    written to.
    """
    if is_stream(path):
        with replacing(path) as file:
            yield file
        return
    target = os.path.realpath(path)
    with replacing(target, mode) as file:
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(file.fileno(), stat.S_IMODE(os.stat(target).st_mode))
        yield file
