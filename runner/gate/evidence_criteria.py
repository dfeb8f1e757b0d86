"""Q1, Q5 and Q6: what was claimed is there, what was asked for was done, and "done" alone proves nothing."""

from __future__ import annotations

from runner.gate.answer_text import read_answer
from runner.gate.criterion import Evidence, Finding, Place
from runner.gate.findings import at, finding_of
from runner.gate.prose import early_ends, stops_short
from runner.gate.wording import Words

_ENDED_BADLY = {
    "INCOMPLETE": "the agent ended before it was done",
    "ERROR": "the agent ended in an error",
    "BLOCKED": "the agent says it is blocked",
}
_NOTHING = Words("claims", "nothing_to_change")
_BECAUSE = 40


def q1_files(evidence: Evidence) -> Finding:
    """Every file the task expects or the answer claims exists on disk, inside the workspace, not empty."""
    places: list[Place] = []
    change = evidence.kind == "change"
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
    if evidence.kind != "change":
        if evidence.answer.strip():
            return finding_of(())
        return finding_of([at("empty_answer", "the answer is empty", suggestion="say in words what was found or done")])
    if _changed(evidence):
        return finding_of(())
    if _NOTHING.search(evidence.answer) and len(evidence.answer.strip()) >= _BECAUSE:
        return finding_of(
            [
                at(
                    "ask_person",
                    "the answer says that nothing needs to change, and no file was changed",
                    suggestion="make the change; where none is needed, the user has to say so",
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
    if evidence.kind == "change":
        places.extend(early_ends(answer, changed=_changed(evidence) or bool(evidence.options.get("answer_alone"))))
    if (cut := stops_short(answer)) is not None:
        places.append(cut)
    return finding_of(places)


def _changed(evidence: Evidence) -> bool:
    return any(file.before != file.after for file in evidence.files)
