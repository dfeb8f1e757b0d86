"""All places are judged, whatever their number; only the lists that are shown are cut, and say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.checks.commands import failing_tests
from runner.checks.evidence import gather
from runner.core.decide_loop import modification_prompt
from runner.gate.criterion import (
    ChangedFile,
    CommandResult,
    Evidence,
    Verdict,
)
from runner.gate.verdict import criteria_in_force, judge
from runner.judging import check_paths
from runner.workspace.changes import Changes
from tracer.facts import CriterionResult, Issue

MANY = 700


def judged(*files: ChangedFile, commands: tuple[CommandResult, ...] = ()) -> Verdict:
    evidence = Evidence(request="Add the report", answer="Added it.", files=files, commands=commands)
    return judge(evidence, criteria_in_force(commands=[command.kind for command in commands]))


def reason(verdict: Verdict, criterion: str) -> str:
    return next((str(r["reason"]) for r in verdict.criteria_results if r["id"] == criterion and not r["passed"]), "")


def functions(body: str, *, count: int = MANY) -> str:
    return "".join(f"def f{number}(a):\n    {body}\n\n\n" for number in range(count))


@pytest.mark.parametrize(
    ("path", "old", "new", "line"),
    [
        ("a.py", functions("# TODO: round\n    return a"), "def g(a):\n    # TODO: new\n    return a\n", 5 * MANY + 2),
        ("a.py", functions("raise NotImplementedError"), "def g(a):\n    raise NotImplementedError\n", 4 * MANY + 2),
        ("a.md", "".join(f"## {n}\n\nTODO: write\n\n" for n in range(MANY)), "## New\n\nTODO: new\n", 4 * MANY + 3),
    ],
)
def test_old_places_of_a_file_do_not_hide_a_new_one(path: str, old: str, new: str, line: int) -> None:
    verdict = judged(ChangedFile(path=path, before=old.encode(), after=(old + new).encode()))
    assert [(issue["criterion"], issue["line"]) for issue in verdict.issues] == [("Q2", line)]
    if "TODO" in old:  # old marks are counted once
        (note,) = verdict.notes
        assert note.startswith("Q2: was there before and rejects nothing: TODO found at ")
        assert note.endswith(f" and {MANY - 3} more")


def test_old_places_of_other_files_do_not_hide_a_new_one() -> None:
    old = functions("# TODO: round\n    return a", count=220)
    verdict = judged(
        ChangedFile(path="a.py", before=old.encode(), after=(old + "A = 1\n").encode()),
        ChangedFile(path="b.py", before=None, after=b"# TODO: new\nB = 1\n"),
    )
    assert reason(verdict, "Q2") == "TODO found at b.py:1"


def test_old_faults_do_not_hide_a_new_one() -> None:
    old = "".join(f"let a{number} = ;\n" for number in range(220))
    file = ChangedFile(path="a.js", before=old.encode(), after=(old + "let b = ;\n").encode())
    assert "does not parse" in reason(judged(file), "Q4")


def test_all_tests_taken_back_are_counted() -> None:
    before = "".join(f"def test_{number}():\n    assert f({number})\n\n\n" for number in range(30))
    passed = CommandResult(kind="test", command="t", origin="given", exit_code=0)
    file = ChangedFile(path="tests/test_f.py", before=before.encode(), after=before.split("def test_1()")[0].encode())
    assert reason(judged(file, commands=(passed,)), "Q7").endswith("and 26 more")


def test_all_failing_tests_are_counted() -> None:
    output = "".join(f"FAILED tests/a.py::test_{number} - boom\n" for number in range(80))
    assert len(failing_tests(output)) == 80


async def test_all_claimed_files_are_looked_up(tmp_path: Path) -> None:
    answer = "".join(f"I created `src/a{number}.py`.\n" for number in range(250))
    evidence = await gather(request="Add", answer=answer, workspace=tmp_path, changes=Changes())
    assert sum(claim.source == "answer" for claim in evidence.claims) == 250


def test_what_of_a_large_file_was_not_read_is_said() -> None:
    verdict = judged(ChangedFile(path="a.lua", before=None, after=b"x = 1\n" * 500_000))
    assert verdict.notes == ("Q4: only its first 2 MB were read in a.lua",)


def test_what_a_list_leaves_out_is_said_in_the_verdict_and_in_the_next_prompt() -> None:
    verdict = judged(ChangedFile(path="a.py", before=None, after=functions("# TODO: round\n    return a").encode()))
    result = next(result for result in verdict.criteria_results if result["id"] == "Q2")
    assert len(verdict.issues) == 200
    assert result["left_out"] == MANY - 200
    assert result["left_out_in"] == {"a.py": MANY - 200}
    assert str(result["reason"]).endswith(f"and {MANY - 3} more")
    results, issues = map(CriterionResult, verdict.criteria_results), map(Issue, verdict.issues)
    prompt = modification_prompt(request="x", criteria_results=tuple(results), issues=tuple(issues))
    assert f"and {MANY - 8} more" in prompt


async def test_a_check_of_many_files_lists_every_place(tmp_path: Path) -> None:
    for number in range(MANY):
        (tmp_path / f"a{number}.py").write_text("# TODO: write\nA = 1\n")
    report = await check_paths(root=tmp_path)
    assert report.files == MANY
    assert len({issue["path"] for issue in report.verdict.issues}) == MANY
    assert all("left_out" not in result for result in report.verdict.criteria_results)
