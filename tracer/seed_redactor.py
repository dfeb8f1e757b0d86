"""The built-in redactor: seed 000's four key shapes, PEM blocks and known values from the environment.

It stands in where the full engine (tracer.redaction.engine) is absent. Deterministic for one key, total on any JSON
value, linear: one alternation, no nested repeats. Placeholders are `[REDACTED:<rule>:<6 hex>]`, keyed.
"""

from __future__ import annotations

import hmac
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tracer.redaction.port import Redacted

__all__ = ["SeedRedactor"]

_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SHORTEST: Final = 8
_SHAPES: Final = (
    ("openai_key", r"\bsk-[A-Za-z0-9_-]{16,}"),
    ("google_key", r"\bAIza[A-Za-z0-9_-]{30,}"),
    ("github_token", r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    ("bearer", r"\bBearer [A-Za-z0-9._~+/-]{16,}=*"),
    ("private_key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"),
)


class SeedRedactor:
    """Implements `tracer.redaction.port.Redactor`; `key` is the project's secret, `environ` gives known values."""

    def __init__(self, *, key: bytes, environ: Mapping[str, str]) -> None:
        self._key = key
        values = {value for name, value in environ.items() if _NAME.search(name) and len(value) >= _SHORTEST}
        known = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
        shapes = [*([("known_value", known)] if known else []), *_SHAPES]
        self._pattern = re.compile("|".join(f"(?P<{rule}>{shape})" for rule, shape in shapes))

    def redact_text(self, text: str) -> tuple[str, Mapping[str, int]]:
        """`text` with its secrets replaced, and the count by rule; the same object when there are none."""
        counts: Counter[str] = Counter()
        redacted = self._replace(text, counts)
        return redacted, counts

    def redact_value(self, value: Any) -> Redacted:
        """A JSON value with every string in it (keys too) redacted; the same object when nothing was found."""
        counts: Counter[str] = Counter()
        return Redacted(self._walk(value, counts), counts)

    def _walk(self, value: Any, counts: Counter[str]) -> Any:
        if isinstance(value, str):
            return self._replace(value, counts)
        if isinstance(value, dict):
            return {self._replace(key, counts): self._walk(item, counts) for key, item in value.items()}
        if isinstance(value, list):
            return [self._walk(item, counts) for item in value]
        return value

    def _replace(self, text: str, counts: Counter[str]) -> str:
        if len(text) < _SHORTEST or self._pattern.search(text) is None:
            return text

        def mark(match: re.Match[str]) -> str:
            rule = str(match.lastgroup)
            counts[rule] += 1
            digest = hmac.new(self._key, match[0].encode("utf-8", "replace"), "sha256").hexdigest()
            return f"[REDACTED:{rule}:{digest[:6]}]"

        return self._pattern.sub(mark, text)
