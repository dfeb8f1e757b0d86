"""What a request orders, and the kind of a task that follows from it."""

from __future__ import annotations

import re
from typing import Literal

from runner.gate.claimed_paths import requested_paths
from runner.gate.criterion import Evidence

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
_LONGEST = 2_000
_POLITE = (
    r"^\W*(?:(?:please|now|then|also|first|next|and|ok|okay|hi|hello|could you|can you|would you|will you|i want you to|"
    r"i need you to|i'd like you to|let's|we need to|you must|your task is to|go ahead and|task|ticket|goal)[\s,:]+)*"
)
WORK_VERBS = (
    r"add|implement|create|write|fix|build|change|update|refactor|rename|remove|delete|make|port|convert|migrate|replace|extend|"
    r"improve|optimi[sz]e|complete|finish|move|introduce|rewrite|correct|repair|generate|develop|support|bump|upgrade|integrate|"
    r"wire|clean up|split|extract|enable|disable|configure|install|patch|resolve|handle|mend|adjust|adapt|modify|edit|revise|rework|"
    r"restore|revert|undo|tidy|simplify|speed up|reduce|increase|append|insert|prepend|wrap|drop|put|get rid of|strip|inline|"
    r"dedupe|deduplicate|merge|reformat|annotate|apply|harden"
)
"""Alternatives of a pattern: the English words for work on what is there."""
_ENGLISH = re.compile(
    rf"{_POLITE}(?:{WORK_VERBS}|set(?= (?:up|the|an?|all|this|that|its?|every|each|our|my|`|[\w.]+ (?:to|on|in)\b))|"
    r"downgrade|translate|switch|turn|restructure|redesign|lower|raise|"
    r"shorten|restrict|protect|format|modernize|localize|document|make sure|ensure)\b",
    re.IGNORECASE,
)
# The order behind what is told of the trouble: "half() in calc.py is wrong, correct it".
_ORDER_AT_THE_END = re.compile(
    r"(?:^|[,;:.!—-])\s*(?:(?:please|so|and|then|now|just|can you|could you)[\s,]+)*"
    r"(?:fix|correct|mend|repair|change|update|adjust|improve|rewrite|rework|remove|delete|replace|rename|complete|finish|solve)\s+"
    r"(?:it|this|that|them|these|those)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|unless|when|whether|before|don['’]t|do not|how)\b", re.IGNORECASE)
