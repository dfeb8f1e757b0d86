"""What an agent is doing in the answer it is giving now, from its live updates: decoration, bounded, never recorded.

`text_rows` is the end of the answer's text as it arrives (`/live on`); `detail_rows` adds the tools it used and what it
thinks (Ctrl+O). Both begin anew with each request; nothing an agent sends can reach the terminal unescaped.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from repl.present.escape import escape, one_line
from runner.executors.port import Live

__all__ = ["LiveStream", "wrapped"]

_TEXT: Final = 6_000
_THOUGHT: Final = 1_500
_TOOLS: Final = 8
_ENDS: Final = {True: "v", False: "x", None: "-"}


class LiveStream:
    """The stream of one task; of parallel subtasks the one that spoke last."""

    def __init__(self) -> None:
        self.text = ""
        self.thought = ""
        self.tools: deque[tuple[str, str]] = deque(maxlen=_TOOLS)
        self._speaker: str | None = None

    def reset(self) -> None:
        """A new request begins."""
        self.text = self.thought = ""
        self.tools.clear()

    def feed(self, update: Live) -> None:
        """Take one update."""
        if update.kind in {"text", "thinking", "tool_started"} and update.subtask_id != self._speaker:
            self._speaker = update.subtask_id
            self.reset()
        match update.kind:
            case "text":
                self.text = (self.text + update.text)[-_TEXT:]
            case "thinking":
                self.thought = (self.thought + update.text)[-_THOUGHT:]
            case "tool_started":
                if self.text and not self.text.endswith("\n"):
                    self.text += "\n"  # what it says after the tool begins a line of its own
                self.tools.append((_named(update), ">"))
            case "tool_finished":
                self._finish(update)

    def text_rows(self, columns: int, most: int) -> list[str]:
        """The last `most` rows of the text, wrapped to `columns` cells; what it thinks before there is any."""
        rows = wrapped(self.text, columns)[-most:]
        return rows or [f"thinking: {row}" for row in wrapped(self.thought, max(columns - 10, 10))[-1:]]

    def detail_rows(self, columns: int, most: int) -> list[str]:
        """Tools with how they ended, the end of the thoughts, the end of the text: at most `most` rows."""
        tools = [f"{end} {name}" for name, end in self.tools]
        thought = [f"thinking: {row}" for row in wrapped(self.thought, max(columns - 10, 10))[-2:]]
        room = max(most - len(thought) - min(len(tools), most // 2), 1)
        text = wrapped(self.text, columns)[-room:]
        left = max(most - len(thought) - len(text), 0)
        return [*(tools[-left:] if left else []), *thought, *text][-most:]

    def _finish(self, update: Live) -> None:
        for index in range(len(self.tools) - 1, -1, -1):
            name, end = self.tools[index]
            if end == ">" and name.split(" ", 1)[0] == one_line(update.tool, 20):
                self.tools[index] = (_named(update) if update.text else name, _ENDS[update.ok])
                return
        self.tools.append((_named(update), _ENDS[update.ok]))


def _named(update: Live) -> str:
    return f"{one_line(update.tool, 20)} {one_line(update.text, 160)}".strip()


def wrapped(text: str, columns: int) -> list[str]:
    """`text`, escaped, in rows of at most `columns` cells, broken at blanks where one is near; no blank rows."""
    from rich.cells import cell_len, chop_cells  # 5 ms, only while live text is shown

    width = max(columns, 2)
    rows: list[str] = []
    for line in escape(text).expandtabs(4).split("\n"):
        rest = line.rstrip()
        while cell_len(rest) > width:
            piece = chop_cells(rest, width)[0]
            blank = piece.rfind(" ")
            piece = piece[: blank + 1] if blank > len(piece) // 2 else piece
            rows.append(piece.rstrip())
            rest = rest[len(piece) :]
        rows += [rest] if rest else []
    return [row for row in rows if row.strip()]
