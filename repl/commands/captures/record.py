"""`pm record` and its companions: the recorded shell, thoughts, snapshots, pause, status, preview, upload, discard."""

from __future__ import annotations

import shutil
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from collector.client.events import acceptable
from collector.client.spool import Draft, Spool, find_spool, gone_name, list_spools
from collector.recorder.begin import begin_capture, check_store, create_request, environment_hash, open_repository
from collector.recorder.consent import Consent
from collector.recorder.editor import LINK, plugin_source
from collector.recorder.files import FileTracker
from collector.recorder.scribe import Scribe
from collector.recorder.session import RECORDING, close_interrupted, record_session, request_stop
from collector.recorder.shell_marks import Shell, find_shell
from collector.recorder.watcher import left_out_by
from collector.recorder.writer import Acts, ScribeOptions
from repl.commands.captures.capture import prune_by_itself, send_now
from repl.commands.captures.consent import (
    ask_yes,
    bug_from,
    can_ask,
    person_from,
    preview_fields,
    preview_lines,
    whole_lines,
)
from repl.commands.captures.server import capture_redactor, client_for, named_server, server_address
from repl.context import Context
from repl.present.text import count_text, escape
from runner.workspace.git.repository import Git
from tracer.capture.wire import PROFILE_FILE
from tracer.durable import output_file
from tracer.errors import ConflictError, NotFoundError, PmError, RecordError, UsageError
from tracer.redaction.marks import load_key


async def record(context: Context, arguments: Namespace) -> None:
    if arguments.plugin:
        context.output.lines(plugin_source(arguments.plugin).splitlines())
        return
    if (around := _around(context)) is not None:
        why = f"recording {around.folder.name[:8]}"
        next_step = "exit ends it; pm record status shows it"
        raise UsageError("this shell is being recorded already", why=why, next_step=next_step)
    shell = find_shell(arguments.shell or "", context.environ)
    git = open_repository(context.folder)
    context.state_dir.ensure()
    prune_by_itself(context)
    person = person_from(context, arguments, git)
    store = arguments.store or "redacted"
    check_store(store, person.consent)
    address = named_server(context, arguments)
    request = create_request(
        git,
        bug=bug_from(context, arguments, default_title=f"bug fix session in {git.top.name}"),
        person=person,
        store=store,
        mode="incremental" if arguments.live else "batch",
        environ=context.environ,
        key=load_key(context.state_root),
    )
    spool = begin_capture(
        context.state_root,
        request,
        server=address,
        kind="recording",
        redactor=capture_redactor(context),
        shell=shell.name,
    )
    await record_into(context, arguments, spool=spool, git=git, shell=shell, greet="recording")


async def record_into(
    context: Context, arguments: Namespace, *, spool: Spool, git: Git, shell: Shell, greet: str
) -> None:
    """Record a shell into `spool`, show what would be sent, and send it if that is wanted."""
    options = options_for(context, spool, git, shell=shell.name)
    _greet(context, spool, greet, live=arguments.live)
    live = client_for(context, arguments, spool=spool, patience_s=1.0) if arguments.live else nullcontext()
    async with live as client:
        if client is not None and not client.token and not spool.ingest_key:
            context.output.note(f"nothing is sent meanwhile: no key for {client.address} (PM_CAPTURE_TOKEN)")
        cwd, environ = str(context.folder), dict(context.environ)
        ended = await record_session(spool, git, shell, cwd=cwd, options=options, environ=environ, client=client)
    if not ended.marked:
        context.output.note("the shell gave no sign of its commands: does its start-up file start another shell?")
    if ended.failed is not None:
        short = spool.trace_id[:8]
        ended.failed.next_step = f"free space or repair what is wrong; then pm record resume {short} goes on"
        context.output.note(
            f"recorded until then: {count_text(spool.last_event(), 'event')} · pm record upload {short} sends that"
        )
        raise ended.failed
    await _after(context, arguments, spool)
    context.output.result("record", {"trace_id": spool.trace_id, "shell_status": ended.status, **spool.state()})


