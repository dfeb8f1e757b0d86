"""Tests see nothing of the machine: the same ones pass under somebody's settings, variables and programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tracer.statedir import StateDir

ROOT = Path(__file__).resolve().parent.parent
# Tests without a marker need none of these, installed or not.
PROGRAMS = ("go", "node", "npm", "cargo", "rustc", "docker", "podman", "bwrap", "claude", "codex", "gemini", "ruff")
SETTINGS = {"commit.gpgsign": "true", "core.hooksPath": "/nowhere", "core.autocrlf": "true", "init.defaultBranch": "x"}
VARIABLES = {
    "LANG": "C",
    "LC_ALL": "C",
    "NO_COLOR": "1",
    "PM_EXECUTOR": "claude",
    "PM_MAX_ITERATIONS": "1",
    "HTTPS_PROXY": "http://127.0.0.1:1",
    "VIRTUAL_ENV": "/nowhere",
}


def test_nothing_of_the_machine_is_seen(project: Path) -> None:
    assert [name for name in PROGRAMS if shutil.which(name)] == []
    assert [name for name in VARIABLES if name != "LANG" and name in os.environ] == []
    assert os.environ["LANG"] == "C.UTF-8"
    subprocess.run(["git", "init", "-q"], check=True)
    asked = ["git", "config", "--list", "--show-scope"]
    settings = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert {line.split()[0] for line in settings.splitlines()} == {"local"}
    assert StateDir.find(project).root == project / ".pm-orchestrator"
    assert "site-packages" in str(find_spec("yaml"))
    subprocess.run([sys.executable, "-c", "import yaml"], check=True)


@pytest.mark.machine
def test_a_marked_test_sees_the_machine_s_programs() -> None:
    assert os.environ["PATH"] == os.environ["PM_TEST_MACHINE_PATH"]


@pytest.mark.torture
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_hostile_machine_is_not_seen_either(tmp_path: Path, workers: str) -> None:
    """The first test once more, by a pytest of its own on such a machine."""
    home, modules, programs, temporary = (tmp_path / name for name in ("home", "modules", "bin", "tmp"))
    for folder in (home, modules, programs, temporary / ".pm-orchestrator", tmp_path / ".pm-orchestrator"):
        folder.mkdir(parents=True)
    for folder in (tmp_path, temporary):
        (folder / ".pm-orchestrator" / "config.toml").write_text("this is no TOML")
    for key, value in SETTINGS.items():
        for file in (home / ".gitconfig", tmp_path / "gitconfig"):
            subprocess.run(["git", "config", "--file", str(file), key, value], check=True)
    for name in PROGRAMS:
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    (modules / "yaml.py").write_text("raise ImportError('a module of somebody else')\n")
    environ = {
        **VARIABLES,
        "PATH": f"{programs}:{os.environ['PM_TEST_MACHINE_PATH']}",
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
        "PYTHONPATH": str(modules),
    }
    again = f"{__file__}::{test_nothing_of_the_machine_is_seen.__name__}"
    words = [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", again]
    ran = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "1 passed" in ran.stdout
