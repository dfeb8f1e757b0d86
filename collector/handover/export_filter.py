"""The small language of `--where`: which traces belong to a set.

Python's own grammar, read by `ast`, of which only comparisons, `and`, `or`, `not`, `in`, field names and constants are
taken; nothing is ever evaluated as Python. A field that is null is equal to `null` alone, and less or greater than
nothing. Pure.
"""

from __future__ import annotations

import ast
import difflib
import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from tracer.errors import UsageError

Where = Callable[[Mapping[str, Any]], bool]
"""Whether a trace, given as a mapping of every field of `FIELDS`, belongs to the set."""

_Value = Callable[[Mapping[str, Any]], Any]
_SCORES: Final = (
    "root_cause_identification",
    "plan_quality",
    "experiment_iterate_loop",
    "use_of_signals_tests_logs",
    "minimality_of_fix",
    "clarity",
)
FIELDS: Final[Mapping[str, str]] = {
    "trace_id": "the trace's id",
    "status": "open, finalized, qa_running, complete, qa_failed",
    "created_at_ms": "when it was created, milliseconds since 1970 UTC",
    "finalized_at_ms": "when it was finalized; null while it is open",
    "events": "how many events it has",
    "store": "redacted, raw or patches_only",
    "repo": "repo.repo_id",
    "labels": "task.labels, a list",
    "language": "environment.language, a list",
    "developer": "developer.developer_id",
    "experience": "junior, mid, senior, unknown",
    "consent.store_raw_code": "true or false",
    "consent.store_terminal_output": "true or false",
    "consent.allow_llm_judge": "true or false",
    "qa.schema_valid": "true, false, null",
    "qa.final_passed": "whether the tests passed in the end; null where they could not be run",
    "qa.not_testable": "why they could not be run, else null",
    "overall": "the judge's mean score, 0 to 5; null where there is none",
    **dict.fromkeys(_SCORES, "one of the judge's scores, 0 to 5"),
    "flags": "the judge's flags, a list",
    "rubric": "the rubric's version",
    "judge": "the judge's model",
}
"""Every field with its meaning; `pm capture export --fields` prints them."""

_ALIASES: Final[Mapping[str, str]] = {
    "qa.tests.final_passed": "qa.final_passed",
    "qa.tests.not_testable": "qa.not_testable",
    "qa.overall": "overall",
    "qa.judge.overall": "overall",
    "qa.judge.flags": "flags",
    "qa.judge.model": "judge",
    "qa.judge.rubric_version": "rubric",
    "repo.repo_id": "repo",
    "repo_id": "repo",
    "task.labels": "labels",
    "environment.language": "language",
    "developer.developer_id": "developer",
    "developer.experience_level": "experience",
    "experience_level": "experience",
    "ingestion.store": "store",
    **{f"developer.consent_flags.{flag}": f"consent.{flag}" for flag in (
        "store_raw_code", "store_terminal_output", "allow_llm_judge")},
    **{f"qa.judge.scores.{score}": score for score in _SCORES},
    **{f"scores.{score}": score for score in _SCORES},
}  # fmt: skip
_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}
_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("created_at_ms", "finalized_at_ms", "events", "overall", *_SCORES), "number"),
    **dict.fromkeys((name for name in FIELDS if name.startswith("consent.")), "switch"),
    **dict.fromkeys(("qa.schema_valid", "qa.final_passed"), "switch"),
    **dict.fromkeys(("labels", "language", "flags"), "list"),
}
"""What the fields are that are no texts."""
_ONE_EQUALS: Final = re.compile(r"(?<![=!<>])=(?!=)")
_LONGEST: Final = 4096
_ORDER: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def parse_where(text: str) -> Where:
    """The condition that `text` states; an empty one holds for every trace.

    Raises:
        UsageError: it is no expression of the language, or names an unknown field (the nearest is suggested).

    """
    if not text.strip():
        return lambda _: True
    if len(text) > _LONGEST:
        raise _refused(text[:40] + "…", f"it is longer than {_LONGEST} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        value = _condition(tree.body, text)
    except SyntaxError as error:
        why = "equal is written ==" if _ONE_EQUALS.search(text) else error.msg
        raise _refused(text, why) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise _refused(text, str(error) or type(error).__name__) from error
    return lambda trace: bool(value(trace))


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
            return _chain(left, ops, rights, text)
        case _:
            return _value(node, text)


def _chain(left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr], text: str) -> _Value:
    values = [_value(part, text) for part in (left, *rights)]
    tests = [_comparison(op, text) for op in ops]
    for at, op in enumerate(ops):
        _check_kinds((left, *rights)[at], op, rights[at], text)

    def holds(trace: Mapping[str, Any]) -> bool:
        found = [value(trace) for value in values]
        return all(test(found[at], found[at + 1]) for at, test in enumerate(tests))

    return holds


