"""A task as one file to pass on: Markdown, JSON, or a page that needs nothing beside itself.

What leaves is redacted once more, with paths rewritten, and looked at a second time; a file that would still hold
something is not made (fail-closed). The count of what this pass replaced stands at the end of the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson

from service.pages.task import diff_reader, explained, render, static_text
from service.pages.values import IterationView, TaskView, task_view
from tracer.conversation import ConversationTracer
from tracer.distill.stored import stored_at
from tracer.facts import Entry, LlmResponse, SessionInterrupted
from tracer.lookup import TaskRef, summarize
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.leaks import verify_clean
from tracer.statedir import StateDir

ExportFormat = Literal["md", "json", "html"]
FORMATS: Final[tuple[ExportFormat, ...]] = ("md", "json", "html")


class Exported(NamedTuple):
    """The finished file's text, and how many marks this pass added, by rule."""

    text: str
    redactions: dict[str, int]


def export_task(state_dir: StateDir, ref: TaskRef, *, form: ExportFormat, redactor: ProjectRedactor) -> Exported:
    """The newest trace of `ref` as one file.

    Raises TraceError: the trace is damaged, or the result would still hold a secret.
    """
    counts: Counter[str] = Counter()
    entries = [_redacted(entry, redactor, counts) for entry in ConversationTracer.read_trace(ref.path)]
    read_diff = diff_reader(state_dir)

    def diff_of(blob_id: str) -> str | None:
        text = read_diff(blob_id)
        if text is None:
            return None
        clean, found = redactor.redact_text(text)
        counts.update(found)
        return clean

    if form == "json":
        document = {
            "task_id": ref.task_id,
            "trace_file": ref.path.name,
            "entries": [_linked(entry, state_dir).to_dict() for entry in entries],
            "summary": summarize(entries).to_dict(),
            "redactions": dict(counts),
        }
        text = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"
    else:
        view = task_view(entries, diff_of=diff_of)
        text = _page(view, counts) if form == "html" else _markdown(view, counts)
    verify_clean(redactor, text, what=f"the export of {ref.task_id}")
    return Exported(text, dict(counts))


def _redacted(entry: Entry, redactor: ProjectRedactor, counts: Counter[str]) -> Entry:
    data, found = redactor.redact_value(entry.data)
    counts.update(found)
    return entry._replace(data=data)


def _linked(entry: Entry, state_dir: StateDir) -> Entry:
    """The event with the present name of the agentic trace that it names: another label has renamed it."""
    if not isinstance(entry, LlmResponse | SessionInterrupted) or not entry.agentic_trace:
        return entry
    named = Path(entry.agentic_trace)
    now = named.with_name(stored_at(state_dir.project / named).name)
    return entry._replace(data={**entry.data, "agentic_trace": str(now)})


def _page(view: TaskView, counts: Counter[str]) -> str:
    return render(
        "task.html",
        task=view,
        status=view.status,
        explained=explained(view.status, view.reason),
        doing=None,
        ended=True,
        exported=True,
        redactions=counts.total(),
        inline_css=static_text("pm.css"),
    )


def _markdown(view: TaskView, counts: Counter[str]) -> str:
    reason = explained(view.status, view.reason)
    unverified = f", {_inline(view.unverified)}" if view.unverified else ""
    parts = [
        f"# {view.task_id}: {_inline(view.title)}",
        f"**{view.status}**{unverified}{f' – {reason}' if reason else ''}",
        _facts(view),
        "## Request",
        _fenced(view.request.text),
    ]
    if view.files:
        parts += ["## Files changed", "\n".join(f"- {_code(path)}" for path in view.files)]
    for each in view.iterations:
        parts += _iteration(each)
    parts.append(f"---\nExported by pm; {counts.total()} secrets or paths were replaced in this copy.")
    return "\n\n".join(parts) + "\n"


def _facts(view: TaskView) -> str:
    cost = "n/a" if view.cost_usd is None else f"${view.cost_usd:.2f}"
    tokens = "n/a" if view.tokens is None else f"{view.tokens:,}"
    rows = {
        "agent": view.executor or "–",
        "iterations": f"{len(view.verdicts)} ({', '.join(view.verdicts)})",
        "tokens": tokens,
        "cost": cost,
        "time": f"{view.duration_s:.1f} s",
        "started (UTC)": view.started,
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def _outcome(row: Mapping[str, Any]) -> str:
    if row["outcome"] == "not_verified":
        return "NOT VERIFIED"
    return "PASS" if row["passed"] else "FAIL"


def _iteration(each: IterationView) -> list[str]:
    of = f" of {each.subtask_id}" if each.subtask_id else ""
    parts = [f"## Iteration {each.index}{of}: {each.judgment or each.status or 'asked'}"]
    if each.judgment == "REJECT":
        parts.append(f"Sent back: {_inline(each.summary)}")
    if each.issues:
        parts.append("\n".join(f"- {_issue(issue)}" for issue in each.issues))
    if each.error:
        parts.append(f"Trouble: {_inline(each.error)}")
    if each.output.text:
        parts += ["### Answer", _fenced(each.output.text)]
    if each.diff:
        parts += ["### Changes on disk", _fenced("\n".join(line.text for line in each.diff), "diff")]
    if each.criteria:
        rows = [
            f"| {row['id']} {row['name']} | {_outcome(row)} | {_inline(str(row['reason']))} |" for row in each.criteria
        ]
        parts += ["### Criteria", "\n".join(["| criterion | result | reason |", "|---|---|---|", *rows])]
    return parts


def _issue(issue: dict[str, Any]) -> str:
    line = f":{issue['line']}" if issue["line"] else ""
    place = f"{_code(str(issue['path']) + line)} " if issue["path"] else ""
    return f"**{issue['criterion']}** {place}{_inline(str(issue['suggestion']))}".rstrip()


def _code(text: str) -> str:
    """A code span, whatever backticks `text` holds."""
    line = " ".join(text.split())
    mark = "`" * (max(len(run) for run in _backtick_runs(line)) + 1)
    pad = " " if "`" in line else ""
    return f"{mark}{pad}{line}{pad}{mark}"


def _fenced(text: str, language: str = "") -> str:
    longest = max(len(run) for run in _backtick_runs(text))
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _backtick_runs(text: str) -> list[str]:
    return ["", *re.findall("`+", text)]


def _inline(text: str) -> str:
    """One line that cannot become markup: control characters and Markdown's own marks are made harmless."""
    line = " ".join(text.split())
    return "".join(f"\\{character}" if character in "\\`*_[]<>|#" else character for character in line)
