"""A repository's commit as a working tree for a queued task: from an allowed host, and nothing of it is run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from collector.qa.checkout import remote_refusal
from runner.processes.command import run_command
from runner.processes.environment import command_environment
from tracer.errors import UnavailableError, UsageError

_SHA: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LIMIT_S: Final = 600.0
_ALONE: Final = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_LFS_SKIP_SMUDGE": "1",
}


async def check_out(repository: str, commit: str, folder: Path, *, remotes: tuple[str, ...]) -> None:
    """Fetch `commit` of `repository` into the empty `folder`, on a branch `task`; submodules and hooks stay off.

    Raises:
        UsageError: the address is not on the list (`qa.remotes`), or the commit is no full id.
        UnavailableError: it cannot be fetched.

    """
    why = remote_refusal(repository, remotes)
    if why:
        raise UsageError("the repository may not be fetched", why=why, next_step="add its host to qa.remotes")
    if _SHA.fullmatch(commit) is None:
        raise UsageError(f"{commit!r} is no full commit id", next_step="git rev-parse HEAD")
    safe = ("-c", f"core.hooksPath={os.devnull}", "-c", "http.followRedirects=false", "-c", "credential.helper=")
    allow = ("-c", "protocol.allow=never", "-c", f"protocol.{urlsplit(repository).scheme}.allow=always")
    fetch = ("fetch", "--quiet", "--no-tags", "--depth=1", "--no-recurse-submodules", "--end-of-options")
    await _git(folder, "-c", "init.templateDir=", "init", "--quiet")
    await _git(folder, *safe, *allow, *fetch, repository, commit)
    await _git(folder, *safe, "checkout", "--quiet", "-B", "task", commit)


async def _git(folder: Path, *words: str) -> None:
    done = await run_command(
        ["git", *words], cwd=folder, env={**command_environment(), **_ALONE}, timeout_s=_LIMIT_S, keep_bytes=4096
    )
    if not done.ok:
        verb = next(word for word in words if word in {"init", "fetch", "checkout"})
        last = (done.output.decode("utf-8", "replace").strip().splitlines() or ["no word from git"])[-1]
        raise UnavailableError(f"git {verb} did not succeed", why=last[:300], next_step="is the commit pushed?")
