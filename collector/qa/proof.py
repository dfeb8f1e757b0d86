"""Whether tests prove a fix: they fail on the base with the patch's own tests laid over it, and pass at head, always.

Pure: from runs to a verdict and one row a test. A test whose outcome differs between runs of the same code is flaky
and proves nothing. Where no run can report, the exit codes alone speak, and the record says so (`level`); a fix whose
runs end well without the report that they owe has proved nothing, nor has one that changed what decides over its tests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from runner.checks.reports import CaseResult
from runner.gate.criterion import ChangedFile
from runner.gate.file_roles import is_test_file

Verdict = Literal["proven", "passes_at_base", "fails_at_head", "flaky", "unchanged", "no_report", "steered"]
ABSENT: Final = "absent"
_BAD: Final = frozenset({"failed", "error"})


class Run(NamedTuple):
    """One run of the test command: on which code, whether it passed, and its tests where a whole report tells.

    `whole` is false where the fix's own tests alone were run.
    """

    phase: Literal["base", "head"]
    passed: bool
    tests: tuple[CaseResult, ...] | None = None
    whole: bool = True


class Row(NamedTuple):
    """One test, before and after: an outcome, `absent`, or `flaky`. `touched`: the patch changed its file."""

    id: str
    before: str
    after: str
    touched: bool
    file: str = ""

    @property
    def fixed(self) -> bool:
        """It failed before and passes after, each time."""
        return self.before in {*_BAD, ABSENT} and self.after == "passed"

    @property
    def flaky(self) -> bool:
        """The same code gave it different outcomes."""
        return "flaky" in {self.before, self.after}

    @property
    def broken(self) -> bool:
        """It passed before and fails after."""
        return self.before == "passed" and self.after in _BAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The verdict. `level`: `tests` where reports told, `run` where only exit codes did."""

    verdict: Verdict
    level: Literal["tests", "run"]
    repeats: int
    rows: tuple[Row, ...] = ()
    tests_changed: tuple[str, ...] = ()
    steered: tuple[str, ...] = ()

    def as_json(self, *, most_rows: int = 500) -> dict[str, JsonValue]:
        """For the record: counts, lists, and the rows that matter most first."""
        ranked = sorted(self.rows, key=_rank)
        lists: dict[str, list[JsonValue]] = {
            "fail_to_pass": [row.id for row in self.rows if row.fixed],
            "pass_to_fail": [row.id for row in self.rows if row.broken],
            "flaky": [row.id for row in self.rows if row.flaky],
        }
        return {
            "verdict": self.verdict,
            "level": self.level,
            "repeats": self.repeats,
            "tests_changed": list(self.tests_changed),
            "steered": list(self.steered[:most_rows]),
            **{name: found[:most_rows] for name, found in lists.items()},
            "counts": {
                "tests": len(self.rows),
                "pass_to_pass": sum(row.before == row.after == "passed" for row in self.rows),
                **{name: len(found) for name, found in lists.items()},
            },
            "tests": [
                {"id": row.id, "before": row.before, "after": row.after, "touched": row.touched, "flaky": row.flaky}
                for row in ranked[:most_rows]
            ],
            "tests_left_out": max(len(self.rows) - most_rows, 0),
        }


def prove(
    runs: Sequence[Run],
    *,
    changed: Sequence[str],
    repeats: int,
    reporting: bool = False,
    steering: Sequence[str] = (),
    bought: Sequence[str] = (),
) -> Proof:
    """The verdict over all runs; `changed` are the paths that differ between base and head.

    `reporting`: the command's runner reports its tests where nothing keeps it from that. `steering` are those of
    `changed` that steer the tests and that no run had; `bought` are places where the patch makes tests pass.
    """
    base = [run for run in runs if run.phase == "base"]
    head = [run for run in runs if run.phase == "head"]
    tests_changed = tuple(path for path in changed if is_test_file(path))
    told = bool(head) and all(run.tests is not None for run in head) and any(run.tests for run in head)
    rows = _rows(base, head, tests_changed) if told else ()
    owed = reporting or any(run.tests for run in runs)
    verdict = _verdict(base, head, rows, told=told)
    if owed and not told and all(run.passed for run in head):
        verdict = "no_report"
    if (steering and verdict == "fails_at_head") or (bought and verdict == "proven"):
        verdict = "steered"
    return Proof(
        verdict=verdict,
        level="tests" if told else "run",
        repeats=repeats,
        rows=rows,
        tests_changed=tests_changed,
        steered=(*steering, *bought),
    )


