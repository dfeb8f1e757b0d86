"""Markdown and plain prose as files: marks and unwritten sections in the author's own text, an unclosed fence.

Code blocks show, they do not deliver; checklists, changelogs, road maps and to-do lists are content.
"""

from __future__ import annotations

import re

from runner.criteria import marks, wording
from runner.criteria.answer import read_answer
from runner.criteria.comments import Hit
from runner.criteria.context import is_test_path

__all__ = ["read_markdown", "unclosed_fence"]

_LISTS_WORK = re.compile(
    r"(?:^|/)[^/]*(?:todo|roadmap|backlog|change-?log|changes|history|news|release|issues|plan|ideas|wish)[^/]*$",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s")
_SAYS_ONLY = re.compile(r"^[\s>*_|`-]*(?P<mark>TODO|FIXME|TBD|XXX|WIP)[\s*_|.:!…-]*$")
_STARTS = re.compile(
    r"^[\s>*_-]*(?:\[ \]\s+)?[*_]{0,2}(?P<mark>TODO|FIXME|TBD)[*_]{0,2}\s*"
    rf"(?:[:(]|[-–—]\s|(?<=[\s*_])(?:{wording.TO_DO})\b)"
)
_INSIDE = re.compile(r"(?:(?<=[.;:!?)]\s)|(?<=\())(?P<mark>TODO|FIXME|TBD)\b\s*(?:[:)]|$)")
# In the first column the word is the name of a state as a rule; an open cell stands to its right.
_CELL = re.compile(r"(?<=\S)\s*\|\s*(?P<mark>TODO|FIXME|TBD)\s*(?=\|)")
_HTML_COMMENT = re.compile(r"<!--(.*?)(?:-->|$)")
_REST = re.compile(
    r"^\W*(?:\[)?\W*(?:the )?(?:rest|remainder) of (?:the |this )?(?:document|sections?|file|guide|content|readme|page|text|steps|list|table|chapters?|items|entries)\b.{0,40}\b(?:unchanged|the same|omitted|remains?|as before|stays?|as in the (?:previous|original|old|last))\b",
    re.IGNORECASE,
)


# A line that is one bracketed remark on the rest, in any of the seven languages.
_BRACKETED = re.compile(
    r"^(?=.{4,160}$)(?!.*\]\()\W*[\[(（【<].*(?:"
    r"(?:\.{3}|…).*\b(?:rest|remainder|remaining|resto|restantes?|restliche[nrs]?|übrige[nrs]?|reste|suite|continu\w+)\b"
    r"|\b(?:rest|remainder|remaining|others?|resto|restantes?|restliche[nrs]?|übrige[nrs]?|reste)\b.*\b(?:omitted|same|unchanged|identical|as (?:above|before)|"
    r"igual|misma|sin cambios|omit\w+|gleich\w*|unverändert\w*|ausgelassen|entsprechend|weggelassen|identiques?|inchangée?s?|même|omis\w*)\b"
    r"|(?:以下|以降|残り|続き)[^。]{0,24}(?:省略|略|同様|同じ)|(?:其余|剩余|以下|后面|其他)[^。]{0,24}(?:省略|略|相同|同上|不变)|(?:나머지|이하|기타)[^.]{0,24}(?:생략|동일|같음|같습니다)"
    r").*[\])）】>]\W*$",
    re.IGNORECASE,
)


def read_markdown(path: str, text: str) -> list[Hit]:
    """What in a Markdown or prose file stands for missing work; text beside tests is data."""
    if _LISTS_WORK.search(path) or is_test_path(path):
        return []
    return [hit for line in read_answer(text).prose if (hit := _line(line.text, line.raw, line.line))]


def _line(text: str, raw: str, number: int) -> Hit | None:
    for comment in _HTML_COMMENT.finditer(text):
        said = comment.group(1).strip()
        if (mark := marks.MARK.match(said)) and not marks.DOMAIN.match(said[mark.end() :]):
            return Hit(criterion="Q2", words=mark["mark"].upper(), line=number, excerpt=raw)
        if (left := wording.LEFT_OUT_STRICT.search(said)) or (
            left := wording.LEFT_OUT_DOTS.search(said) or _REST.search(said)
        ):
            return Hit(criterion="Q3", words=left.group()[:60], line=number, excerpt=raw)
    if _HEADING.match(text) or "<!--" in text:
        return None
    for pattern in (_SAYS_ONLY, _STARTS, _INSIDE, _CELL):
        if found := pattern.search(text):
            return Hit(criterion="Q2", words=found["mark"], line=number, excerpt=raw)
    if (found := wording.TO_BE_WRITTEN.search(text)) or (found := _REST.search(text) or _BRACKETED.search(text)):
        return Hit(criterion="Q3", words=found.group().strip()[:60], line=number, excerpt=raw)
    return None


def unclosed_fence(text: str) -> int | None:
    """The line of a fence that never closes, None where all do."""
    return next((fence.line for fence in read_answer(text).fences if not fence.closed), None)
