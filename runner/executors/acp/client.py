"""Our side of the Agent Client Protocol: what the agent may ask of us, and what it tells.

Imported on the first question only. Files go through `WorkspaceFiles`; a path outside the workspace is refused to the
agent with the reason. No terminal is offered: an agent that has none of its own cannot run commands through us.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, cast

from acp import PROTOCOL_VERSION, Client, RequestError, connect_to_agent, text_block
from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UsageUpdate,
    WriteTextFileResponse,
)

from runner.executors.agents.progress import Progress, as_mapping, summarize_arguments
from runner.executors.executor_port import (
    Ask,
    BudgetSpentError,
    ExecutorSettings,
    Live,
    LiveSink,
    PermissionQuestion,
    Usage,
    over_budget,
)
from runner.executors.workspace_files import Refused, WorkspaceFiles
from runner.processes.command import allowed_words

_READING: Final = frozenset({"read", "search", "think", "fetch", "switch_mode"})
_EDITING: Final = frozenset({"edit", "delete", "move"})
_SHELL_SIGNS: Final = frozenset(";&|<>$`()\n\r")


class UnknownModelError(Exception):
    """The agent offers no model of the name that was asked for; the text says what it offers."""


class WorkspaceClient:
    """Answers one agent during one question (the SDK's `Client`, by shape)."""

    request_error = RequestError
    budget_spent = BudgetSpentError
    unknown_model = UnknownModelError

    def __init__(
        self,
        *,
        request: Ask,
        settings: ExecutorSettings,
        progress: Progress,
        tell: LiveSink,
        agent: str,
        excused: Callable[[], AbstractContextManager[None]],
        always: set[str],
    ) -> None:
        """`excused` stops the clock on the agent's silence; `always` is what the user allowed for the whole task."""
        self.agent_version = ""
        self._agent = agent
        self._excused = excused
        self._always = always
        self._request = request
        self._settings = settings
        self._progress = progress
        self._tell = tell
        self._files = WorkspaceFiles(Path(request.workspace), state_dir=settings.state_dir)
        self._capabilities: Any = None
        self._replaying = False
        self._calls: dict[str, tuple[str, str]] = {}
        self._text = ""
        self._cost_before: float | None = 0.0
        self._spent = asyncio.Event()
        self._connection: Any = None

    def connect(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> Any:
        """The connection over the agent's pipes."""
        self._connection = connect_to_agent(cast("Client", self), writer, reader)
        return self._connection

    async def close(self) -> None:
        """End the connection's own tasks."""
        if self._connection is not None:
            await self._connection.close()

    async def initialize(self, connection: Any) -> None:
        """The handshake."""
        writes = self._request.permissions != "read"
        files = FileSystemCapabilities(read_text_file=True, write_text_file=writes)
        told = await connection.initialize(
            PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(fs=files, terminal=False),
            client_info=Implementation(name="pm-orchestrator", version="0"),
        )
        self._capabilities = told.agent_capabilities
        if told.agent_info is not None:
            self.agent_version = f"{told.agent_info.name} {told.agent_info.version}"

    async def open_session(self, connection: Any, known: str | None) -> bool:
        """Go on in session `known` where the agent can, else begin one; True where it went on.

        Raises:
            UnknownModelError: the agent has a choice of models, and the one asked for is not among them.

        """
        workspace = self._request.workspace
        if known is not None and self._capabilities is not None and self._capabilities.load_session:
            self._replaying = True
            self._cost_before = None
            loaded = None
            try:
                loaded = await connection.load_session(cwd=workspace, session_id=known, mcp_servers=[])
            except RequestError:
                self._cost_before = 0.0
            finally:
                self._replaying = False
            if loaded is not None:
                self._progress.session_id = known
                await self._choose_model(connection, loaded, known)  # a new process: it has the choice of none
                return True
        session = await connection.new_session(cwd=workspace, mcp_servers=[])
        self._progress.session_id = session.session_id
        await self._choose_model(connection, session, session.session_id)
        return False

    async def _choose_model(self, connection: Any, session: Any, session_id: str) -> None:
        """Set the model that was asked for; `session` holds what the agent offers."""
        wanted = self._request.model
        if not wanted:
            return
        for option in session.config_options or ():
            inner = getattr(option, "root", option)
            if getattr(inner, "category", None) == "model" or getattr(inner, "id", "") == "model":
                offered = _offered(inner)
                if offered and wanted not in offered:
                    raise UnknownModelError(f"{wanted!r} is no model of this agent; it offers {', '.join(offered)}")
                await connection.set_config_option(config_id=inner.id, session_id=session_id, value=wanted)
                return
        told = f"the agent has no setting for the model: {wanted!r} was not set, name it in the agent's command"
        self._tell(Live(kind="notice", text=told))
        self._progress.model = None

    async def prompt(self, connection: Any, text: str) -> None:
        """Ask, until the agent says that its turn is over.

        Raises:
            BudgetSpentError: the agent told a cost above the budget.

        """
        asking = asyncio.ensure_future(connection.prompt(self._progress.session_id, [text_block(text)]))
        spending = asyncio.ensure_future(self._spent.wait())
        waiting: list[asyncio.Future[Any]] = [asking, spending]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise BudgetSpentError
            self._conclude(asking.result())
        finally:
            for future in waiting:
                future.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _conclude(self, response: Any) -> None:
        progress = self._progress
        progress.stop_reason = response.stop_reason
        progress.finished = response.stop_reason != "cancelled"
        told = response.usage
        if told is not None:
            progress.usage = Usage(
                input_tokens=told.input_tokens,
                output_tokens=told.output_tokens,
                cached_tokens=told.cached_read_tokens,
                cache_write_tokens=told.cached_write_tokens,
                thinking_tokens=told.thought_tokens,
            )
            self._tell(Live(kind="usage", usage=progress.usage, cost_usd=progress.cost_usd))

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:  # noqa: ARG002 - the protocol's shape
        """Take one update; unknown kinds are noise."""
        if isinstance(update, UsageUpdate):
            self._on_usage(update)
        if self._replaying:
            return
        match update:
            case AgentMessageChunk():
                text = getattr(update.content, "text", "")
                self._text += text
                self._progress.output = self._text
                self._tell(Live(kind="text", text=text))
            case AgentThoughtChunk():
                self._tell(Live(kind="thinking", text=getattr(update.content, "text", "")))
            case ToolCallStart() | ToolCallProgress():
                self._on_tool(update)
            case _:
                pass

    def _on_tool(self, update: ToolCallStart | ToolCallProgress) -> None:
        self._text = ""
        kind, title = self._calls.get(update.tool_call_id, ("other", ""))
        kind, title = update.kind or kind, update.title or title
        if as_mapping(update.raw_input).get("command"):  # a title may only say what the command is for
            title = summarize_arguments(as_mapping(update.raw_input))
        self._calls[update.tool_call_id] = (kind, title)
        if isinstance(update, ToolCallStart):
            self._tell(Live(kind="tool_started", tool=update.kind or "other", text=update.title or ""))
        if update.status not in {"completed", "failed"}:
            return
        del self._calls[update.tool_call_id]
        ok = update.status == "completed"
        self._progress.note_call(kind, title, ok=ok, edit=kind in _EDITING)
        self._tell(Live(kind="tool_finished", tool=kind, text=title, ok=ok))

    def _on_usage(self, update: UsageUpdate) -> None:
        """The session's cost so far; of a session that went on, what was told before the prompt is taken off."""
        cost = update.cost
        if cost is None or cost.currency.upper() != "USD":
            return
        if self._replaying:
            self._cost_before = cost.amount
        if self._cost_before is None:
            return
        self._progress.cost_usd = round(max(cost.amount - self._cost_before, 0.0), 9)
        if over_budget(self._request, self._progress.cost_usd):
            self._spent.set()

    async def request_permission(
        self,
        session_id: str,  # noqa: ARG002 - the protocol's shape
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **kwargs: Any,  # noqa: ARG002 - the protocol's shape
    ) -> RequestPermissionResponse:
        """By the permissions; what they do not settle is asked of the user where there is one, else refused."""
        title = tool_call.title or summarize_arguments(as_mapping(tool_call.raw_input)) or "a tool call"
        if self._allowed(tool_call):
            chosen = _first(options, "allow_once", "allow_always")
        else:
            chosen = await self._asked(title, tool_call, options)
        if chosen is None or chosen.kind.startswith("reject"):
            self._progress.denied += 1
            self._tell(Live(kind="notice", text=f"refused: {title}"))
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))

    async def _asked(
        self, title: str, tool_call: ToolCallUpdate, options: list[PermissionOption]
    ) -> PermissionOption | None:
        """The option the user takes; a refusal where there is nobody to ask, or nothing but reading is permitted."""
        refusal = _first(options, "reject_once", "reject_always")
        if self._settings.ask_person is None or self._request.permissions == "read":
            return refusal
        same = json.dumps([title, tool_call.kind, tool_call.raw_input], sort_keys=True, default=str)
        if same in self._always:
            return _first(options, "allow_once", "allow_always")
        always = _first(options, "allow_always")
        question = PermissionQuestion(
            task_id=self._request.task_id,
            subtask_id=self._request.subtask_id,
            agent=self._agent,
            title=title,
            always=always.name if always else "",
        )
        with self._excused():
            answer = await self._settings.ask_person(question)
        if answer == "always":
            self._always.add(same)
            return always or _first(options, "allow_once")
        return _first(options, "allow_once", "allow_always") if answer == "yes" else refusal

    def _allowed(self, tool_call: ToolCallUpdate) -> bool:
        kind = tool_call.kind or self._calls.get(tool_call.tool_call_id, ("other", ""))[0]
        match self._request.permissions:
            case "full":
                return True
            case "read":
                return kind in _READING
            case _:
                if kind in _READING:
                    return True
                if kind in _EDITING:
                    return all(self._is_inside(location.path) for location in tool_call.locations or ())
                return kind == "execute" and self._command_listed(as_mapping(tool_call.raw_input).get("command"))

    def _is_inside(self, path: str) -> bool:
        try:
            self._relative(path)
        except Refused:
            return False
        return True

    def _command_listed(self, command: object) -> bool:
        """Whether the settings allow it: as it stands, or by its words where no shell would make more of them."""
        text = shlex.join(map(str, command)) if isinstance(command, list) else command
        if not isinstance(text, str):
            return False
        allowed = self._settings.allow_commands
        return text in allowed or (not set(text) & _SHELL_SIGNS and allowed_words(text, allowed) is not None)

    def _relative(self, path: str) -> str:
        """The protocol's paths are absolute; ours are relative to the workspace."""
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self._files.root):
            raise Refused(f"{path!r} is outside the workspace")
        return str(real.relative_to(self._files.root))

    async def read_text_file(
        self,
        session_id: str,  # noqa: ARG002 - the protocol's shape
        path: str,
        line: int | None = None,
        limit: int | None = None,
        **kwargs: Any,  # noqa: ARG002 - the protocol's shape
    ) -> ReadTextFileResponse:
        """A text file of the workspace."""
        try:
            text = await asyncio.to_thread(
                self._files.read, self._relative(path), first_line=line or 1, line_count=limit
            )
        except Refused as refusal:
            raise RequestError.invalid_params({"details": str(refusal)}) from refusal
        return ReadTextFileResponse(content=text)

    async def write_text_file(
        self,
        session_id: str,  # noqa: ARG002 - the protocol's shape
        path: str,
        content: str,
        **kwargs: Any,  # noqa: ARG002 - the protocol's shape
    ) -> WriteTextFileResponse | None:
        """Create or replace a file of the workspace."""
        if self._request.permissions == "read":
            raise RequestError.invalid_params({"details": "writing is not permitted in this run"})
        try:
            await asyncio.to_thread(self._files.write, self._relative(path), content)
        except Refused as refusal:
            raise RequestError.invalid_params({"details": str(refusal)}) from refusal
        return WriteTextFileResponse()


def _offered(option: Any) -> list[str]:
    """The values of a choice, those of its groups included."""
    entries = getattr(option, "options", None) or ()
    flat = [one for entry in entries for one in getattr(entry, "options", None) or (entry,)]
    return [str(one.value) for one in flat if getattr(one, "value", None)]


def _first(options: list[PermissionOption], *kinds: str) -> PermissionOption | None:
    """The first option of the first of `kinds` there is."""
    for kind in kinds:
        for option in options:
            if option.kind == kind:
                return option
    return None
