"""Charts over time above the lists: what the filter found by day, month or year; pure.

The bars are drawn without text, so that nothing in them is ever cut; a table has every value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

_MOST: Final = 62  # columns
_HIGH: Final = 100
_SEEN: Final = 2.0  # so high is the smallest value

Totals = Mapping[str, Any]


class Plot(NamedTuple):
    """What one chart draws: `parts` (a CSS class and the value) upon each other, `told` says them in words."""

    name: str
    parts: tuple[tuple[str, Callable[[Totals], float]], ...]
    told: Callable[[Totals], str]


class Rectangle(NamedTuple):
    """A part of a column in user units."""

    x: int
    y: float
    height: float
    css: str
    title: str


class Chart(NamedTuple):
    """One chart; `most` is its highest column in words."""

    name: str
    most: str
    rectangles: tuple[Rectangle, ...]


class Period(NamedTuple):
    """A day, month or year with something in it; `terms` are the filter's that find it alone."""

    name: str
    terms: str
    told: tuple[str, ...]


class OverTime(NamedTuple):
    """All charts of a list; they share their `width` in user units, and their time."""

    unit: str
    charts: tuple[Chart, ...]
    width: int
    periods: tuple[Period, ...]
    first: str
    last: str


def over_time(days: Mapping[str, Totals], plots: Sequence[Plot]) -> OverTime | None:
    """The charts of what is known `days` by day; None where all of it is of one day."""
    known = {day: told for text, told in days.items() if (day := _day(text)) is not None}
    plots = [plot for plot in plots if any(value(told) for told in known.values() for _, value in plot.parts)]
    if len(known) < 2 or not plots:
        return None
    for unit, start, following in _UNITS:
        periods = [start(min(known))]
        while periods[-1] < start(max(known)) and (len(periods) < _MOST or unit == "year"):
            periods.append(following(periods[-1]))
        if periods[-1] == start(max(known)):
            break
    periods = periods[-_MOST:]
    sums: dict[date, dict[str, Any]] = {period: {} for period in periods}
    for day, told in known.items():
        into = sums.get(start(day), {})  # what is before the last columns goes nowhere
        for name, value in told.items():
            if value is not None:
                into[name] = into.get(name, 0) + value
    written = {period: period.isoformat()[: _WRITTEN[unit]] for period in periods}
    return OverTime(
        unit,
        tuple(_chart(plot, sums, written) for plot in plots),
        len(periods) * 10,
        tuple(
            Period(name, f"since:{period} until:{following(period)}", tuple(plot.told(sums[period]) for plot in plots))
            for period, name in reversed(written.items())
            if sums[period]
        ),
        written[periods[0]],
        written[periods[-1]],
    )


def _chart(plot: Plot, sums: Mapping[date, Totals], written: Mapping[date, str]) -> Chart:
    heights = {period: [(css, max(0.0, value(told))) for css, value in plot.parts] for period, told in sums.items()}
    whole = {period: sum(value for _, value in parts) for period, parts in heights.items()}
    highest = max(whole, key=lambda period: whole[period])
    drawn = []
    for at, (period, parts) in enumerate(heights.items()):
        top = float(_HIGH)
        for css, value in parts:
            if value:
                height = round(max(_SEEN, value / whole[highest] * (_HIGH - _SEEN)), 1)
                top -= height
                title = f"{written[period]}: {plot.told(sums[period])}"
                drawn.append(Rectangle(at * 10 + 1, round(top, 1), height, css, title))
    return Chart(plot.name, f"{plot.told(sums[highest])} on {written[highest]}", tuple(drawn))


def _day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except (TypeError, ValueError):  # what an agent wrote for a time
        return None
    return day if day.year < date.max.year else None  # after which there is none


_Step = Callable[[date], date]
_UNITS: Final[tuple[tuple[str, _Step, _Step], ...]] = (
    ("day", lambda day: day, lambda day: day + timedelta(days=1)),
    ("month", lambda day: day.replace(day=1), lambda day: (day + timedelta(days=31)).replace(day=1)),
    ("year", lambda day: day.replace(month=1, day=1), lambda day: day.replace(year=day.year + 1)),
)
_WRITTEN: Final = {"day": 10, "month": 7, "year": 4}
