"""`pm diff TASK`: what a task changed on disk, as recorded, unified or side by side."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from repl.context import Context
from repl.present.blocks import Block
from repl.present.changed_files import files_text
from repl.present.output import Output
from repl.present.text import escape, padded, width_cut
from tracer.blobs import DirectoryBlobs
from tracer.errors import NotFoundError
from tracer.facts import Entry, FinalSummary, LlmResponse
from tracer.journal.reading import scan
from tracer.unified_diff import in_columns, kinds_of_lines


def side_by_side(diff: bytes, output: Output) -> list[str]:
    """Old on the left, new on the right, in the terminal's width (160 columns elsewhere)."""
    half = max(((output.columns or 160) - 3) // 2, 20)
    style: dict[str, Callable[[str], str]] = {"file": output.bold, "place": output.dim, "note": str}
    return [
        style[kind](left or "") if kind in style else _pair(left or "", right or "", _MARKS[kind], half)
        for kind, left, right in in_columns(kinds_of_lines(_lines(diff)))
    ]


_MARKS: Final = {"same": " ", "removed": "<", "added": ">", "changed": "|"}


def _pair(left: str, right: str, mark: str, half: int) -> str:
    return f"{padded(width_cut(left.expandtabs(4), half), half)} {mark} {width_cut(right.expandtabs(4), half)}".rstrip()


def _lines(diff: bytes) -> Iterator[str]:
    text = diff.decode("utf-8", "backslashreplace")
    return (escape(line.rstrip("\r")) for line in text.removesuffix("\n").split("\n"))


class _Part(NamedTuple):
    """A recorded diff and what it is of."""

    title: str
    iteration: int | None
    subtask: str | None
    files: list[str]
    blob: str | None


def diff(context: Context, arguments: Namespace) -> None:
    task = context.task(arguments.task)
    entries = scan(task.path).entries
    parts = _parts(entries, arguments.iteration)
    _refuse_missing(task.task_id, entries, arguments.iteration, parts)
    blobs, output = DirectoryBlobs(context.state_dir.blobs), context.output
    records: list[dict[str, Any]] = []
    for part in parts:
        text = blobs.read(part.blob) if part.blob else b""
        if len(parts) > 1:
            output.line(output.bold(part.title))
        if text and arguments.side_by_side:
            output.lines(side_by_side(text, output))
        elif text:
            output.block(Block("diff", text.decode("utf-8", "backslashreplace")))
        records.append({**part._asdict(), "diff": text.decode("utf-8", "backslashreplace")})
    if not any(record["diff"] for record in records):
        output.note(f"{task.task_id} changed no file")
    output.result("diff", {"task_id": task.task_id, "parts": records})


def files(context: Context, arguments: Namespace) -> None:
    task = context.task(arguments.task)
    entries = scan(task.path).entries
    parts = _parts(entries, arguments.iteration, every=True)
    _refuse_missing(task.task_id, entries, arguments.iteration, parts)
    for part in parts:
        names = files_text(part.files, most=len(part.files)) or "no file"
        context.output.line(f"{part.title:<16} {names}")
    if not parts:
        context.output.note(f"{task.task_id} has no answer yet")
    context.output.result("files", {"task_id": task.task_id, "parts": [part._asdict() for part in parts]})


def _refuse_missing(task_id: str, entries: list[Entry], iteration: int | None, parts: list[_Part]) -> None:
    """Raises NotFoundError where an iteration was asked for that has no answer."""
    if iteration is None or parts:
        return
    last = max((each.iteration_index or 0 for each in entries if isinstance(each, LlmResponse)), default=-1)
    raise NotFoundError(
        f"{task_id} has no answer {iteration}",
        why=f"its answers are 0 to {last}" if last >= 0 else "it has no answer yet",
        next_step=f"pm trace {task_id}",
    )


def _parts(entries: list[Entry], iteration: int | None, *, every: bool = False) -> list[_Part]:
    final = next((entry for entry in reversed(entries) if isinstance(entry, FinalSummary)), None)
    if final is not None and iteration is None and not every and final.has_diff:
        return [_Part("whole task", None, None, list(final.files_modified), final.diff_blob)]
    answers = [entry for entry in entries if isinstance(entry, LlmResponse) and not entry.purpose]
    chosen = [entry for entry in answers if iteration is None or entry.iteration_index == iteration]
    return [
        _Part(
            f"iteration {entry.iteration_index}" + (f" of {entry.subtask_id}" if entry.subtask_id else ""),
            entry.iteration_index,
            entry.subtask_id,
            list(entry.files_modified),
            entry.diff_blob,
        )
        for entry in chosen
    ]
