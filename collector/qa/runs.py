"""The test step of the QA pipeline: builds, and runs of the test command on both sides of a fix, proven or not.

The fix's own tests run first where they can be run alone, the whole suite once. A sandbox that fails is tried again,
and never told as failing tests.
"""

from __future__ import annotations

import asyncio
import shlex
import tomllib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson
from pydantic import JsonValue

from collector.qa.checkout import Checkout, CodeStore
from collector.qa.dependencies import KeptLayers, lay_over, layer_key, pins_dependencies
from collector.qa.profiles import Plan, Refusal, not_testable
from collector.qa.proof import Proof, Run, are_several, prove, told_by_report
from collector.qa.sandbox.port import Job, Outcome, Sandbox
from collector.qa.sandbox.script import WORKSPACE
from collector.qa.settings import QaSettings
from runner.checks.bought.by_sight import looks_for_runner
from runner.checks.harness import sort_changes
from runner.checks.mutants import in_turns, targets_of
from runner.checks.report_formats import read_reports
from runner.checks.reports import Reading, TestReport
from runner.gate.criterion import ChangedFile
from tracer.clock import new_id, now_epoch_ms
from tracer.errors import SandboxError

Phase = Literal["base", "head"]
Progress = Callable[[str], None]
"""Takes a line about what happens."""
_MOST_PARTS: Final = 4
_WEAK: Final = 50
_MADE: Final = (".pm-report/", "junit.xml", "node_modules/")  # removed before every run, or no part of a tree
_CHEATS: Final = tuple(
    (str(row["name"]), {path: text.encode() for path, text in row["files"].items()})
    for row in tomllib.loads(Path(__file__).with_name("cheats.toml").read_text(encoding="utf-8"))["cheat"]
)
_NOT_STARTED: Final = (126, 127)  # by the shell: a program that cannot be run, or is not there
_TOLD_OUTPUT: Final = 16 << 20  # where it is the report
_TOO_LARGE: Final = Refusal("too_large", "the sources do not fit into the sandbox (qa.workspace_mb)")


