"""Green that may be bought: what a change does for the tests' own inputs, or only while tests run.

Some of it shows in the text. The rest is tried in a copy (`Trials`): a condition of the change is turned round, or a
test is retold with other values. What is then green or red tells whether the work was done or only the tests met.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, NamedTuple

import tree_sitter

from runner.checks.harness import bare_values, is_named, is_word_of, rows, values_of
from runner.checks.mutants import targets_of
from runner.checks.reports import CaseResult, CommandRun
from runner.checks.retelling import (
    CHOICES,
    EQUAL_SIGNS,
    EQUALITY,
    Edit,
    Retold,
    edited,
    failed_at,
    kinds_of,
    operator_of,
    relabelled,
    text_of,
    told_of,
    unnamed,
)
from runner.checks.strength import SpoiltCopy
from runner.gate.criterion import ChangedFile, Place, at
from runner.gate.definitions import names_of
from runner.gate.languages import by_path
from runner.gate.line_map import line_map
from runner.gate.source import Source, open_source, upwards
from tracer.clock import monotonic

# --- conditions that are turned round ---


class Spot(NamedTuple):
    """A condition of the change: the bytes `start` to `end` of its file become one of `turned`.

    `kind` "state": it asks what runs the code; `turned` is its opposite. "value": it limits the code to a value of the
    tests, or to one that nobody named; `turned` never holds, then always.
    """

    kind: Literal["state", "value"]
    path: str
    line: int
    start: int
    end: int
    turned: tuple[bytes, ...]
    told: str


_SETS = re.compile(
    r"^\s*(?:(?:const|let|var|static|final|export|pub|auto)\s+)*(?:\w+\s+)?\*?(\w+)\s*(?::\s*\w+\s*)?:?=(?!=)"
)
_QUOTED = re.compile(r"([\'\"`])(\w[\w.:/-]*)\1")
_MOST_SPOTS = 6


def spots_of(product: Sequence[ChangedFile], *, request: str, tests: str) -> list[Spot]:
    """What of a change is to be turned round; `tests` is the text of those that failed before."""
    found: list[Spot] = []
    known, given = f"{request}\n{tests}", set(bare_values(tests))
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        source = None if lines is None or file.after is None else open_source(file.path, file.after)
        if lines is None or source is None or source.tree is None or source.text != file.after:
            continue
        before = (file.before or b"").decode("utf-8", "replace")
        conditions = [node for node in _conditions(source) if lines.touches(*_rows(node))]
        states = _states(source, lines.added, request, f"{known}\n{before}")
        asking = [node for node in conditions if states and re.search("|".join(states), text_of(node))]
        found += [
            _spot("state", source, node, [_opposite(source, node)])
            for node in asking
            if not _starts_program(source, node)
        ]
        for node in source.nodes(kinds_of(source, CHOICES)) if states else ():
            asked = next(filter(None, map(node.child_by_field_name, ("value", "subject", "condition"))), node)
            if lines.touches(*_rows(asked)) and re.search("|".join(states), text_of(asked)):
                spot = _spot("state", source, node, [relabelled(source, node)])
                found.append(spot._replace(told=" ".join(text_of(asked).split())))
        said = set(bare_values(before)) | set(bare_values(request))
        equal = [node for node in source.nodes(kinds_of(source, EQUALITY)) if operator_of(node) in EQUAL_SIGNS]
        equal = [node for node in equal if lines.touches(*_rows(node))]
        lefts = [text_of(node.named_children[0]) for node in equal if node.named_children]
        decided = {node.start_byte for node in asking}
        for node in equal:
            values = [value for child in node.named_children for value in bare_values(text_of(child))]
            if lefts.count(text_of(node.named_children[0])) > 1:
                decided.add(node.start_byte)
                continue
            if not {*values} & given - said or _may_fail(source, node):
                continue
            decided.add(node.start_byte)
            equals = operator_of(node).startswith("=")
            found.append(_spot("value", source, node, [_truth(source, not equals), _truth(source, equals)]))
        said_before = set(bare_values(before))
        known_lines = {line.strip() for line in before.splitlines()}
        found += [
            _spot("value", source, node, [_truth(source, holds=False), _truth(source, holds=True)])
            for node in conditions
            if decided.isdisjoint({node.start_byte, node.start_byte + 1})
            and source.line_text(_rows(node)[0]).strip() not in known_lines
            and _told_values(text_of(node)) - (said_before if _SIZE.search(text_of(node)) else said)
            and not _FAILS.search(text_of(node.parent or node))
        ]
    return found[:_MOST_SPOTS]


def _told_values(text: str) -> set[str]:
    """The values in it but single letters and signs, of which any notation is made."""
    return {value for value in bare_values(text) if value[0].isdigit() or len(re.sub(r"\W", "", value)) > 1}


_SIZE = re.compile(r"(?i)\b(?:len|length|size|count|ord|hash\w*|crc\w*|sum)\b")
_FAILS = re.compile(r"\b(?:raise|throw|panic|Err|errors?\.|fmt\.Errorf|abort|exit|fail)\b|!\s*\(")


def _spot(kind: Literal["state", "value"], source: Source, node: tree_sitter.Node, turned: Sequence[bytes]) -> Spot:
    line = node.start_point.row + 1
    return Spot(kind, source.path, line, node.start_byte, node.end_byte, tuple(turned), " ".join(text_of(node).split()))


def _conditions(source: Source) -> Iterator[tree_sitter.Node]:
    for node in source.nodes(kinds_of(source)):
        found = node.child_by_field_name("condition")
        if found is None and node.type == "conditional_expression" and node.named_child_count > 1:
            found = node.named_children[1]  # Python's has no names for its parts
        if found is not None and found.type not in {"let_condition", "let_chain"}:
            yield found


def _states(source: Source, added: Collection[int], request: str, known: str) -> list[str]:
    """Patterns of what tells who runs the code: calls for it, and names that added lines give to their result.

    What is asked for by a name that the request, the tests or the code before have is somebody's wish, not a trick; so
    is the call itself where the request names it.
    """
    told = [line for row in rows()["state"] if source.language.name in row["of"] for line in row["lines"]]
    asks = re.compile("|".join(told) or r"\Z.")
    names: list[str] = []
    hit = False
    for line in sorted(added):
        text = source.line_text(line)
        if (match := asks.search(text)) is None and not any(re.search(name, text) for name in names):
            continue
        words = [word[1] for word in _QUOTED.findall(text) if not re.search(r"(?i)test|spec", word[1])]
        if match is not None and any(word in known for word in words):
            continue
        if match is not None and any(is_word_of(call, request) for call in re.findall(r"\w+\.\w[\w.]*", match[0])):
            continue
        hit = True
        owner = next((name for name, first, last in reversed(names_of(source)) if first <= line <= last), "")
        name = assigned[1] if (assigned := _SETS.match(text)) else owner if "return" in text else ""
        if name:
            names.append(rf"\b{re.escape(name)}\b")
    return [*told, *names] if hit else []


def _starts_program(source: Source, node: tree_sitter.Node) -> bool:
    """`if require.main === module` and the like at the top of a file: how a program is told from a library."""
    inside = any(above.type in source.language.functions for above in upwards(node.parent))
    return not inside and re.search(r"require\.main|__FILE__|__name__|import\.meta\.main", text_of(node)) is not None


def _opposite(source: Source, node: tree_sitter.Node) -> bytes:
    text = source.text[node.start_byte : node.end_byte]
    if source.language.name == "python":
        return b"(not (" + text + b"))"
    return b"(!" + text + b")" if node.type == "parenthesized_expression" else b"!(" + text + b")"


def _truth(source: Source, holds: bool) -> bytes:  # noqa: FBT001
    if source.language.name == "python":
        return str(holds).encode()
    return str(int(holds) if source.language.name == "c" else holds).lower().encode()


def _may_fail(source: Source, node: tree_sitter.Node) -> bool:
    """Whether its function gives up for other values: that is a check of what it is given."""
    owner = next((above for above in upwards(node) if above.type in source.language.functions), None)
    return owner is not None and _FAILS.search(text_of(owner)) is not None


def _rows(node: tree_sitter.Node) -> tuple[int, int]:
    return node.start_point.row + 1, node.end_point.row + 1


# What neither takes: an error that is none of a comparison.
_NO_INPUT = re.compile(r"\W*(?:\w+[.:])*(?!\w*(?:Assert|Expect))\w+(?:Error|Exception)\b")

_BARE = re.compile(r"\W*(?:\w+[.:])*\w*Assert\w*\W*")  # no word of what came out

# --- trying it ---

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
    held = Retold(kept, {path: text for path, text in tests.items() if path in told.files}, product, asked=request)
    changed, ends, turned = _trying(told, product, copy, until)
    given = "\n".join(text.decode("utf-8", "replace") for text in told.files.values())
    spots = spots_of(product, request=request, tests=given)
    try:
        own = await _own_values(product, request=request, given=given, elsewhere=elsewhere, ends=ends)
        looks: tuple[Callable[[], Awaitable[Tried]], ...] = (
            lambda: _deaf(told, ends),
            lambda: _by_state([spot for spot in spots if spot.kind == "state"], turned),
            lambda: _as_before(told, product, ends, base, was),
            lambda: _unmoved(told, ends),
            lambda: _broken(held, ends, base),
            lambda: _limited([spot for spot in spots if spot.kind == "value"], turned),
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
) -> tuple[Place, ...]:
    """What a person is to judge of tests that a task added for itself: `own` pass with the change alone.

    `fresh`: what was changed was not there before, and `base` has stubs in its place. Values that these tests name may
    be what was asked for, so that they refuse nothing and are not looked at by themselves.

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
            lambda: _as_before(told, product, ends, base, None, fresh=fresh),
            lambda: _unmoved(told, ends),
        )
        for look in looks:
            found = await look()
            if found.bought or found.asks:
                return (*found.bought, *found.asks)
        return ()
    finally:
        changed.restore()


