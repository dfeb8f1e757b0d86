"""`runner.undo.review`: hunks are kept and discarded one by one, later edits stay, a commit takes the task's lines."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.undo.hunks import Hunk, parse_hunks, without
from runner.undo.review import ReviewedFile, commit_review, decide, read_review
from runner.undo.undo import undo_task
from runner.workspace.git.repository import Git
from tests.runner.test_undo import WORK, Killed, files, project, shell, task
from tests.runner.workspace.support import git, write
from tracer.errors import ConflictError, NotFoundError, UsageError
from tracer.statedir import StateDir
from tracer.unified_diff import split_lines, unified_diff

assert project  # a fixture

TEXT = "".join(f"line {number}\n" for number in range(1, 61))
CHANGES = {1: (5, "A"), 2: (30, "B"), 3: (55, "C")}
IDS = {number: f"text.txt:{number}" for number in CHANGES}


def edited(*changes: tuple[int, str]) -> str:
    lines = TEXT.splitlines(keepends=True)
    for number, new in changes:
        lines[number - 1] = new + "\n"
    return "".join(lines)


def reviewed(state: StateDir, path: str = "text.txt") -> ReviewedFile:
    return next(one for one in read_review(state, "task-001").files if one.path == path)


@pytest.fixture
def three(project: Path) -> StateDir:
    """A committed file of 60 lines, of which a task changed three far apart."""
    write(project / "text.txt", TEXT)
    git(project, "add", "text.txt")
    git(project, "commit", "-qm", "text")
    return task(project, "sed -i -e '5s/.*/A/' -e '30s/.*/B/' -e '55s/.*/C/' text.txt")


def forward(content: bytes, hunks: Sequence[Hunk]) -> bytes:
    """The hunks put into what they began from, by the old line numbers: the other way round than `without`."""
    lines = split_lines(content)
    for hunk in reversed(hunks):
        old = hunk.side(b"-")
        at = hunk.old_start - bool(old)
        lines[at : at + len(old)] = hunk.side(b"+")
    return b"".join(lines)


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"+x\n", b"- y\r\n", b"@@ -1 +1 @@\n"]), max_size=60)
ENDS = st.sampled_from([b"", b"a", b"\\ No newline"])


@given(before=LINES, ends=st.tuples(ENDS, ENDS), cuts=st.lists(st.tuples(st.integers(0, 60), LINES), max_size=4),
       data=st.data())  # fmt: skip
def test_any_hunks_taken_out_leave_just_the_others(
    before: list[bytes], ends: tuple[bytes, bytes], cuts: list[tuple[int, list[bytes]]], data: st.DataObject
) -> None:
    after = list(before)
    for at, new in cuts:
        after[at : at + 2] = new[:3]
    old, new = b"".join(before) + ends[0], b"".join(after) + ends[1]
    hunks = parse_hunks("f", unified_diff(b"f", old, new).split(b"\n")[:-1])
    out = data.draw(st.sets(st.sampled_from(hunks)) if hunks else st.just(set()))
    assert without(new, out) == forward(old, [one for one in hunks if one not in out])


def test_every_choice_of_hunks_holds_beside_later_edits(project: Path, three: StateDir) -> None:
    assert [hunk.id for hunk in reviewed(three).hunks] == list(IDS.values())
    write(project / "text.txt", edited(*CHANGES.values(), (40, "mine")))
    for choice in (2, 5, 6, 7, 0):  # bits: which hunks are out
        out = [number for number in CHANGES if choice & 1 << (number - 1)]
        done = decide(three, "task-001", keep=[IDS[one] for one in CHANGES if one not in out],
                      discard=[IDS[one] for one in out])  # fmt: skip
        assert done.whole
        stay = [change for number, change in CHANGES.items() if number not in out]
        assert (project / "text.txt").read_text() == edited(*stay, (40, "mine")), out
        assert reviewed(three).discarded == {IDS[number] for number in out}


def test_an_undo_after_all_was_discarded_has_nothing_to_do_and_locks_nothing(three: StateDir) -> None:
    decide(three, "task-001", discard=["."])
    assert undo_task(three, "task-001").files == ()
    assert not read_review(three, "task-001").undone
    assert decide(three, "task-001", keep=["."]).files
    assert undo_task(three, "task-001").kind == "undo"


def test_a_task_that_went_on_after_its_undo_is_undone_as_it_is_then(project: Path) -> None:
    state = task(project, "echo one > one.txt")
    undo_task(state, "task-001")
    write(project / "a.py", "a = 'mine'\n")
    task(project, "echo two > two.txt")  # a further file of the same task
    assert undo_task(state, "task-001").kind == "undo"
    assert not {"one.txt", "two.txt"} & files(project).keys()


@pytest.mark.parametrize("with_git", [True, False])
def test_binary_files_modes_links_moves_and_folders_are_discarded_and_kept_again(project: Path, with_git: bool) -> None:
    if not with_git:
        shutil.rmtree(project / ".git")
    before = files(project)
    state = task(project, WORK)
    after = files(project)
    review = read_review(state, "task-001")
    assert not any(file.edited for file in review.files)
    assert {file.path: file.moved for file in review.files if file.moved} == {
        "notes.txt": "notes with blanks.txt", "notes with blanks.txt": "notes.txt"
    }  # fmt: skip
    for file in review.files:
        decide(state, "task-001", discard=[file.path])
    assert files(project) == before
    decide(state, "task-001", keep=["."])
    assert files(project) == after
    decide(state, "task-001", discard=["sub/", "run.sh:mode", "new"])
    half = files(project)
    undo_task(state, "task-001")
    assert files(project) == before
    assert read_review(state, "task-001").undone
    with pytest.raises(UsageError):
        decide(state, "task-001", keep=["."])
    undo_task(state, "task-001")
    assert files(project) == half
    assert reviewed(state, "sub/b.py").discarded


def test_a_discard_where_the_user_changed_the_same_lines_changes_nothing(project: Path, three: StateDir) -> None:
    mine = edited((5, "mine"), CHANGES[2], CHANGES[3])
    write(project / "text.txt", mine)
    done = decide(three, "task-001", discard=["text.txt"])
    assert [one.path for one in done.conflicts] == ["text.txt"]
    assert (project / "text.txt").read_text() == mine
    assert not list(project.glob("*.before-*"))
    assert reviewed(three).discarded == set()
    for name, error in (("other.txt", NotFoundError), ("text.txt:9", NotFoundError)):
        with pytest.raises(error):
            decide(three, "task-001", discard=[name])
    with pytest.raises(UsageError):
        decide(three, "task-001", discard=["text.txt"], keep=["text.txt:1"])


def test_a_file_whose_name_is_that_of_a_hunk_is_the_file(project: Path) -> None:
    state = task(project, "echo 1 > a; echo 2 > a:1")
    decide(state, "task-001", discard=["a:1"])
    assert ((project / "a").exists(), (project / "a:1").exists()) == (True, False)


def test_a_commit_takes_the_kept_lines_and_nothing_else_that_was_changed_or_staged(project: Path) -> None:
    write(project / "text.txt", TEXT)
    git(project, "add", "text.txt")
    git(project, "commit", "-qm", "text")
    write(project / "text.txt", edited((15, "not committed")))
    state = task(project, "sed -i -e '5s/.*/A/' -e '30s/.*/B/' -e '55s/.*/C/' text.txt; echo n > new.txt; rm run.sh")
    write(project / "a.py", "staged = 1\n")
    git(project, "add", "a.py")
    write(project / "text.txt", edited(*CHANGES.values(), (15, "not committed"), (40, "later")))
    decide(state, "task-001", discard=["text.txt:2"])
    made = commit_review(state, "task-001", "change it\n\nbody")
    assert (set(made.paths), made.left_out) == ({"text.txt", "new.txt", "run.sh"}, ("text.txt",))
    assert git(project, "show", "HEAD:text.txt") == edited(CHANGES[1], CHANGES[3])
    assert git(project, "diff", "--cached", "--name-only").split() == ["a.py"]
    assert (project / "text.txt").read_text() == edited(CHANGES[1], CHANGES[3], (15, "not committed"), (40, "later"))
    assert git(project, "log", "-1", "--format=%B").strip() == "change it\n\nbody"
    assert commit_review(state, "task-001", "again").commit == ""
    decide(state, "task-001", keep=["text.txt:1", "text.txt:3"])
    assert commit_review(state, "task-001", "with the edits").paths == ("text.txt",)
    assert git(project, "show", "HEAD:text.txt").count("later") == 1


def dirty_in_the_same_lines(folder: Path) -> None:
    write(folder / "text.txt", edited((5, "staged"), CHANGES[2], CHANGES[3]))
    git(folder, "add", "text.txt")


def hook(folder: Path) -> None:
    write(folder / ".git/hooks/pre-commit", "#!/bin/sh\necho refused by lint >&2\nexit 1\n")
    (folder / ".git/hooks/pre-commit").chmod(0o755)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (dirty_in_the_same_lines, "same lines of text.txt"),
        (hook, "refused by lint"),
        (lambda folder: write(folder / ".git/MERGE_HEAD", ""), "MERGE_HEAD"),
    ],
)
def test_a_commit_that_cannot_be_made_changes_nothing(
    project: Path, three: StateDir, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(project)
    was = git(project, "status", "--porcelain"), git(project, "rev-parse", "HEAD"), files(project)
    with pytest.raises(ConflictError) as refused:
        commit_review(three, "task-001", "message")
    assert said in refused.value.line
    assert (git(project, "status", "--porcelain"), git(project, "rev-parse", "HEAD"), files(project)) == was
    assert not list((project / ".git").glob("pm-*"))


def test_the_first_commit_of_a_repository(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    folder.mkdir()
    git(folder, "init", "-q")
    shell(folder, "git config user.name a; git config user.email a@example.org; echo x > .git/info/exclude")
    write(folder / "mine.txt", "mine\n")
    state = task(folder, "echo new > new.txt; echo more >> mine.txt")
    made = commit_review(state, "task-001", "first", leave=["mine.txt"])
    assert made.paths == ("new.txt",)
    assert git(folder, "ls-tree", "--name-only", "HEAD").split() == ["new.txt"]
    assert commit_review(state, "task-001", "second").paths == ("mine.txt",)  # whole: git did not know it
    assert git(folder, "status", "--porcelain") == ""


def test_half_work_of_an_agent_that_was_killed_is_told_apart_from_later_edits(project: Path) -> None:
    write(project / "text.txt", TEXT)
    state = task(project, "sed -i -e '5s/.*/A/' -e '30s/.*/B/' text.txt", answered=False)
    decide(state, "task-001", discard=["text.txt:1"])
    write(project / "text.txt", edited((30, "B"), (50, "mine")))
    file = reviewed(state)
    assert (file.discarded, file.edited, len(file.hunks)) == ({"text.txt:1"}, True, 2)
    decide(state, "task-001", keep=["text.txt:1"], discard=["text.txt:2"])
    assert (project / "text.txt").read_text() == edited((5, "A"), (50, "mine"))


def killed_at(number: int, patch: pytest.MonkeyPatch) -> None:
    left = [number]

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def write(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return real(*arguments, **options)

        return write

    for name in ("replace", "unlink", "write_bytes"):
        patch.setattr(Path, name, counted(getattr(Path, name)))
    for name in ("run", "as_user"):
        patch.setattr(Git, name, counted(getattr(Git, name)))


@pytest.mark.torture
def test_invariant_16_a_decision_or_commit_that_is_killed_at_any_write_is_finished_by_the_next(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(project)
    state = task(project, WORK)
    git(project, "add", "a.py")  # with lines of the user's from before the task
    copy = project.with_name("copy")
    shutil.copytree(project, copy, symlinks=True)

    def discard() -> None:
        decide(state, "task-001", discard=["."])

    def commit() -> None:
        commit_review(state, "task-001", "message", leave=["a.py"])

    for work in (discard, commit):
        at, killed = 1, True
        while killed:
            shutil.rmtree(project)
            shutil.copytree(copy, project, symlinks=True)
            with monkeypatch.context() as patch:
                killed_at(at, patch)
                try:
                    work()
                    killed = False
                except Killed:
                    pass
            work()
            staged = git(project, "diff", "--cached", "--name-only").split()
            if work is discard:
                assert files(project) == before, at
                assert reviewed(state, "a.py").discarded
            else:
                assert staged == ["a.py"], at
                assert git(project, "rev-list", "--count", "HEAD").strip() == "2", at
                assert git(project, "diff", "HEAD~", "HEAD", "--name-only").split("\n")[:2] == ["data.bin", "link"]
            at += 5  # every fifth write
        assert at > 10
