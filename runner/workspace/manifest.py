"""Workspace baselines without git: a manifest of path, size, times and sha256; changes and diff against it.

Texts are stored in packs in the blob store. Imported only where git cannot be used.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from runner.gate.criterion import ChangedFile
from runner.workspace.changes import LEFT_OUT, Blobs, Change, ComparisonError, Limits, Side, safe_text
from tracer.clock import now_epoch_ms
from tracer.errors import PmError
from tracer.unified_diff import unified_diff

_LEFT_OUT = re.compile("|".join(map(fnmatch.translate, LEFT_OUT)).encode())
_PACK_BYTES = 8 << 20
_SETTLED_NS = 2_000_000_000


class FileRecord(NamedTuple):
    """One file of a manifest. `sha256` is empty where it could not be read; `pack` -1 where its text is not kept.

    `changed_ns` and `number` (inode) make sure that a file that looks the same is the same.
    """

    mode: int
    size: int
    modified_ns: int
    changed_ns: int
    number: int
    sha256: str
    pack: int = -1
    offset: int = 0


class Manifest(NamedTuple):
    """All files of a workspace at one time."""

    taken_ns: int
    packs: tuple[str, ...]
    files: Mapping[bytes, FileRecord]

    def settled(self, path: bytes, facts: os.stat_result) -> FileRecord | None:
        """The record of a file that has surely not changed since; None where it must be read."""
        record = self.files.get(path)
        if record is None or not record.sha256:
            return None
        same = (record.size, record.modified_ns, record.changed_ns, record.number) == (
            facts.st_size,
            facts.st_mtime_ns,
            facts.st_ctime_ns,
            facts.st_ino,
        )
        # Written so shortly before the manifest was taken that a later write may carry the same times.
        racy = max(facts.st_mtime_ns, facts.st_ctime_ns) > self.taken_ns - _SETTLED_NS
        return record if same and not racy and record.mode == _mode(facts) else None


class Content(NamedTuple):
    """What was read of a file: its hash, its bytes up to the limit, and whether it changed meanwhile."""

    sha256: str
    head: bytes
    unstable: bool


def read_disk(root: bytes, *, excluded: frozenset[bytes], notes: list[str]) -> Iterator[tuple[bytes, os.stat_result]]:
    """Every file and link below `root`, relative, with its facts; links are never followed, other things left out."""
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(_joined(root, folder)) as inside:
                found = sorted(inside, key=lambda entry: entry.name)
        except OSError as error:
            notes.append(f"{safe_text(folder or b'.')} cannot be read: {error.strerror}; it was not compared")
            continue
        for entry in found:
            path = folder + b"/" + entry.name if folder else entry.name
            if _left_out(entry.name) or _joined(root, path) in excluded:
                continue
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone while we looked
            if stat.S_ISDIR(facts.st_mode):
                waiting.append(path)
            elif stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode):
                yield path, facts


def _joined(root: bytes, path: bytes) -> bytes:
    return root + b"/" + path if path else root


def _left_out(name: bytes) -> bool:
    return _LEFT_OUT.match(name) is not None


def _mode(facts: os.stat_result) -> int:
    if stat.S_ISLNK(facts.st_mode):
        return 0o120000
    return 0o100755 if facts.st_mode & stat.S_IXUSR else 0o100644


def read_file(path: bytes, facts: os.stat_result, *, limit: int) -> Content:
    """Hash a file or link and keep its first `limit` bytes; OSError where it cannot be read."""
    if stat.S_ISLNK(facts.st_mode):
        target = os.readlink(path)  # noqa: PTH115 - the name may not be text
        return Content(hashlib.sha256(target).hexdigest(), target, unstable=False)
    digest = hashlib.sha256()
    head = bytearray()
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb", buffering=0) as file:
        while block := file.read(1 << 20):
            digest.update(block)
            head += block[: max(limit - len(head), 0)]
        after = os.fstat(handle)
    unstable = (after.st_size, after.st_mtime_ns) != (facts.st_size, facts.st_mtime_ns)
    return Content(digest.hexdigest(), bytes(head), unstable)


def record_of(facts: os.stat_result, sha256: str, *, pack: int = -1, offset: int = 0) -> FileRecord:
    """The record of a file with these facts."""
    return FileRecord(
        _mode(facts), facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, sha256, pack, offset
    )


class _Packs:
    """Collects texts into blobs of some megabytes; a text that an earlier manifest holds is not stored again."""

    def __init__(self, blobs: Blobs, earlier: Manifest | None) -> None:
        self._blobs = blobs
        self._earlier = earlier
        self.names: list[str] = list(earlier.packs) if earlier else []
        self._open = bytearray()
        self._begun = False  # an empty text has its place too

    def put(self, text: bytes) -> tuple[int, int]:
        if len(self._open) + len(text) > _PACK_BYTES and self._open:
            self.close()
        at = (len(self.names), len(self._open))
        self._open += text
        self._begun = True
        return at

    def keep(self, record: FileRecord | None, side: Side | None) -> FileRecord | None:
        """The record with the place of its content, where that was read whole."""
        if record is None or side is None or side.cut:
            return record
        pack, offset = self.put(side.content)
        return record._replace(pack=pack, offset=offset)

    def close(self) -> None:
        if self._begun:
            self.names.append(self._blobs.put_bytes(bytes(self._open)))
            self._open.clear()
            self._begun = False


def take_manifest(
    root: bytes,
    *,
    excluded: frozenset[bytes],
    blobs: Blobs,
    limits: Limits,
    earlier: Manifest | None = None,
    notes: list[str],
) -> tuple[str, Manifest]:
    """Record the disk as it is; returns the manifest's blob id and the manifest. Durable when it returns."""
    taken_ns = now_epoch_ms() * 1_000_000
    packs = _Packs(blobs, earlier)
    files: dict[bytes, FileRecord] = {}
    for path, facts in read_disk(root, excluded=excluded, notes=notes):
        known = earlier.settled(path, facts) if earlier else None
        if known is not None:
            files[path] = known
            continue
        try:
            content = read_file(_joined(root, path), facts, limit=limits.file)
        except OSError as error:
            notes.append(f"{safe_text(path)} cannot be read: {error.strerror}; only its size and time are compared")
            files[path] = record_of(facts, "")
            continue
        pack, offset = packs.put(content.head) if facts.st_size <= limits.file else (-1, 0)
        files[path] = record_of(facts, content.sha256, pack=pack, offset=offset)._replace(size=facts.st_size)
    packs.close()
    manifest = Manifest(taken_ns, tuple(packs.names), files)
    return blobs.put_bytes(_encoded(manifest)), manifest


