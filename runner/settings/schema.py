"""The settings as a JSON Schema (draft 2020-12), for editors that complete and check config.toml."""

from __future__ import annotations

from typing import Any

from runner.settings.declared import SETTINGS, Setting

__all__ = ["json_schema"]

_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "minLength": 1},
    "path": {"type": "string", "minLength": 1},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "duration": {"type": ["string", "number"], "pattern": "^[0-9]+(\\.[0-9]+)?[smhdwSMHDW]?$"},
    "switch": {"type": "boolean"},
    "list": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
    "any": {},
}


def json_schema() -> dict[str, Any]:
    """The schema of a configuration file; keys outside it are errors, as they are for `pm`."""
    root: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pm configuration",
        **_table(),
    }
    for setting in SETTINGS:
        *path, last = setting.key.split(".")
        table = root
        for name in path:
            table = table["properties"].setdefault(name, _table())
        if last == "*":
            table["additionalProperties"] = _property(setting)
        else:
            table["properties"][last] = _property(setting)
    return root


def _table() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _property(setting: Setting) -> dict[str, Any]:
    described = {**_TYPES[setting.kind], "description": setting.help}
    if setting.choices:
        described["enum"] = list(setting.choices)
    if setting.minimum is not None:
        described["minimum"] = setting.minimum
    if setting.default is not None and setting.default != ():
        described["default"] = setting.default
    return described
