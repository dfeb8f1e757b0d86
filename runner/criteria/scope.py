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

# The request is to finish what is open: it names marks, stubs or missing parts, or says "finish", "complete" as a command.
_OPEN_WORK = re.compile(
    r"\b(?-i:TODOs?|FIXMEs?|TBDs?)\b(?! (?:apps?|lists?|items?|states?|columns?|cards?|boards?|tasks?)\b)|\b(?:todo|fixme)[- ]?(?:comments?|marks?|markers?|notes?)\b|"
    r"\b(?:resolve|fix|address|do|implement|finish|complete|remove|clear|handle|work (?:on|off|through)|clean up|get rid of)\b[^.;!?\n]{0,30}\b(?:todo'?s?|fixme'?s?|stubs?|stubbed|placeholders?(?! (?:text|attribute|colou?r|label|of|in|for)))\b|"
    r"\bunfinished\b|\b(?:is|are|still|left) (?:incomplete|stubbed|unimplemented)\b|\bincomplete (?:parts?|code|functions?|methods?|implementations?|modules?|class(?:es)?|files?|work)\b|\bstub(?:bed|s)?\b(?! (?:server|api|zone|resolver))|"
    r"\bplaceholder (?:implementations?|code|functions?|methods?|logic|values?|bod(?:y|ies))\b|"
    r"\bmissing (?:parts?|code|pieces?|implementations?|functions?|methods?|logic)\b|\bopen (?:work|ends|points|items)\b|\bleft ?out\b|\bomitted (?:code|parts?)\b|\bnot implemented\b|\bunimplemented\b|\bremaining (?:work|parts?|code|functions?|methods?|bits|pieces)\b"
    r"|(?:^|[.!?;:,\n]\s*|\b(?:please|and|then|now|to|you|should|must|just|let's|also|can you|could you|would you) )(?:finish|complete)(?! (?:the |a |an |their |its |his |her )?(?:checkout|purchase|order|payment|login|sign|registration|upload|download|booking|process|transaction|booting|loading|before|after|when|in time|within)\b)\b"
    r"|仕上げ|完成させ|未完成|未実装|残り(?:を|の(?:実装|作業|部分|処理|関数|メソッド|コード|箇所|機能|ところ|もの))|補完全|补全|未完成|未实现|(?:^|[请把,，。]|帮我|将|继续)[^。,，]{0,16}完成(?![后时度的率])|剩(?:下|余)的?(?:部分|工作|代码|函数|方法|实现|功能)|완성(?:해|하|시켜)|미완성|미구현|나머지(?:를|을| (?:부분|작업|구현|코드|함수|메서드|기능))"
    r"|(?:^|[.!?¡;,\n]\s*|\b(?:por favor|y|puedes|hay que|que) )(?:termina|completa|acaba|finaliza)r?\b|\b(?:fertigstellen|vervollständigen?|fertig machen|stell\w* .{1,40}fertig|mach\w* .{1,40}fertig)\b|(?:^|[.!?;,\n]\s*|\bbitte )beenden?\b|(?:^|[.!?;,\n]\s*|\b(?:merci de|et|il faut|peux-tu|pouvez-vous|de) )(?:termine[rz]?|complète[rz]?|compléter|finis(?:sez)?|finir|achève[rz]?|achever)\b",
    re.IGNORECASE | re.MULTILINE,
)
# "Fix it", "fix the module": to fix what is open where nothing else is named as broken.
_FIX_ALL = re.compile(
    r"\bfix (?:it|this|them|these|everything|all\b|up|(?:the|this|my|our) (?:whole |entire |broken )?(?:module|file|code|project|program|script|class|implementation|package|repo(?:sitory)?))\b"
    r"|直して|修正して|修复(?:它|这个|一下)|修一下|고쳐|수정해|\b(?:arréglal[oa]|corrígel[oa]|behebe (?:es|das)|korrigiere (?:es|das)|corrige[- ](?:le|ça)|répare[- ](?:le|ça))\b",
    re.IGNORECASE,
)
_FEW_WORDS = 7
_FEW_LETTERS = 16
_UNSPACED = re.compile(r"[぀-ヿ一-鿿]")
_SECTION = re.compile(rb"^(?:#{1,6}\s|\[[^\]\n]+\]\s*$|\w[^\n]*\n(?:===+|---+)\s*$)", re.MULTILINE)


def asks_to_finish(request: str) -> bool:
    """Whether the request is to finish what is open, or to fix it.

    "Please fix it" after a defect that is described means that defect: only where it is all that is said, the code as
    it stands is meant.
    """
    if _OPEN_WORK.search(request) is not None:
        return True
    return _FIX_ALL.search(request) is not None and _says_little(request)


def _says_little(request: str) -> bool:
    """Whether a request is a few words; letters are counted where words are not set apart."""
    words = re.findall(r"\w+", request)
    return len(words) <= _FEW_WORDS and (not _UNSPACED.search(request) or sum(map(len, words)) <= _FEW_LETTERS)


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
