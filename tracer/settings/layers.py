"""The settings in force: all layers read, checked and merged; one setting changed in a file.

Layers, highest first: flags, `PM_*`, `--config`, config.local.toml, config.toml, the user's file, defaults. Guarded
settings in untrusted project files are left out and listed in `ignored`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tracer.durable import replace
from tracer.errors import ConfigError, UsageError
from tracer.settings.declared import REMOVED, SETTINGS, Setting, find_setting
from tracer.settings.parse import WHERE_KEYS_GO, parse_value
from tracer.settings.trust import PROJECT_FILES, folder_trusted, trusted_file, user_folder

# What a file that many people share may not decide for any of them, however well it is trusted.
_NOT_FOR_PROJECTS = {("run.permissions", "full")}
_NEARLY = 0.85
_SECRET_WORDS = ("api_key", "apikey", "token", "secret", "password", "passwd", "credential")


class Origin(NamedTuple):
    """Where a value came from: `layer` (flag, environment, file, local, project, user, default) and its name."""

    layer: str
    where: str = ""


class Layered(NamedTuple):
    """A setting's value in force and the lower ones that it overrides, highest first."""

    key: str
    value: Any
    origin: Origin
    overrides: tuple[tuple[Any, Origin], ...] = ()


class Ignored(NamedTuple):
    """A setting in a file that is left out, and why: want of trust, nothing a project may say, or removed since."""

    key: str
    path: str
    why: str = "the folder is not trusted"
    value: Any = None


class Settings:
    """All settings of one run. `trusted` is whether the folder as a whole is; `get` answers with the value in force."""

    def __init__(
        self, rows: Mapping[str, Layered], *, ignored: tuple[Ignored, ...], trusted: bool, project: Path
    ) -> None:
        self.rows = rows
        self.ignored = ignored
        self.trusted = trusted
        self.project = project

    def get(self, key: str) -> Any:
        """The value of `key` (its default where nothing sets it)."""
        if (row := self.rows.get(key)) is not None:
            return row.value
        setting = find_setting(key)
        return setting.default if setting else None

    def origin(self, key: str) -> Origin:
        """Where the value of `key` came from."""
        row = self.rows.get(key)
        return row.origin if row is not None else Origin("default")

    def family(self, prefix: str) -> dict[str, Any]:
        """The values below `prefix` (`repl.keys`), by the rest of their key."""
        start = prefix + "."
        return {key.removeprefix(start): row.value for key, row in self.rows.items() if key.startswith(start)}

    def untrusted(self) -> dict[str, Any]:
        """The values that were left out for want of trust, by key; of several the highest."""
        left_out = [item for item in self.ignored if item.why == Ignored("", "").why]
        return {item.key: item.value for item in reversed(left_out)}

    def ignored_line(self) -> str:
        """One line about settings that were left out for want of trust, or an empty text."""
        untrusted = self.untrusted()
        parts = [f"ignored: {item.key}, {item.why}" for item in self.ignored if item.key not in untrusted]
        if untrusted:
            parts.append(f"ignored until you trust this folder: {', '.join(untrusted)} (pm config trust)")
        return "; ".join(parts)


def user_file(environ: Mapping[str, str]) -> Path:
    """The user's own configuration file."""
    return user_folder(environ, platform=sys.platform) / "config.toml"


def trust_store(environ: Mapping[str, str]) -> Path:
    """Where trust is kept."""
    return user_folder(environ, platform=sys.platform) / "trusted.json"


