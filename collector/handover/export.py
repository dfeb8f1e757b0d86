"""Exports a stored trace: consent, format, audit for secrets, one line of JSON in a file.

Consent applies here a second time: without store_terminal_output no output leaves, without allow_llm_judge no score, a
raw trace without store_raw_code not at all. Nothing is written that the audit did not find clean. Memory holds a page
of events and about a megabyte of the document.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

import orjson

from collector.final.document import document_frame, event_pages, events_of, inlined
from collector.final.qa_facts import fold_qa
from collector.handover.environments import harbor_pieces, swebench_pieces
from collector.store.blobs import Contents
from collector.store.port import TraceRow, TraceStore
from tracer.blobs import text_of
from tracer.capture.canonical import canonical_json
from tracer.capture.document import (
    BlobEntry,
    ConsentFlags,
    Developer,
    Environment,
    FinalState,
    Ingestion,
    Qa,
    Repo,
    Scores,
    Task,
)
from tracer.capture.events import Event, TerminalOutputEvent, TestRunEvent
from tracer.errors import ConflictError, NotFoundError
from tracer.export.atif import atif_pieces
from tracer.export.chat import chat_pieces
from tracer.export.otlp import otlp_pieces
from tracer.export.pieces import Audit, Leaf, LookedAt, Many, Piece, as_it_is, pieces_of, written
from tracer.export.steps import ExportedTrace, Steps
from tracer.redaction.leaks import LeakError
from tracer.redaction.rule_pack import gitleaks_data

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor

_PAGE: Final = 1000
_SHORT: Final = 128 << 10
_OUTPUTS: Final = {"terminal_output": "chunk_blob_id", "test_run": "report_blob_id"}


async def readable_document(row: TraceRow, *, store: TraceStore, contents: Contents) -> AsyncGenerator[Piece]:
    """The pieces of the document. Raises as `collector.final.document.document_chunks`."""
    consent = Developer.model_validate(row.metadata["developer"]).consent_flags
    held_back: frozenset[bytes] = frozenset()
    if not consent.store_terminal_output:
        held_back = await _outputs(row, store)
    frame = await document_frame(row, store, name_itself=True)
    if not consent.allow_llm_judge:
        _without_scores(frame)
    members = {name: orjson.loads(canonical_json(value)) for name, value in frame.items()}
    members["artifacts"] = {"blobs": Many(_blobs(row, store, contents, held_back))}
    members["events"] = Many(_events(row, store))
    async for piece in pieces_of({name: members[name] for name in sorted(members)}):
        yield piece


async def _events(row: TraceRow, store: TraceStore) -> AsyncIterator[Any]:
    async for page in event_pages(row, store):
        for body in page:
            yield orjson.loads(body)


async def _blobs(
    row: TraceRow, store: TraceStore, contents: Contents, held_back: frozenset[bytes]
) -> AsyncIterator[Any]:
    after = ""
    while rows := await store.blob_rows(row.trace_id, after=after, limit=_PAGE):
        after = rows[-1].blob_id
        for blob in rows:
            entry = await inlined(blob, None if _short(blob.blob_id) in held_back else contents)
            yield orjson.loads(canonical_json(_readable(entry)))


def _readable(entry: BlobEntry) -> BlobEntry:
    """Name, but do not hold, what the audit cannot look into: bundles, archives and other binary content."""
    data = _inline_bytes(entry.storage_uri)
    readable = data is None or text_of(data, probe=len(data)) is not None
    return entry if readable else entry.model_copy(update={"storage_uri": f"blob:{entry.blob_id}"})


async def _outputs(row: TraceRow, store: TraceStore) -> frozenset[bytes]:
    """The blobs that hold outputs and test reports."""
    found: set[bytes] = set()
    async for event in _events(row, store):
        blob_id = event["payload"].get(_OUTPUTS.get(event["type"], ""))
        if blob_id is not None:
            found.add(_short(blob_id))
    return frozenset(found)


def _short(blob_id: str) -> bytes:
    return bytes.fromhex(blob_id.removeprefix("sha256:"))


def _without_scores(frame: dict[str, Any]) -> None:
    """Take a judge's scores out; the document is then no longer the stored one and must not name it."""
    qa: Qa | None = frame["qa"]
    judge = qa.judge if qa is not None else None
    if qa is None or judge is None or (judge.overall is None and not any(judge.scores.model_dump().values())):
        return
    frame["qa"] = qa.model_copy(update={"judge": None})
    state: FinalState | None = frame["final_state"]
    if state is not None:
        frame["final_state"] = state.model_copy(update={"final_trace_blob_id": None})


def _inline_bytes(uri: str) -> bytes | None:
    return base64.b64decode(uri.partition(";base64,")[2]) if uri.startswith("data:") else None


def inline_text(uri: str) -> str:
    """The text that a `data:` URI holds; any other URI as it is."""
    data = _inline_bytes(uri)
    return uri if data is None else data.decode("utf-8", "replace")


