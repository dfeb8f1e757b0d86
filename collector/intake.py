"""From what was sent to what is stored: the one place where schema, consent, mode and redaction meet. Pure.

`prepare_events` checks a batch against the schema, redacts it, turns inline content into blobs and gives each event
its stored bytes. What consent or mode does not allow never comes out of here: it is replaced by a tombstone, a small
JSON blob with the length and a keyed hash. The caller stores the result in one step.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson

from collector.errors import IntakeError
from collector.intake_json import spelled
from collector.intake_parse import ParsedBatch, ParsedEvent, parse_events
from collector.limits import SPILL, IntakeLimits
from collector.redact_code import ORIGINAL_CONTENT, TraceMap
from collector.redacting import CaptureRedactors, Pieces
from collector.store.port import BlobRow, NewBlob, StoredEvent

__all__ = [
    "BLOB_RULES",
    "TEXTS",
    "IntakeRules",
    "PreparedBatch",
    "check_consent",
    "keyed_hash",
    "new_blob",
    "parse_events",
    "prepare_events",
    "tombstone",
]

_BEGINNING: Final = 1_024
BLOB_RULES: Final = ("secret_scan", "pii_mask")
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
_OUTPUTS: Final = frozenset({("terminal_output", "chunk_blob_id"), ("test_run", "report_blob_id")})
_HASHES: Final = ("pre_hash", "post_hash")
_CODE: Final = {
    "file_edit": "patch_blob_id",
    "file_snapshot": "content_blob_id",
    "commit": "diff_blob_id",
    "pr_metadata": "diff_blob_id",
}
_PLACES: Final = ("workspace_root", "branch")
_UUIDS: Final = ("correlation_id", "parent_event_id")


@dataclass(frozen=True, kw_only=True)
class IntakeRules:
    """What a trace's mode and consent allow, and the limits. `key` keys identities and hashes of originals."""

    store: Literal["redacted", "raw", "patches_only"] = "redacted"
    store_raw_code: bool = False
    store_terminal_output: bool = False
    key: bytes = field(repr=False)
    limits: IntakeLimits = field(default_factory=IntakeLimits)

    @classmethod
    def of(cls, metadata: Mapping[str, Any], *, key: bytes, limits: IntakeLimits | None = None) -> IntakeRules:
        """The rules of a stored trace; a consent flag that is missing is false."""
        consent = metadata.get("developer", {}).get("consent_flags", {})
        return cls(
            store=metadata.get("store", "redacted"),
            store_raw_code=consent.get("store_raw_code") is True,
            store_terminal_output=consent.get("store_terminal_output") is True,
            key=key,
            limits=limits or IntakeLimits(),
        )

    @property
    def redacting(self) -> bool:
        """Whether secrets are replaced."""
        return self.store != "raw"

    def withheld(self, event_type: str, blob_field: str) -> str:
        """Why the content of a blob field must not be stored; empty where it may."""
        if not self.store_terminal_output and (event_type, blob_field) in _OUTPUTS:
            return "store_terminal_output"
        if self.store == "patches_only" and event_type == "file_snapshot":
            return "patches_only"
        return ""


@dataclass(frozen=True, kw_only=True)
class PreparedBatch:
    """What to store: events, the blobs that come with them, and the ids of stored blobs that they name."""

    events: tuple[StoredEvent, ...]
    blobs: tuple[NewBlob, ...]
    references: frozenset[str]
    sent_at_ms: int | None = None
    redactions: Mapping[str, int] = field(default_factory=dict)
    """Marks left by each redaction rule."""


def keyed_hash(key: bytes, content_id: str) -> str:
    """What is kept of the hash of original content: nobody without the key can test a guess against it.

    `content_id` is `sha256:<hex>` of the content; the result is `hmac-sha256:<hex>`.
    """
    return f"hmac-sha256:{hmac.digest(key, content_id.encode('ascii'), 'sha256').hex()}"


def tombstone(*, reason: str, content_id: str, byte_length: int, key: bytes) -> NewBlob:
    """What is stored in place of content that must not be: its length and keyed hash, and why."""
    told = {"byte_length": byte_length, "hash": keyed_hash(key, content_id), "reason": reason}
    data = orjson.dumps({"tombstone": told}, option=orjson.OPT_SORT_KEYS)
    return new_blob(data, content_type="application/json", rules=(), applied=True)


def check_consent(row: BlobRow, rules: IntakeRules, place: str) -> None:
    """Refuse to name a blob that nothing was redacted in (an admin's upload) where raw code may not be stored.

    Raises:
        IntakeError: rule `consent`.

    """
    if rules.redacting and not rules.store_raw_code and row.redaction.get("applied") is not True:
        raise IntakeError(
            f"{place} names content that cannot be redacted",
            place=place,
            rule="consent",
            why="developer.consent_flags.store_raw_code is false",
            next_step="leave it out, or ask for consent",
        )


