"""Leaving out as what a program does with data, told apart from code that was left out, in seven languages.

"Empty fields are omitted from the JSON" is behaviour; "the other methods are omitted" is missing work. Words for parts
of a program decide for the latter whatever else the sentence says.
"""

from __future__ import annotations

import re

__all__ = ["omits_data"]

_I = re.IGNORECASE
_OMITS = re.compile(
    r"省略|割愛|略|省去|생략|omit|elid|exclu|truncat|abbreviat|left out|skip|weggelass|ausgelass|gekürzt|entfall|entfällt|omis",
    _I,
)
_OF_CODE = re.compile(
    r"コード|実装|処理|メソッド|関数|クラス|定義|ロジック|テスト|説明|ハンドラ|代码|代碼|实现|實現|逻辑|方法|函数|类|处理|分支|步骤|测试|코드|구현|메서드|함수|클래스|로직|처리|"
    r"\b(?:code|implementations?|methods?|functions?|class(?:es)?|handlers?|imports?|brevity|clarity|código|métodos?|clases?|implementación|brevedad|methoden|funktionen|klassen|übersichtlichkeit|kürze|méthodes?|fonctions?|concision)\b",
    _I,
)
_OF_DATA = re.compile(
    r"省略(?:する|され|でき|可|時|した(?:場合|とき)|すると|せず|しない|記号|形|値|表示|可能|が)|省略(?:号|时|掉的|后的|值|形式|参数|写法|并|则|,|，)|생략(?:한다|된다|되며|하며|할 수|하면|가능|되고|하고|표시|기호|부호)|"
    r"(?:JSON|レスポンス|出力|応答|キー|フィールド|項目|メール|属性|値|引数|パラメータ|オプション|列|カラム|表示|ログ|文字|URL|名前|住所|ヘッダ|字段|键|参数|输出|响应|邮箱|字符|文本|日志|列|属性|空值|필드|항목|키|값|응답|출력|속성|매개변수|열|문자)[^。\n]{0,24}(?:省略|略|생략)|"
    r"\b(?:omitted|omits?|elided|excluded|truncated|abbreviated|left out|skipped)\b,? (?:if|when|unless|where|for|from|in|by (?:default|the)|to keep|once|until|entirely)\b(?! (?:brevity|clarity|now|simplicity|the sake|readability|conciseness|space|this (?:example|answer|snippet)))|"
    r"\b(?:se omit\w+|omitid\w+)\b (?:si|cuando|en|por defecto|de)\b(?! (?:brevedad|claridad))|\b(?:weggelassen|ausgelassen|gekürzt|entfällt|entfallen)\b,? (?:wenn|falls|sofern|sobald|außer)\b|\b(?:wenn|falls|sofern)\b.{0,80}\b(?:weggelassen|ausgelassen|gekürzt)\b|\bomis(?:e|es)? (?:si|quand|lorsque|sauf|dans|du|de la|par défaut)\b",
    _I,
)


# Said of code wherever it stands.
_ALWAYS = re.compile(r"(?:以下|以降|残り)(?:は|も|、)?(?:省略|略|同様|同じ)|[中下後]略")
# "On a failure …, the other nodes stay as they are" is behaviour; "the rest of the code stays" is left out.
_KEEPS = re.compile(r"保持(?:不变|原样|原有)|不变|不變")


def omits_data(sentence: str, found: str) -> bool:
    """Whether a sentence in which `found` speaks of leaving out means data, as a part of what the code does."""
    if _ALWAYS.search(found) or _ALWAYS.search(sentence):
        return False
    if _KEEPS.search(found):
        before = sentence[: sentence.find(found)]
        return re.search(r"[,，;；:：]", before) is not None and _OF_CODE.search(found) is None
    return (
        _OMITS.search(found) is not None and _OF_DATA.search(sentence) is not None and _OF_CODE.search(sentence) is None
    )
