"""Evidence for one answer: claims looked up on disk, check commands run once, everything put into one frozen value.

All effects of judging are here; the criteria only read the result. A path is looked up without leaving the workspace
(links that lead out count as outside). A check command runs in the workspace within its time and output limits; a
failing test command is repeated once, and passing then is recorded as flaky.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from runner.checks.clean_copy import CleanCopy, NoCleanCopyError, Source, scratch_folder
from runner.checks.commands import PlannedCommand, failing_tests
from runner.checks.reports import CommandRun
from runner.checks.run_tests import KEEP_BYTES, TestPlace, run_tests
from runner.checks.trial import Trials
from runner.claimed_paths import claimed_paths, requested_paths
from runner.gate.criterion import (
    ChangedFile,
    ClaimedPath,
    CommandKind,
    CommandResult,
    Evidence,
    Harm,
    NotVerified,
    SessionCall,
    SuiteEvidence,
)
from runner.gate.request_kind import Kind
from runner.processes.command import ProcessResult, run_command
from runner.processes.environment import command_environment
from runner.processes.orphans import CHECK_OF
from runner.workspace.changes import Changes
from tracer.clock import monotonic
from tracer.errors import RecordError
from tracer.facts import CheckChoice, Report

_TAIL = 8192
_KEEP = 256 * 1024
_LEAST_S = 0.001
_NO_PROGRAM = 127  # what shells end with then
_MAX_OUTPUT = 256 * 1024 * 1024
# A command's last word about a program that is not there: python -m, npx, cargo, rustup.
_NO_TOOL = re.compile(
    r"No module named '?(?P<module>\w+)'?\s*\Z"
    r"|npx canceled due to missing packages.*?\[\W*(?P<npx>(?:@[\w.-]+/)?[\w.-]+)"
    r"|^npm (?:error|ERR!) 404 .*'(?P<unknown>(?:@[\w.-]+/)?[\w.-]+)@"
    r"|^npm (?:error|ERR!) .*request to \S+/(?P<unreached>[\w.%-]+) failed"
    r"|^error: no such command: `(?P<cargo>[\w-]+)`|^error: '(?P<rustup>[\w-]+)' is not installed for the toolchain",
    re.MULTILINE,
)
_INTERPRETER = re.compile(r"(?:^|/)(?:python[\d.]*|(?:ba|da|z)?sh|node|bun|deno|ruby|perl|php)$")
# Make and some script runners end otherwise and tell that number.
_ENDED_127 = re.compile(r"^\S*make\S* \*\*\* .*Error 127$|exit code 127\b", re.MULTILINE)
_NOT_FOUND = re.compile(r"(?:^|[\s:])([\w./+@-]+): (?:(?:command )?not found|No such file or directory)$", re.MULTILINE)


RunCheck = Callable[[str, Path, float], Awaitable[ProcessResult]]
Weigh = Callable[[PlannedCommand, Callable[[], float]], Awaitable[SuiteEvidence]]


async def gather(
    *,
    request: str,
    answer: str,
    workspace: Path,
    changes: Changes,
    status: str = "COMPLETE",
    kind: Kind = "change",
    stop_reason: str | None = None,
    error_kind: str | None = None,
    expected: Sequence[str] = (),
    commands: Sequence[PlannedCommand] = (),
    tests_policy: str = "add",
    weigh: Weigh | None = None,
    require: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    timeout_s: float = 600.0,
    left_s: float | None = None,
    run_check: RunCheck | None = None,
    unused_venv: Path | None = None,
    report: Report | None = None,
    session: tuple[SessionCall, ...] | None = None,
    unchanged_before: bool = False,
) -> Evidence:
    """Everything the criteria look at for one answer.

    `changes` is what this task changed against its first baseline; `expected` lists paths the task must deliver;
    `commands` come from `detect_commands`; they are not run where the answer ended in trouble. `unused_venv` is the
    project's virtual environment where they run without it, which tells why a tool is missing. `weigh` holds the tests
    against the base; without it they run in the workspace as it is. `timeout_s` is for each
    command, `left_s` for all of them together.

    Raises:
        RecordError: a command could not be started or put on record.

    """
    until = None if left_s is None else monotonic() + left_s
    claims = await asyncio.to_thread(_look_up, workspace, request, answer, tuple(expected), changes.files, report)
    evidence = Evidence(
        request=request,
        answer=answer,
        status=status,
        kind=kind,
        stop_reason=stop_reason,
        error_kind=error_kind,
        files=changes.files,
        diff=changes.diff,
        claims=claims,
        report=report,
        session=session,
        unchanged_before=unchanged_before,
        protected_changes=changes.protected,
        lost_records=changes.lost,
        harm=(*changes.harm, *_outside(session or (), workspace)),
        harm_unknown=changes.harm_unknown,
        tests_policy=tests_policy,
        require=tuple(require),
        options=dict(options or {}),
    )
    if error_kind is not None or status == "TIMEOUT":
        return evidence._replace(not_checked={command.kind: _NO_ANSWER for command in commands})
    ran: list[CommandResult] = []
    not_checked: dict[CommandKind, NotVerified] = {}
    run_check = run_check or running_checks()
    changed = frozenset(file.path for file in changes.files)
    tests: SuiteEvidence | None = None
    for command in commands:
        if command.kind == "test" and weigh is not None and command.held_back is None:
            tests = await weigh(command, _within(timeout_s, until))
            continue
        result = await _run(command, workspace, timeout_s, until, run_check, unused_venv, changed)
        if isinstance(result, NotVerified):
            not_checked[command.kind] = result
        else:
            ran.append(result)
    return evidence._replace(commands=tuple(ran), not_checked=not_checked, tests=tests)


_NO_ANSWER = NotVerified(why="the agent gave no answer, so it was not run", next="pm resume")
# Tools of agents that write the one file they name. What a shell command writes is not seen.
_WRITERS = frozenset({"write", "edit", "multiedit", "notebookedit", "write_file", "replace", "edit_file"})
_SCRATCH = ("/tmp", "/var/tmp", "/private/tmp", "/private/var/folders", "/dev")  # noqa: S108 - looked at, not used
_AGENTS_OWN = frozenset({".claude", ".codex", ".gemini"})


def _outside(session: Sequence[SessionCall], workspace: Path) -> list[Harm]:
    """Files outside the workspace that the session's tools wrote, as its record names them."""
    home, top = os.path.expanduser("~"), os.path.realpath(workspace)  # noqa: PTH111 - a name in a record
    found = []
    for call in session:
        if call.name.lower() not in _WRITERS or call.ok is not True:
            continue
        name = call.text.partition(" (")[0].strip()
        path = os.path.realpath(Path(top) / name.replace("$HOME", home, 1).replace("$PROJECT_ROOT", top, 1))
        apart = not f"{path}/".startswith((f"{top}/", *(f"{one}/" for one in _SCRATCH)))
        if apart and name and not _AGENTS_OWN & set(path.split("/")):
            found.append(Harm(kind="outside", what=name))
    return list(dict.fromkeys(found))


