"""The words that stand for missing work, in seven languages: work named as missing, and code left out.

Pure data and the patterns made of it. Every pattern is for text that was already told apart from code, strings and
quotations; `comments` and `prose` decide where it may be applied. Patterns look at one sentence, never across many.
"""

from __future__ import annotations

import re

TO_DO = r"implement|write|finish|complete|handle|fill|fix"
"""Alternatives of a pattern: what follows a mark word that is no name ("TODO implement this", but "TODO list")."""
_I = re.IGNORECASE
_DOTS = r"(?:\.{3,}|…|\. \. \.)"


class Words:
    """Patterns, each behind literal stems: a pattern is tried only where one of its stems stands in the text.

    The stems carry the speed: most comments hold none, and a look for them costs microseconds.
    """

    __slots__ = ("_rows",)

    def __init__(self, *rows: tuple[str, str]) -> None:
        self._rows = tuple((tuple(stems.split("|")), re.compile(pattern, _I)) for stems, pattern in rows)

    def search(self, text: str) -> re.Match[str] | None:
        """The first pattern's match, None where there is none."""
        lower = text.lower()
        for stems, pattern in self._rows:
            for stem in stems:
                if stem in lower:
                    if (found := pattern.search(text)) is not None:
                        return found
                    break
        return None


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{part})" for part in parts), _I)


