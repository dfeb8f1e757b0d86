"""What stands where a secret stood: `[REDACTED:<rule>:<6 hex>]`.

The hexadecimal part is keyed by the project and depends on the secret alone, not on the rule: equal secrets stay
recognisably equal, and nobody without the key can test a guess.
"""

from __future__ import annotations

import hashlib
import hmac
import re

__all__ = ["MARKER", "PLACEHOLDER", "placeholder"]

MARKER = b"[REDACTED:"
PLACEHOLDER = re.compile(rb"\[REDACTED:([a-z0-9][a-z0-9-]{0,63}):[0-9a-f]{6}\]")
_HEX_DIGITS = 6


def placeholder(rule: str, secret: bytes, *, key: bytes) -> bytes:
    """The mark for `secret` (its plain bytes, encodings undone), found by `rule`."""
    digest = hmac.new(key, secret, hashlib.sha256).hexdigest()
    return b"%s%s:%s]" % (MARKER, rule.encode("ascii"), digest[:_HEX_DIGITS].encode("ascii"))
