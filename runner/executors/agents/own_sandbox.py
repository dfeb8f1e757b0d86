"""Whether an agent's own sandbox works on this machine, tried once per version and remembered.

Codex confines commands by the operating system; where that is missing every edit fails quietly. The trial writes a
file through its sandbox in a folder like the workspace. Claude Code and Gemini CLI confine by permission, not by the
operating system: there is nothing to try.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runner.executors.agents.dialect import Version
from runner.processes.environment import agent_environment
from runner.processes.probe import run_probe
from tracer.clock import short_token

_LIMIT_S = 20.0
_NEW_COMMAND_SINCE = Version(0, 100, 0)


class OwnSandbox(NamedTuple):
    """`works` False: `why` says in one line what the agent's sandbox cannot do here."""

    works: bool
    why: str = ""


def probe_own_sandbox(
    name: str, program: str, version: Version, *, environ: Mapping[str, str], cache: Path | None
) -> OwnSandbox:
    """Try the sandbox of executor `name`; `cache` is a folder for the answers, None to ask each time."""
    if name != "codex":
        return OwnSandbox(works=True)
    remembered = cache / f"sandbox-{name}-{version}.json" if cache is not None else None
    if remembered is not None and (told := _read(remembered, program, environ)) is not None:
        return told
    answer = _try_codex(program, version, environ)
    if remembered is not None:
        _remember(remembered, program, environ, answer)
    return answer


def _try_codex(program: str, version: Version, environ: Mapping[str, str]) -> OwnSandbox:
    command = ["/bin/sh", "-c", "echo tried > made"]
    argv: Sequence[str]
    if version >= _NEW_COMMAND_SINCE:
        argv = [program, "sandbox", "-c", 'sandbox_mode="workspace-write"', "--", *command]
    else:
        argv = [program, "sandbox", "linux", "--full-auto", *command]
    with tempfile.TemporaryDirectory(prefix="pm-probe-") as folder:
        try:
            done = run_probe(argv, limit_s=_LIMIT_S, env=agent_environment("openai", environ), cwd=folder)
        except OSError as error:
            return OwnSandbox(works=False, why=f"codex's own sandbox could not be tried: {error}")
        if done.returncode == 0 and Path(folder, "made").is_file():
            return OwnSandbox(works=True)
    said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line and "WARNING" not in line]
    return OwnSandbox(works=False, why=f"codex's own sandbox cannot write here: {said[-1] if said else 'no reason'}")


def _identity(program: str, environ: Mapping[str, str]) -> list[object]:
    status = Path(os.path.realpath(program)).stat()
    return [program, status.st_mtime_ns, status.st_size, environ.get("CODEX_HOME") or environ.get("HOME")]


def _read(path: Path, program: str, environ: Mapping[str, str]) -> OwnSandbox | None:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["of"] == _identity(program, environ):
            return OwnSandbox(works=bool(told["works"]), why=str(told["why"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _remember(path: Path, program: str, environ: Mapping[str, str], answer: OwnSandbox) -> None:
    """A lost note only means that it is tried again."""
    data = json.dumps({"of": _identity(program, environ), "works": answer.works, "why": answer.why})
    temporary = path.with_suffix(f".{short_token()}.tmp")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary.write_text(data, encoding="utf-8")
        temporary.replace(path)
