"""`pm record`: consent, the recorded shell, the preview, and the sending; also for a recording that was cut off."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from collector.client import CollectorClient
from collector.recorder.begin import begin_capture, check_store, create_request
from collector.recorder.consent import Consent
from collector.recorder.facts import environment_hash, open_repository
from collector.recorder.scribe import ScribeOptions
from collector.recorder.session import RECORDING, Ended, record_session
from collector.recorder.shells import find_shell
from collector.recorder.watching import left_out_by
from collector.spool import Spool
from repl.commands.capture import send_now, spool_state
from repl.commands.capture_bug import ask_yes, bug_from, can_ask, person_from
from repl.commands.capture_keep import prune_by_itself
from repl.commands.capture_preview import preview_lines
from repl.commands.capture_server import capture_redactor, client_for, server_address
from repl.present.escape import escape
from repl.present.words import count_text
from tracer.errors import PmError, UsageError

if TYPE_CHECKING:
    from collector.recorder.shells import Shell
    from repl.commands.context import Context
    from runner.workspace.git import Git

__all__ = ["options_for", "record", "record_into", "running_here"]


async def record(context: Context, arguments: Namespace) -> int:
    """A new recording."""
    from tracer.redaction.key import load_key

    _refuse_nesting(context)
    shell = find_shell(arguments.shell or "", context.environ)
    git = open_repository(context.folder)
    context.state_dir.ensure()
    prune_by_itself(context)
    person = person_from(context, arguments, git)
    store = arguments.store or "redacted"
    check_store(store, person.consent)
    address = server_address(context, arguments)
    key = load_key(context.state_root)
    request = create_request(
        git,
        bug=bug_from(context, arguments, default_title=f"bug fix session in {git.top.name}"),
        person=person,
        store=store,
        mode="incremental" if arguments.live else "batch",
        environ=context.environ,
        key=key,
    )
    spool = begin_capture(
        context.state_root,
        request,
        server=address,
        kind="recording",
        redactor=capture_redactor(context),
        shell=shell.name,
    )
    return await record_into(context, arguments, spool=spool, git=git, shell=shell, greet="recording")


async def record_into(
    context: Context, arguments: Namespace, *, spool: Spool, git: Git, shell: Shell, greet: str
) -> int:
    """Record a shell into `spool`, show what would be sent, and send it if that is wanted."""
    options = options_for(context, spool, git, shell=shell.name)
    _greet(context, spool, greet, live=arguments.live)
    if arguments.live:
        async with client_for(context, arguments, spool=spool, patience_s=1.0) as client:
            if not client.token and not spool.ingest_key:
                context.output.note(f"nothing is sent meanwhile: no key for {client.address} (PM_CAPTURE_TOKEN)")
            ended = await _run(context, spool, git, shell, options, client)
    else:
        ended = await _run(context, spool, git, shell, options, None)
    if not ended.marked:
        context.output.note("the shell gave no sign of its commands: does its start-up file start another shell?")
    if ended.failed is not None:
        short = spool.trace_id[:8]
        ended.failed.next_step = f"free space or mend what is wrong; then pm record resume {short} goes on"
        context.output.note(
            f"recorded until then: {count_text(spool.last_event(), 'event')} · pm record upload {short} sends that"
        )
        raise ended.failed
    await _after(context, arguments, spool)
    context.output.result("record", {"trace_id": spool.trace_id, "shell_status": ended.status, **spool_state(spool)})
    return 0


async def _run(
    context: Context, spool: Spool, git: Git, shell: Shell, options: ScribeOptions, client: CollectorClient | None
) -> Ended:
    return await record_session(
        spool, git, shell, cwd=str(context.folder), options=options, environ=dict(context.environ), client=client
    )


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
        if not ask_yes(context, f"Send this to {spool.header['server']}?", default=True):
            output.note(f"kept here · {later} sends it, pm record discard {spool.trace_id[:8]} deletes it")
            return
    try:
        await send_now(context, arguments, spool)
    except PmError as error:
        error.next_step = later
        raise


def options_for(context: Context, spool: Spool, git: Git, *, shell: str) -> ScribeOptions:
    """How this spool is written: its mode and consent, and the settings."""
    from dataclasses import replace

    from tracer.redaction.key import load_key

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
        file_limit=int(settings.get("record.file_limit")),
        output_head=int(settings.get("record.output_limit")),
    )


def running_here(context: Context) -> Spool | None:
    """The recording around this process (its shell's), or the one that runs with this state directory."""
    from collector.spools import list_spools

    around = context.environ.get(RECORDING)
    if around and Path(around).is_dir():
        spool = Spool.open(Path(around))
        if spool.recorder is not None:
            return spool
    return next((spool for spool in list_spools(context.state_root) if spool.recorder is not None), None)


def _refuse_nesting(context: Context) -> None:
    around = context.environ.get(RECORDING)
    if not around or not Path(around).is_dir() or Spool.open(Path(around)).recorder is None:
        return
    raise UsageError(
        "this shell is being recorded already",
        why=f"recording {os.path.basename(around)[:8]}",  # noqa: PTH119 - a name
        next_step="exit ends it; pm record status shows it",
    )