def _greet(context: Context, spool: Spool, greet: str, *, live: bool) -> None:
    request = spool.header["request"]
    flags = request["developer"]["consent_flags"]
    consent = Consent(
        code=flags["store_raw_code"], output=flags["store_terminal_output"], judge=flags["allow_llm_judge"]
    )
    mode = "secrets are replaced" if request["store"] != "raw" else "RAW: nothing is replaced"
    title = request["task"]["bug_report"]["title"]
    sending = "sent while you work" if live else "sent only after you have seen it"
    context.output.note(escape(f"{greet} {spool.trace_id[:8]} · {title} · {mode} · {sending}"))
    context.output.note(f"consent: {consent.describe()}")
    context.output.note('pm think "…" notes a thought · pm record pause stops looking · exit or Ctrl+D ends')


async def _after(context: Context, arguments: Namespace, spool: Spool) -> None:
    """The preview, the question, the sending; what is not sent stays, and how to send it is said."""
    output = context.output
    output.lines(preview_lines(spool))
    later = f"pm record upload {spool.trace_id[:8]}"
    if arguments.no_upload:
        output.note(f"kept here · {later} sends it")
        return
    if not arguments.live and not getattr(arguments, "yes", False):
        if not can_ask(context):
            output.note(f"kept here: nobody said yes · {later} sends it, or --yes")
            return
        if not ask_yes(context, f"Send this to {server_address(context, arguments, spool)}?", default=True):
            output.note(f"kept here · {later} sends it, pm record discard {spool.trace_id[:8]} deletes it")
            return
    try:
        await send_now(context, arguments, spool)
    except PmError as error:
        error.next_step = f"{error.next_step}; then {later}" if error.next_step else later
        raise


def options_for(context: Context, spool: Spool, git: Git, *, shell: str) -> ScribeOptions:
    """How this spool is written: its mode and consent, and the settings."""
    request, settings = spool.header["request"], context.settings()
    flags = request["developer"]["consent_flags"]
    redactor = None
    if request.get("store") != "raw":
        base = capture_redactor(context)
        redactor = replace(base, parts=replace(base.parts, project_root=git.top))
    return ScribeOptions(
        shell=shell,
        redactor=redactor,
        env_hash=environment_hash(context.environ, key=load_key(context.state_root)),
        keep_output=flags.get("store_terminal_output") is True,
        left_out=left_out_by(settings.get("record.ignore") or (), top=git.top, state_root=context.state_root),
        snapshots=request.get("store") != "patches_only",
        text_only=flags.get("store_raw_code") is not True,
        base_tree=bool(settings.get("record.base_tree")),
        file_limit=int(settings.get("record.file_limit")),
        output_head=int(settings.get("record.output_limit")),
    )


def running_here(context: Context) -> Spool | None:
    """The recording around this process (its shell's), or the one that runs with this state directory."""
    here = (spool for spool in list_spools(context.state_root) if spool.recorder is not None)
    return _around(context) or next(here, None)


def _around(context: Context) -> Spool | None:
    """The recording of the shell that this process runs in."""
    around = context.environ.get(RECORDING)
    spool = Spool.open(Path(around)) if around and Path(around).is_dir() else None
    return spool if spool is not None and spool.recorder is not None else None


def _running(context: Context, *, meanwhile: str = "") -> Spool:
    """The recording that runs here; `meanwhile` says what a pause keeps a command from."""
    spool = running_here(context)
    if spool is None:
        raise NotFoundError("no recording runs here", next_step="pm record begins one")
    if meanwhile and spool.paused:
        raise ConflictError("the recording is paused", why=f"{meanwhile} meanwhile", next_step="pm record resume")
    return spool


def _chosen(context: Context, arguments: Namespace) -> Spool:
    if getattr(arguments, "trace", None):
        return find_spool(context.state_root, arguments.trace)
    recorded = (each for each in list_spools(context.state_root) if each.header.get("kind") == "recording")
    spool = running_here(context) or next(recorded, None)
    if spool is None:
        raise NotFoundError("no recording in this project", next_step="pm record begins one")
    return spool


