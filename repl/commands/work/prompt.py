"""The commands that only make sense inside `pm>`: its choices, its queue, its skin, its way out."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from typing import Any

from repl.actions import key_lines
from repl.context import Context
from repl.executor_choice import AUTO, acp_agents, find_key, found_agents
from repl.permissions import choices_text, question_text
from repl.present.text import cost_text, count_text, escape, one_line, padded
from repl.registry.parse import duration_seconds
from tracer.catalog.tasks import list_tasks
from tracer.errors import NotFoundError, UsageError


def status(context: Context, _arguments: Namespace) -> None:
    session, output = context.session, context.output
    rows = {row.task_id: row for row in list_tasks(session.state_dir)}
    output.line(f"folder     {session.folder}")
    for name in ("executor", "model", "max_iterations", "budget_usd", "timeout", "criteria"):
        value, origin = session.chosen(name)
        output.line(f"{name.replace('_', ' '):<15} {padded(_shown(value), 12)} {origin}")
    for task_id in session.running:
        output.line(f"running    {task_id}  {one_line(rows[task_id].title, 60) if task_id in rows else ''}")
    for number, text in enumerate(session.queue, 1):
        output.line(f"queued {number}   {one_line(text, 60)}")
    mine = [rows[task_id] for task_id in session.started if task_id in rows]
    known = [row.cost_usd for row in mine if row.cost_usd is not None]
    if mine:
        total = cost_text(sum(known) if known else None)
        output.line(f"cost       {total} for {count_text(len(mine), 'task')} of this session")
    output.result("status", {"running": session.running, "queue": session.queue})


def executor(context: Context, arguments: Namespace) -> None:
    session, output = context.session, context.output
    if arguments.name:
        session.choose("executor", None if arguments.name in {AUTO, "default"} else arguments.name)
        output.line(f"executor {session.executor_name()} for this session   (default: pm config set run.executor NAME)")
        return
    value, origin = session.chosen("executor")
    output.line(f"executor {value} ({origin})")
    key = find_key(session.settings, session.environ)
    output.line(f"  anthropic  {'key from ' + key.source if key else 'no key'}")
    for agent in found_agents(session.settings, session.environ):
        output.line(f"  {agent.name:<10} {agent.path or 'not found'}")
    for name, command in acp_agents(session.settings, session.environ):
        output.line(f"  {padded(escape(name), 10)} {escape(command or 'not found')}")


def model(context: Context, arguments: Namespace) -> None:
    session = context.session
    if arguments.name:
        session.choose("model", None if arguments.name == "default" else arguments.name)
    shown, origin = session.chosen("model")
    context.output.line(f"model {_shown(shown)} ({origin})   (default: /config set run.model VALUE)")


def limits(context: Context, arguments: Namespace) -> None:
    session, output = context.session, context.output
    words = list(arguments.words)
    if len(words) % 2:
        raise UsageError("/limits takes pairs", next_step="/limits iterations 5 budget 2.50 timeout 15m")
    for name, raw in zip(words[::2], words[1::2], strict=True):
        key = {"iterations": "max_iterations", "budget": "budget_usd", "timeout": "timeout"}.get(name)
        if key is None:
            raise UsageError(f"no limit {name!r}", next_step="/limits iterations 5 budget 2.50 timeout 15m")
        session.choose(key, _limit(key, raw))
    for name in ("max_iterations", "budget_usd", "timeout"):
        value, origin = session.chosen(name)
        output.line(f"{name:<15} {_shown(value):<10} {origin}")
    output.note("defaults: /config set run.max_iterations N")


def _limit(key: str, raw: str) -> Any:
    if raw in {"default", "-"}:
        return None
    try:
        value = duration_seconds(raw) if key == "timeout" else float(raw)
    except (ValueError, ArgumentTypeError) as error:
        raise UsageError(f"{raw!r} is no value for {key}") from error
    if key == "max_iterations":
        if value < 1 or value != int(value):
            raise UsageError(f"{raw!r} is no number of iterations")
        return int(value)
    if not value >= 0:
        raise UsageError(f"{raw!r} is below 0")
    return value


def cost(context: Context, arguments: Namespace) -> None:
    rows = list_tasks(context.state_dir)
    groups: dict[str, list[float | None]] = {}
    for row in rows:
        name = (row.model or row.executor or "n/a") if arguments.by == "model" else row.task_id
        groups.setdefault(name, []).append(row.cost_usd)
    for name, costs in groups.items():
        known = [one for one in costs if one is not None]
        unknown = f", {len(costs) - len(known)} n/a" if known and len(known) < len(costs) else ""
        text = cost_text(sum(known) if known else None)
        context.output.line(f"{padded(escape(name), 28)} {text:>10}   {count_text(len(costs), 'task')}{unknown}")
    every = [row.cost_usd for row in rows if row.cost_usd is not None]
    context.output.line(f"{'all':<28} {cost_text(sum(every) if every else None):>10}   {count_text(len(rows), 'task')}")
    context.output.result("cost", {"by": arguments.by or "task", "groups": groups})


def queue(context: Context, arguments: Namespace) -> None:
    waiting: list[str] = context.session.queue
    action, words = arguments.action, list(arguments.words)
    if action == "drop" and words == ["all"]:
        waiting.clear()
    elif action:
        index = _row(waiting, words[:1])
        if action == "drop":
            waiting.pop(index)
        else:
            text = " ".join(words[1:])
            if not text:
                raise UsageError("/queue edit needs the new text", next_step="/queue edit 1 add tests too")
            waiting[index] = text
    for number, text in enumerate(waiting, 1):
        context.output.line(f"{number:>3}  {one_line(text, 100)}")
    if not waiting:
        context.output.note("nothing waits")


def _row(waiting: list[str], words: list[str]) -> int:
    if not words or not words[0].isdigit() or not 1 <= int(words[0]) <= len(waiting):
        raise NotFoundError(f"the queue has no row {words[0] if words else '?'}", next_step="/queue")
    return int(words[0]) - 1


def permit(context: Context, arguments: Namespace) -> None:
    desk = context.session.permissions
    waiting = desk.open_question()
    if waiting is None:
        raise NotFoundError("no agent asks for permission", next_step="/status")
    if arguments.answer:
        desk.answer(arguments.answer)
    else:
        context.output.lines([question_text(waiting.question), f"  {choices_text(waiting.question)}, then Enter"])


def history(context: Context, arguments: Namespace) -> None:
    from repl.history import History

    wanted = " ".join(arguments.words).lower()
    found = [text for text in History(context.session).entries("project") if wanted in text.lower()]
    for text in found[-50:]:
        context.output.line(one_line(text, 200))
    if not found:
        context.output.note("nothing found")


def keys(context: Context, _arguments: Namespace) -> None:
    context.output.lines(key_lines(context.session.view.key_rows(), columns=context.output.columns))
    context.output.note("rebind: /config set repl.keys.ID KEY, such as repl.keys.prompt.escape ctrl+x")


def live(context: Context, arguments: Namespace) -> None:
    context.session.view.set_option("live", arguments.switch == "on")
    context.output.note(f"live text {arguments.switch}")


def plain(context: Context, arguments: Namespace) -> None:
    context.session.view.set_option("plain", arguments.switch == "on")
    context.output.plain = arguments.switch == "on"
    context.output.note(f"plain {arguments.switch}")


def theme(context: Context, arguments: Namespace) -> None:
    if not arguments.name:
        context.output.line(
            f"theme {context.session.settings.get('repl.theme')}   (default: /config set repl.theme NAME)"
        )
        return
    context.session.view.set_option("theme", arguments.name)
    context.output.note(f"theme {arguments.name}")


def screen(context: Context, _arguments: Namespace) -> None:
    context.session.view.leave("screen")


def line(context: Context, _arguments: Namespace) -> None:
    context.session.view.leave("line")


def clear(context: Context, _arguments: Namespace) -> None:
    context.session.view.clear()


def exit_(context: Context, _arguments: Namespace) -> None:
    context.session.view.leave()


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return (
        ",".join(value) if isinstance(value, list | tuple) else f"{value:g}" if isinstance(value, float) else str(value)
    )
