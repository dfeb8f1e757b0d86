"""`pm tasks`: the numbered list, on json and sqlite3 alone; `pm show`: one task in full."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from repl.present.changed_files import files_text
from repl.present.text import age_text, cost_text, one_line, padded, spark_text, strip_text, width_cut, width_of
from tracer.catalog.tasks import TaskRow, list_tasks
from tracer.clock import epoch_ms, now_epoch_ms, seconds_text, since_iso

if TYPE_CHECKING:
    from repl.context import Context
    from runner.core.task import Isolated

_TITLE = 44  # where there is no terminal
_WIDE = 120


def tasks(context: Context, arguments: Namespace) -> None:
    since = since_iso(arguments.since) if arguments.since else None
    wanted = " ".join(arguments.filter or ())
    limit = arguments.limit if arguments.limit is not None else 200
    if wanted:
        from tracer.catalog.search import search_tasks  # the texts and their index, not needed by the list

        given = [f"status:{arguments.status}" if arguments.status else "", f"since:{since}" if since else ""]
        rows = search_tasks(context.state_dir, " ".join([wanted, *given]), limit=limit).rows
    else:
        rows = list_tasks(context.state_dir, status=arguments.status, since=since, limit=limit)
    output = context.output
    for row in rows:
        output.record(_record(row))
    output.lines(_table(rows, columns=output.columns))
    if any(row.status == "RUNNING" for row in rows):
        from runner.isolation.folder_lease import FolderLease

        lease = FolderLease(context.folder, state_dir=context.state_dir, task_id="")
        if holder := lease.holder():
            output.note(f"  {holder} works in {one_line(str(lease.folder))}")
    if not rows:
        output.note("no tasks in this project" if not (wanted or since or arguments.status) else "no task matches")
        output.note('  next:  pm run "..."   or   pm demo')
    elif len(rows) == limit:
        output.note(f"the newest {limit}; --limit shows more")
    output.result("tasks", {"tasks": [_record(row) for row in rows]} if output.form == "json" else {"count": len(rows)})


def _table(rows: list[TaskRow], *, columns: int) -> list[str]:
    """The list; titles are cut so that a row fits a terminal of `columns` (0: no terminal)."""
    if not rows:
        return []
    now = now_epoch_ms()
    width = max(len(row.task_id) for row in rows)
    wide = columns >= _WIDE
    more = f"{'verdicts':<10}  {'tokens':<8}  {'time':>9}  {'agent':<10}  " if wide else ""
    status_width = max(17, *(len(_status(row)) for row in rows))
    lines = [f"  {'task':<{width}}  {'status':<{status_width}}  {'it':>3}  {'cost':>9}  {'age':>7}  {more}title"]
    for row in rows:
        age = age_text(now - (epoch_ms(row.updated_at) or now))
        cost = cost_text(row.cost_usd).removeprefix("cost ")
        head = f"  {row.task_id:<{width}}  {_status(row):<{status_width}}  {row.iterations:>3}  {cost:>9}  {age:>7}"
        if wide:
            strip, spark = strip_text(row.judgments[-8:]), spark_text(row.tokens[-8:])
            checked = {"verified": " ✓", "failed": " ✗"}.get(row.verification, "")
            agent = padded(width_cut(one_line(row.executor), 10), 10)
            head += f"  {strip + checked:<10}  {spark:<8}  {seconds_text(row.worked_ms or None):>9}  {agent}"
        room = max(columns - width_of(head) - 3, 8) if columns else _TITLE
        lines.append(f"{head}  {width_cut(one_line(row.title), room)}")
    return lines


def _status(row: TaskRow) -> str:
    """The status, with what it leaves open: COMPLETE alone would read as shown to be right."""
    open_left = row.status == "COMPLETE" and row.verification == "not_verified"
    return f"{row.status}, not verified" if open_left else row.status


def _record(row: TaskRow) -> dict[str, Any]:
    return {**row._asdict(), "judgments": list(row.judgments)}


def show(context: Context, arguments: Namespace) -> None:
    from repl.present.blocks import Block
    from repl.present.outcome import result_fields
    from repl.present.task_blocks import question_block
    from runner.core.evolve import fold
    from runner.core.outcome import outcome_of  # 50 ms, not needed by the list
    from tracer.journal.reading import scan
    from tracer.verification import strength_text, survivor_text, unreached_text, unverified_text

    task = context.task(arguments.task)
    row = list_tasks(context.state_dir, task_id=task.task_id)[0]
    entries = scan(task.path).entries
    state = fold(entries)
    kind = state.request.kind if entries else ""
    outcome = outcome_of(state, trace_file=row.trace_file, chain_head=None)
    output, reason = context.output, f" ({row.reason})" if row.reason else ""
    unverified = one_line(unverified_text(outcome.not_verified, prefix=context.prefix))
    output.line(f"{row.task_id} {row.status}{reason}{f', {unverified}' if unverified else ''}   {one_line(row.title)}")
    agent = one_line(" ".join(part for part in (row.executor, row.model) if part))
    output.line(f"  executor    {agent or 'n/a'}")
    output.line(f"  kind        {one_line(kind) or 'n/a'}")
    output.line(f"  iterations  {row.iterations}" + (f"   {', '.join(row.judgments)}" if row.judgments else ""))
    output.line(f"  cost        {cost_text(row.cost_usd).removeprefix('cost ')}")
    output.line(f"  started     {row.created_at}   last event {row.updated_at}")
    output.line(f"  files       {files_text(outcome.files_modified) or 'none changed'}")
    if (strength := outcome.strength) is not None:
        output.line(f"  strength    {strength_text(strength)}")
        output.lines([f"              not noticed: {one_line(survivor_text(one))}" for one in strength.survivors[:20]])
    if outcome.unreached:
        output.line(f"  not reached {one_line(unreached_text(outcome.unreached))}")
    output.lines(_isolation_lines(context, row, outcome.isolation, state.request.workspace))
    subtasks = outcome.subtasks
    if subtasks:
        from repl.present.subtasks import standing_text, subtask_line

        output.line(f"  subtasks    {sum(one.status == 'done' for one in subtasks)} of {len(subtasks)} done")
        output.lines([f"  {subtask_line(one, standing_text(one))}" for one in subtasks])
    output.line(f"  trace       {row.trace_file}   {row.facts} events")
    for older in task.older:
        output.line(f"  earlier     {older}")
    if row.damaged:
        output.line(f"  damaged     {row.damaged} lines: pm trace verify {row.task_id}")
    if outcome.answer and output.human:
        output.lines([""] if not output.columns else [])
        output.block(Block("answer", outcome.answer))
    if outcome.question is not None and output.human:
        output.block(question_block(outcome.question, row.task_id))
    output.note(f"  next:  {next_steps(row, changed=bool(outcome.files_modified), allow=outcome.allowable)}")
    record = {
        **_record(row),
        **result_fields(outcome),
        "kind": kind or None,
        "files_modified": list(outcome.files_modified),
        "files": [one._asdict() for one in outcome.files],
        "older": [str(path) for path in task.older],
    }
    output.result("show", {**record, **({"subtasks": [one._asdict() for one in subtasks]} if subtasks else {})})


def _isolation_lines(context: Context, row: TaskRow, isolation: Isolated, workspace: str) -> list[str]:
    """Where the task works, who else works there, and what of its result does not merge."""
    from repl.present.progress import conflict_lines
    from runner.isolation.folder_lease import FolderLease

    lines = []
    if isolation.where == "worktree":
        lines = [f"  isolation   a worktree of its own{f': {one_line(isolation.why)}' if isolation.why else ''}"]
    elif row.status == "RUNNING" and workspace:
        lease = FolderLease(workspace, state_dir=context.state_dir, task_id="")
        if holder := lease.holder():
            has = "has" if holder == row.task_id else f"waits for {holder}, which works in"
            lines = [f"  isolation   {has} {one_line(str(lease.folder))}"]
    if isolation.conflicts:
        lines.append(f"  conflict    {one_line(', '.join(isolation.conflicts))}")
    return [*lines, *conflict_lines(isolation.text)]


def next_steps(row: TaskRow, prefix: str = "pm ", *, changed: bool, allow: bool = False) -> str:
    short = row.task_id.removeprefix("task-").lstrip("0") or row.task_id
    review = [f"review {short}"] if changed else []
    match row.status:
        case "RUNNING" | "QUEUED":
            steps = [f"trace {short} --follow", f"stop {short}"]
        case "AWAITING_RESPONSE" if row.last_event == "CHUNKING_PLAN":
            steps = [f"plan {short} --approve | --edit | --again TEXT"]
        case "AWAITING_RESPONSE" if row.last_event == "QUALITY_JUDGMENT":
            steps = [f"resume {short}", f"resume {short} --into BRANCH", f"respond {short} hint TEXT | stop"]
        case "AWAITING_RESPONSE":
            steps = [f"respond {short} {'allow | ' if allow else ''}continue | hint TEXT | accept | stop"]
        case "INCOMPLETE" if row.iterations:
            answers = f"{'allow | ' if allow else ''}hint TEXT | accept"
            steps = [f"respond {short} {answers}", f"resume {short}", *([] if row.reason == "asked" else review)]
        case "COMPLETE":
            steps = [*review, f"trace {short}"]
        case _:
            steps = [f"resume {short}", *review, f"trace {short}"]
    return "   ".join(prefix + step for step in steps)
