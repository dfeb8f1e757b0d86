"""A small repository with a bug, a captured session that fixes it, and a collector that holds it. All real."""

from __future__ import annotations

import hashlib
import io
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collector.collector import Collector
from collector.opening import open_collector
from collector.qa.sandbox.port import Limits
from collector.qa.settings import QaSettings, qa_settings
from tests.support.containers import IMAGE
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir

__all__ = [
    "BUGGY",
    "CALM",
    "FIXED",
    "FORGED",
    "NO_PROFILE",
    "PROFILE",
    "RUNNER",
    "TEST",
    "Repository",
    "a_collector",
    "a_repository",
    "quick_settings",
    "send_session",
]

BUGGY = "3\n"
FIXED = "2\n"
TEST = "test $((6 / $(cat divisor.txt))) = 3\n"
CALM = "test $((0 / $(cat divisor.txt))) = 0\n"
# A test runner that starts in milliseconds: every tests/*.sh is a test, and the report is JUnit.
RUNNER = """mkdir -p .pm-report; failed=0; cases=
for file in tests/*.sh; do
  name=$(basename "$file" .sh)
  if said=$(sh "$file" 2>&1); then end="/>"; else failed=1; end="><failure message='wrong'/></testcase>"; fi
  echo "$name: $said"
  cases="$cases<testcase classname='tests.$name' name='$name' file='$file'$end"
done
echo "<testsuite>$cases</testsuite>" > .pm-report/junit.xml
exit $failed
"""
FORGED = "<s><testcase name='half' classname='tests.half'/></s>"
PROFILE = {"runner": "custom", "command": "sh run.sh"}
NO_PROFILE: dict[str, Any] = {}


@dataclass(frozen=True)
class Repository:
    """A repository with two commits: the bug, and (on top) the fix with its test."""

    folder: Path
    base: str
    head: str

    def diff(self) -> str:
        return self.git("diff", "--binary", self.base, self.head)

    def bundle(self, *refs: str) -> bytes:
        path = self.folder.parent / "made.bundle"
        self.git("bundle", "create", "-q", str(path), *(refs or ("base",)))
        return path.read_bytes()

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=A", "-c", "user.email=a@b.invalid", *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


def a_repository(
    folder: Path, *, base: dict[str, str] | None = None, head: dict[str, str | None] | None = None
) -> Repository:
    """A repository in `folder`; by default a wrong divisor, then its fix together with tests."""
    made = Repository(folder / "repository", "", "")
    made.folder.mkdir()
    made.git("init", "-q", "-b", "main")
    _write(made.folder, {"run.sh": RUNNER, "divisor.txt": BUGGY, **(base or {})})
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "base")
    made.git("branch", "base")
    _write(
        made.folder, head if head is not None else {"divisor.txt": FIXED, "tests/half.sh": TEST, "tests/zero.sh": CALM}
    )
    made.git("add", "-A")
    made.git("commit", "-q", "--allow-empty", "-m", "fix")
    return Repository(made.folder, made.git("rev-parse", "base").strip(), made.git("rev-parse", "HEAD").strip())


def _write(folder: Path, files: dict[str, Any]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text, encoding="utf-8")


@asynccontextmanager
async def a_collector(folder: Path, *, state: str = "state") -> AsyncIterator[Collector]:
    """A collector on SQLite in `folder`."""
    settings = load_settings(project=folder / state, environ={})
    async with open_collector(StateDir(folder / state), settings, environ={}) as collector:
        yield collector


def quick_settings(folder: Path, **changes: Any) -> QaSettings:
    """The declared settings with the test image, two repeats and no pauses."""
    commands = "sh run.sh,python -m pytest,go test,npm test,make test"
    environ = {"PM_QA_PYTHON_IMAGE": IMAGE, "PM_QA_REPEATS": "2", "PM_QA_COMMANDS": commands}
    found = qa_settings(load_settings(project=folder / "state", environ=environ))
    limits = Limits(time_s=60.0, memory_bytes=512 << 20, pids=128, workspace_bytes=64 << 20, output_bytes=8 << 20)
    return replace(found, limits=limits, waits_s=(0.0,), **changes)


async def send_session(
    collector: Collector,
    repository: Repository,
    *,
    consent: dict[str, bool] | None = None,
    profile: Any = None,
    final_state: Callable[[str], dict[str, Any] | None] | None = None,
    events: list[dict[str, Any]] | None = None,
    bundle: bytes | None = None,
    tree: bytes = b"",
    task_id: str | None = None,
    **repo: Any,
) -> str:
    """Create, append and finalize a trace of the session; its id. `final_state` is given nothing but the diff."""
    bundle = repository.bundle() if bundle is None else bundle
    bundle_id = f"sha256:{hashlib.sha256(bundle).hexdigest()}"
    if bundle:
        await collector.put_blob(io.BytesIO(bundle), submitted_id=bundle_id, byte_length=len(bundle))
        repo = {"bundle_blob_id": bundle_id, **repo}
    created = await collector.create(
        {
            "repo": {"repo_id": "calc", "commit_base": repository.base, **repo},
            "task": {"task_id": task_id, "bug_report": {"title": "half is a third", "description": "half(6) gives 2"}},
            "developer": {
                "developer_id": "dev-1",
                "consent_flags": {
                    "store_raw_code": True,
                    "store_terminal_output": True,
                    "allow_llm_judge": True,
                    **(consent or {}),
                },
            },
            "environment": {"language": ["python"]},
            "ingestion": {"mode": "batch", "client_session_id": "session-1"},
            "qa_profile": PROFILE if profile is None else profile or None,
        }
    )
    await collector.append(created.trace_id, events if events is not None else [_thought()])
    if tree:
        name = f"sha256:{hashlib.sha256(tree).hexdigest()}"
        given = {"submitted_id": name, "byte_length": len(tree), "trace_id": created.trace_id}
        await collector.put_blob(io.BytesIO(tree), content_type="text/plain", **given)
    state = final_state(repository.diff()) if final_state else {"pr": {"title": "Fix", "diff": repository.diff()}}
    await collector.finalize(created.trace_id, {"final_state": state} if state is not None else None)
    return created.trace_id


def _thought() -> dict[str, Any]:
    return {
        "event_id": "00000000-0000-4000-8000-000000000001",
        "seq": 1,
        "ts_ms": 1_700_000_000_000,
        "type": "thought",
        "actor": {"kind": "human"},
        "payload": {"content": "The divisor is wrong.", "kind": "hypothesis"},
    }
