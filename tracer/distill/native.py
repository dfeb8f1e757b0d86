"""The values of distillation: where a native session is, what was asked for, and what came out.

Nothing here touches the disk. Times are milliseconds since 1970 UTC, sizes are bytes. A `NativeSession` names one
conversation of one provider: its main file and the files of its subagents, wherever the provider keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from tracer.errors import UsageError
from tracer.redaction.redactor import NO_ADDITIONS, RedactionSettings

Provider = Literal["claude", "codex", "gemini", "copilot", "opencode"]
Availability = Literal["full", "summary", "withheld", "encrypted"]

AVAILABILITIES: Final[tuple[Availability, ...]] = get_args(Availability)
# The names of seed 000's files and meta lines, by the command line's own name.
PROVIDER_NAMES: Final[dict[str, str]] = {
    "claude": "anthropic",
    "codex": "openai",
    "gemini": "google",
    "copilot": "github",
    "opencode": "opencode",
}
SCHEMA: Final = 1


def provider_named(name: str) -> Provider:
    """The provider that is called so, by either of its names (`claude`, `anthropic`). Raises `UsageError`."""
    for provider, other in PROVIDER_NAMES.items():
        if name in {provider, other}:
            return cast("Provider", provider)
    raise UsageError(
        f"no agent {name!r} whose sessions can be read",
        why="known are " + ", ".join(PROVIDER_NAMES),
        next_step="name one",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """A file that holds one subagent's records; `kind` is the provider's name for the sort of agent."""

    path: Path
    agent_id: str
    kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSession:
    """One session as its provider stores it."""

    provider: Provider
    session_id: str
    path: Path
    cwd: str | None = None
    cli_version: str | None = None
    modified_ms: int = 0
    size: int = 0
    agents: tuple[AgentFile, ...] = ()

    @classmethod
    def at(
        cls, path: Path, provider: Provider, session_id: str, *, cwd: str | None = None, cli_version: str | None = None
    ) -> NativeSession:
        """The session in the file `path`, with its present time and size."""
        status = path.stat()
        return cls(
            provider=provider,
            session_id=session_id,
            path=path,
            cwd=cwd,
            cli_version=cli_version,
            modified_ms=status.st_mtime_ns // 1_000_000,
            size=status.st_size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to make of a session. `since_ms` leaves out what happened earlier (a run that resumed an old session).

    `prompt` is what the user asked for where the agent was sent more; `prompt_file` may hold something else by now.
    `success`, `cost_usd` and `duration_sec` are what the caller knows better than the session file.
    """

    label: str | None = None
    project_root: Path | None = None
    prompt_file: Path | None = None
    prompt: str | None = None
    output_dir: Path | None = None
    state_dir: Path | None = None
    since_ms: int | None = None
    redaction: RedactionSettings = NO_ADDITIONS
    success: bool | None = None
    cost_usd: float | None = None
    duration_sec: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Distilled:
    """One agentic trace as written. `status` is `created`, `updated` or `unchanged`; `meta` is its first line."""

    path: Path
    status: Literal["created", "updated", "unchanged"]
    meta: Mapping[str, Any]
    size: int

    @property
    def reduction(self) -> float | None:
        """Size of the trace as a share of the native bytes (0.04 = 4 %), None for an empty source."""
        native = self.meta.get("source", {}).get("bytes") or 0
        return round(self.size / native, 4) if native else None

    def to_dict(self) -> dict[str, Any]:
        """The object `pm distill --json` prints for this trace."""
        thoughts = self.meta.get("thoughts") or {}
        return {
            "path": str(self.path),
            "provider": self.meta.get("provider"),
            "success": self.meta.get("success"),
            "thoughts": sum(count for count in thoughts.values() if isinstance(count, int)),
            "tools": self.meta.get("tools"),
            "redactions": self.meta.get("redactions"),
            "session_id": self.meta.get("session_id"),
            "status": self.status,
            "reduction": self.reduction,
        }
