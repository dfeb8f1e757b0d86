"""The only module that reads the clock or draws random ids, so that tests can stand in for both.

Wall-clock values are UTC. A wall clock may step backwards: order is file order, never timestamp order.
"""

from __future__ import annotations

import os
import time
from functools import lru_cache

_MS_PER_S = 1000
# Milliseconds of each `:SS`: looking up is faster than converting.
_SECONDS = {f":{second:02d}": second * _MS_PER_S for second in range(60)}
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def parse_duration(text: str, *, needs_unit: bool = False) -> float | None:
    """Seconds in `90s`, `15m`, `2h`, `30d`, `1w`, in a bare number unless it `needs_unit`; None for anything else."""
    unit = _UNITS_S.get(text[-1:].lower())
    if not text.isascii() or (needs_unit and unit is None):
        return None
    try:
        seconds = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def seconds_text(milliseconds: object) -> str:
    """`7.9 s`, `2 min 05 s`, `1 h 02 min`; an empty text where unknown."""
    if not isinstance(milliseconds, int | float):
        return ""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def now_epoch_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def from_epoch_ms(epoch_ms: int) -> str:
    """ISO 8601 with milliseconds and `Z`, e.g. `2025-01-23T10:30:00.100Z`."""
    seconds, millis = divmod(epoch_ms, _MS_PER_S)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{millis:03d}Z"


@lru_cache(maxsize=64)
def _minute(text: str) -> int:
    """Milliseconds at the beginning of a minute; neighbouring records share it."""
    from datetime import UTC, datetime  # 2 ms, only where a time is read

    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def epoch_ms(text: str) -> int | None:
    """Milliseconds since 1970 UTC of an ISO 8601 time (without a zone: UTC); None where it is none."""
    if len(text) == 24:  # as `from_epoch_ms` and other programs write it
        second, fraction = _SECONDS.get(text[16:19]), text[20:23]
        if second is not None and text[19] == "." and text[23] == "Z" and fraction.isascii() and fraction.isdigit():
            try:
                return _minute(text[:16]) + second + int(fraction)
            except ValueError:
                return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def since_iso(text: str) -> str:
    """`30d`, `2h`, `2026-01-31` or `2026-01-31T10:30` (UTC) as the ISO time that facts are compared with.

    Raises UsageError: neither a span nor a date.
    """
    from tracer.errors import UsageError

    seconds = parse_duration(text, needs_unit=True)  # a bare number may be a date: 20260131
    if seconds is not None:
        return from_epoch_ms(round(max(0, now_epoch_ms() - seconds * 1000)))
    moment = epoch_ms(text)
    if moment is None:
        raise UsageError(f"{text!r} is neither a span nor a date", next_step="write 30d, 2h or 2026-01-31")
    return from_epoch_ms(max(0, moment))


def now_iso() -> str:
    """Now, as the envelope's `timestamp`."""
    return from_epoch_ms(now_epoch_ms())


def monotonic() -> float:
    """Seconds on a clock that never goes back; for durations only."""
    return time.monotonic()


def new_id() -> str:
    """A fresh random UUID (version 4) as text, without importing `uuid` (8 ms) on the start-up path."""
    raw = bytearray(os.urandom(16))  # as `secrets` does, whose import takes 4 ms
    raw[6] = (raw[6] & 0x0F) | 0x40
    raw[8] = (raw[8] & 0x3F) | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def short_token(length: int = 8) -> str:
    """Random hexadecimal digits for file and session names."""
    return os.urandom((length + 1) // 2).hex()[:length]
