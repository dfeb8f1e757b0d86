"""Bars as inline SVG: geometry computed here, drawn by a template, so that every label is escaped. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["Bar", "BarChart", "bar_chart"]

_ROW: Final = 28
_LABEL: Final = 220
_WIDTH: Final = 640
_VALUE: Final = 90


class Bar(NamedTuple):
    """One bar: text left, text right, and its rectangle."""

    label: str
    value: str
    y: int
    width: float


class BarChart(NamedTuple):
    """A horizontal bar chart in user units; `title` is what a screen reader says."""

    title: str
    width: int
    height: int
    left: int
    bars: tuple[Bar, ...]


def bar_chart(title: str, rows: Sequence[tuple[str, float, str]]) -> BarChart:
    """A chart of (label, value, value as text); the longest bar fills the space."""
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    room = _WIDTH - _LABEL - _VALUE
    bars = tuple(
        Bar(label[:34], text, number * _ROW, round(max(0.0, value) / most * room, 1))
        for number, (label, value, text) in enumerate(rows)
    )
    return BarChart(title, _WIDTH, max(1, len(rows)) * _ROW, _LABEL, bars)
