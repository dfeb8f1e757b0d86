"""Finds stubs in a syntax tree: empty bodies, `...`, and bodies that only say "not implemented"."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tree_sitter

from runner.gate.empty_body_rules import context_of, may_be_empty, may_raise, name_of
from runner.gate.languages import BODIES, CONDITIONAL
from runner.gate.source import Source, upwards
from runner.gate.wording import Words

_ELSEWHERE = (
    "未実装|未实现|尚未实现|noch nicht implementiert|nicht implementiert|no implementado|non implémenté|"
    "pas encore implémenté|구현되지|미구현"
).encode()  # "not implemented" in the other languages
_WORDS = (
    rb"not(?: yet| currently)?(?: been| being)?(?: fully)? implemented|unimplemented|\bimplement (?:me|this)\b|"
    rb"to be implemented|implementation (?:missing|pending)|" + _ELSEWHERE
)
_STEMS = (
    b"implemented", b"implement me", b"implement this", b"implementation ", b"implementiert", b"implement\xc3\xa9",
    b"implementado",
    b"notimpl", b'"todo', b"'todo", b"`todo", *(word.encode() for word in ("未実装", "未实现", "尚未实现", "구현")),
)  # fmt: skip

_HEAD = re.compile(
    rb"^(?:=>?\s*)?(?:await\s+)?(?:return\b|throw\b|raise\b|fail\b|abort\b|panic\b|Err\(|(?:\w+::)?bail!|Left\("
    rb"|Failure\(|Future\.failed|Promise\.reject|Task\.From|Result\.failure|Result\.failed|Mono\.error|Flux\.error"
    rb"|Observable\.(?:error|throw)|throwError|(?:completion\w*|callback|cb|done|next|reject|fail)\("
    rb"|(?:absl|tl|std)::\w+|head\b|render\b|halt\b"
    rb"|(?:\$?this->|self\.)?\$?\w+(?:\.|->)(?:status|sendStatus|send|json|text|String|JSON|AbortWithStatus\w*|Error"
    rb"|WriteHeader|writeHead|sendError|setStatus|SendStatus|Status|resumeThrowing|completeExceptionally|onError|fail"
    rb"|reject)\b|\.failure|http\.Error|make_error)"
)
_SAYS = re.compile(rb"[\"'`][^\"'`\n]*(?:" + _WORDS + rb")[^\"'`\n]*[\"'`]", re.IGNORECASE)
_ERROR_TODO = re.compile(
    rb"(?:Err|bail!|errors\.New|Errorf|Error|Exception|reject|failure|failed|Left)\W+(?:\w+!?\W+)*?[\"'`]\s*TODO\b"
)
# A name of an error, or any name of the kind that is called or handed over.
_NAMES = re.compile(
    rb"\b(?:[eE]rr\w*|\w*[eE]rrors?(?:\.|::)\s*\w*|\w*Error(?:Kind|Code)?(?:\.|::)\w*|\w*Exception(?:\.|::)\w*"
    rb"|\.)(?:[nN]ot_?[iI]mplemented|NOT_?IMPLEMENTED|[uU]nimplemented|UNIMPLEMENTED)\w*"
    rb"|\b\w*(?:[nN]ot_?[iI]mplemented|[uU]nimplemented)\w*(?:::)?\s*\("
    rb"|[(,=:]\s*(?:\w+(?:\.|::))*\w*(?:[nN]ot_?[iI]mplemented|NOT_?IMPLEMENTED|Unimplemented"
    rb"|UNIMPLEMENTED)\w*\s*[,)}]|\b(?:E_NOTIMPL|ENOTIMPL)\b"
)
_COMPARES = re.compile(
    rb"[=!]=|\binstanceof\b|\bisinstance\(|\berrors\.(?:Is|As)\(|\?\s|\bmatches!\(|\.catch\(|\bis not\b|\bincludes\(|"
    rb"\.contains\(|&&|\|\|"
)
_ANSWERED = re.compile(
    rb"\b501\b|\bStatusNotImplemented\b|HttpStatus\w*\.\w+|HTTPStatus\.\w+|HTTP_501\w*|:not_implemented\b"
)
_YET = re.compile(rb"\byet\b|\bTODO\b|\bsoon\b|\blater\b", re.IGNORECASE)
_STRING = re.compile(rb"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`")
_FILLED_IN = re.compile(rb"%[sdvq]|\{\w*\}|\$\{|\\\(|#\{")
_TRIVIAL = re.compile(
    rb"^(?:_(?:\s*,\s*_)*\s*=|let _\b|\(void\)|void\s+\w+;|unused\(|UNUSED|del\s|errno\s*="
    rb"|(?:\w+\.)*(?:log|logger|logging|console|Log|slog|println?!?|print|puts|warn\w*|info|debug|error|Println|Printf"
    rb"|fprintf|printf|eprintln!|NSLog|tracing::\w+!|log::\w+!|echo)\b)"
)
_MAY_NAME = re.compile(r"not_?implemented|unimplemented|unsupported|not_?supported|^_*(?:stub|todo)", re.IGNORECASE)
_MAY_CLASS = re.compile(r"(?:Error|Exception|Status|Unsupported|NotImplemented|ErrorKind|Failure|Problem)\w*$")
_LONGEST = 400


def mentions_refusal(text: bytes) -> bool:
    """Whether anything in `text` could be a refusal: a quick look at the whole file."""
    lower = text.lower()
    return any(stem in lower for stem in _STEMS)


def is_trivial(statement: bytes) -> bool:
    """Whether a statement before the last one does nothing that counts: a log line, a discarded parameter."""
    return _TRIVIAL.match(statement.lstrip()) is not None


def is_refusal(statement: bytes) -> bool:
    """Whether a statement, as the whole of a function, says that the function is not implemented."""
    text = statement.strip()
    if len(text) > _LONGEST or _HEAD.match(text) is None or _COMPARES.search(_STRING.sub(b'""', text)):
        return False
    if (_ANSWERED.search(text) or _FILLED_IN.search(text)) and not _YET.search(text):
        return False
    return any(pattern.search(text) for pattern in (_SAYS, _NAMES, _ERROR_TODO))


def may_refuse(name: str, class_name: str) -> bool:
    """Whether the function, or its class, is there to say so."""
    return _MAY_NAME.search(name) is not None or _MAY_CLASS.search(class_name) is not None


_WORD = re.compile(r"\w{4,}")
_DELIBERATE = Words("deliberate", "inside")
_DELIBERATE_ABOVE = Words("deliberate", "above")
_ASKS_FOR_NOTHING = Words("deliberate", "nothing_wanted")
_NOT_DONE = (
    rb"not (?:yet )?(?:been )?implemented|\bunimplemented\b|\bimplement (?:me|this)\b|\btodo\b|to be implemented|"
    rb"not supported yet|not yet supported|"
    rb"implementation (?:missing|pending)|\bstub\b|" + _ELSEWHERE
)
_RAISE = {
    "python": rb"\bassert\s+(?:False|0)\s*,\s*[fr]?[\"'](?=[^\n\"']*(?:%s))(?P<more>[^\n]*)|"
    rb"\braise\s+(?:NotImplementedError|NotImplemented)\b(?P<rest>[^\n]*(?:\n[^\n]*)?)|"
    rb"\braise\s+\w+\s*\(\s*[fr]?[\"'](?=[^\n\"']*(?:%s))(?P<text>[^\n]*)",
    "rust": rb"(?<![\w.])(?:todo|unimplemented)!\s*[\(\[{](?P<rest>[^\n]*)|"
    rb"\bpanic!\s*\(\s*\"(?=[^\n\"]*(?:%s))(?P<text>[^\n]*)",
    "kotlin": rb"(?<![\w.\"])(?-i:TODO)\s*\((?P<rest>[^\n]*)|\b(?:throw\s+\w+|"
    rb"error)\s*\(\s*\"(?=[^\n\"]*(?:%s))(?P<text>[^\n]*)|\bthrow\s+NotImplementedError\b(?P<more>[^\n]*)",
    "scala": rb"(?<![?\w])\?\?\?(?![?\w])|\bthrow\s+new\s+(?:NotImplementedError|"
    rb"\w+\s*\(\s*\"(?=[^\n\"]*(?:%s)))(?P<text>[^\n]*)",
    "c_sharp": rb"\bthrow\s+new\s+(?:System\.)?NotImplementedException\b(?P<rest>[^\n]*)|"
    rb"\bthrow\s+new\s+\w+\s*\(\s*\$?\"(?=[^\n\"]*(?:%s))(?P<text>[^\n]*)",
    "ruby": rb"\braise\s*\(?\s*(?:::)?NotImplementedError\b(?P<rest>[^\n]*)|"
    rb"\braise\s*\(?\s*[\"'](?=[^\n\"']*(?:%s))(?P<text>[^\n]*)",
    "go": rb"\bpanic\(\s*(?:errors\.New\(|fmt\.\w+\(|\w+\()?\s*[\"`](?=[^\n\"`]*(?:%s))(?P<text>[^\n]*)",
    "swift": rb"\b(?:fatalError|preconditionFailure|assertionFailure)\s*\(\s*\"(?=[^\n\"]*(?:%s))(?P<text>[^\n]*)",
    "java": rb"\bthrow\s+new\s+(?:NotImplementedException\b|[\w.]+\s*\(\s*\"(?=[^\n\"]*(?:%s)))(?P<text>[^\n]*)",
    "php": rb"\bthrow\s+new\s+[\w\\]+\s*\(\s*[\"'](?=[^\n\"']*(?:%s))(?P<text>[^\n]*)",
    "c": rb"\b(?:assert|abort_with|panic)\s*\(\s*(?:0\s*&&\s*|!)?\s*\"(?=[^\n\"]*(?:%s))(?P<text>[^\n]*)|"
    rb"^\s*#\s*error\b(?=[^\n]*(?:%s))(?P<more>[^\n]*)",
    "cpp": rb"\b(?:throw\s+[\w:]+|assert|panic)\s*[({]\s*(?:0\s*&&\s*|!|"
    rb"false\s*&&\s*)?\s*\"(?=[^\n\"]*(?:%s))(?P<text>[^\n]*)",
    "js": rb"(?:\bthrow\s+(?:new\s+)?[\w.]*\s*\(?|\breject\s*\(\s*(?:new\s+)?\w*\s*\(?)\s*[\"'`](?=[^\n\"'`]*(?:%s))"
    rb"(?P<text>[^\n]*)|\bthrow\s+new\s+NotImplemented\w*\b(?P<rest>[^\n]*)",
}
_RAISING = {
    name: re.compile(pattern.replace(b"%s", _NOT_DONE), re.IGNORECASE | re.MULTILINE)
    for name, pattern in _RAISE.items()
}
_ALIAS = {"javascript": "js", "typescript": "js", "tsx": "js"}
_ONLY_SAYS = re.compile(
    rb"^(?:await\s+)?(?:print(?:ln)?!?|console\.\w+|(?:window\.)?alert|toast(?:\.\w+)?|messagebox\.\w+|echo|puts|p"
    rb"|fmt\.Print\w*|log(?:ger|ging)?\.\w+|System\.\w+\.print\w*|Console\.Write\w*|printf|fprintf|Log\.\w+|NSLog"
    rb"|return(?: (?:nil|0|false|\w+\{\}|\"\"),)*)?\s*\(?\s*(?:errors\.New\("
    rb"|fmt\.Errorf\()?(?:stderr,\s*)?[\"'`](?:TODO\b(?:\s*[:\- ]|(?=[\"'`]))|FIXME\b"
    rb"|[\w '.()]{0,40}(?:not (?:yet )?implemented|not implemented yet|implement me)\b)[^\"'`{$%]*[\"'`]\)*\s*;?$",
    re.IGNORECASE,
)
_EMPTY_TEST = re.compile(
    rb"\b(?:it|test)\s*\(\s*(['\"`])[^\n]*?\1\s*,\s*(?:async\s*)?(?:\(\s*\)\s*=>|function\s*\(\s*\))\s*\{\s*\}\s*\)"
)
_EXPECTS = re.compile(rb"with\s+(?:pytest\s*\.\s*)?raises\s*\(|with\s+self\s*\.\s*assertRaises\w*\s*\(")
_OWN_KOTLIN = re.compile(
    rb"\b(?:fun|class|object|interface|typealias)\s+(?:<[^>\n]*>\s*)?(?:\w+\.)?TODO\b|^import\s[^\n]*\bTODO\s*$",
    re.MULTILINE,
)
_FEW = 4
_EMPTY_STATEMENTS = {
    "command", "expression_statement", "pass_statement", "empty_statement", "nil", "unit", "tuple_expression",
}  # fmt: skip
_NO_OPS = {b"pass", b"...", b":", b"true", b";", b"nil", b"()"}
_MAY_HOLD_DOTS = {
    "class_definition", "except_clause", "with_statement", "while_statement", "for_statement", "finally_clause",
}  # fmt: skip


# A function with the statements, docstrings and comments of its body.
_Body = tuple[tree_sitter.Node, list[tree_sitter.Node], list[bytes], list[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """One stub: `criterion` Q2 (raised) or Q3 (left empty), what to say, and its bytes."""

    criterion: str
    message: str
    start: int
    end: int


def stubs_of(source: Source, *, request: str = "") -> list[Stub]:
    """All stubs of a parsed source, in order; none where there is no tree. What `request` names must do something."""
    if source.tree is None:
        return []
    bodies = [(node, *_statements(_body(node))) for node in source.nodes(source.language.functions)]
    found = [*_empty_bodies(source, bodies, request), *_raising(source), *_ellipses(source)]
    said = sorted(stub.start for stub in found)
    found.extend(
        refusal
        for refusal in _refusing(source, bodies)
        if bisect_left(said, refusal.start) == bisect_left(said, refusal.end)  # else it was found as raised
    )
    found.extend(
        Stub(criterion="Q3", message="empty test", start=match.start(), end=match.end())
        for match in _EMPTY_TEST.finditer(source.text)
        if source.language.name in _ALIAS and _is_code(source, match.start())
    )
    return sorted(found, key=lambda stub: stub.start)


def unordered(stubs: Sequence[Stub], request: str) -> list[Stub]:
    """The stubs that the request did not order: "bodies as todo!()", "every method raises …", "only a stub"."""
    if not stubs or orders_skeleton(request):
        return []
    words = ordered_refusals(request)
    return [stub for stub in stubs if not any(word.decode() in stub.message for word in words)]


def _empty_bodies(source: Source, bodies: Sequence[_Body], request: str) -> Iterator[Stub]:
    asked = frozenset() if _ASKS_FOR_NOTHING.search(request) else frozenset(_WORD.findall(request))
    for node, statements, documents, comments in bodies:
        if len(statements) > 1:
            continue
        body = _body(node)
        if body is None and source.language.name != "ruby":
            continue
        if statements and not _is_nothing(statements[0]) and not _declines(node, statements[0]):
            only = statements[0].text or b""
            if _ONLY_SAYS.match(only.strip()):
                context = context_of(source, node, body)
                if not may_raise(source, context, only, conditional=False):
                    yield _stub("Q2", f"{context.name}() is not implemented", statements[0])
            continue
        context = context_of(source, node, body)
        said = b" ".join([*documents, *comments]).decode("utf-8", "replace")
        if (
            _DELIBERATE.search(said)
            or _DELIBERATE_ABOVE.search(_above(node))
            or may_be_empty(source, context, documented=bool(documents), asked=context.name in asked)
        ):
            continue
        yield _stub("Q3", f"empty body of {context.name}()", node)


def _refusing(source: Source, bodies: Sequence[_Body]) -> Iterator[Stub]:
    """Functions that do nothing but say that they are not implemented."""
    if not mentions_refusal(source.text):
        return
    unnamed = ((node, *_statements(_body(node))) for node in source.nodes(source.language.literals))
    for node, statements, documents, comments in (*bodies, *unnamed):
        if not statements or len(statements) > _FEW:
            continue
        last = source.text[statements[-1].start_byte : statements[-1].end_byte]
        if not mentions_refusal(last) or not is_refusal(last):
            continue
        if not all(is_trivial(source.text[each.start_byte : each.end_byte]) for each in statements[:-1]):
            continue
        context = context_of(source, node, _body(node))
        said = b" ".join([*documents, *comments]).decode("utf-8", "replace")
        if (
            may_refuse(context.name, context.class_name)
            or may_raise(source, context, last, conditional=False)
            or _DELIBERATE_ABOVE.search(f"{_above(node)} {said}")
        ):
            continue
        message = f"{context.name}() is not implemented" if context.name else "not implemented"
        yield _stub("Q2", message, statements[-1])


def _above(node: tree_sitter.Node) -> str:
    """The text of the comments directly above a function."""
    found: list[bytes] = []
    before = node.prev_named_sibling
    while before is not None and "comment" in before.type and len(found) < 10:
        found.append(before.text or b"")
        before = before.prev_named_sibling
    return b" ".join(found).decode("utf-8", "replace")


def _stub(criterion: str, message: str, node: tree_sitter.Node) -> Stub:
    return Stub(criterion=criterion, message=message, start=node.start_byte, end=node.end_byte)


def _body(node: tree_sitter.Node) -> tree_sitter.Node | None:
    body = node.child_by_field_name("body")
    if body is None:
        body = next((child for child in node.children if child.type in BODIES), None)
    if body is not None and body.type == "ruby":
        return None
    return body


def _statements(body: tree_sitter.Node | None) -> tuple[list[tree_sitter.Node], list[bytes], list[bytes]]:
    """The statements of a body, its docstring, and its comments."""
    documents: list[bytes] = []
    comments: list[bytes] = []
    while body is not None:
        if body.type not in BODIES:
            return [body], documents, comments
        if body.named_child_count > 12:
            return [body, body], documents, comments
        children = body.named_children
        comments += [child.text or b"" for child in children if "comment" in child.type]
        rest = [child for child in children if "comment" not in child.type]
        if (
            rest
            and rest[0].type == "expression_statement"
            and rest[0].named_child_count == 1
            and rest[0].named_children[0].type == "string"
            and body.type == "block"
        ):
            documents.append(rest[0].text or b"")
            rest = rest[1:]
        if len(rest) == 1 and rest[0].type in BODIES:
            body = rest[0]
            continue
        return rest, documents, comments
    return [], documents, comments


def _is_nothing(statement: tree_sitter.Node) -> bool:
    return statement.type in _EMPTY_STATEMENTS and (statement.text or b"").strip() in _NO_OPS


def _declines(function: tree_sitter.Node, statement: tree_sitter.Node) -> bool:
    """`return NotImplemented` as a whole body: right in an operator (`__eq__`), nothing done anywhere else."""
    return statement.text == b"return NotImplemented" and not name_of(function).startswith("__")


def _ellipses(source: Source) -> Iterator[Stub]:
    """`...` as a statement beside others, or as a key in JSON: ways to leave something out that still parse."""
    if source.language.name == "json" and b'"..."' in source.text:
        for pair in source.nodes(("pair",)):
            key = pair.child_by_field_name("key")
            if key is not None and key.text == b'"..."':
                yield _stub("Q3", "`...` in place of entries", pair)
        return
    if source.language.name != "python" or b"..." not in source.text or source.path.endswith(".pyi"):
        return
    for node in source.nodes(("expression_statement",)):
        if node.text != b"..." or node.parent is None:
            continue
        block = node.parent
        owner = block.parent if block.type == "block" else block
        alone = sum("comment" not in child.type for child in block.named_children) == 1
        if owner is None or (owner.type == "function_definition" and (alone or _documented_only(block))):
            continue
        if alone and owner.type in _MAY_HOLD_DOTS:
            continue
        if alone and owner.type in {"if_statement", "else_clause"} and _excluded_branch(owner):
            continue
        if owner.type == "class_definition" and _documented_only(block):
            continue
        yield _stub("Q3", "`...` in place of code", node)


def _documented_only(block: tree_sitter.Node) -> bool:
    rest = [child for child in block.named_children if "comment" not in child.type]
    return (
        len(rest) == 2
        and rest[0].type == "expression_statement"
        and (rest[0].text or b"").lstrip(b"rRbBuU")[:1] in {b'"', b"'"}
    )


def _excluded_branch(owner: tree_sitter.Node) -> bool:
    condition = owner.child_by_field_name("condition")
    return condition is not None and b"TYPE_CHECKING" in (condition.text or b"")


def _raising(source: Source) -> Iterator[Stub]:
    name = source.language.name
    pattern = _RAISING.get(_ALIAS.get(name, name))
    if pattern is None:
        return
    own = _own_words(source)
    for match in pattern.finditer(source.text):
        node = _node_at(source, match.start())
        if node is None or not _is_code(source, match.start()):
            continue
        if (name == "python" and _is_expected(node)) or _is_own(source, node, match.group(), own):
            continue
        function, conditional = _enclosing(source, node)
        context = context_of(source, function or node, _body(function) if function else None)
        said = next((value for value in match.groupdict().values() if value), b"")
        statement = match.group() if not said else b'"' + said if b'"' not in said[:3] else said
        todo = name == "rust" and b"todo!" in match.group().lower()[:6] and not context.in_tests
        if not todo and may_raise(source, context, statement, conditional=conditional):
            continue
        words = match.group().split(b"\n")[0].decode("utf-8", "replace").strip()
        where = f" in {name_of(function)}()" if function is not None and name_of(function) else ""
        message = f"not implemented ({' '.join(words.split())[:50]}){where}"
        yield Stub(criterion="Q2", message=message, start=match.start(), end=match.end())


def _is_own(source: Source, node: tree_sitter.Node, words: bytes, own: frozenset[bytes]) -> bool:
    """Whether the word is the program's own (`own`), not the language's: an enum constant, a function, a macro."""
    if source.language.name == "kotlin" and words.startswith(b"TODO"):
        return b"TODO" in own or node.parent is None or node.parent.type != "call_expression"
    return any(words.startswith(word) for word in own)


def _own_words(source: Source) -> frozenset[bytes]:
    """The stub's names that a text defines for itself."""
    match source.language.name:
        case "kotlin":
            return frozenset({b"TODO"} if _OWN_KOTLIN.search(source.text) else ())
        case "rust":
            return frozenset(re.findall(rb"\bmacro_rules! (todo|unimplemented)\b", source.text))
        case "scala":
            return frozenset({b"???"} if b"def ???" in source.text else ())
        case _:
            return frozenset()


