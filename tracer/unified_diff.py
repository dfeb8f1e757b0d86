"""Unified diffs as git writes them; lines end at the byte newline alone, and a missing last newline is kept. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import islice
from typing import Final, NamedTuple

from tracer.facts import FileCount

_NO_NEWLINE: Final = b"\\ No newline at end of file\n"
_MOST_LINES: Final = 4000
_CONTEXT: Final = 3
_HUNK: Final = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@([^\n]*)")


class HunkHeader(NamedTuple):
    """The line that a hunk begins with; of an empty range, the start is the line before it."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    section: bytes = b""

    def line(self) -> bytes:
        """The line, with its newline."""
        return b"@@ -%d,%d +%d,%d @@%s\n" % self


def hunk_header(line: bytes) -> HunkHeader | None:
    """What `line` says if a hunk begins with it."""
    found = _HUNK.match(line)
    if found is None:
        return None
    old, old_count, new, new_count, section = found.groups(b"1")
    return HunkHeader(int(old), int(old_count), int(new), int(new_count), section)


def split_lines(data: bytes) -> list[bytes]:
    """Lines of `data`, each with its newline; only the last may lack one."""
    return BytesIO(data).readlines()


def unified_diff(
    path: bytes,
    before: bytes | None,
    after: bytes | None,
    *,
    modes: tuple[bytes, bytes] = (b"100644", b"100644"),
    named_only: bool = False,
) -> bytes:
    """The diff of one path from one content to the other (None: no file), with git's headers.

    `named_only`: a binary file, or one whose contents are not at hand. Over 4,000 lines there is one hunk from the
    first to the last difference: exact, and linear in the size of the file.
    """
    before_mode, after_mode = modes
    name = quoted(path)
    old = b"/dev/null" if before is None else _sided(b"a/", name)
    new = b"/dev/null" if after is None else _sided(b"b/", name)
    head = [_header(path) + b"\n"]
    if before is None:
        head.append(b"new file mode %s\n" % after_mode)
    elif after is None:
        head.append(b"deleted file mode %s\n" % before_mode)
    elif before_mode != after_mode:
        head.append(b"old mode %s\nnew mode %s\n" % (before_mode, after_mode))
    if named_only:
        return b"".join([*head, b"Binary files %s and %s differ\n" % (old, new)])
    hunks = list(_hunks(split_lines(before or b""), split_lines(after or b"")))
    if hunks:
        head += [b"--- %s\n" % old, b"+++ %s\n" % new]
    return b"".join([*head, *hunks])


def count_files(diff: bytes, paths: Iterable[str]) -> list[FileCount]:
    """One count for each of `paths`, in their order; a binary file, or one that `diff` leaves out, has no lines."""
    names = list(dict.fromkeys(paths))
    headers = {_header(name.encode("utf-8", "surrogateescape")): name for name in names}
    counts = {name: FileCount(name) for name in names}
    name, in_hunk = "", False
    for line in diff.split(b"\n"):  # a hunk's lines begin with a mark: what begins like a header is one
        if line.startswith(b"diff --git "):
            name, in_hunk = headers.get(line, ""), False
        elif not name:
            continue
        elif in_hunk and line[:1] in {b"+", b"-"}:
            _, _, added, removed = counts[name]
            came = line[:1] == b"+"
            counts[name] = counts[name]._replace(added=(added or 0) + came, removed=(removed or 0) + (not came))
        elif line.startswith(b"@@ "):
            in_hunk = True
        elif line.startswith((b"new file mode", b"deleted file mode")):
            counts[name] = counts[name]._replace(status="added" if line.startswith(b"new") else "deleted")
    return [counts[name] for name in names]


def _header(path: bytes) -> bytes:
    return b"diff --git %s %s" % (_sided(b"a/", quoted(path)), _sided(b"b/", quoted(path)))


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    if old == new:
        return
    if max(len(old), len(new)) > _MOST_LINES:
        yield from _one_hunk(old, new)
        return
    told = difflib.unified_diff(
        [line.decode("latin-1") for line in old], [line.decode("latin-1") for line in new], n=_CONTEXT, lineterm="\n"
    )
    for line in islice(told, 2, None):
        yield ended(line.encode("latin-1"))


def _one_hunk(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    first, trail = max(start - _CONTEXT, 0), min(end, _CONTEXT)
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    context = old[len(old) - end : len(old) - end + trail]
    counts = (start - first + len(gone) + trail, start - first + len(come) + trail)
    yield HunkHeader(first + bool(counts[0]), counts[0], first + bool(counts[1]), counts[1]).line()
    for mark, lines in ((b" ", old[first:start]), (b"-", gone), (b"+", come), (b" ", context)):
        for line in lines:
            yield ended(mark + line)


def ended(line: bytes) -> bytes:
    """A line of a diff; one whose text has no newline is followed by the note that says so."""
    return line if line.endswith(b"\n") else line + b"\n" + _NO_NEWLINE


def quoted(path: str | bytes) -> bytes:
    """The name as git writes it: in quotes with octal escapes where it holds a control byte, quote or backslash."""
    raw = path.encode("utf-8", "surrogateescape") if isinstance(path, str) else path
    if all(byte >= 0x20 and byte not in {0x22, 0x5C, 0x7F} for byte in raw):
        return raw
    return b'"%s"' % b"".join(
        b"\\%03o" % byte if byte < 0x20 or byte in {0x22, 0x5C, 0x7F} else bytes([byte]) for byte in raw
    )


def _sided(side: bytes, name: bytes) -> bytes:
    return b'"' + side + name[1:] if name.startswith(b'"') else side + name