def _look_up(
    workspace: Path,
    request: str,
    answer: str,
    expected: tuple[str, ...],
    files: tuple[ChangedFile, ...],
    report: Report | None,
) -> tuple[ClaimedPath, ...]:
    changed = {file.path for file in files if file.before != file.after}
    root = workspace.resolve()
    found = [_claim(root, path, "expected", changed) for path in expected]
    found += [_claim(root, path, "answer", changed) for path in claimed_paths(answer)]
    if report is not None and report.status in {"done", "partial"}:
        reported = (_claim(root, path, "answer", changed) for path in report.files)
        found += [claim for claim in reported if claim.path not in changed]  # what is deleted is changed too
    found += [_claim(root, path, "request", changed) for path in requested_paths(request)]
    return tuple(found)


def look_up_claims(root: Path, answer: str) -> tuple[ClaimedPath, ...]:
    """The paths that `answer` claims, looked up below `root`; as there is no task, each counts as changed."""
    found = (_claim(root.resolve(), path, "answer", set()) for path in claimed_paths(answer))
    return tuple(claim._replace(changed=True) for claim in found)


def _claim(root: Path, path: str, source: Any, changed: set[str]) -> ClaimedPath:
    written = Path(path).expanduser() if path.startswith("~/") else Path(path)
    try:
        target = (root / written).resolve()
        inside = target.is_relative_to(root)
        name = target.relative_to(root).as_posix() if inside else path
        if inside and not target.exists() and (full := _by_suffix(path, changed)):
            target, name = root / full, full
        exists = target.exists()
        size = target.stat().st_size if exists and target.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return ClaimedPath(path=path, source=source, exists=False, inside=True)
    return ClaimedPath(
        path=name,
        source=source,
        exists=exists and inside,
        inside=inside,
        size=size if inside else None,
        changed=name in changed or (exists and target.is_dir()),
    )


