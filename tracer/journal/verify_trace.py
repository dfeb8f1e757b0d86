"""What `pm trace verify` finds: whether a record is whole, in order, and what was recorded.

Levels: `damage` (not what the writer wrote: exit 8), `note` (unfinished, unchained, cut off).
A torn tail is reported as damage of the file although no confirmed fact is lost: the next writer moves it aside.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from tracer import facts
from tracer.errors import TraceError, told_as
from tracer.journal.chain import ChainReport, check_chain
from tracer.journal.reading import Scan, scan
from tracer.names import ACTIONS, ANSWER_STATUSES, FINAL_STATUSES, JUDGMENTS, REVIEW, TASK_STATUSES

_START: Final = "start"
_LOOKS: Final = 5
_PAUSE_S: Final = 0.02
# What may stand directly before a fact of one loop (a task's own, or a subtask's).
_BEFORE: Final[Mapping[str, frozenset[str]]] = {
    # the seed's sample leaves ITERATION_END out
    "LLM_REQUEST": frozenset({_START, "LLM_REQUEST", "ITERATION_END", "REJECTION_DETAILS", "QUALITY_JUDGMENT"}),
    "LLM_RESPONSE": frozenset({"LLM_REQUEST"}),
    "QUALITY_JUDGMENT": frozenset({"LLM_RESPONSE"}),
    "REJECTION_DETAILS": frozenset({"QUALITY_JUDGMENT"}),
    "ITERATION_END": frozenset({"QUALITY_JUDGMENT", "REJECTION_DETAILS"}),
}


class Finding(NamedTuple):
    """One thing found: `line` is 1-based (0: the file as a whole)."""

    level: Literal["damage", "note"]
    line: int
    text: str


class TraceReport(NamedTuple):
    """What verification found; `ok` is false when anything is damaged."""

    path: str
    facts: int
    chain: ChainReport
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return all(finding.level != "damage" for finding in self.findings)


def verify_trace(path: str | os.PathLike[str], *, head: str | None = None, task_id: str | None = None) -> TraceReport:
    """Check framing, envelope, order, values, task id and chain of one trace; `head` is a chain head kept elsewhere.

    Raises:
        NotFoundError: no such file.
        TraceError: it cannot be read at all.

    """
    found = _settled(path)
    with told_as(TraceError, f"cannot read {os.fspath(path)!r}"):
        chain = check_chain(path, head=head.strip().lower() if head else None)
    findings = [*_framing(found), *check_values(found.facts), *_task_ids(found, task_id), *_chain(chain, head)]
    if not found.problems:
        findings += check_order(found.facts)
    return TraceReport(os.fspath(path), len(found.facts), chain, tuple(sorted(findings, key=lambda one: one.line)))


def _settled(path: str | os.PathLike[str]) -> Scan:
    """The scan of a file that may be growing: a line that was being written is looked at again."""
    found = scan(path)
    for _ in range(_LOOKS):
        if found.torn is None:
            break
        time.sleep(_PAUSE_S)
        again = scan(path)
        if again == found:
            break
        found = again
    return found


def _framing(found: Scan) -> list[Finding]:
    findings = [Finding("damage", problem.seq + 1, problem.why) for problem in found.problems]
    if found.torn:
        line = len(found.facts) + len(found.problems) + 1
        findings.append(
            Finding("damage", line, f"incomplete ({found.torn.length} bytes); the next writer moves it aside")
        )
    if not found.facts and not found.problems:
        findings.append(Finding("damage", 0, "no whole line"))
    return findings


def _task_ids(found: Scan, task_id: str | None) -> list[Finding]:
    wanted = task_id or (found.facts[0][1].task_id if found.facts else None)
    return [
        Finding("damage", seq + 1, f"belongs to task {entry.task_id!r}, not {wanted!r}")
        for seq, entry in found.facts
        if entry.task_id != wanted
    ]


def _chain(chain: ChainReport, head: str | None) -> list[Finding]:
    findings = []
    match chain.state:
        case "differs":
            line = (chain.first_difference or 0) + 1
            text = (
                "is missing although the chain holds it" if line > chain.lines else "is not the line that was recorded"
            )
            findings.append(Finding("damage", line, f"{text} (first difference in the chain)"))
        case "behind":
            text = (
                f"the chain ends at line {chain.chained}: {chain.lines - chain.chained} later lines are not vouched for"
            )
            findings.append(Finding("note", chain.chained + 1, text))
        case "unchained":
            findings.append(Finding("note", 0, "unchained: there is no side file to compare with"))
    if head is not None and not chain.head_matches:
        findings.append(Finding("damage", 0, f"no line gives the head {head!r}: lines were changed or removed"))
    return findings


def check_values(facts: Iterable[tuple[int, facts.Entry]]) -> list[Finding]:
    """Result values outside contracts 1: judgments, statuses, actions, iteration numbers that contradict themselves."""
    return [
        Finding("damage", seq + 1, f"{entry.event}: {problem}")
        for seq, entry in facts
        if (problem := _value_problem(entry))
    ]


def _value_problem(entry: facts.Entry) -> str:
    if entry.event in _BEFORE and entry.iteration_index is None:
        return "iteration_index is missing"
    match entry:
        case facts.LlmResponse() if entry.status not in ANSWER_STATUSES:
            return f"status {entry.status!r}"
        case facts.QualityJudgment() | facts.IterationEnd() if entry.judgment not in JUDGMENTS:
            return f"judgment {entry.judgment!r}"
        case facts.QualityJudgment() if entry.damaged_results:
            return "a criterion's result has no id or no true/false"
        case facts.QualityJudgment() if entry.judgment == "PASS" and entry.failures:
            return f"PASS although {', '.join(result.id for result in entry.failures)} failed"
        case facts.IterationEnd() if entry.stated_index != entry.iteration_index:
            return f"data says iteration {entry.stated_index}, the envelope {entry.iteration_index}"
        case facts.FinalSummary() if entry.status not in FINAL_STATUSES:
            return f"status {entry.status!r}"
        case facts.UserRequest() if entry.has_action and entry.action not in ACTIONS:
            return f"action {entry.action!r}"
    return ""


def check_order(facts: Sequence[tuple[int, facts.Entry]]) -> list[Finding]:
    """Facts that cannot stand where they stand; a missing FINAL_SUMMARY is a note (the task is unfinished)."""
    findings: list[Finding] = []
    before: dict[str | None, tuple[str, int]] = {}
    ended = False
    for position, (seq, entry) in enumerate(facts):
        problem = "stands after FINAL_SUMMARY" if ended else _order_problem(position, entry, before)
        if problem:
            findings.append(Finding("damage", seq + 1, f"{entry.event} {problem}"))
        ended = ended or entry.event == "FINAL_SUMMARY"
        if entry.event in _BEFORE:
            before[entry.subtask_id] = (entry.event, entry.iteration_index or 0)
    if facts and not ended:
        findings.append(Finding("note", 0, f"unfinished after {facts[-1][1].event}"))
    return findings


def _order_problem(position: int, entry: facts.Entry, before: Mapping[str | None, tuple[str, int]]) -> str:
    if position == 0:
        return "" if entry.event == "USER_REQUEST" else "stands first: a trace begins with USER_REQUEST"
    if entry.event == "USER_REQUEST":
        return (
            ""
            if isinstance(entry, facts.UserRequest) and entry.action
            else "without an action stands after the first line"
        )
    allowed = _BEFORE.get(entry.event)
    if allowed is None:
        return ""
    last, index = before.get(entry.subtask_id, (_START, 0))
    if _chunked_order(entry, last):
        return ""
    if last not in allowed:
        return f"stands after {last}" if last != _START else "stands before any LLM_REQUEST"
    now = entry.iteration_index or 0
    expected = index + 1 if entry.event == "LLM_REQUEST" and last not in {_START, "LLM_REQUEST"} else index
    return f"has iteration {now} where {expected} is due" if now != expected else ""


def _chunked_order(entry: facts.Entry, last: str) -> bool:
    """What only a task in subtasks has: the whole judged without an answer of its own, a conflict after a PASS."""
    match entry:
        case facts.QualityJudgment(whole=True):
            return entry.subtask_id is None and last in {_START, "ITERATION_END"}
        case facts.QualityJudgment() if entry.conflict:  # of the task's own: whatever it rested with was accepted
            return last == "QUALITY_JUDGMENT" or entry.subtask_id is None
        case facts.LlmRequest():
            return entry.purpose == REVIEW or (bool(entry.purpose) and last == "LLM_RESPONSE")
    return False


_TASK_STATES: Final = frozenset(TASK_STATUSES)
_LEGAL: Final[Mapping[str, frozenset[str]]] = {
    "QUEUED": frozenset({"RUNNING", "CANCELLED", "ERROR", "UNFINISHED"}),
    "RUNNING": _TASK_STATES - {"RUNNING", "QUEUED"},
    "AWAITING_RESPONSE": _TASK_STATES - {"AWAITING_RESPONSE", "QUEUED"},
    "UNFINISHED": frozenset({"RUNNING", "QUEUED"}),
}
_PAIRS: Final = {"EXECUTOR_RESULT": "EXECUTOR_CALL", "VERIFICATION_RESULT": "VERIFICATION_START"}


def check_session(events: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Balance and legal transitions of one TracePack log; a session that was cut off is a note, not damage."""
    findings: list[Finding] = []
    states: dict[str, str] = {}
    open_calls: dict[tuple[str, str], int] = {}
    for number, event in enumerate(events, 1):
        problem = _session_problem(number, len(events), event, states, open_calls)
        if problem:
            findings.append(Finding("damage", number, f"{event.get('event')} {problem}"))
    if not events or events[-1].get("event") != "SESSION_END":
        findings.append(Finding("note", 0, "the session was cut off: SESSION_END is missing"))
        level: Literal["damage", "note"] = "note"
    else:
        level = "damage"
    findings += [
        Finding(level, 0, f"task {task!r} has no TASK_END (last state {state})") for task, state in states.items()
    ]
    findings += [
        Finding(level, 0, f"{count} {name} of task {task!r} without a result")
        for (name, task), count in open_calls.items()
        if count
    ]
    return findings


