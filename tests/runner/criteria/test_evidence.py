"""Q1, Q5-Q9 on real files and real commands, and what a team adds."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.checks.commands import PlannedCommand, detect_commands, failing_tests, plan_commands
from runner.checks.evidence import (
    active_environment,
    gather,
    project_venv,
    running_checks,
)
from runner.claimed_paths import claimed_paths
from runner.core.decide_loop import modification_prompt
from runner.gate.criterion import (
    NOT_TRUSTED,
    ChangedFile,
    CommandKind,
    CommandResult,
    Criterion,
    Evidence,
    Finding,
    Harm,
    NotVerified,
    SessionCall,
    SuiteEvidence,
    Verdict,
)
from runner.gate.evidence_criteria import q7_test
from runner.gate.verdict import BUILT_IN, criteria_in_force, judge, team_criteria
from runner.judging import check_paths
from runner.processes.command import ProcessResult
from tests.support.machine import PYTEST
from tracer.clock import monotonic
from tracer.errors import NotFoundError, RecordError
from tracer.facts import CriterionResult, Issue


@dataclass
class Changes:
    files: tuple[ChangedFile, ...] = ()
    protected: tuple[str, ...] = field(default=())
    lost: tuple[str, ...] = ()
    diff: bytes = b""
    harm: tuple[Harm, ...] = ()
    harm_unknown: str = ""


def changed(path: str, after: str | None, before: str | None = None) -> ChangedFile:
    return ChangedFile(
        path=path,
        before=None if before is None else before.encode(),
        after=None if after is None else after.encode(),
    )


MADE = Changes((changed("a.py", "A = 1\n"),))


SIZES = (
    "# TODO: units\ndef size(path):\n    return path.stat().st_size\n\n\n"
    "def sizes(paths):\n    return [size(p) for p in paths]\n"
)


def reasons(verdict: Verdict) -> dict[str, str]:
    return {result["id"]: result["reason"] for result in verdict.criteria_results if not result["passed"]}


def unverified(verdict: Verdict) -> dict[str, tuple[str, str]]:
    """What was not verified; it never counts as failed, and is no silent pass either."""
    found = [result for result in verdict.criteria_results if result["outcome"] == "not_verified"]
    assert all(result["passed"] for result in found)
    assert all(f"{result['id']} not verified: " in verdict.summary for result in found)
    return {result["id"]: (result["why"], result["next"]) for result in found}


def verdict_on(evidence: Evidence) -> Verdict:
    kinds = [*(result.kind for result in evidence.commands), *evidence.not_checked]
    return judge(evidence, criteria_in_force(commands=kinds))


async def judged(workspace: Path, **more: object) -> Verdict:
    options: dict[str, object] = {"request": "Add a.", "answer": "Added it.", "changes": Changes(), **more}
    return verdict_on(await gather(workspace=workspace, **options))  # type: ignore[arg-type]


async def test_a_claimed_file_that_is_not_there_fails_q1_by_name(tmp_path: Path) -> None:
    verdict = await judged(tmp_path, answer="I created `src/login.py` with the form.")
    assert reasons(verdict)["Q1"] == "claimed file does not exist: src/login.py"


async def test_a_claimed_file_outside_the_workspace_fails_q1_even_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "out.py").write_text("x = 1\n")
    (tmp_path / "ws" / "link.py").symlink_to(tmp_path / "out.py")
    verdict = await judged(tmp_path / "ws", answer="I updated `../out.py` and I updated `link.py`.")
    assert reasons(verdict)["Q1"] == "claimed file is outside the workspace: ../out.py, link.py"


async def test_a_claimed_file_that_is_empty_or_unchanged_fails_q1(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    (tmp_path / "b.py").write_text("x = 1\n")
    verdict = await judged(tmp_path, answer="I created `a.py`. I updated `b.py`.")
    assert reasons(verdict)["Q1"] == "claimed file is empty: a.py, file claimed as changed is unchanged: b.py"


async def test_a_changed_file_named_by_its_last_part_is_found(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "login.py").write_text("x = 1\n")
    verdict = await judged(
        tmp_path, answer="I created login.py.", changes=Changes((changed("src/login.py", "x = 1\n"),))
    )
    assert verdict.judgment == "PASS"


@pytest.mark.parametrize(
    "answer", ["Renamed util.py to sizes.py.", "Moved `util.py` to `sizes.py`, new file: sizes.py"]
)
async def test_a_rename_done_right_may_be_told_by_both_names(tmp_path: Path, answer: str) -> None:
    (tmp_path / "sizes.py").write_text(SIZES)
    moved = (changed("sizes.py", SIZES), changed("util.py", None, SIZES))
    verdict = await judged(tmp_path, request="Rename util.py to sizes.py", answer=answer, changes=Changes(moved))
    assert verdict.judgment == "PASS"


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("I created `src/a.py` and updated tests/b.py.", ("src/a.py", "tests/b.py")),
        ("Files changed:\n- `a.go`: new handler\n- b/c.go", ("a.go", "b/c.go")),
        ("`a.py` を作成しました。", ("a.py",)),
        ("Read `a.py`; nothing was changed in b.py.", ()),
        ("You can create `a.py` yourself.", ()),
        ("I deleted `old.py`.", ()),
        ("Updated the docs, see https://example.com/x.html for more.", ()),
        ("Fixed it with Node.js 22; ran `python a.py`.", ()),
        ("> I created `a.py`.", ()),
        ('I wrote `docs/Release Notes.md` and "my notes.txt".', ("docs/Release Notes.md", "my notes.txt")),
        ("new file: src/x.py", ("src/x.py",)),
        ("I ran `python make all.py` and added `a.py`.", ("a.py",)),
    ],
)
def test_a_path_is_claimed_only_where_the_answer_says_it_did_something(answer: str, claims: tuple[str, ...]) -> None:
    assert claimed_paths(answer) == claims


UNTOUCHED = [
    "I fixed the bug.",
    "All done! Everything works now.",
    "Should I fix it?",
    "Which of the two pages do you mean, the one of the shop or the one of the office?",
    "To fix it, change `n // 2` to `n / 2`.",
    "The function is right; it rounds as documented.",
    "Here is the new version:\n\n```python\ndef half(n):\n    return n / 2\n```",
    "Nothing to change: half() returns 1.5 already, see line 12 of calc.py.",
    "バグを修正しました。",
    "Ich habe den Fehler behoben.",
]


@pytest.mark.parametrize("answer", UNTOUCHED)
async def test_a_change_that_left_everything_as_it_was_fails_q5_whatever_the_answer_says(
    tmp_path: Path, answer: str
) -> None:
    tests = PlannedCommand(kind="test", command="true", origin="given")
    verdict = await judged(tmp_path, request="half(3) is 2", answer=answer, commands=[tests])
    assert "Q5" in reasons(verdict)


async def test_a_question_needs_no_change(tmp_path: Path) -> None:
    asked = {"request": "What does src/app.py do?", "kind": "question"}
    assert (await judged(tmp_path, answer="It starts the server.", **asked)).judgment == "PASS"
    assert "Q5" in reasons(await judged(tmp_path, answer=" ", **asked))


async def test_that_nothing_is_to_be_changed_is_for_a_person_to_say(tmp_path: Path) -> None:
    answer = "No change is needed: the parser already handles empty input, see line 12."
    asked = await judged(tmp_path, request="Fix empty input in a.py", answer=answer)
    assert asked.judgment == "REJECT"
    assert asked.question is not None
    assert asked.question.by == "gate"


async def test_what_changed_under_the_state_directory_fails_q10_by_name(tmp_path: Path) -> None:
    verdict = await judged(tmp_path, changes=Changes((), (".pm-orchestrator/traces/x.jsonl",)))
    assert ".pm-orchestrator/traces/x.jsonl" in reasons(verdict)["Q10"]


async def test_failing_tests_are_named_with_their_last_lines(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_one():\n    assert 1 == 2\n")
    command = PlannedCommand(kind="test", command=PYTEST, origin="given")
    verdict = await judged(tmp_path, commands=[command])
    assert "test_a.py::test_one" in reasons(verdict)["Q7"]
    assert "1 failed" in reasons(verdict)["Q7"]


async def test_a_test_that_fails_once_and_then_passes_is_flaky_and_said_so(tmp_path: Path) -> None:
    command = PlannedCommand(kind="test", command="test -e seen || { touch seen; false; }", origin="given")
    verdict = await judged(tmp_path, commands=[command], changes=MADE)
    assert verdict.judgment == "PASS"
    assert any("flaky" in note for note in verdict.notes)


@pytest.mark.parametrize("origin", ["given", "configured", "detected"])
async def test_a_missing_tool_is_no_fault_of_the_answer_and_told_as_not_verified(tmp_path: Path, origin: str) -> None:
    command = PlannedCommand(kind="lint", command="no-such-linter .", origin=origin)  # type: ignore[arg-type]
    verdict = await judged(tmp_path, commands=[command], changes=MADE)
    assert verdict.judgment == "PASS"
    told = ("no-such-linter not found", "install it, or name another: --lint CMD")
    assert unverified(verdict) == {"Q8": told}


@pytest.mark.parametrize(
    ("command", "output", "tool"),
    [
        ("python -m pytest -q", "/usr/bin/python: No module named pytest\n", "pytest"),
        ("npm test", "> jest\n\nsh: 1: jest: not found\n", "jest"),
        ("npx --no-install eslint .", 'npm error npx canceled due to missing packages: ["eslint@9.1.0"]\n', "eslint"),
        ("npx nyc mocha", "npm error 404  The requested resource 'nyc@*' could not be found\n", "nyc"),
        ("npx tap", "npm ERR! 404  'tap@latest' is not in this registry.\n", "tap"),
        ("npx tap", "npm error network request to http://localhost:9/tap failed, reason: refused\n", "tap"),
        ("make test", "make: pytest: No such file or directory\nmake: *** [Makefile:2: test] Error 127\n", "pytest"),
        ("cargo clippy", "error: no such command: `clippy`\n\nhelp: view all\n", "clippy"),
        ("cargo clippy", "error: 'cargo-clippy' is not installed for the toolchain 'stable'.\n", "cargo-clippy"),
    ],
)
async def test_what_runs_a_missing_tool_in_its_turn_tells_which(
    tmp_path: Path, command: str, output: str, tool: str
) -> None:
    async def run(command: str, _workspace: Path, _limit: float) -> ProcessResult:
        return ProcessResult(kind="exit", exit_code=127 if "npm" in command else 1, output=output.encode())

    planned = PlannedCommand(kind="test", command=command, origin="detected")
    verdict = await judged(tmp_path, commands=[planned], run_check=run, changes=MADE)
    assert unverified(verdict)["Q7"][0] == f"{tool} not found"


async def test_a_script_of_the_workspace_that_is_gone_is_a_fault(tmp_path: Path) -> None:
    command = PlannedCommand(kind="test", command="./run-tests.sh", origin="given")
    assert "exited 127" in reasons(await judged(tmp_path, commands=[command]))["Q7"]


@pytest.mark.parametrize(
    ("command", "path"),
    [("python3 -m runall", "runall.py"), ("./t.sh", "t.sh"), ("sh tools/t.sh", "tools/t.sh"), ("t.sh -q", "t.sh")],
)
async def test_a_program_of_the_workspace_that_the_task_changed_cannot_tell_of_a_missing_tool(
    tmp_path: Path, command: str, path: str
) -> None:
    async def run(_command: str, _workspace: Path, _limit: float) -> ProcessResult:
        return ProcessResult(kind="exit", exit_code=127, output=b"tests: not found\n")

    planned = PlannedCommand(kind="test", command=command, origin="given")
    for after in (None, "echo tests: not found; exit 127\n"):
        changes = Changes((*MADE.files, changed(path, after, "assert 0\n")))
        verdict = await judged(tmp_path, commands=[planned], run_check=run, changes=changes)
        assert "exited 127" in reasons(verdict)["Q7"]
    assert unverified(await judged(tmp_path, commands=[planned], run_check=run, changes=MADE)).keys() == {"Q7"}


async def test_goalposts_moved_beside_a_check_that_could_not_run_still_fail_it(tmp_path: Path) -> None:
    command = PlannedCommand(kind="test", command="no-such-runner", origin="given")
    changes = Changes((changed("tests/test_x.py", None, TESTS),))
    verdict = await judged(tmp_path, commands=[command], changes=changes)
    assert "test file deleted" in reasons(verdict)["Q7"]


def make_venv(folder: Path, *programs: str) -> Path:
    """What is needed to be a virtual environment, with programs that succeed."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    for name in ("python", *programs):
        (folder / "bin" / name).write_text(f"#!/bin/sh\necho ran {name}\n")
        (folder / "bin" / name).chmod(0o755)
    return folder


