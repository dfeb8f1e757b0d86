"""Test commands run for real: what stands in the folder does not stand in for the runner."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from runner.checks.reports import CommandRun
from runner.checks.run_tests import KEEP_BYTES, TestPlace, run_tests
from runner.processes.command import ProcessResult, run_command
from runner.processes.environment import command_environment

_PYTHON = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


async def _run(command: str, folder: Path, files: Mapping[str, str], **environment: str) -> CommandRun:
    tree, reports = folder / "tree", folder / "reports"
    for each in (tree, reports):
        each.mkdir()
    for name, text in files.items():
        (tree / name).write_text(text, encoding="utf-8")

    async def start(argv: Sequence[str], env: Mapping[str, str]) -> ProcessResult:
        return await run_command(argv, cwd=tree, env=env, timeout_s=60, keep_bytes=KEEP_BYTES)

    place = TestPlace(tree=tree, seen_as=tree, reports=reports)
    mine = {**command_environment(), "PATH": _PYTHON, **environment}
    return await run_tests(command, place=place, start=start, environment=mine)


_UNITS = """
import unittest
class Sums(unittest.TestCase):
    def test_adds(self): self.assertEqual(1 + 1, 2)
    def test_carries(self):
        for n in (1, 2):
            with self.subTest(n=n): self.assertEqual(n, 1)
    @unittest.skip("later")
    def test_later(self): pass
    @unittest.expectedFailure
    def test_known(self): self.fail()
class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise ValueError("no database")
    def test_never(self): pass
"""


async def test_unittest_reports_every_test_and_a_file_of_its_name_does_not_stand_in(tmp_path: Path) -> None:
    forged = "import sys; print('OK'); sys.exit(0)"
    run = await _run("python -m unittest", tmp_path, {"test_sums.py": _UNITS, "unittest.py": forged})
    assert (run.outcome, run.exit_code, run.reading) == ("failed", 1, "read")
    assert run.report.outcomes == {
        "test_sums.Sums::test_adds": "passed",
        "test_sums.Sums::test_carries": "failed",
        "test_sums.Sums::test_known": "passed",
        "test_sums.Sums::test_later": "skipped",
        "setUpClass (test_sums::Broken)": "error",
    }


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q | tail -1",
        *(pytest.param(one, marks=pytest.mark.torture) for one in ("python -m pytest -q", "pytest -q; true")),
    ],
)
async def test_pytest_reports_and_a_file_of_its_name_does_not_stand_in(tmp_path: Path, command: str) -> None:
    tests = "import calc\ndef test_good(): assert calc.ONE == 1\ndef test_bad(): assert calc.ONE == 2\n"
    forged = "import sys; print('1 passed'); sys.exit(0)"
    run = await _run(command, tmp_path, {"test_it.py": tests, "calc.py": "ONE = 1", "pytest.py": forged})
    assert run.outcome == "failed"
    assert run.report.outcomes == {"test_it::test_good": "passed", "test_it::test_bad": "failed"}


async def test_a_process_that_ends_itself_well_has_passed_nothing(tmp_path: Path) -> None:
    run = await _run("pytest -q", tmp_path, {"test_it.py": "import os\ndef test_bad(): os._exit(0)\n"})
    assert (run.exit_code, run.reading, run.outcome) == (0, "no_report", "not_verified")


@pytest.mark.torture
async def test_what_the_users_environment_says_to_the_runner_is_not_heard(tmp_path: Path) -> None:
    tests = {"test_it.py": "def test_bad(): assert False\n"}
    run = await _run("pytest -q", tmp_path, tests, PYTHONPATH="/nowhere", NODE_OPTIONS="--no", GOFLAGS="-run=x")
    assert run.outcome == "failed"


async def test_a_report_of_an_earlier_run_is_not_read_again(tmp_path: Path) -> None:
    run = await _run("./check.sh || exit 0", tmp_path, {"junit.xml": "<s><testcase name='old'/></s>"})
    assert (run.reading, run.outcome) == ("no_report", "not_verified")


async def test_a_script_that_leaves_a_report_is_believed(tmp_path: Path) -> None:
    run = await _run("echo \"<s><testcase name='new'/></s>\" > junit.xml", tmp_path, {})
    assert (run.reading, run.report.outcomes) == ("read", {"new": "passed"})


async def test_a_link_in_place_of_a_report_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.xml").write_text("<s><testcase name='other'/></s>", encoding="utf-8")
    run = await _run("ln -s ../outside.xml junit.xml; mkfifo reports.xml; true", tmp_path, {})
    assert run.reading == "no_report"


# A runner that is there at once: one test, which fails; none where it is asked for one that is not there.
_PYTEST = """#!/bin/sh
for word in "$@"; do case $word in
  --junitxml=*) report=${word#*=} ;;
  --co*|--fixtures|--version|--help|-h) exit 0 ;;
  nothing) echo "<s/>" > "${report:-/dev/null}"; exit 5 ;;