_TELLING: Final = 12  # characters of a line without blanks: shorter ones stand in any text


def told_by_report(report: str, product: Iterable[ChangedFile]) -> tuple[str, ...]:
    """Lines that the fix adds to the product and that the bug report has word for word: it gives the fix away."""
    said = "".join(report.split())
    found = []
    for file in product:
        before, after = ((side or b"").decode("utf-8", "replace").splitlines() for side in (file.before, file.after))
        known = set(before)
        bare = ((line, "".join(line.split())) for line in after if line not in known)
        found += [line.strip() for line, text in bare if len(text) >= _TELLING and text in said]
    return tuple(found)


def are_several(passed: Mapping[str, Collection[str]]) -> bool:
    """Whether parts of the fix mend different tests by themselves; `passed` has the tests by the part applied alone."""
    sets = [set(tests) for tests in passed.values() if tests]
    return any(one.isdisjoint(other) for number, one in enumerate(sets) for other in sets[:number])


def _verdict(base: list[Run], head: list[Run], rows: tuple[Row, ...], *, told: bool) -> Verdict:
    if not all(run.passed for run in head):
        # Failing each time outweighs flaky: some test is wrong at head for sure.
        if told:
            return "fails_at_head" if any(row.after in _BAD for row in rows) or not _any_passed(head) else "flaky"
        return "flaky" if _any_passed(head) else "fails_at_head"
    if not base:
        return "unchanged"
    if told:
        if any(row.fixed for row in rows):
            return "proven"
        return "flaky" if any(row.flaky for row in rows) or not all(run.passed for run in base) else "passes_at_base"
    if all(run.passed for run in base):
        return "passes_at_base"
    return "flaky" if _any_passed(base) else "proven"


def _any_passed(runs: list[Run]) -> bool:
    return any(run.passed for run in runs)


def _rows(base: list[Run], head: list[Run], tests_changed: tuple[str, ...]) -> tuple[Row, ...]:
    before, after = _by_id(base), _by_id(head)
    ids = dict.fromkeys((*after, *before))
    # A test that is missing where the run passed was not there; where the run failed, it could not even start.
    failed = bool(base) and not any(run.passed for run in base)
    rows = []
    for test in ids:
        shown = next(case for case in (*after.get(test, ()), *before.get(test, ())) if case is not None)
        was = _summary(before.get(test, []))
        rows.append(
            Row(
                test,
                was if was != ABSENT or failed else "new",
                _summary(after.get(test, [])),
                touched=_touched(shown, tests_changed),
                file=shown.file,
            )
        )
    return tuple(rows)


def _by_id(runs: list[Run]) -> dict[str, list[CaseResult | None]]:
    """Each test's results, None for a whole run that does not have it."""
    tables = [({test.id: test for test in run.tests or ()}, run.whole) for run in runs]
    return {
        test: [table.get(test) for table, whole in tables if whole or test in table]
        for test in dict.fromkeys(test for table, _ in tables for test in table)
    }


def _summary(results: list[CaseResult | None]) -> str:
    """One word over all runs of the same code."""
    said = {ABSENT if result is None else result.outcome for result in results}
    if not said:
        return ABSENT
    if len(said) == 1:
        return said.pop()
    return "failed" if said <= _BAD else "flaky"


def _touched(test: CaseResult, tests_changed: tuple[str, ...]) -> bool:
    class_name = test.id.partition("::")[0]
    for path in tests_changed:
        module = path.rpartition(".")[0].replace("/", ".")
        folder = path.rpartition("/")[0]
        if test.file and (test.file == path or path.endswith(f"/{test.file}")):
            return True
        if class_name and (class_name in {module, path} or class_name.startswith(f"{module}.")):
            return True
        if path.endswith("_test.go") and folder and test.file.endswith(folder):
            return True
    return False


def _rank(row: Row) -> tuple[int, str]:
    interest = [row.fixed, row.broken, row.flaky, row.after in _BAD, row.touched]
    return (interest.index(True) if True in interest else len(interest), row.id)
