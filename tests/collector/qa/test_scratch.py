"""Temporary folders of QA: gone at the end, and gone after a kill -9 once the next one looks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from collector.qa.sandbox.owners import remove_stale, scratch_folder
from tests.repl.support import ROOT

_HOLD = """
import sys, time
from collector.qa.sandbox.owners import scratch_folder
with scratch_folder() as folder:
    (folder / "deep").mkdir()
    print(folder, flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def own_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_removed_at_its_end(own_temp: Path) -> None:
    with scratch_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(own_temp.iterdir()) == []


def test_a_killed_owner_s_folder_is_removed_and_a_living_one_s_is_not(own_temp: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", _HOLD],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(own_temp)},
    )
    assert owner.stdout is not None
    folder = Path(owner.stdout.readline().strip())
    assert (remove_stale(), folder.is_dir()) == (0, True)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert (remove_stale(), folder.exists()) == (1, False)


def test_what_is_not_ours_is_left_alone(own_temp: Path) -> None:
    for name in ("pm-qa-notes", "pm-qa-1-1-1-x", "other"):
        (own_temp / name).mkdir()
    assert remove_stale() == 0
    assert len(list(own_temp.iterdir())) == 3
