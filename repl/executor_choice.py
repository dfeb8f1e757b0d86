"""Which agent does the work: the one asked for, or with `auto` the first that could answer here.

`auto` prefers a key that was given to pm itself, then the agent command lines on PATH: ANTHROPIC_API_KEY is often set
for Claude Code. Nothing is started or imported to find out.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.executors.executor_port import AGENT_NAMES, EXECUTOR_NAMES
from tracer.errors import CredentialsError, UsageError, adding

if TYPE_CHECKING:
    from runner.executors.credentials import ApiKey
    from tracer.settings.layers import Settings

AUTO = "auto"


class AgentFound(NamedTuple):
    """An agent command line and where it is (None: not installed)."""

    name: str
    path: str | None


def found_agents(settings: Settings, environ: Mapping[str, str]) -> list[AgentFound]:
    """The known agent command lines, installed or not, in the order `auto` tries them."""
    configured = settings.family("executors")
    search = environ.get("PATH")
    return [AgentFound(name, shutil.which(str(configured.get(name) or name), path=search)) for name in AGENT_NAMES]


def acp_agents(settings: Settings, environ: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """The configured ACP agents as `acp:NAME`, each with its program's path (None: not found)."""
    agents = sorted(settings.family("agents").items())
    return [
        (f"acp:{name}", shutil.which(str(command[0]), path=environ.get("PATH")) if command else None)
        for name, command in agents
    ]


def find_key(settings: Settings, environ: Mapping[str, str]) -> ApiKey | None:
    """The key for the model API. Raises CredentialsError: the key file is not private."""
    from runner.executors.credentials import find_api_key

    named = settings.get("anthropic.key_file")
    return find_api_key(environ, key_file=Path(named).expanduser() if named else None)


def choose_executor(settings: Settings, environ: Mapping[str, str], *, asked: str | None = None) -> str:
    """The executor's name; `asked` (of the session) goes before the settings.

    Raises CredentialsError: nothing that could answer is here: the three lines of a first run. Raises UsageError: there
    is no executor of that name.
    """
    name = asked or str(settings.get("run.executor") or AUTO)
    if name != AUTO:
        if name.partition(":")[0] not in EXECUTOR_NAMES:
            raise UsageError(
                f"there is no executor {name!r}", next_step=f"choose one of {', '.join((AUTO, *EXECUTOR_NAMES))}"
            )
        if name == "anthropic" and find_key(settings, environ) is None:
            raise no_credentials(settings, environ)
        return name
    from runner.executors.credentials import SHARED_KEY, has_sdk

    key = find_key(settings, environ)
    if key is not None and key.source != SHARED_KEY and has_sdk():
        return "anthropic"
    agents = [agent.name for agent in found_agents(settings, environ) if agent.path]
    if agents:
        return agents[0]
    if key is None:
        raise no_credentials(settings, environ)
    return "anthropic"  # which says what is not installed


_PROVIDERS: Mapping[str, str] = {"anthropic": "anthropic", "claude": "anthropic", "codex": "openai", "gemini": "google"}


def choose_reviewer(
    asked: str, *, settings: Settings, environ: Mapping[str, str], workers: Sequence[str], model: str | None
) -> dict[str, Any] | None:
    """Who reviews a change, as USER_REQUEST records it; None where no review is wanted.

    `auto` takes an executor that is here and is none of the `workers`, rather one of another provider, else another
    `model` of the same. `asked` is else `EXECUTOR[:MODEL]` (`acp:NAME` is an executor).

    Raises UsageError: there is no executor of that name.
    """
    if asked in {"", "off"}:
        return None
    budget = {"budget_usd": settings.get("gate.review_budget_usd")}
    if asked != AUTO:
        parts = asked.split(":")
        size = 2 if parts[0] == "acp" else 1
        if parts[0] not in EXECUTOR_NAMES:
            raise UsageError(
                f"there is no executor {parts[0]!r} to review",
                next_step=f"--review auto, or {', '.join(EXECUTOR_NAMES)}",
            )
        return {"executor": ":".join(parts[:size]), "model": ":".join(parts[size:]) or None, **budget}
    here = [agent.name for agent in found_agents(settings, environ) if agent.path]
    from runner.executors.credentials import has_sdk

    if find_key(settings, environ) is not None and has_sdk():
        here.append("anthropic")
    done_by = {_PROVIDERS.get(worker, worker) for worker in workers}
    others = [name for name in here if name not in workers]
    if others:
        return {"executor": min(others, key=lambda name: _PROVIDERS[name] in done_by), "model": None, **budget}
    judge = str(settings.get("judge.model"))
    if model is not None and model != judge and workers[0] in here and _PROVIDERS[workers[0]] == "anthropic":
        return {"executor": workers[0], "model": judge, **budget}
    return {"executor": "", "why": f"nobody but {workers[0]} is here to review", **budget}


def no_credentials(settings: Settings, environ: Mapping[str, str]) -> CredentialsError:
    """What a first run says where there is neither a key nor an agent."""
    agents = ", ".join(f"{a.name} ({'found' if a.path else 'not found'})" for a in found_agents(settings, environ))
    named = settings.get("anthropic.key_file") or environ.get("PM_KEY_FILE")
    return CredentialsError(
        "no model credentials found",
        why=f"looked in: PM_API_KEY, ANTHROPIC_API_KEY, key file ({named or 'none'}), executors on PATH: {agents}",
        next_step=f"{key_step()}    or  install one of the executors    or try  pm demo   (no key needed)",
    )


def key_step() -> str:
    """What lets a key of Anthropic's be used."""
    from runner.executors.credentials import has_sdk

    return "export ANTHROPIC_API_KEY=..." + ("" if has_sdk() else f" and {adding('anthropic')}")
