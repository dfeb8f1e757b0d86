"""One rig per executor: the same neutral play, told in each one's own wire format by a stand-in at the far end.

A play is a list of steps: ("think", text), ("say", text), ("edit", name, content), ("bad_edit", name), ("command",
exit code), ("usage", input, output), ("wait", seconds), ("child", seconds), ("garbage", text), ("fill", bytes), and at
most one end: ("refuse",), ("auth",), ("rate_limit",), ("overloaded",), ("cut",), ("lie",); without one it is success.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.executors.executor_port import Executor, ExecutorSettings
from runner.executors.registry import make_executor
from tests.support import fake_agent
from tests.support.model_server import Call, ModelServer, Turn, counts

__all__ = ["RIGS", "Rig"]

Play = Sequence[tuple[Any, ...]]
_ENDS = {"refuse", "auth", "rate_limit", "overloaded", "cut", "lie"}


class Rig:
    """`executor(play, …)` is ready to be asked; `prompts()` is what the far end was given."""

    name = ""

    def __init__(self, project: Path, folder: Path) -> None:
        self.project = project
        self.folder = folder
        self.state_dir = project / ".pm-orchestrator"
        self.home = folder / "home"
        self.home.mkdir(parents=True)

    def environ(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.keys()}

    def keys(self) -> dict[str, str]:
        return {}

    def settings(self, **fields: Any) -> ExecutorSettings:
        return ExecutorSettings(**{"environ": self.environ(), "state_dir": self.state_dir, **fields})

    def executor(self, *plays: Play, **fields: Any) -> Executor:
        raise NotImplementedError

    def prompts(self) -> list[str]:
        raise NotImplementedError

    def child(self) -> int:
        """The process id of the play's `child`, once it runs."""
        path = self.child_file()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if path.exists() and path.read_text().strip():
                return int(path.read_text())
            time.sleep(0.02)
        raise AssertionError("the child was never started")

    def child_file(self) -> Path:
        raise NotImplementedError

    def close(self) -> None:
        pass


class AnthropicRig(Rig):
    name = "anthropic"
    server: ModelServer | None = None

    def keys(self) -> dict[str, str]:
        return {"ANTHROPIC_API_KEY": "sk-ant-test-0123456789"}

    def executor(self, *plays: Play, **fields: Any) -> Executor:
        turns = [turn for play in plays for turn in self._turns(play)]
        self.server = ModelServer(turns)
        self.server.__enter__()
        return make_executor("anthropic", self.settings(base_url=self.server.url, **fields))

    def _turns(self, play: Play) -> list[Turn]:
        thinking, text, calls, usage, delay = "", "", [], counts(), 0.0
        turns: list[Turn] = []
        for kind, *values in play:
            match kind:
                case "think":
                    thinking += values[0]
                case "say":
                    text = values[0]
                case "edit":
                    calls.append(Call("write", {"path": values[0], "content": values[1]}))
                case "bad_edit":
                    calls.append(Call("edit", {"path": values[0], "old_text": "absent", "new_text": "x"}))
                case "command":
                    calls.append(Call("run", {"command": f"exit {values[0]}"}))
                case "child":
                    command = f"sleep {values[0]} & echo $! > {self.child_file()}; wait"
                    calls.append(Call("run", {"command": command}))
                case "fill":
                    calls.append(Call("run", {"command": f"head -c {values[0]} /dev/zero | tr '\\0' x"}))
                case "usage":
                    usage = counts(*values)
                case "wait":
                    delay = values[0]
        if calls:
            turns.append(Turn(thinking=thinking, calls=calls, usage=usage))
            thinking = ""
        end = next((step[0] for step in play if step[0] in _ENDS), None)
        failures = {
            "refuse": Turn(refusal="not that"),
            "auth": Turn(status=401, error_type="authentication_error"),
            "rate_limit": Turn(status=429, error_type="rate_limit_error", headers={"retry-after": "7"}),
            "overloaded": Turn(status=529, error_type="overloaded_error"),
            "cut": Turn(text=text or "half of it", cut=True),
        }
        last = failures.get(str(end)) or Turn(
            thinking=thinking, text=text, usage=counts(0, 0) if calls else usage, delay_s=delay
        )
        return [*turns, last]

    def prompts(self) -> list[str]:
        assert self.server is not None
        firsts = [r.body["messages"] for r in self.server.requests]
        return [m[-1]["content"] for m in firsts if isinstance(m[-1]["content"], str)]

    def child_file(self) -> Path:
        return self.project / "child.pid"

    def close(self) -> None:
        if self.server is not None:
            self.server.__exit__(None, None, None)


