"""Executors by name. Nothing of an executor is imported before it is made.

`make_executor(name, settings)` is the only way in; `ExecutorSettings` holds what configuration and flags decide. A
name that starts with `acp:` runs the agent command of that name from `settings.agents`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from tracer.errors import ConfigError, CredentialsError, UnavailableError, UsageError

if TYPE_CHECKING:
    from runner.executors.executor_port import Ask, Executor

EXECUTOR_NAMES = ("scripted", "replay", "anthropic", "claude", "codex", "gemini", "acp")
AGENT_NAMES = ("claude", "codex", "gemini")

PermissionAnswer = Literal["yes", "always", "no"]


class PermissionQuestion(NamedTuple):
    """What an agent asks leave for. Texts are the agent's own words: escape them where they are shown.

    `always` says what the agent will no longer ask for; empty where it offers nothing of the kind: then only the very
    same request is allowed without a question for the rest of the task.
    """

    task_id: str
    subtask_id: str | None
    agent: str
    title: str
    always: str = ""


PermissionAsker = Callable[[PermissionQuestion], Awaitable[PermissionAnswer]]
"""Asks a person. Safe to cancel; whoever asks settles how long to wait, and then answers `no`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """What an executor is made from. Times are seconds; None is no limit, "" is not set.

    `state_dir`: where running programs are registered (ended by the next `pm` if this one is killed).
    `script`: the file of `scripted`, or the trace of `replay`.
    `agents`: ACP agents by name, each the command as a list; `agent` picks one for `acp`.
    `fallback`: executors to ask, in order, where the one named is unavailable (and only then).
    `base_url`: of `anthropic` alone; `base_urls`: of the command lines by name, where they should not use their own.
    `programs`: paths of command lines that are not on PATH, e.g. {"claude": "/opt/claude"}.
    `extra_environment`: further names (or patterns) that the agent's environment may hold.
    `allow_commands`: what `anthropic` may run without a sandbox, beside its short default.
    `sandbox`: `auto` (where present), `on` (required) or `off`: bubblewrap around agent command lines and `run`.
    `ask_person`: who answers what an ACP agent asks leave for and the permissions do not settle; None refuses.
    """

    state_dir: Path | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    script: Path | None = None
    model: str | None = None
    base_url: str | None = None
    base_urls: Mapping[str, str] = field(default_factory=dict)
    key_file: Path | None = None
    agents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    agent: str = ""
    fallback: tuple[str, ...] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    extra_environment: tuple[str, ...] = ()
    extra_arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allow_commands: tuple[str, ...] = ()
    sandbox: str = "off"
    network: bool = False
    silence_s: float | None = 900.0
    ask_person: PermissionAsker | None = None


def make_executor(name: str, settings: ExecutorSettings | None = None) -> Executor:
    """The executor of that name, ready to be asked.

    Raises:
        UsageError: no executor has that name, or what it needs was not given.
        ConfigError: a setting makes no sense.
        CredentialsError: the key file is not private, or cannot be read; or an agent is known to be logged out.
        UnavailableError: the program is not installed or too old.

    """
    settings = settings or ExecutorSettings()
    if settings.fallback:
        from runner.executors.composite import FallbackExecutor

        alone = replace(settings, fallback=())
        for one in (name, *settings.fallback):
            _require_known(one, alone)
        with contextlib.suppress(UnavailableError):  # the first one's mistakes are told at once, its absence is not one
            make_executor(name, alone)
        others = replace(alone, model=None)  # a model's name belongs to one provider
        return FallbackExecutor(
            (name, *settings.fallback), lambda one: make_executor(one, alone if one == name else others)
        )
    kind, _, agent = name.partition(":")
    factories: Mapping[str, Callable[[ExecutorSettings, str], Executor]] = {
        "scripted": _scripted,
        "replay": _replay,
        "anthropic": _anthropic,
        **dict.fromkeys(AGENT_NAMES, functools.partial(_agent, kind)),
        "acp": _acp,
    }
    if kind not in factories:
        _require_known(name, settings)
    return factories[kind](settings, agent)


