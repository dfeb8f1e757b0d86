"""What an agent's records have said so far, whichever command line wrote them. Pure.

A reader folds records into a `Progress` and gives the live updates of each. Success is what the result record says,
never what an exit code or a text suggests; unknown records are noise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from runner.executors.executor_port import AnswerError, Live, Usage
from tracer.redaction.cuts import beginning

_KEPT_CALLS = 200
_SUMMARY = 500


@dataclass(slots=True)
class Progress:
    """`finished` is None until a result record came; then whether it says success. Costs are of this run alone."""

    session_id: str | None = None
    model: str | None = None
    output: str = ""
    finished: bool | None = None
    stop_reason: str | None = None
    error: AnswerError | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    by_model: dict[str, dict[str, Any]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    unreadable_count: int = 0
    calls: list[dict[str, Any]] = field(default_factory=list)
    call_count: int = 0
    edits: int = 0
    failed_edits: int = 0
    denied: int = 0

    def take_spent(self, spent: Spent) -> bool:
        """Take what the session's file told, unless the result has told it; whether that is news."""
        if (self.finished is not None and self.usage is not None) or spent.usage == self.usage:
            return False
        self.usage, self.cost_usd = spent.usage, spent.cost_usd
        self.model = self.model or spent.model
        return True

    def note_call(self, name: str, summary: str, *, ok: bool | None, edit: bool) -> None:
        """A finished tool call; `ok` None where nobody can tell."""
        self.call_count += 1
        self.calls.append({"name": name, "summary": beginning(summary, _SUMMARY), "ok": ok})
        del self.calls[:-_KEPT_CALLS]
        if edit:
            self.edits += 1
            self.failed_edits += ok is False

    def note_unreadable(self, line: bytes) -> None:
        """A line of the output that is no record; the first three are kept for the message."""
        self.unreadable_count += 1
        if len(self.unreadable) < 3:
            self.unreadable.append(beginning(line[:4096].decode("utf-8", "replace"), 300))


class Spent(NamedTuple):
    """What a run has used so far; `cost_usd` None where the price is unknown."""

    usage: Usage
    cost_usd: float | None
    model: str | None


class Reader(Protocol):
    """Folds the records of one run."""

    progress: Progress

    def spent(self, path: Path) -> Spent | None:
        """What the session's own file tells of this run's usage, where the records tell it only with their end.

        None where they tell it as they go, or the file does not. Reads the file; changes nothing.
        """
        ...

    def feed(self, record: Mapping[str, Any]) -> Iterable[Live]:
        """Take one record; gives the live updates that follow from it."""
        ...


def as_mapping(value: object) -> Mapping[str, Any]:
    """`value` where it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_text(value: object) -> str:
    """`value` where it is a text, else ""."""
    return value if isinstance(value, str) else ""


def whole_number(value: object) -> int | None:
    """`value` where it is a count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def summarize_arguments(arguments: Mapping[str, Any]) -> str:
    """One line for users: the command, the path, or all arguments cut short."""
    for name in ("command", "cmd", "file_path", "path", "pattern", "query", "url"):
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return beginning(value, _SUMMARY)
    return beginning(json.dumps(dict(arguments), ensure_ascii=False, default=str), _SUMMARY) if arguments else ""
