"""Mutants of changed functions: small faults that a test which checks the change would notice. Pure.

The first mutant of a function is its stub: it returns at once with the zero value of its type. The old body stays
behind that return, so that imports and variables remain in use and compilers have nothing to refuse. The others change
one token or statement on a line that the task added or edited. Left alone is what usually makes no difference that a
test could see: log lines, error texts, annotations, debug representations, hashes, releasing calls.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

import tree_sitter

from runner.gate.criterion import ChangedFile
from runner.gate.definitions import name_of, only_tells, owner_of, stands_in_tests
from runner.gate.file_roles import is_test_double, is_test_file
from runner.gate.line_map import FileLines, line_map
from runner.gate.source import Source, is_generated, open_source, upwards

MutantKind = Literal[
    "stub", "negation", "comparison", "logic", "return", "arithmetic", "assignment", "call", "constant", "text"
]
COMPILED = frozenset({"go", "rust", "java", "c", "cpp"})
"""Languages whose compiler may refuse a mutant before any test runs."""
LANGUAGES = COMPILED | {"python", "javascript", "typescript", "tsx", "ruby"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault: the bytes `start` to `end` of `path` become `replacement`. `old` and `new` are for people."""

    path: str
    compiled: bool
    line: int
    function: str
    kind: MutantKind
    start: int
    end: int
    replacement: bytes
    old: str
    new: str

    def applied(self, text: bytes) -> bytes:
        """`text`, the file as it was when the mutant was made, with the fault."""
        return text[: self.start] + self.replacement + text[self.end :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A changed function with its mutants, the most telling first; `first` and `last` are its lines."""

    path: str
    function: str
    first: int
    last: int
    mutants: tuple[Mutant, ...]


def targets_of(files: Sequence[ChangedFile]) -> tuple[Target, ...]:
    """The changed functions of product code, in the order of the text."""
    changed = line_map(files)
    found = (
        _target(source, function, changed[file.path].added)
        for file, source, functions in changed_functions(files)
        for function in functions
    )
    return tuple(target for target in found if target is not None)


def in_turns(targets: Sequence[Target]) -> Iterator[Mutant]:
    """All mutants, so that every function gets its share of a budget that ends anywhere: all stubs first."""
    for turn in zip_longest(*(target.mutants for target in targets)):
        yield from (mutant for mutant in turn if mutant is not None)


def changed_functions(files: Sequence[ChangedFile]) -> Iterator[tuple[ChangedFile, Source, list[tree_sitter.Node]]]:
    """The functions of product code that the change touches, by file; those of languages that we know."""
    changed = line_map(files)
    for file in files:
        lines, text = changed.get(file.path), file.after
        if lines is None or text is None or file.too_large or file.unstable:
            continue
        if is_test_file(file.path) or is_test_double(file.path):
            continue
        source = None if is_generated(file.path, text) else open_source(file.path, text)
        if source is None or source.tree is None or source.language.name not in LANGUAGES or source.text != text:
            continue
        touched = lines.added | _around_removed(lines)
        yield (
            file,
            source,
            [
                function
                for function in source.nodes(source.language.functions)
                if not touched.isdisjoint(range(function.start_point.row + 1, function.end_point.row + 2))
                and _is_own(source, function)
            ],
        )


def _target(source: Source, function: tree_sitter.Node, lines: frozenset[int]) -> Target | None:
    body = function.child_by_field_name("body")
    if body is None or stands_in_tests(source, function) or name_of(function) in _NEVER:
        return None
    name = ".".join(part for part in (owner_of(source, function), _own_name(source, function)) if part)
    site = _Site(source, function, body, name, _zero(source, function))
    found = [*_stub(site), *_faults(site, lines)]
    first, last = function.start_point.row + 1, function.end_point.row + 1
    mutants = tuple(_most_telling_first(found))
    return Target(path=source.path, function=name, first=first, last=last, mutants=mutants)


def _around_removed(lines: FileLines) -> frozenset[int]:
    """The lines of the new text beside which one was taken out; none where blocks were moved to and fro."""
    old = [number for number in range(1, len(lines.before) + 1) if number not in lines.removed]
    new = [number for number in range(1, len(lines.after) + 1) if number not in lines.added]
    if not lines.removed or len(old) != len(new):
        return frozenset()
    at = (bisect_left(old, number) for number in lines.removed)
    return frozenset(number for place in at for number in new[max(0, place - 1) : place + 1])


def _is_own(source: Source, function: tree_sitter.Node) -> bool:
    """Whether a function is a target of its own: it has a name, or stands in no other function."""
    inside = any(above.type in source.language.functions for above in upwards(function.parent))
    return not inside or bool(name_of(function))


def _own_name(source: Source, function: tree_sitter.Node) -> str:
    """Its name, or the one it is assigned to, or its line."""
    name = function.child_by_field_name("name")
    found = name_of(function) or (_text(name) if name is not None else "")
    for above in () if found else upwards(function.parent):
        named = above.child_by_field_name("left") or above.child_by_field_name("key")
        named = named or above.child_by_field_name("property") or above.child_by_field_name("name")
        if named is not None:
            return _text(named)
    return found or f"line {source.line_at(function.start_byte)}"


def _text(node: tree_sitter.Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Site:
    """A function under mutation; `zero` is what it returns when it does nothing: "" for nothing, None if unknown."""

    source: Source
    function: tree_sitter.Node
    body: tree_sitter.Node
    name: str
    zero: str | None

    def mutant(
        self, kind: MutantKind, start: int, end: int, replacement: str, *, old: str = "", new: str = ""
    ) -> Mutant:
        at = start if end > start else self.function.start_byte
        return Mutant(
            path=self.source.path,
            compiled=self.source.language.name in COMPILED,
            line=self.source.line_at(at),
            function=self.name,
            kind=kind,
            start=start,
            end=end,
            replacement=replacement.encode(),
            old=_shown(old or self.source.text[start:end].decode("utf-8", "replace")),
            new=_shown(new or replacement),
        )


_SHOWN = 60


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


# --- stubs ---

_NEVER = frozenset({"__repr__", "__hash__", "__del__", "hashCode", "finalize", "inspect", "main"})
_EARLY = {"go": "if true {{ {} }};", "rust": "if true {{ {}; }}", "c": "if (1) {};"}
_ZEROS, _WHOLE = "return zero values", "the whole body"
_ZERO_VALUES = frozenset({
    "", "None", "nil", "null", "undefined", "0", "False", "false", '""', "''", "{}", "[]", "()", "Ok(())",
})  # fmt: skip
_EXPRESSION = {"javascript": "undefined", "typescript": "undefined as any", "tsx": "undefined as any"}


def _stub(site: _Site) -> Iterator[Mutant]:
    language = site.source.language.name
    statements = [node for node in site.body.named_children if node.type not in site.source.language.comments]
    while len(statements) == 1 and statements[0].type == "statement_list":
        statements = statements[0].named_children
    if site.zero is None:
        return
    bare = site.body.type not in {"body_statement", "statement_block"}  # `x => x + 1`, `def f = 1`
    if bare and (language == "ruby" or language in _EXPRESSION):
        if not _says_nothing(site.body, site.zero):
            yield site.mutant("stub", site.body.start_byte, site.body.end_byte, site.zero, old=_WHOLE, new=site.zero)
        return
    if language == "python" and statements and statements[0].type == "expression_statement":
        statements = statements[1:] if statements[0].named_children[0].type == "string" else statements
    if not statements or all(_says_nothing(node, site.zero) for node in statements):
        return
    told = f"return {site.zero}".rstrip()
    if language == "python":
        at = statements[0].start_byte
        indent = site.source.text[site.source.line_span(site.source.line_at(at))[0] : at].decode("utf-8", "replace")
        yield site.mutant("stub", at, at, told + ("; " if indent.strip() else f"\n{indent}"), old=_WHOLE, new=told)
    elif language == "ruby":
        at = site.body.start_byte
        yield site.mutant("stub", at, at, f"{told}; ", old=_WHOLE, new=told)
    else:
        early = _EARLY.get(language, "if (true) {};").format(told)
        at = site.body.start_byte + 1
        yield site.mutant(
            "stub", at, at, f" {early}", old=_WHOLE, new=_ZEROS if language == "go" and site.zero else told
        )


def _says_nothing(statement: tree_sitter.Node, zero: str) -> bool:
    """Whether a statement does what the stub does, or only logs."""
    text = _text(statement).rstrip(";").strip()
    value = text.removeprefix("return").strip()
    return text in {"pass", "..."} or value in _ZERO_VALUES or value == zero or only_tells(text.encode())


_JAVA_ZERO = {"void": "", "boolean": "false", "char": "'\\0'", "String": '""'} | dict.fromkeys(
    ("byte", "short", "int", "long", "float", "double"), "0"
)


def _zero(source: Source, function: tree_sitter.Node) -> str | None:
    language = source.language.name
    if (receiver := _receiver(function, language)) is not None:
        return receiver
    fixed = {"python": "None", "ruby": "nil", **_EXPRESSION}
    if language in fixed:
        return fixed[language]
    if language == "go":
        return _go_zero(function.child_by_field_name("result"))
    kind = function.child_by_field_name("return_type" if language == "rust" else "type")
    told = _text(kind) if kind is not None else ""
    if language == "rust":
        return _rust_zero(told)
    if language == "java":
        return _JAVA_ZERO.get(told, "null")
    return _c_zero(language, told, function.child_by_field_name("declarator"))


def _receiver(function: tree_sitter.Node, language: str) -> str | None:
    """What a method gives back that its calls are chained by: with zero in its place the next call would fail."""
    if language == "rust":
        kind, given = function.child_by_field_name("return_type"), function.child_by_field_name("parameters")
        if kind is None or given is None or _text(kind) != "Self":
            return None
        return "self" if re.match(r"\((?:mut )?self\b", _text(given)) else None
    body = function.child_by_field_name("body")
    last = _RECEIVER.search(_text(body)) if body is not None else None
    return last[1] if last is not None else None


_RECEIVER = re.compile(r"\breturn (self|this|\*this)\b[;\s]*\}?$")


def _go_zero(result: tree_sitter.Node | None) -> str:
    if result is None or result.type != "parameter_list":
        return "" if result is None else f"*new({_text(result)})"
    zeros = []
    for declared in result.named_children:
        kind = declared.child_by_field_name("type")
        if kind is not None:
            zeros += [f"*new({_text(kind)})"] * max(1, len(declared.children_by_field_name("name")))
    return ", ".join(zeros)


def _rust_zero(told: str) -> str | None:
    if not told or told.startswith(("!", "impl ")):
        return None if told else ""
    return "Ok(Default::default())" if re.match(r"(?:\w+::)*Result\b", told) else "Default::default()"


def _c_zero(language: str, told: str, declarator: tree_sitter.Node | None) -> str | None:
    if declarator is not None and declarator.type == "pointer_declarator":
        return "0"
    if declarator is not None and declarator.type == "reference_declarator":
        return None
    if told in {"", "void"}:
        return ""
    if language == "cpp":
        return None if told == "auto" else "{}"
    return f"({told}){{0}}" if told.startswith(("struct ", "union ")) else "0"


# --- faults on a line ---

_PAIRS: tuple[tuple[MutantKind, str], ...] = (
    ("comparison", "< <= > >= == != === !=="),
    ("logic", "and or && || &&= ||="),
    ("arithmetic", "+ - * / // * % * ** * << >> & | ^ &"),
    ("assignment", "+= -= *= /= //= *= %= *= **= *= <<= >>= &= |= ^= &= ++ --"),
)


def _swaps() -> dict[str, tuple[MutantKind, str]]:
    """Each operator with what takes its place: the neighbours of a pair stand for each other, the first pair wins."""
    found: dict[str, tuple[MutantKind, str]] = {}
    for kind, listed in _PAIRS:
        marks = listed.split()
        for one, other in zip(marks[::2], marks[1::2], strict=True):
            found.setdefault(one, (kind, other))
            found.setdefault(other, (kind, one))
    return found


_SWAPS = _swaps()
_PYTHON_SWAPS = {"is": "is not", "is not": "is", "in": "not in", "not in": "in"}
_OPERATIONS = frozenset({
    "comparison_operator", "boolean_operator", "binary_operator", "binary_expression", "binary",
    "augmented_assignment", "augmented_assignment_expression", "compound_assignment_expr", "assignment_expression",
    "assignment_statement", "operator_assignment", "update_expression", "inc_statement", "dec_statement",
})  # fmt: skip
NUMBERS = frozenset({
    "integer", "float", "int_literal", "float_literal", "integer_literal", "number", "number_literal",
    "decimal_integer_literal", "decimal_floating_point_literal",
})  # fmt: skip
_RETURNS = frozenset({"return_statement", "return_expression", "return"})
_CALLS = frozenset({"call", "call_expression", "method_invocation", "await", "await_expression"})
# What is not looked into: its faults show in no result, or do not compile.
_CLOSED = frozenset({
    "type", "type_annotation", "type_arguments", "type_parameters", "type_argument_list", "type_parameter_list",
    "template_argument_list", "type_descriptor", "decorator", "annotation", "marker_annotation", "attribute_item",
    "raise_statement", "throw_statement", "assert_statement", "token_tree", "array_declarator", "for_clause_update",
    "import_statement", "import_from_statement", "preproc_call", "preproc_def", "delete_statement",
})  # fmt: skip
_FLIPPED = {"true": "false", "false": "true", "True": "False", "False": "True"}
_NUMBER = re.compile(r"(?!0[xXbBoO_\d])(\d+)(?=\D|$)")
_QUOTED = re.compile(r"(\w{0,2})(['\"`])(?!\2)([^\n]+)\2", re.DOTALL)
_ERROR_MADE = re.compile(r"(?i)\b(?:\w*errors?f?|\w*exception|errors?\.new|bail|panic|fail\w*|raise|warn\w*)!?$")
_RELEASED = re.compile(r"(?i)(?:^|\.|::|->)(?:close|flush|free|unlock|release|dispose|drop|sleep|cancel|gc|collect)$")
_ORDER = {
    kind: number
    for number, kind in enumerate(
        ("stub", "negation", "comparison", "logic", "return", "arithmetic", "assignment", "call", "constant", "text")
    )
}


def _most_telling_first(found: Iterable[Mutant]) -> list[Mutant]:
    """Each line's best mutant before any line's second one; none twice."""
    once = {(mutant.start, mutant.end, mutant.replacement): mutant for mutant in found}
    ranked = sorted(once.values(), key=lambda mutant: (_ORDER[mutant.kind], mutant.start))
    rounds: dict[int, int] = {}
    keyed = []
    for mutant in ranked:
        turn = 0 if mutant.kind == "stub" else rounds.setdefault(mutant.line, 1)
        rounds[mutant.line] = rounds.get(mutant.line, 1) + (mutant.kind != "stub")
        keyed.append((turn, _ORDER[mutant.kind], mutant.start, mutant))
    return [mutant for *_, mutant in sorted(keyed, key=lambda each: each[:3])]


def _faults(site: _Site, lines: frozenset[int]) -> Iterator[Mutant]:
    functions = site.source.language.functions
    waiting = [site.body]
    while waiting:
        node = waiting.pop()
        rows = range(node.start_point.row + 1, node.end_point.row + 2)
        if lines.isdisjoint(rows) or node.type in _CLOSED or node.type.endswith("_type"):
            continue
        if (node.type in functions and node.id != site.function.id and name_of(node)) or _is_log(node):
            continue
        if rows.start in lines or len(rows) == 1:
            for make in _MAKERS:
                yield from make(site, node)
        waiting += reversed(node.children)


def _is_log(node: tree_sitter.Node) -> bool:
    return node.type == "expression_statement" and only_tells(node.text or b"")


def _operator(site: _Site, node: tree_sitter.Node) -> Iterator[Mutant]:
    parent = node.parent
    if node.is_named or parent is None or parent.type not in _OPERATIONS:
        return
    mark, language = node.type, site.source.language
    if language.name == "python" and mark in _PYTHON_SWAPS:
        yield site.mutant("comparison", node.start_byte, node.end_byte, _PYTHON_SWAPS[mark])
        return
    if mark not in _SWAPS:
        return
    kind, new = _SWAPS[mark]
    of_text = any(child.type in language.strings for child in parent.named_children)
    appends = mark in {"<<", ">>"} and language.name in {"cpp", "ruby"}
    steps = mark in {"++", "--"} and parent.parent is not None and parent.parent.type in {"for_statement", "for_clause"}
    if (kind == "arithmetic" and (of_text or appends)) or (kind == "assignment" and (of_text or steps)):
        return
    if language.name != "python" and mark in {"//", "//="}:
        return
    yield site.mutant(kind, node.start_byte, node.end_byte, new)


def _negated(site: _Site, node: tree_sitter.Node) -> Iterator[Mutant]:
    """`not x` loses its `not`; another condition that is no comparison gets one."""
    python = site.source.language.name == "python"
    first = node.children[0] if node.children else None
    if first is not None and first.type in {"not", "!"} and node.type in _NOTS:
        yield site.mutant("negation", node.start_byte, node.end_byte, _text(node)[len(first.type) :].lstrip())
        return
    condition = node.child_by_field_name("condition")
    while condition is not None and condition.type in {"parenthesized_expression", "condition_clause"}:
        condition = condition.named_children[-1] if condition.named_children else None
    if condition is None or condition.type not in _PLAIN:
        return
    text = _text(condition)
    yield site.mutant("negation", condition.start_byte, condition.end_byte, f"not ({text})" if python else f"!({text})")


_NOTS = frozenset({"not_operator", "unary_expression", "unary"})
_PLAIN = _CALLS | {
    "identifier", "attribute", "subscript", "member_expression", "selector_expression", "field_expression",
    "field_access", "index_expression", "subscript_expression", "instance_variable", "array_access",
}  # fmt: skip


def _constant(site: _Site, node: tree_sitter.Node) -> Iterator[Mutant]:
    text = _text(node)
    if node.type in NUMBERS and (digits := _NUMBER.match(text)):
        new = f"{int(digits[1]) + 1}{text[digits.end() :]}"
        yield site.mutant("constant", node.start_byte, node.end_byte, new)
    elif text in _FLIPPED and (node.is_named or site.source.language.name == "rust"):
        yield site.mutant("constant", node.start_byte, node.end_byte, _FLIPPED[text])


def _string(site: _Site, node: tree_sitter.Node) -> Iterator[Mutant]:
    """A text that is not for people becomes empty."""
    parent = node.parent
    if node.type not in site.source.language.strings or parent is None or parent.type == "expression_statement":
        return
    quoted = _QUOTED.fullmatch(_text(node))
    if quoted is None or (quoted[2] == "'" and site.source.language.name in COMPILED):  # a character
        return
    for above in upwards(parent):
        called = above.child_by_field_name("function") or above.child_by_field_name("method")
        called = called or above.child_by_field_name("constructor") or above.child_by_field_name("name")
        if above.type in _CALLS | {"new_expression"} and called is not None and _ERROR_MADE.search(_text(called)):
            return
        if above.type in site.source.language.functions:
            break
    yield site.mutant("text", node.start_byte, node.end_byte, f"{quoted[1]}{quoted[2] * 2}")


def _returned(site: _Site, node: tree_sitter.Node) -> Iterator[Mutant]:
    given = [child for child in node.named_children if child.type not in site.source.language.comments]
    if node.type not in _RETURNS or not given or not site.zero or _is_only(site, node):
        return
    value = site.source.text[given[0].start_byte : given[-1].end_byte].decode("utf-8", "replace")
    if value in {*_FLIPPED, *_ZERO_VALUES, site.zero}:
        return
    new = "zero values" if site.source.language.name == "go" else site.zero
    yield site.mutant("return", given[0].start_byte, given[-1].end_byte, site.zero, new=new)


def _is_only(site: _Site, node: tree_sitter.Node) -> bool:
    """Whether a return is the whole body: the stub is the same."""
    inside = node.parent
    alone = len([child for child in (inside or node).named_children if "comment" not in child.type]) == 1
    return inside is not None and alone and inside.id in {site.body.id, getattr(site.body.named_child(0), "id", 0)}


_NOTHING = {"python": "pass", "go": "{}", "rust": "();", "ruby": "nil"}


def _call(site: _Site, node: tree_sitter.Node) -> Iterator[Mutant]:
    """A call whose result nobody takes is left out."""
    language = site.source.language.name
    if language == "ruby":
        block = node.parent.type if node.parent is not None and node.next_named_sibling is not None else ""
        if node.type != "call" or block not in {"body_statement", "then", "else", "do"}:
            return
        call = node
    elif node.type == "expression_statement" and len(node.named_children) == 1:
        call = node.named_children[0]
    else:
        return
    called = call.child_by_field_name("function") or call.child_by_field_name("name")
    called = called or call.child_by_field_name("method")
    text = _text(called) if called is not None else ""
    if call.type not in _CALLS or _RELEASED.search(text) or only_tells(node.text or b"") or _is_only(site, node):
        return
    yield site.mutant("call", node.start_byte, node.end_byte, _NOTHING.get(language, ";"), new="(left out)")


_MAKERS: tuple[Callable[[_Site, tree_sitter.Node], Iterator[Mutant]], ...] = (
    _operator, _negated, _constant, _string, _returned, _call,
)  # fmt: skip
