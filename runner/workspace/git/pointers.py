"""Files whose bytes are not in the tree: notes of size and hash, and git-lfs pointers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from runner.gate.criterion import ChangedFile
from runner.workspace.changes import Side, safe_text
from runner.workspace.git.entries import put_lines, small_index
from runner.workspace.git.repository import Git, parse_raw

_NOTE = re.compile(rb"\Apm-orchestrator: content not kept\nsize \d+\n(?:sha256 ([0-9a-f]{64})|changed \d+)\n\Z")
_BLOCK = 1 << 20


class FileHashes:
    """sha256 of files, remembered while nothing about the file changes (change time included)."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int, int, int], str] = {}

    def of(self, path: bytes, facts: os.stat_result) -> str:
        """The file's hash in hex; OSError where it cannot be read."""
        key = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        if key not in self._known:
            from hashlib import sha256  # 4 ms, only for what is too large to keep

            digest = sha256()
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - the name may not be text
                while block := file.read(_BLOCK):
                    digest.update(block)
            self._known[key] = digest.hexdigest()
        return self._known[key]


def note_for(path: bytes, facts: os.stat_result, hashes: FileHashes) -> bytes:
    """The text that stands for the file."""
    try:
        mark = f"sha256 {hashes.of(path, facts)}"
    except OSError:
        mark = f"changed {facts.st_mtime_ns}"
    return f"pm-orchestrator: content not kept\nsize {facts.st_size}\n{mark}\n".encode()


def is_note(content: bytes) -> bool:
    """Whether this is such a text."""
    return _NOTE.match(content) is not None


_POINTER = re.compile(
    rb"\Aversion https?://[^\n]+\n(?:[a-z0-9.-]+ [^\n]*\n)*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n\Z"
)
_LONGEST = 1024


def is_pointer(content: bytes) -> bool:
    """Whether this is the text of a pointer."""
    return len(content) <= _LONGEST and _POINTER.match(content) is not None


def same_content(pointer: bytes, content: bytes) -> bool:
    """Whether `content` (or the note that stands for it) is what `pointer` points to."""
    from hashlib import sha256

    match, note = _POINTER.match(pointer), _NOTE.match(content)
    held = note[1] if note and note[1] else sha256(content).hexdigest().encode()
    return match is not None and match[1] == held


def media_of(pointer: bytes, git_dir: Path, *, limit: int) -> Side:
    """What the pointer points to, where the repository holds it; else nothing, marked as cut."""
    match = _POINTER.match(pointer)
    if match is None:
        return Side(pointer)
    name = match[1].decode()
    for root in (git_dir, git_dir.parent.parent):  # of a worktree, the common folder is two levels up
        held = read_side(root / "lfs" / "objects" / name[:2] / name[2:4] / name, limit)
        if held is not None:
            return held
    return Side(b"", cut=True)


def read_side(path: Path, limit: int) -> Side | None:
    """The first `limit` bytes of a file; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError:
        return None
    return Side(content[:limit], cut=len(content) > limit)


def keep_pointers(git: Git, base: str, tree: str, *, store: Path) -> str:
    """`tree` with the pointers of `base` for files that hold just what they point to."""
    entries = []
    for entry in parse_raw(git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", base, tree)):
        regular = all(mode.startswith("100") for mode in entry.modes)
        if regular and int(git.run("cat-file", "-s", entry.ids[0])) <= _LONGEST:
            old = git.run("cat-file", "blob", entry.ids[0])
            if is_pointer(old) and same_content(old, git.run("cat-file", "blob", entry.ids[1])):
                entries.append(b"%s %s\t%s" % (entry.modes[1].encode(), entry.ids[0].encode(), entry.path))
    if not entries:
        return tree
    with small_index(git, store) as small:
        small.run("read-tree", tree)
        put_lines(small, entries)
        return small.line("write-tree", "--missing-ok")


def copy_media(git: Git, tree: str, source: Path, target: Path) -> None:
    """Give a new working tree the bytes that its pointers stand for, where the user's own files have them."""
    if not any((git.git_dir / "lfs").glob("*")) and not (git.git_dir.parent.parent / "lfs").exists():
        return
    for path in git.run("ls-tree", "-r", "-z", "--name-only", tree).split(b"\0"):
        name = os.fsdecode(path)
        if not path or not (target / name).is_file() or (target / name).stat().st_size > _LONGEST:
            continue
        pointer = (target / name).read_bytes()
        if is_pointer(pointer) and (source / name).is_file() and not (source / name).is_symlink():
            content = (source / name).read_bytes()
            if same_content(pointer, content):
                (target / name).write_bytes(content)


def check_out(git: Git, tree: str, source: Path, target: Path, *, changed: Mapping[str, ChangedFile]) -> str:
    """Lay out `tree` in the empty folder `target`; what it only stands for is taken from the unchanged `source`.

    The index is made beside the target: what removes the folder of both after a kill removes it too. Returns why the
    result is not whole, empty where it is.
    """
    if not git.has(tree):
        return "the repository does not hold the state before the task any more"
    lines = [line for line in git.run("ls-tree", "-r", "-l", "-z", tree).split(b"\0") if line]
    if inner := [line.partition(b"\t")[2] for line in lines if line.startswith(b"160000 ")]:
        return f"{os.fsdecode(inner[0])} is a repository of its own (submodules are not supported)"
    own = git.with_index(target.with_name("index"))
    own.run("read-tree", tree)
    own.run("checkout-index", "-a", "-f", f"--prefix={target}/")
    for line in lines:
        facts, _, path = line.partition(b"\t")
        if facts.startswith(b"120000") or int(size := facts.split()[3]) > _LONGEST:
            continue
        name = os.fsdecode(path)
        is_changed = safe_text(path) in changed
        if not is_changed and _size_of(f"{source}/{name}") in {int(size), -1}:
            continue
        content = (target / name).read_bytes()
        if is_note(content) or is_pointer(content):
            if is_changed:
                return f"{name} is too large to be kept as it was before the task"
            import shutil  # 2 ms, only for pointers

            shutil.copy2(source / name, target / name, follow_symlinks=False)
    return ""


def _size_of(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1
