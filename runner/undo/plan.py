"""What an undo is to do: three-way, path by path, and for the repository value by value.

Nothing of the user's is changed here; contents that are looked at become objects in the repository.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from runner.isolation.isolation_port import Conflict
from runner.isolation.worktrees import merge_commits
from runner.workspace.changes import Limits, safe_text
from runner.workspace.git.compare import read_blobs
from runner.workspace.git.entries import put, read_entries, small_index, tree_entries, tree_of
from runner.workspace.git.pointers import FileHashes, is_note
from runner.workspace.git.put_files import SMALL, WHOLE_FILE, Side
from runner.workspace.git.repository import Git, GitError
from runner.workspace.git.snapshot import SnapshotMaker, SnapshotPlace
from runner.workspace.git.state import GitState, kept_folder, read_state
from tracer.statedir import StateDir

NEVER: Side = ("100644", "0" * 40)  # a content that was not kept


class Layer(NamedTuple):
    """What one answer changed: from `before` to `after`, files and repository."""

    rows: Mapping[str, tuple[Side, Side]]
    before: GitState | None = None
    after: GitState | None = None
    moved: bool = False


class Plan(NamedTuple):
    """Every change to make, from what is there now to what shall be; JSON in a blob."""

    files: dict[str, tuple[Side, Side]]
    refs: dict[str, tuple[str, str]]
    head: tuple[str, str]
    admin: dict[str, tuple[Any, Any]]
    index_id: tuple[str, str]
    conflicts: list[list[str]]
    lost: list[str]

    def encoded(self) -> bytes:
        """As it is kept."""
        return json.dumps(self._asdict(), sort_keys=True).encode("ascii")

    @classmethod
    def decoded(cls, data: bytes) -> Plan:
        """What `encoded` gave."""
        fields = json.loads(data)
        for name in ("files", "refs", "admin"):
            fields[name] = {key: (_side(old), _side(new)) for key, (old, new) in fields[name].items()}
        return cls(**{**fields, "head": tuple(fields["head"]), "index_id": tuple(fields["index_id"])})


NOTHING: Final = Plan({}, {}, ("", ""), {}, ("", ""), [], [])


def _side(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class Planner:
    """Plans an undo in `folder` by the repository that holds what was there before; `state`: how it was then."""

    def __init__(self, git: Git, folder: Path, *, state_dir: StateDir, task_id: str, state: GitState | None) -> None:
        self._git, self._folder, self._state = git, folder, state
        self._state_dir, self._task_id = state_dir, task_id
        self.store = state_dir.control / "workspace"

    def plan(self, layers: Sequence[Layer]) -> Plan:
        """What brings the files and the repository from now to before the `layers`, the last of which comes first."""
        now = self.now({path for layer in layers for path in layer.rows})
        plan = deepcopy(NOTHING)
        current, conflicts = self.without(layers, now, lost=plan.lost)
        for path, before in conflicts.items():
            current[path] = now[path]
            beside = self._beside(path) if before is not None else ""
            plan.conflicts.append([path, beside])
            if before is not None:
                plan.files[beside] = (None, before)
        plan.files.update({path: (now[path], side) for path, side in current.items() if side != now[path]})
        self._leave_out_lost(plan)
        if self._state is not None and any(layer.moved for layer in layers):
            return self._plan_repository(layers, plan)
        return plan

    def without(
        self, layers: Iterable[Layer], start: Mapping[str, Side], *, lost: list[str]
    ) -> tuple[dict[str, Side], dict[str, Side]]:
        """The files of `start` without what the layers changed; beside them what stood before at those that conflict.

        `lost` takes what cannot be told any more.
        """
        current = dict(start)
        conflicts: dict[str, Side] = {}
        for layer in layers:
            need: dict[str, tuple[Side, Side, Side]] = {}
            for path, (before, after) in layer.rows.items():
                if path in conflicts:
                    conflicts[path] = before
                elif before == NEVER:
                    lost.append(f"{path}: its content was too large to be kept")
                elif current[path] == after:
                    current[path] = before
                elif current[path] != before:
                    need[path] = (current[path], after, before)
            merged, apart = _merge(self._git, need, store=self.store)
            current |= merged
            conflicts |= {path: need[path][2] for path in apart}
        return current, conflicts

    def now(self, paths: Iterable[str]) -> dict[str, Side]:
        """The files as they are, their contents in the repository."""
        git, start = self._git, prefix_of(self._git, self._folder)
        place = SnapshotPlace(self.store, (self._state_dir.root,), Limits(), FileHashes(), [])
        maker = SnapshotMaker(git, self._folder, place=place)
        names = {os.fsencode(start + path): path for path in paths}
        found = maker.sort_out(git, names, careful=False)
        with small_index(git.in_passing(), self.store) as small:
            put(small, found)
            entries = read_entries(small)
        return {path: entries.get(name) for name, path in names.items()}

    def _beside(self, path: str) -> str:
        pure = PurePosixPath(path)
        for number in range(1, 1000):
            more = f"-{number}" if number > 1 else ""
            name = str(pure.with_name(f"{pure.stem}.before-{self._task_id}{more}{pure.suffix}"))
            if not os.path.lexists(self._folder / name):
                return name
        raise GitError(f"there is no free name beside {path}")

    def _leave_out_lost(self, plan: Plan) -> None:
        """What is not to be had any more stays as it is, and is told."""
        why = unkept(self._git, (new for _, new in plan.files.values()))
        for path, (_, new) in list(plan.files.items()):
            if new is not None and new[1] in why:
                plan.lost.append(f"{path}: {why[new[1]]}")
                del plan.files[path]

    def _plan_repository(self, layers: Sequence[Layer], plan: Plan) -> Plan:
        now = read_state(self._git)
        refs: dict[str, Any] = dict(now.refs)
        files: dict[str, Any] = dict(now.files)
        head, index = now.head, now.index_id
        lost = plan.lost
        for layer in layers:
            if layer.before is None or not layer.moved:
                continue
            before = layer.before
            after = layer.after or now._replace(refs={}, files={}, head="", index_id="")
            for told, values, then, left in (
                ("{}", refs, before.refs, after.refs),
                (".git/{}", files, before.files, after.files),
            ):
                for name in then.keys() | left.keys():
                    old, new = left.get(name), then.get(name)
                    if old == new or values.get(name) == new:
                        continue
                    if values.get(name) != old:
                        lost.append(f"{told.format(name)} has changed since, and stays")
                    else:
                        values[name] = new
            if before.head and before.head != head and (head == after.head or not refs.get(head)):
                head = before.head
            elif before.head and before.head != head:
                lost.append(f"HEAD has moved since, and stays at {head}")
            rewritten = index == now.index_id and before.index_id != after.index_id and self._is_index(after)
            if index in {after.index_id, ""} or layer.after is None or rewritten:
                index = before.index_id
        changed_refs = _pairs(now.refs, refs)
        return plan._replace(
            refs={name: (old or "", new or "") for name, (old, new) in changed_refs.items()},
            admin=_pairs(now.files, files),
            head=(now.head, head) if head != now.head else ("", ""),
            index_id=(now.index_id, index) if index != now.index_id else ("", ""),
        )

    def _is_index(self, state: GitState) -> bool:
        """Whether the index holds the entries of that state's: git writes it anew for times alone (`git status`).

        An index that was not kept is taken for one of nothing but the state's commit.
        """
        mine = self._git.with_index(self._git.git_dir / "index")
        kept = kept_folder(Path(state.common), state_dir=self._state_dir.root) / "indexes" / state.index_id
        with suppress(GitError):
            if state.index_id and kept.is_file():
                listing = ("ls-files", "-s", "-v", "-z")
                return mine.run(*listing) == self._git.with_index(kept).run(*listing)
            return bool(state.commit) and not mine.run("diff-index", "--cached", state.commit)
        return False


def unkept(git: Git, sides: Iterable[Side]) -> dict[str, str]:
    """Which of the contents are not to be had any more, and why."""
    wanted = {side[1] for side in sides if side is not None}
    listing = git.run("cat-file", "--batch-check", stdin="".join(f"{one}\n" for one in sorted(wanted)).encode())
    said = [line.split(" ") for line in listing.decode("ascii", "replace").splitlines()]
    small = {words[0] for words in said if words[-1].isdigit() and int(words[-1]) < SMALL}
    texts = read_blobs(git, small, most=WHOLE_FILE, largest=SMALL)
    notes = {blob: "it was too large to be kept" for blob, text in texts.items() if is_note(text)}
    return notes | {words[0]: "git has dropped its content" for words in said if words[-1] == "missing"}


def store_contents(git: Git, contents: Sequence[bytes]) -> list[str]:
    """The ids of the contents, which are in the repository afterwards."""
    # By its input alone: a kill leaves nobody's files lying about.
    numbered = enumerate(contents, 1)
    asked = (b"blob\nmark :%d\ndata %d\n%b\nget-mark :%d\n" % (at, len(text), text, at) for at, text in numbered)
    return git.run("fast-import", "--quiet", stdin=b"".join(asked)).decode().split()


def as_side(value: Sequence[str] | None) -> Side:
    """A side as it was before JSON made a list of it."""
    return None if value is None else (value[0], value[1])


def prefix_of(git: Git, folder: Path) -> str:
    """What the repository puts before the paths of the folder."""
    return "" if folder == git.top else f"{folder.relative_to(git.top)}/"


def _merge(git: Git, need: Mapping[str, tuple[Side, Side, Side]], *, store: Path) -> tuple[dict[str, Side], set[str]]:
    """Each file's (now, left, before) joined, and the paths where that cannot be done."""
    left = dict(need)
    apart: set[str] = set()
    while left:
        try:
            now, after, before = trees_of(git, left, store=store)
            middle = git.commit_tree(after, message="as the task left it")
            mine = git.commit_tree(now, middle, message="now")
            theirs = git.commit_tree(before, middle, message="before the task")
            joined = merge_commits(git, mine, theirs)
        except GitError:
            return {}, {*apart, *left}
        if isinstance(joined, Conflict):
            named = {place.path for place in joined.places}
            clashing = {path for path in left if safe_text(path) in named} or set(left)
            apart |= clashing
            left = {path: sides for path, sides in left.items() if path not in clashing}
            continue
        found = tree_entries(git, joined)
        return {path: found.get(os.fsencode(path)) for path in left}, apart
    return {}, apart


def trees_of(git: Git, sides: Mapping[str, Sequence[Side]], *, store: Path) -> list[str]:
    """A tree of the first side of all paths, one of the second, and so on."""
    columns = zip(*sides.values(), strict=True)
    listed = [{os.fsencode(path): side for path, side in zip(sides, column, strict=True)} for column in columns]
    return [tree_of(git, {path: side for path, side in one.items() if side is not None}, store=store) for one in listed]


def _pairs(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = sorted(old.keys() | new.keys())
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def repository_told(plan: Plan) -> list[str]:
    """What of the repository is put back, in words."""
    told = [f"HEAD to {plan.head[1].removeprefix('refs/heads/')}"] if plan.head[1] else []
    for name, (_, new) in plan.refs.items():
        short = "the stash" if name == "refs/stash" else name.removeprefix("refs/heads/").removeprefix("refs/tags/")
        told.append(f"{short} to {new[:12]}" if new else f"{short} removed")
    told += [f".git/{name}" for name in plan.admin if not name.startswith("logs/")]
    return [*told, *(["the index"] if plan.index_id[1] else [])]
