"""Sessions distilled by several processes import our modules, whatever lies in the folder pm was started in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.tracer.distill.support import unpack

ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = """
import os
import sys
from pathlib import Path
from tracer.distill.locate.find import find_sessions
from tracer.distill.many import distill_many
from tracer.distill.native import Request

if __name__ == "__main__":
    home = Path(sys.argv[1])
    before = dict(os.environ)
    request = Request(project_root=home, output_dir=home / "out")
    for outcome in distill_many(find_sessions(environ={"HOME": str(home)}), request, workers=2):
        print(outcome.distilled.status)
    assert dict(os.environ) == before
"""


def test_a_project_s_own_tracer_and_selectors_are_not_imported_by_the_workers(tmp_path):
    for scenario in ("claude/bugfix@2.0.76", "codex/happy@0.50.0"):
        unpack(scenario, tmp_path / "home")
    project = tmp_path / "project"
    (project / "tracer").mkdir(parents=True)
    (project / "tracer" / "__init__.py").write_text("open('imported', 'w').close()\n")
    (project / "selectors.py").write_text("open('imported', 'w').close()\nraise RuntimeError('foreign')\n")
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "home")],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.stdout.split() == ["created", "created"], done.stderr
    assert not (project / "imported").exists()
