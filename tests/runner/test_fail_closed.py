"""Invariants 13 and 14: what could not be checked never counts as passed, and every door uses the one verdict.

Each input of the gate is broken in every way it can break; add a row where a new input comes in.
"""

from __future__ import annotations

import ast
import asyncio
import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from runner import judging
from runner.agent_report import read_report
from runner.checks.commands import PlannedCommand
from runner.checks.evidence import gather
from runner.checks.reports import CaseResult, CommandRun, TestReport
from runner.checks.trial import Trials
from runner.core.request import Request
from runner.core.state import TaskState
from runner.core.steps import Judge
from runner.gate.criterion import ChangedFile, Evidence, Finding, Models, NotVerified, Verdict
from runner.gate.evidence_criteria import q7_test
from runner.gate.verdict import criteria_in_force, judge, verdict_of
from runner.processes.command import ProcessResult
from runner.workspace.changes import Changes, ComparisonError
from runner.workspace.workspace import open_workspace
from tracer.blobs import DirectoryBlobs
from tracer.errors import RecordError
from tracer.facts import CheckChoice, ExecutorChoice, LlmResponse, Report

ROOT = Path(__file__).parents[2]
NO_MODELS = Mock(spec=Models)
MADE = ChangedFile(path="a.py", before=b"A = 1\n", after=b"A = 2\n")
CLAIM = {"status": "done", "commands": [{"run": "pytest", "exit": 0}]}


def evidence(**fields: Any) -> Evidence:
    return Evidence(**{"request": "a.py is wrong", "answer": "Done.", "files": (MADE,), **fields})


def verdict(**fields: Any) -> Verdict:
    return judge(evidence(**fields), criteria_in_force())


def test_the_row_that_all_faults_are_held_against_passes() -> None:
    assert verdict().judgment == "PASS"
    assert verdict(report=Report(CLAIM)).judgment == "PASS"


# Reports as they come over the wire: none of these may end well beside a tree that was not touched.
REPORTS = [
    "", "```pm-report\n", "```pm-report\n{\n```", '```pm-report\n{"status": "done"\n```', "```pm-report\nnull\n```",
    '```pm-report\n{"status": "done", "done": ["' + "x" * 100_000 + '"]}\n```', '```pm-report\n{"status": 1}\n```',
    '```pm-report\n{"status": "done", "files": ["a.py"], "left": []}\n```',
    '```pm-report\n{"status": "nothing_to_do"}\n```', '```pm-report\n{"status": "question", "question": "?"}\n```',
]  # fmt: skip


@pytest.mark.parametrize("block", REPORTS)
def test_invariant_13_no_report_whole_or_broken_makes_an_untouched_tree_pass(block: str) -> None:
    text = f"I fixed a.py and all tests pass.\n\n{block}"
    found = read_report(text)
    report = Report(found) if found is not None else None
    for kind_of_answer in (text, "", "Done.", "Done?"):
        assert verdict(answer=kind_of_answer, report=report, files=()).judgment != "PASS"


@pytest.mark.parametrize("status", ["question", "blocked", "partial"])
def test_invariant_13_a_report_that_is_not_done_never_passes_whatever_changed(status: str) -> None:
    assert verdict(report=Report({"status": status})).judgment == "REJECT"


@pytest.mark.parametrize("status", ["INCOMPLETE", "ERROR", "BLOCKED", "TIMEOUT"])
@pytest.mark.parametrize("error", [None, "crash", "network", "refusal", "replies"])
def test_invariant_13_an_answer_that_did_not_come_whole_never_passes(status: str, error: str | None) -> None:
    assert verdict(status=status, error_kind=error, report=Report(CLAIM)).judgment != "PASS"


@pytest.mark.parametrize("answer", ["", " \n", "```python\ndef f(:", "Done.\n\n```"])
def test_invariant_13_an_empty_or_cut_off_answer_never_passes(answer: str) -> None:
    assert verdict(answer=answer, files=()).judgment != "PASS"


