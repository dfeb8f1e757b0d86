"""The agentic trace that a task leaves: of this task, whatever else the agent's session holds."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.repl.support import command_line, environment, pm, pm_process
from tests.support import fake_agent
from tracer.clock import from_epoch_ms
from tracer.distill.stored import tell_success

SESSION = "11111111-2222-4333-8444-555555555555"
MODEL = "claude-sonnet-4-5-20250929"
HOUR_MS = 3_600_000


class Place:
    """A project, a home, and a stand-in for Claude Code that leaves a session file as the real one does."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.project = base / "shop"
        self.project.mkdir()
        self.home = base / "home"
        slug = str(self.project.resolve()).replace("/", "-").replace("_", "-")
        self.native = self.home / ".claude" / "projects" / slug / f"{SESSION}.jsonl"
        self.native.parent.mkdir(parents=True)
        self.now_ms = int(time.time() * 1000)

    def turn(self, number: int, at_ms: int, prompt: str, thought: str, tokens: int) -> list[dict[str, Any]]:
        """What one question adds to the session file."""
        base = {"sessionId": SESSION, "cwd": str(self.project), "version": "2.1.329", "isSidechain": False}
        asked = {"role": "user", "content": prompt}
        block = {"type": "thinking", "thinking": thought, "signature": "x"}
        usage = {"input_tokens": tokens, "output_tokens": tokens // 10}
        reply = {"id": f"msg_{number}", "role": "assistant", "model": MODEL, "content": [block], "usage": usage}
        begun, ended = from_epoch_ms(at_ms), from_epoch_ms(at_ms + 1000)
        return [
            {**base, "type": "user", "uuid": f"u{number}", "timestamp": begun, "message": asked},
            {
                **base,
                "type": "assistant",
                "uuid": f"a{number}",
                "timestamp": ended,
                "message": {**reply, "stop_reason": "end_turn"},
            },
        ]

    def run(
        self,
        *turns: list[dict[str, Any]],
        before: list[dict[str, Any]] | None = None,
        dies: bool = False,
        prompt: str = "calc.py must halve",
        rejected: bool = False,
    ) -> tuple[int, str]:
        """`pm run` whose agent answers once with a mark left in and then without; the session grows by a turn each.

        Where it `dies`, it is killed before its first result.
        """
        held = list(before or [])
        if held:
            self.native.write_text(_lines(held))
        plays = []
        for number, turn in enumerate(turns):
            held += turn
            last = number == len(turns) - 1 and not rejected
            content = "def half(x):\n    return x / 2\n" if last else "def half(x):\n    # TODO: finish\n    return x\n"
            told = {
                "type": "result",
                "subtype": "success",
                "is_error": False,
                "result": "calc.py halves.",
                "stop_reason": "end_turn",
                "session_id": SESSION,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
            plays.append(
                [
                    {"line": {"type": "system", "subtype": "init", "session_id": SESSION, "model": MODEL}},
                    {"files": {str(self.project / "calc.py"): content, str(self.native): _lines(held)}},
                    {"signal": 9} if dies and number == 0 else {"line": told},
                ]
            )
        package = "@anthropic-ai/claude-code"
        program = fake_agent.install(self.base, "claude", *plays, version="2.1.329", package=package)
        config = self.base / "config.toml"
        config.write_text(f'[executors]\nclaude = "{program}"\n')
        words = ("run", prompt, "--executor", "claude", "--permissions", "full", "--kind", "change")
        environ = {"HOME": str(self.home), "ANTHROPIC_API_KEY": "sk-ant-test-0123456789"}
        ran = pm(
            *words,
            "--max-iterations",
            str(len(turns)) if rejected else "3",
            "--config",
            str(config),
            cwd=self.project,
            **environ,
        )
        return ran.code, ran.out + ran.err

    def facts(self) -> list[dict[str, Any]]:
        (trace,) = (self.project / ".pm-orchestrator").rglob("conversation*.jsonl")
        return [json.loads(line) for line in trace.read_text().splitlines()]

    def answers(self) -> list[dict[str, Any]]:
        return [fact["data"] for fact in self.facts() if fact["event"] == "LLM_RESPONSE"]

    def trace(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.project / name).read_text().splitlines()]


def _lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_session_continued_over_two_iterations_is_one_trace_with_the_tasks_totals(place: Place) -> None:
    first = place.turn(1, place.now_ms + HOUR_MS, "calc.py must halve", "Write it.", 100)
    second = place.turn(2, place.now_ms + 2 * HOUR_MS, "Finish it.", "Mend it.", 200)
    code, told = place.run(first, second)
    assert code == 0, told
    one, two = place.answers()
    assert one["agentic_trace"] == two["agentic_trace"]
    meta, *lines = place.trace(two["agentic_trace"])
    assert meta["tokens"] == {"input": 300, "output": 30, "cached": None, "thinking": None}
    assert [line["text"] for line in lines if line["type"] == "thought"] == ["Write it.", "Mend it."]
    assert "since" not in meta["source"]


def test_what_the_session_held_before_the_task_is_not_the_tasks(place: Place) -> None:
    before = place.turn(0, place.now_ms - HOUR_MS, "Something else.", "An older thought.", 5000)
    first = place.turn(1, place.now_ms + HOUR_MS, "calc.py must halve", "Write it.", 100)
    second = place.turn(2, place.now_ms + 2 * HOUR_MS, "Finish it.", "Mend it.", 200)
    code, told = place.run(first, second, before=before)
    assert code == 0, told
    one, two = place.answers()
    assert one["agentic_trace"] == two["agentic_trace"]
    meta, *lines = place.trace(two["agentic_trace"])
    assert meta["tokens"]["input"] == 300
    assert meta["duration_sec"] == 3601.0
    assert meta["thoughts"]["full"] == 2
    assert meta["source"]["since"] >= from_epoch_ms(place.now_ms)
    assert [line["text"] for line in lines if line["type"] == "thought"] == ["Write it.", "Mend it."]
    assert "An older thought." not in json.dumps(lines)
    assert "Something else." not in json.dumps(lines)


def test_an_agent_that_is_killed_leaves_a_trace_that_says_so(place: Place) -> None:
    first = place.turn(1, place.now_ms + HOUR_MS, "calc.py must halve", "Write it.", 100)
    second = place.turn(2, place.now_ms + 2 * HOUR_MS, "Finish it.", "Mend it.", 200)
    code, told = place.run(first, second, dies=True)
    assert code == 0, told
    events = [fact["event"] for fact in place.facts()]
    assert events[events.index("LLM_REQUEST") + 1] == "SESSION_STARTED", "known before the program begins"
    one, two = place.answers()
    assert (one["status"], one["session_ref"]) == ("ERROR", f"claude:{SESSION}")
    assert one["agentic_trace"] == two["agentic_trace"]
    meta, *_lines = place.trace(two["agentic_trace"])
    assert (meta["success"], meta["thoughts"]["full"]) == (True, 2)


def distilled_again(place: Place, *words: str) -> None:
    again = pm("distill", *words, cwd=place.project, HOME=str(place.home))
    assert again.code == 0, again.err


def test_distilling_a_tasks_session_again_keeps_the_persons_prompt_and_what_pm_judged(place: Place) -> None:
    first = place.turn(1, place.now_ms + HOUR_MS, "RULES\ncalc.py must halve", "Write it.", 100)
    second = place.turn(2, place.now_ms + 2 * HOUR_MS, "Finish it.", "Mend it.", 200)
    (place.project / "p.txt").write_text("calc.py must halve")
    code, told = place.run(first, second, prompt="@p.txt")
    assert code == 0, told
    name = place.answers()[0]["agentic_trace"]
    before = place.trace(name)
    assert before[0]["prompt_file"] == "p.txt"
    assert before[0]["sent_prompt_sha256"] not in {None, before[0]["prompt_sha256"]}
    distilled_again(place, "--all")
    assert place.trace(name) == before
    distilled_again(place, "--session", SESSION)
    assert place.trace(name) == before


def test_a_relabelled_trace_is_found_by_the_name_that_its_task_knows(place: Place) -> None:
    first = place.turn(1, place.now_ms + HOUR_MS, "calc.py must halve", "Write it, zanzibar.", 100)
    code, told = place.run(first)
    assert code == 0, told
    old = place.answers()[0]["agentic_trace"]
    for label in ("new:x", "newer:y"):
        distilled_again(place, "--session", SESSION, "--label", label)
    assert not (place.project / old).exists()
    for name in (old, Path(old).name):
        shown = pm("sessions", "show", name, cwd=place.project)
        assert shown.code == 0, shown.err
        assert "newer" in shown.out
    exported = json.loads(pm("export", "1", "--format", "json", "-o", "-", cwd=place.project).out)
    (linked,) = {entry["data"]["agentic_trace"] for entry in exported["entries"] if entry["event"] == "LLM_RESPONSE"}
    assert (place.project / linked).is_file()
    assert "task-001" in pm("tasks", "zanzibar", cwd=place.project).out


def test_a_rejected_tasks_trace_says_that_it_did_not_succeed(place: Place) -> None:
    first = place.turn(1, place.now_ms + HOUR_MS, "calc.py must halve", "Write it.", 100)
    code, told = place.run(first, rejected=True)
    assert code == 6, told
    (answer,) = place.answers()
    meta, *lines = place.trace(answer["agentic_trace"])
    assert (answer["status"], meta["success"], len(lines)) == ("COMPLETE", False, 1)
    assert answer["agentic_trace"].rpartition("/")[2] in pm("sessions", "find", "--failed", cwd=place.project).out
    distilled_again(place, "--all")
    assert place.trace(answer["agentic_trace"])[0] == meta


def test_a_task_that_is_killed_before_its_end_is_recorded_tells_its_trace_when_it_is_resumed(place: Place) -> None:
    first = place.turn(1, place.now_ms + HOUR_MS, "calc.py must halve", "Write it.", 100)
    place.run(first, rejected=True)
    (answer,) = place.answers()
    (record,) = (place.project / ".pm-orchestrator").rglob("conversation*.jsonl")
    *lines, end = record.read_bytes().splitlines(keepends=True)
    assert b"FINAL_SUMMARY" in end
    record.write_bytes(b"".join(lines))
    record.with_name(f"{record.name}.chain").unlink()
    assert tell_success(place.project / answer["agentic_trace"], success=True)
    given = {"HOME": str(place.home), "ANTHROPIC_API_KEY": "sk-ant-test-0123456789"}
    resumed = pm("resume", "1", "--config", str(place.base / "config.toml"), cwd=place.project, **given)
    assert resumed.code == 6, resumed.err
    assert place.trace(answer["agentic_trace"])[0]["success"] is False


def test_the_cost_of_a_trace_holds_what_a_killed_pm_spent_in_its_session(place: Place) -> None:
    first = place.turn(1, place.now_ms + HOUR_MS, "calc.py must halve", "Write it.", 1000)
    second = place.turn(2, place.now_ms + 2 * HOUR_MS, "Finish it.", "Mend it.", 2000)
    state = {"type": "cost-state", "sessionId": SESSION, "totalCostUSD": 0.0105}  # begun anew by the kill
    init = {"line": {"type": "system", "subtype": "init", "session_id": SESSION, "model": MODEL}}
    told = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "calc.py halves.",
        "total_cost_usd": 0.0105,
    }
    told |= {"stop_reason": "end_turn", "session_id": SESSION, "usage": {"input_tokens": 2000, "output_tokens": 200}}
    done = {str(place.project / "calc.py"): "def half(x):\n    return x / 2\n"}
    plays: list[list[dict[str, Any]]] = [
        [init, {"files": {str(place.native): _lines(first), str(place.base / "began"): ""}}, {"sleep": 60}],
        [init, {"files": {**done, str(place.native): _lines([*first, *second, state])}}, {"line": told}],
    ]
    program = fake_agent.install(place.base, "claude", *plays, version="2.1.329", package="@anthropic-ai/claude-code")
    config = place.base / "config.toml"
    config.write_text(f'[executors]\nclaude = "{program}"\n')
    given = {"HOME": str(place.home), "ANTHROPIC_API_KEY": "sk-ant-test-0123456789"}
    words = ("run", "calc.py must halve", "--executor", "claude", "--permissions", "full", "--kind", "change")
    running = subprocess.Popen(
        command_line(*words, "--no-input", "--config", str(config)),
        cwd=place.project,
        env=environment(**given),
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            if (place.base / "began").exists():
                break
            time.sleep(0.05)
    finally:
        running.kill()
        running.wait()
    resumed = pm_process("resume", "1", "--config", str(config), cwd=place.project, **given)
    assert resumed.code == 0, resumed.err
    (killed,) = (fact["data"] for fact in place.facts() if fact["event"] == "SESSION_INTERRUPTED")
    (answer,) = place.answers()
    meta, *_ = place.trace(answer["agentic_trace"])
    assert killed["cost_usd"] > 0
    assert meta["cost_usd"] == pytest.approx(killed["cost_usd"] + 0.0105)
    assert meta["tokens"]["input"] == 3000


def test_a_compared_task_has_the_thoughts_of_its_agents_session_and_tells_none_without_one(place: Place) -> None:
    first = place.turn(1, place.now_ms + HOUR_MS, "calc.py must halve", "Write it.", 100)
    second = place.turn(2, place.now_ms + 2 * HOUR_MS, "Finish it.", "Mend it.", 200)
    code, told = place.run(first, second)
    assert code == 0, told

    def thoughts() -> list[Any]:
        compared = json.loads(pm("compare", "1", "1", "--json", cwd=place.project).out)
        return [row["a"]["median"] for row in compared["measures"] if row["measure"] == "thoughts"]

    assert thoughts() == [2]
    (place.project / place.answers()[0]["agentic_trace"]).unlink()
    assert thoughts() == []
