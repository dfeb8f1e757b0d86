"""One pass over a text that tells which of hundreds of patterns it calls for.

The gate finds nothing itself: RE2 does, with the patterns that were called. It may call one too many, never one too
few, so what is found is the same with it and without it. Without it means `called` returning None: before enough text
came to be worth its 4.5 s of compiling (in a thread, without the interpreter's lock), where the engine is not
installed, and for the few texts on which the two engines read a pattern differently.

A pattern without a literal is followed from byte to byte: a dozen of them take five times as long as all others
together. Such ones are looked for only where a run of signs that each match holds was seen (`firsts`). Runs of one kind
of sign are looked for one by one, which is twice as quick as among the others, and ends with the first one. A run of
letters and digits calls for nothing where all of them are hexadecimal, as in the logs of containers: what is drawn from
all letters is never so (see `beyond_hexadecimal`). A few
patterns that begin with a single sign each take the automaton of all rules twice its time, and have one of their own
(`apart`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

# What RE2 alone takes long for: from here on, compiling pays.
_WORTH: Final = 4_000_000
# `\S` differs on a vertical tab, and letters in either case on the two that fold into ASCII (K and long s).
_READ_DIFFERENTLY: Final = r"\x0b|\xe2\x84\xaa|\xc5\xbf"
_ITEM: Final = re.compile(
    r"\(\?s:\.\)|\\x\{[0-9A-Fa-f]+\}|\\x[0-9A-Fa-f]{2}|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|.", re.DOTALL
)
_COUNT: Final = re.compile(r"\{(\d+),?\d*\}")
_TIMES: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_NARROW: Final = 2  # a range that the automaton may as well count out
_LONG: Final = 24  # from here on more of the same tells nothing new
_BEYOND_ASCII: Final = re.compile(r"\\x(?:[89A-Fa-f][0-9A-Fa-f]|\{)|\\[DSW]|\[:\^")
_ANY_CASE: Final = ["(", "?", "i", ")"]
_NO_ITEMS: Final = frozenset("()|^")
_UNLIKE: Final = re.compile(r"\\[pPCQ]|\(\?[a-z-]*U")  # said in a way that the engines do not share
_LONGEST: Final = 4  # bytes of a character
_FLAGS: Final = re.compile(r"\(\?[a-zA-Z-]+\)")
_RUN: Final = re.compile(r"(\[[^\]]+\])\{(\d+)\}")

_ALL_LETTERS: Final = "[A-Za-z0-9"

Key = int | str
Called = frozenset[Key]
"""The keys of patterns that may match somewhere in a text; for any other it is certain that it does not."""


def any_of(words: Iterable[bytes]) -> str:
    """A pattern that matches any of `words`."""
    return "|".join("".join(f"\\x{byte:02x}" for byte in word) for word in words)


def loosened(regex: str) -> str:
    """`regex` with lower counts, without upper limits of them, and without what may be missing before its first item.

    It matches in every text that `regex` matches in. The automaton of all rules is compiled in half the time and runs
    half as fast again; on trace text it calls for no more rules than before.
    """
    items: list[str] = _ITEM.findall(regex)
    pieces: list[str] = []
    at = 0
    while at < len(items):
        piece, at = items[at], at + 1
        if piece == "{" and "}" in items[at:]:
            end = items.index("}", at) + 1
            count = "".join(items[at - 1 : end])
            found = _TIMES.fullmatch(count)
            if found is not None:
                least = int(found[1])
                most = least if found[2] is None else int(found[2] or least + _NARROW + 1)
                if most - least > _NARROW or most > _LONG:
                    count = "*" if least == 0 else "+" if least == 1 else f"{{{min(least, _LONG)},}}"
                piece, at = count, end
        pieces.append(piece)
    start = len(_ANY_CASE) if pieces[: len(_ANY_CASE)] == _ANY_CASE else 0
    while len(pieces) > start + 3 and pieces[start] not in _NO_ITEMS and pieces[start + 1] == "*":
        del pieces[start : start + (3 if pieces[start + 2] == "?" else 2)]
    return "".join(pieces)


def byte_pattern(regex: str) -> str:
    """`regex`, which counts characters, as one that counts bytes and matches in every text that `regex` matches in."""
    items: list[str] = _ITEM.findall(regex)
    pieces: list[str] = []
    at = 0
    while at < len(items):
        item = items[at]
        at += 1
        if not _is_wide(item):
            pieces.append(item if item.isascii() else f"(?:{item})")  # its bytes are repeated together
            continue
        quantifier, at = _quantifier(items, at)
        if quantifier.startswith(("*", "+")):
            pieces.append(item + quantifier)
        elif (count := _COUNT.match(quantifier)) is not None:
            # No upper limit: long counts make the compiled patterns large and slow.
            pieces.append(f"{item}{{{count[1]},}}{quantifier[count.end() :]}")
        else:
            pieces.append(rf"(?:{item}[\x80-\xbf]{{0,{_LONGEST - 1}}}){quantifier}")
    return "".join(pieces)


def _is_wide(item: str) -> bool:
    """Whether the item of a pattern matches characters of more than one byte."""
    if item.startswith("["):
        return item.startswith("[^") or not item.isascii() or _BEYOND_ASCII.search(item) is not None
    return item in {".", "(?s:.)"} or _BEYOND_ASCII.fullmatch(item) is not None


def _quantifier(items: Sequence[str], at: int) -> tuple[str, int]:
    """The quantifier that begins at `items[at]` (empty: none), and where the pattern goes on."""
    if at >= len(items) or items[at] not in {"*", "+", "?", "{"}:
        return "", at
    end = at + 1
    if items[at] == "{":
        end = items.index("}", at) + 1
    if end < len(items) and items[end] in {"?", "+"}:
        end += 1
    return "".join(items[at:end]), end


def _choices(regex: str) -> list[str]:
    """What `regex` is a choice of: apart, each choice that begins with a word is looked for by that word."""
    if _FLAGS.search(regex):  # they hold for all choices behind them
        return [regex]
    choices, depth = [""], 0
    for item in _ITEM.findall(regex):
        depth += (item == "(") - (item == ")")
        if item == "|" and not depth:
            choices.append("")
        else:
            choices[-1] += item
    return choices


def _within(run: str, other: str) -> bool:
    """Whether each `run` of signs holds one of the `other` kind."""
    (signs, least), (others, fewest) = (_RUN.findall(each)[0] for each in (run, other))
    inner, outer = (set(re.findall(each.encode(), bytes(range(256)))) for each in (signs, others))
    return run != other and int(least) >= int(fewest) and inner <= outer


def beyond_hexadecimal(run: str) -> str:
    """What a `run` of letters and digits holds in which one is no hexadecimal digit; empty for any other run.

    Of 24 that are drawn from all of them, there is none once in 10^10 times.
    """
    found = _RUN.fullmatch(run)
    if found is None or not run.startswith(_ALL_LETTERS):
        return ""
    signs, half = found[1], int(found[2]) // 2
    other = signs.replace(_ALL_LETTERS, "[G-Zg-z")
    return f"{other}{signs}{{{half}}}|{signs}{{{half}}}{other}"


class Compiled(NamedTuple):
    """The patterns that a gate is for, those that it always calls, and what its engine made of the others."""

    patterns: tuple[str, ...]
    firsts: tuple[str, ...]
    blind: frozenset[Key]
    databases: dict[int, bytes]


class _Ways(NamedTuple):
    """How to look for what: always; for runs, unless wider ones are missing; by the place of a first, behind it.

    Behind a first, each is looked for only where the one before it was seen.
    """

    always: Sequence[tuple[Callable[..., object], object]]
    runs: Sequence[tuple[frozenset[int], Callable[..., object], object]]
    behind: Mapping[int, Sequence[tuple[int, Callable[..., object], object]]]


class Gate:
    """The gate for `patterns` (key -> RE2 pattern); what it calls are keys. May be shared by threads."""

    def __init__(
        self,
        patterns: Mapping[Key, str],
        *,
        firsts: Mapping[Key, str] | None = None,
        apart: Iterable[Mapping[Key, str]] = (),
        worth: int = _WORTH,
    ) -> None:
        apart = tuple(apart)
        every = {key: pattern for each in (patterns, *apart) for key, pattern in each.items()}
        self._keys = tuple(every)
        self._patterns = tuple(every.values())
        self._apart = [set(each) for each in apart]
        firsts = firsts or {}
        self._firsts = {first: [key for key in firsts if firsts[key] == first] for first in firsts.values()}
        runs = [first for first in self._firsts if _RUN.fullmatch(first)]
        places = {first: place for place, first in enumerate(self._firsts, len(self._keys) + 1)}
        wider = {run: frozenset(places[other] for other in runs if _within(run, other)) for run in runs}
        # By place, those that are there wherever it is: fewer first.
        self._runs = {places[run]: wider[run] for run in sorted(runs, key=lambda run: len(wider[run]))}
        self._left = worth
        self._begun = threading.Lock()
        # By the place of a first, what is looked for behind it; by the same with a minus sign, a run itself (these
        # places are higher than those of keys, of which there are more than of `apart`). By others with a minus sign,
        # what is looked for in every text.
        self._opened: dict[int, Any] | None = None
        self._blind: frozenset[Key] = frozenset()
        self._scratches = threading.local()

    @cached_property
    def _beyond(self) -> dict[int, tuple[int, str]]:
        """By the place of a run, what has to be there too, and the place of that, higher than all others."""
        places = enumerate(self._firsts, len(self._keys) + 1)
        beyond = [(place, others) for place, first in places if (others := beyond_hexadecimal(first))]
        free = len(self._keys) + 1 + len(self._firsts)
        return {place: (at, others) for at, (place, others) in enumerate(beyond, free)}

    def called(self, data: bytes) -> Called | None:
        """The keys of the patterns that may match somewhere in `data`; None: any may."""
        if self._opened is None:
            self._left -= len(data)
            if self._left < 0 and self._begun.acquire(blocking=False):
                threading.Thread(target=self.open, name="redaction-gate", daemon=True).start()
            return None
        ways = getattr(self._scratches, "own", None) or self._ways(self._opened)
        places: list[int] = []
        for look, scratch in ways.always:
            look(data, _note, 0, places, scratch)
        for wider, look, scratch in ways.runs:
            if wider.issubset(places):
                look(data, _note, 0, places, scratch)
        if not places:
            return self._blind
        own = len(self._keys)
        for first in [place for place in places if place > own]:
            for at, look, scratch in ways.behind.get(first, ()):
                look(data, _note, 0, places, scratch)
                if at not in places:
                    break
        if own in places:
            return None
        return self._blind.union([self._keys[place] for place in places if place < own])

    def _ways(self, opened: Mapping[int, Any]) -> _Ways:
        """What to scan with, with room of this thread's own."""
        from hyperscan import Scratch

        look = {at: (each.scan, Scratch(each)) for at, each in opened.items()}
        beyond = {first: at for first, (at, _) in self._beyond.items()}
        firsts = [at for at in opened if at > len(self._keys) and at not in beyond.values()]
        own = self._scratches.own = _Ways(
            [look[at] for at in opened if at < 0 and -at not in self._runs],
            [(wider, *look[-run]) for run, wider in self._runs.items()],
            {
                first: [(at, *look[at]) for at in ((beyond[first], first) if first in beyond else (first,))]
                for first in firsts
            },
        )
        return own

    def open(self) -> None:
        """Compile now; nothing happens where the engine is not installed or cannot work."""
        self._begun.acquire(blocking=False)
        try:
            import hyperscan  # 3 ms
        except ImportError:
            return
        written = {
            place: byte_pattern(loosened(pattern))
            for place, pattern in enumerate(self._patterns)
            if _UNLIKE.search(pattern) is None
        }
        places = {key: place for place, key in enumerate(self._keys)}
        groups = [{places[key]: written.pop(places[key]) for key in keys} for keys in self._firsts.values()]
        apart = [{places[key]: written.pop(places[key]) for key in keys} for keys in self._apart]
        own = len(self._keys)
        firsts = dict(enumerate(self._firsts, own + 1))
        try:
            others = {place: first for place, first in firsts.items() if place not in self._runs}
            parts = [*_in_parts(hyperscan, {**written, own: _READ_DIFFERENTLY, **others})]
            beside = [_compiled(hyperscan, each) for each in apart]
            runs = {-place: _compiled(hyperscan, {place: firsts[place]}) for place in self._runs}
            beyond = {at: _compiled(hyperscan, {at: others}) for at, others in self._beyond.values()}
            behind = {first: _compiled(hyperscan, group) for first, group in zip(firsts, groups, strict=True)}
        except hyperscan.error:  # not even single ones: the processor is too old, or no memory
            return
        # What this engine cannot take (a team's own, say) is always called.
        judged = {place for group in (*(fit for _, fit in parts), *groups, *apart) for place in group}
        self._blind = frozenset(key for place, key in enumerate(self._keys) if place not in judged)
        always = {-at: each for at, each in enumerate((*(database for database, _ in parts), *beside), 1)}
        self._opened = {**always, **runs, **beyond, **behind}
        _give_back_memory()

    def compiled(self) -> Compiled | None:
        """What it has compiled, for a process of ours that shall not compile it again; None: nothing."""
        if self._opened is None:
            return None
        from hyperscan import dumpb

        databases = {at: dumpb(each) for at, each in self._opened.items()}
        return Compiled(self._patterns, tuple(self._firsts), self._blind, databases)

    def take(self, compiled: Compiled) -> None:
        """Open with what another process compiled; never to be read from a file, which could make the gate blind."""
        # Else the program was replaced between the two processes.
        if compiled.patterns != self._patterns or compiled.firsts != tuple(self._firsts):
            return
        from hyperscan import HS_MODE_BLOCK, loadb

        if self._begun.acquire(blocking=False):
            self._blind = compiled.blind
            self._opened = {at: loadb(each, HS_MODE_BLOCK) for at, each in compiled.databases.items()}

    @property
    def is_open(self) -> bool:
        """Whether it is compiled."""
        return self._opened is not None

    @property
    def keys(self) -> Called:
        """All keys."""
        return frozenset(self._keys)

    @property
    def blind(self) -> Called:
        """The patterns that it cannot judge and so always calls."""
        return self._blind


