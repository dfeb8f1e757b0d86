"""What a task changes under pm's own state directory is undone and named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runner.workspace.workspace import Workspace, open_workspace
from tests.runner.workspace.support import MemoryBlobs, repository, state_dir, write
from tracer.journal.writer import Journal
from tracer.statedir import StateDir


@pytest.fixture
def project(tmp_path) -> Path:
    folder = repository(tmp_path / "project", {"a.py": "a = 1\n"})
    state = state_dir(folder)
    write(state / "config.toml", "[run]\nmax_iterations = 3\n")
    write(state / "traces" / "conversation-task-001-2026-01-01T00-00-00.jsonl", "{}\n")
    return folder


def opened(folder: Path) -> Workspace:
    return open_workspace(folder, state_dir=folder / ".pm-orchestrator", blobs=MemoryBlobs())


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
    shutil.rmtree(state / "control" / "guard" / "links")
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
