"""`pm doctor`: the same checks in the same order, each `ok`, `warn` or `fail` with one line and the next step.

Nothing is changed and nothing leaves the machine unless `--online` is given. Exit 0 for ok and warn, 3 when a check
fails. `--json` passes through the trace redactor, so that it can be pasted into a bug report.
"""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from repl.commands.setup.running import running_service
from repl.present.text import count_text, one_line
from repl.version import VERSION
from runner.processes.probe import run_probe
from tracer.clock import now_epoch_ms
from tracer.errors import ConfigError, PmError, adding

if TYPE_CHECKING:
    from repl.context import Context
    from runner.executors.agents.detection import Detection

_LOW_SPACE = 500 << 20
_BUILT_MS = 1_767_225_600_000  # 2026-01-01: a clock before it is wrong
_TOOL_S = 5.0
_SERVE_PORT = 8765


class Check(NamedTuple):
    """What one check found."""

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    next_step: str = ""


def doctor(context: Context, arguments: Namespace) -> int:
    output = context.output
    checks: list[Check] = []
    for check in run_checks(context, online=arguments.online):
        checks.append(check)
        mark = output.tinted(check.status, good=check.status == "ok") if check.status != "warn" else output.bold("warn")
        output.line(f"{mark:<4}  {check.name:<12} {check.found}")
        if check.next_step and check.status != "ok":
            output.line(f"{'':<18} next: {check.next_step}")
    failed = [check.name for check in checks if check.status == "fail"]
    fields = _redacted(context, {"checks": [check._asdict() for check in checks], "failed": failed})
    if failed:
        error = ConfigError(f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}")
        output.failure("doctor", error, 3, fields)
        output.error(error)
        return 3
    output.result("doctor", fields)
    return 0


def run_checks(context: Context, *, online: bool = False) -> list[Check]:
    """Every check in order; one that itself breaks is a `fail` with its reason."""
    found = []
    for name, check in CHECKS.items():
        if name == "online" and not online:
            continue
        try:
            found.append(check(context))
        except (PmError, OSError) as error:
            why = (
                f"{error.what}" + (f": {error.why}" if error.why else "") if isinstance(error, PmError) else str(error)
            )
            step = error.next_step if isinstance(error, PmError) else ""
            found.append(Check(name, "fail", one_line(why), step))
    return found


def _version(_context: Context) -> Check:
    running = ".".join(map(str, sys.version_info[:3]))
    text = f"pm {VERSION}, Python {running}, {sys.platform}"
    if sys.version_info < (3, 11):  # noqa: UP036 - a copied source tree has no installer that would refuse
        return Check("version", "fail", text, "install Python 3.11 or newer")
    return Check("version", "ok", text)


def _state(context: Context) -> Check:
    state = context.state_dir
    place = state.root if state.root.exists() else state.root.parent
    if not os.access(place, os.W_OK):
        return Check("state", "fail", f"{state.root} cannot be written", "change its owner, or give --state-dir")
    free = shutil.disk_usage(place).free
    holders = _holders(context)
    text = f"{state.root} {'writable' if state.root.exists() else 'will be made'}, {free / (1 << 30):.1f} GB free"
    text += f", running: {', '.join(holders)}" if holders else ""
    if free < _LOW_SPACE:
        return Check("state", "warn", text, "free some space: a full disk stops tasks")
    return Check("state", "ok", text)


def _holders(context: Context) -> list[str]:
    state = context.state_dir
    locks = sorted(state.locks.glob("task-*.lock")) if state.locks.is_dir() else []
    found = [(path.name.removesuffix(".lock"), state.writer_of(path.name.removesuffix(".lock"))) for path in locks]
    return [f"{name} (process {holder.pid})" for name, holder in found if holder is not None][:5]


def _config(context: Context) -> Check:
    settings = context.settings()
    if settings.ignored:
        return Check("config", "warn", settings.ignored_line(), "read the files (pm config path), then pm config trust")
    files = [origin for row in settings.rows.values() if (origin := row.origin.where) and row.origin.layer != "flag"]
    used = len({name for name in files if name.endswith(".toml")})
    trusted = "folder trusted" if settings.trusted else "folder not trusted"
    return Check("config", "ok", f"valid, {count_text(used, 'file')} in use, {trusted}")


