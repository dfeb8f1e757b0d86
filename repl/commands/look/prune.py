"""`pm admin prune tasks` and `pm admin prune blobs`: what can go, shown first; deleted only with `--yes`."""

from __future__ import annotations

import os
from argparse import Namespace

from repl.context import Context
from repl.present.text import count_text, one_line, size_text
from runner.workspace.git.refs import release_baselines
from tracer.journal.gc import apply_gc, apply_prune, parse_age, plan_gc, plan_prune

_SHOWN = 20


def prune(context: Context, arguments: Namespace) -> None:
    age = parse_age(arguments.older_than) if arguments.older_than else None
    plan = plan_prune(context.state_dir, older_than_ms=age, keep=arguments.keep)
    output = context.output
    items = list(plan.items)
    if arguments.yes:
        items = apply_prune(context.state_dir, plan)
        release_baselines(context.folder, [item.task_id for item in items], state_dir=context.state_dir.root)
    for item in items[:_SHOWN]:
        size = size_text(item.size)
        output.line(f"{item.task_id}  {item.status:<10}  {item.updated_at[:10]}  {size:>9}  {one_line(item.title, 50)}")
    if len(items) > _SHOWN:
        output.line(f"… {len(items) - _SHOWN} more")
    freed = sum(item.size for item in items)
    verb = "deleted" if arguments.yes else "would go"
    output.line(
        f"{count_text(len(items), 'task')} {verb}, {size_text(freed)}; {plan.kept + len(plan.items) - len(items)} stay"
    )
    if items and not arguments.yes:
        output.note("nothing was deleted; give --yes to delete")
    names = [item.task_id for item in items]
    output.result(
        "admin prune tasks", {"dry_run": not arguments.yes, "tasks": names, "bytes": freed, "kept": plan.kept}
    )


def gc(context: Context, arguments: Namespace) -> None:
    plan = plan_gc(context.state_dir)
    output = context.output
    going = [*plan.blobs, *plan.leftovers]
    for path, size in going[:_SHOWN]:
        output.line(f"{size_text(size):>9}  {os.path.relpath(path, context.state_root)}")
    if len(going) > _SHOWN:
        output.line(f"… {len(going) - _SHOWN} more")
    freed = apply_gc(context.state_dir, plan) if arguments.yes else plan.size
    verb = "freed" if arguments.yes else "would be freed"
    output.line(f"{count_text(len(going), 'file')}, {size_text(freed)} {verb}; {count_text(plan.kept, 'blob')} in use")
    if going and not arguments.yes:
        output.note("nothing was deleted; give --yes to delete")
    output.result(
        "admin prune blobs", {"dry_run": not arguments.yes, "files": len(going), "bytes": freed, "kept": plan.kept}
    )
