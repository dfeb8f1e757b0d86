"""Blobs in an S3-compatible bucket through obstore (`<prefix>/sha256/ab/cd…`); objects appear whole."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.exceptions import NotFoundError as NoObjectError
from obstore.store import S3Store

from collector.store.blobs import CHUNK, BlobInfo
from tracer.blobs import blob_id_of
from tracer.errors import ConfigError, NotFoundError, TraceError, UnavailableError, UsageError
from tracer.redaction.cuts import beginning

if TYPE_CHECKING:
    from obstore.store import S3Config

_ID: Final = re.compile(r"sha256:([0-9a-f]{64})")
_SPOOL: Final = 8 << 20
_CHECK_S: Final = 5.0
_SAID: Final = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)


def open_bucket(url: str, *, environ: Mapping[str, str]) -> BucketBlobs:
    """The bucket of an `s3://bucket/prefix` URL (else ConfigError); keys, region, endpoint from `AWS_…` variables."""
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
        raise ConfigError(f"{url!r} is no place for blobs", next_step="name a folder, or s3://BUCKET/PREFIX")
    for name in [each for each in os.environ if each.startswith("AWS_") and not os.environ[each]]:
        del os.environ[name]  # the library reads them by itself, and takes an empty endpoint or key for one
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or environ.get("AWS_ENDPOINT")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"AWS_ENDPOINT_URL is {endpoint!r}", next_step="give it with http:// or https://")
    config: S3Config = {"region": environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"}
    if endpoint:
        config["endpoint"] = endpoint
    if environ.get("AWS_ACCESS_KEY_ID"):
        config["access_key_id"] = environ["AWS_ACCESS_KEY_ID"]
        config["secret_access_key"] = environ.get("AWS_SECRET_ACCESS_KEY", "")
    if environ.get("AWS_SESSION_TOKEN"):
        config["session_token"] = environ["AWS_SESSION_TOKEN"]
    store = S3Store(
        parts.netloc,
        prefix=parts.path.strip("/") or None,
        config=config,
        client_options={"allow_http": bool(endpoint and endpoint.startswith("http://")), "timeout": "30s"},
        retry_config={"max_retries": 3},
    )
    return BucketBlobs(store, url.rstrip("/"))


class BucketBlobs:
    """Blobs as objects of a bucket; `root` is its URL without a slash at the end."""

    def __init__(self, store: S3Store, root: str) -> None:
        self._store = store
        self._root = root

    async def check(self) -> None:
        with self._answering():
            async with asyncio.timeout(_CHECK_S):
                async for _page in obstore.list(self._store, "none"):  # answered alike with and without contents
                    return

    async def put_bytes(self, data: bytes) -> str:
        """Store `data`; its id. What is there already, and whole, is not sent again."""
        blob_id = blob_id_of(data)
        with self._answering():
            if not await self._is_whole(blob_id, len(data)):
                await obstore.put_async(self._store, _key(blob_id), data)
        return blob_id

    async def put_file(self, file: BinaryIO) -> str:
        file.seek(0)
        digest = hashlib.sha256()
        while chunk := file.read(CHUNK):
            digest.update(chunk)
        blob_id, length = f"sha256:{digest.hexdigest()}", file.tell()
        file.seek(0)
        with self._answering():
            if not await self._is_whole(blob_id, length):
                await obstore.put_async(self._store, _key(blob_id), file)
        return blob_id

    def get_uri(self, blob_id: str) -> str:
        """`s3://bucket/prefix/sha256/ab/cd…`."""
        return f"{self._root}/{_key(blob_id)}"

    async def open(self, blob_id: str) -> BinaryIO:
        """The blob as a file at its start, checked; more than 8 MiB wait on disk."""
        file = tempfile.SpooledTemporaryFile(max_size=_SPOOL)  # noqa: SIM115 - handed to the caller
        digest = hashlib.sha256()
        try:
            async for chunk in self._chunks(blob_id):
                digest.update(chunk)
                file.write(chunk)
            if digest.hexdigest() != _digest(blob_id):
                raise TraceError(f"blob {blob_id!r} is damaged", why="its bytes have another sha256")
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return file  # type: ignore[return-value]  # a spooled file has every method of BinaryIO

    async def read(self, blob_id: str) -> bytes:
        with await self.open(blob_id) as file:
            return file.read()

    async def _chunks(self, blob_id: str) -> AsyncIterator[bytes]:
        with self._answering():
            try:
                found = await obstore.get_async(self._store, _key(blob_id))
                async for chunk in found.stream(min_chunk_size=CHUNK):
                    yield bytes(chunk)
            except (NoObjectError, FileNotFoundError) as error:
                raise NotFoundError(f"no blob {blob_id!r}", why=f"{self.get_uri(blob_id)!r} does not exist") from error

    async def stored(self) -> AsyncIterator[BlobInfo]:
        with self._answering():
            async for page in obstore.list(self._store, "sha256"):
                for meta in page:
                    blob_id = "sha256:" + "".join(meta["path"].rsplit("/", 2)[-2:])
                    if _ID.fullmatch(blob_id):
                        yield BlobInfo(blob_id, meta["size"], int(meta["last_modified"].timestamp() * 1000))

    async def delete(self, blob_ids: Iterable[str]) -> int:
        freed = 0
        for blob_id in blob_ids:
            size = await self._size(_key(blob_id))
            if size is not None:
                with self._answering():
                    await obstore.delete_async(self._store, _key(blob_id))
                freed += size
        return freed

    async def _is_whole(self, blob_id: str, length: int) -> bool:
        """Whether the object holds what its name says; its length alone would leave a damaged one there for good."""
        if await self._size(_key(blob_id)) != length:
            return False
        digest = hashlib.sha256()
        async for chunk in self._chunks(blob_id):
            digest.update(chunk)
        return digest.hexdigest() == _digest(blob_id)

    async def _size(self, key: str) -> int | None:
        with self._answering(), suppress(NoObjectError, FileNotFoundError):
            return (await obstore.head_async(self._store, key))["size"]
        return None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError, TimeoutError) as error:  # the second where an upload finds no bucket
            said = _SAID.search(str(error))
            told = str(error).partition("\n")[0] or f"no answer within {_CHECK_S:g} s"
            raise UnavailableError(
                f"the blob store {self._root!r} cannot be used",
                why=beginning(": ".join(said.groups()) if said else told, 300),
                next_step="check the bucket, AWS_ENDPOINT_URL and the keys",
            ) from error


def _digest(blob_id: str) -> str:
    match = _ID.fullmatch(blob_id)
    if match is None:
        raise UsageError(f"{blob_id!r} is not a blob id", why="an id is sha256: and 64 hexadecimal digits")
    return match[1]


def _key(blob_id: str) -> str:
    digest = _digest(blob_id)
    return f"sha256/{digest[:2]}/{digest[2:]}"
