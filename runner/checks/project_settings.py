"""A project's settings files from their text: what cannot be read as a table holds no settings. Pure."""

from __future__ import annotations

import tomllib
from typing import Any

import orjson


def toml_table(text: str) -> dict[str, Any]:
    """The table that `text` holds; empty where it is no TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def json_object(text: str) -> dict[str, Any]:
    """The object that `text` holds; empty where it is no JSON or another kind of value."""
    try:
        value = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