def _trace(project: Path, content: bytes) -> str:
    path = project / "trace.jsonl"
    path.write_bytes(content)
    return path.name


META = json.dumps({"type": "meta", "ts": "2026-01-01T00:00:00", "label": "run:x"}).encode() + b"\n"
RAN = json.dumps({"type": "tool", "name": "Bash", "args_summary": "pytest", "status": "ok"}).encode() + b"\n"
OTHER = json.dumps({"type": "tool", "name": "Bash", "args_summary": "ls", "status": "ok"}).encode() + b"\n"


async def _judged(project: Path, trace: str | None, **response: Any) -> Verdict:
    """The verdict on a whole answer that claims a run of pytest, through the door of tasks."""
    data = {"output": "Done.", "status": "COMPLETE", "report": CLAIM, "agentic_trace": trace, **response}
    answer = LlmResponse("", "LLM_RESPONSE", "", "", data)
    choice = ExecutorChoice({"name": "claude"})
    request = Request(
        prompt="a.py is wrong", workspace=str(project), kind="change", executor=choice, checks=CheckChoice({})
    )
    (project / "a.py").write_bytes(MADE.after or b"")
    changes = Changes(files=(MADE,), diff=b"")
    step = Judge(0, answer, None)
    state_dir = project / ".pm-orchestrator"
    state = TaskState(request=request)
    return await judging.judge_answer(
        state, step, request=request, changes=changes, state_dir=state_dir, models=NO_MODELS
    )


@pytest.mark.parametrize(
    ("content", "result"),
    [
        (META + RAN, "PASS"), (META + OTHER, "REJECT"), (META, "REJECT"),
        # Nothing can be said: neither a finding, nor proof of anything that the gate would take for a check.
        (b"", "PASS"), (RAN, "PASS"), (META + OTHER + b"{torn", "PASS"), (b"\xff" * 1000, "PASS"), (None, "PASS"),
    ],
)  # fmt: skip
async def test_a_session_record_that_cannot_be_read_whole_is_no_finding(
    tmp_path: Path, content: bytes | None, result: str
) -> None:
    trace = "gone.jsonl" if content is None else _trace(tmp_path, content)
    assert (await _judged(tmp_path, trace)).judgment == result


@pytest.mark.parametrize(
    ("calls", "count", "resumed", "result"),
    [
        ([], 0, False, "REJECT"), ([], 0, True, "PASS"), ([], 1, False, "PASS"), (None, None, False, "PASS"),
        ([{"name": "run", "summary": "pytest -q", "ok": True}], 1, False, "PASS"),
        ([{"name": "run", "summary": "pytest", "ok": False}], 1, False, "REJECT"),
([7], 1, False, "PASS"),
    ],
)  # fmt: skip
async def test_the_calls_of_our_own_tools_are_a_session_record_where_they_are_whole(
    tmp_path: Path,
    calls: Any,
    count: int | None,
    resumed: bool,
    result: str,
) -> None:
    told = {"executor": "anthropic", "tool_calls": calls, "tool_call_count": count, "session_resumed": resumed}
    assert (await _judged(tmp_path, None, **told)).judgment == result


async def test_invariant_13_no_session_record_verifies_a_test_run(tmp_path: Path) -> None:
    """The claim that tests passed is no run of ours: Q7 is never `pass` because a session says so."""
    verdict = await _judged(tmp_path, _trace(tmp_path, META + RAN))
    assert not any(result["id"] == "Q7" and result["outcome"] == "pass" for result in verdict.criteria_results)


async def test_invariant_13_a_check_that_the_clock_ended_never_passes(tmp_path: Path) -> None:
    async def late(_command: str, _folder: Path, timeout_s: float) -> ProcessResult:
        return ProcessResult(kind="timeout", exit_code=None, signal=9, output=b"", duration_s=timeout_s)

    command = PlannedCommand(kind="test", command="pytest", origin="given")
    for left_s in (None, 0.0, -1.0):
        found = await gather(request="x", answer="Done.", workspace=tmp_path, changes=Changes(files=(MADE,), diff=b""),
                             commands=(command,), run_check=late, left_s=left_s)  # fmt: skip
        verdict = judge(found, criteria_in_force(commands=["test"]))
        told = next(result["outcome"] for result in verdict.criteria_results if result["id"] == "Q7")
        # What hangs is the agent's fault; that the task's own time is over is not.
        assert told == ("fail" if left_s is None else "not_verified")


