"""Judgments a regular expression cannot make: entropy, allow-lists, and what only looks like a secret. Pure."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable

__all__ = ["CHECKS", "entropy", "luhn"]

_TEMPLATE = re.compile(
    rb"^[$<{%\[(*@#!&]|\$\{|\{\{|\}\}|\.\.\.|xxxx|\*\*\*|<[a-z_ -]+>"  # the first sign, or a sign inside
    rb"|%\(|%[sdr]\b|\\\(",
    re.IGNORECASE,
)
_STAND_IN = re.compile(
    rb"^(?:your|my|some|the|an?|test|fake|dummy|sample|example|insert|enter|put|add|change)[-_ .]|change_?me"
    rb"|placeholder|[-_]here$"
    rb"|^(?:password|passwd|passphrase|secret|token|undefined|required|optional|disabled|redacted|hidden|string"
    rb"|example)\d{0,3}$",
    re.IGNORECASE,
)
_NAME = re.compile(rb"^(?:[A-Za-z_][A-Za-z_]*|[a-z]+(?:[-_./:][a-z]+)*)$")
_CODE = re.compile(rb"[()\[\]{};]|::|->|==|^(?:self|cls|this|os|sys|settings|config|env|process)\.|^\.{0,2}/|^https?:")
_CALL = re.compile(rb"^[A-Za-z_][\w.]*(?:\.[A-Za-z_]\w*)+$")
_PRINTABLE = re.compile(rb"^[\t\n\r\x20-\x7e]+$")


def entropy(data: bytes) -> float:
    """Shannon entropy of `data`, in bits a byte (characters are bytes here; secrets are ASCII)."""
    total = len(data)
    return -sum(n / total * math.log2(n / total) for n in Counter(data).values()) if total else 0.0


def luhn(digits: bytes) -> bool:
    """Whether the decimal `digits` carry a right check digit, as payment cards do."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = (digit - 48) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _stand_in(value: bytes) -> bool:
    """Whether `value` holds the place of a secret in a template or an explanation, or is one letter repeated."""
    return len(set(value)) < 3 or _TEMPLATE.search(value) is not None or _STAND_IN.search(value) is not None


def _assigned(value: bytes) -> bool:
    """A value given to a name such as `password`: neither a stand-in nor a piece of code."""
    value = value.strip(b"\"'")
    return not (_stand_in(value) or _NAME.match(value) or _CODE.search(value) or _CALL.match(value))


def _strong(value: bytes) -> bool:
    """As `_assigned`, and with a digit: for places where ordinary words stand as well."""
    return _assigned(value) and any(48 <= byte <= 57 for byte in value)


def _bearer(value: bytes) -> bool:
    """What follows the word bearer, and is no ordinary word after it."""
    if _TEMPLATE.search(value) or len(set(value)) < 3:
        return False
    return _NAME.match(value.rstrip(b"=.,:")) is None or (len(value) >= 16 and not value.islower()) or len(value) >= 24


def _provider(value: bytes) -> bool:
    """A key with a provider's prefix: words joined by dashes (a CSS class, a package) are none."""
    body = value[3:]
    return any(48 <= byte <= 57 or 65 <= byte <= 90 for byte in body) or max(map(len, re.split(rb"[-_]+", body))) >= 16


def _password(value: bytes) -> bool:
    """The password in a connection string; the words that explanations put there are none."""
    words = {b"password", b"passwd", b"pass", b"pwd", b"secret", b"token", b"pw", b"changeme", b"x-oauth-basic"}
    return value.lower() not in words and _TEMPLATE.search(value) is None and len(set(value)) > 1


def _basic(value: bytes) -> bool:
    """HTTP basic credentials: base64 of `name:password`."""
    try:
        text = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False
    return b":" in text and _PRINTABLE.match(text) is not None


CHECKS: dict[str, Callable[[bytes], bool]] = {
    "assigned": _assigned,
    "basic": _basic,
    "bearer": _bearer,
    "password": _password,
    "provider": _provider,
    "strong": _strong,
}
