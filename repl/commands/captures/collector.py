"""The project's collector, opened for one command; its schema, garbage collection and tokens."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from repl.commands.captures.server import client_for
from repl.present.text import count_text, one_line
from tracer.clock import from_epoch_ms, now_epoch_ms
from tracer.errors import ConfigError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collector.client.api import CollectorClient
    from collector.collector import Collector
    from collector.final.consent import Flag
    from collector.store.port import AuditRow, TokenRow, TraceRow, TraceStore
    from repl.context import Context

_PAGE = 500
_MOST_AUDITED = 1_000_000
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class NoCollectorError(NotFoundError):
    """The project has no collector yet."""


class NoTraceError(NotFoundError):
    """The project's collector has no such trace."""


@asynccontextmanager
async def opened_collector(context: Context, *, create: bool = False) -> AsyncIterator[Collector]:
    """The collector that the settings name (`collector.*`), while the block runs.

    What it does not have, and this machine recorded, is told to be where it was sent.
    Raises NoCollectorError: there is none yet, and `create` is not asked for: looking makes nothing.
    """
    from collector.opening import open_collector  # pydantic, the store and the intake: 300 ms, for these commands alone

    settings = context.settings()
    own = not settings.get("collector.database")
    try:
        if own and not create and not (context.state_root / "collector.sqlite").exists():
            raise NoCollectorError(
                "there are no captured sessions here",
                why=f"{str(context.state_root)!r} holds no collector",
                next_step="pm record, pm capture from-task, or work in the right project with -C",
            )
        async with open_collector(context.state_dir, settings, environ=context.environ) as collector:
            yield collector
    except (NoCollectorError, NoTraceError) as error:
        _tell_where(error, context)
        raise


def _tell_where(error: NotFoundError, context: Context) -> None:
    """Say where the capture that was named is, if it was recorded here."""
    from collector.client.spool import find_spool

    with suppress(NotFoundError):
        spool = find_spool(context.state_root, str(getattr(context.arguments, "trace", None) or ""))
        short = spool.trace_id[:8]
        if spool.sent.created:
            error.why = f"it was sent to {spool.header.get('server')}, and is in the folder of that collector"
            error.next_step = f"pm capture get {short} --view metadata tells what its checks came to"
        else:
            error.why, error.next_step = "it was recorded here and not sent", f"pm record upload {short}"


class Here:
    """The project's own collector, asked as a client asks a server: nothing need be served for it."""

    address: Final = "this project's collector"

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    async def delete(self, trace_id: str, *, key: str, erase_now: bool = False) -> None:
        del key
        await self._collector.note("delete", trace_id)
        await (self._collector.erase(trace_id) if erase_now else self._collector.delete(trace_id))

    async def withdraw(self, trace_id: str, flags: Sequence[Flag], *, key: str) -> dict[str, bool]:
        from collector.final.consent import withdraw

        del key
        await self._collector.note("withdraw", trace_id)
        return await withdraw(self._collector, trace_id, flags)

    @asynccontextmanager
    async def get(self, trace_id: str, *, key: str, view: str, blobs: str) -> AsyncIterator[AsyncIterator[bytes]]:
        del key
        await self._collector.note("read", trace_id)
        yield (
            _whole(await self._collector.metadata(trace_id))
            if view == "metadata"
            else await self._collector.full(trace_id, inline=blobs == "inline")
        )


async def _whole(value: object) -> AsyncIterator[bytes]:
    yield json.dumps(value, ensure_ascii=False).encode()


