"""Writes what a client of the collector sends for the sample session, as JSON files: create, events, finalize.

python3 bodies.py SAMPLE REPOSITORY OUT BUNDLE_ID: SAMPLE is this folder, REPOSITORY the git repository with the base
and the fix as its last two commits. Standard library alone.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CONSENT = {"store_raw_code": True, "store_terminal_output": True, "allow_llm_judge": True}
REPORTED = "from intervals import free; print(free([(60, 240), (90, 120)], (0, 300)))"
FAILED = (
    "FAIL: test_one_inside_another_does_not_end_it_early\n"
    "AssertionError: Lists differ: [(60, 120)] != [(60, 240)]\n\nRan 6 tests in 0.001s\n\nFAILED (failures=2)\n"
)
FIRST_MS = int(time.time() * 1000) - 600_000


def event_id(seq: int) -> str:
    """The same for every run: the recorded judge cites them, and ids are unique within a trace only."""
    return f"e2e00000-0000-4000-8000-{seq:012d}"


def git(repository: Path, *words: str) -> str:
    """What git says in the repository."""
    return subprocess.run(["git", "-C", str(repository), *words], check=True, capture_output=True, text=True).stdout


def sha256_at(repository: Path, commit: str, path: str) -> str:
    """The hash of a file as a commit holds it."""
    return "sha256:" + hashlib.sha256(git(repository, "show", f"{commit}:{path}").encode()).hexdigest()


def edit(repository: Path, path: str, patch: Path, reason: int) -> tuple[str, dict[str, Any]]:
    """A file_edit event from a patch, with the file's hashes before and after, and the thought that explains it."""
    return "file_edit", {
        "file_path": path,
        "edit_kind": "patch",
        "patch": patch.read_text(),
        "pre_hash": sha256_at(repository, "HEAD~1", path),
        "post_hash": sha256_at(repository, "HEAD", path),
        "reason_ref": event_id(reason),
    }


def thought(kind: str, content: str, *links: int) -> tuple[str, dict[str, Any]]:
    """A thought event tied to earlier ones."""
    return "thought", {"kind": kind, "content": content, "links_to": [event_id(seq) for seq in links]}


def shell(command: str) -> tuple[str, dict[str, Any]]:
    """A command as it was typed."""
    return "terminal_command", {"cwd": ".", "command": command, "shell": "bash"}


def output(chunk: str) -> tuple[str, dict[str, Any]]:
    """What the terminal showed."""
    return "terminal_output", {"stream": "stdout", "chunk": chunk}


def test_run(*, passed: bool) -> tuple[str, dict[str, Any]]:
    """A run of the tests."""
    told = {"exit_code": 0 if passed else 1, "duration_ms": 140, "passed": passed}
    return "test_run", {"command": "python3 run_tests.py", "runner": "custom", **told}


def session(sample: Path, repository: Path) -> list[tuple[str, dict[str, Any]]]:
    """The session, in order; the first event has seq 1."""
    head, base = (git(repository, "rev-parse", name).strip() for name in ("HEAD", "HEAD~1"))
    return [
        shell(f'python3 -c "{REPORTED}"'),
        output("[(0, 60), (120, 300)]\n"),
        thought(
            "hypothesis",
            "Reproduced: 120 to 240 is offered although the long meeting covers it. merge() sorts by start, and takes "
            "the end of the interval it meets last; a short meeting inside a long one therefore ends it early.",
            1,
            2,
        ),
        ("navigation", {"kind": "open", "file_path": "intervals.py", "line": 13}),
        thought(
            "plan", "First a test of merge() and one of free() for the nested case; they must fail. Then the fix.", 3
        ),
        edit(repository, "tests/test_intervals.py", sample / "fix" / "1-test.patch", 5),
        shell("python3 run_tests.py"),
        output(FAILED),
        test_run(passed=False),
        thought(
            "interpretation",
            "Both new tests fail and the four old ones pass: merge() alone is at fault, free() only shows it.",
            9,
        ),
        edit(repository, "intervals.py", sample / "fix" / "2-code.patch", 10),
        test_run(passed=True),
        thought(
            "decision",
            "max() of both ends is enough: intervals come sorted by start, so the start never changes. Touching and "
            "overlapping intervals keep their result, as the old tests show.",
            11,
            12,
        ),
        (
            "commit",
            {"commit_sha": head, "parent_sha": base, "message": "Keep the later end when one interval holds another"},
        ),
        (
            "pr_metadata",
            {"title": "Keep the later end of merged intervals", "diff": git(repository, "diff", "HEAD~1", "HEAD")},
        ),
    ]


def main(sample: Path, repository: Path, out: Path, bundle: str) -> None:
    """Write create.json, events-1.json, events-2.json and finalize.json."""
    head, base = (git(repository, "rev-parse", name).strip() for name in ("HEAD", "HEAD~1"))
    create = {
        "repo": {
            "repo_id": "sample/intervals",
            "default_branch": "main",
            "commit_base": base,
            "bundle_blob_id": bundle,
        },
        "task": {
            "task_id": "SAMPLE-1",
            "bug_report": {
                "title": "Free time is offered inside a long meeting",
                "description": "With meetings 60-240 and 90-120, the time from 120 to 300 is offered as free.",
                "repro_steps": REPORTED,
                "expected": "[(0, 60), (240, 300)]",
                "actual": "[(0, 60), (120, 300)]",
            },
            "labels": ["bug"],
        },
        "developer": {"developer_id": "dev-sample", "experience_level": "senior", "consent_flags": CONSENT},
        "environment": {"os": "linux", "language": ["python"], "containerized": False, "timezone": "UTC"},
        "ingestion": {"mode": "incremental", "client_session_id": "e2e"},
        "qa_profile": {"runner": "custom", "command": "python3 run_tests.py", "reports": ["junit.xml"]},
    }
    events = [
        {
            "event_id": event_id(seq),
            "seq": seq,
            "ts_ms": FIRST_MS + seq * 20_000,
            "type": kind,
            "actor": {"kind": "human", "id": "dev-sample"},
            "context": {"branch": "main", "commit_head": head if kind in {"commit", "pr_metadata"} else base},
            "payload": payload,
        }
        for seq, (kind, payload) in enumerate(session(sample, repository), start=1)
    ]
    diff = git(repository, "diff", "HEAD~1", "HEAD")
    state = {"commit_head": head, "pr": {"title": "Keep the later end of merged intervals", "diff": diff}}
    bodies = {
        "create": create,
        "events-1": {"events": events[:8]},
        "events-2": {"events": events[8:]},
        "finalize": {"final_state": state},
    }
    for name, body in bodies.items():
        (out / f"{name}.json").write_text(json.dumps(body))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