# Told before it, the trouble is there: "half() is wrong when n is odd, correct it" waits for nothing.
_TROUBLE = re.compile(
    r"\b(?:wrong|broken|incorrect|buggy|faulty|a bug|bugs?|fails?|failing|crash(?:es|ing)?|throws?|raises?|hangs?|leaks?|"
    r"(?:does|do|did)(?:n['’]t| not) work|returns?|gives?)\b",
    re.IGNORECASE,
)
_SPANISH = re.compile(
    r"^\W*(?:(?:por favor|ahora|luego|después|también|y|puedes|podrías|hay que|necesito que)[\s,]+)*"
    r"(?:añad[ae]|agreg(?:a|ue)|implement[ae]|cre[ae]|corri(?:ge|ja)|arregl[ae]|cambi[ae]|actuali(?:za|ce)|escrib[ae]|refactori(?:za|ce)|elimin[ae]|"
    r"tradu(?:ce|zca)|migr[ae]|convi(?:erte|erta)|muev[ae]|renombr[ae]|sustituy[ae]|reempla(?:za|ce)|borr[ae]|quit[ae]|haz|haga|pon|ponga|pas[ae]|"
    r"divid[ae]|extra(?:e|iga)|optimi(?:za|ce)|mejor[ae]|limpi[ae]|orden[ae]|adapt[ae]|ajust[ae]|integr[ae]|configur[ae]|activ[ae](?= (?:el|la|los|las|una?)\b)|desactiv[ae]|"
    r"instal[ae]|termin[ae]|complet[ae]|gener[ae]|sub[ae]|baj[ae]|amplí[ae]|simplifi(?:ca|que)|unifi(?:ca|que)|separ[ae]|"
    r"(?:añadir|agregar|implementar|crear|corregir|arreglar|cambiar|actualizar|escribir|eliminar|traducir|migrar|convertir|mover|renombrar|"
    r"sustituir|reemplazar|borrar|quitar|refactorizar))\b",
    re.IGNORECASE,
)
_WORK_DE = (
    r"(?:änder|aktualisier|implementier|erstell|schreib|beheb|korrigier|bau|entfern|stell|übersetz|migrier|verschieb|ersetz|lösch|"
    r"benenn|räum|mach|teil|pass|ergänz|führ|richt|setz|erweiter|vereinfach|optimier|verbesser|überarbeit|portier|wandl|wandel|lager|"
    r"bring|erhöh|senk|kürz|trenn|sorg|reparier|schalt|füg|refaktorier|konvertier|zerleg|fass|leg)"
)
_GERMAN = re.compile(
    rf"^\W*(?:(?:bitte|nun|jetzt|dann|danach|und|kannst du|könntest du|können sie|könnten sie)[\s,]+)*(?:{_WORK_DE}(?:e|en sie|n sie|t)?|nimm|nehmen sie)\b"
    rf"|^\W*(?:bitte|kannst du|könntest du|können sie|könnten sie)\b.{{1,300}}\b\w*{_WORK_DE}e?n\W*$",
    re.IGNORECASE,
)
_FRENCH = re.compile(
    r"^\W*(?:(?:merci de|s['’]il (?:te|vous) plaît|maintenant|ensuite|et|peux-tu|pouvez-vous|pourrais-tu|pourriez-vous|il faut)[\s,]+)*"
    r"(?:(?:ajout|implément|cré|corrig|modifi|supprim|migr|déplac|renomm|remplac|effac|enlèv|enlev|retir|pass|divis|optimis|amélior|nettoy|nettoi|"
    r"adapt|ajust|intègr|intégr|configur|désactiv|install|termin|complèt|complét|génèr|génér|simplifi|unifi|sépar|refactoris|"
    r"augment|répar|chang|factoris|découp|extra[iy])(?:e|ez|er|is|s)|(?:activ|rang)(?:ez|er|e(?= (?:les?|la|l['’]|une?|ces?|cette|tous|toutes)\b))|écri(?:s|vez|re)|réécri(?:s|vez|re)|met(?:s|tez|tre)|tradui(?:s|sez|re)|converti(?:s|ssez|r)|"
    r"rédui(?:s|sez|re)|fai(?:s|tes|re))\b",
    re.IGNORECASE,
)
_JAPANESE = re.compile(
    r"(?<!教え)(?<!説明し)(?<!見せ)(?<!確認し)(?<!調べ)(?<!調査し)(?<!挙げ)(?<!列挙し)(?<!示し)(?<!比較し)(?<!レビューし)(?<!要約し)(?<!考え)(?<!提案し)(?<!答え)(?<!回答し)(?<!待っ)(?<!しないで)(?<!知らせ)(?<!分析し)"
    r"[て](?:ください|下さい|ほしい|欲しい|もらえ|くれ|いただけ)"
    r"|(?:追加|実装|作成|修正|変更|更新|削除|リファクタ(?:リング)?|整理|移行|変換|翻訳|改善|統一|分割|対応|導入|最適化|置換)(?:して|せよ|しろ|する|をお願い|お願い)\W*(?:こと\W*)?$|(?:直して|書き換えて|置き換えて|書いて|作って|移して|消して)\W*$"
)
_JAPANESE_ASKS = re.compile(
    r"方法|やり方|どう(?:やっ|すれ|し)|なぜ|何が|何を|ですか|ますか(?!。?$)|かどうか|教えて|説明して"
)
_CHINESE = re.compile(
    r"(?:添加|新增|实现|创建|编写|修复|修改|更新|删除|重构|增加|改写|改成|改为|改造|迁移|转换|替换|翻译|优化|整理|清理|拆分|合并|升级|移除|"
    r"重命名|补充|完善|调整|加上|换成|统一|提取|集成|接入|去掉|移到|写(?:一|个|好)|改(?:一下|用|回)|修(?:一下|好)|拆成|迁到)"
)
_CHINESE_ASKS = re.compile(
    r"吗|[?？]|怎么|如何|怎样|为什么|为何|什么|哪|解释|说明|分析|告诉|介绍|列出|评审|审查|查看|检查|是否|能不能|比较|总结|建议"
)
_KOREAN = re.compile(
    r"(?<!알려)(?<!알려 )(?<!설명해)(?<!설명해 )(?<!보여)(?<!보여 )(?<!말해)(?<!말해 )(?<!가르쳐)(?<!가르쳐 )(?<!찾아)(?<!찾아 )(?<!조사해)(?<!조사해 )(?<!확인해)(?<!확인해 )(?<!분석해)(?<!분석해 )(?<!검토해)(?<!검토해 )(?<!나열해)(?<!나열해 )(?<!비교해)(?<!비교해 )(?<!요약해)(?<!요약해 )(?<!추천해)(?<!추천해 )(?<!하지 말아)(?<!하지 말아 )"
    r"(?:주세요|줘(?:요)?\W*$|주십시오|달라)|(?:추가|구현|생성|수정|변경|작성|삭제|리팩터링|리팩토링|정리|번역|이전|전환|교체|개선|통합|분리)(?:하세요|하라|해라|하십시오|해\W*$|할 것\W*$|바랍니다)"
)
_KOREAN_ASKS = re.compile(r"[?？]|왜|무엇|무슨|어떻게|어떤|방법|알려|설명")
_QUESTION = re.compile(
    r"^\W*(?:what|why|how|where|when|who|which|is|are|does|do|did|explain|describe|show|list|tell|summari[sz]e|compare|review|analy[sz]e|investigate|find out|suggest|"
    r"qué|por qué|cómo|cuál|dónde|explica|muestra|was|warum|wie|wo|welche\w*|erkläre?|beschreibe?|zeige?|pourquoi|comment|quel\w*|où|explique[rz]?|montre[rz]?)\b",
    re.IGNORECASE,
)
# An order in the form of a question.
_ASKED = re.compile(
    r"^\W*(?:(?:please|hi|hello|bitte|por favor|s['’]il (?:te|vous) plaît)[\s,]+)*(?:could|can|would|will) you\b|^\W*(?:puedes|podrías|puede|podría)\b|"
    r"^\W*(?:kannst du|könntest du|können sie|könnten sie)\b|^\W*(?:peux-tu|pouvez-vous|pourrais-tu|pourriez-vous)\b|[぀-ヿ가-힣]",
    re.IGNORECASE,
)
# The words of the answer are all that is wanted.
_WORDS_ONLY = re.compile(
    r"\banswer only\b|\bonly (?:in|an?) (?:the |your )?(?:answer|reply)\b|\bin (?:your|the) (?:answer|reply|response|chat)\b|\bjust (?:answer|tell|explain|comments?|show|advise|describe)\b|"
    r"\bno (?:code(?: yet)?|changes|file|files|rewriting|edits)\b(?! (?:should|may|must|to|in|outside|of|that|which))|\b(?:don['’]t|do not|without) (?:(?:chang|edit|modif|touch|implement|apply|writ|mak)\w*) (?:anything|any (?:code|files?|changes)|it\b|code|files|changes)\b(?! (?:yet )?(?:else|in|outside|to the|of|beyond))|\b(?:anything|changes) yet\b|"
    r"(?:変更|修正|編集)(?:は)?し(?:ないで|なくて)|(?:回答|答え|説明|返信)(?:だけ|のみ)|(?:回答|返信)の中|不要(?:修改|改动|改|动)(?:任何|代码|文件|它)|不用(?:修改|改)|只(?:需要?|要|用)?(?:回答|解释|说明|分析)|先不要(?:改|动|修改)|在回答(?:里|中)|"
    r"(?:변경|수정|고치)(?:하)?지 (?:마|말|않)|(?:답변|설명|대답)(?:만|으로만|에만)|\bno (?:cambies|modifiques|toques|cambie|modifique) (?:nada|ningún)(?! (?:más|fuera))|\b(?:solo|sólo|solamente) (?:explica|responde|dime|en la respuesta)|\ben (?:la|tu) respuesta\b|"
    r"\b(?:ändere|verändere|ändern sie) (?:noch )?nichts(?! (?:ander|weiter|sonst|außer))|\bnichts ändern\b|\bnur (?:in der|als|eine) antwort|\bin (?:der|deiner|ihrer) antwort\b|\bne (?:change|modifie|touche)z? (?:à )?rien(?! (?:d['’]autre|en dehors))|\b(?:seulement|uniquement|juste) (?:expliquer?|répondre|dans la réponse)|\bdans (?:la|ta|votre) réponse\b",
    re.IGNORECASE,
)
_TEXT = re.compile(
    r"\b(?:write|create|make|generate|draft|prepare|compose|correct|improve|rewrite|translate|complete|set up|format)\b(?: me| us)?(?: up)?(?: an?| the| my| some| this| your| these)? ?(?:[\w'-]+ ){0,3}"
    r"(?:summary|overview|lists?|plan|explanation|report|review|messages?|e-?mail|mail|text|description|comparison|recommendations?|suggestions?|proposal|estimate|outline|answer|reply|response|"
    r"poem|haiku|essay|letter|titles?|names?|sentences?|paragraphs?|diagram|analysis|checklist|instructions|guide|tutorial|steps|questions?|post|slogan|announcement|concept|examples?|regex|query|commands?)\b"
    r"|(?:要約|一覧|計画|文章|メール|説明文|コミットメッセージ)を|(?:总结|列表|计划|邮件|说明|提交信息)|(?:요약|목록|계획|메일|커밋 메시지)|\b(?:resumen|lista|plan|correo|mensaje|texto|frase)\b|\b(?:zusammenfassung|liste|plan|mail|nachricht|text|satz|übersicht)\b|\b(?:résumé|liste|plan|courriel|message|texte|phrase)\b"
    r"|\b(?:translate|traduce|traduzca|traduis|traduisez|übersetze?)\b[^.;!?]{0,60}:(?:\s|$)",
    re.IGNORECASE,
)
# Advice is what is wanted: what it tells to do is no work left over.
_ADVICE_WANTED = re.compile(
    r"\b(?:write|create|make|generate|draft|prepare|compose|give|show|suggest|provide)\b(?: me| us)?(?: up)?(?: an?| the| my| some| this| your)? ?(?:[\w'-]+ ){0,3}"
    r"(?:summary|overview|plan|explanation|report|review|comparison|recommendations?|suggestions?|proposal|estimate|outline|analysis|checklist|instructions|guide|tutorial|steps|concept|ideas|advice)\b"
    r"|(?:計画|手順|提案|説明|レビュー)を|(?:计划|步骤|建议|方案|教程)|(?:계획|절차|제안|설명|방법)(?:을|를)|\b(?:plan|guía|pasos|propuesta|resumen|sugerencias)\b|\b(?:anleitung|vorschl\w+|übersicht|zusammenfassung|konzept)\b|\b(?:guide|étapes|proposition|résumé|mode d['’]emploi)\b",
    re.IGNORECASE,
)

