"""Fixes that public projects released, as bundles of two releases: proven by the profile that the recorder proposes.

A bundle holds the product and test files of the release with the bug (`base`) and of the next one (`main`), from the
projects' source distributions (PyPI, npm); their history is elsewhere. Where the tests use a tool of their own (tape),
it lies in `node_modules` of both.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.qa.pipeline import run_qa
from collector.recorder.command_lines import read_line
from tests.collector.qa.rigs import NO_PROFILE, Repository, a_collector, quick_settings, send_session
from tests.support.containers import container_engine
from tests.support.tools import need_program

DATA = Path(__file__).parent / "data"
IN_A_CONTAINER = {
    "configargparse": "python -m pytest -q tests -k TestBasicUseCases",
    "inflection": "python -m pytest -q test_inflection.py",
    "parse": "python -m pytest",
    "unidiff": "python -m pytest tests",
    "xmltodict": "python -m pytest -q tests",
}
# With the machine's Node.js: the container's image of the tests holds Python alone.
WITH_BUBBLEWRAP = {
    "deep-equal": "node --test test",
    "mime": "node --test test.js",
    "minimist": "node --test test/",
    "sax": "node --test test/",
    "shell-quote": "node --test test",
}


@pytest.mark.container
@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("bombs")  # one limit of processes for all sandboxes of a user, and Node has many threads
@pytest.mark.parametrize("name", [*IN_A_CONTAINER, *WITH_BUBBLEWRAP])
async def test_a_released_fix_is_proven_by_what_was_recorded(tmp_path: Path, name: str) -> None:
    command = {**IN_A_CONTAINER, **WITH_BUBBLEWRAP}[name]
    if name in WITH_BUBBLEWRAP:
        need_program("npm", how="install Node.js")
        need_program("bwrap", how="install bubblewrap")
    folder = tmp_path / "repository"
    subprocess.run(["git", "clone", "-q", "-b", "main", DATA / f"{name}.bundle", folder], check=True)
    cloned = Repository(folder, "origin/base", "main")
    cloned.git("branch", "-q", "base", "origin/base")
    found = replace(cloned, base=cloned.git("rev-parse", "base").strip(), head=cloned.git("rev-parse", "main").strip())
    sandbox = "bubblewrap" if name in WITH_BUBBLEWRAP else container_engine()
    settings = quick_settings(tmp_path, sandbox=sandbox, trials=0)
    lists = replace(settings.lists, commands=(*settings.lists.commands, "node", "npx"))
    async with a_collector(tmp_path) as collector:
        runs = [_run(1, command, passed=False), _run(2, command, passed=True)]
        trace_id = await send_session(collector, found, profile=NO_PROFILE, events=runs)
        qa = await run_qa(trace_id, collector=collector, settings=replace(settings, lists=lists), judge=None)
    assert qa.tests is not None
    assert qa.tests.not_testable is None, qa.tests
    proof: Any = qa.tests.detail["proof"]
    assert (proof["verdict"], qa.tests.detail["profile"]["commands"]) == ("proven", [command]), qa.tests  # type: ignore[index]


def _run(seq: int, command: str, *, passed: bool) -> dict[str, Any]:
    test = read_line(command).test
    assert test is not None, "the recorder takes it for a test run"
    payload = {"command": command, "runner": test.runner, "exit_code": 1 - passed, "duration_ms": 5, "passed": passed}
    event = {"event_id": f"00000000-0000-4000-8000-{seq:012d}", "seq": seq, "ts_ms": 1_700_000_000_000 + seq}
    return {**event, "type": "test_run", "actor": {"kind": "tool"}, "payload": payload}
