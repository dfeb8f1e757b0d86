"""The redactor of a project: rules, known values, personal data and local paths behind the port.

Deterministic for one project key; what it returns it would not change again. Cheap to import and to build: rules, key
and names are loaded with the first text (0.1 s, most of it building the rules). Stateless between calls; threads may
share it.
"""

from __future__ import annotations

import json
import subprocess
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tracer.errors import ConfigError
from tracer.redaction.marks import MARKER as _MARKER
from tracer.redaction.redactor import Clean, Redacted

if TYPE_CHECKING:
    from tracer.redaction.gate import Gate, Key
    from tracer.redaction.known_values import KnownValues
    from tracer.redaction.personal_data import Identity
    from tracer.redaction.rule_set import RuleSet
    from tracer.redaction.scan import Mark, Scanner, Told

_AFTER = '"\n\0\n'
_LONGEST_KEY = 80
_HOLDERS = (str, dict, list, tuple)


def strings(value: Any) -> Iterator[tuple[str, str]]:
    """Each string of `value`, keys too, in the order of `mapped`, with the key it stands under (empty for keys)."""
    stack: list[tuple[Any, str]] = [(value, "")]
    while stack:
        item, key = stack.pop()
        if isinstance(item, str):
            yield item, key
        elif isinstance(item, dict):
            inner_ones: list[tuple[Any, str]] = []
            for name, inner in item.items():
                under = ""
                if isinstance(name, str):
                    yield name, ""
                    under = name
                # Numbers and null hold no string: most of a fact's values need not be stacked.
                if isinstance(inner, _HOLDERS):
                    inner_ones.append((inner, under))
            inner_ones.reverse()
            stack.extend(inner_ones)
        elif isinstance(item, list | tuple):
            stack.extend([(inner, key) for inner in reversed(item) if isinstance(inner, _HOLDERS)])


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with `change` applied to every string, in the order of `strings`; containers are new, order is kept.

    Two keys that become equal stay apart: the later one is given a number.
    """
    root: list[Any] = [None]
    stack: list[tuple[Any, Any, Any]] = [(value, root, 0)]
    while stack:
        item, holder, place = stack.pop()
        if isinstance(item, str):
            holder[place] = change(item)
        elif isinstance(item, dict):
            fresh: dict[Any, Any] = {}
            for name in item:
                fresh[_free(change(name) if isinstance(name, str) else name, fresh)] = None
            holder[place] = fresh
            stack.extend(
                (inner, fresh, name) for name, inner in zip(reversed(fresh), reversed(item.values()), strict=True)
            )
        elif isinstance(item, list | tuple):
            row: list[Any] = [None] * len(item)
            holder[place] = row
            stack.extend((inner, row, at) for at, inner in reversed(list(enumerate(item))))
        else:
            holder[place] = item
    return root[0]


def _free(name: Any, taken: dict[Any, Any]) -> Any:
    number, free = 2, name
    while free in taken:
        free = f"{name}~{number}"
        number += 1
    return free


class Flat:
    """The strings of a value laid out in `data`; string i is `data[starts[i]:ends[i]]`.

    Where each stands is counted only when something was found.
    """

    def __init__(self, value: Any) -> None:
        self._parts: list[str] = []
        add = self._parts.extend
        for text, key in strings(value):
            add((f'"{key[:_LONGEST_KEY]}": "' if key else '"', text, _AFTER))
        self.data = "".join(self._parts).encode("utf-8", "surrogatepass")

    @cached_property
    def _reach(self) -> list[int]:
        """Where each part ends."""
        if self.data.isascii():
            return list(accumulate(map(len, self._parts)))
        return list(accumulate(len(part.encode("utf-8", "surrogatepass")) for part in self._parts))

    @cached_property
    def starts(self) -> list[int]:
        """Where each string begins."""
        return self._reach[::3]

    @cached_property
    def ends(self) -> list[int]:
        """Where each string ends."""
        return self._reach[1::3]

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The parts of a range that lie in strings: (which string, start, end within that string)."""
        starts, ends = self.starts, self.ends
        which = max(bisect_right(starts, start) - 1, 0)
        while which < len(starts) and starts[which] < end:
            left, right = max(start, starts[which]), min(end, ends[which])
            if right > left:
                yield which, left - starts[which], right - starts[which]
            which += 1


_GIT_TIMEOUT_S = 5
_WORTH_OF_WORDS = 200_000  # a few words compile in 10 ms


class _Gated(NamedTuple):
    rules: RuleSet
    gate: Gate


@cache
def _standard() -> _Gated:
    """Our rules and the vendored ones: the same for every project."""
    return _gated({})


