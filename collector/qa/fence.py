"""Fences that keep a trace's text apart from ours: what stands inside is data, whatever it says. Pure.

Every line of foreign text begins with `| `, so no such line can be one of ours; marks that look like a fence and the
packet's nonce are broken up, invisible characters are written out, line breaks of every kind become one kind.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category

__all__ = ["cut_middle", "fair_shares", "fenced", "neutral"]

_BREAKS: Final = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_OPENINGS: Final = re.compile(r"[\[［⟦〚【]{2,}")
_CLOSINGS: Final = re.compile(r"[\]］⟧〛】]{2,}")
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
_JOINERS: Final = "\u200c\u200d"  # within emoji and the words of several scripts


def neutral(text: str, nonce: str) -> str:
    """`text` as the body of a fence: prefixed lines, no fence marks, no nonce, nothing invisible."""
    lines = _BREAKS.split(text)
    return "\n".join(f"| {_plain(line, nonce)}" for line in lines)


def fenced(kind: str, text: str, *, nonce: str, **facts: object) -> str:
    """One block: an opening line of ours with `facts`, the neutral text, a closing line of ours."""
    told = "".join(f" {name}={value}" for name, value in facts.items() if value not in {None, ""})
    return f"[[[data {nonce} {kind}{told}]]]\n{neutral(text, nonce)}\n[[[end {nonce}]]]"


def cut_middle(text: str, limit: int) -> str:
    """`text` in at most about `limit` characters: two thirds from its head, one from its tail, and what is missing."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit - limit * 2 // 3
    ending = text[-tail:] if tail else ""
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{ending}"


def fair_shares(lengths: list[int], budget: int) -> list[int]:
    """How much of each text fits `budget`: short ones whole, what they leave is shared equally by the long ones."""
    shares = [0] * len(lengths)
    left = max(budget, 0)
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    for done, index in enumerate(order):
        shares[index] = min(lengths[index], left // (len(order) - done))
        left -= shares[index]
    return shares


def _plain(line: str, nonce: str) -> str:
    shown = line if line.isascii() and line.isprintable() else "".join(_shown(character) for character in line)
    shown = _OPENINGS.sub(lambda match: " ".join(match[0]), shown)
    shown = _CLOSINGS.sub(lambda match: " ".join(match[0]), shown)
    return re.sub(re.escape(nonce), "(nonce)", shown, flags=re.IGNORECASE)


def _shown(character: str) -> str:
    if character == "\t" or character in _JOINERS or category(character) not in _HIDDEN:
        return character
    return f"\\u{{{ord(character):x}}}"
