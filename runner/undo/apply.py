"""Does what an undo plans: each file is replaced in one step, and what was changed since the plan was made stays."""

from __future__ import annotations

import base64
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runner.undo.plan import Plan, prefix_of, repository_told
from runner.workspace.git.put_files import Side, put_files, stamp
from runner.workspace.git.repository import Git
from runner.workspace.git.state import GitState, kept_folder, read_kept, read_state
from tracer.clock import short_token
from tracer.statedir import StateDir


class UndoConflict(NamedTuple):
    """A file that stays as it is now; `kept_as` is where the other version lies ("": it did not exist then)."""

    path: str
    kept_as: str


class Applier:
    """Changes `folder` and its repository; `now` tells how files are.

    Afterwards `told` says what of the repository was put back, `lost` what could not be.
    """

    def __init__(
        self,
        git: Git,
        folder: Path,
        *,
        state_dir: StateDir,
        state: GitState | None,
        now: Callable[[Iterable[str]], dict[str, Side]],
    ) -> None:
        self._git, self._folder, self._state_dir, self._state = git, folder, state_dir, state
        self._now = now
        self.told: list[str] = []
        self.lost: list[str] = []

    def apply(self, plan: Plan) -> list[UndoConflict]:
        """Do it; returns what was changed meanwhile, and stays."""
        git = self._git
        if self._state is not None and str(git.git_dir) == self._state.git_dir:  # else only the copy is there
            self._apply_repository(git, plan, self._state)
        start = prefix_of(git, self._folder)
        stamps = {path: stamp(self._folder / path) for path in plan.files}
        now = self._now(plan.files)
        todo: dict[str, Side] = {}
        conflicts: list[UndoConflict] = []
        for path, (old, new) in plan.files.items():
            if now[path] == old and old != new:
                todo[path] = new
            elif now[path] != new:
                conflicts.append(UndoConflict(path, ""))
        store = self._state_dir.control / "workspace"
        left = put_files(git, self._folder, todo, stamps, start=start, store=store)
        return [*conflicts, *(UndoConflict(path, "") for path in left)]

    def _apply_repository(self, git: Git, plan: Plan, state: GitState) -> None:
        now = read_state(git)
        lines = [
            f"update {name} {new} {old or '0' * len(new)}\n" if new else f"delete {name} {old}\n"
            for name, (old, new) in plan.refs.items()
            if now.refs.get(name, "") == old
        ]
        if lines:
            git.run("update-ref", "--stdin", stdin="".join(lines).encode())
        if plan.head[1] and now.head == plan.head[0]:
            if plan.head[1].startswith("refs/"):
                git.run("symbolic-ref", "HEAD", plan.head[1])
            else:
                git.run("update-ref", "--no-deref", "HEAD", plan.head[1])
        common = Path(state.common)
        for name, (_, new) in plan.admin.items():
            found = read_kept(common / name)
            if found != new and (found == plan.admin[name][0] or name.startswith("logs/")):
                _put(common / name, new)
        self._apply_index(git, state, plan.index_id)
        self.told = repository_told(plan)

    def _apply_index(self, git: Git, state: GitState, pair: tuple[str, str]) -> None:
        """Put the index back; the one that is replaced is kept for an undo of this."""
        now = read_state(git).index_id
        if not pair[1] or now not in {pair[0], ""}:
            return
        links, index = kept_folder(Path(state.common), state_dir=self._state_dir.root), git.git_dir
        if not (links / "indexes" / pair[1]).exists():
            self.lost.append("the index: it was not kept; `git status` shows what is staged")
            return
        if now and not (links / "indexes" / now).exists():
            with suppress(OSError):
                os.link(index / "index", links / "indexes" / now)
        aside = index / f"index.{short_token()}.pm-undo"
        shutil.copy2(links / "indexes" / pair[1], aside)
        aside.replace(index / "index")


def _put(path: Path, kept: tuple[int, str] | None) -> None:
    """Put back a file of the repository's own in one step."""
    if kept is None:
        path.unlink(missing_ok=True)
        return
    mode, content = kept[0], base64.b64decode(kept[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{short_token()}.tmp")
    if stat.S_ISLNK(mode):
        aside.symlink_to(os.fsdecode(content))
    else:
        aside.write_bytes(content)
        aside.chmod(stat.S_IMODE(mode))
    aside.replace(path)
