"""A trace's QA facts: folded into the schema's `qa`, and which step's result is current. Pure.

Each fact's `result` is a part of `qa`; a later part replaces an earlier one. A step's key is the hash of its inputs, to
which requests to check again belong. A result that only notes trouble (`:trouble-…`) never counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, Literal

from pydantic import ValidationError

from collector.store.port import QaFact
from tracer.capture.canonical import canonical_json
from tracer.capture.document import Qa
from tracer.errors import TraceError


def fold_qa(facts: Iterable[QaFact]) -> Qa | None:
    """The `qa` block; None where no check has left a part of it."""
    parts: dict[str, Any] = {}
    for fact in facts:
        if fact.step in NOTES:
            continue
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


Step = Literal["schema", "checkout", "tests", "judge", "materialize"]
STEPS: Final[tuple[Step, ...]] = ("schema", "checkout", "tests", "judge", "materialize")
NOTES: Final = frozenset({"profile", "alternatives", "consent"})
"""Facts that are no check's result: QA profile and other right fixes that somebody gave, consent that was withdrawn."""
_ASKING: Final = NOTES - {"consent"}
_VERSION: Final = "1"


def key_of(step: Step, *inputs: Any) -> str:
    """The hash of a step's inputs (JSON values)."""
    return hashlib.sha256(canonical_json([_VERSION, step, list(inputs)])).hexdigest()


class StepFacts:
    """The facts of one trace."""

    def __init__(self, facts: Iterable[QaFact]) -> None:
        self._facts = list(facts)

    def add(self, fact: QaFact) -> None:
        """Take note of a fact that was stored now."""
        self._facts.append(fact)

    def marker(self, step: Step) -> str:
        """The last request to do this step again; empty where nobody asked."""
        asked = {"requested", f"requested-{step}"}
        return next((fact.input_hash for fact in reversed(self._facts) if fact.step in asked), "")

    def done(self, step: Step, key: str) -> QaFact | None:
        """The step's latest result if it is of these inputs."""
        latest = self.latest(step)
        if latest is None:
            return None
        base, _, suffix = latest.input_hash.partition(":")
        return latest if base == key and (not suffix or suffix.startswith("again-")) else None

    def all_of(self, step: Step) -> list[QaFact]:
        """Every result of the step, oldest first."""
        return [fact for fact in self._facts if fact.step == step]

    @property
    def tested(self) -> dict[str, Any] | None:
        """What the tests came to when they ran last; None where they never did."""
        parts = [fact.result.get("tests") for fact in reversed(self.all_of("tests"))]
        return next((part for part in parts if part is not None and not part.get("not_testable")), None)

    def asks(self, now: Iterable[QaFact]) -> bool:
        """Whether among the facts that there are `now` somebody asks for something that these do not hold."""
        known = {(fact.step, fact.input_hash) for fact in self._facts}
        new = [fact.step for fact in now if (fact.step, fact.input_hash) not in known]
        return any(step in _ASKING or step.startswith("requested") for step in new)

    def asked_alone(self, step: Step) -> bool:
        """Whether somebody asked for this very step since its latest result."""
        names = [fact.step for fact in reversed(self._facts) if fact.step in {step, f"requested-{step}"}]
        return names[:1] == [f"requested-{step}"]

    def asked_since(self, step: Step) -> bool:
        """Whether somebody asked for this step, or for all of them, since its latest result."""
        names = [fact.step for fact in reversed(self._facts) if fact.step in {step, "requested", f"requested-{step}"}]
        return bool(names) and names[0] != step

    def latest(self, step: Step) -> QaFact | None:
        """The step's latest result."""
        return next((fact for fact in reversed(self._facts) if fact.step == step), None)

    def fresh_key(self, step: Step, key: str) -> str:
        """A key under which a result for `key` can be stored: it may have been there, before another one came."""
        used = {fact.input_hash for fact in self._facts if fact.step == step}
        if key not in used:
            return key
        return next(name for number in range(1, len(used) + 2) if (name := f"{key}:again-{number}") not in used)

    def note(self, name: str) -> dict[str, Any] | None:
        """The latest note of that name."""
        return next((fact.result for fact in reversed(self._facts) if fact.step == name), None)

    def results(self) -> list[list[Any]]:
        """Step and key of each result that leaves a part of `qa`, in order."""
        return [[fact.step, fact.input_hash] for fact in self._facts if fact.result and fact.step not in NOTES]
