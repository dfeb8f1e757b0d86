"""Claude Code's session-end hook: shown before it is written, the rest of the settings kept, written once, removable.

The settings file stays the person's: what cannot be read as a JSON object is refused and left as it is.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tracer.distill.locate.find import provider_root
from tracer.durable import ensure_folder, replace
from tracer.errors import ConfigError, RecordError

HOOK_MARK: Final = "hooks run claude"
_EVENT: Final = "SessionEnd"
_TIMEOUT_S: Final = 60


class HookPlan(NamedTuple):
    """What would be written: the file, its text before and after, and whether they differ."""

    path: Path
    before: str
    after: str

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after


def hook_command(program: str | None = None) -> str:
    """The shell command the hook runs: this `pm`, by its full path where it has one."""
    # `python -m pm_orchestrator` has no `pm` in its arguments: the one beside this interpreter, then the user's.
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = program or (sys.argv[0] if Path(sys.argv[0]).name == "pm" else shutil.which("pm", path=places))
    if found and os.sep in found:
        found = str(Path(found).absolute())
    return f"{shlex.quote(found or 'pm')} sessions {HOOK_MARK}"


def settings_file(environ: Mapping[str, str] | None = None) -> Path:
    """Claude Code's user settings."""
    return provider_root("claude", environ).parent / "settings.json"


def plan_install(command: str, *, environ: Mapping[str, str] | None = None) -> HookPlan:
    """Add the hook, or bring its command up to date."""
    path = settings_file(environ)
    before, settings = _read(path)
    groups = _without(_groups(settings, path))
    groups.append({"hooks": [{"type": "command", "command": command, "timeout": _TIMEOUT_S}]})
    if groups == _groups(settings, path):
        return HookPlan(path, before, before)
    settings.setdefault("hooks", {})[_EVENT] = groups
    return HookPlan(path, before, _text(settings))


def plan_uninstall(*, environ: Mapping[str, str] | None = None) -> HookPlan:
    """Remove the hook; what is empty then goes too."""
    path = settings_file(environ)
    before, settings = _read(path)
    groups = _groups(settings, path)
    kept = _without(groups)
    if kept == groups:
        return HookPlan(path, before, before)
    if kept:
        settings["hooks"][_EVENT] = kept
    else:
        settings["hooks"].pop(_EVENT)
        if not settings["hooks"]:
            settings.pop("hooks")
    return HookPlan(path, before, _text(settings))


def write_plan(plan: HookPlan) -> None:
    """Write the settings as planned, in one step."""
    if not plan.changes:
        return
    try:
        ensure_folder(plan.path.parent)
        # A linked settings file (dotfiles) keeps its link: the file behind it is replaced.
        target = plan.path.resolve()
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        replace(target, plan.after.encode(), mode)
    except OSError as error:
        raise RecordError(f"cannot write {str(plan.path)!r}", why=error) from error


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return "", {}
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


def _groups(settings: dict[str, Any], path: Path) -> list[Any]:
    hooks = settings.get("hooks", {})
    groups = hooks.get(_EVENT, []) if isinstance(hooks, dict) else None
    if not isinstance(groups, list):
        raise ConfigError(
            f"the hooks in {str(path)!r} have an unknown form",
            why=f"hooks.{_EVENT} is expected to be a list",
            next_step="add the hook by hand; nothing was changed",
        )
    return groups


def _without(groups: list[Any]) -> list[Any]:
    """The groups without our hook; a group that held only it goes too."""
    kept: list[Any] = []
    for group in groups:
        hooks = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(hooks, list):
            kept.append(group)
            continue
        others = [hook for hook in hooks if not _is_ours(hook)]
        if len(others) == len(hooks):
            kept.append(group)
        elif others:
            kept.append({**group, "hooks": others})
    return kept


def _is_ours(hook: Any) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and command.endswith(HOOK_MARK)


def _text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
