"""Merges the busy times of a calendar, given as (start, end) in minutes, so that gaps between them can be offered."""

from __future__ import annotations

Interval = tuple[int, int]


def merge(intervals: list[Interval]) -> list[Interval]:
    """The same time as few intervals as possible, in order; touching ones become one."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def free(intervals: list[Interval], day: Interval) -> list[Interval]:
    """The gaps of `day` that no interval covers."""
    gaps, at = [], day[0]
    for start, end in merge(intervals):
        if start > at:
            gaps.append((at, min(start, day[1])))
        at = max(at, end)
    if at < day[1]:
        gaps.append((at, day[1]))
    return gaps
