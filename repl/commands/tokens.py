"""`pm tokens`: admin tokens and ingest keys of the collector; shown once, kept as hashes."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from repl.commands.capture_store import find_row
from repl.present.escape import one_line
from tracer.clock import from_epoch_ms

if TYPE_CHECKING:
    from repl.commands.context import Context

__all__ = ["listed", "new", "revoke"]


async def new(context: Context, arguments: Namespace) -> int:
    """`pm tokens new [--label TEXT] [--trace ID]`: make a token and print it, the only time."""
    from collector.opening import open_collector  # pydantic models and the intake: 150 ms

    async with open_collector(context.state_dir, context.settings()) as collector:
        if arguments.trace:
            trace_id = (await find_row(collector.store, arguments.trace)).trace_id
            issued = await collector.tokens.new_ingest(trace_id, arguments.label or "")
        else:
            issued = await collector.tokens.new_admin(arguments.label or "")
    context.output.line(issued.token)
    context.output.note(f"shown once; pm tokens revoke {issued.token_id} makes it worthless")
    context.output.result("tokens new", {"token_id": issued.token_id, "token": issued.token})
    return 0


async def listed(context: Context, arguments: Namespace) -> int:
    """`pm tokens list [--all]`: what tokens there are, never their text."""
    from collector.opening import open_collector

    async with open_collector(context.state_dir, context.settings()) as collector:
        rows = await collector.tokens.listed()
    shown = [row for row in rows if arguments.all or (row.kind == "admin" and row.revoked_at_ms is None)]
    for row in shown:
        state = "revoked" if row.revoked_at_ms is not None else "valid"
        about = row.trace_id or one_line(row.label, 40)
        context.output.line(
            f"{row.token_id}  {row.kind:<6}  {from_epoch_ms(row.created_at_ms)[:10]}  {state:<7}  {about}"
        )
    if not shown:
        context.output.note("no admin tokens; the serve token is one too. pm tokens new makes another")
    context.output.result(
        "tokens list",
        {
            "tokens": [
                {
                    "token_id": row.token_id,
                    "kind": row.kind,
                    "label": row.label,
                    "trace_id": row.trace_id,
                    "created_at": from_epoch_ms(row.created_at_ms),
                    "revoked": row.revoked_at_ms is not None,
                }
                for row in shown
            ]
        },
    )
    return 0


async def revoke(context: Context, arguments: Namespace) -> int:
    """`pm tokens revoke ID`."""
    from collector.opening import open_collector

    async with open_collector(context.state_dir, context.settings()) as collector:
        done = await collector.tokens.revoke(arguments.token)
    context.output.line(f"{arguments.token} is revoked" if done else f"{arguments.token} was revoked before")
    context.output.result("tokens revoke", {"token_id": arguments.token, "revoked": True})
    return 0
