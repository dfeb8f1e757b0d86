"""`pm capture export`: one captured session in a training format, or a set of them; audited before it leaves."""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from repl.commands.captures.collector import find_row, opened_collector
from repl.present.text import count_text, one_line
from repl.version import VERSION
from tracer.clock import now_epoch_ms
from tracer.durable import output_file
from tracer.errors import RecordError, UsageError

if TYPE_CHECKING:
    from collector.handover.export import ExportFormat
    from repl.context import Context
    from tracer.redaction.engine import ProjectRedactor

_IN_MEMORY: Final = 8 << 20
_CHUNK: Final = 1 << 20


async def export(context: Context, arguments: Namespace) -> None:
    if arguments.fields:
        _fields(context)
    elif arguments.where is not None and arguments.trace is not None:
        raise UsageError("a trace and --where exclude each other", next_step="give one of them")
    elif arguments.trace is not None:
        await _one(context, arguments)
    elif arguments.where is not None or arguments.output not in {None, "-"}:
        await _set(context, arguments)
    else:
        raise UsageError("which trace?", next_step="pm capture export TRACE --format atif, or a set: -o FOLDER")


async def revoked(context: Context, arguments: Namespace) -> None:
    from collector.final.consent import revocations
    from collector.handover.revoked import revocation_list

    async with opened_collector(context) as collector:
        found = await revocations(collector.store)
    if arguments.output:
        with output_file(context.path(arguments.output)) as file:
            file.write(revocation_list(found, at_ms=now_epoch_ms()))
    for each in found:
        context.output.line(f"{each['trace_id']}  {each['what']}  {', '.join(each.get('flags', ()))}".rstrip())
    context.output.result("capture revocations", {"revocations": found})


def check(context: Context, arguments: Namespace) -> int:
    from collector.handover.revoked import LIST, check_set

    folder = context.path(arguments.folder)
    given = arguments.revocations
    found = check_set(folder, context.path(given) if given else folder / LIST)
    for each in found["revoked"]:
        context.output.line(f"revoked: {each['trace_id']} ({each['what']}), row {each['row']} of {each['shard']}")
    for path in found["changed"]:
        context.output.line(f"not as the manifest says: {one_line(path)}")
    if not found["revoked"] and not found["changed"]:
        context.output.line(f"{count_text(found['traces'], 'trace')}, none of them revoked")
    context.output.result("capture check-set", found)
    return 1 if found["revoked"] or found["changed"] else 0


def _fields(context: Context) -> None:
    from collector.handover.export_filter import FIELDS

    width = max(len(name) for name in FIELDS)
    for name, meaning in FIELDS.items():
        context.output.line(f"{name:<{width}}  {meaning}")
    context.output.result("capture export", {"fields": dict(FIELDS)})


async def _one(context: Context, arguments: Namespace) -> None:
    form: ExportFormat = arguments.format or "json"
    if form == "json" and arguments.redact:
        raise UsageError("--redact cannot be used with --format json", next_step="use atif, chat or otlp")
    async with opened_collector(context) as collector:
        row = await find_row(collector.store, arguments.trace)

        async def write(file: BinaryIO) -> int:
            from collector.handover.export import write_export

            return await write_export(
                file,
                row,
                form,
                store=collector.store,
                contents=collector.contents,
                redactor=_redactor(context),
                redact=arguments.redact,
                what=f"the export of trace {row.trace_id}",
            )

        await collector.note("export", f"{row.trace_id} as {form}")
        if arguments.output == "-":
            await _print(context, write)
            return
        ending = {"json": ".json", "harbor": ".harbor"}.get(form, f".{form}.json")
        path = context.path(arguments.output or f"capture-{row.trace_id[:8]}{ending}")
        try:
            if form == "harbor":
                size = await _folder(path, write)
            else:
                with output_file(path) as file:
                    size = await write(file)
        except OSError as error:
            why = error.strerror or str(error)
            raise RecordError(f"cannot write {str(path)!r}", why=why, next_step="name another with -o") from error
    context.output.line(one_line(str(path)))
    context.output.result(
        "capture export", {"trace_id": row.trace_id, "format": form, "path": str(path), "bytes": size}
    )


async def _folder(path: Path, write: Callable[[BinaryIO], Awaitable[int]]) -> int:
    """Write a task's files into a new folder."""
    from collector.handover.environments import unpack

    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{str(path)!r} is there and not empty", next_step="name a new folder with -o")
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        await write(file)  # type: ignore[arg-type]  # a spooled file has every method of BinaryIO
        file.seek(0)
        return unpack(file.read(), path)


async def _print(context: Context, write: Callable[[BinaryIO], Awaitable[int]]) -> None:
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        await write(file)  # type: ignore[arg-type]  # a spooled file has every method of BinaryIO
        file.seek(0)
        while chunk := file.read(_CHUNK):
            context.output.data(chunk)


async def _set(context: Context, arguments: Namespace) -> None:
    from collector.handover.export_filter import check_stated
    from collector.handover.sets import PROVEN, Helpers, SetRequest, export_set
    from collector.opening import open_collector

    if not arguments.output or arguments.output == "-":
        raise UsageError("where to?", why="a set is a folder", next_step="pm capture export --where … -o FOLDER")
    request = SetRequest(
        where=PROVEN if arguments.where is None else check_stated(arguments.where),
        form=arguments.format or "atif",
        shares=_shares(arguments.split),
        shard_rows=arguments.shard_rows or 1000,
        redact=arguments.redact,
        version=VERSION,
    )
    target = context.path(arguments.output)
    async with opened_collector(context) as collector:
        await collector.note("export", f"{request.where} as {request.form}")
        report = await export_set(
            request,
            store=collector.store,
            contents=collector.contents,
            redactor=_redactor(context),
            target=target,
            helpers=Helpers(
                partial(open_collector, context.state_dir, context.settings(), environ=dict(context.environ)), _cores()
            ),
        )
    output = context.output
    output.line(one_line(str(report.path)))
    told = ", ".join(f"{count} {split}" for split, count in report.rows.items())
    output.line(f"  {count_text(sum(report.rows.values()), 'trace')} in {count_text(report.shards, 'shard')}: {told}")
    output.line(f"  {count_text(report.near_duplicates, 'pair')} of near-duplicates")
    for trace_id, reason in report.left_out.items():
        output.note(f"left out: {trace_id}: {one_line(reason)}")
    output.result(
        "capture export",
        {
            "path": str(report.path),
            "format": request.form,
            "rows": dict(report.rows),
            "shards": report.shards,
            "left_out": dict(report.left_out),
            "near_duplicates": report.near_duplicates,
        },
    )


def _cores() -> int:
    """The cores that this process may use; some systems know only how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shares(text: str | None) -> tuple[int, int, int]:
    if text is None:
        return (80, 10, 10)
    try:
        first, second, third = (int(part) for part in text.split("/"))
    except ValueError as error:
        raise UsageError(f"--split {text!r} is no split", next_step="three percents: --split 80/10/10") from error
    return (first, second, third)


def _redactor(context: Context) -> ProjectRedactor:
    """What the audit looks with: this project's rules, and this machine's names and paths."""
    return context.redactor(project_root=context.folder, rewrite_paths=True, truncate=False)
