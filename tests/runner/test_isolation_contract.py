"""One contract for every isolation: subtasks start alike, merge in order, and the person gets all or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.isolation.isolation_port import Conflict, Isolation, Merged
from runner.isolation.worktrees import GitWorktrees
from tests.runner.memory_isolation import MemoryIsolation
from tests.runner.workspace.support import git, repository, state_dir, write

_FILES = {"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "b.txt": "b\n", "sub/c.txt": "c\n"}


class Memory:
    def __init__(self, _folder: Path) -> None:
        self.isolation = MemoryIsolation({name: text.encode() for name, text in _FILES.items()})

    def put(self, subtask: str, path: str, text: str) -> None:
        self.isolation.folder(subtask)[path] = text.encode()

    def get(self, subtask: str, path: str) -> str | None:
        content = self.isolation.folder(subtask).get(path)
        return None if content is None else content.decode()

    def mine(self) -> dict[str, str]:
        return {path: content.decode() for path, content in self.isolation.files.items()}

    def put_mine(self, path: str, text: str) -> None:
        self.isolation.files[path] = text.encode()


class Worktrees:
    def __init__(self, folder: Path) -> None:
        self.project = repository(folder / "project", _FILES)
        self.isolation = GitWorktrees(self.project, state_dir=state_dir(self.project), task_id="task-001")

    def _path(self, subtask: str) -> Path:
        return self.project / ".pm-orchestrator" / "worktrees" / "task-001" / f"task-001--{subtask}"

    def put(self, subtask: str, path: str, text: str) -> None:
        write(self._path(subtask) / path, text)

    def get(self, subtask: str, path: str) -> str | None:
        file = self._path(subtask) / path
        return file.read_text() if file.exists() else None

    def mine(self) -> dict[str, str]:
        names = git(self.project, "ls-files", "-z", "-c", "-o", "--exclude-standard").split("\0")
        return {
            name: (self.project / name).read_text()
            for name in names
            if name and not name.startswith(".pm-orchestrator") and (self.project / name).exists()
        }

    def put_mine(self, path: str, text: str) -> None:
        write(self.project / path, text)


@pytest.fixture(params=[Memory, Worktrees])
def rig(request, tmp_path):
    return request.param(tmp_path)


async def _done(isolation: Isolation, subtask: str) -> Merged:
    result = await isolation.merge(subtask)
    assert isinstance(result, Merged)
    return result


async def test_everyone_starts_from_the_persons_uncommitted_work(rig):
    rig.put_mine("b.txt", "mine\n")
    rig.put_mine("new.txt", "new\n")
    await rig.isolation.begin()
    await rig.isolation.open("one")
    assert (rig.get("one", "b.txt"), rig.get("one", "new.txt")) == ("mine\n", "new\n")


async def test_parallel_subtasks_do_not_see_each_other_and_the_person_sees_neither(rig):
    await rig.isolation.begin()
    await rig.isolation.open("one")
    await rig.isolation.open("two")
    rig.put("one", "b.txt", "one\n")
    assert rig.get("two", "b.txt") == "b\n"
    await _done(rig.isolation, "one")
    assert rig.mine()["b.txt"] == "b\n"


async def test_results_become_one_and_a_later_subtask_starts_on_them(rig):
    await rig.isolation.begin()
    await rig.isolation.open("one")
    rig.put("one", "b.txt", "one\n")
    merged = await _done(rig.isolation, "one")
    assert merged.paths == ("b.txt",)
    await rig.isolation.open("two")
    assert rig.get("two", "b.txt") == "one\n"
    rig.put("two", "new/d.txt", "two\n")
    await _done(rig.isolation, "two")
    assert await rig.isolation.merged() == ("one", "two")
    applied = await rig.isolation.apply()
    assert isinstance(applied, Merged)
    assert applied.paths == ("b.txt", "new/d.txt")
    assert rig.mine() == {**_FILES, "b.txt": "one\n", "new/d.txt": "two\n"}


async def test_a_conflict_changes_nothing_and_names_the_path_and_the_subtask_can_start_again(rig):
    await rig.isolation.begin()
    await rig.isolation.open("one")
    await rig.isolation.open("two")
    rig.put("one", "b.txt", "one\n")
    rig.put("two", "b.txt", "two\n")
    await _done(rig.isolation, "one")
    conflict = await rig.isolation.merge("two")
    assert isinstance(conflict, Conflict)
    assert [place.path for place in conflict.places] == ["b.txt"]
    assert "b.txt" in conflict.reason()
    assert await rig.isolation.merged() == ("one",)
    assert rig.get("two", "b.txt") == "two\n"
    await rig.isolation.open("two", fresh=True)
    assert rig.get("two", "b.txt") == "one\n"
    rig.put("two", "b.txt", "one and two\n")
    await _done(rig.isolation, "two")
    await rig.isolation.apply()
    assert rig.mine()["b.txt"] == "one and two\n"


async def test_a_call_that_is_repeated_changes_nothing_more(rig):
    first = await rig.isolation.begin()
    rig.put_mine("later.txt", "later\n")
    assert await rig.isolation.begin() == first
    await rig.isolation.open("one")
    rig.put("one", "b.txt", "one\n")
    await rig.isolation.open("one")
    assert rig.get("one", "b.txt") == "one\n"
    once = await _done(rig.isolation, "one")
    again = await _done(rig.isolation, "one")
    assert (again.result, again.paths) == (once.result, once.paths)
    await rig.isolation.apply()
    await rig.isolation.apply()
    assert rig.mine() == {**_FILES, "b.txt": "one\n", "later.txt": "later\n"}
    await rig.isolation.close()
    await rig.isolation.close()


async def test_what_the_person_changed_meanwhile_stays_and_a_clash_leaves_everything_as_it_is(rig):
    await rig.isolation.begin()
    await rig.isolation.open("one")
    rig.put("one", "b.txt", "one\n")
    rig.put("one", "fresh.txt", "fresh\n")
    await _done(rig.isolation, "one")
    rig.put_mine("b.txt", "the person\n")
    before = rig.mine()
    clash = await rig.isolation.apply()
    assert isinstance(clash, Conflict)
    assert rig.mine() == before
    rig.put_mine("b.txt", "b\n")
    rig.put_mine("sub/c.txt", "the person\n")
    await rig.isolation.apply()
    assert rig.mine() == {**_FILES, "b.txt": "one\n", "fresh.txt": "fresh\n", "sub/c.txt": "the person\n"}


async def test_results_that_are_kept_are_where_the_next_one_goes_on(rig):
    first = await rig.isolation.begin()
    await rig.isolation.open("one")
    rig.put("one", "b.txt", "one\n")
    await _done(rig.isolation, "one")
    await rig.isolation.open("two")
    rig.put("two", "new.txt", "thrown away\n")
    await rig.isolation.close(keep_results=True)
    assert await rig.isolation.begin() == first
    assert await rig.isolation.merged() == ("one",)
    await rig.isolation.open("two")
    assert (rig.get("two", "b.txt"), rig.get("two", "new.txt")) == ("one\n", None)
    await _done(rig.isolation, "two")
    await rig.isolation.apply()
    assert rig.mine()["b.txt"] == "one\n"
    await rig.isolation.close()
    assert await rig.isolation.begin() != ""
    assert await rig.isolation.merged() == ()


async def test_the_whole_can_be_looked_at_before_the_person_gets_it(rig):
    await rig.isolation.begin()
    await rig.isolation.open("one")
    rig.put("one", "b.txt", "one\n")
    await _done(rig.isolation, "one")
    await rig.isolation.whole()
    assert (rig.get("whole", "b.txt"), rig.mine()["b.txt"]) == ("one\n", "b\n")


async def test_a_result_for_a_branch_leaves_the_files_alone(rig):
    await rig.isolation.begin()
    await rig.isolation.open("one")
    rig.put("one", "b.txt", "one\n")
    await _done(rig.isolation, "one")
    result = await rig.isolation.apply(branch="result")
    assert isinstance(result, Merged)
    assert (result.paths, rig.mine()["b.txt"]) == (("b.txt",), "b\n")
