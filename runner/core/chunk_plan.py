"""Plans for chunked tasks: read from lists or JSON, validated, written for people. Pure.

Plans come from models, files and people, so nothing about their shape is assumed. A list in a request splits by
itself only where every item begins with a verb for work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NamedTuple

from runner.claimed_paths import requested_paths
from runner.executors.executor_port import EXECUTOR_NAMES
from tracer.errors import UsageError
from tracer.facts import Subtask
from tracer.redaction.cuts import beginning

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


# The first line of a request for a plan; a script's reply may match it.
PLAN_HEADLINE: Final = "Plan how to split this request into subtasks."
_MOST_SUBTASKS: Final = 10_000
_MOST_FILES: Final = 200
_TITLE: Final = 80
_TEXT: Final = 50_000
_SIZES: Final = ("small", "medium", "large")
_PLAN_FENCE = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)

PLAN_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["subtasks"],
    "properties": {
        "subtasks": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["id", "title", "description", "acceptance", "files_expected", "dependencies", "size"],
                "properties": {
                    "id": {"type": "string", "description": "short and unique, such as 1"},
                    "title": {"type": "string"},
                    "description": {"type": "string", "description": "all that whoever does it must know"},
                    "acceptance": {"type": "string", "description": "how one sees that it is done"},
                    "files_expected": {"type": "array", "items": {"type": "string"}},
                    "dependencies": {"type": "array", "items": {"type": "string"}, "description": "ids"},
                    "size": {"type": "string", "enum": list(_SIZES)},
                },
            },
        }
    },
}


class Checked(NamedTuple):
    """The subtasks as CHUNKING_PLAN holds them, in the order given; or why there are none."""

    subtasks: tuple[dict[str, Any], ...] = ()
    problem: str = ""


def check_plan(plan: object, *, task_id: str, by_person: bool = False) -> Checked:
    """Check `plan` (an object with `subtasks`, or their list) and give its subtasks the ids `<task>-sub-<n>`.

    `by_person`: subtasks may name an `executor` and `model` of their own; a model is not to choose who is paid.
    """
    listed = plan.get("subtasks") if isinstance(plan, dict) else plan
    if not isinstance(listed, list | tuple):
        return Checked(problem="it has no list of subtasks")
    if len(listed) > _MOST_SUBTASKS:
        return Checked(problem=f"it has {len(listed)} subtasks; at most {_MOST_SUBTASKS} are possible")
    names: dict[str, str] = {}
    for number, item in enumerate(listed, 1):
        if not isinstance(item, dict):
            return Checked(problem=f"subtask {number} is not an object")
        name = _name(item.get("id"), number)
        if name in names:
            return Checked(problem=f"two subtasks have the id {name!r}")
        names[name] = f"{task_id}-sub-{number}"
    subtasks: list[dict[str, Any]] = []
    for number, item in enumerate(listed, 1):
        made = _subtask(item, number, names)
        if isinstance(made, str):
            return Checked(problem=made)
        if by_person:
            made |= {key: item[key] for key in ("executor", "model") if isinstance(item.get(key), str) and item[key]}
            if str(made.get("executor", "scripted")).partition(":")[0] not in EXECUTOR_NAMES:
                return Checked(problem=f"subtask {number} asks for {made['executor']!r}, which is no executor")
        subtasks.append(made)
    cycle = _cycle(subtasks)
    return Checked(problem=cycle) if cycle else Checked(tuple(subtasks))


def require_plan(plan: object, *, next_step: str = "fix it and give it again") -> None:
    """Refuse a user's plan that cannot be carried out with a UsageError, before anything is recorded."""
    checked = check_plan(plan, task_id="task", by_person=True)
    if checked.problem:
        raise UsageError("the plan cannot be carried out", why=checked.problem, next_step=next_step)


def _name(given: object, number: int) -> str:
    if isinstance(given, str) and given.strip():
        return given.strip()
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else str(number)


def _subtask(item: Mapping[str, Any], number: int, names: Mapping[str, str]) -> dict[str, Any] | str:
    description = _text(item.get("description")) or _text(item.get("title"))
    if not description:
        return f"subtask {number} has no description"
    needs = item.get("dependencies") or []
    if not isinstance(needs, list | tuple):
        return f"the dependencies of subtask {number} are not a list"
    dependencies: list[str] = []
    for need in needs:
        if isinstance(need, bool) or not isinstance(need, str | int):
            return f"subtask {number} depends on {need!r}, which is no id"
        if str(need).strip() not in names:
            return f"subtask {number} depends on {str(need)!r}, which is not in the plan"
        dependencies.append(names[str(need).strip()])
    subtask: dict[str, Any] = {
        "id": names[_name(item.get("id"), number)],
        "title": _title(_text(item.get("title")) or description),
        "description": description,
        "dependencies": list(dict.fromkeys(dependencies)),
    }
    if acceptance := _text(item.get("acceptance")):
        subtask["acceptance"] = acceptance
    if files := _files(item.get("files_expected")):
        subtask["files_expected"] = files
    if item.get("size") in _SIZES:
        subtask["size"] = item["size"]
    return subtask


def _text(value: object) -> str:
    return beginning(value.strip(), _TEXT) if isinstance(value, str) else ""


def _title(text: str) -> str:
    return beginning(text.split("\n", 1)[0].strip(), _TITLE)


def _files(value: object) -> list[str]:
    listed = value if isinstance(value, list) else []
    return [path.strip() for path in listed if isinstance(path, str) and path.strip()][:_MOST_FILES]


def _cycle(subtasks: Sequence[Mapping[str, Any]]) -> str:
    graph = {item["id"]: item["dependencies"] for item in subtasks if item["dependencies"]}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return "subtasks wait for each other: " + " -> ".join(str(name) for name in reversed(error.args[1]))
    return ""


def plan_of_text(text: str) -> object:
    """The plan in a model's answer: JSON alone, in a code block, or between prose. None where there is none."""
    candidates = [text, *(block for block in _PLAN_FENCE.findall(text))]
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        candidates.append(text[start : end + 1])
    for candidate in candidates:
        try:
            found = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get("subtasks"), list):
            return found
    return None


def read_plan(text: str) -> dict[str, Any]:
    """A plan that a user wrote: JSON with `subtasks`, or a numbered or bulleted list. An empty list is allowed.

    A UsageError says what else it is, or what in it cannot be carried out.
    """
    if text.lstrip().startswith(("{", "[")):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError("the plan is not JSON", why=str(error), next_step=_NEXT) from error
        found = {"subtasks": found} if isinstance(found, list) else found
    elif items := list_items(text):
        found = listed_plan(items)
    else:
        raise UsageError("the plan cannot be carried out", why="it holds no list", next_step=_NEXT)
    require_plan(found, next_step=_NEXT)
    return {"subtasks": found["subtasks"]}


_NEXT: Final = 'write {"subtasks": [{"id": 1, "description": "…", "dependencies": []}]} or a numbered list'


def plan_text(subtasks: Sequence[Subtask]) -> str:
    """Subtasks as JSON for a user to edit; `read_plan` reads it back. Ids are their numbers."""
    numbers = {item.id: number for number, item in enumerate(subtasks, 1)}
    needs = {item.id: [numbers[need] for need in item.dependencies if need in numbers] for item in subtasks}
    shown = [{**item.data, "id": numbers[item.id], "dependencies": needs[item.id]} for item in subtasks]
    return json.dumps({"subtasks": shown}, indent=2, ensure_ascii=False) + "\n"
