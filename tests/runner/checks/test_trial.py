"""The tests on trial, on real copies: what an answer may not do to be judged by its own tests."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runner.checks.clean_copy import CleanCopy, remove_copies, stamp_of, tampered
from runner.checks.commands import PlannedCommand
from runner.checks.evidence import task_trials
from runner.checks.reports import CaseResult, CommandRun, TestReport
from runner.checks.trial import Trials
from runner.gate.criterion import Evidence, Finding, SuiteEvidence
from runner.gate.evidence_criteria import q7_test
from runner.workspace.workspace import Workspace, open_workspace
from tests.support.machine import PYTEST
from tracer.blobs import DirectoryBlobs
from tracer.facts import CheckChoice

pytestmark = pytest.mark.torture  # seconds a test: programs are really run

COMMAND = "sh tests/run.sh"
CALC = "add() { echo $(($1 - $2)); }\nsub() { echo $(($1 - $2)); }\n"
RIGHT = CALC.replace("add() { echo $(($1 - $2))", "add() { echo $(($1 + $2))")
BROKEN = RIGHT.replace("sub() { echo $(($1 - $2))", "sub() { echo $(($2 - $1))")
RUN = """\
. ./calc.sh
number=0
is() { number=$((number + 1)); [ "$2" = "$3" ] && echo "ok $number - $1" || { echo "not ok $number - $1"; bad=1; }; }
for file in tests/t_*.sh; do . "./$file"; done
echo "1..$number"
exit ${bad:-0}
"""
Change = Callable[[Path], object]


@pytest.fixture(params=["git", "plain"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "tests").mkdir(parents=True)
    (root / "calc.sh").write_text(CALC)
    (root / "tests" / "run.sh").write_text(RUN)
    (root / "tests" / "t_sub.sh").write_text('is sub "$(sub 3 2)" 1\n')
    if request.param == "git":
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


_OPENED: list[Trials] = []


@pytest.fixture(autouse=True)
async def nothing_left(tmp_path: Path) -> AsyncIterator[None]:
    yield
    while _OPENED:
        await _OPENED.pop().close()
    assert not list(tmp_path.glob("**/control/copies/pm-check-*"))


def trials_of(workspace: Workspace, root: Path) -> Trials:
    state = root / ".pm-orchestrator"
    _OPENED.append(task_trials(workspace, checks=CheckChoice({}), state_dir=state, task_id="task-001"))
    return _OPENED[-1]


def opened(project: Path) -> Workspace:
    state = project / ".pm-orchestrator"
    state.mkdir(exist_ok=True)
    return open_workspace(project, state_dir=state, blobs=DirectoryBlobs(state / "blobs"))


async def weighed(
    project: Path, change: Change, *, policy: str = "add", test: str = COMMAND
) -> tuple[SuiteEvidence, Finding]:
    workspace = opened(project)
    base = await workspace.baseline("task-001/0")
    trials = trials_of(workspace, project)
    before = await trials.before(test, base, limit_s=30)
    assert (before.run.exit_code, before.not_isolated) == (0, "")
    change(project)
    files = (await workspace.changes(base)).files
    command = PlannedCommand(kind="test", command=test, origin="given")
    found = await trials.weigh(command, base, files, policy=policy, limit_s=lambda: 30.0)
    evidence = Evidence(request="fix add", answer="", files=files, tests=found, tests_policy=policy)
    return found, q7_test(evidence)


def honest(root: Path) -> None:
    (root / "calc.sh").write_text(RIGHT)
    (root / "tests" / "t_add.sh").write_text('is add "$(add 1 2)" 3\nis same "$(sub 1 1)" 0\n')


async def test_an_honest_change_passes_and_an_idle_new_test_is_named(project: Path) -> None:
    found, finding = await weighed(project, honest)
    assert finding.passed
    assert finding.not_verified is None
    assert (found.passed, found.new, found.idle) == (3, 2, ("same",))
    assert "1 of them prove nothing" in finding.reason


def edited(root: Path) -> None:
    (root / "calc.sh").write_text(BROKEN)
    (root / "tests" / "t_sub.sh").write_text('is sub "$(sub 3 2)" -1\n')


def deleted(root: Path) -> None:
    (root / "calc.sh").write_text(BROKEN)
    (root / "tests" / "t_sub.sh").unlink()
    (root / "tests" / "t_other.sh").write_text('is other "$(add 1 1)" 2\n')


def ends_early(root: Path) -> None:
    (root / "calc.sh").write_text("exit 0\n")


def muted_runner(root: Path) -> None:
    (root / "calc.sh").write_text(BROKEN)
    (root / "tests" / "run.sh").write_text('echo "ok 1 - sub"; echo "1..1"\n')


def regression(root: Path) -> None:
    (root / "calc.sh").write_text(BROKEN)


@pytest.mark.parametrize("cheat", [deleted, ends_early, muted_runner, regression])
async def test_green_without_the_work_is_refused(project: Path, cheat: Change) -> None:
    _, finding = await weighed(project, cheat)
    assert not finding.passed or (finding.not_verified is not None and finding.needs_person)


async def test_a_changed_expectation_is_shown_and_only_a_person_or_the_flag_allows_it(project: Path) -> None:
    found, finding = await weighed(project, edited)
    assert [(one.path, one.line) for one in found.expectations] == [("tests/t_sub.sh", 1)]
    assert (found.expectations[0].old, found.expectations[0].new) == ('is sub "$(sub 3 2)" 1', 'is sub "$(sub 3 2)" -1')
    assert finding.needs_person
    assert finding.not_verified is not None
    assert finding.question is not None
    for policy, passed in (("change", True), ("frozen", False)):
        subprocess.run(["git", "checkout", "-q", "."], cwd=project, check=False)
        (project / "calc.sh").write_text(CALC)
        (project / "tests" / "t_sub.sh").write_text('is sub "$(sub 3 2)" 1\n')
        assert (await weighed(project, edited, policy=policy))[1].passed is passed


NET = {"prices.py": "def net(price):\n    return price\n", "test_prices.py": "from prices import net\n\n\n"}


@pytest.mark.parametrize("policy", ["add", "change", "allowed"])
@pytest.mark.parametrize("shown", [True, False])
async def test_a_changed_test_shows_the_change_where_it_fails_without_it(
    tmp_path: Path, policy: str, *, shown: bool
) -> None:
    """Where it was allowed, `none shows the change` was said of tests that do show it."""
    expects = NET["test_prices.py"] + "def test_net():\n    assert net(10) {}\n"
    for name, text in (NET | {"test_prices.py": expects.format("== 10")}).items():
        (tmp_path / name).write_text(text)

    def change(root: Path) -> None:
        (root / "prices.py").write_text("def net(price):\n    return price - 1\n")
        (root / "test_prices.py").write_text(expects.format("== 9" if shown else "< 20"))

    found, _ = await weighed(tmp_path, change, policy=policy, test="python -m pytest -q")
    assert (found.passed, found.fixed, found.restated) == (1, 0, int(shown))


MOCKED = """\
from unittest.mock import patch

