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
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from runner.isolation.folder_lease import FolderLease, left_by
from runner.undo.apply import Applier, UndoConflict
from runner.undo.plan import (
    NEVER,
    NOTHING,
    Layer,
    Plan,
    Planner,
    as_side,
    repository_told,
    store_contents,
)
from runner.workspace.changes import ComparisonError
from runner.workspace.git.compare import GITLINK
from runner.workspace.git.put_files import Side, entry_side
from runner.workspace.git.repository import Git, GitError, Stopper, find_repository, scratch_repository
from runner.workspace.git.state import GitState, kept_copy, restore_folder
from runner.workspace.workspace import Workspace, open_workspace
from tracer.blobs import DirectoryBlobs
from tracer.clock import now_iso
from tracer.drafts import undo_fact
from tracer.durable import ensure_folder
from tracer.errors import ConflictError, LockedError, NotFoundError, UsageError
from tracer.events import encode
from tracer.facts import ChunkingPlan, Entry, FinalSummary, LlmRequest, LlmResponse, Undo, UserRequest, entry_of
from tracer.journal.reading import scan
from tracer.journal.record_file import RecordFile
from tracer.lookup import resolve_task, trace_files
from tracer.statedir import StateDir

Kind = Literal["undo", "redo", "review"]
_PLAIN = "plain.git"


class UndoneFile(NamedTuple):
    """A file that was put back (`restored`), taken away (`removed`) or changed back (`changed`)."""

    path: str
    status: Literal["restored", "removed", "changed"]


class Reviewed(NamedTuple):
    """A file before the task and after it, and what was decided: which hunks are out, and which were spoken of.

    `left` is the file without the ones that are out, `taken` the file as it was on disk where all of that was kept.
    """

    before: Side
    after: Side
    left: Side
    discarded: frozenset[str]
    decided: frozenset[str]
    taken: Side


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


def undo_task(state_dir: StateDir, task_id: str, *, iteration: int | None = None, dry_run: bool = False) -> UndoResult:
    """Undo a task, or put it in again where its undo was the last; `iteration` only that one. Blocks.

    `dry_run` changes nothing and says what would be done.

    Raises:
        NotFoundError: no such task, or the iteration has no answer.
        ConflictError: the task is running, or another one works in the folder.
        ComparisonError: what was there before is not kept any more, or the files cannot be read.

    """
    with opened(state_dir, task_id, dry_run=dry_run) as work:
        return work.run(iteration)


@contextmanager
def opened(state_dir: StateDir, task_id: str, *, dry_run: bool = False) -> Iterator[Undoing]:
    """The work of a task, held so that nobody else changes it meanwhile; with `dry_run` it is only read.

    Raises:
        NotFoundError: no such task.
        ConflictError: the task is running, or another one works in the folder.
        ComparisonError: from the body, in place of what git or the disk said.

    """
    path = resolve_task(state_dir, task_id).path
    log = None
    if not dry_run:
        record = state_dir.traces / f"undo-{task_id}.jsonl"
        make = RecordFile.open if record.exists() else RecordFile.create
        try:
            log = make(record, lock_path=state_dir.task_lock(task_id))
        except LockedError as error:
            what = f"{task_id} is running, or another command is at work on it"
            raise ConflictError(what, why=error.what, next_step=f"wait for its end, or pm stop {task_id}") from error
    elif (holder := state_dir.writer_of(task_id)) is not None:
        raise ConflictError(f"{task_id} is running ({holder.describe()})", next_step=f"pm stop {task_id}")
    lease = None
    try:
        work = Undoing(state_dir, task_id, log, path.stem)
        if log is not None:
            lease = FolderLease(work.folder, state_dir=state_dir, task_id=task_id)
            if not lease.take():
                raise ConflictError(
                    f"{lease.holder() or 'another pm'} works in {str(lease.folder)!r}",
                    why="what is put back would count as its change",
                    next_step="repeat this when it is done",
                )
            for note in lease.left_by_others():
                asyncio.run(note.record(work.workspace()))
        yield work
    except (GitError, OSError) as error:
        raise ComparisonError(
            f"the work of {task_id} cannot be taken apart",
            why=str(error),
            next_step="correct that, then repeat the command: it goes on where it was",
        ) from error
    finally:
        if lease is not None:
            lease.release()
        if log is not None:
            log.close()


