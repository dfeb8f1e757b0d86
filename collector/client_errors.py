"""What a collector's refusal means to the person at this end: one error of the tree for each status, in three lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from tracer.errors import (
    ConflictError,
    CredentialsError,
    LimitError,
    NotFoundError,
    PmError,
    UnavailableError,
    UsageError,
)

__all__ = ["TooLargeError", "is_passing", "refusal", "retry_after_s", "unreachable"]

_SAFE: Final = "nothing is lost: it stays in the spool"
_LONGEST_WAIT_S: Final = 60.0


class TooLargeError(LimitError):
    """413: an event, a blob or the whole trace is larger than the collector takes."""


def is_passing(status: int) -> bool:
    """Whether the same request may be answered well a little later."""
    return status in {408, 425, 429, 500, 502, 503, 504}


def retry_after_s(headers: Mapping[str, str], *, default: float) -> float:
    """Seconds to wait before the next try: the server's word where it is a number, at most a minute."""
    try:
        told = float(headers.get("retry-after", ""))
    except ValueError:
        return default
    return min(max(told, 0.0), _LONGEST_WAIT_S)


def unreachable(address: str, why: str) -> UnavailableError:
    """Nobody answered."""
    return UnavailableError(
        f"the collector at {address} cannot be reached",
        why=f"{why}; {_SAFE}",
        next_step="pm serve   or set PM_CAPTURE_SERVER",
    )


def refusal(status: int, body: bytes, *, address: str, doing: str) -> PmError:
    """The error for an answer of 400 and above; the collector's own words are its `why`.

    Problem documents (RFC 9457) say `detail` and `next`; anything else is shown as far as it is short text.
    """
    problem = _problem(body)
    why = str(problem.get("detail") or "") or f"status {status}"
    given = str(problem.get("next") or "")
    what = f"the collector refused {doing}"
    if status in {401, 403}:
        return CredentialsError(
            f"the collector at {address} refused the key",
            why=why,
            next_step=given or "a new key: pm tokens on the server, then PM_CAPTURE_TOKEN or --token-file here",
        )
    if status in {404, 410}:
        return NotFoundError(f"{what}: it does not know the trace", why=why, next_step=given or "pm capture list")
    if status == 409:
        return ConflictError(f"{what}: it has something else in that place", why=why, next_step=given or _CONFLICT)
    if status == 413:
        return TooLargeError(
            f"{what}: too large", why=why, next_step=given or "raise the collector's limit, or send less"
        )
    if status in {400, 405, 415, 422}:
        return UsageError(
            f"{what}: it is not valid", why=why, next_step=given or "mend what is named, and send it again"
        )
    if status in {429, 503}:
        return UnavailableError(f"the collector at {address} is busy", why=f"{why}; {_SAFE}", next_step=given or _LATER)
    return UnavailableError(f"the collector at {address} failed", why=f"{why}; {_SAFE}", next_step=given or _LATER)


_CONFLICT: Final = "pm capture get TRACE --view metadata shows what the collector has"
_LATER: Final = "try again in a while: pm capture append TRACE sends what is left"


def _problem(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body[:200].decode("utf-8", "replace").strip()
        return {"detail": text} if text and text.isprintable() else {}
    if not isinstance(found, dict):
        return {}
    if "detail" in found and not isinstance(found["detail"], str):
        found["detail"] = orjson.dumps(found["detail"])[:500].decode("utf-8", "replace")
    return found
