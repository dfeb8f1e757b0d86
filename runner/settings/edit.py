"""Changes one setting in a configuration file and leaves every comment and blank line where it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from runner.settings.declared import Setting, find_setting
from runner.settings.layers import nearest_key, read_file
from runner.settings.parse import parse_value
from tracer.errors import ConfigError

__all__ = ["set_value"]


def set_value(path: Path, key: str, raw: str | None) -> Any:
    """Write `raw` (text as typed; None removes the key) as the value of `key` into `path`; the value as kept.

    The file is written aside, synced and renamed: a crash leaves the old or the new one.

    Raises:
        ConfigError: unknown key, a value that does not fit, a secret, a file that is no TOML or cannot be written.

    """
    import tomlkit  # 60 ms, only to change a file
    from tomlkit.exceptions import TOMLKitError

    setting = find_setting(key)
    if setting is None or key.endswith("*"):
        like = nearest_key(key)
        raise ConfigError(f"unknown setting {key!r}", next_step=f"did you mean {like}?" if like else "pm config show")
    value = None if raw is None else parse_value(setting, _typed(setting, raw), key=key, where="given value")
    read_file(path)  # the strict parser speaks first: its error names the line
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
        _place(document, key.split("."), _stored(setting, raw, value))
    except (TOMLKitError, TypeError) as error:
        raise ConfigError(f"{key!r} cannot be set in {path.name}", why=str(error), next_step=f"mend {path}") from error
    _write(path, tomlkit.dumps(document))
    return value


def _typed(setting: Setting, raw: str) -> Any:
    """Values of free families are kept in the narrowest type that TOML has for them."""
    if setting.kind != "any":
        return raw
    if raw in {"true", "false"}:
        return raw == "true"
    try:
        return int(raw)
    except ValueError:
        return raw


def _stored(setting: Setting, raw: str | None, value: Any) -> Any:
    if raw is None:
        return None
    if setting.kind == "duration" and raw.strip()[-1:].isalpha():
        return raw.strip()
    return list(value) if isinstance(value, tuple) else value


def _place(document: Any, names: list[str], value: Any) -> None:
    import tomlkit

    table = document
    for name in names[:-1]:
        if name not in table:
            if value is None:
                return
            table[name] = tomlkit.table()
        table = table[name]
    if value is not None:
        table[names[-1]] = value
    elif names[-1] in table:
        del table[names[-1]]


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be written", why=f"{path}: {error.strerror}") from error
