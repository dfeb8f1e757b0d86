"""What the quality checks of a trace come to: the facts, in the order they were stored, folded into the schema's `qa`.

Each fact's `result` is a part of `qa` (`{"schema_valid": true}`, `{"tests": {…}}`, `{"judge": {…}}`); a later part
takes the place of an earlier one. A step that only notes what it did (`materialize`) has an empty part. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from pydantic import ValidationError

from tracer.capture.document import Qa
from tracer.errors import TraceError

__all__ = ["Fact", "fold_qa"]


class Fact(Protocol):
    """What the fold needs of `collector.store.port.QaFact`."""

    @property
    def step(self) -> str:
        """Which check."""
        ...

    @property
    def result(self) -> dict[str, Any]:
        """Its part of `qa`."""
        ...


def fold_qa(facts: Iterable[Fact]) -> Qa | None:
    """The `qa` block; None where no check has left a part of it.

    Raises:
        TraceError: a fact holds what the schema does not know, named by its step.

    """
    parts: dict[str, Any] = {}
    for fact in facts:
        try:
            Qa.model_validate(fact.result)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise TraceError(
                f"the result of the check {fact.step!r} is no part of the trace's qa", why=f"{place}: {first['msg']}"
            ) from error
        parts |= fact.result
    return Qa.model_validate(parts) if parts else None
