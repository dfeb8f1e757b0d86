"""`pm capture verify TRACE|FILE`: does a captured session prove itself."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repl.commands.captures.collector import NoCollectorError, find_row, opened_collector
from repl.present.text import count_text, one_line
from tracer.errors import TraceError

if TYPE_CHECKING:
    from collector.final.verify_session import Report
    from repl.context import Context

_SHOWN = 20
_SAID = {"verified": "verified", "mismatch": "differs", "not_testable": "not testable"}


async def verify(context: Context, arguments: Namespace) -> int:
    target = None if arguments.tree is None else context.folder / Path(arguments.tree).expanduser()
    path = context.folder / Path(arguments.trace).expanduser()
    report = await (_of_file(context, path, target) if path.is_file() else _of_trace(context, arguments.trace, target))
    _show(context, report, limit=_SHOWN if arguments.limit is None else arguments.limit)
    if target is not None:
        context.output.note(f"the final tree is in {one_line(str(target))}")
    if report.status == "mismatch":
        raise _mismatch(report)
    context.output.result("capture verify", report.to_dict())
    return 0


async def _of_trace(context: Context, selector: str, target: Path | None) -> Report:
    from collector.final.trace_source import StoreSource
    from collector.final.verify_session import stored_document_agrees, verify_source

    async with opened_collector(context) as collector:
        row = await find_row(collector.store, selector)
        source = await StoreSource.open(row.trace_id, store=collector.store, contents=collector.contents)
        agrees = await stored_document_agrees(row.trace_id, store=collector.store)
        return await verify_source(source, document=agrees, write_to=target)


async def _of_file(context: Context, path: Path, target: Path | None) -> Report:
    from collector.final.trace_source import DocumentSource, load_document
    from collector.final.verify_session import document_hash_agrees, verify_source

    plain, document = load_document(path)
    agrees = document_hash_agrees(plain)
    try:
        async with opened_collector(context) as collector:
            return await verify_source(DocumentSource(document, collector.contents), document=agrees, write_to=target)
    except NoCollectorError:
        return await verify_source(DocumentSource(document, None), document=agrees, write_to=target)


def _show(context: Context, report: Report, *, limit: int) -> None:
    output = context.output
    good = report.status != "mismatch"
    output.line(f"{output.tinted(_SAID[report.status], good=good)}  {report.trace_id}")
    output.line(f"  base      {one_line(report.base)}")
    edits, snapshots = count_text(report.edits, "edit"), count_text(report.snapshots, "snapshot")
    output.line(f"  replayed  {count_text(report.events, 'event')}: {edits}, {snapshots}")
    differ, untold = f"{report.mismatches} differ", f"{report.not_testable} cannot be told"
    output.line(f"  checks    {report.checked} agree, {differ}, {untold}")
    if report.tree is not None:
        output.line(f"  final     tree {report.tree}")
    if report.reaches is not None:
        output.line(f"  commit    {report.reaches} holds what the edits up to it led to")
    if report.document is not None:
        output.line(f"  document  {'is what the trace makes' if report.document else 'is NOT what the trace makes'}")
    shown = sorted(report.findings, key=lambda found: (found.kind != "mismatch", found.seq))
    for found in shown[: max(limit, 0)]:
        place = f"event {found.seq}" if found.seq else "end"
        kind = "differs" if found.kind == "mismatch" else "not testable"
        output.line(f"    {place}  {one_line(found.path)}  {kind}: {one_line(found.reason)}")
    left = report.mismatches + report.not_testable - min(len(shown), max(limit, 0))
    if left > 0:
        output.line(f"    … and {left} more")


def _mismatch(report: Report) -> TraceError:
    first = next((found for found in report.findings if found.kind == "mismatch"), None)
    why = "the stored final document is not what the trace makes"
    if first is not None:
        place = f"event {first.seq}, {first.path}" if first.seq else first.path or "the trace"
        why = f"{place}: {first.reason}"
    error = TraceError(
        f"trace {report.trace_id!r} does not prove itself",
        why=why,
        next_step="look at that event: the record is incomplete, or was changed",
    )
    fields: dict[str, Any] = report.to_dict()
    error.record_fields = fields  # type: ignore[attr-defined]  # what the closing JSON record says beside the error
    return error
