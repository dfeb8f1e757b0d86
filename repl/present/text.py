"""Text for terminals: recorded text made safe, and numbers, times and counts as people read them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
    ord("│"): "|",
    ord("░"): ".",
    ord("✓"): "v",
    ord("✗"): "x",
    **{ord(mark): digit for mark, digit in zip("▁▂▃▄▅▆▇█", ".:-=+*%#", strict=True)},
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


def width_of(text: str) -> int:
    """The terminal cells that `text` takes: wide characters count two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    from unicodedata import combining, east_asian_width  # 3 ms, only beyond ASCII

    return 0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1


def width_cut(text: str, columns: int) -> str:
    """`text` cut to `columns` terminal cells, with `…` where it was cut."""
    if text.isascii():
        return text if len(text) <= columns else text[: max(columns - 1, 0)] + "…"
    used = kept = 0
    for index, char in enumerate(text, 1):
        used += _cells(char)
        if used > columns:
            return text[:kept] + "…"
        kept = index if used < columns else kept
    return text


def padded(text: str, columns: int) -> str:
    """`text` filled with blanks to `columns` terminal cells; what is longer stays."""
    return text + " " * (columns - width_of(text))


_STRIP = {"PASS": "✓", "REJECT": "✗", "RETRY": "~"}


def strip_text(verdicts: Iterable[str]) -> str:
    """`✗✗✓`: the verdict of each iteration."""
    return "".join(_STRIP.get(verdict, "?") for verdict in verdicts)


def spark_text(values: Sequence[float]) -> str:
    """`▁▃█`: each value against the largest one; empty for fewer than two."""
    most = max(values, default=0)
    return "".join("▁▂▃▄▅▆▇█"[round(7 * value / most)] for value in values) if most and len(values) > 1 else ""


def count_text(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def cost_text(dollars: float | None) -> str:
    """`$0.04`, `<$0.01`, `cost n/a`."""
    if dollars is None:
        return "cost n/a"
    return "<$0.01" if 0 < dollars < 0.005 else f"${dollars:,.2f}"


def tokens_text(count: int | None, *, short: bool = False) -> str:
    """`4,750 tok`, shortened `14.2k tok`, `tokens n/a`."""
    if count is None:
        return "tokens n/a"
    if short and count >= 10_000:
        return f"{count / 1000:.1f}k tok" if count < 1_000_000 else f"{count / 1_000_000:.1f}M tok"
    return f"{count:,} tok"


def age_text(milliseconds: int) -> str:
    """How long ago: `now`, `5 min`, `3 h`, `2 d`."""
    seconds = max(0, milliseconds // 1000)
    for limit, size, unit in ((3600, 60, "min"), (86400, 3600, "h"), (1 << 62, 86400, "d")):
        if seconds < 60:
            return "now"
        if seconds < limit:
            return f"{seconds // size} {unit}"
    return ""


def size_text(size: float) -> str:
    """`512 B`, `1.5 kB`, `3.0 MB`."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
