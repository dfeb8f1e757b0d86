"""The prose of an answer: work it names as missing, code it says it left out, work it leaves to the person who asked.

Quoted words, inline code and quotations are already blanked; what is denied, past or a suggestion beyond the request
does not count. Only answers to tasks that ask for work are read so: an answer to a question may speak of what is open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from runner.criteria.answer import Answer, Prose
from runner.criteria.finding import at
from runner.criteria.model import Place
from runner.criteria.wording import TO_BE_WRITTEN

__all__ = ["early_ends", "left_out", "marks", "stops_short"]

_LINE_MARK = re.compile(r"^\W*(?P<mark>TODO|FIXME|TBD|HACK|XXX)\b(?=\s*(?:[:(–—-]|$))")
_IN_LINE = re.compile(r"(?:(?<=[.!?;)]\s)|(?<=[-–—]\s)|(?<=\())(?P<mark>TODO|FIXME|TBD|HACK|XXX)\b(?=\s*[:(])")
_LEFT_MARK = re.compile(
    r"\b(?:left|leaves?|leaving|added|adding|put|marked|there(?:'s| is| are)|still|with|contains?|has|have|remaining|remains?|as|some|one|two|three|few|several)\b[^.;!?]{0,40}\b(?P<mark>TODO|FIXME|TBD|HACK)s?\b"
    r"|\b(?P<other>TODO|FIXME|TBD)s?\b[^.;!?]{0,30}\b(?:left|remain(?:s|ing)?|open|pending|for later|to be done|still)\b"
)
_NO = re.compile(
    r"\b(?:no|not|none|never|without|removed?|removing|replaced?|replacing|resolved?|fixed|eliminated?|cleaned|deleted|gone|free of|zero|any|neither|nothing|instead of|rather than|"
    r"implemented (?:the|all|every|each)|former|previously|was|were|used to|keine?r?n?|nicht|ohne|sin|ning[uú]n\w*|no hay|aucune?|sans|plus)\b|n't\b|ません|ない|ありません|置き換え|削除|解消|没有|已(?:删除|移除|解决|替换)|不再|없|제거|해결",
    re.IGNORECASE,
)
_APP = re.compile(
    r"\b(?:TODO|TBD)[ -]?(?:apps?|application|lists?|items?|states?|columns?|cards?|comments?|markers?|board|label|entries|tasks?|,|/| or | and )",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"\b(?:is|are|isn't|aren't|has|have|was|were|remains?|still|stays?)\b[^.;!?]{0,24}?\b(?:not (?:yet )?(?:fully |completely )?(?:implemented|done|finished|complete|handled|wired up|written)(?: yet)?|unimplemented|unfinished|incomplete|(?:only )?(?:a )?stub(?:bed)?(?: out)?|not been (?:implemented|written|done)|to be (?:implemented|written|done|completed)|yet to be \w+)\b"
    r"|\b(?:isn't|aren't|hasn't been|haven't been|wasn't|weren't) (?:yet )?(?:fully )?(?:implemented|done|finished|complete|written|handled)(?: yet)?\b"
    r"|\bnot (?:yet )?implemented\b(?: yet)?|\b(?:left|used|added|kept|inserted|returns?) (?:as )?(?:a |an |some |the )?(?:\w+ )?(?:placeholders?|stubs?|dummy (?:values?|implementation))\b|\b(?:placeholder|stub|dummy|mock) (?:implementation|logic|version|for now)\b|\bstubbed (?:it |them )?out\b|\b(?:simplified|skipped|hard-?coded)\b[^.;!?]{0,40}\bfor now\b|\bfor now,? (?:it|this|the \w+) (?:just |only |simply )?(?:returns|is a|does nothing)"
    r"|\b(?:is|are) (?:not (?:supported|covered) yet|not yet (?:supported|covered))\b"
    r"|\bstill (?:needs?|has|have) to be (?:done|implemented|added|written|completed|handled|wired)\b"
    r"|未実装|まだ(?:実装|対応)|実装できていま|後で実装|仮実装|スタブのまま|尚未(?:实现|完成)|还没(?:有)?(?:实现|完成)|暂未(?:实现|完成)|未实现|待实现|아직 (?:구현|완성)|구현되지 않|미구현|나중에 구현"
    r"|\b(?:aún|todavía) no (?:está|se ha|he) ?\w* ?(?:implementad|terminad|hech|completad)\w*|\b(?:falta|queda) (?:por )?(?:implementar|completar|hacer)|pendiente de implementar"
    r"|\bnoch nicht (?:implementiert|umgesetzt|fertig)|\bnoch zu (?:implementieren|erledigen)|\bpas encore (?:implémenté|terminé|fait)|\breste à (?:faire|implémenter)",
    re.IGNORECASE,
)
_LEFT_OUT = re.compile(
    r"\b(?:omitted|left out|skipped|elided|shortened|abbreviated|truncated|not (?:shown|included|repeated|written out))\b[^.;!?]{0,30}\b(?:for (?:the sake of )?(?:brevity|space|clarity|simplicity|conciseness|length)|to save space|due to (?:length|space))\b|\bfor brevity\b"
    r"|\b(?:i(?:'ve| have)?|we(?:'ve| have)?) (?:left out|omitted|skipped|elided)\b[^.;!?]{0,40}\b(?:rest|remaining|others?|code|implementation|bod(?:y|ies)|details|methods|functions|tests|handlers)\b"
    r"|\b(?:rest|remaining|other)\b[^.;!?]{0,40}\b(?:is|are|was|were) (?:omitted|left out|not shown|elided)\b|\b(?:rest|remainder) of (?:the )?(?:code|file|implementation)[^.;!?]{0,20}\b(?:goes here|would go|follows the same pattern)\b"
    r"|^\W*(?:\.{3}|…)\s*(?:the )?(?:rest|remainder) of\b|^\W*(?:the )?rest of (?:the |your )?(?:code|file|implementation|class)(?: (?:is |remains? |stays? )?(?:unchanged|the same|omitted|as before))?\W*$"
    r"|(?:残り|以下|以降)(?:の\w*)?(?:は|も)?(?:省略|割愛)|(?:省略|割愛)(?:しました|します|しています)|(?:其余|其他|剩余)[^。]{0,12}省略|(?:篇幅|简洁)[^。]{0,12}省略|나머지(?:는)? ?[^.]{0,12}생략"
    r"|\bomitid[oa]s? por\b|\bhe omitido\b|\b(?:weggelassen|ausgelassen|gekürzt)\b|\bder (?:übersichtlichkeit|kürze) halber\b|\bomis(?:e|es)? (?:pour|par)\b|\bj'ai omis\b",
    re.IGNORECASE,
)
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


def marks(prose: Sequence[Prose], *, reports: bool = False) -> list[Place]:
    """Q2: marks offered as part of the answer, and work that it says is missing.

    `reports` is for a request that asked for no change: its answer may well say what is missing in the code.
    """
    found: list[Place] = []
    for line in prose:
        for sentence in _sentences(line.text):
            word = _mark_in(sentence)
            if word:
                found.append(
                    at(
                        "marker",
                        f"{word} found",
                        line=line.line,
                        excerpt=line.raw,
                        suggestion="do the work that the mark stands for",
                    )
                )
                break
            if not reports and (missing := _MISSING.search(sentence)) and not _denied(sentence, missing):
                found.append(
                    at(
                        "missing_work",
                        "the answer names work as not done",
                        line=line.line,
                        excerpt=line.raw,
                        suggestion="do this work too",
                    )
                )
                break
    return found


def _mark_in(sentence: str) -> str:
    found = _LINE_MARK.search(sentence) or _IN_LINE.search(sentence)
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
            r"\b(?:no|nothing|none|never|without|neither|no longer|keine?|nada|rien|previously|originally|before|earlier|raised|because|since|why|reported|said|that|error|message|where|when)\b|もう|不再",
            before,
            re.IGNORECASE,
        )
        or re.search(r"\b(?:was|were|wasn't|weren't) ", inside, re.IGNORECASE)
        or re.search(
            r"\b(?:before(?! (?:this|it|you|we|they) can\b)|previously|until now|by design|on purpose|intentionally|in this (?:mode|case)|by the (?:server|browser|platform))\b",
            sentence[found.end() :],
            re.IGNORECASE,
        )
    )


def left_out(prose: Sequence[Prose]) -> list[Place]:
    """Q3: code or text that the answer says it left out."""
    return [
        at(
            "omission",
            "the answer says that code was left out",
            line=line.line,
            excerpt=line.raw,
            suggestion="write everything out in full",
        )
        for line in prose
        if any(
            (
                (found := _LEFT_OUT.search(sentence))
                and not re.search(r"\b(?:not|nothing|no|never|without)\b", sentence[: found.start()], re.IGNORECASE)
            )
            or TO_BE_WRITTEN.search(sentence)
            for sentence in _sentences(line.text)
        )
    ]


def early_ends(prose: Sequence[Prose], *, changed: bool) -> list[Place]:
    """Q6: the rest is left to the person, put off, or only planned (a plan counts where nothing was changed)."""
    found: list[Place] = []
    for line in prose:
        for sentence in _sentences(line.text):
            ends = _ENDS.search(sentence)
            if ends and not (
                _BEYOND.search(sentence) and not re.search(r"\b(?:rest|remaining)\b", sentence, re.IGNORECASE)
            ):
                found.append(
                    at(
                        "early_end",
                        "leaves work to the user",
                        line=line.line,
                        excerpt=line.raw,
                        suggestion="do this work yourself, now",
                    )
                )
                break
    if not found and not changed:
        planned = next((line for line in prose if _PLAN.search(line.text)), None)
        if planned is not None:
            found.append(
                at(
                    "plan",
                    "a plan instead of the work",
                    line=planned.line,
                    excerpt=planned.raw,
                    suggestion="carry the plan out",
                )
            )
    return found


def stops_short(answer: Answer) -> Place | None:
    """Q6: the last line is prose, and announces the work or stops at a word after which more must come."""
    last = next((line for line in reversed(answer.prose) if line.raw.strip()), None)
    if last is None or any(fence.line > last.line for fence in answer.fences):
        return None
    if _STARTS_ONLY.match(_sentences(last.text.strip() or " x")[-1].strip()):
        return at("plan", "the answer ends where the work begins", line=last.line, excerpt=last.raw)
    if last.raw.lstrip()[:1] in {"#", "|", ">"} or len(last.raw.split()) < _FEW_WORDS or not _OPEN_END.search(last.raw):
        return None
    return at("cut", "the answer stops in the middle of a sentence", line=last.line, excerpt=last.raw)


def _sentences(line: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+|(?<=[。！？])", line[:2000]) if part.strip()]
