"""The public API: one list of names, each of them real, typed, documented and loaded only when it is used."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pm_orchestrator
from pm_orchestrator import ROOMS
from tests.tracer.distill.support import unpack

ROOT = Path(__file__).resolve().parents[2]
_TREE = ast.parse((ROOT / "pm_orchestrator" / "__init__.py").read_text())


def _typed_names() -> dict[str, str]:
    """What type checkers are told: name -> `module` or `module:name`."""
    (block,) = (node for node in _TREE.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    return {
        alias.asname or alias.name: f"{node.module}:{alias.name}" if alias.asname else str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def python(code: str, *, cwd: Path, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environ, capture_output=True, text=True, check=False, timeout=50
    )


def test_the_names_listed_the_names_loaded_and_the_names_typed_are_the_same() -> None:
    (homes,) = (
        ast.literal_eval(node.value)
        for node in _TREE.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES"
    )
    assert sorted(homes) == pm_orchestrator.__all__ == dir(pm_orchestrator)
    assert homes == _typed_names()


@pytest.mark.parametrize("name", pm_orchestrator.__all__)
def test_each_public_name_can_be_imported_and_says_what_it_is(name: str) -> None:
    found = getattr(pm_orchestrator, name)
    assert found.__module__.partition(".")[0] in ROOMS
    assert found.__doc__
    assert found.__name__ == _typed_names()[name].partition(":")[2] or name


def test_the_page_for_programs_lists_each_public_name_and_no_other() -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    for name in pm_orchestrator.__all__:
        assert f"`{name}`" in page or f"| `{name}(" in page, name
    listed = re.findall(r"^\| `(\w+)", page, re.MULTILINE)
    assert set(listed) <= set(pm_orchestrator.__all__)


def test_the_pages_tell_people_to_import_from_nowhere_else() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "examples" / "public_api.py"]
    told = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(ROOMS)})\b.*", re.MULTILINE)
    assert {page.name: told.findall(page.read_text()) for page in pages if told.search(page.read_text())} == {}


def test_importing_the_package_loads_none_of_ours_nor_anything_heavy(tmp_path: Path) -> None:
    done = python("import sys, pm_orchestrator; print(*sys.modules)", cwd=tmp_path)
    loaded = set(done.stdout.split())
    assert {name.partition(".")[0] for name in loaded} & set(ROOMS) == set()
    assert loaded & {"typing", "re", "importlib.metadata"} == set()


def test_an_unknown_name_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'distil_session'"):
        pm_orchestrator.distil_session  # noqa: B018
    with pytest.raises(ImportError):
        exec("from pm_orchestrator import distil_session")


@pytest.mark.parametrize("kind", ["package", "namespace", "module", "imported"])
def test_a_program_with_a_runner_of_its_own_is_told_which_two_meet(tmp_path: Path, kind: str) -> None:
    theirs = tmp_path / "runner"
    if kind == "module":
        theirs = tmp_path / "runner.py"
        theirs.write_text("raise RuntimeError('not to be run')\n")
    else:
        theirs.mkdir()
    if kind in {"package", "imported"}:
        (theirs / "__init__.py").touch()
    first = "import runner; " if kind == "imported" else ""
    done = python(f"{first}from pm_orchestrator import read_trace, Criterion", cwd=tmp_path)
    if kind == "namespace":  # a folder without __init__ gives way to a package, wherever on the path that is
        assert done.returncode == 0
        return
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: cannot import 'Criterion' from 'pm_orchestrator': it needs pm's package 'runner' at "
        f"{str(ROOT / 'runner')!r}, and this process finds {str(theirs)!r} under that name"
    )


def run_example(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "public_api.py"), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


def test_the_example_program_tells_what_it_is_given() -> None:
    done = run_example(ROOT)
    assert done.returncode == 1
    assert done.stderr == "usage: python examples/public_api.py STATE_DIR NATIVE_SESSION\n"


@pytest.mark.parametrize("scenario", ["claude/bugfix@2.0.76", "codex/bugfix", "gemini/bugfix"])
def test_the_example_program_uses_every_part(tmp_path: Path, scenario: str) -> None:
    native = unpack(scenario, tmp_path).path
    done = run_example(tmp_path, str(tmp_path / "p" / ".pm-orchestrator"), str(native))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "USER_REQUEST"
    assert lines[0].split()[-1] == "FINAL_SUMMARY"
    assert lines[1].startswith("created: ")
    assert any(line.startswith("tool calls (calls): ") and line.endswith("too few runs") for line in lines)
    assert lines[-2:] == ["{'github-token': 1}", "src/ changed and CHANGELOG.md did not"]