esac; done
[ -n "$report" ] && echo "<s><testcase name='bad'><failure/></testcase></s>" > "$report"
exit 1
"""
_PROVE_NOTHING = """
pytest -q | tail -5
pytest -q 2>&1 | tee log | tail -1
pytest | cat
pytest | grep -v failed
pytest || true
pytest || :
pytest || exit 0
pytest || echo failed
pytest || { echo failed; exit 0; }
pytest || (exit 0)
pytest || pytest --collect-only
pytest ; true
pytest; exit 0
pytest; echo done
pytest & true
pytest & wait
pytest &
(pytest &)
(pytest; true)
{ pytest; true; }
! pytest
! (pytest)
set +e; pytest; true
set +e; pytest; echo $?
set -e; pytest || true
set +o pipefail; pytest | tail -5
trap 'exit 0' EXIT; pytest
pytest > log; cat log
pytest > log 2>&1; tail -5 log
pytest -q > /dev/null || true
if pytest; then echo ok; else echo no; fi
if pytest; then :; fi
while ! pytest; do break; done
for f in a b; do pytest; done; true
pytest && echo ok || echo no
echo $(pytest)
echo "$(pytest)"
out=$(pytest); echo "$out"
OUT=`pytest`; true
cat <(pytest)
eval pytest; true
eval "pytest || true"
bash -c 'pytest || true'
sh -c 'pytest; exit 0'
bash -c "pytest | tail -5; true"
timeout 60 pytest; true
nohup pytest > log 2>&1 &
xargs -a /dev/null pytest
find . -name nothing -exec pytest {} ;
find . -name none.py | xargs -r pytest
pytest --collect-only
pytest --co -q
pytest --version
pytest --help
pytest --fixtures
pytest -k nothing
pytest -k nothing || true
pytest -k nothing; [ $? -eq 5 ]
python -c 'import subprocess; subprocess.run(["pytest"])'
make -n test
make -k -i test
make -i test
make test || true
./nothing.sh || true
./ends-well.sh
f() { pytest; true; }; f
pytest() { true; }; pytest
alias pytest=true; pytest
pytest=true; $pytest
true
:
exit 0
test -d .
ls
""".strip().splitlines()


async def test_no_test_command_that_ends_well_whatever_the_code_is_passes(tmp_path: Path) -> None:
    """The tests fail, or there are none: 0 as the exit code alone makes no plain COMPLETE."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pytest").write_text(_PYTEST)
    (tmp_path / "bin" / "pytest").chmod(0o700)
    passed = []
    for number, command in enumerate(_PROVE_NOTHING):
        folder = tmp_path / str(number)
        folder.mkdir()
        files = {"Makefile": "test:\n\tpytest\n", "ends-well.sh": "#!/bin/sh\npytest\nexit 0\n"}
        run = await _run(command, folder, files, PATH=f"{tmp_path / 'bin'}{os.pathsep}{_PYTHON}")
        if run.outcome == "passed":
            passed.append(command)
    assert passed == []
