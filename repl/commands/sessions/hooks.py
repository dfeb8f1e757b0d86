"""`pm sessions hooks install|uninstall|run claude`: a session-end hook, shown before it is written; what it runs."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repl.present.text import escape
from tracer.distill.claude_hook import HookPlan, hook_command, plan_install, plan_uninstall, write_plan
from tracer.distill.locate.find import provider_root, session_at
from tracer.errors import PmError, UsageError

if TYPE_CHECKING:
    from repl.context import Context

_EVENT_BYTES = 1 << 20


def install(context: Context, arguments: Namespace) -> int:
    return _apply(context, arguments, plan_install(hook_command(), environ=context.environ), "installed")


def uninstall(context: Context, arguments: Namespace) -> int:
    return _apply(context, arguments, plan_uninstall(environ=context.environ), "removed")


def _apply(context: Context, arguments: Namespace, plan: HookPlan, word: str) -> int:
    output = context.output
    if not plan.changes:
        output.line(f"nothing to change in {plan.path}")
        output.result(context.command, {"path": str(plan.path), "changed": False})
        return 0
    before, after = plan.before.splitlines(), plan.after.splitlines()
    for line in unified_diff(before, after, str(plan.path), f"{plan.path} (new)", lineterm=""):
        output.note(escape(line))
    if not arguments.yes and not _agreed(context, arguments):
        output.line("nothing was written")
        output.result(context.command, {"path": str(plan.path), "changed": False})
        return 0
    write_plan(plan)
    output.line(f"hook {word}: {plan.path}")
    output.result(context.command, {"path": str(plan.path), "changed": True})
    return 0


def _agreed(context: Context, arguments: Namespace) -> bool:
    if arguments.no_input or not sys.stdin.isatty():
        raise UsageError(
            "the change needs your word", why="it is shown above; nobody can be asked here", next_step="add --yes"
        )
    context.output.note("write this? [y/N]")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


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
