"""An agent that harms the user's work with everyday commands is refused with the facts, and `pm undo` restores."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.repl.support import pm
from tests.repl.test_trespass import DONE, RUN, agent, facts
from tests.runner.test_undo import files, repository_view


@pytest.fixture
def work(project: Path) -> Path:
    """A repository with uncommitted work of the user's, and a stash."""
    script = (
        "git init -q -b main; git config user.email a@example.org; git config user.name a; "
        "printf '.pm-orchestrator/\\n' > .gitignore; echo 'b = 1' > b.py; git add -A; git commit -qm start; "
        "echo 'b = 2' > b.py; git stash -q; echo 'b = 3' >> b.py; echo mine > notes.txt"
    )
    subprocess.run(["sh", "-c", script], cwd=project, check=True)
    return project


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("git reset -q --hard; git clean -fdq", ["deleted: notes.txt", "taken back: b.py"]),
        *(
            pytest.param(command, told, marks=pytest.mark.torture)
            for command, told in (
                ("git stash -u -q", ["deleted: notes.txt", "the stash was changed"]),
                ("rm -rf .git", ["the repository was deleted"]),
                ("printf '#!/bin/sh' > .git/hooks/pre-commit", ["hook created: .git/hooks/pre-commit"]),
            )
        ),
    ],
)
def test_harm_is_refused_with_the_facts_and_undone(work: Path, command: str, told: list[str]) -> None:
    before, view = files(work), repository_view(work)
    agent(work, [{"run": command}, *DONE])
    ran = pm(*RUN, "--max-iterations", "1", cwd=work, PM_SANDBOX_MODE="off")
    assert ran.code == 6, ran.err
    assert "REJECT   Q10" in ran.err
    for words in told:
        assert words in ran.err
    (answer,) = (fact["data"] for fact in facts(work) if fact["event"] == "LLM_RESPONSE")
    kinds = {one["kind"] for one in answer["collateral"]}
    assert kinds <= {"deleted", "reset", "stash", "repository", "hook"}
    undone = pm("undo", "1", "--yes", cwd=work)
    assert undone.code == 0, undone.out + undone.err
    assert files(work) == before
    assert repository_view(work) == view


def test_work_that_harms_nothing_and_a_commit_that_was_asked_for_pass(work: Path) -> None:
    steps: list[dict[str, Any]] = [DONE[0], {"run": "git add a.py; git commit -qm work"}, DONE[1]]
    agent(work, steps)
    asked = ["run", "write a.py and commit it", *RUN[2:]]
    assert pm(*asked, cwd=work, PM_SANDBOX_MODE="off").code == 0
    agent(work, [{"run": "git commit -q --allow-empty -m more; rm -f a.py"}, DONE[0], DONE[1]])
    unasked = pm(*RUN, "--max-iterations", "1", "--json", cwd=work, PM_SANDBOX_MODE="off")
    assert unasked.code == 6
    assert json.loads(unasked.out)["status"] == "INCOMPLETE"


def test_in_the_sandbox_the_repository_can_be_deleted_as_well_and_comes_back(work: Path) -> None:
    before, view = files(work), repository_view(work)
    agent(work, [{"run": "rm -rf .git .pm-orchestrator"}, *DONE])
    ran = pm(*RUN, "--max-iterations", "1", cwd=work)
    assert ran.code == 6, ran.err
    assert "REJECT   Q10" in ran.err
    assert "chain intact, ok" in pm("trace", "verify", "1", cwd=work).out
    undone = pm("undo", "1", "--yes", cwd=work)
    assert undone.code == 0, undone.out + undone.err
    assert files(work) == before
    assert repository_view(work) == view
