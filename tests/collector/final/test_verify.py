"""A captured session proves itself, or says where it does not."""

from __future__ import annotations

import io
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from collector.final.trace_source import DocumentSource
from collector.final.verify_session import Report, document_hash_agrees, verify_source
from collector.intake.redact_code import TraceMap
from collector.patches import make_patch, tree_patch
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


async def test_bundles_are_not_read_into_memory(tmp_path: Path) -> None:
    session = bug_fix(tmp_path / "repo")
    source = DocumentSource(session.model(), None)
    read, whole = source.read, []

    async def noted(blob_id: str) -> bytes | None:
        whole.append(blob_id)
        return await read(blob_id)

    async def file(blob_id: str) -> io.BytesIO:
        return io.BytesIO(session.blobs[blob_id])

    source.read, source.file = noted, file  # type: ignore[method-assign, assignment]
    assert (await verify_source(source)).status == "verified"
    assert session.bundle not in whole
    assert session.final_state["bundle_blob_id"] not in whole


async def test_a_session_is_proved_from_the_tree_of_its_base_alone(tmp_path: Path) -> None:
    session = bug_fix(tmp_path / "repo")
    base = session.create()["repo"]["commit_base"]
    names = session.git("ls-tree", "-r", "--name-only", base).split()
    files = [(name, "100644", session.git("show", f"{base}:{name}").encode() + b"\n") for name in names]
    session.final_state["bundle_blob_id"] = session.put(tree_patch(files, left_out=0))
    session.bundle = None
    report = await verified(session)
    assert (report.status, report.base) == ("verified", f"the redacted tree of commit {base}")


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


async def test_what_was_edited_and_not_committed_does_not_count_against_the_commit(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n", "b.py": b"1\n"})
    session.edit("a.py", b"2\n")
    session.edit("b.py", b"print()\n")
    session.edit("notes.txt", b"mine\n")
    session.git("add", "a.py")
    head = session.commit(staged=True)
    report = await verified(session)
    assert (report.status, report.reaches, report.findings) == ("verified", head, ())


async def test_a_file_that_was_committed_in_part_is_proved_by_the_diffs_of_the_commits(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n"})
    session.edit("a.py", b"2\n")
    session.commit()
    session.edit("a.py", b"3\n")
    session.git("add", "a.py")
    session.edit("a.py", b"3\nprint()\n")
    head = session.commit(staged=True)
    session.final_state["bundle_blob_id"] = session._bundle(f"{session.base}..main")
    report = await verified(session)
    assert (report.status, report.reaches, report.findings) == ("verified", head, ())
    told = session.events[-1]["payload"]
    told["diff_blob_id"] = session.put(session.blobs[told["diff_blob_id"]].replace(b"+3", b"+4"))
    report = await verified(session)
    assert [finding.reason for finding in report.findings] == ["it does not end as the final commit says"]


async def test_where_nothing_was_committed_the_final_diff_is_what_is_compared(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n"})
    session.edit("a.py", b"2\n")
    diff = session.put(make_patch("a.py", b"1\n", b"2\n"))
    session.final_state = {"commit_head": session.base, "pr": {"diff_blob_id": diff}}
    assert ((report := await verified(session)).status, report.findings) == ("verified", ())
    session.edit("a.py", b"3\n")
    assert (await verified(session)).findings[0].reason == "it does not end as the final diff says"


async def test_a_commit_that_was_only_checked_out_need_not_be_where_the_edits_led(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n"})
    (session.folder / "a.py").write_bytes(b"2\n")
    head = session.commit()
    del session.events[:]
    (session.folder / "a.py").write_bytes(b"1\n")
    session.edit("a.py", b"2\n")
    assert ((report := await verified(session)).status, report.reaches) == ("verified", head)
    session.edit("a.py", b"2\n3\n")
    session.final_state["pr"]["diff_blob_id"] = session.put(make_patch("a.py", b"1\n", b"2\n3\n"))
    assert ((report := await verified(session)).status, report.reaches, report.findings) == ("verified", None, ())


async def test_a_file_that_is_not_kept_is_not_testable_and_never_a_failure(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n", "icon.png": b"\0"})
    session.edit("a.py", b"2\n")
    (session.folder / "icon.png").write_bytes(b"\0\1")
    (session.folder / "big.txt").write_bytes(b"big\n")
    for path, why in (("icon.png", "binary"), ("big.txt", "larger than 2 bytes")):
        patch = f"diff --git a/{path} b/{path}\nBinary files a/{path} and b/{path} differ\n".encode()
        payload = {"file_path": path, "edit_kind": "patch", "patch_blob_id": session.put(patch)}
        session.event("file_edit", {**payload, "extra": {"content_left_out": why}})
    session.commit()
    found = {(finding.path, finding.kind, finding.reason) for finding in (await verified(session)).findings}
    assert found == {
        ("icon.png", "not_testable", "binary"),
        ("big.txt", "not_testable", "larger than 2 bytes"),
    }


async def test_a_file_that_the_recorder_leaves_out_or_cannot_name_is_no_failure(tmp_path: Path) -> None:
    session = Session(tmp_path / "repo").begin({"a.py": b"1\n"})
    session.edit("a.py", b"2\n")
    (session.folder / "a.orig").write_bytes(b"1\n")
    (session.folder / "caf\udce9.txt").write_bytes(b"1\n")
    (session.folder / "silent.txt").write_bytes(b"1\n")
    session.commit(left_out=["a.orig"])
    report = await verified(session)
    assert {(finding.path, finding.reason) for finding in report.findings} == {
        ("a.orig", "left out by the recorder"),
        ("caf\udce9.txt", "its name is no text"),
        ("silent.txt", "the final commit changed it, but no event says how"),
    }
    assert report.mismatches == 1


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


async def test_any_damaged_blob_is_a_mismatch_also_one_that_no_edit_needs(tmp_path: Path) -> None:
    session = bug_fix(tmp_path / "repo")
    spare = session.put(b"what a command printed")
    document = session.document()
    named = next(blob for blob in document["artifacts"]["blobs"] if blob["blob_id"] == spare)
    named["storage_uri"] = "data:text/plain;base64,AAAA"
    report = await verify_source(DocumentSource(type(session.model()).model_validate(document), None))
    assert report.status == "mismatch"
    assert "damaged" in report.findings[0].reason


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
                redacted=redacted,
                pre_hash=payload["pre_hash"],
                post_hash=payload["post_hash"],
            )
            payload |= {"patch_blob_id": session.put(redacted), "pre_hash": hashes.pre_hash}
            payload |= {"post_hash": hashes.post_hash, "extra": dict(hashes.extra)}
            if redacted != original:
                session.redacted.add(payload["patch_blob_id"])
        elif event["type"] == "file_snapshot":
            original = session.blobs[payload["content_blob_id"]]
            redacted = trace.snapshot(original)
            payload["content_blob_id"] = session.put(redacted)
            if redacted != original:
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
