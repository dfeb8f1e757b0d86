"""Which lines a task added or edited, and which it took out, over all its files at once. Pure.

Lines are compared without the blanks around them: a block that is only indented anew is no change. A file that took
another one's place is compared with that one where they share half of their lines; a block that left one place and
stands at another one has moved. Both are what git calls a rename and a moved block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from runner.gate.criterion import ChangedFile
from runner.gate.wording import later

_ALIKE = 0.5
_BLOCK = 20  # letters and digits that a moved block holds at least, as in git
_SMALL = 40_000  # pairs of lines that are compared one by one
_BINARY = 8192
_WORDS = later(rb"[\x00-/:-@\[-`{-\x7f]+")  # all that is no letter or digit


class FileLines(NamedTuple):
    """One file's part: `before` and `after` are its lines, `added` and `removed` the 1-based numbers that changed.

    `old` is the content it is compared with, None for a new file; `renamed_from` the path where that was.
    """

    path: str
    old: bytes | None
    before: Sequence[bytes]
    after: Sequence[bytes]
    added: frozenset[int]
    removed: frozenset[int]
    renamed_from: str | None = None

    def touches(self, first: int, last: int) -> bool:
        """Whether a line from `first` to `last` was added or edited."""
        return not self.added.isdisjoint(range(first, last + 1))


def line_map(changed: Sequence[ChangedFile]) -> dict[str, FileLines]:
    """Each file of a change by its path; what is binary or was cut has no lines."""
    sides = {file.path: (_lines(file.before), _lines(file.after)) for file in changed if file.before != file.after}
    olds = {file.path: file.before for file in changed}
    sources = _renames(
        {path: lines[0] for path, lines in sides.items() if not lines[1] and lines[0]},
        {path: lines[1] for path, lines in sides.items() if olds[path] is None and lines[1]},
    )
    taken = set(sources.values())
    found: dict[str, tuple[Sequence[bytes], Sequence[bytes], list[int], list[int]]] = {}
    for path, (own, after) in sides.items():
        before = sides[sources[path]][0] if path in sources else [] if path in taken else own
        found[path] = (before, after, *_differing(before, after))
    moved_in, moved_out = _moves(found)
    made: dict[str, FileLines] = {}
    for path, (was, now, added, removed) in found.items():
        fresh = frozenset(number + 1 for number in added if (path, number) not in moved_in)
        gone = frozenset(number + 1 for number in removed if (path, number) not in moved_out)
        made[path] = FileLines(path, olds[sources.get(path, path)], was, now, fresh, gone, sources.get(path))
    return made


def _lines(content: bytes | None) -> list[bytes]:
    if not content or b"\0" in content[:_BINARY]:
        return []
    return list(map(bytes.strip, content.removesuffix(b"\n").split(b"\n")))


def _renames(gone: dict[str, list[bytes]], new: dict[str, list[bytes]]) -> dict[str, str]:
    """For each new path the one that it was before: the most alike of those gone, each taken once."""
    counts = {path: Counter(lines) for path, lines in gone.items()}
    pairs: list[tuple[float, str, str]] = []
    for path, lines in new.items():
        own = Counter(lines)
        for old, other in counts.items():
            longest = max(len(lines), len(gone[old]))
            if min(len(lines), len(gone[old])) >= _ALIKE * longest:
                alike = sum((own & other).values()) / longest
                if alike >= _ALIKE:
                    pairs.append((alike, path, old))
    sources: dict[str, str] = {}
    for _, path, old in sorted(pairs, key=lambda pair: (-pair[0], pair[1], pair[2])):
        if path not in sources and old not in sources.values():
            sources[path] = old
    return sources


def _differing(before: Sequence[bytes], after: Sequence[bytes]) -> tuple[list[int], list[int]]:
    """The 0-based lines of `after` that are new, and those of `before` that are gone."""
    added: list[int] = []
    removed: list[int] = []
    stack = [(0, len(before), 0, len(after))]
    while stack:
        first, last, start, end = stack.pop()
        while first < last and start < end and before[first] == after[start]:
            first, start = first + 1, start + 1
        while first < last and start < end and before[last - 1] == after[end - 1]:
            last, end = last - 1, end - 1
        if first == last or start == end:
            added += range(start, end)
            removed += range(first, last)
        elif pairs := _anchors(before, after, first, last, start, end):
            for old, new in pairs:
                if first < old or start < new:
                    stack.append((first, old, start, new))
                first, start = old + 1, new + 1
            stack.append((first, last, start, end))
        elif (last - first) * (end - start) <= _SMALL:
            matcher = SequenceMatcher(None, before[first:last], after[start:end], autojunk=False)
            for kind, one, two, three, four in matcher.get_opcodes():
                if kind != "equal":
                    removed += range(first + one, first + two)
                    added += range(start + three, start + four)
        else:
            kept = Counter(before[first:last]) & Counter(after[start:end])
            added += _beyond(after, start, end, kept)
            removed += _beyond(before, first, last, kept)
    return sorted(added), sorted(removed)


def _beyond(lines: Sequence[bytes], start: int, end: int, kept: Counter[bytes]) -> list[int]:
    """The lines that are more than what both sides hold: without order, for what is too large to be compared."""
    left = Counter(kept)
    found: list[int] = []
    for number in range(start, end):
        if left[lines[number]] > 0:
            left[lines[number]] -= 1
        else:
            found.append(number)
    return found


def _anchors(
    before: Sequence[bytes], after: Sequence[bytes], first: int, last: int, start: int, end: int
) -> list[tuple[int, int]]:
    """Lines that each side holds once, as many as keep their order (patience)."""
    sides = before[first:last], after[start:end]
    once, single = map(Counter, sides)
    old = dict(zip(sides[0], range(first, last), strict=True))
    pairs = [(old[text], number) for number, text in enumerate(sides[1], start) if single[text] == 1 == once.get(text)]
    if pairs == sorted(pairs):
        return pairs
    # The longest rising row of old numbers.
    ends: list[int] = []
    rows: list[int] = []
    above: list[int] = []
    for index, (number, _) in enumerate(pairs):
        place = bisect_left(ends, number)
        above.append(rows[place - 1] if place else -1)
        if place == len(ends):
            ends.append(number)
            rows.append(index)
        else:
            ends[place], rows[place] = number, index
    kept: list[tuple[int, int]] = []
    index = rows[-1] if rows else -1
    while index >= 0:
        kept.append(pairs[index])
        index = above[index]
    return kept[::-1]


_Found = dict[str, tuple[Sequence[bytes], Sequence[bytes], list[int], list[int]]]
_Place = tuple[str, int]


def _moves(found: _Found) -> tuple[set[_Place], set[_Place]]:
    """Added lines that stood elsewhere before, in blocks, and where those stood."""
    gone: dict[bytes, list[_Place]] = defaultdict(list)
    left: dict[_Place, bytes] = {}
    for path, (before, _, _, removed) in found.items():
        for number in reversed(removed):
            gone[before[number]].append((path, number))
            left[path, number] = before[number]
    into: set[_Place] = set()
    out_of: set[_Place] = set()

    def settle(path: str, after: Sequence[bytes], block: Sequence[tuple[int, _Place]]) -> None:
        """Take a block as moved where it holds enough; else its lines are free again."""
        if len(_WORDS.sub(b"", b"".join(after[number] for number, _ in block))) >= _BLOCK:
            into.update((path, number) for number, _ in block)
            out_of.update(origin for _, origin in block)
            return
        for number, origin in block:
            left[origin] = after[number]
            gone[after[number]].append(origin)

    for path, (_, after, added, _) in found.items() if gone else ():
        block: list[tuple[int, _Place]] = []
        for number in added:
            above = block[-1] if block and block[-1][0] == number - 1 else None
            origin = _origin(gone, left, after[number], above[1] if above else None)
            if block and (origin is None or above is None):
                settle(path, after, block)
                block = []
            if origin is not None:
                del left[origin]
                block.append((number, origin))
        settle(path, after, block)
    return into, out_of


def _origin(
    gone: dict[bytes, list[_Place]], left: dict[_Place, bytes], line: bytes, above: _Place | None
) -> _Place | None:
    """A removed line of this text that no other line was found to come from; the one below `above` if there is one."""
    if above is not None:
        for step in (1, 2, 3):
            if left.get((above[0], above[1] + step)) == line:
                return above[0], above[1] + step
    places = gone.get(line)
    while places and places[-1] not in left:
        places.pop()
    return places[-1] if places else None
