"""A captured session as steps (thoughts, actions, outcomes): what every export format is made from.

A thought belongs to the action that follows it, a piece of output to its command. Steps come one by one from two
passes over the events, so memory holds one step and some bytes per event. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from tracer.capture.document import Developer, Environment, Ingestion, Qa, Repo, Task
from tracer.capture.events import (
    CommitEvent,
    DebugActionEvent,
    ErrorEvent,
    Event,
    FileEditEvent,
    FileSnapshotEvent,
    NavigationEvent,
    PrMetadataEvent,
    TerminalCommandEvent,
    TerminalOutputEvent,
    TestRunEvent,
    ThoughtEvent,
)

_KEPT: Final = struct.Struct("<32sq?")
_PREFIX: Final = "sha256:"
_NOBODY: Final = -1
_UNTOLD: Final = "[not recorded: "  # in the place of a command's line
_LONG_MS: Final = 60_000


class Printed(NamedTuple):
    """One piece of output."""

    blob_id: str
    ts_ms: int
    is_truncated: bool


class Changed(NamedTuple):
    """A file that a command changed."""

    path: str
    patch_blob_id: str
    ts_ms: int


class Outputs:
    """The pieces by the `seq` of their command; the test runs by the command that was one; when the session began.

    `_commits` are those whose message the command that made them says, `_makers` the commands of the edits that were
    made while one ran: who does the same again runs the command, and must not make the edit too.
    """

    def __init__(self) -> None:
        self.began_ms: int | None = None
        self.tests: dict[str, TestRunEvent] = {}
        self._commits: set[str] = set()
        self._newest = ("", "")
        self._makers: dict[int, int] = {}
        self._effects: dict[int, list[Changed]] = {}
        self._lived: dict[int, tuple[int, int]] = {}
        self._kept: dict[int, bytearray] = {}
        self._commands: dict[str, int] = {}
        self._last = _NOBODY

    def take(self, event: Event) -> None:
        """See the next event."""
        self.began_ms = event.ts_ms if self.began_ms is None else self.began_ms
        if isinstance(event, TestRunEvent) and event.context.parent_event_id in self._commands:
            self.tests[event.context.parent_event_id] = event
        if isinstance(event, CommitEvent) and event.context.correlation_id == self._newest[0]:
            message = event.payload.message
            self._commits |= {event.event_id} if message and message in self._newest[1] else set()
        command = self._commands.get(event.context.correlation_id or "", _NOBODY)
        if command in self._lived:
            self._lived[command] = self._lived[command][0], event.ts_ms
            if isinstance(event, FileEditEvent) and event.actor.kind == "tool":
                self._makers[event.seq] = command
                change = Changed(event.payload.file_path, event.payload.patch_blob_id, event.ts_ms)
                self._effects.setdefault(command, []).append(change)
        if isinstance(event, TerminalCommandEvent):
            self._last = event.seq
            if not event.payload.command.startswith(_UNTOLD):
                self._lived[event.seq] = event.ts_ms, event.ts_ms
            self._newest = (event.event_id, event.payload.command)
            self._commands[event.event_id] = event.seq
            if event.context.correlation_id is not None:
                self._commands[event.context.correlation_id] = event.seq
        elif isinstance(event, TerminalOutputEvent):
            output, context = event.payload, event.context
            owner = self._commands.get(context.parent_event_id or "")
            if owner is None:
                owner = self._commands.get(context.correlation_id or "", self._last)
            digest = bytes.fromhex(output.chunk_blob_id.removeprefix(_PREFIX))
            self._kept.setdefault(owner, bytearray()).extend(_KEPT.pack(digest, event.ts_ms, output.is_truncated))

    def tells(self, event: Event) -> bool:
        """Whether a command tells this already: that it ran tests, made a commit or an edit, looked at a file.

        What an editor tells while a command runs (the one that started it, often) is no word of that command.
        """
        if isinstance(event, TestRunEvent):
            return event.context.parent_event_id in self.tests
        if event.event_id in self._commits:
            return True
        if isinstance(event, FileEditEvent):
            return event.seq in self._makers and self._is_short(self._makers[event.seq])
        about = isinstance(event, NavigationEvent | DebugActionEvent)
        return about and event.actor.kind != "ide" and event.context.correlation_id in self._commands

    def made_by(self, seq: int) -> Sequence[Changed]:
        """What the command with that `seq` changed, in order."""
        return self._effects.get(seq, ()) if self._is_short(seq) else ()

    def _is_short(self, seq: int) -> bool:
        """Whether a command made the edits of its time: while a server or a watcher runs, they are an editor's."""
        began_ms, last_ms = self._lived.get(seq, (0, _LONG_MS + 1))
        return last_ms - began_ms <= _LONG_MS

    def of(self, seq: int) -> Iterator[Printed]:
        """What the command with that `seq` printed, in order."""
        for digest, ts_ms, is_truncated in _KEPT.iter_unpack(self._kept.get(seq, b"")):
            yield Printed(_PREFIX + digest.hex(), ts_ms, is_truncated)

    def of_nobody(self) -> Iterator[Printed]:
        """What was printed before any command."""
        return self.of(_NOBODY)


