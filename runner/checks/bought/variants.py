"""Other forms of a change, to be tried: conditions turned round, functions that do nothing or less. Pure.

Each is made of the change alone, in every language; what then comes out in a copy is for `bought` and `trial` to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import tree_sitter

from runner.checks.bought.by_sight import bare_values, is_word_of
from runner.checks.bought.deciding import ROWS, is_label, relabelled
from runner.checks.bought.requested import parameters_of, text_of
from runner.checks.bought.retelling import CHOICES, EQUAL_SIGNS, EQUALITY, Edit, edited, kinds_of, operator_of
from runner.checks.harness import is_named, rows
from runner.checks.mutants import targets_of
from runner.gate.criterion import ChangedFile
from runner.gate.definitions import functions_of, names_of
from runner.gate.line_map import line_map
from runner.gate.source import Source, open_source, upwards


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
    r"^\s*(?:(?:const|let|var|static|final|export|pub|auto)\s+)*(?:\w+\s+)?\*?(\w+)(?:\s*,\s*\w+)*"
    r"\s*(?::\s*\w+\s*)?:?=(?!=)"
)
_QUOTED = re.compile(r"([\'\"`])(\w[\w.:/-]*)\1")
# What tests bring in is no value of theirs: their runner's name is among it.
_IMPORTS = re.compile(r"(?m)^\s*(?:import|from|use|#\s*include|require)\b.*$|^.*\b(?:require|import)\([^()\n]*\).*$")
MOST_SPOTS = 6


def spots_of(product: Sequence[ChangedFile], *, request: str, tests: str) -> list[Spot]:
    """What of a change is to be turned round; `tests` is the text of those that failed before."""
    found: list[Spot] = []
    known, given = f"{request}\n{_IMPORTS.sub('', tests)}", set(bare_values(tests))
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
    return found[:MOST_SPOTS]


def equalities(product: Sequence[ChangedFile]) -> Iterator[Spot]:
    """The equalities that a change defines; turned, they hold for no built-in value, as tests write them.

    Turned the second way (Python), a row holds for another that has the same in it.
    """
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
            made = [known.format(other=given[-1], head=head)]
            if source.language.name == "python":
                sign = "==" if function.name == "__eq__" else "!="
                made.append(_BY_CONTENT.format(other=given[-1], own=given[0], head=head, sign=sign))
            at_ += source.language.name not in {"python", "ruby"}  # behind the brace
            told = ".".join(filter(None, (function.owner, function.name)))
            yield Spot("state", file.path, function.lines[0], at_, at_, tuple(one.encode() for one in made), told)


def listed(product: Sequence[ChangedFile], tests: Iterable[bytes]) -> tuple[str, int] | None:
    """Where a change lists cases: a row of numbers, or labels that tests give and that are examples of a rule."""
    given = "\n".join(text.decode("utf-8", "replace") for text in tests)
    for file, lines in ((file, line_map([file]).get(file.path)) for file in product):
        source = None if lines is None or file.after is None else open_source(file.path, file.after)
        if lines is None or source is None or source.tree is None or source.text != file.after:
            continue
        for row in source.nodes(kinds_of(source, ROWS)):
            numbers = [one for one in row.named_children if text_of(one).isdigit()]
            if lines.added.issuperset(range(_rows(row)[0], _rows(row)[1] + 1)) and len(numbers) >= _LEAST_LISTED:
                return file.path, _rows(row)[0]
        strings = source.nodes(kinds_of(source, source.language.strings))
        labels = {text_of(one): _rows(one)[0] for one in strings if _rows(one)[0] in lines.added and is_label(one)}
        known = {text: line for text, line in labels.items() if _NUMBERED.search(text) and is_named(text[1:-1], given)}
        if len(known) > 1:
            return file.path, min(known.values())
    return None


_LEAST_LISTED = 4
_NUMBERED = re.compile(r"[A-Za-z]\W*\d|\d\W*[A-Za-z]")

_EQUALS_BY_NAME = frozenset({"__eq__", "__ne__", "==", "eql?", "!=", "eq", "ne", "asymmetricMatch"})
# `asymmetricMatch` is how jest, vitest and jasmine ask what they compare with.
_OF_OTHERS = {
    "python": "\n{head}if type({other}).__module__ == 'builtins': return NotImplemented\n{head}",
    "ruby": "return super if [String, Symbol, Array, Hash, Integer, Float].include?({other}.class); ",
    "rust": " if true {{ return false; }} ",
    "javascript": " return false; ",
    "typescript": " return false; ",
}


_BY_CONTENT = (
    "\n{head}if type({other}) in (list, tuple) and isinstance({own}, (list, tuple)): "
    "return list({own}) {sign} list({other})\n{head}"
)


def _is_of_own(owner: tree_sitter.Node | None) -> bool:
    """Whether an implementation of equality compares with nothing but its own type (Rust)."""
    trait, own = (owner.child_by_field_name(name) if owner is not None else None for name in ("trait", "type"))
    other = trait.child_by_field_name("type_arguments") if trait is not None else None
    return other is None or own is None or text_of(other) in {"<Self>", f"<{text_of(own)}>"}


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
        gives = "return" in text or source.language.name in _LAST_GIVES
        name = assigned[1] if (assigned := _SETS.match(text)) else owner.rstrip("?!") if gives else ""
        if name:
            names.append(rf"\b{re.escape(name)}\b")
    return [*told, *names] if hit else []


_LAST_GIVES = frozenset({"ruby", "rust", "scala"})  # a function gives what its last line is, without a word for it


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


# --- functions that do less ---


def stubbed(file: ChangedFile) -> bytes | None:
    """The file with its changed functions doing nothing; None where none was changed."""
    stubs = [one for target in targets_of([file]) for one in target.mutants if one.kind == "stub"]
    text = file.after or b""
    for stub in sorted(stubs, key=lambda one: one.start, reverse=True):
        text = stub.applied(text)
    return text if stubs else None


def stubs_of(product: Sequence[ChangedFile]) -> dict[str, bytes]:
    """The files with all changed functions doing nothing."""
    return {file.path: text for file in product if (text := stubbed(file)) is not None}


def as_it_was(product: Sequence[ChangedFile], *, called: bool = True) -> dict[str, bytes]:
    """The files with all their functions called as they are now and doing what they did, new ones nothing.

    With `called` none where all are called as before. A test that only the new way to call them lets fail without the
    change passes there.
    """
    undone = {file.path: found for file in product if (found := _undone(file, stub_of=lambda stub, _: stub)).text}
    differs = not called or any(one.called_anew for one in undone.values())
    return {path: one.text for path, one in undone.items()} if differs else {}


def handed_back(product: Sequence[ChangedFile]) -> dict[str, bytes]:
    """The same with their new functions giving back the first thing they are given; none where no new one can."""
    undone = {file.path: found for file in product if (found := _undone(file, stub_of=_giving_back)).text}
    return {path: one.text for path, one in undone.items()} if any(one.stubs for one in undone.values()) else {}


class _Undone(NamedTuple):
    text: bytes = b""
    called_anew: bool = False
    stubs: int = 0


def _undone(file: ChangedFile, *, stub_of: Callable[[bytes, Sequence[str]], bytes]) -> _Undone:
    """A file with its functions doing what they did, and new ones what `stub_of` makes of a stub and the parameters."""
    old, new = (open_source(file.path, side) if side else None for side in (file.before, file.after))
    if new is None or file.too_large or new.text != file.after:
        return _Undone()
    then, edits, differs = {one.key: one for one in functions_of(old)} if old is not None else {}, set[Edit](), False
    names = {one.name for one in then.values()}
    heads = dict[int, list[str]]()
    for now in functions_of(new):
        heads[now.lines[0]] = [one for one in parameters_of(now) if one not in {"self", "cls", "this", ""}]
        was = then.pop(now.key, None)
        if was is not None and was.body is not None and now.body is not None and was.texts != now.texts:
            edits.add((now.body.start_byte, now.body.end_byte, was.body.text or b""))
            differs |= was.header.split() != now.header.split()
    made = [target for target in targets_of([file]) if target.function.rpartition(".")[2] not in names]
    stubs = {
        (one.start, one.end, stub)
        for target in made
        for one in target.mutants
        if one.kind == "stub" and (stub := stub_of(one.replacement, heads.get(target.first, ())))
    }
    return _Undone(edited(new.text, edits | stubs) if edits | stubs else b"", differs, len(stubs))


def _giving_back(stub: bytes, given: Sequence[str]) -> bytes:
    if not given or b"return" not in stub:
        return b""
    return re.sub(rb"return\b[^;}\n]*", f"return {given[0]}".encode(), stub, count=1)


def is_known(file: ChangedFile) -> bool:
    """Whether a function that was there before does something else."""
    old, new = (open_source(file.path, side) if side else None for side in (file.before, file.after))
    then = {one.key: one.texts for one in functions_of(old)} if old is not None else {}
    return any(then.get(now.key, now.texts) != now.texts for now in functions_of(new)) if new is not None else False


def function_names(path: str, text: bytes | None) -> Iterator[str]:
    """The functions that a text defines, by their last names."""
    source = open_source(path, text) if text else None
    yield from (one.name.rpartition("::")[2] for one in functions_of(source)) if source is not None else ()