_MARKS = re.compile(r"(?<![\w-])(?:TODO|FIXME|TBD|HACK|XXX)s?(?![A-Za-z0-9_]|\()")
_REFUSAL = re.compile(
    r"NotImplemented(?:Error|Exception)?|UnsupportedOperationException|todo!|unimplemented!|\bTODO\(\)|\?\?\?|fatalError|\bpanic\b|not implemented",
)
_ORDERS_REFUSAL = re.compile(
    r"\b(?:write|create|make|generate|leave|produce|prepare|only|should|must|shall|want|just|bodies|escribe|crea|genera|deja|debe|deben|solo|schreibe?|erstelle?|lass|soll|sollen|nur|écris|crée|génère|laisse|doi(?:t|vent)|seulement)\b"
    r"|だけ|のみ|にして|ようにして|作成|作って|书写|编写|创建|生成|只|都|만\b|작성|만들",
    re.IGNORECASE,
)
# The request speaks of refusals that it wants to be rid of, or asks about them.
_RID_OF = re.compile(
    r"\b(?:replac\w+|remov\w+|resolv\w+|finish\w*|get rid|instead of|no longer|without|still|currently|why|until now|fix\w*|no|not|never|don['’]t|stop|implement (?:it|them|these|those|all|every|each|the)|fill (?:it|them|these|in) (?!in\b)|"
    r"reempla\w+|sustitu\w+|elimin\w+|quita|todavía|aún|ersetz\w+|entfern\w+|noch|statt|implementiere|remplac\w+|supprim\w+|encore|au lieu)\b|置き換え|削除|取り除|まだ|実装して|替换|删除|移除|还|实现(?:所有|它|这)|교체|제거|아직|구현해",
    re.IGNORECASE,
)
_SKELETON = re.compile(
    r"\b(?:only|just|nothing but) (?:write |create |make |generate )?(?:an? |the )?(?:\w+ ){0,2}(?:stubs?|skeletons?|scaffold(?:ing)?|signatures|interfaces?)\b|\b(?:stubs?|skeletons?|signatures) only\b"
    r"|\b(?:starter|template|exercise|skeleton|kata) (?:file|code|project|template|class|module)s?\b[^.;!?]{0,200}\b(?:fill|filled|fills|complete|solve|implement)\b"
    r"|\b(?:with|leave the|leave all) (?:bodies empty|empty bodies|bodies blank)\b"
    r"|(?:スタブ|雛形|ひな形|骨組み|シグネチャ)(?:だけ|のみ)|(?:只|仅)(?:需要?|要|写|生成|创建|编写)*[^。,，]{0,10}(?:桩|骨架|存根|签名)|(?:스텁|뼈대|골격|시그니처)만|\b(?:solo|sólo|solamente) (?:\w+ )?(?:el |un |los |las |la )?(?:esqueleto|stubs?|firmas)\b|\bnur (?:\w+ )?(?:das |ein |die |den |einen )?(?:gerüst|stubs?|rumpf|signaturen|skelett)\b|\b(?:seulement|uniquement|juste) (?:\w+ )?(?:le |un |les |la |des )?(?:squelette|stubs?|signatures|ébauche)\b",
    re.IGNORECASE,
)


