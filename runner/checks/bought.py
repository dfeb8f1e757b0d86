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
from typing import Literal, NamedTuple

import tree_sitter

from runner.checks.harness import CALLED, bare_values, code_files, is_named, is_word_of, rows, values_of
from runner.checks.mutants import targets_of
from runner.checks.reports import CaseResult, CommandRun, failed_at, told_of
from runner.checks.requested import IN_CODE, code_of, parameters_of
from runner.checks.retelling import (
    CHOICES,
    EQUAL_SIGNS,
    EQUALITY,
    Edit,
    Retold,
    edited,
    kinds_of,
    operator_of,
    relabelled,
    text_of,
    unnamed,
)
from runner.checks.strength import SpoiltCopy
from runner.gate.criterion import ChangedFile, Place, at
from runner.gate.definitions import functions_of, names_of
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


def equalities(product: Sequence[ChangedFile]) -> Iterator[Spot]:
    """The equalities that a change defines; turned, they hold for no built-in value, as tests write them."""
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        source = None if lines is None or file.after is None else open_source(file.path, file.after)
        if lines is None or source is None or source.tree is None or source.text != file.after:
            continue
        for function in functions_of(source):
            if function.name not in _EQUALS_BY_NAME or not lines.touches(*function.lines) or function.body is None:
                continue
            heads = function.node.child_by_field_name("parameters")
            given = [text_of(one) for one in heads.named_children] if heads is not None else []
            at_, head = function.body.start_byte, " " * (function.node.start_point.column + 4)
            known = _OF_OTHERS.get(source.language.name)
            own = function.owner_node
            if source.language.name == "rust" and (own is None or own.child_by_field_name("trait") is None):
                continue
            if known is None or not given or (source.language.name == "rust" and _is_of_own(own)):
                continue
            made = known.format(other=given[-1], head=head)
            at_ += source.language.name not in {"python", "ruby"}  # behind the brace
            told = ".".join(filter(None, (function.owner, function.name)))
            yield Spot("state", file.path, function.lines[0], at_, at_, (made.encode(),), told)


_EQUALS_BY_NAME = frozenset({"__eq__", "__ne__", "==", "eql?", "!=", "eq", "ne", "asymmetricMatch"})
# `asymmetricMatch` is how jest, vitest and jasmine ask what they compare with.
_OF_OTHERS = {
    "python": "\n{head}if type({other}).__module__ == 'builtins': return NotImplemented\n{head}",
    "ruby": "return super if [String, Symbol, Array, Hash, Integer, Float].include?({other}.class); ",
    "rust": " if true {{ return false; }} ",
    "javascript": " return false; ",
    "typescript": " return false; ",
}


def _is_of_own(owner: tree_sitter.Node | None) -> bool:
    """Whether an implementation of equality compares with nothing but its own type (Rust)."""
    trait, own = (owner.child_by_field_name(name) if owner is not None else None for name in ("trait", "type"))
    other = trait.child_by_field_name("type_arguments") if trait is not None else None
    return other is None or own is None or text_of(other) in {"<Self>", f"<{text_of(own)}>"}


_ASKING = re.compile(r"\breturn\b")
_MAKES = r"\bnew\s+{0}\b|\b{0}(?:\.new\b|::|\s*[({{])"
_BRINGS = re.compile(
    r"^\s*(?:import|from|export|(?:pub )?(?:use|mod)|require\w*|#\s*include|__all__|module\.exports)\b"
)


def members_asked_for(
    product: Sequence[ChangedFile], *, request: str, tests: str, unchanged: Callable[[], Iterable[tuple[str, bytes]]]
) -> list[Spot]:
    """Conditions of a change that tell the tests' objects from others: by a method or a class that only tests use.

    Code that asks for a method in order to call it, or for a class that it makes, or of which it then uses a member,
    serves everybody. `unchanged` gives the other files of the product.
    """
    found: list[tuple[Source, tree_sitter.Node, str]] = []
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        source = None if lines is None or file.after is None else open_source(file.path, file.after)
        if lines is None or source is None or source.tree is None or source.text != file.after:
            continue
        choices = [node for node in _conditions(source) if lines.touches(*_rows(node))]
        zones = {node.id: [node, node.parent.child_by_field_name("initializer")] for node in choices if node.parent}
        told = {
            number: source.line_text(number)
            for number in sorted(lines.added)
            if _SETS.match(source.line_text(number)) or _ASKING.search(source.line_text(number))
        }
        names: dict[str, str] = {}  # what a line gives to a name, or its function to who calls it
        for node in source.nodes(kinds_of(source, (*source.language.strings, "simple_symbol", *_WORDS))):
            row = node.start_point.row + 1
            if row in told and (word := _asked_for(node, tests)):
                owner = next((name for name, first, last in reversed(names_of(source)) if first <= row <= last), "")
                given = _SETS.match(told[row])
                names[given[1] if given else owner] = word
        for node in choices:
            within = [part for part in zones.get(node.id, [node]) if part is not None]
            words = [word for part in within for one in _leaves(part) if (word := _asked_for(one, tests))]
            words += [word for name, word in names.items() if name and is_word_of(name, text_of(node))]
            words = [word for word in words if not _uses_it(node, word)]
            found += [(source, node, word) for word in words if not re.search(rf"(?i)\b{re.escape(word)}", request)]
    wanted = {word for _, _, word in found}
    for path, text in (*((file.path, file.after or b"") for file in product), *(unchanged() if wanted else ())):
        wanted -= _used(path, text, wanted)
    return [_spot("state", source, node, [_opposite(source, node)]) for source, node, word in found if word in wanted]


