"""A real repository, a script and a request in four parts, two of which change the same line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runner.core.request import Request
from runner.effects import TaskEffects
from runner.executors.scripted import ScriptedExecutor
from runner.supervisor import Supervisor
from tests.runner.workspace.support import git, repository
from tracer.drafts import executor_choice
from tracer.facts import CheckChoice, Limits
from tracer.statedir import StateDir

FILES = {"app.py": 'VALUE = "start"\n', "notes.txt": "n\n", ".gitignore": "*.log\nbuild/\n"}
PLAN: dict[str, Any] = {
    "subtasks": [
        {"id": "a", "title": "alpha", "description": "Create alpha.py"},
        {"id": "b", "title": "beta", "description": "Change app.py to beta"},
        {"id": "c", "title": "gamma", "description": "Change app.py to gamma"},
        {"id": "d", "title": "delta", "description": "Create delta.py", "dependencies": ["a", "b"]},
    ]
}
DONE = {**FILES, "app.py": 'VALUE = "both"\n', "alpha.py": "ALPHA = 1\n", "delta.py": "DELTA = 1\n"}


def replies(*, delay_ms: int = 0) -> list[dict[str, Any]]:
    """What the agent does: whoever of beta and gamma merges second is asked again and joins both."""
    joined = {"output": "Changed app.py", "files": {"app.py": DONE["app.py"]}}
    return [
        {"match": "Other subtasks changed the same lines", **joined},
        {"match": "alpha.py", "output": "Created alpha.py", "files": {"alpha.py": DONE["alpha.py"]}},
        {"match": "to beta", "output": "Changed app.py", "files": {"app.py": 'VALUE = "b"\n'}, "delay_ms": delay_ms},
        {"match": "to gamma", "output": "Changed app.py", "files": {"app.py": 'VALUE = "g"\n'}, "delay_ms": delay_ms},
        {"match": "delta.py", "output": "Created delta.py", "files": {"delta.py": DONE["delta.py"]}},
    ]


def make(folder: Path, *, script: list[dict[str, Any]] | None = None, is_repository: bool = True) -> Path:
    """The project's folder; the script lies beside it."""
    project = folder / "project"
    if is_repository:
        repository(project, FILES)
    else:
        project.mkdir(parents=True)
        for name, text in FILES.items():
            (project / name).write_text(text)
    write_script(project, script if script is not None else replies(delay_ms=20))
    return project


def write_script(project: Path, script: list[dict[str, Any]]) -> None:
    (project.parent / "script.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in script))


def supervisor(project: Path) -> Supervisor:
    """A supervisor whose agent is the script."""
    state_dir = StateDir(project / ".pm-orchestrator")

    def executor(request: Request) -> ScriptedExecutor:
        return ScriptedExecutor(Path(request.executor.script or ""), state_dir=state_dir.root)

    return Supervisor(state_dir, make_executor=executor, make_effects=TaskEffects)


def request(project: Path, **changes: Any) -> Request:
    """The request; its plan is the person's unless told otherwise."""
    fields: dict[str, Any] = {"prompt": "Do all four parts", "plan": PLAN, "kind": "change", **changes}
    limits = Limits(**{name: fields.pop(name) for name in Limits._fields if name in fields})
    if "checks" in fields:
        fields["checks"] = CheckChoice(fields["checks"])
    executor = executor_choice("scripted", script=str(project.parent / "script.jsonl"))
    return Request(workspace=str(project), executor=executor, limits=limits, **fields)


def files(project: Path) -> dict[str, str]:
    """The person's files."""
    return {path.name: path.read_text() for path in project.iterdir() if path.is_file()}


def left_over(project: Path) -> list[str]:
    """Everything that could remind of a finished task, but for the baselines that its record names."""
    admin = project / ".git" / "worktrees"
    return [
        *git(project, "worktree", "list").splitlines()[1:],
        *git(project, "for-each-ref", "--format=%(refname)", "refs/heads/pm").split(),
        *git(project, "for-each-ref", "--format=%(refname)", "refs/pm-orchestrator/*/chunk").split(),
        *(str(path) for path in project.rglob("*.lock") if path.parent.name != "blobs" and path.stat().st_size),
        *(str(path) for path in (project / ".git").rglob("*.lock")),
        *(str(path) for path in (project / ".pm-orchestrator").glob("worktrees/*")),
        *(str(path) for path in (admin.iterdir() if admin.exists() else ())),
    ]