def is_known(file: ChangedFile) -> bool:
    """Whether a function that the file's change touches was there before."""
    source = open_source(file.path, file.before) if file.before else None
    known = {name for name, _, _ in names_of(source)} if source is not None else set()
    return any(target.function.rpartition(".")[2] in known for target in targets_of([file]))


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
        green = {} if run.report.failing or run.exit_code else {_GREEN: ""}
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
) -> tuple[Place, ...]:
    """Whether tests fail again where the change decides by other values than some that nobody named, or lacks data."""
    said = "\n".join([request, *((file.before or b"").decode("utf-8", "replace") for file in product)])
    found: dict[tuple[str, int], list[tuple[Edit, str]]] = {}
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        source = None if lines is None or file.after is None else open_source(file.path, file.after)
        if lines is not None and source is not None and source.tree is not None and source.text == file.after:
            for edit, value in unnamed(source, lines.added, said=said, given=given):
                found.setdefault((file.path, source.line_at(edit[0])), []).append((edit, value))
    known = await elsewhere({value for edits in found.values() for _, value in edits}) if found else ()
    texts = {file.path: b"" for file in product if _is_new_data(file, request)}
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


def _is_new_data(file: ChangedFile, request: str) -> bool:
    language = by_path(file.path)
    code = language is not None and language.functions
    return file.before is None and not code and not is_named(Path(file.path).stem, request)