async def test_the_projects_own_virtual_environment_is_used_in_a_trusted_folder(tmp_path: Path) -> None:
    make_venv(tmp_path / "other", "own-tests")
    venv = make_venv(tmp_path / ".venv", "own-tests")
    assert project_venv(tmp_path) == venv
    command = PlannedCommand(kind="test", command="own-tests", origin="detected")
    run_check = running_checks(environment=active_environment(venv))
    verdict = await judged(tmp_path, commands=[command], run_check=run_check)
    assert [result["outcome"] for result in verdict.criteria_results if result["id"] == "Q7"] == ["pass"]
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to(tmp_path / "gone")
    assert project_venv(tmp_path) == tmp_path / "other"


async def test_a_virtual_environment_that_is_not_in_use_is_why_its_tool_is_missing(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", "own-tests")
    command = PlannedCommand(kind="test", command="own-tests -q", origin="given")
    verdict = await judged(tmp_path, commands=[command], unused_venv=venv, changes=MADE)
    assert unverified(verdict) == {"Q7": ("venv is not active", "pm config trust")}


async def test_a_command_that_does_not_end_fails(tmp_path: Path) -> None:
    command = PlannedCommand(kind="test", command="sleep 30", origin="given")
    assert "stopped after" in reasons(await judged(tmp_path, commands=[command], timeout_s=0.3))["Q7"]


def test_a_selected_check_without_a_command_fails() -> None:
    criteria = criteria_in_force(selected=["Q7"])
    assert "Q7" in reasons(judge(Evidence(request="Say hi", answer="hi"), criteria))


@pytest.mark.parametrize(
    ("files", "kind", "command"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "test", "python -m pytest -q"),
        ({"test_a.py": "import unittest\n"}, "test", "python -m unittest discover"),
        ({"pyproject.toml": "[tool.ruff]\n"}, "lint", "ruff check ."),
        ({"mypy.ini": "[mypy]\n"}, "typecheck", "mypy ."),
        ({"package.json": '{"scripts": {"test": "jest"}}', "pnpm-lock.yaml": ""}, "test", "pnpm test"),
        ({"package.json": "{}", "tsconfig.json": "{}"}, "typecheck", "npx --no-install tsc --noEmit"),
        ({"Cargo.toml": ""}, "lint", "cargo clippy -- -D warnings"),
        ({"go.mod": ""}, "typecheck", "go vet ./..."),
        ({"Makefile": "test: build\n\ttrue\n"}, "test", "make test"),
    ],
)
def test_a_common_project_file_gives_its_command(
    tmp_path: Path, files: dict[str, str], kind: CommandKind, command: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    planned = {plan.kind: plan.command for plan in detect_commands(tmp_path, trusted=True)}
    assert planned[kind] == command
    untrusted = {plan.kind: plan for plan in detect_commands(tmp_path, trusted=False)}
    assert untrusted[kind].held_back == NOT_TRUSTED


async def test_what_is_found_in_a_folder_that_is_not_trusted_does_not_run_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("test:\n\ttouch ran\n")
    verdict = await judged(tmp_path, commands=detect_commands(tmp_path, trusted=False), changes=MADE)
    assert verdict.judgment == "PASS"
    assert unverified(verdict) == {"Q7": ("folder not trusted", "pm config trust")}
    assert not (tmp_path / "ran").exists()


async def test_tests_that_changed_where_no_command_is_in_force_are_told_and_reject_nothing(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("test:\n\ttouch ran\n")
    changes = Changes((*MADE.files, changed("tests/test_x.py", None, TESTS)))
    verdict = await judged(tmp_path, commands=detect_commands(tmp_path, trusted=False), changes=changes)
    assert verdict.judgment == "PASS"
    assert unverified(verdict)["Q7"][0].startswith("folder not trusted; test file deleted (test_a, test_b)")


def test_a_failure_is_never_told_as_not_verified() -> None:
    finding = Finding(passed=False, reason="broken", not_verified=NotVerified(why="why", next="next"))
    criterion = Criterion(id="T1", name="Team", check=lambda _evidence: finding)
    verdict = judge(Evidence(request="r", answer="a"), [criterion])
    assert verdict.judgment == "REJECT"
    assert verdict.criteria_results == (
        {"id": "T1", "name": "Team", "passed": False, "outcome": "fail", "reason": "broken"},
    )


def test_a_given_command_comes_before_a_configured_one() -> None:
    planned = plan_commands(given={"test": "a"}, configured={"test": "b", "lint": "c"})
    assert [(plan.command, plan.origin) for plan in planned] == [("a", "given"), ("c", "configured")]


PASSED = CommandResult(kind="test", command="t", origin="given", exit_code=0)
TESTS = "def test_a():\n    assert f() == 1\n    assert g() == 2\n\n\ndef test_b():\n    assert h()\n"


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (None, "test file deleted (test_a, test_b)"),
        ("def test_a():\n    assert f() == 1\n    assert g() == 2\n", "test 'test_b' deleted"),
        (TESTS.replace("def test_b", "@pytest.mark.skip\ndef test_b"), "tests skipped"),
        (TESTS.replace("    assert g() == 2\n", ""), "test 'test_a' weakened (1 assertion fewer)"),
        (TESTS.replace("assert h()", "assert True"), "test 'test_b' weakened (1 assertion fewer)"),
    ],
)
def test_tests_taken_back_fail_q7_unless_allowed_whatever_the_request_says(after: str | None, said: str) -> None:
    files = (changed("tests/test_x.py", after, TESTS),)
    evidence = Evidence(request="Make it faster", answer="Done.", files=files, commands=(PASSED,))
    assert said in reasons(verdict_on(evidence))["Q7"]
    worded = Evidence(request="Remove the obsolete tests", answer="Done.", files=files, commands=(PASSED,))
    assert said in reasons(verdict_on(worded))["Q7"]
    allowed = Evidence(request="Make it faster", answer="x", files=files, commands=(PASSED,), tests_policy="change")
    assert "Q7" not in reasons(verdict_on(allowed))


