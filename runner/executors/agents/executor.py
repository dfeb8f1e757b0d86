"""An agent's command line as an executor: started, watched, limited, ended whole, and concluded from its records.

Everything that goes wrong is an Answer with an error; only cancellation gets out, after the whole process tree has
ended. The run is registered under the state folder before it starts, so that the next `pm` ends it if this one dies.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.executors.agents.codex import probe_own_sandbox
from runner.executors.agents.conclude import Run, conclude
from runner.executors.agents.detection import detect, key_told
from runner.executors.agents.dialect import Confinement, Dialect, Launch, Session, parse_version
from runner.executors.agents.progress import Progress, Reader, Spent
from runner.executors.executor_port import (
    Answer,
    Ask,
    ExecutorSettings,
    Live,
    LiveSink,
    ignore_live,
    live_of,
    over_budget,
)
from runner.executors.provider_errors import is_lost_session
from runner.processes import bubblewrap
from runner.processes.environment import agent_environment
from runner.processes.process import Process, uninterrupted
from tracer.clock import new_id
from tracer.errors import PmError

_MAX_OUTPUT_BYTES = 1 << 30
_LINE_LIMIT = 32 << 20
_LINGER_S = 10.0
_STDERR_EVERY_S = 0.5
_SPENT_EVERY_S = 1.0


class _Refusal(Exception):  # noqa: N818 - carries an answer
    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class AgentExecutor:
    """Runs one of the command lines, one process a question."""

    continues_sessions = True
    plans = True  # has a model that can be asked for a plan

    def __init__(self, dialect: Dialect, settings: ExecutorSettings) -> None:
        self.name = dialect.name
        self._dialect = dialect
        self._settings = settings

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        try:
            launch = await asyncio.to_thread(self._prepare, request)
        except _Refusal as refusal:
            return refusal.answer
        tell = live_of(request, live)
        try:
            answer = await self._run(launch, tell)
            if launch.session is not None and _refused_session(answer):
                # Gemini CLI keeps nothing of a session whose only request failed, but its file.
                tell(Live(kind="notice", text=f"{self.name} cannot go on in its session: a new one begins"))
                answer = await self._run(replace(launch, session=None), tell)
            return answer  # noqa: TRY300 - the two runs belong together
        except (FileNotFoundError, PermissionError) as error:
            message = f"{self.name} could not be started: {error}"
            return Answer.failed("unavailable", message, "`pm doctor`")

    async def close(self) -> None:
        """Nothing is kept between questions."""

    def _prepare(self, request: Ask) -> Launch:
        settings, dialect = self._settings, self._dialect
        found = detect(self.name, settings.environ, programs=settings.programs)
        if found.path is None or found.problem:
            message = found.problem if found.path else f"{found.problem} ({found.why})"
            raise _Refusal(Answer.failed(found.kind, message, found.next_step))
        version = parse_version(found.version or "") or dialect.oldest
        session = self._session(request)
        launch = Launch(
            request=request,
            program=found.path,
            version=version,
            environ=settings.environ,
            session=session,
            new_id=new_id() if dialect.session_id_since is not None and version >= dialect.session_id_since else "",
            network=settings.network,
            base_url=settings.base_urls.get(self.name),
            allowed_commands=settings.allow_commands,
            schema_file=self._schema_file(request),
        )
        return replace(launch, confinement=self._confinement(launch))

    def _schema_file(self, request: Ask) -> Path | None:
        """The answer's schema as a file in the state dir, named by its content: the same one serves every run."""
        if request.answer_schema is None or self._settings.state_dir is None:
            return None
        text = json.dumps(request.answer_schema, sort_keys=True)
        path = self._settings.state_dir / "control" / f"schema-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return path

    def _session(self, request: Ask) -> Session | None:
        """The session to go on in: only one of this command line whose file is still there."""
        kind, _, session_id = (request.session_ref or "").partition(":")
        if kind != self.name or not session_id:
            return None
        path = self._dialect.find_session(self._settings.environ, session_id, request.workspace)
        return Session(session_id, path) if path is not None else None

    def _confinement(self, launch: Launch) -> Confinement:
        """Whose sandbox holds the run. Full permission means none but the one that was asked for by name."""
        settings = self._settings
        full = launch.request.permissions == "full"
        if settings.sandbox == "on" or (settings.sandbox == "auto" and not full and bubblewrap.probe().available):
            capability = bubblewrap.probe()
            if not capability.available:
                raise _Refusal(Answer.failed("unavailable", f"no sandbox: {capability.why}", capability.next_step))
            return "ours"
        if full:
            return "none"
        cache = settings.state_dir / "control" if settings.state_dir is not None else None
        own = probe_own_sandbox(self.name, launch.program, launch.version, environ=settings.environ, cache=cache)
        if own.works:
            return "own"
        if bubblewrap.probe().available:
            return "ours"
        hint = "install bubblewrap, or give --permissions full in a machine of its own"
        raise _Refusal(Answer.failed("unavailable", own.why, hint))

    def _argv(self, launch: Launch) -> list[str]:
        argv = self._dialect.arguments(launch)
        if launch.confinement != "ours":
            return argv
        argv[0] = os.path.realpath(argv[0])  # a link may lead through folders that the sandbox hides
        return bubblewrap.wrap_agent(
            argv,
            workspace=launch.request.workspace,
            read_only=launch.request.permissions == "read",
            state_dir=self._settings.state_dir,
            readable=_install_folders(launch.program),
            own=self._dialect.private_folders(launch.environ),
        )

    async def _run(self, launch: Launch, tell: LiveSink) -> Answer:
        request, settings = launch.request, self._settings
        progress = Progress()
        named = launch.session.id if launch.session is not None else launch.new_id
        if named:
            await request.session_began(f"{self.name}:{named}")
        reader = self._dialect.reader(launch, progress)
        process = Process(
            self._argv(launch),
            cwd=request.workspace,
            env=agent_environment(
                self._dialect.provider,
                settings.environ,
                extra_names=settings.extra_environment,
                values=self._dialect.environment(launch),
            ),
            stdin=self._dialect.prompt(launch).encode("utf-8", "replace"),
            timeout_s=request.timeout_s,
            idle_timeout_s=settings.silence_s,
            line_limit=_LINE_LIMIT,
            state_dir=settings.state_dir,
            label=request.task_id,
        )
        try:
            async with process, asyncio.TaskGroup() as group:
                watchers = [
                    group.create_task(self._watch_stderr(process, progress)),
                    group.create_task(self._watch_spent(launch, process, reader, tell)),
                ]
                why = await self._watch(process, reader, request, tell, named)
                for watcher in watchers:
                    watcher.cancel()
                ending = await process.wait()
                stderr = (await process.stderr_tail()).decode("utf-8", "replace")
        except BaseExceptionGroup as group:
            told = next((error for error in group.exceptions if isinstance(error, PmError)), None)
            if told is None:
                raise
            raise told from group
        if not why and progress.finished is None and over_budget(request, progress.cost_usd):
            why = "budget"
        path, stderr = await asyncio.to_thread(self._after, launch, reader, stderr)
        run = Run(
            name=self.name,
            version=str(launch.version),
            progress=progress,
            ending=ending,
            stderr=stderr,
            why_ended=why,
            resumed=launch.session is not None,
            native_path=path,
            silence_s=settings.silence_s,
            login_hint=self._dialect.login_hint,
            credentials=key_told(self.name, settings.environ),
        )
        return conclude(run, request)

    async def _watch_stderr(self, process: Process, progress: Progress) -> None:
        """End a run that only standard error tells to be in trouble."""
        while True:
            await asyncio.sleep(_STDERR_EVERY_S)
            error = self._dialect.trouble_in((await process.stderr_tail()).decode("utf-8", "replace"))
            if error is not None and progress.finished is None:
                progress.finished, progress.error = False, error
                await process.end()
                return

    async def _watch_spent(self, launch: Launch, process: Process, reader: Reader, tell: LiveSink) -> None:
        """Follow what the run uses in the session's own file where its records tell it too late for a budget."""
        progress = reader.progress
        path: Path | None = None

        def look() -> tuple[Path | None, Spent | None]:
            found = path or self._session_file(launch, progress)
            return found, reader.spent(found) if found is not None else None

        while True:
            await asyncio.sleep(_SPENT_EVERY_S)
            path, spent = await uninterrupted(asyncio.to_thread(look))
            if spent is None or not progress.take_spent(spent):
                continue
            tell(Live(kind="usage", usage=progress.usage, cost_usd=progress.cost_usd))
            if progress.finished is None and over_budget(launch.request, progress.cost_usd):
                await process.end()
                return

    async def _watch(self, process: Process, reader: Reader, request: Ask, tell: LiveSink, named: str) -> str:
        """Read to the end of the output; why we ended the run, or ""."""
        progress, seen = reader.progress, 0
        lingering: asyncio.TimerHandle | None = None
        ended: list[asyncio.Task[Any]] = []
        try:
            async for line in process.lines():
                seen += len(line.data) + line.dropped_bytes
                if seen > _MAX_OUTPUT_BYTES:
                    await process.end("output")
                    return "output"
                _take(reader, line.data, whole=not line.dropped_bytes, tell=tell)
                if progress.session_id and progress.session_id != named:
                    named = progress.session_id
                    await request.session_began(f"{self.name}:{named}")
                if progress.finished is None and over_budget(request, progress.cost_usd):
                    await process.end()
                    return "budget"
                if progress.finished is not None and lingering is None:
                    loop = asyncio.get_running_loop()
                    lingering = loop.call_later(_LINGER_S, lambda: ended.append(asyncio.ensure_future(process.end())))
        finally:
            if lingering is not None:
                lingering.cancel()
        return "lingering" if ended else ""

    def _session_file(self, launch: Launch, progress: Progress) -> Path | None:
        named = progress.session_id or launch.new_id
        return self._dialect.find_session(self._settings.environ, named, launch.request.workspace) if named else None

    def _after(self, launch: Launch, reader: Reader, stderr: str) -> tuple[str | None, str]:
        """The session's own file, and what of standard error is for users."""
        progress = reader.progress
        path = self._session_file(launch, progress)
        if path is not None:
            progress.session_id = progress.session_id or launch.new_id
            spent = reader.spent(path)  # of a run that was ended before it told a result
            if spent is not None:
                progress.take_spent(spent)
        stderr = self._dialect.complete(progress, path=path, stderr=stderr)
        return (None if path is None else str(path)), stderr


def _install_folders(program: str) -> tuple[Path, ...]:
    """What must be readable for the program to start, should it be installed where the sandbox hides things."""
    real = Path(os.path.realpath(program))
    packages = [folder for folder in real.parents if folder.name == "node_modules"]
    return (packages[-1] if packages else real.parent,)


def _take(reader: Reader, data: bytes, *, whole: bool, tell: LiveSink) -> None:
    """One line: a record, or noise that is counted."""
    if not data.strip():
        return
    try:
        record = json.loads(data) if whole else None
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        reader.progress.note_unreadable(data)
        return
    for update in reader.feed(record):
        tell(update)


def _refused_session(answer: Answer) -> bool:
    """Whether the run ended before it began, for want of the session it was to go on in."""
    worked = answer.output or answer.extra.get("tool_call_count")
    return answer.error is not None and not worked and is_lost_session(answer.error.message)
