"""Request bodies read raw: bounded whatever Content-Length says, and hashed on the way where they become blobs."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import BinaryIO, Final, NamedTuple

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from collector.errors import TooLargeError
from tracer.errors import RecordError

__all__ = ["Upload", "announced_length", "read_body", "uploaded"]

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


async def read_body(scope: Scope, receive: Receive, *, limit: int) -> bytes:
    """The whole body.

    Raises:
        TooLargeError: it is longer than `limit` bytes.
        ClientDisconnect: it broke off.

    """
    _check(announced_length(scope) or 0, limit)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):  # nearly always
        body: bytes = message.get("body", b"")
        _check(len(body), limit)
        return body
    held = bytearray()
    while True:
        if message["type"] != "http.request":
            raise ClientDisconnect
        held += message.get("body", b"")
        _check(len(held), limit)
        if not message.get("more_body", False):
            return bytes(held)
        message = await receive()


@asynccontextmanager
async def uploaded(scope: Scope, receive: Receive, *, limit: int) -> AsyncIterator[Upload]:
    """The body as a file while the block runs; more than 1 MiB of it waits on disk.

    Raises:
        TooLargeError: it is longer than `limit` bytes.
        RecordError: there is no room for it.
        ClientDisconnect: it broke off.

    """
    _check(announced_length(scope) or 0, limit)
    digest, length = hashlib.sha256(), 0
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as file:
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            chunk: bytes = message.get("body", b"")
            length += len(chunk)
            _check(length, limit)
            digest.update(chunk)
            try:
                file.write(chunk)
            except OSError as error:
                raise RecordError(
                    "there is no room to hold the upload",
                    why=error.strerror or str(error),
                    next_step="free space where temporary files go, and send it again",
                ) from error
            more = message.get("more_body", False)
        file.seek(0)
        yield Upload(file, digest.hexdigest(), length)  # type: ignore[arg-type]  # a spooled file reads as a BinaryIO


def _check(length: int, limit: int) -> None:
    if length > limit:
        raise TooLargeError("the body is too large", place="body", rule="body_bytes", limit=limit)
