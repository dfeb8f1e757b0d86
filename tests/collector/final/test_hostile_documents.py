"""Whatever a document says, its verification ends with a report or an error that names the trouble."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from collector.final.trace_source import DocumentSource, load_document
from collector.final.verify_session import Report, document_hash_agrees, verify_source
from tests.collector.final.sessions import Session, bug_fix
from tracer.capture.document import TraceDocument
from tracer.errors import NotFoundError, PmError, TraceError

JUNK: list[Any] = [
    None, 0, -1, 2**53, 1.5, "", "x", "../../etc/passwd", "a\0b", "\u2028", [], {}, True, "sha256:" + "0" * 64,
    "a/../b", "data:text/plain;base64,!!", "data:;base64,", "--upload-pack=x", "HEAD", "0" * 40, "\ud800",
]  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += _places(inner, (*path, index))
    return found


def _spoilt(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    spoilt = copy.deepcopy(document)
    for _ in range(chance.randint(1, 3)):
        *way, last = chance.choice(_places(spoilt))
        inner = spoilt
        for step in way:
            inner = inner[step]
        if isinstance(last, int) and isinstance(inner, list) and chance.random() < 0.3:
            inner.insert(last, copy.deepcopy(inner[chance.randrange(len(inner))]))
        elif chance.random() < 0.2:
            del inner[last]
        else:
            inner[last] = chance.choice(JUNK)
    return spoilt


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return bug_fix(tmp_path_factory.mktemp("repo"))


async def test_a_spoilt_document_is_reported_or_refused(whole: Session) -> None:
    chance = random.Random(7)
    document, read = whole.document(), 0
    for _ in range(400):
        spoilt = _spoilt(document, chance)
        try:
            model = TraceDocument.model_validate(spoilt)
        except (ValidationError, ValueError):
            continue
        read += 1
        if read > 15:
            break
        try:
            report = await verify_source(DocumentSource(model, None))
        except PmError:
            continue
        assert isinstance(report, Report)
    assert read > 10


async def test_spoilt_patches_are_reported(whole: Session) -> None:
    chance = random.Random(8)
    for _ in range(8):
        session = copy.deepcopy(whole)
        for event in session.events:
            if event["type"] == "file_edit":
                data = bytearray(session.blobs[event["payload"]["patch_blob_id"]])
                for _ in range(chance.randint(1, 4)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
                event["payload"]["patch_blob_id"] = session.put(bytes(data))
        report = await verify_source(DocumentSource(session.model(), None))
        assert report.status in {"verified", "mismatch", "not_testable"}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"trace_version": "1.0"}', '{"a": ' * 3000, '"\\ud800"', "\0", "9" * 5000]
)
def test_a_file_that_is_no_document_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    path = tmp_path / "d.json"
    path.write_text(text)
    with pytest.raises(TraceError):
        load_document(path)


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        load_document(tmp_path / "none.json")


def test_a_document_that_names_a_false_hash_is_found_out(whole: Session) -> None:
    document = copy.deepcopy(whole.document())
    document["final_state"]["final_trace_blob_id"] = "sha256:" + "0" * 64
    assert document_hash_agrees(document) is False