def orders_change(request: str) -> bool:
    """Whether a request orders work on what is there, so that an answer in words alone leaves it undone."""
    if _WORDS_ONLY.search(request):
        return False
    return any(
        _is_order(part) and (not _TEXT.search(part) or requested_paths(part))
        for sentence in _SENTENCE.split(request)
        if sentence and (part := sentence[:_LONGEST]).strip()
    )


def orders_at_the_end(request: str) -> bool:
    """Whether a change of what was spoken of is ordered behind it: "half() in calc.py is wrong, correct it"."""
    return any(_is_ordered_at_the_end(sentence[:_LONGEST]) for sentence in _SENTENCE.split(request) if sentence)


def _is_ordered_at_the_end(sentence: str) -> bool:
    if _ORDER_AT_THE_END.search(sentence) is None:
        return False
    condition = _CONDITION.search(sentence)
    return condition is None or _TROUBLE.search(sentence[: condition.start()]) is not None


def wants_advice(request: str) -> bool:
    """Whether a plan, a guide or the like is what a request wants, and no change beside it."""
    return _ADVICE_WANTED.search(request) is not None and not orders_change(request)


def _is_order(sentence: str) -> bool:
    if _QUESTION.match(sentence) or (sentence.rstrip().endswith("?") and not _ASKED.match(sentence)):
        return False
    if any(pattern.search(sentence) for pattern in (_ENGLISH, _SPANISH, _GERMAN, _FRENCH)):
        return True
    if orders_at_the_end(sentence):
        return True
    return any(
        pattern.search(sentence) and not asks.search(sentence)
        for pattern, asks in ((_JAPANESE, _JAPANESE_ASKS), (_CHINESE, _CHINESE_ASKS), (_KOREAN, _KOREAN_ASKS))
    )