@pytest.mark.parametrize(("path", "before"), [("a.py", "A = 1\n"), ("a.py", None), ("tests/conftest.py", "A = 1\n")])
def test_a_changed_file_that_holds_no_tests_is_none_of_q7s_business(path: str, before: str | None) -> None:
    files = (changed(path, "A = 2\n", before),)
    verdict = verdict_on(Evidence(request="Change A", answer="Changed.", files=files, commands=(PASSED,)))
    assert "Q7" not in reasons(verdict)


def test_a_test_file_emptied_of_its_tests_fails_q7() -> None:
    files = (changed("tests/test_x.py", "A = 1\n", TESTS),)
    verdict = verdict_on(Evidence(request="Make it faster", answer="Done.", files=files, commands=(PASSED,)))
    assert "test_a" in reasons(verdict)["Q7"]
    assert "crashed" not in reasons(verdict)["Q7"]


def test_changed_settings_of_a_check_fail_it_by_name() -> None:
    files = (changed("pyproject.toml", "[tool.mypy]\nstrict = false\n", "[tool.mypy]\nstrict = true\n"),)
    result = CommandResult(kind="typecheck", command="mypy", origin="given", exit_code=0)
    evidence = Evidence(request="Add types", answer="Done.", files=files, commands=(result,))
    assert "tool.mypy" in reasons(verdict_on(evidence))["Q9"]


