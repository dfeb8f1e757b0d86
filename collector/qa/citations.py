"""A judge's reply made into a verdict, or into the reasons why it is refused. Pure.

Refused as a whole: no JSON of the schema, a score outside 0-5, the canary's word anywhere. Refused by dimension: a
score that cites no event, or one that is not in the packet; its score is then null and the verdict is `ungrounded`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from collector.qa.packet import Packet
from collector.qa.rubric import Reply, Scored, dimensions_of

__all__ = ["Evidence", "Opinion", "Read", "read_reply"]

_MOST_PROBLEMS = 20
_NAMES = frozenset({*Reply.model_fields, *Scored.model_fields})


class Evidence(NamedTuple):
    """Why a dimension got its score, and the events it rests on (all of them in the packet)."""

    reason: str
    event_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """One accepted reply. A dimension is None where its citations were refused (or where the optional one is null)."""

    scores: Mapping[str, int | None]
    evidence: Mapping[str, Evidence]
    rationale: str
    flags: frozenset[str]


class Read(NamedTuple):
    """What a reply came to: an opinion (None where the whole is refused) and its faults in our words.

    `tripped`: it obeyed the canary, so nothing it says can be used, nor can a repair of it.
    """

    opinion: Opinion | None
    problems: tuple[str, ...]
    tripped: bool = False


def read_reply(text: str, packet: Packet) -> Read:
    """Check one reply against the schema, the canary and the packet's event ids."""
    if packet.canary.casefold() in text.casefold():
        return Read(None, ("it followed the canary, so it followed instructions in the data",), tripped=True)
    try:
        reply = Reply.model_validate_json(text, strict=True)
    except ValidationError as error:
        return Read(None, _told(error))
    dimensions = dimensions_of(reply)
    problems = tuple(problem for name, scored in dimensions.items() for problem in _uncited(name, scored, packet))
    grounded = {
        name: scored for name, scored in dimensions.items() if scored and not any(_uncited(name, scored, packet))
    }
    return Read(
        Opinion(
            scores={name: grounded[name].score if name in grounded else None for name in dimensions},
            evidence={
                name: Evidence(row.reason, tuple(dict.fromkeys(row.event_ids))) for name, row in grounded.items()
            },
            rationale=reply.rationale,
            flags=frozenset(reply.flags) | ({"ungrounded"} if problems else frozenset()),
        ),
        problems,
    )


def _uncited(name: str, scored: Scored | None, packet: Packet) -> tuple[str, ...]:
    if scored is None:
        return ()
    if not scored.event_ids:
        return (f"{name} cites no event",)
    unknown = [event_id for event_id in scored.event_ids if event_id not in packet.event_ids]
    return (f"{name} cites {len(unknown)} event ids that are not in the record",) if unknown else ()


def _told(error: ValidationError) -> tuple[str, ...]:
    """Place and rule of each fault; the reply's own words (a key it made up) are not repeated."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return tuple(f"{_place(fault['loc'])}: {fault['type']}" for fault in faults)[:_MOST_PROBLEMS]


def _place(parts: tuple[int | str, ...]) -> str:
    return ".".join(str(part) if isinstance(part, int) or part in _NAMES else "(unknown)" for part in parts) or "answer"
