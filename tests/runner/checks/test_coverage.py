"""Which changed lines no test reaches."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.checks.coverage import coverage_of, files_reaching, reached_by, unreached, unreached_lines
from runner.gate.criterion import ChangedFile
from runner.processes.command import ProcessResult

_LCOV = (
    b"TN:\nSF:src/calc.py\nDA:1,1\nDA:2,0\nDA:3,0\nDA:5,4\nDA:6,0\nend_of_record\nSF:other.py\nDA:1,0\nend_of_record\n"
)
_XML = b"""<?xml version="1.0"?><!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">
<coverage><packages><package><classes><class filename="calc.py"><lines>
<line number="1" hits="1"/><line number="2" hits="0"/><line number="3" hits="0"/><line number="6" hits="0"/>
</lines></class></classes></package></packages></coverage>"""
_CHANGED = [
    ChangedFile(path="src/calc.py", before=b"1\n2\n3\n4\n5\nold\n", after=b"1\nb\nc\n4\ne\nf\n"),
    ChangedFile(path="README.md", before=None, after=b"text\n"),
]


@pytest.mark.parametrize("report", [_LCOV, _XML], ids=["lcov", "cobertura"])
def test_changed_lines_that_nothing_ran_are_named_in_runs(report: bytes) -> None:
    assert unreached_lines(coverage_of(report), _CHANGED) == ("src/calc.py:2-3", "src/calc.py:6")


@pytest.mark.parametrize(
    "report", [b"", b"100% covered", _XML[:-30], _XML.replace(b"SYSTEM", b"[<!ENTITY a 'b'>] SYSTEM")]
)
def test_half_a_report_or_none_tells_nothing(report: bytes) -> None:
    assert coverage_of(report) == {}


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail(data: bytes) -> None:
    coverage_of(data)
    coverage_of(b"<coverage>" + data)


async def test_the_report_is_a_file_or_what_a_command_prints(tmp_path: Path) -> None:
    asked: list[str] = []

    async def run(command: str) -> ProcessResult:
        asked.append(command)
        return ProcessResult(
            kind="exit", exit_code=int(command == "false"), output=_XML if command == "report" else b"?"
        )

    (tmp_path / "lcov.info").write_bytes(_LCOV)
    lines = ("src/calc.py:2-3", "src/calc.py:6")
    assert await unreached("lcov.info", tmp_path, _CHANGED, run) == lines
    assert asked == []
    assert await unreached("report", tmp_path, _CHANGED, run) == lines
    assert await unreached("false", tmp_path, _CHANGED, run) == ("not known: 'false' is no file and ends with 1",)
    nothing = await unreached("other", tmp_path, _CHANGED, run)
    assert nothing == ("not known: 'other' gives neither lcov nor Cobertura's XML",)


def test_which_tests_ran_a_file_is_read_from_the_data_of_a_run_with_contexts(tmp_path: Path) -> None:
    tests = {"tests/test_a.py": "import shop", "tests/test_b.py": "from shop import cart", "c_test.go": "package shop"}
    assert reached_by(tmp_path, tmp_path, lambda: tests) == {}
    assert files_reaching(["shop.py", "shop/tax.go"], tests, {}) == list(tests)
    with sqlite3.connect(tmp_path / ".coverage") as data:
        data.executescript(f"""
            CREATE TABLE file (id, path); CREATE TABLE context (id, context);
            CREATE TABLE line_bits (file_id, context_id, numbits); CREATE TABLE arc (file_id, context_id, fromno, tono);
            INSERT INTO file VALUES (1, '{tmp_path}/shop.py'), (2, '{tmp_path}/cart.py'), (3, '{tmp_path}/idle.py');
            INSERT INTO context VALUES (1, ''), (2, 'tests/test_a.py::test_x|run'), (3, 'tests.test_b.Case.test_y');
            INSERT INTO line_bits VALUES (1, 1, x'01'), (1, 2, x'01'), (3, 1, x'01');
            INSERT INTO arc VALUES (2, 3, 1, 2), (2, 2, 1, 2);""")
    found = reached_by(tmp_path, tmp_path, lambda: tests)
    assert {path: sorted(ran) for path, ran in found.items()} == {
        "shop.py": ["tests/test_a.py"],
        "cart.py": ["tests/test_a.py", "tests/test_b.py"],
    }
    assert files_reaching(["shop.py"], tests, found) == ["tests/test_a.py"]
    (tmp_path / ".coverage").write_bytes(b"rubbish")
    assert reached_by(tmp_path, tmp_path, lambda: tests) == {}


def test_which_tests_loaded_a_file_is_read_from_what_v8_left_of_each_process(tmp_path: Path) -> None:
    """As c8 keeps it, and NODE_V8_COVERAGE=coverage/tmp makes it."""
    tests = {"test/a b.test.js": "", "test/b.test.js": ""}

    def left(number: int, *paths: str) -> None:
        place = tmp_path / "coverage" / "tmp" / f"coverage-{number}-1-0.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        urls = ["node:internal/main", "evalmachine", *((tmp_path / path).as_uri() for path in paths)]
        place.write_text(json.dumps({"result": [{"scriptId": "1", "url": url, "functions": []} for url in urls]}))

    left(1, "test/a b.test.js", "a.js")
    left(2, "test/b.test.js", "b.js", "a.js")
    left(3, "tools/runner.js")
    found = reached_by(tmp_path, tmp_path, lambda: tests)
    assert (found["a.js"], found["b.js"]) == (["test/a b.test.js", "test/b.test.js"], ["test/b.test.js"])
    assert files_reaching(["b.js"], tests, found) == ["test/b.test.js"]
    left(4, "test/b.test.js", "test/a b.test.js", "c.js")  # one process for several: which of them ran what is unknown
    assert reached_by(tmp_path, tmp_path, lambda: tests) == {}
    left(4, "c.js")
    (tmp_path / "coverage" / "tmp" / "coverage-5-1-0.json").write_text("{")
    assert reached_by(tmp_path, tmp_path, lambda: tests) == {}