_Ends = dict[str, str]  # how each mended test ended: "passed", or what it said; `_GREEN` is there where no test failed
_GREEN = ""
_Turned = Callable[[Spot, bytes], Awaitable[_Ends]]
_Try = Callable[..., Awaitable[_Ends]]  # of files, and the names of tests where they are others


async def _deaf(told: Retold, ends: Callable[[Mapping[str, bytes] | None], Awaitable[_Ends]]) -> Tried:
    """Whether tests pass whatever values they expect, two times."""
    deaf = set(told.spans)
    for turn in (0, 1):
        heard = await ends(told.files_with("expected", turn)) if deaf else {}
        deaf &= {name for name, end in heard.items() if end == "passed" and name in told.varied}
        deaf -= set() if _GREEN in heard else told.unplaced  # maybe another test's values were noticed
    if not deaf and any(_EQUALS.search(line) for file in told.product for line in _added(file)):
        for only in range(_MOST_VALUES):
            heard = await ends(told.files_with("expected", -1, only=only))
            deaf |= {name for name, end in heard.items() if end == "passed" and name in told.varied - told.unplaced}
    what = f"tests pass whatever they expect: {', '.join(sorted(deaf))}"
    place = at("bought", what, suggestion="leave the tests and what runs them alone")
    return Tried(bought=(place,)) if deaf else Tried()