@asynccontextmanager
async def holding(context: Context, arguments: Namespace) -> AsyncIterator[tuple[CollectorClient | Here, str, str]]:
    """Who has the capture that is named, its id and the key: this project's own collector, else the one it was sent to.

    Raises NotFoundError: nobody here knows it, and it is no whole id.
    """
    from collector.client.spool import find_spool

    spool, named = None, arguments.trace.lower()
    async with AsyncExitStack() as stack:
        if not arguments.server:
            row = None
            with suppress(NotFoundError):
                collector = await stack.enter_async_context(opened_collector(context))
                row = await collector.store.get_trace(named) or await find_row(collector.store, named)
            if row is not None:
                yield Here(collector), row.trace_id, ""
                return
        try:
            spool = find_spool(context.state_root, arguments.trace)
        except NotFoundError:
            if not UUID.fullmatch(named):
                raise
        client = await stack.enter_async_context(client_for(context, arguments, spool=spool))
        trace_id = spool.trace_id if spool is not None else named
        # The capture's own key first: it opens what was sent when the token has ended, to withdraw or delete it.
        yield client, trace_id, (spool.ingest_key if spool is not None else "") or client.token


def service_collector(context: Context, *, create: bool = False) -> AbstractAsyncContextManager[Collector]:
    """As `opened_collector`, for commands about the service: never a store beside the one that it uses.

    Raises ConfigError: the service that runs here keeps its captures elsewhere; it was given other settings.
    """
    from collector.opening import shown_store
    from repl.commands.setup.running import running_service

    own, running = shown_store(context.state_dir, context.settings()), running_service(context.state_root)
    if running is not None and running.store != own:
        raise ConfigError(
            f"the service that runs here uses {one_line(running.store)}, and this command would use {one_line(own)}",
            why="its collector.database comes from an environment that this command does not have",
            next_step="run this with the service's environment, or keep collector.database in config.local.toml",
        )
    return opened_collector(context, create=create)


