"""Any agent that speaks the Agent Client Protocol, by the command that the configuration names.

The agent is a server on a pipe: it is started for a question and ended with its whole tree after the answer. Files it
reads and writes through us stay inside the workspace; what it asks permission for is settled by the permissions, or by
the user where there is one.
"""

from __future__ import annotations

import asyncio
import importlib
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from runner.executors.agents.conclude import Run, conclude
from runner.executors.agents.detection import DIALECTS
from runner.executors.agents.dialect import with_rules
from runner.executors.agents.progress import Progress
from runner.executors.executor_port import Answer, AnswerError, Ask, ExecutorSettings, LiveSink, ignore_live, live_of
from runner.executors.provider_errors import classify_message
from runner.processes import bubblewrap
from runner.processes.environment import Provider, agent_environment
from runner.processes.process import Process
from tracer.errors import ConfigError, SandboxError, UnavailableError

if TYPE_CHECKING:
    from runner.executors.acp.client import WorkspaceClient

_MAX_OUTPUT_BYTES: Final = 1 << 30
_MESSAGE_LIMIT: Final = 64 << 20
_AUTH_REQUIRED: Final = -32000
_PROVIDERS: Final[tuple[tuple[str, Provider], ...]] = (
    ("claude", "anthropic"),
    ("codex", "openai"),
    ("gemini", "google"),
)


