"""What the replies of a Gemini session cost, read from its own file while the run goes on.

Gemini CLI prints its counts with the result only, but writes each reply's to the session file as it ends. Records are
appended (`.jsonl`, read on from where the last look stopped) or, in old versions, the file is written anew (`.json`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from runner.executors.agents.native import records_in
from runner.executors.agents.progress import Spent, as_mapping, as_text, whole_number
from runner.executors.port import Usage
from tracer.prices import Tokens, cost_usd

__all__ = ["GeminiUsage"]

_MOST_AT_ONCE: Final = 32 << 20


class GeminiUsage:
    """The replies that a run adds to a session; `path` is the file of a session that goes on, None of a new one."""

    def __init__(self, path: Path | None) -> None:
        self._replies: dict[str, tuple[str, tuple[int, int, int, int]]] = {}
        self._offset = 0
        self._before: set[str] = set()
        if path is None:
            return
        if path.suffix == ".jsonl":
            self._offset = path.stat().st_size if path.is_file() else 0
        else:
            self._before = {as_text(record.get("id")) for record in _rewritten(path)}

    def read(self, path: Path) -> Spent | None:
        """What the run has used by now; None before its first reply."""
        for record in self._appended(path) if path.suffix == ".jsonl" else _rewritten(path):
            tokens, name = record.get("tokens"), as_text(record.get("id"))
            if record.get("type") == "gemini" and isinstance(tokens, dict) and name not in self._before:
                counts = [whole_number(tokens.get(key)) or 0 for key in ("input", "cached", "output", "thoughts")]
                self._replies[name] = (as_text(record.get("model")), (counts[0], counts[1], counts[2], counts[3]))
        if not self._replies:
            return None
        sums = [sum(counts[place] for _, counts in self._replies.values()) for place in range(4)]
        usage = Usage(input_tokens=sums[0], cached_tokens=sums[1], output_tokens=sums[2], thinking_tokens=sums[3])
        costs = [_cost(model, counts) for model, counts in self._replies.values()]
        known = [cost for cost in costs if cost is not None]
        model = next(reversed(self._replies.values()))[0]
        return Spent(usage, round(sum(known), 9) if len(known) == len(costs) else None, model or None)

    def _appended(self, path: Path) -> Iterable[dict[str, Any]]:
        """The whole lines that came since the last look."""
        try:
            with path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(_MOST_AT_ONCE)
        except OSError:
            return
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == _MOST_AT_ONCE:
            whole = len(data)  # one line longer than this: its end is no record, and is passed over
        self._offset += whole
        yield from records_in(line for line in data[:whole].split(b"\n") if b'"tokens"' in line)


def _rewritten(path: Path) -> Iterable[dict[str, Any]]:
    try:
        if path.stat().st_size > _MOST_AT_ONCE:
            return []
        messages = as_mapping(json.loads(path.read_bytes())).get("messages")
    except (OSError, ValueError, RecursionError):  # half written: the next look finds it whole
        return []
    return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def _cost(model: str, counts: tuple[int, int, int, int]) -> float | None:
    sent, cached, said, thought = counts
    return cost_usd(model, Tokens.of_prompt(sent, cached=cached, output=said + thought))
