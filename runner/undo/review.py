"""What a task changed, hunk by hunk: each is kept or discarded, and what is kept is committed.

Discarding a hunk is an undo of that hunk: the file without it takes the place of the version from before the task, and
everything else (three-way against later edits, the durable plan, the record) is `runner.undo.undo`. A commit takes the
task's own lines alone, three-way against HEAD and against the index, so that what else the user changed or staged stays
as it is. Every view reads `read_review`, and decides by `decide` and `commit_review`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from runner.core.evolve import fold
from runner.core.outcome import outcome_of
from runner.core.task import TaskOutcome
from runner.undo.hunks import Hunk, hunks_of, moved_pairs, whole, without
from runner.undo.plan import NEVER, Layer, prefix_of, store_contents
from runner.undo.undo import Undoing, UndoResult, opened
from runner.workspace.git.compare import read_blobs
from runner.workspace.git.entries import Entry, read_entries, tree_entries
from runner.workspace.git.put_files import WHOLE_FILE, Side
from runner.workspace.git.repository import Git, GitError, find_repository, listed
from tracer.clock import short_token
from tracer.errors import ConflictError, NotFoundError, UsageError
from tracer.facts import Issue, LlmResponse, QualityJudgment, UserRequest
from tracer.statedir import StateDir

_SUBJECT: Final = 72
_UNDER_WAY: Final = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")


class ReviewedFile(NamedTuple):
    """One file as it was before the task and as the task left it.

    `decided` are the hunks that were kept or discarded by name; `edited`: it was changed since. `moved` is the path
    of its other half: a file that was only moved is deleted there and added here.
    """

    path: str
    status: Literal["added", "deleted", "modified"]
    before: Side
    after: Side
    hunks: tuple[Hunk, ...]
    discarded: frozenset[str] = frozenset()
    decided: frozenset[str] = frozenset()
    left: Side = None
    taken: Side = None
    edited: bool = False
    moved: str = ""
    findings: tuple[Issue, ...] = ()

    @property
    def ids(self) -> frozenset[str]:
        """Its hunks by id."""
        return frozenset(hunk.id for hunk in self.hunks)


class Review(NamedTuple):
    """A task's result to look through; `findings` are of no file that changed, `message` is proposed for a commit.

    `away` says where the work is of which nothing but what is kept is in the user's files; empty: it is all there.
    """

    outcome: TaskOutcome
    folder: Path
    files: tuple[ReviewedFile, ...]
    undone: bool
    away: str
    findings: tuple[Issue, ...]
    message: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        outcome = self.outcome
        return {
            "task_id": outcome.task_id,
            "status": outcome.status,
            "reason": outcome.reason or None,
            "answer": outcome.answer,
            "verification": outcome.verification,
            "not_verified": [one.to_dict() for one in outcome.not_verified],
            "folder": str(self.folder),
            "undone": self.undone,
            "away": self.away or None,
            "message": self.message,
            "findings": [dict(one.data) for one in self.findings],
            "files": [
                {
                    "path": file.path,
                    "status": file.status,
                    "moved": file.moved or None,
                    "edited": file.edited,
                    "findings": [dict(one.data) for one in file.findings],
                    "hunks": [
                        {
                            "id": hunk.id,
                            "old_start": hunk.old_start,
                            "new_start": hunk.new_start,
                            "lines": [line.decode("utf-8", "backslashreplace") for line in hunk.lines],
                            "findings": [dict(one.data) for one in hunk.findings],
                            "state": _state(file, hunk.id),
                        }
                        for hunk in file.hunks
                    ],
                }
                for file in self.files
            ],
        }


class Committed(NamedTuple):
    """What a commit took (an empty `commit`: nothing was left); later edits of `left_out` stay uncommitted."""

    task_id: str
    commit: str = ""
    branch: str = ""
    remote: str = ""
    paths: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def read_review(state_dir: StateDir, task_id: str) -> Review:
    """A task's result, and what was decided of it. Blocks; changes nothing.

    Raises:
        NotFoundError: no such task.
        ConflictError: the task is running.
        ComparisonError: what was there before is not kept any more, or the files cannot be read.

    """
    with opened(state_dir, task_id, dry_run=True) as work:
        files = _Reviewing(work).files
        issues = _issues(work.newest)
        shown = [_with_findings(file, [one for one in issues if one.path == file.path]) for file in files.values()]
        rest = tuple(one for one in issues if one.path not in files)
        outcome = outcome_of(fold(work.newest), trace_file="", chain_head=None)
        return Review(outcome, work.folder, tuple(shown), work.undone, work.away, rest, _message(work))


def decide(state_dir: StateDir, task_id: str, *, keep: Iterable[str] = (), discard: Iterable[str] = ()) -> UndoResult:
    """Keep and discard files, folders and hunks by name (`.`: all). Blocks; what was decided can be decided again.

    Where all that is in a file is kept, that is as the file is now, later edits included. A conflict changes nothing.

    Raises:
        UsageError: a hunk is to be kept and discarded, or the task is undone.
        NotFoundError, ConflictError, ComparisonError: as `read_review`; also a name that the task did not change.

    """
    with opened(state_dir, task_id) as work:
        work.settle()
        return _Reviewing(work).decide(keep=keep, discard=discard)


def commit_review(state_dir: StateDir, task_id: str, message: str, *, leave: Iterable[str] = ()) -> Committed:
    """Commit what is kept but the files `leave`, and nothing else that was changed or staged. Blocks.

    Hooks and signing are the user's.

    Raises:
        UsageError: there is no repository, or the task is undone.
        ConflictError: other uncommitted changes touch the same lines, or git refused; nothing was changed.
        NotFoundError, ComparisonError: as `read_review`.

    """
    with opened(state_dir, task_id) as work:
        work.settle()
        reviewing = _Reviewing(work)
        reviewing.files = {path: file for path, file in reviewing.files.items() if path not in set(leave)}
        return reviewing.commit(message)


class _Reviewing:
    def __init__(self, work: Undoing) -> None:
        self._work = work
        self._layers = work.layers()
        self.files: dict[str, ReviewedFile] = {}
        if self._layers:
            work.open(next((layer.before for layer in self._layers if layer.before is not None), None))
            self._read()

    def _read(self) -> None:
        work, planner = self._work, self._work.planner()
        left: dict[str, Side] = {}
        for layer in self._layers:
            for path, (_, after) in layer.rows.items():
                left.setdefault(path, after)
        before, conflicts = planner.without(self._layers, left, lost=[])
        before |= conflicts  # edited between two answers of the task, in the same lines
        before |= {path: NEVER for layer in self._layers for path, row in layer.rows.items() if row[0] == NEVER}
        changed = {path: (before[path], left[path]) for path in sorted(left) if before[path] != left[path]}
        hunks, now = hunks_of(work.git, changed, store=planner.store), planner.now(changed)
        known = work.reviewed(self._layers)
        moved = moved_pairs(changed)
        for path, (old, new) in changed.items():
            status: Literal["added", "deleted", "modified"]
            status = "added" if old is None else "deleted" if new is None else "modified"
            file = ReviewedFile(path, status, old, new, hunks[path], left=new, moved=moved.get(path, ""))
            if path in moved:
                how = f"to {moved[path]}" if new is None else f"from {moved[path]}"
                file = file._replace(hunks=(whole(path, [f"moved {how}"]),))
            if work.undone or (work.away and path not in known):
                file = file._replace(discarded=file.ids, left=old)
            elif (decision := known.get(path)) is not None:
                told = decision._asdict()
                file = file._replace(**{name: told[name] for name in ("discarded", "decided", "left", "taken")})
            self.files[path] = file._replace(edited=now[path] != (file.taken or file.left))

    # Decisions

    def decide(self, *, keep: Iterable[str], discard: Iterable[str]) -> UndoResult:
        work = self._work
        self._refuse_undone()
        chosen: dict[str, bool] = {}
        for names, out in ((keep, False), (discard, True)):
            for one in (one for name in names for one in self._named(name)):
                if chosen.setdefault(one, out) != out:
                    raise UsageError(f"{one} cannot be kept and discarded", next_step=f"pm review {work.task_id}")
        touched = {path: file for path, file in self.files.items() if file.ids & chosen.keys()}
        if not touched:
            return UndoResult(work.task_id, "review")
        wanted = {
            path: (file.discarded | {one for one in file.ids if chosen.get(one) is True})
            - {one for one in file.ids if chosen.get(one) is False}
            for path, file in touched.items()
        }
        sides = self._sides(wanted)
        rows = {path: (sides[path], file.left) for path, file in touched.items() if sides[path] != file.left}
        planner = work.planner()
        plan = planner.plan([Layer(rows)])
        for conflict in plan.conflicts:  # the version without the hunk can be had again at any time
            plan.files.pop(conflict[1], None)
            conflict[1] = ""
        now = planner.now(touched)
        reviewed = [
            {
                "path": path,
                "before": file.before,
                "after": file.after,
                "left": sides[path],
                "discarded": sorted(wanted[path]),
                "decided": sorted(file.decided | (file.ids & chosen.keys())),
                "taken": plan.files.get(path, (None, now[path]))[1] if self._takes(file, chosen) else None,
            }
            for path, file in touched.items()
            if path not in {conflict[0] for conflict in plan.conflicts}
        ]
        return work.carry_out("review", plan, reviewed=reviewed, left_blob=work.left_blob)

    def _takes(self, file: ReviewedFile, chosen: Mapping[str, bool]) -> bool:
        """Whether later edits belong to the result: they did before, or all that is in the file is kept."""
        kept = {one for one in file.ids if chosen.get(one) is False}
        return file.taken is not None or (file.edited and bool(kept) and kept >= file.ids - file.discarded)

    def _refuse_undone(self) -> None:
        if self._work.undone:
            following = f"pm undo {self._work.task_id} puts its work in again"
            raise UsageError(f"{self._work.task_id} is undone", why="nothing of it is there", next_step=following)

    def _named(self, name: str) -> frozenset[str]:
        """The hunks that a name means: one, those of a file, or those of all files in a folder."""
        path = name.removesuffix("/").removeprefix("./") or "."
        every = self.files.values()
        files = [file for file in every if path in {".", file.path} or file.path.startswith(f"{path}/")]
        whole = bool(files)
        files = files or [file for file in every if path in file.ids]
        if not files:
            following = f"pm review {self._work.task_id} lists what it changed"
            raise NotFoundError(f"{self._work.task_id} changed no {name!r}", next_step=following)
        halves = [self.files[file.moved] for file in files if file.moved]
        ids = frozenset(one for file in (*files, *halves) for one in file.ids)
        return ids if whole or halves else frozenset({path})

    def _sides(self, wanted: Mapping[str, frozenset[str]]) -> dict[str, Side]:
        """The files as the task left them, but for the hunks of each that are named."""
        git, found = self._work.git, dict[str, Side]()
        parts: dict[str, tuple[str, list[Hunk]]] = {}
        for path, out in wanted.items():
            file = self.files[path]
            found[path] = file.before if out == file.ids else file.after
            if out and out != file.ids and file.before is not None and file.after is not None:
                mode = file.before[0] if f"{path}:mode" in out else file.after[0]
                taken = [hunk for hunk in file.hunks if hunk.id in out and hunk.id != f"{path}:mode"]
                parts[path] = mode, taken
        ids = {file.after[1] for path in parts if (file := self.files[path]).after is not None}
        texts = read_blobs(git, ids, most=WHOLE_FILE, largest=WHOLE_FILE)
        left = {path: texts[after[1]] for path in parts if (after := self.files[path].after) is not None}
        stored = store_contents(git, [without(left[path], taken) for path, (_, taken) in parts.items()])
        return found | {path: (mode, blob) for (path, (mode, _)), blob in zip(parts.items(), stored, strict=True)}

    # The commit

    def commit(self, message: str) -> Committed:
        work, files = self._work, self.files
        self._refuse_undone()
        git = find_repository(work.folder)
        if git is None or (files and git.git_dir != work.git.git_dir):
            raise UsageError(f"{str(work.folder)!r} is in no git repository", next_step="git init")
        if under_way := [name for name in _UNDER_WAY if (git.git_dir / name).exists()]:
            raise ConflictError("git is in the middle of a merge or rebase", why=under_way[0], next_step="git status")
        start, index = prefix_of(git, work.folder), git.with_index(git.git_dir / "index")
        head, staged = _of(_head(git), files, start), _of(read_entries(index), files, start)
        result = {path: file.taken or file.left for path, file in files.items()}
        # A file that git did not know is taken whole: its lines from before the task are in no commit.
        base = {path: None if head[path] is None else file.before for path, file in files.items()}
        new, apart = self._joined(result, base, head)
        index_base = {
            path: file.before if head[path] is None and staged[path] is not None else head[path]
            for path, file in files.items()
        }
        put, more = self._joined(new, index_base, staged)
        if apart or more:
            raise ConflictError(
                f"other uncommitted changes touch the same lines of {', '.join(sorted({*apart, *more}))}",
                next_step="commit or stash those first, or commit these files with git",
            )
        branch = git.run("symbolic-ref", "--quiet", "--short", "HEAD", ok_codes=(0, 1)).decode().strip()
        remote = git.run("config", "--get", "remote.origin.url", ok_codes=(0, 1)).decode().strip()
        done = Committed(
            work.task_id, "", branch, remote, left_out=tuple(path for path, file in files.items() if file.edited)
        )
        paths = tuple(path for path in files if new[path] != head[path])
        if not paths:
            return done
        work.write("begun", "commit", paths=paths)
        commit = _commit(git, start, message, new=new, put=put, staged=staged)
        work.write("done", "commit", commit=commit, paths=paths)
        return done._replace(commit=commit, paths=paths)

    def _joined(
        self, result: Mapping[str, Side], base: Mapping[str, Side], start: Mapping[str, Side]
    ) -> tuple[dict[str, Side], dict[str, Side]]:
        """`start` with what leads from `base` to `result`: to go forward is to undo the way back."""
        rows = {path: (result[path], base[path]) for path in result}
        return self._work.planner().without([Layer(rows)], start, lost=[])


def _commit(
    git: Git, start: str, message: str, *, new: Mapping[str, Side], put: Mapping[str, Side], staged: Mapping[str, Side]
) -> str:
    """Commit `new` on HEAD and leave the user's index with `put`; where git refuses, the index stays as it was.

    The index comes first: a kill between the two leaves the work staged, and never a staged removal of it.
    """
    own = git.git_dir / f"pm-commit-{short_token()}.index"
    real = git.git_dir / "index"
    for left in git.git_dir.glob("pm-commit-*"):  # of a commit that was killed
        left.unlink(missing_ok=True)
    try:
        if real.exists():
            shutil.copy2(real, own)
        born = git.run("rev-parse", "--verify", "--quiet", "HEAD", ok_codes=(0, 1))
        git.as_user("read-tree", *(("--reset", "HEAD") if born else ("--empty",)), index=own)
        _put(git, start, new, index=own)
        _put(git, start, put, index=real)
        try:
            git.as_user("commit", "--quiet", "--file=-", "--cleanup=whitespace", index=own, stdin=message.encode())
        except GitError as error:
            if git.run("rev-parse", "--verify", "--quiet", "HEAD", ok_codes=(0, 1)) == born:  # nobody else's commit
                _put(git, start, staged, index=real)
            raise ConflictError(
                "git refused the commit", why=str(error), next_step="correct that and repeat"
            ) from error
        return git.line("rev-parse", "HEAD")
    finally:
        own.unlink(missing_ok=True)


def _put(git: Git, start: str, entries: Mapping[str, Side], *, index: Path) -> None:
    """Put the entries into an index; None takes a path out."""
    length = next((len(side[1]) for side in entries.values() if side is not None), 40)
    sides = {path: side or ("0", "0" * length) for path, side in entries.items()}
    lines = [b"%s %s\t%s" % (*map(str.encode, side), os.fsencode(start + path)) for path, side in sides.items()]
    git.as_user("update-index", "-z", "--index-info", index=index, stdin=listed(lines))


def _head(git: Git) -> dict[bytes, Entry]:
    """The files of the commit that is checked out; none where there is no commit yet."""
    if not git.run("rev-parse", "--verify", "--quiet", "HEAD", ok_codes=(0, 1)):
        return {}
    return tree_entries(git, "HEAD")


def _of(entries: Mapping[bytes, Entry], paths: Iterable[str], start: str) -> dict[str, Side]:
    return {path: entries.get(os.fsencode(start + path)) for path in paths}


def _state(file: ReviewedFile, hunk: str) -> str:
    return "discarded" if hunk in file.discarded else "kept" if hunk in file.decided else "open"


def _issues(entries: Sequence[Any]) -> list[Issue]:
    """What the last judgment of the task found, and of each of its subtasks."""
    last = {one.subtask_id: one for one in entries if isinstance(one, QualityJudgment)}
    return [issue for one in last.values() for issue in one.issues if not issue.preexisting]


def _with_findings(file: ReviewedFile, issues: Iterable[Issue]) -> ReviewedFile:
    """The file with each finding at the hunk that holds its line, or with the file itself."""
    hunks = {hunk.id: hunk for hunk in file.hunks}
    rest = []
    for issue in issues:
        line = issue.line or -1
        near = (one for one in hunks.values() if one.new_start <= line < one.new_start + len(one.side(b"+")))
        if (hunk := next(near, None)) is not None:
            hunks[hunk.id] = hunk._replace(findings=(*hunk.findings, issue))
        else:
            rest.append(issue)
    return file._replace(hunks=tuple(hunks.values()), findings=tuple(rest))


def _message(work: Undoing) -> str:
    """The request's title, and what the agent reports to have done."""
    request = next(one for one in work.entries if isinstance(one, UserRequest))
    words = " ".join((request.title or request.prompt).split())
    subject = words if len(words) <= _SUBJECT else words[:_SUBJECT].rsplit(" ", 1)[0]
    answers = (one for one in reversed(work.entries) if isinstance(one, LlmResponse) and not one.purpose)
    report = next((one.report for one in answers if one.report is not None), None)
    done = [f"- {' '.join(item.split())}" for item in report.done] if report is not None else []
    return "\n".join([subject, *(["", *done] if done else [])])
