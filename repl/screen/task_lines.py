"""One task as lines: what was asked, each iteration's verdict, subtasks, files, cost and what can be done next.

Made from the stored facts through the same `Progress` as every other view, so that all say the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from repl.present.answer import answer_lines
from repl.present.escape import one_line
from repl.present.progress import Progress, short_id
from repl.present.words import cost_text
from tracer.catalog import TaskRow
from tracer.errors import PmError
from tracer.reading import iter_lines

__all__ = ["next_steps", "read_task", "task_lines"]

_MAX_FACTS: Final = 5_000
_PANE: Final = 60  # columns of the pane beside the list


def read_task(row: TaskRow) -> list[str]:
    """The task's lines, read from its newest file. Reads the disk: call it in a thread."""
    progress = Progress(row.task_id, prefix="/", table=True)
    progress.narrow = True  # a pane beside the list holds 60 columns
    printed: list[str] = []
    try:
        for number, (_seq, line) in enumerate(iter_lines(Path(row.trace_file))):
            if number >= _MAX_FACTS:
                printed.append(f"  … more than {_MAX_FACTS:,} facts: t shows all")
                break
            printed += _fact_lines(progress, line)
    except (OSError, PmError) as error:
        printed.append(f"  the trace cannot be read: {error}")
    return task_lines(row, printed, progress)


def _fact_lines(progress: Progress, line: bytes) -> list[str]:
    try:
        fact: Any = json.loads(line)
    except ValueError:
        return ["  ? a line that cannot be read"]
    return progress.fact(fact, now=0.0) if isinstance(fact, dict) else []


def task_lines(row: TaskRow, printed: Iterable[str], progress: Progress) -> list[str]:
    """The lines of the task pane: title, standing, facts, next steps."""
    agent = one_line(" ".join(part for part in (row.executor, row.model) if part)) or "executor n/a"
    standing = [row.status + (f" ({one_line(row.reason)})" if row.reason else ""), agent, cost_text(row.cost_usd)]
    lines = [one_line(row.title), " · ".join(standing)]
    if bar := progress.bar():
        lines += ["", *progress.table(most=40), f"  {bar}"]
    lines += ["", *printed]
    if progress.answer:
        lines += ["", *answer_lines(progress.answer, columns=_PANE, whole_by=progress.whole_by)]
    if row.damaged:
        lines += ["", f"  {row.damaged} damaged lines: /trace verify {short_id(row.task_id)}"]
    if row.status == "UNFINISHED":
        lines += ["", f"  unfinished after {one_line(row.last_event)}"]
    return [*lines, "", f"  next:  {next_steps(row)}"]


def next_steps(row: TaskRow) -> str:
    """The commands that make sense now."""
    short = short_id(row.task_id)
    match row.status:
        case "RUNNING" | "QUEUED":
            return f"/trace {short} --follow   /stop {short}"
        case "AWAITING_RESPONSE" if row.last_event == "CHUNKING_PLAN":
            return f"/plan {short} --approve | --edit | --again TEXT"
        case "AWAITING_RESPONSE":
            return f"/respond {short} continue | hint TEXT | accept | stop"
        case "COMPLETE":
            return f"/diff {short}   /trace {short}"
        case _:
            return f"/resume {short}   /trace {short}"
