"""A tree with a few paths exchanged: only the folders on the way to them are read and written, never an index.

The ids of the new trees are computed here, because a folder needs those of the folders in it, and git must come to the
same ones when it writes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from runner.workspace.git import Git, GitError

__all__ = ["Entry", "Folders", "exchange", "read_folders", "tree_of"]

_TREE = b"40000"
_TYPES = {_TREE: b"tree", b"160000": b"commit"}


class Entry(NamedTuple):
    """What stands in an index or a tree for a path: mode in octal digits, id in hexadecimal ones."""

    mode: bytes
    id: bytes


_Folder = dict[bytes, Entry]
Folders = dict[bytes, _Folder]


def read_folders(git: Git, tree: str, paths: Iterable[bytes]) -> Folders:
    """The folders of the tree on the way to `paths`; an empty one for each that is not there or is no folder.

    Raises:
        GitError: one of them cannot be asked for, or the repository has lost it.

    """
    names = sorted({folder for path in paths for folder in _on_the_way(path)})
    return _read(git, tree, names)


def exchange(git: Git, folders: Folders, entries: Mapping[bytes, Entry | None], *, length: int) -> str:
    """The tree that `folders` are of with `entries` in it; None takes a path out. It is in the repository afterwards.

    `folders` are used up; `length` is how many digits an id has.

    Raises:
        GitError: it cannot be made this way; an index can.

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


def tree_of(git: Git, entries: Mapping[bytes, Entry], *, length: int) -> str:
    """A tree of just these entries.

    Raises:
        GitError: it cannot be made this way; an index can.

    """
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
    digest = hashlib.new("sha256" if length == 64 else "sha1", usedforsecurity=False)
    digest.update(b"tree %d\0" % len(content) + content)
    return digest.hexdigest().encode()


def _as_text(folder: _Folder) -> bytes:
    return b"".join(
        b"%s %s %s\t%s\0" % (entry.mode, _TYPES.get(entry.mode, b"blob"), entry.id, name)
        for name, entry in _in_order(folder)
    )
