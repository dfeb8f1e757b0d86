"""`pm trace`: what happened in one task. `--raw` copies the file's bytes and loads nothing but json.

The text is the seed's block; `--latest`, `--subtask`, `--iteration` and `--event` choose facts in every form.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repl.present.text import escape
from tracer.errors import NotFoundError, PmError, TraceError, UsageError
from tracer.facts import ChunkingPlan, Entry, fact_in

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from repl.context import Context
    from tracer.journal.reading import Scan
    from tracer.lookup import TaskRef

_CHUNK = 1 << 20
_FULL = "      "


def trace(context: Context, arguments: Namespace) -> Coroutine[Any, Any, int | None] | None:
    task = context.task(arguments.task)
    if arguments.subtask and not arguments.follow:
        _require_subtask(task, arguments.subtask)
    if arguments.screen:
        return _screen(context, task, follow=arguments.follow)
    if arguments.follow:
        if arguments.latest:
            raise UsageError("--follow and --latest exclude each other", next_step="pm trace 15 --follow --iteration 1")
        return _follow(context, arguments, task)
    chooses = arguments.latest or arguments.event or arguments.subtask or arguments.iteration is not None
    if arguments.waterfall:
        if chooses or arguments.raw:
            raise UsageError("--waterfall shows the whole task", next_step=f"pm trace {task.task_id} --waterfall")
        _waterfall(context, task, full=arguments.full)
    elif arguments.raw and not chooses:
        _copy(context, task.path)
    elif arguments.raw:
        _copy_chosen(context, arguments, task)
    else:
        _show(context, arguments, task)
    return None


def _require_subtask(task: TaskRef, wanted: str) -> None:
    facts = [fact for _, fact in _stored(task.path)]
    found = [fact.subtask_id for fact in facts if fact.subtask_id is not None]
    found += [item.id for fact in facts if isinstance(fact, ChunkingPlan) for item in fact.subtasks]
    if any(_is_subtask(name, wanted) for name in found):
        return
    numbers = sorted({name.rpartition("-sub-")[2] for name in found if "-sub-" in name}, key=lambda n: (len(n), n))
    raise NotFoundError(
        f"{task.task_id} has no subtask {wanted!r}",
        why=f"its subtasks: {', '.join(numbers[:40])}" if numbers else "it ran in one piece",
        next_step=f"pm plan {task.task_id}",
    )


async def _screen(context: Context, task: TaskRef, *, follow: bool) -> int | None:
    if context.session is not None:
        await context.session.view.open_trace(task.task_id)
        return None
    if not context.output.interactive:
        raise UsageError("--screen needs a terminal", next_step=f"pm trace {task.task_id}")
    from repl.screen.trace.view import ViewerApp  # textual, 150 ms: only when it is asked for

    theme, colour = str(context.settings().get("repl.theme")), context.output.colour
    code: int | None = await ViewerApp(task.path, follow=follow, theme=theme, colour=colour).shown()
    return code


_CALLS = 8  # of one answer, without --full


def _waterfall(context: Context, task: TaskRef, *, full: bool) -> None:
    from repl.present.waterfall import heading, waterfall_lines
    from tracer.clock import now_epoch_ms
    from tracer.rows.waterfall import read_waterfall

    output = context.output
    works = context.state_dir.writer_of(task.task_id) is not None
    found = read_waterfall(task.path, project=context.state_dir.project, now_ms=now_epoch_ms() if works else None)
    output.line(f"{output.bold(task.task_id)} · {heading(found)}")
    for line in waterfall_lines(found, columns=output.columns, most_tools=0 if full else _CALLS, plain=output.plain):
        head = line.text.removesuffix(line.bar.lstrip())
        bar = line.bar.lstrip()
        output.line(head + (output.tinted(bar, good=line.mark == "v") if line.mark else bar))
    if not found.lanes:
        output.note("nothing has taken time yet")
    fields: dict[str, Any] = {"task_id": task.task_id, "began_ms": found.began_ms, "total_ms": found.total_ms}
    lanes = [{"id": lane.id, "title": lane.title, "bars": [bar._asdict() for bar in lane.bars]} for lane in found.lanes]
    output.result("trace", {**fields, "lanes": lanes})


def _copy(context: Context, path: Path) -> None:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            context.output.data(chunk)
    context.output.ended = True  # the file's bytes are all that this form prints


def _copy_chosen(context: Context, arguments: Namespace, task: TaskRef) -> None:
    highest: dict[str | None, int] = {}
    stored = [(line, fact) for line, fact in _stored(task.path) if line.endswith(b"\n")]
    for _, fact in stored:
        if fact.iteration_index is not None:
            highest[fact.subtask_id] = max(highest.get(fact.subtask_id, -1), fact.iteration_index)
    chosen = _chooser(arguments, highest)
    context.output.data(b"".join(line for line, fact in stored if chosen(fact)))
    context.output.ended = True


def _stored(path: Path) -> list[tuple[bytes, Entry]]:
    with path.open("rb") as file:
        return [(line, _fact(line)) for line in file]


def _fact(line: bytes) -> Entry:
    return fact_in(line) or Entry("", "", "", "", {})


def _chooser(arguments: Namespace, highest: dict[str | None, int] | None) -> Callable[[Entry], bool]:
    """Whether a fact is wanted; `highest` (iteration by subtask) is what `--latest` needs."""
    events = {name.upper() for name in arguments.event or ()}

    def wanted(fact: Entry) -> bool:
        event, index, subtask = fact.event, fact.iteration_index, fact.subtask_id
        if events and event not in events:
            return False
        if arguments.subtask and not _is_subtask(subtask, arguments.subtask):
            return False
        if arguments.iteration is not None and index != arguments.iteration:
            return False
        if arguments.latest and highest is not None:
            return event == "FINAL_SUMMARY" or (index is not None and index == highest.get(subtask))
        return True

    return wanted


def _is_subtask(subtask: str | None, wanted: str) -> bool:
    """`2`, `sub-2` and the whole id name the same subtask."""
    return subtask is not None and (subtask == wanted or subtask.endswith((f"-sub-{wanted}", f"-{wanted}")))


def _show(context: Context, arguments: Namespace, task: TaskRef) -> None:
    from tracer.journal.reading import scan
    from tracer.lookup import latest_iteration, summarize

    found = scan(task.path)
    wanted = _chooser(arguments, None)
    entries = latest_iteration(found.entries) if arguments.latest else found.entries
    entries = [entry for entry in entries if wanted(entry)]
    output = context.output
    if not entries and found.entries:
        output.note("no event fits; the trace has " + ", ".join(sorted({entry.event for entry in found.entries})))
    if not arguments.latest and output.human:  # what the task's earlier files hold stands before it, oldest first
        for path in reversed(task.older):
            output.lines(_text(context, arguments, task, [entry for entry in scan(path).entries if wanted(entry)]))
    output.lines(_text(context, arguments, task, entries))
    _remarks(context, task, found)
    if output.form == "jsonl":
        for entry in entries:
            output.record(entry.to_dict())
    fields: dict[str, Any] = {
        "task_id": task.task_id,
        "trace_file": _relative(context, task.path),
        "older": [_relative(context, path) for path in task.older],
        "summary": summarize(found.entries).to_dict(),
    }
    if output.form == "json":
        fields["entries"] = [entry.to_dict() for entry in entries]
    output.result("trace", fields)


def _text(context: Context, arguments: Namespace, task: TaskRef, entries: list[Entry]) -> list[str]:
    from tracer.trace_text import fact_line, trace_text

    if not arguments.full:
        return trace_text(entries, task_id=task.task_id).rstrip("\n").split("\n")
    lines = [f"--- Conversation Trace for {task.task_id} ---"]
    for entry in entries:
        lines.append(fact_line(entry))
        lines.extend(_full_lines(entry, blobs=context.state_dir.blobs))
    return [*lines, "---"]


def _remarks(context: Context, task: TaskRef, found: Scan) -> None:
    """What the text cannot say: a torn tail, damaged lines, no end."""
    note = context.output.note
    facts = len(found.facts)
    for problem in found.problems[:5]:
        note(f"line {problem.seq + 1} is damaged ({problem.length} bytes): {problem.why}")
    if len(found.problems) > 5:
        note(f"… {len(found.problems) - 5} more damaged lines   pm trace verify {task.task_id}")
    if found.torn is not None:
        line = facts + len(found.problems) + 1
        note(
            f"line {line} incomplete ({found.torn.length} bytes), {facts} events read   pm trace verify {task.task_id}"
        )
    entries = found.entries
    if entries and entries[-1].event != "FINAL_SUMMARY":
        last = entries[-1]
        index = "" if last.iteration_index is None else f"[{last.iteration_index}]"
        holder = context.state_dir.writer_of(task.task_id)
        if holder is None:
            note(f"unfinished after {last.event}{index}   pm resume {task.task_id}")
        else:
            note(f"running, last event {last.event}{index}   pm trace {task.task_id} --follow")


def _relative(context: Context, path: Path) -> str:
    project = context.state_dir.project
    return str(path.relative_to(project)) if path.is_relative_to(project) else str(path)


async def _follow(context: Context, arguments: Namespace, task: TaskRef) -> None:
    from tracer.journal.follow import follow

    output, wanted = context.output, _chooser(arguments, None)
    lines: AsyncGenerator[tuple[int, bytes]] = follow(task.path)
    if output.human and not arguments.raw:
        output.line(f"--- Conversation Trace for {task.task_id} ---")
    count = 0
    async with aclosing(lines):
        async for _, line in lines:
            if wanted(_fact(line)):
                count += 1
                _print_fact(context, arguments, line)
    if arguments.raw:
        output.ended = True
    elif output.human:
        output.line("---")
    output.result("trace", {"task_id": task.task_id, "facts": count})


def _print_fact(context: Context, arguments: Namespace, line: bytes) -> None:
    from tracer.events import parse_line
    from tracer.trace_text import fact_line

    output = context.output
    if arguments.raw or output.form == "jsonl":
        output.data(line)
        return
    try:
        entry = parse_line(line)
    except TraceError as error:
        output.note(f"a damaged line ({len(line)} bytes): {error.what}")
        return
    output.line(fact_line(entry))
    if arguments.full and output.human:
        for text in _full_lines(entry, blobs=context.state_dir.blobs):
            output.line(text)


def _full_lines(entry: Entry, *, blobs: Path) -> list[str]:
    """Everything a fact holds, below its own line: texts in full, other values as JSON, blobs opened.

    Every line is escaped and indented by six blanks, so that nothing recorded can look like a line of the trace itself.
    """
    lines: list[str] = []
    for key, value in entry.data.items():
        if value is None or value in ([], {}, ""):
            continue
        lines.extend(_field_lines(key, value))
        if isinstance(value, str) and value.startswith("sha256:") and key.endswith("blob"):
            lines.extend(_blob_lines(value, blobs))
    return lines


def _field_lines(key: str, value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    parts = escape(text).split("\n")
    name = escape(key)
    if len(parts) == 1 and len(parts[0]) < 100:
        return [f"{_FULL}{name}: {parts[0]}"]
    return [f"{_FULL}{name}:", *(f"{_FULL}  {part}" for part in parts)]


def _blob_lines(blob_id: str, blobs: Path) -> list[str]:
    from tracer.blobs import DirectoryBlobs

    try:
        content = DirectoryBlobs(blobs).read(blob_id)
    except (PmError, OSError) as error:
        return [f"{_FULL}  (not readable: {escape(str(error))})"]
    return [f"{_FULL}  {part}" for part in escape(content.decode("utf-8", "backslashreplace")).split("\n")]
