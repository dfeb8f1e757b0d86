"""The context of a function: where an empty body is legitimate, and what existed before the task."""

from __future__ import annotations

import re
from dataclasses import dataclass

import tree_sitter

from runner.gate.file_roles import is_test_double, is_test_file
from runner.gate.source import Source, upwards

_DOUBLE = re.compile(
    r"(?i:^_*(?:fake|stub|mock|dummy|null|no_?op|nop|silent|spy|empty|void|discard|ignor|blank|unimplemented|quiet"
    r"|disabled))|(?:Stub|Mock|Fake|Double|Spy|NoOp|Noop|Nop)$"
)
_BASE = re.compile(
    r"^_*(?:Abstract|Base|I[A-Z][a-z])"
    r"|(?:Base|Interface|Protocol|Mixin|Abstract|ABC|Hooks?|Callbacks?|Delegate|Listener|Observer|Visitor|Adapter|Port"
    r"|Contract)$"
)
_BASE_WORDS = re.compile(
    rb"\b(?:abstract|base class|interface|subclass(?:es)?|override[sn]?|overridden|derived|mix-?in|template method)\b",
    re.IGNORECASE,
)
_BASES = re.compile(
    rb"\b(?:Protocol|ABC|ABCMeta|Interface|TypedDict|NamedTuple|Enum|Base\w*|Abstract\w*"
    rb"|\w+(?:Base|Mixin|Interface|Protocol))\b"
)
_DECORATED = re.compile(
    rb"@[\w.]*(?:abstract|overload|group|callback|fixture|hookspec|hookimpl|spec\b|singledispatch|contract|stub|skip"
    rb"|patch|deprecated|ffi|extern|njit|interface|signature)",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?i)^_*(?:no_?op\w*|nop\w*|null|ignore\w*|discard\w*|empty\w*|do_?nothing|void|identity|dummy\w*|sentinel"
    r"|unused\w*|skip|nothing|close|dispose|finali[sz]e|flush|shutdown|deinit|cleanup|clean_?up|setup|set_?up"
    r"|tear_?down|destroy|free|release|lock|unlock|reset|default_?\w*|keep_?alive|touch|mustembed\w*|marker|initialize"
    r"|included|inherited|extended|prepended|method_added|connection_made|connection_lost|is_?[a-z]*node|unsubscribe"
    r"|silence\w*|mute\w*|hook|callback|log_message|emit|idle\w*|weak\w*)$"
    r"|^_*(?:on|did|will|before|after|pre|post|when|visit|enter|exit|leave)(?:[A-Z_]\w*)?$"
    r"|_(?:hook|callback|noop|nop|stub|marker|isr|handler_default)$|(?:Noop|NoOp|Nop|Hook|Stub|Dummy|Default)$"
)
_FREE_MODIFIER = re.compile(
    rb"\b(?:abstract|override|virtual|open|protected|partial|native|extern|external|expect|optional|declare|weak"
    rb"|default|deleted)\b|@Override\b|__attribute__|\[\[maybe_unused\]\]"
)
_NOT_SUPPORTED = re.compile(
    rb"\b(?:must (?:be )?(?:implement|overrid|overload|define|provid)\w*|should (?:be )?(?:implement|overrid)\w*"
    rb"|subclass\w*|overrid\w*|abstract|derived|(?:is|are|was) not (?:supported|available|allowed|possible)"
    rb"|not supported|unsupported|does not support|cannot|can't|by design|read-?only|init\(coder|use \w+ instead"
    rb"|only \w+ (?:is|are) supported|no codec|interface)\b(?! yet)",
    re.IGNORECASE,
)
# What is not implemented is somebody else's: said of a condition that was found, not of this function.
_ELSEWHERE = re.compile(
    rb"\b(?:server|remote|peer|upstream|browser|platform|kernel|driver|device|gateway|provider|device"
    rb"|firmware)\b[^\"'`]{0,60}not implement\w+(?! yet)"
    rb"|not implemented (?:by|on|in) (?:the|this|your) (?:server|remote|peer|upstream|browser|platform|kernel|driver"
    rb"|device)",
    re.IGNORECASE,
)
_DECLARATORS = {"identifier", "field_identifier", "destructor_name", "operator_name", "qualified_identifier"}
_INTERFACES = {
    "trait_item", "trait_definition", "trait_declaration", "interface_declaration", "protocol_declaration", "module",
}  # fmt: skip
_LIFE_CYCLE = {
    "constructor", "__init__", "__clone", "__construct", "__destruct", "__wakeup", "init", "deinit", "toString",
    "main_test",
}  # fmt: skip
_NOT_DONE = re.compile(rb"implement|\btodo\b|\byet\b|later|soon|coming|fixme|stub", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where a function stands.

    `header` is its text before the body with decorators and modifiers; `bases` the text of the class's header,
    `class_text` the whole class (empty outside one).
    """

    name: str
    header: bytes
    class_name: str
    bases: bytes
    class_text: bytes
    class_type: str
    nested: bool
    in_tests: bool


def name_of(node: tree_sitter.Node) -> str:
    """The name of a function or class node, empty where it has none; a method of an object literal has none here."""
    if node.type == "method_definition" and node.parent is not None and node.parent.type == "object":
        return ""
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
        name = _variable(node)
    return (name.text or b"").decode("utf-8", "replace") if name is not None else ""


def _variable(node: tree_sitter.Node) -> tree_sitter.Node | None:
    """`const save = () => {}` names the function; a property or an argument does not."""
    parent = node.parent
    if parent is None or parent.type != "variable_declarator" or parent.parent is None:
        return None
    first = parent.parent.children[0] if parent.parent.children else None
    return parent.child_by_field_name("name") if first is not None and first.type == "const" else None


def context_of(source: Source, node: tree_sitter.Node, body: tree_sitter.Node | None) -> Context:
    """The surroundings of the function `node`."""
    owner: tree_sitter.Node | None = None
    nested = False
    in_tests = is_test_file(source.path) or is_test_double(source.path)
    for above in upwards(node.parent):
        if owner is None and above.type in source.language.classes and above.type != "mod_item":
            owner = above
        nested = nested or above.type in source.language.functions
        in_tests = in_tests or (above.type == "mod_item" and name_of(above) in {"tests", "test", "mocks"})
    outer = node.parent if node.parent is not None and node.parent.type == "decorated_definition" else node
    before = _attributes(outer)
    end = body.start_byte if body is not None else node.end_byte
    text = owner.text or b"" if owner is not None else b""
    owner_body = owner.child_by_field_name("body") if owner is not None else None
    head = (
        text[: owner_body.start_byte - owner.start_byte] if owner is not None and owner_body is not None else text[:200]
    )
    return Context(
        name=name_of(node),
        header=before + source.text[outer.start_byte : end],
        class_name=name_of(owner) if owner is not None else _receiver(node),
        bases=head.split(b"{", 1)[0],
        class_text=text,
        class_type=owner.type if owner is not None else "",
        nested=nested,
        in_tests=in_tests,
    )


def _attributes(node: tree_sitter.Node) -> bytes:
    """Decorators and attributes that stand as siblings before a node (TypeScript, Rust)."""
    found = b""
    before = node.prev_sibling
    while before is not None and before.type in {"decorator", "attribute_item", "attribute"}:
        found = (before.text or b"") + b" " + found
        before = before.prev_sibling
    return found


def _receiver(node: tree_sitter.Node) -> str:
    receiver = node.child_by_field_name("receiver")
    if receiver is None:
        return ""
    if re.match(rb"\(\s*(?:_\s+)?\*?\w+(?:\[[^\]]*\])?\s*\)$", receiver.text or b""):
        return "NoopReceiver"  # a receiver without a name: the method cannot use it, and says so
    words = re.findall(r"\w+", (receiver.text or b"").decode("utf-8", "replace"))
    return words[-1] if words else ""


def _is_base(source: Source, context: Context) -> bool:
    """Whether the function's class is there to be extended."""
    if not context.class_name and not context.class_type:
        return False
    if context.class_type in _INTERFACES:
        return True
    if _BASE.search(context.class_name) or _BASES.search(context.bases) or b"abstract" in context.bases:
        return True
    if _BASE_WORDS.search(context.class_text[:600]):
        return True
    return context.class_name.encode() in source.extended


def may_raise(source: Source, context: Context, statement: bytes, *, conditional: bool) -> bool:
    """Whether raising "not implemented" is the function's contract here, not missing work."""
    if context.name.lower().startswith("test"):
        return False
    if context.in_tests or _DOUBLE.search(context.class_name) or _NOT_SUPPORTED.search(statement):
        return True
    if _DECORATED.search(context.header) or _is_base(source, context) or b"virtual" in context.header:
        return True
    if _BASE_WORDS.search(context.header[:400]):
        return True
    if conditional and _ELSEWHERE.search(statement):
        return True
    if conditional and b"(" in statement and not _NOT_DONE.search(_message(statement)) and _message(statement):
        return True
    return _is_called_by_class(context)


def _message(statement: bytes) -> bytes:
    return b" ".join(re.findall(rb"[\"'`]([^\"'`]*)[\"'`]", statement))


def _is_called_by_class(context: Context) -> bool:
    """A method that its own class calls on `self` and leaves to others is a template method."""
    if not context.class_text or not context.name:
        return False
    name = re.escape(context.name.encode())
    called = rb"\b" if b"@property" in context.header else rb"\s*\("
    return re.search(rb"(?:self|this|@|super)\s*(?:->|\.)\s*" + name + called, context.class_text) is not None


def may_be_empty(source: Source, context: Context, *, documented: bool, asked: bool = False) -> bool:
    """Whether an empty body is by design.

    `documented` says that a docstring describes behaviour for it, `asked` that the request names it.
    """
    if not context.name or b" asserts " in context.header:
        return True
    if re.match(r"(?i)_*test|should_", context.name):
        return False
    if context.in_tests or _DOUBLE.search(context.class_name) or (_NAME.search(context.name) and not asked):
        return True
    if source.path.endswith((".pyi", ".d.ts")) or context.name.startswith("~") or "operator" in context.name:
        return True
    if _DECORATED.search(context.header) or _FREE_MODIFIER.search(context.header) or _is_base(source, context):
        return True
    if asked:
        return False
    if context.name.endswith("::") or "\n" in context.name or _unused_parameters(context.header):
        return True  # a macro stands where the name should be; or the parameters themselves say that they are not used
    if context.name == context.class_name or context.name in _LIFE_CYCLE:
        return True
    return _by_language(source, context, documented=documented)


def _unused_parameters(header: bytes) -> bool:
    """Whether there are parameters and each is named with a leading underscore."""
    inside = re.search(rb"\(([^()]*)\)[^()]*$", header)
    names = [part.split(b":")[0].split(b"=")[0].strip() for part in (inside[1] if inside else b"").split(b",")]
    names = [name for name in names if name not in {b"", b"self", b"this", b"cls"}]
    return bool(names) and all(re.fullmatch(rb"(?:[\w<>\[\]*&?. ]+ )?[&*.]*\$?_\w*", name) for name in names)


def _has_type(context: Context) -> bool:
    """Whether a C++ function has a return type: constructors, destructors and conversions have none."""
    head = context.header.split(b"(", 1)[0].replace(b"explicit", b"").replace(b"inline", b"").replace(b"constexpr", b"")
    return len(re.findall(rb"[\w:>*&]+", head)) > 1


def _by_language(source: Source, context: Context, *, documented: bool) -> bool:
    name = source.language.name
    if name == "python":
        dunder = context.name.startswith("__") and context.name.endswith("__")
        return (
            dunder
            or (context.nested and not documented)
            or (bool(context.class_text) and b"(" in context.bases and not documented)
        )
    if name in {"javascript", "typescript", "tsx"}:
        constructor = context.name[:1].isupper() and b".prototype" in source.text
        return constructor or re.search(rb"\b(?:extends|implements)\b", context.bases) is not None
    if name == "rust":
        return context.name == "main" or b" for " in context.bases
    if name == "cpp" and not _has_type(context):
        return True
    if name in {"kotlin", "swift", "c_sharp", "cpp"} and context.class_text:
        bases = re.sub(rb"\([^()]*\)", b"", context.bases)
        return b":" in bases.replace(b"::", b"") or b"extension" in bases
    if name in {"php", "scala"}:
        return re.search(rb"\b(?:extends|implements)\b", context.bases) is not None
    if name in {"c", "cpp"}:
        return context.name == "main" or source.text.count(context.name.encode() + b"(") > 1
    if name == "go":
        return (
            re.match(r"(?:[a-z]\w*(?:Node|Type|Expr|Stmt|Event|Message)|is[A-Z]\w*|seal\w*|main|init)$", context.name)
            is not None
        )
    return False