def _by_suffix(path: str, changed: set[str]) -> str | None:
    """The changed file that `path` names by its last parts: people write `login.py` for `src/login.py`."""
    parts = PurePosixPath(path).parts
    alike = (name for name in changed if name.endswith(parts[-1:]))
    return min((name for name in alike if PurePosixPath(name).parts[-len(parts) :] == parts), default=None)


def _within(timeout_s: float, until: float | None) -> Callable[[], float]:
    """The seconds that a command which starts now may take."""
    return lambda: timeout_s if until is None else max(_LEAST_S, min(timeout_s, until - monotonic()))


async def _run(
    command: PlannedCommand,
    workspace: Path,
    timeout_s: float,
    until: float | None,
    run_check: RunCheck,
    unused_venv: Path | None,
    changed: frozenset[str],
) -> CommandResult | NotVerified:
    if command.held_back is not None:
        return command.held_back
    limit_s = _within(timeout_s, until)
    first = await run_check(command.command, workspace, limit_s())
    if first.timed_out and until is not None and monotonic() >= until:
        return NotVerified(why=f"no time was left for {command.command}", next="--timeout S, or a faster command")
    missing = _missing_tool(command.command, exit_code=first.exit_code, text=first.text)
    if missing and changed.isdisjoint(_started_files(command.command)):
        return _not_found(missing, command.kind, unused_venv)
    result = _result(command, first)
    if command.kind != "test" or first.timed_out or first.exit_code in {0, None}:
        return result
    second = await run_check(command.command, workspace, limit_s())
    return _result(command, second)._replace(flaky=True) if second.exit_code == 0 else result


def _result(command: PlannedCommand, run: ProcessResult) -> CommandResult:
    return CommandResult(
        kind=command.kind,
        command=command.command,
        origin=command.origin,
        exit_code=run.exit_code,
        output_tail=run.text[-_TAIL:],
        duration_s=run.duration_s,
        timed_out=run.timed_out,
        failing=failing_tests(run.text) if command.kind == "test" and run.exit_code != 0 else (),
    )


def _missing_tool(command: str, *, exit_code: int | None, text: str) -> str:
    """The program or module without which the command could not even begin; empty where nothing is missing."""
    if exit_code == 0:
        return ""
    if (told := _NO_TOOL.search(text)) and not (told["module"] and f"-m {told['module']}" not in command):
        return next(name for name in told.groups() if name)
    if exit_code != _NO_PROGRAM and not _ENDED_127.search(text):
        return ""
    named = _NOT_FOUND.findall(text) or command.split()
    return "" if "/" in named[-1] else str(named[-1])  # a path is the workspace's own: its absence is a fault


def _started_files(command: str) -> list[str]:
    """The files of the workspace that a command would start; what they say of a missing tool may be the task's own."""
    words = command.split()
    found = [words[0]] if words else []
    if "-m" in words[:-1]:
        module = words[words.index("-m") + 1].replace(".", "/")
        found += [f"{module}.py", f"{module}/__main__.py", f"{module}/__init__.py"]
    elif found and _INTERPRETER.search(found[0]):
        found += [word for word in words[1:] if not word.startswith("-")][:1]
    return [name.removeprefix("./") for name in found]


