"""The messages of a Gemini session stored as one JSON document, also of one that is large, cut off or damaged.

A sound document of up to 16 MB is parsed at once. Otherwise messages are decoded one after the other from a sliding
window by the standard library's decoder, so that everything before the damage is still read.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

from tracer.distill.records import MAX_LINE, Source, decode_record, mend_surrogates, too_dense

__all__ = ["document_messages"]

_CHUNK: Final = 1 << 20
_SEPARATORS: Final = " \t\r\n,"


def document_messages(stream: IO[bytes], source: Source, note: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Each message object in order; trouble goes to `note` as one sentence."""
    head = _read(stream, source, MAX_LINE + 1)
    if len(head) <= MAX_LINE and not too_dense(head):
        document = decode_record(head)
        messages = document.get("messages") if document else None
        if isinstance(messages, list):
            source.records += len(messages)
            yield from (message for message in messages if isinstance(message, dict))
            return
    yield from _scan(head, stream, source, note)


def _read(stream: IO[bytes], source: Source, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (chunk := stream.read(min(size, _CHUNK))):
        source.digest.update(chunk)
        source.size += len(chunk)
        size -= len(chunk)
        parts.append(chunk)
    return b"".join(parts)


def _scan(head: bytes, stream: IO[bytes], source: Source, note: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    begin = head.find(b"[", head.find(b'"messages"')) if b'"messages"' in head else -1
    if begin < 0:
        _drain(stream, source)
        note("no messages found: the file is damaged or not a session")
        return
    decoder, utf8 = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8")("replace")
    window = utf8.decode(head[begin + 1 :])
    del head
    while True:
        at, ended = 0, False
        while True:
            while at < len(window) and window[at] in _SEPARATORS:
                at += 1
            if window[at : at + 1] == "]":
                ended = True
                break
            try:
                message, at = decoder.raw_decode(window, at)
            except (ValueError, RecursionError):
                break
            source.records += 1
            if isinstance(message, dict):
                yield mend_surrogates(message)
        window = window[at:]
        if ended or len(window) > MAX_LINE:
            break
        more = _read(stream, source, _CHUNK)
        if not more:
            break
        window += utf8.decode(more)
    _drain(stream, source)
    if not ended:
        note(f"the file is damaged or cut off after {source.records} messages")


def _drain(stream: IO[bytes], source: Source) -> None:
    """Read to the end for the provenance's sake."""
    while chunk := stream.read(_CHUNK):
        source.digest.update(chunk)
        source.size += len(chunk)
