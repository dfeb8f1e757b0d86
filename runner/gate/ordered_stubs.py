"""What a request says of marks and stubs: whether it is about them, and whether it wants functions left without work."""

from __future__ import annotations

import re

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
