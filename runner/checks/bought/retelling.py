"""Tests that are retold: the same tests with other values to what was changed, or with others for what they expect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import tree_sitter

from runner.checks.bought.by_sight import bare_values, code_of, kinds_known
from runner.checks.bought.requested import text_of, without_examples
from runner.checks.harness import place_of
from runner.checks.mutants import NUMBERS
from runner.checks.reports import CaseResult
from runner.gate.criterion import ChangedFile
from runner.gate.definitions import functions_of, names_of
from runner.gate.file_roles import is_test_file
from runner.gate.source import Source, open_source, upwards

CONDITIONAL = (
    "if_statement", "elif_clause", "if_expression", "conditional_expression", "ternary_expression", "while_statement",
    "if", "elsif", "unless", "if_modifier", "unless_modifier", "conditional",
)  # fmt: skip
CHOICES = (
    "match_expression", "match_statement", "expression_switch_statement", "switch_statement", "switch_expression",
    "case",
)  # fmt: skip
EQUALITY = ("comparison_operator", "binary_expression", "binary")
EQUAL_SIGNS = frozenset({"==", "===", "!=", "!=="})
CALLS = frozenset({"call", "call_expression", "method_invocation", "new_expression", "object_creation_expression"})
_COMPARES = re.compile(r"(?i)equal|^eql?$|^is$|^same|tobe|^be$|_eq$|_ne$|matches?$|contains?$|include")
WITHIN = frozenset({
    "list", "tuple", "set", "array", "array_expression", "argument_list", "arguments", "parenthesized_expression",
    "reference_expression", "unary_operator", "unary_expression", "unary", "literal_value", "literal_element",
    "composite_literal", "token_tree", "expression_list", "initializer_list", "macro_invocation", "argument",
    "element_list", "dictionary", "object", "pair", "hash", "keyword_argument",
})  # fmt: skip


Edit = tuple[int, int, bytes]


def edits_of(
    source: Source,
    span: tuple[int, int],
    called: Collection[str],
    *,
    role: str,
    turn: int,
    helpers: Collection[str] = (),
) -> Iterator[Edit]:
    """Other values within `span`: for "input" (or "input number") to what is `called`, or for what is "expected".

    What the tests' own `helpers` are given is not expected, as these call what was changed. Each `turn` gives others,
    -1 those before, -2 to -4 the same letters in another order. What is expected is not changed alike everywhere: some
    tests would hold again.
    """
    kinds = kinds_of(source, (*NUMBERS, *source.language.strings))
    for number, node in enumerate(source.nodes(kinds)):
        numeric = is_number(text_of(node))
        if span[0] <= node.start_byte < span[1]:
            wanted = role.removesuffix(" number")
            is_it = _role(node, called, helpers)
            if (is_it == "expected" or brings_in(node)) if wanted == "any" else is_it != wanted:
                continue
            if role.endswith("number") and not numeric:
                continue
            made = other_value(text_of(node), turn + number if role == "expected" and turn >= 0 else turn)
            if made:
                yield node.start_byte, node.end_byte, made.encode()


def brings_in(node: tree_sitter.Node) -> bool:
    """Whether a literal names a file or a package that is made known."""
    return any(BRINGS_IN.search(above.type) or _callee(above, node) in _LOADS for above in upwards(node.parent))


BRINGS_IN = re.compile(r"import|include|preproc|package|attribute_|decorator|\buse_")
_LOADS = frozenset({"require", "require_relative", "import", "load", "open", "mock"})


def _role(node: tree_sitter.Node, called: Collection[str], helpers: Collection[str]) -> str:
    below, above = node, node.parent
    while above is not None:
        if above.type in EQUALITY and operator_of(above) in EQUAL_SIGNS:
            return "expected" if _asserts(above) else ""
        if above.type in _MEMBERS and above.parent is not None and above.parent.type in CALLS:
            if re.split(r"\W+", text_of(above))[-1] in called:
                return "input"  # what the method is called on
            return ""
        callee = _callee(above, below)
        if callee in called:
            return "input"
        if callee in helpers:
            return ""
        if callee and _COMPARES.search(callee):
            return "" if _ORDERS.search(callee) or _DENIED.search(_head_of(node, above)) else "expected"
        if not callee and above.type not in WITHIN and above.type not in EQUALITY and above.type not in CALLS:
            return ""
        below, above = above, above.parent
    return ""


_MEMBERS = frozenset({"selector_expression", "member_expression", "attribute", "field_expression"})
_ORDERS = re.compile(r"Less|Greater|less_|greater_")  # a bound: another one holds as well
_DENIED = re.compile(r"(?i)\bnot\b|not_|_not|[a-z]Not|\.not\.|refute|differ|_ne\b")
_CHOOSES = re.compile(
    r"lambda|arrow_function|closure|comprehension|generator|if_clause|while|for_|func_literal|^block$"
)


def _asserts(comparison: tree_sitter.Node) -> bool:
    """Whether a test demands an equality, as `assert a == b` and `if a != b` do; a search for `a.id == 3` does not."""
    equal = operator_of(comparison).startswith("=")
    for above in upwards(comparison.parent):
        if above.type in CONDITIONAL:
            return not equal and above.type.startswith("if")
        if above.type.endswith(("statement", "declaration")) or above.type == "macro_invocation":
            return equal and not above.type.startswith(("for", "while"))
        if _CHOOSES.search(above.type):
            return False
    return equal


def _head_of(node: tree_sitter.Node, call: tree_sitter.Node) -> str:
    """The expression around a call, up to the literal: it may say the contrary."""
    top = call
    while top.parent is not None and (top.parent.type in WITHIN | CALLS or "member" in top.parent.type):
        top = top.parent
    return text_of(top)[: max(0, node.start_byte - top.start_byte)]


def _callee(node: tree_sitter.Node, below: tree_sitter.Node) -> str:
    """What is called with `below`, by its last name; empty where `node` calls nothing."""
    if node.type == "token_tree":  # of a macro: what stands before it
        before = node.prev_sibling
        before = before.prev_sibling if before is not None and before.type == "!" else before
        return text_of(before).rpartition("::")[2] if before is not None and "identifier" in before.type else ""
    if node.type not in CALLS:
        return ""
    names = map(node.child_by_field_name, ("function", "method", "name", "constructor", "type"))
    name = next((one for one in names if one is not None), None)
    if name is None or name.start_byte <= below.start_byte < name.end_byte:
        return ""
    if name.type in CALLS:  # `compile("x")(18)`: what the first call gives is called
        return _callee(name, below)
    return re.split(r"\W+", text_of(name).strip(" !?"))[-1]


_HEX = re.compile(r"(0[xX][\da-fA-F_]+?)(_?[iu](?:8|16|32|64|128|size)|n|[uU]?[lL]{0,2})")


def number_of(literal: str) -> float:
    """What a number is, whatever it is written in; NaN where that cannot be told."""
    if hexadecimal := _HEX.fullmatch(literal):
        return int(hexadecimal[1].replace("_", ""), 16)
    number = _NUMBER.fullmatch(literal)
    return float(number[1].replace("_", "")) if number else float("nan")


_NUMBER = re.compile(r"(\d[\d_]*(?:\.\d+)?)(_?[iuf](?:8|16|32|64|128|size)|n|[uU]?[lL]{1,2})?")


def is_number(literal: str) -> bool:
    """Whether a literal is one, or a text that is nothing else."""
    return literal[:1].isdigit() or _NUMBER.fullmatch(literal.strip("'\"`")) is not None


def other_value(literal: str, turn: int) -> str:
    """Another value that is written alike; empty where that cannot be told."""
    if turn < -1:
        return _reordered(literal, turn)
    if hexadecimal := _HEX.fullmatch(literal):
        return f"{int(hexadecimal[1].replace('_', ''), 16) + 1 + turn % 5:#x}{hexadecimal[2]}"
    if number := _NUMBER.fullmatch(literal):
        plain, suffix = number[1].replace("_", ""), number[2] or ""
        value = float(plain) if "." in plain else int(plain)
        if turn < 0:
            return f"{value - 1 if value > 1 else value + 1}{suffix}"
        other = (value + 1, value * 2, value + 10, value * 3 + 1, value + 7)[turn % 5] + 5 * (turn // 5)
        return f"{other}{suffix}" if value else ""
    match = re.fullmatch(r"(['\"`])((?:(?!\1)[^\\`{}$#\n])*[^\W_](?:(?!\1)[^\\`{}$#\n])*)\1", literal)
    if match is None:
        return ""
    mark, inner = match[1], match[2]
    if _NUMBER.fullmatch(inner) and (digits := other_value(inner, turn)):
        return f"{mark}{digits}{mark}"
    places = [place for place, letter in enumerate(inner) if letter.isascii() and letter.isalnum()]
    if not places:
        return ""
    place = places[(0, -1, len(places) // 2)[turn % 3]]
    letter = inner[place]
    sign = swapped(letter) if letter.isalpha() else str((int(letter) + 3) % 10)
    made = inner[:place] + sign + inner[place + 1 :]
    return f"{mark}{made}{inner if turn % 5 == 4 else ''}{mark}"


def _reordered(literal: str, turn: int) -> str:
    """A text with two neighbours in each other's place: it has the letters of its own language still.

    Of all such pairs -2 takes the last one, -3 the middle one, -4 the first one.
    """
    signs = re.findall(r"\\.|[^\\]", literal[1:-1])
    if literal[:1] not in {"'", '"', "`"} or literal[-1:] != literal[:1] or _FILLED.search(literal):
        return ""
    free = [sign.isascii() and len(sign) == 1 and sign not in " $#{}" for sign in signs]
    pairs = [at for at in range(len(signs) - 1) if free[at] and free[at + 1] and signs[at] != signs[at + 1]]
    if not pairs:
        return ""
    place = pairs[{-2: -1, -3: len(pairs) // 2}.get(turn, 0)]
    signs[place : place + 2] = signs[place + 1], signs[place]
    return f"{literal[0]}{''.join(signs)}{literal[0]}"


def swapped(letter: str) -> str:
    """Another letter, alike in case."""
    other = "zyxwvutsrqponmlkjihgfedcba"[ord(letter.lower()) - 97]
    return other.upper() if letter.isupper() else other


def kinds_of(source: Source, wanted: Sequence[str] = CONDITIONAL) -> tuple[str, ...]:
    """Those that the grammar knows."""
    return kinds_known(source, wanted)


def operator_of(node: tree_sitter.Node) -> str:
    """The sign between its two sides."""
    found = node.child_by_field_name("operator")
    if found is not None:
        return text_of(found)
    marks = [child.type for child in node.children if not child.is_named]
    return marks[0] if len(marks) == 1 and node.named_child_count == 2 else ""


_MOST_FILES = 3
_GIVEN = re.compile(r"\w\([^()]*\)")
_CODE_NAME = re.compile(r"(?<![\w-])--?[a-z][\w-]*|\b[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)*\b|\b[A-Za-z]\w*_\w+\b", re.ASCII)


def is_data(text: str) -> bool:
    """Whether a text is what no name is, with braces or backslashes."""
    return re.search(r"[\\{}]", text) is not None


class Retold:
    """The tests that failed before: where they stand, and their files with other values in them."""

    def __init__(
        self,
        mended: Sequence[CaseResult],
        tests: Mapping[str, str],
        product: Sequence[ChangedFile],
        *,
        asked: str,
        alone: bool = False,
    ) -> None:
        self.files: dict[str, bytes] = {}  # as they are on the base
        self.now: dict[str, bytes] = {}  # as they are with the change: a file of the product may hold tests
        self.spans: dict[str, list[tuple[str, bytes]]] = {}
        self.varied: set[str] = set()
        self.direct: set[str] = set()
        self.unplaced: set[str] = set()  # only their file is known, which holds others' values too
        self.asked = asked
        self._alone = alone  # the task's own tests may know nothing but the examples of the request: its numbers then
        self.forced: set[str] = set()  # the tests of which these were varied
        self.tests = tests
        self.product = product
        # Values that the request names stay, to work for them was the task; those in a call are its examples.
        said = _GIVEN.sub("", without_examples(asked))
        self._asked = {*bare_values(said), *_CODE_NAME.findall(said)}
        self._called = {name.rstrip("!?=") for file in product for name in _defined(file)}
        # Nor are words that code goes by, an option or a unit, inputs of which there are others, or files of the tests.
        self._known = {Path(path).name for path in tests} | {word for file in product for word in _texts_before(file)}
        after = {file.path: file.after for file in product if file.after is not None}
        for case in mended:
            for path, text in place_of(case, tests)[:_MOST_FILES]:
                whole, own = tests[path].encode(), text.encode()
                if own in whole and own in after.get(path, whole) and (is_test_file(path) or path.endswith(".rs")):
                    self.files[path], self.now[path] = whole, after.get(path, whole)
                    self.spans.setdefault(case.id, []).append((path, own))
                    self.unplaced.update((case.id,) if own == whole else ())
        # What else of the tests names their texts, as they give it: fixtures, helpers.
        named = {quoted for places in self.spans.values() for _, own in places for quoted in _QUOTED.findall(own)}
        others = {path: text.encode() for path, text in tests.items() if path not in self.files and is_test_file(path)}
        self.beside = {path: text for path, text in others.items() if not named.isdisjoint(_QUOTED.findall(text))}
        self._helpers = {name for path, text in self.files.items() for name in self._calling(path, text)}
        # How tests are called: other words there would make other tests of them.
        self._names = {part for case in mended for part in re.split(r"::| › | > |[/#\[\]]", case.id)}

    def _calling(self, path: str, text: bytes) -> Iterator[str]:
        """The functions of a file of tests that call what was changed."""
        source = open_source(path, text)
        for one in functions_of(source) if source is not None else ():
            if any(re.search(rf"(?<!\w){re.escape(name)}\s*\(", text_of(one.body)) for name in self._called):
                yield one.name

    def files_with(
        self, role: str, turn: int, files: Mapping[str, bytes] | None = None, *, only: int | None = None
    ) -> dict[str, bytes] | None:
        """The files (by default as they are now) with other values in this role, or for `only` one of each test.

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
                    True for _ in edits_of(source, span, self._called, helpers=self._helpers, role="input", turn=turn)
                ):
                    self.direct.add(name)
                elif role != "expected":
                    kinds = (role, role.replace("input", "any"))
                found = {
                    edit
                    for kind in kinds
                    for edit in edits_of(source, span, self._called, helpers=self._helpers, role=kind, turn=turn)
                }
                if role != "expected":
                    free = {edit for edit in found if self._may_vary(_within(files[path], edit))}
                    if not free and self._alone:
                        free = {edit for edit in found if is_number(_within(files[path], edit))}
                        self.forced.add(name)
                    found = free
                    found = {edit for edit in found if _within(files[path], edit)[1:-1] not in self._known} or found
                    if turn == 1 and name in self.direct and found:
                        # One value alone: others may be words of a closed list, of which there are no other ones.
                        longest = max((_within(files[path], edit) for edit in sorted(found)), key=len)
                        found = {edit for edit in found if _within(files[path], edit) == longest}
                    if not found and len(kinds) > 1:
                        found = {*edits_of(source, whole, self._called, helpers=self._helpers, role=role, turn=turn)}
                if only is not None:  # the others stay: together they might be a day that is in no calendar
                    values = list(dict.fromkeys(_within(files[path], edit) for edit in sorted(found)))
                    found = (
                        {*sorted(found)[only : only + 1]}  # both sides of a comparison may have the same
                        if role == "expected"
                        else {edit for edit in found if values.index(_within(files[path], edit)) == only}
                    )
                if found:
                    self.varied.add(name)
                    edits[path] = edits.get(path, set()) | found
        return {path: edited(files[path], found) for path, found in edits.items()} or None

    def expected_by(self, name: str) -> Iterator[str]:
        """The values that a test's own lines expect, as they are written, and have from nowhere else: no fake of it.

        None of a test that gives each text twice, and no number: by such a name it asks for what it put there itself.
        """
        for path, own in self.spans[name]:
            source, start = open_source(path, self.now[path]), self.now[path].find(own)
            if source is None:
                continue
            span = (start, start + len(own))
            given, wanted = (
                {*edits_of(source, span, self._called, helpers=self._helpers, role=role, turn=0)}
                for role in ("input", "expected")
            )
            names = Counter(_within(self.now[path], edit) for edit in given)
            if names and min(names.values()) > 1 and not any(name[0].isdigit() for name in names):
                continue
            rest = edited(self.now[path], {(*edit[:2], b" " * (edit[1] - edit[0])) for edit in given | wanted})
            others = rest[span[0] : span[1]].decode("utf-8", "replace")
            found = (_within(self.now[path], edit) for edit in wanted)
            yield from (value for value in found if not re.search(rf"(?<!\w){re.escape(value)}(?!\w)", others))

    def renamed(self) -> tuple[dict[str, bytes], set[str]]:
        """The files with other words in all their texts, each word alike everywhere, and the tests that have some.

        Words that code goes by stay: those of the change, of the request, and of the tests outside their texts.
        """
        told = "\n".join([self.asked, *map(code_of, self.product)])
        kept = {word.lower() for word in _WORDS.findall(told)}
        texts: dict[str, list[tree_sitter.Node]] = {}
        made, varied = dict[str, bytes](), set[str]()
        for path, text in (files := {**self.beside, **self.now}).items():
            source = open_source(path, text)
            nodes = source.nodes(kinds_of(source, source.language.strings)) if source is not None else []
            texts[path] = [node for node in nodes if not _FILLED.search(text_of(node)) and not brings_in(node)]
            code = edited(text, {(node.start_byte, node.end_byte, b"") for node in texts[path]})
            kept |= {*_WORDS.findall(code.decode("utf-8", "replace"))} if source is not None else set()
        for path, text in files.items():
            nodes = texts[path]
            edits = {
                (node.start_byte, node.end_byte, other.encode())
                for node in nodes
                if (other := _renamed(text_of(node), kept)) != text_of(node)
                and not {text_of(node)[1:-1], text_of(node)[1:-1].replace(" ", "_")} & self._names
            }
            made[path] = edited(text, edits)
            for name, places in self.spans.items():
                spans = [(text.find(own), len(own)) for where, own in places if where == path]
                if any(start <= edit[0] < start + size for edit in edits for start, size in spans):
                    varied.add(name)
        return made, varied

    def _may_vary(self, literal: str) -> bool:
        said = literal[1:-1]
        return self._asked.isdisjoint(bare_values(literal)) and not {said, said.replace(" ", "_")} & self._names


