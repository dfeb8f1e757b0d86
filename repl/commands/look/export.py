"""`pm export TASK --format md|json|html [-o PATH|-]`: a task as one file to pass on, redacted again."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path

from repl.context import Context
from tracer.durable import output_file
from tracer.errors import RecordError, UsageError


async def export(context: Context, arguments: Namespace) -> None:
    from service.export import ExportFormat, export_task  # jinja2: 100 ms, paid by this command alone

    ref = context.task(arguments.task)
    redactor = context.redactor(project_root=context.folder, rewrite_paths=True, truncate=False)
    form: ExportFormat = arguments.format or arguments.kind or "md"
    exported = await asyncio.to_thread(export_task, context.state_dir, ref, form=form, redactor=redactor)
    replaced = sum(exported.redactions.values())
    told = [f"{replaced} secrets or paths were replaced in this copy"] if replaced else []
    if arguments.output == "-":
        if not context.output.human:
            raise UsageError("a JSON answer has no room for the file", next_step="name a file with -o")
        context.output.data(exported.text.encode())
        for text in told:
            context.output.note(text)
        return
    path = context.path(arguments.output or f"{ref.task_id}.{form}")
    try:
        await asyncio.to_thread(_write, path, exported.text)
    except OSError as error:
        next_step = "name another file with -o"
        raise RecordError(f"cannot write {str(path)!r}", why=str(error), next_step=next_step) from error
    context.output.line(str(path))
    for text in told:
        context.output.note(text)
    context.output.result("export", {"path": str(path), "format": form, "redactions": exported.redactions})


def _write(path: Path, text: str) -> None:
    with output_file(path) as file:
        file.write(text.encode())
