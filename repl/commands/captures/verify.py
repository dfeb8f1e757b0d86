"""`pm capture verify TRACE|FILE|--all`: does a captured session prove itself, or every one of the collector."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repl.commands.captures.collector import NoCollectorError, find_row, opened_collector
from repl.present.text import count_text, one_line
from tracer.errors import TraceError, UsageError

if TYPE_CHECKING:
    from collector.collector import Collector
    from collector.final.verify_session import Report
    from repl.context import Context

_SHOWN = 20
_PAGE = 500
_SAID = {"verified": "verified", "mismatch": "differs", "not_testable": "not testable"}


async def verify(context: Context, arguments: Namespace) -> None:
    if arguments.all is bool(arguments.trace):
        raise UsageError("name a trace or a file, or give --all", next_step="pm capture verify --all")
    if arguments.all:
        await _verify_all(context)
        return
    target = None if arguments.tree is None else context.path(arguments.tree)
    path = context.path(arguments.trace)
    report = await (_of_file(context, path, target) if path.is_file() else _of_trace(context, arguments.trace, target))
    _show(context, report, limit=_SHOWN if arguments.limit is None else arguments.limit)
    if target is not None:
        place = one_line(str(target))
        if not any(target.iterdir()):
            context.output.note(f"no file of the final tree could be rebuilt: {place} is empty")
        elif report.tree is None or report.status == "mismatch":
            context.output.note(f"what could be rebuilt of the final tree is in {place}")
        else:
            context.output.note(f"the final tree is in {place}")
    if report.status == "mismatch":
        raise _mismatch(report)
    context.output.result("capture verify", report.to_dict())


async def _verify_all(context: Context) -> None:
    """A line for each trace of the collector, in no more memory than a page of them; 8 where one differs."""
    counts, differing, after = Counter[str](), list[str](), None
    async with opened_collector(context) as collector:
        while rows := await collector.store.list_traces(after=after, limit=_PAGE):
            after = rows[-1].trace_id
            for row in rows:
                report = await _report(collector, row.trace_id)
                counts[report.status] += 1
                wrong = report.status == "mismatch"
                said = context.output.tinted(f"{_SAID[report.status]:<12}", good=not wrong)
                why = f"  {one_line(str(_mismatch(report).why), 120)}" if wrong else ""
                context.output.line(f"{said}  {report.trace_id}{why}")
                differing += [report.trace_id] * wrong
    context.output.line(", ".join(f"{counts[status]} {said}" for status, said in _SAID.items()))
    fields: dict[str, Any] = {"counts": {status: counts[status] for status in _SAID}, "differing": differing}
    if differing:
        error = TraceError(
            f"{len(differing)} of {counts.total()} traces do not prove themselves",
            next_step=f"pm capture verify {differing[0]}",
        )
        error.record_fields = fields  # type: ignore[attr-defined]  # as in _mismatch
        raise error
    context.output.result("capture verify", fields)


async def _of_trace(context: Context, selector: str, target: Path | None) -> Report:
    async with opened_collector(context) as collector:
        return await _report(collector, (await find_row(collector.store, selector)).trace_id, target)


async def _report(collector: Collector, trace_id: str, target: Path | None = None) -> Report:
    from collector.final.trace_source import StoreSource
    from collector.final.verify_session import stored_document_agrees, verify_source

    source = await StoreSource.open(trace_id, store=collector.store, contents=collector.contents)
    agrees = await stored_document_agrees(trace_id, store=collector.store)
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
