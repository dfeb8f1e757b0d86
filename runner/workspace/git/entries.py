"""Index and tree entries: put into an index, or exchanged in a tree without one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from runner.workspace.git.repository import Git, GitError, listed
from tracer.clock import short_token

_TREE = b"40000"
_TYPES = {_TREE: b"tree", b"160000": b"commit"}


class Entry(NamedTuple):
    """What stands in an index or a tree for a path: mode in octal digits, id in hexadecimal ones."""

    mode: bytes
    id: bytes


_Folder = dict[bytes, Entry]
Folders = dict[bytes, _Folder]


def read_folders(git: Git, tree: str, paths: Iterable[bytes]) -> Folders:
    """The folders of the tree on the way to `paths`; an empty one for each that is not there or is no folder."""
    names = sorted({folder for path in paths for folder in _on_the_way(path)})
    return _read(git, tree, names)


def exchange(git: Git, folders: Folders, entries: Mapping[bytes, Entry | None], *, length: int) -> str:
    """The tree that `folders` are of with `entries` in it; None takes a path out. It is in the repository afterwards.

    `folders` are used up; `length` is how many digits an id has.
    """
    for path, entry in sorted(entries.items(), key=lambda item: item[1] is not None):  # what goes makes room first
        parent, _, name = path.rpartition(b"/")
        if entry is None:
            folders[parent].pop(name, None)
        else:
            folders[parent][name] = entry
    contents: dict[bytes, bytes] = {}
    for folder in sorted(folders, key=lambda path: (bool(path), path.count(b"/")), reverse=True):
        made = _put_together(folders, folder, length=length)
        if made is not None:
            contents[made] = _as_text(folders[folder])
    if not folders[b""]:
        raise GitError("nothing is left in the tree")
    written = git.run("mktree", "-z", "--batch", "--missing", stdin=b"\0".join(contents.values())).split()
    if written != list(contents):
        raise GitError("git writes these folders in another way")
    return written[-1].decode("ascii")


def merged_tree(git: Git, *, start: str, ours: str, theirs: str) -> str:
    """The tree that joins what `ours` and `theirs` changed since `start`; a path that does not merge is that of `ours`.

    GitError: git is older than 2.38, or an object is missing.
    """
    first = git.commit_tree(start, message="start")
    heads = [git.commit_tree(tree, first, message="side") for tree in (ours, theirs)]
    out = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", *heads, ok_codes=(0, 1))
    tree, *paths = [part for part in out.split(b"\0") if part]
    if not paths:
        return tree.decode()
    listed_paths = [os.fsdecode(path) for path in paths]
    lines = git.run("ls-tree", "-r", "-z", ours, "--", *listed_paths).split(b"\0")
    known = {line.partition(b"\t")[2]: line.split(b" ") for line in lines if line}
    entries = {path: Entry(known[path][0], known[path][2][: len(tree)]) if path in known else None for path in paths}
    return exchange(git, read_folders(git, tree.decode(), paths), entries, length=len(tree))


def tree_of(git: Git, entries: Mapping[bytes, Entry], *, length: int) -> str:
    """A tree of just these entries."""
    if not entries:
        return git.line("mktree")
    folders: Folders = {folder: {} for path in entries for folder in _on_the_way(path)}
    return exchange(git, folders, entries, length=length)


def _on_the_way(path: bytes) -> list[bytes]:
    steps = path.split(b"/")[:-1]
    return [b"/".join(steps[:count]) for count in range(len(steps) + 1)]


def _read(git: Git, tree: str, names: list[bytes]) -> Folders:
    if any(b"\n" in name or name.endswith(b"\r") for name in names):
        raise GitError("the name of a folder has a line break")
    raw = git.run("cat-file", "--batch", stdin=b"".join(b"%s:%s\n" % (tree.encode(), name) for name in names))
    folders: Folders = {}
    at = 0
    for name in names:
        end = raw.index(b"\n", at)
        said = raw[at:end]
        at = end + 1
        folders[name] = {}
        if said.endswith(b" missing"):
            _assure_that_it_never_was(folders, name)
        else:
            _, kind, size = said.rsplit(b" ", 2)
            if kind == b"tree":
                folders[name] = _parse(raw[at : at + int(size)], id_bytes=len(tree) // 2)
            at += int(size) + 1
    return folders


def _assure_that_it_never_was(folders: Folders, name: bytes) -> None:
    parent, _, last = name.rpartition(b"/")
    there = folders[parent].get(last) if name else None
    if not name or (there is not None and there.mode == _TREE):
        raise GitError("the repository has lost a folder of the tree")


def _parse(content: bytes, *, id_bytes: int) -> _Folder:
    found, at = {}, 0
    while at < len(content):
        end = content.index(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        at = end + 1 + id_bytes
        found[name] = Entry(mode, content[end + 1 : at].hex().encode())
    return found


def _put_together(folders: Folders, folder: bytes, *, length: int) -> bytes | None:
    """The folder's new id, written into its parent as well; None where nothing is left of it."""
    made = _id_of(folders[folder], length=length) if folders[folder] else None
    if folder:
        parent, _, name = folder.rpartition(b"/")
        there = folders[parent].get(name)
        if made is not None and there is not None and there.mode != _TREE:
            raise GitError("a path is a file and a folder at once")
        if made is not None:
            folders[parent][name] = Entry(_TREE, made)
        elif there is not None and there.mode == _TREE:
            del folders[parent][name]
    return made


