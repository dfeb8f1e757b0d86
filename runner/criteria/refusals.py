"""Functions whose whole behaviour is to say that they are not implemented, in the ways of each language.

`return errors.New("not implemented")`, `Err("…".into())`, a rejected promise. Only a last statement counts that nothing
but logging and discarded parameters goes before; comparisons, names of statuses, a 501 answered without a "yet", and what
exists to say so (an exception class, `notImplemented()`) do not.
"""

from __future__ import annotations

import re

__all__ = ["is_refusal", "is_trivial", "may_refuse", "mentions_refusal"]

_WORDS = (
    rb"not(?: yet| currently)?(?: been| being)?(?: fully)? implemented|unimplemented|\bimplement (?:me|this)\b|to be implemented|implementation (?:missing|pending)|"
    + "未実装|未实现|尚未实现|noch nicht implementiert|nicht implementiert|no implementado|non implémenté|pas encore implémenté|구현되지|미구현".encode()
)
_STEMS = (
    b"implemented", b"implement me", b"implement this", b"implementation ", b"implementiert", b"implement\xc3\xa9", b"implementado",
    b"notimpl", b'"todo', b"'todo", b"`todo", *(word.encode() for word in ("未実装", "未实现", "尚未实现", "구현")),
)  # fmt: skip

_HEAD = re.compile(
    rb"^(?:=>?\s*)?(?:await\s+)?(?:return\b|throw\b|raise\b|fail\b|abort\b|panic\b|Err\(|(?:\w+::)?bail!|Left\(|Failure\(|Future\.failed|Promise\.reject|Task\.From|Result\.failure|Result\.failed|Mono\.error|Flux\.error|"
    rb"Observable\.(?:error|throw)|throwError|(?:completion\w*|callback|cb|done|next|reject|fail)\(|(?:absl|tl|std)::\w+|head\b|render\b|halt\b|(?:\$?this->|self\.)?\$?\w+(?:\.|->)(?:status|sendStatus|send|json|text|String|JSON|AbortWithStatus\w*|"
    rb"Error|WriteHeader|writeHead|sendError|setStatus|SendStatus|Status|resumeThrowing|completeExceptionally|onError|fail|reject)\b|\.failure|http\.Error|make_error)"
)
_SAYS = re.compile(rb"[\"'`][^\"'`\n]*(?:" + _WORDS + rb")[^\"'`\n]*[\"'`]", re.IGNORECASE)
_ERROR_TODO = re.compile(
    rb"(?:Err|bail!|errors\.New|Errorf|Error|Exception|reject|failure|failed|Left)\W+(?:\w+!?\W+)*?[\"'`]\s*TODO\b"
)
# A name of an error, or any name of the kind that is called or handed over.
_NAMES = re.compile(
    rb"\b(?:[eE]rr\w*|\w*[eE]rrors?(?:\.|::)\s*\w*|\w*Error(?:Kind|Code)?(?:\.|::)\w*|\w*Exception(?:\.|::)\w*|\.)(?:[nN]ot_?[iI]mplemented|NOT_?IMPLEMENTED|[uU]nimplemented|UNIMPLEMENTED)\w*"
    rb"|\b\w*(?:[nN]ot_?[iI]mplemented|[uU]nimplemented)\w*(?:::)?\s*\(|[(,=:]\s*(?:\w+(?:\.|::))*\w*(?:[nN]ot_?[iI]mplemented|NOT_?IMPLEMENTED|Unimplemented|UNIMPLEMENTED)\w*\s*[,)}]|\b(?:E_NOTIMPL|ENOTIMPL)\b"
)
_COMPARES = re.compile(
    rb"[=!]=|\binstanceof\b|\bisinstance\(|\berrors\.(?:Is|As)\(|\?\s|\bmatches!\(|\.catch\(|\bis not\b|\bincludes\(|\.contains\(|&&|\|\|"
)
_ANSWERED = re.compile(
    rb"\b501\b|\bStatusNotImplemented\b|HttpStatus\w*\.\w+|HTTPStatus\.\w+|HTTP_501\w*|:not_implemented\b"
)
_YET = re.compile(rb"\byet\b|\bTODO\b|\bsoon\b|\blater\b", re.IGNORECASE)
_STRING = re.compile(rb"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`")
_FILLED_IN = re.compile(rb"%[sdvq]|\{\w*\}|\$\{|\\\(|#\{")
_TRIVIAL = re.compile(
    rb"^(?:_(?:\s*,\s*_)*\s*=|let _\b|\(void\)|void\s+\w+;|unused\(|UNUSED|del\s|errno\s*=|(?:\w+\.)*(?:log|logger|logging|console|Log|slog|println?!?|print|puts|warn\w*|info|debug|error|Println|Printf|fprintf|printf|eprintln!|NSLog|tracing::\w+!|log::\w+!|echo)\b)"
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
