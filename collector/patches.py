"""Unified diffs, to the byte: read one, apply it strictly, make one. Pure; `git apply` is the test's oracle.

Lines end at the byte newline alone (a lone CR or U+2028 is text; libraries split there), a missing newline at the end
of a file is kept, and a hunk applies exactly where it says or not at all: fuzz could make a wrong replay look right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tracer.errors import TraceError
from tracer.unified_diff import HunkHeader, ended, hunk_header, split_lines, unified_diff

_NOTHING: Final = b"/dev/null"


class PatchError(TraceError):
    """A patch that is none, or that does not fit the content it should change."""


class Hunk(NamedTuple):
    """One hunk. `lines` are (mark, line): the mark is blank, minus or plus; a line keeps the newline it has."""

    header: HunkHeader
    lines: tuple[tuple[bytes, bytes], ...]

    def side(self, mark: bytes) -> tuple[bytes, ...]:
        """The lines before (`-`) or after (`+`) the change."""
        return tuple(line for own, line in self.lines if own in {b" ", mark})


class FilePatch(NamedTuple):
    """The change of one file. A path is None where the diff says /dev/null; `head` are the lines before the hunks."""

    head: tuple[bytes, ...]
    old_path: bytes | None
    new_path: bytes | None
    hunks: tuple[Hunk, ...]
    binary: bool = False

    @property
    def creates(self) -> bool:
        """Whether there was no file before."""
        return self.old_path is None

    @property
    def deletes(self) -> bool:
        """Whether there is no file afterwards."""
        return self.new_path is None

    @property
    def path(self) -> bytes:
        """The file's name in the diff, without `a/` or `b/`; empty where the diff names none."""
        return self.new_path or self.old_path or b""


def parse_patch(patch: bytes) -> tuple[FilePatch, ...]:
    """Every file's change in a unified diff (else PatchError); hunks without any header are one change."""
    lines = split_lines(patch)
    files: list[FilePatch] = []
    at = 0
    while at < len(lines):
        read, at = _read_file(lines, at)
        if read is not None:
            files.append(read)
    if not files:
        raise PatchError("not a unified diff", why="no hunk and no file header in it")
    return tuple(files)


def _read_file(lines: Sequence[bytes], at: int) -> tuple[FilePatch | None, int]:
    head: list[bytes] = []
    old = new = b""
    binary = False
    while at < len(lines) and not lines[at].startswith(b"@@ "):
        line = lines[at]
        if line.startswith(b"diff --git ") and head:
            break
        if line.startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            if old:
                break
            old, new = _name(line[4:]), _name(lines[at + 1][4:])
            head += lines[at : at + 2]
            at += 2
            continue
        binary = binary or line.startswith((b"Binary files ", b"GIT binary patch"))
        head.append(line)
        at += 1
    hunks: list[Hunk] = []
    while at < len(lines) and lines[at].startswith(b"@@ "):
        hunk, at = _read_hunk(lines, at)
        hunks.append(hunk)
    if not old:
        old, new = _names_of_git(head)
    if not hunks and not old and not new and not binary:
        return None, at
    return FilePatch(
        tuple(head), None if old == _NOTHING else old, None if new == _NOTHING else new, tuple(hunks), binary
    ), at


