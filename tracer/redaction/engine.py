"""The redactor of a project: rules, known values, people and places behind the port's two methods.

Deterministic for one project key; what it returns it would not change again. Cheap to import and to build: rules,
key and names are loaded when the first text comes. It keeps no state between calls and may be shared by threads.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tracer.errors import ConfigError
from tracer.redaction.parts import Parts
from tracer.redaction.placeholder import MARKER as _MARKER
from tracer.redaction.port import Redacted

if TYPE_CHECKING:
    from tracer.redaction.flatten import Flat
    from tracer.redaction.scan import Mark, Scanner

__all__ = ["EXTRA_NAMES", "EXTRA_RULES", "ProjectRedactor", "Touched", "build_redactor"]

_BETWEEN = "\n\0\n"  # between texts that are searched together: no rule matches across it
# The setting `redaction.extra_names` by its environment name: how every writer of records hears of it.
EXTRA_NAMES = "PM_REDACTION_EXTRA_NAMES"
# `redaction.extra_rules` likewise: a JSON object of names and RE2 patterns.
EXTRA_RULES = "PM_REDACTION_EXTRA_RULES"


class Touched(NamedTuple):
    """Where a mark stands for something: byte range of the original text, and the rule. Never the secret."""

    start: int
    end: int
    rule: str


def build_redactor(
    *,
    state_dir: Path,
    environ: Mapping[str, str],
    extra_names: Iterable[str] = (),
    extra_rules: Mapping[str, str] | None = None,
    project_root: Path | None = None,
    home: Path | None = None,
    host: str | None = None,
    persons: Sequence[str] | None = None,
    pii: bool = True,
    rewrite_paths: bool = False,
    truncate: bool = True,
) -> ProjectRedactor:
    """The redactor of the project whose state is in `state_dir`.

    `environ` supplies the user's name and known values (`extra_names`, and the list in PM_REDACTION_EXTRA_NAMES, add
    variables by name); `extra_rules`, and those in PM_REDACTION_EXTRA_RULES, are a team's own (name -> RE2 pattern).
    `host` and `persons` default to this machine's name and git's user settings, `home` to `$HOME` of `environ`.

    Raises `ConfigError` where PM_REDACTION_EXTRA_RULES holds no rules. Other errors come with the first use:
    `RecordError` when the key cannot be kept, `ConfigError` for a bad rule.
    """
    parts = Parts(
        state_dir=state_dir,
        environ=dict(environ),
        extra_names=(*extra_names, *_names(environ.get(EXTRA_NAMES, ""))),
        extra_rules={**_listed_rules(environ.get(EXTRA_RULES, "")), **(extra_rules or {})},
        project_root=project_root,
        home=home or (Path(environ["HOME"]) if environ.get("HOME") else None),
        host=host,
        persons=None if persons is None else tuple(persons),
        pii=pii,
    )
    return ProjectRedactor(parts, rewrite_paths=rewrite_paths, truncate=truncate)


@dataclass(frozen=True)
class ProjectRedactor:
    """Implements `tracer.redaction.port.Redactor`; made by `build_redactor`."""

    parts: Parts = field(repr=False)
    _: KW_ONLY
    rewrite_paths: bool = False
    truncate: bool = True

    def with_paths(self) -> ProjectRedactor:
        """The same redactor for agentic traces, captures and exports: absolute paths become relative to their roots."""
        return replace(self, rewrite_paths=True)

    def untruncated(self) -> ProjectRedactor:
        """The same redactor, leaving long texts whole (exports and `pm redact`)."""
        return replace(self, truncate=False)

    def prepare(self) -> None:
        """Do now (0.4 s) what else is done in the background once enough text has come to be worth it."""
        self._scanner.prepare()

    def redact_text(self, text: str) -> tuple[str, dict[str, int]]:
        """`text` with its secrets replaced, and how many marks each rule left."""
        data = text.encode("utf-8", "surrogatepass")
        counts: Counter[str] = Counter()
        if self._is_large(data):
            data = self._shortened(data, counts)
        marks = self._scanner.marks(data)
        if not marks and not counts:
            return text, {}
        replaced, more = self.apply(data, marks)
        counts.update(more)
        return replaced.decode("utf-8", "surrogatepass"), dict(counts)

    def redact_value(self, value: Any) -> Redacted:
        """A JSON value with every string in it (keys too) redacted; the value itself comes back when nothing was found.

        A string is judged together with the key it stands under.
        """
        from tracer.redaction.flatten import Flat, mapped

        counts: Counter[str] = Counter()
        flat = Flat(value)
        if self._is_large(flat.data):  # else no string in it can be
            shorter = self._without_large(value, counts)
            if shorter is not value:
                value, flat = shorter, Flat(shorter)
        edits = self._edits(flat, counts)
        if not edits:
            return Redacted(value, dict(counts))

        place = -1

        def change(text: str) -> str:
            nonlocal place
            place += 1
            marks = edits.get(place)
            if not marks:
                return text
            return self._replaced(text.encode("utf-8", "surrogatepass"), marks).decode("utf-8", "surrogatepass")

        return Redacted(mapped(value, change), dict(counts))

    def redact_chunks(self, chunks: Sequence[str]) -> tuple[list[str], dict[str, int]]:
        """Consecutive pieces of one text, redacted as one: a mark stands in the piece its secret begins in."""
        raws = [chunk.encode("utf-8", "surrogatepass") for chunk in chunks]
        ends = [0]
        for raw in raws:
            ends.append(ends[-1] + len(raw))
        data = b"".join(raws)
        pieces: list[list[bytes]] = [[] for _ in raws]
        counts: Counter[str] = Counter()
        at = 0
        for mark in self._scanner.marks(data):
            _deal(data, at, mark.start, ends, pieces)
            home = max(bisect_left(ends, mark.start + 1) - 1, 0)
            pieces[home].append(self._stand_in(mark))
            counts.update(() if mark.replacement is not None else (mark.rule,))
            at = mark.end
        _deal(data, at, len(data), ends, pieces)
        return [b"".join(piece).decode("utf-8", "surrogatepass") for piece in pieces], dict(counts)

    def redact_rows(self, rows: Sequence[Sequence[str]]) -> tuple[dict[int, list[str]], dict[str, int]]:
        """Many texts, each given in consecutive pieces, redacted as by `redact_chunks`: by place, those that change.

        One look over all of them tells which hold nothing, usually nearly all; the others are looked at singly.
        """
        changed: dict[int, list[str]] = {}
        counts: Counter[str] = Counter()
        for at in self._suspicious(["".join(row) for row in rows]):
            pieces, more = self.redact_chunks(rows[at])
            counts.update(more)
            if pieces != list(rows[at]):
                changed[at] = pieces
        return changed, dict(counts)

    def redact_texts(self, texts: Sequence[str]) -> tuple[dict[int, str], dict[str, int]]:
        """As `redact_rows`, for texts that are each in one piece."""
        changed: dict[int, str] = {}
        counts: Counter[str] = Counter()
        for at in self._suspicious(texts):
            (text,), more = self.redact_chunks(texts[at : at + 1])
            counts.update(more)
            if text != texts[at]:
                changed[at] = text
        return changed, dict(counts)

    def _suspicious(self, texts: Sequence[str]) -> list[int]:
        """The places of those texts that hold something; found by one look over all of them."""
        data = _BETWEEN.join(texts).encode("utf-8", "surrogatepass")
        suspects = self._scanner.suspects(data)
        if not suspects and _MARKER not in data:
            return []
        starts, found = [0], set()
        for at, text in enumerate(texts):
            raw = text.encode("utf-8", "surrogatepass")
            starts.append(starts[-1] + len(raw) + len(_BETWEEN))
            if _MARKER in raw:
                found.add(at)
        for start, end in suspects:
            found.update(range(max(bisect_right(starts, start) - 1, 0), max(bisect_left(starts, end), 1)))
        return sorted(at for at in found if at < len(texts))

    def touched(self, text: str) -> list[Touched]:
        """What `redact_text` would mark in `text`, for reports and for the second look at exports."""
        return [Touched(mark.start, mark.end, mark.rule) for mark in self.marks(text.encode("utf-8", "surrogatepass"))]

    def marks(self, data: bytes) -> list[Mark]:
        """What to replace in UTF-8 `data`, left to right, without overlaps. Marks hold the secrets: let none out."""
        return self._scanner.marks(data)

    def apply(self, data: bytes, marks: Iterable[Mark]) -> tuple[bytes, dict[str, int]]:
        """`data` with `marks` carried out, and how many each rule left (paths are not counted)."""
        chosen = list(marks)
        counts = Counter(mark.rule for mark in chosen if mark.replacement is None)
        return self._replaced(data, chosen), dict(counts)

    @property
    def longest_known_value(self) -> int:
        """Bytes of the longest spelling of a known value: no window may be narrower."""
        return self.parts.known.longest

    def touched_value(self, value: Any) -> dict[str, int]:
        """How many marks each rule would leave in a JSON value (paths included, as `path`)."""
        from tracer.redaction.flatten import Flat

        flat = Flat(value)
        found: Counter[str] = Counter()
        for mark in self._scanner.marks(flat.data):
            found.update(mark.rule for _ in flat.pieces(mark.start, mark.end))
        return dict(found)

    def _edits(self, flat: Flat, counts: Counter[str]) -> dict[int, list[Mark]]:
        """For each string that changes (by its place in walking order), its marks."""
        edits: dict[int, list[Mark]] = {}
        for mark in self._scanner.marks(flat.data):
            for which, start, end in flat.pieces(mark.start, mark.end):
                edits.setdefault(which, []).append(mark._replace(start=start, end=end))
                counts.update(() if mark.replacement is not None else (mark.rule,))
        return edits

    def _without_large(self, value: Any, counts: Counter[str]) -> Any:
        """`value` with long strings shortened (and what is kept of them redacted)."""
        from tracer.redaction.flatten import mapped, strings
        from tracer.redaction.shorten import LIMIT

        if not any(len(text) * 4 > LIMIT for text, _ in strings(value)):
            return value

        def change(text: str) -> str:
            data = text.encode("utf-8", "surrogatepass")
            if not self._is_large(data):
                return text
            return self._shortened(data, counts).decode("utf-8", "surrogatepass")

        return mapped(value, change)

    def _is_large(self, data: bytes) -> bool:
        from tracer.redaction.shorten import LIMIT

        return self.truncate and len(data) > LIMIT

    def _shortened(self, data: bytes, counts: Counter[str]) -> bytes:
        from tracer.redaction.shorten import MARGIN, shorten

        def kept(window: bytes, start: int, end: int) -> bytes:
            marks = [mark for mark in self._scanner.marks(window) if mark.start < end and mark.end > start]
            counts.update(mark.rule for mark in marks if mark.replacement is None)
            left = min([start, *(mark.start for mark in marks)])
            right = max([end, *(mark.end for mark in marks)])
            shifted = [mark._replace(start=mark.start - left, end=mark.end - left) for mark in marks]
            return self._replaced(window[left:right], shifted)

        counts["truncate_large"] += 1
        return shorten(data, kept, margin=max(MARGIN, self.parts.known.longest))

    def _replaced(self, data: bytes, marks: Iterable[Mark]) -> bytes:
        parts: list[bytes] = []
        at = 0
        for mark in marks:
            parts += (data[at : mark.start], self._stand_in(mark))
            at = mark.end
        parts.append(data[at:])
        return b"".join(parts)

    def _stand_in(self, mark: Mark) -> bytes:
        from tracer.redaction.placeholder import placeholder

        return placeholder(mark.rule, mark.secret, key=self.parts.key) if mark.replacement is None else mark.replacement

    @property
    def _scanner(self) -> Scanner:
        return self.parts.path_scanner if self.rewrite_paths else self.parts.scanner


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _listed_rules(listed: str) -> dict[str, str]:
    if not listed.strip():
        return {}
    try:
        rules = json.loads(listed)
    except ValueError:
        rules = None
    if not isinstance(rules, dict) or not all(isinstance(pattern, str) for pattern in rules.values()):
        raise ConfigError(
            f"{EXTRA_RULES} holds no redaction rules",
            why="it is no JSON object of names and patterns",
            next_step="""write it like {"staff-id": "EMP-[0-9]{6}"}, or unset it""",
        )
    return rules


def _deal(data: bytes, start: int, end: int, ends: list[int], pieces: list[list[bytes]]) -> None:
    """Give `data[start:end]` back to the pieces it came from."""
    which = max(bisect_right(ends, start) - 1, 0)
    while start < end and which < len(pieces):
        right = min(end, ends[which + 1])
        if start < right:
            pieces[which].append(data[start:right])
            start = right
        which += 1
