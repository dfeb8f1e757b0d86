"""Scripted answers for tests, and projects with finished tasks in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.repl.support import Ran, pm

GOOD = {"output": "Done: greet() in hello.py", "files": {"hello.py": 'def greet() -> str:\n    return "hello"\n'}}
BAD = {
    "output": "TODO: implement this",
    "files": {"hello.py": "def greet() -> str:\n    # TODO: implement this\n    return ''\n"},
}
USAGE = {"usage": {"input_tokens": 400, "output_tokens": 100}}


def script(folder: Path, *replies: dict[str, Any], name: str = "script.jsonl") -> Path:
    """A script file with these replies, beside the project so that it is no part of the workspace."""
    path = folder.parent / name
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies), encoding="utf-8")
    return path


def run_scripted(folder: Path, *replies: dict[str, Any], words: tuple[str, ...] = (), **extra: str) -> Ran:
    """`pm run` with these answers."""
    path = script(folder, *replies)
    words = words or ("write hello.py",)
    return pm("run", "--executor", "scripted", "--script", str(path), *words, cwd=folder, **extra)
