"""Cuts in texts whose secrets are replaced later: half of a secret is none that a rule knows.

What is kept ends where a word does, or begins where a line does: a secret in it is whole, with the name before it.
"""

from __future__ import annotations

import re
from typing import Final

_LAST_WORD: Final = re.compile(r"[\x21-\x7e]+\Z")


def beginning(text: str, limit: int) -> str:
    """The first words of `text`, in at most `limit` characters and `…` where something is left out."""
    if len(text) <= limit:
        return text
    kept = text[:limit]
    if text[limit] > " " and text[limit] < "\x7f":
        kept = _LAST_WORD.sub("", kept)
    return f"{kept.rstrip()}…"


def ending(text: str, limit: int) -> str:
    """The last lines of `text`, in at most `limit` characters; of one that is longer its beginning."""
    if len(text) <= limit:
        return text
    at = text.find("\n", len(text) - limit - 1)
    if 0 <= at < len(text) - 1:
        return text[at + 1 :]
    return beginning(text.rstrip("\n").rpartition("\n")[2], limit)