def _require_known(name: str, settings: ExecutorSettings) -> None:
    """Refuse a name that nothing could ever answer to.

    Raises:
        UsageError: there is no such executor.
        ConfigError: there is no agent of that name.

    """
    kind, _, agent = name.partition(":")
    if kind not in EXECUTOR_NAMES:
        raise UsageError(f"there is no executor {name!r}", next_step=f"choose one of {', '.join(EXECUTOR_NAMES)}")
    if kind == "acp":
        _acp(settings, agent)


def _need_script(settings: ExecutorSettings, name: str) -> Path:
    if settings.script is None:
        raise UsageError(f"the executor {name!r} needs a file to answer from", next_step="name it with --script FILE")
    return settings.script


def _scripted(settings: ExecutorSettings, _agent: str) -> Executor:
    module = importlib.import_module("runner.executors.scripted")
    return cast("Executor", module.ScriptedExecutor(_need_script(settings, "scripted"), state_dir=settings.state_dir))


def _replay(settings: ExecutorSettings, _agent: str) -> Executor:
    module = importlib.import_module("runner.executors.replay")
    return cast("Executor", module.ReplayExecutor(_need_script(settings, "replay")))


def _anthropic(settings: ExecutorSettings, _agent: str) -> Executor:
    from runner.executors.anthropic.executor import DEFAULT_MODEL, AnthropicExecutor
    from runner.executors.credentials import find_api_key

    return AnthropicExecutor(
        key=find_api_key(settings.environ, key_file=settings.key_file),
        toolbox=_toolbox_factory(settings),
        base_url=settings.base_url or settings.environ.get("ANTHROPIC_BASE_URL") or None,
        model=settings.model or DEFAULT_MODEL,
    )


def _agent(name: str, settings: ExecutorSettings, _agent: str) -> Executor:
    from runner.executors.agents.detection import DIALECTS, detect
    from runner.executors.agents.executor import AgentExecutor

    found = detect(name, settings.environ, programs=settings.programs)
    if found.problem:
        why = f"found {found.path}" if found.path else f"looked on PATH for {settings.programs.get(name, name)!r}"
        kind = CredentialsError if found.login == "no" and "too old" not in found.problem else UnavailableError
        raise (kind if found.path else UnavailableError)(found.problem, why=why, next_step=found.next_step)
    return AgentExecutor(DIALECTS[name], settings)


def _acp(settings: ExecutorSettings, agent: str) -> Executor:
    from runner.executors.acp.executor import AcpExecutor

    return AcpExecutor(agent, settings)


def _toolbox_factory(settings: ExecutorSettings) -> Callable[[Ask], Any]:
    from runner.executors.anthropic.tools import DEFAULT_ALLOWED, CommandTool, Toolbox
    from runner.executors.workspace_files import WorkspaceFiles
    from runner.processes import bubblewrap

    def build(request: Ask) -> Toolbox:
        workspace = Path(request.workspace)
        if not workspace.is_dir():
            raise ConfigError(f"the workspace {request.workspace!r} is not a folder", next_step="check -C DIR")
        policy = bubblewrap.SandboxPolicy(
            workspace=Path(os.path.realpath(workspace)), state_dir=settings.state_dir, network=settings.network
        )
        capability = bubblewrap.probe()
        commands = CommandTool(
            workspace=policy.workspace,
            wrap=functools.partial(bubblewrap.wrap, policy=policy) if capability.available else None,
            why_no_sandbox=capability.why,
            permissions=request.permissions,
            allowed=(*DEFAULT_ALLOWED, *settings.allow_commands),
            state_dir=settings.state_dir,
            label=request.task_id,
        )
        files = WorkspaceFiles(workspace, state_dir=settings.state_dir)
        return Toolbox(files, commands, request.permissions)

    return build
