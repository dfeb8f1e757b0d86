"""One sitting at `pm>` (or one `pm run`): settings, choices, running tasks and the queue of inputs behind them.

Events come from the trace file through `facts`, never from callbacks: a slow view cannot hold a task back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from repl.context import Context
from repl.executor_choice import choose_executor
from repl.permissions import PermissionDesk
from repl.present.progress import short_id
from repl.task_request import executor_settings, expand_criteria, task_request
from runner.core.request import Request
from runner.core.task import TaskOutcome
from runner.executors.executor_port import Executor, Live
from runner.executors.registry import make_executor
from runner.supervisor import Supervisor
from tracer.errors import PmError, RecordError, TraceError, UsageError
from tracer.events import parse_line
from tracer.facts import LlmRequest, UserRequest, fact_in
from tracer.journal.follow import follow, is_final
from tracer.journal.reading import iter_lines
from tracer.lock import Holder
from tracer.lookup import TaskRef, resolve_task, trace_files
from tracer.names import Action
from tracer.settings.layers import Settings
from tracer.statedir import StateDir

if TYPE_CHECKING:
    from runner.effects import TaskEffects

Listener = Callable[[Live | None], None]
# What a session can choose for itself, over the settings: /executor, /model, /limits, /criteria.
CHOICES = ("executor", "model", "max_iterations", "budget_usd", "timeout", "permissions", "criteria")
_LOOK_S = 0.25
_PRINTED = 20_000
_ENDED = frozenset({"COMPLETE", "INCOMPLETE", "ERROR", "CANCELLED"})


def warm_up() -> None:
    """Import what the first task needs; views call it in a thread once their first prompt stands."""
    import tracer.redaction.engine  # noqa: F401 - 60 ms of rules beside the 170 ms of criteria above


class Session:
    """The state every view of one sitting shares; an async context manager that leaves nothing running.

    `choices` are this session's own `run.*` values, `queue` the inputs waiting behind the running task, `current` the
    running or last task, `asking` the tasks that wait for a user, `permissions` what agents ask permission for,
    `started` every task this session began, `view` the skin at hand (a `repl.shell.View`), `seen` the last sequence
    shown of each trace file, so that a change of skin repeats nothing, `printed` what line mode printed since the full
    screen was last shown.
    """

    def __init__(
        self,
        context: Context,
        *,
        interactive: bool = False,
        person: bool | None = None,
    ) -> None:
        """`interactive`: tasks at their limit wait for an answer; `person`: somebody answers agents' questions now."""
        self.context = context
        self.folder: Path = context.folder
        self.environ = context.environ
        self.state_dir: StateDir = context.state_dir
        self.settings: Settings = context.settings()
        self.interactive = interactive
        self._person = interactive if person is None else person
        self.choices: dict[str, Any] = {}
        self.queue: list[str] = []
        self.current: str | None = None
        self.asking: set[str] = set()
        self.started: list[str] = []
        self.view: Any = None
        self.seen: dict[str, int] = {}
        self.printed: deque[str] = deque(maxlen=_PRINTED)
        self._listeners: list[Listener] = []
        self.permissions = PermissionDesk(
            wait_s=float(self.settings.get("run.permission_wait")), changed=lambda: self._live(None)
        )
        self.supervisor = Supervisor(
            self.state_dir,
            make_executor=self._executor,
            make_effects=self._effects,
            redaction=self.context.redaction(),
            live=self._live,
            concurrency=int(self.settings.get("tasks.parallel")),
        )
        self._taken_back: set[str] = set()
        self._waits: dict[str, asyncio.Task[TaskOutcome]] = {}
        self._elsewhere: dict[str, asyncio.Task[TaskOutcome]] = {}

    async def __aenter__(self) -> Self:
        await self.supervisor.__aenter__()
        for line in self.supervisor.orphans:
            self.context.output.note(line)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.supervisor.__aexit__(kind, error, traceback)
        every = (*self._waits.values(), *self._elsewhere.values())
        for waiting in every:
            waiting.cancel()
        await asyncio.gather(*every, return_exceptions=True)

    @property
    def running(self) -> list[str]:
        return [task_id for task_id, waiting in self._waits.items() if not waiting.done()]

    @property
    def followed(self) -> list[str]:
        """The tasks that another process runs and this session shows."""
        return [task_id for task_id, waiting in self._elsewhere.items() if not waiting.done()]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every live update, and with None when a task starts or rests; returns the way out."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def reload(self) -> None:
        """Read the settings again, after one was changed.

        Raises ConfigError: a file that cannot be used; the old settings stay.
        """
        self.context._settings = None  # noqa: SLF001 - the session owns its context
        self.settings = self.context.settings()
        self.supervisor.redaction = self.context.redaction()

    def _effects(self, **given: Any) -> TaskEffects:
        from runner.effects import TaskEffects  # 170 ms: the first prompt does not wait for it

        return TaskEffects(**given, redaction=self.supervisor.redaction)

    def choose(self, name: str, value: Any) -> None:
        """Choose a `run.*` value for this session (None: back to the settings).

        Raises UsageError: nothing a session can choose, or no such executor or criterion.
        """
        if name not in CHOICES:
            raise UsageError(f"{name!r} is not chosen by session", next_step="pm config set")
        if value is None:
            self.choices.pop(name, None)
            return
        if name == "executor":
            choose_executor(self.settings, self.environ, asked=value)
        if name == "criteria":
            expand_criteria(tuple(value))
        self.choices[name] = value

    def chosen(self, name: str) -> tuple[Any, str]:
        """The value of `run.<name>` that the next task gets, and where it comes from."""
        if name in self.choices:
            return self.choices[name], "this session"
        origin = self.settings.origin(f"run.{name}")
        return self.settings.get(f"run.{name}"), f"{origin.layer} {origin.where}".strip()

    def executor_text(self) -> str:
        """That executor's name for people."""
        try:
            return self.executor_name()
        except PmError:
            return "no executor"

    def executor_name(self) -> str:
        """The executor that the next task gets. Raises CredentialsError: none could answer here."""
        return choose_executor(self.settings, self.environ, asked=self.choices.get("executor"))

    def resolve(self, selector: str | None) -> TaskRef:
        """The task that a user means; nothing is the current or newest one.

        Raises NotFoundError: nothing, or more than one thing, answers.
        """
        if selector is None and self.current is not None:
            selector = self.current
        return resolve_task(self.state_dir, selector)

    async def submit(self, prompt: str, *, given: Mapping[str, Any] | None = None) -> str:
        """Start a task; returns its id once the request is durable. `given` are `run.*` values for it alone.

        Raises PmError: no executor, an unusable setting, or a record that cannot be written.
        """
        chosen = {**self.choices, **(given or {})}
        request = task_request(
            prompt,
            settings=self.settings,
            folder=self.folder,
            executor=choose_executor(self.settings, self.environ, asked=chosen.get("executor")),
            environ=self.environ,
            interactive=self.interactive,
            overrides=chosen,
        )
        task_id = chosen.get("task_id") or self.settings.get("run.task_id")
        return self._started(await self.supervisor.submit(request, task_id=task_id))

    async def resume(self, task_id: str, *, overrides: dict[str, Any] | None = None, into: str | None = None) -> str:
        """Go on with a task from its trace alone; see `Supervisor.resume`."""
        return self._goes_on(await self.supervisor.resume(task_id, overrides=overrides, into=into))

    @property
    def mark(self) -> str:
        """What stands before the input line: what Enter does with it."""
        if self.permissions.open_question() is not None:
            return "y/a/n pm> "
        return "queue pm> " if self.running else "pm> "

    def follow_elsewhere(self, task_id: str) -> Holder | None:
        """Show a task that another process runs, read-only, until it rests; who runs it, None where nobody does."""
        holder = self.state_dir.writer_of(task_id)
        if holder is not None and task_id not in self.followed:
            loop = asyncio.get_running_loop()
            self._elsewhere[task_id] = loop.create_task(self._released(task_id), name=f"follow-{task_id}")
            self._live(None)
        return holder

    async def respond(
        self,
        task_id: str,
        action: Action,
        *,
        text: str = "",
        more: int | None = None,
        plan: Mapping[str, Any] | None = None,
    ) -> str:
        """Give a waiting task its answer and go on, or a running one a hint; see `Supervisor.respond`."""
        runs = self.runs(task_id)
        answered = await self.supervisor.respond(task_id, action, text=text, max_iterations=more, plan=plan)
        self.asking.discard(task_id)
        return answered if runs else self._goes_on(answered)

    def runs(self, task_id: str) -> bool:
        """Whether somebody works on it now, here or elsewhere."""
        return task_id in self.running or self.state_dir.writer_of(task_id) is not None

    def _goes_on(self, task_id: str) -> str:
        """What was recorded before was shown before: views print only what follows."""
        if (recorded := self.supervisor.recorded(task_id)) > 0:
            path = str(trace_files(self.state_dir, task_id)[0])
            self.seen[path] = max(self.seen.get(path, -1), recorded - 1)
        return self._started(task_id)

    async def stop(self, task_id: str) -> bool:
        """Stop a task at the next safe point, here or in another process; False if nobody runs it."""
        return await self.supervisor.stop(task_id)

    async def take_back(self, task_id: str) -> bool:
        """Stop a task of this session; where its agent was not asked yet it ends, and has cost nothing."""
        self._taken_back.add(task_id)
        return await self.stop(task_id)

    def unasked(self, task_id: str) -> bool:
        """Whether no agent was asked yet: a task that is taken back now costs nothing."""
        for _, line in iter_lines(trace_files(self.state_dir, task_id)[0]):
            fact = fact_in(line)
            if isinstance(fact, LlmRequest) or (isinstance(fact, UserRequest) and fact.continues is not None):
                return False
        return True

    async def wait(self, task_id: str) -> TaskOutcome:
        """How the task stands once it rests."""
        waiting = self._waits.get(task_id)
        if waiting is None or waiting.done():
            waiting = self._elsewhere.get(task_id) or waiting
        if waiting is not None and not waiting.done():
            return await asyncio.shield(waiting)
        return await self.supervisor.wait(task_id)

    async def facts(self, task_id: str) -> AsyncGenerator[tuple[int, bytes]]:
        """(seq, stored line) of the task's newest file, until it rests; everything durable by then is included."""
        path, after = trace_files(self.state_dir, task_id)[0], -1
        resting = asyncio.ensure_future(self._at_rest(task_id))
        try:
            while True:
                with suppress(TraceError):  # an agent has changed the file: its writer puts it back
                    async with aclosing(follow(path, after, until=resting)) as lines:
                        async for found in lines:
                            parse_line(found[1])
                            after = found[0]
                            yield found
                            if is_final(found[1]):
                                await resting
                    if resting.done():
                        return
                if resting.done():
                    break
                await asyncio.wait([resting], timeout=_LOOK_S)
            for seq, line in await asyncio.to_thread(lambda: list(iter_lines(path, after=after))):
                yield seq, line
        finally:
            resting.cancel()
            with suppress(asyncio.CancelledError):
                await resting

    def unfinished(self) -> list[str]:
        return [task_id for task_id in self._waits if not self._ended(task_id)]

    def _ended(self, task_id: str) -> bool:
        waiting = self._waits[task_id]
        if not waiting.done() or waiting.cancelled() or waiting.exception() is not None:
            return False
        return waiting.result().status in _ENDED

    def mark_seen(self, task_id: str) -> None:
        """What is recorded already was shown before: views print only what follows."""
        path = trace_files(self.state_dir, task_id)[0]
        count = sum(1 for _ in iter_lines(path))
        self.seen[str(path)] = max(self.seen.get(str(path), -1), count - 1)

    async def _at_rest(self, task_id: str) -> None:
        with suppress(PmError):
            await self.wait(task_id)

    async def _released(self, task_id: str) -> TaskOutcome:
        """How the task stands once no other process writes its record."""
        while self.state_dir.writer_of(task_id) is not None:  # noqa: ASYNC110 - a lock of another process tells nobody
            await asyncio.sleep(_LOOK_S)
        outcome = await asyncio.to_thread(self.supervisor.look, task_id)
        return outcome if outcome.status == "AWAITING_RESPONSE" else outcome.stopped()

    def _started(self, task_id: str) -> str:
        self.current = task_id
        if task_id not in self.started:
            self.started.append(task_id)
        waiting = asyncio.get_running_loop().create_task(self._watched(task_id), name=f"wait-{task_id}")
        self._waits[task_id] = waiting
        self._live(None)
        return task_id

    async def _watched(self, task_id: str) -> TaskOutcome:
        try:
            outcome = await self.supervisor.wait(task_id)
            if outcome.status == "UNFINISHED" and task_id in self._taken_back and self.unasked(task_id):
                outcome = await self.supervisor.cancel(task_id)
            self._taken_back.discard(task_id)
            if outcome.status == "AWAITING_RESPONSE":
                self.asking.add(task_id)
        except RecordError as error:
            resume = f"pm resume {short_id(task_id)}"
            if resume not in error.next_step:
                error.next_step = f"{error.next_step}, then {resume}" if error.next_step else resume
            raise
        else:
            return outcome
        finally:
            asyncio.get_running_loop().call_soon(self._live, None)

    def _live(self, update: Live | None) -> None:
        for listener in list(self._listeners):
            listener(update)

    def _executor(self, request: Request) -> Executor:
        """The executor a recorded request names; a resumed task gets the one it had, with today's credentials."""
        recorded = request.executor
        name = recorded.name
        if name == "anthropic":
            choose_executor(self.settings, self.environ, asked=name)
        made = executor_settings(
            self.settings,
            state_dir=self.state_dir.root,
            environ=self.environ,
            script=recorded.script,
            model=recorded.model,
            fallback=tuple(recorded.fallback or self.settings.get("run.fallback") or ()),
            ask_person=self.permissions.ask if self._person else None,
        )
        return make_executor(name, made)
