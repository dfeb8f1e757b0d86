"""How long a provider asks to wait, from the headers of its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from tracer import clock

__all__ = ["parse_retry_after"]


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
