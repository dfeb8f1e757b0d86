"""The waterfall in lines of text: one scale, folding, ASCII."""

from __future__ import annotations

from repl.present.waterfall import waterfall_lines
from tracer.rows.waterfall import Bar, Lane, Waterfall

CALLS = [Bar("tool", 2, name, 2, 1000, 1000 + took, detail="a.py") for name, took in (("Read", 10), ("Bash", 3000))]
BARS = (
    Bar("iteration", 0, "iteration 0", 1, 0, 8000, mark="x", detail="REJECT"),
    Bar("request", 1, "claude", 1, 0, 4000, tokens=14_200),
    *CALLS,
    Bar("judging", 1, "judging", 4, 4000, 4000),
    Bar("tool", 2, "Untimed", 4),
)
FOUND = Waterfall((Lane("", "", BARS[:1]), Lane("task-001-sub-2", "the schema, and more", BARS)), 0, 8000)


def test_bars_stand_on_one_scale_below_the_lane_of_their_subtask() -> None:
    lines = [line.text for line in waterfall_lines(FOUND, columns=80)]
    assert lines == [
        "x iteration 0  REJECT                 8.0 s             ████████████████████████",
        "x subtask 2  the schema, and mo…      8.0 s   14.2k tok ████████████████████████",
        "  x iteration 0  REJECT               8.0 s             ████████████████████████",
        "    claude                            4.0 s   14.2k tok ████████████",
        "      Read  a.py                      0.0 s                █",
        "      Bash  a.py                      3.0 s                █████████",
        "    judging                           0.0 s                         │",
        "      Untimed",
    ]
    assert max(map(len, lines)) <= 80


def test_what_is_folded_counts_what_it_hides_and_plain_text_is_ascii() -> None:
    def texts(**options: object) -> list[str]:
        return [line.text[:32].rstrip() for line in waterfall_lines(FOUND, columns=80, **options)]  # type: ignore[arg-type]

    assert texts(folded=frozenset({(1, -1)}))[1:] == ["x subtask 2  the schema, a… (+6)"]
    assert texts(folded=frozenset({(1, 1)}))[3:5] == ["    claude (+2)", "    judging"]
    assert texts(most_tools=1)[3:5] == ["    claude (+1)", "      Bash  a.py"]
    plain = waterfall_lines(FOUND, columns=80, plain=True)
    assert plain[1].text.startswith("x subtask 2  the schema, and ...      8.0 s")
