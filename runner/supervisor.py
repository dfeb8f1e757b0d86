"""Runs many tasks of one state directory: submit, wait, resume, respond, stop.

`submit` returns once the request is durable; at most `concurrency` tasks run, the others are QUEUED. A stopped or
cancelled task keeps a file that `resume` continues; an error in one task never affects another. Views do not listen
here: they follow the trace file. Stop requests of other processes are empty files in `control/`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from runner.core.evolve import fold
from runner.core.request import Request
from runner.core.state import TaskState
from runner.core.task import TaskOutcome
from runner.executors.composite import FallbackExecutor, Roster
from runner.executors.executor_port import Executor, Live, LiveSink, ignore_live
from tracer.clock import short_token
from tracer.conversation import ConversationTracer, default_redactor
from tracer.drafts import Draft, user_answer
from tracer.errors import (
    ConflictError,
    EndedError,
    InternalError,
    LockedError,
    NotFoundError,
    PmError,
    RecordError,
    TraceError,
    UsageError,
)
from tracer.facts import UserRequest
from tracer.journal.record_file import open_records, recover_records
from tracer.lock import FileLock
from tracer.lookup import resolve_task, trace_files
from tracer.names import Action, TaskStatus
from tracer.redaction.redactor import NO_ADDITIONS, RedactionSettings
from tracer.statedir import StateDir

if TYPE_CHECKING:
    from runner.effects_port import Effects
    from runner.task_log import TaskLog
    from tracer.journal.tracepack import TracePack


@dataclass(slots=True, kw_only=True)
class Running:
    """A task this process holds the writer's lock of."""

    tracer: ConversationTracer
    state: TaskState
    executor: Executor
    outcome: asyncio.Future[TaskOutcome]
    status: TaskStatus = "QUEUED"
    runner: asyncio.Task[None] | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: bool = False
    steer: Callable[[str], Awaitable[None]] | None = None

    def stop(self) -> None:
        """Have it stopped at the next safe point, also where its work has not begun yet."""
        self.stopping = True
        if self.runner is not None:
            self.runner.cancel()

    def tell(self, outcome: TaskOutcome | PmError) -> None:
        """Tell the end, once."""
        if self.outcome.done():
            return
        if isinstance(outcome, TaskOutcome):
            self.outcome.set_result(outcome)
        else:
            self.outcome.set_exception(outcome)
            self.outcome.exception()  # where nobody waits, the record says how the task stands


_PREFIX: Final = "stop-"
_HINT: Final = "hint-"


def request_stop(state_dir: StateDir, task_id: str) -> bool:
    """Ask the process that runs `task_id` to stop it; False if no process does."""
    return state_dir.tell_writer(task_id, f"{_PREFIX}{task_id}")


def stop_requests(state_dir: StateDir) -> tuple[str, ...]:
    """The tasks that some process wants stopped."""
    return tuple(path.name.removeprefix(_PREFIX) for path in state_dir.control.glob(f"{_PREFIX}*"))


def forget_earlier_stop(state_dir: StateDir, task_id: str) -> None:
    """Forget a request older than the task's lock (held by us): it was meant for a killed process."""
    with suppress(OSError):  # nobody asked
        asked = (state_dir.control / f"{_PREFIX}{task_id}").stat().st_mtime_ns
        if asked < state_dir.task_lock(task_id).stat().st_mtime_ns:
            clear_stop(state_dir, task_id)


def clear_stop(state_dir: StateDir, task_id: str) -> None:
    """Forget a request that was carried out or came too late."""
    with suppress(OSError):  # a read-only state directory has stopped the task already
        (state_dir.control / f"{_PREFIX}{task_id}").unlink(missing_ok=True)


async def remove_leftovers(state_dir: StateDir) -> None:
    """Remove what ended tasks left behind."""
    await asyncio.to_thread(_remove_locks, state_dir)
    if any((state_dir.control / "copies").glob("*.json")):
        from runner.checks.clean_copy import remove_copies  # as below

        await asyncio.to_thread(remove_copies, state_dir.root)
    folders = sorted((state_dir.root / "worktrees").glob("*/"))
    for task_id in [folder.name for folder in folders if not folder.is_symlink()]:
        ended = await asyncio.to_thread(_how_it_ended, state_dir, task_id)
        if ended is None:
            continue
        from runner.isolation.worktrees import GitWorktrees  # 100 ms: every start passes here, few find something

        workspace, status = ended
        isolation = GitWorktrees(workspace, state_dir=state_dir.root, task_id=task_id)
        await isolation.close(keep_results=status in {"INCOMPLETE", "ERROR"})


