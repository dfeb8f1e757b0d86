"""Prose of an answer or a Markdown file: work named as missing, early ends, unwritten sections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from runner.gate import comments
from runner.gate.answer_text import Answer, Prose, read_answer
from runner.gate.comments import Hit
from runner.gate.criterion import Place
from runner.gate.empty_body_rules import is_test_path
from runner.gate.findings import at
from runner.gate.words import missing_work, work_handed_back
from runner.gate.words.missing_work import TO_BE_WRITTEN, TO_DO

_LINE_MARK = re.compile(rf"^\W*(?P<mark>TODO|FIXME|TBD|HACK|XXX)\b(?=\s*(?:[:(–—-]|$)|\s+(?:{TO_DO})\b)")
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
    r"|(?:残り|以下|以降)(?:の\w*)?(?:は|も)?(?:省略|割愛)|割愛(?:しました|します|しています)|(?:残り|以下|以降|その他|ほか|他の|詳細|コード|実装|処理|説明|変更のない|部分|メソッド|関数|内容|ファイル)[^。]{0,24}省略(?:しました|しています|しておりま|いたしま|させて)|(?:其余|其他|剩余)[^。]{0,12}省略|(?:篇幅|简洁)[^。]{0,12}省略|나머지(?:는)? ?[^.]{0,12}생략"
    r"|\bomitid[oa]s? por (?:brevedad|claridad|simplicidad|espacio|longitud|razones)|\bhe omitido\b[^.;!?]{0,40}\b(?:resto|código|métodos?|funciones|detalles|implementaci\w+|demás|pruebas|partes?)\b|\b(?:rest|übrige\w*|restliche\w*|code|methoden|funktionen|implementierung\w*|details|teile?|hier)\b[^.;!?]{0,60}\b(?:weggelassen|ausgelassen|gekürzt)\b|\bder (?:übersichtlichkeit|kürze) halber\b|\bomis(?:e|es)? (?:pour|par)\b|\bj'ai omis\b",
    re.IGNORECASE,
)


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
            for sentence in sentences(line.text)
        )
    ]


def sentences(line: str) -> list[str]:
    """The sentences of a line, each with its end mark."""
    return [part for part in re.split(r"(?<=[.!?])\s+|(?<=[。！？])", line[:2000]) if part.strip()]


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
        if work_handed_back.DECISION.search(sentence):
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
    if work_handed_back.INNOCENT.search(sentence):
        return False
    reasoned = work_handed_back.REASON.search(sentence) is not None and not work_handed_back.EFFORT.search(sentence)
    return any(
        row.handed_back.search(sentence)
        or row.broken_off.search(sentence)
        or (not reasoned and (row.put_off.search(sentence) or row.in_part.search(sentence)))
        for row in work_handed_back.ROWS
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
                if work_handed_back.TO_BE_DONE.search(item) and not work_handed_back.INNOCENT.search(item):
                    yield _early(line)
            elif not work_handed_back.NOTHING.match(item) and not work_handed_back.INNOCENT.search(item):
                yield _early(heading)
                heading = None
        if _BULLET.match(text):
            continue
        ideas = work_handed_back.NEXT_STEPS.match(text) is not None
        heading = line if ideas or work_handed_back.HEADING.match(text) else None


def _announced(answer: Answer) -> Place | None:
    """The announcement that an answer ends with, or that stands in it while no work is reported at all."""
    said = [
        (line, sentence)
        for line in answer.prose
        if line.text.strip() and not line.raw.lstrip().startswith(("#", "|"))
        for sentence in sentences(line.text)
        if not work_handed_back.WAITING.match(sentence)
    ]
    last_fence = max((fence.line for fence in answer.fences), default=0)
    begun = [(line, sentence) for line, sentence in said if line.line > last_fence and _announces(sentence)]
    if not begun:
        return None
    if begun[-1][1] is said[-1][1]:
        return _plan(begun[-1][0], "the answer ends where the work begins")
    told = any(
        row.done.search(sentence) for row in work_handed_back.ROWS for _, sentence in said if not _announces(sentence)
    )
    return None if told or last_fence else _plan(begun[0][0], "the work is announced and not reported as done")


def _announces(sentence: str) -> bool:
    """Whether a sentence says what is going to be done."""
    return not work_handed_back.INNOCENT.search(sentence) and any(
        row.announced.search(sentence) for row in work_handed_back.ROWS
    )


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


_LISTS_WORK = re.compile(
    r"(?:^|/)[^/]*(?:todo|roadmap|backlog|change-?log|changes|history|news|release|issues|plan|ideas|wish)[^/]*$",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s")
_SAYS_ONLY = re.compile(r"^[\s>*_|`-]*(?P<mark>TODO|FIXME|TBD|XXX|WIP)[\s*_|.:!…-]*$")
_STARTS = re.compile(
    r"^[\s>*_-]*(?:\[ \]\s+)?[*_]{0,2}(?P<mark>TODO|FIXME|TBD)[*_]{0,2}\s*"
    rf"(?:[:(]|[-–—]\s|(?<=[\s*_])(?:{missing_work.TO_DO})\b)"
)
_INSIDE = re.compile(r"(?:(?<=[.;:!?)]\s)|(?<=\())(?P<mark>TODO|FIXME|TBD)\b\s*(?:[:)]|$)")
# In the first column the word is the name of a state as a rule; an open cell stands to its right.
_MARKDOWN_CELL = re.compile(r"(?<=\S)\s*\|\s*(?P<mark>TODO|FIXME|TBD)\s*(?=\|)")
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
        if (mark := comments.MARK.match(said)) and not comments.DOMAIN.match(said[mark.end() :]):
            return Hit(criterion="Q2", words=mark["mark"].upper(), line=number, excerpt=raw)
        if (left := missing_work.LEFT_OUT_STRICT.search(said)) or (
            left := missing_work.LEFT_OUT_DOTS.search(said) or _REST.search(said)
        ):
            return Hit(criterion="Q3", words=left.group()[:60], line=number, excerpt=raw)
    if _HEADING.match(text) or "<!--" in text:
        return None
    for pattern in (_SAYS_ONLY, _STARTS, _INSIDE, _MARKDOWN_CELL):
        if found := pattern.search(text):
            return Hit(criterion="Q2", words=found["mark"], line=number, excerpt=raw)
    if (found := missing_work.TO_BE_WRITTEN.search(text)) or (found := _REST.search(text) or _BRACKETED.search(text)):
        return Hit(criterion="Q3", words=found.group().strip()[:60], line=number, excerpt=raw)
    return None


def unclosed_fence(text: str) -> int | None:
    """The line of a fence that never closes, None where all do."""
    return next((fence.line for fence in read_answer(text).fences if not fence.closed), None)