async def find_row(store: TraceStore, selector: str) -> TraceRow:
    """The trace whose id is `selector`, or the only one whose id begins so.

    Raises NotFoundError: none, more than one, or it was deleted.
    """
    exact = await store.get_trace(selector.lower())
    if exact is not None and exact.status == "deleted":
        raise NotFoundError(f"trace {selector!r} was deleted", next_step="pm capture list --remote")
    if exact is not None:
        return exact
    found: list[TraceRow] = []
    after: str | None = None
    while selector and len(found) < 2 and (rows := await store.list_traces(after=after, limit=_PAGE)):
        after = rows[-1].trace_id
        found += [row for row in rows if row.trace_id.startswith(selector.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFoundError(f"no trace {selector!r}", why="several ids begin so", next_step="give more of the id")
    why = "no id in this project's collector begins so"
    raise NoTraceError(f"no trace {selector!r}", why=why, next_step="pm capture list")


def schema(context: Context, arguments: Namespace) -> None:
    del arguments
    if context.command == "schema report":
        from runner.agent_report import REPORT_SCHEMA

        found = dict(REPORT_SCHEMA)
    else:
        from tracer.capture.document import trace_schema  # pydantic: 90 ms

        found = trace_schema()
    context.output.line(json.dumps(found, indent=2))
    context.output.result(context.command, {"schema": found})


async def gc(context: Context, arguments: Namespace) -> None:
    del arguments
    async with service_collector(context, create=True) as collector:
        gone = await collector.collect_garbage()
    removed = f"{count_text(gone.blobs, 'blob')} and {count_text(gone.leftovers, 'leftover')} removed"
    context.output.line(f"{removed}, {gone.freed:,} bytes freed")
    context.output.result(
        "admin prune uploads", {"blobs": gone.blobs, "leftovers": gone.leftovers, "bytes": gone.freed}
    )


async def new(context: Context, arguments: Namespace) -> None:
    from collector.opening import shown_store
    from collector.tokens import check_days

    check_days(arguments.expires)
    if arguments.trace and (arguments.role or arguments.developer or arguments.project):
        told = "--trace goes with none of --role, --developer, --project"
        raise UsageError(told, why="an ingest key opens one capture alone", next_step="leave them out")
    async with service_collector(context, create=True) as collector:
        if arguments.trace:
            trace_id = (await find_row(collector.store, arguments.trace)).trace_id
            issued = await collector.tokens.new_ingest(trace_id, arguments.label or "", days=arguments.expires)
        else:
            issued = await collector.tokens.new_admin(
                arguments.label or "",
                role=arguments.role or "operator",
                developer=arguments.developer or "",
                project=arguments.project or "",
                days=arguments.expires,
            )
        await collector.note("token new", issued.token_id)
    store = shown_store(context.state_dir, context.settings())
    context.output.line(issued.token)
    context.output.note(f"shown once; pm admin tokens revoke {issued.token_id} makes it worthless")
    context.output.note(f"for services whose captures are kept in {one_line(store)}")
    context.output.result("admin tokens new", {"token_id": issued.token_id, "token": issued.token, "store": store})


async def listed(context: Context, arguments: Namespace) -> None:
    rows: Sequence[TokenRow] = ()
    with suppress(NoCollectorError):
        async with service_collector(context) as collector:
            rows = await collector.tokens.listed()
    shown = [row for row in rows if arguments.all or (row.kind == "admin" and row.revoked_at_ms is None)]
    if shown:
        context.output.line(f"{'token':<36}  {'role':<11}  {'made':<10}  {'ends':<10}  {'state':<7}  for")
    for row in shown:
        over = row.expires_at_ms is not None and row.expires_at_ms <= now_epoch_ms()
        state = "revoked" if row.revoked_at_ms is not None else "expired" if over else "valid"
        about = row.trace_id or one_line(" ".join(filter(None, (row.developer, row.project, row.label))), 40)
        kind = row.role if row.kind == "admin" else row.kind
        made, ends = (from_epoch_ms(each)[:10] if each else "never" for each in (row.created_at_ms, row.expires_at_ms))
        context.output.line(f"{row.token_id}  {kind:<11}  {made:<10}  {ends:<10}  {state:<7}  {about}")
    if not shown:
        context.output.note("no admin tokens; the serve token is one too. pm admin tokens new makes another")
    context.output.result(
        "admin tokens list",
        {
            "tokens": [
                {
                    "token_id": row.token_id,
                    "kind": row.kind,
                    "role": row.role,
                    "developer": row.developer,
                    "project": row.project,
                    "expires_at": None if row.expires_at_ms is None else from_epoch_ms(row.expires_at_ms),
                    "label": row.label,
                    "trace_id": row.trace_id,
                    "created_at": from_epoch_ms(row.created_at_ms),
                    "revoked": row.revoked_at_ms is not None,
                }
                for row in shown
            ]
        },
    )


async def audit(context: Context, arguments: Namespace) -> None:
    rows: Sequence[AuditRow] = ()
    limit = 100 if arguments.limit is None else arguments.limit
    with suppress(NoCollectorError):
        async with service_collector(context) as collector:
            rows = await collector.store.list_audit(limit=min(limit, _MOST_AUDITED))
            labels = {each.token_id: each.label for each in await collector.tokens.listed()}
    for row in rows:
        label = labels.get(row.token_id, "")
        who = f"{one_line(label, 20)} {row.token_id[:8]}" if label else row.token_id or "this machine"
        when = f"{from_epoch_ms(row.at_ms)}  {row.action:<16}"
        context.output.line(f"{when}  {row.role:<11}  {who:<36}  {one_line(row.subject)}".rstrip())
    context.output.result("admin audit", {"audit": [{**row._asdict(), "at": from_epoch_ms(row.at_ms)} for row in rows]})


async def revoke(context: Context, arguments: Namespace) -> None:
    async with service_collector(context) as collector:
        done = await collector.tokens.revoke(arguments.token)
        await collector.note("token revoke", arguments.token)
    context.output.line(f"{arguments.token} is revoked" if done else f"{arguments.token} was revoked before")
    context.output.result("admin tokens revoke", {"token_id": arguments.token, "revoked": True})
