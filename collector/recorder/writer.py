"""Writes a recording: events with their context, commits from HEAD's log, git bundles, the final state.

What another process adds (`pm think`, `pm snapshot`) is read under the same lock, so all see one state. Bundles hold
code and history as they are, so they need consent to unredacted code; without, the base's tree goes along, redacted.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from collector.client.events import acceptable
from collector.client.spool import Draft, Spool
from collector.config import IntakeLimits
from collector.final.replay import LEFT_OUT
from collector.recorder.begin import asked, head_commit
from collector.recorder.files import FileTracker, body
from runner.workspace.git.repository import Git, GitError
from tracer.clock import now_epoch_ms
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.marks import PLACEHOLDER

_LARGEST: Final = IntakeLimits().blob_bytes  # what a collector takes where nobody changed that
_CHUNK: Final = 1 << 20
_HEADER: Final = 4096
_REFS: Final = "refs/pm-orchestrator/record/"


def ensure_base_bundle(spool: Spool, git: Git) -> str:
    """Put the base commit's bundle into the spool where it is wanted and missing; why there is none, or nothing."""
    request: dict[str, Any] = spool.header["request"]
    repo = request["repo"]
    if repo.get("bundle_blob_id") or spool.sent.created:
        return ""
    if request["developer"]["consent_flags"].get("store_raw_code") is not True:
        return "without consent to unredacted code"
    try:
        blob_id = _kept_bundle(spool, git, repo["commit_base"], name=f"{_REFS}{spool.trace_id}")
    except GitError as error:
        return str(error).splitlines()[0] if str(error) else "git could not make it"
    if blob_id is None:
        return f"its bundle is larger than {_LARGEST >> 20} MB"
    spool.update_header(request={**request, "repo": {**repo, "bundle_blob_id": blob_id}})
    return ""


def final_bundle(spool: Spool, git: Git, *, head: str) -> str | None:
    """The blob of a bundle with the commits from the base to `head`; None where there is none or it may not be."""
    request: dict[str, Any] = spool.header["request"]
    base = request["repo"]["commit_base"]
    allowed = request["developer"]["consent_flags"].get("store_raw_code") is True
    if not allowed or not request["repo"].get("bundle_blob_id") or head == base or not head:
        return None
    try:
        return _kept_bundle(spool, git, "", "HEAD", f"^{base}")
    except GitError:
        return None


def _kept_bundle(spool: Spool, git: Git, commit: str, *revisions: str, name: str = "") -> str | None:
    """The blob of a bundle of `revisions`, or of what holds `commit`; None where it is too large. Not in memory."""
    path = spool.folder / "bundle.part"
    try:
        if revisions:
            git.run("bundle", "create", "--quiet", str(path), *revisions, chosen_index=False)
        else:
            _bundle(git, path, commit, name=name)
        with path.open("rb") as file:
            small = path.stat().st_size <= _LARGEST
            return spool.blobs.put_chunks(iter(partial(file.read, _CHUNK), b"")) if small else None
    finally:
        path.unlink(missing_ok=True)


def _bundle(git: Git, path: Path, commit: str, *, name: str) -> None:
    """A bundle that holds `commit`: HEAD's, else one of its own, which needs a ref for as long as it is made."""
    git.run("bundle", "create", "--quiet", str(path), "HEAD", chosen_index=False)
    with path.open("rb") as file:
        head = re.search(rb"^([0-9a-f]{40,64}) HEAD\n", file.read(_HEADER), re.MULTILINE)
    shared = git.run("merge-base", head[1].decode(), commit, ok_codes=(0, 1)) if head else b""
    if shared.decode("ascii").strip() == commit:
        return
    git.run("update-ref", name, commit)  # a rebase or a checkout has led away from it already
    try:
        git.run("bundle", "create", "--quiet", str(path), name, chosen_index=False)
    finally:
        git.run("update-ref", "-d", name)


