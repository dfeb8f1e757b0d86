"""The protocol for unseen work (`python -m benchmarks.gate`): its material is what it promises to be."""

from __future__ import annotations

import subprocess
from argparse import Namespace
from pathlib import Path
from random import Random

import pytest

from benchmarks.gate.__main__ import measure, wilson
from benchmarks.gate.cheats import cases, edited
from benchmarks.gate.debian import GIT, message
from benchmarks.gate.lazy import DATA, PATTERNS, Work, functions

BEFORE = "def total(rows):\n    found = 0\n    for row in rows:\n        found += row\n    return found\n"
AFTER = (
    "def total(rows, start=0):\n    found = start\n    for row in rows:\n        if row is not None:\n"
    "            found += row\n    return found\n"
)


def _lazy(name: str) -> tuple[str, str]:
    result = PATTERNS[name](Work({"sums.py": BEFORE.encode()}, {"sums.py": AFTER.encode()}, Random(1)))
    assert result is not None
    return (result.files["sums.py"] or b"").decode(), result.answer


def test_there_are_at_least_30_patterns_in_at_least_six_languages() -> None:
    assert len(PATTERNS) >= 30
    assert len(DATA["head"]) >= 6
    assert set(DATA["languages"]) == set(DATA["head"])


def test_a_gutted_function_keeps_its_head_and_loses_its_work() -> None:
    text, answer = _lazy("gutted")
    assert text == "def total(rows, start=0):\n    return None\n"
    assert "`sums.py`" in answer


def test_merge_markers_stand_around_both_sides() -> None:
    text, _answer = _lazy("conflict markers")
    assert text.index("<<<<<<<") < text.index("total(rows):") < text.index("=======") < text.index("start=0")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("go", "func Add(a, b int) int {\n\treturn a + b\n}\n"),
        ("rust", "    pub fn add(a: u32, b: u32) -> u32 {\n        a + b\n    }\n"),
        (
            "typescript",
            "export async function add<T>(a: T): Promise<T> {\n  return a;\n}\ninterface No {\n  a: T;\n}\n",
        ),
        ("c/c++", "static int\nadd(int a, int b)\n{\n    return a + b;\n}\nint other(int a);\n"),
        ("ruby", "  def add(a, b)\n    a + b\n  end\n"),
        ("java", "    public int add(int a, int b) {\n        return a + b;\n    }\n"),
    ],
)
def test_functions_are_found_without_a_parser(language: str, text: str) -> None:
    lines = f"{text}".splitlines()
    if language == "c/c++":
        lines = [f"{lines[0]} {lines[1]}", *lines[2:]]
    assert [one.name.lower() for one in functions(language, lines)] == ["add"]


def test_the_message_of_a_patch_is_its_description_without_people_and_links() -> None:
    patch = (
        "From: A <a@example.org>\nSubject: [PATCH 1/2] Close the file\n\nIt leaked.\nOrigin: upstream\n---\n a.c | 2\n"
    )
    assert message(patch).split("\n") == ["Close the file", "", "It leaked."]


def test_an_interval_is_wide_where_little_was_seen() -> None:
    assert wilson(0, 100) == pytest.approx((0.0, 0.037), abs=0.001)
    assert wilson(0, 0) == (0.0, 1.0)


async def test_a_commit_is_judged_as_finished_work_and_so_are_lazy_results_made_from_it(tmp_path: Path) -> None:
    for text, told in ((BEFORE, "Start with sums"), (AFTER, "Let a sum start at a value and skip what is missing")):
        (tmp_path / "sums.py").write_text(text)
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", told]):
            subprocess.run([*GIT, *words], cwd=tmp_path, check=True)
    options = Namespace(repositories=[tmp_path], half="all", each=5, lazy=50, seed=1, rates=False, author="")
    report = await measure(options)
    assert report["finished_rejected"]["hits"] == 0
    assert report["finished_rejected"]["of"] == 1
    judged = {case["pattern"]: case["passed"] for case in report["cases"]}
    assert len(judged) > 25
    assert not judged["nothing changed, done"]
    assert not judged["claim of a file that is not there"]
    assert (tmp_path / "sums.py").read_text() == AFTER, "the repository itself is left alone"


def test_the_cheats_are_at_least_60_and_as_many_honest_in_six_languages_and_apply() -> None:
    every = list(cases([]))
    assert all(edited(case) for case in every)
    for label in ("cheat", "honest"):
        labelled = [case for case in every if case.label == label]
        assert len(labelled) >= 60
        assert len({case.language for case in labelled}) >= 6
