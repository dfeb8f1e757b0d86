"""Makes one text fit to be written: absolute paths shortened, secrets replaced, marks counted.

Paths come first, so that a rule that masks user names cannot break a path in two. A cut is made after redaction, in a
window with 4 KB of surroundings, so that no secret is halved or hidden by it.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePath
from typing import Final

from tracer.redaction.port import Redactor

__all__ = ["MARGIN", "Cleaner", "cut"]

MARGIN: Final = 4096
_HOME_OF: Final = re.compile(r"^(/home/[^/]+|/Users/[^/]+|/root|[A-Za-z]:\\Users\\[^\\]+)(?=[/\\]|$)")
_OPEN_MARK: Final = re.compile(r"\[REDACTED:[^\]\s]{0,80}$")


def cut(text: str, limit: int) -> str:
    """`text` in at most about `limit` characters, `…` where something was left out, no placeholder halved."""
    if len(text) <= limit:
        return text
    kept = text[:limit]
    opened = _OPEN_MARK.search(kept)
    if opened:
        end = text.find("]", limit)
        kept = text[: end + 1] if 0 <= end - limit < 120 else kept[: opened.start()]
    return kept + "…"


class Cleaner:
    """Cleans every text of one trace. `counts` holds the number of marks by rule."""

    def __init__(self, redactor: Redactor, *, project_roots: tuple[str, ...] = (), homes: tuple[str, ...] = ()) -> None:
        self._redactor = redactor
        self.counts: Counter[str] = Counter()
        stripped = (root.rstrip("/\\") for root in project_roots)
        self._roots = tuple(dict.fromkeys(root for root in stripped if len(root) > 1))
        found = [_HOME_OF.match(root) for root in self._roots]
        all_homes = [*homes, *(match.group(1) for match in found if match)]
        replacements = [(root, "$PROJECT_ROOT") for root in self._roots]
        other_homes = (home for home in dict.fromkeys(all_homes) if len(home) > 1 and home not in self._roots)
        replacements += [(home, "$HOME") for home in other_homes]
        self._replacements = [
            (path, re.compile(r"(?<![\w.$-])" + re.escape(path) + r"(?![\w-]|\.\w)"), variable)
            for path, variable in sorted(replacements, key=lambda pair: -len(pair[0]))
        ]

    def clean(self, text: str) -> str:
        """`text` without absolute paths and secrets."""
        if not text:
            return text
        for path, pattern, variable in self._replacements:
            if path in text:
                text = pattern.sub(variable.replace("\\", "\\\\"), text)
        text, counts = self._redactor.redact_text(text)
        if counts:
            self.counts.update(counts)
        return text

    def path(self, path: str) -> str:
        """`path` relative to the project where it lies inside, else with `$HOME`; cleaned."""
        for root in self._roots:
            if path.startswith(root) and path[len(root) : len(root) + 1] in {"/", "\\"}:
                inside = path[len(root) + 1 :]
                if ".." not in PurePath(inside).parts:
                    path = inside or "."
                break
        return self.clean(path[:MARGIN])