def load_settings(
    *,
    project: Path,
    environ: Mapping[str, str],
    extra_file: str | None = None,
    flags: Mapping[str, Any] | None = None,
    vouched: bool = False,
) -> Settings:
    """Read and merge all layers; `project` is the folder that holds config.toml (the state directory).

    `vouched`: the user trusts its files and the folder for this once.
    """
    store, ignored = trust_store(environ), list[Ignored]()
    layers: list[Iterator[tuple[str, Any, Origin]]] = [_from_flags(flags or {}), _from_environment(environ)]
    if extra_file:
        path = Path(extra_file).expanduser()
        if not path.is_file():
            raise ConfigError(f"no configuration file {str(path)!r}", next_step="check --config")
        layers.append(_from_file(path, "file", ignored))
    layers.extend(_from_project(project, name, store, ignored, vouched=vouched or None) for name in PROJECT_FILES)
    layers.append(_from_file(user_file(environ), "user", ignored))
    layers.append(
        (setting.key, setting.default, Origin("default")) for setting in SETTINGS if not setting.key.endswith("*")
    )
    found: dict[str, list[tuple[Any, Origin]]] = {}
    for layer in layers:
        for key, value, origin in layer:
            found.setdefault(key, []).append((value, origin))
    rows = {key: Layered(key, values[0][0], values[0][1], tuple(values[1:])) for key, values in found.items()}
    return Settings(rows, ignored=tuple(ignored), trusted=vouched or folder_trusted(store, project), project=project)


def _from_flags(flags: Mapping[str, Any]) -> Iterator[tuple[str, Any, Origin]]:
    for setting in SETTINGS:
        name = setting.flag.lstrip("-").replace("-", "_")
        if setting.flag and flags.get(name) is not None:
            try:
                value = parse_value(setting, flags[name], key=setting.flag, where="flag")
            except ConfigError as error:  # typed on the command line: the person mends the line, not a file
                raise UsageError(error.what, next_step=f"{setting.flag}: {setting.help}") from error
            yield setting.key, value, Origin("flag", setting.flag)


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Any, Origin]]:
    for setting in SETTINGS:
        raw = environ.get(setting.env) if setting.env else None
        if raw:
            value = parse_value(setting, raw, key=setting.env, where="environment")
            yield setting.key, value, Origin("environment", setting.env)


def _from_project(
    project: Path, name: str, store: Path, ignored: list[Ignored], *, vouched: bool | None = None
) -> Iterator[tuple[str, Any, Origin]]:
    path = project / name
    layer = "local" if name == PROJECT_FILES[0] else "project"
    for key, value, origin in _from_file(path, layer, ignored):
        setting = find_setting(key)
        if setting is not None and setting.guarded:
            if vouched is None:
                vouched = trusted_file(store, project, name, path.read_bytes())
            if not vouched:
                ignored.append(Ignored(key, str(path), value=value))
                continue
            if layer == "project" and (key, value) in _NOT_FOR_PROJECTS:
                ignored.append(Ignored(key, str(path), "full is given by a flag or your own configuration only"))
                continue
        yield key, value, origin


def _from_file(path: Path, layer: str, ignored: list[Ignored]) -> Iterator[tuple[str, Any, Origin]]:
    for key, raw in flatten(read_file(path)):
        where = str(path)
        if key in REMOVED:
            ignored.append(Ignored(key, where, f"this version has no such setting any more ({path.name})"))
            continue
        setting = find_setting(key)
        if setting is None:
            raise _unknown_in(path, key)
        try:
            yield key, parse_value(setting, raw, key=key, where=where), Origin(layer, where)
        except ConfigError as error:
            raise ConfigError(error.what, why=_place_of(path, key), next_step=error.next_step) from error


