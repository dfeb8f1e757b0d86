"""A program of another repository: everything it uses of pm comes from `pm_orchestrator` (docs/python.md).

    python examples/public_api.py STATE_DIR NATIVE_SESSION

It records a task of its own, reads the record back, distills an agent's session, compares runs, redacts a text and
judges evidence by a team's criterion. It also passes `mypy --strict`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from pm_orchestrator import (
    AgenticTrace,
    ChangedFile,
    ConversationTracer,
    Criterion,
    Distilled,
    Entry,
    Evidence,
    Finding,
    NotFoundError,
    Place,
    PmError,
    build_redactor,
    compare,
    distill_session,
    insights,
    read_agentic,
    read_trace,
)


def changelog_line(evidence: Evidence) -> Finding:
    """Whoever changes src/ tells the users in CHANGELOG.md."""
    paths = [file.path for file in evidence.files if file.before != file.after]
    if "CHANGELOG.md" in paths or not any(path.startswith("src/") for path in paths):
        return Finding(passed=True)
    place = Place(type="changelog", message="src/ changed and CHANGELOG.md did not", path="CHANGELOG.md")
    return Finding(passed=False, reason=place.message, places=(place,))


CRITERION = Criterion(id="ACME1", name="Changelog Line", check=changelog_line)


async def record(state_dir: Path, task_id: str) -> Path:
    """A conversation trace as a review loop of one's own would write it."""
    async with ConversationTracer(state_dir=state_dir, session_id="session-acme", task_id=task_id) as tracer:
        await tracer.log_user_request("add a greeting")
        await tracer.log_llm_request("add a greeting", 0)
        await tracer.log_llm_response("done", "COMPLETE", ["src/greeting.py"], 0)
        await tracer.log_quality_judgment("PASS", [{"id": "ACME1", "name": "Changelog Line", "passed": True}], 0)
        await tracer.log_iteration_end(0, "PASS")
        await tracer.log_final_summary("COMPLETE", 1, ["src/greeting.py"])
        return tracer.get_trace_file_path()


def main(state_dir: Path, native: Path) -> None:
    """Use every part of the API once."""
    entries: list[Entry] = read_trace(asyncio.run(record(state_dir, "task-acme")))
    print(" ".join(entry.event for entry in entries))

    made: Distilled = distill_session(native, project_root=state_dir.parent, label="acme:demo")
    run: AgenticTrace = read_agentic(made.path)
    found = insights([run])
    print(f"{made.status}: {len(run.steps)} steps, {len(found.failed_commands)} commands failed")
    for row in compare([run], [run]).rows:
        print(f"{row.measure} ({row.unit}): {row.a.median} and {row.b.median}, {row.verdict}")

    redactor = build_redactor(state_dir=state_dir, environ=os.environ)
    print(redactor.redact_text(f"the token is ghp_{'aB3' * 12}")[1])

    evidence = Evidence(request="add a greeting", answer="done", files=(_added("src/greeting.py", b"HELLO = 1\n"),))
    print(changelog_line(evidence).reason)


def _added(path: str, content: bytes) -> ChangedFile:
    return ChangedFile(path=path, before=None, after=content)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/public_api.py STATE_DIR NATIVE_SESSION")
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except NotFoundError as error:
        sys.exit(f"there is none: {error.what}")
    except PmError as error:
        sys.exit(f"{error.what}: {error.why}; next: {error.next_step}")