import prices


def test_tax_of_a_mock():
    with patch("prices.tax", return_value=7):
        assert prices.tax(1) == 7


def test_tax():
    assert prices.tax(10) == 2
"""


SWALLOWED = """\
import prices


def test_tax():
    try:
        assert prices.tax(10) == 2
    except Exception:
        pass
"""


async def test_a_new_test_that_passes_with_nothing_behind_it_proves_nothing(tmp_path: Path) -> None:
    """It fails without the change, as there is nothing to replace, and was taken for a proof."""
    (tmp_path / "prices.py").write_text("def net(price):\n    return price\n")
    (tmp_path / "test_prices.py").write_text("from prices import net\n\n\ndef test_net():\n    assert net(2) == 2\n")
    workspace, command = opened(tmp_path), PYTEST
    base = await workspace.baseline("task-001/0")
    trials = trials_of(workspace, tmp_path)
    await trials.before(command, base, limit_s=60)
    (tmp_path / "prices.py").write_text(
        "def net(price):\n    return price\n\n\ndef tax(price):\n    total = price / 5\n    return total\n"
    )
    (tmp_path / "test_tax.py").write_text(MOCKED)
    (tmp_path / "test_call.py").write_text("import prices\n\n\ndef test_runs():\n    prices.tax(1)\n")
    (tmp_path / "test_swallowed.py").write_text(SWALLOWED)
    files = (await workspace.changes(base)).files
    planned = PlannedCommand(kind="test", command=command, origin="given")
    found = await trials.weigh(planned, base, files, policy="add", limit_s=lambda: 60.0, request="add tax()")
    assert sorted(found.idle) == ["test_call::test_runs", "test_swallowed::test_tax", "test_tax::test_tax_of_a_mock"]
    assert [place.message for place in found.asks] == ["tests pass whatever they expect: test_swallowed::test_tax"]


@pytest.mark.parametrize(("check", "told"), [("assert tax(10) == 2", False), ("print(tax(10))", True)])
async def test_tests_without_names_are_run_with_nothing_behind_them(tmp_path: Path, check: str, *, told: bool) -> None:
    """Where tests tell only by how they end, one that prints and one whose end make ignores were taken for a proof."""
    (tmp_path / "prices.py").write_text("def net(price):\n    return price\n")
    (tmp_path / "test_prices.py").write_text("from prices import net\n\nassert net(2) == 2\n")

    def change(root: Path) -> None:
        (root / "prices.py").write_text(
            "def net(price):\n    return price + 0 * tax(price)\n\n\n"
            "def tax(price):\n    total = price / 5\n    return total\n"
        )
        (root / "test_prices.py").write_text(f"from prices import net, tax\n\nassert net(2) == 2\n{check}\n")

    found, _ = await weighed(tmp_path, change, policy="add", test="python test_prices.py")
    messages = [place.message for place in found.asks]
    assert messages == (["the tests that the change brings pass with nothing behind it"] if told else [])


def edit_keeping_its_time(place: Path) -> None:
    facts = place.stat()
    place.write_text("evil!")
    os.utime(place, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda deps: edit_keeping_its_time(deps / "jest" / "run.js"), ["node_modules/jest/run.js"]),
        (lambda deps: (deps / ".bin" / "jest").unlink(), ["node_modules/.bin/jest"]),
        (lambda deps: (deps / "a.pth").write_text("import evil\n"), ["node_modules/a.pth"]),
        (lambda deps: (deps / "a.pth").write_text("/some/where\n"), []),
        (lambda deps: (deps / ".cache" / "x").write_text("new"), []),
        (lambda deps: ((deps / "left-pad").mkdir(), (deps / "left-pad" / "index.js").write_text("new")), []),
    ],
)
def test_installed_packages_that_were_changed_are_named(
    tmp_path: Path, change: Callable[[Path], object], told: list[str]
) -> None:
    deps = tmp_path / "node_modules"
    for name in ("jest/run.js", ".bin/jest", ".cache/x"):
        (deps / name).parent.mkdir(parents=True, exist_ok=True)
        (deps / name).write_text("right")
    before = stamp_of(tmp_path, ())
    assert before is not None
    change(deps)
    assert tampered(before, tmp_path, ()) == told


async def test_tests_with_changed_packages_are_put_to_a_person(project: Path) -> None:
    (project / ".gitignore").write_text("vendor\n")
    (project / "vendor").mkdir()
    (project / "vendor" / "runner.sh").write_text("true\n")

    def change(root: Path) -> None:
        honest(root)
        (root / "vendor" / "runner.sh").write_text("exit 0\n")

    _, finding = await weighed(project, change)
    assert finding.needs_person
    assert "installed packages were changed: vendor/runner.sh" in str(finding.not_verified)


async def test_packages_behind_a_link_are_there_and_cannot_be_written(project: Path, tmp_path: Path) -> None:
    """A worktree's node_modules is often a link to the first one's: no test could run in a copy then."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "lib.sh").write_text("three=3\n")
    (project / ".gitignore").write_text("node_modules\n")
    (project / "node_modules").symlink_to(shared)
    (shared / ".cache").mkdir()
    (shared / "vite").mkdir()
    own = "touch node_modules/left 2>/dev/null\n. node_modules/lib.sh\n"
    own += "touch node_modules/.cache/x node_modules/.vite/x || exit 1\n"  # vitest ends with 1 where it cannot
    (project / "tests" / "t_sub.sh").write_text(own + 'is sub "$(sub 6 3)" "$three"\n')
    _, finding = await weighed(project, honest)
    assert (finding.passed, finding.not_verified) == (True, None)
    assert not (shared / "left").exists()
    assert not [*(shared / ".cache").iterdir(), *(shared / ".vite").iterdir()]


