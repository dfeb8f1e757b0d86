"""What strangers send made writable as JSON: text without lone surrogates, values that every reader takes. Pure.

Lone surrogates become U+FFFD, integers beyond 64 bits decimal text, NaN and infinities null, bytes text, tuples and
sets lists; deeper than 100 levels a marker stands for the rest. A value that needs none of this is returned as the
same object.
"""

from __future__ import annotations

import os
from operator import is_
from typing import Any, Final

from tracer.errors import TraceError

_DEPTH: Final = 100
_TOO_DEEP: Final = f"[left out: nested deeper than {_DEPTH} levels]"
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 64) - 1


def clean_text(text: str) -> str:
    """`text` with lone surrogates replaced by U+FFFD (surrogate pairs become the character they mean)."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text if type(text) is str else str(text)


def clean_json(value: Any, *, _depth: int = 0) -> Any:
    """`value` as JSON holds it; the same object where nothing had to change.

    Raises `TraceError` (a type that has no JSON form).
    """
    kind = type(value)
    if kind is str:
        return clean_text(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if _SMALLEST <= value <= _LARGEST else _decimal(value)
    if kind is float:
        return value if value - value == 0.0 else None
    if _depth >= _DEPTH:
        return _TOO_DEEP
    if kind is dict:
        return _clean_dict(value, _depth)
    if kind is list:
        cleaned = [clean_json(item, _depth=_depth + 1) for item in value]
        return value if all(map(is_, cleaned, value)) else cleaned
    return _clean_other(value, _depth)


def _clean_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    cleaned, changed = {}, False
    for key, item in value.items():
        name = clean_text(key) if type(key) is str else clean_text(str(key))
        cleaned[name] = kept = clean_json(item, _depth=depth + 1)
        changed = changed or kept is not item or name is not key
    return cleaned if changed else value


def _clean_other(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return clean_text(str(value))
    if isinstance(value, bool | int | float):
        return clean_json(float(value) if isinstance(value, float) else int(value), _depth=depth)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, os.PathLike):
        return clean_text(os.fsdecode(value))
    if isinstance(value, set | frozenset):
        return clean_json(sorted(value, key=str), _depth=depth)
    if isinstance(value, list | tuple):
        return clean_json(list(value), _depth=depth)
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return clean_json({key: value[key] for key in value}, _depth=depth)
    raise TraceError(
        f"a value of type {type(value).__name__!r} has no JSON form",
        next_step="this is a defect: give the tracer text, numbers, lists and mappings",
    )


def _decimal(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # beyond the interpreter's limit of 4,300 digits
        return hex(value)
