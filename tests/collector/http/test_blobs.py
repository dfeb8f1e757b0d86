"""The blob port's contract, on a directory and on a bucket behind a real S3 endpoint."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from collector.opening import open_blobs
from collector.store import bucket
from collector.store.blobs import CollectorBlobs, FolderBlobs
from collector.store.bucket import BucketBlobs
from tests.service.support import serving
from tests.support.s3 import BUCKET, s3_environment
from tracer.blobs import blob_id_of
from tracer.errors import ConfigError, NotFoundError, TraceError, UnavailableError, UsageError

DATA = b"what a person did\n"
ID = blob_id_of(DATA)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[dict[str, str]]:
    with s3_environment() as environ:
        yield environ


@pytest.fixture(params=["folder", "bucket"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> CollectorBlobs:
    if request.param == "folder":
        return open_blobs(str(tmp_path / "blobs"), default=tmp_path, environ={})
    environ = request.getfixturevalue("endpoint")
    return open_blobs(f"s3://{BUCKET}/{tmp_path.name}", default=tmp_path, environ=environ)


@pytest.fixture(params=[b"other", b"x" + DATA[1:]], ids=["another-length", "a-flipped-byte"])
def damage(blobs: CollectorBlobs, request: pytest.FixtureRequest) -> Callable[[], Awaitable[None]]:
    async def damaging() -> None:
        if isinstance(blobs, FolderBlobs):
            path = blobs.files.path_of(ID)
            path.chmod(0o600)
            path.write_bytes(request.param)
        else:
            assert isinstance(blobs, BucketBlobs)
            await obstore.put_async(blobs._store, f"sha256/{ID[7:9]}/{ID[9:]}", request.param)

    return damaging


async def ids_of(blobs: CollectorBlobs) -> list[str]:
    return sorted([info.blob_id async for info in blobs.stored()])


async def test_what_was_put_is_read_back_and_listed(blobs: CollectorBlobs) -> None:
    assert await blobs.put_bytes(DATA) == ID
    assert await blobs.put_bytes(DATA) == ID
    big = os.urandom(3 << 20)
    assert await blobs.put_file(io.BytesIO(big)) == blob_id_of(big)
    assert await blobs.read(ID) == DATA
    assert await blobs.read(blob_id_of(big)) == big
    assert await ids_of(blobs) == sorted([ID, blob_id_of(big)])
    assert ID[9:] in blobs.get_uri(ID)


async def test_an_unknown_id_is_not_found_and_a_path_is_no_id(blobs: CollectorBlobs) -> None:
    with pytest.raises(NotFoundError):
        await blobs.read(ID)
    for name in ("sha256:../../etc/passwd", "../x", "sha256:" + "A" * 64):
        with pytest.raises(UsageError):
            await blobs.open(name)


async def test_a_damaged_blob_is_an_error_and_never_wrong_bytes(
    blobs: CollectorBlobs, damage: Callable[[], Awaitable[None]]
) -> None:
    await blobs.put_bytes(DATA)
    await damage()
    with pytest.raises(TraceError, match="damaged"):
        await blobs.read(ID)


async def test_only_what_is_named_is_deleted(blobs: CollectorBlobs) -> None:
    other = await blobs.put_bytes(b"other")
    assert await blobs.delete([ID]) == 0
    await blobs.put_bytes(DATA)
    assert await blobs.delete([ID, ID]) == len(DATA)
    assert await ids_of(blobs) == [other]
    with pytest.raises(NotFoundError):
        await blobs.read(ID)


async def test_what_lies_there_damaged_is_replaced_by_the_next_put(
    blobs: CollectorBlobs, damage: Callable[[], Awaitable[None]]
) -> None:
    await blobs.put_bytes(DATA)
    await damage()
    await blobs.put_bytes(DATA)
    assert await blobs.read(ID) == DATA


async def test_an_object_that_is_there_is_not_sent_again(
    endpoint: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = open_blobs(f"s3://{BUCKET}/{tmp_path.name}", default=tmp_path, environ=endpoint)
    written: list[str] = []
    real = obstore.put_async

    async def counting(store: S3Store, key: str, data: bytes) -> object:
        written.append(key)
        return await real(store, key, data)

    monkeypatch.setattr(bucket.obstore, "put_async", counting)
    await blobs.put_bytes(DATA)
    await blobs.put_bytes(DATA)
    assert len(written) == 1


async def test_a_bucket_that_cannot_be_reached_is_unavailable(tmp_path: Path) -> None:
    environ = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    blobs = open_blobs("s3://captures", default=tmp_path, environ=environ)
    with pytest.raises(UnavailableError, match="cannot be used"):
        await blobs.put_bytes(DATA)


@pytest.mark.parametrize("empty", ["AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY"])
def test_an_empty_variable_of_aws_is_as_one_that_is_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: str
) -> None:
    for name in empty.split():
        monkeypatch.setenv(name, "")
    blobs = open_blobs("s3://captures", default=tmp_path, environ={"AWS_REGION": "eu-west-1"})
    assert isinstance(blobs, bucket.BucketBlobs)
    config = blobs._store.config
    assert not {"endpoint", "access_key_id", "secret_access_key"} & {name for name, kept in config.items() if not kept}
    assert not set(empty.split()) & set(os.environ), "the library reads them by itself"


async def test_a_bucket_that_is_not_there_is_told_and_makes_the_service_not_ready(
    endpoint: dict[str, str], project: Path
) -> None:
    blobs = open_blobs("s3://nosuch/x", default=project, environ=endpoint)
    for use in (blobs.check(), blobs.put_bytes(DATA), blobs.put_file(io.BytesIO(DATA))):
        with pytest.raises(UnavailableError, match="cannot be used") as told:
            await use
        assert "NoSuchBucket" in told.value.why or "404" in told.value.why
    await open_blobs(f"s3://{BUCKET}/x", default=project, environ=endpoint).check()
    with serving(project, [], given={**endpoint, "PM_COLLECTOR_BLOBS": "s3://nosuch/x"}) as served:
        answer = await asyncio.to_thread(served.client.get, "/readyz")
        assert (answer.status_code, "NoSuchBucket" in answer.text, "s3://nosuch/x" in answer.text) == (503, True, True)


def test_other_addresses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        open_blobs("ftp://host/x", default=tmp_path, environ={})
    with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL"):
        open_blobs("s3://captures", default=tmp_path, environ={"AWS_ENDPOINT_URL": "minio:9000"})
