"""The second look at everything that leaves: fails closed.

A first pass replaces; this one only judges. It names the rule and the place of what it finds, never the secret.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tracer.errors import TraceError

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor


class LeakError(TraceError):
    """What was about to leave still holds something that should have been replaced; nothing was written."""


def verify_clean(redactor: ProjectRedactor, text: str, *, what: str = "the export") -> None:
    """Raise `LeakError` if `redactor` would still change `text`; `what` names it in the error."""
    data = text.encode("utf-8", "surrogatepass")
    marks = redactor.marks(data)
    if marks:
        listed = ", ".join(f"{count} x {rule}" for rule, count in sorted(Counter(mark.rule for mark in marks).items()))
        line = data.count(b"\n", 0, marks[0].start) + 1
        raise LeakError(
            f"{what} still holds what looks like secrets: nothing was written",
            why=f"{listed}; the first in line {line}",
            next_step="run `pm redact` on the source, or remove the secret, and export again",
        )