# Work named as missing, without a mark word.
MISSING = Words(
    (
        "incomplete|unfinished|complete|finished",
        r"\b(?:this|(?:the|this) (?:function|method|implementation|handler|code|class|module|script)) is (?:still |currently )?(?:incomplete|unfinished|not (?:yet )?(?:complete|finished))\b(?! (?:until|unless|if|when|while|without))",
    ),
    (
        "yet",
        r"^(?!.*\b(?:that|which|whose|those|if|when|while|until|where|because)\b).*\b(?:is|are) (?:not (?:handled|validated|covered|wired up) yet|not yet (?:handled|validated|covered|wired up))\b",
    ),
    ("missing:", r"^\W*missing:\s"),
    (
        "added|implemented|written|provided",
        r"\b(?:logic|code|implementation|handling|tests?|validation|functionality|feature) (?:is |are )?(?:still )?(?:to be|will be|yet to be) (?:added|implemented|written|provided)\b(?! by)",
    ),
    (
        "simulate ",
        r"^\W*simulate (?:an? |the |some )?(?:processing|api call|database (?:call|query|access)|sending|success|(?:a )?response from|work)\b",
    ),
    (
        "for demo|for illustration|for simplicity|demo purposes",
        r"\bfor (?:demo|demonstration|illustration)(?: purposes)?,? (?:only|just|we|return|i|this|let's|use|assume|hard)|\bfor simplicity,? (?:we |just |i |simply |let's )*(?:skip|return|assume|hard-?code|ignore|omit|use (?:a )?(?:fixed|dummy|fake|mock))",
    ),
    (
        "would ",
        r"^\W*(?:this|it|we|here,? we|you|here) would (?:normally|typically|usually|actually|really|ideally) \w+|\bwould be (?:implemented|replaced|fetched|loaded|done|called) (?:in|by|with|from) (?:a |an |the )?(?:full|real|actual|production)\b",
    ),
    (
        "in production|in practice|in reality|in real life",
        r"\bin (?:production|practice|reality|real life),? (?:you|we|this|it|one)(?:'d| would| should| might| could)\b",
    ),
    (
        "replace|until",
        r"\b(?:temporary|interim|stopgap|quick) (?:solution|fix|workaround|measure)[,;:.-]? (?:until|for now|to be replaced|replace)|\breplace(?:d)? (?:this |it |me )?later\b",
    ),
    (
        "replaced ",
        r"\b(?:value|values|data|number|implementation|solution|version|hack|code|logic|stub|placeholder)\b.{0,20}\bto be replaced (?:with|by)\b|^\W*to be replaced (?:with|by) (?:the |a |an )?(?:real|actual|proper|final|production)\b",
    ),
    (
        "for now",
        r"^\W*for now,? (?:we |it |i |we'll |i'll |let's )?(?:just|simply|only)\b|\b(?:just|simply) \w+\b.{0,40}\bfor now\b|\bsimplified for now\b",
    ),
    (
        "implement",
        r"^\W*(?:(?:this|it|that|function|method|feature) is )?(?:currently |still )?(?:not (?:yet |currently )?(?:fully |completely )?implemented|unimplemented)\b(?! (?:by|in|on|for|as) (?:this|the|a|an|all|every|some|servers?|drivers?|protocol|purpose))",
    ),
    (
        "implement|written|wired|hooked",
        r"\b(?:not (?:yet|currently) (?:been )?(?:fully )?(?:implemented|wired|hooked up)|isn't (?:yet )?implemented yet|not (?:fully |completely )?implemented yet|has(?:n't| not) (?:yet )?been implemented|still unimplemented)\b",
    ),
    (
        "not |isn't|unfinished",
        r"^\W*(?:this (?:is|part is|function is) )?(?:not (?:yet )?(?:done|finished|complete)|unfinished)(?: yet)?\W*$",
    ),
    (
        "to be ",
        r"\b(?:yet|still) to be implemented\b|^\W*to be implemented\b(?! (?:by|in|on|for|as|using)\b)|\b(?:is|are|left|remains?|logic|code|part|handling|validation|support) to be (?:implemented|filled in)\b(?! (?:by|in|on|for|as|using)\b)|\bto be (?:filled in|(?:implemented|completed|written|added|defined|decided|determined|done|finished) later)\b|^\W*(?:still |yet )?to be (?:done|completed|written|decided|determined|defined|filled in|finished)\W*$",
    ),
    (
        " be ",
        r"\b(?:will|should|needs? to|has to|have to) (?:still )?be (?:implemented|filled in|fleshed out)\b(?! (?:by|in|for|when|as|using|with)\b)",
    ),
    (
        "later|soon|at some point|future|next |have time",
        r"\b(?:implement|finish|fix|fill in|flesh out|complete) (?:this|it|me|that|these|the rest|the \w+)? ?(?:properly )?(?:later|soon|at some point|in (?:the )?(?:future|next (?:version|step|iteration|pr))|when (?:i|we) have time)\b|^\W*(?:add|do|handle|support|write) (?:this|it|me|that|these) (?:properly )?(?:later|soon)\W*$",
    ),
    (
        "implementation",
        r"\b(?:needs|requires|awaiting|pending|missing) (?:an |a |proper |real |actual |full |further )*implementation\b|(?<!no )\bimplementation (?:is )?(?:pending|missing|incomplete|to follow|to come|coming soon|to be (?:done|added|written|provided))\b",
    ),
    (
        "implement|fill |coming|progress|wip|stub|skeleton",
        r"^\W*(?:implement (?:me|this|it|here)|fill (?:me|this) in|coming soon|work in progress|wip|(?:just )?(?:a )?stub|stubbed(?: out)?|skeleton)\W*$|\bimplement me\b",
    ),
    (
        "stub|skeleton",
        r"\b(?:stub(?:bed)?(?: out)? (?:for now|until|implementation)|this is (?:just |only |currently )?(?:a )?stub|stub[:!] |skeleton implementation)\b",
    ),
    (
        "placeholder|dummy|tempora|incomplete|simplified",
        r"\b(?:placeholder|dummy|temporary|incomplete) (?:implementation|logic)\b|\bplaceholder (?:code|body|function|calculation|return(?: value)?|response|method|class|result)\b(?! (?:text|attribute))|\bdummy (?:response|data|values?|result|code),? (?:for now|until|replace)|\bsimplified (?:implementation|logic|version|for now)[,;:.]? (?:for now|replace|in (?:a )?(?:real|production))",
    ),
    (
        "placeholder",
        r"\b(?:this|it|which|below|here) (?:is|are|'s) (?:just |only |currently |simply )?(?:a |an )?placeholders?\b(?! (?:text|attribute|for the user|shown))|\bjust a placeholder\b|^\W*placeholders?(?:\W*$|,? (?:until|to be|replace|for (?:the )?(?:real|actual|future|now))|\s*[:–-] )|\(placeholder\)|\bplaceholder values?,? (?:replace|until|for now|to be)",
    ),
    (
        "replace|swap",
        r"\b(?:replace|swap) (?:this|it|me|these|them|the \w+)?\b.{0,30}\bwith (?:the |your |an? )?(?:actual|real|proper|own)\b.{0,30}(?:implementation|logic|code|calculation|call|computation|algorithm|query|api|data|value|service|one)\b",
    ),
    (
        "in a|in the|in real|in actual",
        r"\bin (?:a|the|your) (?:real|actual|full|complete|production|proper)(?:-world|-life)? (?:implementation|app|application|world|system|scenario|version|project|codebase|environment|setup|use case),? (?:this|it|you|we|there|one|would|should|these|here)\b|\bin (?:real|actual|production) (?:code|life|usage),? (?:this|you|we|it)\b",
    ),
    (
        "for now",
        r"\b(?:simulat(?:e|ed|es|ing)|hard-?cod(?:e|ed|ing)|pretend|fak(?:e|ed|ing)|mock(?:ed)?|stub(?:bed)?|skip(?:ped|ping)?|assum(?:e|es|ing)|return(?:s|ing)?|ignor(?:e|ing)) .{0,40}\bfor now\b|^\W*for now,? (?:just |we |simply |only |it |we'll )*(?:return|do nothing|skip|ignore|assume|pretend|hard-?code|use (?:a )?(?:dummy|fake|mock|placeholder|hard)|simulate|mock|stub)",
    ),
    (
        "left ",
        r"\bleft (?:as an exercise|unimplemented|as (?:a )?todo|(?:blank|empty|out) for now|for (?:the reader|later|you to)|to (?:the )?(?:reader|implementer))\b",
    ),
    ("hack", r"\b(?:temporary|temp) hack\b|\bhack (?:for now|until)\b"),
    (
        "実装|後|あと|要|暫定|ダミー|まだ|仮|のち|将来",
        r"未実装|(?:あとで|後で|のちほど|後ほど|今後|将来)(?:、)?[^。]{0,8}(?:実装|対応(?:する|予定|します)|修正(?:する|予定|します)|直す)|要(?:実装|修正|対応)(?!件|求)|実装(?:予定|待ち|が必要|すること|してください|中です|する予定)|仮(?:の)?(?:実装|値を|データを|処理)|暫定(?:的)?(?:な)?(?:対応|実装|処理)|ダミー(?:実装|データを返|の値を|値を返)|まだ(?:実装|対応)|実装(?:され|し)ていな",
    ),
    (
        "未|没|待|后|後|将来|临时|暂|简化|占位|需要|实际|日后",
        r"(?:尚未|还没(?:有)?|还未|暂未|仍未|目前未|未|沒有)(?:被)?(?:实现|實現)|待(?:实现|完善|补充|开发|優化|优化|填充|编写)|(?:稍后|以后|之后|后续|後續|日后|将来)(?:再|会|需要?)?[^。]{0,6}(?:实现|實現|补充|完善)|(?:临时|暂时|简化|占位)(?:的)?(?:实现|方案|代码|逻辑)|暂(?:时)?(?:返回|写死|不实现|未处理)|需要(?:进一步|在此|自行)?(?:实现|完善)|实际(?:项目|应用|情况|开发|使用)中(?:应|需|会|可|请)",
    ),
    (
        "나중|추후|향후|차후|이후|구현|아직|임시|더미|할 일",
        r"(?:나중에|추후|향후|차후|이후에)[^.]{0,12}(?:구현|보완|(?:추가|작성|처리|수정)[^.]{0,2}예정)|미구현|구현 ?(?:예정|필요|해야|되지 않|안 ?됨|하지 않)|아직[^.]{0,12}구현[^.]{0,6}(?:않|안|못)|임시 ?(?:구현|코드|로직)|더미 ?(?:구현|데이터 반환)|할 일\s*:",
    ),
    (
        "pendiente|por impl|aún|todavía|sin impl|más|después|luego|falta|no impl|implementaci",
        r"\bpendientes?(?: de)? (?:implementar|implementación|completar|terminar|definir)\b|^\W*pendientes?(?:\W*$|:)|^\W*por (?:implementar|completar|definir|terminar)\b|\b(?:aún|todavía) (?:no (?:está |se ha |ha sido )?(?:implementad|terminad|completad)|falta|sin implementar|por implementar)|\bsin implementar\b|\b(?:implementar|completar|arreglar) (?:esto |lo )?(?:más tarde|después|luego|más adelante)\b|\b(?:falta|faltan) (?:implementar|completar|la implementación|por (?:implementar|hacer|completar))\b|^\W*no implementado\b|\bimplementación (?:provisional|temporal|pendiente|ficticia)\b",
    ),
    (
        "noch|später|demnächst|bald|nicht impl|platzhalter|vorläuf|dummy|fehlt",
        r"\bnoch (?:nicht (?:implementiert|umgesetzt|fertig|ausprogrammiert)|zu (?:implementieren|erledigen|tun|ergänzen)|umzusetzen|einzubauen)|\b(?:später|demnächst|bald) (?:noch )?(?:implementieren|implementiert|ergänzen|ergänzt|umsetzen|umgesetzt|erledigen)\b|\bmuss (?:hier )?noch\b|^\W*nicht implementiert\b|\b(?:wird|werden) (?:später|noch)\b.{0,30}(?:implementiert|ergänzt|umgesetzt)|\bnur (?:ein )?platzhalter\b|^\W*platzhalter\W*$|\b(?:vorläufige implementierung|dummy-implementierung)\b|\bimplementierung fehlt|^\W*fehlt noch\b",
    ),
    (
        "encore|non impl|à |plus tard|ultérieur|prochainement|sera |implémentation|reste",
        r"\b(?:pas encore|non) (?:implémenté|codé)|^\W*(?:reste )?à (?:implémenter|compléter|terminer|finir|faire(?: plus tard| ultérieurement)?(?:\W*$| ?:))|\bà (?:implémenter|compléter|finir)(?: plus tard| ultérieurement| ici)?\W*$|\b(?:implémenter|compléter|corriger) (?:ceci |cela |ça )?(?:plus tard|ultérieurement|prochainement)\b|\bsera (?:implémenté|complété)e?s?\b|\bimplémentation (?:provisoire|temporaire|fictive|à venir|manquante)\b|\breste à (?:faire|implémenter)\b",
    ),
)