_WORDS = (
    "identifier", "type_identifier", "constant", "property_identifier", "field_identifier", "scope_resolution",
)  # fmt: skip
_PROPERTIES = frozenset({"property_identifier", "field_identifier"})


def _leaves(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    if node.type in _LEAVES or not node.named_children:
        yield node
    for child in node.named_children if node.type not in _LEAVES else ():
        yield from _leaves(child)


_LEAVES = frozenset({"string", "interpreted_string_literal", "raw_string_literal", "string_literal", "simple_symbol"})


def _asked_for(node: tree_sitter.Node, tests: str) -> str:
    """The method or class that is asked for there, and that tests call or make; empty where there is none."""
    word = text_of(node).strip("'\"`:?!")
    above = node.parent
    if not re.fullmatch(r"[A-Za-z_]\w*", word) or above is None or _is_name_of(node, above) or _is_called(node):
        return ""
    if word[0].isupper():
        return word if re.search(_MAKES.format(word), tests) else ""
    is_member = node.type in _LEAVES or node.type in _PROPERTIES or above.child_by_field_name("attribute") == node
    return word if is_member and re.search(rf"(?:\.|->){word}\b(?=\s*\()|\.{word}\b(?=[ \n])", tests) else ""


def _is_name_of(node: tree_sitter.Node, above: tree_sitter.Node) -> bool:
    """Whether it is what a definition defines; a method in an interface that is asked for defines nothing."""
    return above.child_by_field_name("name") == node and above.type not in {"method_elem", "method_spec"}


def _is_called(node: tree_sitter.Node) -> bool:
    top = node.parent if node.parent is not None and "member" in node.parent.type else node
    top = node.parent if node.parent is not None and node.parent.type in {"attribute", "selector_expression"} else top
    return top.parent is not None and top in {
        top.parent.child_by_field_name("function"), top.parent.child_by_field_name("constructor")
    }  # fmt: skip


def _uses_it(condition: tree_sitter.Node, word: str) -> bool:
    """Whether what is then done uses a member of something that the condition speaks of, by a class."""
    then = condition.parent.child_by_field_name("consequence") if condition.parent is not None else None
    if then is None or not word[0].isupper():
        return False
    subjects = {text_of(one) for one in _leaves(condition)} - {word, "this", "self"}
    return any(re.search(rf"(?<!\w){re.escape(one)}\s*(?:\.|->)\s*\w", text_of(then)) for one in subjects)


def _used(path: str, text: bytes, words: Collection[str]) -> set[str]:
    """Those of these words that code calls or makes itself."""
    code = code_of(ChangedFile(path=path, before=None, after=text))
    lines = [line for line in code.splitlines() if not _BRINGS.match(line)]
    return {
        word
        for word in words
        if re.search(_MAKES.format(word) if word[0].isupper() else rf"(?:\.|->|::)\s*{word}\s*\(", "\n".join(lines))
        and not _only_defined(word, lines)
    }


def _only_defined(word: str, lines: Sequence[str]) -> bool:
    made = [line for line in lines if re.search(_MAKES.format(word), line)]
    heads = r"\b(?:class|struct|interface|trait|impl|type|enum|module|func|fn|def)\b"
    return word[0].isupper() and all(re.search(heads, line) for line in made)


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
) -> tuple[Place, ...]:
    """What a person is to judge of tests that a task added for itself: `own` pass with the change alone.

    `fresh`: what was changed was not there before, and `base` has stubs in its place. Values that these tests name may
    be what was asked for, so that they refuse nothing.

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
        return await _own_values(product, request=request, given=given, elsewhere=elsewhere, ends=ends, alone=True)
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
    alone: bool = False,
) -> tuple[Place, ...]:
    """Whether tests fail again where the change decides by other values than some that nobody named, or lacks data.

    `alone`: the tests are of the task itself. What they name may be what was asked for: all such values, two at least,
    are theirs then.
    """
    said = "\n".join([request, *((file.before or b"").decode("utf-8", "replace") for file in product)])
    found: dict[tuple[str, int], list[tuple[Edit, str]]] = {}
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        source = None if lines is None or file.after is None else open_source(file.path, file.after)
        if lines is not None and source is not None and source.tree is not None and source.text == file.after:
            for edit, value in unnamed(source, lines.added, said=said, given=given):
                found.setdefault((file.path, source.line_at(edit[0])), []).append((edit, value))
    known = await elsewhere({value for edits in found.values() for _, value in edits}) if found else ()
    if alone:
        left = {value for edits in found.values() for _, value in edits} - {*known}
        if len(left) < _LEAST_OWN or not all(is_named(value, given) for value in left):
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
    for spot, what in told[:_MOST_SPOTS]:
        if _breaks(await turned(spot, spot.turned[0])):
            return Tried(asks=(at("bought", what, path=spot.path, line=spot.line, suggestion="serve everybody alike"),))
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


async def _unrun(
    product: Sequence[ChangedFile],
    ends: Callable[[Mapping[str, bytes] | None], Awaitable[_Ends]],
    *,
    request: str,
    tests: Iterable[str],
) -> Tried:
    """Whether a function that the request names is new, and no test fails where it does nothing, or none names it."""
    named = {word for code in IN_CODE.findall(request) for word in re.findall(r"[A-Za-z_]\w+", "".join(code))}
    named |= {*CALLED.findall(request)}
    known = {name for file in product for name in _names(file.path, file.before)}
    stubs = {
        target.function.rpartition(".")[2]: {file.path: one.applied(file.after or b"")}
        for file in product
        for target in targets_of([file])
        for one in target.mutants
        if one.kind == "stub"
    }
    made = {name for file in product for name in _names(file.path, file.after)}
    made |= {name for name in CALLED.findall(request) for file in product if _is_given(name, file)}
    left = []
    for name in sorted((made & named) - known):
        told = any(is_word_of(name, text) for text in tests)
        if (_GREEN in await ends(stubs[name])) if name in stubs else not told:
            left.append(name)
    what = f"no test shows {', '.join(left)}, which the request names"
    return Tried(asks=(at("idle", what, suggestion="add a test that fails without it"),) if left else ())


def _names(path: str, text: bytes | None) -> Iterator[str]:
    source = open_source(path, text) if text else None
    yield from (one.name.rpartition("::")[2] for one in functions_of(source)) if source is not None else ()


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


def as_it_was(file: ChangedFile) -> bytes | None:
    """The file with its functions called as they are now and doing what they did; None where none is called otherwise.

    A test that only the new way to call them lets fail without the change passes there.
    """
    old, new = (open_source(file.path, side) if side else None for side in (file.before, file.after))
    if old is None or new is None or file.too_large or new.text != file.after:
        return None
    then, edits, differs = {one.key: one for one in functions_of(old)}, set[Edit](), False
    for now in functions_of(new):
        was = then.pop(now.key, None)
        if was is not None and was.body is not None and now.body is not None and was.texts != now.texts:
            edits.add((now.body.start_byte, now.body.end_byte, was.body.text or b""))
            differs |= was.header.split() != now.header.split()
    return edited(new.text, edits) if differs else None


def handed_back(file: ChangedFile) -> bytes | None:
    """The file with its new functions giving back the first thing they are given; None where none is given any."""
    source = open_source(file.path, file.after) if file.after else None
    if source is None or source.text != file.after:
        return None
    known, edits = {*_names(file.path, file.before)}, set[Edit]()
    heads = {one.lines[0]: parameters_of(one) for one in functions_of(source) if one.name not in known}
    for target in targets_of([file]):
        given = [word for word in heads.get(target.first, ()) if word not in {"self", "cls", "this", ""}]
        for one in target.mutants if given else ():
            if one.kind == "stub" and b"return" in one.replacement:
                made = re.sub(rb"return\b[^;}\n]*", f"return {given[0]}".encode(), one.replacement, count=1)
                edits.add((one.start, one.end, made))
    return edited(source.text, edits) if edits else None


def _added(file: ChangedFile) -> Iterator[str]:
    lines = line_map([file]).get(file.path)
    if lines is not None:
        yield from (lines.after[number - 1].decode("utf-8", "replace") for number in sorted(lines.added))
