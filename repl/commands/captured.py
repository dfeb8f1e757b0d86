"""Captures on the server's side: the published schema, and room made by removing what no capture holds."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import TYPE_CHECKING

from repl.present.words import count_text

if TYPE_CHECKING:
    from repl.commands.context import Context

__all__ = ["gc", "schema"]


def schema(context: Context, arguments: Namespace) -> int:
    """`pm schema trace`: the JSON Schema of a captured trace."""
    from tracer.capture.schema import trace_schema  # pydantic: 90 ms

    del arguments
    found = trace_schema()
    context.output.line(json.dumps(found, indent=2))
    context.output.result("schema trace", {"schema": found})
    return 0


async def gc(context: Context, arguments: Namespace) -> int:
    """`pm capture gc`: remove uploads that no capture names, older than a day."""
    from collector.opening import open_collector

    del arguments
    async with open_collector(context.state_dir, context.settings()) as collector:
        gone = await collector.collect_garbage()
    removed = f"{count_text(gone.blobs, 'blob')} and {count_text(gone.leftovers, 'leftover')} removed"
    context.output.line(f"{removed}, {gone.freed:,} bytes freed")
    context.output.result("capture gc", {"blobs": gone.blobs, "leftovers": gone.leftovers, "bytes": gone.freed})
    return 0
