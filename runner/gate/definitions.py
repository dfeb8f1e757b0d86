"""Functions and classes of a source, and how much a function's body does. Pure, by the syntax tree, for every grammar.

A body is trivial where it does nothing that depends on anything: no statement, a constant, a log line, a raise. What
counts as a constant is read from the words of the statement: all of them are literals, or names of empty values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import tree_sitter

from runner.gate.criterion import ChangedFile
from runner.gate.file_roles import is_test_double, is_test_file
from runner.gate.languages import BODIES, by_path
from runner.gate.line_map import FileLines, line_map
from runner.gate.source import MARK_BYTES, Source, open_source, upwards
from runner.gate.wording import later, pattern_of_bytes, tables

_DECLARATORS = {"identifier", "field_identifier", "destructor_name", "operator_name", "qualified_identifier"}
STRING = re.compile(rb"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`[^`]*`", re.DOTALL)
FILLED_IN = re.compile(rb"%[sdvq]|\{[a-zA-Z_]|\$\{|\$\w|\\\(|#\{")
_COMMENT = later(rb"//[^\n]*|/\*.*?\*/|(?m:^[ \t]*#[^\n]*)", re.DOTALL)
_WORD = later(rb"[A-Za-z_$][\w$]*[!?]?")
_KEY = later(rb"\b[A-Za-z_]\w*\s*(?::(?!:)|=>|=(?!=))")
_OPERATION = later(rb"[-+*/%<>&|^!~]=?(?=\s*[\w(])|[=!]=|\band\b|\bor\b|\bnot\b")
_EMPTY_VALUES = frozenset(
    b"return yield await pass None null nil undefined true false True False nullptr NULL Nothing Nil Unit "
    b"void ok Ok Some Err Default default new dict list set tuple frozenset str int float bool Map Set "
    b"Array Object List String Vec vec! HashMap HashSet BTreeMap ArrayList Optional Collections Promise "
    b"resolve Task CompletedTask FromResult completed CompletableFuture completedFuture Arrays asList of "
    b"empty Empty emptyList emptyMap emptySet listOf mapOf setOf EMPTY_LIST array string int64 error "
    b"struct map interface std vector static_cast NaN Infinity inf as".split()
)
_RAISED = later(rb"^\s*\(?\s*(?:new\s+)?[\w.:\\]*")
_NUMBER = later(rb"\b\d[\w.]*")
_GENERIC = later(rb"<[\w\s,.?<>\[\]]*>")
_RAISES = pattern_of_bytes("definitions", "raises")
_SAYS = pattern_of_bytes("definitions", "says")
_DISCARDS = later(rb"(?:_(?:\s*,\s*_)*\s*:?=[^=]|let _\b|\(void\)|void\s+\w+;?$|unused\(|UNUSED|del\s|_ = )")
_SWALLOWS = pattern_of_bytes("definitions", "swallows")
_NOTHING = frozenset((b"pass", b"...", b":", b"true", b";", b"nil", b"()", b"return", b"return;", b"{}", b"unit"))
_CHAINED = frozenset((b"self", b"return self", b"return this", b"return *this"))
_BRACES = later(rb"[\s{}()\[\];,]*(?:end|pass)?[\s{}()\[\];,]*")
_PARAMETERS = ("parameters", "function_value_parameters", "formal_parameters", "method_parameters", "parameter_list")
_HEADS = {"lambda_parameters", "block_parameters", "lambda_function_type", "capture_list"}
_OWN = frozenset((b"self", b"this", b"cls", b"mut", b"const", b"final", b"ref", b"out", b"in", b"let", b"var"))
_DEEPEST = 12
_FEW = 4


class _Named(NamedTuple):
    source: Source
    node: tree_sitter.Node
    name: str
    body: tree_sitter.Node | None


class Function(_Named):
    """A function, with a name mostly. Of most functions of a file no more is asked than where they stand."""

    @cached_property
    def owner_node(self) -> tree_sitter.Node | None:
        """The class that it stands in."""
        return _owner(self.source, self.node)

    @cached_property
    def owner(self) -> str:
        """The name of the class that it belongs to, empty where there is none."""
        return owner_of(self.source, self.node)

    @cached_property
    def _parts(self) -> tuple[list[tree_sitter.Node], bool, bytes]:
        return _statements(self.body if self.body is not None or self.name else self.node)

    @property
    def statements(self) -> list[tree_sitter.Node]:
        """Those of its body, without docstring and comments."""
        return self._parts[0]

    @property
    def documented(self) -> bool:
        """Whether a docstring stands before them."""
        return self._parts[1]

    @property
    def comments(self) -> bytes:
        """The text of its comments."""
        return self._parts[2]

    @property
    def key(self) -> str:
        """Its name with that of its class."""
        return f"{self.owner}.{self.name}"

    @property
    def lines(self) -> tuple[int, int]:
        """Its first and last line, 1-based."""
        return self.node.start_point.row + 1, self.node.end_point.row + 1

    @cached_property
    def texts(self) -> tuple[bytes, ...]:
        """Each statement as it is written."""
        return tuple(self.source.text[node.start_byte : node.end_byte].strip() for node in self.statements)

    @cached_property
    def code_lines(self) -> int:
        """How many lines of its body hold code."""
        lines = (line for text in self.texts for line in _COMMENT.sub(b"", text).split(b"\n"))
        return sum(_BRACES.fullmatch(line) is None for line in lines)

    @cached_property
    def header(self) -> bytes:
        """Its text before the body, with decorators and modifiers."""
        outer = self.node.parent if self.node.parent and self.node.parent.type == "decorated_definition" else self.node
        before = b""
        beside = outer.prev_sibling
        while beside is not None and beside.type in {"decorator", "attribute_item", "attribute"}:
            before = (beside.text or b"") + b" " + before
            beside = beside.prev_sibling
        end = self.body.start_byte if self.body is not None else self.node.end_byte
        return before + self.source.text[outer.start_byte : end]

    @cached_property
    def parameters(self) -> frozenset[bytes]:
        """The words of its parameters, names and types; empty where it takes none but itself."""
        heads = (child for child in _heads(self.node) if child.type in _PARAMETERS or child.type == "parameter")
        node = self.node.child_by_field_name("parameters") or next(heads, None)
        if node is None:
            return frozenset()
        nodes = [child for child in self.node.children if child.type == "parameter"] or [node]
        return frozenset(_WORD.findall(b" ".join(each.text or b"" for each in nodes))) - _OWN

    @property
    def is_empty(self) -> bool:
        """Whether it does nothing at all."""
        nothing = _NOTHING if self.source.language.name == "bash" else _NOTHING - {b"true"}
        return not self.texts[1:] and all(text.rstrip(b";") in nothing or not text for text in self.texts)

    @property
    def is_trivial(self) -> bool:
        """Whether all it does is return a constant, write a log line, raise, or nothing."""
        return len(self.texts) <= _FEW and all(is_trivial(text) for text in self.texts)

    @property
    def returns_parameter(self) -> bool:
        """Whether all it does is give back what it was given."""
        if len(self.texts) != 1:
            return False
        words = set(_WORD.findall(self.texts[0])) - _EMPTY_VALUES
        return len(words) == 1 and words <= self.parameters and not re.search(rb"[-+*/%(<>.\[]", self.texts[0])

    @property
    def uses_parameters(self) -> bool:
        """Whether a parameter turns up in its body."""
        return any(not self.parameters.isdisjoint(_WORD.findall(text)) for text in self.texts)


def is_trivial(text: bytes) -> bool:
    """Whether a statement does nothing that depends on anything."""
    text = text.strip().rstrip(b";")
    if (raised := _RAISES.match(text)) and is_constant(_RAISED.sub(b"", text[raised.end() :], count=1)):
        return True  # what it raises is made of nothing but constants
    nothing = text in _NOTHING or text in _CHAINED or only_tells(text) or is_constant(text)
    return nothing or _SWALLOWS.fullmatch(text) is not None


def only_tells(text: bytes) -> bool:
    """Whether a statement is a log line, or discards a parameter."""
    return _SAYS.match(text.lstrip()) is not None or _DISCARDS.match(text.lstrip()) is not None


def is_constant(text: bytes) -> bool:
    """Whether a statement is `return` of a literal or an empty value, or such a value as a function's last word."""
    if len(text) > 400 or any(FILLED_IN.search(string.group()) for string in STRING.finditer(text)):
        return False
    bare = _NUMBER.sub(b"0", _GENERIC.sub(b"", STRING.sub(b'""', text))).lstrip(b"=> ")
    if _OPERATION.search(bare.removeprefix(b"return").strip().lstrip(b"-&*")):
        return False
    return _EMPTY_VALUES.issuperset(_WORD.findall(_KEY.sub(b"", bare)))


