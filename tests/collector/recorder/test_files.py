"""Edits and snapshots always add up: whatever happens to files, the record replays to what stands there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.client.spool import Draft
from collector.patches import apply_patch, left_out_of_tree, parse_patch
from collector.recorder import writer
from collector.recorder.begin import (
    developer_block,
    environment_block,
    environment_hash,
    head_commit,
    open_repository,
    repo_block,
)
from collector.recorder.files import INLINE, FileTracker
from collector.recorder.watcher import left_out_by
from collector.recorder.writer import ensure_base_bundle
from tests.collector.recorder.support import BUGGY, create_request, git, repository, spool_in
from tracer.blobs import DirectoryBlobs, blob_id_of
from tracer.errors import UsageError

ACTOR = {"kind": "human", "id": None}
NAMES = ("cart.py", "new.py", "sub/deep.py")
SECRET = b"hunter2-hunter2"


def hidden(data: bytes) -> bytes:
    return data.replace(SECRET, b"[REDACTED:test:000000]")


def tracker(repo: Path, place: Path, *, limit: int = 1 << 20, snapshots: bool = True) -> FileTracker:
    found = open_repository(repo)
    return FileTracker(
        git=found,
        base=head_commit(found),
        blobs=DirectoryBlobs(place),
        store=hidden,
        left_out=left_out_by((), top=repo, state_root=repo / ".pm-orchestrator"),
        limit=limit,
        snapshots=snapshots,
    )


class Replayed:
    """What a reader of the record knows of the files."""

    def __init__(self, blobs: DirectoryBlobs) -> None:
        self.blobs = blobs
        self.files: dict[str, bytes | None] = {}

    def take(self, drafts: list[Draft]) -> None:
        for draft in drafts:
            payload = draft.payload
            path = str(payload["file_path"])
            if draft.type == "file_snapshot":
                content = self._content(payload, "content")
                assert self.files.get(path, content) == content
                self.files[path] = content
                continue
            before = self.files.get(path)
            assert payload["pre_hash"] == (blob_id_of(before) if before is not None else None)
            (patch,) = parse_patch(self._content(payload, "patch"))
            after = apply_patch(before, patch)
            assert payload["post_hash"] == (blob_id_of(after) if after is not None else None)
            self.files[path] = after

    def _content(self, payload: Any, name: str) -> bytes:
        if name in payload:
            return str(payload[name]).encode()
        return self.blobs.read(payload[f"{name}_blob_id"])


CONTENTS = st.one_of(
    st.none(),
    st.lists(st.sampled_from(["a", "b", "c = 1", SECRET.decode(), "é", "", "\u2028", "x\r"]), max_size=8).map(
        "\n".join
    ),
    st.lists(st.sampled_from(["a", "b", "long"]), max_size=6).map(lambda lines: "".join(line + "\n" for line in lines)),
)


@pytest.mark.torture
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(NAMES), CONTENTS), max_size=8))
def test_edits_replay_to_the_byte_from_the_first_snapshot_on(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str | None]]
) -> None:
    folder = tmp_path_factory.mktemp("replay")
    repo = repository(folder / "repo", sub__deep_dot_py="deep = 1\n")
    files = tracker(repo, folder / "blobs")
    replayed = Replayed(DirectoryBlobs(folder / "blobs"))
    for name, content in steps:
        path = repo / name
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content.encode())
        replayed.take(files.observe([name], actor=ACTOR, context={}))
    assert not files.observe(files.changed_paths(), actor=ACTOR, context={})
    for name in {name for name, _content in steps} & replayed.files.keys():
        path = repo / name
        expected = hidden(path.read_bytes()) if path.exists() else None
        assert replayed.files[name] == expected


def test_a_tracker_that_learnt_from_the_spool_goes_on_where_the_other_stopped(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    first = tracker(repo, tmp_path / "blobs")
    (repo / "cart.py").write_text(BUGGY + "one = 1\n")
    told = first.observe(["cart.py"], actor=ACTOR, context={})
    second = tracker(repo, tmp_path / "blobs")
    for number, draft in enumerate(told, 1):
        second.learn(draft.event(number))
    assert second.observe(["cart.py"], actor=ACTOR, context={}) == []
    (repo / "cart.py").write_text(BUGGY + "two = 2\n")
    (edit,) = second.observe(["cart.py"], actor=ACTOR, context={})
    assert edit.payload["pre_hash"] == told[-1].payload["post_hash"]


def test_what_was_learnt_of_files_that_are_not_kept_is_not_told_again_and_modes_are_remembered(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", run="echo\n")
    (repo / "gone.dat").write_bytes(b"\0gone")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "data")
    first = tracker(repo, tmp_path / "blobs")
    (repo / "kept.dat").write_bytes(b"\0kept")
    (repo / "gone.dat").unlink()
    (repo / "run").chmod(0o755)
    told = first.observe(first.changed_paths(), actor=ACTOR, context={})
    assert [draft.payload["file_path"] for draft in told if draft.type == "file_edit"] == [
        "gone.dat",
        "kept.dat",
        "run",
    ]
    second = tracker(repo, tmp_path / "blobs")
    for draft in told:
        second.learn(draft.event(1))
    assert second.observe(second.changed_paths(), actor=ACTOR, context={}) == []
    third = tracker(repo, tmp_path / "blobs")
    for draft in told:
        third.learn(draft.event(1))
    (repo / "kept.dat").write_bytes(b"\0longer")
    (repo / "run").chmod(0o644)
    again = third.observe(third.changed_paths(), actor=ACTOR, context={})
    assert [draft.payload["file_path"] for draft in again] == ["kept.dat", "run"]
    assert "old mode 100755\nnew mode 100644\n" in again[1].payload["patch"]


def test_a_change_of_secrets_alone_is_no_edit(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", keys_dot_py="key = '[REDACTED:test:000000]'\n")
    files = tracker(repo, tmp_path / "blobs")
    (repo / "keys.py").write_bytes(b"key = '" + SECRET + b"'\n")
    assert files.observe(["keys.py"], actor=ACTOR, context={}) == []


def test_a_secret_in_a_files_name_is_told_nowhere_and_its_edits_still_fit(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    blobs = DirectoryBlobs(tmp_path / "blobs")
    files, replayed = tracker(repo, tmp_path / "blobs"), Replayed(blobs)
    name = f"key-{SECRET.decode()}.py"
    for text in ("one = 1\n", "one = 2\n", None):
        (repo / name).write_text(text) if text else (repo / name).unlink()
        told = files.observe([name], actor=ACTOR, context={})
        assert SECRET.decode() not in str([draft.payload for draft in told])
        replayed.take(told)
    assert replayed.files == {"key-[REDACTED:test:000000].py": None}
    (repo / name).write_text("one = 3\n")
    files.observe([name], actor=ACTOR, context={})
    assert SECRET not in files.difference()
    second = tracker(repo, tmp_path / "blobs")
    second.learn(told[-1].event(1))
    assert "key-[REDACTED:test:000000].py" not in second.changed_paths()
    parent = git(repo, "rev-parse", "HEAD")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "more")
    assert SECRET not in files.commit_diff(parent, git(repo, "rev-parse", "HEAD"))[0]


def test_large_contents_are_blobs_and_short_ones_inline(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    files = tracker(repo, tmp_path / "blobs", limit=4 << 20)
    (repo / "large.txt").write_text("line\n" * INLINE)
    (large,) = files.observe(["large.txt"], actor=ACTOR, context={})
    assert "patch" not in large.payload
    assert b"+line\n" in DirectoryBlobs(tmp_path / "blobs").read(large.payload["patch_blob_id"])


def test_links_folders_and_our_own_files_are_no_edits(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    files = tracker(repo, tmp_path / "blobs")
    (repo / "link.py").symlink_to("/etc/passwd")
    (repo / "folder").mkdir()
    (repo / ".pm-orchestrator").mkdir()
    (repo / ".pm-orchestrator" / "x").write_text("ours")
    paths = ["link.py", "folder", ".pm-orchestrator/x", ".git/config", "sub/.git/config", "cart.py.swp"]
    assert files.observe(paths, actor=ACTOR, context={}) == []


def test_the_difference_and_a_commits_diff_are_of_the_stored_form(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    files = tracker(repo, tmp_path / "blobs")
    (repo / "cart.py").write_bytes(BUGGY.encode() + SECRET + b"\n")
    files.observe(["cart.py"], actor=ACTOR, context={})
    parent = git(repo, "rev-parse", "HEAD")
    git(repo, "commit", "-qam", "with a secret")
    told, left_out = files.commit_diff(parent, git(repo, "rev-parse", "HEAD"))
    assert left_out == []
    assert SECRET not in told
    assert told == files.difference()
    assert b"+[REDACTED:test:000000]\n" in told


def test_the_base_goes_as_a_tree_in_the_stored_form_and_says_what_it_lacks(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    files = {"key.py": b"KEY = '%s'" % SECRET, "pic.bin": b"\0", "a b.txt": b"", "run.sh": b"true\n", ".env": b"A=1\n"}
    for name, data in files.items():
        (repo / name).write_bytes(data)
    (repo / "run.sh").chmod(0o755)
    (repo / "link").symlink_to("run.sh")
    git(repo, "add", "-fA")
    git(repo, "commit", "-qm", "more")
    tree = tracker(repo, tmp_path / "blobs").base_tree()
    assert tree is not None
    (tmp_path / "tree").write_bytes(tree)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q", ".")
    git(fresh, "apply", "--index", "--whitespace=nowarn", str(tmp_path / "tree"))
    expected = {name: data for name, data in files.items() if name not in {"pic.bin", ".env"}} | {
        "key.py": hidden(files["key.py"]), "cart.py": (repo / "cart.py").read_bytes()
    }  # fmt: skip
    assert {name: (fresh / name).read_bytes() for name in expected} == expected
    assert git(fresh, "ls-files", "-s", "run.sh").startswith("100755")
    assert left_out_of_tree(tree) == len(git(repo, "ls-files").split("\n")) - len(git(fresh, "ls-files").split("\n"))
    assert not (fresh / "pic.bin").exists()


def test_the_base_goes_with_the_line_ends_that_git_gives_its_files(tmp_path: Path) -> None:
    """git converts them on the way out and tells the sizes from before."""
    repo = repository(tmp_path / "repo")
    (repo / ".gitattributes").write_text("*.py text eol=crlf\n", encoding="utf-8")
    (repo / "empty.py").write_bytes(b"")
    (repo / "z.txt").write_bytes(b"no end")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "line ends")
    for path in repo.glob("*.py"):
        path.unlink()
    git(repo, "checkout", "-q", ".")
    tree = tracker(repo, tmp_path / "blobs").base_tree()
    assert tree is not None
    after = {each.path.decode(): apply_patch(None, each) for each in parse_patch(tree)}
    names = [name for name in git(repo, "ls-files").split("\n") if not name.startswith(".git")]
    assert after["cart.py"] is not None
    assert b"\r\n" in after["cart.py"]
    assert {name: after[name] or b"" for name in names} == {name: (repo / name).read_bytes() for name in names}


def test_the_repository_s_profile_is_recorded_and_nothing_else_of_the_state_directory(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    state = repo / ".pm-orchestrator"
    own = {"config.toml": "a = 1\n", "rules.md": "r\n", "traces/a.jsonl": "{}\n"}
    for name, text in {"qa.toml": '[qa]\nrunner = "pytest"\n', **own}.items():
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_text(text)
    git(repo, "add", "-fA")
    git(repo, "commit", "-qm", "how it is tested")
    files = tracker(repo, tmp_path / "blobs")
    tree = files.base_tree()
    assert tree is not None
    assert [each.path for each in parse_patch(tree) if b"/" in each.path] == [b".pm-orchestrator/qa.toml"]
    assert left_out_of_tree(tree) == 0, "what pm keeps for itself is no part of the code"
    for name in ("qa.toml", "config.toml"):
        (state / name).write_text("changed\n")
    drafts = files.observe([f".pm-orchestrator/{name}" for name in ("qa.toml", "config.toml")], actor=ACTOR, context={})
    assert {draft.payload["file_path"] for draft in drafts} == {".pm-orchestrator/qa.toml"}
    left_out = left_out_by(["qa.toml"], top=repo, state_root=state)
    assert left_out(".pm-orchestrator/qa.toml"), "who asks for that keeps it to themselves"


def test_ignored_files_are_left_to_git(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", kept_dot_log="tracked although ignored\n")
    git(repo, "add", "-f", "kept.log")
    git(repo, "commit", "-qm", "keep it")
    files = tracker(repo, tmp_path / "blobs")
    assert files.not_ignored(["cart.py", ":x.py", "x.log", "kept.log", "__pycache__/a.pyc"]) == [
        ":x.py",
        "cart.py",
        "kept.log",
    ]


@pytest.mark.parametrize("elsewhere", ["library/cart.py", "linked/cart.py", "linked/sub/x.py"])
def test_what_git_ignores_stays_out_when_a_file_of_another_repository_is_saved_with_it(
    tmp_path: Path, elsewhere: str
) -> None:
    repo, library = repository(tmp_path / "repo"), repository(tmp_path / "library")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "library")
    (repo / "linked").symlink_to(library)
    files = tracker(repo, tmp_path / "blobs")
    assert files.not_ignored(["cart.py", elsewhere, "secret.log"]) == ["cart.py"]


def test_a_file_that_a_link_or_a_folder_replaces_is_gone(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", lib__a="a\n", lib__b="b\n", other="o\n")
    files = tracker(repo, tmp_path / "blobs")
    replayed = Replayed(files.blobs)
    (repo / "cart.py").unlink()
    (repo / "cart.py").symlink_to("test_cart.py")
    (repo / "other").unlink()
    (repo / "other").mkdir()
    (repo / "other" / "deep").write_text("d\n")
    (repo / "lib").rename(repo / "lib2")
    (repo / "lib").symlink_to("lib2")
    replayed.take(files.observe(files.changed_paths(), actor=ACTOR, context={}))
    assert replayed.files == {
        "cart.py": None, "other": None, "other/deep": b"d\n", "lib/a": None, "lib/b": None, "lib2/a": b"a\n",
        "lib2/b": b"b\n",
    }  # fmt: skip


def test_a_change_of_a_files_mode_is_told_with_its_edit_or_by_itself(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", run="echo\n")
    files = tracker(repo, tmp_path / "blobs")

    def patches() -> list[str]:
        drafts = files.observe(files.changed_paths(), actor=ACTOR, context={})
        return [draft.payload["patch"] for draft in drafts if draft.type == "file_edit"]

    (repo / "run").chmod(0o755)
    assert patches() == ["diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"]
    assert files.difference() == b"diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
    assert patches() == []
    (repo / "run").write_text("more\n")
    (repo / "run").chmod(0o644)
    (repo / "new").write_text("n\n")
    (repo / "new").chmod(0o700)
    new, run = patches()
    assert "new file mode 100755\n" in new
    assert run.startswith("diff --git a/run b/run\nold mode 100755\nnew mode 100644\n--- a/run\n")
    (repo / "new").unlink()
    assert "deleted file mode 100755\n" in patches()[0]


def test_modes_that_git_does_not_look_at_are_no_edits(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", run="echo\n")
    git(repo, "config", "core.fileMode", "false")
    files = tracker(repo, tmp_path / "blobs")
    (repo / "run").chmod(0o755)
    (repo / "new").write_text("n\n")
    (repo / "new").chmod(0o755)
    drafts = files.observe(["new", "run"], actor=ACTOR, context={})
    assert [draft.payload["patch"].split("\n")[1] for draft in drafts] == ["new file mode 100644"]


def test_a_link_of_the_base_is_no_file_before_it_became_one(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "link").symlink_to("cart.py")
    (repo / "moved").symlink_to("cart.py")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "links")
    files = tracker(repo, tmp_path / "blobs")
    replayed = Replayed(files.blobs)
    (repo / "link").unlink()
    (repo / "link").write_text("a file\n")
    (repo / "moved").unlink()
    (repo / "moved").symlink_to("test_cart.py")
    replayed.take(files.observe(files.changed_paths(), actor=ACTOR, context={}))
    assert replayed.files == {"link": b"a file\n"}


def test_the_facts_of_a_repository_hold_no_person_and_no_password(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", uv_dot_lock="version = 1\n")
    git(repo, "remote", "add", "origin", "https://ann:secret@example.com/shop/cart.git")
    found = open_repository(repo)
    block = repo_block(found, commit=head_commit(found))
    person = developer_block(found, key=b"k" * 32, developer="", experience="", consent={})
    around = environment_block(found, {"EDITOR": "/usr/bin/vim -p", "TZ": "Europe/Berlin"})
    assert block["repo_id"] == "example.com/shop/cart"
    assert block["remote_url"] == "https://example.com/shop/cart.git"
    assert block["repo_fingerprint"]["dependencies_lock_hash"].startswith("sha256:")
    assert "ann" not in person["developer_id"]
    assert around["ide"] == {"name": "vim", "version": None}
    assert (around["language"], around["timezone"]) == (["python"], "Europe/Berlin")


@pytest.mark.parametrize(
    ("remote", "repo_id"),
    [
        ("git@example.com:shop/cart.git", "example.com/shop/cart"),
        ("ssh://git@example.com:22/shop/cart", "example.com/shop/cart"),
        ("/home/ann/repos/cart", "repo"),
        ("file:///home/ann/cart", "repo"),
    ],
)
def test_a_repository_is_named_by_its_remote_or_its_folder(tmp_path: Path, remote: str, repo_id: str) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "remote", "add", "origin", remote)
    found = open_repository(repo)
    block = repo_block(found, commit=head_commit(found))
    assert block["repo_id"] == repo_id
    assert "ann" not in str(block["remote_url"])


def test_the_hash_of_an_environment_tells_equal_from_different_and_nothing_else() -> None:
    one, two = {"A": "1", "B": "2"}, {"B": "2", "A": "1"}
    assert environment_hash(one, key=b"k") == environment_hash(two, key=b"k")
    assert environment_hash(one, key=b"k") != environment_hash({**one, "A": "3"}, key=b"k")
    assert environment_hash(one, key=b"k") != environment_hash(one, key=b"other")


def test_a_repository_without_a_commit_says_what_to_do(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", ".")
    with pytest.raises(UsageError, match="no commit") as caught:
        open_repository(tmp_path)
    assert "git commit" in caught.value.next_step


def test_the_base_is_bundled_also_where_a_rebase_has_led_away_from_it(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "switch", "-qc", "topic")
    (repo / "a.txt").write_text("a\n", encoding="ascii")
    git(repo, "add", "a.txt")
    git(repo, "commit", "-qm", "a")
    base = git(repo, "rev-parse", "HEAD")
    git(repo, "switch", "-q", "main")
    (repo / "b.txt").write_text("b\n", encoding="ascii")
    git(repo, "add", "b.txt")
    git(repo, "commit", "-qm", "b")
    git(repo, "switch", "-q", "topic")
    git(repo, "rebase", "-q", "main")
    request = create_request(repo={"repo_id": "shop", "commit_base": base})
    request["developer"]["consent_flags"]["store_raw_code"] = True
    spool = spool_in(tmp_path / "state", **request)
    assert ensure_base_bundle(spool, open_repository(repo)) == ""
    bundle = tmp_path / "bundle"
    bundle.write_bytes(spool.blobs.read(spool.header["request"]["repo"]["bundle_blob_id"]))
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q", ".")
    git(fresh, "bundle", "unbundle", str(bundle))
    assert git(fresh, "show", f"{base}:a.txt") == "a"
    assert "refs/pm-orchestrator" not in git(repo, "for-each-ref")


def test_a_bundle_that_no_collector_takes_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_LARGEST", 10)
    repo = repository(tmp_path / "repo")
    request = create_request(repo={"repo_id": "shop", "commit_base": git(repo, "rev-parse", "HEAD")})
    request["developer"]["consent_flags"]["store_raw_code"] = True
    spool = spool_in(tmp_path / "state", **request)
    assert "larger than" in ensure_base_bundle(spool, open_repository(repo))
    assert not list(spool.folder.glob("bundle*"))
    assert "bundle_blob_id" not in spool.header["request"]["repo"]
