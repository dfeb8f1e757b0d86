"""The few things every benchmark shares: timing, the median of several rounds, and one line a figure."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

__all__ = ["Figure", "heading", "median_s", "scratch_repository", "show"]


class Figure(NamedTuple):
    """One measured ratio. `better` says which side of `target` is wanted; target None: printed for comparison only."""

    name: str
    ratio: float
    target: float | None = None
    better: str = "lower"
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        if self.target is None:
            return True
        return self.ratio <= self.target if self.better == "lower" else self.ratio >= self.target


def median_s(work: Callable[[], object], *, rounds: int = 5) -> float:
    """Median wall seconds of `rounds` calls, after one that is not counted."""
    work()
    times = []
    for _round in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def scratch_repository(folder: Path) -> None:
    """A git repository of one commit in `folder`, which exists."""
    (folder / "a.txt").write_text("a\n")
    git = ["git", "-c", "user.name=b", "-c", "user.email=b@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=folder, check=True)


def heading(text: str) -> None:
    """A section's title."""
    sys.stdout.write(f"\n## {text}\n")


def show(figure: Figure) -> None:
    """One figure with its target and whether it is met."""
    if figure.target is None:
        verdict = ""
    else:
        sign = "<=" if figure.better == "lower" else ">="
        verdict = f"  (target {sign} {figure.target:g}: {'met' if figure.met else 'MISSED'})"
    note = f"  {figure.note}" if figure.note else ""
    sys.stdout.write(f"{figure.name:58} {figure.ratio:10.3f}{verdict}{note}\n")
    sys.stdout.flush()
