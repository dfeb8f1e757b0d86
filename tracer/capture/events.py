"""One captured event: the envelope and the eleven payloads (seed 002, contracts 8).

An event is what a developer did, at `ts_ms` on the client's clock, in the order of `seq`. Large texts stand outside
as blobs (`*_blob_id`). Keys of a payload that its type does not know are kept under `extra`; an unknown type, and an
unknown key anywhere else, is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, JsonValue, model_validator
from typing_extensions import override

from tracer.capture.fields import (
    BlobId,
    Closed,
    Count,
    ExitCode,
    GitSha,
    Millis,
    Name,
    Seq,
    SourcePath,
    Text,
    Uuid,
    ViewedPath,
)

Position = Annotated[list[Count], Field(min_length=2, max_length=2)]


class Actor(Closed):
    """Who acted."""

    kind: Literal["human", "tool", "ide"]
    id: Name | None = None


class Context(Closed):
    """Where the event happened and what it belongs to."""

    workspace_root: Text | None = None
    branch: Text | None = None
    commit_head: GitSha | None = None
    correlation_id: Uuid | None = None
    parent_event_id: Uuid | None = None


class Payload(Closed):
    """The base of the payloads: unknown keys go to `extra`."""

    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """What the sender knew beyond the schema, as it was sent."""
    field_names: ClassVar[frozenset[str]] = frozenset()
    """The names of the fields; `model_fields` is slow to ask for."""

    @classmethod
    @override
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Note the names."""
        super().__pydantic_init_subclass__(**kwargs)
        cls.field_names = frozenset(cls.model_fields)

    @model_validator(mode="before")
    @classmethod
    def _keep_unknown(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.keys() <= cls.field_names:
            return value
        known = {key: inner for key, inner in value.items() if key in cls.field_names}
        unknown = {key: inner for key, inner in value.items() if key not in cls.field_names}
        given = known.get("extra", {})
        if not isinstance(given, dict):
            return value
        return {**known, "extra": {**unknown, **given}}


class Selection(Closed):
    """A range in a file; `start` and `end` are [line, column]."""

    start: Position
    end: Position


class FileEdit(Payload):
    """A meaningful edit as a patch, with the file's hashes before and after."""

    file_path: SourcePath
    edit_kind: Literal["patch", "replace_range", "keystroke_batch"]
    patch_format: Literal["unified_diff"] = "unified_diff"
    patch_blob_id: BlobId
    pre_hash: BlobId | None = None
    """sha256 of the file before; null where it did not exist."""
    post_hash: BlobId | None = None
    """sha256 of the file after; null where it was deleted."""
    selection: Selection | None = None
    reason_ref: Uuid | None = None
    """The thought event that explains the edit."""


class FileSnapshot(Payload):
    """A file's whole content at a checkpoint."""

    file_path: SourcePath
    content_blob_id: BlobId
    snapshot_reason: Literal["pre_test", "post_test", "manual_checkpoint"]


class TerminalCommand(Payload):
    """A command as it was entered."""

    cwd: Text
    command: Text
    shell: Literal["bash", "zsh", "pwsh", "cmd"]
    env_hash: Name | None = None


class TerminalOutput(Payload):
    """A piece of a command's output; the command is the event's parent or shares its correlation id."""

    stream: Literal["stdout", "stderr"]
    chunk_blob_id: BlobId
    is_truncated: bool = False


class TestRun(Payload):
    """A run of tests, whatever the runner."""

    __test__: ClassVar[bool] = False  # the name is the schema's: no class of tests for pytest

    command: Text
    runner: Literal["pytest", "go test", "npm test", "make test", "custom"]
    exit_code: ExitCode
    duration_ms: Count
    passed: bool
    report_blob_id: BlobId | None = None


class DebugAction(Payload):
    """A step in a debugger."""

    action: Literal["breakpoint", "step", "continue", "inspect", "evaluate", "attach"]
    file_path: ViewedPath | None = None
    line: Count | None = None
    expression: Text | None = None
    value_blob_id: BlobId | None = None


class Navigation(Payload):
    """Looking around in the code."""

    kind: Literal["open", "close", "goto", "search"]
    file_path: ViewedPath | None = None
    line: Count | None = None
    query: Text | None = None


class Thought(Payload):
    """A rationale the developer wrote down, tied to the events it speaks of."""

    content_blob_id: BlobId
    kind: Literal["hypothesis", "plan", "interpretation", "decision", "postmortem"]
    links_to: list[Uuid] = Field(default_factory=list, max_length=1_000)


class Commit(Payload):
    """A commit."""

    commit_sha: GitSha
    parent_sha: GitSha | None = None
    message: Text
    diff_blob_id: BlobId | None = None


class PrMetadata(Payload):
    """A pull request as it stands."""

    title: Text
    description: Text | None = None
    url: Text | None = None
    head: Text | None = None
    base: Text | None = None
    diff_blob_id: BlobId | None = None


class Error(Payload):
    """Something that went wrong in a tool or in the recording."""

    message: Text
    source: Text | None = None
    detail_blob_id: BlobId | None = None


class EventEnvelope(Closed):
    """What every event has."""

    event_id: Uuid
    seq: Seq
    """Strictly increasing in a trace; gaps are allowed."""
    ts_ms: Millis
    """Milliseconds since 1970-01-01 UTC on the client's clock; need not ascend."""
    actor: Actor
    context: Context = Context()


class FileEditEvent(EventEnvelope):
    """See `FileEdit`."""

    type: Literal["file_edit"]
    payload: FileEdit


class FileSnapshotEvent(EventEnvelope):
    """See `FileSnapshot`."""

    type: Literal["file_snapshot"]
    payload: FileSnapshot


class TerminalCommandEvent(EventEnvelope):
    """See `TerminalCommand`."""

    type: Literal["terminal_command"]
    payload: TerminalCommand


class TerminalOutputEvent(EventEnvelope):
    """See `TerminalOutput`."""

    type: Literal["terminal_output"]
    payload: TerminalOutput


class TestRunEvent(EventEnvelope):
    """See `TestRun`."""

    __test__: ClassVar[bool] = False

    type: Literal["test_run"]
    payload: TestRun


class DebugActionEvent(EventEnvelope):
    """See `DebugAction`."""

    type: Literal["debug_action"]
    payload: DebugAction


class NavigationEvent(EventEnvelope):
    """See `Navigation`."""

    type: Literal["navigation"]
    payload: Navigation


class ThoughtEvent(EventEnvelope):
    """See `Thought`."""

    type: Literal["thought"]
    payload: Thought


class CommitEvent(EventEnvelope):
    """See `Commit`."""

    type: Literal["commit"]
    payload: Commit


class PrMetadataEvent(EventEnvelope):
    """See `PrMetadata`."""

    type: Literal["pr_metadata"]
    payload: PrMetadata


class ErrorEvent(EventEnvelope):
    """See `Error`."""

    type: Literal["error"]
    payload: Error


Event: TypeAlias = Annotated[
    FileEditEvent
    | FileSnapshotEvent
    | TerminalCommandEvent
    | TerminalOutputEvent
    | TestRunEvent
    | DebugActionEvent
    | NavigationEvent
    | ThoughtEvent
    | CommitEvent
    | PrMetadataEvent
    | ErrorEvent,
    Field(discriminator="type"),
]

EventType = Literal[
    "file_edit", "file_snapshot", "terminal_command", "terminal_output", "test_run", "debug_action", "navigation",
    "thought", "commit", "pr_metadata", "error",
]  # fmt: skip
PAYLOADS: Final[dict[str, type[Payload]]] = {
    "file_edit": FileEdit,
    "file_snapshot": FileSnapshot,
    "terminal_command": TerminalCommand,
    "terminal_output": TerminalOutput,
    "test_run": TestRun,
    "debug_action": DebugAction,
    "navigation": Navigation,
    "thought": Thought,
    "commit": Commit,
    "pr_metadata": PrMetadata,
    "error": Error,
}
"""The payload model of each event type."""

EVENT_TYPES: Final[tuple[str, ...]] = tuple(PAYLOADS)


def blob_fields(model: type[Closed]) -> tuple[str, ...]:
    """The fields of `model` that name a blob (`patch_blob_id`); each may be sent inline (`patch`)."""
    return tuple(name for name in model.model_fields if name.endswith("_blob_id"))
