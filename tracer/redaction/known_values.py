"""Values known to be secret because of the name they are kept under, wherever they turn up again.

The environment is the source: a variable whose name contains KEY, TOKEN, SECRET, PASSWORD, PASSWD or CREDENTIAL, or
that the configuration names. Values of fewer than 8 characters are left: they would mark ordinary text.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracer.redaction.gate import Called
from tracer.redaction.rule_set import Find, literals

KEY = "known-value"
_NAME_PARTS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
_LEAST_CHARACTERS = 8
_LEAST_LINE = 16
# Settings, not secrets: marking these words would make every text unreadable.
_WORDS = frozenset({"disabled", "optional", "password", "required", "undefined"})
_RANK = 0


def known_values(environ: Mapping[str, str], extra_names: Iterable[str] = ()) -> list[str]:
    """The secret values in `environ`, longest first; a path to something that exists is a place, not a secret."""
    named = frozenset(extra_names)
    values = {
        value for name, value in environ.items() if name in named or any(part in name.upper() for part in _NAME_PARTS)
    }
    return sorted((value for value in values if _secret(value)), key=lambda value: (-len(value), value))


def _secret(value: str) -> bool:
    if len(value.strip()) < _LEAST_CHARACTERS or value.strip().lower() in _WORDS:
        return False
    if value.startswith("/") and "\0" not in value:
        try:
            return not Path(value).exists()
        except OSError:
            return True
    return True


def _spellings(value: bytes) -> Iterator[bytes]:
    """`value` itself, as programs quote it, its longer lines, its hexadecimal digits, and the middle of its base64.

    The middle: what is the same whatever stands around it, at each of the three ways it can be aligned.
    """
    yield value
    yield from _quoted(value.decode("utf-8", "surrogatepass"))
    yield value.hex().encode()
    yield value.hex().upper().encode()
    lines = [line.strip() for line in value.split(b"\n")]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= _LEAST_LINE)
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + value).rstrip(b"=")
        head = (0, 2, 3)[shift]
        tail = -1 if (shift + len(value)) % 3 else len(encoded)
        middle = encoded[head:tail]
        yield middle
        yield middle.replace(b"+", b"-").replace(b"/", b"_")


def _quoted(value: str) -> Iterator[bytes]:
    """As JSON within JSON, a form, a page and a shell's trace hold it, and as its bytes look printed one by one."""
    for text in (
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        value.replace(" ", "+"),
        html.escape(value, quote=False),
        html.escape(value),
        html.escape(value).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
        value.replace("'", "'\\''"),
        value.replace("'", "'\"'\"'"),
        value.encode("utf-8", "surrogatepass").decode("latin-1"),
    ):
        yield text.encode("utf-8", "surrogatepass")


class KnownValues:
    """Finds each value in any of its spellings; every spelling of one value makes the same mark."""

    def __init__(self, values: Iterable[str]) -> None:
        spellings: dict[bytes, bytes] = {}
        for value in values:
            plain = value.strip().encode("utf-8", "surrogatepass")
            for spelling in _spellings(plain):
                spellings.setdefault(spelling, plain)
        self._plain = spellings
        ordered = sorted(spellings, key=lambda spelling: (-len(spelling), spelling))
        self.longest = len(ordered[0]) if ordered else 0
        self._pattern: Any = literals(ordered) if ordered else None

    @property
    def words(self) -> Iterable[bytes]:
        """Every spelling."""
        return self._plain

    def finds(self, data: bytes, called: Called | None = None) -> Iterator[Find]:
        """Every occurrence in `data`, left to right; none where `KEY` was not `called`."""
        if self._pattern is not None and (called is None or KEY in called):
            for match in self._pattern.finditer(data):
                yield Find(match.start(), match.end(), _RANK, KEY, self._plain[match.group(0)])
