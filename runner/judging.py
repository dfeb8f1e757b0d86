"""Judges an answer of a task, or files (`pm check`): gathers the evidence and applies the criteria.

Imported when the first answer arrives: loading the criteria takes 150 ms.
"""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

from runner.agent_report import prose_of, read_report
from runner.checks.clean_copy import Source
from runner.checks.commands import PlannedCommand, detect_commands
from runner.checks.coverage import files_reaching
from runner.checks.evidence import (
    active_environment,
    gather,
    look_up_claims,
    project_venv,
    running_checks,
    task_trials,
)
from runner.checks.harness import sort_changes, texts_of_tests
from runner.checks.strength import Step, strength_criterion
from runner.checks.trial import Trials
from runner.checks.weighing import BaseRun
from runner.core.request import Request
from runner.core.state import NO_ANSWER, TaskState
from runner.core.steps import Judge
from runner.gate.criterion import (
    ChangedFile,
    ClaimedPath,
    CommandKind,
    Criterion,
    Evidence,
    Finding,
    ModelReply,
    Models,
    NotVerified,
    SessionCall,
    SuiteEvidence,
    Verdict,
)
from runner.gate.languages import by_path
from runner.gate.request_kind import Kind, settled_kind
from runner.gate.verdict import (
    BUILT_IN,
    KIND_OF,
    crashed,
    criteria_in_force,
    is_judged,
    judge,
    read_finding,
    run_criterion,
    team_criteria,
    too_slow,
    verdict_of,
)
from runner.workspace.changes import Changes, is_excluded
from runner.workspace.git.repository import listed_files
from tracer.clock import monotonic
from tracer.errors import NotFoundError, UsageError
from tracer.facts import CheckChoice, LlmResponse, Report
from tracer.insights.agentic_trace import read_agentic

T = TypeVar("T")
_LOOK_S = 0.2  # how often a check that takes long is looked after
_TO_END_S = 10.0  # beyond the limit: to look at files that are at hand, or to hear what an ended model has spent
READ_LIMIT = 64 * 1024 * 1024
_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", "dist", "build", "target"}
)


