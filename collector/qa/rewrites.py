"""The same fix in other words: rewrites of its changed functions that mean the same. Pure.

Whoever mends the bug need not choose the same names and branches: tests that refuse such a rewrite are too narrow.
Left alone is whatever might tell the difference: names that are looked up as texts, functions within functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import tree_sitter

from runner.checks.mutants import changed_functions
from runner.gate.criterion import ChangedFile
from runner.gate.source import Source, open_source


class Rewrite(NamedTuple):
    """All changed functions rewritten in one way: the files' new texts by path."""

    name: str
    files: Mapping[str, bytes]


class _Edit(NamedTuple):
    start: int
    end: int
    text: bytes


def rewrites_of(files: Sequence[ChangedFile]) -> list[Rewrite]:
    """One rewrite for each way that has something to rewrite."""
    found: dict[str, dict[str, bytes]] = {name: {} for name in _WAYS}
    for file, source, functions in changed_functions(files):
        for name, way in _WAYS.items():
            text = _applied(source.text, chain.from_iterable(way(source, function) for function in functions))
            again = open_source(file.path, text) if text != source.text else None
            if again is not None and again.tree is not None and not again.tree.root_node.has_error:
                found[name][file.path] = text
    return [Rewrite(name, texts) for name, texts in found.items() if texts]


def _applied(text: bytes, edits: Iterator[_Edit]) -> bytes:
    """`text` with the edits; of those that meet, the first."""
    parts, at = list[bytes](), 0
    for edit in sorted(edits):
        if edit.start >= at:
            parts += (text[at : edit.start], edit.text)
            at = edit.end
    return b"".join((*parts, text[at:]))


