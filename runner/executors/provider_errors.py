"""Provider errors in the vocabulary of the port: HTTP statuses, headers, error bodies, messages.

One table of statuses for the API and for agents that quote it. No SDK import.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from runner.executors.executor_port import AnswerError
from tracer import clock
from tracer.names import ErrorKind
from tracer.redaction.cuts import beginning

KIND_BY_STATUS: Final[Mapping[int, ErrorKind]] = {
    401: "auth",
    402: "auth",
    403: "auth",
    404: "unavailable",
    408: "timeout",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the provider asks for: `retry-after-ms`, else `retry-after` as a number or an HTTP date."""
    millis = _seconds(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    value = headers.get("retry-after")
    seconds = _seconds(value)
    if value is None or seconds is not None:
        return seconds
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(moment.timestamp() - clock.now_epoch_ms() / 1000, 0.0)


def _seconds(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return max(number, 0.0) if math.isfinite(number) else None


_STATUS: Final = re.compile(r"(?:status(?: code)?[: ]+|\bAPI Error:? |\bcode\"?: ?|\()(\d{3})\b", re.IGNORECASE)
_SPAN: Final = r"\d+(?:\.\d+)? ?(?:ms|milliseconds?|s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?|d|days?)?\b"
_WAIT: Final = re.compile(
    r"(?:retry[- ]after|(?:try again|retry|resets?) (?:in|after)|retrying (?:after|in)|retryDelay\"?:)\D{0,3}"
    rf"((?:{_SPAN}(?:,? (?:and )?)?)+|(?:\d+(?:\.\d+)?(?:ms|[dhms]))+)",
    re.IGNORECASE,
)

_PART: Final = re.compile(r"(\d+(?:\.\d+)?) ?(ms|millisecond|s|m|h|d)?", re.IGNORECASE)
_WORDS: Final[tuple[tuple[ErrorKind, tuple[str, ...]], ...]] = (
    ("crash", ("root/sudo privileges", "unknown option", "unexpected argument")),
    (
        "auth",
        (
            "not logged in",
            "please run /login",
            "(?:invalid|incorrect) api key",
            "api[ _]key (?:not valid|is invalid)",
            "api_key_invalid",
            "authentication[_ ](?:failed|error)",
            "unauthorized",
            "forbidden",
            "missing environment variable",
            "auth(?:entication)? method",
            "credit balance",
            "billing",
            "permission[_ ]denied",
            "oauth token",
            r"must specify the \w*_?API_KEY",
        ),
    ),
    ("rate_limit", ("rate[ _-]?limit", "too many requests", "quota", "resource[_ ]exhausted", "usage limit")),
    ("overloaded", ("overloaded", "high demand", "at capacity", "service unavailable", r"\bunavailable\b")),
    ("timeout", ("timed? ?out", "deadline exceeded")),
    (
        "network",
        (
            "econnrefused|econnreset|enotfound|eai_again",
            "fetch failed|error sending request",
            r"network|\bdns\b|socket",
            "connection (?:error|refused|reset|closed)",
            "stream (?:disconnected|ended)|mid-response|finish reason",
            "internal server error|bad gateway|server[_ ]error",
        ),
    ),
    (
        "unavailable",
        ("model .{0,80}(?:not (?:found|exist|supported)|may not exist)", "issue with the selected model"),
    ),
    ("refusal", ("safeguards stopped", "usage policy", "refus(?:ed|al)", "safety classifier")),
)
_PHRASES: Final = tuple((kind, re.compile("|".join(words), re.IGNORECASE)) for kind, words in _WORDS)
_NEXT: Final[dict[str, str]] = {
    "rate_limit": "wait, or lower the number of parallel tasks",
    "overloaded": "try again in a while, or choose another model",
    "network": "check the connection, then `pm resume`",
    "timeout": "try again, or raise --timeout",
    "unavailable": "check --model",
    "context": "ask for less at once, or choose a model with a larger context",
    "refusal": "put the request differently",
}
_TOO_LARGE: Final = frozenset({400, 413})
_OVERFLOW: Final = re.compile(
    r"prompt is too long|context (?:window|length|limit)|too many (?:input )?tokens", re.IGNORECASE
)
_LOST_SESSION: Final = re.compile(
    r"error resuming session|no previous sessions found|no conversation found with session id|no rollout found for",
    re.IGNORECASE,
)
_LONGEST_WAIT_S: Final = 7 * 86400.0  # limits by the week are the longest that providers have
_UNITS: Final = {"ms": 0.001, "millisecond": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_to_wait(message: str) -> float | None:
    """The wait that `message` asks for, e.g. 3.5 for `try again in 3.5s`, 12420.0 for `in 3 hours 27 minutes`."""
    found = _WAIT.search(message)
    if found is None:
        return None
    seconds = sum(float(number) * _UNITS[unit.lower() or "s"] for number, unit in _PART.findall(found[1]))
    return min(seconds, _LONGEST_WAIT_S)


def is_lost_session(message: str) -> bool:
    """Whether the program says that it cannot go on in the session it was named."""
    return _LOST_SESSION.search(message) is not None


def status_in(message: str) -> int | None:
    """The HTTP status that an error text names."""
    found = _STATUS.search(message)
    return int(found[1]) if found else None


def classify_message(message: str, *, status: int | None = None, default: ErrorKind = "crash") -> AnswerError:
    """The port's view of an error text of a command line."""
    kind = _kind(message, status) or default
    return AnswerError(
        kind=kind,
        message=beginning(message.strip(), 2000) or "no reason given",
        retry_after_s=seconds_to_wait(message) if kind in {"rate_limit", "overloaded"} else None,
        next_step=_NEXT.get(kind, ""),
    )


def _kind(message: str, status: int | None) -> ErrorKind | None:
    status = status_in(message) if status is None else status
    if status in {None, *_TOO_LARGE} and _OVERFLOW.search(message) is not None:
        return "context"
    known = KIND_BY_STATUS.get(status) if status is not None else None
    if known is not None:
        return known
    for kind, pattern in _PHRASES:
        if pattern.search(message):
            return kind
    return "network" if status is not None and status >= 500 else None


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
_CLASSIFY_NEXT: Final[Mapping[str, str]] = {
    "context": _NEXT["context"],
    "auth": "check the key and the account, then run again",
    "unavailable": "check --model and the base URL",
    "rate_limit": "wait, or lower the number of parallel tasks",
    "overloaded": "try again in a while, or choose another model",
    "network": "check the connection and the base URL",
    "timeout": "raise --timeout, or try again",
    "crash": "read the message; a shorter request or another model may help",
}
_CREDIT = re.compile(r"credit balance|billing|payment", re.IGNORECASE)


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
    if status in _TOO_LARGE and _OVERFLOW.search(message):  # the conversation no longer fits the model
        kind = "context"
    return AnswerError(
        kind=kind, message=message, retry_after_s=parse_retry_after(headers), next_step=_CLASSIFY_NEXT.get(kind, "")
    )


def _kind_of_status(status: int | None) -> ErrorKind:
    if status is None:
        return "network"
    known = KIND_BY_STATUS.get(status)
    if known is not None:
        return known
    return "network" if status >= 500 or status == 200 else "crash"