_OF_FILES = {"Q2", "Q3", "Q4"}
_OF_ANSWER = {"Q1", "Q2", "Q3", "Q4", "Q6"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What was judged: `files` is how many, `verdict` has the places, `unread` what could not be read and why."""

    files: int
    verdict: Verdict
    unread: tuple[tuple[str, str], ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return self.verdict.judgment == "PASS"


def check(
    *,
    files: Sequence[ChangedFile],
    answer: str | None = None,
    report: Report | None = None,
    claims: Sequence[ClaimedPath] = (),
    options: Mapping[str, Any] | None = None,
    unread: Sequence[tuple[str, str]] = (),
) -> CheckReport:
    """Judge `files` whole (as `after`), and `answer` with its `report` where there is one."""
    wanted = _OF_FILES if answer is None else _OF_ANSWER
    criteria = [criterion for criterion in BUILT_IN if criterion.id in wanted]
    evidence = Evidence(
        request="",
        answer=answer or "",
        report=report,
        files=tuple(files),
        claims=tuple(claims),
        options={**(options or {}), "answer_alone": answer is not None},
    )
    return CheckReport(files=len(files), verdict=judge(evidence, criteria, listed=None), unread=tuple(unread))


async def check_paths(
    *,
    root: Path,
    paths: Sequence[str] = (),
    answer: str | None = None,
    exclude: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> CheckReport:
    """Judge the files under `paths` (relative to `root`; the whole of `root` where nothing at all is named)."""
    root = root.resolve()
    named = list(paths) or ([] if answer is not None else ["."])
    names: list[str] = []
    for path in named:
        names += await _expand(root, path, tuple(exclude))
    files, unread = await asyncio.to_thread(_read_all, root, list(dict.fromkeys(names)))
    told = read_report(answer) if answer is not None else None
    answer = prose_of(answer) if answer is not None else None
    claims = await asyncio.to_thread(look_up_claims, root, answer) if answer is not None else ()
    report = Report(told) if told is not None else None
    judging = partial(check, files=files, answer=answer, report=report, claims=claims, options=options, unread=unread)
    return await asyncio.to_thread(judging)


async def _expand(root: Path, path: str, exclude: tuple[str, ...]) -> list[str]:
    target = (root / path).resolve()
    if not target.is_relative_to(root):
        raise UsageError(f"{path!r} is outside the folder", next_step="pm -C DIR check PATH")
    if not target.exists():
        raise NotFoundError(f"no such file or folder: {path!r}", next_step="check the spelling")
    if target.is_file():
        name = target.relative_to(root).as_posix()
        return [] if is_excluded(name, exclude) else [name]
    listed = await asyncio.to_thread(listed_files, target)
    found = listed if listed is not None else await asyncio.to_thread(lambda: list(_walk(target)))
    names = ((target / name).relative_to(root).as_posix() for name in found)
    return sorted(name for name in names if not is_excluded(name, exclude) and not name.startswith(".pm-orchestrator/"))


def _walk(folder: Path) -> Iterator[str]:
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.startswith("."))
        for name in files:
            yield (Path(base) / name).relative_to(folder).as_posix()


def _read_all(root: Path, names: Sequence[str]) -> tuple[list[ChangedFile], list[tuple[str, str]]]:
    """The files, and what could not be read with the reason."""
    files: list[ChangedFile] = []
    unread: list[tuple[str, str]] = []
    for name in names:
        try:
            file = _read(root, name)
        except FileNotFoundError:
            continue  # git lists what was deleted until that is staged
        except OSError as error:
            unread.append((name, error.strerror or type(error).__name__))
            continue
        if file is not None:
            files.append(file)
    return files, unread


def _read(root: Path, name: str) -> ChangedFile | None:
    """One file, whole up to the reading limit; None for links and special files. May raise OSError."""
    path = root / name
    before = path.lstat()
    if not stat.S_ISREG(before.st_mode):
        return None
    with path.open("rb") as file:
        content = file.read(READ_LIMIT + 1)
    after = path.lstat()
    unstable = (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size)
    too_large = len(content) > READ_LIMIT
    return ChangedFile(path=name, before=None, after=content[:READ_LIMIT], too_large=too_large, unstable=unstable)


@cache
def team() -> tuple[Criterion, ...]:
    """The installed teams' criteria, read once."""
    return team_criteria()


async def planned_commands(request: Request) -> tuple[PlannedCommand, ...]:
    """The commands in force in the workspace as it is."""
    checks = request.checks
    return await asyncio.to_thread(
        detect_commands,
        Path(request.workspace),
        given=_commands(checks.given),
        configured=_commands(checks.configured),
        untrusted=_commands(checks.untrusted),
        trusted=checks.detect,
    )


async def base_tests(
    trials: Trials, base: str, *, request: Request, limit_s: float | None
) -> tuple[PlannedCommand, BaseRun | None] | None:
    """The test command and how the tests end before the agent is asked; None where there is no command.

    One that may not be started has no run.
    """
    if request.kind == "question":  # an answer in words is judged without them
        return None
    command = next((one for one in await planned_commands(request) if one.kind == "test"), None)
    if command is None or command.held_back is not None or not request.checks.base_tests:
        return None if command is None else (command, None)
    timeout_s = float(request.checks.timeout_s or 600.0)
    limit_s = timeout_s if limit_s is None else min(limit_s, timeout_s)
    return command, await trials.before(command.command, base, limit_s=limit_s, cached=True)


def open_trials(source: Source, *, request: Request, state_dir: Path, task_id: str) -> Trials:
    """The test runs of a task in the workspace `source`."""
    return task_trials(source, checks=request.checks, state_dir=state_dir, task_id=task_id)


def told_of_base(command: PlannedCommand, found: BaseRun | None) -> dict[str, Any]:
    """The base run as LLM_REQUEST holds it."""
    told: dict[str, Any] = {"command": command.command, "origin": command.origin}
    if found is None:
        held = command.held_back
        if held is None:
            return told | {"outcome": "not_run"}
        return told | {"outcome": "not_verified", "why": held.why, "next": held.next}
    run, counts = found.run, found.run.report.counts
    told |= {"outcome": _OUTCOME[run.outcome], "passed": counts["passed"], "skipped": counts["skipped"]}
    told |= {"failed": counts["failed"] + counts["error"], "duration_ms": round(run.duration_s * 1000)}
    if (held := found.not_verified or run.not_verified) is not None:  # no tests yet: the task may bring the first ones
        told |= {"outcome": "not_verified", "why": held.why, "next": held.next}
    return told | ({"not_isolated": found.not_isolated} if found.not_isolated else {})


_SENT_BACK = NotVerified(why="not needed to send the answer back", next="pm gate")
_UNREACHED = NotVerified(why="the change reaches no test", next="pm gate")
_PROSE = frozenset({"markdown", "prose"})


def _spared(commands: Sequence[PlannedCommand], evidence: Evidence, workspace: Path) -> tuple[PlannedCommand, ...]:
    """The commands, held back where somebody waits and they change nothing.

    All of them where the changed lines fail by themselves, tests where only prose changed that no test names.
    """
    held, kinds = _SENT_BACK, frozenset(one.kind for one in commands)
    code = [one for one in BUILT_IN if one.id in {"Q2", "Q3", "Q4"}]
    if judge(evidence, code).judgment != "REJECT":
        found = sort_changes(evidence.files)
        paths = [file.path for file in found.product]
        prose = all((language := by_path(path)) is not None and language.name in _PROSE for path in paths)
        if len(paths) < len(evidence.files) or not prose or files_reaching(paths, texts_of_tests(workspace), {}):
            return tuple(commands)
        held, kinds = _UNREACHED, frozenset({"test"})
    return tuple(replace(one, held_back=one.held_back or held) if one.kind in kinds else one for one in commands)


_OUTCOME = {"passed": "pass", "failed": "fail", "not_verified": "not_verified"}


async def judge_answer(
    state: TaskState,
    step: Judge,
    *,
    request: Request,
    changes: Changes,
    state_dir: Path,
    models: Models | None = None,
    base: str = "",
    trials: Trials | None = None,
    planned: PlannedCommand | None = None,
    watch: Callable[[Step], None] = lambda _step: None,
    choose: Callable[[tuple[Criterion, ...]], tuple[Criterion, ...]] = lambda criteria: criteria,
    sparing: bool = False,
) -> Verdict:
    """The verdict on everything that the task changed since `base`, and on its checks' results.

    Without `trials` the tests run in the workspace as it is. `planned` is the test command as it was before the agent
    could change what it is detected by; `watch` is told how trying faults goes on; `choose` takes of the criteria in
    force those that apply; `sparing` leaves out commands that are not needed (`_spared`).
    """
    answer, checks, workspace = step.answer, request.checks, Path(request.workspace)
    until = None if step.left_s is None else monotonic() + step.left_s
    trusted = checks.detect
    took: dict[str, float] = {}  # seconds, by criterion
    commands = await planned_commands(request)
    if planned is not None:
        commands = (planned, *(command for command in commands if command.kind != "test"))

    async def weigh(command: PlannedCommand, limit_s: Callable[[], float]) -> SuiteEvidence:
        assert trials is not None  # noqa: S101 - given on only with trials
        return await trials.weigh(
            command, base, changes.files, policy=_policy(state, request), limit_s=limit_s, request=request.prompt
        )

    started = bool(checks.coverage) or any(command.held_back is None for command in commands)
    venv = await asyncio.to_thread(project_venv, workspace) if started else None
    environment = active_environment(venv) if trusted and venv is not None else None
    run_check = running_checks(state_dir=state_dir, task_id=state.task_id, environment=environment)
    subtask = state.subtask(step.subtask_id)
    text = request.prompt if step.subtask_id is None or state.plan is None else subtask.description
    report = None if step.whole else answer.report
    loop = state.loop(step.subtask_id)
    # Only what an answer's own comparison showed is its agent's; of the whole, each subtask was judged by itself.
    if answer is not NO_ANSWER:
        changes = changes._replace(harm=tuple(one for one in changes.harm if one.what in loop.harmed))
    kind = _kind(request, text, subtask=step.subtask_id is not None)
    if sparing and changes.files and not checks.require:
        asked = Evidence(request=text, answer="", kind=kind, files=changes.files, diff=changes.diff)
        commands = await asyncio.to_thread(_spared, commands, asked._replace(options=checks.options), workspace)
    evidence = await gather(
        request=text,
        answer=prose_of(answer.output) or (answer.error.message if answer.error else ""),
        report=report,
        session=await asyncio.to_thread(_session, request, answer, state_dir) if report and report.commands else None,
        unchanged_before=any(issue.type == "no_change" for issue in loop.judgment.issues),
        workspace=workspace,
        changes=changes,
        status=answer.status or "COMPLETE",
        kind=kind,
        stop_reason=answer.stop_reason,
        error_kind=answer.error.kind if answer.error else None,
        expected=subtask.files_expected,
        commands=() if kind == "question" and not changes.files and not checks.require else commands,
        tests_policy=_policy(state, request),
        weigh=None if trials is None else _timed("Q7", weigh, took),
        require=checks.require,
        options=checks.options,
        timeout_s=float(checks.timeout_s or 600.0),
        left_s=step.left_s,
        run_check=run_check,
        unused_venv=None if trusted else venv,
    )
    criteria = criteria_in_force(
        commands=_kinds(evidence),
        selected=checks.criteria,
        required=checks.require,
        team=team(),
        # A part of a task is reviewed with the whole.
        review=checks.review is not None and bool(evidence.files) and step.subtask_id is None,
        strength=trials is not None and _tries_faults(checks, evidence) and step.subtask_id is None,
    )
    if trials is not None:
        tried = _timed("Q11", partial(trials.strength, base=base, files=changes.files, watch=watch), took)
        required, budget_s = checks.strength, checks.strength_time
        criteria = tuple(
            strength_criterion(one, tried, required=required, budget_s=budget_s) if one.id == "Q11" else one
            for one in criteria
        )
    verdict = await judge_by(evidence, choose(criteria), models=models, until=until)
    took |= {
        number: one.duration_s for one in evidence.commands for number, kind in KIND_OF.items() if kind == one.kind
    }
    times = {number: {"duration_ms": round(seconds * 1000)} for number, seconds in took.items()}
    verdict = verdict._replace(
        criteria_results=tuple(one | times.get(one["id"], {}) for one in verdict.criteria_results)
    )
    if checks.coverage and verdict.judgment == "PASS" and step.subtask_id is None:
        from runner.checks.coverage import unreached  # 15 ms, only where a report is named

        left_s = 600.0 if until is None else max(1.0, until - monotonic())
        told = await unreached(
            checks.coverage, workspace, changes.files, lambda command: run_check(command, workspace, left_s)
        )
        verdict = verdict._replace(unreached=told)
    merged = step.subtask_id is not None and verdict.judgment == "PASS"
    return verdict._replace(question=None) if step.whole or merged else verdict  # nobody who could go on asks there


def _timed(number: str, call: Callable[..., Awaitable[T]], took: dict[str, float]) -> Callable[..., Awaitable[T]]:
    """`call`, with the seconds that it takes kept for criterion `number`."""

    async def timed(*given: Any, **named: Any) -> T:
        began = monotonic()
        try:
            return await call(*given, **named)
        finally:
            took[number] = monotonic() - began

    return timed


def _tries_faults(checks: CheckChoice, evidence: Evidence) -> bool:
    """Whether the tests are to be tried: always where a strength is wanted, else where they showed something."""
    ran = evidence.tests is not None and evidence.tests.not_verified is None and not evidence.tests.not_isolated
    return bool(evidence.files) and (checks.strength is not None or (bool(checks.strength_time) and ran))


def _session(request: Request, answer: LlmResponse, state_dir: Path) -> tuple[SessionCall, ...] | None:
    """The calls of the session behind an answer; None where no whole record of it can be read."""
    if answer.agentic_trace:
        try:
            trace = read_agentic(state_dir.parent / answer.agentic_trace)
        except NotFoundError:
            return None
        steps = [step for step in trace.steps if step.kind == "tool"]
        told = {"ok": True, "error": False}
        found = tuple(SessionCall(name=it.name, text=it.args, ok=told.get(it.status), output=it.output) for it in steps)
        return found if trace.meta and not trace.damaged else None
    calls = answer.tool_calls
    whole = answer.tool_call_count == len(calls) and not answer.session_resumed
    executor = answer.executor or request.executor.name
    # Some ACP agents announce no calls at all: of one that announced none, nothing is known.
    if not whole or not (executor == "anthropic" or (executor.startswith("acp:") and calls)):
        return None
    return tuple(SessionCall(name=call.name, text=call.summary, ok=call.ok) for call in calls)


class _NoModels:
    """Where no model can be asked."""

    async def ask(self, prompt: str, **_options: Any) -> ModelReply:
        """An answer that says so."""
        del prompt
        return ModelReply(trouble="no model can be asked here")


async def judge_by(
    evidence: Evidence, criteria: Sequence[Criterion], *, models: Models | None = None, until: float | None = None
) -> Verdict:
    """Judge one answer by `criteria` (those in force, Q1 first); those that wait all at once, after the others.

    They may cost money: where another one failed they are not asked. `until` is when the task's time is over.
    """
    if not is_judged(evidence):
        return verdict_of(evidence, ())
    places = [place for place, one in enumerate(criteria) if not one.waits]
    found = dict(zip(places, await _in_turn([criteria[place] for place in places], evidence, until), strict=True))
    failed = [criteria[place].id for place, finding in found.items() if not finding.passed]
    waiting = [(place, one) for place, one in enumerate(criteria) if one.waits]
    if failed:
        unasked = NotVerified(why=f"not asked: {', '.join(failed)} failed", next="it is asked once the others pass")
        found |= {place: Finding(passed=True, not_verified=unasked) for place, _ in waiting}
    else:
        async with asyncio.TaskGroup() as group:
            asked = models or _NoModels()
            tasks = [group.create_task(_within(one, _awaited(one, evidence, asked), until)) for _, one in waiting]
        found |= {place: task.result() for (place, _), task in zip(waiting, tasks, strict=True)}
    return verdict_of(evidence, [(one, found[place]) for place, one in enumerate(criteria)])


def _limit_s(criterion: Criterion, until: float | None, begun: float) -> float:
    left_s = criterion.timeout_s if until is None else max(0.001, until - begun)
    return min(criterion.timeout_s, left_s + _TO_END_S)


async def _within(criterion: Criterion, finding: Awaitable[Finding], until: float | None) -> Finding:
    limit_s = _limit_s(criterion, until, monotonic())
    try:
        async with asyncio.timeout(limit_s):
            return await finding
    except TimeoutError:
        return too_slow(limit_s)


async def _awaited(criterion: Criterion, evidence: Evidence, models: Models) -> Finding:
    check = cast("Callable[[Evidence, Models], Awaitable[object]]", criterion.check)
    try:
        return read_finding(criterion, await check(evidence, models))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return crashed(criterion, error)  # its own, of a task that it cancelled
    except Exception as error:  # noqa: BLE001 - as in `run_criterion`
        return crashed(criterion, error)


async def _in_turn(criteria: Sequence[Criterion], evidence: Evidence, until: float | None) -> list[Finding]:
    """What checks find, one after the other in a thread that nobody waits for at the end.

    One that hangs must not keep pm from ending: the thread is left to it, and the rest goes on in another.
    """
    loop = asyncio.get_running_loop()
    found: list[Finding] = []
    while len(found) < len(criteria):
        ended = asyncio.Event()
        here: list[Finding] = []
        begun = [monotonic()]  # when each of `rest` began

        def work(rest: Sequence[Criterion], here: list[Finding], begun: list[float], ended: asyncio.Event) -> None:
            for one in rest:
                try:
                    here.append(run_criterion(one, evidence))
                except BaseException as error:  # noqa: BLE001 - a plug-in may call sys.exit, and somebody waits
                    here.append(crashed(one, error))
                begun.append(monotonic())
                if ended.is_set():  # it was given up
                    return
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(ended.set)

        rest = criteria[len(found) :]
        name = f"criteria-{rest[0].id}"
        threading.Thread(target=work, args=(rest, here, begun, ended), name=name, daemon=True).start()
        while not ended.is_set():
            at = min(len(begun), len(rest)) - 1
            limit_s = _limit_s(rest[at], until, begun[at])
            left_s = begun[at] + limit_s - monotonic()
            if left_s <= 0 and len(here) == at:
                ended.set()
                here = [*here, too_slow(limit_s)]
            else:
                with suppress(TimeoutError):  # the next one may have less time than this one
                    async with asyncio.timeout(min(max(left_s, 0.001), _LOOK_S)):
                        await ended.wait()
        found += here
    return found


def _policy(state: TaskState, request: Request) -> str:
    """What the task may do to tests: as the request says, or as a person has allowed since."""
    return "allowed" if state.allowed else request.checks.tests


def _kinds(evidence: Evidence) -> list[CommandKind]:
    """The kinds that have a command; where nothing changed, one that could not run would have had nothing to show."""
    ran = [result.kind for result in evidence.commands]
    tests: list[CommandKind] = ["test"] if evidence.tests is not None else []
    return [*tests, *ran, *(evidence.not_checked if evidence.files else ())]


def _commands(listed: Mapping[str, Any]) -> Mapping[CommandKind, str]:
    """By kind; an empty one switches its kind off."""
    return {cast("CommandKind", kind): command for kind, command in listed.items() if isinstance(command, str)}


def _kind(request: Request, text: str, *, subtask: bool) -> Kind:
    """The kind recorded for the task. A part of a change may only ask: the whole is judged as a change in any case."""
    kind = settled_kind(request.kind, request.prompt)  # records from before kinds were settled hold "auto"
    return settled_kind("auto", text) if subtask and kind == "change" else kind
