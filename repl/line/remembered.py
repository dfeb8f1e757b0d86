"""prompt_toolkit's view of the history; saving is done by the line view, masked and in a thread."""

from __future__ import annotations

from prompt_toolkit.history import History as PromptHistory
from typing_extensions import override

from repl.history import History

__all__ = ["Remembered"]


class Remembered(PromptHistory):
    """The project's inputs, newest first."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    @override
    def load_history_strings(self) -> list[str]:
        return list(reversed(self._history.entries("project")))

    @override
    def store_string(self, string: str) -> None:
        return
