"""The QA pipeline of a finalized trace: schema, checkout, tests, judge, final document; each step a fact.

A step is keyed by the hash of its inputs, so a killed run goes on where it was and running twice does nothing twice.
A run that the sandbox could not make is retried, then recorded as such and never as a failure; later steps are done
all the same, and the trace ends `qa_failed` instead of `complete`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from pydantic import ValidationError

from collector.collector import Collector
from collector.final.consent import forget_withdrawn
from collector.final.document import materialize
from collector.final.qa_facts import Step, StepFacts, fold_qa, key_of
from collector.final.replay import Content
from collector.final.trace_source import StoreSource
from collector.judge.port import Judge
from collector.judge.step import NO_JUDGE, prepared_step, verdict_of
from collector.patches import PatchError, parse_patch
from collector.qa.checkout import Checkout, CodeStore, SessionEnd, session_end
from collector.qa.profiles import (
    Plan,
    Refusal,
    Seen,
    code_withdrawn,
    commands_of,
    not_testable,
    package_files,
    plan_of,
    read_profile,
    recorded_profile,
    repository_profile,
    scripts_of,
    seen_runs,
)
from collector.qa.runs import Progress, TestsStep
from collector.qa.sandbox.choose import SandboxChooser
from collector.qa.sandbox.owners import is_dead, owner_name, scratch_folder
from collector.qa.sandbox.port import Sandbox
from collector.qa.settings import QaSettings, mirror_of
from collector.store.port import QaFact, TraceRow, TraceStore
from runner.checks.harness import is_harness
from runner.gate.file_roles import is_test_file
from tracer.capture.document import Developer, Environment, FinalState, Qa, Repo, Task
from tracer.capture.wire import PROFILE_FILE, Runner
from tracer.clock import monotonic, new_id, now_epoch_ms
from tracer.errors import (
    ConflictError,
    LimitError,
    LockedError,
    PmError,
    SandboxError,
    TraceError,
    UnavailableError,
    UsageError,
)
from tracer.export.steps import report_text

SandboxFor = Callable[[str], Awaitable[Sandbox]]
"""The sandbox for an image; raises `SandboxError`."""
_DUE: Final = ("finalized", "qa_running", "complete", "qa_failed")
_LEASE_MS: Final = 60_000


async def run_qa(
    trace_id: str,
    *,
    collector: Collector,
    settings: QaSettings,
    judge: Judge | None,
    sandbox: SandboxFor | None = None,
    no_judge: str = NO_JUDGE,
    progress: Progress = lambda _: None,
    insist: bool = False,
) -> Qa:
    """Do every step that is not done yet; the whole `qa`.

    `sandbox` is chosen by the settings where none is given; `no_judge` says why `judge` is None. With `insist`, what
    kept a step from being made is raised after all others are, and the trace stays due: for a worker that tries again.

    Raises:
        ConflictError: the trace is still open.
        NotFoundError: no such trace.
        TraceError, RecordError: the store is damaged or cannot be written.
        LockedError: another process makes its checks now.
        SandboxError, UnavailableError: with `insist` alone.

    """
    row = await collector.row(trace_id)
    if row.status == "open":
        raise ConflictError(f"trace {trace_id!r} is open", next_step="finalize it first")
    async with leased(collector.store, trace_id):
        await collector.store.set_status(trace_id, "qa_running", expected=_DUE)
        facts = StepFacts(await collector.store.qa_facts(trace_id))
        chosen = sandbox or SandboxChooser(settings.sandbox, pull=settings.pull)
        run = _Run(row, collector, settings, facts, chosen, progress)
        await run.schema()
        with scratch_folder() as folder:
            await run.tests(folder)
        await run.judge(judge, no_judge)
        await forget_withdrawn(collector, trace_id)
        await run.materialize()
        await forget_withdrawn(collector, trace_id)  # what was taken back while the document was written
        if run.trouble is not None and insist:
            raise run.trouble
        await collector.store.set_status(trace_id, "qa_failed" if run.trouble else "complete", expected=("qa_running",))
        if facts.asks(await collector.store.qa_facts(trace_id)):  # of a trace that ended, a request makes it due itself
            await collector.store.set_status(trace_id, "finalized", expected=("complete", "qa_failed"))
            collector.due.set()
    progress(f"trace {trace_id}: {'checks could not be made' if run.trouble else 'complete'}")
    return fold_qa(await collector.store.qa_facts(trace_id)) or Qa()


@asynccontextmanager
async def leased(store: TraceStore, trace_id: str) -> AsyncIterator[None]:
    """Hold the trace while the block runs: two checkers would run its tests and ask the judge twice each.

    Where the lease may have run out (the database was away for as long), the block is ended: another one may hold it.
    Raises LockedError: another process makes its checks, or took them over.
    """
    me = f"{owner_name()}/{new_id()}"

    async def take() -> str:
        now = now_epoch_ms()
        return await store.take_lease(trace_id, me, now_ms=now, until_ms=now + _LEASE_MS)

    async def keep(limit: asyncio.Timeout) -> None:
        sure_until = monotonic() + _LEASE_MS / 1000
        while True:
            await asyncio.sleep(_LEASE_MS / 3000)
            asked = monotonic()
            try:
                if await take() == me:
                    sure_until = asked + _LEASE_MS / 1000
                    continue
            except PmError:
                if monotonic() + _LEASE_MS / 3000 < sure_until:
                    continue
            limit.reschedule(0)
            return

    held = await take()
    if held != me and is_dead(held):
        await store.drop_lease(trace_id, held)
        held = await take()
    if held != me:
        raise _held_elsewhere(trace_id)
    try:
        async with asyncio.timeout(None) as limit:
            keeping = asyncio.create_task(keep(limit))
            try:
                yield
            finally:
                keeping.cancel()
    except TimeoutError as error:
        if limit.expired():
            raise _held_elsewhere(trace_id) from error
        raise
    finally:
        await asyncio.shield(store.drop_lease(trace_id, me))


def _held_elsewhere(trace_id: str) -> LockedError:
    return LockedError(
        f"the checks of trace {trace_id!r} are being made",
        why="another process holds the trace",
        next_step=f"wait for it; {_LEASE_MS // 1000} s after a holder died the trace is free again",
    )


async def request_step(collector: Collector, trace_id: str, step: Step) -> None:
    """Make one step due again, whatever its result was; the next `run_qa` does it and what depends on it."""
    fact = QaFact(f"requested-{step}", new_id(), now_epoch_ms(), {})
    await collector.store.append_qa_fact(trace_id, fact)


class _Prepared(NamedTuple):
    plan: Plan
    code: CodeStore
    checkout: Checkout


@dataclass
class _Run:
    """One run over one trace; `trouble` says that a step could not be made."""

    _row: TraceRow
    _collector: Collector
    _settings: QaSettings
    _facts: StepFacts
    _sandbox: SandboxFor
    _progress: Progress
    trouble: PmError | None = None
    _asked: Any = None

    async def schema(self) -> None:
        """Check every block and every event against the schema."""
        row = self._row
        key = key_of("schema", row.seq_last, row.event_count, self._facts.marker("schema"))
        if self._facts.done("schema", key) is not None:
            self._progress("schema: done before")
            return
        try:
            for model, name in ((Repo, "repo"), (Task, "task"), (Developer, "developer"), (Environment, "environment")):
                model.model_validate(row.metadata[name])
            if row.final_state is not None:
                FinalState.model_validate(row.final_state)
            async for _ in (await self._source()).events():
                pass
        except (TraceError, ValidationError) as error:
            why = error.line if isinstance(error, TraceError) else str(error)
            self._progress(f"schema: not valid: {why}")
            await self._store("schema", key, {"schema_valid": False})
            return
        self._progress(f"schema: valid, {row.event_count} events")
        await self._store("schema", key, {"schema_valid": True})

    async def tests(self, folder: Path) -> None:
        """Check out and test, unless both are done."""
        try:
            prepared = await self._checkout(folder)
        except LimitError as error:
            prepared = Refusal("too_large", error.line)
        except UnavailableError as error:
            await self._trouble("checkout", Refusal("source_unavailable", error.line), error)
            return
        if isinstance(prepared, Refusal):
            await self._refused(prepared)
            return
        try:
            await self._test(prepared, folder)
        except SandboxError as error:
            await self._trouble("tests", Refusal("sandbox", error.line), error)
        except LimitError as error:
            await self._refused(Refusal("too_large", error.line))

    async def judge(self, judge: Judge | None, no_judge: str) -> None:
        """Ask the judge, unless it judged this packet."""
        step = await prepared_step(
            await self._collector.row(self._row.trace_id),  # consent may have been taken back meanwhile
            collector=self._collector,
            judge=judge,
            why_none=no_judge,
            clean=lambda text: self._collector.redactors.for_root(None).redact_text(text)[0],
            facts=await self._collector.store.qa_facts(self._row.trace_id),
        )
        verdict = await verdict_of(step, self._facts, progress=self._progress)
        if verdict is None:
            self._progress("judge: done before")
            return
        await self._store("judge", verdict.key, {"judge": verdict.part})
        overall = verdict.part.get("overall")
        self._progress(f"judge: overall {overall}" if overall is not None else "judge: no scores")

    async def materialize(self) -> None:
        """Write the final document, unless it holds these results."""
        key = key_of("materialize", self._facts.results(), self._facts.marker("materialize"))
        row = await self._collector.row(self._row.trace_id)
        if row.final_blob_id is not None and self._facts.done("materialize", key) is not None:
            self._progress("materialize: done before")
            return
        document = await materialize(self._row.trace_id, store=self._collector.store, blobs=self._collector.blobs)
        await self._store("materialize", key, {})
        self._progress(f"materialize: {document.blob_id}, {document.byte_length} bytes")

    async def _source(self) -> StoreSource:
        store, contents = self._collector.store, self._collector.contents
        return await StoreSource.open(self._row.trace_id, store=store, contents=contents)

    @property
    def _runner(self) -> Runner:
        asked = self._asked
        name: Any = "pytest" if asked is None else asked.get("runner") if isinstance(asked, dict) else asked
        return name if name in {"pytest", "go test", "npm test", "make test"} else "custom"

    async def _checkout(self, folder: Path) -> _Prepared | Refusal:
        row, contents = self._row, self._collector.contents
        repo = row.metadata["repo"]
        code = CodeStore(folder, commit=str(repo["commit_base"]))
        names = (str(repo["repo_id"]), f"task:{row.metadata['task'].get('task_id')}")
        mirror = mirror_of(names, self._settings.mirrors)
        source = await code.fetch_source(
            repo, row.final_state, contents=contents, remotes=self._settings.remotes, mirror=mirror
        )

        if isinstance(source, Refusal) and (withdrawn := code_withdrawn(row.metadata)):  # the profile went with it
            return withdrawn

        async def of_base(paths: Sequence[str]) -> dict[str, bytes]:
            return {} if isinstance(source, Refusal) else await code.read_base(str(repo["commit_base"]), paths)

        own = (await of_base([PROFILE_FILE])).get(PROFILE_FILE)
        origin, approved = await self._profile(own, left_out=code.left_out)
        plan = self._asked
        if not isinstance(plan, Refusal):
            asked = read_profile(plan)
            commands = [] if isinstance(asked, Refusal) else commands_of(asked)
            scripts = scripts_of(await of_base(package_files(commands)))
            name = {"repository": PROFILE_FILE, "given": "the profile that was given"}.get(origin, "qa_profile")
            plan = plan_of(plan, self._settings.lists, scripts=scripts, approved=approved, name=name)
        if isinstance(plan, Plan):
            plan = replace(plan, origin=origin)
        if isinstance(plan, Refusal):
            approve = "; an operator approves it: pm capture qa TRACE --profile recorded (or repository, or a file)"
            return plan._replace(detail=plan.detail + approve) if plan.reason == "policy" else plan
        if isinstance(source, Refusal):
            return source
        self._progress(f"checkout: profile from {origin}: {plan.shown}")

        async def end(base: Callable[[str], Content]) -> SessionEnd:
            return await session_end(await self._source(), base)

        checkout = await code.checkout(
            commit_base=str(repo["commit_base"]),
            final_state=row.final_state,
            contents=contents,
            session_end=end,
            source=source,
            steering=plan.steering,
        )
        if isinstance(checkout, Refusal):
            return checkout
        key = key_of("checkout", checkout.as_json(), self._facts.marker("checkout"))
        if self._facts.done("checkout", key) is None:
            part = {"runner": plan.runner, "final_passed": None, "detail": {"checkout": checkout.as_json()}}
            # An older result of the tests stays until there is a newer one.
            await self._store("checkout", key, {} if self._facts.latest("tests") else {"tests": part})
        differ = f"{len(checkout.changed)} files differ"
        self._progress(f"checkout: base from {source}, head from {checkout.patch}, {differ}")
        return _Prepared(plan, code, checkout)

    async def _profile(self, repository: bytes | None, *, left_out: int) -> tuple[str, bool]:
        """Settle how the trace is tested; where that comes from, and whether an operator approved it.

        Whether the repository has a profile of its own is not known where files of its base were `left_out`.
        """
        missing = f"the base has no {PROFILE_FILE}"
        if left_out:
            missing = f"the base came without {PROFILE_FILE}, files left out: {left_out}"
        assigned = self._facts.note("profile") or {}
        origin = assigned.get("from", "")
        if not origin:
            self._asked = self._row.metadata.get("qa_profile")
            origin = "the trace" if self._asked else "repository" if repository is not None else "recorded"
        if origin == "repository":
            self._asked = Refusal("profile", missing) if repository is None else repository_profile(repository)
        elif origin == "recorded":
            runs = await runs_of(self._row.trace_id, self._collector.store)
            proposal = recorded_profile(runs)
            asked_for = assigned and Refusal("profile", "no test run was recorded")
            self._asked = proposal or asked_for or None
            origin += f" ({missing})" if left_out and not assigned else ""
        elif origin == "given":
            self._asked = assigned["profile"]
        return origin, bool(assigned.get("approved"))

    async def _test(self, prepared: _Prepared, folder: Path) -> None:
        plan, code, checkout = prepared
        sandbox = await self._sandbox(plan.image)
        facts, image_id = await sandbox.facts(plan.image), await sandbox.image_id(plan.image)
        noted = (self._facts.note("alternatives") or {}).get("patches") or []
        key = key_of(
            "tests",
            [checkout.base, checkout.tested_base, checkout.head, checkout.tested_head],
            [plan.runner, list(plan.command), [list(words) for words in plan.build], plan.build_network],
            *([[list(words) for words in plan.setup]] if plan.setup else []),
            [image_id, facts.name, list(facts.lacks)],
            self._settings.as_json(),
            self._facts.marker("tests"),
            *([noted] if noted else []),
        )
        if self._facts.done("tests", key) is not None:
            self._progress("tests: done before")
            return
        given = [(each["name"], await self._collector.contents.read(each["diff_blob_id"])) for each in noted]
        where = "" if image_id.startswith("host:") else f", {plan.image}"
        self._progress(f"tests: {plan.shown} in {facts.name} {facts.version}{where}")
        step = TestsStep(
            plan=plan,
            checkout=checkout,
            code=code,
            sandbox=sandbox,
            settings=self._settings,
            keep=partial(self._collector.keep_result, self._row.trace_id),
            folder=folder,
            given=given,
            report=report_text(Task.model_validate(self._row.metadata["task"])),
            progress=self._progress,
        )
        await self._store("tests", key, {"tests": self._or_tested(await step.run())})

    async def _refused(self, refusal: Refusal) -> None:
        """Note why nothing is tested: a result like any other."""
        self._progress(f"tests: not testable: {refusal.reason}: {refusal.detail}")
        key = key_of("tests", list(refusal), self._facts.marker("tests"))
        if self._facts.done("tests", key) is None:
            await self._store("tests", key, {"tests": self._or_tested(not_testable(self._runner, refusal))})

    def _or_tested(self, part: dict[str, Any]) -> dict[str, Any]:
        """The part; where it is a refusal and the tests have run before, their result with the refusal beside it."""
        tested = self._facts.tested
        if not part.get("not_testable") or tested is None:
            return part
        refused = {"reason": part["not_testable"], "why": part["detail"].get("why", "")}
        return {**tested, "detail": {**tested["detail"], "refused": refused}}

    async def _trouble(self, step: Step, refusal: Refusal, error: PmError) -> None:
        """Note that nothing could be tested, under a key of its own: the next run tries again.

        It is our own trouble: an older result of the tests stays.
        """
        self.trouble = error
        self._progress(f"{step}: {refusal.reason}: {refusal.detail}")
        part = {} if self._facts.tested is not None else {"tests": not_testable(self._runner, refusal)}
        await self._store("tests", f"{key_of('tests', list(refusal))}:trouble-{now_epoch_ms()}", part)

    async def _store(self, step: Step, key: str, result: dict[str, Any]) -> None:
        fact = QaFact(step, self._facts.fresh_key(step, key), now_epoch_ms(), self._cleaned(result))
        await self._collector.store.append_qa_fact(self._row.trace_id, fact)
        self._facts.add(fact)

    def _cleaned(self, result: dict[str, Any]) -> dict[str, Any]:
        """Names of tests and files may hold a secret too; raw traces keep it."""
        if self._row.metadata.get("store") == "raw":
            return result
        cleaned = self._collector.redactors.for_root(None).redact_value(result).value
        return cleaned if isinstance(cleaned, dict) else result


async def runs_of(trace_id: str, store: TraceStore) -> list[Seen]:
    """The session's own test runs."""
    found, after = list[dict[str, Any]](), 0
    while page := await store.read_events(trace_id, after=after):
        after = page[-1].seq
        found += [orjson.loads(event.body) for event in page if event.type in {"terminal_command", "test_run"}]
    return list(seen_runs(found))


