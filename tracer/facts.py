"""Which recorded answers cost nothing: a provider that refuses to answer charges nothing either. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_REFUSALS: Final = frozenset({"rate_limit", "overloaded", "auth", "unavailable"})


def is_unbilled(data: Mapping[str, Any]) -> bool:
    """Whether an LLM_RESPONSE's `data` tells of a refusal before anything was said, done or counted.

    Its unknown cost then leaves the sum of a task known; one that was cut off on the way may have cost something.
    """
    error = data.get("error")
    if not isinstance(error, dict) or error.get("kind") not in _REFUSALS:
        return False
    return not any(data.get(key) for key in ("usage", "output", "tool_call_count"))
