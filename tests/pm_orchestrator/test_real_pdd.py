"""PDD's own `run_agentic_task` with the adapter of `examples/`, real command lines and a model on loopback.

PM_TEST_HARBOR is a Python (3.12 or newer) with what requirements/atif.txt names. `pdd/__init__.py` is not run: it
imports all of PDD, 170 distributions, of which its agentic tasks need none.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.runner.executors.test_real_cli import MENDED, MODELS, Place
from tests.support.clis import ROOT, cli_program
from tests.support.model_server import ModelServer, Recorded, Turn
from tests.support.tools import need
from tracer.distill.native import PROVIDER_NAMES

pytestmark = [pytest.mark.torture, pytest.mark.real_cli, pytest.mark.timeout(300)]

SAID = " ".join(f"I mended half() in calc.py, case {number}." for number in range(20))  # too little is no answer to PDD
_TASK = """
import runpy, sys, types
from pathlib import Path
sys.modules["pdd"] = types.ModuleType("pdd")
sys.modules["pdd"].__path__ = sys.argv[2:]
runpy.run_path(sys.argv[1])["install"]()
import pdd.agentic_common as common
told = common.run_agentic_task("Mend half() in calc.py", Path.cwd(), label="fix:calc", max_retries=1, timeout=90)
print(told[1])
print(told[0])
"""


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_a_task_of_pdd_leaves_its_trace(name: str, tmp_path: Path) -> None:
    python = os.environ.get("PM_TEST_HARBOR", "")
    need(bool(python), "pdd-cli", how="PM_TEST_HARBOR=$(tests/support/install_harbor.sh) (Python 3.12)")
    found = "from importlib.util import find_spec; print(*find_spec('pdd').submodule_search_locations)"
    folder = subprocess.run([python, "-c", found], check=True, capture_output=True, text=True).stdout.strip()
    place = Place(name, cli_program(name), tmp_path)

    def turns(_request: Recorded) -> Turn:
        done = (place.project / "calc.py").exists() and (place.project / "calc.py").read_text() == MENDED
        calls = [] if done else place.writes(MENDED)
        return Turn(thinking="**Look** first.", calls=calls, text=SAID if done else "")

    with ModelServer(turns) as server:
        options = f'name="pm"\nbase_url="{server.url}/v1"\nenv_key="OPENAI_API_KEY"\nwire_api="responses"\n'
        (place.home / ".codex").mkdir()
        config = f'model="gpt-5.5"\nmodel_provider="pm"\n[model_providers.pm]\n{options}'
        (place.home / ".codex" / "config.toml").write_text(config)
        environ = {
            "PDD_AGENTIC_PROVIDER": PROVIDER_NAMES[name],
            "IS_SANDBOX": "1",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_MODEL": MODELS["gemini"],  # else it asks a model which model to ask
        }
        told = subprocess.run(
            [python, "-c", _TASK, str(ROOT / "examples" / "pdd_traces.py"), folder],
            cwd=place.project,
            env=place.environ(server) | environ,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert told.stdout.splitlines()[-1:] == ["True"], told.stdout + told.stderr
    (trace,) = (place.project / ".pdd" / "agentic-traces").glob("trace_*.jsonl")
    meta, *lines = (json.loads(line) for line in trace.read_text().splitlines())
    assert trace.name.split("_", 3)[3] == f"fix__calc_{PROVIDER_NAMES[name]}.jsonl"
    assert (meta["success"], meta["label"]) == (True, "fix:calc")
    assert next(line["text"] for line in lines if line["type"] == "thought").split() == ["**Look**", "first."]
    assert sum(line["type"] == "tool" for line in lines) >= 1
