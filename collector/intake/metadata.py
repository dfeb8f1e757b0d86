"""Prepares a new trace, its end and uploaded blobs for storage: schema, consent, redaction, gzip. Pure.

Raw mode without `store_raw_code` is refused, and so is content that cannot be redacted (a git bundle, an archive)
without it. Gzip is unpacked within a limit, since it may hide secrets or a bomb.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, get_args

import orjson

from collector.errors import IntakeError, TooLargeError, no_consent, unknown_blob
from collector.intake.parse import validated
from collector.intake.prepare import BLOB_RULES, IntakeRules, check_consent, new_blob
from collector.intake.redact_code import TraceMap
from collector.intake.redactors import CaptureRedactors
from collector.intake.strict_json import BODY, parse_json
from collector.patches import is_tree_patch
from collector.store.port import BlobRow, NewBlob
from tracer.blobs import text_of
from tracer.capture.canonical import canonical_json
from tracer.capture.fields import BlobType
from tracer.capture.wire import CreateTrace, FinalizeTrace

_IDENTITY_BYTES: Final = 16
# Identifiers that are looked up again: redacting them would cut the trace off from what they name.
_KEPT: Final = frozenset({"commit_base", "commit_head", "bundle_blob_id", "diff_blob_id"})


@dataclass(frozen=True, kw_only=True)
class PreparedTrace:
    """A new trace: `trace_id` is the sender's own or None, `metadata` as in `TraceRow`."""

    trace_id: str | None
    metadata: dict[str, Any]
    identity: bytes
    bundle_blob_id: str | None = None
    """A blob that the sender says is there (uploaded with an admin token)."""


@dataclass(frozen=True, kw_only=True)
class PreparedEnd:
    """The end of a trace: its final state, and the blobs that come with it or are named by it."""

    final_state: dict[str, Any] | None
    blobs: tuple[NewBlob, ...] = ()
    references: frozenset[str] = frozenset()


def prepare_create(raw: bytes, *, key: bytes, redactors: CaptureRedactors, developer: str = "") -> PreparedTrace:
    """What `POST /traces` sent, as it is stored; by `developer`, where the sender's token says who that is."""
    value = parse_json(raw)
    if developer and isinstance(value, dict) and isinstance(value.get("developer"), dict):
        value["developer"]["developer_id"] = developer
    sent = validated(CreateTrace, value)
    if sent.store == "raw" and not sent.developer.consent_flags.store_raw_code:
        raise IntakeError(
            "raw mode needs the developer's consent",
            place="store",
            rule="consent",
            why="developer.consent_flags.store_raw_code is false",
            next_step="ask for consent, or leave store at its default (redacted)",
        )
    metadata = sent.model_dump(mode="json", exclude={"trace_id"})
    if sent.store != "raw":
        metadata = _redacted(metadata, redactors)
    identity = hashlib.blake2b(canonical_json(value), key=key, digest_size=_IDENTITY_BYTES).digest()
    return PreparedTrace(
        trace_id=sent.trace_id.lower() if sent.trace_id is not None else None,
        metadata=metadata,
        identity=identity,
        bundle_blob_id=sent.repo.bundle_blob_id,
    )


class SentEnd(NamedTuple):
    """A final state as it was sent, valid by the schema; `references` are the ids by which it names blobs."""

    final_state: dict[str, Any] | None
    diff: str | None = None
    references: frozenset[str] = frozenset()


def parse_end(raw: bytes) -> SentEnd:
    """What `POST /traces/{id}/finalize` sent; an empty body is an empty object."""
    sent = validated(FinalizeTrace, parse_json(raw) if raw.strip() else {}).final_state
    if sent is None:
        return SentEnd(None)
    if sent.pr.diff is not None and sent.pr.diff_blob_id is not None:
        place = "final_state.pr.diff"
        raise IntakeError(f"{place} came with diff_blob_id", place=place, rule="one_of", next_step="send one of both")
    state: dict[str, Any] = sent.model_dump(mode="json")
    references = {block[name] for block, name, _ in _naming(state) if block[name] is not None}
    return SentEnd(state, state["pr"].pop("diff"), frozenset(references))


def prepare_end(
    sent: SentEnd, *, rules: IntakeRules, redactors: CaptureRedactors, resolved: Mapping[str, BlobRow]
) -> PreparedEnd:
    """The end of a trace as it is stored; blob ids that are not in `resolved` are refused."""
    state = sent.final_state
    if state is None:
        return PreparedEnd(final_state=None)
    references: set[str] = set()
    for block, name, place in _naming(state):
        if block[name] is not None:
            row = resolved.get(block[name])
            if row is None:
                raise unknown_blob(place)
            check_consent(row, rules, place)
            block[name] = row.blob_id
            references.add(row.blob_id)
    if rules.redacting:
        state = _redacted(state, redactors)
    blobs: tuple[NewBlob, ...] = ()
    if sent.diff is not None:
        blob = prepare_blob(sent.diff.encode("utf-8"), content_type="text/plain", rules=rules, redactors=redactors)
        state["pr"]["diff_blob_id"] = blob.blob_id
        blobs = (blob,)
    return PreparedEnd(final_state=state, blobs=blobs, references=frozenset(references))


