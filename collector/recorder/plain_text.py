"""What a terminal showed, as plain text: colours and cursor moves taken out, overwritten progress lines kept once.

Lines that a carriage return or backspace overwrites read as they looked in the end. Full-screen programs (vim, less,
top: the alternate screen) leave one line that says how much they drew. Incremental; memory is one line. Pure.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

__all__ = ["PlainText"]

_SEQUENCE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # two-character and charset sequences
    r"|[\x00-\x08\x0a-\x1a\x1c-\x1f\x7f]"
)
_UNFINISHED: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)$")
_ALTERNATE: Final = re.compile(r"\x1b\[\?(?:[0-9]+;)*(?:1049|1047|47)(?:;[0-9]+)*([hl])")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LONGEST_SEQUENCE: Final = 64 << 10
_LONGEST_LINE: Final = 64 << 10


class PlainText:
    """One command's output. `feed` bytes, then `close`; joined, what they return is the text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._line: list[str] = []
        self._at = 0
        self._drawn = 0
        self._alternate = False

    def feed(self, data: bytes) -> str:
        """Whole lines that are settled by now."""
        return self._take(self._held + self._decoder.decode(data), last=False)

    def close(self) -> str:
        """Everything left."""
        text = self._take(self._held + self._decoder.decode(b"", final=True), last=True)
        return text + self._leave() + self._flush_line()

    def _take(self, text: str, *, last: bool) -> str:
        self._held = ""
        if not last:
            open_end = _UNFINISHED.search(text, max(len(text) - _LONGEST_SEQUENCE, 0))
            if open_end:
                self._held, text = text[open_end.start() :], text[: open_end.start()]
            elif text.endswith("\r"):  # half a line end
                self._held, text = "\r", text[:-1]
        out: list[str] = []
        if self._line:  # the line that is open, up to its end
            end = text.find("\n") + 1
            self._interpret(text[:end], out)
            text = text[end:]
        self._interpret(self._plain_lines(text, out), out)
        return "".join(out)

    def _interpret(self, text: str, out: list[str]) -> None:
        """Do what the text and its control sequences say."""
        at = 0
        for match in _SEQUENCE.finditer(text):
            self._write(text[at : match.start()], out)
            self._control(match.group(), out)
            at = match.end()
        self._write(text[at:], out)

    def _plain_lines(self, text: str, out: list[str]) -> str:
        """Take whole lines without any control in one step (most output is such); what is left of `text`."""
        if self._alternate or self._line:
            return text
        end = text.rfind("\n") + 1
        lines = text[:end].replace("\r\n", "\n")
        if not lines or _CONTROL.search(lines):
            return text
        out.append(lines)
        return text[end:]

    def _write(self, text: str, out: list[str]) -> None:
        if not text:
            return
        if self._alternate:
            self._drawn += len(text)
            return
        text = text.replace("\x1b", "")
        self._line[self._at : self._at + len(text)] = text
        self._at += len(text)
        if len(self._line) > _LONGEST_LINE:
            out.append(self._flush_line())

    def _control(self, sign: str, out: list[str]) -> None:
        alternate = _ALTERNATE.fullmatch(sign)
        if alternate:
            if alternate[1] == "h":
                open_line = self._flush_line()
                out.append(open_line + "\n" if open_line else "")
                self._alternate = True
            else:
                out.append(self._leave())
        elif self._alternate:
            self._drawn += len(sign)
        elif sign == "\n":
            self._line.append("\n")
            out.append(self._flush_line())
        elif sign == "\r":
            self._at = 0
        elif sign == "\b":
            self._at = max(self._at - 1, 0)
        elif sign in {"\x1b[K", "\x1b[0K"}:
            del self._line[self._at :]
        elif sign == "\x1b[2K":
            self._line = [" "] * self._at

    def _leave(self) -> str:
        if not self._alternate:
            return ""
        self._alternate = False
        drawn, self._drawn = self._drawn, 0
        return f"[full-screen program: {drawn:,} characters drawn, not kept]\n"

    def _flush_line(self) -> str:
        text, self._line, self._at = "".join(self._line), [], 0
        return text
