"""A broken installation is told in three lines: which file, since when or by whom, and what to do."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pm_orchestrator import ROOMS
from repl.cli import main

ROOT = Path(__file__).resolve().parents[2]
_CODE = """import json, sys
from pm_orchestrator.installation import explain
sys.prefix = sys.argv[1]
print(json.dumps(explain()))
"""


def install(site: Path, name: str, version: str, files: dict[str, bytes]) -> None:
    """Files and their RECORD, as an installer leaves them."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    rows = [f"{info.name}/METADATA,,", f"{info.name}/RECORD,,"]
    for path, data in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}")
    (info / "RECORD").write_text("\n".join(rows) + "\n")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A site folder with pm in it; the rooms are empty, the package asked is the real one."""
    ours = {f"pm_orchestrator/{path.name}": path.read_bytes() for path in (ROOT / "pm_orchestrator").glob("*.py")}
    rooms = {f"{room}/{name}.py": b"" for room in ROOMS for name in ("__init__", "app")}
    install(tmp_path / "site", "pm-orchestrator", "0.1.0", ours | rooms)
    return tmp_path / "site"


def explained(site: Path) -> list[str] | None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", _CODE, site.parent],  # this checkout is on the tests' own path
        cwd=site.parent,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    told: list[str] | None = json.loads(done.stdout)
    return told


def test_a_whole_installation_has_nothing_to_explain(installed: Path) -> None:
    assert explained(installed) is None


def test_a_file_that_another_distribution_wrote_over_is_told_with_its_name(installed: Path) -> None:
    install(installed, "Acme_Service", "2.1", {"service/app.py": b"app = None\n"})
    assert explained(installed) == [
        "the installation is broken: service/app.py is not pm's",
        "it was overwritten by the package 'Acme_Service 2.1'",
        "install pm in an environment of its own: pipx install pm-orchestrator",
    ]


@pytest.mark.parametrize("change", ["edited", "deleted", "room deleted", "init filled"])
def test_what_was_changed_or_removed_is_told(installed: Path, change: str) -> None:
    if change == "edited":
        (installed / "runner" / "app.py").write_text("x = 1\n")
    elif change == "deleted":
        (installed / "runner" / "app.py").unlink()
    elif change == "room deleted":
        shutil.rmtree(installed / "runner")
    else:
        (installed / "runner" / "__init__.py").write_text("from runner.own import thing\n")
    told = explained(installed)
    assert told is not None
    file = "runner/app.py" if change in {"edited", "deleted"} else "runner/__init__.py"
    state = "is missing" if "deleted" in change else "is not pm's"
    assert told[0] == f"the installation is broken: {file} {state}"
    assert told[1:] == [
        "it was changed or removed after pm was installed",
        "install pm again: pip install --force-reinstall pm-orchestrator",
    ]


def test_a_package_that_the_base_needs_and_is_not_there_is_told_with_its_name(installed: Path) -> None:
    metadata = next(installed.glob("*.dist-info")) / "METADATA"
    wants = ["acme-service>=2 ; extra == 's3'", "pm_orchestrator", "google-re2.2>=1.1"]
    metadata.write_text(metadata.read_text() + "".join(f"Requires-Dist: {one}\n" for one in wants))
    assert explained(installed) == [
        "the installation is broken: the package 'google-re2.2' is missing",
        "pm needs it, and it was not installed or was removed",
        "install pm again: pip install --force-reinstall pm-orchestrator",
    ]


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ("INSTALLER=uv", "install pm again: uv pip install --reinstall pm-orchestrator"),
        ("INSTALLER=conda", "install pm again: with conda, which installed it"),
        ("pipx_metadata.json", "install pm again: pipx reinstall pm-orchestrator"),
        ("uv-receipt.toml", "install pm again: uv tool upgrade --reinstall pm-orchestrator"),
    ],
)
def test_the_tool_that_installed_pm_is_the_one_that_mends_it(installed: Path, left: str, told: str) -> None:
    name, _, text = left.partition("=")
    folder = next(installed.glob("*.dist-info")) if text else installed.parent
    (folder / name).write_text(f"{text}\n")
    (installed / "runner" / "app.py").unlink()
    assert (explained(installed) or [""])[-1] == told


def test_without_a_record_of_files_a_room_in_anothers_place_is_told(installed: Path, tmp_path: Path) -> None:
    """An editable installation records no files of ours."""
    shutil.rmtree(next(installed.glob("*.dist-info")))
    assert explained(installed) is None
    shutil.rmtree(installed / "collector")
    told = explained(installed)
    assert told is not None
    assert told[:2] == [
        f"the installation is broken: {installed / 'collector'} cannot be imported",
        "the folder is missing",
    ]
    theirs = tmp_path / "collector"
    theirs.mkdir()
    (theirs / "__init__.py").touch()
    told = explained(installed)
    assert told is not None
    assert told[1] == f"another package of that name stands in its place: {theirs}"


@pytest.mark.parametrize("words", [["help"], ["--json", "help"]])
def test_a_command_that_fails_in_a_broken_installation_says_so_instead_of_a_defect(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("repl.commands.setup.about.overview_lines", None)
    broken = ("the installation is broken: service/app.py is not pm's", "it was overwritten", "install pm again")
    code = main(words, explain=lambda: broken)
    told = capsys.readouterr()
    assert code == 5
    assert told.err.splitlines() == [f"pm: {broken[0]}", f"  {broken[1]}", f"  next:  {broken[2]}"]
    if "--json" in words:
        record = json.loads(told.out)
        assert record["error"]["message"] == broken[0]
        assert record["error"]["code"] == "unavailable"


def test_a_task_that_fails_in_a_broken_installation_says_so_instead_of_a_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends by an error of its own: one task's defect never touches another."""
    monkeypatch.delattr("runner.loop.TaskLoop")
    assert main(["demo"], explain=lambda: ("runner/loop.py is not pm's", "it was overwritten", "install pm")) == 5
    assert "pm: runner/loop.py is not pm's" in capsys.readouterr().err.splitlines()


def test_a_defect_in_a_whole_installation_stays_a_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("repl.commands.setup.about.overview_lines", None)
    assert main(["help"], explain=lambda: None) == 10
    assert "report: " in capsys.readouterr().err
