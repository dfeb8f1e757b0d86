"""A repository, a blob store and a truth to compare with."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from runner.workspace.changes import Changes


class MemoryBlobs:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put_bytes(self, data: bytes) -> str:
        blob_id = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.kept[blob_id] = data
        return blob_id

    def read(self, blob_id: str) -> bytes:
        try:
            return self.kept[blob_id]
        except KeyError:
            raise FileNotFoundError(blob_id) from None


def git(folder: Path, *arguments: str, stdin: bytes | None = None) -> str:
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env=env,
        input=stdin,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def repository(folder: Path, files: dict[str, str] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in (files or {}).items():
        write(folder / name, text)
    if files:
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "start")
    return folder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def state_dir(folder: Path) -> Path:
    state = folder / ".pm-orchestrator"
    state.mkdir(exist_ok=True)
    (state / ".gitignore").write_text("*\n!config.toml\n!rules.md\n!.gitignore\n")
    return state


def kinds_of(changes: Changes) -> dict[str, str]:
    """What happened to each path: added, modified or deleted."""
    return {
        file.path: "added" if file.before is None else "deleted" if file.after is None else "modified"
        for file in changes.files
    }


def tree_in(base: str) -> str:
    """The tree of a baseline made by git."""
    return base.removeprefix("git:").partition("@")[0]
