"""One raw value (from a flag, a variable or a file) made into a setting's value, or a `ConfigError` that says why not.

Values after parsing: text and path are `str`, duration is seconds (`float`), list is a tuple of `str`, switch is
`bool`. Pure: paths are not looked up here.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tracer.clock import parse_duration
from tracer.errors import ConfigError
from tracer.redaction.cuts import beginning
from tracer.settings.declared import FORMS, Setting

_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})
WHERE_KEYS_GO = "export it in the environment, or name a file in anthropic.key_file (mode 0600)"
_SECRET_STARTS = ("sk-", "ghp_", "github_pat_", "glpat-", "AIza", "xoxb-", "xoxp-", "AKIA", "-----BEGIN")

# Up to the last @: an unquoted one may stand in the password. An empty one is none.
_PASSWORD = re.compile(r"(://[^\s/@:]*:)(?!@[^\s@]*(?:\s|\Z))\S+(?=@)|([?&]\w*password=)[^\s&]+")


def secret_looking(value: Any) -> bool:
    """Whether a text starts like a provider's key; the shapes people paste into configuration by mistake."""
    return isinstance(value, str) and len(value) >= 16 and value.strip().startswith(_SECRET_STARTS)


def without_password(text: str) -> str:
    """`text` with the password of an address in it left out: what may be shown of a setting."""
    return _PASSWORD.sub(r"\1\2***", text)


def parse_value(setting: Setting, raw: Any, *, key: str, where: str) -> Any:
    """`raw` as a value of `setting`; `where` names the file, variable or flag for the error."""
    if secret_looking(raw):
        raise ConfigError(
            f"{key}: this looks like a secret, and secrets are not kept in configuration",
            why=where,
            next_step=WHERE_KEYS_GO,
        )
    value = _convert(setting, raw)
    if value is None:
        raise ConfigError(
            f"{key}: {_shown(raw)} is not {_wanted(setting)}",
            why=where,
            next_step=f"pm help config set; {setting.help}",
        )
    if setting.choices and value not in setting.choices:
        raise ConfigError(f"{key}: {_shown(raw)} is not one of {', '.join(setting.choices)}", why=where)
    if setting.form:
        pattern, wanted = FORMS[setting.form]
        for each in value if isinstance(value, tuple) else (value,):
            if not re.fullmatch(pattern, each):
                raise ConfigError(
                    f"{key}: {_shown(without_password(each))} is not {wanted}", why=where, next_step=setting.help
                )
    if setting.minimum is not None and value < setting.minimum:
        raise ConfigError(f"{key}: {_shown(raw)} is below {setting.minimum:g}", why=where)
    return value


def _shown(raw: Any) -> str:
    return beginning(repr(raw), 60)


def _wanted(setting: Setting) -> str:
    return {
        "integer": "a whole number",
        "number": "a number",
        "duration": "a time such as 90s, 15m or 2h",
        "switch": "true or false",
        "list": 'a list of texts: a,b or ["a", "b"]',
    }.get(setting.kind, "a text")


def _convert(setting: Setting, raw: Any) -> Any:
    """The value, or None where the type does not fit."""
    match setting.kind:
        case "any":
            return raw
        case "text" | "path":
            return raw if isinstance(raw, str) and raw.strip() else None
        case "switch":
            return _switch(raw)
        case "list":
            return parse_list(raw)
        case "duration" if isinstance(raw, str):
            return parse_duration(raw.strip())
        case "integer":
            return _number(raw, whole=True)
        case _:
            return _number(raw, whole=False)


def _switch(raw: Any) -> bool | None:
    if isinstance(raw, bool):
        return raw
    word = raw.strip().lower() if isinstance(raw, str) else ""
    return True if word in _TRUE else False if word in _FALSE else None


def parse_list(raw: Any) -> tuple[str, ...] | None:
    """`a,b`, a JSON list or a list as a tuple of texts; None for anything else."""
    if isinstance(raw, str) and raw.lstrip().startswith("["):
        try:
            raw = json.loads(raw)
        except ValueError:
            return None
    if isinstance(raw, str):
        return tuple(part.strip() for part in raw.split(",") if part.strip())
    if isinstance(raw, list | tuple) and all(isinstance(part, str) for part in raw):
        return tuple(raw)
    return None


def _number(raw: Any, *, whole: bool) -> float | int | None:
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        return None
    try:
        number = int(raw) if whole and not isinstance(raw, float) else float(raw)
    except ValueError:
        return None
    if whole and number != int(number):
        return None
    return int(number) if whole else (number if number == number and abs(number) != float("inf") else None)  # noqa: PLR0124 - NaN
