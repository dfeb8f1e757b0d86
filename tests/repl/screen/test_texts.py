"""Pure pieces: cells, wrapping, folding timeline, diff lines, titles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from repl.present.answer import GUTTER
from repl.present.cells import cell_len, fit, matches_in, shown, wrap
from repl.present.progress import Progress
from repl.present.review import ReviewRow, wrapped_rows
from repl.screen.diff import MAX_MATCHED, compare, from_unified
from repl.screen.home import head_text, session_cost, status_text
from repl.screen.trace.source import Timeline
from tracer.catalog.tasks import TaskRow
from tracer.rows.row import NO_GROUP, Group

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(TEXTS, st.integers(2, 40))
def test_wrapped_pieces_fit_and_lose_nothing(text: str, width: int) -> None:
    safe = shown(text)
    pieces = list(wrap(safe, width))
    assert "".join(pieces) == safe
    assert all(cell_len(piece) <= width + 1 for piece in pieces)


@given(TEXTS, st.integers(1, 40))
def test_fitted_text_has_exactly_the_width(text: str, width: int) -> None:
    assert cell_len(fit(shown(text), width)) == width


@given(st.text(max_size=40))
def test_shown_text_holds_no_control_and_no_newline(text: str) -> None:
    assert not [
        char for char in shown(text) if ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000
    ]


def test_joiners_and_skin_tones_are_left_out_so_that_widths_agree() -> None:
    assert shown("👨‍👩‍👧 👍🏽 ❤️") == "👨👩👧 👍 ❤"


def test_matches_are_found_whatever_the_case() -> None:
    assert matches_in("A TODO and todo", "todo") == [(2, 6), (11, 15)]
    assert matches_in("text", "") == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=8), st.sets(st.integers(0, 3)))
def test_every_fact_of_an_open_group_has_its_own_row_and_folding_hides_the_rest(
    runs: list[tuple[int, int]], folded: set[int]
) -> None:
    groups = [NO_GROUP, Group(None, 0), Group(None, 1), Group("s", 0)]
    timeline = Timeline()
    position = 0
    owners: list[Group] = []
    for number, length in runs:
        timeline.feed(position, groups[number])
        position += length
        owners += [groups[number]] * length
        timeline.grow(position)
    for number in folded:
        timeline.fold(groups[number], folded=True)
    items = [timeline.item(index) for index in range(len(timeline))]
    hidden = {groups[number] for number in folded} - {NO_GROUP}
    assert [item.position for item in items if item.position is not None] == [
        place for place, owner in enumerate(owners) if owner not in hidden
    ]
    for place, owner in enumerate(owners):
        item = timeline.item(timeline.index_of(place))
        assert item.group == owner
        assert item.position == (None if owner in hidden else place)


def test_two_texts_are_compared_line_by_line() -> None:
    kinds = [(line.kind, line.left, line.right) for line in compare("a\nb\nc", "a\nB\nc\nd")]
    assert kinds == [("same", "a", "a"), ("changed", "b", "B"), ("same", "c", "c"), ("new", "", "d")]
    assert compare("a", "a")[0].left == "the two are the same"


def test_very_long_texts_are_compared_by_their_ends_and_say_so() -> None:
    old = "\n".join(["same"] * 3 + [f"old {n}" for n in range(MAX_MATCHED)])
    lines = compare(old, old.replace("old 7", "new 7"))
    assert "only the same beginning and end" in lines[0].left
    assert lines[1].kind == "same"


def test_a_unified_diff_becomes_pairs() -> None:
    text = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n+more\n"
    assert [line.kind for line in from_unified(text)] == ["note", "note", "note", "same", "changed", "new"]


def test_the_head_drops_parts_from_the_right_where_it_is_narrow() -> None:
    assert head_text(" pm", ["claude", "$0.31"], 24) == " pm      claude · $0.31 "
    assert head_text(" pm", ["claude", "$0.31"], 14) == " pm    claude "


def test_money_near_the_budget_is_marked_with_a_sign() -> None:
    progress = Progress("task-001", prefix="/")
    progress.cost, progress.tokens, progress.max_iterations = 0.9, 12_000, 3
    text = status_text(progress, now=0.0, budget=1.0)
    assert "! $0.90 of $1.00" in text
    assert "12.0k tok" in text
    assert "it 1/3" in text
    progress.phase = "Bash " + 60 * "x"
    for now, tail in ((1.0, "…· 1 s"), (15.0, "…· 15 s"), (75.0, "…· 75 s")):
        text = status_text(progress, now=now, columns=78)
        assert (len(text), text.replace("… ", "…")[-len(tail) :]) == (78, tail), "seconds stay, advice does not"


def test_rows_of_a_review_go_on_below_where_it_is_narrow() -> None:
    rows = [ReviewRow("text", f"{GUTTER}one two three"), ReviewRow("new", "four five six", "a.py:1", 0, 7)]
    shown_rows = [(row.lead + row.text).rstrip() for row in wrapped_rows(rows, 24)]
    assert shown_rows == ["  │ one two three", "          7 + four five", "            + six"]
    assert [(row.lead + row.text).rstrip() for row in wrapped_rows(rows[:1], 14)] == ["  │ one two", "  │ three"]


def test_money_is_unknown_only_where_a_task_has_told_none() -> None:
    none = {name: "" for name in TaskRow._fields if name not in TaskRow._field_defaults}
    row = TaskRow(**{**none, "task_id": "task-001", "status": "RUNNING", "cost_usd": None, "judgments": ()})  # type: ignore[arg-type]
    assert session_cost([row], ["task-001"]) == ""
    assert session_cost([row._replace(judgments=("REJECT",))], ["task-001"]) == "cost n/a"