def names_marks(request: str) -> bool:
    """Whether a request speaks of marks such as TODO, so that an answer to it has to speak of them too."""
    return _MARKS.search(request) is not None


def ordered_refusals(request: str) -> frozenset[bytes]:
    """The "not implemented" words with which the request wants functions to be left, empty where it wants none."""
    found: set[bytes] = set()
    for sentence in re.split(r"(?<=[.;。；])\s*(?=\s|[^\s\w(!])|\n+", request):
        if (words := _REFUSAL.findall(sentence)) and _ORDERS_REFUSAL.search(sentence) and not _RID_OF.search(sentence):
            found.update(word.encode() for word in words)
    return frozenset(found)


def orders_skeleton(request: str) -> bool:
    """Whether functions without their work are what the request wants: "only a stub", a starter file for students."""
    return any(
        _SKELETON.search(sentence) and not _RID_OF.search(sentence)
        for sentence in re.split(r"(?<=[.;。；])\s+|\n+", request)
    )


_CHANGE = re.compile(
    r"^\W*(?:(?:please|now|then|also|first|next|could you|can you|would you|i want you to|i need you to|let's|we need to|you must|your task is to)[\s,:]+)*"
    rf"(?:{WORK_VERBS}|set up|set)\b",
    re.IGNORECASE | re.MULTILINE,
)
_CHANGE_ELSEWHERE = re.compile(
    r"(?:追加|実装|作成|修正|変更|更新|削除|リファクタ|直)(?:して|せよ|する|しろ|してください)"
    r"|(?:请|帮我)?(?:添加|新增|实现|创建|编写|修复|修改|更新|删除|重构|增加)"
    r"|(?:추가|구현|생성|수정|변경|작성|삭제|리팩터링)(?:해|하세요|하라|해줘)"
    r"|^\W*(?:por favor\s+)?(?:añade|agrega|implementa|crea|corrige|arregla|cambia|actualiza|escribe|refactoriza|elimina)\b"
    r"|^\W*(?:bitte\s+)?(?:füge|implementiere|erstelle|schreibe|behebe|ändere|aktualisiere|korrigiere|baue|entferne)\b"
    r"|^\W*(?:ajoute|implémente|crée|écris|corrige|modifie|mets à jour|supprime|ajoutez|implémentez|créez|corrigez)\b",
    re.IGNORECASE | re.MULTILINE,
)
_KIND_QUESTION = re.compile(
    r"^\W*(?:what|why|how|where|when|who|which|is|are|does|do|did|can|could|explain|describe|show|list|tell|summari[sz]e|compare|review|analy[sz]e|investigate|find out)\b",
    re.IGNORECASE,
)

