"""Prose of an answer or a Markdown file: work named as missing, early ends, unwritten sections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from runner.gate import comments
from runner.gate.answer_text import Answer, Prose, read_answer
from runner.gate.comments import Hit
from runner.gate.criterion import Place, at
from runner.gate.file_roles import is_test_file
from runner.gate.wording import Words

# What follows a mark word that is no name: "TODO implement this", but "TODO list".
_TO_DO = r"implement|write|finish|complete|handle|fill|fix"
_LINE_MARK = re.compile(rf"^\W*(?P<mark>TODO|FIXME|TBD|HACK|XXX)\b(?=\s*(?:[:(–—-]|$)|\s+(?:{_TO_DO})\b)")
_IN_LINE = re.compile(r"(?:(?<=[.!?;)]\s)|(?<=[-–—]\s)|(?<=\())(?P<mark>TODO|FIXME|TBD|HACK|XXX)\b(?=\s*[:(])")
_LEFT_MARK = re.compile(
    r"\b(?:left|leaves?|leaving|added|adding|put|marked|there(?:'s| is| are)|still|with|contains?|has|have|remaining"
    r"|remains?|as|some|one|two|three|few|several)\b[^.;!?]{0,40}\b(?P<mark>TODO|FIXME|TBD|HACK)s?\b"
    r"|\b(?P<other>TODO|FIXME|TBD)s?\b[^.;!?]{0,30}\b(?:left|remain(?:s|ing)?|open|pending|for later|to be done"
    r"|still)\b"
)
_NO = Words("missing_work", "no_mark_left")
_APP = Words("missing_work", "mark_as_name")
_MISSING = Words("missing_work", "in_answer")
_LEFT_OUT = Words("left_out", "in_answer")


def marks(prose: Sequence[Prose], *, reports: bool = False, about_marks: bool = False) -> list[Place]:
    """Q2: marks offered as part of the answer, and work that it says is missing.

    `reports` is for a request that asked for no change: its answer may well say what is missing in the code, and
    where the request was `about_marks` cite them.
    """
    found: list[Place] = []
    for line in prose:
        for sentence in sentences(line.text):
            word = "" if reports and about_marks else _mark_in(sentence)
            if word:
                found.append(_at(line, "marker", f"{word} found", "do the work that the mark stands for"))
                break
            if not reports and (missing := _MISSING.search(sentence)) and not _denied(sentence, missing):
                found.append(_at(line, "missing_work", "the answer names work as not done", "do this work too"))
                break
    return found


_CELL = re.compile(r"(?<=\S)\s*\|\s*(?P<mark>TODO|FIXME|TBD)\s*(?=\||$)")  # the state of a part, in a table

_VALUE = re.compile(r"\w:\s+(?P<mark>TODO|FIXME|TBD)\W*$")  # "up to the chosen time: TBD"


def _mark_in(sentence: str) -> str:
    found = (
        _CELL.search(sentence) or _VALUE.search(sentence) or _LINE_MARK.search(sentence) or _IN_LINE.search(sentence)
    )
    if found:
        return found["mark"]
    left = _LEFT_MARK.search(sentence)
    if left and not _NO.search(sentence[max(0, left.start() - 30) : left.end() + 30]) and not _APP.search(sentence):
        return left["mark"] or left["other"]
    return ""


def _denied(sentence: str, found: re.Match[str]) -> bool:
    """`nothing is unimplemented`, `was not implemented before`: the words deny or report, they do not admit."""
    before = sentence[: found.start()]
    inside = found.group()
    return bool(
        re.search(
            r"\b(?:no|nothing|none|never|without|neither|no longer|keine?|nada|rien|previously|originally|before"
            r"|earlier|raised|because|since|why|reported|said|that|error|message|where|when)\b|もう|不再",
            before,
            re.IGNORECASE,
        )
        or re.search(r"\b(?:was|were|wasn't|weren't) ", inside, re.IGNORECASE)
        or re.search(
            r"\b(?:before(?! (?:this|it|you|we|they) can\b)|previously|until now|by design|on purpose|intentionally"
            r"|in this (?:mode|case)|by the (?:server|browser|platform))\b",
            sentence[found.end() :],
            re.IGNORECASE,
        )
    )


def left_out(prose: Sequence[Prose]) -> list[Place]:
    """Q3: code or text that the answer says it left out."""
    return [
        _at(line, "omission", "the answer says that code was left out", "write everything out in full")
        for line in prose
        if any(
            (
                (found := _LEFT_OUT.search(sentence))
                and not re.search(r"\b(?:not|nothing|no|never|without)\b", sentence[: found.start()], re.IGNORECASE)
            )
            or _TO_BE_WRITTEN.search(sentence)
            for sentence in sentences(line.text)
        )
    ]


def sentences(line: str) -> list[str]:
    """The sentences of a line, each with its end mark."""
    return [part for part in re.split(r"(?<=[.!?])\s+|(?<=[。！？])", line[:2000]) if part.strip()]


_TO_BE_WRITTEN = Words("left_out", "to_be_written")
_ANNOUNCED = Words("early_end", "announced")
_ALWAYS_OPEN = (Words("early_end", "handed_back"), Words("early_end", "broken_off"))
_OPEN = (Words("early_end", "put_off"), Words("early_end", "in_part"))  # excused by a reason
_DONE = Words("early_end", "done")
_INNOCENT = Words("early_end", "innocent")
_DECISION = Words("early_end", "decision")
_REASON = Words("early_end", "reason")
_EFFORT = Words("early_end", "effort")
_WAITING = Words("early_end", "waiting")
_LIST_HEADING = Words("early_end", "heading")
_NEXT_STEPS = Words("early_end", "next_steps")
_TO_BE_DONE = Words("early_end", "to_be_done")
_NOTHING = Words("early_end", "nothing")
_LEAVES_REST = Words("early_end", "leaves_rest")
_FEW_WORDS = 5
_TICKED = re.compile(r"^[-*+]\s+(?:\[[xX]\]|✅|☑)")
_UNTICKED = re.compile(r"^[-*+]\s+(?:\[ \]|⬜|☐)")
_BULLET = re.compile(r"^(?:[-*+•]|\d+[.)])\s+")
_OPEN_END = Words("early_end", "open_end")
_STARTS_ONLY = Words("early_end", "starts_only")
_BEYOND = Words("early_end", "beyond")
_PLAN = Words("early_end", "plan")


def early_ends(answer: Answer, *, changed: bool) -> list[Place]:
    """Q6: work left to the user, put off, done in part, or only announced (a mere plan counts if nothing changed)."""
    found = [place for line in answer.prose if (place := _parts_early(line)) is not None]
    found += _listed(answer.prose)
    if not found and (begun := _announced(answer)) is not None:
        found.append(begun)
    if not found and not changed:
        planned = next((line for line in answer.prose if _PLAN.search(line.text)), None)
        if planned is not None:
            found.append(_plan(planned, "a plan instead of the work"))
    return found


def _parts_early(line: Prose) -> Place | None:
    """The first sentence of a line that parts from unfinished work."""
    for sentence in sentences(line.text):
        if _DECISION.search(sentence):
            continue
        ends = _LEAVES_REST.search(sentence)
        if (
            ends
            and not (_BEYOND.search(sentence) and not re.search(r"\b(?:rest|remaining)\b", sentence, re.IGNORECASE))
        ) or _parts(sentence):
            return _early(line)
    return None


def _parts(sentence: str) -> bool:
    """Whether a sentence puts work off, hands it back, breaks it off or says that it is done in part."""
    if _INNOCENT.search(sentence):
        return False
    reasoned = _REASON.search(sentence) is not None and not _EFFORT.search(sentence)
    return any(words.search(sentence) for words in (_ALWAYS_OPEN if reasoned else (*_ALWAYS_OPEN, *_OPEN)))


def _listed(prose: Sequence[Prose]) -> Iterator[Place]:
    """Lists of what is still to be done: the items under a heading that says so."""
    heading: Prose | None = None
    ideas = False
    ticked = any(_TICKED.match(line.text.strip()) for line in prose)
    for line in prose:
        text = line.text.strip()
        if not text:
            continue
        if ticked and _UNTICKED.match(text):
            yield _early(line)
        elif _BULLET.match(text) and heading is not None:
            item = _BULLET.sub("", text, count=1)
            if ideas:
                if _TO_BE_DONE.search(item) and not _INNOCENT.search(item):
                    yield _early(line)
            elif not _NOTHING.match(item) and not _INNOCENT.search(item):
                yield _early(heading)
                heading = None
        if _BULLET.match(text):
            continue
        ideas = _NEXT_STEPS.match(text) is not None
        heading = line if ideas or _LIST_HEADING.match(text) else None


def _announced(answer: Answer) -> Place | None:
    """The announcement that an answer ends with, or that stands in it while no work is reported at all."""
    said = [
        (line, sentence)
        for line in answer.prose
        if line.text.strip() and not line.raw.lstrip().startswith(("#", "|"))
        for sentence in sentences(line.text)
        if not _WAITING.match(sentence)
    ]
    last_fence = max((fence.line for fence in answer.fences), default=0)
    begun = [(line, sentence) for line, sentence in said if line.line > last_fence and _announces(sentence)]
    if not begun:
        return None
    if begun[-1][1] is said[-1][1]:
        return _plan(begun[-1][0], "the answer ends where the work begins")
    told = any(_DONE.search(sentence) for _, sentence in said if not _announces(sentence))
    return None if told or last_fence else _plan(begun[0][0], "the work is announced and not reported as done")


def _announces(sentence: str) -> bool:
    """Whether a sentence says what is going to be done."""
    return not _INNOCENT.search(sentence) and _ANNOUNCED.search(sentence) is not None


def _early(line: Prose) -> Place:
    return _at(line, "early_end", "leaves work to the user", "do this work yourself, now")


def _plan(line: Prose, message: str) -> Place:
    return _at(line, "plan", message, "carry the plan out")


def stops_short(answer: Answer) -> Place | None:
    """Q6: the last line is prose, and announces the work or stops at a word after which more must come."""
    last = next((line for line in reversed(answer.prose) if line.raw.strip()), None)
    if last is None or any(fence.line > last.line for fence in answer.fences):
        return None
    if _STARTS_ONLY.match(sentences(last.text.strip() or " x")[-1].strip()):
        return _at(last, "plan", "the answer ends where the work begins")
    if last.raw.lstrip()[:1] in {"#", "|", ">"} or len(last.raw.split()) < _FEW_WORDS or not _OPEN_END.search(last.raw):
        return None
    return _at(last, "cut", "the answer stops in the middle of a sentence")


def _at(line: Prose, kind: str, message: str, suggestion: str = "") -> Place:
    return at(kind, message, line=line.line, excerpt=line.raw, suggestion=suggestion)


_LISTS_WORK = re.compile(
    r"(?:^|/)[^/]*(?:todo|roadmap|backlog|change-?log|changes|history|news|release|issues|plan|ideas|wish)[^/]*$",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s")
_SAYS_ONLY = re.compile(r"^[\s>*_|`-]*(?P<mark>TODO|FIXME|TBD|XXX|WIP)[\s*_|.:!…-]*$")
_STARTS = re.compile(
    r"^[\s>*_-]*(?:\[ \]\s+)?[*_]{0,2}(?P<mark>TODO|FIXME|TBD)[*_]{0,2}\s*"
    rf"(?:[:(]|[-–—]\s|(?<=[\s*_])(?:{_TO_DO})\b)"
)
_INSIDE = re.compile(r"(?:(?<=[.;:!?)]\s)|(?<=\())(?P<mark>TODO|FIXME|TBD)\b\s*(?:[:)]|$)")
# In the first column the word is the name of a state as a rule; an open cell stands to its right.
_OPEN_CELL = re.compile(r"(?<=\S)\s*\|\s*(?P<mark>TODO|FIXME|TBD)\s*(?=\|)")
_HTML_COMMENT = re.compile(r"<!--(.*?)(?:-->|$)")
_REST = Words("left_out", "rest_of_document")


# A line that is one bracketed remark on the rest, in any of the seven languages.
_BRACKETED = Words("left_out", "bracketed")


def read_markdown(path: str, text: str) -> list[Hit]:
    """What in a Markdown or prose file stands for missing work; text beside tests is data."""
    if _LISTS_WORK.search(path) or is_test_file(path):
        return []
    return [hit for line in read_answer(text).prose if (hit := _line(line.text, line.raw, line.line))]


def _line(text: str, raw: str, number: int) -> Hit | None:
    for comment in _HTML_COMMENT.finditer(text):
        said = comment.group(1).strip()
        if (mark := comments.MARK.match(said)) and not comments.DOMAIN.match(said[mark.end() :]):
            return Hit(criterion="Q2", words=mark["mark"].upper(), line=number, excerpt=raw)
        if (left := comments.LEFT_OUT.search(said)) or (
            left := comments.LEFT_OUT_DOTS.search(said) or _REST.search(said)
        ):
            return Hit(criterion="Q3", words=left.group()[:60], line=number, excerpt=raw)
    if _HEADING.match(text) or "<!--" in text:
        return None
    for pattern in (_SAYS_ONLY, _STARTS, _INSIDE, _OPEN_CELL):
        if found := pattern.search(text):
            return Hit(criterion="Q2", words=found["mark"], line=number, excerpt=raw)
    if (found := _TO_BE_WRITTEN.search(text)) or (found := _REST.search(text) or _BRACKETED.search(text)):
        return Hit(criterion="Q3", words=found.group().strip()[:60], line=number, excerpt=raw)
    return None


def unclosed_fence(text: str) -> int | None:
    """The line of a fence that never closes, None where all do."""
    return next((fence.line for fence in read_answer(text).fences if not fence.closed), None)
