"""A session made of other records: the blocks of a new trace and its events, as they are sent. Pure.

Ids follow from what was imported, so importing it again sends the same and changes nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from collector.final.replay import Content, Unknown, content_hash
from collector.patches import FilePatch, PatchError, apply_patch, make_patch, write_patch

NO_COMMIT: Final = "0" * 40
"""Stands for a base commit that nobody recorded."""
_SPACE: Final = uuid.UUID("5b1f7c0e-9a53-4d0e-8f0b-3c1a1f2d6e77")


def stable_uuid(*parts: str) -> str:
    """A UUID that is the same for the same parts."""
    return str(uuid.uuid5(_SPACE, "\0".join(parts)))


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What to send: `create` as POST /traces takes it, `events`, `final_state`, a bundle of the base; and remarks."""

    trace_id: str
    create: dict[str, Any]
    events: list[dict[str, Any]]
    final_state: dict[str, Any] | None = None
    bundle: bytes | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()


class SessionDraft:
    """The events of a session in the making. `root` is the folder it worked in; times never go back below the first."""

    def __init__(self, trace_id: str, *, root: str | None) -> None:
        self.trace_id = trace_id
        self.root = root
        self.events: list[dict[str, Any]] = []

    def add(
        self,
        kind: str,
        payload: dict[str, Any],
        *,
        ts_ms: int,
        actor: Literal["human", "tool", "ide"] = "tool",
        actor_id: str | None = None,
        parent: str | None = None,
    ) -> str:
        """Append an event; its id."""
        seq = len(self.events) + 1
        event_id = stable_uuid(self.trace_id, str(seq))
        self.events.append({
            "event_id": event_id,
            "seq": seq,
            "ts_ms": max(ts_ms, 0),
            "type": kind,
            "actor": {"kind": actor, "id": actor_id},
            "context": {"workspace_root": self.root, "parent_event_id": parent},
            "payload": payload,
        })  # fmt: skip
        return event_id

    def think(self, kind: str, text: str, *, ts_ms: int, actor_id: str, human: bool = False, **extra: Any) -> str:
        """A thought; an empty one is left out."""
        if not text.strip():
            return ""
        payload = {"content": text, "kind": kind, **extra}
        return self.add("thought", payload, ts_ms=ts_ms, actor="human" if human else "tool", actor_id=actor_id)


class FileStates:
    """The known files of a session, to give edits their hashes; `base` returns `Unknown` where none can tell."""

    def __init__(self, base: Any) -> None:
        self._base = base
        self._now: dict[str, Content] = {}

    def content(self, path: str) -> Content:
        """The file now: its bytes, None where there is none, or Unknown."""
        if path not in self._now:
            self._now[path] = self._base(path)
        return self._now[path]

    def set(self, path: str, content: Content) -> None:
        """Note what the file is now."""
        self._now[path] = content

    def seen(self, path: str, content: bytes) -> None:
        """Note what a file was seen to be, where that was not known."""
        if isinstance(self.content(path), Unknown):
            self.set(path, content)

    def patched(self, path: str, change: FilePatch) -> dict[str, Any]:
        """The payload of an edit that applies `change`; with hashes where the contents are known."""
        before = self.content(path)
        if isinstance(before, Unknown) and change.creates:
            before = None
        if not isinstance(before, Unknown):
            try:
                after = apply_patch(before, change)
            except PatchError:
                pass
            else:
                return self.written(path, after)
        self.set(path, Unknown())
        return edit_payload(path, write_patch([change]))

    def written(self, path: str, after: bytes | None) -> dict[str, Any]:
        """The payload of an edit after which the file is `after`. An unknown content before counts as no file."""
        before = self.content(path)
        unknown = isinstance(before, Unknown)
        known: bytes | None = before if isinstance(before, bytes) else None
        self.set(path, after)
        payload = edit_payload(path, make_patch(path, known, after))
        payload |= {"pre_hash": content_hash(known), "post_hash": content_hash(after)}
        return {**payload, "content_before": "unknown"} if unknown else payload


def edit_payload(path: str, patch: bytes) -> dict[str, Any]:
    """The payload of an edit without hashes."""
    return {
        "file_path": path,
        "edit_kind": "patch",
        "patch_format": "unified_diff",
        "patch": patch.decode("utf-8", "replace"),
    }
