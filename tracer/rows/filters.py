"""The filter language over facts: `event:A,B it:0,2-3 sub:2 text:"two words" failed`. Pure.

Terms are separated by blanks and must all hold; a list inside a term means any of them. `event:` compares without
regard to case and takes a trailing `*`; `sub:2` also finds `task-015-sub-2`; a bare word is `text:`. The HTTP service
builds the same `Filter` from its query parameters with `from_query`. `text:` looks into the string values of a fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from tracer.errors import UsageError

TERMS: Final = ("event:", "it:", "sub:", "text:", "failed")
TOKEN: Final = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+')
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_GRAMMAR: Final = 'terms are event:NAME,… it:N,N-M sub:ID text:WORDS failed; text:"two words" keeps a blank'


@dataclass(frozen=True, slots=True)
class Filter:
    """What facts must be; empty fields ask nothing. `texts` are lower case, `events` upper case, ranges inclusive."""

    events: tuple[str, ...] = ()
    iterations: tuple[tuple[int, int], ...] = ()
    subtasks: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    failed: bool = False

    def __bool__(self) -> bool:
        return bool(self.events or self.iterations or self.subtasks or self.texts or self.failed)

    def accepts_head(self, *, event: str, iteration: int | None, subtask: str | None) -> bool:
        """Whether the envelope fits; says nothing about `texts` and `failed`."""
        if self.events and not _event_fits(event.upper(), self.events):
            return False
        if self.iterations and not _iteration_fits(iteration, self.iterations):
            return False
        return not self.subtasks or _subtask_fits(subtask, self.subtasks)

    def accepts_text(self, value: Any) -> bool:
        """Whether every text occurs in some string of the JSON `value` (keys do not count)."""
        return not self.texts or all(any(text in string for string in _strings(value)) for text in self.texts)

    def accepts(self, *, event: str, iteration: int | None, subtask: str | None, failed: bool, value: Any) -> bool:
        """Whether a fact fits in every respect; `failed` is the row's mark, `value` its decoded data."""
        return (
            self.accepts_head(event=event, iteration=iteration, subtask=subtask)
            and (failed or not self.failed)
            and self.accepts_text(value)
        )


NO_FILTER: Final = Filter()


def parse(text: str) -> Filter:
    """The filter that `text` writes."""
    events: list[str] = []
    iterations: list[tuple[int, int]] = []
    subtasks: list[str] = []
    texts: list[str] = []
    failed = False
    for term in TOKEN.findall(text):
        name, colon, rest = term.partition(":")
        if term.startswith('"') or not colon:
            if term == "failed":
                failed = True
            else:
                texts.append(unquoted(term, term).lower())
        elif name == "event":
            events += _values(rest, term, upper=True)
        elif name == "it":
            iterations += [_range(value) for value in _values(rest, term)]
        elif name == "sub":
            subtasks += _values(rest, term)
        elif name == "text":
            texts.append(unquoted(rest, term).lower())
        else:
            raise _unknown(name)
    return Filter(tuple(events), tuple(iterations), tuple(subtasks), tuple(texts), failed)


def from_query(query: Mapping[str, Sequence[str]]) -> Filter:
    """The filter of the query parameters `event`, `iteration`, `subtask`, `text`, `failed`, each possibly repeated."""
    listed = {name: [part for value in query.get(name, ()) for part in value.split(",") if part] for name in query}
    failed = [value.lower() for value in query.get("failed", ())]
    if any(value not in {"", "1", "true", "0", "false"} for value in failed):
        raise UsageError(f"failed={failed[-1]!r} is neither true nor false", next_step="use failed=true")
    return Filter(
        tuple(value.upper() for value in listed.get("event", ())),
        tuple(_range(value) for value in listed.get("iteration", ())),
        tuple(listed.get("subtask", ())),
        tuple(value.lower() for value in query.get("text", ()) if value),
        any(value in {"", "1", "true"} for value in failed),
    )


def complete(text: str, *, events: Iterable[str], subtasks: Iterable[str] = (), iterations: int = 0) -> list[str]:
    """What the last term of `text` can become: whole filter texts, best first."""
    cut = max(text.rfind(" "), text.rfind("\t")) + 1
    before, term = text[:cut], text[cut:]
    name, colon, rest = term.partition(":")
    if not colon:
        return [before + name for name in TERMS if name.startswith(term) and name != term]
    chosen, comma, last = rest.rpartition(",")
    pool: Iterable[str] = {
        "event": events,
        "sub": subtasks,
        "it": [str(number) for number in range(iterations)],
    }.get(name, ())
    stem = f"{before}{name}:{chosen}{comma}"
    taken = set(chosen.split(","))
    return [stem + value for value in pool if value.upper().startswith(last.upper()) and value not in taken | {last}]


def _values(rest: str, term: str, *, upper: bool = False) -> list[str]:
    values = [value for value in unquoted(rest, term).split(",") if value]
    if not values:
        raise UsageError(f"{term!r} names nothing", why="a value is missing after the colon", next_step=_GRAMMAR)
    return [value.upper() for value in values] if upper else values


def unquoted(text: str, term: str) -> str:
    """A value without its quotes and backslashes. Raises UsageError: nothing is left."""
    plain = re.sub(r'\\(.)|"', lambda found: found.group(1) or "", text)
    if not plain:
        why = "a value is missing after the colon" if term.endswith(":") else "nothing is left without its quotes"
        raise UsageError(f"{term!r} names nothing", why=why, next_step='write NAME:VALUE, or "two words"')
    return plain


def _range(value: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(value)
    if found is None:
        raise UsageError(
            f"{value!r} is not an iteration", why="iterations are numbers from 0", next_step="it:0 or it:1-3"
        )
    first = int(found.group(1))
    return first, int(found.group(2) or first)


def _unknown(name: str) -> UsageError:
    near = get_close_matches(name, ["event", "it", "sub", "text", "failed"], n=1, cutoff=0.3)
    hint = f"did you mean {near[0]}{'' if near[0] == 'failed' else ':'} ?" if near else ""
    return UsageError(f"unknown filter term {name!r}", why=hint, next_step=_GRAMMAR)


def _event_fits(event: str, wanted: tuple[str, ...]) -> bool:
    return any(event.startswith(name[:-1]) if name.endswith("*") else event == name for name in wanted)


def _iteration_fits(iteration: int | None, wanted: tuple[tuple[int, int], ...]) -> bool:
    return iteration is not None and any(first <= iteration <= last for first, last in wanted)


def _subtask_fits(subtask: str | None, wanted: tuple[str, ...]) -> bool:
    return subtask is not None and any(subtask == name or subtask.endswith(f"-sub-{name}") for name in wanted)


def _strings(value: Any) -> Iterable[str]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item.lower()
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
