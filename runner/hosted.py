"""A task whose agent pm did not start: it works in a session of its own (the host), whose hooks tell when it stops.

Each hook is a process of its own and continues the task's record: the prompt's hook records the request and the
baseline, the stop's hook brings the answer, which is judged as any other. A rejection is the next request, and the
host hands it to its agent. Which task a session works on stands in the user's state folder, out of the agent's way.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import override

from runner.core.request import Request
from runner.core.state import TaskState
from runner.core.steps import Judge
from runner.core.task import TaskOutcome
from runner.effects import TaskEffects
from runner.executors.executor_port import Answer, Ask, Executor, LiveSink, ignore_live
from runner.executors.registry import make_executor
from runner.gate.criterion import Models, Verdict
from runner.hosts import Call, Host
from runner.supervisor import Supervisor
from tracer.clock import now_epoch_ms
from tracer.conversation import ConversationTracer
from tracer.durable import ensure_folder, replace
from tracer.errors import NotFoundError, RecordError
from tracer.facts import LlmRequest
from tracer.journal.reading import read_entries
from tracer.lock import FileLock
from tracer.lookup import resolve_task
from tracer.redaction.redactor import RedactionSettings
from tracer.statedir import StateDir, user_state_folder

_JUDGING_S = 500.0  # hosts end a hook after 600 s (hosts.py), and then nobody hears of a verdict
_KEPT_MS = 30 * 24 * 3600 * 1000
_MOST_READ = 8 << 20


class HostedExecutor:
    """Gives the one answer that the host brought; where there is none yet, the work of this process ends."""

    continues_sessions = True

    def __init__(self, name: str, answer: Answer | None) -> None:
        self.name = name
        self.answer = answer

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        """The answer, once.

        Raises:
            asyncio.CancelledError: the host's agent is at work; its next hook brings the answer.

        """
        del request, live
        answer, self.answer = self.answer, None
        if answer is None:
            raise asyncio.CancelledError
        return answer

    async def close(self) -> None:
        """Nothing was opened."""


class HostedEffects(TaskEffects):
    """The effects of a hosted task: its agent was told nothing by us, and the tests run when it has answered."""

    sparing = True  # its user waits at every stop

    def __init__(self, hosted: HostedExecutor, **given: Any) -> None:
        super().__init__(**given)
        self._hosted = hosted

    @property
    @override
    def answer_at_hand(self) -> bool:  # type: ignore[override]  # a plain value elsewhere
        """Whether this hook brought the answer to the request on record."""
        return self._hosted.answer is not None

    @override
    async def rules(self) -> str:
        """None: the agent was given the user's words alone."""
        return ""

    @override
    async def paused(self) -> None:
        """Nothing: between two hooks its agent works in the folder."""

    @override
    async def enter(self, *, wait: bool) -> str:
        """The folder is its user's: their session waits for no task, works in no copy, and keeps no task out."""
        del wait
        await self._note_others()
        return ""

    @override
    async def taken_up(self, bases: Iterable[str]) -> Mapping[str, str]:
        """None: its agent was at work between two hooks, and what changed meanwhile is its work."""
        del bases
        return {}

    @override
    async def base_tests(self, base: str, *, limit_s: float | None) -> Mapping[str, Any] | None:
        """None before the agent is asked: its user waits."""
        del base, limit_s
        return None

    @override
    async def judge(self, state: TaskState, step: Judge, models: Models) -> Verdict:
        """The verdict while the host still waits for it: what takes longer is not verified."""
        left_s = _JUDGING_S if step.left_s is None else min(step.left_s, _JUDGING_S)
        return await super().judge(state, step._replace(left_s=left_s), models)


