"""Comments that stand in place of code: alone in a block, they point at code of the same kind or say what to do.

`// same as above but for removal` as a whole body is work left out wherever it stands. A bare instruction
(`// delete the book`) counts in a function literal, which has no name and no contract that could explain it. A comment
that gives a reason for doing nothing is believed.
"""

from __future__ import annotations

import re

import tree_sitter

from runner.criteria.comments import Comment, Hit
from runner.criteria.context import is_test_path
from runner.criteria.source import Source

__all__ = ["stands_in"]

_BLOCKS = {
    "block", "statement_block", "compound_statement", "statement_list", "statements", "function_body", "body_statement",
    "lambda_literal", "do_block", "closure_expression", "then", "else", "template_body", "indented_block",
}  # fmt: skip
_UNNAMED = ("arrow_function", "function_expression")
_HEADS = {
    "lambda_parameters", "block_parameters", "lambda_function_type", "formal_parameters", "parameters", "bindings",
    "capture_list", "parameter_list",
}  # fmt: skip
_LIKE = re.compile(
    r"^\W*(?:(?:the |do |does |exactly |basically |pretty much |much |mostly |essentially )*(?:same|identical|similar|analogous|equivalent)(?:ly)?\b(?! (?:time|size|type|length|thread|value|order|key)\b)|likewise\b|ditto\b|analogous(?:ly)?\b"
    r"|like (?:the |in |with |for |its )?\S+|(?:just |exactly )?as (?:above|below|before|in|with|for)\b|mirrors?\b|copy of\b|repeat\b|vice versa)"
    r"|\b(?:see|like|as in|as with|same as|similar to|analogous to) (?:the |in )?(?!(?:\w+ ){0,3}(?:todo|comment|note|docs?|docstring|explanation|issue|description)\b)(?:\w+ ){0,4}(?:above|below|before|version|handler|route|one)\b"
    r"|(?:上(?:記)?(?:と|の)|同様|同じ(?:処理|こと|よう))|同上|(?:与|和|跟|同)(?:上面|上述|前面|之前|上)|类似|위와|동일|마찬가지|비슷"
    r"|^\W*(?:igual que|lo mismo|similar a|análog|como (?:arriba|el|la|en)|ídem|idem)|^\W*(?:wie (?:oben|bei|in|der|die|das|zuvor)|analog|dasselbe|das gleiche|genauso|entsprechend|siehe oben)|^\W*(?:comme (?:ci-dessus|plus haut|au-dessus|pour|le|la)|même (?:chose|logique|principe)|pareil|analogue|identique)",
    re.IGNORECASE,
)
_TO_DO = re.compile(
    r"^\W*(?:fetch|delete|remove|update|save|store|send|create|add|load|write|insert|validate|check|parse|render|call|compute|calculate|process|implement|convert|build|read|get|set|return|apply|"
    r"query|publish|upload|download|persist|notify|emit|register|handle|perform|do|make|find|filter|sort|map|merge|copy|print|start|show|open|forward|dispatch|refresh|sync)\b(?! (?:is|are|was|were|may|can|will|would|has|by|nothing|not|only|itself|failed|fails|already)\b)(?! ?[:,.])\s+\S"
    r"|(?:削除|保存|送信|取得|更新|追加|作成|登録|計算|検証|呼び出|表示|処理)(?:する|します|を行う)?\W*$|^\W*(?:删除|更新|保存|获取|处理|发送|创建|添加|查询|调用|校验|返回|计算|实现|写入|读取)|(?:삭제|저장|추가|처리|전송|조회|수정|갱신|호출|계산)(?:한다|하기|합니다|)?\W*$"
    r"|^\W*(?:elimina|borra|guarda|envía|actualiza|obtén|crea|procesa|llama|calcula|valida)r?\b\s+\S|\b(?:löschen|speichern|senden|aktualisieren|laden|holen|anlegen|verarbeiten|berechnen|prüfen|aufrufen)\W*$|^\W*(?:supprimer|enregistrer|envoyer|mettre à jour|récupérer|créer|traiter|calculer|valider|appeler|charger)\b\s+\S",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"\b(?:nothing|no-?op|noop|no (?:need|reason|action|work|effect)|ignor\w+|intention\w*|deliberate\w*|on purpose|by design|does(?: not|n't)|do(?: not|n't)|never|already|skip\w*|empty|swallow\w*|drop(?:s|ped)?|discard\w*|best.?effort|unused|not needed|fall ?through|elsewhere|handled (?:by|in))\b"
    r"|何もしない|不要|無視|什么都不|无需|忽略|아무것도|무시|no hace nada|nada que|ignora|rien à|ignor|nichts",
    re.IGNORECASE,
)
_CLOSES = re.compile(rb"\s*(?:\}|end\b)")
_OPENS = (b"{", b"|", b" in", b" do", b"then", b"else", b">", b")")
_NEAR = 120
_LINES = 4


def stands_in(source: Source, comment: Comment) -> Hit | None:
    """The hit where `comment` is all that a block holds and takes the place of its code."""
    if comment.doc or comment.node is None or len(comment.lines) > _LINES:
        return None
    # A quick look at what stands around it spares most comments the patterns and the tree.
    before = source.text[max(0, comment.start - _NEAR) : comment.start].rstrip()
    if not before.endswith(_OPENS) or _CLOSES.match(source.text, comment.end) is None:
        return None
    text = comment.text
    like = _LIKE.search(text)
    if (like is None and not _TO_DO.search(text)) or _REASON.search(text):
        return None
    if not _is_alone(comment.node) or (
        like is None and (not _in_literal(source, comment.node) or is_test_path(source.path))
    ):
        return None
    number, raw = comment.lines[0]
    return Hit(criterion="Q3", words=text[:60], line=number, excerpt=raw)


def _is_alone(node: tree_sitter.Node) -> bool:
    """Whether nothing but comments stands in the block around `node`."""
    parent = node.parent
    if parent is None or parent.type not in _BLOCKS or (parent.type == "block" and parent.parent is None):
        return False
    return all("comment" in child.type or child.type in _HEADS for child in parent.named_children)


def _in_literal(source: Source, node: tree_sitter.Node) -> bool:
    """Whether the block around `node` is the body of a function without a name."""
    kinds = {*source.language.literals, *_UNNAMED}
    above = node.parent
    while above is not None and above.type not in kinds and above.type in _BLOCKS:
        above = above.parent
    return above is not None and above.type in kinds and not _ignores_failure(above)


def _ignores_failure(literal: tree_sitter.Node) -> bool:
    """Whether the literal is given to `.catch(…)`: what it says there is why the failure does not matter."""
    arguments = literal.parent
    call = arguments.parent if arguments is not None else None
    callee = call.child_by_field_name("function") if call is not None else None
    return callee is not None and (callee.text or b"").endswith((b".catch", b".finally"))