@pytest.mark.parametrize(
    ("path", "tests", "told"),
    [
        ("m.py", {"fixed": 0}, "no test shows the change"),
        ("m.py", {"new": 2, "idle": ("a", "b")}, "no test shows the change"),
        ("m.py", {"fixed": 1}, None),
        ("m.py", {"new": 2, "idle": ("a",)}, None),
        ("test_m.py", {}, None),
        ("README.md", {}, None),
    ],
)
def test_where_tests_are_required_one_has_to_show_the_change(path: str, tests: Any, told: str | None) -> None:
    suite = SuiteEvidence(command="t", passed=3, held=True, **tests)
    evidence = Evidence(request="r", answer="Done.", files=(changed(path, "A = 2\n", "A = 1\n"),), tests=suite)
    assert q7_test(evidence).not_verified is None
    found = q7_test(evidence._replace(require=("Q7",))).not_verified
    assert (found.why if found is not None else None) == told


@pytest.mark.parametrize(("files", "fixed"), [((), None), ((changed("m.py", "A = 2\n", "A = 1\n"),), 0)])
def test_where_nothing_changed_no_test_has_to_show_it(files: tuple[ChangedFile, ...], fixed: int | None) -> None:
    suite = SuiteEvidence(command="t", passed=3, held=True)
    told = verdict_on(Evidence(request="Why?", answer="So.", kind="question", files=files, tests=suite)).tests
    assert told is not None
    assert told["fixed"] == fixed


