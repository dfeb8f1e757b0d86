"""`pm diff TASK`: what a task changed on disk, as recorded; by iteration if asked."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any, NamedTuple

from repl.commands.lookup import find_task
from repl.present.diff_text import diff_lines, side_by_side
from repl.present.escape import one_line
from tracer.blobs import DirectoryBlobs
from tracer.errors import NotFoundError
from tracer.reading import scan

if TYPE_CHECKING:
    from repl.commands.context import Context
    from tracer.events import Entry

__all__ = ["diff", "files"]


class _Part(NamedTuple):
    """A recorded diff and what it is of."""

    title: str
    iteration: int | None
    subtask: str | None
    files: list[str]
    blob: str | None


def diff(context: Context, arguments: Namespace) -> int:
    """`pm diff [TASK] [--iteration N] [--side-by-side]`."""
    task = find_task(context, arguments.task)
    entries = scan(task.path).entries
    parts = _parts(entries, arguments.iteration)
    _refuse_missing(task.task_id, entries, arguments.iteration, parts)
    blobs, output = DirectoryBlobs(context.state_dir.blobs), context.output
    records: list[dict[str, Any]] = []
    for part in parts:
        text = blobs.read(part.blob) if part.blob else b""
        if len(parts) > 1:
            output.line(output.bold(part.title))
        if text:
            output.lines((side_by_side if arguments.side_by_side else diff_lines)(text, output))
        records.append({**part._asdict(), "diff": text.decode("utf-8", "backslashreplace")})
    if not any(record["diff"] for record in records):
        output.note(f"{task.task_id} changed no file")
    output.result("diff", {"task_id": task.task_id, "parts": records})
    return 0


def files(context: Context, arguments: Namespace) -> int:
    """`/files [TASK]`: the files a task changed, by iteration."""
    task = find_task(context, arguments.task)
    entries = scan(task.path).entries
    parts = _parts(entries, arguments.iteration, every=True)
    _refuse_missing(task.task_id, entries, arguments.iteration, parts)
    for part in parts:
        names = ", ".join(one_line(name) for name in part.files) or "no file"
        context.output.line(f"{part.title:<16} {names}")
    if not parts:
        context.output.note(f"{task.task_id} has no answer yet")
    context.output.result("files", {"task_id": task.task_id, "parts": [part._asdict() for part in parts]})
    return 0


def _refuse_missing(task_id: str, entries: list[Entry], iteration: int | None, parts: list[_Part]) -> None:
    """Raises NotFoundError where an iteration was asked for that has no answer."""
    if iteration is None or parts:
        return
    last = max((each.iteration_index or 0 for each in entries if each.event == "LLM_RESPONSE"), default=-1)
    raise NotFoundError(
        f"{task_id} has no answer {iteration}",
        why=f"its answers are 0 to {last}" if last >= 0 else "it has no answer yet",
        next_step=f"pm trace {task_id}",
    )


def _parts(entries: list[Entry], iteration: int | None, *, every: bool = False) -> list[_Part]:
    """The whole task's diff where its end recorded one; else, or for one iteration, those of the answers."""
    final = next((entry for entry in reversed(entries) if entry.event == "FINAL_SUMMARY"), None)
    if final is not None and iteration is None and not every and "diff_blob" in final.data:
        return [_Part("whole task", None, None, _names(final), _blob(final))]
    answers = [entry for entry in entries if entry.event == "LLM_RESPONSE"]
    chosen = [entry for entry in answers if iteration is None or entry.iteration_index == iteration]
    return [
        _Part(
            f"iteration {entry.iteration_index}" + (f" of {entry.subtask_id}" if entry.subtask_id else ""),
            entry.iteration_index,
            entry.subtask_id,
            _names(entry),
            _blob(entry),
        )
        for entry in chosen
    ]


def _names(entry: Entry) -> list[str]:
    listed = entry.data.get("files_modified")
    return [str(name) for name in listed] if isinstance(listed, list) else []


def _blob(entry: Entry) -> str | None:
    blob = entry.data.get("diff_blob")
    return blob if isinstance(blob, str) else None
