"""Replays a session's edits, snapshots and commit diffs from the base and compares every hash. Pure.

What does not agree is a `mismatch`; what cannot be checked is `not_testable` with its reason (`redacted`, `no base`).
Neither is guessed, nor taken for the other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from collector.intake.redact_code import REDACTION_KEYS
from collector.patches import FilePatch, PatchError, apply_patch, parse_patch
from tracer.capture.events import Commit, Event, FileEdit, FileEditEvent, FileSnapshot, FileSnapshotEvent

REDACTED: Final = "redacted"
NO_BASE: Final = "no base"
_MOST_FINDINGS: Final = 1000
_TOMBSTONE: Final = b'{"tombstone":'


class Unknown:
    """The content of a file that nobody can tell."""


UNKNOWN: Final = Unknown()
Content = bytes | Unknown | None
"""A file's bytes, None where there is no file, UNKNOWN where that cannot be told."""


class Finding(NamedTuple):
    """What was found at event `seq` (0: at the end) about `path`."""

    seq: int
    path: str
    kind: Literal["mismatch", "not_testable"]
    reason: str


@dataclass(slots=True)
class FileState:
    """A file as replayed so far; `redacted` once a placeholder may stand in it. `mode` is git's.

    `why` says what keeps a content from being known, where it is not the base that is missing.
    """

    content: Content
    redacted: bool = False
    mode: str | None = None
    why: str = ""


@dataclass(frozen=True)
class ReplayResult:
    """What the replay came to. Counts are of checks; `findings` holds the first 1,000."""

    edits: int
    snapshots: int
    checked: int
    mismatches: int
    not_testable: int
    findings: tuple[Finding, ...]
    files: dict[str, FileState] = field(repr=False)


