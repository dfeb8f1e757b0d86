"""The real effects of a task: rules, workspace baselines, agent, evidence, judgment, distillation.

One instance serves one task. File work runs in threads, so that many tasks share one event loop.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from runner.core.request import Request
from runner.core.state import LoopState, TaskState
from runner.core.steps import Judge
from runner.effects_port import Changed
from runner.executors.executor_port import Answer, AnswerError, Ask, Executor, Live, LiveSink, ignore_live
from runner.gate.criterion import Models, Verdict
from runner.isolation.folder_lease import FolderLease
from runner.isolation.isolation_port import DirectIsolation, Isolation
from runner.isolation.worktrees import GitWorktrees, why_not_parallel
from runner.processes.process_table import MARK
from runner.workspace.workspace import Workspace, open_workspace
from tracer.blobs import DirectoryBlobs
from tracer.clock import now_epoch_ms
from tracer.durable import ensure_folder
from tracer.durable import replace as replace_file
from tracer.errors import ConfigError, ConflictError, PmError, RecordError
from tracer.facts import LlmRequest
from tracer.redaction.redactor import NO_ADDITIONS, RedactionSettings
from tracer.statedir import StateDir
from tracer.unified_diff import count_files

if TYPE_CHECKING:
    from runner.checks.commands import PlannedCommand
    from runner.checks.trial import Trials
    from tracer.distill.native import Provider

_MAX_BYTES: Final = 256_000

BUILT_IN_RULES: Final = """\
## Mandatory Rules
- Finish the whole task. Leave no TODO, FIXME, stub or placeholder behind.
- Write files whole: never put a remark such as "rest unchanged" in the place of code.
- What you deliver must parse; if the project has tests, they must pass.
- Do not delete, skip or weaken tests or checks unless the task asks for it.
- Name the files you changed. Do not say that something is done before you have checked it.
- Do not leave steps to the reader that you can do yourself.
- End with your answer in words, then one report of what you did, as JSON in a fenced block, each line of it true:

```pm-report
{"status": "done", "done": ["…"], "left": [], "files": ["PATH"], "commands": [{"run": "COMMAND", "exit": 0}],
 "tests_changed": [{"test": "NAME", "why": "…"}], "question": null}
```

  status is done, partial, question, blocked or nothing_to_do; left: parts of the task that are not done; files: what
  you created, changed or deleted; question: what you must know to go on (then change nothing that you only guess).
