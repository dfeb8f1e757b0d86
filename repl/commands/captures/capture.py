"""`pm capture new|append|finalize|get|delete|list|prune`: a collector's client for programs and people."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from collector.client.events import checked_drafts, read_events
from collector.client.send import Sending, send_spool
from collector.client.spool import Spool, find_spool, list_spools, prune_sent, sent_before, unsent
from collector.intake.parse import validated
from collector.recorder.begin import begin_capture, check_store, create_request, open_repository
from collector.recorder.consent import Consent
from repl.commands.captures.collector import UUID, NoCollectorError, holding, opened_collector
from repl.commands.captures.consent import ask_yes, bug_from, can_ask, person_from
from repl.commands.captures.server import capture_redactor, client_for, named_server
from repl.context import Context
from repl.present.text import age_text, count_text, escape, one_line, size_text
from tracer.capture.wire import CreateTrace, SentFinalState
from tracer.clock import now_epoch_ms
from tracer.durable import output_file
from tracer.errors import ConfigError, PmError, UsageError
from tracer.journal.gc import parse_age
from tracer.redaction.marks import load_key

_ALWAYS: Final = "always"
_PAGE: Final = 500


def prune(context: Context, arguments: Namespace) -> None:
    age = parse_age(arguments.older_than) if arguments.older_than else _kept_ms(context)
    output = context.output
    chosen = [] if age is None else sent_before(context.state_root, older_than_ms=age)
    if arguments.yes:
        chosen = prune_sent(context.state_root, chosen)
    for kept in chosen:
        ago = age_text(now_epoch_ms() - kept.sent_at_ms)
        output.line(
            f"{kept.spool.trace_id[:8]}  sent {ago:>6} ago  {size_text(kept.size):>9}  {one_line(kept.spool.title, 50)}"
        )
    freed = sum(kept.size for kept in chosen)
    waiting = unsent(context.state_root)
    verb = "deleted here" if arguments.yes else "would go"
    output.line(f"{count_text(len(chosen), 'sent capture')} {verb}, {size_text(freed)}; {len(waiting)} not sent stay")
    if age is None:
        output.note("capture.keep_sent is 'always': give --older-than 30d")
    if chosen and not arguments.yes:
        output.note("nothing was deleted; give --yes to delete")
    names = [kept.spool.trace_id for kept in chosen]
    fields = {"dry_run": not arguments.yes, "captures": names, "bytes": freed, "unsent": len(waiting)}
    output.result("admin prune captures", fields)


def prune_by_itself(context: Context) -> None:
    """Remove what `capture.keep_sent` lets go and say so; trouble with it is told and stops nothing."""
    try:
        age = _kept_ms(context)
        if age is None:
            return
        removed = prune_sent(context.state_root, sent_before(context.state_root, older_than_ms=age))
    except PmError as error:
        context.output.note(f"old captures stay: {one_line(error.what)}" + (f" ({error.why})" if error.why else ""))
        return
    if removed:
        told = count_text(len(removed), "capture")
        context.output.note(f"deleted here: {told} that the collector has longer than {_keep(context)}")


def _note_unsent(context: Context) -> None:
    """Say what waits to be sent."""
    waiting = unsent(context.state_root)
    if waiting:
        events = count_text(sum(each.events for each in waiting), "event")
        newest = waiting[0].spool.trace_id[:8]
        context.output.note(f"not sent: {count_text(len(waiting), 'capture')}, {events}   pm record upload {newest}")


def _keep(context: Context) -> str:
    return str(context.settings().get("capture.keep_sent"))


def _kept_ms(context: Context) -> int | None:
    """How long what was sent stays; None for always."""
    text = _keep(context)
    if text == _ALWAYS:
        return None
    try:
        return parse_age(text)
    except UsageError as error:
        raise ConfigError(
            f"capture.keep_sent is {text!r}", why=error.what, next_step="pm config set capture.keep_sent 30d"
        ) from error


async def new(context: Context, arguments: Namespace) -> None:
    if arguments.trace_id and not UUID.fullmatch(arguments.trace_id.lower()):
        raise UsageError(f"{arguments.trace_id!r} is no UUID", next_step="leave --trace-id out to get a new one")
    context.state_dir.ensure()
    prune_by_itself(context)
    request = _given_request(context, arguments) if getattr(arguments, "from") else None
    if request is None:
        git = open_repository(context.folder)
        person = person_from(context, arguments, git)
        request = create_request(
            git,
            bug=bug_from(context, arguments, default_title="untitled bug"),
            person=person,
            store=arguments.store or "redacted",
            mode="incremental",
            environ=context.environ,
            key=load_key(context.state_root),
        )
    spool = begin_capture(
        context.state_root,
        request,
        server=named_server(context, arguments),
        kind="client",
        redactor=capture_redactor(context),
        trace_id=(arguments.trace_id or "").lower(),
    )
    context.output.line(spool.trace_id)
    if arguments.offline:
        context.output.note("kept here; pm capture append sends it")
    else:
        await send_now(context, arguments, spool)
    context.output.result("capture new", {"trace_id": spool.trace_id, **spool.state()})


def _given_request(context: Context, arguments: Namespace) -> dict[str, Any]:
    found = _json_file(context, getattr(arguments, "from"))
    sent = validated(CreateTrace, found)
    flags = sent.developer.consent_flags
    check_store(sent.store, Consent(code=flags.store_raw_code, output=flags.store_terminal_output))
    return dict(found)


async def append(context: Context, arguments: Namespace) -> None:
    spool = find_spool(context.state_root, arguments.trace)
    taken = 0
    if arguments.file:
        redactor = None if spool.header["request"].get("store") == "raw" else capture_redactor(context)
        events = list(read_events(_pieces(context, arguments.file)))
        with spool.writing():  # what is there already is looked at while nobody else appends
            if spool.final is not None:
                raise UsageError(
                    "this capture is closed", why="it was finalized here", next_step="pm capture new begins another"
                )
            taken = len(spool.append_held(list(checked_drafts(events, spool, redactor=redactor))))
        context.output.line(f"{count_text(taken, 'event')} taken")
    sending = None if arguments.offline else await send_now(context, arguments, spool)
    fields = {"trace_id": spool.trace_id, "taken": taken, **spool.state(), **_sent_fields(sending)}
    context.output.result("capture append", fields)


async def finalize(context: Context, arguments: Namespace) -> None:
    spool = find_spool(context.state_root, arguments.trace)
    if spool.final is None:
        state = _json_file(context, arguments.final_state) if arguments.final_state else None
        spool.close(_checked_state(state, spool, context))
    sending = None if arguments.offline else await send_now(context, arguments, spool)
    fields = {"trace_id": spool.trace_id, **spool.state(), **_sent_fields(sending)}
    context.output.result("capture finalize", fields)


def _checked_state(state: Any, spool: Spool, context: Context) -> Mapping[str, Any] | None:
    if state is None:
        return None
    validated(SentFinalState, state)
    if spool.header["request"].get("store") == "raw":
        return dict(state)
    kept = {name: state[name] for name in ("commit_head", "bundle_blob_id") if name in state}
    return {**capture_redactor(context).redact_value(state).value, **kept}


async def send_now(context: Context, arguments: Namespace, spool: Spool) -> Sending:
    """Send what is left and say so.

    Raises PmError: what the collector or the network said; the spool is untouched by it.
    """
    async with client_for(context, arguments, spool=spool) as client:
        sending = await send_spool(spool, client)
    word = "finalized" if sending.finalized else "sent"
    text = f"{word} {spool.trace_id[:8]} · {count_text(sending.accepted, 'event')}"
    if sending.duplicates:
        text += f" ({sending.duplicates} were there already)"
    context.output.note(f"{text} · {client.address}")
    for start, end in sending.gaps[-3:]:
        context.output.note(f"  seq {start} to {end} never came")
    return sending


async def get(context: Context, arguments: Namespace) -> None:
    async with holding(context, arguments) as (client, trace_id, key):
        view, blobs = arguments.view or "full", arguments.blobs or "ref"
        async with client.get(trace_id, key=key, view=view, blobs=blobs) as pieces:
            if arguments.output and arguments.output != "-":
                size = await _to_file(context.path(arguments.output), pieces)
                context.output.line(f"{arguments.output}   {size:,} bytes")
                context.output.result("capture get", {"trace_id": trace_id, "path": arguments.output, "bytes": size})
            else:
                async for piece in pieces:
                    context.output.data(piece)
                context.output.data(b"\n")
                context.output.ended = True


async def delete(context: Context, arguments: Namespace) -> None:
    async with holding(context, arguments) as (client, trace_id, key):
        short = trace_id[:8]
        if not can_ask(context) and not context.arguments.yes:
            raise UsageError("deleting a capture needs a yes", why="it cannot be taken back", next_step="--yes")
        if not ask_yes(context, f"Delete {short} at {client.address}?", default=False):
            raise UsageError("nothing was deleted")
        await client.delete(trace_id, key=key, erase_now=arguments.erase_now)
    context.output.line(f"deleted {short} at {client.address}: its id and the time of this stay")
    for spool in (spool for spool in list_spools(context.state_root) if spool.trace_id == trace_id):
        if spool.sent.created:
            spool.note_sent(deleted=True)
        context.output.note(f"pm record discard {short} deletes what is here")
    context.output.result("capture delete", {"trace_id": trace_id})


async def withdraw(context: Context, arguments: Namespace) -> None:
    from collector.final.consent import FLAGS  # the store: 100 ms

    names = [name.strip() for name in (arguments.consent or ",".join(FLAGS)).split(",")]
    unknown = next((name for name in names if name not in FLAGS), None)
    if unknown is not None:
        raise UsageError(f"no consent is called {unknown!r}", next_step=f"of {', '.join(FLAGS)}")
    async with holding(context, arguments) as (client, trace_id, key):
        left = await client.withdraw(trace_id, [FLAGS[name] for name in names], key=key)
    kept = [name for name, flag in FLAGS.items() if left.get(flag)]
    context.output.line(f"withdrawn at {client.address}; consent now: {', '.join(kept) or 'none'}")
    context.output.result("capture withdraw", {"trace_id": trace_id, "consent": left})


async def _to_file(path: Path, pieces: Any) -> int:
    size = 0
    try:
        with output_file(path, 0o666) as file:  # less the umask
            async for piece in pieces:
                size += file.write(piece)
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be written", why=str(error), next_step="another -o") from error
    return size


async def list_(context: Context, arguments: Namespace) -> None:
    if arguments.remote:
        async with client_for(context, arguments) as client:
            traces = [trace async for trace in client.listing()]
        context.output.lines([_remote_line(trace) for trace in traces])
        if not traces:
            context.output.note(f"{client.address} has no captured sessions")
        context.output.result("capture list", {"traces": traces})
        return
    rows = [_listed(spool) for spool in list_spools(context.state_root)]
    rows += await _collected(context, but={row["trace_id"] for row in rows})
    for row in rows:
        age, events = age_text(now_epoch_ms() - row["created_at_ms"]), count_text(row["events"], "event")
        context.output.line(f"{row['trace_id'][:8]}  {row['state']:<12} {events:>13}  {age:>6}  {escape(row['title'])}")
    _note_unsent(context)
    if not rows:
        context.output.line("no captured sessions in this project")
        context.output.note("  next:  pm record   or   pm capture new")
    context.output.result("capture list", {"captures": rows})


async def _collected(context: Context, *, but: Collection[str]) -> list[dict[str, Any]]:
    """What only the project's own collector has: imported tasks and sessions, and what others sent to it."""
    rows: list[dict[str, Any]] = []
    with suppress(NoCollectorError):
        async with opened_collector(context) as collector:
            page, after = await collector.listing(limit=_PAGE, qa=False)
            while page:
                rows += [_held(trace) for trace in page if trace["trace_id"] not in but]
                page, after = await collector.listing(after=after, limit=_PAGE, qa=False) if after else ([], None)
    return rows


