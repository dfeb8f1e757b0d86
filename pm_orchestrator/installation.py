"""What is wrong with the installation, asked only after something failed: looking first would cost every start 20 ms.

Two distributions may install a folder of one name; pip warns of nothing, the later one overwrites the files of the
earlier, and uninstalling one removes the other's. The RECORD file says what was installed.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, PackagePath, distribution, distributions
from pathlib import Path
from typing import NamedTuple

from pm_orchestrator import ROOMS, ROOT, own_place, place_of

_DISTRIBUTION = "pm-orchestrator"
_OWN_PLACE = "install pm in an environment of its own: pipx install pm-orchestrator"
# What a tool leaves in an environment that it made; else our distribution's INSTALLER names it.
_TOOLS = {
    "pipx_metadata.json": "pipx reinstall pm-orchestrator",
    "uv-receipt.toml": "uv tool upgrade --reinstall pm-orchestrator",
}
_AGAIN = {
    "pip": "pip install --force-reinstall pm-orchestrator",
    "uv": "uv pip install --reinstall pm-orchestrator",
}


class Broken(NamedTuple):
    """An error in its three parts; `tracer.errors` may be what is missing."""

    what: str
    why: str
    next_step: str


def explain() -> Broken | None:
    """What is wrong with the installed files, or None where all of them are as they were installed."""
    for file in _recorded_files():
        wrong = _difference(file)
        if wrong is not None:
            what = f"the installation is broken: {file} {wrong}"
            owner = _other_owner(file)
            if owner is not None:
                return Broken(what, f"it was overwritten by the package {owner!r}", _OWN_PLACE)
            return Broken(what, "it was changed or removed after pm was installed", f"install pm again: {_again()}")
    for name in _missing():
        what = f"the installation is broken: the package {name!r} is missing"
        return Broken(what, "pm needs it, and it was not installed or was removed", f"install pm again: {_again()}")
    for room in ROOMS:  # all that an editable installation can be asked for
        found = place_of(room)
        if found != own_place(room):
            why = f"another package of that name stands in its place: {found}" if found else "the folder is missing"
            return Broken(f"the installation is broken: {own_place(room)} cannot be imported", why, _OWN_PLACE)
    return None


def _again() -> str:
    """The command that installs pm again, of the tool that installed it."""
    for name, command in _TOOLS.items():
        if Path(sys.prefix, name).exists():
            return command
    installer = (distribution(_DISTRIBUTION).read_text("INSTALLER") or "pip").strip()
    return _AGAIN.get(installer, f"with {installer}, which installed it")


def _missing() -> Iterator[str]:
    """The packages that the base needs and that are not installed."""
    with suppress(PackageNotFoundError):
        for requirement in distribution(_DISTRIBUTION).requires or ():
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
            if ";" not in requirement and not any(True for _ in distributions(name=name)):
                yield name


def _recorded_files() -> list[PackagePath]:
    """Our packages' files as the installer recorded them; none for an editable installation."""
    try:
        files = distribution(_DISTRIBUTION).files or []
    except PackageNotFoundError:
        return []
    ours = {"pm_orchestrator", *ROOMS}
    return [file for file in files if file.parts[0] in ours and _is_below_root(file)]


def _is_below_root(file: PackagePath) -> bool:
    return Path(str(file.locate())) == Path(ROOT, file)


def _difference(file: PackagePath) -> str | None:
    if file.hash is None:  # compiled files
        return None
    try:
        data = Path(ROOT, file).read_bytes()
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    digest = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, data).digest()).rstrip(b"=").decode()
    return None if digest == file.hash.value else "is not pm's"


def _other_owner(file: PackagePath) -> str | None:
    """The name and version of the other distribution that installed `file`."""
    for other in distributions():
        if _name(other) != _DISTRIBUTION and any(str(theirs) == str(file) for theirs in other.files or ()):
            return f"{other.metadata['Name']} {other.version}"
    return None


def _name(found: Distribution) -> str:
    return (found.metadata["Name"] or "").lower().replace("_", "-")