class Undoing:
    """What a task changed, and what has been taken back of it; make one with `opened`.

    Once `layers` were asked for, `left_blob` is what an answer left that was never recorded, and `away` says where its
    work is that never came into the user's files.
    """

    def __init__(self, state_dir: StateDir, task_id: str, log: RecordFile | None, session_id: str) -> None:
        self._state_dir, self.task_id = state_dir, task_id
        self._log, self._session_id = log, session_id
        self._blobs = DirectoryBlobs(state_dir.blobs, second=state_dir.second_blobs)
        self._lost: list[str] = []
        self._git: Git | None = None
        self._state: GitState | None = None
        files = [scan(path).entries for path in reversed(trace_files(state_dir, task_id))]
        self.entries: list[Entry] = [one for entries in files for one in entries]
        self.newest = files[-1]
        request = next((one for one in self.entries if isinstance(one, UserRequest)), None)
        if request is None or not request.workspace:
            raise UsageError(f"{task_id} has no request to undo", next_step=f"pm trace verify {task_id}")
        self.folder = Path(os.path.realpath(request.workspace))
        if not self.folder.is_dir():
            raise UsageError(f"{request.workspace!r} is not there any more", next_step="restore the folder first")
        self.left_blob = self.away = ""
        self._facts: list[Undo] = []
        with suppress(NotFoundError):
            record = scan(state_dir.traces / f"undo-{task_id}.jsonl").entries
            self._facts = [one for one in record if isinstance(one, Undo)]
        self._unfinished = bool(self._facts) and self._facts[-1].phase == "planned"

    def run(self, iteration: int | None) -> UndoResult:
        """Undo the task or its iteration, or put it in again."""
        done = self.settle()
        if done is not None and done.kind != "review":
            return done
        earlier = self._earlier(iteration)
        kind: Kind = "redo" if earlier is not None and earlier.kind == "undo" else "undo"
        layers = self._again(earlier) if kind == "redo" and earlier is not None else self.layers(iteration)
        if kind == "undo" and iteration is None:
            taken = self.reviewed(layers).items()
            own = {path: (one.before if self.away else one.after, one.left) for path, one in taken}
            if self.away and not own:
                why, following = f"its work is {self.away}", f"pm review {self.task_id}"
                raise UsageError(f"nothing of {self.task_id} is in your files", why=why, next_step=following)
            layers = [Layer(own)] if self.away else [Layer(own), *layers] if own else layers
        if not layers:
            return UndoResult(self.task_id, kind)
        self.write("begun", kind, iteration=iteration)
        state = next((layer.before for layer in layers if layer.before is not None), None)
        if self._log is not None and state is not None and any(layer.moved for layer in layers):
            problem = restore_folder(state, state_dir=self._state_dir.root)
            self._lost += [problem] if problem else []
        self.open(state)
        plan = self.planner().plan(layers)
        if kind == "undo" and plan == NOTHING:
            # Discarded, taken out by hand, or not to be had: there is nothing to put in again.
            return UndoResult(self.task_id, kind, lost=tuple(self._lost))
        return self.carry_out(kind, plan, iteration=iteration)

    def settle(self) -> UndoResult | None:
        """Finish what was planned and not done, by a process that was killed."""
        if not self._unfinished:
            return None
        self._unfinished = False
        fact = self._facts[-1]
        kind: Kind = "redo" if fact.kind == "redo" else "review" if fact.kind == "review" else "undo"
        self.open(GitState.decoded(self._blobs.read(fact.state)) if fact.state else None)
        plan = Plan.decoded(self._blobs.read(fact.plan_blob))
        return self._finish(kind, plan, {key: fact.data[key] for key in fact.data if key not in {"phase", "kind"}})

    def carry_out(self, kind: Kind, plan: Plan, **more: Any) -> UndoResult:
        """Record the plan with `more`, and do it."""
        if self._log is not None:
            more["plan_blob"] = self._blobs.put_bytes(plan.encoded())
            more["state"] = "" if self._state is None else self._blobs.put_bytes(self._state.encoded())
        self.write("planned", kind, **more)
        return self._finish(kind, plan, more)

    def _finish(self, kind: Kind, plan: Plan, more: Mapping[str, Any]) -> UndoResult:
        conflicts: list[UndoConflict] = []
        told = repository_told(plan)
        if self._log is not None:
            now = self.planner().now
            applier = Applier(self.git, self.folder, state_dir=self._state_dir, state=self._state, now=now)
            conflicts, told = applier.apply(plan), applier.told
            self._lost += applier.lost
        files = [
            UndoneFile(path, "restored" if old is None else "removed" if new is None else "changed")
            for path, (old, new) in sorted(plan.files.items())
            if path not in {one.kept_as for one in conflicts} | {kept for _, kept in plan.conflicts}
        ]
        result = UndoResult(
            self.task_id,
            kind,
            tuple(one for one in files if one.path not in {conflict.path for conflict in conflicts}),
            (*(UndoConflict(path, kept) for path, kept in plan.conflicts), *conflicts),
            tuple(told),
            (*plan.lost, *self._lost),
        )
        outcome = {
            "files": [one._asdict() for one in result.files],
            "conflicts": [one._asdict() for one in result.conflicts],
            "repository": list(result.repository),
            "lost": list(result.lost),
        }
        self.write("done", kind, **{**more, **outcome})
        return result

    # The record

    def _since(self) -> Iterator[Undo]:
        """What was done after the task's last answer, the last first: an undo of what was there before is history."""
        answered = max((one.timestamp for one in self.entries if isinstance(one, LlmResponse)), default="")
        return (one for one in reversed(self._facts) if one.phase == "done" and one.timestamp >= answered)

    def _earlier(self, iteration: int | None) -> Undo | None:
        """The last undo or redo of the same scope."""
        same = (one for one in self._since() if one.kind in {"undo", "redo"} and one.iteration == iteration)
        return next(same, None)

    @property
    def undone(self) -> bool:
        """Whether the whole task is undone now."""
        earlier = self._earlier(None)
        return earlier is not None and earlier.kind == "undo"

    def reviewed(self, layers: Iterable[Layer]) -> dict[str, Reviewed]:
        """What was decided of each file that still is as the last of the `layers` left it."""
        left: dict[str, Side] = {}
        for layer in layers:
            for path, (_, after) in layer.rows.items():
                left.setdefault(path, after)
        found: dict[str, Reviewed] = {}
        for fact in self._facts:
            if fact.phase == "done" and fact.kind == "review":
                failed = {one.path for one in fact.conflicts}
                for one in fact.reviewed:
                    if one.path not in failed and one.path in left and as_side(one.after) == left[one.path]:
                        hunks = frozenset(one.discarded), frozenset(one.decided)
                        sides = as_side(one.before), left[one.path], as_side(one.left)
                        found[one.path] = Reviewed(*sides, *hunks, as_side(one.taken))
        return found

    def write(self, phase: str, kind: str, **more: Any) -> None:
        """Record a step; durable when it returns."""
        draft = undo_fact(phase, kind, **more)
        entry = entry_of(now_iso(), draft.event, self._session_id, self.task_id, draft.data)
        if self._log is not None:
            self._log.write_batch([encode(entry)])
            self._facts += [entry] if isinstance(entry, Undo) else []

    # What was changed

    def layers(self, iteration: int | None = None) -> list[Layer]:
        """What the task's answers changed, or one of them, the last one first."""
        entries = self.entries
        final = next((one for one in reversed(entries) if isinstance(one, FinalSummary)), None)
        apart = _first_apart(entries)
        answers = [(at, one) for at, one in enumerate(entries) if isinstance(one, LlmResponse)]
        if apart is not None:
            if iteration is not None:
                raise UsageError("what was merged as a whole has no parts to undo", next_step=f"pm undo {self.task_id}")
            plan, given = entries[apart], final.left_blob if final is not None else None
            chunked = isinstance(plan, ChunkingPlan) and bool(plan.subtasks)
            if not given or (final is not None and final.branch):
                self.away = f"on the branch {final.branch!r}" if final is not None and final.branch else "in a worktree"
            alone = not given and not chunked  # nothing was merged: its answers are all there is
            blobs = [one.left_blob or "" for at, one in answers if at < apart or alone]
            blobs.append(given or "")
        else:
            chosen = [one for _, one in answers if iteration in {None, one.iteration_index}]
            if iteration is not None and not chosen:
                raise NotFoundError(f"{self.task_id} has no answer {iteration}", next_step=f"pm trace {self.task_id}")
            blobs = [one.left_blob or "" for one in chosen]
            if iteration is None:
                self.left_blob = self._unanswered() or ""
                blobs.append(self.left_blob)
        return [layer for blob in reversed(blobs) if blob for layer in self._layer(blob)]

    def _unanswered(self) -> str | None:
        """What a request left whose answer was never recorded: the agent was stopped or killed.

        The first decision on it records that, so that what the user edits later is told apart.
        """
        last = next((one for one in reversed(self.entries) if isinstance(one, LlmRequest | LlmResponse)), None)
        if not isinstance(last, LlmRequest) or last.base is None:
            return None
        recorded: list[str] = [fact.left_blob for fact in self._facts if fact.left_blob]
        known = left_by(self._state_dir, self.task_id)
        bases = {last.base, *(known.bases.values() if known is not None else ())}
        for blob in recorded:
            if json.loads(self._blobs.read(blob)).get("base") in bases:
                return blob
        return asyncio.run(self._left_since(last.base))

    def workspace(self) -> Workspace:
        """The folder that the task works in."""
        return open_workspace(self.folder, state_dir=self._state_dir.root, blobs=self._blobs)

    async def _left_since(self, base: str) -> str | None:
        workspace, note = self.workspace(), left_by(self._state_dir, self.task_id)
        if note is not None:  # what others changed since is theirs
            await note.rebased((base,), workspace)
            if self._log is not None:
                note.write()
            base = note.bases.get(base, base)
        return (await workspace.changes(base)).left

    def _layer(self, blob: str) -> Iterator[Layer]:
        left = json.loads(self._blobs.read(blob))
        base = str(left["base"])
        if base.startswith("manifest:"):
            yield Layer(self._plain_rows(left["rows"]))
            return
        kept = base.partition("@")[2]
        before = GitState.decoded(self._blobs.read(kept)) if kept else None
        after = GitState.decoded(left["after"].encode()) if left.get("after") else None
        skipped = tuple(f"{path}/" for path, modes, _ in left["rows"] if modes[0] == GITLINK != modes[1])
        self._lost += [lost for row in left["rows"] if GITLINK in row[1] and (lost := _left_inside(*row))]
        rows = {
            path: (entry_side(modes[0], ids[0]), entry_side(modes[1], ids[1]))
            for path, modes, ids in left["rows"]
            if GITLINK not in modes and not path.startswith(skipped)
        }
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
        ids = store_contents(git, [text for _, _, _, text in contents])
        for (path, number, mode, _), found_id in zip(contents, ids, strict=True):
            found[path][number] = (mode, found_id)
        return {path: (sides[0], sides[1]) for path, sides in found.items()}

    def _again(self, earlier: Undo) -> list[Layer]:
        """The opposite of an undo that was done."""
        plan = Plan.decoded(self._blobs.read(earlier.plan_blob))
        state = GitState.decoded(self._blobs.read(earlier.state)) if earlier.state else None
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

    def open(self, state: GitState | None) -> None:
        """Find the repository that holds what was there before."""
        self._state = state
        found = find_repository(self.folder)
        if found is None and state is not None:
            found = kept_copy(state, state_dir=self._state_dir.root)
            if found is None:
                raise GitError("the repository is gone, and no copy of it is there")
        if found is not None and state is None and found.ignores(self.folder):
            found = None
        self._git = found or self._plain_repository()

    @property
    def git(self) -> Git:
        """The repository that holds what was there before, once it is open."""
        assert self._git is not None  # noqa: S101 - opened by every way that leads here
        return self._git

    def planner(self) -> Planner:
        """Plans by the repository that is open."""
        return Planner(self.git, self.folder, state_dir=self._state_dir, task_id=self.task_id, state=self._state)

    def _plain_repository(self) -> Git:
        """The repository of pm's own that holds contents of a folder without git."""
        place = self._state_dir.control / _PLAIN
        if (place / "HEAD").exists():
            return Git(place, self.folder)
        ensure_folder(self._state_dir.control)
        git = scratch_repository(place, self.folder, sha256=False, stopper=Stopper())
        (place / "info").mkdir(exist_ok=True)
        (place / "info" / "attributes").write_text("* -text -filter -ident\n")
        return git


def _left_inside(path: str, modes: Sequence[str], heads: Sequence[str]) -> str:
    """What stays as the task left it of the repository at `path`; "" for nothing."""
    if modes[1] != GITLINK:
        return f"{path}: the repository there is gone or cannot be read; nothing in it is put back"
    if modes[0] != GITLINK:
        return f"{path}/.git: the repository that the task made stays"
    if heads[0] == heads[1]:
        return ""
    return f"{path}: its HEAD has moved from {heads[0][:12] or 'nothing'}, and stays at {heads[1][:12] or 'nothing'}"


def _first_apart(entries: Sequence[Entry]) -> int | None:
    """Where the task stopped changing the user's files itself: what it did from there on was merged at the end."""
    plans = ((at, one) for at, one in enumerate(entries) if isinstance(one, ChunkingPlan) and not one.proposed)
    return next(
        (at for at, one in plans if one.isolation == "worktrees" or (one.subtasks and one.isolation != "direct")), None
    )
