"""What a recording is written with: drafts of events, each with its context, appended in one step with what they see.

What another process adds (`pm think`, `pm snapshot`) is read under the same lock, so all see one state. Files and
commits are looked at here; who changed them, and when to look, is the scribe's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from collector.client_events import acceptable
from collector.recorder.bundle import final_bundle
from collector.recorder.commits import Head
from collector.recorder.files import FileTracker, body
from collector.spool import Draft, Spool
from collector.verify_commits import LEFT_OUT
from runner.workspace.git import Git
from tracer.clock import now_epoch_ms
from tracer.redaction.engine import ProjectRedactor

__all__ = ["PERSON", "TOOL", "RecordWriter", "ScribeOptions"]

_LEFT_ALONE: Final = "untracked_before"
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
    file_limit: int = 1 << 20
    output_head: int = 1 << 20
    output_tail: int = 64 << 10


class RecordWriter:
    """The writer of one recording; used by one thread. `command` is the id of the command that runs, empty for none.

    Its methods raise `RecordError` where the spool cannot be written.
    """

    def __init__(self, spool: Spool, git: Git, options: ScribeOptions) -> None:
        self.spool = spool
        self._git = git
        self._redactor = options.redactor
        begun = int(spool.header.get("created_at_ms") or 0) if spool.last_event() else None
        self.head = Head(git, since_ms=begun)
        self._text_only = options.text_only
        self._base = str(spool.header["request"]["repo"]["commit_base"])
        self.files = FileTracker(
            git,
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

    def record(self, make: Callable[[], list[Draft]]) -> None:
        """Append what `make` drafts, in one step with what it looked at."""
        with self.spool.writing() as others:
            for line in others:
                self._learn(orjson.loads(line.raw))
            drafts = make()
            if drafts:
                self.spool.append_held(acceptable(drafts))

    def saved(self, paths: Sequence[str], actor: Mapping[str, Any], *, command: str) -> None:
        """Look at files that were saved."""
        wanted = self.files.not_ignored(paths)
        if wanted:
            self.record(lambda: self.files.observe(wanted, actor=actor, context=self.context(command)))

    def sweep(self, actor: Mapping[str, Any], *, command: str = "", found: str = "") -> None:
        """Look at everything that git says differs: what the watcher has not told yet, or never will."""
        if found:  # files that are as in the base again are known from what stands in the spool
            self.record(list)
        paths = self.files.changed_paths()

        def make() -> list[Draft]:
            drafts = self.files.observe(paths, actor=actor, context=self.context(command))
            return [_noted(draft, found) for draft in drafts] if found else drafts

        self.record(make)

    def commits(self, actor: Mapping[str, Any] = PERSON, *, command: str = "") -> None:
        """Record the commits that were made since the last look, after the edits that are in them."""
        found = [made for made in self.head.moved() if made.sha not in self._committed and made.sha != self._base]
        if found:
            self.sweep(actor, command=command)
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
                payload[LEFT_OUT] = len(left_out) if self._text_only else left_out
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
        if bundle is not None:
            state["bundle_blob_id"] = bundle
        self.spool.close(state)

    def _learn(self, event: Mapping[str, Any]) -> None:
        """Take over what stands in the spool already: by us before a crash, or by another process."""
        self.files.learn(event)
        if event.get("type") == "commit":
            self._committed.add(str(event["payload"].get("commit_sha")))


def _noted(draft: Draft, found: str) -> Draft:
    return replace(draft, payload={**draft.payload, "found": found})
