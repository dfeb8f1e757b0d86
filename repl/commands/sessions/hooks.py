"""`pm sessions hooks install|uninstall|run claude`: a session-end hook, shown before it is written; what it runs."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repl.commands.gate.install import apply_plan
from tracer.distill.locate.find import provider_root, session_at
from tracer.errors import PmError, UsageError
from tracer.settings.hook_files import hook_command, plan_install, plan_uninstall

if TYPE_CHECKING:
    from repl.context import Context

_EVENT_BYTES = 1 << 20


_MARK = "sessions hooks run claude"
_TIMEOUT_S = 60


def install(context: Context, arguments: Namespace) -> int:
    entry = {"hooks": [{"type": "command", "command": hook_command(_MARK), "timeout": _TIMEOUT_S}]}
    plan = plan_install(_settings_file(context), {"SessionEnd": entry}, mark=_MARK, environ=context.environ)
    return apply_plan(context, arguments, plan, "installed")


def uninstall(context: Context, arguments: Namespace) -> int:
    plan = plan_uninstall(_settings_file(context), mark=_MARK, environ=context.environ)
    return apply_plan(context, arguments, plan, "removed")


def _settings_file(context: Context) -> Path:
    return provider_root("claude", context.environ).parent / "settings.json"


def run(context: Context, arguments: Namespace) -> int:
    del arguments
    from tracer.distill.native import Request
    from tracer.distill.one import distill  # 60 ms, not needed by install

    event = _event(sys.stdin.buffer.read(_EVENT_BYTES))
    named, cwd = event.get("transcript_path"), event.get("cwd")
    root = provider_root("claude", context.environ)
    try:
        if not isinstance(named, str) or not _lies_in(named, root):
            raise UsageError("no session named on stdin", why=f"transcript_path must lie in {root}")
        session = session_at(Path(named), "claude")
        folder = Path(cwd) if isinstance(cwd, str) and Path(cwd).is_dir() else context.folder
        made = distill(session, Request(project_root=folder, redaction=context.redaction()))
    except PmError as error:
        context.output.error(error)
        return 0
    context.output.line(f"{made.status} {made.path}")
    context.output.result("sessions hooks run", made.to_dict())
    return 0


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
