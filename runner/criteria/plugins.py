"""Teams' own criteria: entry points of the group `pm_orchestrator.criteria`.

An entry point names a `Criterion` or a function that takes an `Evidence` and answers a `Finding`. One that cannot be
loaded, or is none of these, becomes a criterion that fails by its name: a check that is missing never passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from runner.criteria.model import Criterion, Evidence, Finding

__all__ = ["GROUP", "team_criteria"]

GROUP = "pm_orchestrator.criteria"


def team_criteria(found: Iterable[EntryPoint] | None = None) -> tuple[Criterion, ...]:
    """The installed teams' criteria in the order of their ids; `found` is for tests.

    Reading what is installed costs about 45 ms, so this is called when a task is judged, not at start.
    """
    points = entry_points(group=GROUP) if found is None else found
    return tuple(sorted((_load(point) for point in points), key=lambda criterion: criterion.id))


def _load(point: EntryPoint) -> Criterion:
    try:
        loaded = point.load()
    except Exception as error:  # noqa: BLE001 - plug-in load: whatever it raises becomes a criterion that fails by name
        return _broken(point, f"{type(error).__name__}: {error}")
    if isinstance(loaded, Criterion):
        if loaded.id[:1].upper() == "Q" and loaded.id[1:].isdigit():
            return _broken(point, f"the id {loaded.id!r} is reserved for built-in criteria")
        return loaded
    if callable(loaded):
        name = str(getattr(loaded, "__doc__", None) or point.name).strip().split("\n", 1)[0].rstrip(".")
        return Criterion(id=point.name, name=name, check=loaded, explain=str(getattr(loaded, "__doc__", "") or ""))
    return _broken(point, f"{point.value!r} is neither a Criterion nor a function")


def _broken(point: EntryPoint, why: str) -> Criterion:
    def check(_evidence: Evidence) -> Finding:
        return Finding(passed=False, reason=f"criterion {point.name!r} could not be loaded ({why})")

    return Criterion(id=point.name, name=point.name, check=check, explain=f"Could not be loaded: {why}")
