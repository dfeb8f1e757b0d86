"""What agents cost, and the small pictures of a list: verdicts and tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repl.present.text import ascii_only, spark_text, strip_text
from tests.repl.scripts import BAD, GOOD, USAGE, run_scripted
from tests.repl.support import pm


def test_verdicts_and_tokens_as_pictures_and_in_ascii() -> None:
    strip, spark = strip_text(["REJECT", "RETRY", "PASS"]), spark_text([100, 400, 800])
    assert (strip, spark) == ("✗~✓", "▂▅█")
    assert (ascii_only(strip), ascii_only(spark)) == ("x~v", ":+#")
    assert spark_text([5]) == spark_text([0, 0]) == ""


@pytest.mark.parametrize("by", ["day", "project", "model", "task"])
def test_what_tasks_cost_is_summed_and_the_unknown_is_not_zero(project: Path, by: str) -> None:
    run_scripted(project, {**BAD, **USAGE, "cost_usd": 0.25}, {**GOOD, **USAGE, "cost_usd": 0.5})
    run_scripted(project, GOOD)
    told = json.loads(pm("sessions", "cost", "--by", by, "--json", cwd=project).out)
    assert told["usd"] == 0.75
    assert sum(row["runs"] for row in told["rows"]) == 2
    text = pm("sessions", "cost", "--by", by, cwd=project).out
    assert "$0.75" in text
    assert "█" in text
    if by == "task":
        assert [row["usd"] for row in told["rows"]] == [0.75, None]
        assert "task-002                               n/a" in text


def test_two_tasks_are_compared(project: Path) -> None:
    run_scripted(project, {**BAD, **USAGE}, {**GOOD, **USAGE})
    run_scripted(project, {**GOOD, **USAGE})
    rows = {row["measure"]: row for row in json.loads(pm("compare", "1", "2", "--json", cwd=project).out)["measures"]}
    assert (rows["output tokens"]["a"]["median"], rows["output tokens"]["b"]["median"]) == (200, 100)
    assert pm("compare", "1", "9", cwd=project).code == 7
