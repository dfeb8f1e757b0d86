"""What a file is by its path: a test, a double for tests, made by a tool. The one definition, for every room. Pure.

`is_test_file` also takes what tests are given and run by: fixtures, data, `conftest.py`.
"""

from __future__ import annotations

from typing import Final

from runner.gate.wording import pattern

TEST_FILE: Final = pattern("file_roles", "test")
_DOUBLE: Final = pattern("file_roles", "double")


def is_test_file(path: str) -> bool:
    """Whether a file belongs to the tests rather than to what they test."""
    return TEST_FILE.search(path) is not None


def is_test_double(path: str) -> bool:
    """Whether a file stands in for the real thing in tests: a mock, stub or fake."""
    return _DOUBLE.search(path) is not None
