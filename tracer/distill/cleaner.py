"""Makes texts fit to be written: absolute paths shortened, secrets replaced, marks counted.

Texts are cleaned many at a time, since a scan costs more to begin than to go on; no secret is seen across two of them.
Paths come first, so that a rule that masks user names cannot break a path in two. A cut is made after redaction, in a
window with 4 KB of surroundings, so that no secret is halved or hidden by it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from tracer.redaction.redactor import Clean, Redactor

MARGIN: Final = 4096
_BATCH_CHARS: Final = 64 * 1024
_BATCH_TEXTS: Final = 500
# No rule's value or separator class holds a record separator, so nothing joins two texts; if one ever does, the number
# of pieces changes and each text is cleaned alone.
_BETWEEN: Final = "\n\x1e\x1e\n"
_HOME_OF: Final = re.compile(r"^(/home/[^/]+|/Users/[^/]+|/root|[A-Za-z]:\\Users\\[^\\]+)(?=[/\\]|$)")
_OPEN_MARK: Final = re.compile(r"\[REDACTED:[^\]\s]{0,80}$")


@runtime_checkable
class _ManyTexts(Protocol):
    """What the project's own redactor can do besides: one search tells which of many texts hold something at all."""

    def redact_texts(self, texts: Sequence[str]) -> tuple[dict[int, Clean], dict[str, int]]: ...


Done = Callable[[Sequence[Clean], int, Any], None]
"""Takes cleaned texts: (those of many, the place of its own first one, what was handed in with them)."""


def cut(text: Clean, limit: int) -> Clean:
    """`text` in at most about `limit` characters, `…` where something was left out, no placeholder halved."""
    if len(text) <= limit:
        return text
    kept = text[:limit]
    opened = _OPEN_MARK.search(kept)
    if opened:
        end = text.find("]", limit)
        kept = text[: end + 1] if 0 <= end - limit < 120 else kept[: opened.start()]
    return Clean(kept + "…")


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
            # What may not stand before a path is looked at behind it: a pattern that begins with letters is fast.
            (path, re.compile(rf"{re.escape(path)}(?<![\w.$-]{re.escape(path)})(?![\w-]|\.\w)"), variable)
            for path, variable in sorted(replacements, key=lambda pair: -len(pair[0]))
        ]
        self._texts: list[str] = []
        self._waiting: list[tuple[int, Done, Any]] = []
        self._chars = 0

    def submit(self, texts: Sequence[str], done: Done, context: Any) -> None:
        """Clean `texts` with others, sooner or later, and hand them to `done` in their order, with `context`."""
        self._texts.extend(texts)
        self._waiting.append((len(texts), done, context))
        self._chars += len(texts[0]) if len(texts) == 1 else sum(map(len, texts))
        if self._chars > _BATCH_CHARS or len(self._texts) > _BATCH_TEXTS:
            self.flush()

    def flush(self) -> None:
        """Clean everything submitted so far."""
        texts, waiting = self._texts, self._waiting
        self._texts, self._waiting, self._chars = [], [], 0
        cleaned = self._clean_all(texts)
        at = 0
        for count, done, context in waiting:
            done(cleaned, at, context)
            at += count

    def _clean_all(self, texts: list[str]) -> list[Clean]:
        if len(texts) < 2:
            return [self.clean(text) for text in texts]
        shortened = self._shorten(_BETWEEN.join(texts))
        if isinstance(self._redactor, _ManyTexts):
            pieces = shortened.split(_BETWEEN)
            if len(pieces) != len(texts):
                pieces = [self._shorten(text) for text in texts]
            changed, found = self._redactor.redact_texts(pieces)
            self.counts.update(found)
            return [changed.get(place, Clean(piece)) for place, piece in enumerate(pieces)]
        redacted, counts = self._redactor.redact_text(shortened)
        pieces = redacted.split(_BETWEEN)
        if len(pieces) != len(texts):
            return [self.clean(text) for text in texts]
        self.counts.update(counts)
        return [Clean(piece) for piece in pieces]

    def clean(self, text: str) -> Clean:
        """`text` without absolute paths and secrets, now."""
        cleaned, counts = self._redactor.redact_text(self._shorten(text))
        self.counts.update(counts)
        return cleaned

    def _shorten(self, text: str) -> str:
        for path, pattern, variable in self._replacements:
            if path in text:
                text = pattern.sub(variable, text)
        return text

    def relative(self, path: str) -> str:
        """`path` relative to the project where it lies inside; not yet cleaned."""
        for root in self._roots:
            if path.startswith(root) and path[len(root) : len(root) + 1] in {"/", "\\"}:
                inside = path[len(root) + 1 :]
                return path if ".." in inside and ".." in inside.split("/") else inside or "."
        return path[:MARGIN]
