"""The QA pipeline of a finalized trace: schema, checkout, tests, judge, final document; each step a fact.

A step is keyed by the hash of its inputs, so a killed run goes on where it was and running twice does nothing twice.
A run that the sandbox could not make is retried, then recorded as such and never as a failure; later steps are done
all the same, and the trace ends `qa_failed` instead of `complete`.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import orjson
from pydantic import JsonValue, ValidationError

from collector.collector import Collector
from collector.final.document import materialize
from collector.final.qa_facts import Step, StepFacts, fold_qa, key_of
from collector.final.replay import Content
from collector.final.trace_source import StoreSource
from collector.judge.port import Judge
from collector.judge.step import prepared_step, verdict_of
from collector.qa.checkout import Checkout, CodeStore, SessionEnd, session_end
from collector.qa.profiles import Plan, Refusal, plan_of
from collector.qa.proof import Run, prove
from collector.qa.sandbox.choose import SandboxChooser
from collector.qa.sandbox.owners import scratch_folder
from collector.qa.sandbox.port import Job, Outcome, Sandbox
from collector.qa.sandbox.script import WORKSPACE
from collector.qa.settings import QaSettings
from collector.store.port import QaFact, TraceRow
from runner.checks.report_formats import read_reports
from runner.checks.reports import TestReport
from tracer.capture.document import Developer, Environment, FinalState, Qa, Repo, Task
from tracer.capture.wire import Runner
from tracer.clock import new_id, now_epoch_ms
from tracer.errors import ConflictError, LimitError, PmError, SandboxError, TraceError, UnavailableError

_T = TypeVar("_T")
Phase = Literal["base", "head"]
Progress = Callable[[str], None]
"""Takes a line about what happens."""
_GO_OUTPUT: Final = 16 << 20  # its output is its report
_TOO_LARGE: Final = Refusal("too_large", "the sources do not fit into the sandbox (qa.workspace_mb)")


class _Ran(NamedTuple):
    phase: Phase
    invocation: dict[str, JsonValue]
    note: dict[str, JsonValue]
    run: Run
    outcome: Outcome


def not_testable(runner: str, refusal: Refusal, *, detail: Mapping[str, JsonValue] | None = None) -> dict[str, Any]:
    """The `qa.tests` of a trace whose tests could not be run."""
    told: dict[str, JsonValue] = {**(detail or {}), "why": refusal.detail[:2000]}
    return {"runner": runner, "final_passed": None, "not_testable": refusal.reason, "detail": told}


@dataclass(frozen=True, kw_only=True)
class TestsStep:
    """A prepared step; `folder` is for the trees."""

    __test__ = False  # no class of tests for pytest

    plan: Plan
    checkout: Checkout
    code: CodeStore
    sandbox: Sandbox
    settings: QaSettings
    keep: Callable[..., Awaitable[str]]
    """`Collector.keep_result` of this trace."""
    folder: Path
    progress: Progress = field(default=lambda _: None)

    async def run(self) -> dict[str, Any]:
        """The `qa.tests` object."""
        facts = await self.sandbox.facts(self.plan.image)
        detail: dict[str, JsonValue] = {
            "sandbox": facts.as_json(),
            "image_id": await self.sandbox.image_id(self.plan.image),
            "checkout": self.checkout.as_json(),
        }
        if facts.lesser:
            self.progress(f"tests: a lesser sandbox, {facts.name}; it lacks {', '.join(facts.lacks)}")
        if self.plan.build_network and facts.name == "bubblewrap":
            why = "the build asks for the network, and this lesser sandbox has none to give"
            return not_testable(self.plan.runner, Refusal("policy", why), detail=detail)
        built = await self._build(detail)
        if isinstance(built, Refusal):
            return not_testable(self.plan.runner, built, detail=detail)
        ran: list[_Ran] = []
        for phase in self._phases:
            for number in range(1, self.settings.repeats + 1):
                source = built.get(phase)
                one = await self._once(phase, source, number) if source is not None else self._unbuilt(phase)
                refusal = _untested(one)
                if refusal is not None:
                    return not_testable(self.plan.runner, refusal, detail=detail)
                ran.append(one)
        return await self._result(ran, detail)

    @property
    def _phases(self) -> tuple[Phase, ...]:
        return ("head",) if self.checkout.unchanged else ("head", "base")

    @property
    def _proxy(self) -> tuple[tuple[str, str], ...]:
        names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
        return tuple((name, self.settings.build_proxy) for name in names) if self.settings.build_proxy else ()

    @property
    def _home(self) -> tuple[tuple[str, str], ...]:
        """What a build installs for its user goes with the tree."""
        return (("HOME", f"{WORKSPACE}/.pm-home"),) if self.plan.build else ()

    async def _build(self, detail: dict[str, JsonValue]) -> dict[Phase, Path | None] | Refusal:
        """A tar for each phase, built; None where the base cannot be."""
        trees: dict[Phase, Path | None] = {}
        notes: list[JsonValue] = []
        for phase in self._phases:
            tree = self.checkout.head if phase == "head" else self.checkout.tested_base
            source = self.folder / f"{phase}.tar"
            await self.code.write_tar(tree, source)
            trees[phase] = source
            if self.plan.build:
                saved = self.folder / f"{phase}-built.tar"
                outcome = await self._sure(lambda: self.sandbox.run(self._build_job(source, saved)))  # noqa: B023 - awaited here
                notes.append({"phase": phase, **_shown(outcome), **await self._streams(outcome)})
                detail["build"] = list(notes)
                self.progress(f"tests: build of {phase} {_word(outcome)}")
                source.unlink()
                trees[phase] = saved if outcome.passed and outcome.saved else None
                if outcome.kind == "no_room":
                    return _TOO_LARGE
                if phase == "head" and trees[phase] is None:
                    return Refusal("build_failed", f"the build of the fix {_word(outcome)}")
        return trees

    def _build_job(self, source: Path, saved: Path) -> Job:
        line = " && ".join(shlex.join(words) for words in self.plan.build)
        return Job(
            image=self.plan.image,
            source=source,
            command=("sh", "-c", line),
            environment=(*self._home, *(self._proxy if self.plan.build_network else self.plan.environment)),
            network=self.settings.network_name if self.plan.build_network else "",
            save=saved,
            limits=self.settings.limits,
            label="build",
        )

    async def _once(self, phase: Phase, source: Path, number: int) -> _Ran:
        begun = now_epoch_ms()
        job = Job(
            image=self.plan.image,
            source=source,
            command=self.plan.command,
            probe=self.plan.probe,
            reports=self.plan.reports,
            environment=(*self.plan.environment, *self._home),
            limits=self.settings.limits,
            label=f"tests {phase} {number}",
        )
        if self.plan.go_events:
            job = replace(job, limits=replace(job.limits, keep_bytes=_GO_OUTPUT))
        outcome = await self._sure(lambda: self.sandbox.run(job))
        reading, report = read_reports(outcome.reports, output=outcome.stdout if self.plan.go_events else b"")
        self.progress(f"tests: {phase} {number} of {self.settings.repeats} {_word(outcome, report)}")
        invocation = self._invocation(phase, begun, outcome)
        invocation |= {**await self._streams(outcome), "report_blob_id": await self._report(outcome)}
        note: dict[str, JsonValue] = {"invocation_id": invocation["invocation_id"], **_shown(outcome)}
        if (tests := report.tests if reading in {"read", "no_tests"} else None) is not None:
            note["tests"] = {**report.counts}
        return _Ran(phase, invocation, note, Run(phase, outcome.passed, tests), outcome)

    def _invocation(self, phase: Phase, begun: int, outcome: Outcome | None) -> dict[str, JsonValue]:
        return {
            "invocation_id": new_id(),
            "ts_ms": begun,
            "command": self.plan.shown,
            "exit_code": outcome.exit_code if outcome else None,
            "duration_ms": outcome.duration_ms if outcome else 0,
            "passed": outcome is not None and outcome.passed,
            "phase": phase,
        }

    def _unbuilt(self, phase: Phase) -> _Ran:
        """A run of code that could not be built: the tests fail on it."""
        invocation = self._invocation(phase, now_epoch_ms(), None)
        note: dict[str, JsonValue] = {"invocation_id": invocation["invocation_id"], "ended": "build_failed"}
        return _Ran(phase, invocation, note, Run(phase, passed=False), Outcome(kind="exit", exit_code=1))

    async def _result(self, ran: list[_Ran], detail: dict[str, JsonValue]) -> dict[str, Any]:
        if self.checkout.redacted and not all(one.run.passed for one in ran if one.phase == "head"):
            why = "something in the fix was replaced by redaction, so its failing says nothing"
            return not_testable(self.plan.runner, Refusal("redacted", why), detail=detail)
        proof = prove([one.run for one in ran], changed=self.checkout.changed, repeats=self.settings.repeats)
        shown = proof.as_json()
        if shown["tests_left_out"]:
            table = orjson.dumps([row._asdict() for row in proof.rows])
            shown["table_blob_id"] = await self.keep(table, content_type="application/json")
        self.progress(f"tests: {proof.verdict.replace('_', ' ')}")
        notes: list[JsonValue] = [one.note for one in ran]
        return {
            "runner": self.plan.runner,
            "container_image": None if str(detail["image_id"]).startswith("host:") else self.plan.image,
            "invocations": [one.invocation for one in ran],
            "final_passed": all(one.run.passed for one in ran if one.phase == "head"),
            "not_testable": None,
            "detail": {**detail, "runs": notes, "proof": shown},
        }

    async def _streams(self, outcome: Outcome) -> dict[str, JsonValue]:
        streams = {"stdout_blob_id": outcome.stdout, "stderr_blob_id": outcome.stderr}
        return {name: await self.keep(data, from_program=True) if data else None for name, data in streams.items()}

    async def _report(self, outcome: Outcome) -> JsonValue:
        """The first report that came back; it holds the output of failed tests, so consent to output is asked."""
        for data in outcome.reports.values():
            return await self.keep(data, from_program=True)
        return None

    async def _sure(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Try again where the sandbox, not the program, failed."""
        for wait in (*self.settings.waits_s, None):
            try:
                return await attempt()
            except SandboxError as error:
                if wait is None:
                    raise
                self.progress(f"tests: {error.what} ({error.why}); trying again")
                await asyncio.sleep(wait)
        raise AssertionError("the last round returns or raises")  # pragma: no cover