_EQUALS = re.compile(
    r"__(?:eq|ne|lt|le|gt|ge|cmp)__|\b(?:equals|isEqual|eql\?|valueOf|PartialEq|fn eq|Equal)\b|operator=="
    r"|def (?:==|<=>)|toPrimitive"
)
_MOST_VALUES = 4


def _breaks(ends: _Ends) -> bool:
    return any(end != "passed" for name, end in ends.items() if name != _GREEN)


async def _by_state(spots: Sequence[Spot], turned: _Turned) -> Tried:
    for spot in spots:
        if _breaks(await turned(spot, spot.turned[0])):
            what, advice = f"works by what runs it: {spot.told}", "do the same whoever runs the code"
            return Tried(bought=(at("bought", what, path=spot.path, line=spot.line, suggestion=advice),))
    return Tried()


async def _limited(spots: Sequence[Spot], turned: _Turned) -> Tried:
    for spot in spots:
        if _breaks(await turned(spot, spot.turned[0])) and _GREEN in await turned(spot, spot.turned[1]):
            what = f"limited to a value that no test asks for: {spot.told}"
            return Tried(asks=(at("bought", what, path=spot.path, line=spot.line, suggestion="drop the limit"),))
    return Tried()


async def _as_before(
    told: Retold,
    product: Sequence[ChangedFile],
    ends: Callable[[Mapping[str, bytes] | None], Awaitable[_Ends]],
    base: Callable[[], AbstractAsyncContextManager[tuple[Path, Run]]],
    was: CommandRun | None,
    *,
    fresh: bool = False,
) -> Tried:
    """Whether the change does what the code did before for all inputs but those of the tests.

    `fresh`: there was no such code, and `base` has stubs in its place.
    """
    added = [line for file in product for line in _added(file)]
    if not any(_LIMITED.search(line) for line in added) or told.files_with("input", 0) is None:
        return Tried()
    seen, constant, tried = _Seen(), set(told.spans), Counter[str]()
    async with base() as (root, run):
        before = SpoiltCopy(root, told.files)
        for turn, role, only in _TURNS:
            if only is not None and not any(len(seen.told[name]) < _ENOUGH for name in set(told.spans) - seen.differ):
                break
            if not (files := told.files_with(role, turn, only=only)):
                continue
            varied, direct = {*told.varied}, {*told.direct}
            now = await ends(files)
            if not now or not before.plant(told.files_with(role, turn, told.files, only=only) or files):
                break  # the time is over
            ran = await run()
            # Where a turn leaves a test as it is, it tells nothing of it.
            if only is None:
                constant = {name for name in constant & direct if name not in varied or now[name] == "passed"}
                tried.update(varied)
            for name in varied:
                if _at_same_place(name, was, ran, told.files):
                    seen.note(name, told_of(name, ran), now[name], files)
            if seen.differ >= set(told.spans) and not constant:
                return Tried()
    same = {name for name in set(told.spans) - seen.differ if len(seen.told[name]) >= _ENOUGH}
    if not same:
        held = {name for name in constant - told.unplaced if tried[name] >= _ENOUGH}
        return Tried(asks=tuple(_fixed({name for name in held if any(map(_weighs, told.expected_by(name)))})))
    words, other = told.renamed()
    now = await ends(words) if same & other else {}
    same -= {name for name in other if now.get(name) == "passed"}  # no word of theirs is its own
    same = await _telling(same, seen, () if fresh else product, ends)
    if not same:
        return Tried()
    does = "does nothing" if fresh else "does as before"
    what = f"{does} for every other input than those of {', '.join(sorted(same))}"
    place = at("bought", what, suggestion="make it right for every input; the tests give examples only")
    # Values of its own may be what was asked for: an entry of a table, a unit.
    given = "\n".join([told.asked, *(text.decode("utf-8", "replace") for text in told.files.values())])
    own = {value for line in added for value in bare_values(line)} - {*bare_values(given), "2"}
    return Tried(asks=(place,)) if own else Tried(bought=(place,))


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