def _not_found(tool: str, kind: CommandKind, unused_venv: Path | None) -> NotVerified:
    if unused_venv is not None and (unused_venv / "bin" / tool).exists():
        return NotVerified(why=f"{unused_venv.name} is not active", next="pm config trust")
    return NotVerified(why=f"{tool} not found", next=f"install it, or name another: --{kind} CMD")


def project_venv(workspace: Path) -> Path | None:
    """The virtual environment that lies in the workspace, the usual names first; None where there is none to use."""
    found = (path.parent for path in workspace.glob("*/pyvenv.cfg"))
    usable = [venv for venv in found if os.access(venv / "bin" / "python", os.X_OK)]
    return min(usable, key=lambda venv: (venv.name not in {".venv", "venv"}, venv), default=None)


def active_environment(venv: Path) -> dict[str, str]:
    """A check's environment with `venv` active: for trusted folders, as its programs come before the user's own."""
    environment = command_environment()
    environment.pop("PYTHONHOME", None)
    path = f"{venv / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
    return {**environment, "VIRTUAL_ENV": str(venv), "PATH": path}


def task_trials(source: Source, *, checks: CheckChoice, state_dir: Path, task_id: str) -> Trials:
    """The test runs of a task in the workspace `source`; each is on record in `state_dir`, to be ended after a kill."""
    venv = project_venv(source.folder)
    used = venv if checks.detect else None

    async def run(command: str, copy: CleanCopy | None, limit_s: float) -> CommandRun:
        if copy is not None:
            return await _run_tests(command, copy, limit_s)
        try:
            async with scratch_folder(state_dir) as reports:
                here = CleanCopy.of_folder(source.folder, reports=reports, state_dir=state_dir)
                return await _run_tests(command, here, limit_s)
        except NoCleanCopyError as error:
            raise _cannot_start(command, error.what) from error

    async def _run_tests(command: str, copy: CleanCopy, limit_s: float) -> CommandRun:
        async def start(argv: Sequence[str], environment: Mapping[str, str]) -> ProcessResult:
            return await run_command(
                copy.argv(argv),
                cwd=copy.tree,
                env=environment,
                timeout_s=limit_s,
                keep_bytes=KEEP_BYTES,
                max_output_bytes=_MAX_OUTPUT,
                state_dir=state_dir,
                label=f"{CHECK_OF}{task_id}",
            )

        own = command_environment() if used is None else active_environment(copy.workspace / used.name)
        place = TestPlace(tree=copy.tree, seen_as=copy.workspace, reports=copy.reports)
        try:
            await asyncio.to_thread(_empty, copy.reports)
            ran = await run_tests(command, place=place, start=start, environment=own)
        except OSError as error:
            raise _cannot_start(command, error) from error
        missing = _missing_tool(command, exit_code=ran.exit_code, text=ran.output_tail)
        if missing and used is None and venv is not None and (venv / "bin" / missing).exists():
            return replace(ran, doubt=_not_found(missing, "test", venv))
        return replace(ran, missing_tool=missing)

    return Trials(source, state_dir=state_dir, run=run, links=checks.needs, harness=checks.harness)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink() if not path.is_dir() or path.is_symlink() else shutil.rmtree(path)


def _cannot_start(command: str, error: OSError | str) -> RecordError:
    return RecordError(f"cannot start {command!r}", why=error, next_step="free space, memory or processes, then resume")


def running_checks(
    *, state_dir: Path | None = None, task_id: str = "", environment: Mapping[str, str] | None = None
) -> RunCheck:
    """Runs commands in `environment` (by default what any command gets).

    Those of `task_id` are on record in `state_dir`, to be ended if `pm` is killed.
    """

    async def run(command: str, workspace: Path, timeout_s: float) -> ProcessResult:
        try:
            return await run_command(
                command,
                cwd=workspace,
                env=environment,
                timeout_s=timeout_s,
                keep_bytes=_KEEP,
                max_output_bytes=_MAX_OUTPUT,
                state_dir=state_dir,
                label=f"{CHECK_OF}{task_id}",
            )
        except OSError as error:
            raise _cannot_start(command, error) from error

    return run