_WORDS = re.compile(r"[A-Za-z]{3,}")
_QUOTED = re.compile(rb"[\"'`]([^\"'`\n]{3,})[\"'`]")
_FILLED = re.compile(r"\$\{|#\{|^\w*[fF]\w*[\"']")


def _renamed(text: str, kept: set[str]) -> str:
    """With another last letter of each word that is not `kept`."""
    return _WORDS.sub(
        lambda word: word[0] if {word[0], word[0].lower()} & kept else word[0][:-1] + swapped(word[0][-1]), text
    )


def _within(text: bytes, edit: Edit) -> str:
    return text[edit[0] : edit[1]].decode("utf-8", "replace")


def edited(text: bytes, edits: Collection[Edit]) -> bytes:
    """The text with the edits made."""
    for start, end, made in sorted(edits, reverse=True):
        text = text[:start] + made + text[end:]
    return text


def _texts_before(file: ChangedFile) -> Iterator[str]:
    source = open_source(file.path, file.before) if file.before else None
    nodes = source.nodes(kinds_of(source, source.language.strings)) if source is not None and source.tree else ()
    yield from (text_of(node)[1:-1] for node in nodes)


def _defined(file: ChangedFile) -> Iterator[str]:
    """What the file defines; a comparison that the change added is no part of what is tested."""
    old, new = (open_source(file.path, side) if side else None for side in (file.before, file.after))
    known = {name for name, _, _ in names_of(old)} if old is not None else set()
    names = {name for name, _, _ in names_of(new)} if new is not None else set()
    yield from (name for name in names if name in known or not _COMPARES.search(name))
