"""A captured session as steps: what was thought, what was done, what came of it. What every training format is made of.

A thought belongs to the action that follows it; the pieces of a command's output belong to the command. Snapshots are
checkpoints and no actions: they are counted, not shown. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

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

__all__ = ["TOOLS", "Action", "Read", "Steps", "Thought", "Trouble", "steps_of"]

Read = Callable[[str], str | None]
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
        return "".join(self.results) if self.results else None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that went wrong in a tool or the recording."""

    event_id: str
    seq: int
    ts_ms: int
    text: str


@dataclass(frozen=True)
class Steps:
    """All steps in order; `after` are thoughts that no action followed."""

    items: tuple[Action | Trouble, ...]
    after: tuple[Thought, ...]
    snapshots: int
    left_out: int
    """Texts that are not here: not stored, or not consented to."""


def steps_of(events: Iterable[Event], read: Read) -> Steps:
    """The steps of a session whose blobs `read` answers."""
    fold = _Fold(read)
    for event in events:
        fold.take(event)
    return Steps(tuple(fold.items), tuple(fold.thoughts), fold.snapshots, fold.left_out)


class _Fold:
    def __init__(self, read: Read) -> None:
        self._read = read
        self.items: list[Action | Trouble] = []
        self.thoughts: list[Thought] = []
        self.snapshots = 0
        self.left_out = 0
        self._commands: dict[str, Action] = {}
        self._last_command: Action | None = None

    def take(self, event: Event) -> None:
        """Fold one event in."""
        if isinstance(event, ThoughtEvent):
            text = self._text(event.payload.content_blob_id)
            if text is not None:
                self.thoughts.append(Thought(event.event_id, event.seq, event.ts_ms, event.payload.kind, text))
        elif isinstance(event, TerminalOutputEvent):
            self._output(event)
        elif isinstance(event, FileSnapshotEvent):
            self.snapshots += 1
        elif isinstance(event, ErrorEvent):
            detail = self._text(event.payload.detail_blob_id)
            source = f"{event.payload.source}: " if event.payload.source else ""
            text = f"{source}{event.payload.message}" + (f"\n{detail}" if detail else "")
            self.items.append(Trouble(event.event_id, event.seq, event.ts_ms, text))
        else:
            self._action(event)

    def _action(self, event: Event) -> None:
        tool, arguments = self._named(event)
        action = Action(
            event.event_id,
            event.seq,
            event.ts_ms,
            event.ts_ms,
            tool,
            {key: value for key, value in arguments.items() if value is not None},
            event.actor.kind,
            tuple(self.thoughts),
        )
        self.thoughts.clear()
        if isinstance(event, TestRunEvent):
            self._test(action, event)
        if isinstance(event, TerminalCommandEvent):
            self._last_command = action
            self._commands[event.event_id] = action
            if event.context.correlation_id is not None:
                self._commands[event.context.correlation_id] = action
        self.items.append(action)

    def _named(self, event: Event) -> tuple[str, dict[str, Any]]:
        if isinstance(event, FileEditEvent):
            edit = event.payload
            return "edit_file", {"path": edit.file_path, "patch": self._text(edit.patch_blob_id)}
        if isinstance(event, TerminalCommandEvent):
            return "run_command", {"command": event.payload.command, "cwd": event.payload.cwd}
        if isinstance(event, TestRunEvent):
            return "run_tests", {"command": event.payload.command, "runner": event.payload.runner}
        if isinstance(event, NavigationEvent):
            at = event.payload
            return "navigate", {"kind": at.kind, "path": at.file_path, "line": at.line, "query": at.query}
        if isinstance(event, DebugActionEvent):
            step = event.payload
            told = {"action": step.action, "path": step.file_path, "line": step.line, "expression": step.expression}
            return "debug", {**told, "value": self._text(step.value_blob_id)}
        if isinstance(event, CommitEvent):
            return "commit", {"message": event.payload.message, "commit": event.payload.commit_sha}
        assert isinstance(event, PrMetadataEvent)  # noqa: S101 - the union has no other member; mypy holds this
        request = event.payload
        return "open_pull_request", {"title": request.title, "description": request.description, "url": request.url}

    def _test(self, action: Action, event: TestRunEvent) -> None:
        run = event.payload
        action.ok = run.passed
        action.end_ms = event.ts_ms + run.duration_ms
        verdict = "passed" if run.passed else "failed"
        action.results.append(f"{verdict}, exit code {run.exit_code}, {run.duration_ms} ms\n")
        report = self._text(run.report_blob_id)
        if report is not None:
            action.results.append(report)

    def _output(self, event: TerminalOutputEvent) -> None:
        context = event.context
        command = self._commands.get(context.parent_event_id or "") or self._commands.get(context.correlation_id or "")
        command = command or self._last_command
        text = self._text(event.payload.chunk_blob_id)
        if command is None or text is None:
            return
        command.results.append(text)
        command.cut |= event.payload.is_truncated
        command.end_ms = max(command.end_ms, event.ts_ms)

    def _text(self, blob_id: str | None) -> str | None:
        if blob_id is None:
            return None
        text = self._read(blob_id)
        self.left_out += text is None
        return text
