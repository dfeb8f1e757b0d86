"""How a task's changed files are counted and in which order they are shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from repl.present.changed_files import files_text, lines_text
from runner.changed_paths import in_reading_order
from tracer.facts import FileCount
from tracer.unified_diff import count_files, split_lines, unified_diff

_TEXT = st.lists(st.sampled_from([b"a\n", b"--- a/x\n", b"+++ b/x\n", b"diff --git a/x b/x\n", b"@@ -1 +1 @@\n", b"z"]))


@given(st.lists(st.tuples(st.text(min_size=1, max_size=9), _TEXT, _TEXT), unique_by=lambda row: row[0], max_size=4))
def test_the_counts_are_those_of_the_hunks_whatever_the_lines_say(
    files: list[tuple[str, list[bytes], list[bytes]]],
) -> None:
    sides = {path: (b"".join(old), b"".join(new)) for path, old, new in files if "\0" not in path and "/" not in path}
    paths = [path for path in sides if path.encode("utf-8", "replace").decode() == path]
    diff = b"".join(unified_diff(path.encode(), *sides[path]) for path in paths)
    for count in count_files(diff, paths):
        old, new = (split_lines(side) for side in sides[count.path])
        assert (count.added or 0) - (count.removed or 0) == len(new) - len(old)
        assert (count.added is None) == (old == new)


def test_a_status_is_told_and_what_no_diff_holds_is_not_counted() -> None:
    diff = unified_diff(b"new.py", None, b"x\ny\n") + unified_diff("für.py".encode(), b"x\n", None)
    diff += unified_diff(b"pic.png", b"\0", b"\1", named_only=True)
    assert count_files(diff, ["new.py", "für.py", "pic.png", "huge.bin"]) == [
        FileCount("new.py", "added", 2, 0),
        FileCount("für.py", "deleted", 0, 1),
        FileCount("pic.png"),
        FileCount("huge.bin"),
    ]


def test_sources_come_first_then_tests_then_texts_and_what_tools_made_is_counted() -> None:
    paths = ["README.md", "src/__pycache__/cart.pyc", "tests/test_cart.py", "src/cart.py", "node_modules/x/i.js"]
    assert in_reading_order(paths)[:3] == ["src/cart.py", "tests/test_cart.py", "README.md"]
    assert files_text(paths) == "src/cart.py, tests/test_cart.py, README.md and 2 made by tools"
    assert files_text([]) == ""


def test_the_closing_line_counts_what_was_counted() -> None:
    assert lines_text([FileCount("a", "modified", 3, 1), FileCount("b")]) == "2 files +3 -1"
    assert lines_text([]) == "0 files"
