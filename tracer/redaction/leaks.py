"""The second look at everything that leaves: fails closed.

A first pass replaces; this one only judges. It names the rule and the place of what it finds, never the secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from tracer.errors import TraceError

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor


class LeakError(TraceError):
    """What was about to leave still holds something that should have been replaced; nothing was written."""


def verify_clean(redactor: ProjectRedactor, text: str, *, what: str = "the export") -> None:
    """Raise `LeakError` if `redactor` would still change `text`; `what` names it in the error."""
    touched = redactor.touched(text)
    if touched:
        counts: dict[str, int] = {}
        for find in touched:
            counts[find.rule] = counts.get(find.rule, 0) + 1
        data = text.encode("utf-8", "surrogatepass")
        line = data.count(b"\n", 0, touched[0].start) + 1
        _refuse(counts, what, f"the first in line {line}")


def verify_clean_value(redactor: ProjectRedactor, value: Any, *, what: str = "the export") -> None:
    """As `verify_clean`, for a JSON value."""
    counts = redactor.touched_value(value)
    if counts:
        _refuse(counts, what, "in its strings")


def _refuse(counts: Mapping[str, int], what: str, where: str) -> NoReturn:
    listed = ", ".join(f"{count} x {rule}" for rule, count in sorted(counts.items()))
    raise LeakError(
        f"{what} still holds what looks like secrets: nothing was written",
        why=f"{listed}; {where}",
        next_step="run `pm redact` on the source, or remove the secret, and export again",
    )
