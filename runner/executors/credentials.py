"""Where the key for the model API comes from: PM_API_KEY, ANTHROPIC_API_KEY, then a key file only its owner can read.

The key itself is shown nowhere: `repr`, errors and doctor name the source and the last four characters.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from tracer.errors import CredentialsError

SHARED_KEY = "ANTHROPIC_API_KEY"  # Claude Code reads it too
KEY_NAMES = ("PM_API_KEY", SHARED_KEY)
_MAX_KEY_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key and where it was found, e.g. `ANTHROPIC_API_KEY` or `key file ~/.config/pm-orchestrator/key`."""

    value: str = field(repr=False)
    source: str = ""

    @property
    def ending(self) -> str:
        """The last four characters, for messages; nothing of a key too short to be shown in part."""
        return self.value[-4:] if len(self.value) >= 12 else "****"

    def hide_in(self, text: str) -> str:
        """`text` without the key, should a server have echoed it."""
        return text.replace(self.value, f"[key …{self.ending}]") if self.value else text


def has_sdk() -> bool:
    """Whether the package that uses a key is installed. It is only looked for: importing it takes 2 s."""
    return find_spec("anthropic") is not None


def default_key_file(environ: Mapping[str, str] = os.environ) -> Path:
    """`PM_KEY_FILE`, else `pm-orchestrator/key` in the user's configuration folder."""
    named = environ.get("PM_KEY_FILE")
    if named:
        return Path(named).expanduser()
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "~"), ".config")  # noqa: PTH118 - may hold ~
    return Path(base).expanduser() / "pm-orchestrator" / "key"


def find_api_key(environ: Mapping[str, str] = os.environ, *, key_file: Path | None = None) -> ApiKey | None:
    """The first key found, or None.

    Raises:
        CredentialsError: the key file is readable by others, or cannot be read.

    """
    for name in KEY_NAMES:
        value = environ.get(name, "").strip()
        if value:
            return ApiKey(value, name)
    path = key_file or default_key_file(environ)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CredentialsError(
            f"the key file {path} cannot be read", why=str(error.strerror), next_step=f"check {path}, or unset it"
        ) from error
    with os.fdopen(descriptor, "rb") as file:
        _require_private(path, os.fstat(descriptor))
        value = file.read(_MAX_KEY_BYTES).decode("utf-8", "replace").strip()
    return ApiKey(value, f"key file {path}") if value else None


def _require_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise CredentialsError(f"the key file {path} is not a regular file", next_step="name a plain file")
    if status.st_mode & 0o077:
        raise CredentialsError(
            f"the key file {path} can be read by others",
            why=f"its mode is {stat.S_IMODE(status.st_mode):04o}, it must be 0600",
            next_step=f"chmod 600 {path}",
        )