BROKEN_GIT = {
    "missing": None, "fails": "exit 1", "killed": "kill -9 $$", "says nothing": "exit 0",
    "garbled": "head -c 3000 /dev/urandom", "truncated": '{git} "$@" | head -c 30',
    "oversized": "head -c 1000000 /dev/zero",
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN_GIT)
async def test_invariant_13_git_that_is_broken_after_the_answer_makes_nothing_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    project, programs = tmp_path / "project", tmp_path / "bin"
    state_dir = project / ".pm-orchestrator"
    for folder in (project, programs, state_dir):
        folder.mkdir()
    (project / "a.py").write_bytes(MADE.before or b"")
    for words in ("init -q", "add -A", "-c user.name=a -c user.email=a@b commit -qm start"):
        subprocess.run(["git", *words.split()], cwd=project, check=True)
    workspace = open_workspace(project, state_dir=state_dir, blobs=DirectoryBlobs(state_dir / "blobs"))
    base = await workspace.baseline("task-001/0")
    (project / "a.py").write_bytes(MADE.after or b"")
    if (line := BROKEN_GIT[fault]) is not None:
        (programs / "git").write_text("#!/bin/sh\n" + line.replace("{git}", shutil.which("git") or ""))
        (programs / "git").chmod(0o700)
    monkeypatch.setenv("PATH", str(programs) if line is None else f"{programs}:{os.environ['PATH']}")
    try:
        changes = await workspace.changes(base)
    except ComparisonError:
        return  # ends the task with the reason, without a verdict
    assert verdict(files=changes.files, harm=changes.harm, harm_unknown=changes.harm_unknown).judgment != "PASS"


def test_invariant_13_no_findings_at_all_never_pass() -> None:
    assert verdict_of(evidence(), ()).judgment == "REJECT"


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one, lambda one: one._replace(files=()), lambda one: one._replace(status="TIMEOUT"),
        lambda one: one._replace(report=Report({"status": "partial"})),
        lambda one: one._replace(files=(ChangedFile(path="a.py", before=None, after=b"def f(:\n"),)),
    ],
)  # fmt: skip
async def test_invariant_14_the_same_evidence_gets_the_same_verdict_from_every_door(
    change: Callable[[Evidence], Evidence],
) -> None:
    given = change(evidence())
    criteria = criteria_in_force()
    at_once, waiting = judge(given, criteria), await judging.judge_by(given, criteria, models=NO_MODELS)
    assert at_once == waiting
    assert judge(given, criteria) == at_once
    assert (await asyncio.gather(*(judging.judge_by(given, criteria, models=NO_MODELS) for _ in range(3)))) == [
        at_once
    ] * 3


def test_invariant_14_one_function_says_pass() -> None:
    """Whatever says PASS of work got it from `verdict_of`: no other product code makes a Verdict that could."""
    rooms = ("tracer", "runner", "collector", "service", "repl", "pm_orchestrator")
    paths = (path for room in rooms for path in sorted((ROOT / room).rglob("*.py")))
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    makers = [
        f"{name}:{function.name}"
        for name, text in texts.items()
        if "Verdict(" in text and "criterion import" in text
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and _makes_verdict(function)
    ]
    assert makers == ["runner/gate/verdict.py:verdict_of"]


def _makes_verdict(function: ast.AST) -> bool:
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == "Verdict" for call in calls)


