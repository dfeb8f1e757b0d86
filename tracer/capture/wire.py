"""What clients send: create (with its QA profile), append, finalize (contracts 8).

The models describe the shape for clients and for the published schema; the collector's intake validates. A field
`x_blob_id` may come inline as `x`, a string; large strings are stored as blobs.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from tracer.capture.document import Developer, Environment, Repo, StoreMode, Task
from tracer.capture.events import Actor, Context, EventType
from tracer.capture.fields import BlobId, Closed, GitSha, Millis, Name, Seq, Text, Uuid, Whole

Runner = Literal["pytest", "go test", "npm test", "make test", "custom"]
PROFILE_FILE: Final = ".pm-orchestrator/qa.toml"
"""Where a repository says how it is tested."""


class QaProfile(Closed):
    """`runner` alone is enough for all but `custom`, which needs a `command`."""

    runner: Runner
    image: Name | None = None
    """The container image; the server's own for the runner where it is left out."""
    command: Text | None = None
    """The test command in words, such as `pytest tests/unit`; the runner's usual one where it is left out."""
    commands: list[Text] = Field(default_factory=list, max_length=20)
    """Several test commands instead of `command`: each is run, also where an earlier one fails."""
    setup: list[Text] = Field(default_factory=list, max_length=20)
    """Commands that install what the tests need, such as `npm ci`: run once for the same lock files, and kept."""
    timeout: Annotated[int, Field(ge=1)] | None = None
    """Seconds that one run of the tests may take, at most what the server gives it."""
    build: list[Text] = Field(default_factory=list, max_length=20)
    """Commands of the build phase, run before the tests, in order."""
    network: bool = False
    """Whether the build phase asks for the network; the test phase never has it."""
    reports: list[Name] = Field(default_factory=list, max_length=20)
    """Where the command leaves JUnit reports: names or globs relative to the repository."""

    @field_validator("commands")
    @classmethod
    def _one_way(cls, commands: list[str], told: ValidationInfo) -> list[str]:
        before = told.data
        if commands and before.get("command") is not None:
            raise PydanticCustomError("profile_commands", "it and command exclude each other: name all in commands")
        return commands


def inline_name(field: str) -> str:
    """The name under which the content of `field` (`patch_blob_id`) may be sent inline (`patch`)."""
    return field.removesuffix("_blob_id")


class SentIngestion(Closed):
    """How the client will send."""

    mode: Literal["batch", "incremental"]
    client_session_id: Name
    dedupe_policy: Literal["event_id"] = "event_id"
    seq_last: Annotated[int, Field(ge=0, le=0)] = 0
    clock_skew_ms_est: Whole = 0


class CreateTrace(Closed):
    """POST /traces. With a `trace_id` of the client's own the call can be repeated."""

    trace_id: Uuid | None = None
    repo: Repo
    task: Task
    developer: Developer
    environment: Environment
    ingestion: SentIngestion
    store: StoreMode = "redacted"
    qa_profile: QaProfile | Name | None = None
    """How to test it: a profile, or a runner's name alone (`pytest`)."""


class SentEvent(Closed):
    """An event as sent; its payload follows `tracer.capture.events`, blobs inline or by id."""

    event_id: Uuid
    seq: Seq
    ts_ms: Millis
    type: EventType
    actor: Actor
    context: Context = Context()
    payload: dict[str, JsonValue]


class AppendEvents(Closed):
    """POST /traces/{id}/events. `sent_at_ms` is the client's clock when it sends: what the skew is estimated from."""

    events: list[SentEvent]
    sent_at_ms: Millis | None = None


class SentPullRequest(Closed):
    """The pull request; its diff inline or by id."""

    title: Text | None = None
    description: Text | None = None
    diff: str | None = None
    diff_blob_id: BlobId | None = None


class SentFinalState(Closed):
    """What the session ended in."""

    commit_head: GitSha | None = None
    pr: SentPullRequest = SentPullRequest()
    bundle_blob_id: BlobId | None = None


class FinalizeTrace(Closed):
    """POST /traces/{id}/finalize."""

    final_state: SentFinalState | None = None
    sent_at_ms: Millis | None = None
