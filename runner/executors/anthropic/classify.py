"""What went wrong on the wire, in the vocabulary of the port. Pure: no SDK import, so tests need no network.

A body's own `error.type` decides before the status number, since an error inside a stream carries status 200.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from runner.executors.http_status import KIND_BY_STATUS
from runner.executors.port import AnswerError, ErrorKind
from runner.executors.retry_after import parse_retry_after

__all__ = ["classify_error", "is_context_overflow"]

_BY_TYPE: Final[Mapping[str, ErrorKind]] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "auth",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
    "timeout_error": "timeout",
    "api_error": "network",
    "not_found_error": "unavailable",
    "invalid_request_error": "crash",
    "request_too_large": "crash",
}
_NEXT: Final[Mapping[str, str]] = {
    "auth": "check the key and the account, then run again",
    "unavailable": "check --model and the base URL",
    "rate_limit": "wait, or lower the number of parallel tasks",
    "overloaded": "try again in a while, or choose another model",
    "network": "check the connection and the base URL",
    "timeout": "raise --timeout, or try again",
    "crash": "read the message; a shorter request or another model may help",
}
_CREDIT = re.compile(r"credit balance|billing|payment", re.IGNORECASE)
_OVERFLOW = re.compile(r"prompt is too long|context (?:window|length|limit)|too many (?:input )?tokens", re.IGNORECASE)


def is_context_overflow(status: int | None, message: str) -> bool:
    """True where the request was refused because the conversation no longer fits the model."""
    return status in {400, 413} and _OVERFLOW.search(message) is not None


def _body_error(body: object) -> Mapping[str, Any]:
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, Mapping):
            return inner
    return {}


def classify_error(*, status: int | None, body: object, headers: Mapping[str, str], text: str) -> AnswerError:
    """The port's view of an error answer; `status` is None where no answer came at all."""
    inner = _body_error(body)
    message = str(inner.get("message") or text)
    kind = _BY_TYPE.get(str(inner.get("type", "")))
    if kind is None or (kind == "network" and status in KIND_BY_STATUS):
        kind = _kind_of_status(status)
    if kind == "crash" and _CREDIT.search(message):
        kind = "auth"
    return AnswerError(
        kind=kind, message=message, retry_after_s=parse_retry_after(headers), next_step=_NEXT.get(kind, "")
    )


def _kind_of_status(status: int | None) -> ErrorKind:
    if status is None:
        return "network"
    known = KIND_BY_STATUS.get(status)
    if known is not None:
        return known
    return "network" if status >= 500 or status == 200 else "crash"
