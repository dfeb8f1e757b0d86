"""The `/trace` text: the seed's header, one line per fact in UTC, and the closing `---`. Pure.

Nothing an agent wrote can span two lines or reach the terminal as a control sequence: line breaks and control,
bidirectional and other invisible formatting characters are shown as escapes. A prompt is one line however long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from unicodedata import category

from tracer.events import Entry
from tracer.verification import unverified_in, unverified_text

_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HIDDEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})


def trace_text(entries: Sequence[Entry], *, task_id: str | None = None) -> str:
    """The whole block, ending in a newline; `task_id` names a task that has no entries."""
    name = entries[0].task_id if entries else task_id or ""
    lines = [f"--- Conversation Trace for {escape_controls(name)} ---"]
    unchanged: dict[str | None, bool] = {}  # a RETRY sends the same prompt again
    for entry in entries:
        if entry.event == "ITERATION_END":
            retried = entry.data.get("judgment") == "RETRY"
            unchanged[entry.subtask_id] = retried and unchanged.get(entry.subtask_id, True)
        lines.append(fact_line(entry, same_prompt=unchanged.get(entry.subtask_id, False)))
    return "\n".join([*lines, "---", ""])


def fact_line(entry: Entry, *, same_prompt: bool = False) -> str:
    """`[YYYY-MM-DD HH:MM:SS] EVENT[i]: summary`; a subtask's id stands before its summary.

    `same_prompt`: an LLM_REQUEST beyond iteration 0 repeats the first prompt (after RETRY) instead of a modified one.
    """
    stamp = escape_controls(entry.timestamp[:19].replace("T", " "))
    index = "" if entry.iteration_index is None else f"[{entry.iteration_index}]"
    if entry.event == "LLM_REQUEST":
        summary = "(modified prompt)" if entry.iteration_index and not same_prompt else "(prompt sent)"
    else:
        describe = _SUMMARIES.get(entry.event)
        summary = describe(entry.data) if describe else ""
    if entry.subtask_id is not None:
        summary = f"[{entry.subtask_id}] {summary}"
    return f"[{stamp}] {escape_controls(entry.event)}{index}: {escape_controls(summary)}".rstrip()


def escape_controls(text: str) -> str:
    r"""`text` on one line, harmless to a terminal: `\n`, `\t`, `\x1b`, `\u202e` instead of what they stand for."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) if _is_hidden(character) else character for character in text)


def _is_hidden(character: str) -> bool:
    return character == "\x7f" or (not character.isprintable() and category(character) in _HIDDEN)


def _escaped(character: str) -> str:
    code = ord(character)
    if code in {0x200D, 0x200C}:  # joiners within emoji and several scripts' words: invisible, harmless
        return character
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _first_line(text: object) -> str:
    return text.strip().split("\n", 1)[0].rstrip() if isinstance(text, str) else ""


def _user_request(data: Mapping[str, Any]) -> str:
    action, prompt = data.get("action"), data.get("prompt", "")
    text = str(prompt)
    if isinstance(action, str):
        return f"({action}) {text}".rstrip()
    return text


def _llm_response(data: Mapping[str, Any]) -> str:
    text = _first_line(data.get("output"))
    if text:
        return text
    error = data.get("error")
    message = _first_line(error.get("message") if isinstance(error, dict) else error)
    return f"({data.get('status')}) {message}".rstrip()


def _quality_judgment(data: Mapping[str, Any]) -> str:
    judgment = str(data.get("judgment", ""))
    if judgment == "RETRY":
        summary = _first_line(data.get("summary"))
        return f"RETRY ({summary})" if summary and summary != "RETRY" else "RETRY"
    if judgment != "REJECT":
        unverified = unverified_text(unverified_in([data]))
        return f"{judgment} ({unverified})" if unverified else judgment
    results = data.get("criteria_results")
    failed = [
        _failure(result, data.get("issues"))
        for result in (results if isinstance(results, list) else ())
        if isinstance(result, dict) and result.get("passed") is False
    ]
    return f"REJECT ({'; '.join(failed)})" if failed else "REJECT"


def _failure(result: Mapping[str, Any], issues: object) -> str:
    """`Q2: TODO found`, and where: the place is added unless the reason names it already."""
    name, reason = str(result.get("id", "?")), str(result.get("reason") or "failed")
    places: list[str] = []
    for issue in issues if isinstance(issues, list) else ():
        if not isinstance(issue, dict) or issue.get("criterion") != name or not isinstance(issue.get("path"), str):
            continue
        line = issue.get("line")
        place = f"{issue['path']}:{line}" if isinstance(line, int) else issue["path"]
        if place not in places and place not in reason:
            places.append(place)
    return f"{name}: {reason}" + (f" at {', '.join(places)}" if places else "")


def _final_summary(data: Mapping[str, Any]) -> str:
    total = data.get("total_iterations")
    count = f"{total} iteration" + ("" if total == 1 else "s")
    return f"{data.get('status', '')} ({count})"


def _chunking_plan(data: Mapping[str, Any]) -> str:
    subtasks = data.get("subtasks")
    count = len(subtasks) if isinstance(subtasks, list) else 0
    if not count:
        return f"(one task) {_first_line(data.get('reason'))}".rstrip()
    return f"({count} subtask{'' if count == 1 else 's'})"


_SUMMARIES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "USER_REQUEST": _user_request,
    "SYSTEM_RULES": lambda _data: "(Mandatory Rules injected)",
    "CHUNKING_PLAN": _chunking_plan,
    "LLM_RESPONSE": _llm_response,
    "QUALITY_JUDGMENT": _quality_judgment,
    "REJECTION_DETAILS": lambda data: _first_line(data.get("modification_prompt")),
    "ITERATION_END": lambda data: str(data.get("judgment", "")),
    "FINAL_SUMMARY": _final_summary,
}
