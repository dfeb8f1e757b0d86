"""Tests made to fail whatever the code does: where their run ends well all the same, the code steers it. Pure.

It is the tests themselves that fail, not another one beside them: whatever the command runs and however it chooses,
they are what it ran. `controls.toml` says how a test of each language fails, at its end, when the code was called.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import tree_sitter

from runner.gate.languages import Language, grammar
from runner.gate.source import open_source

_MOST_FILES: Final = 400  # of a project's tests, where the fix changed none of those that it mends
_STRINGS: Final = frozenset({"string", "template_string", "encapsed_string", "simple_symbol"})
_FILLED: Final = re.compile(r"[$#]\{[^}]*\}|\{?\$\w+\}?|%\w|\\.")  # what a title gets only at run time


def failing_tests(files: Mapping[str, bytes], fixed: Collection[str]) -> dict[str, bytes]:
    """Those of the files that hold tests which may be among `fixed` (none: all of them), with these tests failing."""
    names = [_plain(name.rpartition("::")[2]) for name in fixed]
    made = {path: _failing(path, text, names) for path, text in files.items()}
    return {path: text for path, text in made.items() if text is not None}


def likely_first(tests: Collection[str], hints: Collection[str]) -> list[str]:
    """Files of tests, those first that reports of tests name."""
    told = " ".join(_plain(hint) for hint in hints)
    return sorted(tests, key=lambda path: (_plain(Path(path).stem) not in told, path))[:_MOST_FILES]


def _failing(path: str, text: bytes, names: Collection[str]) -> bytes | None:
    source = open_source(path, text)
    if source is None or source.tree is None or source.tree.root_node.has_error:
        return None
    row = next((row for row in _rows() if source.language.name in row["languages"]), None)
    if row is None or ("unfit" in row and re.search(row["unfit"], text.decode("utf-8", "replace"))):
        return None
    edits = list[tuple[int, str]]()
    end = 0
    for place, found in _found(source.tree.root_node, source.language, row):
        body, title = found["body"][0], found.get("title")
        if body.start_byte < end or not _may_be(title[0] if title else None, names):
            continue
        end = body.end_byte
        texts = {key: _filled(place.get(key, ""), row, found) for key in ("before", "start", "end")}
        if source.language.name == "python":
            edits += _indented(source.text, body, texts["start"], texts["end"])
        else:
            inner = 0 if place.get("around") else 1
            edits += ((body.start_byte + inner, texts["start"]), (body.end_byte - inner, texts["end"]))
        if texts["before"]:
            edits.append((found["whole"][0].start_byte, texts["before"]))
    return _inserted(source.text, edits) if edits else None


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    data = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(data)["control"])


@cache
def _query(language: Language, text: str) -> tree_sitter.Query:
    return tree_sitter.Query(grammar(language), text)


def _found(
    root: tree_sitter.Node, language: Language, row: Mapping[str, Any]
) -> list[tuple[Mapping[str, Any], dict[str, list[tree_sitter.Node]]]]:
    """All places with what was captured there, those around others first."""
    found = [
        (place, captured)
        for place in row["places"]
        for _, captured in tree_sitter.QueryCursor(_query(language, place["query"])).matches(root)
    ]
    return sorted(found, key=lambda one: one[1]["body"][0].start_byte)


def _filled(text: str, row: Mapping[str, Any], found: Mapping[str, list[tree_sitter.Node]]) -> str:
    parameter = found["parameter"][0].text if "parameter" in found else b""
    return text.replace("{fails}", row.get("fails", "").strip()).replace("{parameter}", (parameter or b"").decode())


def _indented(text: bytes, body: tree_sitter.Node, start: str, end: str) -> Iterator[tuple[int, str]]:
    """A block of Python one step further in, between two lines of its own."""
    own = text[text.rfind(b"\n", 0, body.start_byte) + 1 : body.start_byte].decode("utf-8", "replace")
    first = ""
    if own.strip():  # it stands behind its `def`
        own = own[: len(own) - len(own.lstrip())] + "    "
        first = f"\n{own}"
    step = "\t" if own.startswith("\t") else " "
    yield body.start_byte, f"{first}{start}\n{own}{step}"
    for match in re.finditer(rb"\n" + re.escape(own.encode()), text[body.start_byte : body.end_byte]):
        yield body.start_byte + match.end(), step
    said = "".join(f"\n{own}{step if number else ''}{line}" for number, line in enumerate(end.split("\n")))
    yield body.end_byte, said


def _inserted(text: bytes, edits: list[tuple[int, str]]) -> bytes:
    parts, at = list[bytes](), 0
    for place, new in sorted(edits, key=lambda edit: edit[0]):
        parts += (text[at:place], new.encode())
        at = place
    return b"".join((*parts, text[at:]))


def _may_be(title: tree_sitter.Node | None, names: Collection[str]) -> bool:
    """Whether a test of this title may be one of those; a title that is made at run time may be any."""
    if title is None or not names:
        return True
    text, above = (title.text or b"").decode("utf-8", "replace"), title.parent
    if title.type in _STRINGS:
        parts = list(map(_plain, _FILLED.split(text)))
    elif above is not None and above.child_by_field_name("name") == title:
        parts = [_plain(text)]
    else:
        return True
    return any(_stand_in(name, parts) for name in names)


def _stand_in(text: str, parts: list[str]) -> bool:
    """Whether the parts stand in the text one behind the other."""
    at = 0
    for part in parts:
        at = text.find(part, at) + len(part)
        if at < len(part):
            return False
    return True


def _plain(text: str) -> str:
    """Words alone: reports tell names with other signs between them than the code does."""
    return re.sub(r"[\W_]+", " ", text).strip()
