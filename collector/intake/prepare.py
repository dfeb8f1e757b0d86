"""Turns a validated batch into what is stored: redaction, consent, mode, inline content as blobs. Pure.

Free texts of many batches are searched in one pass, code with its trace's own map. What consent or mode forbids is
replaced by a tombstone: a small JSON blob with the length and a keyed hash. The caller stores the result in one step.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import orjson

from collector.config import SPILL, IntakeLimits
from collector.errors import no_consent, unknown_blob
from collector.intake.parse import ParsedBatch, ParsedEvent
from collector.intake.redact_code import ORIGINAL_CONTENT, TraceMap
from collector.intake.redactors import CaptureRedactors, Pieces
from collector.intake.strict_json import spelled
from collector.store.port import BlobRow, NewBlob, StoredEvent
from tracer.errors import PmError
from tracer.redaction.redactor import CleanLine

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
        redacted = (trace_map.snapshot if kind == "file_snapshot" else trace_map.patch)(original)
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


_BEGINNING: Final = 1_024
BLOB_RULES: Final = ("secret_scan", "pii_mask")
# Shared by all blobs that went through the same; nobody changes them.
_AS_SENT: Final[dict[str, Any]] = {"applied": False, "rules": []}
_SEARCHED: Final[dict[str, Any]] = {"applied": True, "rules": list(BLOB_RULES)}
_SHORTENED: Final[dict[str, Any]] = {"applied": True, "rules": [*BLOB_RULES, "truncate_large"]}
_OUTPUTS: Final = frozenset({("terminal_output", "chunk_blob_id"), ("test_run", "report_blob_id")})
_HASHES: Final = ("pre_hash", "post_hash")


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

    @cached_property
    def redacting(self) -> bool:
        """Whether secrets are replaced."""
        return self.store != "raw"

    @cached_property
    def withholding(self) -> bool:
        """Whether there is content that must not be stored."""
        return not self.store_terminal_output or self.store == "patches_only"

    def withheld(self, event_type: str, blob_field: str) -> str:
        """Why the content of a blob field must not be stored; empty where it may."""
        if not self.store_terminal_output and (event_type, blob_field) in _OUTPUTS:
            return "store_terminal_output"
        if self.store == "patches_only" and event_type == "file_snapshot":
            return "patches_only"
        return ""


class PreparedBatch(NamedTuple):
    """What to store: events, the blobs that come with them, and the ids of stored blobs that they name."""

    events: tuple[StoredEvent, ...]
    blobs: tuple[NewBlob, ...]
    references: frozenset[str]
    sent_at_ms: int | None = None


class Asked(NamedTuple):
    """A batch to prepare.

    `resolved` holds the blobs that `ParsedBatch.references` ask for (`TraceStore.resolve_blobs`); events that name
    others are refused. `trace_map` is the trace's own (`collector.intake.redact_code`): it redacts patches and
    snapshots alike, and hashes are of what is stored; without it hashes of edits are withheld.
    """

    batch: ParsedBatch
    rules: IntakeRules
    resolved: Mapping[str, BlobRow]
    trace_map: TraceMap | None


def keyed_hash(key: bytes, content_id: str) -> str:
    """A keyed hash (`hmac-sha256:<hex>`) instead of `sha256:<hex>`: without the key no guess can be tested."""
    return f"hmac-sha256:{hmac.digest(key, content_id.encode('ascii'), 'sha256').hex()}"


def tombstone(*, reason: str, content_id: str, byte_length: int, key: bytes) -> NewBlob:
    """What is stored in place of content that must not be: its length and keyed hash, and why."""
    told = {"byte_length": byte_length, "hash": keyed_hash(key, content_id), "reason": reason}
    data = orjson.dumps({"tombstone": told}, option=orjson.OPT_SORT_KEYS)
    return new_blob(data, content_type="application/json", rules=(), applied=True)


def check_consent(row: BlobRow, rules: IntakeRules, place: str) -> None:
    """Refuse to name a blob that nothing was redacted in (an admin's upload) where raw code may not be stored."""
    if rules.redacting and not rules.store_raw_code and row.redaction.get("applied") is not True:
        raise no_consent(
            f"{place} names content that cannot be redacted", place, next_step="leave it out, or ask for consent"
        )


def new_blob(data: bytes, *, content_type: str = "text/plain", rules: Sequence[str], applied: bool) -> NewBlob:
    """A blob with the redaction it went through."""
    return _blob_of(data, {"applied": applied, "rules": list(rules)}, content_type)


def _blob_of(data: bytes, redaction: dict[str, Any], content_type: str = "text/plain") -> NewBlob:
    return NewBlob("sha256:" + hashlib.sha256(data).hexdigest(), content_type, len(data), redaction, data)


def prepare_one(asked: Asked, *, redactors: CaptureRedactors) -> PreparedBatch:
    """The batch as it is stored, or the first rule that it breaks as an `IntakeError`."""
    (prepared,) = prepare_together([asked], redactors=redactors)
    if isinstance(prepared, PmError):
        raise prepared
    return prepared


def prepare_together(asked: Sequence[Asked], *, redactors: CaptureRedactors) -> list[PreparedBatch | PmError]:
    """The batches as they are stored, or why not, each as `prepare_one` has it; all are searched at once."""
    drafted = [[draft_of(parsed) for parsed in each.batch.events] for each in asked]
    redact([drafts for each, drafts in zip(asked, drafted, strict=True) if each.rules.redacting], redactors)
    return [_prepared(each, drafts, redactors) for each, drafts in zip(asked, drafted, strict=True)]


def _prepared(asked: Asked, drafts: Sequence[Draft], redactors: CaptureRedactors) -> PreparedBatch | PmError:
    batch, rules, resolved, trace_map = asked
    storing = _Storing(rules, resolved, hide_hashes=trace_map is None)
    try:
        if rules.redacting and trace_map is not None:
            with trace_map.lock:
                redact_code(drafts, redactors, trace_map, rules.withheld)
        events = tuple([storing.stored(draft, at) for at, draft in enumerate(drafts)])
    except PmError as error:
        return error
    return PreparedBatch(
        events=events,
        blobs=tuple(storing.blobs.values()),
        references=frozenset(storing.references),
        sent_at_ms=batch.sent_at_ms,
    )


def _line(value: dict[str, Any]) -> CleanLine:
    """Canonical JSON of what `redact` went through; of a raw trace, of what the developer's consent lets in."""
    return CleanLine(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


class _Storing:
    """Turns drafts into stored events, gathering their blobs."""

    def __init__(self, rules: IntakeRules, resolved: Mapping[str, BlobRow], *, hide_hashes: bool) -> None:
        self.rules = rules
        self.withholding = rules.withholding
        self.redaction = _SEARCHED if rules.redacting else _AS_SENT
        self.hide_hashes = hide_hashes
        self.resolved = resolved
        self.blobs: dict[str, NewBlob] = {}
        self.references: set[str] = set()

    def stored(self, draft: Draft, at: int) -> StoredEvent:
        event, kind, _inline, references, identity = draft.parsed
        payload = draft.payload
        for name, text in draft.inline.items():
            blob = self._inline(kind, name, text, draft.originals[name])
            self.blobs[blob.blob_id] = blob
            payload[name] = blob.blob_id
        for name, sent in references.items():
            payload[name] = self._reference(kind, name, sent, at)
        for name in TEXTS[kind]:
            text = payload[name]
            if text is not None and len(text) > SPILL:
                self._spill(payload, name)
        if kind == "file_edit" and self.rules.redacting:
            uploaded = references.get("patch_blob_id")
            if self.hide_hashes or uploaded not in {None, payload["patch_blob_id"]}:  # an upload that was changed
                self._hide_hashes(payload)
        return StoredEvent(
            event["event_id"].lower(),
            event["seq"],
            event["ts_ms"],
            kind,
            _line({"actor": draft.actor, "context": draft.context}),
            _line(payload),
            identity,
        )

    def _inline(self, kind: str, name: str, text: str, original: str) -> NewBlob:
        """The blob of inline content, or its tombstone; `text` is what became of `original`."""
        if self.withholding and (reason := self.rules.withheld(kind, name)):
            data = original.encode("utf-8")
            content_id = f"sha256:{hashlib.sha256(data).hexdigest()}"
            return tombstone(reason=reason, content_id=content_id, byte_length=len(data), key=self.rules.key)
        return self._blob(text, truncated=text is not original)

    def _blob(self, text: str, *, truncated: bool = False) -> NewBlob:
        redaction = self.redaction
        if truncated and self.rules.redacting and "\n[TRUNCATED: " in text:
            redaction = _SHORTENED
        return _blob_of(text.encode("utf-8"), redaction)

    def _reference(self, kind: str, name: str, sent: str, at: int) -> str:
        """The stored id of a blob that was uploaded before (or of its tombstone)."""
        row = self.resolved.get(sent)
        place = spelled("events", at, "payload", name)
        if row is None:
            raise unknown_blob(
                place,
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
