"""The last look before anything leaves: whatever still looks like a secret stops the export, named by its place.

It judges and never changes: what was stored was redacted when it came in, so a find here means newer rules, raw mode or
a gap. The place is a JSON pointer; the secret itself is never told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tracer.redaction.verify import LeakError

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor

__all__ = ["Leak", "audit_value", "find_leaks"]

_TOLD: Final = 5


class Leak(NamedTuple):
    """So many `finds` of `rule` in the string at `pointer`."""

    pointer: str
    rule: str
    finds: int


def audit_value(redactor: ProjectRedactor, value: Any, *, what: str) -> None:
    """Raise `LeakError` with the places if `value` (JSON) still holds what `redactor` would replace."""
    if not redactor.touched_value(value):
        return
    leaks = find_leaks(redactor, value)
    told = [f"{leak.finds} x {leak.rule} at {leak.pointer}" for leak in leaks[:_TOLD]]
    more = len(leaks) - len(told)
    raise LeakError(
        f"{what} still holds what looks like secrets: nothing was written",
        why="\n".join([*told, *([f"and at {more} more places"] if more > 0 else [])]),
        next_step="export with --redact to replace them in the copy, or leave the trace out",
    )


def find_leaks(redactor: ProjectRedactor, value: Any) -> list[Leak]:
    """Where the finds are. A find that only shows across strings is told at the root."""
    leaks = [
        Leak(pointer, rule, count)
        for pointer, key, text in _strings(value, "", "")
        for rule, count in sorted(redactor.touched_value({key: text} if key else [text]).items())
    ]
    return leaks or [Leak("/", rule, count) for rule, count in sorted(redactor.touched_value(value).items())]


def _strings(value: Any, pointer: str, key: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, str):
        yield pointer or "/", key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _strings(inner, f"{pointer}/{_escaped(name)}", name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _strings(inner, f"{pointer}/{index}", key)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
