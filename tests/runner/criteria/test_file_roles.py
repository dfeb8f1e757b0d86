"""What a file is by its path."""

from __future__ import annotations

import pytest

from runner.gate.file_roles import is_test_double, is_test_file


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("tests/test_calc.py", True),
        ("calc_test.go", True),
        ("src/calc.test.ts", True),
        ("conftest.py", True),
        ("pkg/testdata/in.txt", True),
        ("src/CalcTest.java", True),
        ("spec/calc_spec.rb", True),
        ("web/__snapshots__/App.tsx.snap", True),
        ("src/App.cy.ts", True),
        ("test.sh", True),
        ("rules_test.yml", True),
        (".github/workflows/test.yml", False),
        ("docs/test.md", False),
        ("calc.py", False),
        ("api/pod_spec.go", False),
        ("src/Profit.java", False),
        ("src/contest.py", False),
        ("latest/notes.md", False),
        ("attest.go", False),
    ],
)
def test_test_files_are_told_from_what_they_test(path: str, is_test: bool) -> None:
    assert is_test_file(path) is is_test


@pytest.mark.parametrize(
    ("path", "is_double"), [("src/mocks/db.ts", True), ("db.mock.ts", True), ("src/mocking.py", False)]
)
def test_doubles_are_told_from_the_real_thing(path: str, is_double: bool) -> None:
    assert is_test_double(path) is is_double