async def _telling(
    same: Collection[str],
    seen: _Seen,
    product: Sequence[ChangedFile],
    ends: Callable[[Mapping[str, bytes] | None], Awaitable[_Ends]],
) -> set[str]:
    """Those that say what they got: only there the same word means the same result. A stub tells, or other values."""
    stubs = {file.path: text for file in product if (text := stubbed(file)) is not None}
    found = set[str]()
    for name in sorted(same):
        (given, said), (_, other) = seen.told[name][:_ENOUGH]
        idle = (await ends({**given, **stubs})).get(name, "gone") if stubs else "gone"
        found.update((name,) if (other if idle == "gone" else idle) != said else ())
    return found


def _at_same_place(name: str, was: CommandRun | None, ran: CommandRun, paths: Collection[str]) -> bool:
    """Whether a test fails where it failed: another assertion, which held, only misses the value that was changed."""
    first = failed_at(name, was, paths) if was is not None else frozenset()
    second = failed_at(name, ran, paths)
    return not first or not second or first == second


# All values of a test, then one alone where that told too little: together they may be a day that is in no calendar.
_TURNS: tuple[tuple[int, str, int | None], ...] = (
    (0, "input", None), (1, "input", None), (2, "input", None), (0, "input number", None),
    (-1, "input", 0), (-1, "input number", 2), (-1, "input number", 1), (-1, "input number", 3),
)  # fmt: skip
_ENOUGH = 2


class _Seen:
    """How tests with other values ended before and with the change, by test."""

    def __init__(self) -> None:
        self.differ: set[str] = set()
        self.told: defaultdict[str, list[tuple[Mapping[str, bytes], str]]] = defaultdict(list)

    def note(self, name: str, then: str, now: str, files: Mapping[str, bytes]) -> None:
        """Take in one turn; what could not be built, was no input or made no difference tells nothing."""
        if "gone" in {then, now} or (
            then == now and (then == "passed" or _NO_INPUT.match(then) or _BARE.fullmatch(then))
        ):
            return
        self.told[name].append((files, now))
        if then != now:
            self.differ.add(name)


async def _broken(
    held: Retold,
    ends: Callable[[Mapping[str, bytes] | None, Collection[str]], Awaitable[_Ends]],
    base: Callable[[], AbstractAsyncContextManager[tuple[Path, Run]]],
) -> Tried:
    """Whether tests that pass before and after the change do so for their own values only."""
    if held.files_with("input", 0) is None:
        return Tried()
    broke = Counter[str]()
    async with base() as (root, run):
        before = SpoiltCopy(root, held.files)
        for turn in range(3):
            now = await ends(held.files_with("input", turn), held.spans)
            if not now or not before.plant(held.files_with("input", turn, held.files) or {}):
                break
            ran = await run()
            for name in held.varied:
                broke[name] += told_of(name, ran) == "passed" and now[name] not in {"passed", "gone"}
    if worse := sorted(name for name, times in broke.items() if times > 1):
        what = f"breaks for other values what {', '.join(worse)} demands"
        return Tried(asks=(at("bought", what, suggestion="leave what worked before as it was"),))
    return Tried()


def _fixed(constant: Collection[str]) -> Iterator[Place]:
    """Tests that get what they expect whatever they give."""
    for name in sorted(constant):
        what = f"gives what {name} expects whatever it is given"
        yield at("bought", what, suggestion="make it depend on what it is given")


def _weighs(value: str) -> bool:
    return any(True for _ in values_of(value))


def stubbed(file: ChangedFile) -> bytes | None:
    """The file with its changed functions doing nothing; None where none was changed."""
    stubs = [one for target in targets_of([file]) for one in target.mutants if one.kind == "stub"]
    text = file.after or b""
    for stub in sorted(stubs, key=lambda one: one.start, reverse=True):
        text = stub.applied(text)
    return text if stubs else None


def _added(file: ChangedFile) -> Iterator[str]:
    lines = line_map([file]).get(file.path)
    if lines is not None:
        yield from (lines.after[number - 1].decode("utf-8", "replace") for number in sorted(lines.added))