def _tests(context: Context) -> Check:
    """The test command that a verdict would stand on."""
    from repl.commands.setup.config import planned_commands

    found = next((one for one in planned_commands(context) if one.kind == "test"), None)
    if found is None:
        return Check("tests", "warn", "no test command: no change is verified", "pm config set run.test CMD")
    if found.held_back is not None:
        text = f"{found.command}: found here, does not run while the folder is not trusted"
        return Check("tests", "warn", one_line(text, 200), "pm config trust")
    return Check("tests", "ok", one_line(found.command, 200))


def _credentials(context: Context) -> Check:
    from repl.executor_choice import find_key, found_agents, key_step
    from runner.executors.credentials import has_sdk

    settings = context.settings()
    key = find_key(settings, context.environ)
    agents = [agent.name for agent in found_agents(settings, context.environ) if agent.path]
    if key is not None and not has_sdk():
        text = f"key from {key.source}; the package that uses it is not installed"
        if agents:
            return Check("credentials", "ok", f"{text}: {agents[0]} does the work")
        return Check("credentials", "warn", text, adding("anthropic"))
    if key is not None:
        return Check("credentials", "ok", f"key from {key.source}, ends in {key.ending}")
    if agents:
        return Check("credentials", "ok", "no API key; an installed agent brings its own log-in")
    return Check("credentials", "warn", "no API key and no agent found", f"{key_step()}, or try pm demo")


def _executors(context: Context) -> Check:
    """Each agent command line with version, log-in state and what keeps it from being used; configured ACP agents."""
    from repl.executor_choice import acp_agents
    from runner.executors.agents.detection import detect
    from runner.executors.executor_port import AGENT_NAMES

    programs = {name: str(path) for name, path in context.settings().family("executors").items()}
    found = [detect(name, context.environ, programs=programs) for name in AGENT_NAMES]
    parts = [one_line(_agent_text(agent, context), 200) for agent in found]
    acp = acp_agents(context.settings(), context.environ)
    parts += [one_line(f"{name} {path or '(not found)'}", 200) for name, path in acp]
    usable = any(agent.usable for agent in found) or any(path for _, path in acp)
    hint = next((agent.next_step for agent in found if agent.path and agent.problem), "")
    step = "" if usable else hint or "install one of them, or use --executor anthropic with a key"
    return Check("executors", "ok" if usable else "warn", ", ".join(parts), step)


def _agent_text(agent: Detection, context: Context) -> str:
    if agent.path is None:
        return f"{agent.name} (not found)"
    from runner.executors.agents.codex import probe_own_sandbox
    from runner.executors.agents.dialect import Version, parse_version

    text = f"{agent.name} {agent.version or '(no version)'}"
    if agent.problem:
        return f"{text} ({agent.problem})"
    text += f" (log-in: {agent.login_detail})" if agent.login == "yes" else f" (log-in {agent.login})"
    version = parse_version(agent.version or "") or Version()
    cache = context.state_dir.root / "control" if context.state_dir.root.is_dir() else None  # nothing is made here
    own = probe_own_sandbox(agent.name, agent.path, version, environ=context.environ, cache=cache)
    return text if own.works else f"{text}; {own.why}"


def _sandbox(context: Context) -> Check:
    """Whether agents and their commands can be put into bubblewrap, as the settings want it."""
    from runner.processes.bubblewrap import probe

    mode = str(context.settings().get("sandbox.mode"))
    if mode == "off":
        return Check("sandbox", "ok", "sandbox.mode is off: agents run as you do, within their permissions")
    capability = probe()
    if capability.available:
        return Check("sandbox", "ok", f"bubblewrap works: agents run inside it (sandbox.mode is {mode})")
    if mode == "on":
        return Check("sandbox", "fail", f"sandbox.mode is on, and {capability.why}", capability.next_step)
    return Check("sandbox", "warn", f"{capability.why}: agents run within their permissions", capability.next_step)


