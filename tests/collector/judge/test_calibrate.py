"""Agreement with people: kappa against its definition by categories, difference, bias by length, files of labels."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from collector.judge.calibrate import Graded, calibrate, read_labels, spearman, weighted_kappa
from tracer.errors import ConfigError

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30)


def by_categories(rows: list[tuple[int, int]]) -> float | None:
    """The textbook: observed against expected disagreement over the 6 x 6 table, weights (i - j)^2."""
    count = len(rows)
    first = [sum(a == k for a, _ in rows) for k in range(6)]
    second = [sum(b == k for _, b in rows) for k in range(6)]
    observed = sum((a - b) ** 2 for a, b in rows)
    expected = sum((i - j) ** 2 * first[i] * second[j] / count for i in range(6) for j in range(6))
    return None if expected == 0 else 1 - observed / expected


@given(pairs)
def test_kappa_is_the_quadratically_weighted_one(rows: list[tuple[int, int]]) -> None:
    wanted = by_categories(rows)
    found = weighted_kappa([a for a, _ in rows], [b for _, b in rows])
    assert (found is None) == (wanted is None)
    if wanted is not None:
        assert found == pytest.approx(wanted)


def test_kappa_of_known_cases() -> None:
    assert weighted_kappa([0, 1, 2, 5], [0, 1, 2, 5]) == 1.0
    assert weighted_kappa([0, 5], [5, 0]) == -1.0
    assert weighted_kappa([3, 3], [3, 3]) is None
    assert weighted_kappa([3], [3]) is None


@given(
    st.lists(
        st.tuples(st.floats(-9, 9), st.floats(-9, 9)),
        min_size=3,
        max_size=20,
        unique_by=(lambda p: p[0], lambda p: p[1]),
    )
)
def test_rank_correlation_is_one_for_any_rising_relation(rows: list[tuple[float, float]]) -> None:
    first = sorted(a for a, _ in rows)
    second = sorted(b for _, b in rows)
    assert spearman(first, second) == pytest.approx(1.0)
    assert spearman(first, second[::-1]) == pytest.approx(-1.0)
    assume(len(rows) > 3)
    assert -1.0001 <= (spearman([a for a, _ in rows], [b for _, b in rows]) or 0) <= 1.0001


def test_a_judge_that_pays_for_length_is_found_out() -> None:
    rows = [Graded(f"t{n}", {"clarity": 3.0}, {"clarity": 2.0 + n * 0.5}, 1000 * 2**n) for n in range(5)]
    (row,) = calibrate(rows).agreements
    assert row.length_rank == pytest.approx(1.0)
    assert row.length_slope == pytest.approx(0.5)
    assert row.difference == pytest.approx(0.0)


def test_a_fair_judge_shows_no_bias_and_refused_scores_are_counted() -> None:
    rows = [Graded(f"t{n}", {"clarity": n % 3, "overall": 2}, {"clarity": n % 3}, 10**n) for n in range(6)]
    clarity, overall = calibrate(rows).agreements
    assert (clarity.kappa, clarity.difference, clarity.length_rank, clarity.missing) == (1.0, 0.0, None, 0)
    assert (overall.dimension, overall.compared, overall.missing, overall.kappa) == ("overall", 0, 6, None)


def test_labels_are_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    whole = '{"trace_id": "b", "scores": {"overall": 2.5}, "judged": {"clarity": null}, "length": 10}'
    path.write_text('{"trace_id": "a", "scores": {"clarity": 4}}\n\n' + whole + "\n")
    assert [label.trace_id for label in read_labels(path)] == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"trace_id": "a", "scores": {"clarity": 6}}',
        '{"trace_id": "a", "scores": {"charm": 1}}',
        '{"trace_id": "a", "scores": {}}',
    ],
)
def test_a_line_that_is_no_label_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"trace_id": "a", "scores": {"clarity": 4}}\n' + line)
    with pytest.raises(ConfigError, match="line 2"):
        read_labels(path)


def test_an_empty_or_missing_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for name in ("empty", "missing"):
        with pytest.raises(ConfigError):
            read_labels(tmp_path / name)
