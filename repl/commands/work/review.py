"""`pm review TASK`: what a task changed hunk by hunk, to keep, discard and commit; `pm undo TASK`: all of it put back.

A second `pm undo` puts the work in again.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import Any

from repl.commands.captures.consent import ask_yes, can_ask
from repl.context import Context
from repl.present.progress import short_id
from repl.present.review import file_heading, review_rows, row_lines
from repl.present.text import count_text, one_line
from runner.changed_paths import is_made
from runner.undo.review import Committed, commit_review, decide, read_review
from runner.undo.undo import UndoResult, undo_task
from tracer.errors import UsageError

_NOT_WHOLE = 6
_VERBS = {"restored": "put back", "removed": "removed", "changed": "changed back"}


async def review(context: Context, arguments: Namespace) -> int:
    task_id, output = context.task(arguments.task).task_id, context.output
    if arguments.message and not arguments.commit:
        raise UsageError("-m goes with --commit", next_step=f"pm review {task_id} --commit -m MSG")
    state_dir, more, done = context.state_dir, dict[str, Any](), None
    keep, discard = arguments.keep or (), arguments.discard or ()
    if keep or discard:
        done = await asyncio.to_thread(decide, state_dir, task_id, keep=keep, discard=discard)
        more |= {"conflicts": [one.path for one in done.conflicts], "lost": list(done.lost)}
    found = await asyncio.to_thread(read_review, state_dir, task_id)
    if arguments.commit and (done is None or done.whole):
        message = arguments.message or found.message
        leave = [file.path for file in found.files if is_made(file.path) and not file.decided]
        made = await asyncio.to_thread(commit_review, state_dir, task_id, message, leave=leave)
        more |= {"commit": made.commit or None, "left_out": list(made.left_out)}
    record = found.to_dict()
    if output.human and not more:
        rows = review_rows(record, columns=output.columns, styled=output.colour, whole_by=f"pm show {task_id}")
        output.lines(row_lines(rows, coloured=output.colour))
        if record["files"]:
            short = short_id(task_id)
            output.note(f"  next:  pm review {short} --discard FILE|HUNK   --commit   or   pm undo {short}")
    elif done is not None:
        output.lines([f"  {file_heading(file)}" for file in record["files"]])
        output.lines([line for line in _undo_lines(done) if "conflict" in line or "not put back" in line])
    if "commit" in more:
        _tell_commit(context, made, message)
    output.result("review", {**record, **more})
    return _NOT_WHOLE if done is not None and not done.whole else 0


def _tell_commit(context: Context, made: Committed, message: str) -> None:
    output = context.output
    if not made.commit:
        output.line("nothing to commit: all that is kept is in HEAD")
        return
    where = f" on {one_line(made.branch)}" if made.branch else ""
    output.line(f"committed {made.commit[:12]}{where}: {one_line(message)} · {count_text(len(made.paths), 'file')}")
    for path in made.left_out:
        output.note(f"  later edits of {one_line(path)} are not in it: pm review {made.task_id} --keep takes them in")
    if made.remote and made.branch:
        branch = f"pm/{made.task_id}" if made.branch in {"main", "master", "trunk"} else made.branch
        switch = f"git switch -c {branch} && " if branch != made.branch else ""
        ask = "glab mr create --fill" if "gitlab" in made.remote else "gh pr create --fill"
        output.note(f"  to open a pull request:  {switch}git push -u origin {branch} && {ask}")


async def undo(context: Context, arguments: Namespace) -> int:
    task_id = context.task(arguments.task).task_id
    if not arguments.yes and not await _agreed(context, task_id, arguments.iteration):
        context.output.line("nothing was changed")
        context.output.result("undo", {"task_id": task_id, "changed": False})
        return 0
    done = await asyncio.to_thread(undo_task, context.state_dir, task_id, iteration=arguments.iteration)
    context.output.lines(_undo_lines(done))
    context.output.line(_closing(done, context.prefix))
    fields = {
        "task_id": task_id,
        "kind": done.kind,
        "files": [one._asdict() for one in done.files],
        "conflicts": [one._asdict() for one in done.conflicts],
        "repository": list(done.repository),
        "lost": list(done.lost),
    }
    context.output.result("undo", fields)
    return 0 if done.whole else _NOT_WHOLE


async def _agreed(context: Context, task_id: str, iteration: int | None) -> bool:
    if context.session is not None and context.session.view.name != "pipe":
        return True  # typed at a prompt, it is wanted; the same line takes it back
    if context.session is not None or not can_ask(context):
        why, following = "nobody can be asked here", f"pm undo {task_id} --yes"
        raise UsageError("undo changes your files", why=why, next_step=following)
    shown = await asyncio.to_thread(undo_task, context.state_dir, task_id, iteration=iteration, dry_run=True)
    for line in _undo_lines(shown):
        context.output.note(line)
    return await asyncio.to_thread(ask_yes, context, f"{shown.kind} {task_id}?", default=False)


def _undo_lines(done: UndoResult) -> list[str]:
    lines = [f"  {_VERBS[one.status]:<13} {one_line(one.path)}" for one in done.files]
    lines += [f"  {'repository':<13} {one_line(one)}" for one in done.repository]
    for one in done.conflicts:
        kept = f"; the other version is {one.kept_as}" if one.kept_as else ""
        lines.append(f"  {'conflict':<13} {one_line(one.path)}: yours stays{one_line(kept)}")
    return [*lines, *(f"  {'not put back':<13} {one_line(one)}" for one in done.lost)]


def _closing(done: UndoResult, prefix: str) -> str:
    if done == UndoResult(done.task_id, done.kind):
        return f"{done.task_id} left nothing to undo"
    what = "undone" if done.kind == "undo" else "its work is in again"
    parts = [f"{done.task_id} {what}", count_text(len(done.files), "file")]
    parts += [count_text(len(done.conflicts), "conflict")] if done.conflicts else []
    parts += [f"{len(done.lost)} not put back"] if done.lost else []
    other = "puts the work in again" if done.kind == "undo" else "takes it back"
    return f"{' · '.join(parts)}      {prefix}undo {short_id(done.task_id)} {other}"
