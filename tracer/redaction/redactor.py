"""The redaction port: what every writer of records calls before a byte reaches the disk.

Implementations promise: deterministic for one project key, total on any JSON value, and never slower than linear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NewType, Protocol

Clean = NewType("Clean", str)
"""Text that a redactor gave back, or a part of such: what alone may be cut, recorded, answered and shown."""
CleanLine = NewType("CleanLine", bytes)
"""A record's line, made of what a redactor gave back and of our own words, numbers and ids."""


class RedactionSettings(NamedTuple):
    """What a project's settings add: variables whose values are secret too, and rules as (name, RE2 pattern).

    Its fields are keyword arguments of `build_redactor`.
    """

    extra_names: tuple[str, ...] = ()
    extra_rules: tuple[tuple[str, str], ...] = ()


NO_ADDITIONS: Final = RedactionSettings()


class Redacted(NamedTuple):
    """A value with its secrets replaced, and how many marks each rule left."""

    value: Any
    counts: Mapping[str, int]


class Redactor(Protocol):
    """Replaces secrets by `[REDACTED:<rule>:<6 hex>]`."""

    def redact_text(self, text: str) -> tuple[Clean, Mapping[str, int]]:
        """`text` with its secrets replaced, and the count by rule."""
        ...

    def redact_value(self, value: Any) -> Redacted:
        """A JSON value with every string in it (keys too) redacted; the shape stays."""
        ...