def _remove_locks(state_dir: StateDir) -> None:
    """Lock files of killed tasks and sessions: only the name stayed."""
    for path in (*state_dir.root.glob("tracepack/*.lock"), *state_dir.root.glob("locks/*.lock")):
        lock = FileLock(path)
        with suppress(LockedError, RecordError):
            lock.acquire(patience_s=0)
            lock.release()


def _how_it_ended(state_dir: StateDir, task_id: str) -> tuple[Path, str] | None:
    """The workspace and final status of a task that has ended and that nobody runs; None for others."""
    if state_dir.writer_of(task_id) is not None:
        return None
    try:
        state = fold(ConversationTracer.read_trace(resolve_task(state_dir, task_id).path))
    except (NotFoundError, TraceError):
        return None
    if state.final is None or not state.request.workspace:
        return None
    workspace, status = Path(state.request.workspace), state.final.status
    kept = state.works_apart and status in {"INCOMPLETE", "ERROR"}  # a resume goes on in its worktree
    return None if kept or not workspace.is_dir() else (workspace, status)


_STOP_POLL_S: Final = 0.2


class MakeEffects(Protocol):
    """Builds what a task's loop does to the world."""

    def __call__(
        self, *, request: Request, task_id: str, executor: Executor, state_dir: StateDir, live: LiveSink
    ) -> Effects:
        """Those of one task."""


