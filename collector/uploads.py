"""An uploaded blob before it is stored: gzip unpacked within a limit, since it may hide secrets or a bomb. Pure.

What was unpacked goes through the intake like any other content, and is packed again only where that changed it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from typing import Final, get_args

from collector.errors import IntakeError, TooLargeError
from collector.intake import IntakeRules, new_blob
from collector.intake_json import BODY
from collector.intake_metadata import prepare_blob
from collector.redacting import CaptureRedactors
from collector.store.port import NewBlob
from tracer.capture.fields import BlobType

__all__ = ["CONTENT_TYPES", "HELD", "LOOK", "checked_type", "looks_binary", "prepare_upload"]

CONTENT_TYPES: Final[Sequence[str]] = get_args(BlobType)
LOOK: Final = 64 * 1024
"""So many bytes are looked at to tell text from binary data where an upload is too long to be held."""
HELD: Final = 64 << 20
"""Longer uploads are not held in memory: text beyond it is refused, and gzip may unpack to so much."""
_GZIP: Final = b"\x1f\x8b"
_PIECE: Final = 1 << 20


def checked_type(content_type: str) -> str:
    """`content_type` without its parameters.

    Raises:
        IntakeError: blobs have no such type (rule `content_type`).

    """
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
    if b"\0" in head:
        return True
    try:
        head[: head.rfind(b"\n") + 1].decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def prepare_upload(
    data: bytes, *, content_type: str, rules: IntakeRules, redactors: CaptureRedactors, inflated_limit: int = HELD
) -> NewBlob:
    """The blob as it is stored.

    Raises:
        IntakeError: rule `gzip` (broken), or `consent` as in `prepare_blob`.
        TooLargeError: rule `inflated_bytes`: it unpacks to more than the limit.

    """
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
