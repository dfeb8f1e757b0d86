"""Commands about a recording from beside it: thoughts, snapshots, pause, status, preview, upload, discard."""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from collector.client_events import acceptable
from collector.recorder.facts import open_repository
from collector.recorder.files import FileTracker
from collector.recorder.scribe import Scribe
from collector.recorder.session import close_interrupted, request_stop
from collector.recorder.shells import find_shell
from collector.spool import Draft, Spool
from collector.spool_keep import gone_name
from collector.spools import find_spool, list_spools
from repl.commands.capture import send_now, spool_state
from repl.commands.capture_bug import ask_yes, can_ask
from repl.commands.capture_preview import event_line, preview_fields, preview_lines
from repl.commands.record import options_for, record_into, running_here
from repl.present.escape import escape
from repl.present.words import count_text
from tracer.errors import ConflictError, NotFoundError, RecordError, UsageError

if TYPE_CHECKING:
    from repl.commands.context import Context
    from runner.workspace.git import Git

__all__ = ["discard", "pause", "preview", "resume", "snapshot", "status", "stop", "think", "upload"]

_LINKED = ("test_run", "file_edit", "terminal_command", "commit")
_MOST_LINKS = 5


def _running(context: Context) -> Spool:
    spool = running_here(context)
    if spool is None:
        raise NotFoundError("no recording runs here", next_step="pm record begins one")
    return spool


def _chosen(context: Context, arguments: Namespace) -> Spool:
    """The recording that was named, else the running one, else the newest."""
    if getattr(arguments, "trace", None):
        return find_spool(context.state_root, arguments.trace)
    spool = running_here(context)
    if spool is None:
        spool = next((each for each in list_spools(context.state_root) if each.header.get("kind") == "recording"), None)
    if spool is None:
        raise NotFoundError("no recording in this project", next_step="pm record begins one")
    return spool


def think(context: Context, arguments: Namespace) -> int:
    """Note a thought, linked to what happened since the one before."""
    text = " ".join(arguments.text).strip()
    if not text:
        raise UsageError("a thought needs words", next_step='pm think "the cart is None after logout"')
    spool = _running(context)
    if spool.paused:
        raise ConflictError("the recording is paused", why="nothing is noted meanwhile", next_step="pm record resume")
    links = list(arguments.link or ()) or _last_events(spool)
    redactor = None
    if spool.header["request"].get("store") != "raw":
        from repl.commands.capture_server import capture_redactor

        redactor = capture_redactor(context)
        text = redactor.redact_text(text)[0]
    payload = {"content": text, "kind": arguments.kind or "interpretation", "links_to": _checked_links(spool, links)}
    event = spool.append([Draft(type="thought", payload=payload)])[0]
    context.output.line(f"noted as {payload['kind']}, linked to {count_text(len(payload['links_to']), 'event')}")
    context.output.result("think", {"event_id": event["event_id"], "seq": event["seq"], **payload})
    return 0


def _last_events(spool: Spool) -> list[str]:
    """The newest actions since the last thought, oldest first; the last action of all where there was none since."""
    since: list[str] = []
    last = ""
    for line in spool.lines():
        event = orjson.loads(line.raw)
        if event["type"] == "thought":
            since = []
        elif event["type"] in _LINKED:
            since.append(event["event_id"])
            last = event["event_id"]
    return since[-_MOST_LINKS:] or ([last] if last else [])


def _checked_links(spool: Spool, links: list[str]) -> list[str]:
    """Full ids of the events that `links` name (by id, its beginning, or seq).

    Raises:
        NotFoundError: one names nothing.

    """
    events = [orjson.loads(line.raw) for line in spool.lines()]
    found = []
    for link in links:
        match = next(
            (each["event_id"] for each in events if each["event_id"].startswith(link) or str(each["seq"]) == link), None
        )
        if match is None:
            raise NotFoundError(f"no event {link!r} in this recording", next_step="pm record preview --full lists them")
        found.append(match)
    return found


def snapshot(context: Context, arguments: Namespace) -> int:
    """Keep touched files (and those named) as they are."""
    spool = _running(context)
    if spool.paused:
        raise ConflictError("the recording is paused", why="nothing is kept meanwhile", next_step="pm record resume")
    git = open_repository(context.folder)
    options = options_for(context, spool, git, shell=str(spool.header.get("shell") or "bash"))
    scribe = Scribe(spool, git, options, tell=context.output.note)
    drafts = _snapshot(spool, scribe.files, [_relative(git, context, path) for path in arguments.paths])
    for draft in drafts:
        context.output.line(escape(str(draft["payload"]["file_path"])))
    if not drafts:
        context.output.note("no file was touched yet: name one   pm snapshot src/a.py")
    context.output.result("snapshot", {"files": [draft["payload"]["file_path"] for draft in drafts]})
    return 0


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


