"""Whether text parses, by the parsers the languages' own users trust: Python's compiler, orjson, tomllib, a YAML loader.

Bounded: over `LIMIT` bytes nothing is parsed (YAML earlier, it is slow). A fault is (line, message); None is no fault.
Syntax newer than the interpreter this runs on is not held against anyone.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
import warnings
from typing import NamedTuple

import orjson
import yaml

from runner.criteria.languages import by_name
from runner.criteria.source import open_source, parse

__all__ = ["LIMIT", "Fault", "fault_in"]

LIMIT = 32 * 1024 * 1024
_PYTHON_LIMIT = 4 * 1024 * 1024
# Compiling to bytecode finds a little more than parsing (a `return` outside a function) and costs ten times as much.
_COMPILE_LIMIT = 256 * 1024
_YAML_LIMIT = 2 * 1024 * 1024
_WITH_COMMENTS = re.compile(
    r"(?:^|/)(?:tsconfig[^/]*|jsconfig[^/]*|\.eslintrc(?:\.json)?|\.babelrc(?:\.json)?|\.swcrc|\.jshintrc|devcontainer\.json|deno\.json|turbo\.json|nx\.json|"
    r"api-extractor\.json|biome\.json|renovate\.json|settings\.json|launch\.json|tasks\.json|extensions\.json|keybindings\.json|[^/]+\.(?:jsonc|json5|code-workspace))$"
    r"|(?:^|/)\.vscode/[^/]+\.json$"
)
_TEMPLATED = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|<%.*?%>|\$\{\{", re.DOTALL)
_NEWER = ("type_alias_statement", "type_parameter", "interpolation")
_INLINE_TABLE = re.compile(r"\{[^{}\"'#]*\n[^{}#]*\}")


class Fault(NamedTuple):
    """Where and why text does not parse; `line` is 1-based or None."""

    line: int | None
    message: str


def fault_in(language: str, path: str, text: bytes, *, fragment: bool = False) -> Fault | None:
    """The first fault of `text` in `language` (python, json, jsonl, toml, yaml), None where it parses or is too large.

    `fragment` is for code shown in an answer: statements that only a module forbids are let pass.
    """
    if len(text) > LIMIT:
        return None
    try:
        match language:
            case "python":
                return _python(text, fragment=fragment)
            case "json":
                return _json(path, text)
            case "jsonl":
                return _json_lines(text)
            case "toml":
                return _toml(text)
            case "yaml":
                return _yaml(text)
            case _:
                return None
    except (RecursionError, MemoryError):
        return Fault(None, "nested too deeply to parse")


def _python(text: bytes, *, fragment: bool) -> Fault | None:
    if len(text) > _PYTHON_LIMIT:
        return None
    if (undecodable := _undecodable(text)) is not None:
        return undecodable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if fragment or len(text) > _COMPILE_LIMIT:
                ast.parse(text)
            else:
                compile(text, "<answer>", "exec", dont_inherit=True)
        except IndentationError as error:  # no grammar sees these
            return Fault(error.lineno, f"does not parse ({error.msg})")
        except SyntaxError as error:
            if _is_newer_python(text) or (fragment and "outside" in str(error.msg)):
                return None
            return Fault(error.lineno, f"does not parse ({error.msg})")
        except ValueError as error:
            return Fault(None, f"does not parse ({error})")
    return None


def _undecodable(text: bytes) -> Fault | None:
    """Bytes that are not in the file's encoding: the interpreter refuses them even in a comment."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(text).readline)
        text.decode(encoding)
    except SyntaxError as error:
        return Fault(1, f"does not parse ({error.msg})")
    except UnicodeDecodeError as error:
        return Fault(text.count(b"\n", 0, error.start) + 1, "does not parse (not UTF-8)")
    return None


def _is_newer_python(text: bytes) -> bool:
    """Whether the grammar takes it whole and it uses what came after this interpreter."""
    source = open_source("a.py", text, by_name("python"))
    if source is None or source.tree is None or source.tree.root_node.has_error:
        return False
    return bool(source.nodes(_NEWER)) and not source.nodes(("print_statement", "exec_statement"))


def _json(path: str, text: bytes) -> Fault | None:
    if _WITH_COMMENTS.search(path):
        return _json_with_comments(text)
    body = text.removeprefix(b"\xef\xbb\xbf")
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Fault(error.lineno, f"does not parse ({error.msg})")
    return None


def _json_with_comments(text: bytes) -> Fault | None:
    """JSON as configuration tools take it, with comments and trailing commas: an object literal of JavaScript."""
    language = by_name("javascript")
    tree = parse(language, b"(" + text.strip() + b"\n)") if language is not None else None
    if tree is not None and tree.root_node.has_error:
        return Fault(None, "does not parse (not JSON, not even with comments)")
    return None


def _json_lines(text: bytes) -> Fault | None:
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            try:
                orjson.loads(line)
            except orjson.JSONDecodeError as error:
                return Fault(number, f"does not parse ({error.msg})")
    return None


def _toml(text: bytes) -> Fault | None:
    decoded = text.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        tomllib.loads(decoded)
    except tomllib.TOMLDecodeError as error:
        if _TEMPLATED.search(decoded) or _parses_as_newer_toml(decoded):
            return None
        at = re.search(r"line (\d+)", str(error))
        return Fault(int(at.group(1)) if at else None, f"does not parse ({error})")
    return None


def _parses_as_newer_toml(text: str) -> bool:
    """TOML 1.1 lets inline tables run over lines."""
    joined = _INLINE_TABLE.sub(
        lambda match: re.sub(r",?\s*\n\s*", " ", re.sub(r",\s*\n\s*(?=[^}\s])", ", ", match.group())), text
    )
    if joined == text:
        return False
    try:
        tomllib.loads(joined)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _yaml(text: bytes) -> Fault | None:
    if len(text) > _YAML_LIMIT:
        return None
    decoded = text.decode("utf-8", "replace")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in yaml.parse(decoded, Loader=loader):
            pass
    except yaml.YAMLError as error:
        if _TEMPLATED.search(decoded):
            return None
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not YAML"
        return Fault(mark.line + 1 if mark is not None else None, f"does not parse ({problem})")
    return None
