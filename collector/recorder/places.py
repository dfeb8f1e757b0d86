"""What stands at a path of the working tree, and whether it is the tree's own: not behind a link, nor in a submodule.

git refuses to speak of what is elsewhere (one such path is a refusal for all that were asked about), and no edit of it
would fit the tree that is proved.
"""

from __future__ import annotations

import os
import stat
from typing import Final, NamedTuple

__all__ = ["EXECUTABLE", "PLAIN", "Look", "Places", "Seen", "look_at", "read_bytes"]

PLAIN: Final = "100644"
EXECUTABLE: Final = "100755"
Look = tuple[int, int, int, int]


class Seen(NamedTuple):
    """What stands at a path: `kind` is `file`, `gone`, `other` (a link, a folder) or `unknown`; `mode` is git's."""

    look: Look | None
    size: int
    kind: str
    mode: str = PLAIN


def look_at(full: str) -> Seen:
    """What stands there now."""
    try:
        facts = os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return Seen(None, 0, "gone")
    except OSError:
        return Seen(None, 0, "unknown")
    if not stat.S_ISREG(facts.st_mode):
        return Seen(None, 0, "other")
    look = (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)
    return Seen(look, facts.st_size, "file", EXECUTABLE if facts.st_mode & stat.S_IXUSR else PLAIN)


def read_bytes(full: str) -> bytes:
    """The file's bytes; never through a link, and never waiting for a pipe."""
    descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


class Places:
    """The folders of the working tree `top`, as they were when they were first asked about."""

    def __init__(self, top: str) -> None:
        self._top = os.path.realpath(top)
        self._elsewhere = {"": False}

    def elsewhere(self, path: str) -> bool:
        """Whether `path` is behind a link or in another repository."""
        return self._leads_away(os.path.dirname(path))  # noqa: PTH120 - many paths, each time

    def behind_link(self, path: str) -> bool:
        """Whether a folder above `path` is a link now."""
        folder = os.path.dirname(path)  # noqa: PTH120 - as above
        return bool(folder) and os.path.realpath(os.path.join(self._top, folder)) != os.path.join(self._top, folder)  # noqa: PTH118

    def _leads_away(self, folder: str) -> bool:
        if folder not in self._elsewhere:
            full = os.path.join(self._top, folder)  # noqa: PTH118 - as above
            away = self._leads_away(os.path.dirname(folder))  # noqa: PTH120 - as above
            self._elsewhere[folder] = away or os.path.islink(full) or os.path.lexists(os.path.join(full, ".git"))  # noqa: PTH114, PTH118
        return self._elsewhere[folder]