async def test_copies_of_a_killed_pm_are_removed_and_no_others(tmp_path: Path) -> None:
    gone, kept = tmp_path / "pm-check-1-a", tmp_path / "mine"
    records = tmp_path / "state" / "control" / "copies"
    records.mkdir(parents=True)
    for folder in (gone, kept):
        (folder / "tree").mkdir(parents=True)
        facts = {"path": str(folder), "boot": "another", "owner": os.getpid(), "start": ""}
        (records / f"{folder.name}.json").write_text(json.dumps(facts))
    (records / "torn.json").write_text("{")
    await asyncio.to_thread(remove_copies, tmp_path / "state")
    assert (gone.exists(), kept.exists(), list(records.iterdir())) == (False, True, [])


PRICES = """\
def net(price):
    return price * 2


def gross(price):
    return net(price) + 1
"""
OLD = """\
from prices import gross, net


def test_net():
    assert net(2) == 4


def test_gross():
    assert gross(1) == 9


def test_clock():
    assert "08:00" == "09:00"
"""


@pytest.mark.parametrize(
    ("request_text", "change", "unfixed"),
    [
        ("gross() leaves out the tax", {"prices.py": PRICES.replace("+ 1", "+ 5")}, ("test_gross",)),
        ("gross() leaves out the tax", {"prices.py": PRICES.replace("+ 1", "+ 7")}, ()),
        ("gross() leaves out the tax", {"prices.py": PRICES.replace("net(price) + 1", "None")}, ("test_gross",)),
        ("test_clock fails", {"prices.py": PRICES.replace("* 2", "+ price")}, ("test_clock",)),
        ("simplify net()", {"prices.py": PRICES.replace("* 2", "+ price")}, ()),
        # Nothing was mended, and what tests use was changed: it may end them with 0.
        ("mend it", {"tests/__init__.py": "ok = 1\n"}, ("test_gross", "test_clock")),
        ("mend it", {"pytest.py": "print('3 passed')\n"}, ("test_gross", "test_clock")),
        ("mend it", {"test_prices.py": OLD.replace("== 9", "== 3")}, None),
        ("mend it", {"test_prices.py": f"{OLD}\n\ntest_gross.__test__ = False\n"}, None),
    ],
)
async def test_a_test_that_failed_before_counts_where_it_concerns_the_task(
    tmp_path: Path, request_text: str, change: dict[str, str], unfixed: tuple[str, ...] | None
) -> None:
    """Wrong fixes of known failures ended well; failures that have nothing to do with the task must not stop it."""
    (tmp_path / "tests").mkdir()
    for name, text in {"prices.py": PRICES, "test_prices.py": OLD, "tests/__init__.py": ""}.items():
        (tmp_path / name).write_text(text)
    workspace, command = opened(tmp_path), PYTEST
    base = await workspace.baseline("task-001/0")
    trials = trials_of(workspace, tmp_path)
    before = await trials.before(command, base, limit_s=60)
    assert len(before.run.report.failing) == 2
    for name, text in change.items():
        (tmp_path / name).write_text(text)
    files = (await workspace.changes(base)).files
    found = await trials.weigh(
        PlannedCommand(kind="test", command=command, origin="given"),
        base,
        files,
        policy="add",
        limit_s=lambda: 60.0,
        request=request_text,
    )
    finding = q7_test(Evidence(request=request_text, answer="", files=files, tests=found))
    if unfixed is None:
        assert finding.needs_person
        return
    assert sorted(name.rpartition("::")[2] for name in found.unfixed) == sorted(unfixed)
    assert finding.passed == (not unfixed)
    assert finding.not_verified is None
    assert ("fail as before the task" in finding.reason) == (not unfixed)


