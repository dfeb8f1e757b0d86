"""Recorded text made safe for a terminal: control sequences become visible, wide and foreign script stays.

Everything that an agent, a trace or a file name holds passes through `escape` before it is printed. Escaped are C0 and
C1 controls but newline and tab, DEL, bidirectional overrides, line and paragraph separators, and lone surrogates.
"""

from __future__ import annotations

__all__ = ["ascii_only", "escape", "one_line", "width_cut"]


class _Controls(dict[int, str]):
    """Escapes surrogates on demand: 2,048 entries would cost more at start than they are worth."""

    def __missing__(self, point: int) -> str:
        if 0xD800 <= point <= 0xDFFF:
            return f"\\u{point:04x}"
        raise LookupError


_TABLE = _Controls({point: f"\\x{point:02x}" for point in (*range(0x20), *range(0x7F, 0xA0)) if point not in {9, 10}})
_TABLE.update(
    {
        point: f"\\u{point:04x}"
        for point in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029, 0x200E, 0x200F)
    }
)
_ASCII = {
    ord("·"): "-",
    ord("…"): "...",
    ord("–"): "-",
    ord("—"): "-",
    ord("→"): "->",
    ord("×"): "x",
    ord("█"): "#",
    ord("│"): "|",
    ord("░"): ".",
}


def escape(text: str) -> str:
    """`text` with every control sequence shown instead of obeyed; newlines and tabs stay."""
    return text.translate(_TABLE)


def one_line(text: str, limit: int = 0) -> str:
    """The first non-empty line of `text`, escaped; cut to `limit` characters with `…` (0: not cut)."""
    first = ""
    for candidate in text.split("\n"):
        first = candidate.strip()
        if first:
            break
    first = escape(first).replace("\t", " ")
    return first if not limit or len(first) <= limit else first[: limit - 1] + "…"


def ascii_only(text: str) -> str:
    """Our own separators in ASCII, for `--plain` and for terminals without UTF-8."""
    return text.translate(_ASCII)


def width_cut(text: str, columns: int) -> str:
    """`text` cut to `columns` terminal cells (wide characters count two), with `…` where it was cut."""
    from unicodedata import combining, east_asian_width  # 3 ms, only for tables

    used = 0
    for index, char in enumerate(text):
        used += 0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1
        if used > columns:
            return text[: max(index - 1, 0)] + "…"
    return text