def think(context: Context, arguments: Namespace) -> None:
    text = " ".join(arguments.text).strip()
    if not text:
        raise UsageError("a thought needs words", next_step='pm think "the cart is None after logout"')
    spool = _running(context, meanwhile="nothing is noted")
    if spool.header["request"].get("store") != "raw":
        text = capture_redactor(context).redact_text(text)[0]
    links = _links(spool, arguments.link or ())
    payload = {"content": text, "kind": arguments.kind or "interpretation", "links_to": links}
    event = spool.append([Draft(type="thought", payload=payload)])[0]
    context.output.line(f"noted as {payload['kind']}, linked to {count_text(len(links), 'event')}")
    context.output.result("think", {"event_id": event["event_id"], "seq": event["seq"], **payload})


def _links(spool: Spool, named: Sequence[str]) -> list[str]:
    """Full ids of the events that `named` name (by id, its beginning, or seq), else of the last ones."""
    events = [orjson.loads(line.raw) for line in spool.lines()]
    if not named:
        acts = Acts()
        for event in events:
            acts.see(event)
        return acts.links()
    found = []
    for link in named:
        match = next(
            (each["event_id"] for each in events if each["event_id"].startswith(link) or str(each["seq"]) == link), None
        )
        if match is None:
            raise NotFoundError(f"no event {link!r} in this recording", next_step="pm record preview --full lists them")
        found.append(match)
    return found


def snapshot(context: Context, arguments: Namespace) -> None:
    spool = _running(context, meanwhile="nothing is kept")
    git = open_repository(context.folder)
    options = options_for(context, spool, git, shell=str(spool.header.get("shell") or "bash"))
    scribe = Scribe(spool, git, options, tell=context.output.note)
    drafts = _snapshot(spool, scribe.files, [_relative(git, context, path) for path in arguments.paths])
    for draft in drafts:
        context.output.line(escape(str(draft["payload"]["file_path"])))
    if not drafts:
        context.output.note("no file was touched yet: name one   pm snapshot src/a.py")
    context.output.result("snapshot", {"files": [draft["payload"]["file_path"] for draft in drafts]})


def _snapshot(spool: Spool, files: FileTracker, named: list[str]) -> list[dict[str, Any]]:
    """Under one lock: learn what is known, take edits that were not told yet, and keep what stands there now."""
    context = {"workspace_root": None, "branch": None, "commit_head": None}
    with spool.writing() as lines:
        for line in lines:
            files.learn(orjson.loads(line.raw))
        paths = sorted({*files.changed_paths(), *named})
        edits = files.observe(paths, actor={"kind": "human", "id": None}, context=context)
        kept = files.snapshot(sorted({*files.known, *named}), "manual_checkpoint", context=context)
        missing = [path for path in named if path not in files.known]
        kept += [draft for path in missing for draft in files.first_snapshot(path, context=context)]
        spool.append_held(acceptable(edits))
        return spool.append_held(acceptable(kept))


def _relative(git: Git, context: Context, path: str) -> str:
    try:
        return str((context.folder / path).resolve().relative_to(git.top.resolve()))
    except ValueError as error:
        raise UsageError(f"{path!r} lies outside the repository", next_step="name a file of it") from error


def pause(context: Context, _arguments: Namespace) -> None:
    spool = _running(context)
    spool.pause(on=True)
    context.output.line(f"paused {spool.trace_id[:8]}: nothing is recorded until pm record resume")
    context.output.result("record pause", {"trace_id": spool.trace_id, **spool.state()})


async def resume(context: Context, arguments: Namespace) -> None:
    running = running_here(context)
    if running is not None:
        if not running.paused:
            raise ConflictError("the recording is not paused", next_step="pm record status")
        running.pause(on=False)
        context.output.line(f"recording {running.trace_id[:8]} again; edits made meanwhile count as one each")
        context.output.result("record resume", {"trace_id": running.trace_id, **running.state()})
        return
    spool = _chosen(context, arguments)
    if spool.sent.finalized:
        raise ConflictError(
            f"recording {spool.trace_id[:8]} was sent and finalized", next_step="pm record begins another"
        )
    git = open_repository(context.folder)
    shell = find_shell(arguments.shell or str(spool.header.get("shell") or ""), context.environ)
    spool.pause(on=False)
    await record_into(context, arguments, spool=spool, git=git, shell=shell, greet="recording again")


def stop(context: Context, _arguments: Namespace) -> None:
    spool = _running(context)
    if not request_stop(spool):
        raise RecordError("the recorder does not answer", why="it runs on another machine or as another user")
    context.output.line(f"{spool.trace_id[:8]} ends")
    context.output.result("record stop", {"trace_id": spool.trace_id})


