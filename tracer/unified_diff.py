"""Unified diffs as git writes them, and their lines in columns. Pure.

Lines end at the byte newline alone, and a missing last newline is kept.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import islice, zip_longest
from typing import Final, Literal, NamedTuple, TypeVar

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


LineKind = Literal["file", "place", "note", "same", "removed", "added", "changed"]
_FILE_LINES: Final = ("diff ", "index ", "--- ", "+++ ", "new ", "deleted ")
_MARKS: Final[dict[str, LineKind]] = {"-": "removed", "+": "added", "\\": "note"}
_Line = TypeVar("_Line")


def kinds_of_lines(lines: Iterable[str]) -> Iterator[tuple[LineKind, str]]:
    """What each line of a unified diff is, and the line, that of a file without its mark."""
    in_hunk = False
    for line in lines:
        in_hunk = line.startswith("@@") or (in_hunk and not line.startswith("diff "))
        if not in_hunk:
            yield "file" if line.startswith(_FILE_LINES) else "note", line
        elif line.startswith("@@"):
            yield "place", line
        else:
            kind = _MARKS.get(line[:1], "same")
            yield kind, line if kind == "note" else line[1:]


def in_columns(
    lines: Iterable[tuple[LineKind, _Line]],
) -> Iterator[tuple[LineKind, _Line | None, _Line | None]]:
    """What was removed left of what came in its place (`changed`), in the lines' order; what is neither stands left."""
    removed: list[_Line] = []
    added: list[_Line] = []
    for kind, line in (*lines, ("note", None)):
        if line is not None and (kind == "added" or (kind == "removed" and not added)):
            (removed if kind == "removed" else added).append(line)
            continue
        for left, right in zip_longest(removed, added):
            yield "removed" if right is None else "added" if left is None else "changed", left, right
        removed, added = [], []
        if kind == "removed" and line is not None:
            removed.append(line)
        elif line is not None:
            yield kind, line, line if kind == "same" else None


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
    start, end = same_ends(old, new)
    first, trail = max(start - _CONTEXT, 0), min(end, _CONTEXT)
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    context = old[len(old) - end : len(old) - end + trail]
    counts = (start - first + len(gone) + trail, start - first + len(come) + trail)
    yield HunkHeader(first + bool(counts[0]), counts[0], first + bool(counts[1]), counts[1]).line()
    for mark, lines in ((b" ", old[first:start]), (b"-", gone), (b"+", come), (b" ", context)):
        for line in lines:
            yield ended(mark + line)


def same_ends(old: Sequence[str | bytes], new: Sequence[str | bytes]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and how many more at the end."""
    limit = min(len(old), len(new))
    start = next((number for number in range(limit) if old[number] != new[number]), limit)
    end = next((number for number in range(limit - start) if old[-1 - number] != new[-1 - number]), limit - start)
    return start, end


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
