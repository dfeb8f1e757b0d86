"""Strangers' JSON: read strictly, with the place of whatever no store could keep.

Refused with place: text that is no JSON, lone surrogates, NUL characters, numbers that a double cannot hold exactly
enough to be written back, nesting deeper than `MAX_DEPTH`. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import orjson

from collector.config import MAX_DEPTH, MAX_NUMBER
from collector.errors import IntakeError
from tracer.redaction.cuts import beginning

BODY: Final = "body"
_LONGEST_KEY: Final = 60
_NUL: Final = b"\\u0000"


def parse_json(raw: bytes, *, place: str = BODY) -> Any:
    """The JSON value in `raw`; NUL and surrogates are looked for here, depth and numbers by `check_json`."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _unreadable(raw, error, place) from error
    if raw.rfind(_NUL) >= 0:  # the escape; a raw NUL is no JSON. From behind: `in` takes four times as long
        for where, text in _strings(value, place):
            if "\0" in text:
                raise IntakeError(
                    f"{where} holds a NUL character",
                    place=where,
                    rule="nul",
                    why="databases and terminals end a text at it",
                    next_step="replace it, or upload the bytes as a blob",
                )
    return value


def check_json(value: Any, place: str) -> None:
    """Refuse what is nested deeper than MAX_DEPTH or holds a number of 2**63 or more."""
    stack = [(value, place, 1)]
    while stack:
        item, where, depth = stack.pop()
        if isinstance(item, dict | list):
            if depth > MAX_DEPTH:
                raise IntakeError(
                    f"{where} is nested too deeply", place=where, rule="depth", why=f"{MAX_DEPTH} levels are the limit"
                )
            stack.extend((inner, spot, depth + 1) for spot, inner in _children(item, where))
        elif isinstance(item, int | float) and abs(item) >= MAX_NUMBER:
            raise IntakeError(
                f"{where} is too large a number",
                place=where,
                rule="number",
                why="numbers of 2**63 and more cannot be stored as they were sent",
                next_step="send it as a string",
            )


def spelled(*names: Any) -> str:
    """A place as text: `spelled("events", 3, "payload")` is `events[3].payload`. Strange keys are shown safely."""
    text = ""
    for name in names:
        if isinstance(name, int):
            text += f"[{name}]"
        else:
            shown = beginning(str(name), _LONGEST_KEY)
            if not shown.replace("_", "a").isalnum() or not shown.isascii():
                shown = json.dumps(shown)
            text += f".{shown}" if text else shown
    return text


def _children(item: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(item, dict):
        within = "" if where == BODY else f"{where}."
        for name, inner in item.items():
            yield f"{within}{spelled(name)}", inner
    else:
        for at, inner in enumerate(item):
            yield f"{where}[{at}]", inner


def _strings(value: Any, place: str) -> Iterator[tuple[str, str]]:
    stack = [(value, place)]
    while stack:
        item, where = stack.pop()
        if isinstance(item, str):
            yield where, item
        elif isinstance(item, dict | list):
            if isinstance(item, dict):
                for name in item:
                    yield f"a key in {where}", name
            stack.extend((inner, spot) for spot, inner in _children(item, where))


def _unreadable(raw: bytes, error: orjson.JSONDecodeError, place: str) -> IntakeError:
    """What is wrong with text that orjson refuses; the slow look is paid by bad input only."""
    told = str(error).partition(":")[0]
    if "depth" in told:
        return IntakeError(f"{place} is nested too deeply", place=f"{place}, byte {error.pos}", rule="depth", why=told)
    if "infinity" in told:
        return IntakeError(f"{place} holds too large a number", place=f"{place}, byte {error.pos}", rule="number")
    if "surrogate" in told:
        return IntakeError(
            f"{place} holds a lone surrogate",
            place=_surrogate_place(raw, place) or f"{place}, byte {error.pos}",
            rule="surrogate",
            why="half a character is no text",
            next_step="send U+FFFD in its place",
        )
    return IntakeError(f"{place} is not valid JSON", place=f"{place}, byte {error.pos}", rule="json", why=told)


def _surrogate_place(raw: bytes, place: str) -> str | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    for where, text in _strings(value, place):
        if any("\ud800" <= sign <= "\udfff" for sign in text):
            return where.encode("utf-8", "replace").decode("utf-8")
    return None