def _in_order(folder: _Folder) -> list[tuple[bytes, Entry]]:
    return sorted(folder.items(), key=lambda item: item[0] + (b"/" if item[1].mode == _TREE else b""))


def _id_of(folder: _Folder, *, length: int) -> bytes:
    content = b"".join(
        b"%s %s\0%s" % (entry.mode, name, bytes.fromhex(entry.id.decode())) for name, entry in _in_order(folder)
    )
    import hashlib  # 4 ms, only where a large index is left as it is

    digest = hashlib.new("sha256" if length == 64 else "sha1", usedforsecurity=False)
    digest.update(b"tree %d\0" % len(content) + content)
    return digest.hexdigest().encode()


def _as_text(folder: _Folder) -> bytes:
    return b"".join(
        b"%s %s %s\t%s\0" % (entry.mode, _TYPES.get(entry.mode, b"blob"), entry.id, name)
        for name, entry in _in_order(folder)
    )


Overlay = Mapping[bytes, Entry | None]
_LISTED = re.compile(rb"(\d+) ([0-9a-f]+) \d\t(.*)", re.DOTALL)
_MOST_ARGUMENTS = 300


class Found(NamedTuple):
    """Paths to remove from an index, to read from disk, and entries to put in as they are."""

    removed: list[bytes]
    added: list[bytes]
    entries: list[bytes]


def put(git: Git, found: Found) -> None:
    """Bring the index up to what was found on disk."""
    if found.removed:
        git.run("update-index", "-z", "--force-remove", "--stdin", stdin=listed(found.removed))
    put_few(git, {}, found)


def put_few(git: Git, known: Mapping[bytes, Entry], found: Found) -> None:
    """The same into an index that is empty; `known` are earlier entries, by which git reads line ends and modes."""
    earlier = {path: known[path] for path in found.added if path in known}
    arguments: list[str] = []
    if len(earlier) <= _MOST_ARGUMENTS:
        for path, entry in earlier.items():
            arguments += ["--cacheinfo", f"{entry.mode.decode()},{entry.id.decode()},{os.fsdecode(path)}"]
    else:
        take_as_known(git, earlier)
    if found.added:
        command = ("update-index", "-z", "--add", "--remove", "--replace", *arguments, "--stdin")
        git.run(*command, stdin=listed(found.added))
    if found.entries:
        git.run("update-index", "-z", "--replace", "--index-info", stdin=listed(found.entries))


def take_as_known(git: Git, entries: Mapping[bytes, Entry]) -> None:
    """Put entries into the index as they are, without a look at the disk."""
    lines = [b"%s %s\t%s" % (entry.mode, entry.id, path) for path, entry in entries.items()]
    if lines:
        git.run("update-index", "-z", "--replace", "--index-info", stdin=listed(lines))


def lay_over(git: Git, overlay: Overlay) -> None:
    """Bring a large index up to the overlay beside it."""
    gone = [path for path, entry in overlay.items() if entry is None]
    if gone:
        git.run("update-index", "-z", "--force-remove", "--stdin", stdin=listed(gone))
    take_as_known(git, {path: entry for path, entry in overlay.items() if entry is not None})


def read_entries(git: Git) -> dict[bytes, Entry]:
    """Mode and id of every path of the index."""
    lines = (_LISTED.fullmatch(line) for line in git.run("ls-files", "-s", "-z").split(b"\0"))
    return {match[3]: Entry(match[1], match[2]) for match in lines if match is not None}


@contextmanager
def small_index(git: Git, store: Path) -> Iterator[Git]:
    """The repository with an empty index of its own, which is gone afterwards."""
    own = store / f"changed-{short_token(16)}.index"
    try:
        yield git.with_index(own)
    finally:
        own.unlink(missing_ok=True)
        Path(f"{own}.lock").unlink(missing_ok=True)
