"""The first lines of a session: at most two, then the prompt."""

from __future__ import annotations

from repl.executor_choice import choose_executor
from repl.present.escape import one_line
from repl.present.progress import short_id
from repl.present.words import count_text
from repl.session import Session
from repl.version import VERSION
from tracer.catalog import TaskRow, list_tasks
from tracer.errors import PmError

__all__ = ["greeting_lines", "resume_hints"]

_OPEN = ("UNFINISHED", "AWAITING_RESPONSE")


def greeting_lines(session: Session) -> list[str]:
    """Where we are, and the most useful next step."""
    try:
        rows = list_tasks(session.state_dir)
        count = count_text(len(rows), "task")
    except PmError as error:
        rows, count = [], f"tasks cannot be read: {error.what} (/doctor)"
    open_rows = [row for row in rows if row.status in _OPEN]
    unfinished = f", {len(open_rows)} unfinished" if open_rows else ""
    try:
        agent = f"executor {choose_executor(session.settings, session.environ)}"
        ready = True
    except PmError:
        agent, ready = "no executor", False
    first = f"pm {VERSION} · {one_line(session.folder.name)} · {agent} · {count}{unfinished}"
    parts = ["/help commands", "? keys"]
    if open_rows:
        parts.append(_resumable(open_rows[0]))
    elif not ready:
        parts.append("/demo needs no key · /doctor says what is missing")
    ignored = session.settings.ignored_line()
    return [first, " · ".join(parts), *([ignored] if ignored else [])]


def _resumable(row: TaskRow) -> str:
    title, short = one_line(row.title, 40), short_id(row.task_id)
    if row.status == "AWAITING_RESPONSE":
        return f'/respond {short} answers "{title}" (iteration {row.iterations}, last verdict {_last(row)})'
    after = f"stopped after {_last(row)}, iteration {row.iterations}" if row.judgments else "stopped before an answer"
    return f'/resume {short} continues "{title}" ({after})'


def _last(row: TaskRow) -> str:
    return row.judgments[-1] if row.judgments else "none"


def resume_hints(unfinished: list[str]) -> list[str]:
    """The line that leaving prints for tasks which could be resumed."""
    if not unfinished:
        return []
    return [f"{len(unfinished)} unfinished: {', '.join(unfinished)}   pm resume {short_id(unfinished[-1])}"]
