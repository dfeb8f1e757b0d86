"""The collector's errors, leaves of the one exception tree (`tracer.errors`).

UsageError
├── IntakeError            what was sent breaks a rule of the schema; says where (HTTP 422)
│   └── TooLargeError      it is beyond a limit; says which (HTTP 413)
└── ConflictError          it contradicts what is stored (HTTP 409)
    └── EventConflictError an event's id or seq is taken by other content
NotFoundError
└── DeletedError           the trace was deleted on request (HTTP 410)
CredentialsError
└── ForbiddenError         a token has no right to what was asked (HTTP 403)
UnavailableError
└── OverloadedError        too much is under way; try again after `retry_after_s` (HTTP 503)
"""

from __future__ import annotations

from tracer.clock import from_epoch_ms
from tracer.errors import ConflictError, CredentialsError, NotFoundError, UnavailableError, UsageError


class IntakeError(UsageError):
    """What was sent breaks a rule: `place` (`events[3].payload.patch`) and `rule` (a stable word) say which."""

    def __init__(self, what: str, *, place: str, rule: str, why: str = "", next_step: str = "") -> None:
        super().__init__(what, why=why, next_step=next_step)
        self.place = place
        self.rule = rule
        self.problems: tuple[tuple[str, str, str], ...] = ((place, rule, why),)
        """Everything found, as (place, rule, why); at most 20."""


class TooLargeError(IntakeError):
    """A field, a batch or a trace is beyond its `limit` (bytes or events, as `rule` says)."""

    def __init__(self, what: str, *, place: str, rule: str, limit: int, next_step: str = "") -> None:
        super().__init__(what, place=place, rule=rule, why=f"the limit is {limit}", next_step=next_step)
        self.limit = limit


class ForbiddenError(CredentialsError):
    """A token was given, and has no right to what was asked."""


class EventConflictError(ConflictError):
    """An event cannot be taken: its id or its seq is there already with other content."""

    def __init__(self, what: str, *, event_id: str, seq: int, why: str = "", next_step: str = "") -> None:
        super().__init__(what, why=why, next_step=next_step)
        self.event_id = event_id
        self.seq = seq


class OverloadedError(UnavailableError):
    """Too much is waiting to be written; nothing of this call was stored."""

    def __init__(self, what: str, *, retry_after_s: int = 1) -> None:
        super().__init__(what, next_step=f"try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class DeletedError(NotFoundError):
    """The trace was deleted on request; only its id and the time are left."""

    def __init__(self, trace_id: str, deleted_at_ms: int) -> None:
        super().__init__(f"trace {trace_id!r} was deleted", why=f"on request, at {from_epoch_ms(deleted_at_ms)}")
        self.trace_id = trace_id
        self.deleted_at_ms = deleted_at_ms


def other_content(event_id: str, *, seq: int) -> EventConflictError:
    """The event with this id, at `seq`, differs from the one that is there."""
    return EventConflictError(
        f"the event {event_id!r} is already there with other content",
        event_id=event_id,
        seq=seq,
        why="an event id stands for one content",
        next_step="give the new event an id of its own",
    )


def unknown_blob(place: str, *, why: str = "", next_step: str = "upload it first (PUT /blobs/{sha256})") -> IntakeError:
    """`place` names a blob that is not the trace's."""
    what = f"{place} names a blob that is not here"
    return IntakeError(what, place=place, rule="unknown_blob", why=why, next_step=next_step)


def no_consent(what: str, place: str, *, next_step: str = "") -> IntakeError:
    """Something that only `store_raw_code` would allow."""
    why = "developer.consent_flags.store_raw_code is false"
    return IntakeError(what, place=place, rule="consent", why=why, next_step=next_step)
