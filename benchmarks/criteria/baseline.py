"""The word scan that checkers of this kind do: any of the words anywhere, and for syntax nothing but the text."""

from __future__ import annotations

import re

from runner.gate.criterion import Evidence

__all__ = ["word_scan"]

_WORDS = re.compile(
    r"\b(?:TODO|FIXME|TBD|HACK|XXX|not implemented|NotImplemented\w*|unimplemented|placeholder|omitted)\b|"
    r"\.\.\.|…|rest of|"
    r"existing code|same as|残り|省略|以下同様|^\s*pass\s*$",
    re.IGNORECASE | re.MULTILINE,
)


def word_scan(evidence: Evidence) -> bool:
    """Whether the word scan rejects: a word in the answer or in a changed file, wherever it stands."""
    texts = [evidence.answer, *(file.after.decode("utf-8", "replace") for file in evidence.files if file.after)]
    return any(_WORDS.search(text) for text in texts)