PASSING = TestReport((CaseResult("t::old", "passed"),))
GREEN = CommandRun(command="t", exit_code=0, reading="read", report=PASSING, duration_s=0.1)
EDITED = ChangedFile(path="tests/test_a.py", before=b"assert A == 1\n", after=b"assert A\n")
FAULTY_RUNS: dict[str, CommandRun | BaseException] = {
    "report missing": replace(GREEN, reading="no_report", report=TestReport()),
    "report garbled": replace(GREEN, reading="unreadable", report=TestReport()),
    "report truncated": replace(GREEN, reading="partial", report=replace(PASSING, complete=False)),
    "report without the test": replace(GREEN, report=TestReport((CaseResult("t::other", "passed"),))),
    "report of nothing": replace(GREEN, reading="no_tests", report=TestReport()),
    "all skipped": replace(GREEN, reading="no_tests", report=TestReport((CaseResult("t::old", "skipped"),))),
    "killed": replace(GREEN, exit_code=None, reading="no_report", report=TestReport()),
    "killed after its report": replace(GREEN, exit_code=None),
    "clock": replace(GREEN, exit_code=None, timed_out=True, reading="no_report", report=TestReport()),
    "clock after its report": replace(GREEN, exit_code=None, timed_out=True),
    "tool gone": replace(GREEN, exit_code=127, reading="no_report", report=TestReport(), missing_tool="pytest"),
    "exit code thrown away": replace(GREEN, doubt=NotVerified(why="`|| true`", next="--test CMD")),
    "cannot be started": RecordError("cannot start 't'", why="no memory", next_step="free some"),
}


@dataclass
class _Source:
    """A workspace whose copies break as told; `left` good ones come first."""

    folder: Path
    fault: str | OSError = ""
    left: int = 0

    async def lay_out(self, base: str, folder: Path, *, changed: object) -> str:
        self.left -= 1
        if self.left < 0 and isinstance(self.fault, OSError):
            raise self.fault
        return self.fault if self.left < 0 and isinstance(self.fault, str) else ""


async def _weighed(
    source: _Source, files: tuple[ChangedFile, ...], *, before: CommandRun, after: CommandRun | BaseException
) -> Finding:
    runs = iter([before])

    async def run(_command: str, _copy: object, _limit_s: float) -> CommandRun:
        ran = next(runs, after)
        if isinstance(ran, BaseException):
            raise ran
        return ran

    trials = Trials(source, state_dir=source.folder / ".state", run=run)
    await trials.before("t", "base", limit_s=1)
    command = PlannedCommand(kind="test", command="t", origin="given")
    found = await trials.weigh(command, "base", files, policy="add", limit_s=lambda: 1.0)
    return q7_test(evidence(files=files, tests=found))


def _is_pass(finding: Finding) -> bool:
    return finding.passed and finding.not_verified is None


@pytest.mark.parametrize("files", [(MADE,), (MADE, EDITED)])
@pytest.mark.parametrize("fault", [None, *FAULTY_RUNS])
async def test_invariant_13_a_test_run_that_went_wrong_never_passes(
    tmp_path: Path, fault: str | None, files: tuple[ChangedFile, ...]
) -> None:
    after = GREEN if fault is None else FAULTY_RUNS[fault]
    try:
        finding = await _weighed(_Source(tmp_path), files, before=GREEN, after=after)
    except RecordError:
        assert fault == "cannot be started"  # ends the task with the reason, without a verdict
        return
    assert _is_pass(finding) == (fault is None)


DISK_FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("fault", ["it has submodules", DISK_FULL, OSError(errno.EIO, "Input/output error")])
@pytest.mark.parametrize("left", [0, 1, 2])
async def test_invariant_13_no_clean_copy_is_said_and_changed_tests_then_verify_nothing(
    tmp_path: Path, fault: str | OSError, left: int
) -> None:
    for files in ((MADE,), (MADE, EDITED)):
        finding = await _weighed(_Source(tmp_path, fault, left), files, before=GREEN, after=GREEN)
        made = left > len(files)  # the base run's copy, then one; two where tests are held against the old ones
        assert _is_pass(finding) == (made or files == (MADE,))
        assert made or "not isolated" in finding.reason or finding.not_verified is not None