_COMMITTING: Final = ("commit", "cherry-pick", "revert", "merge", "rebase", "pull", "am")
_LINE: Final = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) [^\t]*?(\d{1,12}) [-+]\d{4}(?:\t(.*))?")
_MOST: Final = 100


class Made(NamedTuple):
    """A commit that was made: its id, its first parent (empty for the first) and its message."""

    sha: str
    parent: str
    message: str


class Head:
    """HEAD of one repository as last seen; `since_ms` (a resumed recording): read its log from then, not from now."""

    def __init__(self, git: Git, *, since_ms: int | None = None) -> None:
        self._git = git
        log = git.git_dir / "logs" / "HEAD"
        self._log = log if log.is_file() else None
        self._at = log.stat().st_size if self._log is not None and since_ms is None else 0
        self._since_s = (since_ms or 0) // 1000
        self._objects = Path(git.top, asked(git, "rev-parse", "--git-path", "objects"))
        self.commit = head_commit(git)
        self.branch = self._branch()

    def moved(self, *, until_ms: int | None = None) -> list[Made]:
        """The commits made since the last look, oldest first; those made after `until_ms` are left for a later look."""
        before = self.commit
        self.commit, self.branch = head_commit(self._git), self._branch()
        made = self._from_log(until_ms) if self._log is not None else self._from_history(before)
        return [commit for commit in (self._made(sha) for sha in made[-_MOST:]) if commit is not None]

    def _from_log(self, until_ms: int | None) -> list[str]:
        if self._log is None:
            return []
        try:
            with self._log.open("rb") as file:
                if self._log.stat().st_size < self._at:
                    self._at = 0
                file.seek(self._at)
                new = file.read()
        except OSError:
            return []
        found: list[str] = []
        for line in new[: new.rfind(b"\n") + 1].split(b"\n")[:-1]:
            match = _LINE.fullmatch(line)
            if match and until_ms is not None and self._is_later(match[2].decode("ascii"), int(match[3]), until_ms):
                break
            self._at += len(line) + 1
            what = (match[4] or b"").decode("utf-8", "replace") if match else ""
            word = re.split(r"[ :(]", what, maxsplit=1)[0]
            if match and word in _COMMITTING and not _moves_only(what) and int(match[3]) >= self._since_s:
                found.append(match[2].decode("ascii"))
        return list(dict.fromkeys(found))

    def _is_later(self, sha: str, at_s: int, until_ms: int) -> bool:
        """Whether a line of the log is later, by the time of its new object: the log tells seconds alone."""
        made_ns = at_s * 1_000_000_000
        with contextlib.suppress(OSError):  # packed
            object_ns = (self._objects / sha[:2] / sha[2:]).stat().st_ctime_ns
            made_ns = object_ns if made_ns <= object_ns < made_ns + 2_000_000_000 else made_ns
        return (until_ms + 1) * 1_000_000 <= made_ns < (now_epoch_ms() + 1) * 1_000_000

    def _from_history(self, before: str) -> list[str]:
        if not before or before == self.commit:
            return []
        words = ("rev-list", "--reverse", "--first-parent", f"--max-count={_MOST}", f"{before}..HEAD")
        return asked(self._git, *words).split()

    def _made(self, sha: str) -> Made | None:
        try:
            said = self._git.run("show", "--no-patch", "--no-notes", "--no-show-signature", "--format=%H%n%P%n%B", sha)
        except GitError:
            return None
        first, parents, message = [*said.decode("utf-8", "replace").split("\n", 2), "", ""][:3]
        return Made(first, parents.split(" ")[0], message.strip("\n"))

    def _branch(self) -> str:
        return asked(self._git, "symbolic-ref", "--short", "--quiet", "HEAD")


def _moves_only(what: str) -> bool:
    """Whether a line of the log tells of HEAD being set to a commit that is there already (what it says first)."""
    act, _, outcome = what.partition(": ")
    return act.endswith(("(start)", "(finish)", "(abort)")) or (
        act.startswith(("merge", "pull")) and outcome == "Fast-forward"
    )


