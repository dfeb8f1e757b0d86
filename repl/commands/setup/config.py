"""`pm config`: show where every value comes from, change one, check them, trust a folder's files."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repl.present.text import escape, padded
from tracer.errors import ConfigError, UsageError
from tracer.settings.declared import SETTINGS, find_setting, json_schema
from tracer.settings.layers import (
    Layered,
    Origin,
    line_of,
    mistyped_variables,
    nearest_key,
    set_value,
    trust_store,
    user_file,
)
from tracer.settings.parse import parse_list, without_password
from tracer.settings.trust import PROJECT_FILES, folder_trusted, forget, trust_files, trusted_file

if TYPE_CHECKING:
    from repl.context import Context
    from runner.checks.commands import PlannedCommand


def show(context: Context, arguments: Namespace) -> None:
    settings = context.settings()
    wanted = arguments.key
    rows = [row for key, row in sorted(settings.rows.items()) if not wanted or key.startswith(wanted)]
    if wanted and not rows:
        raise _unknown(wanted)
    for row in rows:
        context.output.line(f"{row.key:<26} {padded(_text(row.value), 24)} {_place(row.key, row.origin)}")
        for value, origin in row.overrides:
            if origin.layer != "default":
                context.output.line(f"{'':<26} {padded(_text(value), 24)} overridden: {_place(row.key, origin)}")
    for item in settings.ignored:
        context.output.line(f"{item.key:<26} {'(ignored)':<24} {item.path}: {item.why}")
    if settings.ignored:
        context.output.note("next: read the file, then pm config trust")
    context.output.result(
        "config show",
        {
            "settings": [_record(row) for row in rows],
            "ignored": [{"key": item.key, "path": item.path, "why": item.why} for item in settings.ignored],
            "trusted": settings.trusted,
        },
    )


def get(context: Context, arguments: Namespace) -> None:
    if find_setting(arguments.key) is None:
        raise _unknown(arguments.key)
    settings = context.settings()
    value = _shown(settings.get(arguments.key))
    context.output.line(_text(value))
    context.output.result(
        "config get", {"key": arguments.key, "value": value, **settings.origin(arguments.key)._asdict()}
    )


def set_(context: Context, arguments: Namespace) -> None:
    if (arguments.value is None) is not arguments.unset:
        raise UsageError("give a value, or --unset", next_step="pm help config set")
    if arguments.value is not None and not arguments.value.strip():
        raise UsageError(f"{arguments.key} would be empty", next_step=f"pm config set {arguments.key} --unset")
    name, file = _target(context, arguments)
    project, store = context.state_root, trust_store(context.environ)
    before = file.read_bytes() if file.is_file() else b""
    vouched = name in PROJECT_FILES and (not before or trusted_file(store, project, name, before))
    kept = set_value(file, arguments.key, arguments.value, mode=0o644 if arguments.project else 0o600)
    value = _shown(kept)
    if vouched:
        # The user changed it, so their trust in the file goes on; a file nobody vouched for stays untrusted.
        trust_files(store, project, (name,), folder=False)
    context.output.line(f"{arguments.key} = {_text(value)}   {file}")
    setting = find_setting(arguments.key)
    guarded = setting is not None and setting.guarded and name in PROJECT_FILES
    context._settings = None  # noqa: SLF001 - what was read is out of date
    if guarded and vouched:
        context.output.note("trusted, as you set it   a change of the file by other means ends that")
    elif guarded:
        context.output.note("this file is not trusted, so the setting is ignored until: pm config trust")
    if value != kept:
        context.output.note(f"a password is kept in {file.name}; ~/.pgpass or PGPASSFILE keeps PostgreSQL's elsewhere")
    context.output.result("config set", {"key": arguments.key, "value": value, "file": str(file)})


def path(context: Context, _arguments: Namespace) -> None:
    rows = []
    for layer, file in _files(context):
        state = "found" if file.is_file() else "none"
        context.output.line(f"{layer:<8} {state:<6} {file}")
        rows.append({"layer": layer, "path": str(file), "exists": file.is_file()})
    context.output.result("config path", {"files": rows, "trust_store": str(trust_store(context.environ))})


def validate(context: Context, _arguments: Namespace) -> None:
    settings = context.settings()
    if settings.ignored:
        raise ConfigError(
            "valid, but settings are ignored: " + ", ".join(item.key for item in settings.ignored),
            why=settings.ignored_line(),
            next_step="read the files (pm config path), then pm config trust",
        )
    mistyped = mistyped_variables(context.environ)
    for line in mistyped:
        context.output.note(line)
    context.output.line("configuration is valid")
    context.output.result("config validate", {"valid": True, "mistyped": mistyped})


def schema(context: Context, _arguments: Namespace) -> None:
    context.output.line(json.dumps(json_schema(), indent=2))
    context.output.result("config schema", {"schema": json_schema()})


def trust(context: Context, arguments: Namespace) -> None:
    project, store = context.state_root, trust_store(context.environ)
    if arguments.revoke:
        found = forget(store, project)
        if context.session is not None:
            context.session.reload()
        context.output.line("trust taken back" if found else "was not trusted")
        context.output.result("config trust", {"trusted": False, "project": str(project)})
        return
    present = vouch(context)
    context._settings = None  # noqa: SLF001 - what was read is out of date
    settings = context.settings()
    for name in present:
        context.output.line(f"trusted {project / name}")
        for row in settings.rows.values():
            setting = find_setting(row.key)
            if setting is not None and setting.guarded and row.origin.where == str(project / name):
                context.output.line(f"  {row.key} = {_text(row.value)}")
    context.output.line(f"trusted {project.parent}: its settings and the commands found in it may run")
    for one in planned_commands(context):
        if one.origin == "detected":
            context.output.line(f"  {one.kind}: {escape(one.command)}")
    context.output.note("a change to these files ends the trust")
    context.output.result(
        "config trust", {"trusted": folder_trusted(store, project), "files": present, "project": str(project)}
    )


def planned_commands(context: Context) -> tuple[PlannedCommand, ...]:
    """The commands that check each change here: those of the settings, and those found in the folder."""
    from runner.checks.commands import KINDS, detect_commands  # 40 ms, only where it is asked for

    settings = context.settings()
    own = {kind: str(settings.get(f"run.{kind}")) for kind in KINDS if settings.get(f"run.{kind}")}
    untrusted = {kind: command for kind in KINDS if (command := settings.untrusted().get(f"run.{kind}"))}
    return detect_commands(context.folder, configured=own, untrusted=untrusted, trusted=settings.trusted)


def vouch(context: Context) -> list[str]:
    """Trust the folder and its configuration files as they are, from the next task on; the files' names.

    Raises ConfigError: an invalid file, or a trust that could not be kept.
    """
    context.settings()  # an invalid file is never vouched for
    project = context.state_root
    trust_files(trust_store(context.environ), project, PROJECT_FILES, folder=True)
    if context.session is not None:
        context.session.reload()
    return [name for name in PROJECT_FILES if (project / name).is_file()]


def _target(context: Context, arguments: Namespace) -> tuple[str, Path]:
    if arguments.user and arguments.project:
        raise UsageError("--user and --project exclude each other")
    if arguments.user:
        return "", user_file(context.environ)
    name = PROJECT_FILES[1] if arguments.project else PROJECT_FILES[0]
    return name, context.state_root / name


def _files(context: Context) -> list[tuple[str, Path]]:
    given = getattr(context.arguments, "config", None)
    named = [("file", Path(given))] if given else []
    own = zip(("local", "project"), (context.state_root / name for name in PROJECT_FILES), strict=True)
    return [*named, *own, ("user", user_file(context.environ))]


def _record(row: Layered) -> dict[str, Any]:
    line = _line(row.key, row.origin)
    overridden = [{"value": _shown(value), **origin._asdict()} for value, origin in row.overrides]
    return {"key": row.key, "value": _shown(row.value), **row.origin._asdict(), "line": line, "overrides": overridden}


def _line(key: str, origin: Origin) -> int | None:
    return line_of(Path(origin.where), key) if origin.layer in {"file", "local", "project", "user"} else None


def _place(key: str, origin: Origin) -> str:
    line = _line(key, origin)
    return f"{origin.layer}  {origin.where}{f':{line}' if line else ''}".rstrip()


def _shown(value: Any) -> Any:
    """`value` without the password of an address in it."""
    return without_password(value) if isinstance(value, str) else value


def _text(value: Any) -> str:
    value = _shown(value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        joined = ",".join(map(str, value))  # as it is typed; what would be read otherwise is a JSON list
        return escape(joined if parse_list(joined) == tuple(value) != () else json.dumps(value, ensure_ascii=False))
    return escape(f"{value:g}" if isinstance(value, float) else str(value))


def _unknown(key: str) -> ConfigError:
    like = nearest_key(key)
    names = ", ".join(sorted({setting.section for setting in SETTINGS}))
    return ConfigError(
        f"unknown setting {key!r}",
        why=f"sections: {names}",
        next_step=f"did you mean {like}?" if like else "pm config show",
    )
