"""What a request says of the work: files and marks it names, stubs it wants, whether open work is to be finished."""

from __future__ import annotations

import re

from runner.gate.wording import Words

_MARKS = re.compile(r"(?<![\w-])(?:TODO|FIXME|TBD|HACK|XXX)s?(?![A-Za-z0-9_]|\()")
_REFUSAL = re.compile(
    r"NotImplemented(?:Error|Exception)?|UnsupportedOperationException|todo!|unimplemented!|\bTODO\(\)|\?\?\?|"
    r"fatalError|\bpanic\b|not implemented",
)
_ORDERS_REFUSAL = Words("requests", "refusals")
_RID_OF = Words("requests", "rid_of")
_SKELETON = Words("requests", "skeleton")
_CODE_WANTED = Words("requests", "code")
_EXPLANATION_WANTED = re.compile(r"\W*(?:what|why|how|explain|describe)\b", re.IGNORECASE)
_OPEN_WORK = Words("requests", "open_work")
_FIX_ALL = Words("requests", "fix_all")
_FEW_WORDS = 7
_FEW_LETTERS = 16
_UNSPACED = re.compile(r"[぀-ヿ一-鿿]")


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


def asks_for_code(request: str) -> bool:
    """Whether code in the answer itself is what the request wants: a script, a query, a component."""
    return _CODE_WANTED.search(request) is not None and _EXPLANATION_WANTED.match(request) is None


def asks_to_finish(request: str) -> bool:
    """Whether the request is to finish what is open, or to fix it.

    "Please fix it" after a defect that is described means that defect: only where it is all that is said, the code as
    it stands is meant.
    """
    if _OPEN_WORK.search(request) is not None:
        return True
    return _FIX_ALL.search(request) is not None and _says_little(request)


def _says_little(request: str) -> bool:
    """Whether a request is a few words; letters are counted where words are not set apart."""
    words = re.findall(r"\w+", request)
    return len(words) <= _FEW_WORDS and (not _UNSPACED.search(request) or sum(map(len, words)) <= _FEW_LETTERS)


def names_file(request: str, path: str) -> bool:
    """Whether the request names the file, by its path or its name."""
    name = path.rsplit("/", 1)[-1]
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", request) is not None
