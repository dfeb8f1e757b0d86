"""Evidence for one answer: claims looked up on disk, check commands run once, everything put into one frozen value.

All effects of judging are here; the criteria only read the result. A path is looked up without leaving the workspace
(links that lead out count as outside). A check command runs in the workspace within its time and output limits; a
failing test command is repeated once, and passing then is recorded as flaky.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from runner.criteria.claims import claimed_paths, requested_paths
from runner.criteria.commands import PROJECT_FILES, PlannedCommand, plan_commands
from runner.criteria.model import ChangedFile, ClaimedPath, CommandKind, CommandResult, Evidence, Kind
from runner.criteria.test_output import failing_tests
from runner.processes import CHECK_OF, run_command
from tracer.clock import monotonic
from tracer.errors import RecordError

__all__ = ["Changed", "CheckRun", "RunCheck", "detect_commands", "gather", "look_up_claims", "running_checks"]

_READ_LIMIT = 256 * 1024
_NAMES_LIMIT = 5000
_TAIL = 8192
_CLAIMS = 200
_KEEP = 256 * 1024
_LEAST_S = 0.001
_MAX_OUTPUT = 256 * 1024 * 1024


class Changed(Protocol):
    """What `runner.workspace` reports; only these two are read."""

    @property
    def files(self) -> tuple[ChangedFile, ...]:
        """The changed files, whole."""
        ...

    @property
    def protected(self) -> Sequence[str]:
        """Names changed under the state directory, already undone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """How one run of a check command ended. `started` is false where its program is not there."""

    exit_code: int | None
    output: str
    duration_s: float = 0.0
    timed_out: bool = False
    started: bool = True


RunCheck = Callable[[str, Path, float], Awaitable[CheckRun]]


async def gather(
    *,
    request: str,
    answer: str,
    workspace: Path,
    changes: Changed,
    status: str = "COMPLETE",
    kind: Kind = "auto",
    stop_reason: str | None = None,
    error_kind: str | None = None,
    expected: Sequence[str] = (),
    commands: Sequence[PlannedCommand] = (),
    allow_test_changes: bool = False,
    options: Mapping[str, Any] | None = None,
    timeout_s: float = 600.0,
    left_s: float | None = None,
    run_check: RunCheck | None = None,
) -> Evidence:
    """Everything the criteria look at for one answer.

    `changes` is what this task changed against its first baseline; `expected` lists paths the task must deliver;
    `commands` come from `detect_commands`. `timeout_s` is for each command, `left_s` for all of them together.
    Commands are not run where the answer ended in trouble or changed nothing and claims nothing: there is nothing to
    test then but the verdict is the same.

    Raises:
        RecordError: a command could not be started or put on record.

    """
    until = None if left_s is None else monotonic() + left_s
    files = tuple(changes.files)
    claims = await asyncio.to_thread(_look_up, workspace, request, answer, tuple(expected), files)
    evidence = Evidence(
        request=request,
        answer=answer,
        status=status,
        kind=kind,
        stop_reason=stop_reason,
        error_kind=error_kind,
        files=files,
        claims=claims,
        protected_changes=tuple(changes.protected),
        allow_test_changes=allow_test_changes,
        options=dict(options or {}),
    )
    if error_kind is not None or status == "TIMEOUT":
        return evidence
    ran: list[CommandResult] = []
    missing: list[CommandResult] = []
    for command in commands:
        result = await _run(command, workspace, _within(timeout_s, until), run_check or running_checks())
        (missing if result.missing_tool and command.origin == "detected" else ran).append(result)
    return replace(evidence, commands=tuple(ran), not_checked=tuple(missing))


