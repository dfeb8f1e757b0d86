"""Redaction of checked events: every free text of many batches in one search, code with its trace's own map. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from collector.intake_parse import ParsedEvent
from collector.redact_code import ORIGINAL_CONTENT, TraceMap
from collector.redacting import CaptureRedactors, Pieces

__all__ = ["TEXTS", "Draft", "draft_of", "redact", "redact_code"]

# The free texts of each payload. Everything else is a number, an identifier, a hash or one of a few words.
TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "file_edit": ("file_path",),
    "file_snapshot": ("file_path",),
    "terminal_command": ("cwd", "command", "env_hash"),
    "terminal_output": (),
    "test_run": ("command",),
    "debug_action": ("file_path", "expression"),
    "navigation": ("file_path", "query"),
    "thought": (),
    "commit": ("message",),
    "pr_metadata": ("title", "description", "url", "head", "base"),
    "error": ("message", "source"),
}
_CODE: Final = {
    "file_edit": "patch_blob_id",
    "file_snapshot": "content_blob_id",
    "commit": "diff_blob_id",
    "pr_metadata": "diff_blob_id",
}
_PLACES: Final = ("workspace_root", "branch")


class Draft:
    """An event in the making: its parts as dicts that can still change."""

    __slots__ = ("actor", "context", "inline", "originals", "parsed", "payload")

    def __init__(self, parsed: ParsedEvent) -> None:
        event = parsed.event
        self.parsed = parsed
        self.actor: dict[str, Any] = event["actor"]
        self.context: dict[str, Any] = event["context"]
        self.payload: dict[str, Any] = event["payload"].copy()  # where another batch fails, this one is drafted again
        self.inline: dict[str, str] = dict(parsed.inline)
        self.originals: dict[str, str] = self.inline


def draft_of(parsed: ParsedEvent) -> Draft:
    """The draft of a checked event, its UUIDs in lower case."""
    draft = Draft(parsed)
    context = draft.context
    correlation, parent = context["correlation_id"], context["parent_event_id"]
    if correlation is not None and not correlation.islower():
        draft.context = {**draft.context, "correlation_id": correlation.lower()}
    if parent is not None and not parent.islower():
        draft.context = {**draft.context, "parent_event_id": parent.lower()}
    payload = draft.payload
    if parsed.type == "file_edit" and payload["reason_ref"] is not None:
        payload["reason_ref"] = payload["reason_ref"].lower()
    elif parsed.type == "thought" and payload["links_to"]:
        payload["links_to"] = [link.lower() for link in payload["links_to"]]
    return draft


def redact(batches: Sequence[Sequence[Draft]], redactors: CaptureRedactors) -> None:
    """Replace the secrets in every free text of the batches, which know nothing of each other."""
    by_root: dict[str | None, Pieces] = {}
    offered: list[tuple[Draft, Pieces, tuple[Any, int] | None]] = []
    for number, drafts in enumerate(batches):
        # Events that name no root belong to the one named before them (or first after them).
        root = next((draft.context["workspace_root"] for draft in drafts if draft.context["workspace_root"]), None)
        for draft in drafts:
            root = draft.context["workspace_root"] or root
            pieces = by_root.get(root)
            if pieces is None:
                pieces = by_root[root] = Pieces()
            offered.append((draft, pieces, _offer(draft, pieces, number)))
            if draft.payload["extra"]:
                draft.payload["extra"] = redactors.for_root(root).redact_value(draft.payload["extra"]).value
    for workspace, pieces in by_root.items():
        pieces.redact(redactors.for_root(workspace))
    for draft, pieces, chunk in offered:
        if pieces.changed or pieces.chunks:
            _replace(draft, pieces, chunk)


def _offer(draft: Draft, pieces: Pieces, batch: int) -> tuple[Any, int] | None:
    """Give every free text of the event to `pieces`; of a piece of output, its stream (one batch's) and place."""
    kind, payload, context, add = draft.parsed.type, draft.payload, draft.context, pieces.add
    if draft.actor["id"] is not None:
        add(draft.actor["id"])
    for name in _PLACES:
        if context[name] is not None:
            add(context[name])
    for name in TEXTS[kind]:
        if payload[name] is not None:
            add(payload[name])
    chunk = None
    for text in draft.inline.values():
        if kind == "terminal_output":
            stream = (batch, payload["stream"], context["correlation_id"], context["parent_event_id"])
            chunk = (stream, pieces.add_chunk(text, stream))
        else:
            add(text)
    return chunk


def _replace(draft: Draft, pieces: Pieces, chunk: tuple[Any, int] | None) -> None:
    """Put what became of the event's texts in their places."""
    changed, payload, context = pieces.changed, draft.payload, draft.context
    if draft.actor["id"] in changed:
        draft.actor = {**draft.actor, "id": changed[draft.actor["id"]]}
    for name in _PLACES:
        if context[name] in changed:
            draft.context = {**draft.context, name: changed[context[name]]}
    for name in TEXTS[draft.parsed.type]:
        if payload[name] in changed:
            payload[name] = changed[payload[name]]
    if chunk is not None:
        if (redacted := pieces.chunks.get(chunk[0])) is not None:
            draft.inline = dict.fromkeys(draft.inline, redacted[chunk[1]])
    elif draft.inline:
        draft.inline = {name: changed.get(text, text) for name, text in draft.inline.items()}


def redact_code(
    drafts: Sequence[Draft], redactors: CaptureRedactors, trace_map: TraceMap, withheld: Callable[[str, str], str]
) -> None:
    """Redact patches and snapshots in which the search found something once more, as code and with the trace's map."""
    found: list[tuple[Draft, str]] = []
    root: str | None = None
    for draft in drafts:
        # The root as it was sent: `context` holds its redacted form.
        root = draft.parsed.event["context"]["workspace_root"] or root
        name = _CODE.get(draft.parsed.type, "")
        if name in draft.inline and not withheld(draft.parsed.type, name):
            found.append((draft, name))
    if not found:
        return
    trace_map.use(redactors.for_root(root).project)
    trace_map.learn(
        draft.originals[name].encode() for draft, name in found if draft.inline[name] != draft.originals[name]
    )
    for draft, name in found:
        _redact_one(draft, name, trace_map)


def _redact_one(draft: Draft, name: str, trace_map: TraceMap) -> None:
    original, payload, kind = draft.originals[name].encode(), draft.payload, draft.parsed.type
    text = draft.inline[name]
    shortened = text != draft.originals[name] and "\n[TRUNCATED: " in text
    if not shortened and (text != draft.originals[name] or trace_map.finds_known(original)):
        redacted = (trace_map.snapshot if kind == "file_snapshot" else trace_map.patch)(original).data
        text = draft.inline[name] = draft.originals[name] if redacted == original else redacted.decode("utf-8")
    if kind == "file_edit":
        hashes = trace_map.edit(
            original=original, redacted=text.encode(), pre_hash=payload["pre_hash"], post_hash=payload["post_hash"]
        )
        payload |= {"pre_hash": hashes.pre_hash, "post_hash": hashes.post_hash}
        payload["extra"] = {**payload["extra"], **hashes.extra}
    elif kind == "file_snapshot" and text.encode() != original:
        content_id = f"sha256:{hashlib.sha256(original).hexdigest()}"
        payload["extra"] = {**payload["extra"], ORIGINAL_CONTENT: trace_map.keyed(content_id)}