def test_failing_names_are_read_from_the_common_test_programs() -> None:
    output = "FAILED tests/a.py::test_x[1] - boom\n--- FAIL: TestY (0.00s)\ntest m::z ... FAILED\nFAIL: test_q (a.B)\n"
    assert set(failing_tests(output)) == {"tests/a.py::test_x[1]", "TestY", "m::z", "test_q (a.B)"}


def always_fails(evidence: Evidence) -> Finding:
    """Nothing is ever good enough."""
    return Finding(passed=False, reason=f"no: {evidence.answer}")


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group="pm_orchestrator.criteria")


def test_a_teams_function_is_in_force_and_one_that_cannot_be_loaded_verifies_nothing_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "team_rules", sys.modules[__name__])
    team = team_criteria([point("ACME1", "team_rules:always_fails"), point("ACME2", "no_such_module:x")])
    verdict = judge(Evidence(request="Say hi", answer="hi"), criteria_in_force(team=team))
    assert reasons(verdict)["ACME1"] == "no: hi"
    broken = verdict.criteria_results[-1]
    assert (broken["id"], broken["outcome"]) == ("ACME2", "not_verified")
    assert "could not be loaded (ModuleNotFoundError" in broken["why"]


def never_fails(_evidence: Evidence) -> Finding:
    """All is good enough."""
    return Finding(passed=True)