class HostSession:
    """What is known of a host's session: its task, and how often each of its parts was sent back."""

    def __init__(self, host: str, session: str, *, environ: Mapping[str, str]) -> None:
        folder = user_state_folder(environ) / "gate"
        name = hashlib.sha256(session.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self.path = folder / f"{host}-{name}.json"
        self.known: dict[str, Any] = {}
        self.read()

    def read(self) -> None:
        """Look again at what is kept of it."""
        with suppress(OSError, ValueError):
            known = json.loads(self.path.read_bytes())
            self.known = known if isinstance(known, dict) else {}

    @property
    def task_id(self) -> str:
        """The task that the session works on; empty before its first prompt."""
        return str(self.known.get("task_id") or "")

    @property
    def state_dir(self) -> StateDir | None:
        """Where that task is on record."""
        found = self.known.get("state_dir")
        return StateDir(Path(found)) if isinstance(found, str) and Path(found).is_dir() else None

    def keep(self, **known: Any) -> None:
        """Make `known` durable; sessions of the month before last are forgotten."""
        self.known |= known
        try:
            ensure_folder(self.path.parent)
            replace(self.path, json.dumps(self.known).encode())
        except OSError as error:
            raise RecordError(f"cannot write {str(self.path)!r}", why=error) from error
        for old in self.path.parent.glob("*.json"):
            with suppress(OSError):
                if old.stat().st_mtime * 1000 < now_epoch_ms() - _KEPT_MS:
                    old.unlink()

    def lock(self) -> FileLock:
        """Held while a hook works: the same hook installed twice is called twice at once."""
        with suppress(OSError):  # told by the lock
            ensure_folder(self.path.parent)
        return FileLock(self.path.with_suffix(".lock"))


def newest_task(state_dir: StateDir, *, environ: Mapping[str, str]) -> str:
    """The task of the hooked session that was last at work in a project.

    Raises:
        NotFoundError: no session's hooks have taken a baseline there.

    """
    for path in sorted((user_state_folder(environ) / "gate").glob("*.json"), key=_modified, reverse=True):
        with suppress(OSError, ValueError):
            known = json.loads(path.read_bytes())
            if known.get("state_dir") == str(state_dir.root) and known.get("task_id"):
                return str(known["task_id"])
    raise NotFoundError("no hooked session has worked here", next_step="pm gate install claude")


def base_of(state_dir: StateDir, task_id: str) -> str:
    """The first baseline of a task; empty where it has none. Blocks."""
    entries = read_entries(resolve_task(state_dir, task_id).path)
    return next((entry.base for entry in entries if isinstance(entry, LlmRequest) and entry.base), "")


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


class Judged(NamedTuple):
    """How a hosted task stands after a hook; `again` is what the agent is sent back with."""

    outcome: TaskOutcome
    again: str = ""


class Hosted:
    """Continues the task of one session by one hook."""

    def __init__(
        self, state_dir: StateDir, *, redaction: RedactionSettings, answer: Answer | None, executors: Any = None
    ) -> None:
        self._state_dir = state_dir
        self._redaction = redaction
        self._hosted = HostedExecutor("", answer)
        self._settings = executors

    async def begin(self, session: HostSession, request: Request) -> str:
        """Record a prompt and the baseline that it starts from: of a new task, or of one that it goes on with."""
        async with self._supervisor() as supervisor:
            task_id = session.task_id
            judged = await asyncio.to_thread(self._goes_on, task_id) if task_id else None
            if judged is not None:  # a new turn: as many blocks as in the first, whatever the others took
                limits = {"max_iterations": judged + request.limits.max_iterations}
                await supervisor.respond(task_id, "hint", text=request.prompt, limits=limits)
            else:
                task_id = await supervisor.submit(request)
            session.keep(task_id=task_id, state_dir=str(self._state_dir.root), parts={}, blocks=0)
            await supervisor.wait(task_id)
        return task_id

    async def judge(self, task_id: str) -> Judged:
        """Record the answer, judge it, and say what follows."""
        async with self._supervisor() as supervisor:
            await supervisor.resume(task_id)
            outcome = await supervisor.wait(task_id)
        if outcome.status != "UNFINISHED":
            return Judged(outcome)
        last = await asyncio.to_thread(lambda: read_entries(outcome.trace_file)[-1])
        if not isinstance(last, LlmRequest):
            raise RecordError(f"{task_id} was not judged to its end", next_step=f"pm resume {task_id}")
        return Judged(outcome, last.prompt)

    def open_request(self, task_id: str) -> str | None:
        """What the agent was asked or sent back with, while the task waits for its answer. Blocks."""
        try:
            entries = ConversationTracer.read_trace(resolve_task(self._state_dir, task_id).path)
        except NotFoundError:
            return None
        return entries[-1].prompt if entries and isinstance(entries[-1], LlmRequest) else None

    def _goes_on(self, task_id: str) -> int | None:
        """How many answers were judged, where a further prompt belongs to the task; else None.

        It does where its turn was broken off, or its agent has asked.
        """
        from runner.core.evolve import fold

        try:
            state = fold(ConversationTracer.read_trace(resolve_task(self._state_dir, task_id).path))
        except NotFoundError:
            return None
        goes_on = state.question is not None and state.question.by == "agent"
        if state.final is None and state.question is None:
            goes_on = state.main.phase == "requested" and state.request.kind == "change"
        return state.main.counted if goes_on else None

    def _supervisor(self) -> Supervisor:
        def effects(**given: Any) -> TaskEffects:
            return HostedEffects(self._hosted, redaction=self._redaction, **given)

        return Supervisor(
            self._state_dir, make_executor=self._executor, make_effects=effects, redaction=self._redaction
        )

    def _executor(self, request: Request) -> Executor:
        """The host's own agent, and real executors for whoever reviews."""
        if not self._hosted.name or request.executor.name == self._hosted.name:
            self._hosted.name = request.executor.name
            return self._hosted
        return make_executor(request.executor.name, self._settings)


def answer_of(host: Host, call: Call) -> Answer:
    """The answer that a stop hook brings."""
    transcript = call.transcript if Path(call.transcript).is_file() else ""  # a pipe would be waited for
    native = {"native_session": {"path": transcript}} if transcript else {}
    return Answer(
        output=call.answer or _last_said(transcript),
        status="COMPLETE",
        model=call.model or None,
        session_ref=f"{host.name}:{call.session}",
        extra={"hosted": True, **native},
    )


def _last_said(transcript: str) -> str:
    """The answer of a host that leaves it to its transcript, as Copilot's lines of events hold it; else empty."""
    try:
        with open(transcript, "rb") as file:  # noqa: PTH123 - the name may be empty
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_READ))
            lines = file.read().split(b"\n")
    except OSError:
        return ""
    for line in reversed(lines):
        with suppress(ValueError, TypeError, KeyError):
            event = json.loads(line)
            if event["type"] == "user.message":
                break
            if event["type"] == "assistant.message" and event["data"]["content"]:
                return str(event["data"]["content"])
    return ""