def _encoded(manifest: Manifest) -> bytes:
    head = {"manifest": 1, "taken_ns": manifest.taken_ns, "packs": manifest.packs}
    lines = [json.dumps(head)]
    # Names that are not UTF-8 survive as lone surrogates, which the escapes of ASCII JSON can carry.
    lines += [json.dumps([os.fsdecode(path), *record]) for path, record in sorted(manifest.files.items())]
    return ("\n".join(lines) + "\n").encode("ascii")


def read_manifest(blobs: Blobs, blob_id: str) -> Manifest:
    """The manifest with this blob id.

    Raises:
        ComparisonError: it is gone or damaged.

    """
    try:
        head, *lines = blobs.read(blob_id).split(b"\n")
        facts = json.loads(head)
        rows = [json.loads(line) for line in lines if line]
        files = {os.fsencode(path): FileRecord(*rest) for path, *rest in rows}
        return Manifest(int(facts["taken_ns"]), tuple(facts["packs"]), files)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ComparisonError(
            f"the workspace baseline {blob_id!r} cannot be read",
            why=str(error),
            next_step="restore the blob, or start the task again with `pm run`",
        ) from error


_LINK = 0o120000


def compare_with_disk(
    base: Manifest, root: bytes, *, excluded: frozenset[bytes], blobs: Blobs, limits: Limits, notes: list[str]
) -> tuple[list[Change], bytes, list[list[Any]]]:
    """All changes from `base` to the disk, their unified diff, and rows for an undo.

    A row is the path and for each side mode, blob ("" where the content is not kept), offset and size.
    """
    read_pack = lru_cache(maxsize=4)(blobs.read)
    changes: list[Change] = []
    diffs: list[bytes] = []
    seen: set[bytes] = set()
    left = [limits.total, limits.diff]
    rows: list[tuple[bytes, FileRecord | None, FileRecord | None]] = []
    packs = _Packs(blobs, None)

    def note(path: bytes, before: FileRecord | None, after: FileRecord | None, now: Side | None) -> None:
        then = None if before is None else _before(before, base, read_pack, limits)
        sides = []
        for record, side in ((before, then), (after, now)):
            if side is not None and left[0] < len(side.content):
                side = Side(b"", cut=True)  # noqa: PLW2901 - the budget is used up
            left[0] -= len(side.content) if side else 0
            sides.append(_shown(record, side))
        changes.append(Change(path, *sides))
        rows.append((path, before, packs.keep(after, now)))
        if left[1] > 0:
            named_only = any(side is not None and (side.cut or b"\0" in side.content) for side in (then, now))
            modes = (_git_mode(before), _git_mode(after))
            texts = (None if side is None else side.content for side in (then, now))
            diffs.append(unified_diff(path, *texts, modes=modes, named_only=named_only))
            left[1] -= len(diffs[-1])

    for path, facts in read_disk(root, excluded=excluded, notes=notes):
        seen.add(path)
        if base.settled(path, facts) is not None:
            continue
        before = base.files.get(path)
        try:
            content = read_file(root + b"/" + path, facts, limit=limits.file)
        except FileNotFoundError:
            seen.discard(path)
            continue
        except OSError as error:
            notes.append(f"{safe_text(path)} cannot be read: {error.strerror}; only its size and time are compared")
            after = record_of(facts, "")
            if before is None or before[:3] != after[:3] or before.sha256:
                note(path, before, after, Side(b"", cut=True))
            continue
        after = record_of(facts, content.sha256)
        if before is None or (before.sha256, before.mode) != (after.sha256, after.mode):
            cut = facts.st_size > len(content.head) and after.mode != _LINK
            note(path, before, after, Side(content.head, cut, content.unstable))
    for path in base.files.keys() - seen:
        note(path, base.files[path], None, None)
    packs.close()
    told = [[os.fsdecode(path), _where(before, base.packs), _where(after, packs.names)] for path, before, after in rows]
    return changes, b"".join(diff for _, diff in sorted(zip((c.path for c in changes), diffs, strict=False))), told


