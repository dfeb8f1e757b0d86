"""What kind of task a request begins: `change`, unless the request only asks (gate.md 2). Pure but for its data file.

A request only asks where every sentence of it does: it ends in a question mark or begins with a telling word, and no
clause of it orders work. In doubt it is a change: of a question taken for one the user hears that nothing was changed,
and says `--kind question`; a change taken for a question would be accepted undone. The words are in
`words/request_kind.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from runner.gate.wording import read

Kind = Literal["change", "question", "investigation"]

_LONGEST = 100_000  # characters, with the code that a question is about
_MOST_PROSE = 4_000  # characters; nobody asks a question that long
_FENCED = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_INLINE = re.compile(r"`[^`\n]*`")
_QUOTED = re.compile(r'"[^"\n]{0,400}"|“[^”\n]{0,400}”|«[^»\n]{0,400}»|「[^」\n]{0,400}」|『[^』\n]{0,400}』')
_BULLET = re.compile(r"^\s*(?:(?:[-*+•>#]|\d{1,3}[.)])\s+)+", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?…])[\s)\]]+|(?<=[。！？])|\n+")
_CLAUSE = re.compile(r"[,;:.!?()\[\]—–…、，；：。！？（）]+|\s-+\s")
_ASKED = re.compile(r"[?？][\W_]*$")
_LABEL = re.compile(r"[:：]\s*\w")
_HEAD = re.compile(r"^[\W_]+")
_TAIL = re.compile(r"[\W_]+$")
_WORD = re.compile(r"\w")
_SPOKEN = re.compile(r"[\w']+")


class _Words(NamedTuple):
    """One language's words, the longest first; the keys of the data file."""

    spaced: bool = True
    at_end: bool = False
    joins: re.Pattern[str] | None = None
    marks: tuple[str, ...] = ()
    courtesy: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    work: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    you: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    passive: tuple[str, ...] = ()

    def after(self, clause: str, words: tuple[str, ...]) -> str | None:
        """What follows one of `words` at the head of `clause`; None where none stands there."""
        clause = _HEAD.sub("", clause)
        for word in words if clause.startswith(words) else ():
            rest = clause.removeprefix(word)
            if len(rest) < len(clause) and not (self.spaced and rest[:1].isalnum()):
                return rest
        return None

    def around(self, clause: str, words: tuple[str, ...]) -> str | None:
        """The rest of `clause` without one of `words` where this language puts its verb: at the head, or at the end."""
        if not self.at_end:
            return self.after(clause, words)
        clause = _TAIL.sub("", clause)
        return next((clause.removesuffix(word) for word in words if clause.endswith(word)), None)

    def bare(self, clause: str) -> tuple[str, bool]:
        """`clause` without its courtesy and its "could you", and whether it had the latter."""
        requested = False
        while True:
            if (rest := self.around(clause, self.requests)) is not None:
                requested = True
            elif (rest := self.after(clause, self.courtesy)) is None:
                return clause, requested
            clause = rest

    def asks_for_work(self, clause: str) -> bool:
        """Whether a clause of a question wants somebody, or something, to be at work: "mind …?", "can it be …?"."""
        said = _SPOKEN.findall(clause)
        if not said or any(said[0] in words.open for words in _languages()):
            return False
        if said[0] in self.passive and any(
            one in self.passive and after.startswith(self.work) for one, after in pairwise(said)
        ):
            return True
        spoken = f" {' '.join(said)} "
        return any(f"{one} " in spoken for one in self.you) and not any(f" {verb} " in spoken for verb in self.verbs)


def settled_kind(asked: str, request: str) -> Kind:
    """The kind of a task: as `asked`, or for `auto` by the words of the `request`."""
    if asked == "question" or (asked == "auto" and only_asks(request)):
        return "question"
    return "investigation" if asked == "investigation" else "change"


def only_asks(request: str) -> bool:
    """Whether every sentence of a request asks, and none orders work. Code and quotations are not read."""
    if len(request) > _LONGEST:
        return False
    text = _QUOTED.sub("x", _INLINE.sub("x", _FENCED.sub("\n", request))).replace("’", "'").lower()
    if len(text) > _MOST_PROSE:
        return False
    sentences = [sentence for sentence in _SENTENCE.split(_BULLET.sub("", text)) if _WORD.search(sentence)]
    told = [sentence for sentence in sentences if not _is_courtesy(sentence)]
    return bool(told) and all(map(_asks, told))


def _is_courtesy(sentence: str) -> bool:
    text = _CLAUSE.sub(" ", sentence)
    return any(_WORD.search(words.bare(text)[0]) is None for words in _languages())


def _asks(sentence: str) -> bool:
    clauses = _clauses(sentence)
    if any(map(_orders, clauses)):
        return False
    if _ASKED.search(sentence):
        return not any(words.asks_for_work(words.bare(clause)[0]) for words in _languages() for clause in clauses)
    if any(_TAIL.sub("", sentence).endswith(words.marks) for words in _languages()):
        return True
    label = _LABEL.search(sentence) is not None
    return any(
        words.around(rest, words.verbs) is not None or (words.after(rest, words.questions) is not None and not label)
        for words in _languages()
        for rest, _ in map(words.bare, clauses if words.at_end else [sentence])
    )


def _clauses(sentence: str) -> list[str]:
    """The clauses, split at punctuation and before the words that go on with another one ("and", "then")."""
    clauses = _CLAUSE.split(sentence)
    if any(words.after(sentence, words.own) is not None for words in _languages()):
        return clauses
    for words in _languages():
        if words.joins is not None:
            clauses = [part for clause in clauses for part in words.joins.split(clause)]
    return clauses


def _orders(clause: str) -> bool:
    """Whether a clause has somebody do something, other than tell."""
    bare = [(words, *words.bare(clause)) for words in _languages()]
    if any(words.around(rest, words.verbs) is not None for words, rest, _ in bare):
        return False
    for words, rest, requested in bare:
        if requested and _WORD.search(rest):
            return True
        object_ = words.around(rest, words.work)
        if object_ is not None and (words.at_end or _WORD.search(object_)):
            return True
    return False


@cache
def _languages() -> tuple[_Words, ...]:
    return tuple(_words(row) for row in read("request_kind").values())


def _words(row: Mapping[str, Any]) -> _Words:
    spaced = row.get("spaced", True)
    edge = r"\b" if spaced else ""
    joins = re.compile(rf"{edge}(?=(?:{'|'.join(row['joins'])}){edge})") if "joins" in row else None
    lists = {key: tuple(sorted(row.get(key, ()), key=len, reverse=True)) for key in _Words._fields[3:]}
    return _Words(spaced=spaced, at_end=row.get("at_end", False), joins=joins, **lists)
