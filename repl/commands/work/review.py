"""`pm review TASK`: what a task changed hunk by hunk; keep or discard it, and commit what is kept."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from repl.commands.work.undo import NOT_WHOLE, undo_lines
from repl.present.progress import short_id
from repl.present.review import file_heading, review_rows, row_lines
from repl.present.text import count_text, one_line
from runner.changed_paths import is_made
from runner.undo.review import Committed, commit_review, decide, read_review
from tracer.errors import UsageError

if TYPE_CHECKING:
    from repl.context import Context


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
        output.lines([line for line in undo_lines(done) if "conflict" in line or "not put back" in line])
    if "commit" in more:
        _tell_commit(context, made, message)
    output.result("review", {**record, **more})
    return NOT_WHOLE if done is not None and not done.whole else 0


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
