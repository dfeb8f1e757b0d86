"""`pm capture from-task` and `from-session`: other records of this project as captured sessions."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repl.commands.captures.collector import opened_collector
from repl.present.text import count_text, one_line
from tracer.errors import NotFoundError, TraceError, UsageError
from tracer.facts import LlmRequest, UserRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from collector.collector import Collector
    from collector.imports.draft import Imported
    from repl.context import Context
    from tracer.distill.native import NativeSession

_BATCH = 500


async def from_task(context: Context, arguments: Namespace) -> None:
    consent = _consent(arguments.consent)
    ref = context.task(arguments.task)
    with tempfile.TemporaryDirectory(prefix="pm-import-") as folder:
        imported = await asyncio.to_thread(_read_task, context, ref.path, consent, Path(folder))
    await _store(context, imported, "capture from-task")


def _read_task(context: Context, path: Path, consent: dict[str, bool], folder: Path) -> Imported:
    from collector.final.bundle_trees import task_base
    from collector.final.replay import UNKNOWN
    from collector.imports.task import imported_task
    from tracer.blobs import DirectoryBlobs
    from tracer.conversation import ConversationTracer
    from tracer.distill.stored import stored_at

    entries = ConversationTracer.read_trace(path)
    if not entries:
        raise TraceError(f"{str(path)!r} holds no events")
    blobs = DirectoryBlobs(context.state_dir.blobs)

    def read_blob(blob_id: str) -> bytes | None:
        try:
            return blobs.read(blob_id)
        except NotFoundError:
            return None

    def read_agentic(name: str) -> list[dict[str, Any]]:
        path = stored_at(context.state_dir.project / name).resolve()
        if not path.is_relative_to(context.state_dir.agentic_traces.resolve()):
            return []
        try:
            lines = path.read_bytes().split(b"\n")
            return [json.loads(line) for line in lines if line]
        except (OSError, ValueError):
            return []

    recorded = next((entry.base for entry in entries if isinstance(entry, LlmRequest)), None)
    asked = next((entry.workspace for entry in entries if isinstance(entry, UserRequest)), "")
    base = task_base(Path(asked or context.folder), recorded, folder)
    return imported_task(
        entries,
        consent=consent,
        read_blob=read_blob,
        base=(lambda _path: UNKNOWN) if base is None else base.content,
        base_commit=None if base is None else base.commit,
        read_agentic=read_agentic,
        bundle=base.bundle() if base is not None and consent["store_raw_code"] else None,
    )


async def from_session(context: Context, arguments: Namespace) -> None:
    from collector.imports.session import imported_session
    from collector.imports.session_reader import read_session
    from tracer.distill.one import make_redactor

    consent = _consent(arguments.consent)
    session = _session(context, arguments)
    redactor = make_redactor(context.state_dir, context.redaction())
    read = await asyncio.to_thread(read_session, session, redactor=redactor)
    imported = await asyncio.to_thread(imported_session, session, read, consent=consent)
    await _store(context, imported, "capture from-session")


def _session(context: Context, arguments: Namespace) -> NativeSession:
    from tracer.distill.locate.find import latest_session, session_at, session_named

    project = context.path(arguments.project_root) if arguments.project_root else context.folder
    if arguments.session is None:
        if not arguments.latest:
            raise UsageError("which session?", next_step="--latest, or --session PATH; pm sessions lists them")
        return latest_session(arguments.provider, project=project)
    path = context.path(arguments.session)
    if path.exists():
        return session_at(path, arguments.provider)
    return session_named(arguments.session, arguments.provider, cwd=project)


def _consent(text: str | None) -> dict[str, bool]:
    from collector.recorder.consent import parse_consent

    return parse_consent(text or "none").flags()


async def _store(context: Context, imported: Imported, command: str) -> None:
    from collector.recorder.consent import WORDS

    async with opened_collector(context, create=True) as collector:
        new = await _send(collector, imported)
        row = await collector.row(imported.trace_id)
    asked, kept = imported.create["developer"]["consent_flags"], row.metadata["developer"]["consent_flags"]
    if asked != kept:
        given = ", ".join(word for word, flag in WORDS.items() if kept.get(flag)) or "none"
        short = imported.trace_id[:8]
        context.output.note(f"its consent stays as it was given: {given} · pm capture withdraw {short} takes it back")
    for note in imported.notes:
        context.output.note(one_line(note))
    edits = sum(event["type"] == "file_edit" for event in imported.events)
    context.output.line(imported.trace_id)
    told = f"{count_text(len(imported.events), 'event')}, {count_text(edits, 'edit')}"
    context.output.line(f"  {told}{'' if new else ' · was there already'}")
    context.output.line(f"  pm capture verify {imported.trace_id[:8]}")
    context.output.result(
        command,
        {
            "trace_id": imported.trace_id,
            "events": len(imported.events),
            "edits": edits,
            "created": new,
            "notes": list(imported.notes),
        },
    )


async def _send(collector: Collector, imported: Imported) -> bool:
    there = await collector.store.get_trace(imported.trace_id)
    if there is not None and there.status != "open":
        return False
    create: Mapping[str, object] = imported.create
    if imported.bundle is not None:
        from tracer.blobs import blob_id_of

        bundle_id = blob_id_of(imported.bundle)
        await collector.put_blob(io.BytesIO(imported.bundle), submitted_id=bundle_id, byte_length=len(imported.bundle))
        create = {**create, "repo": {**imported.create["repo"], "bundle_blob_id": bundle_id}}
    await collector.create(create)
    for at in range(0, len(imported.events), _BATCH):
        await collector.append(imported.trace_id, imported.events[at : at + _BATCH])
    await collector.finalize(imported.trace_id, {"final_state": imported.final_state})
    return True
