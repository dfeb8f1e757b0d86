"""`pm redact FILE`: a copy without secrets; `--audit DIR`: the leaks that are there; `--scrub DIR`: those redacted."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from repl.present.text import count_text, one_line
from tracer.clock import from_epoch_ms, now_iso
from tracer.durable import ensure_folder
from tracer.errors import NotAcceptedError, NotFoundError, UsageError
from tracer.statedir import user_state_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from repl.context import Context
    from tracer.redaction.engine import ProjectRedactor
    from tracer.redaction.streams import Leak

_SHOWN = 200


def redact(context: Context, arguments: Namespace) -> int | None:
    given = {"--audit": arguments.audit, "--scrub": arguments.scrub, "-o": arguments.output}
    chosen = [flag for flag, wanted in {**given, "--in-place": arguments.in_place}.items() if wanted]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} exclude each other", next_step="give one of them")
    if arguments.audit or arguments.scrub:
        folders = [context.path(name) for name in arguments.path or [str(context.state_root)]]
        return _scrub(context, folders) if arguments.scrub else _audit(context, folders)
    if len(arguments.path) != 1:
        raise UsageError("which file?", next_step="pm redact FILE -o CLEAN, or pm redact --audit FOLDER")
    source = context.path(arguments.path[0])
    if source.is_dir():
        raise UsageError(f"{arguments.path[0]!r} is a folder", next_step=f"pm redact --audit {arguments.path[0]}")
    if not arguments.in_place and arguments.output in {None, "-"}:
        _print(context, source)
        return None
    from tracer.redaction.streams import redact_file  # google-re2 and orjson, 55 ms

    target = source if arguments.in_place else context.path(arguments.output)
    names = source.stat().st_nlink if arguments.in_place and source.exists() else 1
    path, counts = redact_file(_redactor(context), source, target)
    if names > 1 and counts:
        others = count_text(names - 1, "other name")
        context.output.note(f"the file has {others} (hard links), where the secrets still stand")
    context.output.note(f"{one_line(str(path))}: {_told(counts)}")
    context.output.result("redact", {"path": str(path), "redactions": counts})
    return None


def _print(context: Context, source: Path) -> None:
    from tracer.redaction.streams import redacted_pieces

    if not context.output.human:
        raise UsageError("a JSON answer has no room for the file", next_step="give a place for the copy with -o")
    counts: Counter[str] = Counter()
    for piece in redacted_pieces(_redactor(context), source, counts):
        context.output.data(piece)
    context.output.note(f"{one_line(str(source))}: {_told(counts)}")


def _audit(context: Context, folders: list[Path]) -> int:
    """Report on the folders that exist; those that do not are named."""
    missing = [folder for folder in folders if not folder.exists()]
    there = [folder for folder in folders if folder not in missing]
    with ExitStack() as stack:
        stack.push(partial(_name_copies, context, None, []))
        if not there:
            raise _not_found(missing, why="nothing to audit")
        leaks = _found(context, there, whole=len(folders) > 1)
        if missing:
            context.output.warn(f"{one_line(_not_found(missing).what)}, so nothing was looked for there")
        return _report(context, there, missing, leaks)


def _report(context: Context, folders: list[Path], missing: list[Path], leaks: list[Leak]) -> int:
    output = context.output
    rows: list[dict[str, object]] = [{**leak._asdict(), "modified": _modified(context, leak)} for leak in leaks]
    for row in rows:
        output.record({"type": "leak", **row})
    output.lines([_line(leak, row["modified"]) for leak, row in zip(leaks[:_SHOWN], rows, strict=False)])
    if len(leaks) > _SHOWN:
        output.note(f"and {len(leaks) - _SHOWN} more; --json lists all")
    fields: dict[str, object] = {"folder": ", ".join(map(str, folders)), "leaks": rows, **_copies_fields(context)}
    fields["missing"] = list(map(str, missing))
    if not leaks:
        output.line(f"nothing found in {one_line(str(fields['folder']))}")
        if missing:
            output.failure("redact", _not_found(missing, why="nothing was found in the others"), 7, fields)
            return 7
        output.result("redact", fields)
        return 0
    kinds = Counter({leak.rule: 0 for leak in leaks})
    for leak in leaks:
        kinds[leak.rule] += leak.finds
    output.note(f"kinds: {', '.join(f'{count} x {rule}' for rule, count in kinds.most_common())}")
    output.note("  next:  pm redact --scrub   (and change what leaked: it has been on disk)")
    problem = NotAcceptedError(
        f"{len(leaks)} places hold what looks like secrets", next_step="pm redact --scrub FOLDER"
    )
    output.failure("redact", problem, 1, fields)
    return 1


def _found(context: Context, folders: list[Path], *, whole: bool = False) -> list[Leak]:
    """The leaks below `folders`; their paths are relative to the folder, or begin with its own (`whole`)."""
    from tracer.redaction.streams import audit

    redactor, leaks = _redactor(context), []
    for folder in folders:
        found = audit(redactor, folder, progress=context.output.detail)
        prefix = folder if whole and folder.is_dir() else Path()
        leaks += [leak._replace(path=str(prefix / leak.path)) for leak in found]
    return leaks


def _scrub(context: Context, folders: list[Path]) -> int:
    """Redact every text file that leaks; the copies of what stood there go when the person says so."""
    import shutil

    from repl.commands.captures.consent import ask_yes, can_ask
    from tracer.redaction.streams import WRITING, Scrubbed, open_files, scrub

    output, redactor = context.output, _redactor(context)
    if missing := [folder for folder in folders if not folder.exists()]:
        there = [shlex.quote(str(folder)) for folder in folders if folder not in missing]
        next_step = " ".join(("pm redact --scrub", *there)) if there else "check the path"
        raise _not_found(missing, why="nothing was rewritten", next_step=next_step)
    kept = _copies_folder(context) / now_iso().replace(":", "")
    told: list[dict[str, object]] = []
    with ExitStack() as stack:
        stack.push(partial(_name_copies, context, kept, told))
        for folder in folders:
            leaking = {leak.path: leak.line for leak in _found(context, [folder])}
            for name, line in leaking.items():
                path = folder / name if folder.is_dir() else folder
                if line:
                    one = scrub(redactor, path, kept / path.resolve().relative_to("/"), held=open_files())
                else:
                    why = "it is no text; delete it, or what it holds, with the program that wrote it"
                    one = Scrubbed(path, {}, why)
                if one.left:
                    (kept / path.resolve().relative_to("/")).unlink(missing_ok=True)
                told.append({"path": str(path), "redactions": one.counts, "left": one.left})
                output.line(f"{one_line(str(path))}: {f'left as it is: {one.left}' if one.left else _told(one.counts)}")
        question = f"Delete the copies of what stood there ({kept})? They hold the secrets."
        may_ask = context.arguments.yes or can_ask(context)
        if not _holds_files(kept) or (may_ask and ask_yes(context, question, default=False)):
            shutil.rmtree(kept, ignore_errors=True)  # what stays is named
    output.result("redact", {"files": told, **_copies_fields(context, kept)})
    left = [row for row in told if row["left"]]
    if any(row["left"] == WRITING for row in left):
        output.note("  next:  end the sessions that write, wait a minute, then the same command again")
    return 1 if left else 0


def _not_found(missing: list[Path], *, why: str = "", next_step: str = "check the path") -> NotFoundError:
    verb = "does" if len(missing) == 1 else "do"
    return NotFoundError(f"{', '.join(map(str, missing))} {verb} not exist", why=why, next_step=next_step)


def _copies_folder(context: Context) -> Path:
    return user_state_folder(context.environ).absolute() / "scrubbed"


def _holds_files(folder: Path) -> bool:
    return any(path.is_file() for path in folder.rglob("*"))


def _copies(context: Context) -> list[Path]:
    """The folders with copies that scrubs left: this one's and those of earlier ones, killed ones too."""
    folder = _copies_folder(context)
    return sorted(path for path in folder.iterdir() if _holds_files(path)) if folder.is_dir() else []