def _names_of_git(head: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Names where there are no `---` and `+++` lines: an empty file made or removed, a mode changed."""
    first = next((line for line in head if line.startswith(b"diff --git ")), None)
    if first is None:
        return b"", b""
    words = first[len(b"diff --git ") :].rstrip(b"\n")
    # `a/X b/X`: without rename both names are the same, so the blank between them is in the middle.
    half = len(words) // 2
    name = _plain(words[:half]) if words[half : half + 1] == b" " else _plain(words.split(b" ")[0])
    gone = any(line.startswith(b"deleted file mode") for line in head)
    come = any(line.startswith(b"new file mode") for line in head)
    return (_NOTHING if come else name), (_NOTHING if gone else name)


def _name(text: bytes) -> bytes:
    """`a/src/x.py` + optional tab and time → `src/x.py`; `/dev/null` stays."""
    bare = text.rstrip(b"\r\n").split(b"\t", 1)[0]
    return bare if bare == _NOTHING else _plain(bare)


def _plain(name: bytes) -> bytes:
    if name.startswith(b'"') and name.endswith(b'"') and len(name) > 1:
        name = name[1:-1].decode("unicode_escape").encode("latin-1")
    return name[2:] if name[:2] in {b"a/", b"b/"} else name


def _read_hunk(lines: Sequence[bytes], at: int) -> tuple[Hunk, int]:
    header = hunk_header(lines[at])
    if header is None:
        raise PatchError("a hunk header cannot be read", why=f"line {at + 1} of the patch")
    first, body = at, []
    old_left, new_left = header.old_count, header.new_count
    at += 1
    while old_left > 0 or new_left > 0:
        if at >= len(lines):
            raise PatchError("a hunk is cut off", why=f"the one at line {first + 1} of the patch")
        mark, line = lines[at][:1], lines[at][1:]
        if lines[at] in {b"\n", b"\r\n"}:  # a mailer took the blank of an empty context line away
            mark, line = b" ", lines[at]
        if mark not in {b" ", b"-", b"+"}:
            raise PatchError("a hunk holds a line without a mark", why=f"line {at + 1} of the patch")
        old_left -= mark != b"+"
        new_left -= mark != b"-"
        at += 1
        if at < len(lines) and lines[at].startswith(b"\\"):
            line, at = line.removesuffix(b"\n"), at + 1
        body.append((mark, line))
    if old_left < 0 or new_left < 0:
        raise PatchError("a hunk has other lines than its header says", why=f"the one at line {first + 1} of the patch")
    return Hunk(header, tuple(body)), at


def apply_patch(content: bytes | None, patch: FilePatch) -> bytes | None:
    """`content` (None: no file) with `patch` applied, None if it deletes the file; PatchError says where it fails."""
    if patch.binary:
        raise PatchError("a binary patch holds no content", why="the diff only says that the file differs")
    if patch.creates and content:
        raise PatchError("the patch makes a file that is already there")
    if content is None and not patch.creates and any(hunk.header.old_count for hunk in patch.hunks):
        raise PatchError("the patch changes a file that is not there")
    lines = split_lines(content or b"")
    out: list[bytes] = []
    at = 0
    for number, hunk in enumerate(patch.hunks, 1):
        start = hunk.header.old_start - bool(hunk.header.old_count)
        old = list(hunk.side(b"-"))
        if start < at or lines[start : start + len(old)] != old:
            raise PatchError("the patch does not fit", why=f"hunk {number} at line {hunk.header.old_start}")
        out += lines[at:start]
        out += hunk.side(b"+")
        at = start + len(old)
    out += lines[at:]
    if any(not line.endswith(b"\n") for line in out[:-1]):
        raise PatchError("the patch does not fit", why="a line without an end would stand in the middle")
    if patch.deletes:
        if out:
            raise PatchError("the patch deletes the file but leaves lines of it")
        return None
    return b"".join(out)


def make_patch(
    path: str, before: bytes | None, after: bytes | None, *, modes: tuple[str, str] = ("100644", "100644")
) -> bytes:
    """The unified diff with git's headers between two contents (None: no file) and git `modes`; empty where equal."""
    before_mode, after_mode = (mode.encode("ascii") for mode in modes)
    if before == after and (before is None or before_mode == after_mode):
        return b""
    return unified_diff(path.encode("utf-8", "surrogateescape"), before, after, modes=(before_mode, after_mode))


_TREE: Final = b"# base tree, secrets replaced; files left out: "


def tree_patch(files: Iterable[tuple[str, str, bytes]], *, left_out: int) -> bytes:
    """A whole tree as one diff from nothing, of (path, git's mode, content); what is no such file was `left_out`."""
    made = (make_patch(path, None, content, modes=(mode, mode)) for path, mode, content in files)
    return b"".join((_TREE, b"%d\n" % left_out, *made))


def is_tree_patch(data: bytes) -> bool:
    """Whether `data` begins as `tree_patch` makes it."""
    return data.startswith(_TREE)


def left_out_of_tree(data: bytes) -> int:
    """How many files a `tree_patch` does not hold, as it says."""
    told = data[len(_TREE) :].partition(b"\n")[0]
    return int(told) if told.isdigit() else 0


def write_patch(files: Iterable[FilePatch]) -> bytes:
    """The changes as a unified diff again, heads as they were read."""
    parts: list[bytes] = []
    for file in files:
        parts += file.head
        for hunk in file.hunks:
            parts.append(hunk.header.line())
            parts += (ended(mark + line) for mark, line in hunk.lines)
    return b"".join(parts)
