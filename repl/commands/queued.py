"""`pm run --queue`: a whole task for a worker elsewhere; `pm queued`: what is queued, and one task as it happens."""

from __future__ import annotations

import asyncio
import json
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from repl.context import Context
from repl.present.outcome import outcome_error, outcome_fields
from repl.present.output import make_output
from repl.present.text import one_line
from tracer import clock
from tracer.errors import PmError, UnavailableError, UsageError

if TYPE_CHECKING:
    from collector.queued_tasks import QueuedTask, QueuedTasks
    from runner.core.task import TaskOutcome

_LOOK_S: Final = 0.5
_PASSED_ON: Final = (
    "title", "kind", "executor", "model", "permissions", "max_iterations", "timeout", "budget_usd", "criteria",
    "test", "lint", "typecheck", "allow_test_changes", "chunk",
)  # fmt: skip
_ENDED: Final = frozenset({"COMPLETE", "INCOMPLETE", "ERROR", "CANCELLED", "AWAITING_RESPONSE", "UNFINISHED"})


async def submit_task(context: Context, arguments: Namespace, prompt: str) -> int:
    """`pm run --queue PROMPT [--repository URL] [--commit ID]`: queue it, then show it as it happens."""
    from collector.queued_tasks import open_queued_tasks
    from collector.work.worker import queue_address  # the store and the queue: 900 ms, for queued tasks alone

    dsn = queue_address(context.settings())
    repository = arguments.repository or await _git(context, "remote", "get-url", "origin")
    commit = arguments.commit or await _git(context, "rev-parse", "HEAD")
    flags = {name: getattr(arguments, name, None) for name in _PASSED_ON}
    request = {"prompt": prompt, "flags": {name: value for name, value in flags.items() if value is not None}}
    task_id = clock.new_id()
    async with open_queued_tasks(dsn) as tasks:
        cleaned = await asyncio.to_thread(_redacted, context, request)
        await tasks.submit(task_id=task_id, repository=repository, commit=commit, request=cleaned)
        context.output.note(f"queued as {task_id}   Ctrl+C leaves it running; pm queued {task_id} shows it again")
        return await _watch(context, tasks, task_id)


async def show_queued(context: Context, arguments: Namespace) -> int:
    """`pm queued [TASK] [--diff]`."""
    from collector.queued_tasks import open_queued_tasks
    from collector.work.worker import queue_address

    async with open_queued_tasks(queue_address(context.settings())) as tasks:
        if not arguments.task:
            return await _list(context, tasks)
        if arguments.diff:
            return await _print_diff(context, await tasks.get(arguments.task))
        return await _watch(context, tasks, arguments.task)


async def _list(context: Context, tasks: QueuedTasks) -> int:
    rows = await tasks.listing()
    for row in rows:
        title = one_line(str(row.request.get("prompt", "")))[:60]
        context.output.line(f"{row.task_id}  {row.status:<12} {clock.from_epoch_ms(row.created_ms)[:16]}  {title}")
    if not rows:
        context.output.line("nothing is queued")
    context.output.result("queued", {"tasks": [_fields(row) for row in rows]})
    return 0


async def _print_diff(context: Context, task: QueuedTask) -> int:
    if context.output.human:
        context.output.data((task.diff or "").encode("utf-8", "replace"))
    context.output.result("queued", {**_fields(task), "diff": task.diff})
    return 0


async def _watch(context: Context, tasks: QueuedTasks, task_id: str) -> int:
    """Show the facts of the newest attempt as they come, until the task has ended."""
    from tracer.events import parse_line
    from tracer.trace_text import fact_line

    attempt, after = 0, -1
    while True:
        task = await tasks.get(task_id)
        if task.attempt != attempt:
            attempt, after = task.attempt, -1
            context.output.note(f"attempt {attempt}: a worker begins at {task.commit[:12]}")
        while page := await tasks.facts(task_id, attempt=attempt, after=after):
            for seq, line in page:
                if context.output.form == "jsonl":
                    context.output.data(line)
                elif context.output.human:
                    context.output.line(fact_line(parse_line(line)))
                after = seq
        if task.status in _ENDED:
            return _close(context, task)
        await asyncio.sleep(_LOOK_S)


