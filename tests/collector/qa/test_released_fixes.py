"""Fixes that public projects released, as bundles of two releases: proven by the profile that the recorder proposes.

A bundle holds the product and test files of the release with the bug (`base`) and of the next one (`main`), from the
projects' source distributions; their history is elsewhere.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.qa.pipeline import run_qa
from tests.collector.qa.rigs import NO_PROFILE, Repository, a_collector, quick_settings, send_session
from tests.support.containers import container_engine

DATA = Path(__file__).parent / "data"
FIXES = {
    "inflection": "python -m pytest -q test_inflection.py",
    "xmltodict": "python -m pytest -q tests",
}


@pytest.mark.container
@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FIXES)
async def test_a_released_fix_is_proven_by_what_was_recorded(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "repository"
    subprocess.run(["git", "clone", "-q", "-b", "main", DATA / f"{name}.bundle", folder], check=True)
    cloned = Repository(folder, "origin/base", "main")
    cloned.git("branch", "-q", "base", "origin/base")
    found = replace(cloned, base=cloned.git("rev-parse", "base").strip(), head=cloned.git("rev-parse", "main").strip())
    settings = quick_settings(tmp_path, sandbox=container_engine(), trials=0)
    async with a_collector(tmp_path) as collector:
        runs = [_run(1, FIXES[name], passed=False), _run(2, FIXES[name], passed=True)]
        trace_id = await send_session(collector, found, profile=NO_PROFILE, events=runs)
        qa = await run_qa(trace_id, collector=collector, settings=settings, judge=None)
    assert qa.tests is not None
    proof: Any = qa.tests.detail["proof"]
    assert (proof["verdict"], qa.tests.detail["profile"]["commands"]) == ("proven", [FIXES[name]]), qa.tests  # type: ignore[index]


def _run(seq: int, command: str, *, passed: bool) -> dict[str, Any]:
    payload = {"command": command, "runner": "pytest", "exit_code": 1 - passed, "duration_ms": 5, "passed": passed}
    event = {"event_id": f"00000000-0000-4000-8000-{seq:012d}", "seq": seq, "ts_ms": 1_700_000_000_000 + seq}
    return {**event, "type": "test_run", "actor": {"kind": "tool"}, "payload": payload}
