"""Which lines a task added or edited: moves and renames are told from new lines, within a file and across files."""

from __future__ import annotations

import random
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.gate.criterion import ChangedFile, Evidence
from runner.gate.line_map import FileLines, line_map
from runner.gate.verdict import criteria_in_force, judge

LOAD = "def load(path):\n    # TODO: cache what was read\n    with open(path) as file:\n        return parse(file)\n"
SAVE = "def save(path, rows):\n    with open(path, 'w') as file:\n        write_all(file, rows)\n"


def change(**files: tuple[str | None, str | None]) -> list[ChangedFile]:
    return [
        ChangedFile(
            path=name.replace("_", "."),
            before=None if before is None else before.encode(),
            after=None if after is None else after.encode(),
        )
        for name, (before, after) in files.items()
    ]


def added(files: list[ChangedFile], path: str) -> list[int]:
    return sorted(line_map(files)[path].added)


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a\nb\nc\n", "a\nx\nb\nc\n", [2]),
        ("a\nb\nc\n", "a\nB\nc\n", [2]),
        ("a\nb\nc\n", "a\nc\n", []),
        ("a\n", "if x:\n    a\n", [1]),  # indented anew
        ("a\na\na\n", "a\na\na\na\n", [4]),
        (None, "a\nb\n", [1, 2]),
    ],
)
def test_added_and_edited_lines(before: str | None, after: str, lines: list[int]) -> None:
    assert added(change(f_py=(before, after)), "f.py") == lines


def test_a_function_that_moved_within_its_file_is_not_new() -> None:
    assert added(change(f_py=(LOAD + "\n\n" + SAVE, SAVE + "\n\n" + LOAD)), "f.py") == []


def test_a_function_that_moved_to_another_file_is_not_new() -> None:
    files = change(f_py=(LOAD + SAVE, SAVE), g_py=("import f\n", "import f\n" + LOAD))
    assert added(files, "g.py") == []


def test_a_renamed_file_is_compared_with_what_it_was() -> None:
    files = change(util_py=(LOAD + SAVE, None), sizes_py=(None, LOAD + SAVE + "# TODO: new\n"))
    found = line_map(files)
    assert sorted(found["sizes.py"].added) == [8]
    assert found["sizes.py"].renamed_from == "util.py"


def test_a_line_that_is_copied_is_new() -> None:
    assert added(change(f_py=(LOAD, LOAD + LOAD)), "f.py") == [5, 6, 7, 8]


def test_a_short_line_that_turns_up_elsewhere_has_not_moved() -> None:
    assert added(change(f_py=("# TODO\na\n", "a\n"), g_py=("b\n", "b\n# TODO\n")), "g.py") == [2]


@given(st.lists(st.sampled_from("abcdef"), max_size=30), st.lists(st.sampled_from("abcdef"), max_size=30))
def test_what_is_not_added_stood_there_before(before: list[str], after: list[str]) -> None:
    files = change(f_py=("".join(f"{line}\n" for line in before), "".join(f"{line}\n" for line in after)))
    lines: FileLines | None = line_map(files).get("f.py")
    if lines is None:
        return
    kept = [text for number, text in enumerate(lines.after, 1) if number not in lines.added and text]
    old = [text for number, text in enumerate(lines.before, 1) if number not in lines.removed and text]
    assert sorted(kept) == sorted(old)


def test_a_large_file_that_was_shuffled_is_mapped_in_no_time() -> None:
    lines = [f"x{number % 40} = {number % 7}" for number in range(30_000)]
    mixed = lines[:]
    random.Random(1).shuffle(mixed)
    began = perf_counter()
    line_map(change(f_py=("\n".join(lines), "\n".join(mixed))))
    assert perf_counter() - began < 3


@pytest.mark.parametrize(
    "files",
    [
        change(f_py=(LOAD, LOAD + SAVE)),
        change(f_py=(LOAD, LOAD.replace("parse(file)", "parse(file, strict=True)"))),
        change(util_py=(LOAD + SAVE, None), sizes_py=(None, LOAD + SAVE)),
    ],
)
def test_a_mark_that_stood_there_before_rejects_nothing(files: list[ChangedFile]) -> None:
    verdict = judge(Evidence(request="Add saving.", answer="Added it.", files=tuple(files)), criteria_in_force())
    assert verdict.judgment == "PASS"
