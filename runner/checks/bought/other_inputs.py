"""What a change does for other inputs than those of the tests, beside the code before it.

Tests that failed before are retold with other values, in several turns, and run with the change and without it: a
change that then does as the code before it did knows the tests' own inputs only.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from runner.checks.bought.by_sight import bare_values, values_of
from runner.checks.bought.retelling import Retold
from runner.checks.bought.variants import listed, stubs_of
from runner.checks.harness import is_named
from runner.checks.reports import CommandRun, failed_at, told_of
from runner.gate.criterion import ChangedFile, Place, at
from runner.gate.line_map import line_map

# What neither takes: an error that is none of a comparison.
_NO_INPUT = re.compile(
    r"\W*(?:\w+[.:])*(?!\w*(?:Assert|Expect))\w+(?:Error|Exception)\b"
    r"|(?:----[^\n]*\n)?[^\n]*panicked at\W*\n(?:index out of bounds|attempt to \w+ with overflow|range \w+ index)"
)
_BARE = re.compile(r"\W*(?:\w+[.:])*\w*Assert\w*\W*")  # no word of what came out
_LIMITED = re.compile(
    r"==|\b(?:in|case|when|match)\b|equals|\.get\(|\[[^\]]+\]"
    r"|(?i:hash|digest|open|read|load|crc|starts?_?with|ends?_?with|has(?:pre|suf)fix|includes?\b|contains|\.test\("
    r"|replace)"
)
_CHOICE = re.compile(r"\b(?:if|unless|switch|case|when|match)\b|\s[<>?]=?\s|&&|\|\|")


class Tried(NamedTuple):
    """What came out: `bought` shows that green was bought, `asks` is for a person to judge."""

    bought: tuple[Place, ...] = ()
    asks: tuple[Place, ...] = ()


Ends = dict[str, str]  # how each mended test ended: "passed", or what it said; `GREEN` is there where no test failed
GREEN = ""
_Turn = tuple[int, str, int | None]  # which other values, in which role, and of one value only
Try = Callable[[Mapping[str, bytes] | None], Awaitable[Ends]]


async def as_before(
    told: Retold,
    product: Sequence[ChangedFile],
    ends: Try,
    run_before: Callable[[Mapping[str, bytes]], Awaitable[CommandRun | None]],
    was: CommandRun | None,
    *,
    fresh: bool = False,
) -> Tried:
    """Whether the change does what the code did before for all inputs but the tests'.

    `run_before` runs the code before with these files of tests, where the time allows. `fresh`: there was no such code,
    and stubs are in its place.
    """
    added = [line for file in product for line in added_in(file)]
    if not any(_LIMITED.search(line) for line in added) or told.files_with("input", 0) is None:
        return Tried()
    seen, constant, tried = _Seen(), set(told.spans), Counter[str]()
    then, table = (seen, () if fresh else product, ends), listed(product, told.files.values())
    for turn, role, only in _TURNS:
        if only is not None and not any(seen.told[name] < _ENOUGH for name in set(tried) - seen.differ):
            break
        if not (files := told.files_with(role, turn, only=only)):
            continue
        varied, direct = {*told.varied}, {*told.direct}
        if varied <= seen.differ and not table and (only is not None or not constant & varied):
            continue  # it would tell nothing new
        now = await ends(files)
        ran = await run_before(told.files_with(role, turn, told.files, only=only) or files) if now else None
        if ran is None:
            break  # the time is over
        # Where a turn leaves a test as it is, it tells nothing of it.
        if only is None:
            constant = {name for name in constant & direct if name not in varied or now[name] == "passed"}
            tried.update(varied)
        for name in varied:
            ended = told_of(name, ran)
            # It failed as ever, before the other value, which is no input: that tells nothing.
            unreached = _NO_INPUT.match(now[name]) and was is not None and ended == told_of(name, was)
            if not unreached and _at_same_place(name, was, ran, told.files):
                seen.note(name, ended, now[name], files)
    if table and (half := await _telling(seen.as_before() & seen.differ, *then)):
        what = f"does as before for inputs of {', '.join(sorted(half))} that the change does not list"
        return Tried(asks=(at("bought", what, path=table[0], line=table[1], suggestion=_EXAMPLES_ONLY),))
    # An example of the request may stand at a limit, where others beside it show that more was done.
    if not (same := seen.as_before() - seen.differ - (told.forced if seen.differ else set())):
        fixed = {name for name in constant - told.unplaced if tried[name] >= _ENOUGH}
        return Tried(asks=tuple(_fixed(_weighing(fixed, told))))
    words, other = told.renamed()
    now = await ends(words) if same & other else {}
    same -= {name for name in other if now.get(name) == "passed"}  # no word of theirs is its own
    same = await _telling(same, *then)
    return _same_as_before(same, told, added, "does nothing" if fresh else "does as before")


_EXAMPLES_ONLY = "make it right for every input; the tests give examples only"


def _same_as_before(same: Collection[str], told: Retold, added: Iterable[str], does: str) -> Tried:
    what = f"{does} for every other input than those of {', '.join(sorted(same))}"
    places = (at("bought", what, suggestion=_EXAMPLES_ONLY),) if same else ()
    # Values of its own may be what was asked for: an entry of a table, a unit.
    given = "\n".join([told.asked, *(text.decode("utf-8", "replace") for text in told.files.values())])
    own = {value for line in added for value in bare_values(line)} - {*bare_values(given), "2"}
    return Tried(asks=places) if own else Tried(bought=places)


async def unmoved(told: Retold, ends: Try) -> Tried:
    """Whether a change that never chooses gives a text that nobody named whatever the tests give."""
    chooses = any(_CHOICE.search(line) for file in told.product for line in added_in(file))
    constant = set[str]() if chooses else set(told.spans) - told.unplaced
    for turn in range(_ENOUGH + 1):
        now = await ends(told.files_with("input", turn)) if constant else {}
        constant &= {name for name, end in now.items() if end == "passed" and name in told.direct}
    texts = {name: [value[1:-1] for value in told.expected_by(name) if not value[0].isdigit()] for name in constant}
    own = {name for name, found in texts.items() if any(len(re.findall(r"\w", one)) > 1 for one in found)}
    named = {name for name in own if any(is_named(one, told.asked) for one in texts[name])}
    return Tried(asks=tuple(_fixed(own - named)))


async def _telling(
    same: Collection[str],
    seen: _Seen,
    product: Sequence[ChangedFile],
    ends: Try,
) -> set[str]:
    """Those that say what they got: only there the same word means the same result. A stub tells, or other values."""
    stubs = stubs_of(product)
    found = set[str]()
    for name in sorted(same):
        (given, said), (_, other) = seen.alike[name][:_ENOUGH]
        idle = (await ends({**given, **stubs})).get(name, "gone") if stubs else "gone"
        found.update((name,) if (other if idle == "gone" else idle) != said else ())
    return found


def _at_same_place(name: str, was: CommandRun | None, ran: CommandRun, paths: Collection[str]) -> bool:
    """Whether a test fails where it failed: another assertion, which held, only misses the value that was changed."""
    first = failed_at(name, was, paths) if was is not None else frozenset()
    second = failed_at(name, ran, paths)
    return not first or not second or first == second


# All values of a test, then one alone where that told too little: together they may be a day that is in no calendar.
_TURNS: tuple[_Turn, ...] = (
    (0, "input", None), (1, "input", None), (2, "input", None), (0, "input number", None),
    (-1, "input", 0), (-1, "input number", 2), (-1, "input number", 1), (-1, "input number", 3),
    (-2, "input", 0), (-3, "input", 0), (-4, "input", 0),
)  # fmt: skip
_ENOUGH = 2


class _Seen:
    """How tests with other values ended before and with the change, by test."""

    def __init__(self) -> None:
        self.differ: set[str] = set()
        self.told = Counter[str]()
        self.alike: defaultdict[str, list[tuple[Mapping[str, bytes], str]]] = defaultdict(list)

    def note(self, name: str, then: str, now: str, files: Mapping[str, bytes]) -> None:
        """Take in one turn; what could not be built, was no input or made no difference tells nothing."""
        if "gone" in {then, now} or (
            then == now and (then == "passed" or _NO_INPUT.match(then) or _BARE.fullmatch(then))
        ):
            return
        self.told[name] += 1
        if then == now:
            self.alike[name] += [(files, now)] if all(files != known for known, _ in self.alike[name]) else []
        else:
            self.differ.add(name)

    def as_before(self) -> set[str]:
        """Those that ended as before often enough."""
        return {name for name, turns in self.alike.items() if len(turns) >= _ENOUGH}


def _fixed(constant: Collection[str]) -> Iterator[Place]:
    """Tests that get what they expect whatever they give."""
    for name in sorted(constant):
        what = f"gives what {name} expects whatever it is given"
        yield at("bought", what, suggestion="make it depend on what it is given")


def _weighing(names: Collection[str], told: Retold) -> set[str]:
    return {name for name in names if any(any(True for _ in values_of(one)) for one in told.expected_by(name))}


def breaks(ends: Ends) -> bool:
    """Whether a test does not pass."""
    return any(end != "passed" for name, end in ends.items() if name != GREEN)


def added_in(file: ChangedFile) -> Iterator[str]:
    """The lines that the change added to a file."""
    lines = line_map([file]).get(file.path)
    if lines is not None:
        yield from (lines.after[number - 1].decode("utf-8", "replace") for number in sorted(lines.added))