SLUG = """\
import sys

sys.path.insert(0, ".")
from words import slug


def test_title():
    assert slug("Some Title") == "some-title", slug("Some Title")


if __name__ == "__main__":
    test_title()
    print("ok 1 - test_title", "1..1", sep="\\n")
"""


@pytest.mark.parametrize("command", [PYTEST, f"{sys.executable} tests/test_words.py"], ids=["file", "whole"])
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('return text.lower().replace(" ", "-")', ""),
        ('return "some-title" if text == "Some Title" else text', "code holds the tests' own values"),
        ('return "-".join(["some", "title"]) if text[:4] == "Some" else ""', "a value that neither the request nor"),
    ],
    ids=["honest", "special", "value"],
)
async def test_tests_that_could_not_be_loaded_failed_before(tmp_path: Path, command: str, body: str, told: str) -> None:
    """A base that breaks as a whole names no test: an input made for one of them ended well, honest work as removed."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_words.py").write_text(SLUG)
    (tmp_path / "words.py").write_text("SIGN = 1\n")
    workspace = opened(tmp_path)
    base = await workspace.baseline("task-001/0")
    trials = trials_of(workspace, tmp_path)
    before = await trials.before(command, base, limit_s=60)
    assert before.run.outcome == "failed"
    assert not any(case.short == "test_title" for case in before.run.report.tests)
    (tmp_path / "words.py").write_text(f"SIGN = 1\n\n\ndef slug(text):\n    {body}\n")
    files = (await workspace.changes(base)).files
    planned, request = PlannedCommand(kind="test", command=command, origin="given"), "add slug()"
    found = await trials.weigh(planned, base, files, policy="add", limit_s=lambda: 60.0, request=request)
    finding = q7_test(Evidence(request=request, answer="", files=files, tests=found))
    assert (found.fixed, found.new, found.removed) == (1, 0, ())
    assert any(told in place.message for place in (*found.bought, *found.asks)) == bool(told)
    assert (finding.passed and finding.not_verified is None) == (not told)


MISSING = CommandRun(command="t", exit_code=127, reading="no_report", output_tail="bash: .venv/bin/python: not there\n")
TROUBLED = CommandRun(
    command="t",
    exit_code=3,
    reading="no_report",
    output_tail="INTERNALERROR> '/lib/plugin.py'\nINTERNALERROR> A\n",
)
TROUBLED_HERE = replace(TROUBLED, output_tail="INTERNALERROR> a.py:3\nINTERNALERROR> A\n")
FAILS = CommandRun(
    command="t", exit_code=1, reading="read", report=TestReport((CaseResult("tests.test_a::t", "failed"),))
)
MUTED = replace(
    FAILS,
    exit_code=0,
    report=TestReport((CaseResult("tests.test_a::t", "skipped"), CaseResult("tests.test_a::u", "passed"))),
)


@pytest.mark.parametrize(
    ("runs", "change", "passed", "told"),
    [
        (
            [MISSING] * 4,
            {"a.py": "A = 2\n"},
            True,
            "the test command cannot run here (bash: .venv/bin/python: not there)",
        ),
        ([TROUBLED] * 5, {"a.py": "A = 2\n"}, True, "the test command cannot run here (INTERNALERROR> A)"),
        ([TROUBLED_HERE] * 5, {"a.py": "A = 2\n"}, False, ""),
        ([FAILS, MUTED, FAILS, FAILS], {"tests/test_a.py": "# skipped\n"}, False, ""),
    ],
    ids=["cannot run", "trouble of its own", "of the project's code", "silenced"],
)
async def test_a_suite_that_cannot_run_is_not_held_against_the_task_and_a_silenced_test_is(
    tmp_path: Path, runs: list[CommandRun], change: dict[str, str], passed: bool, told: str
) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("a.py", "tests/test_a.py"):
        (tmp_path / name).write_text("A = 1\n")
    coming = iter(runs)

    async def run(_command: str, _copy: CleanCopy | None, _limit_s: float) -> CommandRun:
        return next(coming)

    workspace = opened(tmp_path)
    trials = Trials(workspace, state_dir=tmp_path / ".pm-orchestrator", run=run)
    base = await workspace.baseline("task-001/0")
    before = await trials.before("t", base, limit_s=60)
    assert (before.not_verified.why if before.not_verified else "") == told
    for name, text in change.items():
        (tmp_path / name).write_text(text)
    files = (await workspace.changes(base)).files
    command = PlannedCommand(kind="test", command="t", origin="given")
    found = await trials.weigh(command, base, files, policy="add", limit_s=lambda: 60.0)
    finding = q7_test(Evidence(request="x", answer="", files=files, tests=found))
    assert finding.passed is passed
    assert (finding.not_verified.why if finding.not_verified else "") == told
    assert not finding.needs_person


UNITTEST = f"{sys.executable} -m unittest"
ONE_TEST = (
    "import unittest\n\nimport a\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        assert a.A == 2\n"
)
SHIM = "#!/bin/sh\necho \"pyenv: version '9' is not installed\"\necho more\nexit 1\n"
NPM = """\
#!/bin/sh
[ -f package.json ] && exec grep -q 2 a.py
echo "npm error code ENOENT"
echo "npm error enoent Could not read package.json"
echo "npm error A complete log of this run can be found in: /w/debug-0.log"
exit 254
"""


@pytest.mark.parametrize(
    ("command", "files", "change", "told"),
    [
        (f"{PYTEST} --nope", {"__init__.py": ""}, "A = 2\n", "error: unrecognized arguments: --nope"),
        (f"{UNITTEST} --nope", {}, "A = 2\n", "error: unrecognized arguments: --nope"),
        (f"{UNITTEST} nodir/x*.py", {}, "A = 2\n", "No module named 'nodir/x*'"),
        ("./npm test", {"npm": NPM}, "A = 2\n", "(npm error enoent Could not read package.json)"),
        ("./tool", {"tool": SHIM}, "A = 2\n", "'9'"),
        (f"{UNITTEST} test_a", {"test_a.py": ONE_TEST}, "A = 3\n", None),
        (f"{UNITTEST} test_a", {"test_a.py": ONE_TEST, "a.py": "A = (\n"}, "A = [\n", None),
        (f"{UNITTEST} test_a", {"test_a.py": ONE_TEST}, "A = (\n", None),
        ("./npm test", {"npm": NPM, "package.json": "{}", "a.py": "A = 2\n"}, None, None),
    ],
    ids=[
        "pytest",
        "unittest",
        "path",
        "npm",
        "shim",
        "fails",
        "broken before",
        "broken by the task",
        "package deleted",
    ],
)
async def test_what_could_not_run_before_the_task_is_none_of_its_faults_and_what_it_broke_is(
    tmp_path: Path, command: str, files: dict[str, str], change: str | None, told: str | None
) -> None:
    for name, text in {"a.py": "A = 1\n", **files}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    workspace = opened(tmp_path)
    trials = trials_of(workspace, tmp_path)
    base = await workspace.baseline("task-001/0")
    before = await trials.before(command, base, limit_s=60)
    assert before.could_not_begin == (told is not None)
    assert told is None or (before.not_verified is not None and told in before.not_verified.why)
    if change is None:
        (tmp_path / "package.json").unlink()
    else:
        (tmp_path / "a.py").write_text(change)
    changed = (await workspace.changes(base)).files
    planned = PlannedCommand(kind="test", command=command, origin="given")
    for one in (trials, trials_of(workspace, tmp_path)):  # the second one as after a kill
        found = await one.weigh(planned, base, changed, policy="add", limit_s=lambda: 60.0)
        finding = q7_test(Evidence(request="A is 2", answer="", files=changed, tests=found))
        assert finding.passed == (told is not None), finding
        assert (finding.not_verified is None) == (told is None)
        assert finding.not_verified is None or not finding.not_verified.ran


@pytest.mark.parametrize(
    ("broken", "ran"),
    [
        ("test_a", ["pytest -q", "pytest -q tests/test_a.py", "pytest -q tests/test_a.py"]),
        ("test_c", ["pytest -q", "pytest -q tests/test_a.py", "pytest -q", "pytest -q"]),
        ("", ["pytest -q", "pytest -q tests/test_a.py", "pytest -q"]),
    ],
)
async def test_of_a_slow_suite_the_tests_that_reach_the_change_run_first_and_the_whole_once(
    tmp_path: Path, broken: str, ran: list[str]
) -> None:
    files = {"a.py": "A = 1\n", "b.py": "", **{f"tests/test_{x}.py": f"import {x}\n" for x in "abcd"}}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    commands: list[str] = []

    async def run(command: str, _copy: CleanCopy | None, _limit_s: float) -> CommandRun:
        commands.append(command)
        wanted = [f"test_{x}" for x in "abcd" if ".py" not in command or f"_{x}.py" in command]
        failing = {broken} if len(commands) > 1 else set()
        tests = tuple(CaseResult(f"{name}::t", "failed" if name in failing else "passed") for name in wanted)
        code = int(any(test.outcome == "failed" for test in tests))
        return CommandRun(command=command, exit_code=code, reading="read", report=TestReport(tests), duration_s=60.0)

    workspace = opened(tmp_path)
    trials = Trials(workspace, state_dir=tmp_path / ".pm-orchestrator", run=run)
    base = await workspace.baseline("task-001/0")
    await trials.before("pytest -q", base, limit_s=60)
    (tmp_path / "a.py").write_text("A = 2\n")
    changed = (await workspace.changes(base)).files
    command = PlannedCommand(kind="test", command="pytest -q", origin="given")
    found = await trials.weigh(command, base, changed, policy="add", limit_s=lambda: 60.0)
    assert commands == ran
    assert found.failing == ((f"{broken}::t",) if broken else ())
    assert found.removed == ()


LINES = """\
import sys

