"""What an installation by the package's own metadata brings: all that is imported, and a word for what is left out."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
TABLE: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
BASE: list[str] = TABLE["project"]["dependencies"]
EXTRAS: dict[str, list[str]] = {
    name: wanted for name, wanted in TABLE["project"]["optional-dependencies"].items() if name != "all"
}
ROOMS: list[str] = TABLE["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
# What each extra brings, as it is imported.
BROUGHT = {
    "acp": ["acp"],
    "anthropic": ["anthropic"],
    "mcp": ["mcp"],
    "postgres": ["pgqueuer", "psycopg", "psycopg_pool"],
    "s3": ["obstore"],
    "sql": ["tree_sitter_sql"],
    "telemetry": ["opentelemetry.exporter", "opentelemetry.sdk", "prometheus_client"],
}
WITHOUT = (
    "import sys; names = sys.argv.pop(1).split(','); sys.modules.update(dict.fromkeys(names)); "  # None: not importable
    "from repl.cli import main; sys.exit(main())"
)


needs = cache(lambda name: requires(name) or [])


def closure(wanted: Iterable[str]) -> set[str]:
    """The distributions that `wanted` bring on this machine, themselves included."""
    found: set[str] = set()
    waiting = [Requirement(line) for line in wanted]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        try:
            lines = needs(name)
        except PackageNotFoundError:  # for another platform
            continue
        if name not in found or requirement.extras:
            found.add(name)
            asked = ["", *requirement.extras]
            below = [Requirement(line) for line in lines]
            waiting += [
                each for each in below if not each.marker or any(each.marker.evaluate({"extra": one}) for one in asked)
            ]
    return found


# Runs in the interpreter of the project that is tested, where its runner is.
STARTED_ELSEWHERE = {ROOT / "runner" / "checks" / "python_starter.py"}


def imported() -> dict[str, set[str]]:
    """Every module of others that the product imports, by the files that do."""
    own = {*sys.stdlib_module_names, *ROOMS}
    found: dict[str, set[str]] = {}
    for room in ROOMS:
        for path in sorted({*(ROOT / room).rglob("*.py")} - STARTED_ELSEWHERE):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = [f"{node.module}.{alias.name}" for alias in node.names]
                for name in names:
                    if name.split(".")[0] not in own:
                        found.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    return found


def without(*extras: str, words: list[str], cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """`pm WORDS` where what these extras bring is not installed."""
    missing = ",".join(name for extra in extras for name in BROUGHT[extra])
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, missing, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_all_that_is_imported_is_in_the_base_or_in_an_extra_and_nothing_of_an_extra_is_in_the_base() -> None:
    base = closure(BASE)
    owners = packages_distributions()
    extra_modules = {name for names in BROUGHT.values() for name in names}
    for name, files in imported().items():
        if not any(name == each or name.startswith(f"{each}.") for each in extra_modules):
            distributions = {canonicalize_name(each) for each in owners[name.split(".")[0]]}
            assert distributions & base, f"{name} ({sorted(files)}) is not in the base dependencies"
    assert BROUGHT.keys() == EXTRAS.keys()
    for wanted in EXTRAS.values():
        assert not {canonicalize_name(Requirement(line).name) for line in wanted} & base


def test_the_pinned_list_is_made_from_the_base_and_every_extra() -> None:
    lines = (ROOT / "requirements" / "runtime.in").read_text().splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    assert sorted(pinned) == sorted([*BASE, *(line for wanted in EXTRAS.values() for line in wanted)])
    (everything,) = TABLE["project"]["optional-dependencies"]["all"]
    assert Requirement(everything).extras == EXTRAS.keys()


@pytest.mark.torture
@pytest.mark.parametrize(
    ("extra", "words", "environ"),
    [
        ("postgres", ["serve", "--port", "0"], {"PM_COLLECTOR_DATABASE": "postgresql://nobody@127.0.0.1:1/none"}),
        ("postgres", ["admin", "worker"], {"PM_COLLECTOR_DATABASE": "postgresql://nobody@127.0.0.1:1/none"}),
        ("s3", ["serve", "--port", "0"], {"PM_COLLECTOR_BLOBS": "s3://bucket/prefix"}),
        ("telemetry", ["serve", "--port", "0"], {"PM_SERVICE_METRICS": "true"}),
        ("anthropic", ["run", "--executor", "anthropic", "Add a line"], {"ANTHROPIC_API_KEY": "sk-none"}),
        ("telemetry", ["serve", "--port", "0"], {"PM_SERVICE_OTEL_ENDPOINT": "http://127.0.0.1:1"}),
    ],
)
def test_a_missing_extra_is_said_with_the_command_that_adds_it(
    project: Path, extra: str, words: list[str], environ: dict[str, str]
) -> None:
    ran = without(extra, words=words, cwd=project, **environ)
    assert ran.returncode == 3, ran.stderr
    what, _why, following = ran.stderr.splitlines()[-3:]
    assert what.endswith("needs a package that is not installed")
    assert following == f"  next:  pip install 'pm-orchestrator[{extra}]'"


@pytest.mark.torture
def test_a_missing_acp_package_is_told_before_a_task_with_the_command_that_adds_it(project: Path) -> None:
    config = project / ".pm-orchestrator" / "config.local.toml"
    config.parent.mkdir()
    config.write_text(f'[agents]\nmine = ["{sys.executable}", "-c", "pass"]\n')
    assert without(words=["config", "trust", "--yes"], cwd=project).returncode == 0
    ran = without("acp", words=["run", "--executor", "acp:mine", "Add a line"], cwd=project)
    assert ran.returncode == 3, ran.stderr
    assert "pip install 'pm-orchestrator[acp]'" in ran.stdout + ran.stderr
    assert "internal" not in ran.stdout + ran.stderr
    assert not list(config.parent.rglob("*.jsonl")), "a task was recorded"


@pytest.mark.torture
def test_sql_without_its_grammar_is_read_for_marks_and_said_not_to_be_parsed(project: Path) -> None:
    (project / "a.sql").write_text("select 1; -- TODO: the join\n")
    ran = without("sql", words=["check", "a.sql"], cwd=project)
    assert ran.returncode == 1, ran.stderr
    assert "TODO" in ran.stdout
    assert "pip install 'pm-orchestrator[sql]'" in ran.stdout + ran.stderr


@pytest.mark.torture
def test_what_no_extra_is_needed_for_runs_without_any(project: Path) -> None:
    ran = without(*BROUGHT, words=["demo"], cwd=project)
    assert ran.returncode == 0, ran.stderr
