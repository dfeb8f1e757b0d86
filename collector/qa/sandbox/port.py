"""The sandbox port: run one command on a source tree, contained, and say how it ended.

A tree is unpacked inside, never outside; capped output, report files and, if asked for, the tree come back. What a
program does is an `Outcome`; a sandbox that fails is a `SandboxError`. `SandboxFacts` were seen from inside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from pydantic import JsonValue

Guarantee = Literal[
    "memory",
    "pids",
    "cpu",
    "network",
    "read_only",
    "capabilities",
    "no_new_privileges",
    "not_root",
    "seccomp",
    "user_mapping",
]
GUARANTEES: tuple[Guarantee, ...] = Guarantee.__args__  # type: ignore[attr-defined] # a Literal's own list
OutcomeKind = Literal["exit", "timeout", "oom", "output", "missing", "no_room", "escaped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may use; `output_bytes` may be written to each stream, `keep_bytes` of it are kept."""

    memory_bytes: int = 2 << 30
    pids: int = 256
    cpus: float = 1.0
    time_s: float = 600.0
    output_bytes: int = 64 << 20
    keep_bytes: int = 1 << 20
    workspace_bytes: int = 1 << 30
    report_bytes: int = 16 << 20
    tree_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One command to run.

    `source` is a tar file that becomes the working folder; `probe` is a shell line that tells whether the tool is
    there; `reports` are file names or globs, relative to the working folder, to bring back; `save` is where the whole
    working folder is written as a tar afterwards. `network` names the engine's network for the build phase; the test
    phase has none.
    """

    image: str
    source: Path
    command: tuple[str, ...]
    probe: str = ""
    reports: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    network: str = ""
    save: Path | None = None
    limits: Limits = Limits()
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFacts:
    """Which sandbox it was and what it held; `lesser` is true where a container's guarantees are not all there."""

    name: str
    version: str
    lesser: bool
    held: tuple[Guarantee, ...]
    notes: tuple[str, ...] = ()
    pinned: str = ""
    """The image by the digest that a registry has it under; empty where none has."""

    @property
    def lacks(self) -> tuple[Guarantee, ...]:
        """What it does not hold, in the order of `GUARANTEES`."""
        return tuple(name for name in GUARANTEES if name not in self.held)

    def as_json(self) -> dict[str, JsonValue]:
        """For the record of a test run."""
        return {
            "name": self.name,
            "version": self.version,
            "lesser": self.lesser,
            "lacks": list(self.lacks),
            "notes": list(self.notes),
            "pinned": self.pinned or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended.

    `exit` by itself (`exit_code` set) · `timeout` ended for its time · `oom` the kernel or the watch killed it for its
    memory · `output` ended for writing too much · `missing` the tool is not in the sandbox, nothing was tested ·
    `no_room` the tree does not fit into the working folder, likewise · `escaped` it ended the sandbox's own first
    process, so its exit code is unknown.
    """

    kind: OutcomeKind
    exit_code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    dropped_bytes: int = 0
    duration_ms: int = 0
    reports: dict[str, bytes] = field(default_factory=dict)
    saved: bool = False
    killed_for_memory: int = 0

    @property
    def passed(self) -> bool:
        """It ended by itself with exit code 0."""
        return self.kind == "exit" and self.exit_code == 0

    @property
    def said(self) -> str:
        """How it ended, for people."""
        return {
            "exit": "passed" if self.passed else f"failed, exit {self.exit_code}",
            "timeout": "ran out of time",
            "oom": "ran out of memory",
            "output": "wrote too much",
            "missing": "found no test runner",
            "no_room": "had no room for the sources",
            "escaped": "ended its own sandbox",
        }[self.kind]


class Sandbox(Protocol):
    """What runs strangers' code. Adapters: `container` (docker, podman) and `bubblewrap`."""

    async def facts(self, image: str) -> SandboxFacts:
        """What this sandbox holds back when it runs `image`, tried once; SandboxError: it does not work here."""
        ...

    async def image_id(self, image: str) -> str:
        """The exact identity of `image`: a digest, or the machine's own name where there are no images."""
        ...

    async def run(self, job: Job) -> Outcome:
        """Run the job to its end or a limit; nothing of it is left on return, SandboxError or cancellation."""
        ...

    async def clean(self) -> int:
        """Remove what killed runs left behind; how many."""
        ...
