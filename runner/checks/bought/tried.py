"""Green that may be bought: what a change does for the tests' own inputs, or only while tests run.

Some of it shows in the text. The rest is tried in a copy (`Trials`): a condition of the change is turned round, or a
test is retold with other values. What is then green or red tells whether the work was done or only the tests met.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import tree_sitter

from runner.checks.bought.by_sight import CALLED, is_example, is_word_of, kinds_known
from runner.checks.bought.deciding import unnamed
from runner.checks.bought.other_inputs import (
    GREEN,
    Ends,
    Tried,
    added_in,
    as_before,
    breaks,
    unmoved,
)
from runner.checks.bought.requested import text_of, without_examples, words_in_code
from runner.checks.bought.retelling import CALLS, Edit, Retold, edited, is_data, other_value
from runner.checks.bought.variants import MOST_SPOTS, Spot, equalities, function_names, spots_of
from runner.checks.harness import is_named, steers_in_part
from runner.checks.mutants import NUMBERS, targets_of
from runner.checks.reports import CaseResult, CommandRun, told_of
from runner.checks.strength import SpoiltCopy
from runner.gate.criterion import ChangedFile, Place, at
from runner.gate.definitions import functions_of
from runner.gate.languages import by_path
from runner.gate.line_map import line_map
from runner.gate.source import Source, open_source, upwards
from tracer.clock import monotonic


async def try_out(
    product: Sequence[ChangedFile],
    mended: Sequence[CaseResult],
    *,
    was: CommandRun | None = None,
    tests: Mapping[str, str],
    request: str,
    copy: tuple[Path, Run],
    whole: Sequence[ChangedFile],
    until: float,
    elsewhere: Callable[[Collection[str]], Awaitable[Collection[str]]],
) -> Tried:
    """Turn conditions of the change round, and retell tests that failed before, with the change and without it.

    `whole` is all of the product that changed, as it stands in the copy and as it was; `product` what of it is tried.
    `was` is the run before. `elsewhere` tells which of some values the unchanged files of the project name.

    Raises:
        OSError: a copy cannot be written.

    """
    told = Retold(mended, tests, product, asked=request)
    trying = _Trying(told, whole, copy, until, names={case.id for case in mended})
    ends, turned = trying.ends, trying.turned
    given = "\n".join(text.decode("utf-8", "replace") for text in told.files.values()) or "\n".join(tests.values())
    spots = spots_of(product, request=request, tests=given)
    states = [spot for spot in spots if spot.kind == "state"]
    try:
        if not told.spans:  # where its tests stand is not known
            found = await _by_state(states, turned)
            return found if found.bought else await _by_build(whole, ends)
        # Before anything else is built here: make starts what is left of that where its sources are gone.
        built = await _by_build(whole, ends)
        own = await _own_values(product, request=request, given=given, elsewhere=elsewhere, ends=ends)
        looks: tuple[Callable[[], Awaitable[Tried]], ...] = (
            lambda: _deaf(told, ends),
            lambda: _by_state(states, turned),
            lambda: as_before(told, product, ends, trying.run_before, was),
            lambda: asyncio.sleep(0, built),
            lambda: unmoved(told, ends),
            lambda: _limited([spot for spot in spots if spot.kind == "value"], turned),
            lambda: _by_equality(product, turned),
            lambda: _deaf_to_one(told, ends),
        )
        for look in looks[: _MAY_REFUSE if own else None]:
            found = await look()
            if found.bought or found.asks:
                return found
        return Tried(asks=own)
    finally:
        trying.restore()


_MAY_REFUSE = 3  # the others only ask


async def try_own(
    product: Sequence[ChangedFile],
    own: Sequence[CaseResult],
    *,
    tests: Mapping[str, str],
    request: str,
    copy: tuple[Path, Run],
    whole: Sequence[ChangedFile],
    fresh: bool,
    until: float,
    elsewhere: Callable[[Collection[str]], Awaitable[Collection[str]]],
    alone: bool = True,
    idle: Sequence[CaseResult] = (),
) -> tuple[Place, ...]:
    """What a person is to judge of tests that a task added for itself: `own` pass with the change alone, `idle` anyhow.

    `whole` is what was changed as it stands in the copy and as it was; `fresh`: it was not there before, and stubs are
    what it was. `alone`: no test that was there is among them. Values that these tests name may be what was asked for,
    so that they refuse nothing.

    Raises:
        OSError: a copy cannot be written.

    """
    told = Retold(own, tests, product, asked=request, alone=True)
    if not told.spans:
        return ()
    every = Retold([*own, *idle], tests, product, asked=request, alone=True) if idle else told
    trying = _Trying(told, whole, copy, until)
    heard = _Trying(every, whole, copy, until) if idle else trying
    ends, turned = trying.ends, trying.turned
    states = [spot for spot in spots_of(product, request=request, tests="") if spot.kind == "state"]
    try:
        looks: tuple[Callable[[], Awaitable[Tried]], ...] = (
            lambda: _deaf(every, heard.ends),
            lambda: _by_state(states, turned),
            lambda: _unrun(product, ends, request=request, tests=tests.values()),
            lambda: _unheld(product, ends, request=request),
            lambda: as_before(told, product, ends, trying.run_before, None, fresh=fresh),
            lambda: unmoved(told, ends),
            lambda: _by_equality(product, turned),
            lambda: _deaf_to_one(told, ends),
            lambda: _unread(tests, ends),
        )
        for look in looks:
            found = await look()
            heard.restore()
            if found.bought or found.asks:
                return (*found.bought, *found.asks)
        given = "\n".join(tests.values())
        return await _own_values(product, request=request, given=given, elsewhere=elsewhere, ends=ends, alone=alone)
    finally:
        trying.restore()


class _Trying:
    """The copy that is tried, and how its tests (`names`, where no file holds them) end with other files in it."""

    def __init__(
        self,
        told: Retold,
        whole: Sequence[ChangedFile],
        copy: tuple[Path, Run],
        until: float,
        *,
        names: Collection[str] = (),
    ) -> None:
        root, self._run = copy
        whole = [file for file in whole if not file.too_large and not (root / file.path).is_symlink()]
        self._before = {file.path: file.before for file in whole}
        tests = {path: text.encode() for path, text in told.tests.items()}
        self._texts = {**tests, **told.files, **{file.path: file.after for file in whole}}
        self._copy = SpoiltCopy(root, self._texts)
        self._names = told.spans or names
        self._until = until
        self.restore = self._copy.restore

    async def ends(self, files: Mapping[str, bytes] | None) -> Ends:
        run = await self._ran(files) if files else None
        if run is None or run.timed_out:
            return {}
        green = {} if run.report.failing or run.exit_code else {GREEN: ""}
        return {name: told_of(name, run) for name in self._names} | green

    async def run_before(self, files: Mapping[str, bytes]) -> CommandRun | None:
        return await self._ran({**self._before, **files})

    async def turned(self, spot: Spot, condition: bytes) -> Ends:
        text = self._texts[spot.path] or b""
        return await self.ends({spot.path: text[: spot.start] + condition + text[spot.end :]})

    async def _ran(self, files: Mapping[str, bytes | None]) -> CommandRun | None:
        return await self._run() if monotonic() <= self._until and self._copy.plant(files) else None


async def _own_values(
    product: Sequence[ChangedFile],
    *,
    request: str,
    given: str,
    elsewhere: Callable[[Collection[str]], Awaitable[Collection[str]]],
    ends: Callable[[Mapping[str, bytes] | None], Awaitable[Ends]],
    alone: bool = False,
) -> tuple[Place, ...]:
    """Whether tests fail again where the change decides by other values than some that nobody named, or lacks data.

    `alone`: the tests are of the task itself. What they name may be what was asked for: all such values, a number among
    them, are theirs then, where there are two at least or a whole example.
    """
    before = "\n".join((file.before or b"").decode("utf-8", "replace") for file in product)
    asked = without_examples(request)
    found: dict[tuple[str, int], list[tuple[Edit, str]]] = {}
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        source = None if lines is None or file.after is None else open_source(file.path, file.after)
        if lines is not None and source is not None and source.tree is not None and source.text == file.after:
            for edit, value in unnamed(source, lines.added, request=asked, before=before, given=given):
                found.setdefault((file.path, source.line_at(edit[0])), []).append((edit, value))
    known = await elsewhere({value for edits in found.values() for _, value in edits}) if found else ()
    if alone:
        left = {value for edits in found.values() for _, value in edits} - {*known}
        # Words alone may be the modes that there are.
        answers = any(value[0].isdigit() or is_data(value) for value in left)
        several = answers and len(left) >= _LEAST_OWN
        whole = any(is_example(value, parts=3) for value in left)
        if not (several or whole) or not all(is_named(value, given) for value in left):
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
    if not texts or not breaks(await ends(texts)):
        return ()
    path, line, what = places[0]
    is_asked = is_named(what.partition(", ")[0], request)
    nobody = "only examples name" if is_asked else "neither the request nor the code named"
    told = f"the tests pass by a value that {nobody}: {what}"
    return (at("bought", told, path=path, line=line, suggestion="make it right for every input"),)


_LEAST_OWN = 2


def _is_new_data(file: ChangedFile, request: str) -> bool:
    language = by_path(file.path)
    code = language is not None and language.functions
    return file.before is None and not code and not is_named(Path(file.path).stem, request)


Run = Callable[[], Awaitable[CommandRun]]
_Turned = Callable[[Spot, bytes], Awaitable[Ends]]


async def _deaf(told: Retold, ends: Callable[[Mapping[str, bytes] | None], Awaitable[Ends]]) -> Tried:
    """Whether tests pass whatever values they expect, two times."""
    deaf, _ = await expecting_others(told, ends)
    what = f"tests pass whatever they expect: {', '.join(sorted(deaf))}"
    place = at("bought", what, suggestion="leave the tests and what runs them alone")
    return Tried(bought=(place,)) if deaf else Tried()


async def _deaf_to_one(told: Retold, ends: Callable[[Mapping[str, bytes] | None], Awaitable[Ends]]) -> Tried:
    """Whether tests pass whatever one of their values is, by an equality that the change made: it may be a wide one."""
    deaf = set[str]()
    if any(_EQUALS.search(line) for file in told.product for line in added_in(file)):
        for only in range(_MOST_VALUES):
            heard = await ends(told.files_with("expected", -1, only=only))
            deaf |= {name for name, end in heard.items() if end == "passed" and name in told.varied - told.unplaced}
    what = f"tests pass whatever a value of theirs is: {', '.join(sorted(deaf))}"
    place = at("bought", what, suggestion="let the equality tell one value from another")
    return Tried(asks=(place,)) if deaf else Tried()


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


async def _by_state(spots: Sequence[Spot], turned: _Turned) -> Tried:
    for spot in spots:
        if breaks(await turned(spot, spot.turned[0])):
            what, advice = f"works by what runs it: {spot.told}", "do the same whoever runs the code"
            return Tried(bought=(at("bought", what, path=spot.path, line=spot.line, suggestion=advice),))
    return Tried()


async def _by_build(whole: Sequence[ChangedFile], ends: Callable[[Mapping[str, bytes]], Awaitable[Ends]]) -> Tried:
    """Whether tests fail again where what builds the project is as it was: with it, not by the code, they pass."""
    before = {file.path: file.before for file in whole if file.before is not None and steers_in_part(file.path)}
    ended = await ends(before)
    if not any(end not in {"passed", "gone"} for name, end in ended.items() if name != GREEN):
        return Tried()  # what no longer builds tells nothing
    what = "the tests pass only as this was changed"
    return Tried(asks=(at("bought", what, path=next(iter(before)), suggestion="change the code, not how it is built"),))


async def _by_equality(product: Sequence[ChangedFile], turned: _Turned) -> Tried:
    """Whether tests pass by how their objects compare with things of another kind."""
    for spot in islice(equalities(product), MOST_SPOTS):
        if breaks(await turned(spot, spot.turned[0])) and not (
            spot.turned[1:] and GREEN in await turned(spot, spot.turned[1])
        ):
            what = f"passes by an equality of its own with other things: {spot.told}"
            return Tried(asks=(at("bought", what, path=spot.path, line=spot.line, suggestion="serve everybody alike"),))
    return Tried()


async def _limited(spots: Sequence[Spot], turned: _Turned) -> Tried:
    for spot in spots:
        if breaks(await turned(spot, spot.turned[0])) and GREEN in await turned(spot, spot.turned[1]):
            what = f"limited to a value that no test asks for: {spot.told}"
            return Tried(asks=(at("bought", what, path=spot.path, line=spot.line, suggestion="drop the limit"),))
    return Tried()


async def _unread(tests: Mapping[str, str], ends: Callable[[Mapping[str, bytes]], Awaitable[Ends]]) -> Tried:
    """Whether tests pass with nothing in the files of data that they name: they write themselves what they expect."""
    code = {path for path in tests if (known := by_path(path)) is not None and known.functions}
    given = "\n".join(tests[path] for path in code)
    named = [path for path in tests if path not in code and tests[path] and is_word_of(Path(path).name, given)]
    what = f"its own tests pass with nothing in {', '.join(named)}"
    unread = GREEN in await ends(dict.fromkeys(named, b""))
    return Tried(asks=(at("idle", what, suggestion="let the tests read what they expect"),) if unread else ())


async def _unrun(
    product: Sequence[ChangedFile],
    ends: Callable[[Mapping[str, bytes] | None], Awaitable[Ends]],
    *,
    request: str,
    tests: Iterable[str],
) -> Tried:
    """Whether a function that the request names is new, and no test fails where it does nothing, or none names it."""
    named, known = _requested(request), _known(product)
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


def _requested(request: str) -> set[str]:
    return words_in_code(request) | {*CALLED.findall(request)}


def _known(product: Sequence[ChangedFile]) -> set[str]:
    return {name for file in product for name in function_names(file.path, file.before)}


async def _unheld(
    product: Sequence[ChangedFile],
    ends: Callable[[Mapping[str, bytes] | None], Awaitable[Ends]],
    *,
    request: str,
) -> Tried:
    """Whether all is green with other values in each new function that the request names: tests ask for a kind only."""
    wanted, held = _requested(request) - _known(product), list[str]()
    texts: dict[str, bytes] = {}
    for file in product:
        source = open_source(file.path, file.after) if file.after else None
        functions = functions_of(source) if source is not None and source.tree is not None else ()
        spans = {one.node.byte_range for one in functions if one.name in wanted}
        found = set(_values_in(source, spans)) if source is not None and spans else set()
        if found:
            texts[file.path] = edited(file.after or b"", found)
            held += [(file.after or b"")[start:end].decode("utf-8", "replace") for start, end, _ in sorted(found)]
    unheld = bool(texts) and GREEN in await ends(texts)
    what = f"its own tests pass with any other value in place of {', '.join(held[:_MOST_VALUES])}"
    return Tried(asks=(at("idle", what, suggestion="let a test tell what comes out"),) if unheld else ())


def _values_in(source: Source, spans: Collection[tuple[int, int]]) -> Iterator[Edit]:
    """Other values for those within, but for such as are told to a person, or stand for nothing and the first one."""
    for turn, node in enumerate(source.nodes(kinds_known(source, (*NUMBERS, *source.language.strings)))):
        inside = any(start <= node.start_byte < end for start, end in spans)
        told = inside and any(_TELLS.search(_head(above)) for above in upwards(node.parent))
        made = other_value(text_of(node), turn) if inside and not told and text_of(node) not in _LEAST else ""
        if made:
            yield node.start_byte, node.end_byte, made.encode()


def _head(node: tree_sitter.Node) -> str:
    return f"{node.type} {text_of(node)[:_HEAD]}" if node.type in CALLS or "statement" in node.type else node.type


_HEAD = 40
_LEAST = frozenset({"0", "1", "2", "-1"})
_TELLS = re.compile(r"(?i)^\w*(?:raise|throw|assert)|^\w+ [\w.:$!]*(?:error|exception|panic|warn|log|print|echo|fail)")


def _is_given(name: str, file: ChangedFile) -> bool:
    """Whether the change makes a name another one for something."""
    given = re.compile(rf"^\s*(?:\w+\s+)*(?:\w+\.)*{name}\s*(?::[^=\n]+)?=(?!=)|\balias(?:_method)?\s+:?{name}\b")
    return any(given.search(line) for line in added_in(file))
