"""What differs between the command lines: how one is started, what its records mean, where its sessions are.

A dialect is a value without state; the reader it gives folds one run. Prompts go in on standard input: a list of
arguments is visible to every user of the machine and limited in length. Keys go by environment only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from runner.executors.agents.progress import Progress, Reader
from runner.executors.executor_port import AnswerError, Ask
from runner.processes.environment import Provider

Confinement = Literal["own", "ours", "none"]


class Version(NamedTuple):
    """A command line's version, comparable."""

    major: int = 0
    minor: int = 0
    patch: int = 0

    def __str__(self) -> str:  # type: ignore[explicit-override]  # typing.override is newer than Python 3.11
        """As printed by the program."""
        return f"{self.major}.{self.minor}.{self.patch}"


def parse_version(text: str) -> Version | None:
    """The first `1.2.3` in `text`."""
    for word in text.replace("(", " ").replace("v", " ").split():
        parts = word.split("-")[0].split(".")
        if len(parts) == 3 and all(part.isdigit() for part in parts):
            return Version(*(int(part) for part in parts))
    return None


@dataclass(frozen=True, slots=True)
class Session:
    """The agent's own session to go on in: its id, its file, and what its earlier runs add to this run's totals."""

    id: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a run is started. `confinement` says whose sandbox holds it: the agent's own, ours, or none.

    `schema_file` holds the schema that the answer is to follow, for programs that read it from a file. `new_id` names
    the session that begins where none goes on, "" for programs that take no name.
    """

    request: Ask
    program: str
    version: Version
    environ: Mapping[str, str]
    session: Session | None = None
    new_id: str = ""
    confinement: Confinement = "own"
    network: bool = False
    base_url: str | None = None
    allowed_commands: tuple[str, ...] = ()
    schema_file: Path | None = None


def with_rules(request: Ask, *, fresh: bool) -> str:
    """The prompt, after the rules where a session begins that would not hold them otherwise.

    A task's first prompt holds them itself; a correction is written for a session that does, which may have gone.
    """
    rules = request.rules.rstrip()
    if not fresh or not rules or request.prompt.startswith(rules):
        return request.prompt
    return f"{rules}\n\n{request.prompt}"


class Dialect(Protocol):
    """One command line."""

    name: str
    package: str
    oldest: Version
    login_hint: str

    @property
    def session_id_since(self) -> Version | None:
        """The first version that takes the id of a new session; None: none does."""
        ...

    @property
    def provider(self) -> Provider:
        """Whose documented variables it may see."""
        ...

    def arguments(self, launch: Launch) -> list[str]:
        """The whole argument list, program first."""
        ...

    def environment(self, launch: Launch) -> dict[str, str]:
        """Variables set beside the allowed ones."""
        ...

    def prompt(self, launch: Launch) -> str:
        """What is written to standard input."""
        ...

    def reader(self, launch: Launch, progress: Progress) -> Reader:
        """The reader of one run."""
        ...

    def find_session(self, environ: Mapping[str, str], session_id: str, workspace: str) -> Path | None:
        """The session's own file."""
        ...

    def trouble_in(self, stderr: str) -> AnswerError | None:
        """Trouble told on standard error alone while the program goes on trying; None where there is none."""
        ...

    def complete(self, progress: Progress, *, path: Path | None, stderr: str) -> str:
        """Add what only the session's own file and the end of standard error tell; what of the latter is for users."""
        ...

    def private_folders(self, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """What the agent must be able to write outside the workspace: its own settings and sessions."""
        ...
