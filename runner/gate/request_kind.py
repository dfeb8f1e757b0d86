"""What kind of task a request begins: `change`, unless the request only asks (gate.md 2). Pure but for its data file.

A request only asks where every sentence of it does: it begins with a telling word ("explain", "list all"), or with a
question word and ends in a question mark, and no clause of it orders work. In doubt it is a change: of a question taken
for one the user hears that nothing was changed, and says `--kind question`; a change taken for a question would be
accepted undone. The words are in `words/request_kind.toml`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal, NamedTuple

from runner.gate.wording import later, read

Kind = Literal["change", "question", "investigation"]

_LONGEST = 100_000  # characters, with the code that a question is about
_MOST_PROSE = 4_000  # characters; nobody asks a question that long
_FENCED = later(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
# But names of files: they may tell where words go.
_QUOTED = later(
    r'`(?!\S*\.\w{1,5}`)[^`\n]*`|"[^"\n]{0,400}"|“[^”\n]{0,400}”|«[^»\n]{0,400}»|「[^」\n]{0,400}」|『[^』\n]{0,400}』'
)
_BULLET = later(r"^\s*(?:(?:[-*+•>#]|\d{1,3}[.)])\s+)+", re.MULTILINE)
_SENTENCE = later(r"(?<=[.!?…])[\s)\]]+|(?<=[。！？])|\n+")
_CLAUSE = later(r"[,;:.!?()\[\]—–…、，；：。！？（）¿]+|\s-+\s")
_ASKED = later(r"[?？][\W_]*$")
_EDGE = later(r"^[\W_]+|[\W_]+$")


class _Words(NamedTuple):
    """One language's words, as the data file describes them; the longest of each list first."""

    spaced: bool
    at_end: bool
    places: re.Pattern[str]
    inside: re.Pattern[str]
    joins: tuple[str, ...]
    polite: tuple[str, ...]
    tells: tuple[str, ...]
    says: tuple[str, ...]
    then: tuple[str, ...]
    asks: tuple[str, ...]
    orders: tuple[str, ...]
    own: tuple[str, ...]

    def rest(self, clause: str, words: tuple[str, ...]) -> str | None:
        """`clause` without the one of `words` that it begins with, or ends with where the verb comes last."""
        for word in words if clause.startswith(words) else ():
            after = clause.removeprefix(word)
            if len(after) < len(clause) and not (self.spaced and after[:1].isalnum()):
                return _EDGE.sub("", after)
        found = (word for word in words if self.at_end and clause.endswith(word))
        return next((_EDGE.sub("", clause.removesuffix(word)) for word in found), None)

    def clauses(self, sentence: str) -> list[str]:
        """The clauses without their courtesy: split at punctuation and at "and"; a question about work has one."""
        parts = _CLAUSE.split(sentence)
        if self.joins and self.rest(_EDGE.sub("", sentence), self.own) is None:
            edge = r"\b" if self.spaced else ""
            joins = re.compile(f"{edge}(?:{'|'.join(self.joins)}){edge}")
            parts = [one for part in parts for one in joins.split(part)]
        return [bare for part in parts if (bare := self.bare(_EDGE.sub("", part)))]

    def bare(self, clause: str) -> str:
        """`clause` without its courtesy: "could you please", "hello"."""
        while (rest := self.rest(clause, self.polite)) is not None:
            clause = rest
        return clause


def settled_kind(asked: str, request: str) -> Kind:
    """The kind of a task: as `asked`, or for `auto` by the words of the `request`."""
    if asked == "question" or (asked == "auto" and only_asks(request)):
        return "question"
    return "investigation" if asked == "investigation" else "change"


def only_asks(request: str) -> bool:
    """Whether every sentence of a request asks, and none orders work. Code and quotations are not read."""
    if len(request) > _LONGEST:
        return False
    text = _QUOTED.sub("x", _FENCED.sub("\n", request)).replace("’", "'").lower()
    sentences = (one for one in _SENTENCE.split(_BULLET.sub("", text)) if any(map(str.isalnum, one)))
    told = (asks for asks in map(_asks, sentences) if asks is not None)
    return 0 < len(text) <= _MOST_PROSE and next(told, False) and all(told)


def _asks(sentence: str) -> bool | None:
    """Whether a sentence asks; None of one that is courtesy and no more."""
    read = [(words, words.clauses(sentence)) for words in _languages()]
    if not all(clauses for _, clauses in read):
        return None
    marked = _ASKED.search(sentence) is not None
    asks = False
    for words, clauses in read:
        said = False
        for clause in clauses:
            if words.rest(clause, words.orders) is not None or (said and words.rest(clause, words.then) is not None):
                return False
            if (told := words.rest(clause, words.says)) is not None:
                said = True
                # "Explain why it must …" asks, "explain in README.md" and "explain plan must …" do not.
                if words.rest(told, words.asks + words.tells) is None and words.places.search(sentence):
                    return False
            questions = words.at_end and any(word in clause for word in words.asks)
            questions = questions or words.inside.search(sentence) is not None
            asked = marked and (questions or words.rest(clause, words.asks) is not None)
            asks = asks or said or asked or words.rest(clause, words.tells) is not None
    return asks


@cache
def _languages() -> tuple[_Words, ...]:
    rows = read("request_kind")
    written = f"(?:{'|'.join(rows['written']['words'])})"
    return tuple(_words(row, written) for name, row in rows.items() if name != "written")


def _words(row: dict[str, Any], written: str) -> _Words:
    spaced = row.get("spaced", True)
    edge, places = r"\b" if spaced else "", row.get("places", [r"\Z."])
    told = re.compile(f"{edge}(?:{'|'.join(places)}){edge}".replace("{written}", written))
    lists = (tuple(sorted(row.get(key, ()), key=len, reverse=True)) for key in _Words._fields[4:])
    inside = later("|".join(row.get("inside", [r"\Z."])))
    return _Words(spaced, row.get("at_end", False), told, inside, *lists)