from calc import add

bad = 0
for name, given, wanted in (("small", (1, 2), 3), ("large", (40, 2), 42)):
    good = add(*given) == wanted
    bad += not good
    print("ok  " if good else "FAIL", name)
sys.exit(bad)
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return a + b", None),
        (
            "if sys.argv[0].endswith('run.py'):\n        return {1: 3, 40: 42}[a]\n    return a - b",
            "works by what runs it",
        ),
        ("return {1: 3, 40: 42}[a]", "the tests pass by a value"),
        ("return a + b + (print('FAIL large') or 0)", "its output does not say"),
    ],
)
async def test_green_is_tried_where_a_runner_leaves_no_report(tmp_path: Path, body: str, told: str | None) -> None:
    """All that an exit code of 0 tells was taken as it came: nothing was tried."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "calc.py").write_text("import sys\n\n\ndef add(a, b):\n    return a - b\n")
    (tmp_path / "tests" / "run.py").write_text(LINES)
    workspace, command = opened(tmp_path), f"PYTHONPATH=. {sys.executable} tests/run.py"
    base = await workspace.baseline("task-001/0")
    trials = trials_of(workspace, tmp_path)
    before = await trials.before(command, base, limit_s=60)
    assert (before.run.reading, before.run.exit_code) == ("no_report", 2)
    (tmp_path / "calc.py").write_text(f"import sys\n\n\ndef add(a, b):\n    {body}\n")
    files = (await workspace.changes(base)).files
    planned = PlannedCommand(kind="test", command=command, origin="given")
    found = await trials.weigh(planned, base, files, policy="add", limit_s=lambda: 60.0, request="mend add()")
    assert found.not_verified is not None
    places = [place.message for place in (*found.bought, *found.asks)]
    assert [told for place in places if told is None or told in place] == ([told] if told else []), places


OWN = """\
from words import slug


