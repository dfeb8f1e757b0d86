"""Which rows of a set its buyer must take out: traces that were deleted, or whose consent was narrowed, since.

A set's folder is read as it lies there, with no collector at hand; the list comes beside its manifest, and newer ones
from whoever made the set.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

import orjson

from tracer.errors import UsageError

LIST: Final = "revocations.json"


def revocation_list(revocations: list[dict[str, Any]], *, at_ms: int) -> bytes:
    """The list as it stands beside a manifest."""
    value = {"revocations_version": 1, "made_at_ms": at_ms, "revocations": revocations}
    return orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"


def check_set(folder: Path, revocations: Path) -> dict[str, Any]:
    """The set's rows that are revoked, and its shards that are not as the manifest says.

    Raises UsageError: the manifest or the list cannot be read.
    """
    manifest, listed = _read(folder / "manifest.json", "traces"), _read(revocations, "revocations")
    revoked = {each["trace_id"]: each for each in listed["revocations"]}
    rows = [
        {**revoked[entry["trace_id"]], "shard": entry["shard"], "row": entry["row"]}
        for entry in manifest["traces"]
        if entry["trace_id"] in revoked and not _agreed(entry, revoked[entry["trace_id"]])
    ]
    changed = [shard["path"] for shard in manifest["shards"] if not _is_whole(folder / shard["path"], shard)]
    return {
        "traces": len(manifest["traces"]),
        "revoked": rows,
        "changed": changed,
        "list_made_at_ms": listed["made_at_ms"],
    }


def _agreed(entry: dict[str, Any], revocation: dict[str, Any]) -> bool:
    """Whether the set was made after consent had been narrowed, and so holds what is left of it."""
    if revocation["what"] != "consent":
        return False
    return not any(entry["consent"].get(flag) for flag in revocation["flags"])


def folder_digest(folder: Path) -> str:
    """The SHA-256 of a line for each file below the folder, in order of their paths: its SHA-256, `x` or `-`, its path.

    Raises OSError: one cannot be read, or is no file.
    """
    lines = []
    for path in (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()):
        if path.is_symlink() or not path.is_file():
            raise OSError(f"{str(path)!r} is no plain file")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append((path.relative_to(folder).as_posix(), digest, "x" if path.stat().st_mode & 0o100 else "-"))
    told = "".join(f"{digest} {mode} {name}\n" for name, digest, mode in sorted(lines))
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()


def _is_whole(path: Path, shard: dict[str, Any]) -> bool:
    try:
        if path.is_dir():  # a set of an older version has no digest of a task's files
            return "files_sha256" not in shard or folder_digest(path) == shard["files_sha256"]
        with path.open("rb") as file:
            return bool(hashlib.file_digest(file, "sha256").hexdigest() == shard["sha256"])
    except (OSError, KeyError):
        return False


def _read(path: Path, key: str) -> dict[str, Any]:
    try:
        value = orjson.loads(path.read_bytes())
        value[key]
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = error if isinstance(error, OSError) else f"it holds no {key}"
        raise UsageError(f"{str(path)!r} cannot be read", why=why, next_step="name a set's folder") from error
    return dict(value)
