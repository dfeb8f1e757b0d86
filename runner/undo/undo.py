"""`pm undo`: puts back what a task changed, and puts it in again when asked a second time.

A task's answers left rows (path, before, after) and the repository's state before and after in blobs. Undoing takes
them from the last to the first, three-way against the files as they are now: what nobody touched since becomes what it
was, later edits are merged, and where both changed the same lines the user's file stays and the version from before
the task is written beside it. The plan is durable in `traces/undo-<task>.jsonl` before the first file changes; each
file is replaced in one step, so a killed undo is finished by the next one. A conversation trace has ended by then:
that is why an undo has a record of its own, which older readers do not see.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from runner.isolation.folder_lease import FolderLease
from runner.undo.plan import (
    NEVER,
    SMALL,
    WHOLE_FILE,
    Layer,
    Plan,
    Planner,
    Side,
    entry_side,
    prefix_of,
    repository_told,
)
from runner.workspace.changes import ComparisonError
from runner.workspace.git.entries import small_index
from runner.workspace.git.pointers import is_pointer, media_of
from runner.workspace.git.repository import Git, GitError, Stopper, find_repository, listed, scratch_repository
from runner.workspace.git.state import GitState, kept_folder, read_kept, read_state, restore_folder
from runner.workspace.workspace import open_workspace
from tracer.blobs import DirectoryBlobs
from tracer.clock import now_iso, short_token
from tracer.durable import ensure_folder
from tracer.errors import ConflictError, LockedError, NotFoundError, UsageError
from tracer.events import encode
from tracer.facts import ChunkingPlan, FinalSummary, LlmRequest, LlmResponse, UserRequest, entry_of
from tracer.journal.reading import scan
from tracer.journal.record_file import RecordFile
from tracer.lookup import resolve_task, trace_files
from tracer.statedir import StateDir

Kind = Literal["undo", "redo"]
_PLAIN = "plain.git"


class UndoneFile(NamedTuple):
    """A file that was put back (`restored`), taken away (`removed`) or changed back (`changed`)."""

    path: str
    status: Literal["restored", "removed", "changed"]


class UndoConflict(NamedTuple):
    """A file that stays as it is now; `kept_as` is where the other version lies ("": it did not exist then)."""

    path: str
    kept_as: str


class UndoResult(NamedTuple):
    """What an undo did, or would do. `repository` and `lost` are sentences: put back there; not to be put back."""

    task_id: str
    kind: Kind
    files: tuple[UndoneFile, ...] = ()
    conflicts: tuple[UndoConflict, ...] = ()
    repository: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether everything is back."""
        return not self.conflicts and not self.lost


def undo_task(
    state_dir: StateDir, task_id: str, *, iteration: int | None = None, session_id: str = "", dry_run: bool = False
) -> UndoResult:
    """Undo a task, or put it in again where its undo was the last; `iteration` only that one. Blocks.

    `dry_run` changes nothing and says what would be done.

    Raises:
        NotFoundError: no such task, or the iteration has no answer.
        ConflictError: the task is running, or another one works in the folder.
        ComparisonError: what was there before is not kept any more, or the files cannot be read.

    """
    path = resolve_task(state_dir, task_id).path
    if dry_run:
        if (holder := state_dir.writer_of(task_id)) is not None:
            raise ConflictError(f"{task_id} is running ({holder.describe()})", next_step=f"pm stop {task_id}")
        return _Undo(state_dir, task_id, iteration, None, session_id).run()
    record = state_dir.traces / f"undo-{task_id}.jsonl"
    make = RecordFile.open if record.exists() else RecordFile.create
    try:
        log = make(record, lock_path=state_dir.task_lock(task_id))
    except LockedError as error:
        raise ConflictError(f"{task_id} is running", why=error.what, next_step=f"pm stop {task_id}") from error
    try:
        return _Undo(state_dir, task_id, iteration, log, session_id or path.stem).run()
    finally:
        log.close()


