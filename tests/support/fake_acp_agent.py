"""A real Agent Client Protocol agent on standard input and output, whose model is a JSON file of steps.

Started as `python fake_acp_agent.py STEPS.json`. Steps of one prompt: {"say": text}, {"think": text},
{"write": [path, content]}, {"edit": [path, content]} (asks leave first), {"run": command} (asks leave first),
{"read": path}, {"cost": dollars}, {"sleep": seconds}, {"stop": reason}, {"error": [code, message]}, {"stderr": text},
{"garbage": text}, {"die": signal}, {"child": seconds}, {"fill": bytes}, {"offer_always": name} (a third option from
then on), {"models": [name]} (a choice of them from the beginning; the one that is set is left in `.seen.json`).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from acp import (
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    run_agent,
    start_edit_tool_call,
    start_tool_call,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
)
from acp.schema import (
    AgentCapabilities,
    Cost,
    Implementation,
    LoadSessionResponse,
    PermissionOption,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SetSessionConfigOptionResponse,
    ToolCallLocation,
    ToolCallUpdate,
    Usage,
    UsageUpdate,
)

OPTIONS = [
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]


class Fake(Agent):
    def __init__(self, steps: Path) -> None:
        self.steps = steps
        self.connection: Any = None
        self.options = [*OPTIONS]
        self.model = ""

    def choices(self) -> list[Any] | None:
        """The choice of models, where the steps hold one."""
        steps = json.loads(self.steps.read_text())
        names = next((step["models"] for step in steps if "models" in step), None)
        if names is None:
            return None
        models = [SessionConfigSelectOption(value=name, name=name) for name in names]
        current = self.model or names[0]
        return [
            SessionConfigOptionSelect(
                id="model", name="Model", category="model", type="select", current_value=current, options=models
            )
        ]

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **kwargs: Any) -> Any:
        self.model = value
        return SetSessionConfigOptionResponse(config_options=self.choices() or [])

    def on_connect(self, conn: Any) -> None:
        self.connection = conn

    async def initialize(self, protocol_version: int, **kwargs: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=AgentCapabilities(load_session=True),
            agent_info=Implementation(name="fake", version="1.2.3"),
        )

    async def new_session(self, cwd: str, mcp_servers: Any = None, **kwargs: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id=f"session-{os.getpid()}", config_options=self.choices())

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **kwargs: Any) -> Any:
        if session_id == "gone":
            raise RequestError.invalid_params({"details": "no such session"})
        await self.connection.session_update(session_id, update_agent_message_text("(replayed)"))
        cost = Cost(amount=5.0, currency="USD")
        await self.connection.session_update(
            session_id, UsageUpdate(session_update="usage_update", used=1, size=2, cost=cost)
        )
        return LoadSessionResponse(config_options=self.choices())

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        pass

    async def prompt(self, session_id: str, prompt: Any, **kwargs: Any) -> PromptResponse:
        with Path(f"{self.steps}.seen.json").open("a") as file:
            told = {"session": session_id, "prompt": prompt[0].text, "env": dict(os.environ), "model": self.model}
            file.write(json.dumps(told) + "\n")
        stop = "end_turn"
        for number, step in enumerate(json.loads(self.steps.read_text())):
            ((kind, value),) = step.items()
            if kind == "stop":
                stop = value
            else:
                await self.play(session_id, f"call-{number}", kind, value)
        usage = Usage(input_tokens=100, output_tokens=20, total_tokens=120, thought_tokens=4)
        return PromptResponse(stop_reason=stop, usage=usage)

    async def play(self, session: str, call: str, kind: str, value: Any) -> None:
        tell = self.connection.session_update
        match kind:
            case "say":
                await tell(session, update_agent_message_text(value))
            case "think":
                await tell(session, update_agent_thought_text(value))
            case "write" | "edit":
                await self.write(session, call, value, ask=kind == "edit")
            case "offer_always":
                self.options.append(PermissionOption(option_id="always", name=value, kind="allow_always"))
            case "read":
                await self.connection.read_text_file(session_id=session, path=value)
            case "run":
                await self.run(session, call, value)
            case "cost":
                cost = Cost(amount=value, currency="USD")
                await tell(session, UsageUpdate(session_update="usage_update", used=1, size=2, cost=cost))
            case "sleep":
                await asyncio.sleep(value)
            case "error":
                raise RequestError(value[0], value[1])
            case "stderr":
                sys.stderr.write(value)
                sys.stderr.flush()
            case "garbage":
                sys.stdout.write(value + "\n")
                sys.stdout.flush()
            case "fill":
                for _ in range(value // 10_000):
                    await tell(session, update_agent_thought_text("x" * 10_000))
            case "child":
                child = subprocess.Popen(["sleep", str(value)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                Path(f"{self.steps}.child").write_text(str(child.pid))
            case "die":
                os.kill(os.getpid(), value)

    async def write(self, session: str, call: str, value: Any, *, ask: bool) -> None:
        path, content = value
        await self.connection.session_update(session, start_edit_tool_call(call, f"Edit {path}", path, content))
        allowed = not ask or await self.may(session, call, f"Edit {path}", "edit", path=path)
        status = "failed"
        if allowed:
            try:
                await self.connection.write_text_file(session_id=session, path=path, content=content)
                status = "completed"
            except RequestError:
                pass
        await self.connection.session_update(session, update_tool_call(call, status=status))

    async def run(self, session: str, call: str, command: str) -> None:
        start = start_tool_call(call, f"Run {command}", kind="execute", raw_input={"command": command})
        await self.connection.session_update(session, start)
        status = "failed"
        if await self.may(session, call, f"Run {command}", "execute", raw={"command": command}):
            status = "completed" if subprocess.run(command, shell=True, check=False).returncode == 0 else "failed"
        await self.connection.session_update(session, update_tool_call(call, status=status))

    async def may(self, session: str, call: str, title: str, kind: Any, *, path: str = "", raw: Any = None) -> bool:
        locations = [ToolCallLocation(path=path)] if path else None
        update = ToolCallUpdate(tool_call_id=call, title=title, kind=kind, locations=locations, raw_input=raw)
        answer = await self.connection.request_permission(session_id=session, tool_call=update, options=self.options)
        return getattr(answer.outcome, "option_id", "no") in {"yes", "always"}


if __name__ == "__main__":
    asyncio.run(run_agent(Fake(Path(sys.argv[1]))))
