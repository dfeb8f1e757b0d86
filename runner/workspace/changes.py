"""The values of a workspace comparison: what changed, and within which limits it was read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import NamedTuple, Protocol

from runner.gate.criterion import ChangedFile, Harm
from tracer.errors import UnavailableError

LEFT_OUT = (  # noqa: SIM905 - one name a line would fill a screen
    ".git .hg .svn .jj .bzr __pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .venv "
    "node_modules .gradle .terraform .next .turbo .parcel-cache .DS_Store .coverage *.pyc *.pyo *.egg-info"
).split()
"""What tools leave in a project, as patterns of names: no task's work, unless git tracks it."""


class ComparisonError(UnavailableError):
    """The workspace could not be compared; nothing is known about what changed, so nothing may pass."""


class Blobs(Protocol):
    """What is needed of the blob store."""

    def put_bytes(self, data: bytes) -> str:
        """Store `data` durably; returns its id, `sha256:…`."""
        ...

    def read(self, blob_id: str) -> bytes:
        """The bytes of a blob."""
        ...


class Limits(NamedTuple):
    """Bytes. Beyond `file` a changed file's content is cut; beyond `total` later contents are left empty and marked.

    `stored` is the largest file whose bytes a baseline keeps; of a larger one it keeps size and hash. `diff` bounds the
    unified diff.
    """

    file: int = 8 << 20
    total: int = 128 << 20
    stored: int = 32 << 20
    diff: int = 16 << 20


class Side(NamedTuple):
    """A file on one side of the comparison: its bytes (cut at the limit), and whether they were cut."""

    content: bytes
    cut: bool = False
    unstable: bool = False


class Change(NamedTuple):
    """One changed path as the file system names it; None where it does not exist on that side."""

    path: bytes
    before: Side | None
    after: Side | None


class Changes(NamedTuple):
    """Everything that differs between a base and the disk, by path in byte order.

    `paths` are relative to the workspace with `/`; a rename is a deleted and an added path. `diff` is a unified diff
    that `git apply` reads (binary files are only named). `protected` names what was changed under the state directory
    and is undone but for what is also in `lost`, `harm` what was done to the user's uncommitted files and to their
    repository (`harm_unknown`: why that cannot be told). `left` is the blob that an undo reads (see `runner.undo`),
    None where nothing differs. `notes` say what could not be compared, in sentences for the user.
    """

    paths: tuple[str, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    diff: bytes = b""
    protected: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    harm: tuple[Harm, ...] = ()
    harm_unknown: str = ""
    left: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, changes: list[Change], *, diff: bytes, protected: tuple[str, ...], notes: tuple[str, ...]) -> Changes:
        """Put raw changes into the shape the criteria read."""
        files = tuple(_changed_file(change) for change in sorted(changes))
        return cls(
            paths=tuple(file.path for file in files),
            files=files,
            diff=diff,
            protected=protected,
            notes=notes,
        )


def _changed_file(change: Change) -> ChangedFile:
    sides = [side for side in (change.before, change.after) if side is not None]
    return ChangedFile(
        path=safe_text(change.path),
        before=None if change.before is None else change.before.content,
        after=None if change.after is None else change.after.content,
        too_large=any(side.cut for side in sides),
        unstable=any(side.unstable for side in sides),
    )


def safe_text(path: bytes | str) -> str:
    r"""A file name as text that any JSON writer takes: bytes that are not UTF-8 become `\xNN`."""
    raw = os.fsencode(path) if isinstance(path, str) else path
    return raw.decode("utf-8", "backslashreplace")


def is_excluded(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path relative to the project is left out: a name, a folder, or a pattern with `*`."""
    return any(
        path == pattern or path.startswith(pattern.rstrip("/") + "/") or fnmatch(path, pattern) for pattern in patterns
    )