class _Undo:
    def __init__(
        self, state_dir: StateDir, task_id: str, iteration: int | None, log: RecordFile | None, session_id: str
    ) -> None:
        self._state_dir, self._task_id, self._iteration = state_dir, task_id, iteration
        self._log, self._session_id = log, session_id
        self._blobs = DirectoryBlobs(state_dir.blobs, second=state_dir.second_blobs)
        self._told: list[str] = []
        self._lost: list[str] = []
        self._git: Git | None = None
        self._folder = Path()
        self._state: GitState | None = None

    def run(self) -> UndoResult:
        entries = [one for path in reversed(trace_files(self._state_dir, self._task_id)) for one in scan(path).entries]
        request = next((one for one in entries if isinstance(one, UserRequest)), None)
        if request is None or not request.workspace:
            raise UsageError(f"{self._task_id} has no request to undo", next_step=f"pm trace verify {self._task_id}")
        self._folder = Path(os.path.realpath(request.workspace))
        if not self._folder.is_dir():
            raise UsageError(f"{request.workspace!r} is not there any more", next_step="restore the folder, then undo")
        lease = FolderLease(self._folder, state_dir=self._state_dir, task_id=self._task_id)
        if self._log is not None and not lease.take():
            raise ConflictError(
                f"{lease.holder() or 'another pm'} works in {str(lease.folder)!r}",
                why="what is put back would count as its change",
                next_step=f"pm undo {self._task_id} when it is done",
            )
        try:
            return self._through(entries)
        except (GitError, OSError) as error:
            raise ComparisonError(
                f"{self._task_id} cannot be undone",
                why=str(error),
                next_step=f"correct that, then pm undo {self._task_id}: it goes on where it was",
            ) from error
        finally:
            lease.release()

    def _through(self, entries: Sequence[Any]) -> UndoResult:
        earlier, pending = self._earlier()
        if pending is not None and pending.get("plan_blob"):
            kind: Kind = "redo" if pending.get("kind") == "redo" else "undo"
            plan = Plan.decoded(self._blobs.read(str(pending["plan_blob"])))
            self._iteration = pending.get("iteration")
            self._open(GitState.decoded(self._blobs.read(pending["state"])) if pending.get("state") else None)
            return self._finish(kind, plan, str(pending["plan_blob"]))
        kind = "redo" if earlier is not None and earlier.get("kind") == "undo" else "undo"
        layers = self._again(earlier) if kind == "redo" and earlier is not None else self._layers(entries)
        if not layers:
            return UndoResult(self._task_id, kind)
        state = next((layer.before for layer in layers if layer.before is not None), None)
        self._write("begun", kind)
        if self._log is not None and state is not None and any(layer.moved for layer in layers):
            problem = restore_folder(state, state_dir=self._state_dir.root)
            self._lost += [problem] if problem else []
        self._open(state)
        plan = self._planner().plan(layers)
        blob = self._blobs.put_bytes(plan.encoded()) if self._log is not None else ""
        kept = self._blobs.put_bytes(state.encoded()) if self._log is not None and state is not None else ""
        self._write("planned", kind, plan_blob=blob, state=kept)
        return self._finish(kind, plan, blob, state=kept)

    def _finish(self, kind: Kind, plan: Plan, blob: str, *, state: str = "") -> UndoResult:
        git = self._repository()
        if self._log is not None:
            conflicts = self._apply(git, plan)
        else:
            conflicts = []
            self._told += repository_told(plan)
        files = [
            UndoneFile(path, "restored" if old is None else "removed" if new is None else "changed")
            for path, (old, new) in sorted(plan.files.items())
            if path not in {one.kept_as for one in conflicts} | {kept for _, kept in plan.conflicts}
        ]
        result = UndoResult(
            self._task_id,
            kind,
            tuple(one for one in files if one.path not in {conflict.path for conflict in conflicts}),
            (*(UndoConflict(path, kept) for path, kept in plan.conflicts), *conflicts),
            tuple(self._told),
            (*plan.lost, *self._lost),
        )
        self._write(
            "done",
            kind,
            plan_blob=blob,
            state=state,
            files=[one._asdict() for one in result.files],
            conflicts=[one._asdict() for one in result.conflicts],
            repository=list(result.repository),
            lost=list(result.lost),
        )
        return result

    # The record

    def _earlier(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The last undo of the same scope that was done, and one that was planned and not done."""
        try:
            found = [entry.data for entry in scan(self._state_dir.traces / f"undo-{self._task_id}.jsonl").entries]
        except NotFoundError:
            return None, None
        last = found[-1] if found else None
        pending = last if last is not None and last.get("phase") == "planned" else None
        same = [one for one in found if one.get("phase") == "done" and one.get("iteration") == self._iteration]
        return (same[-1] if same else None), pending

    def _write(self, phase: str, kind: Kind, **more: Any) -> None:
        if self._log is not None:
            data = {"phase": phase, "kind": kind, "iteration": self._iteration, **more}
            entry = entry_of(now_iso(), "UNDO", self._session_id, self._task_id, data)
            self._log.write_batch([encode(entry)])

    # What was changed

    def _layers(self, entries: Sequence[Any]) -> list[Layer]:
        """What the task's answers changed, the last one first."""
        final = next((one for one in reversed(entries) if isinstance(one, FinalSummary)), None)
        apart = _first_apart(entries)
        if apart is not None:
            if self._iteration is not None:
                raise UsageError("subtasks cannot be undone one by one", next_step=f"pm undo {self._task_id}")
            if final is not None and final.branch:
                raise UsageError(
                    f"the result of {self._task_id} is on the branch {final.branch!r}, not in your files",
                    next_step=f"git branch -D {final.branch}",
                )
            blobs = [one.left_blob for one in entries[:apart] if isinstance(one, LlmResponse)]
            blobs += [final.left_blob] if final is not None else []
        else:
            answers = [one for one in entries if isinstance(one, LlmResponse)]
            chosen = [one for one in answers if self._iteration in {None, one.iteration_index}]
            if self._iteration is not None and not chosen:
                raise NotFoundError(
                    f"{self._task_id} has no answer {self._iteration}", next_step=f"pm trace {self._task_id}"
                )
            blobs = [one.left_blob for one in chosen]
            if self._iteration is None:
                blobs.append(self._unanswered(entries))
        return [layer for blob in reversed(blobs) if blob for layer in self._layer(blob)]

    def _unanswered(self, entries: Sequence[Any]) -> str | None:
        """What differs since a request whose answer was never recorded: the agent was stopped or killed."""
        last = next((one for one in reversed(entries) if isinstance(one, LlmRequest | LlmResponse)), None)
        if not isinstance(last, LlmRequest) or last.base is None:
            return None
        workspace = open_workspace(self._folder, state_dir=self._state_dir.root, blobs=self._blobs)
        return asyncio.run(workspace.changes(last.base)).left

    def _layer(self, blob: str) -> Iterator[Layer]:
        left = json.loads(self._blobs.read(blob))
        base = str(left["base"])
        if base.startswith("manifest:"):
            yield Layer(self._plain_rows(left["rows"]))
            return
        kept = base.partition("@")[2]
        before = GitState.decoded(self._blobs.read(kept)) if kept else None
        after = GitState.decoded(left["after"].encode()) if left.get("after") else None
        rows = {path: (entry_side(modes[0], ids[0]), entry_side(modes[1], ids[1])) for path, modes, ids in left["rows"]}
        yield Layer(rows, before, after, bool(left.get("moved")))

    def _plain_rows(self, rows: Iterable[Any]) -> dict[str, tuple[Side, Side]]:
        """Rows of a folder without git, their contents brought into a repository of pm's own."""
        git = self._plain_repository()
        found: dict[str, list[Side]] = {}
        contents: list[tuple[str, int, str, bytes]] = []
        for path, *sides in rows:
            found[path] = [None, None]
            for number, side in enumerate(sides):
                if side is None:
                    continue
                mode, pack, offset, size = side
                if pack:
                    text = self._blobs.read(pack)[offset : offset + size]
                    contents.append((path, number, f"{mode:06o}", text))
                else:
                    found[path][number] = NEVER
        with tempfile.TemporaryDirectory(prefix="pm-undo-") as folder:
            names = [f"{folder}/{number}" for number in range(len(contents))]
            for name, (_, _, _, text) in zip(names, contents, strict=True):
                Path(name).write_bytes(text)
            asked = "".join(f"{name}\n" for name in names).encode()
            ids = git.run("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=asked).decode().split()
        for (path, number, mode, _), found_id in zip(contents, ids, strict=True):
            found[path][number] = (mode, found_id)
        return {path: (sides[0], sides[1]) for path, sides in found.items()}

    def _again(self, earlier: Mapping[str, Any]) -> list[Layer]:
        """The opposite of an undo that was done."""
        plan = Plan.decoded(self._blobs.read(str(earlier["plan_blob"])))
        state = GitState.decoded(self._blobs.read(earlier["state"])) if earlier.get("state") else None
        if state is None:
            return [Layer(plan.files)]
        before, after = (
            state._replace(
                head=plan.head[side] or state.head,
                refs={name: pair[side] for name, pair in plan.refs.items() if pair[side]},
                files={name: pair[side] for name, pair in plan.admin.items() if pair[side]},
                index_id=plan.index_id[side],
            )
            for side in (0, 1)
        )
        moved = bool(plan.refs or plan.admin or plan.head[0] or plan.index_id[0])
        return [Layer(plan.files, before, after, moved)]

    # The plan

    def _open(self, state: GitState | None) -> None:
        """Find the repository that holds what was there before."""
        self._state = state
        found = find_repository(self._folder)
        if found is None and state is not None:
            copy = kept_folder(Path(state.common), state_dir=self._state_dir.root) / "git"
            found = Git(copy, Path(state.top)) if (copy / "HEAD").exists() else None
            if found is None:
                raise GitError("the repository is gone, and no copy of it is there")
        if found is not None and state is None and found.ignores(self._folder):
            found = None
        self._git = found or self._plain_repository()

    def _repository(self) -> Git:
        assert self._git is not None  # noqa: S101 - opened by every way that leads here
        return self._git

    def _planner(self) -> Planner:
        return Planner(
            self._repository(), self._folder, state_dir=self._state_dir, task_id=self._task_id, state=self._state
        )

    def _plain_repository(self) -> Git:
        """The repository of pm's own that holds contents of a folder without git."""
        place = self._state_dir.control / _PLAIN
        if (place / "HEAD").exists():
            return Git(place, self._folder)
        ensure_folder(self._state_dir.control)
        git = scratch_repository(place, self._folder, sha256=False, stopper=Stopper())
        (place / "info").mkdir(exist_ok=True)
        (place / "info" / "attributes").write_text("* -text -filter -ident\n")
        return git

    # The change

    def _apply(self, git: Git, plan: Plan) -> list[UndoConflict]:
        if self._state is not None:
            self._apply_repository(git, plan)
        start = prefix_of(git, self._folder)
        stamps = {path: _stamp(self._folder / path) for path in plan.files}
        now = self._planner().now(plan.files)
        todo: dict[str, Side] = {}
        conflicts: list[UndoConflict] = []
        for path, (old, new) in plan.files.items():
            if now[path] == old and old != new:
                todo[path] = new
            elif now[path] != new:
                conflicts.append(UndoConflict(path, ""))
        aside = git.git_dir / f"pm-undo-{short_token()}"
        for left in git.git_dir.glob("pm-undo-*"):  # of an undo that was killed
            shutil.rmtree(left, ignore_errors=True)
        try:
            self._write_aside(git, todo, aside, start)
            for path in sorted(path for path, new in todo.items() if new is None):
                if _stamp(self._folder / path) == stamps[path]:
                    (self._folder / path).unlink(missing_ok=True)
                    self._remove_empty((self._folder / path).parent)
                else:
                    conflicts.append(UndoConflict(path, ""))
            for path in sorted(path for path, new in todo.items() if new is not None):
                target = self._folder / path
                try:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    if _stamp(target) != stamps[path]:
                        raise FileExistsError(errno.EEXIST, "changed meanwhile")
                    _move(aside / (start + path), target)
                except (FileExistsError, NotADirectoryError, IsADirectoryError):
                    conflicts.append(UndoConflict(path, ""))
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return conflicts

    def _write_aside(self, git: Git, todo: Mapping[str, Side], aside: Path, start: str) -> None:
        """The contents as git checks them out: line ends, modes and links as in the working tree."""
        lines = [
            b"%s %s\t%s" % (new[0].encode(), new[1].encode(), os.fsencode(start + path))
            for path, new in todo.items()
            if new is not None
        ]
        if not lines:
            return
        with small_index(git, self._state_dir.control / "workspace") as small:
            small.run("update-index", "-z", "--index-info", stdin=listed(lines))
            small.run("checkout-index", "-a", "-f", "-q", f"--prefix={aside}/")
        for path, new in todo.items():
            place = aside / (start + path)
            if new is not None and new[0].startswith("100") and place.stat().st_size < SMALL:
                text = place.read_bytes()
                if is_pointer(text) and not (media := media_of(text, git.git_dir, limit=WHOLE_FILE - 1)).cut:
                    place.write_bytes(media.content)

    def _remove_empty(self, folder: Path) -> None:
        while folder != self._folder:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent

    def _apply_repository(self, git: Git, plan: Plan) -> None:
        state = self._state
        if state is None or str(git.git_dir) != state.git_dir:
            return  # nothing but the copy is there: it could not be put back
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
        self._apply_index(git, plan.index_id)
        self._told += repository_told(plan)

    def _apply_index(self, git: Git, pair: tuple[str, str]) -> None:
        """Put the index back; the one that is replaced is kept for an undo of this."""
        now = read_state(git).index_id
        if not pair[1] or now not in {pair[0], ""}:
            return
        links, index = kept_folder(Path(self._repository_state().common), state_dir=self._state_dir.root), git.git_dir
        if not (links / "indexes" / pair[1]).exists():
            self._lost.append("the index: it was not kept; `git status` shows what is staged")
            return
        if now and not (links / "indexes" / now).exists():
            with suppress(OSError):
                os.link(index / "index", links / "indexes" / now)
        aside = index / f"index.{short_token()}.pm-undo"
        shutil.copy2(links / "indexes" / pair[1], aside)
        aside.replace(index / "index")

    def _repository_state(self) -> GitState:
        assert self._state is not None  # noqa: S101 - a plan for the repository begins with its state
        return self._state


def _first_apart(entries: Sequence[Any]) -> int | None:
    """Where the task stopped changing the user's files itself: what it did from there on was merged at the end."""
    plans = ((at, one) for at, one in enumerate(entries) if isinstance(one, ChunkingPlan) and not one.proposed)
    return next(
        (at for at, one in plans if one.isolation == "worktrees" or (one.subtasks and one.isolation != "direct")), None
    )


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        facts = path.lstat()
    except OSError:
        return ()
    return () if stat.S_ISDIR(facts.st_mode) else (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_mode)


def _move(source: Path, target: Path) -> None:
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = target.with_name(f".{target.name}.{short_token()}.tmp")
        shutil.copy2(source, beside, follow_symlinks=False)
        beside.replace(target)


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
