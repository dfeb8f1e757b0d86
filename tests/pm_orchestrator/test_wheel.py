"""The wheel as people install it: in a crowded project, typed for its users, and broken by another distribution."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from pm_orchestrator import ROOMS
from tests.repl.scripts import GOOD, script
from tests.tracer.distill.support import unpack

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.torture, pytest.mark.xdist_group("wheel")]


def _make_environment(folder: Path) -> Path:
    """A virtual environment that sees the dependencies of this one, but not this checkout; its site folder."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    dependencies = [entry for entry in sys.path if entry.endswith("-packages")]
    (site / "dependencies.pth").write_text("\n".join(dependencies) + "\n")
    return site


def _install(environment: Path, wheel: Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", wheel],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def sound(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pm in it that no test changes."""
    folder = tmp_path_factory.mktemp("sound")
    _make_environment(folder)
    _install(folder, wheel)
    return folder


@pytest.fixture
def environment(sound: Path, tmp_path: Path) -> Path:
    """One of a test's own, to be broken."""
    folder = tmp_path / "environment"
    site = _make_environment(folder)
    (theirs,) = (sound / "lib").glob("python*/site-packages")
    shutil.copytree(theirs, site, dirs_exist_ok=True)
    started = (sound / "bin" / "pm").read_text().replace(str(sound), str(folder))
    (folder / "bin" / "pm").write_text(started)
    (folder / "bin" / "pm").chmod(0o755)
    return folder


@pytest.fixture
def crowded(project: Path) -> Path:
    for room in ROOMS:
        (project / room).mkdir()
        (project / room / "__init__.py").write_text(f"raise RuntimeError('the foreign {room}')\n")
    return project


def site_of(environment: Path) -> Path:
    (site,) = (environment / "lib").glob("python*/site-packages")
    return site


def run(
    environment: Path, *words: str | Path, cwd: Path, module: bool = False, **extra: str
) -> subprocess.CompletedProcess[str]:
    start = [environment / "bin" / "python", "-m", "pm_orchestrator"] if module else [environment / "bin" / "pm"]
    environ = {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **extra}
    return subprocess.run(
        [*start, *words], cwd=cwd, env=environ, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("module", [False, True], ids=["pm", "-m"])
def test_tasks_and_runs_in_a_crowded_project(sound: Path, crowded: Path, module: bool) -> None:
    assert run(sound, "tasks", cwd=crowded, module=module, PYTHONPATH=".").returncode == 0
    assert run(sound, "demo", cwd=crowded, module=module, PYTHONPATH=".").returncode == 0
    lint = shlex.join([sys.executable, "-c", "import os; open('../seen', 'w').write(os.environ['PYTHONPATH'])"])
    words = ("run", "--executor", "scripted", "--script", script(crowded, GOOD), "--lint", lint, "write hello.py")
    done = run(sound, *words, cwd=crowded, module=module, PYTHONPATH=".")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (crowded.parent / "seen").read_text() == "."


def test_it_serves_in_a_crowded_project(sound: Path, crowded: Path) -> None:
    with subprocess.Popen(
        [sound / "bin" / "pm", "serve", "--port", "0"],
        cwd=crowded,
        env={**os.environ, "PYTHONPATH": "."},
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


def test_workers_of_distill_import_nothing_of_a_crowded_project(sound: Path, crowded: Path, tmp_path: Path) -> None:
    (crowded / "selectors.py").write_text("raise RuntimeError('foreign')\n")
    home = tmp_path / "home"
    unpack("claude/bugfix@2.0.76", home)
    unpack("codex/happy@0.50.0", home)
    (large,) = (path for path in home.rglob("*.jsonl") if ".claude" in str(path) and "agent-" not in path.name)
    filler = json.dumps({"type": "queue-operation", "content": "x" * 100_000}) + "\n"
    with large.open("a") as file:
        file.writelines(filler for _ in range(90))  # over 8 MB: worth several processes
    words = ("distill", "--all", "--output", tmp_path / "out")
    done = run(sound, *words, cwd=crowded, HOME=str(home))
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out").glob("*.jsonl"))) == 2


def test_the_hook_names_this_pm_by_its_full_path(sound: Path, project: Path, tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    done = run(sound, "sessions", "hooks", "install", "claude", "--yes", cwd=project, module=True, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    settings = json.loads((tmp_path / ".claude" / "settings.json").read_text())
    (hook,) = settings["hooks"]["SessionEnd"][0]["hooks"]
    assert hook["command"] == f"{sound / 'bin' / 'pm'} sessions hooks run claude"


def test_programs_get_our_types_from_it(sound: Path, tmp_path: Path) -> None:
    client = tmp_path / "client.py"
    told = "reveal_type(read_trace)\nreveal_type(Criterion)\nreveal_type(distill_session)\n"
    client.write_text((ROOT / "examples" / "public_api.py").read_text() + told)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", sound / "bin" / "python", client],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert len(revealed) == 3
    # JSON objects hold anything; an argument, a result or a whole name that does would be an untyped import.
    assert not [text for text in revealed if re.search(r"^Any|(?:: |-> )Any", text)]
    client.write_text("from pm_orchestrator import Critrion\n")
    wrong = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", sound / "bin" / "python", client],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 'Module "pm_orchestrator" has no attribute "Critrion"' in wrong.stdout


def _acme(folder: Path, files: dict[str, str]) -> Path:
    """Another distribution's wheel."""
    path = folder / "acme_service-2.1-py3-none-any.whl"
    info = "acme_service-2.1.dist-info"
    whole = files | {
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: acme-service\nVersion: 2.1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in whole.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(text.encode())}")
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")
    return path


OVERWRITTEN = {
    "service": {"service/__init__.py": "from service.app import app\n", "service/app.py": "app = 1\n"},
    "repl": {"repl/__init__.py": "raise RuntimeError('not for you')\n"},
    "tracer": {"tracer/__init__.py": "", "tracer/errors.py": "class AcmeError(Exception): ...\n"},
}


@pytest.mark.parametrize("room", OVERWRITTEN)
def test_what_another_distribution_wrote_over_is_told_in_three_lines(
    environment: Path, project: Path, tmp_path: Path, room: str
) -> None:
    _install(environment, _acme(tmp_path, OVERWRITTEN[room]))
    words = ("serve", "--port", "0") if room == "service" else ("tasks",)
    done = run(environment, *words, cwd=project)
    assert done.returncode == 5
    file = {"service": "service/__init__.py", "repl": "repl/__init__.py", "tracer": "tracer/errors.py"}[room]
    assert done.stderr.splitlines() == [
        f"pm: the installation is broken: {file} is not pm's",
        "  it was overwritten by the package 'acme-service 2.1'",
        "  next:  install pm in an environment of its own: pipx install pm-orchestrator",
    ]


def _fill(site: Path) -> None:
    (site / "service" / "__init__.py").write_text("from service.nowhere import thing\n")


CHANGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "deleted": ("tracer/errors.py is missing", lambda site: (site / "tracer" / "errors.py").unlink()),
    "room deleted": ("repl/__init__.py is missing", lambda site: shutil.rmtree(site / "repl")),
    "init filled": ("service/__init__.py is not pm's", _fill),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_removed_or_changed_is_told_in_three_lines(environment: Path, project: Path, change: str) -> None:
    wrong, break_it = CHANGES[change]
    break_it(site_of(environment))
    done = run(environment, "serve", "--port", "0", cwd=project)
    assert done.returncode == 5
    assert done.stderr.splitlines() == [
        f"pm: the installation is broken: {wrong}",
        "  it was changed or removed after pm was installed",
        "  next:  install pm again: pip install --force-reinstall pm-orchestrator",
    ]
