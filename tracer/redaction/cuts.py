"""Cuts in texts that a project's redactor sees later: half of a secret is none that a rule knows.

So a text is cleaned before it is cut, by the rules and by the values of this process's environment; one that is not
cut is left as it is. What is kept ends where a word does, or begins where a line does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tracer.errors import PmError
from tracer.redaction.redactor import NO_ADDITIONS, Clean, RedactionSettings

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor

_LETTERS: Final = bytes(range(0x21, 0x7F)).decode()
_AROUND: Final = 8192
_CUT: Final = "\x1f"


def clean(text: str, settings: RedactionSettings = NO_ADDITIONS) -> Clean:
    """`text` with its secrets replaced, for what belongs to no project: errors, pages, excerpts.

    0.1 s the first time; as it is where redaction itself is the trouble.
    """
    if not text:
        return Clean(text)
    try:
        return _redactor(frozenset(os.environ.items()), settings).redact_text(text)[0]
    except (PmError, OSError, ImportError):
        return Clean(text)


def clean_texts(texts: Sequence[str]) -> list[Clean]:
    """Each of `texts` as `clean` gives it back; one look over all of them tells which hold anything."""
    return [pieces[0] for pieces in _clean_rows([(text,) for text in texts])]


def clean_pieces(pieces: Sequence[str]) -> list[Clean]:
    """Consecutive pieces of one text, cleaned as one."""
    return _clean_rows([pieces])[0]


def _clean_rows(rows: Sequence[Sequence[str]]) -> list[list[Clean]]:
    try:
        changed, _ = _redactor(frozenset(os.environ.items()), NO_ADDITIONS).redact_rows(rows)
    except (PmError, OSError, ImportError):
        changed = {}
    return [changed.get(at) or [Clean(piece) for piece in row] for at, row in enumerate(rows)]


@lru_cache(maxsize=2)
def _redactor(environ: frozenset[tuple[str, str]], settings: RedactionSettings) -> ProjectRedactor:
    from tracer.redaction.engine import build_redactor
    from tracer.redaction.marks import KEY_BYTES

    given, nowhere = settings._asdict(), Path(os.devnull)  # an error makes no state folder
    made = build_redactor(state_dir=nowhere, environ=dict(environ), host="", persons=(), pii=False, **given)
    vars(made.parts)["key"] = os.urandom(KEY_BYTES)  # of a folder made for it, a killed process would leave that
    return made


def beginning(text: str, limit: int) -> str:
    """The first words of `text`, in at most `limit` characters and `…` where something is left out."""
    if len(text) <= limit:
        return text
    window = text[: limit + _AROUND]
    cleaned = clean(window if len(window) == len(text) else window + _CUT)
    if cleaned.endswith(_CUT) and len(cleaned) <= limit:  # marks made it so short that half a secret may end it
        return f"{cleaned[: cleaned.rfind(']') + 1]}…"
    return _words(cleaned, limit)


def ending(text: str, limit: int) -> str:
    """The last lines of `text`, in at most `limit` characters; of one that is longer its beginning."""
    if len(text) <= limit:
        return text
    window = text[-limit - _AROUND :]
    cleaned: str = clean(window)
    if len(window) < len(text):  # half a secret may stand in the first line
        cleaned = cleaned.partition("\n")[2] or cleaned[max(cleaned.find("[REDACTED:"), 0) :]
    at = cleaned.find("\n", max(len(cleaned) - limit - 1, 0)) if len(cleaned) > limit else -1
    if len(cleaned) <= limit or 0 <= at < len(cleaned) - 1:
        return cleaned[at + 1 :]
    return _words(cleaned.rstrip("\n").rpartition("\n")[2], limit)


def _words(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    kept = text[:limit]
    if text[limit] > " " and text[limit] < "\x7f":
        kept = kept.rstrip(_LETTERS)
    return f"{kept.rstrip()}…"
