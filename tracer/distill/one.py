"""One native session made into one agentic trace: locate, read, clean, write.

`distill` does it for a located session, `distill_session` for other programs. Reading is bounded in memory; nothing
appears on disk before it is redacted, and the trace appears whole.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tracer.blobs import DirectoryBlobs
from tracer.clock import from_epoch_ms
from tracer.distill.cleaner import Cleaner
from tracer.distill.locate.find import latest_session, session_at, session_by_id
from tracer.distill.native import PROVIDER_NAMES, SCHEMA, Distilled, NativeSession, Provider, Request, provider_named
from tracer.distill.native_files import Source, open_native
from tracer.distill.readers.assembly import Assembly, Spool
from tracer.distill.stored import store
from tracer.errors import NotFoundError, TraceError, told_as
from tracer.json_values import clean_text
from tracer.prices import Tokens, cost_usd
from tracer.redaction.redactor import NO_ADDITIONS, Clean, Redacted, RedactionSettings, Redactor
from tracer.statedir import StateDir, folder_sha256

_PROMPT_LIMIT: Final = 4 * 1024 * 1024


def read_native(session: NativeSession, assembly: Assembly, source: Source) -> None:
    """Read the native files of `session` into `assembly`; only the reader of its provider is loaded (0.3 MB)."""
    match session.provider:
        case "claude":
            from tracer.distill.readers.claude import read_claude as read
        case "codex":
            from tracer.distill.readers.codex import read_codex as read
        case "gemini":
            from tracer.distill.readers.gemini import read_gemini as read
        case "copilot":
            from tracer.distill.readers.copilot import read_copilot as read
        case "opencode":
            from tracer.distill.readers.opencode import read_opencode as read
    read(session, assembly, source)


def make_redactor(state_dir: StateDir, redaction: RedactionSettings = NO_ADDITIONS) -> Redactor:
    """The project's redactor; kept for the next session, since its rules take 200 ms to compile."""
    return _redactor(state_dir.root.absolute(), redaction, tuple(sorted(os.environ.items())))


@lru_cache(maxsize=4)
def _redactor(state_root: Path, redaction: RedactionSettings, environ: tuple[tuple[str, str], ...]) -> Redactor:
    from tracer.redaction.engine import build_redactor  # 25 ms, not needed where a caller brings its own

    return build_redactor(state_dir=state_root, environ=dict(environ), truncate=False, **redaction._asdict())


def output_folder(request: Request, state_dir: StateDir) -> Path:
    """Where traces go: the folder asked for, else the project's (`.pdd/agentic-traces` where it has a `.pdd`)."""
    return request.output_dir if request.output_dir is not None else state_dir.agentic_traces


def state_dir_of(session: NativeSession, request: Request) -> StateDir:
    """The state directory whose key, blobs and folder serve this session."""
    if request.state_dir is not None:
        return StateDir(request.state_dir)
    if request.project_root is not None:
        return StateDir.find(request.project_root)
    ran_in = Path(session.cwd) if session.cwd else Path.cwd()
    return StateDir.find(ran_in if ran_in.is_dir() else Path.cwd())


def distill_session(
    session: str | os.PathLike[str] | None = None,
    *,
    provider: Provider | None = None,
    session_id: str | None = None,
    label: str | None = None,
    project_root: str | os.PathLike[str] | None = None,
    prompt_file: str | os.PathLike[str] | None = None,
    output_dir: str | os.PathLike[str] | None = None,
    since_ms: int | None = None,
    success: bool | None = None,
    cost_usd: float | None = None,
    duration_sec: float | None = None,
    redactor: Redactor | None = None,
) -> Distilled:
    """Distill one session and return what was written (`.path` is the trace).

    `session` is the native file; without it, `session_id` (with `provider`) or the project's newest session is taken.
    `label` is `operation:module`. `since_ms` (milliseconds since 1970 UTC) leaves out what an earlier run of the same
    session did; where there was something, the trace is one of its own and `source.since` says so. `success`,
    `cost_usd` and `duration_sec` replace what the file says, where the caller knows better.

    Raises:
        UsageError: no such provider.
        NotFoundError: no such session.
        TraceError: the file cannot be read as a session.
        RecordError: the trace cannot be written.

    """
    root = Path(project_root) if project_root is not None else None
    provider = provider_named(provider) if provider is not None else None
    if session is not None:
        native = session_at(Path(session), provider)
    elif session_id is not None:
        if provider is None:
            raise NotFoundError("no provider given", why="a session id alone does not say whose it is")
        native = session_by_id(provider, session_id, cwd=root)
    else:
        native = latest_session(provider, project=root or Path.cwd())
    request = Request(
        label=label,
        project_root=root,
        prompt_file=Path(prompt_file) if prompt_file is not None else None,
        output_dir=Path(output_dir) if output_dir is not None else None,
        since_ms=since_ms,
        success=success,
        cost_usd=cost_usd,
        duration_sec=duration_sec,
    )
    return distill(native, request, redactor=redactor)


def distill(session: NativeSession, request: Request, *, redactor: Redactor | None = None) -> Distilled:
    """Read `session` and write its trace. Raises `NotFoundError`."""
    state_dir = state_dir_of(session, request)
    cleaner = _cleaner(session, request, redactor or make_redactor(state_dir, request.redaction), state_dir)
    with Spool() as spool:
        assembly = Assembly(spool, cleaner, since_ms=request.since_ms)
        source = Source()
        with told_as(TraceError, f"cannot read {str(session.path)!r}"):
            read_native(session, assembly, source)
        assembly.finish()
        if assembly.prompts.task_sha256 is None and assembly.error_lines >= len(spool):
            raise TraceError(
                f"nothing to distill in {str(session.path)!r}",
                why=f"{source.records} records in {source.size} bytes, none of a conversation",
                next_step="check that it is the session file; --provider says whose it is",
            )
        meta = _meta(session, request, assembly, source, _own_prompt(request, assembly))
        blobs = DirectoryBlobs(state_dir.blobs)
        if assembly.prompts.texts:
            state_dir.ensure()
        for text in assembly.prompts.texts.values():
            blobs.put_bytes(text.encode())
        folder = output_folder(request, state_dir)
        return store(folder, meta, spool.lines, relabel=request.label is not None)