def _copies_fields(context: Context, kept: Path | None = None) -> dict[str, object]:
    """The copies in a JSON record: those of this scrub (`kept`), and those that earlier ones left."""
    copies = _copies(context)
    earlier = {"earlier_copies": [str(path) for path in copies if path != kept]}
    return {"copies": str(kept) if kept in copies else None, **earlier} if kept else dict(earlier)


def _name_copies(
    context: Context,
    kept: Path | None,
    files: list[dict[str, object]],
    _kind: type[BaseException] | None,
    ending: BaseException | None,
    _trace: TracebackType | None,
) -> None:
    """Name the copies that are left, however the command ends: an error, an interruption, also with `--quiet`."""
    for folder in _copies(context):
        of = (
            "the copies with the secrets are"
            if folder == kept
            else "copies with secrets that an earlier scrub left are"
        )
        context.output.warn(f"{of} in {folder}; delete them when nothing is missing")
    if ending is not None and kept is not None:
        fields = {"files": files, **_copies_fields(context, kept)}
        ending.record_fields = fields  # type: ignore[attr-defined]  # what the closing JSON record says beside the error


def _modified(context: Context, leak: Leak) -> str | None:
    """The day the file was last written: how long the secret has stood there at least."""
    for folder in (*(context.path(name) for name in context.arguments.path or []), context.state_root):
        path = folder / leak.path if folder.is_dir() else folder
        if path.exists():
            return from_epoch_ms(path.stat().st_mtime_ns // 1_000_000)[:10]
    return None


def _line(leak: Leak, modified: object) -> str:
    times = f" ({leak.finds} times)" if leak.finds > 1 else ""
    return f"{one_line(leak.path)}:{leak.line}  {leak.rule}{times}  {modified or ''}".rstrip()


def _told(counts: Mapping[str, int]) -> str:
    if not counts:
        return "nothing to redact"
    return ", ".join(f"{count} x {rule}" for rule, count in sorted(counts.items())) + " redacted"


def _redactor(context: Context) -> ProjectRedactor:
    """Marks are keyed by the project; where there is none, by the user: a copy of a file makes no project."""
    key = context.state_root
    if not key.is_dir() and (user := user_state_folder(context.environ)).is_absolute():
        key = user / "redaction"
        ensure_folder(key)
    return context.redactor(state_dir=key, project_root=context.folder)
