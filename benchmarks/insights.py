"""Precision and recall of loop detection on the labelled set of tests/tracer/insights/loop_cases.py.

`python -m benchmarks.insights` prints the table; `--write` puts it into docs/insights.md. A loop found counts as right
when one of the same kind is labelled there and the two share calls.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from tests.tracer.insights.loop_cases import CASES, Case
from tracer.insights.loops import find_loops

_PAGE = Path(__file__).parent.parent / "docs" / "insights.md"
_START, _END = "<!-- measured: python -m benchmarks.insights --write -->", "<!-- /measured -->"


class Score(NamedTuple):
    """What was found against what was labelled; `wrong` and `missed` name the cases."""

    right: int
    wrong: tuple[str, ...]
    missed: tuple[str, ...]

    @property
    def precision(self) -> float:
        """Share of the loops found that are labelled."""
        return self.right / (self.right + len(self.wrong))

    @property
    def recall(self) -> float:
        """Share of the labelled loops that were found."""
        return self.right / (self.right + len(self.missed))


def score(cases: tuple[Case, ...] = CASES) -> Score:
    """Run the detector over every case."""
    right, wrong, missed = 0, [], []
    for case in cases:
        open_labels = list(case.loops)
        for loop in find_loops(case.steps()):
            label = next(
                (
                    label
                    for label in open_labels
                    if label[0] == loop.kind and label[1] <= loop.lines[-1] and loop.lines[0] <= label[2]
                ),
                None,
            )
            if label is None:
                wrong.append(case.name)
            else:
                open_labels.remove(label)
                right += 1
        missed += [case.name] * len(open_labels)
    return Score(right, tuple(wrong), tuple(missed))


def table() -> str:
    """The table of docs/insights.md."""
    result = score()
    loops = sum(len(case.loops) for case in CASES)
    without = sum(not case.loops for case in CASES)
    return "\n".join(
        [
            f"{len(CASES)} labelled sequences: {loops} loops, {without} sequences without one.",
            "",
            "| | value | cases |",
            "|---|---|---|",
            f"| precision | {result.precision:.2f} | wrongly found: {'; '.join(result.wrong) or 'none'} |",
            f"| recall | {result.recall:.2f} | missed: {'; '.join(result.missed) or 'none'} |",
            "",
        ]
    )


def main() -> None:
    """Print the table; with `--write`, into the page as well."""
    text = table()
    sys.stdout.write(text)
    if "--write" in sys.argv:
        page = _PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(_START)
        after = rest.partition(_END)[2]
        _PAGE.write_text(f"{before}{_START}\n{text}{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
