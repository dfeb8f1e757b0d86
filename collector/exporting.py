"""A stored trace made ready to leave: read, held to its developer's consent, put into one of the formats.

Consent is applied here a second time, whatever was stored: without store_terminal_output no output leaves, without
allow_llm_judge no score, and a raw trace without store_raw_code does not leave at all.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from collector.contents import Contents
from collector.exported_document import readable_document
from collector.materialize import event_pages
from collector.qa_fold import fold_qa
from collector.store.port import TraceRow, TraceStore
from tracer.capture.document import Developer, Environment, Ingestion, Qa, Repo, Task
from tracer.capture.events import Event, TerminalOutputEvent, TestRunEvent
from tracer.errors import ConflictError, NotFoundError, TraceError
from tracer.export.atif import atif_pieces
from tracer.export.chat import chat_pieces
from tracer.export.otlp import otlp_pieces
from tracer.export.pieces import Piece
from tracer.export.steps import Steps
from tracer.export.trajectory import ExportedTrace

__all__ = ["FORMATS", "ExportFormat", "check_consent", "export_pieces", "fields_of", "redaction_version"]

ExportFormat = Literal["atif", "chat", "otlp", "json"]
FORMATS: Final[tuple[ExportFormat, ...]] = ("atif", "chat", "otlp", "json")
_EVENT: Final[TypeAdapter[Event]] = TypeAdapter(Event)
_GITLEAKS: Final = Path(__file__).parent.parent / "tracer" / "redaction" / "rules" / "gitleaks.json"


def export_pieces(row: TraceRow, form: ExportFormat, *, store: TraceStore, contents: Contents) -> AsyncGenerator[Piece]:
    """The trace in one of the formats, piece by piece, as far as consent goes.

    Raises:
        ConflictError: consent forbids the export.
        TraceError: an event or a blob is damaged.

    """
    check_consent(row)
    if form == "json":
        return readable_document(row, store=store, contents=contents)
    return _training_pieces(row, {"atif": atif_pieces, "chat": chat_pieces, "otlp": otlp_pieces}[form], store, contents)


async def _training_pieces(
    row: TraceRow, form: Callable[[ExportedTrace], AsyncGenerator[Piece]], store: TraceStore, contents: Contents
) -> AsyncGenerator[Piece]:
    developer = Developer.model_validate(row.metadata["developer"])
    consent = developer.consent_flags
    qa = fold_qa(await store.qa_facts(row.trace_id))

    async def read(blob_id: str) -> str | None:
        try:
            return (await contents.read(blob_id)).decode("utf-8", "replace")
        except NotFoundError:
            return None

    def events() -> AsyncIterator[Event]:
        return _events(row, store) if consent.store_terminal_output else _without_outputs(_events(row, store))

    trace = ExportedTrace(
        trace_id=row.trace_id,
        created_at_ms=row.created_at_ms,
        finalized_at_ms=row.finalized_at_ms,
        repo=Repo.model_validate(row.metadata["repo"]),
        task=Task.model_validate(row.metadata["task"]),
        developer=developer,
        environment=Environment.model_validate(row.metadata["environment"]),
        ingestion=Ingestion.model_validate({**row.metadata["ingestion"], "store": _store_mode(row)}),
        qa=qa if qa is None or consent.allow_llm_judge else qa.model_copy(update={"judge": None}),
        steps=Steps(events, read),
    )
    async for piece in form(trace):
        yield piece


def check_consent(row: TraceRow) -> None:
    """Raise `ConflictError` where the trace may not leave in the form that it is stored in."""
    developer = Developer.model_validate(row.metadata["developer"])
    if _store_mode(row) == "raw" and not developer.consent_flags.store_raw_code:
        raise ConflictError(
            f"trace {row.trace_id!r} may not be exported",
            why="it is stored raw, but its developer did not agree to store_raw_code",
            next_step="leave it out, or delete it: pm capture delete",
        )


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
    """The version of the rules that are not our own: ours come with the program's."""
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
    async for page in event_pages(row, store):
        for body in page:
            try:
                yield _EVENT.validate_json(body)
            except ValidationError as error:
                raise TraceError(
                    f"an event of {row.trace_id!r} does not follow the schema", why=str(error.errors()[0]["msg"])
                ) from error


async def _without_outputs(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in events:
        if isinstance(event, TestRunEvent):
            yield event.model_copy(update={"payload": event.payload.model_copy(update={"report_blob_id": None})})
        elif not isinstance(event, TerminalOutputEvent):
            yield event


def _store_mode(row: TraceRow) -> str:
    return row.metadata.get("store") or "redacted"