"""


def load_rules(state_dir: Path) -> str:
    """The text of `rules.md` (UTF-8, at most 256 kB) in the state directory, or the built-in rules without one."""
    path = state_dir / "rules.md"
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return BUILT_IN_RULES
    except OSError as error:
        raise ConfigError(
            f"cannot read {str(path)!r}", why=str(error), next_step="correct or remove the file"
        ) from error
    if len(raw) > _MAX_BYTES:
        raise ConfigError(f"{str(path)!r} is too large", why="rules may have 256 kB", next_step="shorten it")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{str(path)!r} is not UTF-8", why=str(error), next_step="save it as UTF-8") from error
    return text if text.strip() else BUILT_IN_RULES


_STARTED_S: Final = 0.2
_LOOK_S: Final = 0.1
_REVIEW_FOLDER: Final = "pm-review-"
_REVIEW_OVER_MS: Final = 3_600_000
_PIECE: Final = 1 << 20
_NOTHING_KNOWN: Final = {"agentic_trace": None, "usage": None, "cost_usd": None}
_LEAVE_SESSIONS: Final[dict[str, Provider]] = {
    "claude": "claude",
    "codex": "codex",
    "gemini": "gemini",
    "copilot": "copilot",
}


def distill_run(
    executor: str,
    session_ref: str,
    *,
    workspace: str,
    state_dir: StateDir,
    label: str,
    prompt: str,
    prompt_file: str,
    success: bool,
    cost_usd: float | None = None,
    native_path: str | None = None,
    since_ms: int | None = None,
    environ: Mapping[str, str] | None = None,
    redaction: RedactionSettings = NO_ADDITIONS,
) -> tuple[str | None, str]:
    """The agentic trace of an agent's session, relative to the project; None with the reason where there is none.

    One session is one trace: a later answer in it updates the trace. `since_ms` leaves out what it held before the
    task. Without `native_path` the session is looked for by id, with `environ` as the agent's environment.
    """
    from tracer.distill.locate.find import session_at, session_by_id  # 60 ms, only where an agent left a session
    from tracer.distill.native import Request as Wanted
    from tracer.distill.one import distill

    provider = _LEAVE_SESSIONS.get(executor)
    if provider is None:
        return None, ""
    project = state_dir.project
    wanted = Wanted(
        label=label,
        project_root=project,
        prompt=prompt,
        prompt_file=Path(workspace) / prompt_file if prompt_file else None,
        state_dir=state_dir.root,
        since_ms=since_ms,
        redaction=redaction,
        success=success,
        cost_usd=cost_usd,
    )
    try:
        if native_path is not None:
            session = session_at(Path(native_path), provider)
        else:
            session_id = session_ref.removeprefix(f"{executor}:")
            session = session_by_id(provider, session_id, cwd=Path(workspace), environ=environ)
        path, root = distill(session, wanted).path.absolute(), project.absolute()
    except PmError as error:
        return None, error.line
    return str(path.relative_to(root) if path.is_relative_to(root) else path), ""


def _tell_success(path: Path, *, success: bool) -> bool:
    from tracer.distill.stored import stored_at, tell_success  # 20 ms, only where an agent left a session

    return tell_success(stored_at(path), success=success)


def _left_by(executor: str, session_ref: str | None, request: LlmRequest, workspace: str) -> dict[str, Any] | None:
    """The session of an unanswered request, what it used since then and what that cost; None where none began."""
    from tracer.distill.locate.find import session_by_id, session_that_holds
    from tracer.distill.one import spent_since
    from tracer.rows.line import epoch_ms

    provider, asked_ms = _LEAVE_SESSIONS[executor], epoch_ms(request.timestamp) or 0
    try:
        if session_ref is None:
            session = session_that_holds(request.prompt, provider, since_ms=asked_ms)
        else:
            session = session_by_id(provider, session_ref.removeprefix(f"{executor}:"), cwd=Path(workspace))
    except PmError:
        return None
    told: dict[str, Any] = {"session_ref": f"{executor}:{session.session_id}", **_NOTHING_KNOWN}
    with suppress(PmError, OSError):
        tokens, told["cost_usd"] = spent_since(session, asked_ms)
        told["usage"] = {f"{name}_tokens": count for name, count in tokens.items()}
    return told


class _Shared(NamedTuple):
    """What all effects of one task share: workspaces by folder, as pm's own records are told to each one's guard."""

    workspaces: dict[str, Workspace]
    trials: list[Trials]


class TaskEffects:
    """The effects of one task in its workspace."""

    answer_at_hand = False
    sparing = False  # whether commands that are not needed are left out

    def __init__(
        self,
        *,
        request: Request,
        task_id: str,
        executor: Executor,
        state_dir: StateDir,
        redaction: RedactionSettings = NO_ADDITIONS,
        shared: _Shared | None = None,
        live: LiveSink = ignore_live,
    ) -> None:
        self._request = request
        self.workspace = request.workspace
        self._task_id = task_id
        self._executor = executor
        self._state_dir = state_dir
        self._redaction = redaction
        self._blobs = DirectoryBlobs(state_dir.blobs, second=state_dir.second_blobs)
        self._live = live
        self._isolation: Isolation | None = None
        self._trials: Trials | None = None
        self._planned: PlannedCommand | None = None
        self._lease = FolderLease(request.workspace, state_dir=state_dir, task_id=task_id)
        self._apart = shared is not None
        self._shared = shared or _Shared({}, [])
        self._workspaces = self._shared.workspaces

    async def rules(self) -> str:
        """The project's rules, or the built-in ones."""
        return load_rules(self._state_dir.root)

    async def enter(self, *, wait: bool) -> str:
        """Have the folder for this task alone; who has it, where that is not waited for."""
        told = ""
        while not self._lease.take():
            holder = self._lease.holder()
            who = holder or "another pm"
            if not wait:
                return who
            if os.environ.get(MARK):  # whoever has it may be waiting for the agent that started this pm
                raise ConflictError(
                    f"{who} works in {str(self._lease.folder)!r}",
                    why="an agent's own pm does not wait for it",
                    next_step=f"pm resume {self._task_id} when it is done",
                )
            if told != who:
                self._live(
                    Live(kind="notice", text=f"waits for {who}, which works in the folder", task_id=self._task_id)
                )
                told = who
            await asyncio.sleep(_LOOK_S)
        await self._note_others()
        return ""

    async def _note_others(self) -> None:
        for note in await asyncio.to_thread(self._lease.left_by_others):
            await note.record(await self._open())

    async def leave(self, *, done: bool) -> None:
        """Let others work in the folder; `done`: the task has come to its end."""
        if done:
            self._lease.done()
        self._lease.release()
        for trials in self._shared.trials:
            await trials.close()

    async def paused(self) -> None:
        """Record how the task leaves the folder, for `taken_up`."""
        await self._lease.own().record(await self._open())

    async def taken_up(self, bases: Iterable[str]) -> Mapping[str, str]:
        """What replaces these baselines of a task that goes on in the folder: what others changed is not its work."""
        note = self._lease.own()
        await note.rebased(bases, await self._open())
        await asyncio.to_thread(note.write)
        return note.bases

    async def baseline(self, label: str) -> str:
        """A durable baseline of the workspace."""
        return await (await self._open()).baseline(label)

    async def changed(self, base: str) -> Changed:
        """The paths that differ from `base`, their diff kept as a blob, without secrets: it is part of the trace."""
        changes = await (await self._open()).changes(base)
        with suppress(OSError):  # told by whoever needs one
            await asyncio.to_thread(self._blobs.put_back)
        diff = changes.diff
        blob = await asyncio.to_thread(self._keep, diff) if diff else None
        files = await asyncio.to_thread(count_files, diff, changes.paths)
        harm = [{key: value for key, value in one._asdict().items() if value} for one in changes.harm]
        trespass = [{"kind": "state", "what": name} for name in changes.protected]
        return Changed(tuple(changes.paths), blob, left=changes.left, collateral=(*trespass, *harm), files=tuple(files))

    def _keep(self, diff: bytes) -> str:
        from tracer.redaction.engine import build_redactor  # only where something changed
        from tracer.redaction.streams import StreamRedactor

        redactor = build_redactor(state_dir=self._state_dir.root, environ=os.environ, **self._redaction._asdict())
        stream = StreamRedactor(redactor)
        pieces = [stream.feed_bytes(diff[at : at + _PIECE]) for at in range(0, len(diff), _PIECE)]
        return self._blobs.put_bytes(b"".join((*pieces, stream.close_bytes())))

    async def ask(self, request: Ask, live: LiveSink) -> Answer:
        """The executor's answer; what judging needs is loaded meanwhile, once the agent has started."""
        loading = asyncio.get_running_loop().call_later(_STARTED_S, _begin_loading)
        try:
            return await self._executor.ask(request, live=live)
        finally:
            loading.cancel()

    async def base_tests(self, base: str, *, limit_s: float | None) -> Mapping[str, Any] | None:
        """How the tests end before the agent is asked, as LLM_REQUEST tells it; None where no command is in force."""
        judging = await asyncio.to_thread(_load_judging)
        found = await judging.base_tests(await self._tests(), base, request=self._request, limit_s=limit_s)
        if found is None:
            return None
        self._planned, run = found
        told: Mapping[str, Any] = judging.told_of_base(self._planned, run)
        return told

    async def _tests(self) -> Trials:
        if self._trials is None:
            judging = await asyncio.to_thread(_load_judging)
            self._trials = judging.open_trials(
                await self._open(), request=self._request, state_dir=self._state_dir.root, task_id=self._task_id
            )
            self._shared.trials.append(self._trials)
        trials: Trials = self._trials
        return trials

    async def consult(self, request: Ask, live: LiveSink) -> Answer:
        """One question in an empty folder outside the project: no instructions or hooks in it reach the model.

        Where something was written there, or the workspace changed meanwhile, the answer cannot be relied on.
        """
        base = await self.baseline(f"{self._task_id}-review")
        folder = await asyncio.to_thread(_empty_folder)
        try:
            answer = await self._executor.ask(request._replace(workspace=str(folder)), live=live)
            wrote = await asyncio.to_thread(lambda: sorted(path.name for path in folder.iterdir()))
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        by = str(answer.extra.get("executor") or self._request.executor.name)
        if by != request.executor:
            return _spoilt(answer, f"{by} answered in the place of {request.executor}")
        if wrote:
            return _spoilt(answer, f"it wrote files: {', '.join(wrote[:3])}")
        changed = (await self.changed(base)).paths
        return _spoilt(answer, f"files changed meanwhile: {', '.join(changed[:3])}") if changed else answer

    async def kept(self, question: str, *, before_ms: int) -> str | None:
        """The answer that was kept for a question of this hash, if the file was as it is before then."""
        path = self._kept_at(question)
        try:
            changed_ms = path.stat().st_ctime_ns // 1_000_000  # the kernel's: no program sets it
            return await asyncio.to_thread(path.read_text, encoding="utf-8") if changed_ms < before_ms else None
        except (OSError, UnicodeDecodeError):
            return None

    async def keep(self, question: str, text: str) -> None:
        """Keep an answer as a file of the state dir."""
        path = self._kept_at(question)
        with suppress(RecordError, OSError):
            await asyncio.to_thread(ensure_folder, path.parent)
            await asyncio.to_thread(replace_file, path, text.encode())

    def _kept_at(self, question: str) -> Path:
        return self._state_dir.root / "reviews" / question

    async def judge(self, state: TaskState, step: Judge, models: Models) -> Verdict:
        """Everything this task changed since its first baseline, and the checks' results, judged."""
        workspace = await self._open()
        base = step.first_base or await workspace.baseline(f"{self._task_id}-judge")
        changes = await workspace.changes(base)
        judging = await asyncio.to_thread(_load_judging)
        verdict: Verdict = await judging.judge_answer(
            state,
            step,
            request=self._request,
            changes=changes,
            state_dir=self._state_dir.root,
            models=models,
            base=base,
            trials=await self._tests(),
            planned=self._planned,
            sparing=self.sparing,
            watch=lambda step: self._live(Live(kind="notice", text=step.text, task_id=self._task_id)),
        )
        if self._apart:  # a task may have many subtasks
            await (await self._tests()).close()
        # What could not be compared is part of what the verdict rests on.
        return verdict._replace(notes=(*verdict.notes, *changes.notes))

    async def interrupted(self, request: LlmRequest, loop: LoopState, *, since_ms: int) -> Mapping[str, Any] | None:
        """Distills the session of an unanswered request; what it cost is counted from the request on."""
        session_ref = loop.open_ref
        executor = (session_ref or request.executor).partition(":")[0]
        if self.answer_at_hand:
            return None  # the session is the user's, and goes on
        if executor not in _LEAVE_SESSIONS:
            return {"session_ref": session_ref, **_NOTHING_KNOWN} if session_ref else None
        told = await asyncio.to_thread(_left_by, executor, session_ref, request, self.workspace)
        if told is None:
            return None
        ref, cost = told["session_ref"], told["cost_usd"]
        answer = Answer(output="", status="ERROR", session_ref=ref, cost_usd=cost, extra={"executor": executor})
        made = await self.distilled(answer, since_ms=since_ms or None, spent_usd=loop.spent_in(ref))
        return {**told, "agentic_trace": made}

    async def distilled(self, answer: Answer, *, since_ms: int | None, spent_usd: float | None) -> str | None:
        """The trace of the session an agent command line left; a session that cannot be read fails no task."""
        executor = str(answer.extra.get("executor") or self._request.executor.name)
        native = answer.extra.get("native_session")
        if executor not in _LEAVE_SESSIONS or not answer.session_ref:
            return None
        path = native.get("path") if isinstance(native, dict) else None
        known = spent_usd is not None and answer.cost_usd is not None
        cost_usd = round((spent_usd or 0.0) + (answer.cost_usd or 0.0), 6) if known else None
        made, _why_not = await asyncio.to_thread(
            distill_run,
            executor,
            answer.session_ref,
            native_path=path if isinstance(path, str) else None,
            workspace=self.workspace,
            state_dir=self._state_dir,
            label=self._request.label or f"run:{self._task_id}",
            prompt=self._request.prompt,
            prompt_file=self._request.prompt_file,
            success=answer.status == "COMPLETE",
            cost_usd=cost_usd,
            since_ms=since_ms,
            redaction=self._redaction,
        )
        if made is not None:
            await self._rewritten(made)
        return made

    async def _rewritten(self, trace: str) -> None:
        for workspace in list(self._workspaces.values()):
            await workspace.rewritten(Path(trace))

    async def ended(self, traces: Mapping[str, bool]) -> None:
        """Rewrites the meta lines; a trace that cannot be written fails no task."""
        for name, success in traces.items():
            with suppress(PmError):
                if await asyncio.to_thread(_tell_success, self._state_dir.project / name, success=success):
                    await self._rewritten(name)

    async def isolation(self, state: TaskState) -> Isolation:
        """What the record names; a task that has none yet gets worktrees where they are possible."""
        if self._isolation is None:
            workspace, why = Path(self.workspace), ""
            recorded = state.plan.isolation if state.plan is not None else ""
            if recorded != "worktrees":
                why = "the task began that way" if recorded else await asyncio.to_thread(why_not_parallel, workspace)
            if why:
                self._isolation = DirectIsolation(workspace, why=why)
            else:
                link, root = self._request.checks.link, self._state_dir.root
                self._isolation = GitWorktrees(workspace, state_dir=root, task_id=self._task_id, link_ignored=link)
        return self._isolation

    def within(self, folder: Path) -> TaskEffects:
        """The same effects in another folder."""
        workspace = str(folder)
        if workspace == self.workspace:
            return self
        self._workspaces.pop(workspace, None)
        return TaskEffects(
            request=self._request._replace(workspace=workspace),
            task_id=self._task_id,
            executor=self._executor,
            state_dir=self._state_dir,
            redaction=self._redaction,
            shared=self._shared,
            live=self._live,
        )

    async def _open(self) -> Workspace:
        folder = self.workspace
        if folder not in self._workspaces:
            self._workspaces[folder] = await asyncio.to_thread(
                open_workspace, folder, state_dir=self._state_dir.root, blobs=self._blobs, task_id=self._task_id
            )
        return self._workspaces[folder]


def _empty_folder() -> Path:
    """A new folder for a review; what a kill left of an earlier one is removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_REVIEW_FOLDER}*"):
        with suppress(OSError):  # another user's, or gone meanwhile
            if now_epoch_ms() - left.stat().st_mtime_ns // 1_000_000 > _REVIEW_OVER_MS:
                left.rmdir()
    return Path(tempfile.mkdtemp(prefix=_REVIEW_FOLDER))


def _spoilt(answer: Answer, why: str) -> Answer:
    """An answer that cannot be relied on; what it cost stays."""
    error = answer.error or AnswerError(kind="crash", message=why)
    return answer._replace(status="ERROR", error=error)


def _begin_loading() -> None:
    """Load in a thread what judging needs; a failure is met again, and told, by judging itself."""
    if "runner.judging" not in sys.modules:
        loading = asyncio.get_running_loop().run_in_executor(None, lambda: _load_judging().team())
        loading.add_done_callback(lambda done: done.cancelled() or done.exception())


def _load_judging() -> ModuleType:
    """The module that judges: its word lists and patterns take 300 ms to load, in which no agent should wait."""
    return importlib.import_module("runner.judging")