def detect_commands(
    workspace: Path,
    *,
    given: Mapping[CommandKind, str] | None = None,
    configured: Mapping[CommandKind, str] | None = None,
    trusted: bool = False,
) -> tuple[PlannedCommand, ...]:
    """The commands in force for `workspace` before any tool was looked for; reads a few small project files."""
    names = _names(workspace) if trusted else []
    wanted = [name for name in PROJECT_FILES if name in names]
    wanted += [name for name in names if re.search(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$", name)][:20]
    texts = {name: _text(workspace / name) for name in wanted}
    return plan_commands(names=names, texts=texts, given=given, configured=configured, trusted=trusted)


def _names(workspace: Path) -> list[str]:
    names: list[str] = []
    for folder in (workspace, workspace / "tests", workspace / "test"):
        try:
            for entry in folder.iterdir():
                if len(names) < _NAMES_LIMIT and entry.is_file():
                    names.append(entry.relative_to(workspace).as_posix())
        except OSError:
            continue
    return sorted(names)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_READ_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


def _look_up(
    workspace: Path, request: str, answer: str, expected: tuple[str, ...], files: tuple[ChangedFile, ...]
) -> tuple[ClaimedPath, ...]:
    changed = {file.path for file in files if file.before != file.after}
    root = workspace.resolve()
    found = [_claim(root, path, "expected", changed) for path in expected]
    found += [_claim(root, path, "answer", changed) for path in claimed_paths(answer)[:_CLAIMS]]
    found += [_claim(root, path, "request", changed) for path in requested_paths(request)[:_CLAIMS]]
    return tuple(found)


def look_up_claims(root: Path, answer: str) -> tuple[ClaimedPath, ...]:
    """The paths that `answer` claims, looked up below `root`; as there is no task, each counts as changed."""
    found = (_claim(root.resolve(), path, "answer", set()) for path in claimed_paths(answer)[:_CLAIMS])
    return tuple(replace(claim, changed=True) for claim in found)


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
    matches = sorted(name for name in changed if PurePosixPath(name).parts[-len(parts) :] == parts)
    return matches[0] if matches else None


def _within(timeout_s: float, until: float | None) -> Callable[[], float]:
    """The seconds that a command which starts now may take."""
    return lambda: timeout_s if until is None else max(_LEAST_S, min(timeout_s, until - monotonic()))


async def _run(
    command: PlannedCommand, workspace: Path, limit_s: Callable[[], float], run_check: RunCheck
) -> CommandResult:
    if command.tool and shutil.which(command.tool) is None:
        return CommandResult(
            kind=command.kind, command=command.command, origin=command.origin, exit_code=None, missing_tool=True
        )
    first = await run_check(command.command, workspace, limit_s())
    result = _result(command, first)
    if command.kind != "test" or result.missing_tool or first.timed_out or first.exit_code in {0, None}:
        return result
    second = await run_check(command.command, workspace, limit_s())
    return replace(_result(command, second), flaky=True) if second.exit_code == 0 else result


def _result(command: PlannedCommand, run: CheckRun) -> CommandResult:
    return CommandResult(
        kind=command.kind,
        command=command.command,
        origin=command.origin,
        exit_code=run.exit_code,
        output_tail=run.output[-_TAIL:],
        duration_s=run.duration_s,
        timed_out=run.timed_out,
        missing_tool=not run.started or run.exit_code == 127 or _module_missing(command.command, run),
        failing=failing_tests(run.output) if command.kind == "test" and run.exit_code != 0 else (),
    )


def _module_missing(command: str, run: CheckRun) -> bool:
    """`python -m pytest` where pytest is not installed exits 1 with this one line."""
    module = re.search(r"python\S* -m (\w+)", command)
    return bool(
        module and run.exit_code == 1 and re.search(rf"No module named '?{module.group(1)}'?\s*$", run.output.strip())
    )


def running_checks(*, state_dir: Path | None = None, task_id: str = "") -> RunCheck:
    """Runs commands as they are; those of `task_id` are on record in `state_dir`, to be ended if `pm` is killed."""

    async def run(command: str, workspace: Path, timeout_s: float) -> CheckRun:
        try:
            result = await run_command(
                command,
                cwd=workspace,
                timeout_s=timeout_s,
                keep_bytes=_KEEP,
                max_output_bytes=_MAX_OUTPUT,
                state_dir=state_dir,
                label=f"{CHECK_OF}{task_id}",
            )
        except OSError as error:
            raise RecordError(
                f"cannot start {command!r}",
                why=error.strerror or str(error),
                next_step="free space, memory or processes, then resume",
            ) from error
        return CheckRun(
            exit_code=result.exit_code if result.kind in {"exit", "missing"} else None,
            output=result.text,
            duration_s=result.duration_s,
            timed_out=result.timed_out,
            started=not result.missing_tool,
        )

    return run
