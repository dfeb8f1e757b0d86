"""Uploads before they are stored: secrets in text and gzip are replaced, bombs and broken files are refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from collector.errors import IntakeError, TooLargeError
from collector.intake.metadata import checked_type, looks_binary, prepare_upload
from collector.intake.prepare import IntakeRules
from collector.intake.redactors import CaptureRedactors
from tracer.blobs import blob_id_of
from tracer.redaction.engine import build_redactor

SECRET = "-".join(["sk", "ant", "api03", "A1b2C3d4E5f6G7h8" * 6 + "AA"])


@pytest.fixture
def redactors(tmp_path: Path) -> CaptureRedactors:
    return CaptureRedactors(build_redactor(state_dir=tmp_path, environ={}, host="", persons=()))


def rules(**given: Any) -> IntakeRules:
    return IntakeRules(key=b"k" * 32, **given)


def prepared(data: bytes, redactors: CaptureRedactors, kind: str = "application/octet-stream", **given: Any) -> Any:
    return prepare_upload(data, content_type=kind, rules=rules(**given), redactors=redactors, inflated_limit=1 << 20)


def test_text_is_redacted_whatever_its_type_says(redactors: CaptureRedactors) -> None:
    blob = prepared(f"key = {SECRET}\n".encode(), redactors)
    assert SECRET.encode() not in blob.data
    assert blob.redaction["applied"] is True
    assert blob.blob_id == blob_id_of(blob.data)


def test_gzip_does_not_hide_a_secret_and_is_left_alone_without_one(redactors: CaptureRedactors) -> None:
    hidden = prepared(gzip.compress(f"key = {SECRET}\n".encode()), redactors, "application/gzip")
    assert SECRET.encode() not in gzip.decompress(hidden.data)
    plain = gzip.compress(b"nothing secret\n", mtime=7)
    assert prepared(plain, redactors, "application/gzip").data == plain


def test_raw_mode_keeps_what_was_sent(redactors: CaptureRedactors) -> None:
    data = f"key = {SECRET}\n".encode()
    assert prepared(data, redactors, store="raw", store_raw_code=True).data == data


@pytest.mark.parametrize("layers", [1, 2])
def test_a_bomb_is_refused_with_the_limit(redactors: CaptureRedactors, layers: int) -> None:
    bomb = gzip.compress(b"\0" * (64 << 20)) * layers
    with pytest.raises(TooLargeError) as caught:
        prepared(bomb, redactors, "application/gzip")
    assert (caught.value.rule, caught.value.limit, caught.value.place) == ("inflated_bytes", 1 << 20, "body")


@pytest.mark.parametrize(
    "data",
    [
        b"no gzip",
        gzip.compress(b"x" * 1000)[:-9],
        gzip.compress(b"x" * 1000)[:20],
        gzip.compress(b"abc") + b"tail",
        b"\x1f\x8b\x08" + b"\xff" * 40,
    ],
    ids=["text", "no-trailer", "cut", "tail", "header-alone"],  # the data holds the time
)
def test_broken_gzip_is_refused(redactors: CaptureRedactors, data: bytes) -> None:
    with pytest.raises(IntakeError) as caught:
        prepared(data, redactors, "application/gzip")
    assert caught.value.rule == "gzip"


def test_what_cannot_be_redacted_needs_consent(redactors: CaptureRedactors) -> None:
    with pytest.raises(IntakeError) as caught:
        prepared(b"\0\1\2" * 100, redactors)
    assert caught.value.rule == "consent"
    assert prepared(b"\0\1\2" * 100, redactors, store_raw_code=True).redaction["applied"] is False


def test_only_the_schemas_types_are_taken() -> None:
    assert checked_type("Text/Plain; charset=utf-8") == "text/plain"
    with pytest.raises(IntakeError):
        checked_type("text/html")


def test_binary_data_is_told_from_text_cut_anywhere() -> None:
    assert looks_binary(b"# v2 git bundle\nabc HEAD\n\nPACK\0\0\0\2")
    assert not looks_binary("日本語\n".encode() * 100)
    assert not looks_binary("日本語\n日本".encode()[:-1])