def read_file(path: Path) -> dict[str, Any]:
    """The tables of a configuration file; empty where there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not UTF-8", why=str(path), next_step=f"correct {path}") from error
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be read", why=f"{path}: {error.strerror}") from error
    import tomllib  # 3 ms, only where there is a file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path.name} is not valid TOML", why=f"{path}: {error}", next_step=f"correct {path}"
        ) from error


def flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values; tables below a free family are flattened too."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from flatten(value, f"{key}.")
        else:
            yield key, value


def _place_of(path: Path, key: str) -> str:
    line = line_of(path, key)
    return f"{path}:{line}" if line else str(path)


def _unknown_in(path: Path, key: str) -> ConfigError:
    where, last = _place_of(path, key), key.rsplit(".", 1)[-1].lower()
    if any(word in last for word in _SECRET_WORDS):
        return ConfigError(f"{key!r}: secrets are not kept in configuration", why=where, next_step=WHERE_KEYS_GO)
    return _unknown(key, why=where)


def _unknown(key: str, *, why: str = "") -> ConfigError:
    like = nearest_key(key)
    step = f"did you mean {like}?" if like else "pm config show"
    return ConfigError(f"unknown setting {key!r}", why=why, next_step=step)


def nearest_key(key: str) -> str:
    """The declared key most like `key`, or an empty text."""
    from difflib import get_close_matches  # 10 ms, only after a mistake

    keys = [setting.key for setting in SETTINGS]
    found = get_close_matches(key, keys, n=1, cutoff=0.5)
    if not found:
        by_last = {name.rsplit(".", 1)[-1]: name for name in keys}
        last = get_close_matches(key.rsplit(".", 1)[-1], list(by_last), n=1, cutoff=0.6)
        found = [by_last[last[0]]] if last else []
    return found[0] if found else ""


def mistyped_variables(environ: Mapping[str, str]) -> list[str]:
    """A line for each variable that is none of ours and nearly one: it would be passed over without a word."""
    from difflib import get_close_matches  # as above

    known = {setting.env or "PM_" + setting.key.removesuffix(".*").replace(".", "_").upper() for setting in SETTINGS}
    own = (name for name in environ if name.startswith("PM_") and not name.startswith("PM_TEST_"))  # of our own tests
    strange = [name for name in own if name not in known and environ[name]]
    near = {name: get_close_matches(name, known, n=1, cutoff=_NEARLY) for name in sorted(strange)}
    return [f"{name} is no variable of pm; did you mean {like[0]}?" for name, like in near.items() if like]


def line_of(path: Path, key: str) -> int | None:
    """The 1-based line that gives `key` its value: where the file, cut after that line, first holds it.

    Asking the TOML parser about growing prefixes costs a parse a line, and only `config show` and errors ask.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError):
        return None
    import tomllib

    for count in range(1, min(len(lines), 2000) + 1):
        try:
            table = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        if any(found == key for found, _ in flatten(table)):
            return count
    return None


def set_value(path: Path, key: str, raw: str | None, *, mode: int = 0o600) -> Any:
    """Write `raw` (text as typed; None removes the key) as the value of `key` into `path`; the value as kept.

    `mode` is that of a new file.

    The file is written aside, synced and renamed: a crash leaves the old or the new one.
    """
    import tomlkit  # 60 ms, only to change a file
    from tomlkit.exceptions import TOMLKitError

    setting = find_setting(key)
    if setting is None or key.endswith("*"):
        raise _unknown(key)
    value = None if raw is None else parse_value(setting, _typed(setting, raw), key=key, where="given value")
    read_file(path)  # the strict parser speaks first: its error names the line
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
        _place(document, key.split("."), _stored(setting, raw, value))
    except (TOMLKitError, TypeError) as error:
        raise ConfigError(
            f"{key!r} cannot be set in {path.name}", why=str(error), next_step=f"correct {path}"
        ) from error
    _write(path, tomlkit.dumps(document), mode)
    return value


def _typed(setting: Setting, raw: str) -> Any:
    """Values of free families are kept in the narrowest type that TOML has for them."""
    if setting.kind != "any":
        return raw
    try:
        found = json.loads(raw)
    except ValueError:
        return raw
    return found if isinstance(found, bool | int | float | list) else raw


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


def _write(path: Path, text: str, new_mode: int) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(path, text.encode(), path.stat().st_mode & 0o777 if path.exists() else new_mode)
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be written", why=f"{path}: {error.strerror}") from error
