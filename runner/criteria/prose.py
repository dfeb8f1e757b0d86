"""The prose of an answer: work it names as missing and code it says it left out; `endings` reads what it leaves to do.

Quoted words, inline code and quotations are already blanked; what is denied, past or a suggestion beyond the request
does not count. Only answers to tasks that ask for work are read so: an answer to a question may speak of what is open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from runner.criteria.answer import Prose
from runner.criteria.finding import at
from runner.criteria.model import Place
from runner.criteria.wording import TO_BE_WRITTEN, TO_DO

__all__ = ["left_out", "marks", "sentences"]

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
