"""Shared test set-up: nothing of the machine, no network but loopback, and a list of what could not be run."""

from __future__ import annotations

import itertools
import os
import re
import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.support.machine import OPEN, shut_out, use_path

# Half the usual examples: what a property is worth shows over many runs, and each run may take five minutes.
settings.register_profile(
    "ci", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow], derandomize=False
)
settings.load_profile("ci")

_LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")


@pytest.hookimpl(tryfirst=True)  # before xdist starts its workers
def pytest_sessionstart(session: pytest.Session) -> None:
    folder: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    if inside := next((each for each in folder.parents if (each / ".git").exists()), None):
        raise pytest.UsageError(f"temporary files would lie in the repository {inside}: set TMPDIR to a folder outside")
    shut_out(folder)


class _Groups(LoadScopeScheduling):
    """Tests of files, or of folders by their conftest, that name an `xdist_group` run one by one, in one worker.

    xdist marks the ids of such tests, which pytest 9.2 has no place for: they ran anywhere, and side by side.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group_of(self.config.rootpath / nodeid.partition("::")[0]) or nodeid


@cache
def _group_of(path: Path) -> str:
    texts = (place.read_text(encoding="utf-8") for place in (path, path.with_name("conftest.py")) if place.is_file())
    return next((found[1] for text in texts if (found := _GROUP.search(text))), "")


_GROUP = re.compile(r'xdist_group\("([\w-]+)"\)')


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Groups:
    return _Groups(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    use_path(machine=any(item.get_closest_marker(name) for name in OPEN))


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("homes")  # `mktemp` looks through all folders beside it: too slow for each test
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _private_home(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    home = next(_homes)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local" / "state"))
    monkeypatch.setenv("PM_GATE_STRENGTH_TIME", "0")  # no test's tests are tried with faults unless it says so


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        if self.family in {socket.AF_INET, socket.AF_INET6} and not str(host).startswith(_LOOPBACK):
            raise RuntimeError(f"a test tried to reach {host!r}: tests use loopback only")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """An empty folder to work in, as the current directory."""
    folder = tmp_path / "project"
    folder.mkdir()
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what could not be run here, one line a reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons: dict[str, int] = {}
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason] = reasons.get(reason, 0) + 1
    if reasons:
        terminalreporter.section("could not be run here")
        for reason, count in sorted(reasons.items()):
            terminalreporter.write_line(f"{count:4} x {reason}")
