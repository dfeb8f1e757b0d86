"""What went wrong with an agent's command line, told from its words and numbers. Pure.

The command lines give no common error codes: a status number decides where there is one, else known phrases.
"""

from __future__ import annotations

import re
from typing import Final

from runner.executors.http_status import KIND_BY_STATUS
from runner.executors.port import AnswerError, ErrorKind

__all__ = ["classify_message", "is_lost_session", "seconds_to_wait"]

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
    ("overloaded", ("overloaded", "at capacity", "service unavailable", r"\bunavailable\b")),
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
    "refusal": "put the request differently",
}
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


def classify_message(message: str, *, status: int | None = None, default: ErrorKind = "crash") -> AnswerError:
    """The port's view of an error text of a command line."""
    kind = _kind(message, status) or default
    return AnswerError(
        kind=kind,
        message=message.strip()[:2000] or "no reason given",
        retry_after_s=seconds_to_wait(message) if kind in {"rate_limit", "overloaded"} else None,
        next_step=_NEXT.get(kind, ""),
    )


def _kind(message: str, status: int | None) -> ErrorKind | None:
    if status is None:
        found = _STATUS.search(message)
        status = int(found[1]) if found else None
    known = KIND_BY_STATUS.get(status) if status is not None else None
    if known is not None:
        return known
    for kind, pattern in _PHRASES:
        if pattern.search(message):
            return kind
    return "network" if status is not None and status >= 500 else None
