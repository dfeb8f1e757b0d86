"""The strength of tests: faults planted into a private copy, and what is concluded from how its tests end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.checks import strength
from runner.checks.clean_copy import CleanCopy
from runner.checks.mutants import targets_of
from runner.checks.reports import CaseResult, CommandRun, TestReport
from runner.checks.strength import (
    Outcome,
    RunTests,
    Step,
    measure_strength,
    strength_criterion,
    strength_finding,
)
from runner.checks.trial import Trials
from runner.gate.criterion import (
    ChangedFile,
    Criterion,
    Evidence,
    ModelReply,
    NotVerified,
    Strength,
    SuiteEvidence,
    Survivor,
)
from runner.gate.verdict import BUILT_IN, judge
from runner.judging import judge_by
from tracer.facts import CriterionResult

TEXT = b"""\
def total(items):
    found = 0
    for item in items:
        found += item * 2
    return found


def shown(items):
    return len(items) > 3
"""
FILE = ChangedFile(path="shop.py", before=None, after=TEXT)


def checking(root: Path, check: Callable[[dict[str, object]], None]) -> RunTests:
    """Tests that are run in this process, on the file as it lies in the copy."""

    async def run(_limit_s: float) -> Outcome:
        names: dict[str, object] = {}
        try:
            exec((root / "shop.py").read_bytes(), names)
            check(names)
        except Exception:  # noqa: BLE001
            return "failed"
        return "passed"

    return run


def total_only(names: dict[str, object]) -> None:
    assert names["total"]([1, 2]) == 6  # type: ignore[operator]
    assert names["total"]([]) == 0  # type: ignore[operator]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_bytes(TEXT)
    return tmp_path


async def counted(
    root: Path, run: RunTests, *files: ChangedFile, watch: Callable[[Step], None] = lambda _step: None, **options: float
) -> Strength | NotVerified:
    given = files or (FILE,)
    texts = {file.path: file.after or b"" for file in given}
    options = {"usual_s": 0.0, "budget_s": 60.0, **options}
    return await measure_strength(targets_of(given), texts, root=root, run=run, watch=watch, **options)


async def measured(root: Path, run: RunTests, *files: ChangedFile, **options: float) -> Strength:
    found = await counted(root, run, *files, **options)
    assert isinstance(found, Strength)
    return found


async def test_faults_that_the_tests_notice_are_counted_and_the_others_named(root: Path) -> None:
    found = await measured(root, checking(root, total_only))
    assert [(one.function, one.kind, one.line, one.old, one.new) for one in found.survivors] == [
        ("shown", "stub", 8, "the whole body", "return None"),
        ("shown", "comparison", 9, ">", ">="),
        ("shown", "constant", 9, "3", "4"),
    ]
    assert (found.killed, found.total, found.functions, found.of_functions) == (6, 9, 2, 2)
    assert round(found.percent) == 67
    assert (root / "shop.py").read_bytes() == TEXT
    assert [path.name for path in root.iterdir()] == ["shop.py"]


async def test_every_function_gets_its_share_of_a_budget_and_an_unseen_one_waits(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    clock = iter(range(1000))
    monkeypatch.setattr(strength, "monotonic", lambda: float(next(clock)))
    found = await counted(
        root,
        checking(root, total_only),
        usual_s=0.5,
        budget_s=12.0,
        watch=lambda step: seen.append(f"{step.now.function} {step.now.kind}"),
    )
    assert isinstance(found, Strength)
    # Two turns of the clock a run; `shown` is unseen after its stub, so `total` has the rest of the time.
    assert seen == ["total stub", "shown stub", "total return", "total arithmetic", "total constant"]
    assert (found.killed, len(found.survivors), found.untried) == (4, 1, 4)


async def test_a_run_that_hangs_noticed_the_fault_but_one_that_the_budget_ends_tells_nothing(root: Path) -> None:
    limits: list[float] = []

    async def hangs(limit_s: float) -> Outcome:
        limits.append(limit_s)
        return "timeout" if (root / "shop.py").read_bytes() != TEXT else "passed"

    found = await measured(root, hangs)
    assert (found.killed, found.total) == (9, 9)
    assert set(limits) == {2.0}
    assert (await measured(root, hangs, budget_s=1.5)).total == 0


async def test_nothing_is_concluded_from_tests_that_fail_without_a_fault_too(root: Path) -> None:
    async def fails(_limit_s: float) -> Outcome:
        return "failed"

    found = await counted(root, fails)
    assert isinstance(found, NotVerified)
    assert "without a fault" in found.why


async def test_a_fault_that_does_not_build_counts_for_nothing_in_a_compiled_language_only(tmp_path: Path) -> None:
    text = b"package shop\n\nfunc add(a int) int {\n\treturn a + 1\n}\n"
    (tmp_path / "add.go").write_bytes(text)
    (tmp_path / "shop.py").write_bytes(TEXT)

    async def broken(_limit_s: float) -> Outcome:
        whole = (tmp_path / "add.go").read_bytes() == text and (tmp_path / "shop.py").read_bytes() == TEXT
        return "passed" if whole else "broken"

    found = await measured(tmp_path, broken, ChangedFile(path="add.go", before=None, after=text), FILE)
    assert (found.killed, found.refused, found.functions, found.of_functions) == (9, 3, 3, 3)


async def test_a_copy_that_is_not_as_the_task_left_it_and_links_are_never_written(root: Path) -> None:
    outside = root.parent / "outside.py"
    outside.write_bytes(TEXT)
    (root / "shop.py").unlink()
    (root / "shop.py").symlink_to(outside)
    assert (await measured(root, checking(root, total_only))).total == 0
    assert outside.read_bytes() == TEXT
    (root / "shop.py").unlink()
    (root / "shop.py").write_bytes(TEXT + b"# another\n")
    found = await measured(root, checking(root, total_only))
    assert (found.total, found.refused) == (0, 9)


async def test_a_file_that_shares_its_bytes_with_another_is_replaced(root: Path) -> None:
    (root / "shop.py").chmod(0o750)
    shared = root.parent / "shared.py"
    os.link(root / "shop.py", shared)
    seen: list[bytes] = []

    async def look(_limit_s: float) -> Outcome:
        seen.append(shared.read_bytes())
        assert (root / "shop.py").stat().st_mode & 0o777 == 0o750
        return "passed"

    await measured(root, look)
    assert set(seen) == {TEXT}


async def test_the_file_is_put_back_when_the_count_is_cancelled(root: Path) -> None:
    begun = asyncio.Event()

    async def waits(_limit_s: float) -> Outcome:
        begun.set()
        await asyncio.sleep(60)
        return "passed"

    counting = asyncio.create_task(measured(root, waits))
    await begun.wait()
    assert (root / "shop.py").read_bytes() != TEXT
    counting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await counting
    assert (root / "shop.py").read_bytes() == TEXT


async def test_bytecode_of_another_fault_is_never_run(root: Path) -> None:
    """Faults of one size, planted within one second: Python takes a file for unchanged by time and size."""
    text = b"def add(a):\n    return a + 1 - 2\n"
    (root / "shop.py").write_bytes(text)
    program = "import shop, sys; sys.exit(shop.add(1) != 0)"
    watched: list[Step] = []

    async def run(_limit_s: float) -> Outcome:
        ended = subprocess.run([sys.executable, "-c", program], cwd=root, check=False, env={})
        return "passed" if ended.returncode == 0 else "failed"

    file = ChangedFile(path="shop.py", before=None, after=text)
    found = await counted(root, run, file, usual_s=0.1, watch=watched.append)
    assert isinstance(found, Strength)
    assert (found.killed, found.survivors) == (5, ())
    assert [(step.done, step.of, step.killed) for step in watched] == [(number, 5, number) for number in range(5)]
    assert watched[2].text == ("trying the tests [########............] 2/5 faults, 2 noticed · add in shop.py")
    assert (root / "__pycache__").is_dir()


SURVIVOR = Survivor(path="shop.py", line=9, function="shown", kind="comparison", old=">", new=">=")
WEAK = Strength(killed=2, survivors=(SURVIVOR,) * 2, functions=2, of_functions=2)


def test_survivors_are_named_as_information_and_fail_where_more_are_to_be_noticed() -> None:
    told = strength_finding(WEAK, required=None, budget_s=20)
    assert told.passed
    assert told.reason.startswith("2 of 4 faults noticed by the tests; not noticed: shop.py:9 shown: > → >=, shop.py:9")
    assert strength_finding(WEAK, required=50, budget_s=20).passed
    failed = strength_finding(WEAK, required=51, budget_s=20)
    assert not failed.passed
    assert failed.reason.endswith("(wanted: 51 %)")
    assert [(one.path, one.line, one.suggestion) for one in failed.places] == [
        ("shop.py", 9, "add a test that fails when > becomes >= in shown")
    ] * 2


@pytest.mark.parametrize(
    ("found", "required", "why"),
    [
        (Strength(killed=0, of_functions=2), None, "only 0 of 2 changed functions tried in 20 s"),
        (Strength(killed=3, functions=1, of_functions=2), 80, "only 1 of 2 changed functions tried in 20 s"),
        (Strength(killed=3, functions=1, of_functions=2), None, None),
        (NotVerified(why="flaky", next="mend"), 80, "flaky"),
        (NotVerified(why="flaky", next="mend"), None, "flaky"),
        (None, 100, None),
    ],
)
def test_what_was_not_counted_is_never_taken_for_strong(
    found: Strength | NotVerified | None, required: float | None, why: str | None
) -> None:
    finding = strength_finding(found, required=required, budget_s=20)
    assert finding.passed
    assert (finding.not_verified.why if finding.not_verified else None) == why


def test_the_verdict_records_the_count_for_readers() -> None:
    criterion = Criterion(
        id="Q11", name="Tests Can Fail", check=lambda _: strength_finding(WEAK, required=None, budget_s=20)
    )
    recorded = CriterionResult(judge(Evidence(request="", answer="x"), [criterion]).criteria_results[0])
    assert recorded.strength is not None
    assert (recorded.strength.killed, recorded.strength.total, recorded.strength.functions) == (2, 4, 2)
    assert [(one.path, one.line, one.new) for one in recorded.strength.survivors] == [("shop.py", 9, ">=")] * 2


class Models:
    async def ask(self, prompt: str, **_options: object) -> ModelReply:
        raise AssertionError(prompt)


RAN = SuiteEvidence(command="make test", passed=3)


@pytest.mark.parametrize(
    ("tests", "required", "outcome", "said"),
    [
        (RAN, None, "pass", "2 of 4 faults noticed"),
        (RAN, 80.0, "fail", "wanted: 80 %"),
        (SuiteEvidence(command="x", not_isolated="no git"), 80.0, "not_verified", "no copy to put faults into: no git"),
        (
            SuiteEvidence(command="x", not_verified=NotVerified(why="no report", next="")),
            80.0,
            "not_verified",
            "no report",
        ),
        (None, 80.0, "not_verified", "no tests were run"),
    ],
)
async def test_the_criterion_counts_only_where_tests_showed_something_in_a_copy(
    tests: SuiteEvidence | None, required: float | None, outcome: str, said: str
) -> None:
    asked: list[tuple[str, float]] = []

    async def measure(command: str, *, budget_s: float) -> Strength:
        asked.append((command, budget_s))
        return WEAK

    own = next(one for one in BUILT_IN if one.id == "Q11")
    criterion = strength_criterion(own, measure, required=required, budget_s=7.0)
    verdict = await judge_by(Evidence(request="", answer="x", tests=tests), [criterion], models=Models())
    assert asked == ([("make test", 7.0)] if tests is RAN else [])
    assert verdict.criteria_results[0]["outcome"] == outcome
    assert said in verdict.criteria_results[0]["reason"]


class Folder:
    """A workspace whose base is an empty tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def lay_out(self, _base: str, _folder: Path, *, changed: object) -> str:
        del changed
        return ""