def _untested(ran: _Ran) -> Refusal | None:
    """Why this run says nothing about the code, if it does not."""
    if ran.outcome.kind == "missing":
        return Refusal("tool_missing", "the test runner (or tar) is not in the sandbox: use an image that holds it")
    if ran.outcome.kind == "no_room":
        return _TOO_LARGE
    if ran.phase == "head" and ran.run.tests == ():
        return Refusal("no_tests", "the command found no tests")
    return None


def _shown(outcome: Outcome) -> dict[str, JsonValue]:
    names = ("exit_code", "duration_ms", "dropped_bytes", "killed_for_memory")
    return {"ended": outcome.kind, **{name: getattr(outcome, name) for name in names}}


def _word(outcome: Outcome, report: TestReport | None = None) -> str:
    said = {
        "exit": "passed" if outcome.passed else f"failed, exit {outcome.exit_code}",
        "timeout": "ran out of time",
        "oom": "ran out of memory",
        "output": "wrote too much",
        "missing": "found no test runner",
        "no_room": "had no room for the sources",
        "escaped": "ended its own sandbox",
    }[outcome.kind]
    if report is not None and report.tests:
        parts = ", ".join(f"{number} {name}" for name, number in report.counts.items() if number)
        said = f"{said} ({parts})"
    return f"{said} in {outcome.duration_ms / 1000:.1f} s"