_ARTEFACT = (
    r"(?:scripts?|programs?|functions?|modules?|class(?:es)?|components?|code|snippets?|one-?liners?|quer(?:y|ies)|statements?|decorators?|middlewares?|hooks?|helpers?|regex(?:es)?|workflows?|dockerfiles?|makefiles?|"
    r"config(?:uration)?s?|macros?|polyfills?|wrappers?|parsers?|playbooks?|manifests?|migrations?|stylesheets?|templates?|types?|interfaces?|tests?|cli|bot|implementations?)"
)
_CODE_WANTED = re.compile(
    r"\b(?:in (?:your|the) answer only|only in (?:your|the) answer|answer only)\b|\bnur in der antwort\b|\b(?:solo|sólo) en (?:la|tu) respuesta\b|\buniquement dans (?:la|ta|votre) réponse\b|回答(?:の中)?(?:だけ|のみ)|只在回答|답변에만|"
    rf"\bshow me (?:a|an|the (?:full|complete|whole))\b[^.;!?\n]{{0,60}}\b{_ARTEFACT}\b|"
    rf"\b(?:give|send|provide|generate|output|draft|paste|produce|hand|write|make|create|i need|i want|i'd like|looking for|implement|code)\b(?! (?:me )?(?:an? )?(?:overview|explanation|summary|list|idea|example))[^.;!?\n]{{0,60}}\b{_ARTEFACT}\b"
    r"|(?:スクリプト|プログラム|コード|関数|クラス|クエリ|設定ファイル|コンポーネント)[^。\n]{0,20}(?:書い|作っ|作成|ください|下さい|出力|欲しい|ほしい)|(?:给我|写|提供|生成|来)[^。\n]{0,20}(?:脚本|程序|代码|函数|类|组件|查询|配置)|(?:스크립트|프로그램|코드|함수|클래스|쿼리|컴포넌트)[^.\n]{0,14}(?:작성|만들|써|짜|주세요|줘)"
    r"|\b(?:dame|escribe|escríbeme|necesito|genera|hazme|quiero|crea)\b[^.;!?\n]{0,40}\b(?:script|programa|código|función|método|clase|consulta|módulo|componente)\b|\b(?:gib|schreib\w*|erstell\w*|ich brauche|brauche|liefere|mach)\b[^.;!?\n]{0,50}(?:skript|programm|code|funktion|methode|klasse|modul|abfrage|komponente)\b|\b(?:donne|donnez|écris|écrivez|il me faut|fournis|génère|fais)\b[^.;!?\n]{0,40}\b(?:script|programme|code|fonction|méthode|classe|module|requête|composant)\b",
    re.IGNORECASE,
)


def asks_for_code(request: str) -> bool:
    """Whether code in the answer itself is what the request wants: a script, a query, a component."""
    return _CODE_WANTED.search(request) is not None and not re.match(
        r"\W*(?:what|why|how|explain|describe)\b", request, re.IGNORECASE
    )


def asks_for_change(request: str) -> bool:
    """Whether the request, read alone, asks for something to be changed or made."""
    return any(pattern.search(request) for pattern in (_CHANGE, _CHANGE_ELSEWHERE)) or orders_at_the_end(request)


def effective_kind(evidence: Evidence) -> Literal["change", "question", "investigation"]:
    """The kind the criteria judge by: as given, else by what happened (files changed or claimed), else by the request."""
    if evidence.kind != "auto":
        return evidence.kind
    if evidence.files or any(claim.source in {"answer", "expected"} for claim in evidence.claims):
        return "change"
    request = evidence.request.strip()
    if requested_paths(request) and asks_for_change(request) and not _only_asks(request):
        return "change"
    return "question"


def _only_asks(request: str) -> bool:
    return bool(_KIND_QUESTION.match(request)) and request.rstrip().endswith(("?", "？"))
