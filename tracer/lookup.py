"""Finds a task's records by what a person types, and sums them up: iterations, judgments, final status.

A complete id answers for itself only: `task-001` never for `task-001-sub-1` or `task-0010`. `15`, `#15` go by number.
Any other text may be the beginning of exactly one id. A task's files come newest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tracer.errors import NotFoundError
from tracer.facts import Entry, FinalSummary, IterationEnd, QualityJudgment
from tracer.names import LAST
from tracer.statedir import StateDir, parse_trace_name


class Summary(NamedTuple):
    """Seed 001, 5.2: `judgments` in file order; `final_status` is None without FINAL_SUMMARY."""

    total_iterations: int
    judgments: tuple[str, ...]
    final_status: str | None

    def to_dict(self) -> dict[str, object]:
        """As the HTTP answer holds it."""
        return {**self._asdict(), "judgments": list(self.judgments)}


def summarize(entries: Sequence[Entry]) -> Summary:
    """Count every ITERATION_END (RETRY included); a trace without any (the seed's sample) counts its judgments."""
    judgments = tuple(entry.judgment for entry in entries if isinstance(entry, IterationEnd))
    if not judgments:
        judgments = tuple(entry.judgment for entry in entries if isinstance(entry, QualityJudgment))
    final = next((entry for entry in reversed(entries) if isinstance(entry, FinalSummary)), None)
    if final is None:
        return Summary(len(judgments), judgments, None)
    total = len(judgments) if final.total_iterations is None else final.total_iterations
    return Summary(total, judgments, final.status)


def latest_iteration(entries: Sequence[Entry]) -> list[Entry]:
    """The facts of the highest iteration (of each subtask), and FINAL_SUMMARY, in file order."""
    highest: dict[str | None, int] = {}
    for entry in entries:
        if entry.iteration_index is not None:
            highest[entry.subtask_id] = max(highest.get(entry.subtask_id, -1), entry.iteration_index)
    return [
        entry
        for entry in entries
        if entry.event == "FINAL_SUMMARY"
        or (entry.iteration_index is not None and entry.iteration_index == highest[entry.subtask_id])
    ]


_COMPLETE_ID: Final = re.compile(r"task-\d{3,}(?:-sub-\d+)*")
_NUMBER: Final = re.compile(r"#?(\d{1,18})")
_DIGITS: Final = re.compile(r"\d+")
_SHOWN = 5


class TaskRef(NamedTuple):
    """A task that exists: its id and its trace files, newest first (never empty)."""

    task_id: str
    files: tuple[Path, ...]

    @property
    def path(self) -> Path:
        """The newest trace: what every view shows."""
        return self.files[0]

    @property
    def older(self) -> tuple[Path, ...]:
        """Earlier traces of the same task, which the newest one continues."""
        return self.files[1:]


def _files_by_task(names: Iterable[str]) -> dict[str, list[tuple[tuple[str, int], str]]]:
    found: dict[str, list[tuple[tuple[str, int], str]]] = {}
    for name in names:
        parts = parse_trace_name(name)
        if parts:
            found.setdefault(parts.task_id, []).append((parts.order, name))
    return found


def _order(task_id: str) -> tuple[int, str]:
    match = _DIGITS.search(task_id)
    return (int(match[0]) if match else -1, task_id)


def task_ids(state_dir: StateDir) -> list[str]:
    """Every recorded task id, newest (highest number) first."""
    return sorted(_files_by_task(state_dir.trace_names()), key=_order, reverse=True)


def trace_files(state_dir: StateDir, task_id: str) -> list[Path]:
    """The trace files of exactly `task_id`, newest first; empty when it has none."""
    names = [name for name in state_dir.trace_names() if name.startswith(f"conversation-{task_id}-")]
    files = sorted(_files_by_task(names).get(task_id, []), reverse=True)
    return [state_dir.traces / name for _, name in files]


def resolve_task(state_dir: StateDir, selector: str | None) -> TaskRef:
    """The task that `selector` names; None and `--last` name the newest one.

    Raises `NotFoundError` (nothing answers, or more than one task does (the error lists them)).
    """
    if selector == LAST:
        selector = None
    names = state_dir.trace_names()
    wanted = selector.strip() if selector is not None else ""
    found = _files_by_task(_exact(names, wanted) if wanted else names)
    if wanted and wanted not in found and not (_NUMBER.fullmatch(wanted) and _matches(list(found), wanted)):
        found = _files_by_task(names)  # a shortened id, or nothing
    if not found:
        raise NotFoundError("no task is recorded here", next_step='start one: pm run "…"')
    newest_first = sorted(found, key=_order, reverse=True)
    matches = newest_first[:1] if selector is None else _matches(newest_first, wanted)
    if len(matches) == 1:
        files = sorted(found[matches[0]], reverse=True)
        return TaskRef(matches[0], tuple(state_dir.traces / name for _, name in files))
    if not matches:
        raise NotFoundError(
            f"no task matches {selector!r}; newest: {newest_first[0]}", next_step="list them with: pm tasks"
        )
    more = f" and {len(matches) - _SHOWN} more" if len(matches) > _SHOWN else ""
    raise NotFoundError(
        f"{selector!r} could be {len(matches)} tasks: {', '.join(matches[:_SHOWN])}{more}",
        why="a shortened id must fit exactly one task",
        next_step="type more of the id",
    )


def _exact(names: list[str], selector: str) -> list[str]:
    """The names that a complete id or a number can mean: parsing ten thousand names costs 60 ms, this 2."""
    number = _NUMBER.fullmatch(selector)
    if number:
        has_number = re.compile(rf"conversation-task-0*{int(number[1])}-").match
        return [name for name in names if has_number(name) or name.startswith(f"conversation-{selector}-")]
    return [name for name in names if name.startswith(f"conversation-{selector}-")]


def _matches(ids: list[str], selector: str) -> list[str]:
    if selector in ids:
        return [selector]
    number = _NUMBER.fullmatch(selector)
    if number:
        wanted = int(number[1])
        return [one for one in ids if (match := re.fullmatch(r"task-(\d+)", one)) and int(match[1]) == wanted]
    if not selector or _COMPLETE_ID.fullmatch(selector):
        return []
    return [one for one in ids if one.startswith(selector)]
