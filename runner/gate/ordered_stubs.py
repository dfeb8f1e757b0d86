"""What a request says of marks and stubs: whether it is about them, and whether it wants stubs left."""

from __future__ import annotations

import re

from runner.gate.wording import Words

_MARKS = re.compile(r"(?<![\w-])(?:TODO|FIXME|TBD|HACK|XXX)s?(?![A-Za-z0-9_]|\()")
_REFUSAL = re.compile(
    r"NotImplemented(?:Error|Exception)?|UnsupportedOperationException|todo!|unimplemented!|\bTODO\(\)|\?\?\?|"
    r"fatalError|\bpanic\b|not implemented",
)
_ORDERS_REFUSAL = Words("requests", "refusals")
# The request speaks of refusals that it wants to be rid of, or asks about them.
_RID_OF = Words("requests", "rid_of")
_SKELETON = Words("requests", "skeleton")


def names_marks(request: str) -> bool:
    """Whether a request speaks of marks such as TODO, so that an answer to it has to speak of them too."""
    return _MARKS.search(request) is not None


def ordered_refusals(request: str) -> frozenset[bytes]:
    """The "not implemented" words with which the request wants functions to be left, empty where it wants none."""
    found: set[bytes] = set()
    for sentence in re.split(r"(?<=[.;。；])\s*(?=\s|[^\s\w(!])|\n+", request):
        if (words := _REFUSAL.findall(sentence)) and _ORDERS_REFUSAL.search(sentence) and not _RID_OF.search(sentence):
            found.update(word.encode() for word in words)
    return frozenset(found)


def orders_skeleton(request: str) -> bool:
    """Whether functions without their work are what the request wants: "only a stub", a starter file for students."""
    return any(
        _SKELETON.search(sentence) and not _RID_OF.search(sentence)
        for sentence in re.split(r"(?<=[.;。；])\s+|\n+", request)
    )
