"""What a session prints, in blocks that know what they are: views render a block by its kind, never by its words."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from repl.present.answer import answer_lines
from repl.present.text import escape

# `good` and `bad` are verdicts; `answer` and `question` hold Markdown, `diff` a unified diff, the others lines.
Kind = Literal["text", "typed", "task", "good", "bad", "detail", "error", "answer", "question", "diff"]
_VERDICTS: Final = {"PASS": "\x1b[32m", "REJECT": "\x1b[31m"}
_DIFF: Final = {
    "+++ ": "\x1b[1m",
    "--- ": "\x1b[1m",
    "diff": "\x1b[1m",
    "@@": "\x1b[2m",
    "+": "\x1b[32m",
    "-": "\x1b[31m",
}


class Block(NamedTuple):
    """`whole_by` is the command that shows all of an answer; with it a view may fold."""

    kind: Kind
    text: str
    whole_by: str = ""


def diff_kind(line: str) -> str:
    """The mark that says what a line of a unified diff is; empty for an unchanged one."""
    return next((mark for mark in _DIFF if line.startswith(mark)), "")


def block_lines(block: Block, *, columns: int, colour: bool) -> list[str]:
    """The block on a terminal of `columns` (0: no terminal, as it is)."""
    match block.kind:
        case "answer":
            lines = answer_lines(block.text, columns=columns, styled=colour, whole_by=block.whole_by)
            return [*([""] if columns else []), *lines, ""]
        case "question":
            head, _, text = block.text.partition("\n")
            return [f"  {escape(head)}", *answer_lines(text, columns=max(columns, 1))]
        case "diff":
            lines = escape(block.text.replace("\r\n", "\n").removesuffix("\n")).split("\n")
            return [f"{_DIFF[mark]}{one}\x1b[0m" if colour and (mark := diff_kind(one)) else one for one in lines]
    rows = block.text.split("\n")
    if 0 < columns < max(map(len, rows)):
        from repl.present.cells import hanging  # 5 ms with rich's table of widths, only where something is wrapped

        rows = [piece.rstrip() for row in rows for piece in hanging(row, columns)]
    if colour and block.kind == "task":
        return [f"\x1b[1m{row}\x1b[0m" for row in rows]
    if colour and block.kind in {"good", "bad"}:
        word = "PASS" if block.kind == "good" else "REJECT"
        rows[0] = rows[0].replace(word, f"{_VERDICTS[word]}{word}\x1b[0m", 1)
    return rows