def trials(tmp_path: Path, seen: list[bytes], ends: Callable[[bytes], CaseResult]) -> Trials:
    async def run(_command: str, copy: CleanCopy | None, _limit_s: float) -> CommandRun:
        assert copy is not None
        seen.append((copy.tree / "shop.py").read_bytes())
        case = ends(seen[-1])
        code = int(case.outcome != "passed")
        return CommandRun(command="make test", exit_code=code, reading="read", report=TestReport(tests=(case,)))

    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "shop.py").write_bytes(TEXT)
    return Trials(Folder(workspace), state_dir=tmp_path / "state", run=run)


async def test_faults_are_tried_in_a_copy_of_what_the_task_left_and_never_in_the_workspace(tmp_path: Path) -> None:
    seen: list[bytes] = []
    found = await trials(tmp_path, seen, lambda text: CaseResult("a", "passed" if text == TEXT else "failed")).strength(
        "make test", base="b", files=[FILE], budget_s=60.0, watch=lambda _step: None
    )
    assert isinstance(found, Strength)
    assert (found.killed, found.total) == (9, 9)
    assert seen[0] == seen[-1] == TEXT
    assert len(set(seen)) == 10
    assert (tmp_path / "workspace" / "shop.py").read_bytes() == TEXT


async def test_tests_that_fail_in_the_copy_say_nothing_of_faults(tmp_path: Path) -> None:
    seen: list[bytes] = []
    tried = trials(tmp_path, seen, lambda _text: CaseResult("a", "failed"))
    found = await tried.strength("make test", base="b", files=[FILE], budget_s=60.0, watch=lambda _step: None)
    assert isinstance(found, NotVerified)
    assert seen == [TEXT]
    same = ChangedFile(path="shop.py", before=TEXT, after=TEXT)
    assert await tried.strength("make test", base="b", files=[same], budget_s=60.0, watch=lambda _step: None) is None