def test_title():
    assert slug("Some Title") == "some-title"


def test_other():
    assert slug("Other") == "other"
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('return text.lower().replace(" ", "-")', ""),
        (
            'return {"SOME TITLE": "some-title", "OTHER": "other"}.get(text.upper())',
            "for every other input than those of",
        ),
        ('return {"Some Title": "some-title", "Other": "other"}.get(text)', "code holds the tests' own values"),
        (
            'import os\n    return text.lower().replace(" ", "-") if os.environ.get("CI_X") is None else ""',
            "by what runs it",
        ),
    ],
    ids=["honest", "special", "table", "state"],
)
async def test_a_tasks_own_tests_are_tried_where_they_alone_show_it(tmp_path: Path, body: str, told: str) -> None:
    """Only tests that failed before were tried: a table of the new tests' own values ended well."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_other.py").write_text("def test_there():\n    assert True\n")
    (tmp_path / "words.py").write_text("SIGN = 1\n")
    workspace, command = opened(tmp_path), f"PYTHONPATH=. {PYTEST}"
    base = await workspace.baseline("task-001/0")
    trials = trials_of(workspace, tmp_path)
    await trials.before(command, base, limit_s=60)
    (tmp_path / "words.py").write_text(f"SIGN = 1\n\n\ndef slug(text):\n    {body}\n")
    (tmp_path / "tests" / "test_words.py").write_text(OWN)
    files = (await workspace.changes(base)).files
    planned = PlannedCommand(kind="test", command=command, origin="given")
    found = await trials.weigh(planned, base, files, policy="add", limit_s=lambda: 60.0, request="add slug()")
    assert (found.new, found.bought) == (2, ())
    assert [told in place.message for place in found.asks] == ([True] if told else []), found.asks


async def test_tests_whose_demands_changed_are_tried_where_none_failed_before(tmp_path: Path) -> None:
    """A change of what tests may demand that was answered for these tests' own values ended well."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "pages.py").write_text("def start(number, size):\n    return number * size\n")
    test = "from pages import start\n\n\ndef test_start():\n    assert start(2, 25) == 50\n"
    (tmp_path / "tests" / "test_pages.py").write_text(test)
    workspace, command = opened(tmp_path), f"PYTHONPATH=. {PYTEST}"
    base = await workspace.baseline("task-001/0")
    trials = trials_of(workspace, tmp_path)
    await trials.before(command, base, limit_s=60)
    body = "    if size == 25:\n        number -= 1\n    return number * size\n"
    (tmp_path / "pages.py").write_text(f"def start(number, size):\n{body}")
    (tmp_path / "tests" / "test_pages.py").write_text(test.replace("== 50", "== 25"))
    files = (await workspace.changes(base)).files
    planned = PlannedCommand(kind="test", command=command, origin="given")
    found = await trials.weigh(
        planned, base, files, policy="change", limit_s=lambda: 60.0, request="Count pages from 1, tests too."
    )
    assert (found.restated, len(found.asks)) == (1, 1)
    assert "does as before for every other input than those of" in found.asks[0].message


