"""What a task changes under pm's own state directory is undone and named."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from runner.gate.criterion import Evidence
from runner.gate.evidence_criteria import q10_collateral
from runner.workspace.workspace import Workspace, open_workspace
from tests.runner.workspace.support import MemoryBlobs, repository, state_dir, write
from tracer.blobs import DirectoryBlobs
from tracer.journal.writer import Journal
from tracer.statedir import StateDir


@pytest.fixture
def project(tmp_path) -> Path:
    folder = repository(tmp_path / "project", {"a.py": "a = 1\n"})
    state = state_dir(folder)
    write(state / "config.toml", "[run]\nmax_iterations = 3\n")
    write(state / "traces" / "conversation-task-001-2026-01-01T00-00-00.jsonl", "{}\n")
    return folder


def opened(folder: Path, *, task_id: str = "") -> Workspace:
    return open_workspace(folder, state_dir=folder / ".pm-orchestrator", blobs=MemoryBlobs(), task_id=task_id)


async def test_a_changed_setting_is_put_back_and_named_and_the_other_version_kept(project):
    state = project / ".pm-orchestrator"
    workspace = opened(project)
    base = await workspace.baseline("t")
    write(state / "config.toml", "[run]\nmax_iterations = 999\n")
    (state / "rules.md").write_text("anything goes\n")
    changes = await workspace.changes(base)
    assert changes.protected == ("config.toml", "rules.md")
    assert changes.paths == ()
    assert (state / "config.toml").read_text() == "[run]\nmax_iterations = 3\n"
    assert not (state / "rules.md").exists()
    assert sorted(path.read_text() for path in (state / "control" / "undone").iterdir()) == [
        "[run]\nmax_iterations = 999\n",
        "anything goes\n",
    ]


async def test_a_setting_replaced_by_a_link_is_a_file_again(project, tmp_path):
    state = project / ".pm-orchestrator"
    workspace = opened(project)
    base = await workspace.baseline("t")
    (tmp_path / "evil").write_text("evil")
    (state / "config.toml").unlink()
    (state / "config.toml").symlink_to(tmp_path / "evil")
    assert (await workspace.changes(base)).protected == ("config.toml",)
    assert not (state / "config.toml").is_symlink()
    assert (tmp_path / "evil").read_text() == "evil"


async def test_what_was_found_is_named_until_the_next_baseline(project):
    workspace = opened(project)
    first = await workspace.baseline("t/0")
    (project / ".pm-orchestrator" / "config.toml").unlink()
    assert (await workspace.changes(first)).protected == ("config.toml",)
    assert (await workspace.changes(first)).protected == ("config.toml",)  # the judge looks later than the recorder
    again = opened(project)  # and may be another process
    assert (await again.changes(first)).protected == ("config.toml",)
    await workspace.baseline("t/1")
    assert (await workspace.changes(first)).protected == ()


async def test_a_deleted_record_of_another_task_comes_back(project):
    traces = project / ".pm-orchestrator" / "traces"
    workspace = opened(project)
    base = await workspace.baseline("t")
    shutil.rmtree(traces)
    name = "traces/conversation-task-001-2026-01-01T00-00-00.jsonl"
    assert (await workspace.changes(base)).protected == (name,)
    assert (project / ".pm-orchestrator" / name).read_text() == "{}\n"


def filled(project: Path) -> dict[str, bytes]:
    """A state dir as finished tasks leave it: what is in it, by name."""
    state = StateDir(project / ".pm-orchestrator").ensure()
    DirectoryBlobs(state.blobs, second=state.second_blobs).put_bytes(b"of an earlier task")
    DirectoryBlobs(state.blobs).put_bytes(b"stored without a second link")
    write(state.traces / "conversation-task-001-2026-01-01T00-00-00.jsonl.chain", "0" * 64 + "\n")
    write(state.tracepack / "trace-sess-1-2026-01-01T00-00-00.jsonl", "{}\n")
    write(state.root / "agentic-traces" / "trace_1.jsonl", '{"kind":"meta"}\n')
    write(state.labels, '{"label":1}\n')
    write(state.task_counter, "7\n")
    return contents(state.root)


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and "control" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.name != "lock"}


@pytest.mark.parametrize("linked", [True, False])
async def test_a_removed_state_dir_comes_back_with_all_records_of_other_tasks(project, monkeypatch, linked):
    if not linked:  # the user's folder is on another file system; blobs have copies there as soon as they are put
        monkeypatch.setattr(DirectoryBlobs, "link_all", lambda _: {})
        real = os.link

        def link(source, target):
            if "guard" in str(target):
                raise OSError(errno.EXDEV, "another file system")
            real(source, target)

        monkeypatch.setattr(os, "link", link)
    before = filled(project)
    state = project / ".pm-orchestrator"
    base = await opened(project).baseline("task-002/0")
    shutil.rmtree(state)
    changes = await opened(project).changes(base)
    assert set(changes.protected) >= {name for name in before if not name.startswith("blobs")}
    assert changes.lost == ()
    if linked:
        assert contents(state) == before
        assert "blobs" in changes.protected
    else:
        assert {name: data for name, data in contents(state).items() if not name.startswith("blobs")} == {
            name: data for name, data in before.items() if not name.startswith("blobs")
        }
    again = await opened(project).changes(base)
    assert again.protected == changes.protected
    assert again.lost == ()


async def test_an_undo_that_is_killed_before_it_is_done_is_done_and_told_by_the_next(project, monkeypatch):
    before = filled(project)
    state = project / ".pm-orchestrator"
    base = await opened(project).baseline("task-002/0")
    shutil.rmtree(state)
    real, left = Path.replace, 0

    class Killed(BaseException):
        pass

    def replace(path, target):
        nonlocal left
        left -= 1
        if not left:
            raise Killed
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        for point in range(1, 6):
            left = point
            with pytest.raises(Killed):
                await opened(project).changes(base)
    changes = await opened(project).changes(base)
    assert set(changes.protected) >= {name for name in before if not name.startswith("blobs")}
    assert changes.lost == ()
    assert contents(state).items() >= before.items()


async def test_another_task_of_the_same_baseline_leaves_what_is_known_of_what_was_deleted(project):
    before = filled(project)
    state = project / ".pm-orchestrator"
    base = await opened(project, task_id="task-002").baseline("task-002/0")
    shutil.rmtree(state / "traces")
    other = opened(project, task_id="task-003")
    assert await other.baseline("task-003/0") == base
    assert (await other.changes(base)).protected == ()
    changes = await opened(project, task_id="task-002").changes(base)
    assert len(changes.protected) == 2
    assert changes.lost == ()
    assert contents(state) == before


async def test_only_what_was_put_back_is_told_as_undone(project):
    filled(project)
    state = project / ".pm-orchestrator"
    write(state / "collector.sqlite", "captures")
    name = "traces/conversation-task-001-2026-01-01T00-00-00.jsonl"
    base = await opened(project).baseline("task-002/0")
    (state / name).write_text("")
    (state / "collector.sqlite").unlink()
    (state / "agentic-traces" / "trace_1.jsonl").unlink()
    changes = await opened(project).changes(base)
    assert set(changes.protected) == {name, "collector.sqlite", "agentic-traces/trace_1.jsonl"}
    assert set(changes.lost) == {name, "collector.sqlite"}
    finding = q10_collateral(
        Evidence(request="", answer="", protected_changes=changes.protected, lost_records=changes.lost)
    )
    told = {place.path: place.message for place in finding.places}
    assert "(undone)" in told["agentic-traces/trace_1.jsonl"]
    assert all("undone" not in told[one] and "lost" in told[one] for one in changes.lost)
    assert (await opened(project).changes(base)).lost == changes.lost


async def test_what_pm_writes_itself_is_no_trespass(project):
    state = project / ".pm-orchestrator"
    workspace = opened(project)
    base = await workspace.baseline("t")
    with (state / "traces" / "conversation-task-001-2026-01-01T00-00-00.jsonl").open("a") as file:
        file.write("{}\n")
    write(state / "traces" / "conversation-task-002-2026-01-01T00-00-00.jsonl", "{}\n")
    write(state / "catalog.sqlite", "x")
    write(state / "serve-token", "made at first start")
    assert (await workspace.changes(base)).protected == ()
    assert (state / "serve-token").exists()


async def test_a_shortened_record_is_named_although_it_cannot_be_put_back(project):
    workspace = opened(project)
    base = await workspace.baseline("t")
    name = "traces/conversation-task-001-2026-01-01T00-00-00.jsonl"
    (project / ".pm-orchestrator" / name).write_text("")
    changes = await workspace.changes(base)
    assert changes.protected == (name,)
    assert "cannot be put back" in changes.notes[0]


RUNNING = "conversation-task-007-2026-01-01T00-00-00.jsonl"


def replaced(path: Path) -> None:
    """As `sed -i` does."""
    other = path.with_name("sedXYZ")
    other.write_bytes(path.read_bytes().upper())
    other.replace(path)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def everything_removed(path: Path) -> None:
    shutil.rmtree(path.parents[1])


def folder_closed(path: Path) -> None:
    path.parent.chmod(0o500)
    path.chmod(0o400)


@pytest.mark.parametrize("damage", [replaced, emptied, Path.unlink, everything_removed, folder_closed])
async def test_the_record_that_is_being_written_comes_back_and_is_named(project, damage):
    state = StateDir(project / ".pm-orchestrator").ensure()
    async with await Journal.create(
        state.traces / RUNNING, lock_path=state.task_lock("task-007"), copies=state.copies
    ) as journal:
        await journal.append(b'{"n":0}\n')
        workspace = opened(project)
        base = await workspace.baseline("t")
        assert (await workspace.changes(base)).protected == ()
        damage(state.traces / RUNNING)
        named = "traces" if damage is folder_closed else f"traces/{RUNNING}"
        assert named in (await workspace.changes(base)).protected
        assert (state.traces / RUNNING).read_bytes() == b'{"n":0}\n'
        await journal.append(b'{"n":1}\n')
        assert named in (await workspace.changes(base)).protected  # the judge looks later
        await workspace.baseline("t/1")
        assert (await workspace.changes(base)).protected == ()
    assert (state.traces / RUNNING).read_bytes() == b'{"n":0}\n{"n":1}\n'


async def test_a_replaced_record_is_not_removed_before_there_is_something_to_put_in_its_place(project):
    state = project / ".pm-orchestrator"
    name = "traces/conversation-task-001-2026-01-01T00-00-00.jsonl"
    workspace = opened(project)
    base = await workspace.baseline("t")
    shutil.rmtree(StateDir(state).guard / "links")
    replaced(state / name)
    changes = await workspace.changes(base)
    assert changes.protected == (name,)
    assert "cannot be put back" in changes.notes[0]
    assert (state / name).exists()


async def test_a_record_that_its_own_writer_has_put_back_and_gone_on_with_stays(project):
    state = project / ".pm-orchestrator"
    name = "traces/conversation-task-001-2026-01-01T00-00-00.jsonl"
    workspace = opened(project)
    base = await workspace.baseline("t")
    other = state / "traces" / "aside"
    other.write_bytes((state / name).read_bytes() + b'{"n":1}\n')
    other.replace(state / name)
    assert (await workspace.changes(base)).protected == ()
    assert (state / name).read_bytes() == b'{}\n{"n":1}\n'
    (state / name).unlink()  # known as it is now, without a second name: it is told
    assert (await workspace.changes(base)).protected == (name,)


async def test_folders_that_were_closed_are_opened_with_what_is_in_them(project):
    state = project / ".pm-orchestrator"
    workspace = opened(project)
    base = await workspace.baseline("t")
    for path in (*state.rglob("*"), state):
        path.chmod(0o500 if path.is_dir() else 0o400)
    assert state.name in (await workspace.changes(base)).protected
    assert all(path.stat().st_mode & 0o200 for path in (*state.rglob("*"), state))


@pytest.mark.parametrize(("label", "is_trespass"), [("task-002/main/0", False), ("task-001/main/1", True)])
async def test_the_trace_of_a_session_that_another_task_has_gone_on_with_is_no_trespass(project, label, is_trespass):
    traces = project / ".pm-orchestrator" / "agentic-traces"
    write(traces / "trace_1.jsonl", "one answer\n")
    workspace = opened(project)
    base = await workspace.baseline(label)
    replaced(traces / "trace_1.jsonl")
    told = "{}\n" + '{"agentic_trace":".pm-orchestrator/agentic-traces/trace_1.jsonl"}\n'
    write(project / ".pm-orchestrator" / "traces" / "conversation-task-001-2026-01-01T00-00-00.jsonl", told)
    assert (await opened(project).changes(base)).protected == (("agentic-traces/trace_1.jsonl",) if is_trespass else ())
    assert ((traces / "trace_1.jsonl").read_text() == "one answer\n") == is_trespass
