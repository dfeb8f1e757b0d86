"""A captured session proves itself, or says where it does not."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from collector.redact_code import TraceMap
from collector.verify import Report, document_hash_agrees, verify_source
from collector.verify_source import DocumentSource
from tests.collector.final.sessions import CALC, Session, blob_id, bug_fix
from tracer.capture.canonical import canonical_json
from tracer.errors import TraceError
from tracer.redaction.engine import build_redactor

TOKEN = "ghp_" + "x7Kq2Lm9Pz4Rt8Vw1Yb3Nc6Df5Gh0Js2Ua7E"


async def verified(session: Session, **options: Any) -> Report:
    return await verify_source(DocumentSource(session.model(), None), **options)


async def test_a_whole_session_is_proved_up_to_its_final_commit(tmp_path: Path) -> None:
    session = bug_fix(tmp_path / "repo")
    report = await verified(session, write_to=tmp_path / "tree")
    assert report.findings == ()
    assert report.status == "verified"
    assert report.reaches == session.final_state["commit_head"]
    assert report.tree == session.git("rev-parse", "HEAD^{tree}")
    written = {p.relative_to(tmp_path / "tree").as_posix(): p.read_bytes() for p in (tmp_path / "tree").rglob("*.*")}
    assert written == {name: (session.folder / name).read_bytes() for name in session.git("ls-files").split()}


async def test_without_the_final_bundle_the_final_diff_is_what_is_compared(tmp_path: Path) -> None:
    session = bug_fix(tmp_path / "repo")
    session.final_state["bundle_blob_id"] = None
    report = await verified(session)
    assert (report.status, report.reaches) == ("verified", None)
    session.edit("src/calc.py", CALC)
    assert (await verified(session)).findings[0].reason == "it does not end as the final diff says"


@pytest.mark.parametrize("which", ["pre_hash", "post_hash"])
async def test_a_hash_that_was_changed_is_named_by_event_and_file(tmp_path: Path, which: str) -> None:
    session = bug_fix(tmp_path / "repo")
    edit = next(event for event in session.events if event["type"] == "file_edit")
    edit["payload"][which] = blob_id(b"something else")
    report = await verified(session)
    assert report.status == "mismatch"
    assert (report.findings[0].seq, report.findings[0].path) == (edit["seq"], "src/calc.py")
    assert which in report.findings[0].reason


async def test_a_patch_that_was_changed_is_a_mismatch(tmp_path: Path) -> None:
    session = bug_fix(tmp_path / "repo")
    edit = next(event for event in session.events if event["type"] == "file_edit")
    patch = session.blobs[edit["payload"]["patch_blob_id"]].replace(b"sum(items)\n", b"sum(items) + 0\n")
    edit["payload"]["patch_blob_id"] = session.put(patch)
    report = await verified(session)
    assert [finding.reason for finding in report.findings if finding.seq == edit["seq"]] == [
        "the content after the edit is not what post_hash says"
    ]


async def test_a_change_that_no_event_tells_is_found_by_the_next_edit_and_by_the_commit(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n", "b.py": b"1\n"})
    session.edit("a.py", b"2\n", silent=True)
    session.edit("a.py", b"3\n")
    session.edit("b.py", b"2\n", silent=True)
    session.commit()
    reasons = {(finding.path, finding.reason) for finding in (await verified(session)).findings}
    assert ("a.py", "the content before the edit is not what pre_hash says") in reasons
    assert ("b.py", "the final commit changed it, but no event says how") in reasons


async def test_edits_after_the_final_commit_do_not_count_against_it(tmp_path: Path) -> None:
    session = bug_fix(tmp_path / "repo")
    session.edit("src/calc.py", b"# later\n")
    report = await verified(session)
    assert (report.status, report.reaches) == ("verified", session.final_state["commit_head"])


async def test_without_a_base_an_edit_is_not_testable_until_a_snapshot_shows_the_file(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n"})
    session.bundle = None
    session.edit("a.py", b"2\n")
    session.snapshot("a.py")
    session.edit("a.py", b"3\n")
    session.edit("new.py", b"made here\n")
    report = await verified(session)
    assert [(finding.seq, finding.kind, finding.reason) for finding in report.findings] == [
        (1, "not_testable", "no base")
    ]
    assert (report.status, report.checked, report.tree) == ("verified", 3, None)


async def test_a_content_that_is_stored_as_a_blob_serves_as_base(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n"})
    session.bundle = None
    session.put(b"1\n")
    session.edit("a.py", b"2\n")
    report = await verified(session)
    assert (report.checked, report.findings) == (1, ())


async def test_a_missing_patch_is_not_testable_and_never_a_failure(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n"})
    session.edit("a.py", b"2\n")
    del session.blobs[session.events[0]["payload"]["patch_blob_id"]]
    report = await verified(session)
    assert (report.status, report.findings[0].reason) == ("not_testable", "its patch is not stored here")


async def test_a_damaged_blob_is_an_error(tmp_path: Path) -> None:
    session = bug_fix(tmp_path / "repo")
    document = session.document()
    document["artifacts"]["blobs"][0]["storage_uri"] = "data:text/plain;base64,AAAA"
    source = DocumentSource(type(session.model()).model_validate(document), None)
    with pytest.raises(TraceError, match="damaged"):
        await source.read(document["artifacts"]["blobs"][0]["blob_id"])


def _redact(session: Session, redactor: Any) -> None:
    """What intake does: every patch and snapshot through one map."""
    trace = TraceMap(redactor)
    for event in session.events:
        payload = event["payload"]
        if event["type"] == "file_edit":
            original = session.blobs[payload["patch_blob_id"]]
            redacted = trace.patch(original)
            hashes = trace.edit(
                original=original,
                redacted=redacted.data,
                pre_hash=payload["pre_hash"],
                post_hash=payload["post_hash"],
            )
            payload |= {"patch_blob_id": session.put(redacted.data), "pre_hash": hashes.pre_hash}
            payload |= {"post_hash": hashes.post_hash, "extra": dict(hashes.extra)}
            if redacted.counts:
                session.redacted.add(payload["patch_blob_id"])
        elif event["type"] == "file_snapshot":
            redacted = trace.snapshot(session.blobs[payload["content_blob_id"]])
            payload["content_blob_id"] = session.put(redacted.data)
            if redacted.counts:
                session.redacted.add(payload["content_blob_id"])


@pytest.fixture
def redactor(tmp_path: Path) -> Any:
    return build_redactor(state_dir=tmp_path / "state", environ={}, host="", persons=[])


async def test_a_redacted_session_replays_through_its_placeholders(tmp_path: Path, redactor: Any) -> None:
    session = Session(tmp_path / "repo").begin({"other.py": b"1\n"})
    session.edit("conf.py", f'TOKEN = "{TOKEN}"\nA = 1\n'.encode())
    session.snapshot("conf.py")
    session.edit("conf.py", f'TOKEN = "{TOKEN}"\nA = 2\n'.encode())
    session.edit("conf.py", b"A = 2\n")
    _redact(session, redactor)
    report = await verified(session)
    assert (report.status, report.findings) == ("verified", ())
    assert report.checked == 6


async def test_a_redacted_patch_that_no_longer_applies_is_not_testable_and_never_failed(
    tmp_path: Path, redactor: Any
) -> None:
    secret = f'TOKEN = "{TOKEN}"\nA = 1\n'.encode()
    session = Session(tmp_path / "repo").begin({"conf.py": secret})
    session.edit("conf.py", secret.replace(b"A = 1", b"A = 2"))
    session.edit("conf.py", b"A = 3\n")
    session.commit()
    _redact(session, redactor)
    report = await verified(session)
    assert (report.status, report.mismatches) == ("not_testable", 0)
    assert {finding.reason for finding in report.findings} == {"redacted"}


def test_a_document_that_names_itself_is_held_to_its_name(tmp_path: Path) -> None:
    session = bug_fix(tmp_path / "repo")
    inline = session.document()
    stored = session.document()
    for blob in stored["artifacts"]["blobs"]:
        blob["storage_uri"] = f"blob:{blob['blob_id']}"
    inline["final_state"] = {**inline["final_state"], "final_trace_blob_id": blob_id(canonical_json(stored))}
    assert document_hash_agrees(inline) is True
    inline["task"]["labels"] = ["other"]
    assert document_hash_agrees(inline) is False
    assert document_hash_agrees(stored) is None


async def test_a_bundle_that_is_none_is_a_mismatch_that_names_it(tmp_path: Path) -> None:
    session = bug_fix(tmp_path / "repo")
    session.bundle = session.put(b"not a bundle")
    report = await verified(session)
    assert report.status == "mismatch"
    assert "the bundle of the base commit cannot be read" in report.findings[0].reason


async def test_line_ends_that_the_repository_converts_are_those_of_the_working_folder(tmp_path: Path) -> None:
    windows = {".gitattributes": b"*.txt text eol=crlf\n", "a.txt": b"one\r\ntwo\r\n", "b.txt": b"1\r\n"}
    session = Session(tmp_path / "repo").begin(windows)
    assert b"\r" not in session.git("cat-file", "blob", "HEAD:a.txt").encode()
    session.edit("a.txt", b"one\r\n2\r\n")
    session.commit()
    report = await verified(session, write_to=tmp_path / "tree")
    assert report.findings == ()
    assert report.reaches == session.final_state["commit_head"]
    assert (tmp_path / "tree" / "b.txt").read_bytes() == b"1\r\n"


async def test_links_and_submodules_are_left_alone(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n"})
    (session.folder / "link").symlink_to("/etc/passwd")
    session.edit("a.py", b"2\n")
    session.commit()
    report = await verified(session, write_to=tmp_path / "tree")
    assert [(finding.path, finding.reason) for finding in report.findings] == [("link", "a link or a submodule")]
    assert report.mismatches == 0
    assert sorted(path.name for path in (tmp_path / "tree").iterdir()) == ["a.py"]


@pytest.mark.parametrize("name", ["..", ".git", "a\\b", ".GIT"])
async def test_a_bundle_with_names_that_lead_out_is_no_danger(tmp_path: Path, name: str) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n"})
    blob = session.git("hash-object", "-w", "a.py")
    inner = subprocess.run(
        ["git", "mktree"],
        cwd=session.folder,
        input=f"100644 blob {blob}\tevil\n".encode(),
        capture_output=True,
        check=True,
    ).stdout.strip()
    tree = (
        subprocess.run(
            ["git", "mktree"],
            cwd=session.folder,
            input=b"040000 tree %s\t%s\n100644 blob %s\ta.py\n" % (inner, name.encode(), blob.encode()),
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
    )
    session.base = session.git("commit-tree", tree, "-m", "hostile")
    session.git("update-ref", "refs/heads/hostile", session.base)
    session.bundle = session._bundle("hostile")
    session.edit("a.py", b"2\n")
    with suppress(TraceError):  # git refuses such a tree; where it does not, nothing is written outside
        await verified(session, write_to=tmp_path / "out" / "tree")
    written = [path for path in tmp_path.rglob("evil") if tmp_path / "out" / "tree" not in path.parents]
    assert written == []
    assert not (tmp_path / "out" / "tree" / ".git").exists()