def _session_problem(
    number: int,
    total: int,
    event: Mapping[str, Any],
    states: dict[str, str],
    open_calls: dict[tuple[str, str], int],
) -> str:
    name, task = str(event.get("event")), str(event.get("task_id", ""))
    if (name == "SESSION_START") != (number == 1):
        return "does not stand first" if name == "SESSION_START" else "stands before SESSION_START"
    if name == "SESSION_END":
        return "" if number == total else "is not the last event"
    if name in {"TASK_START", "TASK_STATE_CHANGE", "TASK_END"}:
        return _transition_problem(name, task, event, states)
    if name in {"EXECUTOR_CALL", "VERIFICATION_START"}:
        open_calls[name, task] = open_calls.get((name, task), 0) + 1
    elif name in _PAIRS:
        key = (_PAIRS[name], task)
        if not open_calls.get(key):
            return f"without {_PAIRS[name]} of task {task!r}"
        open_calls[key] -= 1
    return ""


def _transition_problem(name: str, task: str, event: Mapping[str, Any], states: dict[str, str]) -> str:
    now = states.get(task)
    before, after = event.get("from_state"), str(event.get("to_state") or "RUNNING")
    if name == "TASK_START":
        states[task] = after
        return f"of task {task!r}, which has started already" if now else ""
    if now is None:
        return f"of task {task!r}, which has not started"
    if name == "TASK_END":
        del states[task]
    else:
        states[task] = after
    if before is not None and before != now:
        return f"from {before!r} although task {task!r} is {now}"
    return "" if after in _LEGAL.get(now, frozenset()) or after == now else f"{now} to {after!r} is no legal transition"
