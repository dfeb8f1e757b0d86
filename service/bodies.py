"""Bodies of requests read with a limit, as they were before `Content-Encoding: gzip` was put around them."""

from __future__ import annotations

import hashlib
import tempfile
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import BinaryIO, Final, NamedTuple

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from collector.errors import IntakeError, TooLargeError
from tracer.errors import RecordError

_SPOOL: Final = 1 << 20
_CUT: Final = 18


class Upload(NamedTuple):
    """A body on its way into the blob store: a file at its start, its SHA-256 in hexadecimal, its length in bytes."""

    file: BinaryIO
    sha256: str
    byte_length: int


def announced_length(scope: Scope) -> int | None:
    """The Content-Length, None where there is no usable one."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value[:_CUT]) if value.isdigit() else None
    return None


class _Plain:
    """Takes the pieces of a body and gives what they say, of at most `limit` bytes and one more."""

    def __init__(self, scope: Scope, limit: int) -> None:
        encoding = next((value for name, value in scope["headers"] if name == b"content-encoding"), b"identity").lower()
        if encoding not in {b"identity", b"gzip", b""}:
            raise IntakeError(
                "the body is encoded in a way that is not taken", place="body", rule="content_encoding",
                why=encoding.decode("latin-1")[:40], next_step="send it as it is, or with gzip",
            )  # fmt: skip
        self._unpacking = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding == b"gzip" else None
        self._left = limit + 1

    def take(self, data: bytes, *, last: bool) -> bytes:
        """What the next piece says."""
        if self._unpacking is None:
            return data
        try:
            found = self._unpacking.decompress(data, self._left) if self._left else b""
        except zlib.error as error:
            raise _no_gzip(str(error)) from error
        self._left -= len(found)
        if last and self._left and not self._unpacking.eof:
            raise _no_gzip("it breaks off")
        return found


def _no_gzip(why: str) -> IntakeError:
    return IntakeError("the body is no gzip", place="body", rule="gzip", why=why, next_step="send it again")


async def read_body(scope: Scope, receive: Receive, *, limit: int) -> bytes:
    """The whole body. Raises TooLargeError: it is longer than `limit` bytes. ClientDisconnect: it broke off."""
    _check(announced_length(scope) or 0, limit)
    message = await receive()
    plain = _Plain(scope, limit)
    if message["type"] == "http.request" and not message.get("more_body", False):  # nearly always
        body = plain.take(message.get("body", b""), last=True)
        _check(len(body), limit)
        return body
    held = bytearray()
    while True:
        if message["type"] != "http.request":
            raise ClientDisconnect
        last = not message.get("more_body", False)
        held += plain.take(message.get("body", b""), last=last)
        _check(len(held), limit)
        if last:
            return bytes(held)
        message = await receive()


@asynccontextmanager
async def uploaded(scope: Scope, receive: Receive, *, limit: int) -> AsyncIterator[Upload]:
    """The body as a file while the block runs; more than 1 MiB of it waits on disk.

    Raises TooLargeError: it is longer than `limit` bytes. Raises RecordError: there is no room for it.
    ClientDisconnect: it broke off.
    """
    _check(announced_length(scope) or 0, limit)
    digest, length, plain = hashlib.sha256(), 0, _Plain(scope, limit)
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as file:
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            more = message.get("more_body", False)
            chunk = plain.take(message.get("body", b""), last=not more)
            length += len(chunk)
            _check(length, limit)
            digest.update(chunk)
            try:
                file.write(chunk)
            except OSError as error:
                raise RecordError(
                    "there is no room to hold the upload",
                    why=error,
                    next_step="free space where temporary files go, and send it again",
                ) from error
        file.seek(0)
        yield Upload(file, digest.hexdigest(), length)  # type: ignore[arg-type]  # a spooled file reads as a BinaryIO


def _check(length: int, limit: int) -> None:
    if length > limit:
        raise TooLargeError("the body is too large", place="body", rule="body_bytes", limit=limit)
