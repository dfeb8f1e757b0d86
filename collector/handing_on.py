"""An export written into a file, audited on its way: nothing is written that was not found clean first.

Memory holds a page of events and about a megabyte of the document, however long the trace is; one step of it (a
command with all it printed) is held whole.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from collector.contents import Contents
from collector.exported_document import inline_text
from collector.exporting import ExportFormat, export_pieces
from collector.store.port import TraceRow, TraceStore
from tracer.export.audit import Audit, LookedAt, as_it_is
from tracer.export.pieces import Leaf, written
from tracer.redaction.verify import LeakError

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor

__all__ = ["write_export"]


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
        """In a thread: looking takes long."""
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
    size += await asyncio.to_thread(put, last=True)
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


_LOOKED_AT: Final[Mapping[ExportFormat, LookedAt]] = {"chat": _in_a_message, "json": _in_the_document}
