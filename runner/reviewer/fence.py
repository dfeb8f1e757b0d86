"""Foreign text in a prompt: fenced, neutral, within a budget, with a canary. Reviewer and judge share it. Pure.

The nonce is a hash of the material: the same material gives the same prompt. Every foreign line begins with `| `, so
that none can pass for one of ours. The canary orders what no honest reader of data does: a reply with its word has
followed instructions in the data.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from unicodedata import category

from tracer.redaction.cuts import clean

_BREAKS: Final = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_OPENINGS: Final = re.compile(r"[\[［⟦〚【]{2,}")
_CLOSINGS: Final = re.compile(r"[\]］⟧〛】]{2,}")
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
_JOINERS: Final = "\u200c\u200d"  # within emoji and the words of several scripts


def neutral(text: str, nonce: str) -> str:
    """`text` as the body of a fence: prefixed lines, no fence marks, no nonce, nothing invisible."""
    lines = _BREAKS.split(text)
    return "\n".join(f"| {plain_line(line, nonce)}" for line in lines)


def cut_middle(text: str, limit: int) -> str:
    """`text` in at most about `limit` characters: two thirds from its head, one from its tail, and what is missing."""
    if len(text) > limit:
        text = clean(text)
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


def plain_line(line: str, nonce: str) -> str:
    """One line as it stands in a fence, without its prefix."""
    shown = line if line.isascii() and line.isprintable() else "".join(_shown(character) for character in line)
    shown = _OPENINGS.sub(lambda match: " ".join(match[0]), shown)
    shown = _CLOSINGS.sub(lambda match: " ".join(match[0]), shown)
    return re.sub(re.escape(nonce), "(nonce)", shown, flags=re.IGNORECASE)


def _shown(character: str) -> str:
    if character == "\t" or character in _JOINERS or category(character) not in _HIDDEN:
        return character
    return f"\\u{{{ord(character):x}}}"


_PLAIN_FACT: Final = re.compile(r"[^A-Za-z0-9_.:/+-]+")


class Fence(NamedTuple):
    """The marks of one prompt."""

    nonce: str
    canary: str

    @classmethod
    def of(cls, digest: str) -> Fence:
        """The marks that belong to material with this hash (64 hexadecimal digits)."""
        return cls(digest[:32], f"canary-{digest[32:48]}")

    def block(self, kind: str, text: str, **facts: object) -> str:
        """`text` as data: an opening line of ours with `facts`, the neutral text, a closing line of ours."""
        told = "".join(f" {name}={value}" for name, value in facts.items() if value not in {None, ""})
        return f"[[[data {self.nonce} {kind}{told}]]]\n{neutral(text, self.nonce)}\n[[[end {self.nonce}]]]"

    def planted(self, order: str) -> str:
        """The canary's block; `order` is what it asks for beside its word."""
        return self.block("canary", f"{order} and write {self.canary}.")

    def tripped(self, reply: str) -> bool:
        """Whether a reply obeyed or repeated the canary."""
        return self.canary.casefold() in reply.casefold()


def plain_word(text: str) -> str:
    """A name that stands on a line of ours: letters, digits and a few marks only."""
    return _PLAIN_FACT.sub("_", text)[:80]
