"""Explicit lists in a request: the only thing that splits a task without a model. Pure.

A list splits by itself (`auto`) only where every item begins with a word for work: a list of constraints, of steps to
reproduce or of examples does not. Items run side by side unless one says `after 2` or names a file of an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from runner.criteria.claims import requested_paths

__all__ = ["is_work_list", "list_items", "listed_plan", "preamble"]

_MARKER = re.compile(r"^(?P<indent>[ \t]*)(?:(?P<number>\d{1,4})[.)]|[-*+•])[ \t]+(?P<text>\S.*)$")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_TASK_BOX = re.compile(r"^\[[ xX]\]\s+")
_AFTER = re.compile(
    r"(?:\((?:after|needs|depends on)\s+(?:items?\s+|steps?\s+|parts?\s+)?|"
    r"\bdepends on\s+(?:items?\s+|steps?\s+|parts?\s+)?|\bafter\s+(?:items?\s+|steps?\s+|parts?\s+|(?=#)))"
    r"(?P<numbers>#?\d{1,4}(?:\s*(?:,|and|&)\s*#?\d{1,4})*)\b",
    re.IGNORECASE,
)
_WORDS: Final = """
add adapt adjust allow build change check clean collect complete configure connect convert correct cover
create define delete deploy describe design develop document drop enable enforce ensure expand expose
extend extract finish fix format generate handle harden implement improve include install integrate
introduce log make measure merge migrate mock modify move normalize optimise optimize package parse
polish port prepare provide publish record reduce refactor release remove rename render reorganise
reorganize replace report restructure rewrite run secure set setup show simplify sort split store support
switch test translate tidy turn unify update upgrade use validate verify wire write
"""
_WORK: Final = frozenset(_WORDS.split())
_JAPANESE_WORK = re.compile(
    r"(?:実装|追加|作成|修正|変更|更新|削除|移行|改善|対応|整理|記述|書く|作る|直す)"
    r"(?:する|して|します|ください)*[。.]?$"
)


def list_items(text: str) -> tuple[str, ...]:
    """The items of the first list in `text` that has two or more, continuation lines included; () without one."""
    for items in _lists(text):
        if len(items) > 1:
            return tuple(items)
    return ()


def _lists(text: str) -> list[list[str]]:
    lists: list[list[str]] = []
    current: list[str] | None = None
    indent, ordered, fenced, gap = 0, False, False, False
    for line in text.split("\n"):
        fenced = fenced != bool(_FENCE.match(line))
        marker = None if fenced or _FENCE.match(line) else _MARKER.match(line.expandtabs(4))
        if marker and (current is None or len(marker["indent"]) <= indent):
            same = current is not None and ordered == bool(marker["number"]) and len(marker["indent"]) == indent
            if current is None or not same:
                current = []
                lists.append(current)
            indent, ordered = len(marker["indent"]), bool(marker["number"])
            current.append(_TASK_BOX.sub("", marker["text"]).rstrip())
        elif current is not None and line.strip():
            deeper = len(line) - len(line.lstrip()) > indent
            if gap and not deeper and not fenced:
                current = None  # a new paragraph: the list is over
            else:
                current[-1] += "\n" + line.rstrip()
        gap = not line.strip()
    return lists


def is_work_list(items: Sequence[str]) -> bool:
    """Whether every item asks for work of its own."""
    return len(items) > 1 and all(_asks_for_work(item) for item in items)


def _asks_for_work(item: str) -> bool:
    first_line = item.split("\n", 1)[0].strip()
    words = re.findall(r"[A-Za-z']+", re.sub(r"^\W*(?:\*\*|__)?", "", first_line))
    leading = [word.lower() for word in words[:2]]
    if leading[:1] == ["please"] or leading[:1] == ["then"]:
        leading = leading[1:]
    return bool(leading and leading[0] in _WORK) or bool(_JAPANESE_WORK.search(first_line))


def preamble(text: str) -> str:
    """What stands before the list: it holds for every item."""
    before: list[str] = []
    for line in text.split("\n"):
        if _MARKER.match(line.expandtabs(4)):
            break
        before.append(line)
    return "\n".join(before).strip()


def listed_plan(items: Sequence[str], *, context: str = "") -> dict[str, Any]:
    """The plan that a list is: one subtask an item."""
    subtasks: list[dict[str, Any]] = []
    named: dict[str, int] = {}
    for number, item in enumerate(items, 1):
        needs = {
            int(digits)
            for found in _AFTER.finditer(item)
            for digits in re.findall(r"\d+", found["numbers"])
            if 0 < int(digits) <= len(items) and int(digits) != number
        }
        paths = requested_paths(item)
        needs |= {named[path] for path in paths if path in named}
        named |= dict.fromkeys(paths, number)
        description = f"{item}\n\nThe request it belongs to begins: {context}" if context else item
        subtasks.append({"id": number, "title": item, "description": description, "dependencies": sorted(needs)})
    return {"subtasks": subtasks}
