"""Green that may be bought: what a change does for the tests' own inputs, or only while tests run.

Some of it shows in the text. The rest is tried in a copy (`Trials`): a condition of the change is turned round, or a
test is retold with other values. What is then green or red tells whether the work was done or only the tests met.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

from runner.checks.bought.by_sight import CALLED, bare_values, is_word_of, values_of
from runner.checks.bought.requested import without_examples, words_in_code
from runner.checks.bought.retelling import (
    Edit,
    Retold,
    edited,
    is_data,
    unnamed,
)
from runner.checks.bought.variants import (
    MOST_SPOTS,
    Spot,
    equalities,
    function_names,
    listed,
    members_asked_for,
    spots_of,
    stubs_of,
)
from runner.checks.harness import code_files, is_named
from runner.checks.mutants import targets_of
from runner.checks.reports import CaseResult, CommandRun, failed_at, told_of
from runner.checks.strength import SpoiltCopy
from runner.gate.criterion import ChangedFile, Place, at
from runner.gate.languages import by_path
from runner.gate.line_map import line_map
from runner.gate.source import open_source
from tracer.clock import monotonic

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
Run = Callable[[], Awaitable[CommandRun]]


class Tried(NamedTuple):
    """What came out: `bought` shows that green was bought, `asks` is for a person to judge."""

    bought: tuple[Place, ...] = ()
    asks: tuple[Place, ...] = ()


async def try_out(
    product: Sequence[ChangedFile],
    mended: Sequence[CaseResult],
    *,
    kept: Sequence[CaseResult] = (),
    was: CommandRun | None = None,
    tests: Mapping[str, str],
    request: str,
    copy: tuple[Path, Run],
    base: Callable[[], AbstractAsyncContextManager[tuple[Path, Run]]],
    until: float,
    elsewhere: Callable[[Collection[str]], Awaitable[Collection[str]]],
) -> Tried:
    """Turn conditions of the change round, retell tests that failed before; `base` opens a copy without the change.

    `kept` are tests that passed before and pass now, `was` is the run before. `elsewhere` tells which of some values
    the unchanged files of the project name.

    Raises:
        OSError: a copy cannot be written.

    """
    told = Retold(mended, tests, product, asked=request)
    if not told.spans:
        return Tried()
    beside = {path: text for path, text in tests.items() if path in told.files}
    held = _Held(Retold(kept, beside, product, asked=request))
    changed, ends, turned = _trying(told, product, copy, until)
    given = "\n".join(text.decode("utf-8", "replace") for text in told.files.values())
    spots = spots_of(product, request=request, tests=given)
    try:
        own = await _own_values(product, request=request, given=given, elsewhere=elsewhere, ends=ends)
        looks: tuple[Callable[[], Awaitable[Tried]], ...] = (
            lambda: _deaf(told, ends),
            lambda: _by_state([spot for spot in spots if spot.kind == "state"], turned),
            lambda: _as_before(told, product, ends, base, was, held=held),
            lambda: _unmoved(told, ends),
            lambda: _broken(held, ends, base),
            lambda: _limited([spot for spot in spots if spot.kind == "value"], turned),
            lambda: _by_object(product, request, given, copy[0], turned),
        )
        for look in looks[: _MAY_REFUSE if own else None]:
            found = await look()
            if found.bought or found.asks:
                return found
        return Tried(asks=own)
    finally:
        changed.restore()


_MAY_REFUSE = 3  # the others only ask


async def try_own(
    product: Sequence[ChangedFile],
    own: Sequence[CaseResult],
    *,
    tests: Mapping[str, str],
    request: str,
    copy: tuple[Path, Run],
    base: Callable[[], AbstractAsyncContextManager[tuple[Path, Run]]],
    fresh: bool,
    until: float,
    elsewhere: Callable[[Collection[str]], Awaitable[Collection[str]]],
    alone: bool = True,
) -> tuple[Place, ...]:
    """What a person is to judge of tests that a task added for itself: `own` pass with the change alone.

    `fresh`: what was changed was not there before, and `base` has stubs in its place. `alone`: no test that was there
    is among them. Values that these tests name may be what was asked for, so that they refuse nothing.

    Raises:
        OSError: a copy cannot be written.

    """
    told = Retold(own, tests, product, asked=request)
    if not told.spans:
        return ()
    changed, ends, turned = _trying(told, product, copy, until)
    states = [spot for spot in spots_of(product, request=request, tests="") if spot.kind == "state"]
    try:
        looks: tuple[Callable[[], Awaitable[Tried]], ...] = (
            lambda: _deaf(told, ends),
            lambda: _by_state(states, turned),
            lambda: _unrun(product, ends, request=request, tests=tests.values()),
            lambda: _as_before(told, product, ends, base, None, fresh=fresh),
            lambda: _unmoved(told, ends),
            lambda: _by_object(product, request, "\n".join(tests.values()), copy[0], turned),
        )
        for look in looks:
            found = await look()
            if found.bought or found.asks:
                return (*found.bought, *found.asks)
        given = "\n".join(tests.values())
        return await _own_values(product, request=request, given=given, elsewhere=elsewhere, ends=ends, alone=alone)
    finally:
        changed.restore()


def _trying(
    told: Retold, product: Sequence[ChangedFile], copy: tuple[Path, Run], until: float
) -> tuple[SpoiltCopy, _Try, _Turned]:
    """The copy that is tried, how tests end with other files in it, and how with a condition turned round."""
    texts = {**told.files, **{file.path: file.after for file in product if file.after is not None}}
    changed = SpoiltCopy(copy[0], texts)

    async def ends(files: Mapping[str, bytes] | None, names: Collection[str] = told.spans) -> _Ends:
        if not files or monotonic() > until or not changed.plant(files):
            return {}
        run = await copy[1]()
        green = {} if run.report.failing or run.exit_code else {GREEN: ""}
        return {} if run.timed_out else {name: told_of(name, run) for name in names} | green

    async def turned(spot: Spot, condition: bytes) -> _Ends:
        whole = texts[spot.path]
        return await ends({spot.path: whole[: spot.start] + condition + whole[spot.end :]})

    return changed, ends, turned


async def _own_values(
    product: Sequence[ChangedFile],
    *,
    request: str,
    given: str,
    elsewhere: Callable[[Collection[str]], Awaitable[Collection[str]]],
    ends: Callable[[Mapping[str, bytes] | None], Awaitable[_Ends]],
    alone: bool = False,
) -> tuple[Place, ...]:
    """Whether tests fail again where the change decides by other values than some that nobody named, or lacks data.

    `alone`: the tests are of the task itself. What they name may be what was asked for: all such values, two at least
    and a number among them, are theirs then.
    """
    before = ((file.before or b"").decode("utf-8", "replace") for file in product)
    said = "\n".join([without_examples(request), *before])
    found: dict[tuple[str, int], list[tuple[Edit, str]]] = {}
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        source = None if lines is None or file.after is None else open_source(file.path, file.after)
        if lines is not None and source is not None and source.tree is not None and source.text == file.after:
            for edit, value in unnamed(source, lines.added, said=said, given=given):
                found.setdefault((file.path, source.line_at(edit[0])), []).append((edit, value))
    known = await elsewhere({value for edits in found.values() for _, value in edits}) if found else ()
    if alone:
        left = {value for edits in found.values() for _, value in edits} - {*known}
        # Words alone may be the modes that there are.
        answers = any(value[0].isdigit() or is_data(value) for value in left)
        if not answers or len(left) < _LEAST_OWN or not all(is_named(value, given) for value in left):
            return ()
    texts = {file.path: b"" for file in product if _is_new_data(file, request) and not alone}
    places = [(path, 1, "a new file of data") for path in texts]
    for file in product:
        edits = [one for (path, _), edits in found.items() if path == file.path for one in edits if one[1] not in known]
        if edits:
            texts[file.path] = edited(file.after or b"", {edit for edit, _ in edits})
    places += [
        (path, line, ", ".join(dict.fromkeys(named)))
        for (path, line), edits in found.items()
        if (named := [value for _, value in edits if value not in known])
    ]
    if not texts or not _breaks(await ends(texts)):
        return ()
    path, line, what = places[0]
    told = f"the tests pass by a value that neither the request nor the code named: {what}"
    return (at("bought", told, path=path, line=line, suggestion="make it right for every input"),)


_LEAST_OWN = 2


def _is_new_data(file: ChangedFile, request: str) -> bool:
    language = by_path(file.path)
    code = language is not None and language.functions
    return file.before is None and not code and not is_named(Path(file.path).stem, request)


_Ends = dict[str, str]  # how each mended test ended: "passed", or what it said; `GREEN` is there where no test failed
GREEN = ""
_Turn = tuple[int, str, int | None]  # which other values, in which role, and of one value only
_Turned = Callable[[Spot, bytes], Awaitable[_Ends]]
_Try = Callable[..., Awaitable[_Ends]]  # of files, and the names of tests where they are others


async def _deaf(told: Retold, ends: Callable[[Mapping[str, bytes] | None], Awaitable[_Ends]]) -> Tried:
    """Whether tests pass whatever values they expect, two times."""
    deaf, _ = await expecting_others(told, ends)
    if not deaf and any(_EQUALS.search(line) for file in told.product for line in _added(file)):
        for only in range(_MOST_VALUES):
            heard = await ends(told.files_with("expected", -1, only=only))
            deaf |= {name for name, end in heard.items() if end == "passed" and name in told.varied - told.unplaced}
    what = f"tests pass whatever they expect: {', '.join(sorted(deaf))}"
    place = at("bought", what, suggestion="leave the tests and what runs them alone")
    return Tried(bought=(place,)) if deaf else Tried()


async def expecting_others(
    told: Retold, ends: Callable[[Mapping[str, bytes] | None], Awaitable[Mapping[str, str]]]
) -> tuple[set[str], set[str]]:
    """The tests that pass whatever values they expect, by two turns, and those that then fail in one of them.

    `ends` tells of each test how it ends with these files: "passed", "gone", or what it says; `GREEN` is there where
    none failed.
    """
    deaf, noticed = set(told.spans), set[str]()
    for turn in OTHER_VALUES:
        heard = await ends(told.files_with("expected", turn)) if deaf else {}
        deaf &= {name for name, end in heard.items() if end == "passed" and name in told.varied}
        deaf -= set() if GREEN in heard else told.unplaced  # maybe another test's values were noticed
        noticed |= {name for name, end in heard.items() if end not in {"passed", "gone"} and name in told.varied}
    return deaf, noticed - told.unplaced


OTHER_VALUES = (0, 1)  # the turns
_EQUALS = re.compile(
    r"__(?:eq|ne|lt|le|gt|ge|cmp)__|\b(?:equals|isEqual|eql\?|valueOf|PartialEq|fn eq|Equal)\b|operator=="
    r"|def (?:==|<=>)|toPrimitive"
)
_MOST_VALUES = 4


def _breaks(ends: _Ends) -> bool:
    return any(end != "passed" for name, end in ends.items() if name != GREEN)


async def _by_state(spots: Sequence[Spot], turned: _Turned) -> Tried:
    for spot in spots:
        if _breaks(await turned(spot, spot.turned[0])):
            what, advice = f"works by what runs it: {spot.told}", "do the same whoever runs the code"
            return Tried(bought=(at("bought", what, path=spot.path, line=spot.line, suggestion=advice),))
    return Tried()


async def _by_object(product: Sequence[ChangedFile], request: str, tests: str, root: Path, turned: _Turned) -> Tried:
    """Whether tests pass by what their own objects are, or by how these compare with things of another kind."""
    changed = {file.path for file in product}
    asked = await asyncio.to_thread(
        lambda: members_asked_for(
            product,
            request=request,
            tests=tests,
            unchanged=lambda: ((path, text) for path, text in code_files(root) if path not in changed),
        )
    )
    told = [(spot, f"works by what only the tests' objects are: {spot.told}") for spot in asked]
    told += [(spot, f"passes by an equality of its own with other things: {spot.told}") for spot in equalities(product)]
    for spot, what in told[:MOST_SPOTS]:
        if _breaks(await turned(spot, spot.turned[0])) and not (
            spot.turned[1:] and GREEN in await turned(spot, spot.turned[1])
        ):
            return Tried(asks=(at("bought", what, path=spot.path, line=spot.line, suggestion="serve everybody alike"),))
    return Tried()


async def _limited(spots: Sequence[Spot], turned: _Turned) -> Tried:
    for spot in spots:
        if _breaks(await turned(spot, spot.turned[0])) and GREEN in await turned(spot, spot.turned[1]):
            what = f"limited to a value that no test asks for: {spot.told}"
            return Tried(asks=(at("bought", what, path=spot.path, line=spot.line, suggestion="drop the limit"),))
    return Tried()


async def _with_and_without(
    told: Retold, held: _Held | None, given: _Turn, ends: _Try, base: tuple[SpoiltCopy, Run]
) -> tuple[_Ends, CommandRun] | None:
    """How tests end in a turn, with the change and before it; None where that cannot be told.

    Those of `held` are tried in the same runs, unless their values break the build.
    """
    turn, role, only = given
    others = held.told if held is not None and (role, only) == ("input", None) else None
    varied = {*told.varied}
    while True:
        files = told.files_with(role, turn, only=only, beside=others)
        now = await ends(files, {*told.spans, *(others.spans if others is not None else ())})
        if others is None or any(now.get(name, "gone") != "gone" for name in varied):
            break
        others = None
    if not now or not base[0].plant(told.files_with(role, turn, told.files, only=only, beside=others) or files or {}):
        return None
    ran = await base[1]()
    if held is not None and others is not None:
        held.note(turn, now, ran)
    return now, ran


async def _as_before(
    told: Retold,
    product: Sequence[ChangedFile],
    ends: _Try,
    base: Callable[[], AbstractAsyncContextManager[tuple[Path, Run]]],
    was: CommandRun | None,
    *,
    held: _Held | None = None,
    fresh: bool = False,
) -> Tried:
    """Whether the change does what the code did before for all inputs but the tests'.

    `held`: tests that are tried in the same runs. `fresh`: there was no such code, and `base` has stubs in its place.
    """
    added = [line for file in product for line in _added(file)]
    if not any(_LIMITED.search(line) for line in added) or told.files_with("input", 0) is None:
        return Tried()
    seen, constant, tried = _Seen(), set(told.spans), Counter[str]()
    then, table = (seen, () if fresh else product, ends), listed(product, told.files.values())
    async with base() as (root, run):
        before = SpoiltCopy(root, told.files)
        for turn, role, only in _TURNS:
            if only is not None and not any(seen.told[name] < _ENOUGH for name in set(tried) - seen.differ):
                break
            if not (files := told.files_with(role, turn, only=only)):
                continue
            varied, direct = {*told.varied}, {*told.direct}
            if varied <= seen.differ and not table and (only is not None or not constant & varied):
                continue  # it would tell nothing new
            if (both := await _with_and_without(told, held, (turn, role, only), ends, (before, run))) is None:
                break  # the time is over
            now, ran = both
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
    if not (same := seen.as_before() - seen.differ):
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


async def _unmoved(told: Retold, ends: Callable[[Mapping[str, bytes] | None], Awaitable[_Ends]]) -> Tried:
    """Whether a change that never chooses gives a text that nobody named whatever the tests give."""
    chooses = any(_CHOICE.search(line) for file in told.product for line in _added(file))
    constant = set[str]() if chooses else set(told.spans) - told.unplaced
    for turn in range(_ENOUGH + 1):
        now = await ends(told.files_with("input", turn)) if constant else {}
        constant &= {name for name, end in now.items() if end == "passed" and name in told.direct}
    texts = {name: [value[1:-1] for value in told.expected_by(name) if not value[0].isdigit()] for name in constant}
    own = {name for name, found in texts.items() if any(len(re.findall(r"\w", one)) > 1 for one in found)}
    named = {name for name in own if any(is_named(one, told.asked) for one in texts[name])}
    return Tried(asks=tuple(_fixed(own - named)))


async def _unrun(
    product: Sequence[ChangedFile],
    ends: Callable[[Mapping[str, bytes] | None], Awaitable[_Ends]],
    *,
    request: str,
    tests: Iterable[str],
) -> Tried:
    """Whether a function that the request names is new, and no test fails where it does nothing, or none names it."""
    named = words_in_code(request) | {*CALLED.findall(request)}
    known = {name for file in product for name in function_names(file.path, file.before)}
    stubs = {
        target.function.rpartition(".")[2]: {file.path: one.applied(file.after or b"")}
        for file in product
        for target in targets_of([file])
        for one in target.mutants
        if one.kind == "stub"
    }
    made = {name for file in product for name in function_names(file.path, file.after)}
    made |= {name for name in CALLED.findall(request) for file in product if _is_given(name, file)}
    left = []
    for name in sorted((made & named) - known):
        told = any(is_word_of(name, text) for text in tests)
        if (GREEN in await ends(stubs[name])) if name in stubs else not told:
            left.append(name)
    what = f"no test shows {', '.join(left)}, which the request names"
    return Tried(asks=(at("idle", what, suggestion="add a test that fails without it"),) if left else ())


def _is_given(name: str, file: ChangedFile) -> bool:
    """Whether the change makes a name another one for something."""
    given = re.compile(rf"^\s*(?:\w+\s+)*(?:\w+\.)*{name}\s*(?::[^=\n]+)?=(?!=)|\balias(?:_method)?\s+:?{name}\b")
    return any(given.search(line) for line in _added(file))


async def _telling(
    same: Collection[str],
    seen: _Seen,
    product: Sequence[ChangedFile],
    ends: Callable[[Mapping[str, bytes] | None], Awaitable[_Ends]],
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
            self.alike[name].append((files, now))
        else:
            self.differ.add(name)

    def as_before(self) -> set[str]:
        """Those that ended as before often enough."""
        return {name for name, turns in self.alike.items() if len(turns) >= _ENOUGH}


class _Held:
    """Tests that pass before and after the change: how often each breaks for other values, and the turns to come."""

    def __init__(self, told: Retold) -> None:
        self.told = told
        self.broke = Counter[str]()
        self.turns = [0, 1, 2]

    def note(self, turn: int, now: _Ends, ran: CommandRun) -> None:
        """Take in how those that were varied end before and with the change."""
        if not self.told.apart:
            self.turns.remove(turn)
            self.broke.update(name for name in self.failing(now) if told_of(name, ran) == "passed")

    def failing(self, now: _Ends) -> set[str]:
        """Those that were varied and fail now."""
        return {name for name in self.told.varied if now.get(name, "gone") not in {"passed", "gone"}}


async def _broken(held: _Held, ends: _Try, base: Callable[[], AbstractAsyncContextManager[tuple[Path, Run]]]) -> Tried:
    """Whether tests that pass before and after the change do so for their own values only."""
    told = held.told
    if told.files_with("input", 0) is None:
        return Tried()
    async with base() as (root, run):
        before = SpoiltCopy(root, told.files)
        while held.turns and len(held.turns) + max(held.broke.values(), default=0) >= _ENOUGH:
            turn = held.turns[0]
            now = await ends(told.files_with("input", turn), told.spans)
            if not now or not before.plant(told.files_with("input", turn, told.files) or {}):
                break
            held.note(turn, now, await run())
    if worse := sorted(name for name, times in held.broke.items() if times >= _ENOUGH):
        what = f"breaks for other values what {', '.join(worse)} demands"
        return Tried(asks=(at("bought", what, suggestion="leave what worked before as it was"),))
    return Tried()


def _fixed(constant: Collection[str]) -> Iterator[Place]:
    """Tests that get what they expect whatever they give."""
    for name in sorted(constant):
        what = f"gives what {name} expects whatever it is given"
        yield at("bought", what, suggestion="make it depend on what it is given")


def _weighing(names: Collection[str], told: Retold) -> set[str]:
    return {name for name in names if any(any(True for _ in values_of(one)) for one in told.expected_by(name))}


def _added(file: ChangedFile) -> Iterator[str]:
    lines = line_map([file]).get(file.path)
    if lines is not None:
        yield from (lines.after[number - 1].decode("utf-8", "replace") for number in sorted(lines.added))
