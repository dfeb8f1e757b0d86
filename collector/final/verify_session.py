"""Whether a captured session proves itself: replay from the base, every hash, the final tree, the document's own hash.

A disagreement is a mismatch, named by event and file, and so is a content that a store has lost; what cannot be told
(redacted, no base, a file whose contents are elsewhere) is counted apart, no failure. Nothing of the trace is run.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from collector.final.bundle_trees import CommitTree, Trees, is_tree_file
from collector.final.document import document_chunks
from collector.final.replay import (
    NO_BASE,
    REDACTED,
    UNKNOWN,
    CommitDiff,
    Commits,
    Content,
    FileState,
    Finding,
    Replay,
    Unknown,
    content_by_commits,
    line_end_forms,
    read_diff,
)
from collector.final.trace_source import Source
from collector.patches import FilePatch, PatchError, apply_patch, parse_patch
from collector.store.port import TraceStore
from tracer.capture.canonical import canonical_json
from tracer.capture.events import CommitEvent
from tracer.errors import TraceError

_BINARY_PROBE: Final = 8192
# What redaction leaves behind: marks, rewritten paths, shortened texts, tombstones.
_REDACTED: Final = re.compile(rb"\[REDACTED:[a-z0-9]|\$PROJECT_ROOT\b|\$HOME\b|\n\[TRUNCATED: \d|\A\{\"tombstone\":")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the verification came to.

    `base` says what the replay began with; `tree` is git's id of the rebuilt final tree (None where it cannot be told);
    `reaches` is the final commit whose tree the replay led to, exactly; `document` says whether the stored final
    document is the trace (None: there is none).
    """

    trace_id: str
    events: int
    edits: int
    snapshots: int
    checked: int
    mismatches: int
    not_testable: int
    findings: tuple[Finding, ...]
    base: str
    files: int
    tree: str | None = None
    reaches: str | None = None
    document: bool | None = None

    @property
    def status(self) -> Literal["verified", "mismatch", "not_testable"]:
        """The whole in one word; `not_testable`: nothing disagrees, and nothing could be checked."""
        if self.mismatches or self.document is False:
            return "mismatch"
        nothing_to_check = not (self.edits or self.snapshots or self.not_testable)
        return "verified" if self.checked or nothing_to_check else "not_testable"

    def to_dict(self) -> dict[str, Any]:
        """The JSON record."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "findings"}
        return {**plain, "status": self.status, "findings": [finding._asdict() for finding in self.findings]}


async def verify_source(source: Source, *, document: bool | None = None, write_to: Path | None = None) -> Report:
    """Replay `source` and compare; `document` is passed on to the report. `write_to` gets the rebuilt tree."""
    with tempfile.TemporaryDirectory(prefix="pm-verify-") as folder:
        return await _Run(source, Path(folder)).run(document=document, write_to=write_to)


async def stored_document_agrees(trace_id: str, *, store: TraceStore) -> bool | None:
    """Whether the final document that is noted for the trace is what the trace makes now; None: none is noted."""
    row = await store.get_trace(trace_id)
    if row is None or row.final_blob_id is None:
        return None
    digest = hashlib.sha256()
    async for piece in document_chunks(trace_id, store=store):
        digest.update(piece)
    return row.final_blob_id == f"sha256:{digest.hexdigest()}"


def document_hash_agrees(document: dict[str, Any]) -> bool | None:
    """Whether a document that names its stored form (`final_trace_blob_id`) has that hash; None: it names none."""
    state = document.get("final_state") or {}
    named = state.get("final_trace_blob_id")
    if named is None:
        return None
    bare = orjson.loads(orjson.dumps(document))
    for blob in bare["artifacts"]["blobs"]:
        blob["storage_uri"] = f"blob:{blob['blob_id']}"
    bare["final_state"]["final_trace_blob_id"] = None
    told: bool = f"sha256:{hashlib.sha256(canonical_json(bare)).hexdigest()}" == named
    if not told and not any(_leaves(bare["final_state"])):  # nothing but the name: there was no final state
        bare["final_state"] = None
        told = f"sha256:{hashlib.sha256(canonical_json(bare)).hexdigest()}" == named
    return told


class _Run:
    """One verification; `folder` is for git."""

    def __init__(self, source: Source, folder: Path) -> None:
        self.source = source
        self.folder = folder
        self.trees: Trees | None = None
        self.base: CommitTree | None = None
        self.base_text = "none: the trace has no bundle of the base commit"
        self.replay = Replay(lambda path: UNKNOWN if self.base is None else self.base.read(path))
        self.commits = Commits()
        self.at_commit: dict[str, FileState] | None = None
        self.count = 0

    async def run(self, *, document: bool | None, write_to: Path | None) -> Report:
        tree = reaches = None
        if await self._is_whole():
            await self._open_base()
            await self._play()
        if self.base is not None and self.trees is not None:
            tree = await asyncio.to_thread(self.trees.rebuilt, self.base, self.replay.files)
            reaches = await self._compare_end(self.base, self.trees)
        if write_to is not None:
            trees = self.trees or Trees(self.folder, commit=self.source.repo.commit_base)
            await asyncio.to_thread(trees.write_out, self.base, self.replay.files, write_to)
        result = self.replay.result()
        return Report(
            trace_id=self.source.trace_id,
            events=self.count,
            base=self.base_text,
            **{**vars(result), "files": len(result.files)},
            tree=tree,
            reaches=reaches,
            document=document,
        )

    async def _is_whole(self) -> bool:
        """Hash every blob: one that no edit needs, such as what a command printed, may be damaged or lost too."""
        missing: list[str] = []
        for blob_id in await self.source.blob_ids():
            try:
                file = await self.source.file(blob_id)
                if file is None:
                    missing.append(blob_id)
                else:
                    file.close()
            except TraceError as error:
                self.replay.wrong(0, "", error.line)
                self.base_text = "none: a stored content is damaged"
        if missing and self.source.keeps_contents:
            for blob_id in missing:
                self.replay.wrong(0, "", f"blob {blob_id!r} is missing from the store")
            self.base_text = "none: a stored content is missing"
        elif missing:
            self.replay.cannot_test(0, "", f"{len(missing)} of the contents that it names are not stored here")
        return not self.replay.result().mismatches

    async def _open_base(self) -> None:
        repo, state = self.source.repo, self.source.final_state
        tree_id = state.bundle_blob_id if state is not None and repo.bundle_blob_id is None else None
        if repo.bundle_blob_id is None and tree_id is None:
            return
        bundle = await self.source.file(repo.bundle_blob_id or tree_id or "")
        if tree_id is not None and bundle is not None and not is_tree_file(bundle):
            bundle.close()
            return
        if bundle is None:
            self.base_text = "none: the bundle of the base commit is not stored here"
            return
        self.trees = Trees(self.folder, commit=repo.commit_base)
        try:
            await asyncio.to_thread(self.trees.add_bundle, bundle, what="the bundle of the base commit")
            self.base = await asyncio.to_thread(self.trees.commit, repo.commit_base, what="the base commit")
        except TraceError as error:
            self.replay.wrong(0, "", error.line)
            self.base_text = f"none: {error.what}"
            return
        self.base_text = f"commit {repo.commit_base}"
        claimed = repo.repo_fingerprint.tree_hash
        if self.trees.is_tree_alone:
            self.base_text = f"the redacted tree of commit {repo.commit_base}"
        elif claimed is not None and len(claimed) == len(self.base.tree_id) and claimed != self.base.tree_id:
            self.replay.wrong(0, "", "repo_fingerprint.tree_hash is not the tree of the base commit")

    async def _play(self) -> None:
        last, head = 0, self.source.final_state.commit_head if self.source.final_state is not None else None
        async for event in self.source.events():
            self.count += 1
            if event.seq <= last:
                self.replay.wrong(event.seq, "", f"seq does not ascend: {last} stands before it")
            last = event.seq
            await self.replay.take(event, self.source.read, is_redacted=_is_redacted)
            if isinstance(event, CommitEvent):
                self.commits.take(event.payload)
                if event.payload.commit_sha == head:
                    self.at_commit = self.replay.contents()

    async def _compare_end(self, base: CommitTree, trees: Trees) -> str | None:
        """Compare with the final commit where its bundle is here, else with the final diff; the commit if reached.

        The edits need not lead to a commit that no event names: it was there before, or nothing was committed.
        """
        state = self.source.final_state
        if state is None:
            return None
        if state.commit_head is not None:
            head = await self._final_commit(trees, state.commit_head, state.bundle_blob_id)
            if head is not None and (head.commit in self.commits or not await self._ends_elsewhere(base, head, trees)):
                diffs = await self._commit_diffs(head.commit)
                return await asyncio.to_thread(self._compare_commit, base, head, trees, diffs)
        if state.pr.diff_blob_id is not None:
            diff = await self.source.read(state.pr.diff_blob_id)
            if diff is None:
                self.replay.cannot_test(0, "", "the final diff is not stored here")
            else:
                redacted = _is_redacted(diff)
                await asyncio.to_thread(self._compare_diff, base, diff, redacted=redacted)
        return None

    async def _ends_elsewhere(self, base: CommitTree, head: CommitTree, trees: Trees) -> bool:
        """Whether the edits lead past the commit that was checked out at the end, which nobody made in the session."""
        state = self.source.final_state
        if state is None or (state.pr.diff_blob_id is None and head.commit != base.commit):
            return False
        return await asyncio.to_thread(trees.rebuilt, base, self.replay.files) != head.tree_id

    async def _commit_diffs(self, head: str) -> list[CommitDiff]:
        """The diffs of the commits that lead to `head`; none where one of them is not here."""
        found: list[CommitDiff] = []
        for commit in self.commits.leading_to(head):
            diff = None if commit.diff_blob_id is None else await self.source.read(commit.diff_blob_id)
            if diff is None:
                return []
            found.append(read_diff(diff, redacted=_is_redacted(diff)))
        return found

    async def _final_commit(self, trees: Trees, sha: str, bundle_id: str | None) -> CommitTree | None:
        if bundle_id is not None and not trees.is_tree_alone:
            bundle = await self.source.file(bundle_id)
            if bundle is None:
                self.replay.cannot_test(0, "", "the bundle of the final commit is not stored here")
                return None
            if not is_tree_file(bundle):
                try:
                    await asyncio.to_thread(trees.add_bundle, bundle, what="the bundle of the final commit")
                    return await asyncio.to_thread(trees.commit, sha, what="the final commit")
                except TraceError as error:
                    self.replay.wrong(0, "", error.line)
                    return None
            bundle.close()  # the base's redacted tree
        try:  # nothing was committed, or the base's bundle holds more than the base
            return await asyncio.to_thread(trees.commit, sha, what="the final commit")
        except TraceError:
            return None

    def _compare_commit(
        self, base: CommitTree, head: CommitTree, trees: Trees, diffs: Sequence[CommitDiff]
    ) -> str | None:
        """The commit, if every file it changed ends as the edits or diffs say; uncommitted edits are not held to it."""
        files = self.at_commit if self.at_commit is not None else self.replay.contents()
        before = self.replay.result()
        start = self._start(base, head, trees)
        committed: dict[str, FileState] = {}
        for path in sorted({*base.entries, *head.entries}):
            if base.entries.get(path) == head.entries.get(path):
                continue
            expected, state = head.read(path), files.get(path)
            if why := self._not_kept(path, expected, state):
                self.replay.cannot_test(0, path, why)
            elif state is None and self._same(base, head, path):
                continue  # only its mode changed
            elif state is None:
                self.replay.wrong(0, path, "the final commit changed it, but no event says how")
            else:
                known = not state.redacted and not isinstance(state.content, Unknown)
                if known and diffs and state.content != expected:  # committed in part
                    state = FileState(*content_by_commits(path, start.read(path), diffs), state.mode)
                committed[path] = state
                self.replay.final(path, state, expected, redacted=state.redacted, what="the final commit")  # type: ignore[arg-type]  # _not_kept has links
        after = self.replay.result()
        agreed = (before.mismatches, before.not_testable) == (after.mismatches, after.not_testable)
        return head.commit if agreed and trees.rebuilt(base, committed) == head.tree_id else None

    def _start(self, base: CommitTree, head: CommitTree, trees: Trees) -> CommitTree:
        """Where the commits that lead to the final one began: the base, or a commit that was fetched meanwhile."""
        chain = self.commits.leading_to(head.commit)
        parent = chain[0].parent_sha if chain else None
        if parent is None or parent == base.commit:
            return base
        try:
            return trees.commit(parent, what="a commit")
        except TraceError:
            return base

    def _not_kept(self, path: str, expected: Content, state: FileState | None) -> str:
        """Why nothing is known of a file that the final commit changed; empty where something should be."""
        if isinstance(expected, Unknown):
            return "a link or a submodule"
        if state is not None:
            return ""
        if path in self.commits.left_out:
            return "left out by the recorder"
        if isinstance(expected, bytes) and b"\0" in expected[:_BINARY_PROBE]:
            return "binary"
        return "" if path.isprintable() or path.encode("utf-8", "replace").decode() == path else "its name is no text"

    @staticmethod
    def _same(base: CommitTree, head: CommitTree, path: str) -> bool:
        old, new = base.entries.get(path), head.entries.get(path)
        return old is not None and new is not None and old.object_id == new.object_id

    def _compare_diff(self, base: CommitTree, diff: bytes, *, redacted: bool) -> None:
        """Every file of the final diff must end as the diff says."""
        try:
            files = parse_patch(diff) if diff else ()  # nothing differs, or nothing that is kept
        except PatchError as error:
            if redacted:
                self.replay.cannot_test(0, "", REDACTED)
            else:
                self.replay.wrong(0, "", f"the final diff cannot be read: {error.what}")
            return
        for file in files:
            path = file.path.decode("utf-8", "surrogateescape")
            old = None if file.old_path is None else base.read(file.old_path.decode("utf-8", "surrogateescape"))
            if file.binary or not (isinstance(old, bytes) or old is None):
                self.replay.cannot_test(0, path, "binary" if file.binary else NO_BASE)
                continue
            try:
                expected = _applied(old, file)
            except PatchError as error:
                if redacted:
                    self.replay.cannot_test(0, path, REDACTED)
                else:
                    self.replay.wrong(0, path, f"the final diff does not apply to the base: {error.why or error.what}")
                continue
            self.replay.final(path, self.replay.state(path), expected, redacted=redacted, what="the final diff")


def _applied(base: bytes | None, change: FilePatch) -> bytes | None:
    """What the final diff makes of a file of the base, in the line ends that the diff shows."""
    for form in line_end_forms(base) if base is not None else ():
        with contextlib.suppress(PatchError):
            return apply_patch(form, change)
    return apply_patch(base, change)


def _is_redacted(data: bytes) -> bool:
    """Whether redaction may have changed these bytes. Code of its own that looks so is then not held against it."""
    return _REDACTED.search(data) is not None


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in _leaves(inner)]
    return [value]
