"""Which project configuration files a person has vouched for, by the hash of their content.

Kept in the person's own configuration folder (`trusted.json`, mode 0600), never in the project: a repository cannot
trust itself. A changed byte ends the trust of that file. A folder is trusted as a whole (detected commands may run)
once `pm config trust` was given for it and every configuration file in it still has the content it had then. Who said
no to it is not asked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracer.durable import replace
from tracer.errors import ConfigError

PROJECT_FILES = ("config.local.toml", "config.toml")


def user_folder(environ: Mapping[str, str], *, platform: str) -> Path:
    """The person's configuration folder: `$XDG_CONFIG_HOME/pm-orchestrator`, on macOS below Library."""
    home = Path(environ.get("HOME") or Path.home())
    if environ.get("XDG_CONFIG_HOME"):
        return Path(environ["XDG_CONFIG_HOME"]) / "pm-orchestrator"
    if platform == "darwin":
        return home / "Library" / "Application Support" / "pm-orchestrator"
    return home / ".config" / "pm-orchestrator"


def file_hash(content: bytes) -> str:
    """The hash that trust is bound to."""
    from hashlib import sha256  # 4 ms, and mostly there is nothing to trust

    return sha256(content).hexdigest()


def trusted_file(store: Path, project: Path, name: str, content: bytes) -> bool:
    """Whether exactly this `content` of the project's file `name` is trusted."""
    files = _entry(_read(store), project).get("files", {})
    return isinstance(files, dict) and files.get(name) == file_hash(content)


def folder_trusted(store: Path, project: Path) -> bool:
    """Whether the folder is trusted as a whole, as it stands now."""
    entry = _entry(_read(store), project)
    if entry.get("folder") is not True:
        return False
    files = entry.get("files", {})
    return all(
        files.get(name) == file_hash((project / name).read_bytes())
        for name in PROJECT_FILES
        if (project / name).is_file()
    )


def refused(store: Path, project: Path) -> bool:
    """Whether the person was asked to trust the folder and said no."""
    return _entry(_read(store), project).get("refused") is True


def refuse(store: Path, project: Path) -> None:
    """Keep that the person does not want to be asked about this folder again."""
    known = _read(store)
    known[str(project.resolve())] = {**_entry(known, project), "refused": True}
    _write(store, known)


def trust_files(store: Path, project: Path, names: tuple[str, ...], *, folder: bool) -> None:
    """Vouch for the present content of `names`; with `folder`, for the folder as a whole."""
    known = _read(store)
    entry = dict(_entry(known, project))
    files = dict(entry.get("files", {}))
    files.update({name: file_hash((project / name).read_bytes()) for name in names if (project / name).is_file()})
    entry.update({"files": files, "folder": bool(entry.get("folder")) or folder})
    if folder:
        entry.pop("refused", None)
    known[str(project.resolve())] = entry
    _write(store, known)


def forget(store: Path, project: Path) -> bool:
    """Take the trust in a folder back; False if there was none."""
    known = _read(store)
    found = known.pop(str(project.resolve()), None) is not None
    if found:
        _write(store, known)
    return found


def _entry(known: Mapping[str, Any], project: Path) -> Mapping[str, Any]:
    entry = known.get(str(project.resolve()))
    return entry if isinstance(entry, dict) else {}


def _read(store: Path) -> dict[str, Any]:
    """What is trusted; a missing or damaged store trusts nothing."""
    try:
        known = json.loads(store.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(store: Path, known: Mapping[str, Any]) -> None:
    try:
        store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(store, json.dumps(known, indent=1, sort_keys=True).encode())
    except OSError as error:
        raise ConfigError("the trust could not be kept", why=f"{store}: {error.strerror}") from error
