"""A unified diff of one file from its two contents, in the form `git apply` reads."""

from __future__ import annotations

import difflib

from runner.workspace.manifest import FileRecord
from runner.workspace.model import Side

__all__ = ["unified_diff"]

_MOST_LINES = 4000
_CONTEXT = 3


def unified_diff(
    path: bytes, before: FileRecord | None, then: Side | None, after: FileRecord | None, now: Side | None
) -> bytes:
    """The diff of one path; a file whose text is not at hand on both sides is only named."""
    name = _quoted(path)
    out = [b"diff --git " + _side_name(b"a/", name) + b" " + _side_name(b"b/", name) + b"\n"]
    if before is None and after is not None:
        out.append(b"new file mode %06o\n" % after.mode)
    elif after is None and before is not None:
        out.append(b"deleted file mode %06o\n" % before.mode)
    elif before is not None and after is not None and before.mode != after.mode:
        out.append(b"old mode %06o\nnew mode %06o\n" % (before.mode, after.mode))
    old_name = b"/dev/null" if before is None else _side_name(b"a/", name)
    new_name = b"/dev/null" if after is None else _side_name(b"b/", name)
    if any(side is not None and (side.cut or b"\0" in side.content) for side in (then, now)):
        return b"".join([*out, b"Binary files " + old_name + b" and " + new_name + b" differ\n"])
    hunks = _hunks(_lines(then), _lines(now))
    if hunks:
        out += [b"--- " + old_name + b"\n", b"+++ " + new_name + b"\n", *hunks]
    return b"".join(out)


def _lines(side: Side | None) -> list[bytes]:
    """Lines on the byte newline alone, each with it."""
    if side is None or not side.content:
        return []
    parts = side.content.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _hunks(old: list[bytes], new: list[bytes]) -> list[bytes]:
    if max(len(old), len(new)) > _MOST_LINES:
        return _one_hunk(old, new)
    text = difflib.unified_diff(
        [line.decode("latin-1") for line in old], [line.decode("latin-1") for line in new], n=_CONTEXT, lineterm="\n"
    )
    return [_ended(line.encode("latin-1")) for line in list(text)[2:]]


def _one_hunk(old: list[bytes], new: list[bytes]) -> list[bytes]:
    """What lies between the common start and end as one hunk: exact, and linear in the size of the file."""
    if old == new:
        return []
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    lead, trail = min(start, _CONTEXT), min(end, _CONTEXT)
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    first = start - lead
    ranges = (_range(first, lead + len(gone) + trail), _range(first, lead + len(come) + trail))
    head = b"@@ -%s +%s @@\n" % ranges
    context = old[len(old) - end : len(old) - end + trail]
    marked = [(b" ", old[first:start]), (b"-", gone), (b"+", come), (b" ", context)]
    return [head, *(_ended(mark + line) for mark, lines in marked for line in lines)]


def _range(start: int, length: int) -> bytes:
    return b"%d,%d" % (start + 1 if length else start, length)


def _ended(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"


def _side_name(side: bytes, name: bytes) -> bytes:
    return b'"' + side + name[1:] if name.startswith(b'"') else side + name


def _quoted(path: bytes) -> bytes:
    """The name as git writes it: in quotes with octal escapes where it holds a control byte, quote or backslash."""
    special = {0x22: b'\\"', 0x5C: b"\\\\", 0x0A: b"\\n", 0x09: b"\\t", 0x0D: b"\\r"}
    if all(byte >= 0x20 and byte not in special and byte != 0x7F for byte in path):
        return path
    return (
        b'"' + b"".join(special.get(byte, b"\\%03o" % byte if byte < 0x20 else bytes([byte])) for byte in path) + b'"'
    )