def new_blob(data: bytes, *, content_type: str = "text/plain", rules: Sequence[str], applied: bool) -> NewBlob:
    """A blob with the redaction it went through."""
    blob_id = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return NewBlob(blob_id, content_type, len(data), {"applied": applied, "rules": list(rules)}, data)


def prepare_events(
    sent: bytes | Sequence[Any] | ParsedBatch,
    *,
    rules: IntakeRules,
    redactors: CaptureRedactors,
    resolved: Mapping[str, BlobRow] | None = None,
    trace_map: TraceMap | None = None,
) -> PreparedBatch:
    """The batch as it is stored.

    `trace_map` is the trace's own (`collector.redact_code`): with it patches and snapshots are redacted alike, and
    hashes are of what is stored; without it hashes of edits are withheld.

    `sent` is a request's body, a list of events, or what `parse_events` made of either. `resolved` holds the blobs
    that `ParsedBatch.references` ask for (`TraceStore.resolve_blobs`); events that name others are refused.

    Raises:
        IntakeError: a rule is broken; `TooLargeError` for limits.

    """
    batch = sent if isinstance(sent, ParsedBatch) else parse_events(sent, key=rules.key, limits=rules.limits)
    drafts = [_draft(parsed) for parsed in batch.events]
    counts = _redact(drafts, redactors) if rules.redacting else {}
    if rules.redacting and trace_map is not None:
        with trace_map.lock:
            _redact_code(drafts, redactors, trace_map, rules)
    storing = _Storing(rules, resolved or {}, hide_hashes=trace_map is None)
    events = tuple(storing.stored(draft, at) for at, draft in enumerate(drafts))
    return PreparedBatch(
        events=events,
        blobs=tuple(storing.blobs.values()),
        references=frozenset(storing.references),
        sent_at_ms=batch.sent_at_ms,
        redactions=counts,
    )


class _Draft:
    """An event in the making: its parts as dicts that can still change."""

    __slots__ = ("actor", "context", "inline", "originals", "parsed", "payload")

    def __init__(self, parsed: ParsedEvent) -> None:
        event: Any = parsed.event
        self.parsed = parsed
        self.actor: dict[str, Any] = event.actor.__dict__
        self.context: dict[str, Any] = event.context.__dict__
        self.payload: dict[str, Any] = dict(event.payload.__dict__)
        self.inline: dict[str, str] = dict(parsed.inline)
        self.originals: dict[str, str] = self.inline


def _draft(parsed: ParsedEvent) -> _Draft:
    draft = _Draft(parsed)
    for name in _UUIDS:
        value = draft.context[name]
        if value is not None and not value.islower():
            draft.context = {**draft.context, name: value.lower()}
    payload = draft.payload
    if parsed.type == "file_edit" and payload["reason_ref"] is not None:
        payload["reason_ref"] = payload["reason_ref"].lower()
    elif parsed.type == "thought" and payload["links_to"]:
        payload["links_to"] = [link.lower() for link in payload["links_to"]]
    return draft


def _redact(drafts: Sequence[_Draft], redactors: CaptureRedactors) -> dict[str, int]:
    """Replace the secrets in every free text of the batch; how many marks each rule left."""
    by_root: dict[str | None, Pieces] = {}
    offered: list[tuple[_Draft, Pieces, tuple[Any, int] | None]] = []
    counts: dict[str, int] = {}
    # Events that name no root belong to the one named before them (or first after them).
    root = next((draft.context["workspace_root"] for draft in drafts if draft.context["workspace_root"]), None)
    for draft in drafts:
        root = draft.context["workspace_root"] or root
        pieces = by_root.get(root)
        if pieces is None:
            pieces = by_root[root] = Pieces()
        offered.append((draft, pieces, _offer(draft, pieces)))
        if draft.payload["extra"]:
            value, found = redactors.for_root(root).redact_value(draft.payload["extra"])
            draft.payload["extra"] = value
            _add(counts, found)
    for workspace, pieces in by_root.items():
        pieces.redact(redactors.for_root(workspace))
        _add(counts, pieces.counts)
    for draft, pieces, chunk in offered:
        if pieces.changed or pieces.chunks:
            _replace(draft, pieces, chunk)
    return counts


def _offer(draft: _Draft, pieces: Pieces) -> tuple[Any, int] | None:
    """Give every free text of the event to `pieces`; of a piece of output, its stream and place."""
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
            stream = (payload["stream"], context["correlation_id"], context["parent_event_id"])
            chunk = (stream, pieces.add_chunk(text, stream))
        else:
            add(text)
    return chunk


def _replace(draft: _Draft, pieces: Pieces, chunk: tuple[Any, int] | None) -> None:
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


