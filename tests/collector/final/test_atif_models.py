"""ATIF as its publisher reads it: by the models of the harbor package, which need a Python of their own (3.12)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.collector.final.sessions import Session, bug_fix
from tests.collector.final.test_formats import ATIF_SCHEMA, QA, exported, whole
from tests.support.tools import need
from tracer.export.atif import atif_pieces

_READ = """
import json, sys
from harbor.models.trajectories import Trajectory
if sys.argv[1] == "schema":
    print(json.dumps(Trajectory.model_json_schema()))
else:
    for line in sys.stdin:
        Trajectory.model_validate_json(line)
"""


def _harbor(what: str, *trajectories: Any) -> subprocess.CompletedProcess[str]:
    python = os.environ.get("PM_TEST_HARBOR")
    need(python, "harbor", how="PM_TEST_HARBOR=$(tests/support/install_harbor.sh) (Python 3.12)")
    lines = "".join(json.dumps(each) + "\n" for each in trajectories)
    command = [str(python), "-c", _READ, what]
    return subprocess.run(command, check=False, capture_output=True, text=True, input=lines)


async def test_the_publishers_models_take_what_is_exported(tmp_path: Path) -> None:
    session = bug_fix(tmp_path / "repo")
    session.qa = QA
    session.event("error", {"message": "the debugger died", "source": "ide", "detail_blob_id": None}, "tool")
    session.think("Ask for a test of empty carts too", "postmortem")
    empty = Session(tmp_path / "empty", "empty").begin({"a": b"1\n"})
    read = _harbor("read", await whole(atif_pieces(exported(session))), await whole(atif_pieces(exported(empty))))
    assert read.returncode == 0, read.stderr[-2000:]


async def test_the_publishers_models_refuse_what_breaks_a_rule(tmp_path: Path) -> None:
    """The rules beside the schema too: steps are numbered from 1, results name a call of their step."""
    trajectory = await whole(atif_pieces(exported(bug_fix(tmp_path / "repo"))))
    trajectory["steps"][1]["step_id"] = 7
    read = _harbor("read", trajectory)
    assert read.returncode == 1
    assert "step_id" in read.stderr


def test_the_schema_here_is_the_one_that_the_models_make() -> None:
    made = _harbor("schema")
    assert made.returncode == 0, made.stderr
    assert _without_words(json.loads(made.stdout)) == _without_words(ATIF_SCHEMA)


def _without_words(schema: Any) -> Any:
    """The shape alone: descriptions and comments are left out of the copy."""
    if isinstance(schema, dict):
        return {
            name: _without_words(inner)
            for name, inner in schema.items()
            if name not in {"$comment", "title"} and not (name == "description" and isinstance(inner, str))
        }
    return [_without_words(inner) for inner in schema] if isinstance(schema, list) else schema
