"""The answer's text taken apart: fenced blocks, quotations, and the prose between them.

Promises: every line of the answer belongs to exactly one part; line numbers are 1-based in the answer; inline code
and quoted words inside a prose line are blanked (same length), so that what is left is the author's own voice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from runner.gate.wording import later

_OPEN = later(r"^(?P<indent>[ \t]{0,12}|(?:[ \t]*(?:[-*+]|\d+[.)])[ \t]+))(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$")
_INLINE = later(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
QUOTED = re.compile(
    r"\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|«[^»\n]{1,200}»|„[^“”\n]{1,200}[“”]|「[^」\n]{1,200}」|『[^』\n]{1,200}』|"
    r"(?<!\w)'[^'\n]{1,120}'(?!\w)|‘[^’\n]{1,120}’(?!\w)"
)


class Fence(NamedTuple):
    """One fenced block. `line` is that of the opening fence; `body` has no fence lines; `info` is the info string.

    `lead` is the nearest non-empty line of prose before it; `closed` is false where the answer ends inside it.
    """

    info: str
    body: str
    line: int
    lead: str = ""
    closed: bool = True

    @property
    def language(self) -> str:
        """The first word of the info string, lower case, without braces, dot or attached path."""
        word = self.info.strip().split(maxsplit=1)[0] if self.info.strip() else ""
        return word.strip("{}.").split(":", 1)[0].split(",", 1)[0].lower()


class Prose(NamedTuple):
    """One line of prose: `raw` as written, `text` with inline code and quoted words blanked."""

    line: int
    raw: str
    text: str


class Answer(NamedTuple):
    """The parts of an answer in order."""

    fences: tuple[Fence, ...]
    prose: tuple[Prose, ...]


def blank(match: re.Match[str]) -> str:
    """As many blanks as were matched."""
    return " " * len(match.group())


def _voice(line: str) -> str:
    if line.lstrip().startswith(">"):
        return ""
    return QUOTED.sub(blank, _INLINE.sub(blank, line))


def _closes(line: str, mark: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(mark) and set(stripped) == {mark[0]}


def read_answer(text: str) -> Answer:
    """Split `text` into fenced blocks and prose; a fence that never closes runs to the end."""
    fences: list[Fence] = []
    prose: list[Prose] = []
    lead = ""
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index].rstrip("\r")
        opened = _OPEN.match(line)
        if opened is None:
            prose.append(Prose(line=index + 1, raw=line, text=_voice(line)))
            lead = line.strip() or lead
            index += 1
            continue
        end = _end_of_fence(lines, index + 1, opened["mark"], opened["info"].strip().lower())
        body = _dedent(lines[index + 1 : end], len(opened["indent"]))
        closed = end < len(lines)
        fences.append(Fence(info=opened["info"].strip(), body=body, line=index + 1, lead=lead, closed=closed))
        lead = ""
        index = end + 1
    return Answer(fences=tuple(fences), prose=tuple(prose))


def _end_of_fence(lines: list[str], start: int, mark: str, info: str) -> int:
    """The line of the closing fence; a Markdown block may hold fences of its own."""
    nested = info.split(maxsplit=1)[0] in {"markdown", "md"} if info else False
    depth = 0
    for index in range(start, len(lines)):
        line = lines[index]
        if _closes(line, mark):
            if not depth:
                return index
            depth -= 1
        elif (
            nested
            and (inner := _OPEN.match(line.rstrip("\r")))
            and inner["info"].strip()
            and len(inner["mark"]) >= len(mark)  # a shorter one cannot close the outer one either
        ):
            depth += 1
    return len(lines)


def _dedent(lines: list[str], indent: int) -> str:
    if not indent:
        return "\n".join(lines)
    return "\n".join(line[indent:] if not line[:indent].strip() else line for line in lines)
