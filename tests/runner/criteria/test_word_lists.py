"""Every row of the word lists matches its examples, and no list matches the counter-examples beside it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from runner.gate import wording
from runner.gate.wording import Words, compiled, read

FILES = sorted((Path(wording.__file__).parent / "words").glob("*.toml"))
LANGUAGES = {"en", "ja", "zh", "ko", "es", "de", "fr", "any"}
ROWS = [
    (file.stem, name, row)
    for file in FILES
    for name, rows in read(file.stem).items()
    if isinstance(rows, list)
    for row in rows
]


_words = cache(Words)


def test_a_row_matches_its_examples_and_its_list_no_counter_example() -> None:
    for file, name, row in ROWS:
        assert row.keys() <= {"language", "stems", "words", "patterns", "examples", "counter"}
        assert row["language"] in LANGUAGES
        pattern = compiled([row], read(file).get("parts", {}))
        search = _words(file, name).search
        assert row["examples"], (file, name)
        for example in row["examples"]:
            assert pattern.search(example), f"{file}/{name}: {example!r} is not matched by its row"
            assert search(example), f"{file}/{name}: no stem of the row occurs in {example!r}"
        for example in row.get("counter", ()):
            assert not search(example), f"{file}/{name}: {example!r} is matched"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_line_of_a_file_is_longer_than_120_characters(file: Path) -> None:
    assert [line for line in file.read_text(encoding="utf-8").split("\n") if len(line) > 120] == []


def test_a_list_is_read_when_it_is_first_searched() -> None:
    lazy = Words("no such file", "no such list")
    with pytest.raises(FileNotFoundError):
        lazy.search("anything")