_ABSTRACT = pattern_of_bytes("definitions", "abstract")
_ABSTRACT_CLASS = later(rb"\b(?:abstract|Protocol|ABC|ABCMeta|Interface)\b")
_INTERFACES = frozenset(tables()["definitions"]["interfaces"])


def is_abstract(function: Function) -> bool:
    """Whether the syntax says that others are to fill this member."""
    owner = function.owner_node
    of_class = owner is not None and (owner.type in _INTERFACES or _ABSTRACT_CLASS.search(head_of(owner)) is not None)
    return of_class or _ABSTRACT.search(function.header) is not None


def head_of(owner: tree_sitter.Node) -> bytes:
    """The text of a class before its body."""
    body, text = owner.child_by_field_name("body"), owner.text or b""
    return text[: body.start_byte - owner.start_byte] if body is not None else text[:200].split(b"{", 1)[0]


def comments_above(node: tree_sitter.Node) -> Iterator[bytes]:
    """The comments right above a node, from below."""
    beside = node.prev_named_sibling
    while beside is not None and "comment" in beside.type:
        yield beside.text or b""
        beside = beside.prev_named_sibling


def _heads(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """What stands before the body, where parameters may be: the children, and those of a C declarator."""
    for child in node.children:
        yield child
        if child.type.endswith("declarator"):
            yield from _heads(child)


def functions_of(source: Source) -> list[Function]:
    """The functions with a name, in the order of the text; none where there is no tree."""
    nodes = source.nodes(source.language.functions)
    found = (_of(source, node, name) for node in nodes if (name := name_of(node)))
    return [function for function in found if function is not None]


def unnamed_of(source: Source) -> list[Function]:
    """The functions without a name: those given to others."""
    nodes = source.nodes((*source.language.functions, *source.language.literals))
    found = (_of(source, node, "") for node in nodes if not name_of(node))
    return [function for function in found if function is not None]


def _of(source: Source, node: tree_sitter.Node, name: str) -> Function | None:
    body = node.child_by_field_name("body") or next((child for child in node.children if child.type in BODIES), None)
    if body is None and name and source.language.name != "ruby":
        return None
    return Function(source=source, node=node, name=name, body=body)


def _owner(source: Source, node: tree_sitter.Node) -> tree_sitter.Node | None:
    """The class that a function stands in."""
    classes = source.language.classes
    return next((above for above in upwards(node.parent) if above.type in classes and above.type != "mod_item"), None)


def owner_of(source: Source, node: tree_sitter.Node) -> str:
    """The name of the class that the function `node` belongs to, empty where there is none."""
    owner = _owner(source, node)
    return name_of(owner) if owner is not None else _receiver(node)


def stands_in_tests(source: Source, node: tree_sitter.Node) -> bool:
    """Whether a node is part of tests: by its file, or in a module of tests within it (Rust)."""
    if is_test_file(source.path) or is_test_double(source.path):
        return True
    return any(above.type == "mod_item" and name_of(above) in {"tests", "test", "mocks"} for above in upwards(node))


def names_of(source: Source) -> list[tuple[str, int, int]]:
    """Functions and classes by name, with their first and last line."""
    nodes = source.nodes((*source.language.functions, *source.language.classes))
    return [(name, node.start_point.row + 1, node.end_point.row + 1) for node in nodes if (name := name_of(node))]


LEADER = re.compile(rb"^(?:#+|//+|--+|;+|%+|/\*+|\*(?=\s)|<!--|REM )\s?")
"""How a line of a comment begins, in any language."""


class Change:
    """All files of a change: their lines, and what they define now, read when it is needed."""

    def __init__(self, files: Collection[ChangedFile]) -> None:
        self._files = files
        self.lines: Mapping[str, FileLines] = line_map(tuple(files))
        self.renamed = frozenset(lines.renamed_from for lines in self.lines.values() if lines.renamed_from)

    @cached_property
    def names(self) -> Counter[str]:
        """The functions and classes that any of the files defines now; of a name that says where, its last part."""
        sources = (open_source(file.path, file.after) for file in self._files if file.after and not file.too_large)
        return Counter(name.rpartition("::")[2] for source in sources if source for name, _, _ in names_of(source))

    @cached_property
    def old_marks(self) -> frozenset[bytes]:
        """The lines with a mark that stood there before, and still stand."""
        return frozenset(filter(MARK_BYTES.search, chain.from_iterable(one.before for one in self.lines.values())))

    @cached_property
    def gone_marks(self) -> list[bytes]:
        """Those that were taken out or edited."""
        taken = (one.before[number - 1] for one in self.lines.values() for number in one.removed)
        return [line for line in taken if line in self.old_marks]

    @cached_property
    def added(self) -> tuple[int, int]:
        """How many lines of code the change adds, and how many with a mark."""
        languages = {path: by_path(path) for path in self.lines if not is_test_file(path)}
        files = (self.lines[path] for path, language in languages.items() if language and language.functions)
        lines = [line for one in files for number in one.added if (line := one.after[number - 1])]
        marks = sum(MARK_BYTES.search(line) is not None for line in lines)
        return sum(LEADER.match(line) is None for line in lines), marks

    def adds(self, word: bytes, *, but: int = 0, end: bytes = rb"(?!\w)") -> bool:
        """Whether an added line, other than line `but`, holds a word with that `end`, and not in a remark."""
        pattern = re.compile(rb"(?<!\w)" + re.escape(word) + end)
        added = (one.after[number - 1] for one in self.lines.values() for number in one.added if number != but)
        return any(pattern.search(line) and not LEADER.match(line) for line in added)

    def takes_out(self, name: bytes, path: str) -> bool:
        """Whether what used a name outside `path` was taken out with it, and nothing names it any more."""
        word = re.compile(rb"(?<!\w)" + re.escape(name.rpartition(b"::")[2]) + rb"(?!\w)")
        others = (one for where, one in self.lines.items() if where != path)
        used = any(word.search(one.before[number - 1]) for one in others for number in one.removed)
        return used and not any(word.search(file.after or b"") for file in self._files)

    @cached_property
    def grown(self) -> int:
        """How many more definitions the change has than it took away."""
        old = (open_source(file.path, file.before) for file in self._files if file.before and not file.too_large)
        return self.names.total() - sum(len(names_of(source)) for source in old if source is not None)


def name_of(node: tree_sitter.Node) -> str:
    """The name of a function or class node, empty where it has none."""
    name = node.child_by_field_name("name")
    declarator = node.child_by_field_name("declarator")
    while name is None and declarator is not None:
        if declarator.type in _DECLARATORS:
            name = declarator
        declarator = declarator.child_by_field_name("declarator")
    if name is None and node.type == "impl_item":
        name = node.child_by_field_name("type")
    if name is None and node.type == "type_declaration" and node.named_children:
        name = node.named_children[0].child_by_field_name("name")
    if name is None and node.type in {"arrow_function", "function_expression"}:
        name = _constant(node.parent)
    return (name.text or b"").decode("utf-8", "replace") if name is not None else ""


def _constant(declared: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """`const save = () => {}`, `exports.save = …` and `{save: …}` name the function; a `let` does not."""
    if declared is not None and declared.type == "assignment_expression":
        left = declared.child_by_field_name("left")
        return left.child_by_field_name("property") if left is not None else None
    if declared is not None and declared.type == "pair":
        return declared.child_by_field_name("key")
    if declared is None or declared.type != "variable_declarator" or declared.parent is None:
        return None
    return declared.child_by_field_name("name") if declared.parent.children[0].type == "const" else None


def _receiver(node: tree_sitter.Node) -> str:
    """The type that a Go method belongs to."""
    receiver = node.child_by_field_name("receiver")
    words = _WORD.findall(receiver.text or b"") if receiver is not None else []
    return words[-1].decode() if words else ""


def _statements(body: tree_sitter.Node | None) -> tuple[list[tree_sitter.Node], bool, bytes]:
    """The statements of a body, whether a docstring stands before them, and its comments."""
    documented, comments = False, b""
    while body is not None:
        if body.type not in BODIES and not body.type.endswith(("lambda_literal", "do_block")):
            return [body], documented, comments
        children = [child for child in body.named_children if child.type not in _HEADS]
        comments += b" ".join(child.text or b"" for child in children[:_DEEPEST] if "comment" in child.type)
        rest = [child for child in children if "comment" not in child.type]
        if rest and body.type == "block" and _is_docstring(rest[0]):
            documented, comments, rest = True, comments + (rest[0].text or b""), rest[1:]
        if len(rest) == 1 and rest[0].type in BODIES:
            body = rest[0]
            continue
        return rest, documented, comments
    return [], documented, comments


def _is_docstring(statement: tree_sitter.Node) -> bool:
    return statement.type == "expression_statement" and [one.type for one in statement.named_children] == ["string"]
