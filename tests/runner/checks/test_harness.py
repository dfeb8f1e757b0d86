"""The rows of `harness.toml` take their examples and nothing else, and only steering parts are put back."""

from __future__ import annotations

import json
import re

from runner.checks.harness import is_harness, looks_for_runner, put_back, rows, sort_changes
from runner.gate.criterion import ChangedFile


def test_each_row_takes_its_examples_and_none_takes_a_counterexample() -> None:
    for row in rows()["harness"]:
        pattern = re.compile("|".join(row["paths"]))
        assert [path for path in row["examples"] if not pattern.search(path)] == []
        assert [path for path in row["counter"] if is_harness(path)] == []
        assert all(any(re.search(one, path) for path in row["examples"]) for one in row["paths"][:1])


def test_lines_that_look_for_the_runner_are_found_where_they_were_added() -> None:
    for row in rows()["looks"]:
        for examples, found in ((row["examples"], 1), (row["counter"], 0)):
            for text in examples:
                line = f"{text}\n".encode()
                assert len(list(looks_for_runner([ChangedFile(path="a.py", before=b"", after=line)]))) == found, text
                assert not list(looks_for_runner([ChangedFile(path="a.py", before=line, after=line + b"x\n")]))


def test_of_a_shared_file_only_the_steering_parts_are_put_back() -> None:
    for row in rows()["parts"]:
        made = put_back(row, row["before"], row["after"])
        if "json" in row:
            assert json.loads(made) == json.loads(row["result"])
        else:
            assert made == row["result"], row["path"]
        assert put_back(row, row["before"], row["before"]) == row["before"]


def test_changed_files_are_told_apart() -> None:
    files = [
        ChangedFile(path="calc.py", before=b"a", after=b"b"),
        ChangedFile(path="tests/test_calc.py", before=b"a", after=b"b"),
        ChangedFile(path="tests/test_new.py", before=None, after=b"b"),
        ChangedFile(path="conftest.py", before=None, after=b"b"),
        ChangedFile(path="pytest.ini", before=b"a", after=None),
        ChangedFile(
            path="package.json", before=b'{"scripts": {"test": "jest"}}', after=b'{"scripts": {"test": "true"}}'
        ),
        ChangedFile(path="ci/run.sh", before=b"a", after=b"b"),
    ]
    found = sort_changes(files, extra=["ci/*"])
    assert [file.path for file in found.tests] == ["tests/test_calc.py"]
    assert [file.path for file in found.new_tests] == ["tests/test_new.py"]
    assert [file.path for file in found.steering] == ["conftest.py"]
    assert [file.path for file in found.harness] == ["pytest.ini", "ci/run.sh"]
    assert [file.path for file in found.product] == ["calc.py", "package.json"]
    assert list(found.written) == ["package.json"]
    assert b"jest" in found.written["package.json"]
