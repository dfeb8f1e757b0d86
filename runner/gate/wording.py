"""The word lists of the gate: `words/<file>.toml`, read and compiled when a list is first searched.

A list is an array of rows, one for each language or group of phrases. A row has

- `words`: whole words and phrases; `patterns`: regular expressions, tried in the same alternation;
- `stems`: literal text, one of which must occur before the row is tried (in lists searched on every comment);
- `examples`, each matched by the row, and `counter`, not matched by the list: tests hold both.

A pattern may run over several lines; line breaks and the blanks around them are no part of it. `{name}` stands for
the alternatives of that name under `[parts]`. Case is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, AnyStr, cast

_FOLDER = Path(__file__).with_name("words")
_PART = re.compile(r"\{([a-z_]+)\}")

Search = Callable[[str], re.Match[str] | None]


class Words:
    """One list of a file, with the methods of a compiled pattern; compiled when one of them is first called."""

    def __init__(self, file: str, name: str) -> None:
        self._file, self._name = file, name

    @cached_property
    def search(self) -> Search:
        """The first match anywhere in a text."""
        rows, parts = read(self._file)[self._name], read(self._file).get("parts", {})
        if any("stems" in row for row in rows):
            return partial(_search_rows, [(row["stems"], compiled([row], parts)) for row in rows])
        return compiled(rows, parts).search

    @cached_property
    def match(self) -> Search:
        """The match at the start of a text."""
        return compiled(read(self._file)[self._name], read(self._file).get("parts", {})).match


class _Later:
    """A pattern that is compiled when one of its methods is first used: one judgment needs few of all."""

    def __init__(self, make: Callable[[], re.Pattern[Any]]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(self._make(), name)
        return found


def later(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, put off."""
    return cast("re.Pattern[AnyStr]", _Later(partial(re.compile, text, flags)))


@cache
def read(file: str) -> dict[str, Any]:
    """A file's lists by name, and its `parts`."""
    import tomllib  # 8 ms: views that ask what a test file is wait for their first row

    return tomllib.loads((_FOLDER / f"{file}.toml").read_text(encoding="utf-8"))


def tables() -> dict[str, dict[str, Any]]:
    """What languages and tools write (`tables.toml`), by module and name."""
    return read("../tables")


def pattern(module: str, name: str) -> re.Pattern[str]:
    """A pattern of these tables."""
    return cast("re.Pattern[str]", _Later(lambda: re.compile(_joined([tables()[module][name]]))))


def pattern_of_bytes(module: str, name: str) -> re.Pattern[bytes]:
    """The same for text that is not decoded."""
    return cast("re.Pattern[bytes]", _Later(lambda: re.compile(_joined([tables()[module][name]]).encode())))


def compiled(rows: Sequence[Mapping[str, Any]], parts: Mapping[str, Sequence[str]]) -> re.Pattern[str]:
    """The alternation of all `words` and `patterns` of some rows."""
    alternatives: list[str] = []
    for row in rows:
        if words := row.get("words"):
            alternatives.append(rf"\b(?:{_joined(words)})\b")
        alternatives += row.get("patterns", ())
    text = _joined(alternatives)
    while (named := _PART.sub(lambda part: f"(?:{_joined(parts[part[1]])})", text)) != text:
        text = named
    return re.compile(text, re.IGNORECASE)


def _joined(alternatives: Sequence[str]) -> str:
    return "|".join("".join(map(str.strip, each.split("\n"))) if "\n" in each else each for each in alternatives)


def _search_rows(rows: Sequence[tuple[Sequence[str], re.Pattern[str]]], text: str) -> re.Match[str] | None:
    """The match of the first row that has one; most texts hold no stem, and looking for those costs microseconds."""
    lower = text.lower()
    for stems, pattern in rows:
        for stem in stems:
            if stem in lower:
                if (found := pattern.search(text)) is not None:
                    return found
                break
    return None