def _check_kinds(left: ast.expr, op: ast.cmpop, right: ast.expr, text: str) -> None:
    """Refuse what no trace could ever fulfil, or every one does: a number beside a text, a switch that is more."""
    one, other = _kind(left), _kind(right)
    if one is None or other is None:
        return
    if isinstance(op, ast.In | ast.NotIn):
        fits = other == "list" or (one == other == "text")
    elif type(op) in _ORDER:
        fits = one == other and one in {"number", "text"}
    else:
        fits = one == other
    if not fits:
        sides = [f"{ast.unparse(node)} is a {kind}" for node, kind in ((left, one), (right, other))]
        raise _refused(text, ", ".join(sides))


def _kind(node: ast.expr) -> str | None:
    """The kind of values an expression has; None for null, and where it cannot be told."""
    match node:
        case ast.Constant(value=bool()) | ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return "switch"
        case ast.Constant(value=int() | float()) | ast.UnaryOp():
            return "number"
        case ast.Constant(value=str()):
            return "text"
        case ast.List() | ast.Tuple():
            return "list"
    name = _dotted(node) or ""
    if isinstance(_WORDS.get(name), bool):
        return "switch"
    return None if name in _WORDS else _KINDS.get(_ALIASES.get(name, name), "text")


def _comparison(op: ast.cmpop, text: str) -> Callable[[Any, Any], bool]:
    match op:
        case ast.Eq() | ast.Is():
            return _equal
        case ast.NotEq() | ast.IsNot():
            return lambda one, other: not _equal(one, other)
        case ast.In():
            return _contains
        case ast.NotIn():
            return lambda one, other: not _contains(one, other)
    compare = _ORDER.get(type(op))
    if compare is None:
        raise _refused(text, f"the operator {type(op).__name__} is not taken")
    return lambda one, other: _ordered(one) and _same_kind(one, other) and compare(one, other)


def _equal(one: Any, other: Any) -> bool:
    return one is other if one is None or other is None else bool(one == other) and _same_kind(one, other)


def _contains(one: Any, other: Any) -> bool:
    if isinstance(other, str):
        return isinstance(one, str) and one in other
    return isinstance(other, Collection) and any(_equal(one, each) for each in other)


def _ordered(value: Any) -> bool:
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _same_kind(one: Any, other: Any) -> bool:
    numbers = (int, float)
    if isinstance(one, bool) or isinstance(other, bool):
        return isinstance(one, bool) and isinstance(other, bool)
    return isinstance(other, numbers) if isinstance(one, numbers) else type(one) is type(other)


def _value(node: ast.expr, text: str) -> _Value:
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() as constant):
            return lambda _: constant
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)) if number is not True:
            negative = -number
            return lambda _: negative
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            members = [_value(part, text) for part in parts]
            return lambda trace: [member(trace) for member in members]
        case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return _condition(node, text)
    name = _dotted(node)
    if name is None:
        raise _refused(text, f"{ast.unparse(node)!r} is neither a field, a constant nor a comparison")
    if name in _WORDS:
        word = _WORDS[name]
        return lambda _: word
    field = _ALIASES.get(name, name)
    if field not in FIELDS:
        near = difflib.get_close_matches(name, [*FIELDS, *_ALIASES], n=1)
        raise UsageError(
            f"--where: no field {name!r}",
            why=f"did you mean {near[0]!r}?" if near else "",
            next_step="list the fields with: pm capture export --fields",
        )
    return lambda trace: trace[field]


def _dotted(node: ast.expr) -> str | None:
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
