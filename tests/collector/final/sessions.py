"""Captured sessions for tests: a real git repository, edited step by step, as events and blobs."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collector.patches import make_patch
from tracer.capture.document import TraceDocument

NULL_CONTEXT = {
    "workspace_root": None,
    "branch": None,
    "commit_head": None,
    "correlation_id": None,
    "parent_event_id": None,
}
GIT_ENV = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
}


def blob_id(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def stable_id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


@dataclass
class Session:
    """A session under way in `folder`."""

    folder: Path
    name: str = "session"
    blobs: dict[str, bytes] = field(default_factory=dict)
    redacted: set[str] = field(default_factory=set)
    events: list[dict[str, Any]] = field(default_factory=list)
    base: str = ""
    bundle: str | None = None
    final_state: dict[str, Any] | None = None
    qa: dict[str, Any] | None = None
    consent: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(
        ("store_raw_code", "store_terminal_output", "allow_llm_judge"), True))  # fmt: skip
    store: str = "redacted"
    repo_id: str = "acme/shop"

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env={**os.environ, **GIT_ENV}, check=True, capture_output=True
        )
        return done.stdout.decode().strip()

    def begin(self, files: dict[str, bytes]) -> Session:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main", ".")
        for path, content in files.items():
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "base")
        self.base = self.git("rev-parse", "HEAD")
        self.bundle = self._bundle("main")
        return self

    def _bundle(self, *revisions: str) -> str:
        self.git("bundle", "create", "-q", ".git/pm.bundle", *revisions)
        return self.put((self.folder / ".git/pm.bundle").read_bytes())

    def put(self, data: bytes) -> str:
        self.blobs[blob_id(data)] = data
        return blob_id(data)

    def event(self, kind: str, payload: dict[str, Any], actor: str = "human") -> str:
        seq = len(self.events) + 1
        event_id = stable_id(f"{self.name}/{seq}")
        self.events.append({
            "event_id": event_id,
            "seq": seq,
            "ts_ms": 1_767_300_000_000 + 1000 * seq,
            "type": kind,
            "actor": {"kind": actor, "id": None},
            "context": dict(NULL_CONTEXT),
            "payload": {**payload, "extra": payload.get("extra", {})},
        })  # fmt: skip
        return event_id

    def edit(self, path: str, after: bytes | None, *, silent: bool = False, reason: str | None = None) -> None:
        target = self.folder / path
        before = target.read_bytes() if target.exists() else None
        if after is None:
            target.unlink()
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(after)
        if not silent:
            self.event(
                "file_edit",
                {
                    "file_path": path,
                    "edit_kind": "patch",
                    "patch_format": "unified_diff",
                    "patch_blob_id": self.put(make_patch(path, before, after)),
                    "pre_hash": None if before is None else blob_id(before),
                    "post_hash": None if after is None else blob_id(after),
                    "selection": None,
                    "reason_ref": reason,
                },
            )

    def snapshot(self, path: str, reason: str = "manual_checkpoint") -> None:
        content = self.put((self.folder / path).read_bytes())
        self.event("file_snapshot", {"file_path": path, "content_blob_id": content, "snapshot_reason": reason})

    def think(self, text: str, kind: str = "hypothesis", links: tuple[str, ...] = ()) -> str:
        payload = {"content_blob_id": self.put(text.encode()), "kind": kind, "links_to": list(links)}
        return self.event("thought", payload)

    def command(self, command: str, output: bytes = b"") -> str:
        event_id = self.event(
            "terminal_command", {"cwd": "$PROJECT_ROOT", "command": command, "shell": "bash", "env_hash": None}
        )
        if output:
            self.event(
                "terminal_output",
                {"stream": "stdout", "chunk_blob_id": self.put(output), "is_truncated": False},
                "tool",
            )
            self.events[-1]["context"]["parent_event_id"] = event_id
        return event_id

    def test_run(self, *, passed: bool) -> None:
        self.event(
            "test_run",
            {
                "command": "pytest -q",
                "runner": "pytest",
                "exit_code": 0 if passed else 1,
                "duration_ms": 900,
                "passed": passed,
                "report_blob_id": None,
            },
            "tool",
        )

    def commit(self, *, bundle: bool = True, staged: bool = False, **extra: Any) -> str:
        """Commit everything, or what was `staged`."""
        parent = self.git("rev-parse", "HEAD")
        if not staged:
            self.git("add", "-A")
        self.git("commit", "-q", "-m", "Fix the bug")
        sha = self.git("rev-parse", "HEAD")
        diff = self.git("diff", "--no-renames", self.base, sha).encode() + b"\n"
        payload = {"commit_sha": sha, "parent_sha": parent, "message": "Fix the bug", "extra": extra}
        self.event("commit", {**payload, "diff_blob_id": self.put(self.git("show", "--format=", sha).encode() + b"\n")})
        self.put(diff)
        self.final_state = {
            "commit_head": sha,
            "pr": {"title": "Fix the bug", "description": None, "diff_blob_id": blob_id(diff)},
            "bundle_blob_id": self._bundle(f"{self.base}..main") if bundle else None,
            "final_trace_blob_id": None,
        }
        return sha

    def create(self) -> dict[str, Any]:
        """The blocks around the events, as `POST /traces` takes them."""
        return {
            "repo": {
                "repo_id": self.repo_id,
                "remote_url": None,
                "default_branch": "main",
                "commit_base": self.base,
                "repo_fingerprint": {"tree_hash": None, "dependencies_lock_hash": None},
                "bundle_blob_id": self.bundle,
            },
            "task": {
                "task_id": "BUG-7",
                "bug_report": {
                    "title": "Totals are wrong",
                    "description": "The sum of a cart is off by one.",
                    "repro_steps": None,
                    "expected": "6",
                    "actual": "5",
                    "links": [],
                },
                "labels": ["arithmetic"],
            },
            "developer": {"developer_id": "dev-1", "experience_level": "senior", "consent_flags": self.consent},
            "environment": {
                "os": "linux",
                "ide": None,
                "language": ["python"],
                "containerized": False,
                "timezone": "UTC",
            },
        }

    def document(self, **changes: Any) -> dict[str, Any]:
        """The final document with everything inline."""
        blobs = [
            {
                "blob_id": each,
                "content_type": "application/octet-stream",
                "byte_length": len(data),
                "storage_uri": f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}",
                "redaction": {"applied": True, "rules": ["secret_scan"] if each in self.redacted else []},
            }
            for each, data in sorted(self.blobs.items())
        ]
        return {
            "trace_version": "1.0",
            "trace_id": stable_id(self.name),
            "created_at_ms": 1_767_300_000_000,
            "finalized_at_ms": 1_767_300_900_000,
            **self.create(),
            "ingestion": {
                "mode": "incremental",
                "client_session_id": "s-1",
                "seq_last": len(self.events),
                "dedupe_policy": "event_id",
                "clock_skew_ms_est": 0,
                "store": self.store,
                "gaps": [],
            },
            "artifacts": {"blobs": blobs},
            "events": self.events,
            "final_state": self.final_state,
            "qa": self.qa,
            **changes,
        }

    def model(self) -> TraceDocument:
        return TraceDocument.model_validate(self.document())


CALC = b"def total(items):\n    return sum(items) - 1\n\n\ndef mean(items):\n    return total(items) / len(items)\n"


def bug_fix(folder: Path, name: str = "session", **options: Any) -> Session:
    """A whole small session: looked at, thought about, fixed, tested, committed."""
    session = Session(folder, name, **options).begin(
        {"src/calc.py": CALC, "README.md": b"# Shop\n", "run.sh": b"#!/bin/sh\n"}
    )
    session.event("navigation", {"kind": "open", "file_path": "src/calc.py", "line": 1, "query": None}, "ide")
    session.command("pytest -q", b"E  assert 5 == 6\n1 failed\n")
    session.test_run(passed=False)
    thought = session.think("sum() is right, the '- 1' is not")
    session.snapshot("src/calc.py", "pre_test")
    session.edit("src/calc.py", CALC.replace(b"sum(items) - 1", b"sum(items)"), reason=thought)
    session.edit(
        "tests/test_calc.py", b"from src.calc import total\n\n\ndef test_total():\n    assert total([1, 2, 3]) == 6\n"
    )
    session.snapshot("src/calc.py", "post_test")
    session.test_run(passed=True)
    session.edit("README.md", None)
    session.commit()
    return session