def _naming(state: dict[str, Any]) -> tuple[tuple[dict[str, Any], str, str], ...]:
    """Where a final state names blobs: the object, the member, and its place for messages."""
    return (
        (state["pr"], "diff_blob_id", "final_state.pr.diff_blob_id"),
        (state, "bundle_blob_id", "final_state.bundle_blob_id"),
    )


def prepare_blob(data: bytes, *, content_type: str, rules: IntakeRules, redactors: CaptureRedactors) -> NewBlob:
    """An uploaded blob as it is stored: text redacted in the redacted modes, anything else only with consent."""
    if len(data) > rules.limits.blob_bytes:
        raise TooLargeError("the blob is too large", place=BODY, rule="blob_bytes", limit=rules.limits.blob_bytes)
    if not rules.redacting:
        return new_blob(data, content_type=content_type, rules=(), applied=False)
    text = text_of(data, probe=0 if content_type in {"text/plain", "application/json"} else 8192)
    if text is None:
        if not rules.store_raw_code:
            raise no_consent(
                "content that is no text cannot be redacted", BODY, next_step="send text, or ask for consent"
            )
        return new_blob(data, content_type=content_type, rules=(), applied=False)
    if is_tree_patch(data):  # code, and whole
        return new_blob(_redacted_tree(data, redactors), content_type=content_type, rules=BLOB_RULES, applied=True)
    redacted, counts = redactors.for_root(None).redact_text(text)
    shortened = "truncate_large" in counts
    return new_blob(
        redacted.encode("utf-8"),
        content_type=content_type,
        rules=(*BLOB_RULES, "truncate_large") if shortened else BLOB_RULES,
        applied=True,
    )


def _redacted_tree(data: bytes, redactors: CaptureRedactors) -> bytes:
    head, _, files = data.partition(b"\n")
    return head + b"\n" + TraceMap(redactors.for_root(None).project).patch(files) if files else data


def _redacted(value: dict[str, Any], redactors: CaptureRedactors) -> dict[str, Any]:
    """`value` with its texts redacted, identifiers kept."""
    kept = orjson.loads(orjson.dumps(value))
    redacted: dict[str, Any] = redactors.for_root(None).redact_value(value)[0]
    _restore(redacted, kept)
    return redacted


def _restore(redacted: Any, kept: Any) -> None:
    if isinstance(redacted, dict) and isinstance(kept, dict):
        for name in redacted.keys() & kept.keys():
            if name in _KEPT:
                redacted[name] = kept[name]
            else:
                _restore(redacted[name], kept[name])


CONTENT_TYPES: Final[Sequence[str]] = get_args(BlobType)
LOOK: Final = 64 * 1024
"""So many bytes are looked at to tell text from binary data where an upload is too long to be held."""
HELD: Final = 64 << 20
"""Longer uploads are not held in memory: text beyond it is refused, and gzip may unpack to so much."""
_GZIP: Final = b"\x1f\x8b"
_PIECE: Final = 1 << 20


def checked_type(content_type: str) -> str:
    """`content_type` without its parameters."""
    plain = content_type.partition(";")[0].strip().lower()
    if plain not in CONTENT_TYPES:
        raise IntakeError(
            "blobs have no such content type",
            place="Content-Type",
            rule="content_type",
            next_step="send one of " + ", ".join(CONTENT_TYPES),
        )
    return plain


def looks_binary(head: bytes) -> bool:
    """Whether bytes that begin with `head`, and go on, are neither text nor gzip."""
    if head.startswith(_GZIP):
        return False
    return b"\0" in head or text_of(head[: head.rfind(b"\n") + 1]) is None


def prepare_upload(
    data: bytes, *, content_type: str, rules: IntakeRules, redactors: CaptureRedactors, inflated_limit: int = HELD
) -> NewBlob:
    """The blob as it is stored."""
    if not data.startswith(_GZIP):
        if content_type == "application/gzip":
            raise IntakeError("the body is no gzip", place=BODY, rule="gzip", why="it does not begin with 1f 8b")
        return prepare_blob(data, content_type=content_type, rules=rules, redactors=redactors)
    inner = _inflated(data, inflated_limit)
    blob = prepare_blob(inner, content_type="application/octet-stream", rules=rules, redactors=redactors)
    told = blob.redaction
    packed = data if blob.data == inner else gzip.compress(blob.data or b"", mtime=0)
    return new_blob(packed, content_type=content_type, rules=told["rules"], applied=told["applied"])


def _inflated(data: bytes, limit: int) -> bytes:
    """What gzip `data` unpacks to; never more than `limit` bytes are made."""
    parts: list[bytes] = []
    length, rest = 0, data
    try:
        while rest.startswith(_GZIP):  # a gzip file may have several members
            unpacking = zlib.decompressobj(wbits=31)
            while not unpacking.eof:
                piece = unpacking.decompress(rest, _PIECE)
                rest = unpacking.unconsumed_tail
                length += len(piece)
                if length > limit:
                    raise TooLargeError("the blob unpacks to too much", place=BODY, rule="inflated_bytes", limit=limit)
                parts.append(piece)
                if not piece and not rest and not unpacking.eof:
                    raise IntakeError("the gzip ends too early", place=BODY, rule="gzip")
            rest = unpacking.unused_data
    except zlib.error as error:
        raise IntakeError("the gzip is damaged", place=BODY, rule="gzip", why=str(error)) from error
    if rest.strip(b"\0"):
        raise IntakeError("something follows the gzip", place=BODY, rule="gzip")
    return b"".join(parts)
