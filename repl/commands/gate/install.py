"""`pm gate install|uninstall HOST`: its hooks, shown as a diff, merged into what is there, removed without a trace."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from difflib import unified_diff

from repl.context import Context
from repl.present.text import escape
from runner.hosts import HOSTS, Host
from tracer.errors import UsageError
from tracer.redaction.cuts import clean
from tracer.settings.hook_files import HookPlan, hook_command, plan_install, plan_uninstall, write_plan


def install(context: Context, arguments: Namespace) -> None:
    host, user = _host(arguments)
    command = hook_command(_mark(host), bare=not user)
    path = host.path(context.state_dir.project, context.environ, user=user)
    hooks = {event: host.entry(command, event) for event in host.events}
    plan = plan_install(path, hooks, mark=_mark(host), frame=host.frame, environ=context.environ)
    if not user:
        plan = plan._replace(mode=0o644)  # it is there to be committed
        if not command.startswith("pm "):
            context.output.note(f"no pm is on PATH: {escape(command)} works on this machine alone, do not commit it")
    apply_plan(context, arguments, plan, "installed")
    if host.note:
        context.output.note(f"next:  {host.note}")


def uninstall(context: Context, arguments: Namespace) -> None:
    host, user = _host(arguments)
    path = host.path(context.state_dir.project, context.environ, user=user)
    plan = plan_uninstall(path, mark=_mark(host), frame=host.frame, environ=context.environ)
    apply_plan(context, arguments, plan, "removed")


def _host(arguments: Namespace) -> tuple[Host, bool]:
    if arguments.user and arguments.project:
        raise UsageError("--user and --project exclude each other", next_step="give one of them")
    return HOSTS[arguments.host], arguments.user


def _mark(host: Host) -> str:
    return f"gate hook {host.name}"


def apply_plan(context: Context, arguments: Namespace, plan: HookPlan, word: str) -> None:
    output = context.output
    if not plan.changes:
        output.line(f"nothing to change in {plan.path}")
        output.result(context.command, {"path": str(plan.path), "changed": False})
        return
    for line in _shown_diff(context, plan):
        output.note(escape(line))
    if not arguments.yes and not _agreed(context, arguments):
        output.line("nothing was written")
        output.result(context.command, {"path": str(plan.path), "changed": False})
        return
    write_plan(plan)
    output.line(f"hook {word}: {plan.path}")
    output.result(context.command, {"path": str(plan.path), "changed": True})


def _shown_diff(context: Context, plan: HookPlan) -> Iterator[str]:
    """What would change, as a diff without the file's secrets: each side is read whole, so that no cut hides one."""
    settings = context.redaction()
    before, after = (clean(text or "", settings).splitlines() for text in (plan.before, plan.after))
    return unified_diff(before, after, str(plan.path), f"{plan.path} (new)", lineterm="")


def _agreed(context: Context, arguments: Namespace) -> bool:
    if arguments.no_input or not sys.stdin.isatty():
        raise UsageError(
            "the change needs your word", why="it is shown above; nobody can be asked here", next_step="add --yes"
        )
    context.output.note("write this? [y/N]")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
