"""What an agent says and does just now, as rows that a view repaints: decoration, gone once the answer is there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from repl.present.text import escape, one_line, width_cut
from runner.executors.executor_port import Live

_TEXT: Final = 6_000
_THOUGHT: Final = 1_500
_TOOLS: Final = 8
_ENDS: Final = {True: "v", False: "x", None: "-"}
_THINKS: Final = "…"


@dataclass(slots=True)
class Doing:
    """Something an agent does or thinks; `mark` is `>` while it goes on, `…` for a thought, else how it ended."""

    mark: str
    text: str
    began: float
    ended: float | None = None


class LiveStream:
    """The stream of one task; of parallel subtasks the one that spoke last."""

    def __init__(self) -> None:
        self.text = ""
        self.doing: deque[Doing] = deque(maxlen=_TOOLS)
        self._speaker: str | None = None

    def reset(self) -> None:
        self.text = ""
        self.doing.clear()

    def feed(self, update: Live, *, now: float = 0.0) -> None:
        if update.kind in {"text", "thinking", "tool_started"} and update.subtask_id != self._speaker:
            self._speaker = update.subtask_id
            self.reset()
        match update.kind:
            case "text":
                self.text = (self.text + update.text)[-_TEXT:]
            case "thinking":
                if not self.doing or self.doing[-1].mark != _THINKS:
                    self.doing.append(Doing(_THINKS, "", now))
                self.doing[-1].text = (self.doing[-1].text + update.text)[-_THOUGHT:]
            case "tool_started":
                if self.text and not self.text.endswith("\n"):
                    self.text += "\n"  # what it says after the tool begins a line of its own
                self.doing.append(Doing(">", _named(update), now))
            case "tool_finished":
                self._finish(update, now)

    def recent(self, columns: int, *, now: float, most: int = 3) -> list[str]:
        """The last tool calls and thoughts, a row each, with how long they take or took."""
        rows = []
        for one in list(self.doing)[-most:]:
            text = one.text if one.mark != _THINKS else "".join(wrapped(one.text, columns - 2)[-1:])
            took = (now if one.ended is None else one.ended) - one.began
            elapsed = f" · {took:.0f} s" if one.mark != _THINKS and took >= 1 else ""
            rows += [width_cut(f"{one.mark} {text}", columns - len(elapsed)) + elapsed] if text else []
        return rows

    def text_rows(self, columns: int, most: int) -> list[str]:
        """The last `most` rows of the text, wrapped to `columns` cells; what it thinks before there is any."""
        thoughts = [one.text for one in self.doing if one.mark == _THINKS]
        return wrapped(self.text, columns)[-most:] or [
            f"{_THINKS} {row}" for row in wrapped("".join(thoughts[-1:]), columns - 2)[-1:]
        ]

    def detail_rows(self, columns: int, most: int, *, now: float) -> list[str]:
        """Tools and thoughts with how they ended, then the end of the text: at most `most` rows."""
        doing = self.recent(columns, now=now, most=_TOOLS)
        room = max(most - min(len(doing), most // 2), 1)
        text = wrapped(self.text, columns)[-room:]
        return [*doing[-max(most - len(text), 1) :], *text][-most:]

    def _finish(self, update: Live, now: float) -> None:
        running = [one for one in self.doing if one.mark == ">"]
        named = next((one for one in reversed(running) if one.text.split(" ", 1)[0] == one_line(update.tool, 20)), None)
        if named is None:
            self.doing.append(named := Doing("", _named(update), now))
        elif update.text:
            named.text = _named(update)
        named.mark, named.ended = _ENDS[update.ok], now


def _named(update: Live) -> str:
    return f"{one_line(update.tool, 20)} {one_line(update.text, 160)}".strip()


def wrapped(text: str, columns: int) -> list[str]:
    """`text`, escaped, in rows of at most `columns` cells, broken at blanks where one is near; no blank rows."""
    from repl.present.cells import wrap  # 5 ms, only while live text is shown

    lines = (line.rstrip() for line in escape(text).expandtabs(4).split("\n"))
    return [row.rstrip() for line in lines for row in wrap(line, columns) if row.strip()]


def stream_lines(
    stream: LiveStream, *, now: float, columns: int, rows: int, live: bool = False, detail: bool = False
) -> list[str]:
    """What the agent does just now: its last calls or thoughts, with `live` its text, with `detail` more of all."""
    width, most = max(columns - 7, 20), max(min(rows // 3, 12), 3)
    if detail:
        found = stream.detail_rows(width, most, now=now)
    else:
        found = stream.text_rows(width, most) if live else stream.recent(width, now=now)
    return [f"      {line}" for line in found]