def _below(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += one.children


_OPAQUE: Final = frozenset({
    "function_definition", "lambda", "class_definition", "global_statement", "nonlocal_statement", "match_statement",
})  # fmt: skip
_LOOKING: Final = frozenset({b"locals", b"vars", b"eval", b"exec", b"dir", b"globals", b"inspect", b"sys"})
_BINDING: Final = frozenset({"assignment", "for_statement"})
_PATTERNS: Final = frozenset({"pattern_list", "tuple_pattern", "list_pattern"})
_IMPORTS: Final = frozenset({"import_statement", "import_from_statement"})


def _renamed(source: Source, function: tree_sitter.Node) -> Iterator[_Edit]:
    """Other names for the variables that a Python function gives values to, its parameters left out."""
    body, parameters = function.child_by_field_name("body"), function.child_by_field_name("parameters")
    if source.language.name != "python" or body is None or parameters is None:
        return
    inside = list(_below(body))
    names = [node for node in inside if node.type == "identifier"]
    if any(node.type in _OPAQUE for node in inside) or any(node.text in _LOOKING for node in names):
        return
    fixed = {node.text for node in _below(parameters)}
    fixed |= {node.text for each in inside if each.type in _IMPORTS for node in _below(each)}
    bound = {node.text for node in names if _is_target(node)} - fixed
    for node in names:
        if node.text and node.text in bound and not _is_foreign(node):
            new = node.text + b"_0"
            while new in source.text:
                new += b"_0"
            yield _Edit(node.start_byte, node.end_byte, new)


def _is_target(name: tree_sitter.Node) -> bool:
    node = name
    while node.parent is not None and node.parent.type in _PATTERNS:
        node = node.parent
    above = node.parent
    return above is not None and above.type in _BINDING and above.child_by_field_name("left") == node


def _is_foreign(name: tree_sitter.Node) -> bool:
    """Whether it is another thing's name: an attribute's, an argument's."""
    above = name.parent
    field = {"attribute": "attribute", "keyword_argument": "name"}.get(above.type if above is not None else "")
    return above is not None and field is not None and above.child_by_field_name(field) == name


def _swapped(source: Source, function: tree_sitter.Node) -> Iterator[_Edit]:
    """The branches of an `if` the other way round, under the opposite condition."""
    text, python = source.text, source.language.name == "python"
    for node in _below(function):
        asked, then = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        others = node.children_by_field_name("alternative")
        if node.type != "if_statement" or asked is None or then is None or [each.type for each in others] != [_ELSE]:
            continue
        other = others[0].child_by_field_name("body") or others[0].named_children[-1]
        if python:
            whole = then.start_point.row > asked.end_point.row and other.start_point.row > others[0].start_point.row
        else:
            whole = then.type == other.type == "statement_block"
        if whole and "comment" not in {each.type for each in node.children}:
            condition = text[asked.start_byte : asked.end_byte]
            parts = (
                text[node.start_byte : asked.start_byte],
                b"not (%s)" % condition if python else b"(!%s)" % condition,
                text[asked.end_byte : then.start_byte],
                text[other.start_byte : other.end_byte],
                text[then.end_byte : other.start_byte],
                text[then.start_byte : then.end_byte],
                text[other.end_byte : node.end_byte],
            )
            yield _Edit(node.start_byte, node.end_byte, b"".join(parts))


_ELSE: Final = "else_clause"
_VALUE: Final = b"value_to_return"


def _named(source: Source, function: tree_sitter.Node) -> Iterator[_Edit]:
    """What is returned gets a name first."""
    python = source.language.name == "python"
    for node in _below(function) if _VALUE not in source.text else ():
        values = node.named_children
        if node.type != "return_statement" or len(values) != 1 or values[0].type == "comment" or node.parent is None:
            continue
        value = source.text[values[0].start_byte : values[0].end_byte]
        before = source.text[: node.start_byte].rpartition(b"\n")[2]
        if python and not before.strip():
            told = b"%s = %s\n%sreturn %s" % (_VALUE, value, before, _VALUE)
        elif not python and node.parent.type == "statement_block" and (node.text or b"").endswith(b";"):
            told = b"const %s = %s; return %s;" % (_VALUE, value, _VALUE)
        else:
            continue
        yield _Edit(node.start_byte, node.end_byte, told)


_PLAIN: Final = frozenset({  # what neither runs anything nor can be told by when it is done
    "identifier", "integer", "float", "number", "string", "string_start", "string_content", "string_end",
    "string_fragment", "escape_sequence", "true", "false", "none", "null", "undefined", "tuple", "list", "array",
})  # fmt: skip


def _reordered(source: Source, function: tree_sitter.Node) -> Iterator[_Edit]:
    """Neighbouring assignments of plain values that have no name in common, the other way round."""
    for block in _below(function):
        nodes = iter(block.named_children if block.type in {"block", "statement_block"} else ())
        one = next(nodes, None)
        for two in nodes:
            names = (_names_given(each) for each in (one, two) if each is not None)
            first, second = next(names, None), next(names, None)
            if one is not None and first and second and first.isdisjoint(second):
                parts = source.text[two.start_byte : two.end_byte], source.text[one.end_byte : two.start_byte]
                yield _Edit(one.start_byte, two.end_byte, b"".join((*parts, one.text or b"")))
                one = next(nodes, None)
            else:
                one = two


def _names_given(node: tree_sitter.Node) -> set[bytes | None]:
    """All names in a statement that does no more than give a plain value to one; none for any other."""
    inner = node.named_children[0] if node.named_child_count == 1 else node
    left, right = ("left", "right") if inner.type == "assignment" else ("name", "value")
    target, value = inner.child_by_field_name(left), inner.child_by_field_name(right)
    whole = node.type == "expression_statement" or (node.text or b"").endswith(b";")
    given = inner.type in {"assignment", "variable_declarator"} and inner.child_by_field_name("type") is None
    if not (whole and given and target is not None and value is not None and target.type == "identifier"):
        return set()
    inside = list(_below(value))
    if any(each.is_named and each.type not in _PLAIN for each in inside):
        return set()
    return {target.text, *(each.text for each in inside if each.type == "identifier")}


_WAYS: Final[Mapping[str, Callable[[Source, tree_sitter.Node], Iterator[_Edit]]]] = {
    "other names for variables": _renamed,
    "branches the other way round": _swapped,
    "a name for what is returned": _named,
    "neighbours the other way round": _reordered,
}
