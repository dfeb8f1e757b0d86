"""What a session's own events say it ended in, where the final state names neither commit nor diff."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from collector.qa.profiles import Refusal
from collector.replay import Content, FileState, Replay
from collector.verify_source import Source
from tracer.capture.events import CommitEvent, FileEditEvent, FileSnapshotEvent, PrMetadataEvent
from tracer.redaction.placeholder import PLACEHOLDER

__all__ = ["SessionEnd", "session_end"]


class SessionEnd(NamedTuple):
    """`files` are what edits and snapshots lead to (`refusal`: why that cannot be told).

    `diffs` are blobs to apply in order: the last one of the pull request (`pull_request`), else those of the commits.
    """

    files: Mapping[str, FileState]
    refusal: Refusal | None = None
    diffs: tuple[str, ...] = ()
    pull_request: bool = False


async def session_end(source: Source, base: Callable[[str], Content]) -> SessionEnd:
    """Replay a session over `base` (the content of a path at the base commit).

    Raises:
        TraceError: an event or a blob is damaged.

    """
    replay = Replay(base)
    commits: list[str] = []
    pull_request = ""
    async for event in source.events():
        match event:
            case FileEditEvent(payload=edit):
                patch = await source.read(edit.patch_blob_id)
                wanted = replay.wants(edit)
                before = await source.read(wanted) if wanted is not None else None
                hidden = _hidden(patch)
                replay.edit(event.seq, edit, patch, redacted=hidden, before=before)
            case FileSnapshotEvent(payload=snapshot):
                content = await source.read(snapshot.content_blob_id)
                hidden = _hidden(content)
                replay.snapshot(event.seq, snapshot, content, redacted=hidden)
            case CommitEvent(payload=commit) if commit.diff_blob_id:
                commits.append(commit.diff_blob_id)
            case PrMetadataEvent(payload=request) if request.diff_blob_id:
                pull_request = request.diff_blob_id
            case _:
                continue
    result = replay.result()
    refusal = None
    if result.mismatches:
        first = next(finding for finding in result.findings if finding.kind == "mismatch")
        refusal = Refusal("patch_does_not_apply", f"event {first.seq}, {first.path}: {first.reason}")
    return SessionEnd(
        result.files, refusal, (pull_request,) if pull_request else tuple(commits), pull_request=bool(pull_request)
    )


def _hidden(data: bytes | None) -> bool:
    return data is not None and PLACEHOLDER.search(data) is not None