class Supervisor:
    """Runs tasks of one state directory; an async context manager that leaves nothing running.

    `orphans` says, a line each, which agents and checks of killed processes its start has ended, and which records of
    theirs it has put back. `redaction` holds for every record begun from now on; it may be set anew.
    """

    def __init__(
        self,
        state_dir: StateDir,
        *,
        make_executor: Callable[[Request], Executor],
        make_effects: MakeEffects,
        live: LiveSink = ignore_live,
        concurrency: int = 4,
        session_id: str | None = None,
        redaction: RedactionSettings = NO_ADDITIONS,
    ) -> None:
        self.redaction = redaction
        self.state_dir = state_dir
        self.session_id = session_id or f"sess-{short_token()}"
        self.live = live
        self.orphans: list[str] = []
        self._make_executor = make_executor
        self._make_effects = make_effects
        self._slots = asyncio.Semaphore(concurrency)
        self._running: dict[str, Running] = {}
        self._outcomes: dict[str, asyncio.Future[TaskOutcome]] = {}
        self._recorded: dict[str, int] = {}
        self._group = asyncio.TaskGroup()
        self._pack: TracePack | None = None
        self._beginning = asyncio.Lock()
        self._stop_watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        with suppress(OSError):  # a state dir that cannot be written is told by the task that needs it
            await self._end_orphans()
        with suppress(PmError, OSError):
            recovered = await asyncio.to_thread(recover_records, self.state_dir)
            self.orphans += [f"{name} was changed while a killed pm wrote it: put back" for name in recovered]
        with suppress(PmError, OSError):
            await remove_leftovers(self.state_dir)
        await self._group.__aenter__()
        return self

    async def _end_orphans(self) -> None:
        if not any((self.state_dir.root / "control" / "processes").glob("*.json")):
            return
        from runner.processes.orphans import end_orphans  # 15 ms: every start passes here, few find something

        self.orphans += [orphan.told() for orphan in await end_orphans(self.state_dir.root)]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del kind, error, traceback
        for running in self._running.values():
            running.stop()
        if self._stop_watch is not None:
            self._stop_watch.cancel()
        try:
            # The body's own error passes through as it is: a group would wrap it.
            await self._group.__aexit__(None, None, None)
        finally:
            if self._pack is not None:
                with suppress(PmError):  # a full disk has been reported by the task that met it
                    await self._pack.append("SESSION_END")
                await self._pack.close()

    def status(self, task_id: str) -> TaskStatus | None:
        """QUEUED or RUNNING for a task of this process, else None: then its file says how it stands."""
        return self._running[task_id].status if task_id in self._running else None

    def recorded(self, task_id: str) -> int:
        """How many events a task's file held when this process took it up; 0 for a file that it began."""
        return self._recorded.get(task_id, 0)

    def known(self) -> tuple[str, ...]:
        """The tasks that this process runs or has run, oldest first."""
        return tuple(self._outcomes)

    def counts(self) -> dict[TaskStatus, int]:
        """How many tasks of this process are QUEUED and RUNNING now."""
        statuses = [running.status for running in self._running.values()]
        return {"QUEUED": statuses.count("QUEUED"), "RUNNING": statuses.count("RUNNING")}

    async def submit(self, request: Request, *, task_id: str | None = None) -> str:
        """Record the request and start it; the task id once USER_REQUEST is durable."""
        self.state_dir.ensure()
        if task_id is not None and trace_files(self.state_dir, task_id):
            raise UsageError(
                f"{task_id} is recorded already",
                why="a new task of this id would hide it",
                next_step=f"pm resume {task_id}, or leave --task-id out",
            )
        if request.plan is not None:
            from runner.core.chunk_plan import require_plan  # 20 ms, only where a person gives a plan

            require_plan(request.plan)
        executor = self._make_executor(request)
        choice = request.executor.changed(
            continue_session=request.executor.continue_session and getattr(executor, "continues_sessions", False),
            plans=getattr(executor, "plans", False),
        )
        draft = request._replace(executor=choice).draft()
        return await self._start(task_id or self.state_dir.allot_task_id(), draft, executor)

    async def wait(self, task_id: str) -> TaskOutcome:
        """The outcome of a task of this process, when it has ended, asks a person or was stopped."""
        if (outcome := self._outcomes.get(task_id)) is None:
            return self.look(task_id)
        return await asyncio.shield(outcome)

    def look(self, task_id: str) -> TaskOutcome:
        """How the newest file of a task says that it stands, whoever runs it."""
        path = resolve_task(self.state_dir, task_id).path
        return _outcome(fold(ConversationTracer.read_trace(path)), path, None)

    async def resume(self, task_id: str, *, overrides: Mapping[str, Any] | None = None, into: str | None = None) -> str:
        """Go on with an unfinished task in its file, with a failed one in a new one; COMPLETE stays as it is.

        `overrides` are limits (max_iterations, timeout_s, budget_usd, on_limit, parallel); `into` is another branch for
        the result of subtasks. Returns the task id; `wait` for it.
        """
        if task_id in self._running:
            return task_id
        overrides = {key: value for key, value in (overrides or {}).items() if value is not None}
        path = resolve_task(self.state_dir, task_id).path
        try:
            tracer, state = await self._take_up(path)
        except EndedError:
            return await self._continue(task_id, path, overrides, into)
        answer = user_answer("continue", limits=overrides, into=into)
        answered = bool(overrides) or into is not None or state.conflict is not None
        return await self._reopen(task_id, tracer, state, answer if answered else None)

    async def _continue(
        self, task_id: str, path: Path, overrides: Mapping[str, Any], into: str | None, **answer: Any
    ) -> str:
        """Go on in a new file with a task that ended, unless it is COMPLETE; `answer`: the user's word on it."""
        entries = await asyncio.to_thread(ConversationTracer.read_trace, path)
        state = fold(entries)
        _require_request(state, task_id)
        if state.final is not None and state.final.status == "COMPLETE":
            await remove_leftovers(self.state_dir)
            return task_id
        from runner.core.outcome import continuation  # as in `_outcome`

        draft = continuation(entries, trace_file=path.name, overrides=overrides, into=into, **answer)
        return await self._start(task_id, draft, self._make_executor(state.request))

    async def respond(
        self,
        task_id: str,
        action: Action,
        *,
        text: str = "",
        max_iterations: int | None = None,
        plan: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> str:
        """Record a person's answer to a waiting (or stopped) task and go on with it; the task id.

        One that ended INCOMPLETE goes on with the answer in a new file, or ends there. `plan` is what
        a person made of a proposed plan; without subtasks the task runs in one piece.
        """
        if await self._steered(task_id, action, text):
            return task_id
        try:
            tracer, state = await self._take_up(resolve_task(self.state_dir, task_id).path)
        except EndedError as error:
            ended = self.look(task_id)
            if ended.status != "INCOMPLETE" or not ended.iterations or action == "stop":
                step = "show" if ended.status == "COMPLETE" else "resume"
                raise ConflictError(f"{task_id} has ended", next_step=f"pm {step} {task_id}") from error
            more = {"max_iterations": max_iterations} if max_iterations is not None else {}
            return await self._continue(task_id, Path(ended.trace_file), more, None, answer=action, text=text)
        try:
            from runner.core.outcome import check_answer  # as in `_outcome`

            check_answer(task_id, state, action, plan)
        except BaseException:
            await tracer.close()
            raise
        answer = user_answer(action, text, max_iterations=max_iterations, plan=plan and dict(plan), limits=limits)
        return await self._reopen(task_id, tracer, state, answer)

    async def _steered(self, task_id: str, action: Action, text: str) -> bool:
        """Give a running task, whoever runs it, a hint for its next turn; False if nobody runs it."""
        running = self._running.get(task_id)
        if running is None:
            name = f"{_HINT}{short_token()}-{task_id}"
            return action == "hint" and self.state_dir.tell_writer(task_id, name, text)
        if action != "hint" or running.steer is None:
            raise ConflictError(f"{task_id} is running", next_step=f"pm stop {task_id}")
        await running.steer(text)
        return True

    async def stop(self, task_id: str) -> bool:
        """Stop at the next safe point, resumable; False if nobody runs it.

        A task of another process is asked through the state directory; that process looks a few times a second.
        """
        if (running := self._running.get(task_id)) is not None:
            running.stop()
            with suppress(PmError, asyncio.CancelledError):
                await asyncio.shield(running.outcome)
            return True
        return request_stop(self.state_dir, task_id)

    async def cancel(self, task_id: str) -> TaskOutcome:
        """Stop the task for good: it ends CANCELLED."""
        if task_id in self._running:
            await self.stop(task_id)
        return await self.wait(await self.respond(task_id, "stop"))

    async def _take_up(self, path: Path) -> tuple[ConversationTracer, TaskState]:
        """Become the writer of an unfinished trace (EndedError for others), opened once and read in a thread."""
        redactor = default_redactor(self.state_dir, self.redaction)
        tracer = await ConversationTracer.open_existing(
            path, state_dir=self.state_dir, session_id=self.session_id, redactor=redactor
        )
        try:
            state = await asyncio.to_thread(fold, await tracer.recorded())
            _require_request(state, tracer.task_id)
        except BaseException:
            await tracer.close()
            raise
        return tracer, state

    async def _reopen(self, task_id: str, tracer: ConversationTracer, state: TaskState, answer: Draft | None) -> str:
        """Record a person's answer, if any, and go on."""
        recorded, make, told = state.facts, self._make_executor, None
        try:
            if answer is not None:
                state = fold([told := await tracer.append(answer)], state)
            needless = isinstance(told, UserRequest) and told.action in {"accept", "stop"}
            name = state.request.executor.name
            executor = FallbackExecutor([name], lambda _: make(state.request)) if needless else make(state.request)
        except BaseException:
            await tracer.close()
            raise
        await self._launch(task_id, tracer, state, executor, recorded=recorded)
        return task_id

    async def _start(self, task_id: str, draft: Draft, executor: Executor) -> str:
        redactor = default_redactor(self.state_dir, self.redaction)
        tracer = ConversationTracer(
            state_dir=self.state_dir, session_id=self.session_id, task_id=task_id, redactor=redactor
        )
        try:
            entry = await tracer.append(draft)
        except BaseException:
            await tracer.close()
            await executor.close()
            raise
        await self._launch(task_id, tracer, fold([entry]), executor)
        return task_id

    async def _launch(
        self, task_id: str, tracer: ConversationTracer, state: TaskState, executor: Executor, *, recorded: int = 0
    ) -> None:
        outcome: asyncio.Future[TaskOutcome] = asyncio.get_running_loop().create_future()
        running = Running(tracer=tracer, state=state, executor=executor, outcome=outcome)
        self._running[task_id] = running
        self._outcomes[task_id] = outcome
        self._recorded[task_id] = recorded
        forget_earlier_stop(self.state_dir, task_id)
        try:
            async with self._beginning:
                if self._pack is None:
                    from runner.task_log import begin_session  # 10 ms, needed by the first task

                    self._pack = await begin_session(self.state_dir, self.session_id, self.redaction)
        except BaseException:
            del self._running[task_id], self._outcomes[task_id]
            outcome.cancel()  # whoever waits for a stop: nothing runs
            await tracer.close()
            await executor.close()
            raise
        if self._stop_watch is None or self._stop_watch.done():
            self._stop_watch = self._group.create_task(self._watch_stops())
        running.runner = self._group.create_task(self._perform(task_id, running, self._pack))
        await running.started.wait()  # a task that is cancelled before its first step never runs its clean-up
        if running.stopping or task_id in stop_requests(self.state_dir):
            running.runner.cancel()

    async def _perform(self, task_id: str, running: Running, pack: TracePack) -> None:
        from runner.processes.process import uninterrupted
        from runner.task_log import TaskLog

        log = TaskLog(pack, task_id)
        running.started.set()
        outcome: TaskOutcome | PmError
        try:
            await log.queued(resumed=running.state.facts > 1)
            async with self._slots:
                outcome = await self._through(task_id, running, log)
        except asyncio.CancelledError:
            outcome = self._look(running)
        except PmError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 - the worker's boundary: one task's defect never touches another
            outcome = InternalError(f"{task_id} met a defect of pm: {error!r}", next_step=f"pm resume {task_id}")
            outcome.__cause__ = error
        await uninterrupted(self._end(task_id, running, log, outcome))

    async def _end(self, task_id: str, running: Running, log: TaskLog, outcome: TaskOutcome | PmError) -> None:
        """Let go of the task, then tell: whoever hears it may resume it at once."""
        try:
            await running.executor.close()
        finally:
            await running.tracer.close()
            self._running.pop(task_id, None)
            clear_stop(self.state_dir, task_id)
            if isinstance(outcome, TaskOutcome):
                with suppress(PmError):  # the conversation has its end; the TracePack's may be missing
                    await log.ended(outcome)
            running.tell(outcome)

    async def _through(self, task_id: str, running: Running, log: TaskLog) -> TaskOutcome:
        running.status = "RUNNING"
        await log.running()
        request = running.state.request
        running.executor = Roster(running.executor, request=request, make=self._make_executor)

        def live(update: Live) -> None:
            if task_id in self._running:
                self.live(update)

        effects = self._make_effects(
            request=request, task_id=task_id, executor=running.executor, state_dir=self.state_dir, live=live
        )
        from runner.loop import TaskLoop  # 60 ms: views show their first prompt before

        loop = TaskLoop(append=log.recording(running.tracer.append), effects=effects, live=live)
        running.steer = loop.steer
        running.state = await loop.run(running.state)
        return _outcome(running.state, running.tracer.get_trace_file_path(), running.tracer.chain_head)

    @staticmethod
    def _look(running: Running) -> TaskOutcome | PmError:
        path = running.tracer.get_trace_file_path()
        try:
            for record in open_records(path):  # the agent that was stopped may have changed it
                record.put_back()
            return _outcome(fold(ConversationTracer.read_trace(path)), path, running.tracer.chain_head).stopped()
        except PmError as error:  # the record was removed or damaged meanwhile
            return error

    async def _watch_stops(self) -> None:
        while self._running:
            await asyncio.sleep(_STOP_POLL_S)
            for task_id in stop_requests(self.state_dir):
                if (running := self._running.get(task_id)) is not None:
                    running.stop()
            await self._take_hints()

    async def _take_hints(self) -> None:
        """Take what other processes left for tasks of this one."""
        for path in self.state_dir.control.glob(f"{_HINT}*"):
            running = self._running.get(path.name.removeprefix(_HINT).partition("-")[2])
            if running is not None and running.steer is not None:
                with suppress(PmError, OSError):
                    await running.steer(path.read_text(encoding="utf-8"))
                    path.unlink()


def _outcome(state: TaskState, path: Path, head: str | None) -> TaskOutcome:
    from runner.core.outcome import outcome_of  # 40 ms of planning and wording: the first prompt comes before

    return outcome_of(state, trace_file=str(path), chain_head=head)


def _require_request(state: TaskState, task_id: str) -> None:
    if not state.requested:
        raise UsageError(f"{task_id!r} has no request to go on with", next_step="pm trace verify " + task_id)
