"""What was there before: whether a marker and the function, class or section it stands in are untouched by this task.

The section of a marker is the innermost function around it, else the statement it stands directly above, else the
class, else its paragraph. It is untouched where the same text stands in the file as it was (contracts 2).
"""

from __future__ import annotations

import re

import tree_sitter

from runner.criteria.context import name_of
from runner.criteria.source import Source

__all__ = ["asks_to_finish", "names_file", "was_there_before"]

_FINISH = re.compile(
    r"\b(?:finish|complete|unfinished|incomplete|todos?|fixmes?|stubs?|stubbed|placeholders?|missing (?:parts?|code|pieces?|implementations?)|open (?:work|ends|points|items)|"
    r"left ?out|omitted|not implemented|unimplemented|remaining (?:work|parts?|code|functions?|methods?))\b"
    r"|\bfix (?:it|this|them|these|everything|all\b|up|(?:the|this|my|our) (?:whole |entire |broken )?(?:module|file|code|project|program|script|class|implementation|package|repo(?:sitory)?))(?=\W*$|\b)"
    r"|仕上げ|完成させ|未完成|残り(?:を|の)|直して|修正して(?:ください)?\W*$|完成(?!度)|补全|未完成|剩余|완성|미완성|나머지"
    r"|\b(?:termina|completa|acaba|finaliza)r?\b|\b(?:fertigstellen|vervollständige|beende|fertig machen)\b|\b(?:termine[rz]?|complète[rz]?|finis(?:sez)?|achève[rz]?)\b",
    re.IGNORECASE,
)
_SECTION = re.compile(rb"^(?:#{1,6}\s|\[[^\]\n]+\]\s*$|\w[^\n]*\n(?:===+|---+)\s*$)", re.MULTILINE)


def asks_to_finish(request: str) -> bool:
    """Whether the request is to finish or fix what is open."""
    return _FINISH.search(request) is not None


def names_file(request: str, path: str) -> bool:
    """Whether the request names the file, by its path or its name."""
    name = path.rsplit("/", 1)[-1]
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", request) is not None


def was_there_before(source: Source, start: int, end: int, before: bytes, request: str) -> bool:
    """Whether the bytes `start`-`end` of `source`, and the section they stand in, stand in `before` as they are."""
    marker = source.text[start:end].strip()
    if not marker or marker not in before:
        return False
    section, name = _section(source, start, end)
    if section.strip() not in before:
        return False
    return not (name and len(name) > 2 and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", request))


def _section(source: Source, start: int, end: int) -> tuple[bytes, str]:
    """The text of the section around a marker, and its name."""
    if source.language.name == "markdown" or source.tree is None or source.language.data:
        return _between_headings(source.text, start, end), ""
    node = source.tree.root_node.descendant_for_byte_range(start, max(start, end - 1))
    owner: tree_sitter.Node | None = None
    above = node
    while above is not None:
        if above.type in source.language.functions and name_of(above):
            return above.text or b"", name_of(above)
        if owner is None and above.type in source.language.classes:
            owner = above
        above = above.parent
    below = _directly_below(source, node, end)
    if below is not None:
        return source.text[start : below.end_byte], name_of(below)
    if owner is not None:
        return owner.text or b"", name_of(owner)
    return _paragraph(source.text, start, end), ""


def _directly_below(source: Source, node: tree_sitter.Node | None, end: int) -> tree_sitter.Node | None:
    below = node.next_named_sibling if node is not None else None
    while below is not None and ("comment" in below.type or below.start_byte < end):
        below = below.next_named_sibling
    if below is None or source.text[end : below.start_byte].count(b"\n") > 1:
        return None
    return below


def _between_headings(text: bytes, start: int, end: int) -> bytes:
    heads = [match.start() for match in _SECTION.finditer(text)]
    first = max((head for head in heads if head <= start), default=0)
    last = min((head for head in heads if head >= end), default=len(text))
    return text[first:last] if heads else _paragraph(text, start, end)


def _paragraph(text: bytes, start: int, end: int) -> bytes:
    first = text.rfind(b"\n\n", 0, start)
    last = text.find(b"\n\n", end)
    return text[max(first, 0) : len(text) if last < 0 else last]
