"""How a test command is started, and which commands prove nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.checks.command_line import PYTHON_STARTER, narrowed, plan_launch, runners

_SCRIPTS = {"test": "npm run lint && npm run unit", "unit": "jest", "pretest": "echo hi", "quiet": "mocha || true"}


def _started(command: str) -> str:
    return plan_launch(command, report="R", scripts=_SCRIPTS).argv[-1]


@pytest.mark.parametrize("name", [runner.name for runner in runners()])
def test_every_row_is_shown_by_its_example(name: str) -> None:
    given_command, started = next(runner.example for runner in runners() if runner.name == name)
    launch = plan_launch(given_command, report="R")
    assert launch.argv == ("bash", "-o", "pipefail", "-c", started.replace("R.", "R-00."))
    assert (launch.runners, launch.doubt) == ((name,), None)
    assert launch.told_by_output is not any("{report}" in arg for arg in _row(name).args)
    assert all(plan_launch(f"{given_command} {option}", report="R").doubt for option in _row(name).lists)


def _row(name: str) -> Any:
    return next(runner for runner in runners() if runner.name == name)


@pytest.mark.parametrize(
    "command",
    [
        "pytest || true", "pytest; true", "pytest &", "pytest\ntrue", "! pytest", "pytest || echo failed", "true",
        ": ; :",
        "pytest --collect-only -q", "uv run pytest --version", "bash -c 'pytest || true'", "sh -c 'pytest | tail'",
        "make -n test", "go test -list . ./...", "cargo test -- --list", "npm run quiet", "nohup pytest >log 2>&1 &",
        "cargo test >log; tail log", "(cd a; pytest; echo done)", "echo ok", "timeout 60 npx jest --listTests",
    ],
)  # fmt: skip
def test_a_command_that_ends_well_whatever_the_code_is_is_named(command: str) -> None:
    doubt = plan_launch(command, report="R", scripts=_SCRIPTS).doubt
    assert doubt is not None
    assert doubt.why.startswith("the test command ")
    assert "--test" in doubt.next


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q", "pytest -q | tail -5", "pytest 2>&1 | tee log", "cd a && pytest", "cd a; pytest",
        "pytest; exit $?",
        "(cd a && pytest) || { echo no; exit 1; }", "pytest && echo done", "echo ok && pytest", "set -e; pytest; true",
        "pytest & wait $!", "make test", "./check.sh", "python check.py", "$TESTS", "npm test",
        "jest --passWithNoTests",
        "pytest -k 'version or help'", "pytest -- --version", "test -f a.txt", "pytest 'unclosed",
        "go vet ./... && go test ./...", "pytest tests/a; pytest tests/b", "pytest; rc=$?; rm -r tmp; exit $rc",
    ],
)  # fmt: skip
def test_a_command_whose_failing_is_seen_is_not_doubted(command: str) -> None:
    assert plan_launch(command, report="R", scripts=_SCRIPTS).doubt is None


def test_without_bash_a_pipeline_ends_as_its_last_part() -> None:
    launch = plan_launch("pytest | tail -5", report="R", bash=None)
    assert launch.argv[:2] == ("/bin/sh", "-c")
    assert launch.doubt is not None


@pytest.mark.parametrize(
    ("command", "started"),
    [
        ("python3 -W error -m pytest -x",
         f"python3 -W error {PYTHON_STARTER} pytest R-00.xml -x --junitxml=R-00.xml -o junit_family=xunit1"),
        ("A=1 .venv/bin/python -m unittest -q", f"A=1 .venv/bin/python {PYTHON_STARTER} unittest R-00.xml"),
        ("go test ./... | tail -3", "go test -json -count=1 ./... | tee R-00.txt | tail -3"),
        ("pytest -- a", "pytest --junitxml=R-00.xml -o junit_family=xunit1 -- a"),
        ("jest a; mocha b >log",
         "jest a --json --outputFile=R-00.json; mocha b --reporter xunit --reporter-option output=R-01.xml >log"),
        ("npm run unit -- 'a b'", "npm exec -c 'jest '\"'\"'a b'\"'\"' --json --outputFile=R-1-10.json'"),
        ("npm test",
         "npm exec -c 'echo hi && npm run lint && npm exec -c '\"'\"'jest --json --outputFile=R-1-3-20.json'\"'\"''"),
        ("cd web && npm test", "cd web && npm test"),
        ("npm -s run unit src", "npm exec -c 'jest src --json --outputFile=R-1-10.json'"),
        ("npm run unit -w web", "npm run unit -w web"),
        ("yarn run unit --ci",
         "sh -c 'PATH=\"$PWD/node_modules/.bin:$PATH\"; jest --ci --json --outputFile=R-1-10.json'"),
        ("yarn -s run unit", "sh -c 'PATH=\"$PWD/node_modules/.bin:$PATH\"; jest --json --outputFile=R-1-10.json'"),
        ("pnpm run unit", "pnpm exec sh -c 'jest --json --outputFile=R-1-10.json'"),
        ("jest 'é' && jest \"$X\"",
         "jest 'é' --json --outputFile=R-00.json && jest \"$X\" --json --outputFile=R-01.json"),
        ("node --test --test-reporter=junit --test-reporter-destination=a.xml",
         "node --test --test-reporter=junit --test-reporter-destination=a.xml"),
        ("node --test-reporter=dot --test",
         ("node --test --test-reporter=spec --test-reporter-destination=stdout --test-reporter=tap"
         " --test-reporter-destination=R-00.tap")),
        ("make test", "make test"),
        ("pytest 'unclosed", "pytest 'unclosed"),
    ],
)  # fmt: skip
def test_runners_are_told_to_report_and_the_rest_of_the_line_stays(command: str, started: str) -> None:
    assert _started(command) == started


@pytest.mark.parametrize(
    ("command", "alone"),
    [
        ("pytest -q", "pytest -q tests/test_a.py"),
        ("uv run python -m pytest >log", "uv run python -m pytest tests/test_a.py >log"),
        ("go test -v ./...", "go test -v ./calc"),
        ("npx jest .", "npx jest 'web/a b.test.ts'"),
        ("npm run unit", "npm run unit -- 'web/a b.test.ts'"),
        ("yarn unit", "yarn unit 'web/a b.test.ts'"),
        ("npm test", None),
        ("npm run quiet", None),
        ("pytest tests/unit", None),
        ("pytest -q tests", "pytest -q tests/test_a.py"),
        ("pytest ./tests/ -n 2", "pytest tests/test_a.py -n 2"),
        (
            "python -m pytest -p no:cacheprovider -m 'not slow'",
            "python -m pytest -p no:cacheprovider -m 'not slow' tests/test_a.py",
        ),
        ("pytest tests/test_b.py::test_one", None),
        ("pytest test_b.py::test_one", None),
        ("pytest tests other", None),
        ("npx jest web", "npx jest 'web/a b.test.ts'"),
        ("pytest -k half", None),
        ("pytest && jest", None),
        ("make test", None),
        ("cargo test", None),
    ],
)
def test_a_runner_is_given_test_files_where_it_takes_them(command: str, alone: str | None) -> None:
    files = ["tests/test_a.py", "tests/data.json", "calc/half_test.go", "calc/zero_test.go", "web/a b.test.ts"]
    assert narrowed(command, files, scripts=_SCRIPTS) == alone
    assert narrowed(command, ["README.md"], scripts=_SCRIPTS) is None


def test_a_line_of_thousands_of_commands_is_run_as_it_is() -> None:
    line = "pytest && " * 5000 + "pytest"
    assert _started(line) == line
    assert plan_launch(f"{'(' * 3000}pytest{')' * 3000}", report="R").doubt is None


def test_a_hidden_runner_is_asked_by_variables_and_none_of_the_users_steers_it() -> None:
    hidden, known = plan_launch("make test", report="/r/x"), plan_launch("pytest", report="/r/x")
    assert hidden.variables["PYTEST_ADDOPTS"] == "--junitxml=/r/x-pytest.xml -o junit_family=xunit1"
    assert hidden.variables["GOFLAGS"] == "-v -count=1"
    assert dict(known.variables) == {"GOFLAGS": "-count=1"}
    users = hidden.environment({"PYTHONPATH": "src", "GOFLAGS": "-tags=dev"})
    assert (users["PYTHONPATH"], users["GOFLAGS"]) == ("src", "-tags=dev -v -count=1")


@given(st.text(alphabet="pytest -'\"|&;(){}$`\\\n!<>é😀", max_size=60))
def test_no_line_makes_the_reader_fail(line: str) -> None:
    plan_launch(f"pytest {line}", report="R", scripts={"t": line})
    plan_launch(f"npm run t {line}", report="R", scripts={"t": f"jest {line}"})
