"""A stored trace made ready to leave: read, held to its developer's consent, put into one of the formats.

Consent is applied here a second time, whatever was stored: without store_terminal_output no output leaves, without
allow_llm_judge no score, and a raw trace without store_raw_code does not leave at all.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final, Literal

import orjson
from pydantic import TypeAdapter, ValidationError

from collector.contents import Contents
from collector.materialize import document_chunks
from collector.qa_fold import fold_qa
from collector.store.port import TraceRow, TraceStore
from tracer.capture.document import Developer, Environment, Ingestion, Qa, Repo, Task
from tracer.capture.events import Event, TerminalOutputEvent, TestRunEvent
from tracer.errors import ConflictError, NotFoundError, TraceError
from tracer.export.atif import atif_trajectory
from tracer.export.chat import chat_row
from tracer.export.otlp import otlp_request
from tracer.export.steps import steps_of
from tracer.export.trajectory import ExportedTrace

__all__ = ["FORMATS", "ExportFormat", "fields_of", "load_trace", "redaction_version", "render_trace", "to_audit"]

ExportFormat = Literal["atif", "chat", "otlp", "json"]
FORMATS: Final[tuple[ExportFormat, ...]] = ("atif", "chat", "otlp", "json")
_PAGE: Final = 1000
_EVENT: Final[TypeAdapter[Event]] = TypeAdapter(Event)
_GITLEAKS: Final = Path(__file__).parent.parent / "tracer" / "redaction" / "rules" / "gitleaks.json"


async def load_trace(row: TraceRow, *, store: TraceStore, contents: Contents) -> ExportedTrace:
    """The trace with its texts, as far as consent goes; the whole of it is in memory.

    Raises:
        ConflictError: consent forbids the export.
        TraceError: an event or a blob is damaged.

    """
    developer = Developer.model_validate(row.metadata["developer"])
    check_consent(row, developer)
    consent = developer.consent_flags
    events = [event async for event in _events(row, store)]
    if not consent.store_terminal_output:
        events = list(_without_outputs(events))
    texts = await _texts(events, contents)
    qa = fold_qa(await store.qa_facts(row.trace_id))
    return ExportedTrace(
        trace_id=row.trace_id,
        created_at_ms=row.created_at_ms,
        finalized_at_ms=row.finalized_at_ms,
        repo=Repo.model_validate(row.metadata["repo"]),
        task=Task.model_validate(row.metadata["task"]),
        developer=developer,
        environment=Environment.model_validate(row.metadata["environment"]),
        ingestion=Ingestion.model_validate({**row.metadata["ingestion"], "store": _store_mode(row)}),
        qa=qa if qa is None or consent.allow_llm_judge else qa.model_copy(update={"judge": None}),
        steps=steps_of(events, texts.get),
    )


async def render_trace(row: TraceRow, form: ExportFormat, *, store: TraceStore, contents: Contents) -> dict[str, Any]:
    """The trace in one of the formats, as JSON. Raises as `load_trace`."""
    if form == "json":
        developer = Developer.model_validate(row.metadata["developer"])
        check_consent(row, developer)
        pieces = document_chunks(row.trace_id, store=store, contents=contents, inline=True, name_itself=True)
        document: dict[str, Any] = orjson.loads(b"".join([piece async for piece in pieces]))
        if not developer.consent_flags.allow_llm_judge:
            _without_scores(document)
        _unreadable_by_reference(document)
        return document if developer.consent_flags.store_terminal_output else _outputs_by_reference(document)
    trace = await load_trace(row, store=store, contents=contents)
    return {"atif": atif_trajectory, "chat": chat_row, "otlp": otlp_request}[form](trace)


def check_consent(row: TraceRow, developer: Developer) -> None:
    """Raise `ConflictError` where the trace may not leave in the form that it is stored in."""
    if _store_mode(row) == "raw" and not developer.consent_flags.store_raw_code:
        raise ConflictError(
            f"trace {row.trace_id!r} may not be exported",
            why="it is stored raw, but its developer did not agree to store_raw_code",
            next_step="leave it out, or delete it: pm capture delete",
        )


def to_audit(value: dict[str, Any], form: ExportFormat) -> Any:
    """What the leak audit must look at: inline blobs as the text they are, arguments of tools as what they say."""
    if form == "json":
        blobs = value["artifacts"]["blobs"]
        return [
            {**value, "artifacts": None},
            {blob["blob_id"]: _inline_text(blob["storage_uri"]) for blob in blobs},
        ]
    if form == "chat":
        calls = [
            call["function"]["arguments"] for message in value["messages"] for call in message.get("tool_calls") or ()
        ]
        return [value, [json.loads(arguments) for arguments in calls]]
    return value


def fields_of(row: TraceRow, qa: Qa | None) -> dict[str, Any]:
    """The trace as `--where` sees it: every field of `collector.where.FIELDS`."""
    given = row.metadata
    consent = given["developer"].get("consent_flags") or {}
    tests, judge = (qa.tests, qa.judge) if qa is not None else (None, None)
    scores = judge.scores.model_dump() if judge is not None else dict.fromkeys(_SCORES)
    return {
        "trace_id": row.trace_id,
        "status": row.status,
        "created_at_ms": row.created_at_ms,
        "finalized_at_ms": row.finalized_at_ms,
        "events": row.event_count,
        "store": _store_mode(row),
        "repo": given["repo"]["repo_id"],
        "labels": given["task"].get("labels") or [],
        "language": given["environment"].get("language") or [],
        "developer": given["developer"]["developer_id"],
        "experience": given["developer"].get("experience_level") or "unknown",
        **{f"consent.{flag}": bool(consent.get(flag)) for flag in _FLAGS},
        "qa.schema_valid": qa.schema_valid if qa is not None else None,
        "qa.final_passed": tests.final_passed if tests is not None else None,
        "qa.not_testable": tests.not_testable if tests is not None else None,
        "overall": judge.overall if judge is not None else None,
        **scores,
        "flags": list(judge.flags) if judge is not None else [],
        "rubric": judge.rubric_version if judge is not None else None,
        "judge": judge.model if judge is not None else None,
    }


def redaction_version() -> str:
    """The rules that the audit looked with: gitleaks' version, and ours by the package's."""
    return f"gitleaks {json.loads(_GITLEAKS.read_bytes())['version']}"


_FLAGS: Final = ("store_raw_code", "store_terminal_output", "allow_llm_judge")
_SCORES: Final = (
    "root_cause_identification",
    "plan_quality",
    "experiment_iterate_loop",
    "use_of_signals_tests_logs",
    "minimality_of_fix",
    "clarity",
)


async def _events(row: TraceRow, store: TraceStore) -> AsyncIterator[Event]:
    after = 0
    while page := await store.read_events(row.trace_id, after=after, limit=_PAGE):
        after = page[-1].seq
        for stored in page:
            try:
                yield _EVENT.validate_json(stored.body)
            except ValidationError as error:
                raise TraceError(
                    f"event {stored.seq} of {row.trace_id!r} does not follow the schema",
                    why=str(error.errors()[0]["msg"]),
                ) from error


def _without_outputs(events: Iterable[Event]) -> Iterable[Event]:
    for event in events:
        if isinstance(event, TestRunEvent):
            yield event.model_copy(update={"payload": event.payload.model_copy(update={"report_blob_id": None})})
        elif not isinstance(event, TerminalOutputEvent):
            yield event


async def _texts(events: Iterable[Event], contents: Contents) -> dict[str, str]:
    """The text of every blob that the events name, where it is stored."""
    found: dict[str, str] = {}
    for event in events:
        for name, blob_id in event.payload:
            if name.endswith("_blob_id") and isinstance(blob_id, str) and blob_id not in found:
                try:
                    data = await contents.read(blob_id)
                except NotFoundError:
                    continue
                found[blob_id] = data.decode("utf-8", "replace")
    return found


def _store_mode(row: TraceRow) -> str:
    return row.metadata.get("store") or "redacted"


def _outputs_by_reference(document: dict[str, Any]) -> dict[str, Any]:
    """The document with outputs and test reports named but not held."""
    held_back = {
        event["payload"].get(field)
        for event in document["events"]
        for field in ("chunk_blob_id", "report_blob_id")
        if event["type"] in {"terminal_output", "test_run"}
    }
    for blob in document["artifacts"]["blobs"]:
        if blob["blob_id"] in held_back:
            blob["storage_uri"] = f"blob:{blob['blob_id']}"
    return document


def _without_scores(document: dict[str, Any]) -> None:
    """Take a judge's scores out; the document is then no longer the stored one and must not name it."""
    judge = (document["qa"] or {}).get("judge") or {}
    if judge.get("overall") is None and not any((judge.get("scores") or {}).values()):
        return
    document["qa"]["judge"] = None
    if document["final_state"] is not None:
        document["final_state"]["final_trace_blob_id"] = None


def _unreadable_by_reference(document: dict[str, Any]) -> None:
    """Name, but do not hold, what the audit cannot look into: bundles, archives and other binary content."""
    for blob in document["artifacts"]["blobs"]:
        data = _inline_bytes(blob["storage_uri"])
        try:
            readable = data is None or b"\0" not in data.decode("utf-8").encode()
        except UnicodeDecodeError:
            readable = False
        if not readable:
            blob["storage_uri"] = f"blob:{blob['blob_id']}"


def _inline_bytes(uri: str) -> bytes | None:
    return base64.b64decode(uri.partition(";base64,")[2]) if uri.startswith("data:") else None


def _inline_text(uri: str) -> str:
    data = _inline_bytes(uri)
    return uri if data is None else data.decode("utf-8", "replace")
