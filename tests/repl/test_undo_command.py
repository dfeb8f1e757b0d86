"""`pm undo` at the command line: asks, undoes, puts in again, and exits as documented."""

from __future__ import annotations

import json
from pathlib import Path

from tests.repl.scripts import GOOD, run_scripted
from tests.repl.support import pm


def test_undo_needs_a_word_and_then_puts_back_and_puts_in_again(project: Path) -> None:
    (project / "hello.py").write_text("mine = 1\n")
    assert run_scripted(project, GOOD).code == 0
    refused = pm("undo", "1", "--no-input", cwd=project)
    assert refused.code == 2
    assert "--yes" in refused.err
    done = pm("undo", "1", "--yes", cwd=project)
    assert done.code == 0, done.err
    assert "changed back  hello.py" in done.out
    assert (project / "hello.py").read_text() == "mine = 1\n"
    again = pm("undo", "1", "--yes", "--json", cwd=project)
    result = json.loads(again.out)
    assert (result["kind"], result["files"]) == ("redo", [{"path": "hello.py", "status": "changed"}])
    assert "def greet" in (project / "hello.py").read_text()
    assert pm("trace", "verify", "1", cwd=project).code == 0
    assert pm("resume", "1", cwd=project).code == 0


def test_a_conflict_keeps_both_versions_and_exits_6(project: Path) -> None:
    (project / "hello.py").write_text("mine = 1\n")
    run_scripted(project, GOOD)
    (project / "hello.py").write_text("def greet() -> str:\n    return 'later'\n")
    done = pm("undo", "1", "--yes", cwd=project)
    assert done.code == 6
    assert "hello.py: yours stays; the other version is hello.before-task-001.py" in done.out
    assert (project / "hello.before-task-001.py").read_text() == "mine = 1\n"
    assert "later" in (project / "hello.py").read_text()


def test_what_is_not_there_to_undo_is_said(project: Path) -> None:
    run_scripted(project, GOOD)
    assert pm("undo", "7", "--yes", cwd=project).code == 7
    assert pm("undo", "1", "--iteration", "5", "--yes", cwd=project).code == 7
    pm("undo", "1", "--yes", cwd=project)
    pruned = pm("admin", "prune", "tasks", "--keep", "0", "--yes", cwd=project)
    assert pruned.code == 0
    assert list((project / ".pm-orchestrator" / "traces").glob("undo-*")) == []
