"""Names of the failing tests, read from the output of the common test programs. Pure, and bounded in what it returns."""

from __future__ import annotations

import re

__all__ = ["failing_tests"]

_MANY = 50
_LAST = 512 * 1024
_NAMES = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?:FAILED|ERROR) ((?:\S+\.py)(?:::\S+?(?:\[[^\]\n]*\])?)?)(?: - |$)",  # pytest -ra
        r"^(?:FAIL|ERROR): (\w+ \([\w.]+\))",  # unittest
        r"^\s*--- FAIL: (\S+)",  # go test
        r"^test (\S+) \.\.\. FAILED$",  # cargo test
        r"^\s*● (.+ › .+)$",  # jest
        r"^\s*(?:×|✗|✖) (.+?)(?:\s+\d+\s?ms)?$",  # vitest, ava
        r"^\s*not ok \d+ -? ?(.+)$",  # TAP
        r"^\s{2,}\d+\) (.+)$",  # mocha
    )
)


def failing_tests(output: str) -> tuple[str, ...]:
    """The failing tests' names, in order, each once, at most 50."""
    tail = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output[-_LAST:])
    found = [match.group(1).strip() for pattern in _NAMES for match in pattern.finditer(tail)]
    return tuple(dict.fromkeys(found))[:_MANY]