def _gated(extra_rules: Mapping[str, str]) -> _Gated:
    from tracer.redaction import columns, personal_data
    from tracer.redaction.gate import Gate
    from tracer.redaction.rule_pack import ARGUMENTS, argument_lists, build_rules
    from tracer.redaction.rule_set import RuleSet
    from tracer.redaction.runs import FIRSTS, RUNS
    from tracer.redaction.views import BEFORE_KEY, BEFORE_LINES, DRESSES
    from tracer.redaction.wraps import PATTERNS as WRAPS

    rules = RuleSet(build_rules(extra_rules))
    encoded: dict[Key, str] = {key: text.decode("ascii") for key, text in RUNS.items()}
    lists: dict[Key, str] = {ARGUMENTS: argument_lists()}
    return _Gated(
        rules,
        Gate(
            {
                **rules.patterns,
                **columns.PATTERNS,
                **personal_data.PATTERNS,
                **encoded,
                **lists,
                BEFORE_KEY: BEFORE_LINES,
            },
            firsts={**rules.firsts, **personal_data.FIRSTS, **FIRSTS},
            apart=(DRESSES, WRAPS),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Parts:
    """See `build_redactor` for the fields."""

    state_dir: Path
    environ: Mapping[str, str] = field(repr=False)
    extra_names: tuple[str, ...]
    extra_rules: Mapping[str, str]
    project_root: Path | None
    home: Path | None
    host: str | None
    persons: tuple[str, ...] | None
    pii: bool

    @cached_property
    def key(self) -> bytes:
        """The project's key; raises `RecordError`."""
        from tracer.redaction.marks import load_key

        return load_key(self.state_dir)

    @cached_property
    def known(self) -> KnownValues:
        """The values that variables with telling names hold."""
        from tracer.redaction.known_values import KnownValues, known_values

        return KnownValues(known_values(self.environ, self.extra_names))

    @cached_property
    def scanner(self) -> Scanner:
        """For records that keep their paths."""
        return self._scanner(rewrite_paths=False)

    @cached_property
    def path_scanner(self) -> Scanner:
        """For records whose paths are told from the project's and the home folder."""
        return self._scanner(rewrite_paths=True)

    @property
    def gate(self) -> Gate:
        """That of the rules."""
        return self._gated.gate

    @cached_property
    def _gated(self) -> _Gated:
        return _gated(self.extra_rules) if self.extra_rules else _standard()

    @cached_property
    def _identity(self) -> Identity:
        from tracer.redaction.personal_data import identity_of

        if (host := self.host) is None:
            from platform import node  # 1 ms that the first prompt does not wait for

            host = node()
        persons = _git_persons(self.project_root, self.environ) if self.persons is None else self.persons
        return identity_of(self.environ, host=host, persons=persons)

    def _scanner(self, *, rewrite_paths: bool) -> Scanner:
        from tracer.redaction import known_values as known
        from tracer.redaction import local_paths, personal_data
        from tracer.redaction.columns import Columns
        from tracer.redaction.gate import Gate, any_of
        from tracer.redaction.rule_pack import Arguments
        from tracer.redaction.scan import Scanner

        finders: list[Any] = [self.known, self._gated.rules, Columns(), Arguments()]
        words: dict[Key, Iterable[bytes]] = {known.KEY: self.known.words}
        if self.pii:
            persons = personal_data.People(self._identity, keep_paths=not rewrite_paths)
            finders.append(persons)
            words[personal_data.NAMES] = persons.words
        if rewrite_paths:
            paths = local_paths.Places(project_root=self.project_root, home=self.home)
            finders.append(paths)
            words[local_paths.KEY] = paths.words
        own = Gate({key: any_of(listed) for key, listed in words.items() if listed}, worth=_WORTH_OF_WORDS)
        return Scanner(finders, patterns=self._gated.gate, words=own)


def _git_persons(folder: Path | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The developer's name from git's settings; none where git or a setting is missing."""
    try:
        answer = subprocess.run(
            ["git", "config", "--get", "user.name"],
            cwd=folder,
            env=dict(environ),
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    name = answer.stdout.decode("utf-8", "replace").strip()
    return (name,) if answer.returncode == 0 and name else ()


_BETWEEN = "\n\0\n"  # between texts that are searched together: no rule matches across it
# The setting `redaction.extra_names` by its environment name, for programs that have no settings of pm's in force.
EXTRA_NAMES = "PM_REDACTION_EXTRA_NAMES"
# `redaction.extra_rules` likewise: a JSON object of names and RE2 patterns.
EXTRA_RULES = "PM_REDACTION_EXTRA_RULES"


def build_redactor(
    *,
    state_dir: Path,
    environ: Mapping[str, str],
    extra_names: Iterable[str] = (),
    extra_rules: Mapping[str, str] | Iterable[tuple[str, str]] = (),
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
        extra_rules={**_listed_rules(environ.get(EXTRA_RULES, "")), **dict(extra_rules)},
        project_root=project_root,
        home=home or (Path(environ["HOME"]) if environ.get("HOME") else None),
        host=host,
        persons=None if persons is None else tuple(persons),
        pii=pii,
    )
    return ProjectRedactor(parts, rewrite_paths=rewrite_paths, truncate=truncate)


class Reader:
    """As `ProjectRedactor.marks` for the pieces of one text: what those before tell of the next is kept.

    That is the values told with a name, and the header of the table that a piece ends within.
    """

    def __init__(self, scanner: Callable[[], Scanner]) -> None:
        self._scanner = scanner
        self._told: Told | None = None
        self._above = b""

    def marks(self, data: bytes) -> list[Mark]:
        """What to replace in `data`."""
        from tracer.redaction.scan import Told

        self._told = self._told or Told()
        offset = len(self._above)
        marks = self._scanner().marks(self._above + data, self._told)
        return [
            mark._replace(start=max(mark.start - offset, 0), end=mark.end - offset)
            for mark in marks
            if mark.end > offset
        ]

    def go_on(self, passed: bytes) -> None:
        """The next piece begins where `passed`, which was looked at, ends, or before that."""
        from tracer.redaction.columns import open_header

        self._above = open_header(self._above + passed)


@dataclass(frozen=True)
class ProjectRedactor:
    """Implements `tracer.redaction.redactor.Redactor`; made by `build_redactor`."""

    parts: Parts = field(repr=False)
    _: KW_ONLY
    rewrite_paths: bool = False
    truncate: bool = True

    def with_paths(self) -> ProjectRedactor:
        """The same redactor for agentic traces, captures and exports: paths are told from project and home."""
        return replace(self, rewrite_paths=True)

    def untruncated(self) -> ProjectRedactor:
        """The same redactor, leaving long texts whole (exports and `pm redact`)."""
        return replace(self, truncate=False)

    def prepare(self) -> None:
        """Do now (4.5 s) what else is done in the background once enough text has come to be worth it."""
        self._scanner.prepare()

    def redact_text(self, text: str) -> tuple[Clean, dict[str, int]]:
        """`text` with its secrets replaced, and how many marks each rule left."""
        data = text.encode("utf-8", "surrogatepass")
        counts: Counter[str] = Counter()
        if self._is_large(data):
            data = self._shortened(data, counts)
        marks = self._scanner.marks(data)
        if not marks and not counts:
            return Clean(text), {}
        replaced, more = self.apply(data, marks)
        counts.update(more)
        return Clean(replaced.decode("utf-8", "surrogatepass")), dict(counts)

    def redact_value(self, value: Any) -> Redacted:
        """A JSON value with every string in it (keys too) redacted; the value itself comes back when nothing was found.

        A string is judged together with the key it stands under.
        """
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

    def redact_chunks(self, chunks: Sequence[str]) -> tuple[list[Clean], dict[str, int]]:
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
        return [Clean(b"".join(piece).decode("utf-8", "surrogatepass")) for piece in pieces], dict(counts)

    def redact_rows(self, rows: Sequence[Sequence[str]]) -> tuple[dict[int, list[Clean]], dict[str, int]]:
        """Many texts, each given in consecutive pieces, redacted as by `redact_chunks`: by place, those that change.

        One look over all of them tells which hold nothing, usually nearly all; the others are looked at singly.
        """
        changed: dict[int, list[Clean]] = {}
        counts: Counter[str] = Counter()
        for at in self._suspicious([row[0] if len(row) == 1 else "".join(row) for row in rows]):
            pieces, more = self.redact_chunks(rows[at])
            counts.update(more)
            if pieces != list(rows[at]):
                changed[at] = pieces
        return changed, dict(counts)

    def redact_texts(self, texts: Sequence[str]) -> tuple[dict[int, Clean], dict[str, int]]:
        """As `redact_rows`, for texts that are each in one piece."""
        changed, counts = self.redact_rows([(text,) for text in texts])
        return {at: pieces[0] for at, pieces in changed.items()}, counts

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

    def marks(self, data: bytes) -> list[Mark]:
        """What to replace in UTF-8 `data`, left to right, without overlaps. Marks hold the secrets: let none out."""
        return self._scanner.marks(data)

    def reader(self) -> Reader:
        """For a text that comes in pieces."""
        return Reader(lambda: self._scanner)

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
        from tracer.redaction.shorten import KEEP, MARGIN, shorten

        reader = self.reader()
        reader.go_on(data[:KEEP])  # a table may go on to the end

        def kept(window: bytes, start: int, end: int) -> bytes:
            marks = [mark for mark in reader.marks(window) if mark.start < end and mark.end > start]
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
        from tracer.redaction.marks import placeholder

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
