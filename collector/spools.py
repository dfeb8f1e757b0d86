"""The captures of one project on this machine: all of them, or the one a person means by a few characters.

A damaged spool stands in nobody's way: it is left out of the list, and only `Spool.open` says what ails it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from collector.spool import Spool, captures_folder
from tracer.errors import NotFoundError, TraceError

__all__ = ["find_spool", "list_spools"]


def list_spools(state_root: Path) -> list[Spool]:
    """Every capture of the project, newest first; damaged ones are left out."""
    found: list[Spool] = []
    try:
        folders = [folder for folder in captures_folder(state_root).iterdir() if not folder.name.startswith(".")]
    except OSError:
        return []
    for folder in folders:
        with contextlib.suppress(NotFoundError, TraceError):
            found.append(Spool.open(folder))
    return sorted(found, key=lambda spool: -int(spool.header.get("created_at_ms") or 0))


def find_spool(state_root: Path, selector: str) -> Spool:
    """The capture whose id is or begins with `selector`.

    Raises:
        NotFoundError: none, or more than one.

    """
    spools = list_spools(state_root)
    exact = [spool for spool in spools if spool.trace_id == selector]
    matching = exact or [spool for spool in spools if selector and spool.trace_id.startswith(selector)]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise NotFoundError(
            f"no capture {selector!r} on this machine",
            why=f"newest: {spools[0].trace_id}" if spools else "there is none in this project",
            next_step="pm capture list",
        )
    raise NotFoundError(
        f"{selector!r} could be {len(matching)} captures",
        why=", ".join(spool.trace_id for spool in matching[:5]),
        next_step="type more of the id",
    )