class CommandLineRig(Rig):
    package = ""
    version = ""
    program: Path

    def executor(self, *plays: Play, **fields: Any) -> Executor:
        steps = [self._steps(play) for play in plays]
        self.program = fake_agent.install(self.folder, self.name, *steps, version=self.version, package=self.package)
        return make_executor(self.name, self.settings(programs={self.name: str(self.program)}, **fields))

    def prompts(self) -> list[str]:
        return [start["stdin"] for start in fake_agent.seen(self.program)]

    def starts(self) -> list[dict[str, Any]]:
        return fake_agent.seen(self.program)

    def child_file(self) -> Path:
        return Path(f"{self.program}.child")

    def _steps(self, play: Play) -> list[dict[str, Any]]:
        steps = [*self.begin()]
        usage = (100, 20)
        text = ""
        end = ""
        for number, (kind, *values) in enumerate(play):
            match kind:
                case "edit":
                    steps.append({"files": {values[0]: values[1]}})
                    steps += self.edit(f"call-{number}", str(self.project / values[0]), ok=True)
                case "bad_edit":
                    steps += self.edit(f"call-{number}", str(self.project / values[0]), ok=False)
                case "command":
                    steps += self.command(f"call-{number}", values[0])
                case "say":
                    text = values[0]
                    steps += self.say(text)
                case "think":
                    steps += self.think(values[0])
                case "usage":
                    usage = values[0], values[1]
                case "wait":
                    steps.append({"sleep": values[0]})
                case "garbage":
                    steps.append({"raw": values[0] + "\n"})
                case "child" | "fill":
                    steps.append({kind: values[0]})
                case _:
                    end = kind
        if any(step[0] == "child" for step in play):
            steps.append({"sleep": 600})
        return [*steps, *self.end(end, text, usage)]

    def begin(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def say(self, text: str) -> list[dict[str, Any]]:
        raise NotImplementedError

    def think(self, text: str) -> list[dict[str, Any]]:
        raise NotImplementedError

    def edit(self, call: str, path: str, *, ok: bool) -> list[dict[str, Any]]:
        raise NotImplementedError

    def command(self, call: str, code: int) -> list[dict[str, Any]]:
        raise NotImplementedError

    def end(self, how: str, text: str, usage: tuple[int, int]) -> list[dict[str, Any]]:
        raise NotImplementedError


def _line(**fields: Any) -> dict[str, Any]:
    return {"line": fields}


class ClaudeRig(CommandLineRig):
    name = "claude"
    package = "@anthropic-ai/claude-code"
    version = "2.1.329"
    session = "11111111-2222-4333-8444-555555555555"

    def keys(self) -> dict[str, str]:
        return {"ANTHROPIC_API_KEY": "sk-ant-test-0123456789"}

    def begin(self) -> list[dict[str, Any]]:
        return [_line(type="system", subtype="init", session_id=self.session, model="claude-sonnet-4-5-20250929")]

    def _block(self, **block: Any) -> dict[str, Any]:
        message = {"id": "msg_1", "model": "claude-sonnet-4-5-20250929", "content": [block], "usage": {}}
        return _line(type="assistant", session_id=self.session, message=message)

    def say(self, text: str) -> list[dict[str, Any]]:
        return [self._block(type="text", text=text)]

    def think(self, text: str) -> list[dict[str, Any]]:
        return [self._block(type="thinking", thinking=text, signature="x")]

    def _call(self, call: str, name: str, arguments: dict[str, Any], *, ok: bool) -> list[dict[str, Any]]:
        result = {"type": "tool_result", "tool_use_id": call, "content": "…", "is_error": not ok}
        return [
            self._block(type="tool_use", id=call, name=name, input=arguments),
            _line(type="user", message={"role": "user", "content": [result]}),
        ]

    def edit(self, call: str, path: str, *, ok: bool) -> list[dict[str, Any]]:
        return self._call(call, "Edit", {"file_path": path}, ok=ok)

    def command(self, call: str, code: int) -> list[dict[str, Any]]:
        return self._call(call, "Bash", {"command": f"exit {code}"}, ok=code == 0)

    def end(self, how: str, text: str, usage: tuple[int, int]) -> list[dict[str, Any]]:
        result: dict[str, Any] = {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "result": text,
            "stop_reason": "end_turn",
            "total_cost_usd": (usage[0] * 3 + usage[1] * 15) / 1e6,
            "usage": {"input_tokens": usage[0], "output_tokens": usage[1]},
        }
        retry = _line(type="system", subtype="api_retry", retry_delay_ms=7000, error_status=429, error="rate_limit")
        match how:
            case "cut":
                return [{"exit": 0}]
            case "lie":
                return [{"line": result}, {"exit": 1}]
            case "refuse":
                return [{"line": {**result, "stop_reason": "refusal", "result": ""}}]
            case "":
                return [{"line": result}]
        status = {"auth": 401, "rate_limit": 429, "overloaded": 529}[how]
        failed = {**result, "is_error": True, "api_error_status": status, "result": f"API Error: {status}", "usage": {}}
        return [*([retry] if how == "rate_limit" else []), {"line": failed}, {"exit": 1}]


class CodexRig(CommandLineRig):
    name = "codex"
    package = "@openai/codex"
    version = "0.169.0"

    def keys(self) -> dict[str, str]:
        return {"OPENAI_API_KEY": "sk-test-0123456789"}

    def settings(self, **fields: Any) -> ExecutorSettings:
        # The stand-in has no sandbox of its own to try.
        note = self.state_dir / "control" / f"sandbox-codex-{self.version}.json"
        program = self.program
        note.parent.mkdir(parents=True, exist_ok=True)
        status = program.stat()
        identity = [str(program), status.st_mtime_ns, status.st_size, str(self.home)]
        note.write_text(json.dumps({"of": identity, "works": True, "why": ""}))
        return super().settings(**fields)

    def begin(self) -> list[dict[str, Any]]:
        return [_line(type="thread.started", thread_id="01a1-thread"), _line(type="turn.started")]

    def _item(self, **item: Any) -> dict[str, Any]:
        return _line(type="item.completed", item=item)

    def say(self, text: str) -> list[dict[str, Any]]:
        return [self._item(type="agent_message", text=text)]

    def think(self, text: str) -> list[dict[str, Any]]:
        return [self._item(type="reasoning", text=text)]

    def edit(self, call: str, path: str, *, ok: bool) -> list[dict[str, Any]]:
        changes = [{"path": path, "kind": "update"}]
        status = "completed" if ok else "failed"
        started = _line(type="item.started", item={"id": call, "type": "file_change", "changes": changes})
        return [started, self._item(id=call, type="file_change", changes=changes, status=status)]

    def command(self, call: str, code: int) -> list[dict[str, Any]]:
        status = "completed" if code == 0 else "failed"
        started = _line(type="item.started", item={"id": call, "type": "command_execution", "command": f"exit {code}"})
        done = self._item(id=call, type="command_execution", command=f"exit {code}", exit_code=code, status=status)
        return [started, done]

    def end(self, how: str, text: str, usage: tuple[int, int]) -> list[dict[str, Any]]:
        done = _line(type="turn.completed", usage={"input_tokens": usage[0], "output_tokens": usage[1]})
        match how:
            case "cut":
                return [{"exit": 0}]
            case "lie":
                return [done, {"exit": 1}]
            case "":
                return [done]
        told = {
            "auth": "unexpected status 401 Unauthorized: Incorrect API key",
            "rate_limit": "rate limit exceeded: Rate limit reached. Please try again in 7s",
            "overloaded": "unexpected status 503 Service Unavailable: busy",
            "refuse": "the request was refused under the usage policy",
        }[how]
        return [_line(type="error", message=told), _line(type="turn.failed", error={"message": told}), {"exit": 1}]


class GeminiRig(CommandLineRig):
    name = "gemini"
    package = "@google/gemini-cli"
    version = "0.61.0"

    def keys(self) -> dict[str, str]:
        return {"GEMINI_API_KEY": "test-0123456789"}

    def begin(self) -> list[dict[str, Any]]:
        return [_line(type="init", session_id="aaaabbbb-1111-4222-8333-444455556666", model="gemini-2.5-pro")]

    def say(self, text: str) -> list[dict[str, Any]]:
        half = len(text) // 2
        return [
            _line(type="message", role="assistant", content=piece, delta=True) for piece in (text[:half], text[half:])
        ]

    def think(self, text: str) -> list[dict[str, Any]]:
        return []

    def _call(self, call: str, name: str, arguments: dict[str, Any], *, ok: bool) -> list[dict[str, Any]]:
        return [
            _line(type="tool_use", tool_name=name, tool_id=call, parameters=arguments),
            _line(type="tool_result", tool_id=call, status="success" if ok else "error"),
        ]

    def edit(self, call: str, path: str, *, ok: bool) -> list[dict[str, Any]]:
        return self._call(call, "replace", {"file_path": path}, ok=ok)

    def command(self, call: str, code: int) -> list[dict[str, Any]]:
        return self._call(call, "run_shell_command", {"command": f"exit {code}"}, ok=True)

    def end(self, how: str, text: str, usage: tuple[int, int]) -> list[dict[str, Any]]:
        stats = {"total_tokens": sum(usage), "input_tokens": usage[0], "output_tokens": usage[1], "cached": 0}
        stats["models"] = {"gemini-2.5-pro": dict(stats)}  # type: ignore[assignment]
        done = _line(type="result", status="success", stats=stats)
        match how:
            case "cut":
                return [{"exit": 0}]
            case "lie":
                return [done, {"exit": 1}]
            case "":
                return [done]
            case "rate_limit":
                return [
                    {"stderr": "Attempt 1 failed: Quota exceeded. Please retry in 7s.. Retrying after 7891ms...\n"},
                    {"sleep": 60},
                ]
            case "overloaded":
                return [{"stderr": "Attempt 1 failed with status 503. Retrying with backoff... busy\n"}, {"sleep": 60}]
        told = {"auth": "API key not valid. Please pass a valid API key.", "refuse": "refused under the usage policy"}[
            how
        ]
        error = {"type": "unknown", "message": f"[API Error: {told}]"}
        return [_line(type="result", status="error", error=error, stats={}), {"exit": 144}]


class AcpRig(Rig):
    name = "acp"

    def executor(self, *plays: Play, **fields: Any) -> Executor:
        self.steps = self.folder / "steps.json"
        self.steps.write_text(json.dumps([step for play in plays for step in self._steps(play)]))
        program = Path(__file__).parents[2] / "support" / "fake_acp_agent.py"
        agents = {"fake": (sys.executable, str(program), str(self.steps))}
        return make_executor("acp:fake", self.settings(agents=agents, **fields))

    def _steps(self, play: Play) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = []
        for kind, *values in play:
            match kind:
                case "think" | "say" | "garbage" | "fill":
                    steps.append({kind: values[0]})
                case "edit":
                    steps.append({"edit": [str(self.project / values[0]), values[1]]})
                case "bad_edit":
                    steps.append({"edit": [str(self.project.parent / values[0]), "x"]})
                case "command":
                    steps.append({"run": f"exit {values[0]}"})
                case "wait":
                    steps.append({"sleep": values[0]})
                case "child":
                    steps += [{"child": values[0]}, {"sleep": 600}]
                case "refuse":
                    steps.append({"stop": "refusal"})
                case "auth":
                    steps.append({"error": [-32000, "Authentication required"]})
                case "rate_limit":
                    steps.append({"error": [-32603, "429 rate limit reached, try again in 7s"]})
                case "overloaded":
                    steps.append({"error": [-32603, "the model is overloaded"]})
                case "cut":
                    steps.append({"die": 9})
        return steps

    def prompts(self) -> list[str]:
        path = Path(f"{self.steps}.seen.json")
        return [json.loads(line)["prompt"] for line in path.read_text().splitlines()]

    def child_file(self) -> Path:
        return Path(f"{self.steps}.child")


RIGS: tuple[type[Rig], ...] = (AnthropicRig, ClaudeRig, CodexRig, GeminiRig, AcpRig)
