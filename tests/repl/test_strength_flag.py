"""Q11 at the command line: a change whose tests notice too little is sent back with the faults by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.repl.scripts import run_scripted
from tests.repl.support import pm

CODE = "def fits(size):\n    return size < 3\n"
TESTS = """\
import unittest

from shop import fits


class Fits(unittest.TestCase):
    def test_fits(self):
        self.assertTrue(fits(1))
"""
WEAK = {"output": "Added fits in shop.py.", "files": {"shop.py": CODE, "test_shop.py": TESTS}}
MORE = TESTS + "        self.assertFalse(fits(3))\n"
STRONG = {"output": "Added a test in test_more.py.", "files": {"test_more.py": MORE}}
TESTED = ("write fits in shop.py", "--test", "python3 -m unittest")


@pytest.mark.torture
def test_faults_that_no_test_notices_reject_below_the_strength_that_is_wanted(project: Path) -> None:
    ran = run_scripted(project, WEAK, STRONG, words=(*TESTED, "--strength", "100", "--json"))
    assert ran.code == 0, ran.err
    record = json.loads(ran.out)
    assert record["judgments"] == ["REJECT", "PASS"]
    assert record["strength"]["killed"] == record["strength"]["total"] == 3
    assert record["strength"]["survivors"] == []
    trace = pm("trace", "1", cwd=project).out
    assert (
        "Q11: 1 of 3 faults noticed by the tests; not noticed: shop.py:2 fits: < → <=, shop.py:2 fits: 3 → 4" in trace
    )
    assert "  strength    3 of 3 faults noticed" in pm("show", "1", cwd=project).out
    assert (project / "shop.py").read_text(encoding="utf-8") == CODE


def test_more_than_everything_is_a_mistake_in_use(project: Path) -> None:
    ran = pm("run", "x", "--strength", "101", "--executor", "scripted", cwd=project)
    assert (ran.code, ran.out) == (2, "")
    assert "more than 100 percent" in ran.err
