"""Q2-Q4 in their plain form: comment leaders and mark words by line, real parsers where the library has one."""

from __future__ import annotations

import ast
import json
import re
import tomllib

import yaml

from runner.criteria.answer import read_answer
from runner.criteria.finding import at, finding_of
from runner.criteria.model import Evidence, Finding, Place

__all__ = ["q2_marks", "q3_omissions", "q4_syntax"]

_COMMENT = r"(?:#|//|/\*|\*|--|<!--|;|%|\"\"\"|''')"
_MARK = re.compile(rf"(?:^|\s){_COMMENT}.*?\b(TODO|FIXME|TBD|HACK|XXX)\b")
_WORK = re.compile(
    r"\b(?:raise NotImplementedError|todo!\(|unimplemented!\(|throw new Error\([\"']not implemented)", re.IGNORECASE
)
_PROSE = re.compile(r"^\W*(TODO|FIXME|TBD|HACK|XXX)\b\s*[:(]")
_OMIT = re.compile(
    rf"(?:^|\s){_COMMENT}.*?(?:rest (?:of|omitted|unchanged)|existing code|same as before|残り省略|以下同様|implementation (?:goes )?here|\.\.\. )",
    re.IGNORECASE,
)


def q2_marks(evidence: Evidence) -> Finding:
    """No TODO, FIXME, TBD, HACK, XXX in a comment; no work named as missing."""
    places: list[Place] = []
    for path, number, line in _lines(evidence):
        if (mark := _MARK.search(line)) and (path or number):
            places.append(at("marker", f"{mark.group(1)} found", path=path, line=number, excerpt=line))
        elif path and _WORK.search(line):
            places.append(at("missing_work", "not implemented", path=path, line=number, excerpt=line))
    places.extend(
        at("marker", f"{mark.group(1)} found", line=prose.line, excerpt=prose.raw)
        for prose in read_answer(evidence.answer).prose
        if (mark := _PROSE.search(prose.text))
    )
    return finding_of(places)


def q3_omissions(evidence: Evidence) -> Finding:
    """No comment that stands for left-out code."""
    return finding_of(
        at("omission", "omission marker found", path=path, line=number, excerpt=line)
        for path, number, line in _lines(evidence)
        if _OMIT.search(line)
    )


def q4_syntax(evidence: Evidence) -> Finding:
    """Everything delivered parses."""
    places: list[Place] = []
    if evidence.stop_reason in {"max_tokens", "length", "MAX_TOKENS"}:
        places.append(at("cut_off", "the answer was cut off by the output limit"))
    places.extend(
        at("unterminated_fence", "a code block is never closed", line=fence.line)
        for fence in read_answer(evidence.answer).fences
        if not fence.closed
    )
    for file in evidence.files:
        if file.after is None:
            continue
        if fault := _fault(file.path, file.after):
            places.append(at("syntax", fault[1], path=file.path, line=fault[0]))
    return finding_of(places)


def _lines(evidence: Evidence) -> list[tuple[str | None, int, str]]:
    found: list[tuple[str | None, int, str]] = []
    for file in evidence.files:
        if file.after is not None and b"\0" not in file.after[:8192]:
            text = file.after.decode("utf-8", "replace")
            found.extend((file.path, number, line) for number, line in enumerate(text.split("\n"), 1))
    for fence in read_answer(evidence.answer).fences:
        found.extend((None, fence.line + number, line) for number, line in enumerate(fence.body.split("\n"), 1))
    return found


def _fault(path: str, content: bytes) -> tuple[int | None, str] | None:
    text = content.decode("utf-8", "replace")
    try:
        if path.endswith(".py"):
            ast.parse(text)
        elif path.endswith(".json"):
            json.loads(text)
        elif path.endswith(".toml"):
            tomllib.loads(text)
        elif path.endswith((".yaml", ".yml")):
            list(yaml.parse(text, Loader=yaml.SafeLoader))
    except (SyntaxError, json.JSONDecodeError) as error:
        return (error.lineno or 1, f"does not parse: {error.msg}")
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        return (None, f"does not parse: {str(error).splitlines()[0]}")
    return None