def _is_expected(node: tree_sitter.Node) -> bool:
    """Raised where a test expects it: `with pytest.raises(NotImplementedError):`."""
    for above in upwards(node):
        if above.type == "function_definition":
            break
        if above.type == "with_statement" and _EXPECTS.match(above.text or b""):
            return True
    return False


def _node_at(source: Source, offset: int) -> tree_sitter.Node | None:
    if source.tree is None:
        return None
    return source.tree.root_node.descendant_for_byte_range(offset, offset + 1)


def _is_code(source: Source, offset: int) -> bool:
    kinds = {*source.language.strings, *source.language.comments}
    for node in upwards(_node_at(source, offset)):
        if node.type in kinds:
            return False
        if node.type in {"template_substitution", "interpolation"}:
            return True
    return True


def _enclosing(source: Source, node: tree_sitter.Node) -> tuple[tree_sitter.Node | None, bool]:
    """The function around `node`, and whether a condition stands between."""
    conditional = False
    for above in upwards(node):
        if above.type in source.language.functions:
            return above, conditional
        conditional = conditional or above.type in CONDITIONAL
    return None, conditional


_MARKS = re.compile(r"(?<![\w-])(?:TODO|FIXME|TBD|HACK|XXX)s?(?![A-Za-z0-9_]|\()")
_REFUSAL = re.compile(
    r"NotImplemented(?:Error|Exception)?|UnsupportedOperationException|todo!|unimplemented!|\bTODO\(\)|\?\?\?|"
    r"fatalError|\bpanic\b|not implemented",
)
_ORDERS_REFUSAL = Words("requests", "refusals")
_RID_OF = Words("requests", "rid_of")
_SKELETON = Words("requests", "skeleton")
_CODE_WANTED = Words("requests", "code")
_EXPLANATION_WANTED = re.compile(r"\W*(?:what|why|how|explain|describe)\b", re.IGNORECASE)


def names_marks(request: str) -> bool:
    """Whether a request speaks of marks such as TODO, so that an answer to it has to speak of them too."""
    return _MARKS.search(request) is not None


def ordered_refusals(request: str) -> frozenset[bytes]:
    """The "not implemented" words with which the request wants functions to be left, empty where it wants none."""
    found: set[bytes] = set()
    for sentence in re.split(r"(?<=[.;。；])\s*(?=\s|[^\s\w(!])|\n+", request):
        if (words := _REFUSAL.findall(sentence)) and _ORDERS_REFUSAL.search(sentence) and not _RID_OF.search(sentence):
            found.update(word.encode() for word in words)
    return frozenset(found)


def orders_skeleton(request: str) -> bool:
    """Whether functions without their work are what the request wants: "only a stub", a starter file for students."""
    return any(
        _SKELETON.search(sentence) and not _RID_OF.search(sentence)
        for sentence in re.split(r"(?<=[.;。；])\s+|\n+", request)
    )


def asks_for_code(request: str) -> bool:
    """Whether code in the answer itself is what the request wants: a script, a query, a component."""
    return _CODE_WANTED.search(request) is not None and _EXPLANATION_WANTED.match(request) is None
