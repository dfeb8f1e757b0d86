"""`traced`: what an agent writes during a block or a call becomes a trace, and trouble with that ends nothing."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from pm_orchestrator import distill_session, traced
from tests.tracer.distill.support import SCENARIOS, unpack
from tracer.errors import UsageError

OURS = next(name for name in SCENARIOS if name.startswith("claude/"))


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An agent that writes a real session when it is run; `cwd` is the folder it says it worked in."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)

    class Agent:
        provider = OURS.split("/")[0]

        def run(self) -> Path:
            path = unpack(OURS, home).path
            text = path.read_text(encoding="utf-8")
            cwd = next(json.loads(line)["cwd"] for line in text.splitlines() if '"cwd"' in line)
            fresh = text.replace(cwd, str(tmp_path))
            moved = path.parent.with_name(str(tmp_path).replace("/", "-").replace("_", "-")) / path.name
            moved.parent.mkdir(parents=True, exist_ok=True)
            path.unlink()
            moved.write_text(fresh, encoding="utf-8")
            later = int(moved.stat().st_mtime) + 1
            os.utime(moved, (later, later))
            return moved

    return Agent()


def test_a_block_that_an_agent_ran_in_has_a_trace(agent: Any, tmp_path: Path) -> None:
    with traced("claude", label="sync:parser", project_root=tmp_path, output_dir=tmp_path / "traces") as run:
        run._since_ms = 0  # the session is an old recording
        agent.run()
        run.cost_usd = 1.75
    assert run.why_not == ""
    assert run.made is not None
    assert "_sync__parser_anthropic" in run.made.path.name
    assert (run.made.meta["success"], run.made.meta["cost_usd"]) == (True, 1.75)


def test_an_exception_is_told_and_goes_on_and_no_session_is_no_trouble(agent: Any, tmp_path: Path) -> None:
    told: list[traced] = []

    @traced(label="sync:parser", project_root=tmp_path, output_dir=tmp_path / "traces", done=told.append)
    def nothing() -> int:
        return 3

    @traced(label="sync:parser", project_root=tmp_path, output_dir=tmp_path / "traces", done=told.append)
    async def fails() -> None:
        told_now = agent.run()
        assert told_now.exists()
        raise ValueError("no")

    assert nothing() == 3
    assert told[0].made is None
    assert "no session was written" in told[0].why_not
    with pytest.raises(ValueError, match="no"):
        asyncio.run(fails())
    assert told[1].success is False


def test_no_trouble_with_a_trace_ends_the_run_or_hides_its_error(agent: Any, tmp_path: Path) -> None:
    told: list[traced] = []
    given: dict[str, Any] = {"label": "a:b", "project_root": tmp_path, "output_dir": tmp_path / "t"}

    def broken(_told: object) -> Any:
        raise RuntimeError("of the caller's own")

    unknown = traced(**given, outcome=lambda _: {"provider": "aider"}, done=told.append)
    assert unknown(lambda: agent.run() and 3)() == 3
    assert "no agent 'aider'" in told.pop().why_not
    assert traced(**given, outcome=broken, done=told.append)(lambda: 4)() == 4
    assert "of the caller's own" in told.pop().why_not
    assert traced(**given, outcome=lambda _: 7, done=broken)(lambda: 5)() == 5  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="mine"), traced("nope", **given):
        raise ValueError("mine")
    with traced("nope", **given) as run:
        pass
    assert "no agent 'nope'" in run.why_not
    with pytest.raises(UsageError, match="no agent 'foo'"):
        distill_session(provider="foo", project_root=tmp_path)  # type: ignore[arg-type]


def test_every_session_that_was_written_meanwhile_has_a_trace(agent: Any, tmp_path: Path) -> None:
    with traced(label="sync:parser", project_root=tmp_path, output_dir=tmp_path / "traces") as run:
        run._since_ms = 0
        first = agent.run()
        second = first.with_name("22222222-3333-4444-8555-666666666666.jsonl")
        second.write_text(first.read_text().replace(first.stem, second.stem))
        later = int(first.stat().st_mtime) + 5
        os.utime(second, (later, later))
        run.success, run.cost_usd = False, 1.75
    assert run.why_not == ""
    assert run.made is not None
    (other,) = run.others
    assert (run.made.meta["session_id"], other.meta["session_id"]) == (second.stem, first.stem)
    assert len(list((tmp_path / "traces").glob("trace_*.jsonl"))) == 2
    assert run.made.meta["success"] is False
    assert other.meta["success"] is True
    assert 1.75 not in {run.made.meta["cost_usd"], other.meta["cost_usd"]}, "what both cost"


def test_the_adapter_for_pdd_passes_its_result_on_and_names_the_trace_by_its_label(
    agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "pdd_traces.py"))
    monkeypatch.setattr("tracer.distill.traced.now_epoch_ms", lambda: 0)

    def run_agentic_task(instruction: str, cwd: Path, *, label: str = "", quiet: bool = False) -> tuple[Any, ...]:
        assert (instruction, label, quiet) == ("do", "fix:parser", True)
        agent.run()
        return False, "out", 0.25, "anthropic"

    result = adapter["with_trace"](run_agentic_task)("do", tmp_path, label="fix:parser", quiet=True)
    assert result == (False, "out", 0.25, "anthropic")
    (trace,) = (tmp_path / ".pdd" / "agentic-traces").glob("trace_*.jsonl")
    assert trace.name.split("_", 3)[3] == "fix__parser_anthropic.jsonl"
    meta = json.loads(trace.read_text().splitlines()[0])
    assert (meta["label"], meta["success"], meta["cost_usd"]) == ("fix:parser", False, 0.25)


def test_the_adapter_is_in_every_module_of_pdd_that_took_the_function_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    common, caller = types.ModuleType("pdd.agentic_common"), types.ModuleType("pdd.agentic_fix")

    def run_agentic_task() -> None: ...

    for module in (common, caller):
        monkeypatch.setattr(module, "run_agentic_task", run_agentic_task, raising=False)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "pdd", types.ModuleType("pdd"))
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "pdd_traces.py"))["install"]()
    assert common.run_agentic_task is caller.run_agentic_task is not run_agentic_task
