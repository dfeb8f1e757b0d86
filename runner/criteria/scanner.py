"""Comments and brackets of text by leaders and quotes alone, where there is no syntax tree to ask. Linear in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from runner.criteria.languages import Language

__all__ = ["Scan", "scan"]

_PAIRS = {b")": b"(", b"]": b"[", b"}": b"{"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What the scanner saw.

    `comments` are (start, end) in bytes; `open_at` is the offset of the first bracket left
    open, None where all are closed; `stray` that of the first closing bracket that opens nothing; `unclosed` is what
    the text ended inside (`string`, `comment` or empty).
    """

    comments: tuple[tuple[int, int], ...]
    open_at: int | None
    stray: int | None
    unclosed: str


@cache
def _tokens(language: Language) -> re.Pattern[bytes]:
    parts: list[str] = []
    for start, end in language.block:
        begin = rf"^{re.escape(start)}" if start == "=begin" else re.escape(start)
        parts.append(rf"(?P<block{len(parts)}>{begin}[\s\S]*?(?:{re.escape(end)}|\Z))")
    for quote in language.quotes:
        mark = re.escape(quote)
        long = len(quote) == 3 or quote == "`"
        inner = r"[\s\S]" if long else r"[^\n\\]"
        parts.append(rf"(?P<string{len(parts)}>{mark}(?:\\[\s\S]|(?!{mark}){inner})*+(?:{mark}|(?=\n)|\Z))")
    for leader in language.line:
        guard = r"(?<![\w$&\\:{#])" if leader in {"#", "::"} else r"(?<!:)" if leader == "//" else ""
        parts.append(rf"(?P<line{len(parts)}>{guard}{re.escape(leader)}[^\n]*)")
    parts.append(r"(?P<bracket>[()\[\]{}])")
    return re.compile("|".join(parts).encode(), re.MULTILINE)


def scan(text: bytes, language: Language) -> Scan:
    """Read `text` once."""
    comments: list[tuple[int, int]] = []
    stack: list[tuple[bytes, int]] = []
    stray: int | None = None
    unclosed = ""
    for match in _tokens(language).finditer(text):
        kind = match.lastgroup or ""
        if kind.startswith(("block", "line")):
            comments.append(match.span())
            if kind.startswith("block") and match.end() == len(text) and not _closed(match.group(), language):
                unclosed = "comment"
        elif kind == "bracket":
            mark = match.group()
            if mark not in _PAIRS:
                stack.append((mark, match.start()))
            elif stack and stack[-1][0] == _PAIRS[mark]:
                stack.pop()
            elif stray is None:
                stray = match.start()
        elif match.end() == len(text) and not _string_closed(match.group(), language):
            unclosed = "string"
    return Scan(comments=tuple(comments), open_at=stack[0][1] if stack else None, stray=stray, unclosed=unclosed)


def _closed(comment: bytes, language: Language) -> bool:
    return any(
        comment.startswith(start.encode()) and comment.endswith(end.encode()) and len(comment) >= len(start) + len(end)
        for start, end in language.block
    )


def _string_closed(text: bytes, language: Language) -> bool:
    return any(
        text.startswith(mark) and text.endswith(mark) and len(text) >= 2 * len(mark)
        for mark in (quote.encode() for quote in language.quotes)
    )