def _note(place: int, _start: int, _end: int, _flags: int, places: list[int]) -> None:
    places.append(place)


_PARTS = 2  # one compiled after the other: with half of the memory (81 MB, not 109), and scanned as fast


def _in_parts(hyperscan: Any, chosen: Mapping[int, str]) -> Iterator[tuple[Any, Iterable[int]]]:
    for first in range(_PARTS):
        if part := {place: chosen[place] for place in [*chosen][first::_PARTS]}:
            yield _fitting(hyperscan, part)
            _give_back_memory()


def _fitting(hyperscan: Any, chosen: Mapping[int, str]) -> tuple[Any, Iterable[int]]:
    """Those that the engine takes, compiled, and their places."""
    try:
        return _compiled(hyperscan, chosen), chosen.keys()
    except hyperscan.error:
        chosen = {place: pattern for place, pattern in chosen.items() if _fits(hyperscan, pattern)}
        return _compiled(hyperscan, chosen), chosen.keys()


def _compiled(hyperscan: Any, chosen: Mapping[int, str]) -> Any:
    database = hyperscan.Database()
    apart = [(place, each.encode("utf-8")) for place, pattern in chosen.items() for each in _choices(pattern)]
    database.compile(
        expressions=[pattern for _, pattern in apart],
        ids=[place for place, _ in apart],
        flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(apart),
    )
    return database


def _give_back_memory() -> None:
    """Let the system have what compiling took and no longer needs: the C library keeps it, 58 of 102 MB."""
    import ctypes  # 4 ms, beside seconds of compiling

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)


def _fits(hyperscan: Any, pattern: str) -> bool:
    try:
        _compiled(hyperscan, {0: pattern})
    except hyperscan.error:
        return False
    return True