class Replay:
    """The state of a replay; feed it edits and snapshots in order of seq, then ask for `result`.

    `base` answers the content of a path at the base commit: None where there is no such file, UNKNOWN without a base.
    """

    def __init__(self, base: Callable[[str], Content]) -> None:
        self._base = base
        self.files: dict[str, FileState] = {}
        self._counts: Counter[str] = Counter()
        self._findings: list[Finding] = []

    async def take(
        self, event: Event, read: Callable[[str], Awaitable[bytes | None]], *, is_redacted: Callable[[bytes], bool]
    ) -> None:
        """Replay an edit or a snapshot, its blobs as `read` has them; other events change no file."""
        if isinstance(event, FileEditEvent):
            patch = await read(event.payload.patch_blob_id)
            wanted = self.wants(event.payload)
            before = await read(wanted) if wanted is not None else None
            redacted = patch is not None and is_redacted(patch)
            self.edit(event.seq, event.payload, patch, redacted=redacted, before=before)
        elif isinstance(event, FileSnapshotEvent):
            content = await read(event.payload.content_blob_id)
            redacted = content is not None and is_redacted(content)
            kept = None if content is None or content.startswith(_TOMBSTONE) else content
            self.snapshot(event.seq, event.payload, kept, redacted=redacted)

    def wants(self, edit: FileEdit) -> str | None:
        """The id of a blob that would help (the content before, where only its hash is known), else None."""
        known = self._checked_out(edit.file_path, edit.pre_hash).content
        return edit.pre_hash if edit.pre_hash is not None and content_hash(known) != edit.pre_hash else None

    def edit(
        self, seq: int, edit: FileEdit, patch: bytes | None, *, redacted: bool, before: bytes | None = None
    ) -> None:
        """Replay one edit. `patch` None: the blob is not here; `before` answers what `wants` asked for."""
        self._counts["edits"] += 1
        state = self._checked_out(edit.file_path, edit.pre_hash)
        state.redacted |= redacted or not edit.extra.keys().isdisjoint(REDACTION_KEYS)
        if patch is None:
            self._cannot_tell(seq, edit.file_path, state, "its patch is not stored here")
            return
        try:
            change = _only(parse_patch(patch))
        except PatchError as error:
            self._differs(seq, edit.file_path, state, f"its patch cannot be used: {_said(error)}")
            return
        self._before(seq, edit, state, change, before)
        if change.binary:
            why = edit.extra.get("content_left_out")
            self._cannot_tell(seq, edit.file_path, state, why if isinstance(why, str) and why else "binary")
            return
        if isinstance(state.content, Unknown):
            self._note(seq, edit.file_path, "not_testable", _why_unknown(state))
            return
        try:
            state.content = apply_patch(state.content, change)
        except PatchError as error:
            self._differs(seq, edit.file_path, state, f"its patch does not apply: {_said(error)}")
            return
        state.mode = _mode(change) or state.mode
        self._after(seq, edit, state)

    def snapshot(self, seq: int, snapshot: FileSnapshot, content: bytes | None, *, redacted: bool) -> None:
        """Compare a snapshot with what the edits led to, and go on from it. `content` None: it is not here."""
        self._counts["snapshots"] += 1
        path = snapshot.file_path
        state = self._checked_out(path, content_hash(content))
        redacted |= not snapshot.extra.keys().isdisjoint(REDACTION_KEYS)
        if content is None:
            self._note(seq, path, "not_testable", "its content is not stored here")
            return
        if isinstance(state.content, bytes) or state.content is None:
            if state.content == content:
                self._counts["checked"] += 1
            elif state.redacted or redacted:
                self._note(seq, path, "not_testable", REDACTED)
            else:
                self._note(seq, path, "mismatch", "the snapshot differs from what the edits before it lead to")
        state.content, state.redacted = content, redacted

    def final(self, path: str, state: FileState, expected: bytes | None, *, redacted: bool, what: str) -> None:
        """Compare a file's end with `expected` (None: no such file), named by `what` (`the final diff`)."""
        if state.content == expected:
            self._counts["checked"] += 1
        elif isinstance(state.content, Unknown):
            self._note(0, path, "not_testable", REDACTED if redacted else _why_unknown(state))
        elif state.redacted or redacted:
            self._note(0, path, "not_testable", REDACTED)
        else:
            self._note(0, path, "mismatch", f"it does not end as {what} says")

    def cannot_test(self, seq: int, path: str, reason: str) -> None:
        """Note that something about `path` could not be checked."""
        self._note(seq, path, "not_testable", reason)

    def contents(self) -> dict[str, FileState]:
        """A copy of the touched files as they are now (a commit's state, to compare later)."""
        return {path: replace(state) for path, state in self.files.items()}

    def wrong(self, seq: int, path: str, reason: str) -> None:
        """Note that something about `path` does not agree."""
        self._note(seq, path, "mismatch", reason)

    def result(self) -> ReplayResult:
        """What was found so far."""
        counts = self._counts
        return ReplayResult(
            edits=counts["edits"],
            snapshots=counts["snapshots"],
            checked=counts["checked"],
            mismatches=counts["mismatch"],
            not_testable=counts["not_testable"],
            findings=tuple(self._findings),
            files=self.files,
        )

    def state(self, path: str) -> FileState:
        """The file as replayed so far; as the base has it where nothing touched it."""
        state = self.files.get(path)
        if state is None:
            state = self.files[path] = FileState(self._base(path))
        return state

    def _checked_out(self, path: str, wanted: str | None) -> FileState:
        """The file as replayed so far; the base's content with git's line ends where `wanted` is its hash."""
        if path not in self.files and isinstance(base := self.state(path).content, bytes):
            found = (form for form in line_end_forms(base) if content_hash(form) == wanted)
            self.files[path].content = next(found, base)
        return self.state(path)

    def _before(self, seq: int, edit: FileEdit, state: FileState, change: FilePatch, before: bytes | None) -> None:
        """Check the content before, and find it where it is not known."""
        if isinstance(state.content, Unknown):
            if change.creates:
                state.content = None
            elif before is not None:
                state.content = before
            return
        if edit.pre_hash is None:
            return  # the file did not exist, or its hash is withheld: applying the patch tells
        if content_hash(state.content) == edit.pre_hash:
            self._counts["checked"] += 1
        elif state.redacted:
            self._note(seq, edit.file_path, "not_testable", REDACTED)
            state.content = before if before is not None else state.content
        else:
            self._note(seq, edit.file_path, "mismatch", "the content before the edit is not what pre_hash says")
            state.content = before if before is not None else UNKNOWN

    def _after(self, seq: int, edit: FileEdit, state: FileState) -> None:
        actual = content_hash(state.content)
        if edit.post_hash == actual:
            self._counts["checked"] += 1
        elif state.redacted:
            self._note(seq, edit.file_path, "not_testable", REDACTED)
        elif edit.post_hash is None:
            self._note(seq, edit.file_path, "not_testable", "the event has no post_hash")
        else:
            self._note(seq, edit.file_path, "mismatch", "the content after the edit is not what post_hash says")

    def _differs(self, seq: int, path: str, state: FileState, reason: str) -> None:
        """Something does not fit: never a failure where placeholders may be the cause."""
        if state.redacted:
            self._cannot_tell(seq, path, state, REDACTED)
        else:
            self._note(seq, path, "mismatch", reason)
            state.content = UNKNOWN

    def _cannot_tell(self, seq: int, path: str, state: FileState, reason: str) -> None:
        self._note(seq, path, "not_testable", reason)
        state.content, state.why = UNKNOWN, reason

    def _note(self, seq: int, path: str, kind: Literal["mismatch", "not_testable"], reason: str) -> None:
        self._counts[kind] += 1
        # Mismatches have their places kept first: with a thousand redacted edits the one broken edit must be named.
        if len(self._findings) < _MOST_FINDINGS or kind == "mismatch":
            self._findings.append(Finding(seq, path, kind, reason))
        if len(self._findings) > _MOST_FINDINGS:
            weak = next((at for at, found in enumerate(self._findings) if found.kind == "not_testable"), None)
            del self._findings[-1 if weak is None else weak]


