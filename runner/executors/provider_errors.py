"""Provider errors in the vocabulary of the port: HTTP statuses, headers, error bodies, messages.

One table of statuses for the API and for agents that quote it. No SDK import.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from runner.executors.executor_port import AnswerError
from tracer import clock
from tracer.names import ErrorKind
from tracer.redaction.cuts import beginning


@cache
def _table() -> dict[str, Any]:
    """Read after trouble alone."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _says(message: str, phrases: list[str]) -> bool:
    return re.search("|".join(phrases), message, re.IGNORECASE) is not None


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
_TOO_LARGE: Final = frozenset({400, 413})
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
    return _says(message, _table()["lost_session"])


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
        next_step=_table()["next"]["program"].get(kind, ""),
    )


def _kind(message: str, status: int | None) -> ErrorKind | None:
    status = status_in(message) if status is None else status
    if status in {None, *_TOO_LARGE} and _says(message, _table()["context"]):
        return "context"
    told = (row["kind"] for row in _table()["message"] if _says(message, row["says"]))
    known: ErrorKind | None = _table()["status"].get(str(status)) or next(told, None)
    return known or ("network" if status is not None and status >= 500 else None)


def classify_error(*, status: int | None, body: object, headers: Mapping[str, str], text: str) -> AnswerError:
    """The port's view of an error answer; `status` is None where no answer came at all."""
    told = body.get("error", body) if isinstance(body, Mapping) else None
    inner: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    message = str(inner.get("message") or text)
    kind: ErrorKind | None = _table()["type"].get(str(inner.get("type", "")))
    if kind is None or (kind == "network" and str(status) in _table()["status"]):
        kind = _kind_of_status(status)
    if kind == "crash" and _says(message, _table()["credit"]):
        kind = "auth"
    if status in _TOO_LARGE and _says(message, _table()["context"]):  # the conversation no longer fits the model
        kind = "context"
    return AnswerError(
        kind=kind,
        message=message,
        retry_after_s=parse_retry_after(headers),
        next_step=_table()["next"]["api"].get(kind, ""),
    )


def _kind_of_status(status: int | None) -> ErrorKind:
    known: ErrorKind | None = _table()["status"].get(str(status))
    return known or ("network" if status is None or status >= 500 or status == 200 else "crash")
