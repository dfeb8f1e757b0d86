"""Canonical JSON: one value, one run of bytes, whoever writes it.

The form is orjson's with sorted keys: compact, UTF-8, keys by code point, integers within 64 bits, no NaN. Two stores
that hold the same trace give the same document because both write it through here. It is not RFC 8785 (`1.0` stays
`1.0`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import orjson
from pydantic import BaseModel

from tracer.errors import TraceError


def canonical_json(value: Any) -> bytes:
    """`value` (JSON, or models and containers of models) as canonical bytes."""
    try:
        written = orjson.dumps(value, default=_fields, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise _no_form(str(error)) from error
    # orjson writes NaN and infinity as null without a word; only a text with a null in it needs the second look.
    if b"null" in written and _has_nan(value):
        raise _no_form("it holds NaN or an infinity")
    return written


def _no_form(why: str) -> TraceError:
    return TraceError("a value cannot be written as canonical JSON", why=why)


def _fields(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.__dict__
    raise TypeError(f"{type(value).__name__} is no JSON")


def _has_nan(value: Any) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return True
        elif isinstance(item, BaseModel):
            stack.extend(item.__dict__.values())
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, Iterable) and not isinstance(item, str | bytes):
            stack.extend(item)
    return False
