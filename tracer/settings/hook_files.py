"""Hooks in the settings files of agents: shown before they are written, merged, written once, removed without a trace.

A settings file stays the user's: what cannot be read as a JSON object is refused and left as it is. The text from
before is kept in the user's state folder, so that taking the hooks out again gives back the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tracer.durable import ensure_folder, replace
from tracer.errors import ConfigError, RecordError
from tracer.statedir import user_state_folder

_COMMANDS = ("command", "bash")  # the keys that hold what is run


class HookPlan(NamedTuple):
    """What would be written: the file, its text before and after (None: no file), and where `before` is kept.

    `mode` is that of a new file.
    """

    path: Path
    before: str | None
    after: str | None
    kept: Path | None = None
    removes: bool = False
    mode: int = 0o600

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after


def hook_command(words: str, *, bare: bool = False) -> str:
    """The shell command that a hook runs: this `pm`, by its full path unless `bare` and found on PATH."""
    if bare and shutil.which("pm"):
        return f"pm {words}"
    # `python -m pm_orchestrator` has no `pm` in its arguments: the one beside this interpreter, then the user's.
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = sys.argv[0] if Path(sys.argv[0]).name == "pm" else shutil.which("pm", path=places)
    if found and os.sep in found:
        found = str(Path(found).absolute())
    return f"{shlex.quote(found or 'pm')} {words}"


def plan_install(
    path: Path,
    hooks: Mapping[str, Mapping[str, Any]],
    *,
    mark: str,
    frame: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> HookPlan:
    """Add one entry for each event, or bring ours (the command ends with `mark`) up to date.

    `frame` is what the file must hold beside its hooks.
    """
    before, settings = _read(path)
    for event, entry in hooks.items():
        entries = [*_without(_entries(settings, event, path), mark), dict(entry)]
        if entries != _entries(settings, event, path):
            settings.setdefault("hooks", {})[event] = entries
    for key, value in (frame or {}).items():
        settings.setdefault(key, value)
    after = _text(settings)
    unchanged = before is not None and json.loads(before or "{}") == settings
    return HookPlan(path, before, before if unchanged else after, _kept_at(path, mark, environ))


def plan_uninstall(
    path: Path, *, mark: str, frame: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> HookPlan:
    """Remove the hooks; what is empty then goes too, and a file that held nothing else."""
    before, settings = _read(path)
    kept = _kept_at(path, mark, environ)
    known = _known(kept)
    if before is not None and known.get("after") == _digest(before):
        return HookPlan(path, before, known["before"], kept, removes=True)
    listed = settings.get("hooks")
    found = False
    for event in list(listed) if isinstance(listed, dict) else ():
        entries = _entries(settings, event, path)
        left = _without(entries, mark)
        found = found or left != entries
        if left:
            settings["hooks"][event] = left
        elif entries:
            settings["hooks"].pop(event)
    if not found:
        return HookPlan(path, before, before, kept)
    if not settings["hooks"]:
        settings.pop("hooks")
    bare = all(key in (frame or {}) and settings[key] == (frame or {})[key] for key in settings)
    return HookPlan(path, before, None if bare else _text(settings), kept, removes=True)


def write_plan(plan: HookPlan) -> None:
    """Write the settings as planned, in one step."""
    if not plan.changes:
        return
    try:
        # A linked settings file (dotfiles) keeps its link: the file behind it is replaced.
        target, known = plan.path.resolve(), _known(plan.kept)
        if plan.after is None:
            target.unlink(missing_ok=True)
            for name in known.get("made", ()):
                with suppress(OSError):  # something else was put there meanwhile
                    Path(name).rmdir()
        else:
            made = [str(folder) for folder in target.parents if not folder.exists()]
            ensure_folder(plan.path.parent, 0o755)
            if plan.kept is not None and plan.removes:
                plan.kept.unlink(missing_ok=True)
            elif plan.kept is not None:
                renewed = plan.before is not None and known.get("after") == _digest(plan.before)
                before = known["before"] if renewed else plan.before
                told = {"before": before, "after": _digest(plan.after), "made": known["made"] if renewed else made}
                ensure_folder(plan.kept.parent)
                replace(plan.kept, json.dumps(told).encode())
            mode = target.stat().st_mode & 0o777 if target.exists() else plan.mode
            replace(target, plan.after.encode(), mode)
    except OSError as error:
        raise RecordError(f"cannot write {str(plan.path)!r}", why=error) from error


def _kept_at(path: Path, mark: str, environ: Mapping[str, str] | None) -> Path:
    folder = user_state_folder(os.environ if environ is None else environ) / "hooks"
    return folder / f"{_digest(os.path.realpath(path) + mark)[:24]}.json"


def _known(kept: Path | None) -> dict[str, Any]:
    """What is kept of the time before an install; empty where that is missing or damaged."""
    try:
        known = json.loads(kept.read_bytes()) if kept is not None else {}
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) and {"before", "after", "made"} <= known.keys() else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _read(path: Path) -> tuple[str | None, dict[str, Any]]:
    try:
        text = path.read_bytes().decode("utf-8")  # with its own ends of lines
    except FileNotFoundError:
        return None, {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {str(path)!r}", why=str(error)) from error
    try:
        settings = json.loads(text or "{}")
    except ValueError as error:
        raise ConfigError(
            f"{str(path)!r} is not valid JSON", why=str(error), next_step="correct it first; nothing was changed"
        ) from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{str(path)!r} holds no JSON object", next_step="correct it first; nothing was changed")
    return text, settings


def _entries(settings: dict[str, Any], event: str, path: Path) -> list[Any]:
    hooks = settings.get("hooks", {})
    entries = hooks.get(event, []) if isinstance(hooks, dict) else None
    if not isinstance(entries, list):
        raise ConfigError(
            f"the hooks in {str(path)!r} have an unknown form",
            why=f"hooks.{event} is expected to be a list",
            next_step="add the hook by hand; nothing was changed",
        )
    return entries


def _without(entries: list[Any], mark: str) -> list[Any]:
    """The entries without our hook; a group that held only it goes too."""
    kept: list[Any] = []
    for entry in entries:
        hooks = entry.get("hooks") if isinstance(entry, dict) else None
        if not isinstance(hooks, list):
            if not _is_ours(entry, mark):
                kept.append(entry)
            continue
        others = [hook for hook in hooks if not _is_ours(hook, mark)]
        if len(others) == len(hooks):
            kept.append(entry)
        elif others:
            kept.append({**entry, "hooks": others})
    return kept


def _is_ours(hook: Any, mark: str) -> bool:
    told = [hook.get(key) for key in _COMMANDS] if isinstance(hook, dict) else []
    return any(isinstance(command, str) and command.endswith(mark) for command in told)


def _text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
