"""The captured trace as one document (seed 002, contracts 8 and 9), and its published JSON Schema.

Values are frozen; unknown keys are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue

from tracer.capture.events import Event
from tracer.capture.fields import (
    BlobId,
    BlobType,
    Closed,
    Count,
    ExitCode,
    GitSha,
    Millis,
    Name,
    Seq,
    Text,
    Uuid,
    Whole,
)

TRACE_VERSION: Final = "1.0"
StoreMode = Literal["redacted", "raw", "patches_only"]
JudgeFlag = Literal[
    "hallucination_risk",
    "missing_steps",
    "unsafe_suggestion",
    "ungrounded",
    "judge_unparsed",
    "judge_refused",
    "judge_skipped",
]
Score = Annotated[float, Field(ge=0, le=5, strict=False)]


class RepoFingerprint(Closed):
    """What the repository looked like beyond its commit."""

    tree_hash: Name | None = None
    dependencies_lock_hash: Name | None = None


class Repo(Closed):
    """The repository the bug was fixed in."""

    repo_id: Name
    remote_url: Text | None = None
    default_branch: Name | None = None
    commit_base: GitSha
    repo_fingerprint: RepoFingerprint = RepoFingerprint()
    bundle_blob_id: BlobId | None = None
    """A git bundle that holds `commit_base`; what QA checks out."""


class BugReport(Closed):
    """What was reported."""

    title: Text
    description: Text
    repro_steps: Text | None = None
    expected: Text | None = None
    actual: Text | None = None
    links: list[Text] = Field(default_factory=list, max_length=1_000)


class Task(Closed):
    """The task of the session."""

    task_id: Name | None = None
    bug_report: BugReport
    labels: list[Name] = Field(default_factory=list, max_length=1_000)


class ConsentFlags(Closed):
    """What the developer agreed to; a flag that is missing is false."""

    store_raw_code: bool = False
    store_terminal_output: bool = False
    allow_llm_judge: bool = False


class Developer(Closed):
    """Who fixed the bug."""

    developer_id: Name
    experience_level: Literal["junior", "mid", "senior", "unknown"] = "unknown"
    consent_flags: ConsentFlags = ConsentFlags()


class Ide(Closed):
    """The editor."""

    name: Name
    version: Name | None = None


class Environment(Closed):
    """The machine the session ran on."""

    os: Name | None = None
    ide: Ide | None = None
    language: list[Name] = Field(default_factory=list, max_length=1_000)
    containerized: bool | None = None
    timezone: Name | None = None


class Ingestion(Closed):
    """How the trace came in."""

    mode: Literal["batch", "incremental"]
    client_session_id: Name
    seq_last: Count = 0
    """The highest seq that is durable."""
    dedupe_policy: Literal["event_id"] = "event_id"
    clock_skew_ms_est: Whole = 0
    """The client's clock minus the server's, estimated; positive where the client's is ahead."""
    store: StoreMode = "redacted"
    """What was done to the content before it was stored."""
    gaps: list[Annotated[list[Seq], Field(min_length=2, max_length=2)]] = Field(default_factory=list)
    """Runs of seq [from, to], both included, that never came; at most the first 1,000."""


class BlobRedaction(Closed):
    """Whether a blob was redacted, and by which rules."""

    applied: bool
    rules: list[Literal["secret_scan", "pii_mask", "truncate_large"]] = Field(default_factory=list)


class BlobEntry(Closed):
    """A blob of the trace; in the final document `storage_uri` is `blob:<blob_id>`."""

    blob_id: BlobId
    content_type: BlobType
    byte_length: Count
    storage_uri: Text
    redaction: BlobRedaction


class Artifacts(Closed):
    """Everything that stands outside the document."""

    blobs: list[BlobEntry] = Field(default_factory=list)


class PullRequest(Closed):
    """The pull request the session ended in."""

    title: Text | None = None
    description: Text | None = None
    diff_blob_id: BlobId | None = None


class FinalState(Closed):
    """What the session ended in."""

    commit_head: GitSha | None = None
    pr: PullRequest = PullRequest()
    bundle_blob_id: BlobId | None = None
    """A git bundle that holds `commit_head`; or the redacted tree of `commit_base`, where no bundle holds that."""
    final_trace_blob_id: BlobId | None = None
    """The final document as a blob; hashed without this field, so null inside the document itself."""


class Invocation(Closed):
    """One run of the test command by QA."""

    invocation_id: Uuid
    ts_ms: Millis
    command: Text
    exit_code: ExitCode | None
    """null where the run was cut off by its time limit."""
    duration_ms: Count
    passed: bool
    report_blob_id: BlobId | None = None
    stdout_blob_id: BlobId | None = None
    stderr_blob_id: BlobId | None = None
    phase: Literal["base", "head"] = "head"
    """Which code it ran on: the base commit, or the submitted state."""


class QaTests(Closed):
    """What the tests said, run in a container."""

    runner: Name
    container_image: Name | None = None
    invocations: list[Invocation] = Field(default_factory=list)
    final_passed: bool | None = None
    """null where nothing could be tested."""
    not_testable: Text | None = None
    """Why nothing could be tested (`redacted`, `sandbox`, `no_source` …); never a failure of the tests."""
    detail: dict[str, JsonValue] = Field(default_factory=dict)


class Scores(Closed):
    """The judge's six scores, 0 to 5; null where it gave none."""

    root_cause_identification: Score | None = None
    plan_quality: Score | None = None
    experiment_iterate_loop: Score | None = None
    use_of_signals_tests_logs: Score | None = None
    minimality_of_fix: Score | None = None
    clarity: Score | None = None


class QaJudge(Closed):
    """What the judge said."""

    model: Name
    rubric_version: Name
    scores: Scores = Scores()
    overall: Score | None = None
    """Mean of the six, one decimal; null where one is null."""
    rationale_blob_id: BlobId | None = None
    flags: list[JudgeFlag] = Field(default_factory=list)
    request_blob_id: BlobId | None = None
    response_blob_id: BlobId | None = None
    detail: dict[str, JsonValue] = Field(default_factory=dict)


class Qa(Closed):
    """The quality checks after the session."""

    schema_valid: bool | None = None
    tests: QaTests | None = None
    judge: QaJudge | None = None


class TraceDocument(Closed):
    """The whole trace."""

    trace_version: Literal["1.0"]
    trace_id: Uuid
    created_at_ms: Millis
    finalized_at_ms: Millis | None = None
    repo: Repo
    task: Task
    developer: Developer
    environment: Environment
    ingestion: Ingestion
    artifacts: Artifacts = Artifacts()
    events: list[Event] = Field(default_factory=list)
    final_state: FinalState | None = None
    qa: Qa | None = None


SCHEMA_ID: Final = f"urn:pm-orchestrator:capture-trace:{TRACE_VERSION}"


def trace_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every final document validates against."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **TraceDocument.model_json_schema(mode="serialization"),
    }
