"""What kind of task this was. `auto` is settled by what happened, then by what the request names (contracts 2)."""

from __future__ import annotations

import re
from typing import Literal

from runner.criteria.claims import requested_paths
from runner.criteria.model import Evidence
from runner.criteria.orders import WORK_VERBS, orders_at_the_end

__all__ = ["asks_for_change", "asks_for_code", "effective_kind"]

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
_QUESTION = re.compile(
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
    return bool(_QUESTION.match(request)) and request.rstrip().endswith(("?", "？"))
