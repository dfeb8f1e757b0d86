"""Executors by name. Nothing of an executor is imported before it is made.

`make_executor(name, settings)` is the only way in. A name that starts with `acp:` runs the agent command of that name
from `settings.agents`.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.executors.executor_port import AGENT_NAMES, EXECUTOR_NAMES, ExecutorSettings
from tracer.errors import ConfigError, CredentialsError, UnavailableError, UsageError, needs_extra

if TYPE_CHECKING:
    from runner.executors.executor_port import Ask, Executor


def make_executor(name: str, settings: ExecutorSettings | None = None) -> Executor:
    """The executor of that name, ready to be asked.

    Raises:
        UsageError: no executor has that name, or what it needs was not given.
        ConfigError: a setting makes no sense, or an extra is not installed.
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
    if kind not in _BUILDERS:
        _require_known(name, settings)
    return _BUILDERS[kind](settings, agent)


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
        from runner.executors.acp.executor import AcpExecutor

        AcpExecutor(agent, settings)


def _need_script(settings: ExecutorSettings, name: str) -> Path:
    if settings.script is None:
        raise UsageError(f"the executor {name!r} needs a file to answer from", next_step="name it with --script FILE")
    return settings.script


def _scripted(settings: ExecutorSettings, _agent: str) -> Executor:
    from runner.executors.scripted import ScriptedExecutor

    return ScriptedExecutor(_need_script(settings, "scripted"), state_dir=settings.state_dir)


def _replay(settings: ExecutorSettings, _agent: str) -> Executor:
    from runner.executors.replay import ReplayExecutor

    return ReplayExecutor(_need_script(settings, "replay"))


def _anthropic(settings: ExecutorSettings, _agent: str) -> Executor:
    from runner.executors.anthropic.executor import DEFAULT_MODEL, AnthropicExecutor
    from runner.executors.credentials import find_api_key, has_sdk

    with needs_extra("anthropic", wanted_by="the executor anthropic"):
        if not has_sdk():
            raise ModuleNotFoundError("No module named 'anthropic'")
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
        kind = CredentialsError if found.kind == "auth" else UnavailableError
        raise kind(found.problem, why=found.why, next_step=found.next_step)
    return AgentExecutor(DIALECTS[name], settings)


def _acp(settings: ExecutorSettings, agent: str) -> Executor:
    from runner.executors.acp.executor import AcpExecutor

    executor = AcpExecutor(agent, settings)
    with needs_extra("acp", wanted_by="the executor acp"):
        if find_spec("acp") is None:  # importing it takes 0.7 s
            raise ModuleNotFoundError("No module named 'acp'")
    executor.require_program()
    return executor


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


_BUILDERS: Mapping[str, Callable[[ExecutorSettings, str], Executor]] = {
    "scripted": _scripted,
    "replay": _replay,
    "anthropic": _anthropic,
    **{name: functools.partial(_agent, name) for name in AGENT_NAMES},
    "acp": _acp,
}
