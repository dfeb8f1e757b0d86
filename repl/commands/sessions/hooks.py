"""`pm sessions hooks install|uninstall|run AGENT`: a session-end hook, shown before it is written; what it runs."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, NamedTuple

from repl.commands.gate.install import apply_plan
from repl.context import Context
from runner.hosts import HOSTS
from tracer.distill.locate.find import provider_root, session_at
from tracer.distill.native import Provider, Request
from tracer.errors import PmError, UsageError
from tracer.settings.hook_files import hook_command, plan_install, plan_uninstall

_EVENT_BYTES = 1 << 20


class _Hook(NamedTuple):
    """Where an agent's hooks stand, from the folder of its sessions; Codex tells the end of each turn only."""

    file: str
    event: str = "SessionEnd"
    unit: int = 1


_TIMEOUT_S = 60
_HOOKS: dict[str, _Hook] = {
    "claude": _Hook("../settings.json"),
    "codex": _Hook("hooks.json", event="Stop"),
    "gemini": _Hook("../settings.json", unit=1000),
}


def install(context: Context, arguments: Namespace) -> None:
    hook, mark = _HOOKS[arguments.agent], f"sessions hooks run {arguments.agent}"
    entry = {"hooks": [{"type": "command", "command": hook_command(mark), "timeout": _TIMEOUT_S * hook.unit}]}
    plan = plan_install(_file(context, arguments.agent), {hook.event: entry}, mark=mark, environ=context.environ)
    apply_plan(context, arguments, plan, "installed")
    if note := HOSTS[arguments.agent].note:
        context.output.note(f"next:  {note}")


def uninstall(context: Context, arguments: Namespace) -> None:
    mark = f"sessions hooks run {arguments.agent}"
    plan = plan_uninstall(_file(context, arguments.agent), mark=mark, environ=context.environ)
    apply_plan(context, arguments, plan, "removed")


def _file(context: Context, agent: Provider) -> Path:
    return Path(os.path.normpath(provider_root(agent, context.environ) / _HOOKS[agent].file))


def run(context: Context, arguments: Namespace) -> None:
    from tracer.distill.one import distill  # 60 ms, not needed by install

    event = _event(sys.stdin.buffer.read(_EVENT_BYTES))
    named, cwd = event.get("transcript_path"), event.get("cwd")
    root = provider_root(arguments.agent, context.environ)
    try:
        if not isinstance(named, str) or not _lies_in(named, root):
            raise UsageError("no session named on stdin", why=f"transcript_path must lie in {root}")
        session = session_at(Path(named), arguments.agent)
        folder = Path(cwd) if isinstance(cwd, str) and Path(cwd).is_dir() else context.folder
        made = distill(session, Request(project_root=folder, redaction=context.redaction()))
    except PmError as error:
        context.output.error(error)
        return
    context.output.note(f"{made.status} {made.path}")  # stdout is the agent's: Codex and Gemini take JSON from it
    context.output.result("sessions hooks run", made.to_dict())


def _lies_in(named: str, root: Path) -> bool:
    """Whether the path, its `..` taken out, lies below `root` as typed or as the system knows it."""
    path = Path(os.path.abspath(named))  # noqa: PTH100 - resolve() would follow links that are refused later
    return path.is_relative_to(os.path.abspath(root)) or path.is_relative_to(root.resolve())  # noqa: PTH100 - likewise


def _event(raw: bytes) -> dict[str, Any]:
    try:
        event = json.loads(raw or b"{}")
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