def _online(context: Context) -> Check:
    """One free request (the list of models) to the API the key is for."""
    from repl.executor_choice import find_key, no_credentials

    settings = context.settings()
    key = find_key(settings, context.environ)
    if key is None:
        raise no_credentials(settings, context.environ)
    import urllib.error
    import urllib.request

    base = (
        settings.get("anthropic.base_url") or context.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com"
    )
    if not str(base).startswith(("https://", "http://")):
        return Check("online", "fail", f"{base!r} is no http address", "pm config set anthropic.base_url https://...")
    headers = {"x-api-key": key.value, "anthropic-version": "2023-06-01"}
    request = urllib.request.Request(f"{str(base).rstrip('/')}/v1/models?limit=1", headers=headers)  # noqa: S310 - checked above
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - checked above
            return Check("online", "ok", f"{base} answers ({answer.status})")
    except urllib.error.HTTPError as error:
        refused = error.code in {401, 403}
        text = f"{base} answers {error.code}" + (
            f": key from {key.source} ending in {key.ending} refused" if refused else ""
        )
        return Check("online", "fail", text, "check the key" if refused else "try again later")
    except OSError as error:
        return Check(
            "online", "fail", f"{base} is not reachable: {one_line(str(error), 80)}", "check network and proxy"
        )


def _terminal(context: Context) -> Check:
    environ, output = context.environ, context.output
    if not sys.stdout.isatty():
        return Check("terminal", "ok", "output is not a terminal: plain text")
    size = shutil.get_terminal_size()
    colours = "true colour" if environ.get("COLORTERM") in {"truecolor", "24bit"} else environ.get("TERM", "unknown")
    inside = "tmux" if environ.get("TMUX") else "screen" if environ.get("STY") else "no multiplexer"
    encoding = getattr(sys.stdout, "encoding", None) or getattr(sys.__stdout__, "encoding", None) or "unknown"
    text = f"{size.columns}x{size.lines}, {colours}, {encoding}, {inside}" + (", plain" if output.plain else "")
    if "utf" not in encoding.lower():
        return Check("terminal", "warn", text, "set a UTF-8 locale, such as LANG=C.UTF-8")
    if size.columns < 60 or size.lines < 15:
        return Check("terminal", "warn", text, "the full screen needs 60x15; line mode works")
    return Check("terminal", "ok", text)


def _git(context: Context) -> Check:
    if shutil.which("git") is None:
        return Check(
            "git", "warn", "not installed: changes are compared by a list of files", "install git for better diffs"
        )
    from runner.workspace.git.repository import GitError, GitStopped, Stopper, find_repository

    try:
        repository = find_repository(Path(os.path.realpath(context.folder)), stopper=Stopper(limit_s=_TOOL_S))
        if repository is None:
            return Check("git", "ok", "not a repository: changes are compared by a list of files")
        index = repository.with_index(repository.git_dir / "index")
        changed = len(index.run("status", "--porcelain", "--untracked-files=no").splitlines())
    except GitStopped:
        return Check("git", "warn", "git status takes longer than 5 s", "git gc")
    except GitError as error:
        return Check("git", "warn", f"git cannot read this repository: {one_line(str(error))}", "git fsck")
    return Check(
        "git",
        "ok",
        "repository" + (f", {changed} changed files (they are part of every baseline)" if changed else ", clean"),
    )


def _container(_context: Context) -> Check:
    found = Check("container", "warn", "no docker or podman", "install one: captured fixes are tested in it")
    for name in ("docker", "podman"):
        path = shutil.which(name)
        if path is None:
            continue
        try:
            done = run_probe([path, "info"], limit_s=_TOOL_S)
            if done.returncode == 0:  # QA takes the one that works, as this does
                return Check("container", "ok", f"{name} answers")
            said = one_line(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2])
            trouble = f"is installed but refuses{said and ': '}{said}"
        except TimeoutError:
            trouble = "does not answer"
        found = Check("container", "warn", f"{name} {trouble}", f"start {name}; only QA needs it")
    return found


