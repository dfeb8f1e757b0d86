"""The `/trace` text: the seed's header, one line per fact in UTC, and the closing `---`. Pure.

Nothing an agent wrote can span two lines or reach the terminal as a control sequence: line breaks and control,
bidirectional and other invisible formatting characters are shown as escapes. A prompt is one line however long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from unicodedata import category

from tracer import facts
from tracer.names import REVIEW
from tracer.verification import tests_text, unverified_in, unverified_text

_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HIDDEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})


def trace_text(entries: Sequence[facts.Entry], *, task_id: str | None = None) -> str:
    """The whole block, ending in a newline; `task_id` names a task that has no entries."""
    name = entries[0].task_id if entries else task_id or ""
    lines = [f"--- Conversation Trace for {escape_controls(name)} ---"]
    unchanged: dict[str | None, bool] = {}  # a RETRY sends the same prompt again
    for entry in entries:
        if isinstance(entry, facts.IterationEnd):
            retried = entry.judgment == "RETRY"
            unchanged[entry.subtask_id] = retried and unchanged.get(entry.subtask_id, True)
        lines.append(fact_line(entry, same_prompt=unchanged.get(entry.subtask_id, False)))
    return "\n".join([*lines, "---", ""])


def fact_line(entry: facts.Entry, *, same_prompt: bool = False) -> str:
    """`[YYYY-MM-DD HH:MM:SS] EVENT[i]: summary`; a subtask's id stands before its summary.

    `same_prompt`: an LLM_REQUEST beyond iteration 0 repeats the first prompt (after RETRY) instead of a modified one.
    """
    stamp = escape_controls(entry.timestamp[:19].replace("T", " "))
    index = "" if entry.iteration_index is None else f"[{entry.iteration_index}]"
    summary = _summary(entry, same_prompt=same_prompt)
    if entry.subtask_id is not None:
        summary = f"[{entry.subtask_id}] {summary}"
    return f"[{stamp}] {escape_controls(entry.event)}{index}: {escape_controls(summary)}".rstrip()


def escape_controls(text: str) -> str:
    r"""`text` on one line, harmless to a terminal: `\n`, `\t`, `\x1b`, `\u202e` instead of what they stand for."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escaped(character) if not character.isprintable() and category(character) in _HIDDEN else character
        for character in text
    )


def _escaped(character: str) -> str:
    code = ord(character)
    if code in {0x200D, 0x200C}:  # joiners within emoji and several scripts' words: invisible, harmless
        return character
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0].rstrip()


def _summary(entry: facts.Entry, *, same_prompt: bool) -> str:
    match entry:
        case facts.UserRequest():
            return entry.prompt if entry.action is None else f"({entry.action}) {entry.prompt}".rstrip()
        case facts.SystemRules():
            return "(Mandatory Rules injected)"
        case facts.ChunkingPlan():
            count = len(entry.subtasks)
            if not count:
                return f"(one task) {_first_line(entry.reason)}".rstrip()
            return f"({count} subtask{'' if count == 1 else 's'})"
        case facts.LlmRequest() if entry.purpose == REVIEW:
            return "(review asked for)"
        case facts.LlmRequest():
            return "(modified prompt)" if entry.iteration_index and not same_prompt else "(prompt sent)"
        case facts.LlmResponse():
            message = _first_line(entry.error.message) if entry.error else ""
            return _first_line(entry.output) or f"({entry.status}) {message}".rstrip()
        case facts.QualityJudgment():
            return _judgment(entry)
        case facts.RejectionDetails():
            return _first_line(entry.modification_prompt)
        case facts.IterationEnd():
            return entry.judgment
        case facts.FinalSummary():
            total = entry.total_iterations
            return f"{entry.status} ({total} iteration{'' if total == 1 else 's'})"
    return entry.session_ref if isinstance(entry, facts.SessionStarted | facts.SessionInterrupted) else ""


def _judgment(entry: facts.QualityJudgment) -> str:
    if entry.judgment == "RETRY":
        summary = _first_line(entry.summary)
        return f"RETRY ({summary})" if summary and summary != "RETRY" else "RETRY"
    if entry.judgment != "REJECT":
        unverified = unverified_text(unverified_in([entry]))
        told = "; ".join(part for part in (tests_text(entry.tests), unverified) if part)
        return f"{entry.judgment} ({told})" if told else entry.judgment
    failed = [_failure(result, entry.issues) for result in entry.failures]
    return f"REJECT ({'; '.join(failed)})" if failed else "REJECT"


def _failure(result: facts.CriterionResult, issues: Sequence[facts.Issue]) -> str:
    """`Q2: TODO found`, and where: the place is added unless the reason names it already."""
    reason = result.reason or "failed"
    places = dict.fromkeys(issue.place for issue in issues if issue.criterion == result.id and issue.path)
    others = [place for place in places if place not in reason]
    return f"{result.id or '?'}: {reason}" + (f" at {', '.join(others)}" if others else "")
