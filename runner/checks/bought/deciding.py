"""Values that a change decides by: the sides of an equality, keys of tables, labels of choices. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from string import ascii_lowercase

import tree_sitter

from runner.checks.bought.by_sight import bare_values, is_example
from runner.checks.bought.requested import below, is_anybodys, text_of
from runner.checks.bought.retelling import (
    CALLS,
    EQUAL_SIGNS,
    EQUALITY,
    WITHIN,
    Edit,
    brings_in,
    edited,
    is_data,
    kinds_of,
    number_of,
    operator_of,
    other_value,
    swapped,
)
from runner.checks.harness import is_named
from runner.checks.mutants import NUMBERS
from runner.gate.source import Source, upwards

_HOLDS = re.compile(r"^(?:freeze|(?:frozen|to_)?set|Set|of|from|new)$")  # a list is made into another one
_LEAST_DECIDING, _LEAST_GIVEN, _LEAST_LETTERS = 3, 10, 2
_MOST_GIVEN = 30
_ENTRIES = frozenset({"pair", "keyed_element"})
_LABELS = frozenset({"switch_case", "expression_case", "case_pattern", "match_pattern", "pattern", "case_statement"})
_PICKS = re.compile(
    r"(?i)^(?:starts?_?with|ends?_?with|has_?(?:prefix|suffix)|includes?\??|contains|g?sub!?|replace\w*|test|match\w*)$"
)


def unnamed(
    source: Source, added: Collection[int], *, request: str, before: str, given: str
) -> Iterator[tuple[Edit, str]]:
    """The values on `added` lines that code decides by and that nobody named, with other ones for them.

    A value of several parts, a number among them (`2 2/3`), is an example of a rule: the request may name it as well as
    `given`, the tests. Of numbers those too that stand there, whatever is done with them, and what stands in a table
    that holds little but what the tests name.
    """
    tabled, said = _tabled(source, given), f"{request}\n{before}"
    numbers = set(bare_values(given))
    numbers = numbers if len(numbers) <= _MOST_GIVEN else set()  # among many any number stands by chance
    for node in source.nodes(kinds_of(source, (*NUMBERS, *source.language.strings))):
        text = text_of(node)
        value, made = (
            (_spelled(text), _NEVER)
            if node.type == "regex"
            else (text.strip("'\"`"), other_value(text, 1) or _of_data(text))
        )
        if node.start_point.row + 1 not in added or not made or brings_in(node):
            continue
        number = number_of(text) if text[:1].isdigit() else None
        if (
            is_named(value, before if is_example(value) and is_named(value, given) else said)
            or (number is not None and is_anybodys(number, said))
            or (number is None and (len(re.sub(r"\W", "", value)) < _LEAST_LETTERS or value.lower() in ascii_lowercase))
            or _is_of_data(node, added, given)
        ):
            continue
        held = number is not None and number >= _LEAST_GIVEN and value in numbers
        weighs = number is None or number >= _LEAST_DECIDING
        if held or node.id in tabled or (weighs and _decides(node, source, added)):
            yield (node.start_byte, node.end_byte, made.encode()), value


def _of_data(text: str) -> str:
    return re.sub(r"(?<!\\)[a-zA-Z]", lambda one: swapped(one[0]), text, count=1) if is_data(text) else ""


def _tabled(source: Source, given: str) -> set[int]:
    """The texts in tables of which nearly each one stands in the tests, however it is escaped there."""
    found, given = set[int](), _bare(given)
    for table in source.nodes(kinds_of(source, _TABLES)):
        nodes = [node for node in below(table) if node.type in source.language.strings]
        texts = {value: node.id for node in nodes if len(re.sub(r"\W", "", value := text_of(node).strip("'\"`"))) > 1}
        named = sum(is_named(_bare(value), given) for value in texts)
        if len(texts) >= _LEAST_TABLE and named >= _NEARLY * len(texts):
            found.update(texts.values())
    return found


def _bare(text: str) -> str:
    return re.sub(r"[\\\"'`]", "", text)


ROWS = ("list", "tuple", "set", "array", "array_expression", "literal_value", "initializer_list")
_TABLES = (*ROWS, "dictionary", "object", "hash")
_LEAST_TABLE, _NEARLY = 4, 0.8


def relabelled(source: Source, choice: tree_sitter.Node) -> bytes:
    """A choice among values with others in its labels: what it does is then what it does for all that they leave."""
    kinds = kinds_of(source, (*NUMBERS, *source.language.strings))
    inside = [node for node in source.nodes(kinds) if choice.start_byte < node.start_byte < choice.end_byte]
    edits = {
        (node.start_byte - choice.start_byte, node.end_byte - choice.start_byte, made.encode())
        for node in inside
        if is_label(node) and (made := _NEVER if node.type == "regex" else other_value(text_of(node), 0))
    }
    return edited(choice.text or b"", edits)


def is_label(node: tree_sitter.Node) -> bool:
    """Whether a literal is a label of a choice among values."""
    below = node
    for above in upwards(node.parent):
        if above.type in {"match_pattern", "case_pattern", "pattern", "switch_label"}:
            return True
        if above.type in {"switch_case", "expression_case", "case_statement"}:
            return above.child_by_field_name("value") == below
        below = above
    return False


_NEVER = "/(?!)/"


def _spelled(regex: str) -> str:
    """The longest text that a regular expression spells out: it takes little else."""
    plain = re.sub(
        r"\\[a-zA-Z]|\[[^\]]*\]|\{[^}]*\}|\(\?(?:P?<\w+>|\W)|[*+?^$|()]", "\0", regex.strip("/gimsuy")
    ).replace("\\", "")
    return max(plain.split("\0"), key=len, default="")


def _decides(node: tree_sitter.Node, source: Source, added: Collection[int]) -> bool:
    """Whether what is done depends on the comparison with a literal: the sides of `==`, keys of tables, labels."""
    below, above = node, node.parent
    while above is not None:
        signs = {child.type for child in above.children if not child.is_named}
        if above.type in EQUALITY and signs & {*EQUAL_SIGNS, "in", "not in"}:
            return True
        if above.type in _ENTRIES:
            return above.named_children[:1] == [below]
        if above.type in _LABELS or (above.type == "when" and above.children_by_field_name("pattern")):
            return below.type != "then"
        if above.type in CALLS and not _HOLDS.search(_name_called(above)):
            return _PICKS.search(_name_called(above)) is not None
        if re.search(r"const|static|declarator|assignment|short_var", above.type):
            if operator_of(above) not in {"", "=", ":="}:
                return False  # `position += 3` counts on
            name = re.match(r"(?:(?:pub|const|static|let|var|mut)\s+)*([\w.]+)", text_of(above))
            own = re.escape(name[1]) if name is not None else "$."
            used = rf"[=!]==?\s*\(?{own}\b|\b{own}(?:\s*[=!]=|\.(?:include|has|contains|member)\w*\??\()|\bin {own}\b"
            return any(re.search(used, source.line_text(line)) for line in sorted(added))
        if (
            above.type not in WITHIN
            and above.type not in CALLS
            and "member" not in above.type
            and above.type not in {"attribute", "binary_operator", *EQUALITY}
        ):
            return False
        below, above = above, above.parent
    return False


def _is_of_data(node: tree_sitter.Node, added: Collection[int], given: str) -> bool:
    """Whether it stands in a table of whose new entries the tests have less than half: that was not made for these."""
    entry = next((above for above in upwards(node.parent) if above.type in _ENTRIES), None)
    table = entry.parent.named_children if entry is not None and entry.parent is not None else ()
    entries = [one for one in table if one.type in _ENTRIES and one.start_point.row + 1 in added]
    sides = ([text_of(side).strip("'\"`") for side in one.named_children] for one in entries)
    named = sum(any(side in given for side in pair) for pair in sides)  # as a part too: "8" of "QA8"
    return len(entries) >= _LEAST_TABLE and named * 2 < len(entries)


def _name_called(call: tree_sitter.Node) -> str:
    names = map(call.child_by_field_name, ("method", "function", "name", "constructor"))
    name = next((one for one in names if one is not None), None)
    return re.split(r"\W+", text_of(name).strip(" !?"))[-1] if name is not None else ""
