"""Helpers for QA tests: trees as tar files, and the sandboxes of this machine."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from collector.qa.sandbox.port import Job, Limits

__all__ = ["job_of", "tree"]

_QUICK = Limits(time_s=60.0, memory_bytes=256 << 20, pids=64, workspace_bytes=64 << 20, output_bytes=4 << 20)


def tree(folder: Path, files: dict[str, str], *, name: str = "tree.tar") -> Path:
    """A tar of `files` (path to text)."""
    target = folder / name
    with tarfile.open(target, "w") as tar:
        for path, text in files.items():
            data = text.encode()
            member = tarfile.TarInfo(path)
            member.size = len(data)
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(data))
    return target


def job_of(folder: Path, script: str, *, image: str, files: dict[str, str] | None = None, **more: object) -> Job:
    """A job that runs a shell script over `files`."""
    values: dict[str, object] = {"limits": _QUICK, **more}
    return Job(image=image, source=tree(folder, files or {}), command=("sh", "-c", script), **values)  # type: ignore[arg-type]
