"""Real commits of git repositories as finished work, and the door of the product that judges what was made of them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.criteria.speed import parse_alone
from benchmarks.gate.debian import GIT
from benchmarks.gate.lazy import PATTERNS, Files, Lazy, Work, changed_lines, is_test, language_of
from runner.agent_report import read_report
from runner.core.request import Request
from runner.core.state import TaskState
from runner.core.steps import Judge
from runner.gate.criterion import ChangedFile, Verdict
from runner.gate.request_kind import settled_kind
from runner.judging import judge_answer
from runner.workspace.changes import Changes
from tracer.facts import LlmResponse

MOST_FILES, MOST_LINES, MOST_BYTES = 20, 1500, 512 * 1024
_ANSWERS = (
    "Done. {what}\n\nChanged files:\n{listed}",
    "I made the change: {what}",
    "{what} The change is in {inline}.",
    "The change is complete.\n\n{listed}\n\nThe rest of the code base is untouched, as it is not concerned.",
    "Implemented. I edited {inline}; existing callers keep working.",
    "{what}\n\n```pm-report\n{report}\n```\n",
    "I made the change in {inline}.\n\n```pm-report\n{report}\n```",
)


class Commit(NamedTuple):
    """A commit with one parent; the files that it changed, whole, on both sides."""

    repository: Path
    child: str
    parent: str
    message: str
    before: Files
    after: Files

    @property
    def language(self) -> str:
        """The language of most changed lines of code."""
        lines: dict[str, int] = {}
        for path in self.after:
            if name := language_of(path):
                lines[name] = lines.get(name, 0) + changed_lines(self.before[path], self.after[path])
        return max(lines, key=lambda name: (lines[name], name))

    def finished(self, random: Random) -> Lazy:
        """The finished work with the answer of an agent that tells what it did."""
        names = sorted(self.after)
        what = " ".join(self.message.split("\n\n")[0].split()).rstrip(".") + "."
        listed = "\n".join(f"- `{name}`{'' if self.after[name] is not None else ' (deleted)'}" for name in names)
        inline = ", ".join(f"`{name}`" for name in names if self.after[name] is not None) or "the files named"
        report = json.dumps({"status": "done", "done": [what], "left": [], "files": names})
        answer = random.choice(_ANSWERS).format(what=what, listed=listed, inline=inline, report=report)
        return Lazy(self.after, answer)


def half_of(repository: Path) -> str:
    """Which half a repository belongs to, by the hash of its name."""
    return ("tuning", "held-out")[hashlib.sha256(repository.name.encode()).digest()[0] % 2]


def draw(repository: Path, count: int, seed: int, author: str = "") -> list[Commit]:
    """Up to `count` commits (of one `author`) that a task could have been: few files, some code, a message."""
    wanted = ("--no-merges", "--format=%H %P", "-n", "20000", *([f"--author={author}"] if author else []))
    try:
        listed = _git(repository, "log", *wanted).decode().splitlines()
    except subprocess.CalledProcessError:
        return []  # no commit
    pairs = [line.split() for line in listed if line.count(" ") == 1 and line.split()[1:]]
    Random(f"{seed} {repository.name}").shuffle(pairs)
    found: list[Commit] = []
    for child, parent in pairs[: 40 * count]:
        if len(found) < count and (made := _commit(repository, child, parent)):
            found.append(made)
    return found


def _commit(repository: Path, child: str, parent: str) -> Commit | None:
    raw = _git(repository, "diff-tree", "-r", "-z", "--no-renames", parent, child).split(b"\0")
    before: dict[str, bytes | None] = {}
    after: dict[str, bytes | None] = {}
    if not 0 < len(raw) // 2 <= MOST_FILES:
        return None
    for entry, path in zip(raw[0::2], raw[1::2], strict=False):
        old_mode, mode, old, new = entry.decode().lstrip(":").split()[:4]
        name = os.fsdecode(path)
        if {old_mode, mode} - {"000000", "100644", "100755"}:
            return None  # links and submodules
        before[name], after[name] = _blob(repository, old), _blob(repository, new)
        if any(content is not None and (len(content) > MOST_BYTES) for content in (before[name], after[name])):
            return None
    message = _git(repository, "log", "-1", "--format=%B", child).decode("utf-8", "replace").strip()
    code = [path for path in after if language_of(path) and not is_test(path)]
    if len(message) < 8 or not any(before[path] != after[path] and after[path] for path in code):
        return None
    if sum(changed_lines(before[path], after[path]) for path in after) > MOST_LINES:
        return None
    return Commit(repository, child, parent, message, before, after)


def _blob(repository: Path, name: str) -> bytes | None:
    return None if set(name) == {"0"} else _git(repository, "cat-file", "blob", name)


def _git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run([*GIT, "-C", str(repository), *arguments], check=True, capture_output=True).stdout


@dataclass(frozen=True, slots=True)
class Judged:
    """One verdict and the processor time it took, all threads together; `parse_s` is that of parsing the same files."""

    passed: bool
    asks: bool
    reason: str
    seconds: float
    parse_s: float


class Door:
    """Judges results in a scratch folder that holds the parent's tree, through the function that `pm run` uses."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tree = folder / "tree"
        self._state = folder / "state"
        self._state.mkdir(parents=True, exist_ok=True)
        self._repository: Path | None = None

    def stand_at(self, commit: Commit) -> None:
        """Make the folder the parent's tree."""
        index = self._folder / "index"
        if self._repository != commit.repository:
            subprocess.run(["rm", "-rf", str(self._tree), str(index)], check=True)
            self._tree.mkdir()
            self._repository = commit.repository
        git_dir = _git(commit.repository, "rev-parse", "--absolute-git-dir").decode().strip()
        command = [
            *GIT,
            f"--git-dir={git_dir}",
            f"--work-tree={self._tree}",
            "read-tree",
            "--reset",
            "-u",
            commit.parent,
        ]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "GIT_INDEX_FILE": str(index)})

    async def judge(self, commit: Commit, result: Lazy, *, parse: bool = False) -> Judged:
        """The verdict on one result; the folder is as before afterwards. `parse`: time parsing alone, too."""
        touched = [path for path in result.files if result.files[path] != commit.before.get(path)]
        files = [ChangedFile(path=path, before=commit.before.get(path), after=result.files[path]) for path in touched]
        self._write({path: result.files[path] for path in touched})
        try:
            kind = settled_kind("auto", commit.message)  # as a task begins with, before any answer is judged
            request = Request(prompt=commit.message, workspace=str(self._tree), kind=kind)
            step = Judge(
                1,
                LlmResponse(
                    "",
                    "LLM_RESPONSE",
                    "",
                    "",
                    {"output": result.answer, "status": "COMPLETE", "report": read_report(result.answer)},
                ),
                None,
            )
            changes = Changes(paths=tuple(touched), files=tuple(files))
            started = time.process_time()
            verdict: Verdict = await judge_answer(
                TaskState(), step, request=request, changes=changes, state_dir=self._state
            )
            seconds = time.process_time() - started
        finally:
            self._write({path: commit.before.get(path) for path in touched})
        failed = [f"{one['id']}: {one.get('reason', '')}" for one in verdict.criteria_results if not one["passed"]]
        parse_s = parse_alone([file for file in files if file.after is not None]) if parse else 0.0
        return Judged(verdict.judgment == "PASS", verdict.question is not None, "; ".join(failed), seconds, parse_s)

    def _write(self, files: Files) -> None:
        for path, content in files.items():
            target = self._tree / path
            if content is None:
                target.unlink(missing_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)


def lazy_results(commit: Commit, seed: int, count: int) -> Iterator[tuple[str, Lazy]]:
    """Up to `count` lazy results of a commit by patterns drawn without regard to what the gate makes of them."""
    work = Work(commit.before, commit.after, Random(f"{seed} {commit.child}"))
    made = 0
    for name in work.random.sample(sorted(PATTERNS), len(PATTERNS)):
        result = PATTERNS[name](work) if made < count else None
        if result is not None and (result.files != commit.after or name.startswith("claim of a file")):
            made += 1
            yield name, result
