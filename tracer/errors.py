"""The one exception tree of the product.

Every error a user can meet says what happened, why, and the next step. `code` is the stable name that the command
line turns into an exit status and the HTTP service into a problem document; it never changes meaning.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

if TYPE_CHECKING:
    from tracer.redaction.redactor import Clean


class _Told:
    """A text of an error: whatever it was given, whoever reads it gets it without secrets."""

    def __set_name__(self, _owner: type[PmError], name: str) -> None:
        self._given, self._read = f"_{name}", f"_clean_{name}"

    def __get__(self, error: PmError, _owner: type[PmError] | None = None) -> Clean:
        kept = vars(error)
        if self._read not in kept:
            # Redaction raises errors itself: it is named, not imported, and loaded once one of them is told.
            kept[self._read] = import_module("tracer.redaction.cuts").clean(kept[self._given])
        read: Clean = kept[self._read]
        return read

    def __set__(self, error: PmError, text: str) -> None:
        vars(error)[self._given] = text
        vars(error).pop(self._read, None)


class PmError(Exception):
    """An error with its three lines: `what` happened, `why`, and the `next_step` (both may be empty)."""

    code: ClassVar[str] = "internal"
    what = _Told()
    why = _Told()
    next_step = _Told()

    def __init__(self, what: str, *, why: str | OSError = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why if isinstance(why, str) else why.strerror or str(why)
        self.next_step = next_step

    def __str__(self) -> str:
        return self.what

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.what!r})"

    @property
    def line(self) -> str:
        """What happened and why, in one line."""
        return f"{self.what}: {self.why}" if self.why else self.what


class UsageError(PmError):
    """The request makes no sense as it was typed."""

    code = "usage"


class ConflictError(UsageError):
    """The request makes sense, but not in the state things are in (a task that has ended, or runs)."""


class ConfigError(PmError):
    """Configuration is invalid or the folder is not trusted."""

    code = "config"


class CredentialsError(PmError):
    """No credentials were found, or they were refused."""

    code = "credentials"


class NotAcceptedError(PmError):
    """The work ended without being accepted: ERROR, or stopped by the user; or a check found something."""

    code = "not_accepted"


class UnavailableError(PmError):
    """A provider, the network or an executor cannot be reached."""

    code = "unavailable"


class LimitError(PmError):
    """A limit (iterations, money, time, context) is used up."""

    code = "limit"


class NotFoundError(PmError):
    """Nothing, or more than one thing, answers to the name given."""

    code = "not_found"


class TraceError(PmError):
    """A record is damaged, cannot be read or written, or is held by another writer."""

    code = "trace"


class EndedError(TraceError):
    """A record that has its last line: nothing can be added to it."""


class RecordError(TraceError):
    """An event could not be made durable (disk full, read-only); the task stops before its next call."""


class LockedError(TraceError):
    """Another process is the writer of this record."""


class SandboxError(PmError):
    """The sandbox is broken or absent; what should have run in it did not run."""

    code = "sandbox"


class InternalError(PmError):
    """A state that can never happen: please report it."""


@contextmanager
def needs_extra(
    extra: Literal["acp", "anthropic", "mcp", "postgres", "s3", "telemetry"], *, wanted_by: str
) -> Iterator[None]:
    """Wrap the imports that `extra` brings; `wanted_by` is what the user chose (a setting, an executor).

    Raises `ConfigError` where one of them is not installed or cannot be loaded.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"{wanted_by} needs a package that is not installed",
            why=str(error),
            next_step=adding(extra),
        ) from error


@contextmanager
def told_as(kind: type[PmError], what: str, *, next_step: str = "") -> Iterator[None]:
    """Raise an OSError of the block as a `kind` that says what could not be done, and the system's reason."""
    try:
        yield
    except OSError as error:
        raise kind(what, why=error, next_step=next_step) from error


# What a tool leaves in an environment that it made, and its command that makes it again with other extras.
_INSTALLERS: Final = {"pipx_metadata.json": "pipx install --force", "uv-receipt.toml": "uv tool install"}
_ASKED: Final = re.compile(r"pm[-_]orchestrator[^\[\]{}\n]*\[([^\]\n]*)\]")


def adding(extra: str) -> str:
    """The command that adds `extra` to this installation, and keeps the extras that it was made with."""
    for name, command in _INSTALLERS.items():
        with suppress(OSError, UnicodeDecodeError):
            asked = _ASKED.search(Path(sys.prefix, name).read_text("utf-8"))
            extras = {extra, *(re.findall(r"[\w-]+", asked[1]) if asked else ())}
            return f"{command} 'pm-orchestrator[{','.join(sorted(extras))}]'"
    return f"{_pip()} install 'pm-orchestrator[{extra}]'"


def _pip() -> str:
    """The command that installs packages here: environments that uv makes have no pip."""
    from importlib.metadata import PackageNotFoundError, distribution  # 20 ms, only after a failure

    try:
        by = distribution("pm-orchestrator").read_text("INSTALLER")
    except PackageNotFoundError:  # run from its sources
        by = None
    return "uv pip" if by and by.strip() == "uv" else "pip"
