"""Precision and recall of loop detection on two labelled sets (tests/tracer/insights/loop_cases.py, blind_cases.py).

`python -m benchmarks.insights` prints the table; `--write` puts it into docs/insights.md. A loop found counts as right
when one of the same kind is labelled there and the two share calls. The second set goes through the distiller.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from tests.tracer.insights import blind_cases
from tests.tracer.insights.blind_traces import steps_of
from tests.tracer.insights.loop_cases import CASES, Case
from tracer.insights.loops import find_loops

_PAGE = Path(__file__).parent.parent / "docs" / "insights.md"
_START, _END = "<!-- measured: python -m benchmarks.insights --write -->", "<!-- /measured -->"


class Score(NamedTuple):
    """What was found against what was labelled; `wrong` and `missed` name the cases, `labels` counts those found."""

    right: int
    wrong: tuple[str, ...]
    missed: tuple[str, ...]
    labels: int

    @property
    def precision(self) -> float:
        """Share of the loops found that are labelled."""
        return self.right / (self.right + len(self.wrong))

    @property
    def recall(self) -> float:
        """Share of the labelled loops that were found."""
        return self.labels / (self.labels + len(self.missed))


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
    return Score(right, tuple(wrong), tuple(missed), right)


def score_second() -> Score:
    """The second set. One label may be found in several pieces (two calls in turns): each is right."""
    right, wrong, missed, labels = 0, [], [], 0
    for case in blind_cases.CASES:
        loops = find_loops(steps_of(case))
        hits = {
            (found, label)
            for found, loop in enumerate(loops)
            for label, (kind, first, last) in enumerate(case.loops)
            if kind == loop.kind and first <= loop.lines[-1] and loop.lines[0] <= last
        }
        right += len({found for found, _ in hits})
        wrong += [case.name] * (len(loops) - len({found for found, _ in hits}))
        labels += len({label for _, label in hits})
        missed += [case.name] * (len(case.loops) - len({label for _, label in hits}))
    return Score(right, tuple(wrong), tuple(missed), labels)


def table() -> str:
    """The table of docs/insights.md."""
    rows = ["| set | | value | cases |", "|---|---|---|---|"]
    sets = (("first, tuned on", score(), CASES), ("second, after mending", score_second(), blind_cases.CASES))
    for name, result, cases in sets:
        loops = sum(len(case.loops) for case in cases)
        found = result.right + len(result.wrong)
        precision = f"precision | {result.precision:.2f} ({result.right} of {found} found)"
        recall = f"recall | {result.recall:.2f} ({result.labels} of {loops})"
        wrong, missed = "; ".join(result.wrong) or "none", "; ".join(result.missed) or "none"
        rows.append(f"| {name}: {len(cases)} sequences, {loops} loops | {precision} | wrongly found: {wrong} |")
        rows.append(f"| | {recall} | missed: {missed} |")
    return "\n".join([*rows, ""])


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
