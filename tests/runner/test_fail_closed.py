"""Invariants 13 and 14: what could not be checked never counts as passed, and every door uses the one verdict.

Each input of the gate is broken in every way it can break; add a row where a new input comes in.
"""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from runner import judging
from runner.agent_report import read_report
from runner.checks.evidence import gather
from runner.core.request import Request
from runner.core.state import TaskState
from runner.core.steps import Judge
from runner.gate.criterion import ChangedFile, Evidence, Models, Verdict
from runner.gate.verdict import criteria_in_force, judge, verdict_of
from runner.processes.command import ProcessResult
from runner.workspace.changes import Changes
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
    from runner.checks.commands import PlannedCommand

    async def late(_command: str, _folder: Path, timeout_s: float) -> ProcessResult:
        return ProcessResult(kind="timeout", exit_code=None, signal=9, output=b"", duration_s=timeout_s)

    command = PlannedCommand(kind="test", command="pytest", origin="given")
    for left_s in (None, 0.0, -1.0):
        found = await gather(request="x", answer="Done.", workspace=tmp_path, changes=Changes(files=(MADE,), diff=b""),
                             commands=(command,), run_check=late, left_s=left_s)  # fmt: skip
        assert judge(found, criteria_in_force(commands=["test"])).judgment == "REJECT"


def test_invariant_13_no_findings_at_all_never_pass() -> None:
    assert verdict_of(evidence(), ()).judgment == "REJECT"


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one, lambda one: replace(one, files=()), lambda one: replace(one, status="TIMEOUT"),
        lambda one: replace(one, report=Report({"status": "partial"})),
        lambda one: replace(one, files=(ChangedFile(path="a.py", before=None, after=b"def f(:\n"),)),
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
