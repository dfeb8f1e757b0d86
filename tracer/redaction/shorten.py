"""truncate_large: a text over 1 MB keeps its head, its tail and the lines between that tell what went wrong.

What is kept is searched together with the 4 KB before and after each cut, so that a cut neither hides nor halves a
secret; what is dropped is not searched. The middle is described by its length and the hash of the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from tracer.redaction.rule_set import compiled

LIMIT = 1_000_000
KEEP = 64 * 1024
MARGIN = 4096
_MAX_LINES = 100
_MAX_LINE = 500
_TELLING = compiled(
    r"(?i)\b(?:error|errors|failed|failure|exception|traceback|fatal|panic|warning|assertionerror|segmentation fault)\b"
)

Kept = Callable[[bytes, int, int], bytes]
"""What a kept range looks like when its secrets are replaced: called with (window, start, end) in the window."""


def shorten(data: bytes, kept: Kept, *, margin: int = MARGIN) -> bytes:
    """`data` (longer than LIMIT) as head, description, telling lines and tail, each redacted by `kept`."""
    head_end = _boundary(data, KEEP)
    tail_start = _boundary(data, len(data) - KEEP)

    def part(start: int, end: int) -> bytes:
        first, last = max(start - margin, 0), min(end + margin, len(data))
        return kept(data[first:last], start - first, end - first)

    lines = [part(start, end) for start, end in _telling_lines(data, head_end, tail_start)]
    digest = hashlib.sha256(data).hexdigest()
    note = b"\n[TRUNCATED: %d bytes in all, sha256 %s, %d telling lines kept]\n" % (
        len(data),
        digest.encode("ascii"),
        len(lines),
    )
    return b"".join(
        (part(0, head_end), note, *(line + b"\n" for line in lines), b"[...]\n", part(tail_start, len(data)))
    )


def _telling_lines(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    count, at = 0, start
    while count < _MAX_LINES and (match := _TELLING.search(data, at, end)) is not None:
        line_start = max(data.rfind(b"\n", start, match.start()) + 1, start, match.start() - _MAX_LINE // 2)
        stop = data.find(b"\n", match.end(), end)
        line_end = min(stop if stop >= 0 else end, line_start + _MAX_LINE)
        yield _boundary(data, line_start), max(_boundary(data, line_end), match.end())
        count += 1
        at = max(stop if stop >= 0 else end, line_end)


def _boundary(data: bytes, at: int) -> int:
    """`at`, moved back to where a UTF-8 character begins."""
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:
        at -= 1
    return at