def _redact_code(
    drafts: Sequence[_Draft], redactors: CaptureRedactors, trace_map: TraceMap, rules: IntakeRules
) -> None:
    """Redact patches and snapshots in which the search found something once more, as code and with the trace's map."""
    found: list[tuple[_Draft, str]] = []
    root: str | None = None
    for draft in drafts:
        # The root as it was sent: `context` holds its redacted form.
        root = draft.parsed.event.context.workspace_root or root
        name = _CODE.get(draft.parsed.type, "")
        if name in draft.inline and not rules.withheld(draft.parsed.type, name):
            found.append((draft, name))
    if not found:
        return
    trace_map.use(redactors.for_root(root).project)
    trace_map.learn(
        draft.originals[name].encode() for draft, name in found if draft.inline[name] != draft.originals[name]
    )
    for draft, name in found:
        _redact_one(draft, name, trace_map)


def _redact_one(draft: _Draft, name: str, trace_map: TraceMap) -> None:
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


def _add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for rule, count in more.items():
        counts[rule] = counts.get(rule, 0) + count


class _Storing:
    """Turns drafts into stored events, gathering their blobs."""

    def __init__(self, rules: IntakeRules, resolved: Mapping[str, BlobRow], *, hide_hashes: bool) -> None:
        self.rules = rules
        self.hide_hashes = hide_hashes
        self.resolved = resolved
        self.blobs: dict[str, NewBlob] = {}
        self.references: set[str] = set()

    def stored(self, draft: _Draft, at: int) -> StoredEvent:
        event, kind, payload = draft.parsed.event, draft.parsed.type, draft.payload
        for name in draft.inline:
            payload[name] = self._inline(draft, name)
        for name, sent in draft.parsed.references.items():
            payload[name] = self._reference(kind, name, sent, at)
        for name in TEXTS[kind]:
            text = payload[name]
            if text is not None and len(text) > SPILL:
                self._spill(payload, name)
        if kind == "file_edit" and self.rules.redacting:
            uploaded = draft.parsed.references.get("patch_blob_id")
            if self.hide_hashes or uploaded not in {None, payload["patch_blob_id"]}:  # an upload that was changed
                self._hide_hashes(payload)
        return StoredEvent(
            event.event_id.lower(),
            event.seq,
            event.ts_ms,
            kind,
            orjson.dumps({"actor": draft.actor, "context": draft.context}, option=orjson.OPT_SORT_KEYS),
            orjson.dumps(payload, default=vars, option=orjson.OPT_SORT_KEYS),
            draft.parsed.identity,
        )

    def _inline(self, draft: _Draft, name: str) -> str:
        """Make the blob of inline content (or its tombstone); its id."""
        kind = draft.parsed.type
        if reason := self.rules.withheld(kind, name):
            original = draft.originals[name].encode("utf-8")
            content_id = f"sha256:{hashlib.sha256(original).hexdigest()}"
            blob = tombstone(reason=reason, content_id=content_id, byte_length=len(original), key=self.rules.key)
        else:
            blob = self._blob(draft.inline[name], truncated=draft.inline[name] is not draft.originals[name])
        self.blobs[blob.blob_id] = blob
        return blob.blob_id

    def _blob(self, text: str, *, truncated: bool = False) -> NewBlob:
        if not self.rules.redacting:
            return new_blob(text.encode("utf-8"), rules=(), applied=False)
        shortened = truncated and "\n[TRUNCATED: " in text
        return new_blob(
            text.encode("utf-8"), rules=(*BLOB_RULES, "truncate_large") if shortened else BLOB_RULES, applied=True
        )

    def _reference(self, kind: str, name: str, sent: str, at: int) -> str:
        """The stored id of a blob that was uploaded before (or of its tombstone)."""
        row = self.resolved.get(sent)
        place = spelled("events", at, "payload", name)
        if row is None:
            raise IntakeError(
                f"{place} names a blob that is not here",
                place=place,
                rule="unknown_blob",
                why="a trace may only name blobs that were uploaded for it",
                next_step="upload it first (PUT /blobs/{sha256}) or send it inline",
            )
        if reason := self.rules.withheld(kind, name):
            blob = tombstone(reason=reason, content_id=sent, byte_length=row.byte_len, key=self.rules.key)
            self.blobs[blob.blob_id] = blob
            return blob.blob_id
        check_consent(row, self.rules, place)
        self.references.add(row.blob_id)
        return row.blob_id

    def _spill(self, payload: dict[str, Any], name: str) -> None:
        """Put a large string into a blob; its beginning stays, and `extra` says where the whole is."""
        blob = self._blob(payload[name])
        self.blobs[blob.blob_id] = blob
        payload[name] = payload[name][:_BEGINNING]
        payload["extra"] = {**payload["extra"], f"{name}_blob_id": blob.blob_id}

    def _hide_hashes(self, payload: dict[str, Any]) -> None:
        """Hashes of original files become keyed ones: what is stored is redacted and has other hashes."""
        for name in _HASHES:
            original = payload[name]
            if original is not None:
                payload["extra"] = {**payload["extra"], f"{name}_keyed": keyed_hash(self.rules.key, original)}
                payload[name] = None
