"""A project's settings files from their text: what cannot be read as a table holds no settings. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=8)
def toml_table(text: str) -> Mapping[str, Any]:
    """The table that `text` holds; empty where it is no TOML. A long one takes 10 ms, and is read for each answer."""
    if not text:
        return {}
    import tomllib  # 3 ms, and few projects have such a file: as below

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def json_object(text: str) -> dict[str, Any]:
    """The object that `text` holds; empty where it is no JSON or another kind of value."""
    if not text:
        return {}
    import orjson  # 4 ms, and few projects have such a file

    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def package_scripts(package: str | bytes) -> dict[str, str]:
    """The scripts of a package.json, by name."""
    text = package if isinstance(package, str) else package.decode("utf-8", "replace")
    scripts = json_object(text).get("scripts")
    return {name: line for name, line in scripts.items() if isinstance(line, str)} if isinstance(scripts, dict) else {}


def ini_section(text: str, tool: str) -> str:
    """The text of a tool's section of an INI file, empty where there is none."""
    found = re.search(rf"^\[(?:tool:)?{tool}[^\]]*\](.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    return found.group(1).strip() if found else ""
