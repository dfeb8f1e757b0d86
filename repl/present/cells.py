"""Recorded text for terminal cells: nothing in it can move the cursor, and every terminal agrees on its width.

Beside what `repl.present.text` makes visible, joiners, variation selectors and skin tones are left out (terminals
disagree about the width of what they join) and invisible characters are shown. Copying and raw views keep the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len, get_character_cell_size, set_cell_size

from repl.present.text import escape

_TAB: Final = "    "
_INVISIBLE: Final = (
    0xAD, 0x061C, 0x115F, 0x1160, 0x180E, 0x200B, 0x200C, *range(0x2060, 0x2066), 0x3164, 0xFEFF, 0xFFA0,
)  # fmt: skip
_HIDDEN: Final = {
    0x09: _TAB, 0x200D: "", 0xFE0E: "", 0xFE0F: "",
    **dict.fromkeys(range(0x1F3FB, 0x1F400), ""),
    **{point: f"\\u{point:04x}" for point in _INVISIBLE},
}  # fmt: skip
_STACKED: Final = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{4,}")


def shown(text: str) -> str:
    """One line of recorded text, safe for a cell grid; newlines become `\\n`, tabs four blanks."""
    if text.isascii() and text.isprintable():
        return text
    safe = escape(text).replace("\n", "\\n").translate(_HIDDEN)
    return _STACKED.sub(lambda found: found.group()[:3], safe)


def fit(text: str, width: int) -> str:
    """`text` cut or padded to exactly `width` cells; a cut ends in `…`."""
    if width <= 0:
        return ""
    if text.isascii():
        return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


_BREAKS: Final = ((" · ", 3), (" (", 1), (" ", 1))  # the first that is near; how much of it ends the row


def hanging(text: str, width: int) -> Iterator[str]:
    """`text` (already safe) wrapped to `width` cells; what does not fit the first row is indented under it."""
    first, *more = wrap(text, width)
    yield first
    hang = min(len(text) - len(text.lstrip(" ")) + 4, width // 3)
    yield from (" " * hang + piece for piece in (wrap(text[len(first) :], width - hang) if more else ()))


def wrap(text: str, width: int) -> Iterator[str]:
    """`text` (already safe) in pieces of at most `width` cells, broken between its parts or words where one is near."""
    width = max(width, 2)
    start, size = 0, len(text)
    narrow = text.isascii()
    if not size:
        yield ""
    while start < size:
        stop = start + width if narrow else _stop(text, start, width)
        if stop < size:
            near = start + max((stop - start) // 2, 1)
            found = ((text.rfind(mark, near, stop + 1), taken) for mark, taken in _BREAKS)
            stop = next((blank + taken for blank, taken in found if blank > 0), stop)
        yield text[start:stop]
        start = stop


def _stop(text: str, start: int, width: int) -> int:
    """How far `text` goes from `start` within `width` cells; one character at least."""
    used = 0
    for position in range(start, len(text)):
        used += get_character_cell_size(text[position])
        if used > width:
            return max(position, start + 1)
    return len(text)


def matches_in(text: str, needle: str) -> list[tuple[int, int]]:
    """Where `needle` (lower case) occurs in `text`, as character ranges; capitals do not matter."""
    if not needle:
        return []
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text
    spans: list[tuple[int, int]] = []
    position = lowered.find(needle)
    while position >= 0 and len(spans) < 200:
        spans.append((position, position + len(needle)))
        position = lowered.find(needle, position + len(needle))
    return spans
