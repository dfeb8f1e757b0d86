"""`pm review` at the command line: what it shows, decides and commits, as text and as JSON."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from repl.present.review import review_rows, row_lines
from tests.repl.scripts import BAD, GOOD, run_scripted
from tests.repl.support import pm
from tests.repl.terminal import ESC, Terminal
from tests.repl.test_trace_commands import check_golden
from tests.runner.workspace.support import git

LONG = "".join(f"x{number} = {number}\n" for number in range(30))


@pytest.fixture
def reviewed(project: Path) -> Path:
    """A repository in which a task was rejected, with changes at both ends of a file."""
    (project / "hello.py").write_text(f"first = 1\n{LONG}last = 1\n")
    git(project, "init", "-q")
    git(project, "config", "user.email", "a@example.org")
    git(project, "config", "user.name", "a")
    git(project, "add", "hello.py")
    git(project, "commit", "-qm", "start")
    text = f"# TODO: name it\nfirst = 2\n{LONG}last = None\n"
    reply = {
        "output": "I **named** it.",
        "files": {"hello.py": text, "build/out.log": "made\n", "new file.py": "x = 1\n"},
    }
    assert run_scripted(project, reply, words=("--max-iterations", "1", "name what is first")).code == 6
    return project


def test_a_rejected_task_is_shown_with_its_findings_decided_and_committed(reviewed: Path) -> None:
    check_golden("review", pm("review", "1", cwd=reviewed), reviewed)
    found = json.loads(pm("review", "1", "--json", cwd=reviewed).out)
    assert {"task_id", "answer", "verification", "files"} <= found.keys()
    hello = next(file for file in found["files"] if file["path"] == "hello.py")
    assert [hunk["id"] for hunk in hello["hunks"]] == ["hello.py:1", "hello.py:2"]
    assert [(one["criterion"], one["line"]) for one in hello["hunks"][0]["findings"]] == [("Q2", 1)]
    check_golden("review-discard", pm("review", "1", "--discard", "hello.py:1", "new file.py", cwd=reviewed), reviewed)
    assert (reviewed / "hello.py").read_text() == f"first = 1\n{LONG}last = None\n"
    assert not (reviewed / "new file.py").exists()
    done = pm("review", "1", "--keep", "new file.py", "--commit", "-m", "keep the end", "--json", cwd=reviewed)
    assert done.code == 0, done.err
    assert git(reviewed, "show", "--name-only", "--format=%s").split("\n\n") == [
        "keep the end",
        "hello.py\nnew file.py\n",
    ]
    assert json.loads(done.out)["commit"] == git(reviewed, "rev-parse", "HEAD").strip()
    assert "nothing to commit" in pm("review", "1", "--commit", cwd=reviewed).out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["7"], 7, "no task"),
        (["1", "--discard", "nothing.py"], 7, "changed no"),
        (["1", "--discard", "hello.py:1", "--keep", "hello.py"], 2, "kept and discarded"),
        (["1", "-m", "message"], 2, "--commit"),
    ],
)
def test_what_cannot_be_reviewed_is_said(reviewed: Path, words: list[str], code: int, said: str) -> None:
    ran = pm("review", *words, cwd=reviewed)
    assert ran.code == code
    assert said in ran.err


def test_a_conflict_exits_6_and_an_undone_task_says_so(reviewed: Path) -> None:
    (reviewed / "hello.py").write_text("mine\n")
    ran = pm("review", "1", "--discard", "hello.py:1", cwd=reviewed)
    assert (ran.code, (reviewed / "hello.py").read_text()) == (6, "mine\n")
    assert "hello.py: yours stays" in ran.out
    assert pm("undo", "1", "--yes", cwd=reviewed).code == 6
    assert "it is undone" in pm("review", "1", cwd=reviewed).out
    assert "puts its work in again" in pm("review", "1", "--commit", cwd=reviewed).err


def test_control_sequences_of_an_agent_reach_no_terminal(project: Path) -> None:
    bad = {"output": "\x1b[2J", "files": {"a\x1b.py": "x = '\x1b[31m'\n"}}
    run_scripted(project, bad, words=("write it",))
    record = json.loads(pm("review", "1", "--json", cwd=project).out)
    for coloured in (False, True):
        lines = row_lines(review_rows(record, columns=80, styled=coloured), coloured=coloured)
        assert not any("\x1b[2J" in line or "\x1b." in line or "\x1b[31m'" in line for line in lines)


def test_line_mode_shows_and_discards(project: Path) -> None:
    run_scripted(project, BAD, GOOD)
    with Terminal(project, "--line") as terminal:
        terminal.wait_for("pm>")
        terminal.send(b"/review 1\r")
        terminal.wait_for("def greet")
        terminal.send(f"/review 1 --discard {shlex.quote('hello.py')}\r".encode())
        terminal.wait_for("added +2 -0 · discarded")
    assert not (project / "hello.py").exists()


def test_the_full_screen_reviews_on_a_real_terminal(project: Path) -> None:
    run_scripted(project, BAD, GOOD)
    with Terminal(project, columns=120, rows=36) as terminal:
        terminal.wait_for("pm>")
        terminal.send(ESC)
        terminal.wait_for("v review")
        terminal.send(b"v")
        terminal.wait_for("1 + def greet")
        terminal.send(b"nx")
        terminal.wait_for("hello.py:1 · discarded")
        assert not (project / "hello.py").exists()
        terminal.send(b"x")
        terminal.wait_for("hello.py:1 · kept")
        assert "def greet" in (project / "hello.py").read_text()
        terminal.send(b"\x11")
        assert terminal.ends() == 0