async def assign_profile(
    collector: Collector, trace_id: str, profile: str | Mapping[str, Any], *, approved: bool
) -> None:
    """Have the trace tested by `repository`, by what was `recorded`, or by this profile, from now on.

    Raises UsageError: it cannot be read.
    """
    note: dict[str, Any] = (
        {"from": profile} if isinstance(profile, str) else {"from": "given", "profile": dict(profile)}
    )
    refusal = read_profile(profile, name="the profile that was given") if not isinstance(profile, str) else None
    if isinstance(refusal, Refusal):
        raise UsageError("the profile cannot be read", why=refusal.detail, next_step="docs/qa.md lists its keys")
    fact = QaFact("profile", new_id(), now_epoch_ms(), {**note, "approved": approved})
    await collector.store.append_qa_fact(trace_id, fact)


async def note_alternatives(collector: Collector, trace_id: str, patches: Mapping[str, bytes]) -> None:
    """Have the fix's tests tried with these other right fixes, diffs of the base by name, in place of earlier ones.

    Raises UsageError: one is no diff, or changes tests or what steers them.
    """
    for name, diff in patches.items():
        try:
            paths = [os.fsdecode(file.path) for file in parse_patch(diff)]
        except PatchError as error:
            told = "give a diff of the base, as git diff prints it"
            raise UsageError(f"{name!r} is no alternative", why=error.why or error.what, next_step=told) from error
        if other := [path for path in paths if is_test_file(path) or is_harness(path)]:
            raise UsageError(
                f"{name!r} is no alternative", why=f"it changes {other[0]!r}", next_step="take its tests out of it"
            )
    kept = [
        {"name": name, "diff_blob_id": await collector.keep_result(trace_id, diff)} for name, diff in patches.items()
    ]
    await collector.store.append_qa_fact(trace_id, QaFact("alternatives", new_id(), now_epoch_ms(), {"patches": kept}))
