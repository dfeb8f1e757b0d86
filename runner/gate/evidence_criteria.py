"""Q1, Q5 and Q6: what was claimed is there, what was asked for was done, and "done" alone proves nothing."""

from __future__ import annotations

import re

from runner.gate.answer_text import Answer, Prose, read_answer
from runner.gate.criterion import Evidence, Finding, Place
from runner.gate.findings import at, finding_of
from runner.gate.prose import announces, early_ends, sentences, stops_short
from runner.gate.request_kind import asks_for_change, asks_for_code, effective_kind, orders_change, wants_advice
from runner.gate.words import instead_of_change

_ENDED_BADLY = {
    "INCOMPLETE": "the agent ended before it was done",
    "ERROR": "the agent ended in an error",
    "BLOCKED": "the agent says it is blocked",
}
_NOTHING = re.compile(
    r"\b(?:nothing (?:to (?:change|do|fix)|needs? (?:to be )?(?:chang|fix|do))|no (?:code )?changes? (?:is|are|was|were)?\s*(?:needed|required|necessary|to make)|"
    r"already (?:implemented|correct|works?|handles?|done|exists?|fixed|present|satisf\w+|in place|supports?)|no (?:fix|action) (?:is )?(?:needed|required))\b"
    r"|変更(?:は|の)?(?:必要(?:は)?(?:ありません|ない)|不要)|无需(?:修改|更改|变更)|不需要(?:修改|更改)|변경(?:할|이) 필요(?:가)? 없|수정할 필요(?:가)? 없"
    r"|\b(?:no (?:es necesario|hace falta) (?:cambiar|ningún cambio)|rien à (?:changer|modifier)|keine änderung(?:en)? (?:nötig|notwendig|erforderlich))",
    re.IGNORECASE,
)
_BECAUSE = 40


def q1_files(evidence: Evidence) -> Finding:
    """Every file the task expects or the answer claims exists on disk, inside the workspace, not empty."""
    places: list[Place] = []
    change = effective_kind(evidence) == "change"
    for claim in evidence.claims:
        if claim.source == "request":
            continue
        name = "claimed" if claim.source == "answer" else "expected"
        if not claim.inside:
            places.append(_claim(claim.path, f"{name} file is outside the workspace", "work inside the workspace"))
        elif not claim.exists:
            places.append(_claim(claim.path, f"{name} file does not exist", "create the file, or do not claim it"))
        elif claim.size == 0 and claim.path.rsplit("/", 1)[-1] not in _MAY_BE_EMPTY:
            places.append(_claim(claim.path, f"{name} file is empty", "write the content that was asked for"))
        elif change and claim.source == "answer" and not claim.changed:
            places.append(
                _claim(claim.path, "file claimed as changed is unchanged", "make the change, or do not claim it")
            )
    return finding_of(places)


_MAY_BE_EMPTY = frozenset({"__init__.py", ".gitkeep", ".keep", ".nojekyll", "py.typed", ".env", ".gitignore"})


def _claim(path: str, message: str, suggestion: str) -> Place:
    return at("claimed_file", message, path=path, suggestion=suggestion)


def q5_evidence(evidence: Evidence) -> Finding:
    """A change task has verified changes on disk; a question has a non-empty answer."""
    if not evidence.answer.strip() and not evidence.files:
        return finding_of([at("empty_answer", "the answer is empty", suggestion="answer the request")])
    if effective_kind(evidence) != "change":
        if evidence.answer.strip():
            return finding_of(())
        return finding_of([at("empty_answer", "the answer is empty", suggestion="say in words what was found or done")])
    if any(file.before != file.after for file in evidence.files):
        return finding_of(())
    if _NOTHING.search(evidence.answer) and len(evidence.answer.strip()) >= _BECAUSE:
        if any(result.kind == "test" and result.exit_code == 0 for result in evidence.commands):
            return Finding(passed=True, reason="nothing to change, and the tests pass")
        return finding_of(
            [
                at(
                    "ask_person",
                    "the answer says nothing needs to change, and no test confirms it",
                    suggestion="show with a test that the request is met already, or make the change",
                )
            ]
        )
    return finding_of([at("no_change", "no file was changed", suggestion="make the change in the workspace")])


def q6_termination(evidence: Evidence) -> Finding:
    """The agent's own "done" is not evidence; leaving the rest to the user is no end."""
    places: list[Place] = []
    places.extend(
        at(
            "protected",
            "changed a file of the orchestrator (undone)",
            path=path,
            suggestion="leave the state directory alone",
        )
        for path in evidence.protected_changes
    )
    if evidence.status in _ENDED_BADLY:
        places.append(at("status", _ENDED_BADLY[evidence.status], suggestion="finish the task"))
    answer = read_answer(evidence.answer)
    changed = any(file.before != file.after for file in evidence.files)
    if evidence.kind not in {"question", "investigation"} and (
        changed or _wants_change(evidence) or evidence.options.get("answer_alone")
    ):
        places.extend(early_ends(answer, changed=changed or bool(evidence.options.get("answer_alone"))))
    if (cut := stops_short(answer)) is not None:
        places.append(cut)
    if not places:
        places.extend(_nothing_done(evidence, answer))
    return finding_of(places)


def _nothing_done(evidence: Evidence, answer: Answer) -> list[Place]:
    """What stands in the answer instead of an ordered change, where nothing at all was changed."""
    if any(file.before != file.after for file in evidence.files) or evidence.kind in {"question", "investigation"}:
        return []
    if evidence.options.get("answer_alone") or _NOTHING.search(evidence.answer) or not _wants_change(evidence):
        return []
    if answer.fences and (asks_for_code(evidence.request) or "```" in evidence.request):
        return []  # the code in the answer is the work
    ordered = orders_change(evidence.request)
    if not ordered and effective_kind(evidence) != "change":
        return []
    said = [(prose, sentence) for prose in answer.prose for sentence in sentences(prose.text)]
    if any(
        instead_of_change.CHOICE.search(sentence) and sentence.rstrip().endswith(("?", "？")) for _, sentence in said
    ):
        return []  # the answer asks which of two ways was meant
    for prose, sentence in said:
        if instead_of_change.CLAIMS.search(sentence) and not instead_of_change.NO_CLAIM.search(sentence):
            return [_instead("unproven_claim", prose)]
        if ordered and instead_of_change.LEAVE.search(sentence):
            return [_instead("asks_leave", prose)]
        if ordered and instead_of_change.ADVICE.search(sentence):
            return [_instead("advice", prose)]
        if ordered and announces(sentence):
            return [_instead("plan", prose)]
    return []


_INSTEAD = {
    "unproven_claim": (
        "completion is claimed and nothing was changed",
        "make the change in the workspace; saying that it is done is not evidence",
    ),
    "asks_leave": ("leave is asked for work that was ordered", "the request is clear: make the change"),
    "advice": ("the change is described and not made", "make the change yourself, in the workspace"),
    "plan": ("the work is announced and nothing was changed", "carry the plan out"),
}


def _instead(kind: str, prose: Prose) -> Place:
    message, suggestion = _INSTEAD[kind]
    return at(kind, message, line=prose.line, excerpt=prose.raw, suggestion=suggestion)


def _wants_change(evidence: Evidence) -> bool:
    if effective_kind(evidence) == "change" or orders_change(evidence.request):
        return True
    return asks_for_change(evidence.request) and not wants_advice(evidence.request)
