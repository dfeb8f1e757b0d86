"""The settings that every git command of ours gets, and what has to be known of a repository's own.

Whatever a repository's settings say, no program of theirs is run and no file passes for unchanged.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["ASK_SETTINGS", "FIXED", "READING", "RepositorySettings", "settings_in", "tells_case_apart"]

FIXED = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.preloadIndex": "true",
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.ignoreStat": "false",
    "core.safecrlf": "false",
    "core.quotePath": "false",
    "core.looseCompression": "1",
    "core.fsync": "objects,reference",
    "core.fsyncMethod": "batch",
    "core.alternateRefsCommand": "false",
    "core.bare": "false",
    "index.sparse": "false",
    "index.threads": "false",  # entry after entry, as `git_index` reads it: an index may tell threads something else
    "diff.ignoreSubmodules": "all",
    "diff.renames": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "merge.conflictStyle": "merge",
    "merge.renormalize": "false",
    "protocol.allow": "never",
    "submodule.recurse": "false",
    "advice.addEmbeddedRepo": "false",
}
if sys.platform == "linux":  # elsewhere such a name may lead into `.git`; here a file of that name has to be compared
    FIXED |= {"core.protectHFS": "false", "core.protectNTFS": "false"}
READING = {"core.symlinks": "true"}  # for commands that read files: or a file could pass for the link it replaced
_OBJECT_FORMAT = "extensions.objectformat"
_IGNORING = ("core.excludesfile", "core.ignorecase")
_MODES = "core.filemode"
_OTHERS_ASKED = frozenset({_OBJECT_FORMAT, _MODES, *_IGNORING})
_ASKED = r"^(filter|merge)\..*\.|^(extensions\.objectformat|core\.excludesfile|core\.ignorecase|core\.filemode)$"
ASK_SETTINGS = ("config", "-z", "--get-regexp", _ASKED)
_OFF = frozenset({"false", "no", "off", "0"})
_ID_BYTES = {("sha1",): 20, (): 20, ("sha256",): 32}


class RepositorySettings(NamedTuple):
    """What we need to know of a repository's settings: kind and name of every filter and merge program, ids' length.

    `ignoring` are keys and values by which it is decided what to ignore, `heeds_modes` is whether it matters that a
    file is executable.
    """

    drivers: tuple[tuple[str, str], ...]
    id_bytes: int | None
    ignoring: tuple[tuple[str, str], ...]
    heeds_modes: bool


def settings_in(said: bytes) -> RepositorySettings:
    """What `git config` answered to `ASK_SETTINGS`."""
    pairs = [(key, value) for key, _, value in (pair.partition("\n") for pair in os.fsdecode(said).split("\0")) if key]
    forms = tuple(value for key, value in pairs if key == _OBJECT_FORMAT)
    ignoring = tuple((key, value) for key, value in pairs if key in _IGNORING)
    modes = [value for key, value in pairs if key == _MODES]
    keys = [key.split(".", 1) for key, _ in pairs if key not in _OTHERS_ASKED]
    drivers = {(kind, rest.rsplit(".", 1)[0]) for kind, rest in keys}
    heeds_modes = not modes or modes[-1].lower() not in _OFF
    return RepositorySettings(tuple(sorted(drivers)), _ID_BYTES.get(forms), ignoring, heeds_modes)


def tells_case_apart(top: Path) -> bool:
    """Whether `a` and `A` are two files here, as far as `.git` tells."""
    try:
        known = (top / ".git").lstat()
        other = (top / ".GIT").lstat()
    except FileNotFoundError:
        return os.path.lexists(top / ".git")
    except OSError:
        return False
    return (known.st_dev, known.st_ino) != (other.st_dev, other.st_ino)