ExportFormat = Literal["atif", "chat", "otlp", "json", "harbor", "swebench"]
FORMATS: Final[tuple[ExportFormat, ...]] = ("atif", "chat", "otlp", "json")
"""Those that tell the session; the others make an environment of a proven fix."""


def export_pieces(row: TraceRow, form: ExportFormat, *, store: TraceStore, contents: Contents) -> AsyncGenerator[Piece]:
    """The trace in one of the formats, piece by piece, as far as consent goes."""
    check_consent(row)
    whole = {"json": readable_document, "harbor": harbor_pieces, "swebench": swebench_pieces}.get(form)
    if whole is not None:
        return whole(row, store=store, contents=contents)
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
        found = events_of(row, store)
        return found if consent.store_terminal_output else _without_outputs(found)

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
    """The trace as `--where` sees it: every field of `collector.handover.export_filter.FIELDS`."""
    given = row.metadata
    consent = given["developer"].get("consent_flags") or {}
    tests, judge = (qa.tests, qa.judge) if qa is not None else (None, None)
    proof: Any = (tests.detail.get("proof") if tests is not None else None) or {}
    scores = judge.scores.model_dump() if judge is not None else dict.fromkeys(Scores.model_fields)
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
        **{f"consent.{flag}": bool(consent.get(flag)) for flag in ConsentFlags.model_fields},
        "qa.schema_valid": qa.schema_valid if qa is not None else None,
        "qa.final_passed": tests.final_passed if tests is not None else None,
        "qa.not_testable": tests.not_testable if tests is not None else None,
        "qa.verdict": proof.get("verdict"),
        "qa.strength": proof.get("strength"),
        "qa.flags": proof.get("flags") or [],
        "overall": judge.overall if judge is not None else None,
        **scores,
        "flags": list(judge.flags) if judge is not None else [],
        "rubric": judge.rubric_version if judge is not None else None,
        "judge": judge.model if judge is not None else None,
    }


def redaction_version() -> str:
    """The version of the rules that are not our own: ours come with the program's."""
    return f"gitleaks {gitleaks_data()['version']}"


async def _without_outputs(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in events:
        if isinstance(event, TestRunEvent):
            yield event.model_copy(update={"payload": event.payload.model_copy(update={"report_blob_id": None})})
        elif not isinstance(event, TerminalOutputEvent):
            yield event


def _store_mode(row: TraceRow) -> str:
    return row.metadata.get("store") or "redacted"


async def write_export(
    file: BinaryIO,
    row: TraceRow,
    form: ExportFormat,
    *,
    store: TraceStore,
    contents: Contents,
    redactor: ProjectRedactor,
    redact: bool = False,
    what: str,
    each: Callable[[Leaf], None] | None = None,
) -> int:
    """Append the trace as one line of JSON; the bytes written. `each` is called with every value that was.

    Where it raises, what is in the file is a beginning and not to be used; finds are never in it.

    Raises:
        ConflictError: consent forbids the export.
        LeakError: something looks like a secret (with `redact`, what replacing could not reach); says where.
        TraceError: an event or a blob is damaged.
        OSError: the file could not be written.

    """
    audit = Audit(redactor, what=what, looked_at=_LOOKED_AT.get(form, as_it_is), redact=redact)

    def put(*, last: bool) -> int:
        size = 0
        for piece in audit.passed(last=last):
            size += file.write(written(piece))
            if each is not None and isinstance(piece, Leaf):
                each(piece)
        return size

    size = 0
    async with aclosing(export_pieces(row, form, store=store, contents=contents)) as pieces:
        async for piece in pieces:
            if audit.take(piece):
                size += await asyncio.to_thread(put, last=False)
    # Looking takes long, but a few milliseconds of it less than to move to another core and back.
    size += put(last=True) if audit.waiting <= _SHORT else await asyncio.to_thread(put, last=True)
    try:
        audit.close()
    except LeakError as error:
        if form == "json":  # whose blobs are named by their hashes
            error.next_step = "leave the trace out, or take --format atif, chat or otlp with --redact"
        raise
    return size + file.write(b"\n")


def _in_a_message(value: Any) -> list[tuple[str, Any]]:
    """A message of the chat API, and the arguments of its tool calls as what they say."""
    calls = value.get("tool_calls") or () if isinstance(value, dict) else ()
    return [
        ("", value),
        *(
            (f"/tool_calls/{at}/function/arguments", json.loads(call["function"]["arguments"]))
            for at, call in enumerate(calls)
        ),
    ]


def _in_the_document(value: Any) -> list[tuple[str, Any]]:
    """A blob as the text it holds."""
    if isinstance(value, dict) and "storage_uri" in value:
        return [("", {**value, "storage_uri": None}), ("/storage_uri", inline_text(value["storage_uri"]))]
    return [("", value)]


def _in_a_task(value: Any) -> list[tuple[str, Any]]:
    """A file of a task, by its path."""
    return [(f"/{value['path']}" if isinstance(value, dict) and "path" in value else "", value)]


_LOOKED_AT: Final[Mapping[ExportFormat, LookedAt]] = {
    "chat": _in_a_message,
    "json": _in_the_document,
    "harbor": _in_a_task,
}
