"""`python -m benchmarks.criteria`: judges the corpus and prints, or writes into docs/criteria.md, the table.

`--half dev|test|later|all` (default all), `--show` lists every wrong case, `--write` updates the marked part of the
page.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.criteria.baseline import word_scan
from benchmarks.criteria.corpus import Case, load
from runner.gate.verdict import criteria_in_force, judge

MEASURED = ("Q2", "Q3", "Q4", "Q5", "Q6")
_TITLES = {"test": "Test half", "dev": "Dev half", "later": "Written later"}
PAGE = Path(__file__).parents[2] / "docs" / "criteria.md"
BEGIN, END = "<!-- corpus table: begin -->", "<!-- corpus table: end -->"


class Score:
    """Right and wrong of one row: true and false rejects, misses, passes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, *, wanted: bool, got: bool) -> None:
        """Count one case: `wanted` to be rejected, `got` rejected."""
        self.counts[{(1, 1): "tp", (0, 1): "fp", (1, 0): "fn", (0, 0): "tn"}[wanted, got]] += 1

    def row(self, name: str) -> str:
        """The Markdown row."""
        tp, fp, fn, tn = (self.counts[key] for key in ("tp", "fp", "fn", "tn"))
        precision = f"{100 * tp / (tp + fp):.1f} %" if tp + fp else "–"
        recall = f"{100 * tp / (tp + fn):.1f} %" if tp + fn else "–"
        return f"| {name} | {tp + fp + fn + tn} | {tp + fn} | {precision} | {recall} | {fp} | {fn} |"


def failed(case: Case) -> dict[str, str]:
    """The measured criteria that fail, with their reasons."""
    verdict = judge(case.evidence, criteria_in_force())
    return {
        result["id"]: result["reason"]
        for result in verdict.criteria_results
        if not result["passed"] and result["id"] in MEASURED
    }


def measure(cases: Iterable[Case], *, show: bool) -> dict[str, Score]:
    """Judge every case and fill the rows; `show` prints what went wrong."""
    rows: dict[str, Score] = {}
    for case in cases:
        got = failed(case)
        rows.setdefault("all", Score()).add(wanted=bool(case.expect), got=bool(got))
        rows.setdefault("word scan", Score()).add(wanted=bool(case.expect), got=word_scan(case.evidence))
        rows.setdefault(f"language {case.language}", Score()).add(wanted=bool(case.expect), got=bool(got))
        for criterion in MEASURED:
            # Where either of two criteria will do, the other one is neither a hit nor a fault.
            if criterion in case.expect and not (criterion not in got and got.keys() & case.expect):
                rows.setdefault(criterion, Score()).add(wanted=True, got=criterion in got)
            elif criterion not in case.expect:
                rows.setdefault(criterion, Score()).add(wanted=False, got=criterion in got)
        if show and (bool(got) != bool(case.expect) or (case.expect and not got.keys() & case.expect)):
            print(f"{case.name}: want {'/'.join(sorted(case.expect)) or 'PASS'} got {got or 'PASS'}  # {case.why}")
    return rows


def table(half: str, rows: dict[str, Score]) -> str:
    """The Markdown table of one part."""
    total = rows["all"].counts
    scan = rows["word scan"].counts
    count = sum(total.values())
    lines = [
        f"### {_TITLES[half]}: {count} cases",
        "",
        "{} {} {}".format(
            f"False rejects {100 * total['fp'] / max(1, total['fp'] + total['tn']):.1f} % of what should pass,",
            f"misses {100 * total['fn'] / max(1, total['fn'] + total['tp']):.1f} % of what should be rejected.",
            f"The word scan is wrong on {100 * (scan['fp'] + scan['fn']) / count:.0f} %.",
        ),
        "",
        "| | cases | to reject | precision | recall | false rejects | misses |",
        "|---|---|---|---|---|---|---|",
    ]
    order = ["all", "word scan", *MEASURED, *sorted(name for name in rows if name.startswith("language "))]
    lines += [rows[name].row(name.removeprefix("language ")) for name in order if name in rows]
    return "\n".join(lines)


def main() -> int:
    """Run the benchmark; exit 1 where a label file is unreadable."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.criteria", description=__doc__)
    parser.add_argument("--half", choices=("dev", "test", "later", "all"), default="all")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    halves = ("test", "later", "dev") if arguments.half == "all" else (arguments.half,)
    tables = [table(half, measure(cases, show=arguments.show)) for half in halves if (cases := load(half))]
    text = "\n\n".join(tables)
    print("The tuned corpus: the rules were built on it. Unseen work: the protocol is in docs/criteria.md.\n")
    print(text, flush=True)
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN, 1)
        PAGE.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
