"""Tamper evidence: beside `<trace>` a file `<trace>.chain` with one line per line of the trace.

Line n holds the sha256 (64 hex digits) of the trace's bytes from its start through line n, newline included; so the
last one, the head, is what `sha256sum <trace>` prints. A chain line is written after its trace line is durable, so a
crash leaves the chain at most a batch behind; the next writer extends it. A side file that says more lines than the
trace has, or another hash, names the first line that differs. What this cannot show: see docs/formats.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from tracer.durable import sync_file, sync_folder, write_all
from tracer.journal.second_copy import KeptFile

CHAIN_WIDTH = 65


def chain_of(trace: str | os.PathLike[str]) -> str:
    """Where the side file of `trace` lies."""
    return os.fspath(trace) + ".chain"


class ChainReport(NamedTuple):
    """What comparing a trace with its side file showed.

    `state`: `intact`, `unchained` (no side file), `behind` (side file ends before the trace), `differs`.
    `first_difference` is the zero-based number of the first line that is not what was recorded, or None.
    `head` is the sha256 over all whole lines as they are now; `lines` their number, `chained` the side file's.
    """

    state: str
    lines: int
    chained: int
    head: str
    first_difference: int | None
    head_matches: bool | None = None


class ChainFile:
    """The writer's end: extends the side file of one trace. Not thread-safe; the trace's one writer owns it."""

    def __init__(self, trace: str | os.PathLike[str], *, copy_of_trace: str = "") -> None:
        self.path = chain_of(trace)
        self._hash = hashlib.sha256()
        self._file = KeptFile(self.path, copy_of_trace and chain_of(copy_of_trace))

    @property
    def head(self) -> str:
        """The sha256 over all lines so far, 64 hex digits."""
        return self._hash.hexdigest()

    def resume(self, trace: int, size: int) -> None:
        """Take up the chain of the first `size` bytes behind the descriptor `trace`; lines it lacks are added.

        A side file that differs is left as it is: it is evidence, and `trace verify` names the line.
        """
        recorded = _recorded(self.path) or []
        missing: list[str] = []
        for number, line in enumerate(whole_lines(trace, size)):
            self._hash.update(line)
            if number >= len(recorded):
                missing.append(self._hash.hexdigest())
        self._write("".join(f"{digest}\n" for digest in missing).encode())

    def extend(self, lines: list[bytes]) -> None:
        """Add one chain line for each of `lines`."""
        running, digests = self._hash, []
        for line in lines:
            running.update(line)
            digests.append(running.hexdigest())
        digests.append("")
        self._write("\n".join(digests).encode())

    def _write(self, data: bytes) -> None:
        descriptor = self._opened()
        if data:
            write_all(descriptor, data)
            self._file.extended((data,))

    def _opened(self) -> int:
        if self._file.descriptor is not None:
            return self._file.descriptor
        flags = os.O_CREAT | os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self.path, flags, 0o600)
        size = os.fstat(descriptor).st_size
        if size % CHAIN_WIDTH:
            size -= size % CHAIN_WIDTH
            os.ftruncate(descriptor, size)
        self._file.take(descriptor, size)
        return descriptor

    def put_back(self) -> bool:
        """Make the side file what it was, if another program changed it; whether one did."""
        return self._file.put_back()

    def sync(self) -> None:
        """Make the side file durable (the trace itself is, always)."""
        if self._file.descriptor is not None:
            sync_file(self._file.descriptor)
            sync_folder(os.path.dirname(self.path) or ".")

    def close(self, *, drop_copy: bool) -> None:
        """Sync and close; harmless when nothing was written."""
        with contextlib.suppress(OSError):
            self.sync()
        if drop_copy:
            self._file.drop_copy()
        self._file.close()


def check_chain(trace: str | os.PathLike[str], *, head: str | None = None) -> ChainReport:
    """Compare `trace` with its side file and, if given, with a `head` that was kept elsewhere.

    A kept head may be an earlier one: it matches when it is the hash after any whole line.
    """
    recorded = _recorded(chain_of(trace))
    running, lines, differs, found = hashlib.sha256(), 0, None, False
    with open(trace, "rb") as file:
        for line in whole_lines(file.fileno(), os.fstat(file.fileno()).st_size):
            running.update(line)
            digest = running.hexdigest()
            found = found or digest == head
            if differs is None and recorded and lines < len(recorded) and recorded[lines] != digest:
                differs = lines
            lines += 1
    chained = len(recorded or [])
    if differs is None and chained > lines:
        differs = lines
    if recorded is None:
        state = "unchained"
    elif differs is not None:
        state = "differs"
    else:
        state = "intact" if chained == lines else "behind"
    matches = None if head is None else found
    return ChainReport(state, lines, chained, running.hexdigest(), differs, matches)


def vouched_part(trace: str | os.PathLike[str]) -> tuple[int, int]:
    """How much of `trace` its side file vouches for, from the first line on: lines, and their bytes."""
    recorded = _recorded(chain_of(trace)) or []
    running, lines, size = hashlib.sha256(), 0, 0
    with contextlib.suppress(FileNotFoundError), open(trace, "rb") as file:
        for digest, line in zip(recorded, whole_lines(file.fileno(), os.fstat(file.fileno()).st_size), strict=False):
            running.update(line)
            if running.hexdigest() != digest:
                break
            lines, size = lines + 1, size + len(line)
    return lines, size


def _recorded(path: str) -> list[str] | None:
    """The whole lines of a side file; None when there is none."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    text = data.decode("ascii", "replace")
    return [text[at : at + CHAIN_WIDTH - 1] for at in range(0, len(text) - CHAIN_WIDTH + 1, CHAIN_WIDTH)]


def whole_lines(descriptor: int, size: int) -> Iterator[bytes]:
    """Whole lines within the first `size` bytes behind `descriptor`, which stays open."""
    with open(os.dup(descriptor), "rb") as file:
        file.seek(0)
        for line in file:
            size -= len(line)
            if size < 0 or not line.endswith(b"\n"):
                return
            yield line