_LEFT_ALONE: Final = "untracked_before"
_ACTS: Final = ("test_run", "file_edit", "terminal_command", "commit")
_MOST_ACTS: Final = 5
_MOST_UNTRACKED: Final = 300
_UNTRACKED_BYTES: Final = 16 << 20
PERSON: Final[Mapping[str, Any]] = {"kind": "human", "id": None}
TOOL: Final[Mapping[str, Any]] = {"kind": "tool", "id": "pm record"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScribeOptions:
    """How a recording is written. `redactor` None keeps everything as it is (raw mode)."""

    shell: str
    redactor: ProjectRedactor | None = field(repr=False)
    env_hash: str
    keep_output: bool
    left_out: Callable[[str], bool]
    snapshots: bool = True
    text_only: bool = True
    base_tree: bool = True
    file_limit: int = 1 << 20
    output_head: int = 1 << 20
    output_tail: int = 64 << 10


class Acts:
    """What a thought speaks of: the newest acts since the last thought, oldest first; else the last act of all."""

    def __init__(self) -> None:
        self._since: list[str] = []
        self._last: list[str] = []

    def see(self, event: Mapping[str, Any]) -> None:
        """One more event."""
        if event["type"] == "thought":
            self._since = []
        elif event["type"] in _ACTS:
            self._last = [event["event_id"]]
            self._since = [*self._since, event["event_id"]][-_MOST_ACTS:]

    def links(self) -> list[str]:
        """Their ids."""
        return self._since or self._last


class RecordWriter:
    """The writer of one recording, for one thread. `command` is the id of the running command, empty for none."""

    def __init__(self, spool: Spool, git: Git, options: ScribeOptions) -> None:
        self.spool = spool
        self._git = git
        self._redactor = options.redactor
        begun = int(spool.header.get("created_at_ms") or 0) if spool.last_event() else None
        self.head = Head(git, since_ms=begun)
        self._tree = options.base_tree and options.snapshots
        self._base = str(spool.header["request"]["repo"]["commit_base"])
        self.files = FileTracker(
            git=git,
            base=self._base,
            blobs=spool.blobs,
            store=self.stored,
            left_out=options.left_out,
            limit=options.file_limit,
            snapshots=options.snapshots,
            text_only=options.text_only,
        )
        self.files.untouched_ns = (spool.header.get(_LEFT_ALONE) or {}).get("since_ns")
        self._committed: set[str] = set()
        self.acts = Acts()
        self.known: dict[str, int] = {}

    def leave_alone(self) -> str:
        """Leave the untracked files of a new recording out until they are touched, where they are many; what to say."""
        if self.spool.last_event() or self.files.untouched_ns is not None:
            return ""
        files, size = self.files.untracked()
        if files <= _MOST_UNTRACKED and size <= _UNTRACKED_BYTES:
            return ""
        self.files.untouched_ns = now_epoch_ms() * 1_000_000
        noted = {"files": files, "bytes": size, "since_ns": self.files.untouched_ns}
        self.spool.update_header(**{_LEFT_ALONE: noted})
        return f"{files:,} untracked files ({size / 1e6:,.0f} MB) are recorded only once you change them"

    def stored(self, data: bytes) -> bytes:
        """The stored form of a file's bytes: secrets replaced unless this recording is raw."""
        if self._redactor is None:
            return data
        whole = self._redactor.untruncated()
        return whole.apply(data, whole.marks(data))[0]

    def clean(self, text: str) -> str:
        """The stored form of a short text."""
        return self._redactor.redact_text(text)[0] if self._redactor is not None and text else text

    def context(self, command: str = "") -> dict[str, Any]:
        """Where the session stands now."""
        return {
            "workspace_root": self.clean(str(self._git.top)),
            "branch": self.clean(self.head.branch) or None,
            "commit_head": self.head.commit or None,
            "correlation_id": command or None,
        }

    def record(self, make: Callable[[], list[Draft]]) -> list[dict[str, Any]]:
        """Append what `make` drafts, in one step with what it looked at; the events."""
        with self.spool.writing() as others:
            for line in others:
                self._learn(orjson.loads(line.raw))
            drafts = make()
            events = self.spool.append_held(acceptable(drafts)) if drafts else []
            for event in events:
                self._seen(event)
            return events

    def saved(self, paths: Sequence[str], actor: Mapping[str, Any], *, command: str) -> None:
        """Look at files that were saved."""
        wanted = self.files.not_ignored(paths)
        if wanted:
            self.record(lambda: self.files.observe(wanted, actor=actor, context=self.context(command)))

    def sweep(
        self,
        actor: Mapping[str, Any],
        *,
        command: str = "",
        found: str = "",
        until_ms: int | None = None,
        committed: Collection[str] = (),
    ) -> None:
        """Look at everything that git says differs: what the watcher has not told yet, or never will.

        What changed after `until_ms` is left for a later look, unless it is `committed`.
        """
        if found:  # files that are as in the base again are known from what stands in the spool
            self.record(list)
        paths = self.files.changed_paths()
        if until_ms is not None:
            paths = sorted({*self.files.as_of(paths, until_ms), *committed} & set(paths))

        def make() -> list[Draft]:
            drafts = self.files.observe(paths, actor=actor, context=self.context(command))
            if not found:
                return drafts
            return [replace(draft, payload={**draft.payload, "found": found}) for draft in drafts]

        self.record(make)

    def commits(self, actor: Mapping[str, Any] = PERSON, *, command: str = "", until_ms: int | None = None) -> None:
        """Record the commits that were made since the last look until then, after the edits that are in them."""
        moved = self.head.moved(until_ms=until_ms)
        found = [made for made in moved if made.sha not in self._committed and made.sha != self._base]
        if found:
            paths = {path for made in found for path in self.files.committed(made.parent, made.sha)}
            self.sweep(actor, command=command, until_ms=until_ms, committed=paths)
        for made in found:
            self._committed.add(made.sha)
            diff, left_out = self.files.commit_diff(made.parent, made.sha)
            payload: dict[str, Any] = {
                "commit_sha": made.sha,
                "parent_sha": made.parent or None,
                "message": self.clean(made.message),
                **body("diff", diff, self.spool.blobs),
            }
            if left_out:  # who may see the bundle sees their names there; others only how many they are
                payload[LEFT_OUT] = len(left_out) if self.files.text_only else left_out
            self.record(lambda said=payload: [Draft(type="commit", payload=said, context=self.context(command))])  # type: ignore[misc] # mypy cannot infer a default of a lambda

    def close(self) -> None:
        """Note the final state: where the session ended and how that differs from where it began."""
        bug = self.spool.header["request"]["task"]["bug_report"]
        difference = self.files.difference()
        title = str(bug.get("title") or "")
        state: dict[str, Any] = {
            "commit_head": self.head.commit or None,
            "pr": {"title": title or None, "description": None, **body("diff", difference, self.spool.blobs)},
        }
        bundle = final_bundle(self.spool, self._git, head=self.head.commit)
        held = self.spool.header["request"]["repo"].get("bundle_blob_id") is not None
        if bundle is None and self._tree and (not held or PLACEHOLDER.search(difference)):
            tree = self.files.base_tree()
            bundle = self.spool.blobs.put_bytes(tree) if tree is not None else None
        if bundle is not None:
            state["bundle_blob_id"] = bundle
        self.spool.close(state)

    def _learn(self, event: Mapping[str, Any]) -> None:
        """Take over what stands in the spool already: by us before a crash, or by another process."""
        self.files.learn(event)
        self._seen(event)
        if event.get("type") == "commit":
            self._committed.add(str(event["payload"].get("commit_sha")))

    def _seen(self, event: Mapping[str, Any]) -> None:
        """Keep what later events may speak of: the last acts, and each id with its seq."""
        self.acts.see(event)
        self.known[event["event_id"]] = event["seq"]