class AcpExecutor:
    """Asks one configured agent; one process a question."""

    name = "acp"
    continues_sessions = True
    plans = True  # has a model that can be asked for a plan

    def __init__(self, agent: str, settings: ExecutorSettings) -> None:
        chosen = agent or settings.agent or (next(iter(settings.agents)) if len(settings.agents) == 1 else "")
        if chosen not in settings.agents:
            known = ", ".join(sorted(settings.agents)) or "none"
            raise ConfigError(
                f"no agent command is configured for {'acp:' + chosen if chosen else 'acp'}",
                why=f"configured agents: {known}",
                next_step="""pm config set agents.NAME '["COMMAND", "ARGUMENT"]'""",
            )
        self._agent = chosen
        self._argv = list(settings.agents[chosen])
        self._settings = settings
        self._always: set[str] = set()

    def require_program(self) -> None:
        """Look for the agent's program, as the operating system will; one named by a path is looked for when it starts.

        Raises:
            UnavailableError: it is not on PATH.

        """
        program = self._argv[0]
        if "/" not in program and shutil.which(program, path=self._settings.environ.get("PATH")) is None:
            raise UnavailableError(
                f"acp:{self._agent} is not installed",
                why=f"looked on PATH for {program!r}",
                next_step=f"install it, or correct agents.{self._agent} (pm config show)",
            )

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        """See `Executor.ask`."""
        try:
            # The SDK takes 0.7 s to import: once, and while the loop goes on.
            module = await asyncio.to_thread(importlib.import_module, "runner.executors.acp.client")
            progress = Progress(model=request.model)
            return await self._run(request, module.WorkspaceClient, progress, live_of(request, live))
        except (ConfigError, SandboxError) as error:
            return Answer.failed("unavailable", f"{error.what}: {error.why}", error.next_step)
        except (FileNotFoundError, PermissionError) as error:
            message = f"the agent {self._agent!r} could not be started: {error}"
            hint = f"check the command in agents.{self._agent}"
            return Answer.failed("unavailable", message, hint)

    async def close(self) -> None:
        """Nothing is kept between questions."""

    def _environment(self) -> dict[str, str]:
        """Of an agent whose command names its make, that provider's variables; of any other only what is configured."""
        return agent_environment(self._provider(), self._settings.environ, extra_names=self._settings.extra_environment)

    def _provider(self) -> Provider | None:
        """The make of an agent whose command names it."""
        words = " ".join(self._argv).lower()
        return next((provider for word, provider in _PROVIDERS if word in words), None)

    def _command_line(self, request: Ask) -> list[str]:
        """The agent's command, in the operating system's sandbox where that is asked for.

        Raises:
            SandboxError: the sandbox is required and does not work here.

        """
        settings = self._settings
        full = request.permissions == "full"
        if settings.sandbox == "off" or (settings.sandbox == "auto" and (full or not bubblewrap.probe().available)):
            return self._argv
        provider = self._provider()
        argv, readable = bubblewrap.needed_to_start(self._argv, search=settings.environ.get("PATH"))
        return bubblewrap.wrap_agent(
            argv,
            workspace=request.workspace,
            read_only=request.permissions == "read",
            state_dir=settings.state_dir,
            readable=readable,
            own=(
                folder
                for dialect in DIALECTS.values()
                if dialect.provider == provider
                for folder in dialect.private_folders(settings.environ)
            ),
        )

    async def _run(
        self, request: Ask, client_class: Callable[..., WorkspaceClient], progress: Progress, tell: LiveSink
    ) -> Answer:
        settings = self._settings
        process = Process(
            self._command_line(request),
            cwd=request.workspace,
            env=self._environment(),
            stdin="open",
            timeout_s=request.timeout_s,
            idle_timeout_s=settings.silence_s,
            state_dir=settings.state_dir,
            label=request.task_id,
        )
        why = ""
        resumed = False
        async with process:
            client = client_class(
                request=request,
                settings=settings,
                progress=progress,
                tell=tell,
                agent=self._agent,
                excused=process.excused,
                always=self._always,
            )
            reader = asyncio.StreamReader(limit=_MESSAGE_LIMIT)
            pump = asyncio.create_task(_pump(process, reader))
            try:
                connection = client.connect(process.stdin, reader)
                why, resumed = await self._converse(connection, client, request, progress)
            except (ConnectionError, EOFError):
                pass  # the process ended: how, and what it said last, tells why
            finally:
                pump.cancel()
                await asyncio.wait([pump])
                await client.close()
            if pump.done() and not pump.cancelled() and pump.exception() is None and pump.result() == "output":
                why = "output"
            ending = await process.end()
            stderr = (await process.stderr_tail()).decode("utf-8", "replace")
        run = Run(
            name=self.name,
            version=client.agent_version,
            progress=progress,
            ending=ending,
            stderr=stderr,
            why_ended=why,
            resumed=resumed,
            silence_s=settings.silence_s,
            login_hint=f"log in with the agent {self._agent!r} itself, or name its key in environment.allow",
        )
        # A model that could not be set is not the one that answered.
        answer = conclude(run, request._replace(model=progress.model))
        reference = f"acp:{self._agent}:{progress.session_id}" if progress.session_id else None
        return answer._replace(session_ref=reference)

    async def _converse(
        self, connection: Any, client: WorkspaceClient, request: Ask, progress: Progress
    ) -> tuple[str, bool]:
        """Handshake, session, prompt. Returns why the process is ended afterwards, and whether a session went on."""
        resumed = False
        try:
            await client.initialize(connection)
            resumed = await client.open_session(connection, self._known_session(request))
            await request.session_began(f"acp:{self._agent}:{progress.session_id}")
            await client.prompt(connection, with_rules(request, fresh=not resumed))
        except client.request_error as error:
            progress.finished = False
            progress.error = _error_of(error)
        except client.unknown_model as error:
            progress.finished = False
            progress.error = AnswerError(kind="unavailable", message=str(error), next_step="choose with --model")
        except client.budget_spent:
            return "budget", resumed
        return "answered", resumed

    def _known_session(self, request: Ask) -> str | None:
        kind, _, rest = (request.session_ref or "").partition(":")
        agent, _, session_id = rest.partition(":")
        return session_id if kind == "acp" and agent == self._agent and session_id else None


async def _pump(process: Process, reader: asyncio.StreamReader) -> str:
    """Hand on what the agent writes, counted."""
    seen = 0
    try:
        async for chunk in process.chunks():
            seen += len(chunk)
            if seen > _MAX_OUTPUT_BYTES:
                return "output"
            reader.feed_data(chunk)
        return "end"
    finally:
        reader.feed_eof()


def _error_of(error: Any) -> AnswerError:
    data = getattr(error, "data", None)
    details = data.get("details") or data.get("message") or data if isinstance(data, dict) else data
    message = f"{error}: {details}" if details else str(error)
    told = classify_message(message)
    return told._replace(kind="auth") if getattr(error, "code", None) == _AUTH_REQUIRED else told