def pause(context: Context, _arguments: Namespace) -> int:
    """Stop looking."""
    spool = _running(context)
    spool.pause(on=True)
    context.output.line(f"paused {spool.trace_id[:8]}: nothing is recorded until pm record resume")
    context.output.result("record pause", {"trace_id": spool.trace_id, **spool_state(spool)})
    return 0


async def resume(context: Context, arguments: Namespace) -> int:
    """Go on: after a pause, or in a new shell with what a killed recorder left."""
    running = running_here(context)
    if running is not None:
        if not running.paused:
            raise ConflictError("the recording is not paused", next_step="pm record status")
        running.pause(on=False)
        context.output.line(f"recording {running.trace_id[:8]} again; edits made meanwhile count as one each")
        context.output.result("record resume", {"trace_id": running.trace_id, **spool_state(running)})
        return 0
    spool = _chosen(context, arguments)
    if spool.sent.finalized:
        raise ConflictError(
            f"recording {spool.trace_id[:8]} was sent and finalized", next_step="pm record begins another"
        )
    git = open_repository(context.folder)
    shell = find_shell(arguments.shell or str(spool.header.get("shell") or ""), context.environ)
    spool.pause(on=False)
    return await record_into(context, arguments, spool=spool, git=git, shell=shell, greet="recording again")


def stop(context: Context, _arguments: Namespace) -> int:
    """End the recorded shell."""
    spool = _running(context)
    if not request_stop(spool):
        raise RecordError("the recorder does not answer", why="it runs on another machine or as another user")
    context.output.line(f"{spool.trace_id[:8]} ends")
    context.output.result("record stop", {"trace_id": spool.trace_id})
    return 0


def status(context: Context, arguments: Namespace) -> int:
    """One recording in three lines."""
    spool = _chosen(context, arguments)
    state = spool_state(spool)
    title = spool.header["request"]["task"]["bug_report"]["title"]
    context.output.line(escape(f"{spool.trace_id}  {state['state']}  {title}"))
    context.output.line(
        f"  {count_text(state['events'], 'event')}, {state['sent']} of them at {spool.header.get('server')}"
    )
    if state["state"] == "open":
        context.output.line("  cut off before its end: pm record resume goes on, pm record upload sends it")
    context.output.result("record status", {"trace_id": spool.trace_id, "title": title, **state})
    return 0


def preview(context: Context, arguments: Namespace) -> int:
    """What would be sent."""
    spool = _chosen(context, arguments)
    if arguments.full:
        for line in spool.lines():
            context.output.record(orjson.loads(line.raw))
            context.output.line(event_line(orjson.loads(line.raw)))
    else:
        context.output.lines(preview_lines(spool))
    context.output.result("record preview", preview_fields(spool))
    return 0


async def upload(context: Context, arguments: Namespace) -> int:
    """Send a recording; one whose recorder was killed is closed first."""
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
    fields = {"trace_id": spool.trace_id, "accepted": sending.accepted, "duplicates": sending.duplicates}
    context.output.result("record upload", {**fields, **spool_state(spool)})
    return 0


def _confirm(context: Context, spool: Spool, state: dict[str, Any]) -> None:
    """Ask before what is nowhere else is deleted.

    Raises:
        UsageError: nobody can be asked, or the answer was no.

    """
    if context.arguments.yes:
        return
    left = state["events"] - state["sent"]
    if not can_ask(context):
        raise UsageError(
            "deleting a recording needs a yes", why=f"{left} of its events are only here", next_step="--yes"
        )
    if not ask_yes(context, f"Delete {spool.trace_id[:8]} with {left} events that are only here?", default=False):
        raise UsageError("nothing was deleted")


def discard(context: Context, arguments: Namespace) -> int:
    """Delete a recording here."""
    spool = find_spool(context.state_root, arguments.trace)
    if spool.recorder is not None:
        raise ConflictError(f"{spool.trace_id[:8]} is being recorded", next_step="pm record stop")
    state = spool_state(spool)
    _confirm(context, spool, state)
    aside = gone_name(spool.folder)
    try:
        Path(spool.folder).rename(aside)
        shutil.rmtree(aside)
    except OSError as error:
        raise RecordError(f"{str(spool.folder)!r} cannot be deleted", why=str(error)) from error
    context.output.line(f"deleted {spool.trace_id[:8]} here ({state['events']} events, {state['sent']} had been sent)")
    context.output.result("record discard", {"trace_id": spool.trace_id, **state})
    return 0
