"""`pm` finds its own packages in any folder and under any PYTHONPATH, and hands the user's environment on."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from pm_orchestrator import ROOMS
from tests.repl.scripts import GOOD, script

ROOT = Path(__file__).resolve().parents[2]
_STDLIB = str(Path(os.__file__).parent)
_SITE = "/venv/lib/site-packages"


@pytest.fixture
def crowded(project: Path) -> Path:
    """A project that has all five names for itself, as packages and as modules, and none may be imported."""
    for room in ROOMS:
        (project / room).mkdir()
        (project / room / "__init__.py").write_text(f"raise RuntimeError('the foreign {room}')\n")
    for optional in ("uvloop", "websockets", "hiredis"):
        (project / f"{optional}.py").write_text(f"raise RuntimeError('the foreign {optional}')\n")
    return project


def pm(*words: str, cwd: Path, python_path: str, **extra: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": python_path, **extra}
    return subprocess.run(
        [sys.executable, "-m", "pm_orchestrator", *words],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


@pytest.mark.parametrize(
    "python_path", [f".{os.pathsep}{ROOT}", f"{os.pathsep}{ROOT}", f"{ROOT}{os.pathsep}.", str(ROOT)]
)
def test_it_works_in_a_project_that_has_packages_of_the_same_names(crowded: Path, python_path: str) -> None:
    for words in (["version"], ["tasks"], ["criteria"]):
        done = pm(*words, cwd=crowded, python_path=python_path)
        assert done.returncode == 0, done.stderr


def test_a_run_s_commands_see_the_user_s_python_path_and_the_project_s_packages(crowded: Path) -> None:
    (crowded / "tracer" / "__init__.py").write_text("NAME = 'the project'\n")
    told = "import os, tracer; open('../seen', 'w').write(os.environ['PYTHONPATH'] + tracer.NAME)"
    lint = shlex.join([sys.executable, "-c", told])
    python_path = f".{os.pathsep}{ROOT}"
    words = ("run", "--executor", "scripted", "--script", str(script(crowded, GOOD)), "--lint", lint, "write hello.py")
    done = pm(*words, cwd=crowded, python_path=python_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (crowded.parent / "seen").read_text() == f"{python_path}the project"


def test_it_serves_in_such_a_project(crowded: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pm_orchestrator", "serve", "--port", "0"],
        cwd=crowded,
        env={**os.environ, "PYTHONPATH": f".{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        alive = httpx2.get(f"{found[0]}/healthz", timeout=60).status_code if found else None
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert (alive, process.returncode) == (200, 0), err


def test_what_a_sitecustomize_imported_before_is_let_go(tmp_path: Path) -> None:
    (tmp_path / "tracer").mkdir()
    (tmp_path / "tracer" / "__init__.py").touch()
    (tmp_path / "sitecustomize.py").write_text("import tracer\n")
    done = pm("tasks", cwd=tmp_path, python_path=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 0, done.stderr


def test_version_loads_the_launcher_and_nothing_else_of_ours(tmp_path: Path) -> None:
    code = "import sys; from pm_orchestrator.launch import main; main(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, "version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stdout.split("\n", 1)[1].split()
    assert {name for name in loaded if name.partition(".")[0] in {"pm_orchestrator", *ROOMS}} == {
        "pm_orchestrator",
        "pm_orchestrator.launch",
        "repl",
        "repl.cli",
        "repl.version",
    }
    assert not {"typing", "re", "enum", "argparse", "importlib.metadata", "importlib.util"} & set(loaded)


ROWS = {
    "the script's folder goes": (["/venv/bin", _STDLIB, _SITE], ["/venv/bin"], [_STDLIB, "/pm", _SITE]),
    "PYTHONPATH goes": (["/bin", "/p", _STDLIB, _SITE], ["/p", "/bin"], [_STDLIB, "/pm", _SITE]),
    "an empty entry is the current folder": (["", _STDLIB, _SITE], [""], [_STDLIB, "/pm", _SITE]),
    "a .pth entry stays behind": ([_STDLIB, _SITE, "/pm", "/p"], [], [_STDLIB, "/pm", _SITE, "/p"]),
    "a site folder stays": ([_SITE, _STDLIB], [_SITE], ["/pm", _SITE, _STDLIB]),
    "our own folder stays in its place": (["/pm", _STDLIB, _SITE], ["/pm"], ["/pm", _STDLIB, _SITE]),
    "the standard library stays": ([_STDLIB, _SITE], [_STDLIB], [_STDLIB, "/pm", _SITE]),
    "no site folder at all": ([_STDLIB], [], [_STDLIB, "/pm"]),
}


_CODE = """
import json, site, sys
from pm_orchestrator.launch import own_path
path, given, sites = json.load(sys.stdin)
site.getsitepackages = lambda: sites
print(json.dumps(own_path(path, root="/pm", given=given)))
"""


def own_path(path: list[str], *, given: list[str], sites: list[str], cwd: Path) -> list[str]:
    """Asked in a process of its own: importing the launcher changes the path."""
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=json.dumps([path, given, sites]),
        capture_output=True,
        text=True,
        check=True,
    )
    result: list[str] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("row", ROWS)
def test_the_path_is_the_standard_library_our_own_folder_then_the_others(row: str, tmp_path: Path) -> None:
    path, given, wanted = ROWS[row]
    assert own_path(path, given=given, sites=[_SITE], cwd=tmp_path) == wanted


def test_what_is_installed_editable_stays_though_python_path_names_it_too(tmp_path: Path) -> None:
    """A team's criteria in the project's own folder: .pth and PYTHONPATH=. both name it."""
    acme, sites = str(tmp_path / "acme"), str(tmp_path / "site")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "_acme.pth").write_text(f"import sys\n# a comment\n{acme}\n../other\n")
    path = [acme, _STDLIB, sites, str(tmp_path / "none")]
    found = own_path(path, given=[acme], sites=path[2:], cwd=tmp_path)
    assert found == [_STDLIB, "/pm", sites, str(tmp_path / "none"), acme]
