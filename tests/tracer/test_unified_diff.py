"""A unified diff's lines in two columns."""

from __future__ import annotations

from tracer.unified_diff import in_columns, kinds_of_lines, unified_diff


def columns(before: str, after: str) -> list[tuple[str, str | None, str | None]]:
    lines = unified_diff(b"x.sql", before.encode(), after.encode()).decode().splitlines()
    return [row for row in in_columns(kinds_of_lines(lines)) if row[0] not in {"file", "place"}]


def test_a_removed_line_that_looks_like_a_header_is_a_line() -> None:
    assert columns("-- old\n", "++ new\n") == [("changed", "-- old", "++ new")]


def test_a_blank_line_is_told_as_removed_or_changed_like_others() -> None:
    assert columns("a\n\n", "a\n") == [("same", "a", "a"), ("removed", "", None)]
    assert columns("\n", "b\n") == [("changed", "", "b")]


def test_a_missing_last_newline_is_told_of_its_side_alone() -> None:
    assert columns("a", "b\n") == [
        ("removed", "a", None), ("note", "\\ No newline at end of file", None), ("added", None, "b"),
    ]  # fmt: skip
