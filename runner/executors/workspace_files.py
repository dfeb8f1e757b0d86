"""Files of the workspace for agents: read, write, edit, and nothing outside.

Absolute paths, `..`, links that lead out, the state directory and (for writing) `.git` are refused. Paths are
opened folder by folder without following links. A write replaces a file whole or not at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from tracer.clock import short_token
from tracer.errors import UsageError


def confined_path(path: str, *, workspace: Path, state_dir: Path | None = None) -> Path:
    """The real path of `path` (relative to `workspace`, or absolute inside it), symlinks resolved.

    Raises:
        UsageError: it leads out of the workspace, into the state directory or git's own folder, or is no path at all.

    """
    if not path or "\0" in path:
        raise UsageError(f"{path!r} is not a path")
    root = workspace.resolve()
    try:
        target = (root / path).resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symlinks
        raise UsageError(f"{path!r} cannot be resolved", why=str(error)) from error
    if target == root or not target.is_relative_to(root):
        raise UsageError(f"{path!r} is outside the workspace", next_step="use a path inside the workspace")
    state = state_dir.resolve() if state_dir is not None else None
    # A subtask's own working tree lies in the state directory, and all of it is the subtask's.
    if state is not None and target.is_relative_to(state) and not root.is_relative_to(state / "worktrees"):
        raise UsageError(f"{path!r} is in the state directory", next_step="leave pm's own records alone")
    if target.relative_to(root).parts[0] == ".git":
        raise UsageError(f"{path!r} is in git's own folder", next_step="use git itself")
    return target


MAX_READ_BYTES = 256_000
MAX_WRITE_BYTES = 4_000_000
_STATE_FOLDER = ".pm-orchestrator"
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):  # noqa: N818 - an answer to the model, not an error of ours
    """A tool call that is not carried out; the text tells the model why."""


class WorkspaceFiles:
    """The three file tools over one workspace. Every method raises Refused, never OSError."""

    def __init__(self, root: Path, *, state_dir: Path | None = None) -> None:
        self.root = Path(os.path.realpath(root))
        self._private = {_STATE_FOLDER}
        if state_dir is not None:
            with suppress(ValueError):
                parts = Path(os.path.realpath(state_dir)).relative_to(self.root).parts
                self._private |= set(parts[:1])

    def read(self, path: str, *, first_line: int = 1, line_count: int | None = None) -> str:
        """The text of `path`, or the lines asked for; at most MAX_READ_BYTES, and said so when it is cut."""
        parts = self._inside(path)
        data = self._bytes(path, parts)
        lines = data.decode("utf-8", "replace").split("\n")
        start = max(first_line, 1) - 1
        chosen = lines[start:] if line_count is None else lines[start : start + max(line_count, 0)]
        text = "\n".join(chosen)
        if len(text) > MAX_READ_BYTES:
            shown = text[:MAX_READ_BYTES]
            return f"{shown}\n[cut here: {len(text)} characters in all; ask for lines by first_line and line_count]"
        return text

    def write(self, path: str, content: str) -> str:
        """Create or replace `path`; folders on the way are made. Returns a line that says what was done."""
        parts = self._inside(path, writing=True)
        data = _encode(path, content)
        existed = self._replace(path, parts, data)
        lines = content.count("\n") + (1 if content and not content.endswith("\n") else 0)
        return f"{'replaced' if existed else 'created'} {'/'.join(parts)} ({lines} lines)"

    def edit(self, path: str, old: str, new: str, *, everywhere: bool = False) -> str:
        """Replace `old`, which must stand in the file exactly once unless `everywhere`, by `new`."""
        parts = self._inside(path, writing=True)
        if not old:
            raise Refused("old_text is empty: use the write tool to create or replace a whole file")
        try:
            text = self._bytes(path, parts).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused(f"{path!r} is not UTF-8 text, so it cannot be edited as text") from error
        count = text.count(old)
        if count == 0:
            raise Refused(f"old_text was not found in {path!r}: read the file and quote it exactly")
        if count > 1 and not everywhere:
            raise Refused(f"old_text stands {count} times in {path!r}: quote more of it, or set everywhere")
        self._replace(path, parts, _encode(path, text.replace(old, new)))
        return f"edited {'/'.join(parts)} ({count} replacement{'s' if count > 1 else ''})"

    def _inside(self, path: str, *, writing: bool = False) -> tuple[str, ...]:
        if not path or "\0" in path:
            raise Refused("the path is empty or holds a NUL byte")
        pure = PurePosixPath(path)
        if pure.is_absolute() or path.startswith("~"):
            raise Refused(f"{path!r} is absolute: give a path relative to the workspace")
        if ".." in pure.parts:
            raise Refused(f"{path!r} leads upwards: only files inside the workspace can be used")
        try:
            real = Path(os.path.realpath(self.root / pure))
        except OSError as error:
            raise Refused(f"{path!r} cannot be resolved: {error.strerror}") from error
        if real == self.root or not real.is_relative_to(self.root):
            raise Refused(f"{path!r} is not a file inside the workspace")
        parts = real.relative_to(self.root).parts
        for name in (pure.parts[0], parts[0]):
            if name in self._private:
                raise Refused(f"{path!r} belongs to the orchestrator's own state and is off limits")
        if writing and ".git" in parts:
            raise Refused(f"{path!r} is part of git's own data: use git commands instead")
        return parts

    def _bytes(self, path: str, parts: tuple[str, ...]) -> bytes:
        with self._parent(path, parts) as folder:
            try:
                descriptor = os.open(
                    parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
                )
            except OSError as error:
                raise Refused(f"cannot read {path!r}: {error.strerror}") from error
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise Refused(f"{path!r} is not a regular file")
                if status.st_size > MAX_WRITE_BYTES * 16:
                    raise Refused(f"{path!r} is too large to read whole ({status.st_size} bytes)")
                return file.read()

    def _replace(self, path: str, parts: tuple[str, ...], data: bytes) -> bool:
        with self._parent(path, parts, create=True) as folder:
            temporary = f".{parts[-1][:100]}.{short_token()}.tmp"
            try:
                mode = _mode_of(parts[-1], folder)
                descriptor = os.open(
                    temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder
                )
                try:
                    with os.fdopen(descriptor, "wb") as file:
                        file.write(data)
                        if mode is not None:
                            os.fchmod(descriptor, mode)
                    os.rename(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    os.unlink(temporary, dir_fd=folder)
                    raise
            except OSError as error:
                raise Refused(f"cannot write {path!r}: {error.strerror}") from error
            return mode is not None

    @contextmanager
    def _parent(self, path: str, parts: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
        current = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts[:-1]:
                following = _step(path, part, current, create=create)
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)


def _step(path: str, part: str, folder: int, *, create: bool) -> int:
    try:
        if create:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
        return os.open(part, _FOLDER_FLAGS, dir_fd=folder)
    except OSError as error:
        raise Refused(f"cannot reach {path!r}: {part!r}: {error.strerror}") from error


def _mode_of(name: str, folder: int) -> int | None:
    """The permission bits of a regular file, None where there is none yet."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{name!r} is not a regular file")
    return stat.S_IMODE(status.st_mode)


def _encode(path: str, content: str) -> bytes:
    data = content.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode("utf-8")
    if len(data) > MAX_WRITE_BYTES:
        raise Refused(f"{path!r} would be {len(data)} bytes; at most {MAX_WRITE_BYTES} can be written at once")
    return data
