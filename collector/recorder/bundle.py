"""Git bundles of a recording: the base commit that QA checks out, and the commits made since.

They hold code and history as they are, so they are made only where the person consented to unredacted code. A
repository that is too large goes without: the capture then stands on its snapshots.
"""

from __future__ import annotations

import re
from typing import Any, Final

from collector.spool import Spool
from runner.workspace.git import Git, GitError

__all__ = ["ensure_base_bundle", "final_bundle"]

_LARGEST: Final = 100 << 20
_HEADER: Final = 4096
_REFS: Final = "refs/pm-orchestrator/record/"


def ensure_base_bundle(spool: Spool, git: Git) -> str:
    """Put the base commit's bundle into the spool where it is wanted and missing; why there is none, or nothing.

    Raises:
        RecordError: it cannot be written.

    """
    request: dict[str, Any] = spool.header["request"]
    repo = request["repo"]
    if repo.get("bundle_blob_id") or spool.sent.created:
        return ""
    if request["developer"]["consent_flags"].get("store_raw_code") is not True:
        return "without consent to unredacted code"
    try:
        if _size(git) > _LARGEST:
            return f"the repository is larger than {_LARGEST >> 20} MB"
        data = _bundled(git, repo["commit_base"], name=f"{_REFS}{spool.trace_id}")
    except GitError as error:
        return str(error).splitlines()[0] if str(error) else "git could not make it"
    blob_id = spool.blobs.put_bytes(data)
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
        data = git.run("bundle", "create", "--quiet", "-", "HEAD", f"^{base}", chosen_index=False)
    except GitError:
        return None
    return spool.blobs.put_bytes(data) if len(data) <= _LARGEST else None


def _bundled(git: Git, commit: str, *, name: str) -> bytes:
    """A bundle that holds `commit`: HEAD's, else one of its own, which needs a ref for as long as it is made.

    Raises:
        GitError: git could not make it.

    """
    data = git.run("bundle", "create", "--quiet", "-", "HEAD", chosen_index=False)
    head = re.search(rb"^([0-9a-f]{40,64}) HEAD\n", data[:_HEADER], re.MULTILINE)
    shared = git.run("merge-base", head[1].decode(), commit, ok_codes=(0, 1)) if head else b""
    if shared.decode("ascii").strip() == commit:
        return data
    git.run("update-ref", name, commit)  # a rebase or a checkout has led away from it already
    try:
        return git.run("bundle", "create", "--quiet", "-", name, chosen_index=False)
    finally:
        git.run("update-ref", "-d", name)


def _size(git: Git) -> int:
    """Bytes of the repository's objects as they lie on disk."""
    said = git.run("count-objects", "-v").decode("ascii", "replace")
    facts = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    return (int(facts.get("size", 0)) + int(facts.get("size-pack", 0))) * 1024
