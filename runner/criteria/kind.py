"""What kind of task this was. `auto` is settled by what happened, then by what the request names (contracts 2)."""

from __future__ import annotations

import re
from typing import Literal

from runner.criteria.claims import requested_paths
from runner.criteria.model import Evidence

__all__ = ["asks_for_change", "effective_kind"]

_CHANGE = re.compile(
    r"^\W*(?:(?:please|now|then|also|first|next|could you|can you|would you|i want you to|i need you to|let's|we need to|you must|your task is to)[\s,:]+)*"
    r"(?:add|implement|create|write|fix|build|change|update|refactor|rename|remove|delete|make|port|convert|migrate|replace|extend|"
    r"improve|optimi[sz]e|complete|finish|set up|move|introduce|rewrite|correct|repair|generate|develop|support|bump|upgrade|integrate|"
    r"wire|clean up|split|extract|enable|disable|configure|install|patch|resolve|handle)\b",
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


def asks_for_change(request: str) -> bool:
    """Whether the request, read alone, asks for something to be changed or made."""
    return bool(_CHANGE.search(request) or _CHANGE_ELSEWHERE.search(request))


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
