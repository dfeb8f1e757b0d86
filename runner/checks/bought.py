"""Green that may be bought: what a change does for the tests' own inputs, or only while tests run.

Some of it shows in the text. The rest is tried in a copy (`Trials`): a condition of the change is turned round, or a
test is retold with other values. What is then green or red tells whether the work was done or only the tests met.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import takewhile
from pathlib import Path
from typing import Literal, NamedTuple

import tree_sitter

from runner.checks.harness import place_of, rows, values_of
from runner.checks.mutants import NUMBERS, targets_of
from runner.checks.reports import CaseResult, CommandRun
from runner.checks.strength import SpoiltCopy
from runner.gate.criterion import ChangedFile, Place, at
from runner.gate.definitions import names_of
from runner.gate.file_roles import is_test_file
from runner.gate.languages import grammar
from runner.gate.line_map import line_map
from runner.gate.source import Source, open_source, upwards
from tracer.clock import monotonic

# --- conditions that are turned round ---


class Spot(NamedTuple):
    """A condition of the change: the bytes `start` to `end` of its file become one of `turned`.

    `kind` "state": it asks what runs the code; `turned` is its opposite. "value": it limits the code to a value of the
    tests; `turned` never holds, then always.
    """

    kind: Literal["state", "value"]
    path: str
    line: int
    start: int
    end: int
    turned: tuple[bytes, ...]
    told: str


_CONDITIONAL = (
    "if_statement", "elif_clause", "if_expression", "conditional_expression", "ternary_expression", "while_statement",
    "if", "elsif", "unless", "if_modifier", "unless_modifier", "conditional",
)  # fmt: skip
_EQUALITY = ("comparison_operator", "binary_expression", "binary")
_SETS = re.compile(
    r"^\s*(?:(?:const|let|var|static|final|export|pub|auto)\s+)*(?:\w+\s+)?\*?(\w+)\s*(?::\s*\w+\s*)?:?=(?!=)"
)
_QUOTED = re.compile(r"([\'\"`])(\w[\w.:/-]*)\1")
_MOST_SPOTS = 6


def spots_of(product: Sequence[ChangedFile], *, request: str, tests: str) -> list[Spot]:
    """What of a change is to be turned round; `tests` is the text of those that failed before."""
    found: list[Spot] = []
    known, given = f"{request}\n{tests}", set(_bare(tests))
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        source = None if lines is None or file.after is None else open_source(file.path, file.after)
        if lines is None or source is None or source.tree is None or source.text != file.after:
            continue
        before = (file.before or b"").decode("utf-8", "replace")
        conditions = [node for node in _conditions(source) if lines.touches(*_rows(node))]
        states = _states(source, lines.added, f"{known}\n{before}")
        asking = [node for node in conditions if states and re.search("|".join(states), _text(node))]
        found += [
            _spot("state", source, node, [_opposite(source, node)])
            for node in asking
            if not _starts_program(source, node)
        ]
        said = set(_bare(before)) | set(_bare(request))
        equal = [node for node in source.nodes(_kinds(source, _EQUALITY)) if _operator(node) in _TRUE]
        equal = [node for node in equal if lines.touches(*_rows(node))]
        lefts = [_text(node.named_children[0]) for node in equal if node.named_children]
        for node in equal:
            values = [value for child in node.named_children for value in _bare(_text(child))]
            if (
                not {*values} & given - said
                or lefts.count(_text(node.named_children[0])) > 1
                or _may_fail(source, node)
            ):
                continue
            equals = _operator(node).startswith("=")
            found.append(_spot("value", source, node, [_truth(source, not equals), _truth(source, equals)]))
    return found[:_MOST_SPOTS]


_TRUE = frozenset({"==", "===", "!=", "!=="})
_FAILS = re.compile(r"\b(?:raise|throw|panic|Err|errors?\.|fmt\.Errorf|abort|exit|fail)\b|!\s*\(")


def _spot(kind: Literal["state", "value"], source: Source, node: tree_sitter.Node, turned: Sequence[bytes]) -> Spot:
    line = node.start_point.row + 1
    return Spot(kind, source.path, line, node.start_byte, node.end_byte, tuple(turned), " ".join(_text(node).split()))


def _conditions(source: Source) -> Iterator[tree_sitter.Node]:
    for node in source.nodes(_kinds(source)):
        found = node.child_by_field_name("condition")
        if found is None and node.type == "conditional_expression" and node.named_child_count > 1:
            found = node.named_children[1]  # Python's has no names for its parts
        if found is not None and found.type not in {"let_condition", "let_chain"}:
            yield found


def _kinds(source: Source, wanted: Sequence[str] = _CONDITIONAL) -> tuple[str, ...]:
    """Those that the grammar knows."""
    known = grammar(source.language)
    return tuple(kind for kind in wanted if known.id_for_node_kind(kind, True))  # noqa: FBT003 - takes no keyword


def _states(source: Source, added: Collection[int], known: str) -> list[str]:
    """Patterns of what tells who runs the code: calls for it, and names that added lines give to their result.

    What the request, the tests or the code before names is somebody's wish, not a trick.
    """
    asks = re.compile("|".join(row for row in rows()["state"][0]["lines"]))
    names: list[str] = []
    hit = False
    for line in sorted(added):
        text = source.line_text(line)
        if (match := asks.search(text)) is None and not any(re.search(name, text) for name in names):
            continue
        words = [word[1] for word in _QUOTED.findall(text) if not re.search(r"(?i)test|spec", word[1])]
        if match is not None and any(word in known for word in words):
            continue
        hit = True
        owner = next((name for name, first, last in reversed(names_of(source)) if first <= line <= last), "")
        name = assigned[1] if (assigned := _SETS.match(text)) else owner if "return" in text else ""
        if name:
            names.append(rf"\b{re.escape(name)}\b")
    return [*(row for row in rows()["state"][0]["lines"]), *names] if hit else []


def _starts_program(source: Source, node: tree_sitter.Node) -> bool:
    """`if require.main === module` and the like at the top of a file: how a program is told from a library."""
    inside = any(above.type in source.language.functions for above in upwards(node.parent))
    return not inside and re.search(r"require\.main|__FILE__|__name__|import\.meta\.main", _text(node)) is not None


def _opposite(source: Source, node: tree_sitter.Node) -> bytes:
    text = source.text[node.start_byte : node.end_byte]
    if source.language.name == "python":
        return b"(not (" + text + b"))"
    return b"(!" + text + b")" if node.type == "parenthesized_expression" else b"!(" + text + b")"


def _truth(source: Source, holds: bool) -> bytes:  # noqa: FBT001
    if source.language.name == "python":
        return str(holds).encode()
    return str(int(holds) if source.language.name == "c" else holds).lower().encode()


def _operator(node: tree_sitter.Node) -> str:
    found = node.child_by_field_name("operator")
    if found is not None:
        return _text(found)
    marks = [child.type for child in node.children if not child.is_named]
    return marks[0] if len(marks) == 1 and node.named_child_count == 2 else ""


def _may_fail(source: Source, node: tree_sitter.Node) -> bool:
    """Whether its function gives up for other values: that is a check of what it is given."""
    owner = next((above for above in upwards(node) if above.type in source.language.functions), None)
    return owner is not None and _FAILS.search(_text(owner)) is not None


def _rows(node: tree_sitter.Node) -> tuple[int, int]:
    return node.start_point.row + 1, node.end_point.row + 1


def _text(node: tree_sitter.Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _bare(text: str) -> Iterator[str]:
    """Every literal but 0 and 1, the small ones too."""
    for match in re.finditer(r"(['\"`])([^'\"`\n]+)\1|(?<![\w.])\d+(?:\.\d+)?(?![\w.])", text):
        if match[0] not in {"0", "1"}:
            yield match[2] or match[0]


# --- tests that are retold ---

_CALLS = frozenset({"call", "call_expression", "method_invocation", "new_expression", "object_creation_expression"})
_COMPARES = re.compile(r"(?i)equal|^eql?$|^is$|^same|tobe|^be$|_eq$|_ne$|matches?$|contains?$|include")
_WITHIN = frozenset({
    "list", "tuple", "set", "array", "array_expression", "argument_list", "arguments", "parenthesized_expression",
    "reference_expression", "unary_operator", "unary_expression", "unary", "literal_value", "literal_element",
    "composite_literal", "token_tree", "expression_list", "initializer_list", "macro_invocation", "argument",
    "element_list", "dictionary", "object", "pair", "hash", "keyword_argument",
})  # fmt: skip


Edit = tuple[int, int, bytes]


def edits_of(source: Source, span: tuple[int, int], called: Collection[str], *, role: str, turn: int) -> Iterator[Edit]:
    """Other values within `span`: for "input" (or "input number") to what is `called`, or for what is "expected".

    Each `turn` gives others. What is expected is not changed alike everywhere: some tests would hold again.
    """
    kinds = _kinds(source, (*NUMBERS, *source.language.strings))
    for number, node in enumerate(source.nodes(kinds)):
        numeric = _text(node)[:1].isdigit()
        if span[0] <= node.start_byte < span[1]:
            wanted = role.removesuffix(" number")
            if _brings_in(node) if wanted == "any" else _role(node, called) != wanted:
                continue
            if role.endswith("number") and not numeric:
                continue
            made = _other(_text(node), turn + number if role == "expected" else turn)
            if made:
                yield node.start_byte, node.end_byte, made.encode()


def _brings_in(node: tree_sitter.Node) -> bool:
    """Whether a literal names a file or a package that is made known."""
    return any(_BRINGS_IN.search(above.type) or _callee(above, node) in _LOADS for above in upwards(node.parent))


_BRINGS_IN = re.compile(r"import|include|preproc|package|attribute|decorator|\buse_")
_LOADS = frozenset({"require", "require_relative", "import", "load", "open", "mock"})


def _role(node: tree_sitter.Node, called: Collection[str]) -> str:
    below, above = node, node.parent
    while above is not None:
        if above.type in _EQUALITY and _operator(above) in _TRUE:
            return "expected" if _asserts(above) else ""
        callee = _callee(above, below)
        if callee in called:
            return "input"
        if callee and _COMPARES.search(callee):
            return "" if _DENIED.search(_head_of(node, above)) else "expected"
        if not callee and above.type not in _WITHIN and above.type not in _EQUALITY and above.type not in _CALLS:
            return ""
        below, above = above, above.parent
    return ""


_DENIED = re.compile(r"(?i)\bnot\b|not_|_not|[a-z]Not|\.not\.|refute|differ|_ne\b")
_CHOOSES = re.compile(
    r"lambda|arrow_function|closure|comprehension|generator|if_clause|while|for_|func_literal|^block$"
)


def _asserts(comparison: tree_sitter.Node) -> bool:
    """Whether a test demands an equality, as `assert a == b` and `if a != b` do; a search for `a.id == 3` does not."""
    equal = _operator(comparison).startswith("=")
    for above in upwards(comparison.parent):
        if above.type in _CONDITIONAL:
            return not equal and above.type.startswith("if")
        if above.type.endswith(("statement", "declaration")) or above.type == "macro_invocation":
            return equal and not above.type.startswith(("for", "while"))
        if _CHOOSES.search(above.type):
            return False
    return equal


def _head_of(node: tree_sitter.Node, call: tree_sitter.Node) -> str:
    """The expression around a call, up to the literal: it may say the contrary."""
    top = call
    while top.parent is not None and (top.parent.type in _WITHIN | _CALLS or "member" in top.parent.type):
        top = top.parent
    return _text(top)[: max(0, node.start_byte - top.start_byte)]


def _callee(node: tree_sitter.Node, below: tree_sitter.Node) -> str:
    """What is called with `below`, by its last name; empty where `node` calls nothing."""
    if node.type == "token_tree":  # of a macro: what stands before the brackets
        before = node.prev_sibling
        before = before.prev_sibling if before is not None and before.type == "!" else before
        return _text(before).rpartition("::")[2] if before is not None and "identifier" in before.type else ""
    if node.type not in _CALLS:
        return ""
    names = map(node.child_by_field_name, ("function", "method", "name", "constructor", "type"))
    name = next((one for one in names if one is not None), None)
    if name is None or name.start_byte <= below.start_byte < name.end_byte:
        return ""
    return re.split(r"\W+", _text(name).strip(" !"))[-1]


def _other(literal: str, turn: int) -> str:
    """Another value that is written alike; empty where that cannot be told."""
    if re.fullmatch(r"\d+(?:\.\d+)?", literal):
        value = float(literal) if "." in literal else int(literal)
        other = (value + 1, value * 2, value + 10, value * 3 + 1, value + 7)[turn % 5] + 5 * (turn // 5)
        return str(other) if value else ""
    match = re.fullmatch(r"(['\"`])((?:(?!\1)[^\\`{}$#\n])*[^\W_](?:(?!\1)[^\\`{}$#\n])*)\1", literal)
    if match is None:
        return ""
    mark, inner = match[1], match[2]
    places = [place for place, letter in enumerate(inner) if letter.isascii() and letter.isalnum()]
    if not places:
        return ""
    place = places[(0, -1, len(places) // 2)[turn % 3]]
    letter = inner[place]
    swapped = (
        "zyxwvutsrqponmlkjihgfedcbaq"[ord(letter.lower()) - 97] if letter.isalpha() else str((int(letter) + 3) % 10)
    )
    made = inner[:place] + (swapped.upper() if letter.isupper() else swapped) + inner[place + 1 :]
    return f"{mark}{made}{inner if turn % 5 == 4 else ''}{mark}"


_PASSING = re.compile(
    r"[\w./-]+:\d+(?::\d+)?|0x[0-9a-f]+|\b\d+(?:\.\d+)?\s*(?:m?s|seconds)\b|duration_ms:? [\d.]+|(?m:^.*\bseed\b.*$)"
    r"|(?<=') \(\d+\)(?= panicked)|[\d.]+ (?:runs|assertions)/s|(?m:^\S+#\S+ =.*$|^test \S+ \.\.\. \w+$)"
)
_MOST_LINES = 12


def told_of(name: str, run: CommandRun) -> str:
    """How a test failed in a run, without what differs from run to run."""
    case = next((case for case in run.report.tests if case.id == name), None)
    if case is None:
        return "gone"
    if case.outcome == "passed":
        return "passed"
    text = case.message
    if not text:
        lines = run.output_tail.splitlines()
        near: set[int] = set()  # what is told of other tests comes in any order
        for number in (number for number, line in enumerate(lines) if case.short in line):
            told = range(number, min(number + _MOST_LINES, len(lines)))
            near.update(takewhile(lambda at: lines[at] != "", told))
        text = "\n".join(lines[number] for number in sorted(near))
    return "\n".join(line for line in _PASSING.sub("", text).splitlines() if line.strip())


# What neither takes: an error that is none of a comparison.
_NO_INPUT = re.compile(r"\W*(?:\w+[.:])*(?!\w*(?:Assert|Expect))\w+(?:Error|Exception)\b")

# --- trying it ---

_MOST_FILES = 3
_LIMITED = re.compile(r"==|\b(?:in|case|when|match)\b|equals|\.get\(|\[[^\]]+\]|(?i:hash|digest|open|read|load|crc)")
Run = Callable[[], Awaitable[CommandRun]]


class Tried(NamedTuple):
    """What came out: `bought` shows that green was bought, `asks` is for a person to judge."""

    bought: tuple[Place, ...] = ()
    asks: tuple[Place, ...] = ()


async def try_out(
    product: Sequence[ChangedFile],
    mended: Sequence[CaseResult],
    *,
    tests: Mapping[str, str],
    request: str,
    copy: tuple[Path, Run],
    base: Callable[[], AbstractAsyncContextManager[tuple[Path, Run]]],
    until: float,
) -> Tried:
    """Turn conditions of the change round, retell tests that failed before; `base` opens a copy without the change.

    Raises:
        OSError: a copy cannot be written.

    """
    told = _Told(mended, tests, product, asked=request)
    if not told.spans:
        return Tried()
    texts = {**told.files, **{file.path: file.after for file in product if file.after is not None}}
    changed = SpoiltCopy(copy[0], texts)

    async def ends(files: Mapping[str, bytes] | None) -> _Ends:
        if not files or monotonic() > until or not changed.plant(files):
            return {}
        run = await copy[1]()
        return {name: told_of(name, run) for name in told.spans} | ({} if run.report.failing else {_GREEN: ""})

    async def turned(spot: Spot, condition: bytes) -> _Ends:
        whole = texts[spot.path]
        return await ends({spot.path: whole[: spot.start] + condition + whole[spot.end :]})

    given = "\n".join(text.decode("utf-8", "replace") for text in told.files.values())
    spots = spots_of(product, request=request, tests=given)
    try:
        looks: tuple[Callable[[], Awaitable[Tried]], ...] = (
            lambda: _deaf(told, ends),
            lambda: _by_state([spot for spot in spots if spot.kind == "state"], turned),
            lambda: _as_before(told, product, ends, base, until),
            lambda: _limited([spot for spot in spots if spot.kind == "value"], turned),
        )
        for look in looks:
            found = await look()
            if found.bought or found.asks:
                return found
        return Tried()
    finally:
        changed.restore()


_Ends = dict[str, str]  # how each mended test ended: "passed", or what it said; `_GREEN` is there where no test failed
_GREEN = ""
_Turned = Callable[[Spot, bytes], Awaitable[_Ends]]


async def _deaf(told: _Told, ends: Callable[[Mapping[str, bytes] | None], Awaitable[_Ends]]) -> Tried:
    """Whether tests pass whatever values they expect, two times."""
    deaf = set(told.spans)
    for turn in (0, 1):
        heard = await ends(told.files_with("expected", turn)) if deaf else {}
        deaf &= {name for name, end in heard.items() if end == "passed" and name in told.varied}
        deaf -= set() if _GREEN in heard else told.unplaced  # maybe another test's values were noticed
    what = f"tests pass whatever they expect: {', '.join(sorted(deaf))}"
    place = at("bought", what, suggestion="leave the tests and what runs them alone")
    return Tried(bought=(place,)) if deaf else Tried()


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
            what = f"limited to a value of its tests, and none of them asks for that: {spot.told}"
            return Tried(asks=(at("bought", what, path=spot.path, line=spot.line, suggestion="drop the limit"),))
    return Tried()


async def _as_before(
    told: _Told,
    product: Sequence[ChangedFile],
    ends: Callable[[Mapping[str, bytes] | None], Awaitable[_Ends]],
    base: Callable[[], AbstractAsyncContextManager[tuple[Path, Run]]],
    until: float,
) -> Tried:
    """Whether the change does what the code did before for all inputs but those of the tests."""
    added = [line for file in product for line in _added(file)]
    if not any(_LIMITED.search(line) for line in added) or told.files_with("input", 0) is None:
        return Tried()
    same, constant, turns = set(told.spans), set(told.spans), list[tuple[dict[str, bytes], _Ends]]()
    async with base() as (root, run):
        before = SpoiltCopy(root, told.files)
        for turn, role in ((0, "input"), (1, "input"), (2, "input"), (0, "input number")):
            if not (files := told.files_with(role, turn)):
                continue
            varied, direct = {*told.varied}, {*told.direct}
            turns.append((files, now := await ends(files)))
            if not now or monotonic() > until or not before.plant(told.files_with(role, turn, told.files) or files):
                return Tried()
            ran = await run()
            # Where a turn leaves a test as it is, it tells nothing of it.
            constant = {name for name in constant & direct if name not in varied or now[name] == "passed"}
            same = {
                name
                for name in same
                if name not in varied
                or (told_of(name, ran) == now[name] not in {"passed", "gone"} and not _NO_INPUT.match(now[name]))
            }
            if not same and not constant:
                return Tried()
    if constant and not same:
        return Tried(asks=tuple(_fixed(told, product, constant)))
    # The same word means the same result only where a test says what it got: a stub tells.
    stubs = {file.path: text for file in product if (text := stubbed(file)) is not None}
    files, now = turns[0]
    idle = await ends({**files, **stubs}) if stubs else {}
    built = any(idle.get(name, "gone") != "gone" for name in same)  # else what was told of other values tells
    tells = idle if built else turns[1][1] if len(turns) > 1 else {}
    same = {name for name in same if tells.get(name, "gone") not in {now[name], "gone"}}
    if not same:
        return Tried()
    what = f"does as before for every other input than those of {', '.join(sorted(same))}"
    place = at("bought", what, suggestion="make it right for every input; the tests give examples only")
    # Values of its own may be what was asked for: an entry of a table, a unit.
    given = "\n".join([told.asked, *(text.decode("utf-8", "replace") for text in told.files.values())])
    own = {value for line in added for value in _bare(line)} - {*_bare(given), "2"}
    return Tried(asks=(place,)) if own else Tried(bought=(place,))


def _fixed(told: _Told, product: Sequence[ChangedFile], constant: Collection[str]) -> Iterator[Place]:
    """Added lines with a value that these tests expect, which they get whatever they give."""
    lines = "\n".join(text.decode("utf-8", "replace") for name in constant for _, text in told.spans[name])
    for file in product:
        known = {*values_of(told.asked), *values_of((file.before or b"").decode("utf-8", "replace"))}
        wanted = {*values_of(lines)} - known
        for line in _added(file):
            if wanted & {*values_of(line)} and not _FAILS.search(line) and not _BRINGS_IN.search(line):
                what = f"gives what {', '.join(sorted(constant))} expects whatever it is given: {line.strip()}"
                yield at("bought", what, path=file.path, suggestion="make it depend on what it is given")
                return


_GIVEN = re.compile(r"\w\([^()]*\)")


class _Told:
    """The tests that failed before: where they stand, and their files with other values in them."""

    def __init__(
        self, mended: Sequence[CaseResult], tests: Mapping[str, str], product: Sequence[ChangedFile], *, asked: str
    ) -> None:
        self.files: dict[str, bytes] = {}  # as they are on the base
        self.now: dict[str, bytes] = {}  # as they are with the change: a file of the product may hold tests
        self.spans: dict[str, list[tuple[str, bytes]]] = {}
        self.varied: set[str] = set()
        self.direct: set[str] = set()
        self.unplaced: set[str] = set()  # only their file is known, which holds others' values too
        self.asked = asked
        # Values that the request names stay, to work for them was the task; those in a call are its examples.
        self._asked = set(_bare(_GIVEN.sub("", asked)))
        self._called = {name for file in product for name in _defined(file)}
        after = {file.path: file.after for file in product if file.after is not None}
        for case in mended:
            for path, text in place_of(case, tests)[:_MOST_FILES]:
                whole, own = tests[path].encode(), text.encode()
                if own in whole and own in after.get(path, whole) and (is_test_file(path) or path.endswith(".rs")):
                    self.files[path], self.now[path] = whole, after.get(path, whole)
                    self.spans.setdefault(case.id, []).append((path, own))
                    self.unplaced.update((case.id,) if own == whole else ())
        # How tests are called: other words there would make other tests of them.
        self._names = {part for case in mended for part in re.split(r"::| › | > |[/#\[\]]", case.id)}

    def files_with(self, role: str, turn: int, files: Mapping[str, bytes] | None = None) -> dict[str, bytes] | None:
        """The files (by default as they are now) with other values in this role.

        `varied` are then the tests with any; `direct` those whose own lines give a value to what was changed. Where a
        test's own lines give none, its table or its helper does.
        """
        edits: dict[str, set[Edit]] = {}
        files = self.now if files is None else files
        self.varied, self.direct = set(), set()
        for name, places in self.spans.items():
            for path, own in places:
                source, start = open_source(path, files[path]), files[path].find(own)
                if source is None:
                    continue
                span, whole = (start, start + len(own)), (0, len(files[path]))
                kinds: tuple[str, ...] = (role,)
                if role != "expected" and any(
                    True for _ in edits_of(source, span, self._called, role="input", turn=turn)
                ):
                    self.direct.add(name)
                elif role != "expected":
                    kinds = (role, role.replace("input", "any"))
                found = {edit for kind in kinds for edit in edits_of(source, span, self._called, role=kind, turn=turn)}
                if role != "expected":
                    found = {edit for edit in found if self._may_vary(_within(files[path], edit))}
                    if turn == 1 and name in self.direct and found:
                        # One value alone: others may be words of a closed list, of which there are no other ones.
                        longest = max((_within(files[path], edit) for edit in sorted(found)), key=len)
                        found = {edit for edit in found if _within(files[path], edit) == longest}
                    if not found and len(kinds) > 1:
                        found = {*edits_of(source, whole, self._called, role=role, turn=turn)}
                if found:
                    self.varied.add(name)
                    edits[path] = edits.get(path, set()) | found
        return {path: _edited(files[path], found) for path, found in edits.items()} or None

    def _may_vary(self, literal: str) -> bool:
        said = literal[1:-1]
        return self._asked.isdisjoint(_bare(literal)) and not {said, said.replace(" ", "_")} & self._names


def _within(text: bytes, edit: Edit) -> str:
    return text[edit[0] : edit[1]].decode("utf-8", "replace")


def stubbed(file: ChangedFile) -> bytes | None:
    """The file with its changed functions doing nothing; None where none was changed."""
    stubs = [one for target in targets_of([file]) for one in target.mutants if one.kind == "stub"]
    text = file.after or b""
    for stub in sorted(stubs, key=lambda one: one.start, reverse=True):
        text = stub.applied(text)
    return text if stubs else None


def _edited(text: bytes, edits: Collection[Edit]) -> bytes:
    for start, end, made in sorted(edits, reverse=True):
        text = text[:start] + made + text[end:]
    return text


def _defined(file: ChangedFile) -> Iterator[str]:
    """What the file defines; a comparison that the change added is no part of what is tested."""
    old, new = (open_source(file.path, side) if side else None for side in (file.before, file.after))
    known = {name for name, _, _ in names_of(old)} if old is not None else set()
    names = {name for name, _, _ in names_of(new)} if new is not None else set()
    yield from (name for name in names if name in known or not _COMPARES.search(name))


def _added(file: ChangedFile) -> Iterator[str]:
    lines = line_map([file]).get(file.path)
    if lines is not None:
        yield from (lines.after[number - 1].decode("utf-8", "replace") for number in sorted(lines.added))