def line_end_forms(content: bytes) -> tuple[bytes, ...]:
    """A file of a commit as it may stand in a working folder: as it is, first, then with either line end throughout."""
    bare = content.replace(b"\r\n", b"\n")
    return content, bare, bare.replace(b"\n", b"\r\n")


def content_hash(content: Content) -> str | None:
    """`sha256:<hex>` of a file's bytes; None where there is no file or it is not known."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}" if isinstance(content, bytes) else None


def _why_unknown(state: FileState) -> str:
    return REDACTED if state.redacted else state.why or NO_BASE


def _only(files: tuple[FilePatch, ...]) -> FilePatch:
    if len(files) != 1:
        raise PatchError("an edit changes one file", why=f"its patch changes {len(files)}")
    return files[0]


def _said(error: PatchError) -> str:
    return f"{error.what} ({error.why})" if error.why else error.what


def _mode(change: FilePatch) -> str | None:
    for line in change.head:
        for start in (b"new file mode ", b"new mode "):
            if line.startswith(start):
                return line.removeprefix(start).strip().decode("ascii", "replace")
    return None


LEFT_OUT: Final = "left_out"
"""The key of a commit's `extra` that names the files of which the recorder keeps nothing."""


class Commits:
    """The commits of one trace, in order of seq."""

    def __init__(self) -> None:
        self._made: dict[str, Commit] = {}
        self.left_out: set[str] = set()

    def take(self, commit: Commit) -> None:
        """The next commit."""
        self._made[commit.commit_sha] = commit
        named = commit.extra.get(LEFT_OUT)
        self.left_out.update(path for path in named if isinstance(path, str)) if isinstance(named, list) else None

    def __contains__(self, sha: str) -> bool:
        return sha in self._made

    def leading_to(self, sha: str) -> list[Commit]:
        """The commits that end with `sha`, oldest first, each the parent of the next; empty where it was not made."""
        found: list[Commit] = []
        at: str | None = sha
        while at is not None and at in self._made and len(found) < len(self._made):
            found.append(self._made[at])
            at = self._made[at].parent_sha
        return found[::-1]


class CommitDiff(NamedTuple):
    """The diff of one commit by path; `redacted` where placeholders may stand in it."""

    files: Mapping[str, FilePatch]
    redacted: bool


def read_diff(diff: bytes, *, redacted: bool) -> CommitDiff:
    """A commit's diff; one that cannot be read tells of no file."""
    try:
        files = parse_patch(diff)
    except PatchError:
        files = ()
    return CommitDiff({file.path.decode("utf-8", "surrogateescape"): file for file in files}, redacted)


def content_by_commits(path: str, before: Content, diffs: Sequence[CommitDiff]) -> tuple[Content, bool]:
    """What the diffs make of the file, and whether redaction may stand in the way; UNKNOWN where they do not say."""
    content, redacted = before, False
    for diff in diffs:
        change = diff.files.get(path)
        if change is None:
            continue
        redacted |= diff.redacted
        if change.binary or not (isinstance(content, bytes) or content is None):
            return UNKNOWN, redacted
        try:
            content = apply_patch(content, change)
        except PatchError:
            return UNKNOWN, redacted
    return content, redacted