def test_one_id_is_one_criterion_and_two_that_claim_it_verify_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "team_rules", sys.modules[__name__])
    same, other = point("ACME1", "team_rules:always_fails"), point("ACME1", "team_rules:never_fails")
    assert [(one.id, one.name) for one in team_criteria([same, same])] == [("ACME1", "Nothing is ever good enough")]
    (broken,) = team_criteria([same, other])
    assert (broken.id, broken.name) == ("ACME1", "cannot be loaded")
    assert "two have the id ACME1; 'team_rules:never_fails' is one" in broken.explain


async def test_where_the_agent_gave_no_answer_a_command_that_is_there_is_not_said_to_be_missing(tmp_path: Path) -> None:
    planned = PlannedCommand(kind="test", command="true", origin="configured")
    evidence = await gather(
        request="x", answer="", workspace=tmp_path, changes=Changes(), error_kind="crash", commands=[planned]
    )
    finding = q7_test(evidence)
    assert finding.not_verified is not None
    assert finding.not_verified.why == "the agent gave no answer, so it was not run"


def test_every_built_in_criterion_explains_itself() -> None:
    assert all("Fix:" in criterion.explain for criterion in BUILT_IN)


async def test_check_judges_files_that_git_does_not_ignore_and_leaves_out_what_is_excluded(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("ignored/\n")
    for name in ("a.py", "ignored/b.py", "left/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# TODO: x\n")
    report = await check_paths(root=tmp_path, exclude=("left",))
    assert [issue["path"] for issue in report.verdict.issues] == ["a.py"]
    assert not report.passed


async def test_check_judges_an_answer_alone(tmp_path: Path) -> None:
    report = await check_paths(root=tmp_path, answer="The rest you will need to implement yourself.")
    assert reasons(report.verdict).keys() == {"Q6"}


async def test_check_names_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text("A = 1\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    report = await check_paths(root=tmp_path, paths=["a.py"])
    assert (report.files, report.unread) == (0, (("a.py", "Permission denied"),))


async def test_check_of_a_path_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"nowhere\.py"):
        await check_paths(root=tmp_path, paths=["nowhere.py"])


@pytest.mark.parametrize(
    ("path", "content", "judgment"),
    [
        ("a.py", b"(" * 20_000, "REJECT"),
        ("a.yaml", b"[" * 20_000 + b"]" * 20_000, "REJECT"),
        ("a.json", b"[" * 20_000 + b"]" * 20_000, "REJECT"),
        ("a.py", b"x = 1  # caf\xe9\n", "REJECT"),
        ("a.js", b"// \xff\xfe caf\xe9\nlet a = 1;\n", "PASS"),
        ("a.bin", bytes(range(256)) * 50, "PASS"),
        ("a.min.js", b"/*TODO*/var a=function(b){return b+1};" * 2000, "PASS"),
        ("big.py", b"x = 1\n" * 2_000_000, "PASS"),
    ],
)
def test_hostile_content_gets_a_plain_verdict(path: str, content: bytes, judgment: str) -> None:
    file = ChangedFile(path=path, before=None, after=content)
    assert verdict_on(Evidence(request="Add it", answer="Added.", files=(file,))).judgment == judgment


def test_a_file_that_changed_while_it_was_read_fails_q4() -> None:
    file = ChangedFile(path="a.py", before=None, after=b"x = 1\n", unstable=True)
    assert (
        "changed while it was read"
        in reasons(verdict_on(Evidence(request="Add it", answer="Added.", files=(file,))))["Q4"]
    )


@given(st.text(max_size=400), st.text(max_size=400))
def test_judging_never_raises_and_is_a_function_of_the_evidence(request: str, answer: str) -> None:
    first = verdict_on(Evidence(request=request, answer=answer))
    assert first == verdict_on(Evidence(request=request, answer=answer))
    assert first.judgment in {"PASS", "REJECT"}


@given(
    st.sampled_from(["a.py", "a.js", "a.go", "a.rs", "a.html", "a.md", "a.sh", "a.php", "a.yaml"]),
    st.binary(max_size=300),
)
def test_any_bytes_in_any_language_get_a_verdict(path: str, content: bytes) -> None:
    file = ChangedFile(path=path, before=b"", after=content)
    assert verdict_on(Evidence(request="Add it", answer="Added.", files=(file,))).judgment in {"PASS", "REJECT"}


@given(st.text(max_size=200))
def test_the_modification_prompt_ends_with_the_request_as_it_was(request: str) -> None:
    verdict = verdict_on(Evidence(request=request, answer=""))
    results, issues = map(CriterionResult, verdict.criteria_results), map(Issue, verdict.issues)
    prompt = modification_prompt(request=request, criteria_results=tuple(results), issues=tuple(issues))
    assert prompt.endswith(request)


def test_options_add_marks_and_allow_places() -> None:
    file = changed("a.py", "x = 1  # NOCOMMIT\ny = 2  # TODO(upstream): z\n")
    options = {"marks": ["NOCOMMIT"], "allow": [r"TODO\(upstream\)"]}
    evidence = Evidence(request="Add it", answer="Added.", files=(file,), options=options)
    assert reasons(verdict_on(evidence)) == {"Q2": "NOCOMMIT found at a.py:1"}


async def test_all_checks_together_take_no_longer_than_the_task_has_left(tmp_path: Path) -> None:
    commands = tuple(PlannedCommand(kind=kind, command="sleep 20", origin="given") for kind in ("test", "lint"))
    began = monotonic()
    verdict = await judged(tmp_path, changes=Changes((changed("a.py", "x = 1\n"),)), commands=commands, left_s=0.3)
    assert monotonic() - began < 10
    told = {one["id"]: one["why"] for one in verdict.criteria_results if one["outcome"] == "not_verified"}
    assert told == dict.fromkeys(("Q7", "Q8"), "no time was left for sleep 20")


async def test_a_check_that_cannot_be_put_on_record_is_told_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the state dir should be")
    with pytest.raises(RecordError, match="what is started"):
        await running_checks(state_dir=tmp_path / "state", task_id="task-001")("touch ran", tmp_path, 10.0)
    assert not (tmp_path / "ran").exists()


async def test_a_file_that_the_session_wrote_outside_the_workspace_is_harm_unless_it_is_named(tmp_path: Path) -> None:
    calls = [
        SessionCall(name="Write", text="/srv/other/app.py (3 lines)", ok=True),
        SessionCall(name="Edit", text="src/a.py (1 replacement)", ok=True),
        SessionCall(name="Write", text=f"{tmp_path}/b.py (3 lines)", ok=True),
        SessionCall(name="Write", text="/tmp/scratch.py (3 lines)", ok=True),
        SessionCall(name="Write", text="/root/.claude/plans/p.md (3 lines)", ok=True),
        SessionCall(name="Write", text="/srv/refused.py (3 lines)", ok=False),
        SessionCall(name="Read", text="/etc/passwd", ok=True),
    ]
    verdict = await judged(tmp_path, changes=MADE, session=tuple(calls))
    assert reasons(verdict)["Q10"] == "a file outside the workspace was written: /srv/other/app.py"
    named = await judged(tmp_path, changes=MADE, session=tuple(calls), request="Also change /srv/other/app.py")
    assert "Q10" not in reasons(named)
