"""`pm redact FILE`: a copy without secrets; `pm redact --audit DIR`: the leaks in traces that are already there."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from repl.present.text import count_text, one_line
from tracer.durable import ensure_folder
from tracer.errors import TraceError, UsageError
from tracer.statedir import user_state_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repl.context import Context
    from tracer.redaction.engine import ProjectRedactor
    from tracer.redaction.streams import Leak

_SHOWN = 200


def redact(context: Context, arguments: Namespace) -> int:
    if arguments.audit:
        return _audit(context, _inside(context, arguments.path or str(context.state_root)))
    if not arguments.path:
        raise UsageError("which file?", next_step="pm redact FILE -o CLEAN, or pm redact --audit FOLDER")
    if arguments.output and arguments.in_place:
        raise UsageError("-o and --in-place exclude each other", next_step="pm redact FILE --in-place")
    source = _inside(context, arguments.path)
    if source.is_dir():
        raise UsageError(f"{arguments.path!r} is a folder", next_step=f"pm redact --audit {arguments.path}")
    if not arguments.in_place and arguments.output in {None, "", "-"}:
        return _print(context, source)
    from tracer.redaction.streams import redact_file  # google-re2 and orjson, 55 ms

    target = source if arguments.in_place else _inside(context, arguments.output)
    names = source.stat().st_nlink if arguments.in_place and source.exists() else 1
    path, counts = redact_file(_redactor(context), source, target)
    if names > 1 and counts:
        others = count_text(names - 1, "other name")
        context.output.note(f"the file has {others} (hard links), where the secrets still stand")
    context.output.note(f"{one_line(str(path))}: {_told(counts)}")
    context.output.result("redact", {"path": str(path), "redactions": counts})
    return 0


def _print(context: Context, source: Path) -> int:
    from tracer.redaction.streams import redacted_pieces

    if not context.output.human:
        raise UsageError("a JSON answer has no room for the file", next_step="give a place for the copy with -o")
    counts: Counter[str] = Counter()
    for piece in redacted_pieces(_redactor(context), source, counts):
        context.output.data(piece)
    context.output.note(f"{one_line(str(source))}: {_told(counts)}")
    return 0


def _audit(context: Context, folder: Path) -> int:
    from tracer.redaction.streams import audit

    output = context.output
    leaks = audit(_redactor(context), folder, progress=output.detail)
    for leak in leaks:
        output.record({"type": "leak", **leak._asdict()})
    output.lines([_line(leak) for leak in leaks[:_SHOWN]])
    if len(leaks) > _SHOWN:
        output.note(f"and {len(leaks) - _SHOWN} more; --json lists all")
    fields: dict[str, object] = {"folder": str(folder), "leaks": [leak._asdict() for leak in leaks]}
    if not leaks:
        output.line(f"nothing found in {one_line(str(folder))}")
        output.result("redact", fields)
        return 0
    output.note("  next:  pm redact FILE --in-place   (and change what leaked: it has been on disk)")
    problem = TraceError(f"{len(leaks)} places hold what looks like secrets", next_step="pm redact FILE --in-place")
    output.failure("redact", problem, 1, fields)
    return 1


def _line(leak: Leak) -> str:
    times = f" ({leak.finds} times)" if leak.finds > 1 else ""
    return f"{one_line(leak.path)}:{leak.line}  {leak.rule}{times}"


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


def _inside(context: Context, name: str) -> Path:
    return context.folder / Path(name).expanduser()