SandboxFor = Callable[[str], Awaitable[Sandbox]]
"""The sandbox for an image; raises `SandboxError`."""
_DUE: Final = ("finalized", "qa_running", "complete", "qa_failed")
_NO_JUDGE: Final = "no judge is set up (no API key and no recording)"


async def run_qa(
    trace_id: str,
    *,
    collector: Collector,
    settings: QaSettings,
    judge: Judge | None,
    sandbox: SandboxFor | None = None,
    no_judge: str = _NO_JUDGE,
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
        SandboxError, UnavailableError: with `insist` alone.

    """
    row = await collector.row(trace_id)
    if row.status == "open":
        raise ConflictError(f"trace {trace_id!r} is open", next_step="finalize it first")
    await collector.store.set_status(trace_id, "qa_running", expected=_DUE)
    facts = StepFacts(await collector.store.qa_facts(trace_id))
    chosen = sandbox or SandboxChooser(settings.sandbox, pull=settings.pull)
    run = _Run(row, collector, settings, facts, chosen, progress)
    await run.schema()
    with scratch_folder() as folder:
        await run.tests(folder)
    await run.judge(judge, no_judge)
    await run.materialize()
    if run.trouble is not None and insist:
        raise run.trouble
    await collector.store.set_status(trace_id, "qa_failed" if run.trouble else "complete", expected=("qa_running",))
    progress(f"trace {trace_id}: {'checks could not be made' if run.trouble else 'complete'}")
    return fold_qa(await collector.store.qa_facts(trace_id)) or Qa()


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

    def __post_init__(self) -> None:
        self._asked: Any = self._row.metadata.get("qa_profile")

    async def schema(self) -> None:
        """Check every block and every event against the schema."""
        row = self._row
        key = key_of("schema", row.seq_last, row.event_count, self._facts.marker("schema"))
        if self._facts.done("schema", key) is not None:
            self._progress("schema: done before")
            return
        try:
            _check_blocks(row)
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
            self._row,
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
        if self._asked is None:
            self._asked = await self._runner_seen()
        plan = plan_of(self._asked, self._settings.lists)
        if isinstance(plan, Refusal):
            return plan
        repo = row.metadata["repo"]
        code = CodeStore(folder, commit=str(repo["commit_base"]))
        source = await code.fetch_source(repo, contents=contents, remotes=self._settings.remotes)
        if isinstance(source, Refusal):
            return source

        async def end(base: Callable[[str], Content]) -> SessionEnd:
            return await session_end(await self._source(), base)

        checkout = await code.checkout(
            commit_base=str(repo["commit_base"]),
            final_state=row.final_state,
            contents=contents,
            session_end=end,
            source=source,
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

    async def _runner_seen(self) -> str | None:
        """The runner that the developer used last, for a trace that names none."""
        found, after = None, 0
        while page := await self._collector.store.read_events(self._row.trace_id, after=after):
            after = page[-1].seq
            for event in page:
                if event.type == "test_run":
                    runner = orjson.loads(event.payload).get("runner")
                    found = runner if runner != "custom" else found
        return found

    async def _test(self, prepared: _Prepared, folder: Path) -> None:
        plan, code, checkout = prepared
        sandbox = await self._sandbox(plan.image)
        facts, image_id = await sandbox.facts(plan.image), await sandbox.image_id(plan.image)
        key = key_of(
            "tests",
            [checkout.base, checkout.tested_base, checkout.head],
            [plan.runner, list(plan.command), [list(words) for words in plan.build], plan.build_network],
            [image_id, facts.name, list(facts.lacks)],
            self._settings.as_json(),
            self._facts.marker("tests"),
        )
        if self._facts.done("tests", key) is not None:
            self._progress("tests: done before")
            return
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
            progress=self._progress,
        )
        await self._store("tests", key, {"tests": await step.run()})

    async def _refused(self, refusal: Refusal) -> None:
        """Note why nothing is tested: a result like any other."""
        self._progress(f"tests: not testable: {refusal.reason}: {refusal.detail}")
        key = key_of("tests", list(refusal), self._facts.marker("tests"))
        if self._facts.done("tests", key) is None:
            await self._store("tests", key, {"tests": not_testable(self._runner, refusal)})

    async def _trouble(self, step: Step, refusal: Refusal, error: PmError) -> None:
        """Note that nothing could be tested, under a key of its own: the next run tries again."""
        self.trouble = error
        self._progress(f"{step}: {refusal.reason}: {refusal.detail}")
        part = not_testable(self._runner, refusal)
        await self._store("tests", f"{key_of('tests', list(refusal))}:trouble-{now_epoch_ms()}", {"tests": part})

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


def _check_blocks(row: TraceRow) -> None:
    """The blocks of a trace against the schema; raises pydantic's ValidationError."""
    for model, name in ((Repo, "repo"), (Task, "task"), (Developer, "developer"), (Environment, "environment")):
        model.model_validate(row.metadata[name])
    if row.final_state is not None:
        FinalState.model_validate(row.final_state)