def _held(trace: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trace_id": trace["trace_id"],
        "title": trace["task"]["bug_report"]["title"],
        "created_at_ms": trace["created_at_ms"],
        "kind": "collected",
        "server": "",
        "state": trace["status"],
        "events": trace["event_count"],
        "sent": trace["event_count"],
        "finalized": trace["status"] != "open",
    }


def _remote_line(trace: Mapping[str, Any]) -> str:
    report = (trace.get("task") or {}).get("bug_report") or {}
    age = age_text(now_epoch_ms() - int(trace.get("created_at_ms") or 0))
    events = count_text(int(trace.get("event_count") or 0), "event")
    told = f"{trace.get('status') or '':<12} {events:>13}  {age:>6}"
    return escape(f"{trace.get('trace_id')}  {told}  {report.get('title') or ''}")


def _listed(spool: Spool) -> dict[str, Any]:
    return {
        "trace_id": spool.trace_id,
        "title": spool.title,
        "created_at_ms": int(spool.header.get("created_at_ms") or 0),
        "kind": str(spool.header.get("kind") or "client"),
        "server": str(spool.header.get("server") or ""),
        **spool.state(),
    }


def _sent_fields(sending: Sending | None) -> dict[str, Any]:
    if sending is None:
        return {}
    return {
        "accepted": sending.accepted,
        "duplicates": sending.duplicates,
        "gaps": [list(gap) for gap in sending.gaps],
    }


def _pieces(context: Context, name: str) -> Iterator[bytes]:
    if name == "-":
        yield sys.stdin.buffer.read()
        return
    try:
        yield context.path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{name!r} cannot be read", why=error) from error


def _json_file(context: Context, name: str) -> Any:
    try:
        return orjson.loads(b"".join(_pieces(context, name)))
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{name!r} is no JSON", why=str(error)) from error
