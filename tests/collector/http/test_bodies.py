"""Bodies that came in gzip, what a disk does to readiness, and names that another file system takes for `.git`."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.collector.http.support import Capture, event
from tests.service.support import serving
from tracer.capture.fields import is_git_folder


def test_a_body_may_come_in_gzip_and_no_bomb_gets_through(project: Path) -> None:
    with serving(project, []) as served:
        capture = Capture(served)
        packed = {**capture.headers, "content-encoding": "gzip", "content-type": "application/json"}

        def sent(data: bytes, **more: str) -> int:
            path = f"/traces/{capture.trace_id}/events"
            return capture.client.post(path, content=data, headers={**packed, **more}).status_code

        body = gzip.compress(json.dumps({"events": [event(1), event(2)]}).encode())
        assert sent(body) == 200
        assert len(capture.get("/events").json()["events"]) == 2
        assert sent(body[:-9]) == 422
        assert sent(b"no gzip") == 422
        assert sent(body, **{"content-encoding": "br"}) == 422
        assert sent(gzip.compress(b"x" * (40 << 20))) == 413
        blob = b"kept as it was\n" * 100
        name = f"sha256:{hashlib.sha256(blob).hexdigest()}"
        packed["content-type"] = "text/plain"
        stored = capture.client.put(f"/blobs/{name}", content=gzip.compress(blob), headers=packed)
        assert (stored.status_code, stored.json()["byte_length"]) == (201, len(blob))


def test_readiness_knows_a_full_and_a_read_only_disk(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    class Disk:
        f_flag, f_bavail, f_frsize = 0, 1 << 30, 4096

    with serving(project, []) as served:
        assert served.client.get("/readyz").status_code == 200
        for name, value in (("f_flag", os.ST_RDONLY), ("f_bavail", 10)):
            disk: Any = type("Full", (Disk,), {name: value})
            monkeypatch.setattr(os, "statvfs", lambda path, disk=disk: disk)
            answer = served.client.get("/readyz")
            assert (name, answer.status_code) == (name, 503)
        assert "0 MiB free, 64 MiB are kept" in answer.json()["detail"]
        assert "pm admin prune" in answer.json()["next"]
        monkeypatch.setattr(os, "statvfs", real)
        assert served.client.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        (".git", True), (".GIT", True), (".git ", True), (".git.", True), ("git~1", True), ("GIT~1", True),
        (".git\\hooks", True), ("a\\.git\\hooks", True), ("a\\git", False),
        (".git::$INDEX_ALLOCATION", True), (".g\u200cit", True), (".\ufeffgit", True),
        (".gitignore", False), ("git", False), (".github", False), ("git~2", False), ("a.git", False),
    ],
)  # fmt: skip
def test_names_that_are_git_somewhere_are_known(name: str, taken: bool) -> None:
    assert is_git_folder(name) is taken


def test_an_edit_of_such_a_name_is_refused(project: Path) -> None:
    with serving(project, []) as served:
        capture = Capture(served)
        edit = {"edit_kind": "patch", "patch_format": "unified_diff", "patch": ""}
        answer = capture.append(event(1, "file_edit", {"file_path": "GIT~1/hooks/pre-commit", **edit}))
        assert answer.status_code == 422