def status(context: Context, arguments: Namespace) -> None:
    spool = _chosen(context, arguments)
    state = spool.state()
    context.output.line(escape(f"{spool.trace_id}  {state['state']}  {spool.title}"))
    address = server_address(context, arguments, spool)
    context.output.line(f"  {count_text(state['events'], 'event')}, {state['sent']} of them at {address}")
    link = spool.folder / LINK
    socket = str(link.resolve()) if spool.recorder is not None and link.is_socket() else None
    if state["state"] == "open":
        context.output.line("  cut off before its end: pm record resume goes on, pm record upload sends it")
    context.output.result(
        "record status", {"trace_id": spool.trace_id, "title": spool.title, "socket": socket, **state}
    )


def preview(context: Context, arguments: Namespace) -> None:
    spool = _chosen(context, arguments)
    if arguments.full:
        for line in spool.lines():
            context.output.record(orjson.loads(line.raw))
        context.output.lines(whole_lines(spool))
    else:
        context.output.lines(preview_lines(spool))
    context.output.result("record preview", preview_fields(spool))


async def upload(context: Context, arguments: Namespace) -> None:
    spool = _chosen(context, arguments)
    if spool.recorder is not None:
        raise ConflictError(
            f"{spool.trace_id[:8]} is still being recorded", why="it is sent when it ends", next_step="pm record stop"
        )
    if spool.header.get("kind") == "recording" and spool.final is None:
        git = open_repository(context.folder)
        options = options_for(context, spool, git, shell=str(spool.header.get("shell") or "bash"))
        if close_interrupted(spool, git, options, tell=context.output.note):
            context.output.note(f"{spool.trace_id[:8]} was cut off: closed as the files are now")
    sending = await send_now(context, arguments, spool)
    sent = {"accepted": sending.accepted, "duplicates": sending.duplicates}
    context.output.result("record upload", {"trace_id": spool.trace_id, **sent, **spool.state()})


def profile(context: Context, arguments: Namespace) -> None:
    """Propose how the repository is tested, from the test runs of a recording."""
    from collector.qa.profiles import profile_text, recorded_profile, seen_runs  # tree-sitter: 22 ms

    found = recorded_profile(list(seen_runs(orjson.loads(line.raw) for line in _chosen(context, arguments).lines())))
    if found is None:
        raise NotFoundError("no test run was recorded", next_step="run the tests while pm record runs")
    text = profile_text(found)
    if arguments.write:
        path = open_repository(context.folder).top / PROFILE_FILE
        if path.exists():
            raise ConflictError(f"{str(path)!r} is there", next_step="change it by hand")
        path.parent.mkdir(exist_ok=True)
        with output_file(path, mode=0o644) as file:
            file.write(text.encode())
        context.output.note("commit it: captures are tested by the file of their base commit")
    context.output.lines(text.splitlines())
    context.output.result("record profile", found)


def discard(context: Context, arguments: Namespace) -> None:
    spool = find_spool(context.state_root, arguments.trace)
    if spool.recorder is not None:
        raise ConflictError(f"{spool.trace_id[:8]} is being recorded", next_step="pm record stop")
    state = spool.state()
    left = state["events"] - state["sent"]
    if not context.arguments.yes and not can_ask(context):
        why = f"of its events {left} are only here"
        raise UsageError("deleting a recording needs a yes", why=why, next_step="--yes")
    if not ask_yes(context, f"Delete {spool.trace_id[:8]} with {count_text(left, 'event')} only here?", default=False):
        raise UsageError("nothing was deleted")
    aside = gone_name(spool.folder)
    try:
        Path(spool.folder).rename(aside)
        shutil.rmtree(aside)
    except OSError as error:
        raise RecordError(f"{str(spool.folder)!r} cannot be deleted", why=str(error)) from error
    told = f"{count_text(state['events'], 'event')}, {state['sent']} had been sent"
    context.output.line(f"deleted {spool.trace_id[:8]} here ({told})")
    if state["sent"]:
        context.output.note(f"the collector keeps what was sent: pm capture delete {spool.trace_id}")
    context.output.result("record discard", {"trace_id": spool.trace_id, **state})
