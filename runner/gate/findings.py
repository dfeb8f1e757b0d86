"""How a criterion's places become its result: what counts, what is only reported, and the one-line reason.

The reason is the first place in full, `TODO found at src/login.py:2`, then how many more there are; where the place
is in the answer itself it is the message alone, `TODO found`.
"""

from __future__ import annotations

from collections.abc import Iterable

from runner.gate.criterion import Finding, Place

_EXCERPT = 160
_SHOWN = 3


def at(
    kind: str,
    message: str,
    *,
    path: str | None = None,
    line: int | None = None,
    excerpt: str = "",
    suggestion: str = "",
    preexisting: bool = False,
) -> Place:
    """A place of type `kind` with its excerpt cut to one short line."""
    return Place(
        type=kind,
        message=message,
        path=path,
        line=line,
        excerpt=" ".join(excerpt.split())[:_EXCERPT],
        suggestion=suggestion,
        preexisting=preexisting,
    )


def finding_of(places: Iterable[Place]) -> Finding:
    """Passed where no place counts; places that were there before are carried along and never reject."""
    found = tuple(places)
    counting = [place for place in found if not place.preexisting]
    if not counting:
        return Finding(passed=True, places=found)
    shown = list(dict.fromkeys(_words(place) for place in counting))
    more = len(shown) - _SHOWN
    reason = ", ".join(shown[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return Finding(passed=False, reason=reason, places=found)


def _words(place: Place) -> str:
    if place.path is None:
        return place.message
    return f"{place.message} at {place.path}:{place.line}" if place.line else f"{place.message}: {place.path}"
