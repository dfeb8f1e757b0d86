"""`run`, `resume`, `respond`, `stop`, `retry`: give work to the supervisor and show it until it rests."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from repl.commands.work.questions import Person, PlanAnswer, ask_about_plan, ask_line, ask_trust
from repl.context import Context
from repl.executor_choice import choose_executor
from repl.present.progress import Progress, short_id
from repl.present.task_blocks import question_block, tell_result
from repl.present.text import count_text
from repl.present.watch import close_task, watch_task
from repl.session import Session
from runner.core.task import TaskOutcome
from runner.gate.request_kind import settled_kind
from tracer.errors import LockedError, NotFoundError, UsageError
from tracer.facts import Question, UserRequest
from tracer.journal.reading import read_entries
from tracer.lookup import TaskRef
from tracer.names import Action
from tracer.settings.declared import SETTINGS
from tracer.settings.parse import parse_value

_LIMITS = {
    "max_iterations": "max_iterations", "timeout": "timeout_s", "budget_usd": "budget_usd", "parallel": "parallel",
}  # fmt: skip
_MOST_INPUT = 4 << 20


async def run(context: Context, arguments: Namespace) -> int:
    prompt, source = await asyncio.to_thread(_prompt, arguments.prompt, context)
    if context.session is None:
        choose_executor(context.settings(), context.environ)  # before anything is written: a first run leaves no trace
    async with with_session(context) as (session, own):
        ignored = session.settings.ignored_line()
        if ignored and own:
            context.output.note(ignored)
        if (
            own and settled_kind(str(session.settings.get("run.kind")), prompt) != "question"
        ):  # a question runs no tests
            await ask_trust(context, session, Person())
        apart = {"isolation": "worktree"} if arguments.isolate else {}
        given = {**_given(context, arguments), **apart, "prompt_file": source}
        task_id = await session.submit(prompt, given=given)
        return await _watch(context, session, task_id)


async def question(context: Context, arguments: Namespace) -> int:
    prompt = _filled(" ".join(arguments.prompt), "the question")
    task_id = await context.session.submit(prompt, given={"kind": "question"})
    return await _watch(context, context.session, task_id)


async def resume(context: Context, arguments: Namespace) -> int:
    if not arguments.task and context.session is None:  # at the prompt it is the current or last task
        raise UsageError("name a task or give --last", next_step="pm resume 15, or pm resume --last")
    async with with_session(context) as (session, _):
        task = session.resolve(arguments.task)
        overrides = {name: getattr(arguments, flag, None) for flag, name in _LIMITS.items()}
        try:
            task_id = await session.resume(task.task_id, overrides=overrides, into=arguments.into)
        except LockedError:
            seen = await asyncio.to_thread(lambda: len(read_entries(task.path)) - 1)
            return await _follow_elsewhere(context, session, task.task_id, after=seen)
        if session.supervisor.status(task_id) is None:
            outcome = await asyncio.to_thread(session.supervisor.look, task_id)
            if outcome.status == "COMPLETE":
                context.output.note(f"{task_id} is COMPLETE: nothing to resume")
                return await close_task(context, outcome, Progress(task_id, prefix=context.prefix))
        if context.session is not None:
            context.output.note(f"{task_id} goes on")
        return await _watch(context, session, task_id, after=session.supervisor.recorded(task_id) - 1)


async def _follow_elsewhere(context: Context, session: Session, task_id: str, *, after: int) -> int:
    """Another process runs it: say who, and show it until it rests; it is not touched."""
    if context.session is not None:
        session.mark_seen(task_id)
    holder = session.follow_elsewhere(task_id)
    who = holder.describe() if holder else "another process"
    stop_hint = f"{context.prefix}stop {short_id(task_id)} stops it"
    context.output.note(f"{task_id} is run by {who}: shown here, read only   {stop_hint}")
    if context.session is not None:
        context.output.result(context.command, {"task_id": task_id, "read_only": True})
        return 0
    progress = Progress(task_id, prefix=context.prefix)
    outcome = await watch_task(session, context.output, task_id, after=after, progress=progress)
    return await close_task(context, outcome, progress)


async def respond(context: Context, arguments: Namespace) -> int:
    action: Action = arguments.action
    text = " ".join(arguments.text)
    if action == "hint" and not text:
        raise UsageError("a hint needs words", next_step="pm respond 15 hint keep the public API")
    async with with_session(context) as (session, _):
        task = session.resolve(arguments.task)
        return await answer_task(context, session, task, action, text=text, more=arguments.max_iterations)


async def answer_task(
    context: Context,
    session: Session,
    task: TaskRef,
    action: Action,
    *,
    text: str = "",
    more: int | None = None,
    plan: Mapping[str, Any] | None = None,
) -> int:
    runs = session.runs(task.task_id)
    task_id = await session.respond(task.task_id, action, text=text, more=more, plan=plan)
    if runs:
        who = "its agent takes nothing while it works"
        context.output.line(
            f"{task_id} gets it with its next request: {who}   {context.prefix}stop {short_id(task_id)} ends it"
        )
        context.output.result(context.command, {"task_id": task_id, "queued": True})
        return 0
    return await _watch(context, session, task_id, after=session.supervisor.recorded(task_id) - 1)


async def stop(context: Context, arguments: Namespace) -> None:
    async with with_session(context) as (session, _):
        task = session.resolve(arguments.task)
        short = short_id(task.task_id)
        if not await session.stop(task.task_id):
            status = session.supervisor.look(task.task_id).status
            following = f"respond {short} stop" if status == "AWAITING_RESPONSE" else f"show {short}"
            raise NotFoundError(f"{task.task_id} is not running", why=f"it is {status}", next_step=f"pm {following}")
        context.output.line(f"{task.task_id} stops at the next safe point   {context.prefix}resume {short} goes on")
        context.output.result("stop", {"task_id": task.task_id, "stopping": True})
        return


async def retry(context: Context, arguments: Namespace) -> int:
    async with with_session(context) as (session, _):
        task = session.resolve(arguments.task)
        first = next((e for e in read_entries(task.path) if isinstance(e, UserRequest) and not e.action), None)
        if first is None:
            raise NotFoundError(f"{task.task_id} has no request to repeat", next_step="pm trace verify " + task.task_id)
        task_id = await session.submit(first.prompt, given=_given(context, arguments))
        return await _watch(context, session, task_id)


@asynccontextmanager
async def with_session(context: Context) -> AsyncGenerator[tuple[Session, bool]]:
    """The session at hand, or one for this command alone (then the second value is true)."""
    if context.session is not None:
        yield context.session, False
        return
    asks = context.output.interactive and not context.arguments.no_input
    interactive = asks and bool(sys.stdin) and sys.stdin.isatty()
    async with Session(context, interactive=interactive) as session:
        yield session, True


async def _watch(context: Context, session: Session, task_id: str, *, after: int = -1) -> int:
    context.running_task = task_id
    if context.session is not None:
        # At `pm>` the view follows every task of the session by itself: the command is done once the task has begun.
        context.output.result(context.command, {"task_id": task_id})
        return 0
    progress = Progress(task_id, prefix=context.prefix)
    person = Person()
    show = partial(watch_task, session, context.output, task_id, progress=progress, person=person)
    outcome = await show(after=after)
    while outcome.status == "AWAITING_RESPONSE" and session.interactive:
        ask = ask_about_plan if outcome.reason == "plan" else _ask_person
        await tell_result(context.output, outcome, progress, asked=False)
        answer = await ask(context, outcome, person)
        if answer is None:
            break
        await session.respond(task_id, answer.action, text=answer.text, plan=answer.plan)
        outcome = await show(after=session.supervisor.recorded(task_id) - 1)
    context.running_task = ""
    return await close_task(context, outcome, progress)


async def _ask_person(context: Context, outcome: TaskOutcome, person: Person) -> PlanAnswer | None:
    if outcome.question is not None:
        return await _ask_question(context, outcome.question, outcome, person)
    last = outcome.judgments[-1] if outcome.judgments else "none"
    question = "c continue, h TEXT hint, a accept, s stop, Enter later? "
    if outcome.reason == "conflict":
        question = "c hand it over again (put your change aside first), h TEXT do it again, s stop, Enter later? "
    else:
        context.output.note(f"{count_text(outcome.iterations, 'iteration')}, last verdict {last}")
    while typed := await ask_line(context, person, question):
        if answer := _decision(typed, outcome):
            return answer
    return None


async def _ask_question(
    context: Context, question: Question, outcome: TaskOutcome, person: Person
) -> PlanAnswer | None:
    """Put the question box; whatever is typed that is no decision answers it."""
    for line in context.output.rendered(question_block(question, outcome.task_id)):
        context.output.note(line)
    numbers = f"1-{len(question.choices)}, " if question.choices else ""
    numbers += "allow the changed tests, " if outcome.allowable else ""
    prompt = f"  your answer ({numbers}a accept it as it is, c go on without an answer, s stop, Enter later): "
    typed = await ask_line(context, person, prompt)
    if not typed:
        return None
    if typed.isascii() and typed.isdigit() and 0 < int(typed) <= len(question.choices):
        typed = question.choices[int(typed) - 1]
    return _decision(typed, outcome) or PlanAnswer("hint", typed)


_ACTIONS: dict[str, Action] = {"c": "continue", "h": "hint", "a": "accept", "s": "stop"}


def _decision(typed: str, outcome: TaskOutcome) -> PlanAnswer | None:
    """What `typed` says in the words of `pm respond` or their letters; None where it is other text."""
    word, _, text = typed.partition(" ")
    named: dict[str, Action] = {**_ACTIONS, **{action: action for action in _ACTIONS.values()}}
    if outcome.allowable:
        named["allow"] = "allow"
    action = named.get(word.lower())
    if action is None or bool(text) is not (action == "hint"):
        return None
    return PlanAnswer(action, text.strip())


def _given(context: Context, arguments: Namespace) -> dict[str, Any]:
    """The flags of a command typed at `pm>`, as values by key; of `pm run` they are a layer of the settings."""
    if context.session is None:
        return {}
    found: dict[str, Any] = {}
    for setting in SETTINGS:
        raw = getattr(arguments, setting.flag.lstrip("-").replace("-", "_"), None) if setting.flag else None
        if raw is not None:
            found[setting.key.removeprefix("run.")] = parse_value(setting, raw, key=setting.key, where=setting.flag)
    return found


def _prompt(words: list[str], context: Context) -> tuple[str, str]:
    """The request, and the file that it came from as it was named; empty where it came from none."""
    named = ""
    if words == ["-"]:
        raw = sys.stdin.buffer.read(_MOST_INPUT + 1)
        source = "stdin"
    elif len(words) == 1 and words[0].startswith("@") and len(words[0]) > 1:
        named = source = words[0][1:]
        raw = _file_bytes(context.path(source))
    else:
        return _filled(" ".join(words), "the request"), ""
    if len(raw) > _MOST_INPUT:
        raise UsageError(
            f"{source} holds more than {_MOST_INPUT >> 20} MB", next_step="put it in a file and name the file"
        )
    try:
        return _filled(raw.decode("utf-8"), source), named
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8", why=str(error)) from error


def _filled(text: str, source: str) -> str:
    if not text.strip():
        raise UsageError(f"{source} is empty", next_step='pm run "add input validation to the signup form"')
    return text.strip("\n")


def _file_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_INPUT + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read {str(path)!r}", why=error.strerror or "", next_step="check the file name"
        ) from error
