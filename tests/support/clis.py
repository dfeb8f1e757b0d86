"""The real agent command lines: which versions, where they are, and the environment that leads them to a model of ours.

`tests/support/install_clis.sh` installs them; PM_TEST_CLIS names the folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.model_server import ModelServer
from tests.support.tools import need

__all__ = ["HOSTS", "ROOT", "VERSIONS", "cli_environment", "cli_program"]

VERSIONS = {"claude": "2.1.329", "codex": "0.169.0", "gemini": "0.61.0"}
HOSTS = {**VERSIONS, "copilot": "1.0.102"}  # it has hooks, and no executor of ours
ROOT = Path(__file__).parents[2]


def cli_program(name: str) -> Path:
    """The installed program; the test is skipped, and listed, only where its registry could not give this version."""
    folder = os.environ.get("PM_TEST_CLIS", "")
    program = Path(folder, f"{name}-{HOSTS[name]}", "node_modules", ".bin", name)
    if folder and not program.exists():
        pytest.skip(f"{name} {HOSTS[name]} could not be installed into PM_TEST_CLIS")
    need(program.exists(), f"{name} {HOSTS[name]}", how="PM_TEST_CLIS=$(tests/support/install_clis.sh)")
    return program


def cli_environment(program: Path, *, home: Path, server: ModelServer) -> dict[str, str]:
    """What a run of `pm` with `program` sees: a home of its own, invented keys, and the model on loopback."""
    return {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "ANTHROPIC_API_KEY": "sk-ant-test-0123456789",
        "OPENAI_API_KEY": "sk-test-0123456789",
        "GEMINI_API_KEY": "test-0123456789",
        "ANTHROPIC_BASE_URL": server.url,
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "GOOGLE_GEMINI_BASE_URL": server.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
