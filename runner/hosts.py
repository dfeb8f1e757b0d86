"""Agents that call hooks (hosts): where their hooks stand, what they send, and what they take for an answer.

Claude Code, Codex, Gemini and Copilot were tried (`tests/runner/test_real_hooks.py`), the others are as documented.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tracer.redaction.cuts import beginning

Role = Literal["prompt", "stop", "part", "settings", ""]
_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host. `events` names what its hooks are called for; `home` is the variable that moves its user folder.

    `limit` is how many blocks in a row it bears by itself (0: it bears none, None: as many as one likes), `cap` the
    variable that moves it; `note` is what its user still has to do.
    """

    name: str
    project: str
    user: str
    events: Mapping[str, Role]
    home: str = ""
    limit: int | None = None
    cap: str = ""
    frame: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    def path(self, folder: Path, environ: Mapping[str, str], *, user: bool) -> Path:
        """The file that holds its hooks, of the project in `folder` or of the user."""
        if not user:
            return folder / self.project
        moved = environ.get(self.home) if self.home else None
        if moved:
            return Path(moved).expanduser() / self.user.partition("/")[2]
        return Path(environ.get("HOME") or "~").expanduser() / self.user

    def most_blocks(self, wanted: int, environ: Mapping[str, str]) -> int:
        """How often an answer may be sent back, so that the agent is let go by us and not by its host."""
        moved = environ.get(self.cap, "")
        limit = int(moved) or None if moved.isdecimal() else self.limit  # Claude Code: 0 is no limit
        return wanted if limit is None else max(0, min(wanted, limit - 1))

    def entry(self, command: str, event: str) -> dict[str, Any]:
        """One hook as this host writes it down."""
        match self.name:
            case "cursor":
                return {"command": command, **({"loop_limit": self.limit} if self.events[event] == "stop" else {})}
            case "copilot":
                return {"type": "command", "bash": command, "timeoutSec": _SECONDS}
            case "kiro":
                return {"command": command, "timeout_ms": _SECONDS * 1000}
            case "gemini":
                hook = {"name": "pm-gate", "type": "command", "command": command, "timeout": _SECONDS * 1000}
                return {"hooks": [hook]}
        return {"hooks": [{"type": "command", "command": command, "timeout": _SECONDS}]}

    def reply(self, *, block: str = "", message: str = "", event: str = "") -> Reply:
        """What the host is told: to go on with `block` as the next words to its agent, and a `message` to its user."""
        if block and event == "TaskCompleted":
            return Reply(stderr=block, code=2)
        shown = {"systemMessage": message} if message else {}
        match self.name:
            case "kiro":  # its stop hook cannot block: what fails is shown as a warning
                return Reply(stderr=block or message, code=1) if block or message else Reply()
            case "cursor":
                on = {"continue": True} if self.events.get(event) == "prompt" else {}
                return Reply(on | ({"followup_message": block} if block else {}), stderr=message)
            case "copilot":
                return Reply({"decision": "block", "reason": block} if block else {}, stderr=message)
            case "gemini":
                return Reply(shown | ({"decision": "deny", "reason": block} if block else {}))
        return Reply(shown | ({"decision": "block", "reason": block} if block else {}))


class Reply(NamedTuple):
    """What a hook prints, and how it ends."""

    stdout: Mapping[str, Any] | None = None
    stderr: str = ""
    code: int = 0


class Call(NamedTuple):
    """One call of a hook, read from its payload; texts are empty where the host says nothing."""

    role: Role
    event: str
    session: str
    folder: str
    prompt: str = ""
    answer: str = ""
    transcript: str = ""
    part: str = ""
    model: str = ""
    file: str = ""


_ROWS: Mapping[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
HOSTS: Mapping[str, Host] = {name: Host(name=name, **row) for name, row in _ROWS.items()}


def read_call(host: Host, payload: Mapping[str, Any]) -> Call:
    """What a payload says; its role is empty where nothing is to be done.

    Raises ValueError: it names no event that this host's hooks are for.
    """

    def text(*names: str) -> str:
        return next((found for name in names if isinstance(found := payload.get(name), str) and found), "")

    event = text("hook_event_name", "hookEventName")
    if not event and host.name == "copilot":  # it sends no name: what only one event holds tells
        event = "userPromptSubmitted" if "prompt" in payload else "subagentStop" if "agentName" in payload else ""
        event = event or ("agentStop" if "stopReason" in payload or "transcriptPath" in payload else "")
    if event not in host.events:
        raise ValueError(f"no event of {host.name} that the gate knows: {beginning(event, 80)!r}")
    roots = payload.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    ended = text("status")  # Cursor: what was aborted by its user, or failed, is no answer
    return Call(
        role="" if host.name == "cursor" and event == "stop" and ended not in {"", "completed"} else host.events[event],
        event=event,
        session=text("session_id", "sessionId", "conversation_id"),
        folder=text("cwd") or root,
        prompt=text("prompt"),
        answer=text("last_assistant_message", "prompt_response", "assistant_response"),
        transcript=text("transcript_path", "transcriptPath"),
        part=text("agent_id", "task_id", "agentName", "subagent_id"),
        model=text("model"),
        file=text("file_path"),
    )
