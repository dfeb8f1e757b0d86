"""At a hundred times the size: whatever stands in a text, it is redacted (that time is linear, the benchmark shows)."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from tracer.redaction.engine import ProjectRedactor

KEY = "sk-" + "proj-9Zx81kQ29pLmV4tR7"
HOSTILE: dict[str, Callable[[int], str]] = {
    "one line of near misses": lambda n: "password=aaaaaaaaaaaa; " * n,
    "one line of numbers that look like telephones": lambda n: "+49 170 123 45 67 " * n,
    "one line of marks and secrets": lambda n: f"[REDACTED:email:a1b2c3] {KEY} " * n,
    "escapes": lambda n: '\\"\\u0041' * n,
    "percent signs": lambda n: "%41%" * n,
    "base64 of text": lambda n: base64.b64encode(b"ordinary words " * n).decode(),
    "wrapped base64 of text": lambda n: base64.encodebytes(b"ordinary words " * n).decode(),
    "keys that begin and do not end": lambda n: "-----BEGIN PRIVATE KEY-----\n" * n,
    "addresses without an end": lambda n: "a@b." * n,
    "tags and entities that begin and do not end": lambda n: "<a &lt <!-- " * n,
    "terminal sequences that begin and do not end": lambda n: "\x1b]0;\x1b[1;\x1bP" * n,
    "levels over levels": lambda n: "%25&amp;\\\\\\\\\\u005c&#37;" * n,
    "lines that all look wrapped": lambda n: ("aB3" * 26 + "cd\n") * (n // 10),
    "signs struck twice": lambda n: "a\ba" * n,
    "wide signs": lambda n: "a\0b\0" * n,
    "headers below headers": lambda n: "user,password\n" * n,
    "headers of tables without rows": lambda n: "".join(f"user,password{',name' * (at % 9)}\n" for at in range(n)),
    "a table of passwords": lambda n: "user\tpassword\n" + "".join(f"u{at}\tx7Qk{at}aB9\n" for at in range(n // 8)),
    "a row without an end below a header": lambda n: "user,token\n" + 'a,"b,' * n + "\n",
    "values told again and again": lambda n: "".join(
        f"password=x7Qk{at % 500}aB9 x7Qk{at}aB9\n" for at in range(n // 8)
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_redacted_before_the_tests_time_is_up(redactor: ProjectRedactor, kind: str) -> None:
    redacted, _ = redactor.untruncated().redact_text(HOSTILE[kind](6000) + f"\n{KEY}\n")
    assert redacted.endswith("]\n")
    assert KEY not in redacted


def test_many_thousand_pieces_are_redacted_as_one(redactor: ProjectRedactor) -> None:
    chunks, counts = redactor.redact_chunks([f"{KEY[:9]}", f"{KEY[9:]} "] * 5000)
    assert counts == {"secret-key": 5000}
    assert len(chunks) == 10_000
    assert KEY[9:] not in "".join(chunks)