class _Ran(NamedTuple):
    phase: Phase
    invocation: dict[str, JsonValue]
    note: dict[str, JsonValue]
    run: Run
    outcome: Outcome


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
    report: str = ""
    """The bug report's text."""
    given: Sequence[tuple[str, bytes]] = ()
    """Other right fixes as diffs of the base, by name."""
    progress: Progress = field(default=lambda _: None)
    layers: dict[Phase, Path] = field(default_factory=dict)

    async def run(self) -> dict[str, Any]:
        """The `qa.tests` object."""
        facts = await self.sandbox.facts(self.plan.image)
        detail: dict[str, JsonValue] = {
            "sandbox": facts.as_json(),
            "image_id": await self.sandbox.image_id(self.plan.image),
            "checkout": self.checkout.as_json(),
            "profile": self.plan.as_json(),
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
        own = self.plan.only(self.checkout.tests)
        for phase in self._phases:
            for number in range(1, self.settings.repeats + 1):
                source = built.get(phase)
                # The fix's own tests first; the whole suite once where they can be run alone.
                plan = own if number < self.settings.repeats else None
                one = await self._once(phase, source, number, plan) if source is not None else self._unbuilt(phase)
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
        return (("HOME", f"{WORKSPACE}/.pm-home"),) if self.plan.build or self.plan.setup else ()

    async def _build(self, detail: dict[str, JsonValue]) -> dict[Phase, Path | None] | Refusal:
        """A tar for each phase, built; None where the base cannot be."""
        trees: dict[Phase, Path | None] = {}
        notes: list[JsonValue] = []
        for phase in self._phases:
            tree = self.checkout.tested_head if phase == "head" else self.checkout.tested_base
            source = self.folder / f"{phase}.tar"
            await self.code.write_tar(tree, source)
            trees[phase] = source
            if self.plan.setup:
                layer = await self._dependencies(tree, notes)
                detail["build"] = list(notes)
                if isinstance(layer, Refusal) and phase == "head":
                    return layer
                if isinstance(layer, Refusal):
                    trees[phase] = None
                    continue
                await asyncio.to_thread(lay_over, source, layer)
                self.layers[phase] = layer
            if self.plan.build:
                trees[phase], outcome = await self._built(source, phase)
                notes.append({"phase": phase, **_shown(outcome), **await self._streams(outcome)})
                detail["build"] = list(notes)
                if outcome.kind == "no_room":
                    return _TOO_LARGE
                if phase == "head" and trees[phase] is None:
                    return Refusal("build_failed", f"the build of the fix {_word(outcome)}")
        return trees

    async def _built(self, source: Path, label: str) -> tuple[Path | None, Outcome]:
        """A tree's tar with what the build commands leave in it, in place of the tar; None where they fail."""
        saved = source.with_stem(f"{source.stem}-built")
        job = self._build_job(source, saved, lines=self.plan.build, network=self.plan.build_network, label="build")
        outcome = await self._sure(job)
        self.progress(f"tests: build of {label} {_word(outcome)}")
        source.unlink()
        return saved if outcome.passed and outcome.saved else None, outcome

    async def _dependencies(self, tree: str, notes: list[JsonValue]) -> Path | Refusal:
        """What the setup commands leave for this tree: kept, or made now."""
        kept = self.settings.layers or KeptLayers(self.folder / "layers", most_bytes=self.settings.limits.tree_bytes)
        box = await self.sandbox.facts(self.plan.image)
        network = self.plan.setup_network and box.name != "bubblewrap"
        made_with = [await self.sandbox.image_id(self.plan.image), [list(words) for words in self.plan.setup], network]
        files = {path: name for path, name in (await self.code.listed(tree)).items() if pins_dependencies(path)}
        ways: dict[str, list[str]] = {layer_key(made_with, sorted(files.items())): sorted(files)} if files else {}
        ways[layer_key(made_with, tree)] = []
        for key in ways:
            if (found := await asyncio.to_thread(kept.find, key)) is not None:
                self.progress("tests: dependencies were kept")
                return found
        source, saved = self.folder / "setup.tar", self.folder / "setup-done.tar"
        outcome = Outcome(kind="exit", exit_code=1)
        for key, paths in ways.items():
            await self.code.write_tar(tree, source, paths=paths)
            job = self._build_job(source, saved, lines=self.plan.setup, network=network, label="setup")
            outcome = await self._sure(job)
            notes.append({"phase": "setup", **_shown(outcome), **await self._streams(outcome)})
            self.progress(f"tests: setup {_word(outcome)}")
            if outcome.passed and outcome.saved:
                return await asyncio.to_thread(kept.keep, key, before=source, after=saved)
        return _TOO_LARGE if outcome.kind == "no_room" else Refusal("build_failed", f"the setup {_word(outcome)}")

    def _build_job(
        self, source: Path, saved: Path, *, lines: Sequence[Sequence[str]], network: bool, label: str
    ) -> Job:
        line = " && ".join(shlex.join(words) for words in lines)
        return Job(
            image=self.plan.image,
            source=source,
            command=("sh", "-c", line),
            environment=(*self._home, *(self._proxy if network else self.plan.environment)),
            network=self.settings.network_name if network else "",
            save=saved,
            limits=self.settings.limits,
            label=label,
        )

    async def _once(self, phase: Phase, source: Path, number: int, own: Plan | None) -> _Ran:
        begun = now_epoch_ms()
        outcome, (reading, report) = await self._tried(own or self.plan, source, f"tests {phase} {number}")
        self.progress(f"tests: {phase} {number} of {self.settings.repeats} {_word(outcome, report)}")
        invocation = self._invocation(phase, begun, outcome)
        if own is not None:
            invocation["command"] = own.shown
        # The first report that came back; it holds the output of failed tests, so consent to output is asked.
        told = next(iter(outcome.reports.values()), None)
        blob_id = await self.keep(told, from_program=True) if told is not None else None
        invocation |= {**await self._streams(outcome), "report_blob_id": blob_id}
        note: dict[str, JsonValue] = {"invocation_id": invocation["invocation_id"], **_shown(outcome)}
        if (tests := report.tests if reading in {"read", "no_tests"} else None) is not None:
            note["tests"] = {**report.counts}
        return _Ran(phase, invocation, note, Run(phase, outcome.passed, tests, own is None), outcome)

    async def _tried(self, plan: Plan, source: Path, label: str) -> tuple[Outcome, tuple[Reading, TestReport]]:
        """One run of the tests, and what its reports say."""
        limit_s = self.settings.limits.time_s
        job = Job(
            image=self.plan.image,
            source=source,
            command=plan.command,
            probe=self.plan.probe,
            reports=self.plan.reports,
            environment=(*self.plan.environment, *self._home),
            limits=replace(self.settings.limits, time_s=min(self.plan.timeout_s or limit_s, limit_s)),
            label=label,
        )
        if plan.told_by_output:
            job = replace(job, limits=replace(job.limits, keep_bytes=_TOLD_OUTPUT))
        outcome = await self._sure(job)
        output = outcome.stdout + b"\n" + outcome.stderr if plan.told_by_output else b""
        return outcome, read_reports(outcome.reports, output=output, root=WORKSPACE)

    # -- trials of a proof

    async def _trials(self, proof: Proof) -> dict[str, JsonValue]:
        """What a proof is worth: strength, cheats, parts of the fix alone; each tree is tested once."""
        fixed = {row.id for row in proof.rows if row.fixed}
        own = self.plan.only(self.checkout.tests) or self.plan
        told = told_by_report(self.report, self.checkout.product)
        facts = await self.sandbox.facts(self.plan.image)
        noticed, survivors = await self._planted(own)
        cheated = [name for name, tree in await self._cheats() if fixed <= await self._passing(tree, own, name)]
        parts: dict[str, set[str]] = {}
        if 1 < len(self.checkout.product) <= _MOST_PARTS and len(fixed) > 1:
            for file in self.checkout.product:
                if file.after is not None:
                    tree = await self.code.with_files(self.checkout.tested_base, {file.path: file.after})
                    parts[file.path] = fixed & await self._passing(tree, own, file.path)
        others = await self._alternatives()
        fit = [(name, tree) for name, tree in others if tree is not None]
        refused = [name for name, tree in fit if not fixed <= await self._passing(tree, own, name)]
        tried = noticed + len(survivors)
        strength = round(100 * noticed / tried) if tried else None
        doubts = {
            "fix_in_report": bool(told),
            "several_bugs": are_several(parts),
            "weak_tests": strength is not None and strength < _WEAK,
            "cheatable": bool(cheated),
            "too_narrow": bool(refused),
            "image_not_pinned": not facts.pinned,
        }
        flags: list[JsonValue] = [name for name, holds in doubts.items() if holds]
        worth = "not tried" if strength is None else f"{noticed} of {tried} planted faults noticed"
        self.progress(f"tests: {worth}{'; ' if flags else ''}{', '.join(map(str, flags))}")
        return {
            "strength": strength,
            "flags": flags,
            "trials": {
                "faults": tried,
                "noticed": noticed,
                "survivors": survivors,
                "cheats": len(_CHEATS),
                "cheated": list(cheated),
                "alternatives": len(others),
                "refused": list(refused),
                "not_applied": [name for name, tree in others if tree is None],
                "told_by_report": list(told[:_MOST_PARTS]),
            },
        }

    async def _planted(self, own: Plan) -> tuple[int, list[JsonValue]]:
        """Plant faults into the changed functions of the fix: how many the tests noticed, and the others."""
        noticed, survivors = 0, list[JsonValue]()
        texts = {file.path: file.after for file in self.checkout.product}
        for fault in islice(in_turns(targets_of(self.checkout.product)), self.settings.trials):
            spoilt = fault.applied(texts[fault.path] or b"")
            tree = await self.code.with_files(self.checkout.tested_head, {fault.path: spoilt})
            outcome, (reading, _) = await self._on(tree, own, f"fault in {fault.path}")
            if fault.compiled and reading != "read":
                continue  # a compiler may have refused it
            if outcome.passed:
                survivors.append({"path": fault.path, "line": fault.line, "old": fault.old, "new": fault.new})
            else:
                noticed += 1
        return noticed, survivors

    async def _cheats(self) -> list[tuple[str, str]]:
        """The fixed cheats that are not put back as a whole, each with its tree."""
        base = self.checkout.tested_base
        found = []
        for name, files in _CHEATS:
            sides = await self.code.read_tree(base, tuple(files))
            changed = [ChangedFile(path=path, before=sides.get(path), after=text) for path, text in files.items()]
            sorted_out = sort_changes(file for file in changed if file.path not in self.plan.steering)
            left = {file.path: file.after or b"" for file in sorted_out.product if not file.path.startswith(_MADE)}
            if left and not list(looks_for_runner(sorted_out.product)):
                found.append((name, await self.code.with_files(base, {**left, **sorted_out.written})))
        return found

    async def _passes_whatever_fails(self, fixed: Collection[str]) -> bool | None:
        """Whether the fix's run ends well with the tests that it mends made to fail; None where none can be.

        Code that ends the run itself, or tells what its tests say, is told so, however it does that.
        """
        files = await self.code.failing(self.checkout.tested_head, self.checkout.tests, fixed=fixed)
        if not files:
            return None
        tree = await self.code.with_files(self.checkout.tested_head, files)
        outcome, _ = await self._on(tree, self.plan.only(tuple(files)) or self.plan, "failing tests")
        return outcome.passed

    async def _with_other_values(self, ran: Sequence[_Ran], fixed: Collection[str]) -> tuple[set[str], set[str]]:
        """The mended tests that pass whatever values they expect, and those that fail with other ones.

        Code that is equal to everything, or keeps the tests from being told, is told so, however it does that.
        """
        from runner.checks.bought.other_inputs import GREEN
        from runner.checks.bought.tried import expecting_others

        cases = {test.id: test for one in ran if one.phase == "head" for test in one.run.tests or ()}
        head, product = self.checkout.tested_head, self.checkout.product
        told = await self.code.retold(head, self.checkout.tests, [cases[name] for name in sorted(fixed)], product)

        async def ends(files: Mapping[str, bytes] | None) -> dict[str, str]:
            if not files:
                return {}
            plan = self.plan.only(tuple(files)) or self.plan
            outcome, (_, report) = await self._on(await self.code.with_files(head, files), plan, "other values")
            known = {test.id: test.outcome for test in report.tests}
            return {name: known.get(name, "gone") for name in told.spans} | ({GREEN: ""} if outcome.passed else {})

        return await expecting_others(told, ends)

    async def _alternatives(self) -> list[tuple[str, str | None]]:
        """Other right fixes, each with its tree: those that were given (None: it does not apply), and rewrites."""
        from collector.qa.rewrites import rewrites_of  # tree-sitter, where a proof is tried

        given = [(name, await self.code.patched(self.checkout.tested_base, diff)) for name, diff in self.given]
        return [*given, *[
            (way.name, await self.code.with_files(self.checkout.tested_head, way.files))
            for way in rewrites_of(self.checkout.product)
        ]]  # fmt: skip

    async def _passing(self, tree: str, own: Plan, label: str) -> set[str]:
        """The tests that pass on a tree."""
        outcome, (_, report) = await self._on(tree, own, label)
        return {test.id for test in report.tests if test.outcome == "passed"} if outcome.kind == "exit" else set()

    async def _on(self, tree: str, own: Plan, label: str) -> tuple[Outcome, tuple[Reading, TestReport]]:
        source = self.folder / "trial.tar"
        await self.code.write_tar(tree, source)
        if self.layers:
            await asyncio.to_thread(lay_over, source, self.layers["head"])
        if self.plan.build:
            built, outcome = await self._built(source, label)
            if built is None:
                return outcome, ("no_report", TestReport())
            source = built
        return await self._tried(own, source, label)

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
            why = f"{self.checkout.redacted}, so its failing says nothing"
            return not_testable(self.plan.runner, Refusal("redacted", why), detail=detail)
        proof = prove(
            [one.run for one in ran],
            changed=self.checkout.changed,
            repeats=self.settings.repeats,
            reporting=self.plan.reporting,
            steering=self.checkout.steering,
            bought=self.checkout.bought,
        )
        fixed = {row.id for row in proof.rows if row.fixed}
        steered = await self._passes_whatever_fails(fixed) if proof.verdict == "proven" else False
        if steered:
            proof = replace(proof, verdict="steered", steered=(*proof.steered, "a run with failing tests passes"))
        deaf, heard = await self._with_other_values(ran, fixed) if proof.verdict == "proven" else (set(), set())
        if deaf:
            told = f"tests pass whatever they expect: {', '.join(sorted(deaf)[:_MOST_PARTS])}"
            proof = replace(proof, verdict="steered", steered=(*proof.steered, told))
        shown = proof.as_json()
        # What must be built first costs as much again for each tree.
        if proof.verdict == "proven" and proof.level == "tests" and self.settings.trials and not self.plan.build:
            shown |= await self._trials(proof)
        shown["other_values_noticed"] = list[JsonValue](sorted(heard))
        if steered is None:
            flags = shown.get("flags")
            shown["flags"] = [*(flags if isinstance(flags, list) else ()), "not_controlled"]
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

    async def _sure(self, job: Job) -> Outcome:
        """Run it, again where the sandbox, not the program, failed."""
        for wait in (*self.settings.waits_s, None):
            try:
                return await self.sandbox.run(job)
            except SandboxError as error:
                if wait is None:
                    raise
                self.progress(f"tests: {error.what} ({error.why}); trying again")
                await asyncio.sleep(wait)
        raise AssertionError("the last round returns or raises")  # pragma: no cover


def _untested(ran: _Ran) -> Refusal | None:
    """Why this run says nothing about the code, if it does not."""
    failed = any(test.outcome in {"failed", "error"} for test in ran.run.tests or ())
    unstarted = ran.phase == "head" and ran.outcome.exit_code in _NOT_STARTED and not failed
    if unstarted or ran.outcome.kind == "missing":
        return Refusal(
            "tool_missing", "a program of the tests (or tar) is not in the sandbox: use an image that holds it"
        )
    if ran.outcome.kind == "no_room":
        return _TOO_LARGE
    if ran.phase == "head" and ran.run.tests == ():
        return Refusal("no_tests", "the command found no tests")
    return None


def _shown(outcome: Outcome) -> dict[str, JsonValue]:
    names = ("exit_code", "duration_ms", "dropped_bytes", "killed_for_memory")
    return {"ended": outcome.kind, **{name: getattr(outcome, name) for name in names}}


def _word(outcome: Outcome, report: TestReport | None = None) -> str:
    said = outcome.said
    if report is not None and report.tests:
        parts = ", ".join(f"{number} {name}" for name, number in report.counts.items() if number)
        said = f"{said} ({parts})"
    return f"{said} in {outcome.duration_ms / 1000:.1f} s"
