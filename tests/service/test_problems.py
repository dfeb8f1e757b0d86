"""What each error of the tree is over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.errors import DeletedError, EventConflictError, IntakeError, OverloadedError, TooLargeError
from service.admission import Admission, BusyError
from service.problems import problem_of
from tracer.errors import ConflictError, LockedError, NotFoundError, RecordError, UnavailableError


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (IntakeError("x", place="body", rule="json"), 422, None),
        (TooLargeError("x", place="body", rule="batch_bytes", limit=7), 413, None),
        (EventConflictError("x", event_id="e", seq=1), 409, None),
        (ConflictError("x"), 409, None),
        (LockedError("x"), 409, None),
        (DeletedError("t", 0), 410, None),
        (NotFoundError("x"), 404, None),
        (BusyError(), 429, "1"),
        (OverloadedError("x", retry_after_s=3), 503, "3"),
        (RecordError("the disk is full"), 503, "5"),
        (UnavailableError("x"), 503, "5"),
    ],
)
def test_an_error_has_its_status_and_says_when_to_come_again(error: Any, status: int, retry_after: str | None) -> None:
    answer = problem_of(error)
    assert (answer.status_code, answer.headers.get("retry-after")) == (status, retry_after)
    told = json.loads(bytes(answer.body))
    assert told["status"] == status
    assert told["detail"]


def test_a_limit_and_a_place_are_told() -> None:
    told = json.loads(bytes(problem_of(TooLargeError("x", place="events", rule="batch_events", limit=9)).body))
    assert told["errors"] == [{"place": "events", "rule": "batch_events", "message": "x", "limit": 9}]


def test_admission_bounds_number_and_size_and_lets_a_lone_request_in() -> None:
    door = Admission(calls=2, size=100)
    with door.admitted(1_000), pytest.raises(BusyError), door.admitted(1):
        pass
    with door.admitted(50):
        with door.admitted(50), pytest.raises(BusyError), door.admitted(0):
            pass
        with pytest.raises(BusyError), door.admitted(51):
            pass
    assert (door.calls_now, door.size_now) == (0, 0)
