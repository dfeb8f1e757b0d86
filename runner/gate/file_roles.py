"""What a file is by its path: a test, a double for tests, made by a tool. The one definition, for every room. Pure.

`is_test_file` also takes what tests are given and run by: fixtures, data, `conftest.py`.
"""

from __future__ import annotations

import re
from typing import Final

_TEST: Final = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|testing|testdata|fixtures|__snapshots__|__fixtures__)/"
    r"|(?:^|/)(?:test_[^/]*|[^/]*_tests?|conftest|tests?)\.\w+$|_spec\.(?:rb|cr|lua|[cm]?[jt]sx?)$"
    r"|(?:^|/)[^/]*[.-](?:test|spec|tests|cy|e2e)\.\w+$|\.snap$|\.bats$|(?:^|/)test-[^/]*\.\w+$"
    r"|(?:^|/)\w*[a-z0-9](?:Test|Tests|TestCase|Spec|Specs|IT)\.(?:java|kt|scala|cs|swift|groovy|php|cpp|m|fs)$"
)
_DOUBLE: Final = re.compile(
    r"(?:^|/)(?:__mocks__|mocks?|stubs?|fakes?)/|[._-](?:mock|stub|fake)s?\.\w+$|[a-z](?:Mock|Stub|Fake)\.\w+$"
)


def is_test_file(path: str) -> bool:
    """Whether a file belongs to the tests rather than to what they test."""
    return _TEST.search(path) is not None


def is_test_double(path: str) -> bool:
    """Whether a file stands in for the real thing in tests: a mock, stub or fake."""
    return _DOUBLE.search(path) is not None
