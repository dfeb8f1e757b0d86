"""`pm run --review`: who reviews, what the user sees of it, and a kill while the reviewer is asked."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from repl.executor_choice import choose_reviewer
from tests.repl.scripts import GOOD, run_scripted, script
from tests.repl.support import command_line, environment, pm
from tracer.errors import UsageError
from tracer.settings.layers import load_settings

HI = {"output": "Done: greet() in hello.py", "files": {"hello.py": 'def greet() -> str:\n    return "hi"\n'}}


def said(verdict: str, quote: str, **more: Any) -> dict[str, Any]:
    item = {"requirement": "greet() says hi", "verdict": verdict, "path": "hello.py", "line": 2, "quote": quote}
    return {"output": json.dumps({"requirements": [item | {"reason": "so it says"}]}), "cost_usd": 0.02, **more}


def test_what_the_reviewer_shows_to_be_unmet_sends_the_agent_back(project: Path) -> None:
    replies = (GOOD | {"cost_usd": 0.01}, said("unmet", 'return "hello"'), HI | {"cost_usd": 0.01})
    ran = run_scripted(
        project, *replies, said("met", 'return "hi"'), words=("write hello.py", "--review", "scripted", "--json")
    )
    told = json.loads(ran.out)
    assert (ran.code, told["status"], told["cost_usd"]) == (0, "COMPLETE", 0.06)
    shown = pm("trace", "1", cwd=project).out
    assert "Q12: greet() says hi: so it says at hello.py:2" in shown
    assert "[task-001-review] (review asked for)" in shown
    assert pm("trace", "verify", "1", cwd=project).code == 0
    assert pm("diff", "1", "--iteration", "0", cwd=project).out.count("hello.py") > 0


def test_without_a_reviewer_or_a_usable_answer_the_review_is_told_as_not_verified(project: Path) -> None:
    for reviewer, why in (
        ("auto", "nobody but scripted is here to review"),
        ("scripted", "the script has no review left"),
    ):
        ran = run_scripted(project, HI, words=("write hello.py", "--review", reviewer, "--json"), PATH="")
        told = json.loads(ran.out)
        assert (ran.code, told["status"], told["verification"]) == (0, "COMPLETE", "not_verified")
        assert why in next(one["why"] for one in told["not_verified"] if one["criterion"] == "Q12")
        (project / "hello.py").unlink()


def test_a_kill_while_the_reviewer_is_asked_is_resumed_and_the_work_not_asked_for_again(project: Path) -> None:
    review = said("met", 'return "hi"')
    path = script(project, HI, review | {"delay_ms": 60_000})
    words = ("run", "--executor", "scripted", "--script", str(path), "write hello.py", "--review", "scripted")
    process = subprocess.Popen(
        command_line(*words), cwd=project, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    traces = project / ".pm-orchestrator" / "traces"
    deadline = time.monotonic() + 60
    while not any(b'"purpose":"review"' in one.read_bytes() for one in traces.glob("*.jsonl")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    script(project, HI, review)
    ran = pm("resume", "1", "--json", cwd=project)
    assert (ran.code, json.loads(ran.out)["status"]) == (0, "COMPLETE")
    (trace,) = traces.glob("*.jsonl")
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    asked = [one["data"].get("purpose", "work") for one in events if one["event"] == "LLM_REQUEST"]
    assert asked == ["work", "review", "review"]
    assert pm("trace", "verify", "1", cwd=project).code == 0


def choice(
    asked: str, folder: Path, *, found: tuple[str, ...] = (), workers: tuple[str, ...] = ("claude",), **more: Any
) -> Any:
    for name in found:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    environ = {"HOME": str(folder), "PATH": str(folder), **more}
    settings = load_settings(project=folder, environ=environ)
    model = environ.pop("MODEL", None)
    chosen = choose_reviewer(asked, settings=settings, environ=environ, workers=workers, model=model)
    return chosen and (chosen["executor"], chosen.get("model"))


@pytest.mark.parametrize(
    ("asked", "others", "expected"),
    [
        ("off", {}, None),
        ("codex", {}, ("codex", None)),
        ("codex:gpt-5.5", {}, ("codex", "gpt-5.5")),
        ("acp:mine", {}, ("acp:mine", None)),
        ("acp:mine:large:v2", {}, ("acp:mine", "large:v2")),
        ("auto", {"found": ("claude",)}, ("", None)),
        ("auto", {"found": ("claude", "codex")}, ("codex", None)),
        ("auto", {"found": ("claude", "codex"), "workers": ("claude", "codex")}, ("", None)),
        ("auto", {"found": ("claude", "gemini"), "ANTHROPIC_API_KEY": "sk-ant-x"}, ("gemini", None)),
        ("auto", {"found": ("claude",), "ANTHROPIC_API_KEY": "sk-ant-x"}, ("anthropic", None)),
        ("auto", {"found": ("claude",), "MODEL": "claude-sonnet-5-5"}, ("claude", "claude-fable-5-2")),
    ],
)
def test_who_reviews(asked: str, others: dict[str, Any], expected: object, tmp_path: Path) -> None:
    assert choice(asked, tmp_path, **others) == expected


def test_an_unknown_reviewer_is_a_usage_error_before_anything_is_spent(project: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nobody"):
        choice("nobody", tmp_path)
    assert run_scripted(project, HI, words=("write hello.py", "--review", "nobody")).code == 2
    assert not list((project / ".pm-orchestrator").glob("traces/*"))
