"""Finds the task that a command's argument means, in a session or on the plain command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.lookup import TaskRef, resolve_task

if TYPE_CHECKING:
    from repl.context import Context


def find_task(context: Context, selector: str | None) -> TaskRef:
    """The task; None is the current or newest one. Raises NotFoundError: nothing, or more than one thing, answers."""
    if context.session is not None:
        found: TaskRef = context.session.resolve(selector)
        return found
    return resolve_task(context.state_dir, selector)