def _close(context: Context, task: QueuedTask) -> int:
    from repl.exit_codes import code_of

    result = task.result or {}
    context.output.line(f"{task.task_id}: {task.status}  {one_line(str(result.get('detail') or ''))}".rstrip())
    if task.diff:
        context.output.note(f"  next:  pm queued {task.task_id} --diff | git apply")
    context.output.result("queued", _fields(task))
    return 0 if task.status == "COMPLETE" else int(code_of(str(result.get("error_code") or "not_accepted")))


def _fields(task: QueuedTask) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "status": task.status,
        "repository": task.repository,
        "commit": task.commit,
        "attempt": task.attempt,
        "result": task.result,
    }


async def carry_out(context: Context, tasks: QueuedTasks, task_id: str) -> None:
    """One attempt at a queued task, on a worker: fetch, run, record every fact as it comes, keep diff and outcome."""
    task = await tasks.begin(task_id)
    if task is None:
        return
    with tempfile.TemporaryDirectory(prefix="pm-task-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            outcome, diff = await _run(context, tasks, task, folder)
        except UnavailableError:
            raise  # the queue tries it again, with a pause; attempts are counted
        except PmError as error:
            told = {"reason": error.code, "detail": error.what, "why": error.why, "error_code": error.code}
            await tasks.end(task_id, attempt=task.attempt, status="ERROR", result=told, diff="")
            return
    trouble = outcome_error(outcome)
    result = {**outcome_fields(outcome), "detail": outcome.detail, "trace_file": ""}
    if trouble is not None:
        result["error_code"] = trouble.code
    await tasks.end(task_id, attempt=task.attempt, status=outcome.status, result=result, diff=diff)


async def _run(context: Context, tasks: QueuedTasks, task: QueuedTask, folder: Path) -> tuple[TaskOutcome, str]:
    from collector.task_source import check_out
    from repl.session import Session

    tree = folder / "tree"
    tree.mkdir()
    remotes = tuple(context.settings().get("qa.remotes"))
    await check_out(task.repository, task.commit, tree, remotes=remotes)
    config = context.state_root / "config.toml"
    flags: Mapping[str, Any] = task.request.get("flags") or {}
    known = {name: value for name, value in flags.items() if name in _PASSED_ON}
    inner = Context(
        output=make_output({"quiet": True, "json": True}, context.environ),
        environ=context.environ,
        arguments=Namespace(
            directory=str(tree),
            state_dir=str(folder / "state"),
            config=str(config) if config.is_file() else None,
            **known,
        ),
        command="run",
    )
    async with Session(inner, interactive=False) as session:
        own_id = await session.submit(str(task.request["prompt"]))
        async for seq, line in session.facts(own_id):
            await tasks.add_fact(task.task_id, task.attempt, seq, line)
        outcome = await session.wait(own_id)
    return outcome, await _diff_of(context, tree, task.commit)


async def _diff_of(context: Context, tree: Path, commit: str) -> str:
    """What the task changed since its commit, new files included, with secrets replaced."""
    from runner.processes.command import run_command
    from runner.processes.environment import command_environment

    environment = {**command_environment(), "GIT_CONFIG_NOSYSTEM": "1"}
    safe = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
    await run_command([*safe, "add", "--all"], cwd=tree, env=environment, timeout_s=300)
    words = [*safe, "diff", "--cached", "--binary", "--no-ext-diff", "--no-textconv", commit]
    done = await run_command(words, cwd=tree, env=environment, timeout_s=300, keep_bytes=32 << 20)
    text = done.output.decode("utf-8", "replace") if done.ok else ""
    return str(await asyncio.to_thread(_redacted, context, text))


def _redacted(context: Context, value: Any) -> Any:
    from tracer.redaction.engine import build_redactor

    redactor = build_redactor(state_dir=context.state_root, environ=context.redactor_environ())
    if isinstance(value, str):
        return redactor.untruncated().redact_text(value)[0]
    return json.loads(json.dumps(redactor.untruncated().redact_value(value).value))


async def _git(context: Context, *words: str) -> str:
    from runner.processes.command import run_command

    done = await run_command(["git", *words], cwd=context.folder, timeout_s=30)
    text = done.output.decode("utf-8", "replace").strip()
    if not done.ok or not text:
        raise UsageError(
            "which code is the task about?",
            why=f"git {' '.join(words)}: {one_line(text)[:200] or 'no answer'}",
            next_step="pm run --queue --repository https://… --commit ID PROMPT",
        )
    return text