# Names of parts of a program: `_CODE` are what only programs have, `_THING` takes in what data has too.
_CODE = (
    r"(?:code|file|class(?:es)?|functions?|methods?|implementations?|modules?|components?|logic|handlers?|script|function body|body|program|page|"
    r"template|config(?:uration)?|imports?|routes?|endpoints?|tests?|test cases|styles?|services?|build steps|steps|query|markup|html|jsx|css|schema|"
    r"constructors?|getters|setters|getters and setters|helpers|targets|recipes|definitions?|declarations?|boilerplate|source|setup|cases)"
)
_THING = (
    rf"(?:{_CODE}|settings|fields?|properties|props|columns?|rules|queries|document|content|sections?|entries|items|lines?|parts?|stuff|"
    r"variables|attributes|arguments|parameters|options|elements|tables?|models?|types|interface|enum|structs?|operations|actions|branches|"
    r"validation|processing|initiali[sz]ation|commands|keys|values|data|rows|records|details)"
)
_PART = rf"(?:{_CODE}|settings|fields?|properties|props|columns?|rules|sections?|parts?|stuff|attributes|tables?|models?|types|operations|actions|branches|validation|commands|details)"
_LEFT = r"(?:unchanged|unmodified|untouched|omitted|elided|snipped|truncated|left out|abbreviated|not shown|as[- ]is|the same|identical|as before|as above|goes here|here|remains?|stays?|continues?|follows?|similar(?:ly)?|redacted)"
_FOR = r"for (?:the sake of )?(?:brevity|clarity|conciseness|simplicity|readability|space|length)"
_LEAD = r"^\W*(?:(?:and|plus|then|keep|leave|retain|with|all|the|your|of|include|continue|continuing|here|follows|see) ){0,4}"
# Code or text left out: whole sentences that say so, counted in every comment.
LEFT_OUT_STRICT = Words(
    ("no change", r"^\W*no changes? (?:below|above|from here|to the (?:rest|code|file|function|class)|past)\b"),
    (
        "unchanged|the same|as before|as is|changed ",
        rf"\b(?:code|everything|part|section|function|methods?|implementation) (?:above|below) (?:is|are|remains?|stays?) (?:unchanged|the same|as before)\b|^\W*nothing (?:else )?changed (?:below|above|here)\W*$|^\W*(?:all )?{_CODE} (?:stays?|remains?) (?:unchanged|the same|as (?:is|before))\W*$",
    ),
    (
        "see ",
        r"\bsee (?:the )?(?:previous|original|earlier) (?:version|file|code|answer|response|message|implementation)\b",
    ),
    (
        "continue |complete |finish |fill in",
        r"^\W*continue (?:implement|cod|writ)ing\b|^\W*(?:complete|finish) (?:the|this) (?:implementation|function|method|class|code|logic|body)\b|^\W*fill in(?: the (?:details|rest|blanks?|logic|code|body))?\W*$",
    ),
    ("snip|omitted)|truncated)|elided)", r"^\W*(?:snip|snipped)\W*$|\((?:omitted|truncated|elided|snip)\)"),
    ("insert", r"^\W*insert (?:your |the |actual |real |any |some )?(?:\w+ ){0,3}(?:logic|code|implementation)\b"),
    (
        "(unchanged|(existing|(remaining|(same|(other",
        rf"^\W*\((?:the )?(?:unchanged|existing|remaining|same|other) (?:\w+,? ){{0,4}}{_CODE}(?: (?:(?:go(?:es)? |stay(?:s)? )?here|as before|(?:stay|remain)s? .{{1,30}}|unchanged|omitted))?\)\W*$",
    ),
    (
        "as they were|as they are|as it was",
        rf"^\W*(?:the |all )*(?:other|remaining|existing|original|rest of the) (?:\w+ )?{_PART} (?:stays?|remains?|are|is|continues?) (?:exactly |just )?as (?:they|it) (?:were|was|are|is)\W*$",
    ),
    ("keep |keep the rest", r"^\W*(?:keep|leave) (?:the )?(?:rest|everything else)\b"),
    (
        "as they|as it|as is|intact|untouched|unchanged",
        rf"^\W*(?:keep|leave|retain|preserve)\b.{{0,40}}\b{_THING}\b.{{0,30}}\b(?:as (?:they|it) (?:are|is|were|was)|as[- ]is|unchanged|intact|untouched)\b|^\W*keep (?:the )?(?:rest|everything else)\b",
    ),
    (
        "rest of|remainder of",
        rf"{_LEAD}(?:rest|remainder) of (?:the |your |this |my |our |that )?(?:\w+ )?{_CODE}\W*(?:$|\()|\b(?:rest|remainder) of (?:the |your |this |my |our |that )?(?:\w+ )?{_CODE}\b[^.]{{0,25}}?(?:\b{_LEFT}\b|{_DOTS})",
    ),
    (
        "rest",
        rf"{_DOTS}[\s(\[]{{1,3}}(?:the )?(?:rest|remainder)\b|{_DOTS}(?:the )?rest of\b|{_LEAD}rest of (?:the |your |this )?(?:\w+ )?{_THING}\W*{_DOTS}",
    ),
    (
        "rest|remain|other|everything else",
        rf"{_LEAD}(?:rest|remaining|others?|everything else|all else)\b(?: of (?:the |your |this )?(?:\w+ )?(?:{_CODE}|it|document|text|section))? (?:remains?|stays?|is|are|(?:can|should|would|must) (?:be|remain|stay))(?: exactly| all| left)? (?:unchanged|unmodified|omitted|elided|the same(?! (?:way|time|order|type|size|length|key|value|thread|line|as (?:the|in|for)))|as before|as above|identical|as[- ]is|similar)\b|{_LEAD}(?:rest|remainder) of (?:the |this )?(?:document|text|section) (?:unchanged|omitted|as before)",
    ),
    (
        "rest|remain|other|existing|previous|original|unchanged|all ",
        rf"{_LEAD}(?:rest|remaining|others?|existing|previous|original|unchanged) (?:\w+ )?{_PART}(?: ?\([^)]{{0,60}}\))?,? (?:is |are |has been |have been |remains? |stays? )?(?:all )?(?:unchanged|unmodified|omitted|elided|snipped|truncated|left out|same as (?:before|above)|as before|not shown|the same(?: as (?:before|above))?|go(?:es)? here|stays? the same|here)\b",
    ),
    (
        "here",
        rf"\b(?:your|the|any|more|additional|other|actual|real|existing|remaining|main|core|custom|some)? ?(?:\w+ )?{_THING} (?:would |will |should |to )?(?:goes?|belongs?|be placed|go) (?:in )?here\b",
    ),
    (
        "here",
        r"^\W*(?:add|insert|put|write|place|paste|fill in|implement|define|include|handle|perform|do|enter|provide|create|code|declare)\b.{0,40}\b(?:your|code|logic|implementation|content|more|custom|actual|real|own|rest|remaining|stuff|something)\b.{0,40}\bhere\b(?: if (?:needed|necessary|required))?(?:\W*$|\s+(?:and|to)\b.{0,30}$)|^\W*(?:implement|fill in) .{0,50}\bhere\b\W*$",
    ),
    (
        "your",
        r"\b(?:add|insert|put|write|place|paste|implement|use|enter|fill in|define|provide) (?:in )?your (?:own |custom |actual )?(?:\w+ ){0,3}(?:here|below|logic|code|implementation)\b",
    ),
    (
        "here|below",
        r"^\W*(?:your|actual|real|custom|main|core|business|existing|implementation|logic|code) (?:\w+ ){0,3}(?:here|below)\W*$|^\W*(?:code|logic|implementation|body) here\b",
    ),
    (
        "brevity|for ",
        rf"\b(?:omitted|elided|shortened|truncated|abbreviated|left out|skipped|not (?:shown|included|repeated)) (?:here )?{_FOR}\b|\b(?:removed|excluded|trimmed|cut|simplified) for brevity\b|^\W*(?:for|in the interest of) (?:the sake of )?brevity\b|\bfor brevity\W*$",
    ),
    (
        "omit|elided|snip|truncat|left out|not shown|abbreviat|unchanged",
        rf"{_LEAD}(?:\w+ ){{0,2}}(?:code|implementations?|body|methods?|functions?|imports?|logic|handlers?|getters(?: and setters)?|setters|details|boilerplate) (?:is |are )?(?:omitted|elided|snipped|truncated|left out|not shown|abbreviated)\W*$|^\W*(?:\w+ ){{0,3}}{_CODE} (?:omitted|elided|snipped|truncated|left out|not shown|abbreviated|unchanged)\W*$|\[\W*(?:\w+ ){{0,3}}(?:omitted|elided|snipped|truncated|unchanged|snip)\W*\]",
    ),
    (
        "(same|(identical|(similar|(unchanged",
        rf"\((?:same|identical|similar) (?:as|to) (?:before|above|previous(?:ly)?|earlier|(?:the )?original)[^)]{{0,20}}\)|^\W*(?:\w+ ){{0,3}}{_CODE} \(unchanged\)\W*$|^\W*\((?:unchanged|same)\)\W*$",
    ),
    (
        "existing|original|unchanged",
        r"^\W*(?:(?:keep|retain|leave|preserve|copy|include|continue|use) )?(?:the |all |your |all the |any )?(?:existing|original|unchanged)(?: \w+){0,2} (?:code|implementations?|logic|methods?|functions?|imports|content)(?: (?:above|below|here|(?:from|in|of) (?:the )?(?:original|previous|above|before)(?: \w+)?|as (?:before|is|above)|unchanged|intact|remains?(?: the same| unchanged)?|continues?(?: here)?|goes here|stays?(?: the same| unchanged)?))?\W*$",
    ),
    (
        "...|…|. . .",
        rf"(?:{_DOTS}[\s(\[<]+|^[^\w.…{{(]*{_DOTS}[(\[]?)(?:the |all |your |any |and |with |plus |add )?(?:existing|other|remaining|previous|same (?:as|code|logic)|additional|unchanged|original|rest of|your|etc|omitted|continue|as before|as above|further|identical|unmodified|snip|elided|truncated|everything else)\b(?!\s*[}}\])=])",
    ),
    (
        "...|…|. . .",
        rf"^\W*(?:the |your |all )?(?:existing|previous|original|unchanged|same|remaining|other|more|additional|rest of) (?:\w+ ){{0,2}}(?:{_THING})? ?(?:here |code |as before |unchanged )?{_DOTS}",
    ),
    (
        "...|…|. . .",
        rf"^\W*(?:implementation|code|logic|body|details|function body|method body|getters? and setters?|getters|setters|constructors?|imports?|other \w+|more \w+|etc\.?|and so on)(?:,? (?:and |\w+)?){{0,3}} ?{_DOTS}\W*$",
    ),
    (
        "implementation",
        rf"\bimplementation(?: details?)? (?:is |are |was |has been )?(?:omitted|left out|elided|not shown|skipped|goes? here|would go here|left (?:to|for|as)|unchanged from|unchanged\W*$|here\W*$|same as (?:before|above))\b|^\W*(?:\w+ )?implementation\W*{_DOTS}",
    ),
    (
        "same|identical",
        r"\b(?:same|identical) (?:\w+ )?(?:logic|code|implementation|body|method|content|as) (?:as |to |from )?(?:in )?(?:the )?(?:previous|original|old|earlier|existing)(?: (?:version|code|file|implementation|example|answer|response|snippet|step))\b",
    ),
    ("exercise|fill in", r"\b(?:left as an exercise|exercise for the reader|fill in the (?:rest|blanks?))\b"),
    (
        "省|略|割愛|同|変更|そのまま",
        r"(?:以下|以降|残り|中|後|その他|そのほか|他|以外|ここから先|途中)(?:の|は|も|、)?[^。\n]{0,16}?(?:省略|割愛|略(?!称|語)|同様(?:です|。|\W*$|に(?:実装|記述|続))|同じ(?:です|なので|\W*$)|変更(?:なし|ありません|無し)|そのまま(?:\W*$|です|残))|^\W*(?:(?:中|後|前|以下)?(?:省略|略)|同上|以下同様|変更なし|残り省略)\W*$|(?:コード|処理|実装|メソッド|関数|詳細|定義)(?:は|を|の一部を)?(?:省略|割愛|略)(?!可)",
    ),
    (
        "既存|元|従来|これまで|ここ",
        r"(?:既存|元|従来|これまで|元々)の[^。\n]{0,10}(?:コード|実装|処理|メソッド|ロジック)(?:\W*$|[^。\n]{0,8}(?:そのまま|省略|同じ|続く|続き|ここ|変更なし))|ここ(?:に|へ)[^。\n]{0,24}(?:実装|記述|追加|書[いくき]|入[れる]|挿入|コード)|(?:実装|処理|ロジック|コード)(?:を|は)?ここ(?:に|へ)",
    ),
    (
        "省|略|不|同|照|一样|一致|类似|類似|相同|原|如前|代码|逻辑|方法|实现",
        r"(?:其余|其它|其他|剩余|剩下|以下|后面|后续|其餘|餘下|此处|这里|中间|原有|现有|已有|原来|之前)(?:的)?[^。\n,，]{0,14}?(?:省略|略(?:\W*$|过|去)|不变\W*$|不變\W*$|同上|照旧|(?:与|和|跟|同)(?:之前|原来|原先|上面|前面|以前|上述|上文)[^。\n]{0,6}(?:相同|一样|一致|类似|類似)|保持(?:不变|原样|原有)|如前|类似\W*$|代码(?:不变|省略|\W*$)|逻辑(?:不变|\W*$)|方法(?:不变|\W*$)|实现(?:不变|省略|\W*$))|^\W*(?:省略|略|同上|下略|此处省略|以下省略|代码省略)\W*$|省略(?:了)?(?:其余|其他|其它|部分|剩余|若干|以下|后续|中间|具体|无关|实现|代码)|(?:代码|实现|细节|方法|逻辑)(?:已)?省略|(?:实现|代码|逻辑|过程|细节)(?:从)?略\W*$",
    ),
    (
        "此处|这里|在此|于此|你|您",
        r"(?:此处|这里|在此|在这里|请在此|于此)(?:处)?[^。\n]{0,8}(?:添加|实现|编写|填写|填入|写入?你|插入|补充|放置|加入)|(?:你|您)的[^。\n]{0,8}(?:代码|逻辑|实现)(?:\W*$|放|写|在这|在此)",
    ),
    (
        "생략|중략|나머지|이하|기타|다른|기존|그 외|동일|변경|여기",
        r"(?:나머지|이하|기타|다른|기존|그 외)[^.\n]{0,18}?(?:생략|동일(?:합니다|함|\W*$)|그대로(?:\W*$|입니다|유지)|이전과 같|위와 같|같습니다|같음|변경 ?(?:없음|사항 없)|유지(?:\W*$|합니다)|코드\W*$|마찬가지)|^\W*(?:생략|중략|이하 생략|이하 동일|동일|변경 없음)\W*$|(?:코드|구현|내용|부분|메서드|함수|로직)(?:는|은|를|을)? ?생략|여기(?:에)[^.\n]{0,24}(?:추가|구현|작성|입력|넣|삽입|코드)",
    ),
    (
        "resto|código|lógica|implementación|métod|contenido|omitid|igual|idéntico|lo mismo|aquí|sin cambios",
        r"\b(?:el )?resto (?:de(?:l| la| los| las)? [^.\n]{1,40}?)?(?:(?:sigue|permanece|queda|se mantiene|es|son|está|siguen|permanecen) (?:exactamente )?(?:igual|sin cambios|iguales|lo mismo|idéntico)|no cambia|igual(?: que| a)?\b|sin cambios|omitid[oa]s?|aquí|como antes|se omite)|\bresto de(?:l| la| los| las)? (?:código|archivo|clase|fichero|método|programa|implementación|métodos|campos|casos|componentes|archivos|funciones|clases|rutas|pruebas)\W*$|^\W*(?:código|lógica|implementación|métodos?|contenido) (?:existente|anterior|original|restante)s?(?:\W*$| (?:aquí|sin cambios|igual|omitid))|\bomitid[oa]s? por (?:brevedad|claridad|simplicidad)|^\W*(?:igual|lo mismo|idéntico) que (?:antes|arriba|en la versión anterior)\W*$|\b(?:tu|su|el) (?:código|lógica|implementación)[^.\n]{0,20} aquí\b|^\W*(?:añad[ae]|añadir|agreg[ae]r?|insert[ae]r?|pon(?:er)?|escrib[ae]|escribir|implement[ae]r?|coloc[ae]r?|aquí (?:va|iría|irá|debe))\b[^.\n]{0,50}(?:aquí|\blógica\b)|^\W*sin cambios\W*$|^\W*aquí (?:va|iría|irá|tu)\b",
    ),
    (
        "rest|übrig|verbleib|weiter|bestehend|vorhanden|bisherig|ander|ursprüng|halber|platzgr|gründen|hier|code|logik|wie |unverändert|gekürzt|ausgelassen|usw|und so",
        r"^\W*(?:der |die |den |das |hier )*(?:rest|übrige[nrs]?|restliche[nrs]?|verbleibende[nrs]?|weitere[nrs]?|bestehende[nrs]?|vorhandene[nrs]?|bisherige[nrs]?|andere[nrs]?|ursprüngliche[nrs]?)\b[^.\n]{0,45}?(?:unverändert|gleich\W*$|identisch|wie (?:bisher|vorher|zuvor|oben|gehabt)|bleib(?:t|en) (?:gleich|so|unverändert|wie|bestehen)|weggelassen|ausgelassen|gekürzt|hier (?:einfügen|ergänzen|implementieren)|folg(?:t|en) (?:hier|analog)|analog\W*$|entfällt|einfügen\W*$)|^\W*(?:der )?rest (?:des|der|vom) (?:codes?|datei|klasse|funktion(?:en)?|methoden?|moduls?|programms?|skripts?|implementierung|komponente|konfiguration|quelltexts?)\W*$|^\W*(?:bestehende[rs]?|vorhandene[rs]?|restliche[rs]?|ursprüngliche[rs]?) (?:code|methoden|implementierung|logik|funktionen|inhalte?|quelltext)\W*$|\bder (?:übersichtlichkeit|kürze|einfachheit) halber\b|\baus (?:platzgründen|gründen der übersicht)|\bhier\b[^.\n]{0,50}\b(?:einfügen|implementieren|ergänzen|hinzufügen|einsetzen|eintragen|einbauen)\b|\b(?:dein|ihr|eigener|eigene)e?r? (?:code|logik|implementierung)\b[^.\n]{0,20}(?:hier|\W*$)|^\W*(?:wie (?:bisher|vorher|zuvor|oben|gehabt)|unverändert|gekürzt|ausgelassen|usw\.?|und so weiter)\W*$",
    ),
    (
        "reste|code|méthode|logique|implémentation|contenu|omis|inchangé|identique|comme|sans ch|idem|ici|même|compléte",
        r"\b(?:le )?reste (?:d(?:u|e la|es|e l'|e)\s?[^.\n]{1,40}?)?(?:(?:reste|demeure|est|sont|restent) (?:\w+ )?(?:inchangé|identique|le même|la même|pareil|tel)|inchangé|identique|sans changement|omis|ici\b|comme avant|ne change pas)|^\W*(?:le )?reste du (?:code|fichier|programme|module|script)\W*$|^\W*(?:le |la )?(?:code|méthodes?|logique|implémentation|contenu) (?:existante?s?|précédente?s?|d'origine|inchangée?s?|restante?s?)(?:\W*$| ici| inchangé| identique)|\bomis(?:e|es)? (?:pour|par) (?:la |des raisons de |souci de )?(?:concision|brièveté|lisibilité|clarté|simplicité)|^\W*(?:inchangé|identique|comme (?:avant|précédemment|ci-dessus)|sans changement|idem)\W*$|\b(?:votre|ton|vos) (?:code|logique|implémentation)[^.\n]{0,20} ici\b|^\W*(?:ajoute[rz]?|insére[rz]?|insérez|implémente[rz]?|mett(?:re|ez)|place[rz]?|écri(?:re|vez)|compléte[rz]?|complétez|coder|ici (?:va|viendra|votre))\b[^.\n]{0,50}(?:\bici\b|\blogique\b)|\bmême (?:chose|logique|code|principe) (?:que|pour) (?:précédemment|avant|ci-dessus|les autres)",
    ),
)
# Weaker signs: only a comment on lines of its own, that no code of the same block follows.
LEFT_OUT = _any(
    rf"^\W*(?:the )?rest of (?:the |your |this )?(?:\w+ ){{0,2}}(?:{_THING})?\W*$",
    rf"^\W*(?:the |all )*(?:other|remaining|additional|more|further|existing|previous|original) (?:\w+ )?{_THING}\W*$",
    r"^\W*(?:other|remaining|additional|more|further|existing) (?:\w+ ){0,3}(?:here|above|below)\W*$",
    r"^\W*(?:add|insert|put|write|place|paste|define|include|handle|process|perform|do|enter|provide|specify|create|build|declare)\b(?! not\b).{0,60}\bhere\b(?: if (?:needed|necessary|required))?\W*$",
    r"^\W*(?:(?:the )?same|identical|all other|other|remaining|existing|previous) (?:\w+ ){0,3}(?:same as|as|like|similar to|unchanged|identical) ?(?:before|above|previously|the original|original)?\W*$",
    r"\b(?:repeat|do the same|similarly|likewise|similar (?:logic|code|implementations?|methods?|handlers?|functions?|tests?|cases?)|continue (?:with|for|like this)|same) (?:for |with |to )?(?:the |all |each )?(?:\w+ )?(?:other|others|rest|remaining)\b",
    r"^\W*(?:add|implement|write|define|handle|perform|put|include) (?:your |the |actual |real |any |some )?(?:\w+ ){0,4}(?:logic|code|implementation|handling|validation|processing|calculation)\W*$",
    r"\badd (?:more|other|additional|further) (?:\w+ ){1,3}(?:as|if|when|where) (?:needed|necessary|required)\b",
    r"\b(?:handle|do|treat|process) (?:the )?(?:others?|remaining|rest)\b.*\b(?:similarly|the same way|likewise|analogously|accordingly)\b",
    rf"^\W*(?:\d+|several|some|many|a few) (?:more|other|additional) {_THING}\W*$",
    r"^\W*(?:implementation|logic|code|function body|body|method body|processing|business logic|details)(?: here)?\W*$",
    r"^\W*(?:omitted|elided|snip(?:ped)?|truncated|unchanged|no changes? (?:here|needed|below|above|from here)|same as (?:before|previous(?:ly)?|original)|as before|existing|etc|and so on(?: and so forth)?|and so forth|more of the same)\W*$",
)
# (An imperative that ends in "here" is said of the code below it as often as in its place.)
# The same, whether or not code follows: what begins or ends in dots.
LEFT_OUT_DOTS = _any(
    rf"{_DOTS}[\s(\[<]+(?:the |all |any |and |with |plus |add )?(?:more|similar|code|implementation|imports?|handle|logic|here|{_THING})\b(?!\s*[}}\])=])",
    rf"^\W*{_DOTS}[^.…]{{1,100}}{_DOTS}\W*$",
    rf"^\W*{_DOTS}\s*(?:and so on|and so forth|etc\.?|usw\.?|and (?:\w+ )?more)\b",
    rf"^\W*(?:other|more|remaining|additional|similar|the rest|rest|further|etc|and so on)\b[^.…]{{0,40}}{_DOTS}\W*$",
    rf"^[^\w{{(]*{_DOTS}\s*(?:他|其他|其余|기타|나머지|同様|以下|残り|省略|中略)|^[^\w{{(]*{_DOTS}\s+(?:resto|weitere|autres|rest|reste)\b",
    rf"^\W*(?:\w+ ){{1,4}}(?:same as|as|like) (?:before|above)\W*{_DOTS}|^\W*{_DOTS}\W*(?:same|as|like)\b",
)
# In Markdown and in an answer's prose: text in square brackets, or a sentence, that waits to be written.
TO_BE_WRITTEN = _any(
    r"\[(?:insert|add|fill in|describe|enter|placeholder|to be|your|content to be|more (?:content|details|sections?|text)|details to)\b[^\]\n]{0,60}\](?![(\[:])|\[[^\]\n]{1,40} (?:here|to be added|goes here|coming soon|tbd)\](?![(\[:])",
    r"\b(?:content|text|details|description|section|documentation|more (?:information|details|content)) (?:to be (?:added|written|completed)|will be (?:added|written) (?:here|later|soon)|goes here|coming soon|to come)\b",
    r"^\W*(?:coming soon|to be (?:written|completed|done|defined|determined|decided|announced)|work in progress|under construction|tbd|wip|écrire ici|à compléter|à rédiger|por (?:completar|definir|escribir)|noch zu schreiben|folgt noch|準備中|執筆予定|未記載|待补充|待完善|待编写|작성 예정|준비 중)\W*$",
)
# Why a function is empty, said in the comment above it: fewer words will do there, for it mostly tells what it does.
DELIBERATE_ABOVE = _any(
    r"\b(?:does nothing|do nothing|nothing (?:to do|happens)|no-?op|noop|intentionally|deliberately|on purpose|not needed|not required|unused|ignored|ignores|for compat\w*|not supported|unsupported on|has no effect|subclass\w*|overrid\w+|default implementation|null object|satisf\w+ the|to implement the|marker|must not do)\b"
)
ELLIPSIS_ONLY = re.compile(
    rf"^[\s\[\](){{}}<>*/#;%!_-]*(?:{_DOTS}[\s\[\](){{}}<>*/#;%!,_-]*)+$|^\W*\[(?:\.\.\.|…)\]\W*$"
)

