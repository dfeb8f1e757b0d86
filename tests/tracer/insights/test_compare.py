"""Comparing runs: medians with honest intervals, and no verdict from a handful."""

from __future__ import annotations

import random
import statistics

import pytest

from tracer.insights.agentic_trace import Trace
from tracer.insights.report import compare, median_interval


def runs(durations: list[float], **meta: object) -> list[Trace]:
    return [Trace(f"t{n}", {"duration_sec": value, **meta}) for n, value in enumerate(durations)]


def row(comparison, measure: str):
    return next(row for row in comparison.rows if row.measure == measure)


def test_two_single_runs_are_shown_and_called_too_few() -> None:
    duration = row(compare(runs([10]), runs([99])), "duration")
    assert (duration.a.n, duration.a.median, duration.a.low) == (1, 10, None)
    assert duration.verdict == "too few runs"


def test_four_runs_are_too_few_and_five_are_enough() -> None:
    assert row(compare(runs([1] * 5), runs([9] * 4)), "duration").verdict == "too few runs"
    assert row(compare(runs([1] * 5), runs([9] * 5)), "duration").verdict == "higher"


def test_groups_that_overlap_have_no_clear_difference() -> None:
    duration = row(compare(runs([1, 2, 3, 4, 5, 6]), runs([2, 3, 4, 5, 6, 7])), "duration")
    assert duration.verdict == "no clear difference"
    assert (duration.a.median, duration.b.median) == (3.5, 4.5)


def test_what_no_run_tells_is_left_out_and_what_few_tell_says_so() -> None:
    mixed = [*runs([1, 2, 3]), *runs([4, 5, 6], cost_usd=0.5)]
    comparison = compare(mixed, mixed)
    assert row(comparison, "cost").a.n == 3
    assert row(comparison, "cost").verdict == "too few runs"
    assert "input tokens" not in [row.measure for row in comparison.rows]


def test_success_is_a_share_with_its_interval() -> None:
    success = row(compare(runs([1] * 20, success=True), runs([1] * 20, success=False)), "success")
    assert (success.a.median, success.b.median, success.verdict) == (1.0, 0.0, "lower")
    assert success.a.low == pytest.approx(0.839, abs=0.001)


@pytest.mark.parametrize(
    ("n", "places", "confidence"),
    [(5, (0, 4), 0.9375), (6, (0, 5), 0.9688), (9, (1, 7), 0.9609), (20, (5, 14), 0.9586)],
)
def test_intervals_are_the_textbooks_order_statistics(n: int, places: tuple[int, int], confidence: float) -> None:
    values = [float(value) for value in range(n)]
    assert median_interval(values) == (values[places[0]], values[places[1]], pytest.approx(confidence, abs=0.0001))


def test_an_interval_holds_the_true_median_as_often_as_it_says() -> None:
    draw = random.Random(7)
    held = [
        (interval := median_interval([draw.expovariate(1.0) for _ in range(11)]))[0] <= 0.6931 <= interval[1]
        for _ in range(2000)
    ]
    assert statistics.mean(held) >= 0.95
