"""What a person entered at the prompt, as far as the shell tells, and which stopped command goes on with `fg`.

bash says a line through its history, which tells nothing new for a line it leaves out: a repetition, or one with a
leading space, which is not recorded.
"""

from __future__ import annotations

import shlex
from typing import Final, NamedTuple

from collector.recorder.marks import Mark
from collector.recorder.recognise import Line
from collector.recorder.shell_words import numbered, shows

__all__ = ["UNKNOWN", "WITHHELD", "Entered", "Stopped"]

WITHHELD: Final = "[not recorded: typed with a leading space]"
UNKNOWN: Final = "[not recorded: the shell keeps no history]"
_PROMPT_BYTES: Final = 64 << 10


class Entered:
    """The lines of one shell. `drawn` takes what the terminal shows at the prompt, `prompt` begins a new one."""

    def __init__(self) -> None:
        self._history = -1
        self._at_prompt = b""

    def drawn(self, data: bytes) -> None:
        """More was drawn at the prompt."""
        self._at_prompt = (self._at_prompt + data)[-_PROMPT_BYTES:]

    def prompt(self) -> None:
        """A new prompt begins."""
        self._at_prompt = b""

    def passed_over(self, mark: Mark) -> None:
        """A line that is not recorded, but counts in the shell's history."""
        self._history = numbered(mark)[0]

    def text_of(self, mark: Mark, typed: bytes) -> str:
        """The line, or `WITHHELD` or `UNKNOWN`; `typed` is what was typed first since the prompt."""
        if mark.fields[:1] != ("bash",):
            withheld = mark.fields[:1] == ("withheld",)
            return WITHHELD if withheld else mark.text.decode("utf-8", "replace").strip("\n")
        number, text = numbered(mark)
        same, self._history = number == self._history, number
        if not text:
            return UNKNOWN
        if not same:
            return text
        # Left out of the history: a repetition (the prompt shows the same text again), or a line with a leading space.
        spaced = typed.removeprefix(b"\x1b[200~").startswith(b" ")
        return text if not spaced and shows(self._at_prompt, text) else WITHHELD


class _Job(NamedTuple):
    text: str
    line: Line


class Stopped:
    """The commands that Ctrl+Z stopped, in the order in which they were."""

    def __init__(self) -> None:
        self._jobs: list[_Job] = []

    def stop(self, text: str, line: Line) -> None:
        """The command was stopped."""
        self._jobs.append(_Job(text, line))

    def resumed_by(self, text: str) -> tuple[str, Line] | None:
        """Text and line of the command that `text` (`fg`, `fg %2`, `%vim`) brings back; None where it brings none.

        Without a number or a name it is the one that was stopped last. What is brought back is stopped no more.
        """
        try:
            words = shlex.split(text)
        except ValueError:
            return None
        if not words or (words[0] != "fg" and not words[0].startswith("%")) or not self._jobs:
            return None
        wanted = next((word for word in words if word.startswith("%")), "").lstrip("%+")
        if wanted.isdigit():
            place = int(wanted) - 1
        else:
            place = next((at for at, job in enumerate(self._jobs) if wanted and job.text.startswith(wanted)), -1)
        return self._jobs.pop(place if place < len(self._jobs) else -1)
