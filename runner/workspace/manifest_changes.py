"""The disk compared with a manifest."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from runner.workspace.diff import unified_diff
from runner.workspace.manifest import FileRecord, Manifest, read_disk, read_file, record_of
from runner.workspace.model import Blobs, Change, Limits, Side, safe_text
from tracer.errors import PmError

__all__ = ["compare_with_disk"]

_LINK = 0o120000


def compare_with_disk(
    base: Manifest, root: bytes, *, excluded: frozenset[bytes], blobs: Blobs, limits: Limits, notes: list[str]
) -> tuple[list[Change], bytes]:
    """All changes from `base` to the disk, and their unified diff."""
    read_pack = lru_cache(maxsize=4)(blobs.read)
    changes: list[Change] = []
    diffs: list[bytes] = []
    seen: set[bytes] = set()
    left = [limits.total, limits.diff]

    def note(path: bytes, before: FileRecord | None, after: FileRecord | None, now: Side | None) -> None:
        then = None if before is None else _before(before, base, read_pack, limits)
        sides = []
        for record, side in ((before, then), (after, now)):
            if side is not None and left[0] < len(side.content):
                side = Side(b"", cut=True)  # noqa: PLW2901 - the budget is used up
            left[0] -= len(side.content) if side else 0
            sides.append(_shown(record, side))
        changes.append(Change(path, *sides))
        if left[1] > 0:
            diffs.append(unified_diff(path, before, then, after, now))
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
    return changes, b"".join(diff for _, diff in sorted(zip((c.path for c in changes), diffs, strict=False)))


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
