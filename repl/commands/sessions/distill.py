"""`pm distill`: native sessions of Claude Code, Codex and Gemini CLI made into compact traces."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Coroutine
from typing import Any

from repl.context import Context
from repl.present.text import count_text, one_line
from tracer.clock import epoch_ms, since_iso
from tracer.distill.locate.find import find_sessions, latest_session, session_at, session_named
from tracer.distill.many import Outcome, distill_many, watch_sessions
from tracer.distill.native import Distilled, NativeSession, Request
from tracer.distill.one import distill as distill_one
from tracer.distill.one import output_folder
from tracer.errors import NotFoundError, PmError, UsageError
from tracer.statedir import StateDir


def distill(context: Context, arguments: Namespace) -> Coroutine[Any, Any, None] | None:
    chosen = [name for name in ("session", "latest", "all", "watch") if getattr(arguments, name)]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other", next_step="give one of them")
    if arguments.since and chosen and chosen != ["all"]:
        raise UsageError(f"--since and --{chosen[0]} exclude each other", next_step="--since goes with --all")
    request = _request(context, arguments)
    if chosen == ["watch"]:
        return _watch(context, arguments, request)
    if chosen == ["all"] or arguments.since:
        _all(context, arguments, request)
    else:
        _trace(context, distill_one(_session(context, arguments), request))
        context.output.result("distill", {"count": 1})
    return None


def _request(context: Context, arguments: Namespace) -> Request:
    places = (arguments.project_root, arguments.prompt_file, arguments.output)
    root, prompt_file, output = (context.path(given) if given else None for given in places)
    found = root is not None and root.is_dir() and not arguments.state_dir
    if prompt_file is not None and not prompt_file.is_file():
        raise UsageError(f"no file {str(prompt_file)!r}", why="--prompt-file names the file the prompt came from")
    return Request(
        label=arguments.label,
        project_root=root or context.folder,
        prompt_file=prompt_file,
        output_dir=output,
        state_dir=StateDir.find(root).root if root is not None and found else context.state_root,
        redaction=context.redaction(),
    )


def _session(context: Context, arguments: Namespace) -> NativeSession:
    if arguments.session:
        path = context.path(arguments.session)
        if path.exists() or path.is_symlink() or "/" in arguments.session:
            return session_at(path, arguments.provider)
        return session_named(arguments.session, arguments.provider, cwd=context.folder, environ=context.environ)
    project = context.path(arguments.project_root) if arguments.project_root else context.folder
    return latest_session(arguments.provider, project=project, environ=context.environ)


def _all(context: Context, arguments: Namespace, request: Request) -> None:
    project = request.project_root if arguments.project_root else None
    sessions = find_sessions(arguments.provider, project=project, environ=context.environ)
    if arguments.since:
        since_ms = epoch_ms(since_iso(arguments.since)) or 0
        sessions = [session for session in sessions if session.modified_ms >= since_ms]
    if not sessions:
        raise NotFoundError("no native session found", next_step="`pm sessions` says where was searched")
    made = 0
    failures: list[PmError] = []
    for outcome in distill_many(sessions, request):
        made += _tell(context, outcome, failures)
    if failures and not made:
        raise failures[0]
    context.output.note(f"{count_text(made, 'trace')}" + (f", {len(failures)} could not be read" if failures else ""))
    context.output.result("distill", {"count": made})


async def _watch(context: Context, arguments: Namespace, request: Request) -> None:
    folder = output_folder(request, StateDir(request.state_dir or context.state_root))
    context.output.note(f"watching; traces go to {folder}; Ctrl+C ends")
    failures: list[PmError] = []
    async for outcome in watch_sessions(request, folder=folder, provider=arguments.provider, environ=context.environ):
        _tell(context, outcome, failures)


def _tell(context: Context, outcome: Outcome, failures: list[PmError]) -> int:
    if outcome.distilled is not None:
        _trace(context, outcome.distilled)
        return 1
    if outcome.error is not None:
        failures.append(outcome.error)
        context.output.note(one_line(f"left out: {outcome.error.what}: {outcome.error.why}"))
    return 0


def _trace(context: Context, made: Distilled) -> None:
    output, fields = context.output, made.to_dict()
    thoughts, tools = count_text(fields["thoughts"], "thought"), count_text(fields["tools"] or 0, "tool call")
    share = f" · {made.reduction:.1%} of the native size" if made.reduction is not None else ""
    output.line(f"{made.status:<9}  {one_line(str(made.path))}")
    output.line(f"           {thoughts} · {tools} · {count_text(made.meta.get('errors') or 0, 'error')}{share}")
    output.record(fields)
    if output.form == "json":
        output.stdout.write(json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n")
        output.stdout.flush()
        output.ended = True  # contracts 5: one object a trace, and nothing else
