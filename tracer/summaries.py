"""Pure views over a trace's entries: the seed's summary and its latest iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # orjson costs 37 ms, which `pm tasks` must not pay
    from tracer.events import Entry

__all__ = ["Summary", "latest_iteration", "summarize"]


class Summary(NamedTuple):
    """Seed 001, 5.2: `judgments` in file order; `final_status` is None without FINAL_SUMMARY."""

    total_iterations: int
    judgments: tuple[str, ...]
    final_status: str | None

    def to_dict(self) -> dict[str, object]:
        """As the HTTP answer holds it."""
        return {
            "total_iterations": self.total_iterations,
            "judgments": list(self.judgments),
            "final_status": self.final_status,
        }


def summarize(entries: Sequence[Entry]) -> Summary:
    """Count every ITERATION_END (RETRY included); a trace without any (the seed's sample) counts its judgments."""
    judgments = tuple(str(entry.data["judgment"]) for entry in entries if entry.event == "ITERATION_END")
    if not judgments:
        judgments = tuple(str(entry.data["judgment"]) for entry in entries if entry.event == "QUALITY_JUDGMENT")
    final = next((entry for entry in reversed(entries) if entry.event == "FINAL_SUMMARY"), None)
    total = len(judgments)
    if final is not None and type(final.data.get("total_iterations")) is int:
        total = final.data["total_iterations"]
    return Summary(total, judgments, str(final.data.get("status")) if final else None)


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
