"""The small language of `--where`: which traces belong to a set.

Python's own grammar, read by `ast`, of which only comparisons, `and`, `or`, `not`, `in`, field names and constants are
taken; nothing is ever evaluated as Python. Each thing has one spelling. A field that is null is equal to `null` alone,
and less or greater than nothing. Pure.
"""

from __future__ import annotations

import ast
import difflib
import operator
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from tracer.capture.document import Scores
from tracer.errors import UsageError
from tracer.redaction.cuts import beginning

Where = Callable[[Mapping[str, Any]], bool]
"""Whether a trace, given as a mapping of every field of `FIELDS`, belongs to the set."""

_Value = Callable[[Mapping[str, Any]], Any]
_SCORES: Final = tuple(Scores.model_fields)
_KNOWN: Final[Mapping[str, Mapping[str, str]]] = {
    **tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")),
    **{name: {"kind": "number", "means": "one of the judge's scores, 0 to 5"} for name in _SCORES},
}
FIELDS: Final[Mapping[str, str]] = {name: field["means"] for name, field in _KNOWN.items()}
"""Every field with its meaning; `pm capture export --fields` prints them."""

_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}
_ONE_EQUALS: Final = re.compile(r"(?<![=!<>])=(?!=)")
_LONGEST: Final = 4096


def parse_where(text: str) -> Where:
    """The condition that `text` states; an empty one holds for every trace.

    Raises:
        UsageError: it is no expression of the language, or names an unknown field (the nearest is suggested).

    """
    if not text.strip():
        return lambda _: True
    if len(text) > _LONGEST:
        raise _refused(beginning(text, 40), f"it is longer than {_LONGEST} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        value = _condition(tree.body, text)
    except SyntaxError as error:
        why = "equal is written ==" if _ONE_EQUALS.search(text) else error.msg
        raise _refused(text, why) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise _refused(text, str(error) or type(error).__name__) from error
    return lambda trace: bool(value(trace))


def check_stated(text: str) -> str:
    """The condition of an action on many traces. Raises UsageError: it is empty."""
    if not text.strip():
        raise UsageError(
            "the condition (where) is empty", why="an unset variable is too", next_step="for every trace write: true"
        )
    return text


def fields_in(text: str) -> set[str]:
    """The fields that a condition names."""
    return {name for node in ast.walk(ast.parse(text.strip() or "0", mode="eval")) if (name := _dotted(node))} & {
        *FIELDS
    }


def _condition(node: ast.expr, text: str) -> _Value:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            every = [_condition(part, text) for part in parts]
            return lambda trace: all(part(trace) for part in every)
        case ast.BoolOp(values=parts):
            some = [_condition(part, text) for part in parts]
            return lambda trace: any(part(trace) for part in some)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            negated = _condition(inner, text)
            return lambda trace: not negated(trace)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            sides = [left, *rights]
            tests = [_comparison(sides[at], op, sides[at + 1], text) for at, op in enumerate(ops)]
            return lambda trace: all(test(trace) for test in tests)
    return _value(node, text)[0]


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr, text: str) -> _Value:
    (one, kind), (other, other_kind) = _value(left, text), _value(right, text)
    compare = _COMPARISONS.get(type(op))
    if compare is None:
        raise _refused(text, f"the operator {type(op).__name__} is not taken")
    if kind is not None and other_kind is not None:  # what no trace could ever fulfil, or every one does, is a mistake
        if isinstance(op, ast.In | ast.NotIn):
            fits = other_kind == "list" or kind == other_kind == "text"
        else:
            fits = kind == other_kind and (isinstance(op, ast.Eq | ast.NotEq) or kind in {"number", "text"})
        if not fits:
            sides = (left, kind), (right, other_kind)
            raise _refused(text, ", ".join(f"{ast.unparse(node)} is a {name}" for node, name in sides))
    return lambda trace: compare(one(trace), other(trace))


def _equal(one: Any, other: Any) -> bool:
    return one is other if one is None or other is None else bool(one == other) and _same_kind(one, other)


def _contains(one: Any, other: Any) -> bool:
    if isinstance(other, str):
        return isinstance(one, str) and one in other
    return isinstance(other, Collection) and any(_equal(one, each) for each in other)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda one, other: (
        one is not None and not isinstance(one, bool) and _same_kind(one, other) and compare(one, other)
    )


def _same_kind(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return isinstance(one, bool) and isinstance(other, bool)
    return isinstance(other, int | float) if isinstance(one, int | float) else type(one) is type(other)


_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: _equal,
    ast.NotEq: lambda one, other: not _equal(one, other),
    ast.In: _contains,
    ast.NotIn: lambda one, other: not _contains(one, other),
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
}


def _value(node: ast.expr, text: str) -> tuple[_Value, str | None]:
    """A constant or field, and its kind; None for null, which compares with every kind."""
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() as constant):
            return _constant(constant)
        case ast.List(elts=parts):
            members = [_value(part, text)[0] for part in parts]
            return lambda trace: [member(trace) for member in members], "list"
    name = _dotted(node)
    if name is None:
        raise _refused(text, f"{ast.unparse(node)!r} is neither a field, a constant nor a comparison")
    if name in _WORDS:
        return _constant(_WORDS[name])
    if name not in FIELDS:
        near = difflib.get_close_matches(name, FIELDS, n=1)
        raise UsageError(
            f"--where: no field {name!r}",
            why=f"did you mean {near[0]!r}?" if near else "",
            next_step="list the fields with: pm capture export --fields",
        )
    return operator.itemgetter(name), _KNOWN[name]["kind"]


def _constant(value: Any) -> tuple[_Value, str | None]:
    kind = {bool: "switch", int: "number", float: "number", str: "text"}.get(type(value))
    return lambda _: value, kind


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def _refused(text: str, why: str) -> UsageError:
    return UsageError(
        f"--where {text!r} cannot be understood", why=why, next_step="for example: 'qa.final_passed and overall >= 4'"
    )
