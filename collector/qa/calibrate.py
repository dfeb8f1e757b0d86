"""How far a judge agrees with people: weighted kappa by dimension, mean difference, and bias by length. Pure.

Kappa is quadratically weighted, from moments, so that medians of votes (4.5) count as they are: 1 is full agreement,
0 is what chance gives. Bias by length is what remains of (judge - person) when sessions get longer: Spearman's rank
correlation, and points per doubling of the length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from collector.qa.judge_port import WIRE_DIMENSIONS
from collector.qa.rubric import OPTIONAL_DIMENSION

__all__ = ["FEW", "Agreement", "Calibration", "Graded", "calibrate", "spearman", "weighted_kappa"]

FEW: Final = 30
"""Below this many sessions the figures say little."""


class Graded(NamedTuple):
    """One session: a person's scores, the judge's (None where refused), and the packet's length in characters."""

    trace_id: str
    person: Mapping[str, float]
    judge: Mapping[str, float | None]
    length: int


class Agreement(NamedTuple):
    """One dimension. `kappa`, `length_rank` and `length_slope` are None where the data cannot tell.

    `missing` counts sessions that a person scored and the judge did not.
    """

    dimension: str
    compared: int
    missing: int
    kappa: float | None
    difference: float | None
    length_rank: float | None
    length_slope: float | None


class Calibration(NamedTuple):
    """All dimensions that a person scored, and their sessions."""

    sessions: int
    agreements: tuple[Agreement, ...]


def calibrate(rows: Sequence[Graded]) -> Calibration:
    """Agreement by dimension, in the order of the schema; `overall` last where people gave one."""
    names = [
        name for name in (*WIRE_DIMENSIONS, OPTIONAL_DIMENSION, "overall") if any(name in row.person for row in rows)
    ]
    return Calibration(len(rows), tuple(_agreement(name, rows) for name in names))


def _agreement(name: str, rows: Sequence[Graded]) -> Agreement:
    scored = [row for row in rows if name in row.person]
    both = [(row.person[name], judged, row.length) for row in scored if (judged := row.judge.get(name)) is not None]
    person, judge = [pair[0] for pair in both], [pair[1] for pair in both]
    differences = [mine - theirs for theirs, mine, _ in both]
    lengths = [math.log2(max(length, 1)) for _, _, length in both]
    return Agreement(
        dimension=name,
        compared=len(both),
        missing=len(scored) - len(both),
        kappa=weighted_kappa(person, judge),
        difference=fmean(differences) if both else None,
        length_rank=spearman(lengths, differences),
        length_slope=_slope(lengths, differences),
    )


def weighted_kappa(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Cohen's kappa with quadratic weights; None with fewer than two pairs or where both never vary."""
    if len(first) < 2:
        return None
    observed = fmean((a - b) ** 2 for a, b in zip(first, second, strict=True))
    expected = _variance(first) + _variance(second) + (fmean(first) - fmean(second)) ** 2
    return None if expected == 0 else 1 - observed / expected


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Rank correlation, ties by their mean rank; None where one side does not vary."""
    if len(first) < 3:
        return None
    a, b = _ranks(first), _ranks(second)
    spread = math.sqrt(_variance(a) * _variance(b))
    return None if spread == 0 else _covariance(a, b) / spread


def _slope(lengths: Sequence[float], differences: Sequence[float]) -> float | None:
    if len(lengths) < 3:
        return None
    variance = _variance(lengths)
    return None if variance == 0 else _covariance(lengths, differences) / variance


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda index: values[index])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for index in order[start : end + 1]:
            ranks[index] = (start + end) / 2
        start = end + 1
    return ranks


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return fmean((value - mean) ** 2 for value in values)


def _covariance(first: Sequence[float], second: Sequence[float]) -> float:
    a, b = fmean(first), fmean(second)
    return fmean((x - a) * (y - b) for x, y in zip(first, second, strict=True))