# Why a body is empty on purpose.
DELIBERATE = _any(
    r"^\W*see\b|\b(?:nothing|no-?op|noop|intentional(?:ly)?|deliberate(?:ly)?|on purpose|ignored?|ignor(?:es|ing)|empty|by design|not needed|not required|unused|unneeded|never|only|required (?:by|for)|satisf\w+|compat\w*|overrid\w+|overridden|subclass\w*|hooks?|skip\w*|swallow\w*|optional|best.?effort|handled|does not|do not|doesn't|don't|cannot|can't|must not|no need|no (?:action|work|cleanup|state|effect|setup|teardown|resources?|side)|default|called (?:by|when|before|after|on|once|if)|invoked|callback|null object|dummy|disabled|discard\w*|drop(?:s|ped)?|silen\w+|sentinel|marker|abstract|base class|interface|protocol|stub for tests?|entry ?point|group|namespace|already|managed by|inherited|delegat\w+|implicit\w*)\b",
    r"何もしない|不要|なし|空(?:の|実装)|無視|什么(?:都|也)不|无需|不需要|空实现|忽略|无操作|아무것도|불필요|필요 ?없|무시|no hace nada|vacío|nada que|ignorar?|intencional|ne fait rien|rien à|vide|volontairement|ignoré|tut nichts|nichts zu tun|absichtlich|leer|ignorier",
)
