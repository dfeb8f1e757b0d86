"""The page of the HTTP calls, from the OpenAPI document that `pm serve` gives out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from service.app import create_app
from tracer.statedir import StateDir

_HEAD = """# HTTP reference

Every call of `pm serve`, from the OpenAPI document that it gives out at `/openapi.json`. [HTTP](http.md) tells how to
sign in and what the calls are for. All errors are problem documents (`application/problem+json`, see
[Problem](#problem)).
"""


def http_page() -> str:
    """The calls by group, then the values that they take and give."""
    nothing = cast("Any", None)
    document = create_app(
        state_dir=StateDir(Path()), supervisor=nothing, task_request=nothing, collector=nothing, token="", version="0"
    ).openapi()
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            found = groups.setdefault(operation["tags"][0], [])
            found += _operation(f"{method.upper()} {path}", operation)
    lines = [_HEAD]
    for tag, found in groups.items():
        lines += [f"## {tag.capitalize()}", "", *found]
    lines += ["## Values", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        if "properties" in schema:
            lines += [f"### {name}", "", *_told(schema), *_fields(schema), ""]
        elif "enum" in schema:
            lines += [f"### {name}", "", *_told(schema), _type(schema), ""]
    return "\n".join(lines).rstrip() + "\n"


def _operation(title: str, operation: dict[str, Any]) -> Iterator[str]:
    yield from (f"### `{title}`", "", *_told(operation))
    parameters = operation.get("parameters", [])
    if parameters:
        yield from ("| parameter | in | type |", "|---|---|---|")
        for each in parameters:
            yield f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} |"
        yield ""
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        named = _type(content.get("schema", {}))
        yield from (f"Takes {named}" + ("." if kind == "application/json" else f" as `{kind}`."), "")
        if example := content.get("example"):
            yield from ("```json", json.dumps(example, indent=2, ensure_ascii=False), "```", "")
    good = [status for status in operation["responses"] if status < "400"]
    for status in good:
        content = operation["responses"][status].get("content", {})
        kinds = [
            _type(each.get("schema", {})) + ("" if kind.endswith("json") else f" as `{kind}`")
            for kind, each in content.items()
        ]
        yield f"Answers {status}" + (f" with {' or '.join(kinds)}" if kinds else "") + ";"
    yield from (f"refuses with {', '.join(sorted(operation['responses'].keys() - set(good)))}.", "")


def _told(schema: dict[str, Any]) -> list[str]:
    return [schema["description"].strip(), ""] if schema.get("description") else []


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    yield from ("| field | type | meaning |", "|---|---|---|")
    required = schema.get("required", ())
    for name, each in schema["properties"].items():
        optional = "" if name in required else ", optional"
        yield f"| `{name}` | {_type(each)}{optional} | {_cell(each.get('description', ''))} |"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words; one with a name leads to it."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    for several in ("anyOf", "oneOf"):
        if several in schema:
            kinds = dict.fromkeys(_type(each) for each in schema[several])
            return " or ".join(kinds)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    named = schema.get("type", "any")
    return " or ".join(named) if isinstance(named, list) else str(named)