def _ports(context: Context) -> Check:
    import socket

    running = running_service(context.state_root)
    if running is not None:
        return Check("ports", "ok", f"pm serve answers at {running.address}")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _SERVE_PORT))
        except OSError as error:
            return Check("ports", "warn", f"127.0.0.1:{_SERVE_PORT} is taken ({error.strerror})", "pm serve --port N")
    return Check("ports", "ok", f"127.0.0.1:{_SERVE_PORT} is free for pm serve")


def _traces(context: Context) -> Check:
    from tracer.catalog.tasks import list_tasks

    if not context.state_dir.traces.is_dir():
        return Check("traces", "ok", "none yet")
    rows = list_tasks(context.state_dir)
    damaged = [row.task_id for row in rows if row.damaged]
    open_tasks = [row.task_id for row in rows if row.status in {"UNFINISHED", "AWAITING_RESPONSE"}]
    counted = count_text(len(rows), "task")
    if damaged:
        return Check("traces", "warn", f"damaged: {', '.join(damaged[:5])}", f"pm trace verify {damaged[0]}")
    if open_tasks:
        names = ", ".join(open_tasks[:3]) + (f" and {len(open_tasks) - 3} more" if len(open_tasks) > 3 else "")
        return Check("traces", "warn", f"{counted}, unfinished: {names}", f"pm resume {open_tasks[0]}")
    return Check("traces", "ok", f"{counted}, all ended")


def _captures(context: Context) -> Check:
    from collector.client.spool import list_spools, unsent

    here = list_spools(context.state_root)
    if not here:
        return Check("captures", "ok", "none here")
    waiting = unsent(context.state_root)
    if waiting:
        events = sum(each.events for each in waiting)
        text = f"{len(here)} here, {len(waiting)} not sent ({events:,} events)"
        short = waiting[0].spool.trace_id[:8]
        return Check("captures", "warn", text, f"pm record upload {short} sends it, pm record discard deletes it")
    return Check("captures", "ok", f"{len(here)} here, none waits to be sent")


def _collector(context: Context) -> Check:
    """The database and the place of blobs that `pm serve` and the workers use, with this command's environment."""
    settings = context.settings()
    given = settings.get("collector.database") or settings.get("collector.blobs")
    if not given and not (context.state_root / "collector.sqlite").exists():
        return Check("collector", "ok", "none here")
    import asyncio

    from collector.opening import check_places

    found = asyncio.run(check_places(context.state_dir, settings, environ=context.environ))
    return Check("collector", "ok", one_line(found, 300))


def _clock(context: Context) -> Check:
    now = now_epoch_ms()
    if now < _BUILT_MS:
        return Check("clock", "warn", "the clock is before 2026", "set the time: task files are named by it")
    newest = 0.0
    traces: Path = context.state_dir.traces
    if traces.is_dir():
        newest = max((path.stat().st_mtime for path in traces.iterdir()), default=0.0)
    if newest * 1000 > now + 120_000:
        return Check("clock", "warn", "a trace is newer than the clock", "check the time; order is kept by the files")
    return Check("clock", "ok", "plausible")


CHECKS: dict[str, Callable[[Any], Check]] = {
    "version": _version,
    "state": _state,
    "config": _config,
    "tests": _tests,
    "credentials": _credentials,
    "executors": _executors,
    "sandbox": _sandbox,
    "online": _online,
    "terminal": _terminal,
    "git": _git,
    "container": _container,
    "ports": _ports,
    "traces": _traces,
    "captures": _captures,
    "collector": _collector,
    "clock": _clock,
}


def _redacted(context: Context, fields: dict[str, Any]) -> dict[str, Any]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as key:  # the project's own key would have to be made, and doctor changes nothing
        redactor = context.redactor(state_dir=Path(key), rewrite_paths=True)
        value: dict[str, Any] = redactor.redact_value(fields).value
    return value
