"""Whether a path of the working tree is the tree's own: not behind a link, nor in a repository inside (a submodule).

git refuses to speak of such paths (one of them is a refusal for all that were asked about), and no edit of theirs would
fit the tree that is proved.
"""

from __future__ import annotations

import os

__all__ = ["Places"]


class Places:
    """The folders of the working tree `top`, as they were when they were first asked about."""

    def __init__(self, top: str) -> None:
        self._top = os.path.realpath(top)
        self._elsewhere = {"": False}

    def elsewhere(self, path: str) -> bool:
        """Whether `path` is behind a link or in another repository."""
        return self._leads_away(os.path.dirname(path))  # noqa: PTH120 - many paths, each time

    def _leads_away(self, folder: str) -> bool:
        if folder not in self._elsewhere:
            full = os.path.join(self._top, folder)  # noqa: PTH118 - as above
            away = self._leads_away(os.path.dirname(folder))  # noqa: PTH120 - as above
            self._elsewhere[folder] = away or os.path.islink(full) or os.path.lexists(os.path.join(full, ".git"))  # noqa: PTH114, PTH118
        return self._elsewhere[folder]