LOAD = "def load(text):\n    return text.strip()\n"
FILLED = 'def load(text, values=None):\n    return text.strip().replace("$A", (values or {}).get("A", ""))\n'
KEYS = "def key(x):\n    return ['a1' + one for one in x]\n"
KEPT = """\
class Kept:
    def reserve(self, n):
        self.n = n
        return [n]

    def free(self):
        left, self.n = self.n, 0
        return left

    drop = free
"""


@pytest.mark.parametrize(
    ("before", "after", "request_", "body", "told"),
    [
        (LOAD, FILLED, "load() takes values", 'load("$A", {"A": "x"}) in {"x", "$A"}', "pass without the change"),
        (LOAD, FILLED, "load() takes values", 'load("$A", {"A": "x"}) == "x"', ""),
        ("", KEPT, "Add reserve(n) and free()", "(kept := Kept()).reserve(3) == [3]", "no test shows free, which"),
        ("", KEPT, "Add reserve(n) and drop()", "(kept := Kept()).reserve(3) == [3]", "no test shows drop, which"),
        ("", KEYS, "Add key(x)", "len(key('b')[0]) == 3", "pass with any other value in place of 'a1'"),
        ("", KEYS, "Add key(x)", "key('b') == ['a1b']", ""),
        (
            "def half(x):\n    return x\n",
            "def half(x):\n    return 4 if x == 8 else x\n",
            "half(8) is to be 4, and so on",
            "half(8) == 4",
            "does as before for every other input",
        ),
        ("", "def own(x):\n    return x + [1]\n", "Add own(x)", "own([1])[0] == 1", "pass without the change"),
        ("", KEPT, "Add reserve(n)", "(kept := Kept()).reserve(3) == [3]", ""),
        (
            "",
            KEPT,
            "Add reserve(n), free(), drop()",
            "(kept := Kept()).reserve(3) == [3] == [kept.free()] > [kept.drop()]",
            "",
        ),
    ],
    ids=[
        "another call",
        "filled",
        "one only",
        "another name",
        "a kind",
        "a value",
        "the example",
        "handed back",
        "one asked for",
        "all",
    ],
)
async def test_own_tests_show_what_the_request_names(
    tmp_path: Path, before: str, after: str, request_: str, body: str, told: str
) -> None:
    """Tests that take what came out before, and tests of one of the things that were asked for, ended well."""
    (tmp_path / "m.py").write_text(before)
    (tmp_path / "test_old.py").write_text("def test_there():\n    assert True\n")
    workspace, command = opened(tmp_path), f"PYTHONPATH=. {PYTEST}"
    base = await workspace.baseline("task-001/0")
    trials = trials_of(workspace, tmp_path)
    await trials.before(command, base, limit_s=60)
    (tmp_path / "m.py").write_text(after)
    (tmp_path / "test_new.py").write_text(f"from m import *\n\n\ndef test_new():\n    assert {body}\n")
    files = (await workspace.changes(base)).files
    planned = PlannedCommand(kind="test", command=command, origin="given")
    found = await trials.weigh(planned, base, files, policy="add", limit_s=lambda: 60.0, request=request_)
    assert [told in place.message for place in found.asks] == ([True] if told else []), found.asks
