"""A unified diff as lines for a terminal: as it is, or old and new side by side. Pure; everything is escaped.

Long diffs are never cut in silence: the caller decides, and says how much was left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from repl.present.escape import escape, width_cut
from repl.present.output import Output

__all__ = ["diff_lines", "side_by_side"]


def diff_lines(diff: bytes, output: Output) -> list[str]:
    """The diff's lines, escaped; added green and removed red where colour is on."""
    return [_tinted(line, output) for line in _lines(diff)]


def side_by_side(diff: bytes, output: Output) -> list[str]:
    """Old on the left, new on the right, in the terminal's width (160 columns elsewhere)."""
    half = max(((output.columns or 160) - 3) // 2, 20)
    lines: list[str] = []
    removed: list[str] = []
    added: list[str] = []

    def flush() -> None:
        for index in range(max(len(removed), len(added))):
            left = removed[index] if index < len(removed) else ""
            right = added[index] if index < len(added) else ""
            mark = "|" if left and right else "<" if left else ">"
            lines.append(_pair(left, right, mark, half))
        removed.clear()
        added.clear()

    in_hunk = False
    for line in _lines(diff):
        if line.startswith("diff ") or (not in_hunk and line[:4] in {"--- ", "+++ ", "new ", "dele", "inde"}):
            flush()
            in_hunk = False
            lines.append(output.bold(line))
        elif line.startswith("@@"):
            flush()
            in_hunk = True
            lines.append(output.dim(line))
        elif line.startswith("-"):
            removed.append(line[1:])
        elif line.startswith("+"):
            added.append(line[1:])
        else:
            flush()
            lines.append(_pair(line[1:], line[1:], " ", half) if in_hunk else line)
    flush()
    return lines


def _pair(left: str, right: str, mark: str, half: int) -> str:
    from unicodedata import east_asian_width

    shown = width_cut(left.expandtabs(4), half)
    wide = sum(east_asian_width(char) in "WF" for char in shown)
    return f"{shown:<{half - wide}} {mark} {width_cut(right.expandtabs(4), half)}".rstrip()


def _lines(diff: bytes) -> Iterator[str]:
    text = diff.decode("utf-8", "backslashreplace")
    return (escape(line.rstrip("\r")) for line in text.removesuffix("\n").split("\n"))


def _tinted(line: str, output: Output) -> str:
    if line.startswith(("+++ ", "--- ", "diff ")):
        return output.bold(line)
    if line.startswith("@@"):
        return output.dim(line)
    if line[:1] in {"+", "-"}:
        return output.tinted(line, good=line[0] == "+")
    return line
