"""Q6 in the prose of an answer: the rest is left to the person, put off, done in part, or only announced.

Quoted words, inline code and quotations are already blanked. What is denied, a suggestion beyond the request, or a
step that only the person can take (a restart, a key) does not count; `parting` holds the words by language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from runner.criteria import parting
from runner.criteria.answer import Answer, Prose
from runner.criteria.finding import at
from runner.criteria.model import Place
from runner.criteria.prose import sentences

__all__ = ["announces", "early_ends", "stops_short"]

_WORK = r"(?:implement|write|fill in|complete|finish|code|flesh out|add (?:the |your |in )?(?:\w+ ){0,3}(?:logic|code|implementation|methods?|functions?|handlers?|tests|validation|handling|endpoints?|rest|remaining)|create the (?:rest|remaining|other)|replace the (?:placeholder|stub|dummy)|extend (?:it|this) (?:with|to)|do the (?:rest|same|remaining)|repeat (?:this|the same))"
_ENDS = re.compile(
    rf"\b(?:you(?:'ll| will| would|'d)?|the (?:user|developer|team|reader)(?: will)?) (?:still |now |just |only |also |then )*(?:need to|have to|must|should|needs to|has to|can(?: now| then)?)(?: still| now| then| simply)? {_WORK}\b"
    r"|\b(?:left|leave|leaving)\b[^.;!?]{0,40}\b(?:as an exercise|(?:up )?to you\b|for you to|to the (?:user|reader|developer)|for the (?:user|reader|developer) to)"
    r"|\b(?:let me know|tell me|say the word|just ask|reply|confirm) (?:if|whether|when|and|to)\b[^.;!?]{0,40}\b(?:continue|proceed|finish|go on|keep going|go ahead|do the (?:rest|others?|remaining)|complete (?:the|it)|implement (?:the (?:rest|remaining|others?)|it|them)|the rest|the remaining|the others?)\b"
    r"|\b(?:should|shall|may|can) i (?:now )?(?:continue|proceed|go ahead|finish|go on|start|implement)\b|\b(?:would|do) you (?:like|want) me to (?:now )?(?:continue|proceed|go ahead|finish|go on|start|keep going|complete|(?:fix|apply|change|make) (?:it|this|that|them|(?:the|this|these) (?:change|changes|fix|bug|edits?))\b|implement (?:the (?:rest|remaining|others?)|it|this|them)|do the (?:rest|remaining))\b"
    r"|\bi(?:'ll| will) (?:continue|finish|do|implement|add|complete|write|handle)\b[^.;!?]{0,60}\b(?:later|next|in (?:a|the|my) (?:next|follow-?up|second|subsequent|future)|tomorrow|afterwards|in another)\b"
    r"|\bin (?:the|a|my) (?:next|follow-?up|subsequent|later|future) (?:step|message|turn|iteration|answer|response|pr|commit|part)s?,? (?:i|we)(?:'ll| will)\b"
    r"|\b(?:i|we) (?:could not|couldn't|was unable to|wasn't able to|were unable to|did not|didn't|have not|haven't) (?:yet )?(?:finish|complete|implement|manage to|get to|have (?:the )?time|get (?:around )?to|fully)\b"
    r"|^\W*(?:still )?(?:remaining|missing|not done(?: yet)?|open|left to do|to do|pending|outstanding)(?: (?:work|items|tasks|steps|parts|points))?\W{0,3}:\W*(?!none|nothing|no\b|0|n/a)\w"
    r"|\b(?:i|we)(?:'ve| have)? (?:(?:only|just) (?:\w+ )?(?:implemented|done|finished|completed|added|written|covered)|(?:implemented|did|finished|completed|added|wrote|covered) only) (?:\w+ ){0,2}(?:first|basics?|main|part|half|some|structure|skeleton|scaffold(?:ing)?|outline)\b"
    r"|\b(?:ran|run|running) out of (?:time|tokens|space|context|budget)\b"
    r"|\bi(?:'ve| have)? ran? out of (?:time|tokens|space|context|budget)\b|\bdue to (?:length|time|space|token|context|output)[- ](?:limits?|constraints?|limitations?|restrictions?)\b|\b(?:to be continued|continued in (?:the )?next|part 1 of \d)\b"
    r"|\b(?:the )?(?:rest|remaining \w+|remainder|others?)\b[^.;!?]{0,30}\b(?:can be (?:done|implemented|added|completed|written) (?:similarly|the same way|analogously|later|by you|in (?:a |the )?(?:similar|same) (?:way|manner|fashion))|is (?:up to|left to) you|are (?:up to|left to) you|yourself|on your own|follow(?:s)? the same pattern(?! as)|i(?:'ll| will) leave)\b"
    r"|\bi(?:'ll| will) leave\b[^.;!?]{0,40}\b(?:to you|for you|rest|remaining|implementation|up to)\b|\b(?:next steps? (?:for you|is to implement|would be to (?:implement|finish|complete) the (?:rest|remaining|actual))|(?:only|just) (?:the )?first (?:part|half|step|\w+ of (?:the )?\w+) (?:is|are|was|were)? ?(?:done|implemented|complete))\b"
    r"|(?:残り|あと|それ以外|続き)(?:の\w{0,12})?(?:は|を)[^。]{0,24}(?:ご自身|ご自分|お願い|実装してください|追加してください|任せ|お任せ|あなた)|(?:ご自身|ご自分|各自)で(?:実装|追加|補完|作成)|続け(?:ます|ましょう|てよい|て良い)(?:か|でしょうか)|(?:続行|進め)(?:しますか|してもよ|てもよろしい|ますか|ましょうか)|次回(?:実装|対応)|(?:実装|追加|補完|記述)していただく必要"
    r"|(?:您|你)(?:还)?(?:需要|可以|得|必须)(?:自行|自己|再)?[^。]{0,4}(?:实现|补充|完成|编写)|(?:是否|要不要|需要我|要我)[^。]{0,6}(?:继续|接着|往下)|自行(?:实现|补充|完成|编写)|留给(?:您|你|读者)|剩(?:下|余)(?:的)?[^。]{0,10}(?:由您|由你|您来|你来|自己)|接下来我(?:会|将)"
    r"|(?:직접|스스로)[^.]{0,10}(?:구현|작성|추가|완성)(?:하|해)|계속[^.]{0,6}(?:할까요|진행할까요|해드릴까요|하시겠)|나머지[^.]{0,20}(?:직접|구현하시|작성하시|추가하시|맡)"
    r"|\b(?:tendrás|deberás|tienes|debes|puedes|tendrá|deberá|tendría)\b[^.;!?]{0,12}\b(?:que )?(?:implementar|completar|escribir|añadir (?:el|la|los|las) (?:resto|lógica|código)|terminar)|\bel resto (?:lo|te|queda|es cosa)\b[^.;!?]{0,30}\b(?:tú|ti|usted|tendrás|puedes|toca|queda)|\b(?:quieres|desea|deseas) que (?:continúe|siga|prosiga|termine|complete)|\blo dejo (?:para|a) (?:ti|usted|tu)|\bte toca\b"
    r"|\b(?:müssen|musst|sollten|solltest|können|kannst) (?:sie|du)\b[^.;!?]{0,40}\b(?:selbst|noch)\b[^.;!?]{0,20}\b(?:implementieren|ergänzen|schreiben|fertigstellen|umsetzen)|\büberlasse ich\b|\bsoll ich (?:fortfahren|weitermachen|den rest|jetzt)|\b(?:den|der) rest\b[^.;!?]{0,40}\b(?:selbst|ihnen|dir|du|sie)\b|\bmöchten sie,? dass ich (?:fortfahre|weitermache)"
    r"|\b(?:vous devrez|tu devras|il vous faudra|il te faudra|vous pouvez|tu peux)\b[^.;!?]{0,30}\b(?:implémenter|compléter|écrire|terminer|finir)\b|\bje (?:vous|te) laisse\b|\b(?:voulez-vous|souhaitez-vous|veux-tu|souhaites-tu) que je (?:continue|poursuive|termine|complète)|\ble reste\b[^.;!?]{0,30}\b(?:à vous|à toi|vous-même|toi-même)",
    re.IGNORECASE,
)
_FEW_WORDS = 5
_TICKED = re.compile(r"^[-*+]\s+(?:\[[xX]\]|✅|☑)")
_UNTICKED = re.compile(r"^[-*+]\s+(?:\[ \]|⬜|☐)")
_BULLET = re.compile(r"^(?:[-*+•]|\d+[.)])\s+")
_OPEN_END = re.compile(
    r"\s(?:the|an?|because|and|or|but|of|from|with|which|into|if|while|is|are|was|were|as|to|only|had|has|have|its|their|my|your|every|will|would|could|should|must|been|than"
    r"|(?:because|and|but|which|so|when|while|if|since|where|that) (?:it|they|we|i|this|that|the \w+))\s*$",
    re.IGNORECASE,
)
_STARTS_ONLY = re.compile(
    r"^(?:next|now|then|after that),? (?:i|we)(?:'ll| will| am going to| are going to)\b|^(?:now |next,? |first,? )?let me (?:first |now |also |then |start |begin )*(?:by )?(?:look|check|read|examin|open|explor|see|find|search|inspect|go|tak|add|writ|creat|implement|fix|updat)\w*\b(?! know)",
    re.IGNORECASE,
)
_BEYOND = re.compile(
    r"\b(?:also|optional(?:ly)?|additional(?:ly)?|extra|beyond|not part of|out of scope|if you (?:want|like|wish|prefer|ever|later)|in case you|feel free|should you (?:want|wish)|later on|future (?:work|enhancement|improvement)s?|questions?)\b",
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"\b(?:i|we)(?:'ll| will| would|'d| am going to|'m going to| plan to| intend to| propose to| can| could) (?:first |then |now |next |start by |begin by |also )*(?:add|implement|create|write|extend|update|change|fix|start|begin|modify|refactor|build|replace|look|proceed|make|introduce)\w*\b"
    r"|\b(?:here(?:'s| is) (?:the|my|a) plan|the plan is|my plan|proposed (?:plan|approach))\b|(?:実装|追加|修正|変更)(?:していきます|する予定です|します。)|我(?:将|会|打算|计划)(?:先)?|(?:구현|추가|수정)하겠습니다|\bvoy a (?:implementar|añadir|crear)|\bich werde\b|\bje vais\b",
    re.IGNORECASE,
)


def early_ends(answer: Answer, *, changed: bool) -> list[Place]:
    """Q6: work left to the person, put off, done in part, or only announced (a mere plan counts if nothing changed)."""
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
        if parting.DECISION.search(sentence):
            continue
        ends = _ENDS.search(sentence)
        if (
            ends
            and not (_BEYOND.search(sentence) and not re.search(r"\b(?:rest|remaining)\b", sentence, re.IGNORECASE))
        ) or _parts(sentence):
            return _early(line)
    return None


def _parts(sentence: str) -> bool:
    """Whether a sentence puts work off, hands it back, breaks it off or says that it is done in part."""
    if parting.INNOCENT.search(sentence):
        return False
    reasoned = parting.REASON.search(sentence) is not None and not parting.EFFORT.search(sentence)
    return any(
        row.handed_back.search(sentence)
        or row.broken_off.search(sentence)
        or (not reasoned and (row.put_off.search(sentence) or row.in_part.search(sentence)))
        for row in parting.ROWS
    )


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
                if parting.TO_BE_DONE.search(item) and not parting.INNOCENT.search(item):
                    yield _early(line)
            elif not parting.NOTHING.match(item) and not parting.INNOCENT.search(item):
                yield _early(heading)
                heading = None
        if _BULLET.match(text):
            continue
        ideas = parting.NEXT_STEPS.match(text) is not None
        heading = line if ideas or parting.HEADING.match(text) else None


def _announced(answer: Answer) -> Place | None:
    """The announcement that an answer ends with, or that stands in it while no work is reported at all."""
    said = [
        (line, sentence)
        for line in answer.prose
        if line.text.strip() and not line.raw.lstrip().startswith(("#", "|"))
        for sentence in sentences(line.text)
        if not parting.WAITING.match(sentence)
    ]
    last_fence = max((fence.line for fence in answer.fences), default=0)
    begun = [(line, sentence) for line, sentence in said if line.line > last_fence and announces(sentence)]
    if not begun:
        return None
    if begun[-1][1] is said[-1][1]:
        return _plan(begun[-1][0], "the answer ends where the work begins")
    told = any(row.done.search(sentence) for row in parting.ROWS for _, sentence in said if not announces(sentence))
    return None if told or last_fence else _plan(begun[0][0], "the work is announced and not reported as done")


def announces(sentence: str) -> bool:
    """Whether a sentence says what is going to be done."""
    return not parting.INNOCENT.search(sentence) and any(row.announced.search(sentence) for row in parting.ROWS)


def _early(line: Prose) -> Place:
    return at(
        "early_end",
        "leaves work to the user",
        line=line.line,
        excerpt=line.raw,
        suggestion="do this work yourself, now",
    )


def _plan(line: Prose, message: str) -> Place:
    return at("plan", message, line=line.line, excerpt=line.raw, suggestion="carry the plan out")


def stops_short(answer: Answer) -> Place | None:
    """Q6: the last line is prose, and announces the work or stops at a word after which more must come."""
    last = next((line for line in reversed(answer.prose) if line.raw.strip()), None)
    if last is None or any(fence.line > last.line for fence in answer.fences):
        return None
    if _STARTS_ONLY.match(sentences(last.text.strip() or " x")[-1].strip()):
        return at("plan", "the answer ends where the work begins", line=last.line, excerpt=last.raw)
    if last.raw.lstrip()[:1] in {"#", "|", ">"} or len(last.raw.split()) < _FEW_WORDS or not _OPEN_END.search(last.raw):
        return None
    return at("cut", "the answer stops in the middle of a sentence", line=last.line, excerpt=last.raw)