def _where(record: FileRecord | None, packs: Sequence[str]) -> list[Any] | None:
    if record is None:
        return None
    return [record.mode, packs[record.pack] if record.pack >= 0 else "", record.offset, record.size]


def lay_out_manifest(base: Manifest, source: Path, target: Path, *, changed: Mapping[str, ChangedFile]) -> str:
    """Lay out what `base` lists in the empty folder `target`; what did not change since comes from `source`.

    Returns why the result is not whole, empty where it is.
    """
    for path, record in base.files.items():
        name = os.fsdecode(path)
        place, now = target / name, changed.get(safe_text(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        if now is None:
            shutil.copy2(source / name, place, follow_symlinks=False)
        elif now.before is None or now.too_large or record.mode == _LINK or record.pack < 0:
            return f"{name} was not kept as it was before the task"
        else:
            place.write_bytes(now.before)
            place.chmod(record.mode & 0o777)
    return ""


def _git_mode(record: FileRecord | None) -> bytes:
    return b"" if record is None else b"%06o" % record.mode


def _shown(record: FileRecord | None, side: Side | None) -> Side | None:
    """What a link points to is not the link's content."""
    return Side(b"") if record is not None and record.mode == _LINK else side


def _before(record: FileRecord, base: Manifest, read_pack: Callable[[str], bytes], limits: Limits) -> Side:
    if record.pack < 0 or record.size > limits.file:
        return Side(b"", cut=True)
    try:
        return Side(read_pack(base.packs[record.pack])[record.offset : record.offset + record.size])
    except (OSError, IndexError, PmError):
        return Side(b"", cut=True)