class _NoRedactor:
    """For what is counted and never written."""

    def redact_text(self, text: str) -> tuple[Clean, dict[str, int]]:
        return Clean(text), {}

    def redact_value(self, value: Any) -> Redacted:
        return Redacted(value, {})


def spent_since(session: NativeSession, since_ms: int) -> tuple[dict[str, int | None], float | None]:
    """Tokens by kind and dollars that `session` used since then; nothing is written."""
    with Spool() as spool:
        assembly = Assembly(spool, Cleaner(_NoRedactor()), since_ms=since_ms)
        read_native(session, assembly, Source())
        assembly.finish()
        return assembly.usage.to_dict(), _cost(assembly, PROVIDER_NAMES[session.provider])


def _cleaner(session: NativeSession, request: Request, redactor: Redactor, state_dir: StateDir) -> Cleaner:
    roots = [session.cwd] if session.cwd else []
    for root in (request.project_root, state_dir.project):
        if root is not None:
            roots += [str(root.absolute()), str(root.resolve())]
    return Cleaner(redactor, project_roots=tuple(roots), homes=(str(Path.home()),))


def _own_prompt(request: Request, assembly: Assembly) -> str | None:
    """The hash of what the user asked for, redacted and kept like every prompt; None where only the session tells."""
    if request.prompt is not None:
        return assembly.prompts.store(request.prompt)
    if request.prompt_file is None:
        return None
    with open_native(request.prompt_file) as stream:
        return assembly.prompts.store(stream.read(_PROMPT_LIMIT).decode("utf-8", "replace"))


def _meta(
    session: NativeSession, request: Request, assembly: Assembly, source: Source, own_prompt: str | None
) -> dict[str, Any]:
    """The first line, in the seed's order and then ours (contracts 5)."""
    provider = PROVIDER_NAMES[session.provider]
    first_ms, last_ms = assembly.first_ms or session.modified_ms, assembly.last_ms or session.modified_ms
    duration = (last_ms - first_ms) / 1000
    cleaner = assembly.cleaner
    named = cleaner.relative(str(request.prompt_file.absolute())) if request.prompt_file else None
    told = source.to_dict()
    if session.cwd:  # where it ran; by name alone two projects are one
        with suppress(ValueError):  # a session's file may name what no folder can be called
            told["project_sha256"] = folder_sha256(session.cwd)
    if request.since_ms is not None and assembly.cut_off:  # else it is the whole session, under whatever name
        told["since"] = from_epoch_ms(request.since_ms)
    meta: dict[str, Any] = {
        "type": "meta",
        "ts": from_epoch_ms(last_ms)[:19],
        "label": cleaner.clean(clean_text(request.label or f"session:{_folder_name(session, request)}")),
        "provider": provider,
        "model": _cleaned(cleaner, assembly.model),
        "success": assembly.success if request.success is None else request.success,
        "cost_usd": _cost(assembly, provider) if request.cost_usd is None else request.cost_usd,
        "duration_sec": round(duration if request.duration_sec is None else request.duration_sec, 3),
        "prompt_file": cleaner.clean(named) if named else None,
        "prompt_sha256": own_prompt or assembly.prompts.task_sha256,
        **({"sent_prompt_sha256": assembly.prompts.task_sha256} if own_prompt else {}),
        "schema": SCHEMA,
        "session_id": cleaner.clean(clean_text(session.session_id)),
        "cli_version": _cleaned(cleaner, assembly.cli_version or session.cli_version),
        "tokens": assembly.usage.to_dict(),
        "thoughts": dict(assembly.thoughts),
        "tools": assembly.tools,
        "errors": assembly.errors,
        "redactions": {},
        "agents": assembly.prompts.to_list(),
        "source": told,
    }
    meta["redactions"] = dict(sorted(cleaner.counts.items()))
    known = [name for name in ("cost_usd", "duration_sec", "prompt", "success") if getattr(request, name) is not None]
    if known:
        meta["told"] = known
    return meta


def _cleaned(cleaner: Cleaner, told: str | None) -> str | None:
    return None if told is None else cleaner.clean(clean_text(told))


def _folder_name(session: NativeSession, request: Request) -> str:
    if session.cwd:
        return session.cwd.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] or "root"
    return request.project_root.name if request.project_root is not None else "unknown"


def _cost(assembly: Assembly, provider: str) -> float | None:
    """The provider's own figure, else tokens times price; None where a price or a count is unknown."""
    if assembly.cost_usd is not None:
        return assembly.cost_usd
    usage = assembly.usage
    if usage.input is None or usage.output is None or len(assembly.models) > 1:
        return None
    cached = usage.cached or 0
    tokens = Tokens(
        fresh=usage.input
        if provider in {"anthropic", "opencode"}
        else max(0, usage.input - cached - (usage.cache_write or 0)),
        cached=cached,
        cache_write=usage.cache_write or 0,
        output=usage.output + (usage.thinking or 0 if provider in {"google", "opencode"} else 0),
    )
    price = cost_usd(assembly.model, tokens, one_request=False)
    return round(price, 6) if price is not None else None