Read = Callable[[str], Awaitable[str | None]]
"""The text of a blob; None where it is not stored or may not leave."""

TOOLS: Final[Mapping[str, str]] = {
    "edit_file": "Change one file by a unified diff.",
    "run_command": "Run a command in the terminal.",
    "run_tests": "Run the project's tests.",
    "navigate": "Open, close, go to or search for code.",
    "debug": "Act in the debugger.",
    "commit": "Commit the changes.",
    "open_pull_request": "Describe the change as a pull request.",
}
"""The names that actions have in every export, each with its meaning."""


def tool_definitions() -> list[dict[str, Any]]:
    """The tools as chat APIs declare them."""
    parameters = {"type": "object", "additionalProperties": True}
    return [
        {"type": "function", "function": {"name": name, "description": meaning, "parameters": parameters}}
        for name, meaning in TOOLS.items()
    ]


@dataclass(frozen=True, slots=True)
class Thought:
    """What the developer wrote down, when, and which of the seed's kinds it is."""

    event_id: str
    seq: int
    ts_ms: int
    kind: str
    text: str


@dataclass(slots=True)
class Action:
    """One act and its outcome. `end_ms` is the time of its last sign of life; `ok` None where nobody told."""

    event_id: str
    seq: int
    ts_ms: int
    end_ms: int
    tool: str
    arguments: dict[str, Any]
    actor: Literal["human", "tool", "ide"]
    thoughts: tuple[Thought, ...] = ()
    results: list[str] = field(default_factory=list)
    ok: bool | None = None
    cut: bool = False

    @property
    def result(self) -> str | None:
        """The outcome as text; None where there is none."""
        return "".join(self.results) or None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that went wrong in a tool or the recording."""

    event_id: str
    seq: int
    ts_ms: int
    text: str


class Steps:
    """The steps of a session, in order; what is beside them is known when the last has come.

    `events` gives the session's events anew each time it is called; `read` answers their texts.
    """

    def __init__(self, events: Callable[[], AsyncIterator[Event]], read: Read) -> None:
        self._events = events
        self._read = read
        self._outputs = Outputs()
        self._thoughts: list[Thought] = []
        self.snapshots = 0
        self.left_out = 0
        """Texts that are not here: not stored, or not consented to."""

    @property
    def after(self) -> tuple[Thought, ...]:
        """Thoughts that no action followed."""
        return tuple(self._thoughts)

    async def began(self) -> int | None:
        """The time of the first event; None where there is none."""
        if self._outputs.began_ms is None:
            async for event in self._events():
                self._outputs.take(event)
        return self._outputs.began_ms

    async def __aiter__(self) -> AsyncIterator[Action | Trouble]:
        """One by one; to be gone through once."""
        await self.began()
        async for event in self._events():
            if isinstance(event, ThoughtEvent):
                text = await self._text(event.payload.content_blob_id)
                if text is not None:
                    self._thoughts.append(Thought(event.event_id, event.seq, event.ts_ms, event.payload.kind, text))
            elif isinstance(event, FileSnapshotEvent):
                self.snapshots += 1
            elif isinstance(event, ErrorEvent):
                yield await self._trouble(event)
            elif not isinstance(event, TerminalOutputEvent) and not self._outputs.tells(event):
                yield await self._action(event)
        for printed in self._outputs.of_nobody():
            await self._text(printed.blob_id)

    async def _trouble(self, event: ErrorEvent) -> Trouble:
        detail = await self._text(event.payload.detail_blob_id)
        source = f"{event.payload.source}: " if event.payload.source else ""
        text = f"{source}{event.payload.message}" + (f"\n{detail}" if detail else "")
        return Trouble(event.event_id, event.seq, event.ts_ms, text)

    async def _action(self, event: Event) -> Action:
        tool, arguments = await self._named(event)
        given = {key: value for key, value in arguments.items() if value is not None}
        action = Action(event.event_id, event.seq, event.ts_ms, event.ts_ms, tool, given, event.actor.kind, self.after)
        self._thoughts.clear()
        if isinstance(event, TestRunEvent):
            await self._test(action, event)
        elif isinstance(event, TerminalCommandEvent):
            await self._printed(action)
            await self._changed(action)
            if (run := self._outputs.tests.get(event.event_id)) is not None:
                action.tool, action.arguments["runner"] = "run_tests", run.payload.runner
                await self._test(action, run)
        return action

    async def _named(self, event: Event) -> tuple[str, dict[str, Any]]:
        match event:
            case FileEditEvent(payload=edit):
                return "edit_file", {"path": edit.file_path, "patch": await self._text(edit.patch_blob_id)}
            case TerminalCommandEvent(payload=ran):
                return "run_command", {"command": ran.command, "cwd": ran.cwd}
            case TestRunEvent(payload=run):
                return "run_tests", {"command": run.command, "runner": run.runner}
            case NavigationEvent(payload=at):
                return "navigate", {"kind": at.kind, "path": at.file_path, "line": at.line, "query": at.query}
            case DebugActionEvent(payload=step):
                told = {"action": step.action, "path": step.file_path, "line": step.line, "expression": step.expression}
                return "debug", {**told, "value": await self._text(step.value_blob_id)}
            case CommitEvent(payload=made):
                return "commit", {"message": made.message, "commit": made.commit_sha}
        assert isinstance(event, PrMetadataEvent)  # noqa: S101 - the union has no other member; mypy holds this
        request = event.payload
        return "open_pull_request", {"title": request.title, "description": request.description, "url": request.url}

    async def _test(self, action: Action, event: TestRunEvent) -> None:
        run = event.payload
        action.ok = run.passed
        action.end_ms = max(action.end_ms, event.ts_ms + (run.duration_ms if action.seq == event.seq else 0))
        verdict = "passed" if run.passed else "failed"
        action.results.append(f"{verdict}, exit code {run.exit_code}, {run.duration_ms} ms\n")
        report = await self._text(run.report_blob_id)
        if report is not None:
            action.results.append(report)

    async def _printed(self, action: Action) -> None:
        for printed in self._outputs.of(action.seq):
            text = await self._text(printed.blob_id)
            if text is not None:
                action.results.append(text)
                action.cut |= printed.is_truncated
                action.end_ms = max(action.end_ms, printed.ts_ms)

    async def _changed(self, action: Action) -> None:
        """Tell what the command changed, behind what it printed."""
        for change in self._outputs.made_by(action.seq):
            patch = await self._text(change.patch_blob_id)
            if action.results and not action.results[-1].endswith("\n"):
                action.results.append("\n")
            action.results.append(f"[changed: {change.path}]\n{patch or ''}")
            action.end_ms = max(action.end_ms, change.ts_ms)

    async def _text(self, blob_id: str | None) -> str | None:
        if blob_id is None:
            return None
        text = await self._read(blob_id)
        self.left_out += text is None
        return text


@dataclass(frozen=True, kw_only=True)
class ExportedTrace:
    """One trace as the formats see it; consent is applied already."""

    trace_id: str
    created_at_ms: int
    finalized_at_ms: int | None
    repo: Repo
    task: Task
    developer: Developer
    environment: Environment
    ingestion: Ingestion
    qa: Qa | None
    steps: Steps

    def about(self) -> dict[str, Any]:
        """What every format says about the trace beside its steps; whole once the steps were gone through."""
        return {
            "trace_id": self.trace_id,
            "repo_id": self.repo.repo_id,
            "commit_base": self.repo.commit_base,
            "labels": list(self.task.labels),
            "language": list(self.environment.language),
            "experience_level": self.developer.experience_level,
            "consent": self.developer.consent_flags.model_dump(),
            "store": self.ingestion.store,
            "final_passed": self.qa.tests.final_passed if self.qa and self.qa.tests else None,
            "overall": self.qa.judge.overall if self.qa and self.qa.judge else None,
            "rubric_version": self.qa.judge.rubric_version if self.qa and self.qa.judge else None,
            "snapshots": self.steps.snapshots,
            "texts_left_out": self.steps.left_out,
        }


def report_text(task: Task) -> str:
    """The bug report as the message that a session begins with."""
    report = task.bug_report
    said = report.description.strip()
    parts = [said] if said.startswith(report.title) else [report.title, report.description]
    for name, text in (
        ("Steps to reproduce", report.repro_steps),
        ("Expected", report.expected),
        ("Actual", report.actual),
        ("Links", "\n".join(report.links)),
    ):
        if text:
            parts.append(f"{name}:\n{text}")
    return "\n\n".join(part for part in parts if part)
