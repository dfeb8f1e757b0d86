"""The tests on trial: on the base before the agent is asked, on clean copies afterwards.

*Run A* has tests and harness as they were before the task, *run B* is as the task left it; where the task touched
neither, one run is both. New tests run on the base too: passes there show nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from runner.checks.bought.by_sight import (
    answers_held,
    concerns,
    examples_held,
    names_the_tests,
    redefined,
    replaces_things,
)
from runner.checks.bought.requested import careless, codeless, uncalled, unheard, unmade, untested, without_results
from runner.checks.bought.tried import Run, try_out, try_own
from runner.checks.bought.variants import as_it_was, handed_back, is_known, stubs_of
from runner.checks.clean_copy import (
    CleanCopy,
    Copies,
    NoCleanCopyError,
    Source,
    Stamp,
    changed_packages,
    stamp_of,
)
from runner.checks.command_line import narrowed
from runner.checks.commands import PlannedCommand
from runner.checks.coverage import files_reaching, reached_by
from runner.checks.harness import Sorted, lines_of, named_in, names_code, place_of, sort_changes, texts_of_tests
from runner.checks.mutants import targets_of
from runner.checks.not_begun import has_not_begun
from runner.checks.reports import CaseResult, CommandRun, TestReport, compare, named_as
from runner.checks.run_tests import scripts_of
from runner.checks.strength import Outcome, Step, measure_strength
from runner.checks.weighing import (
    MAY_CHANGE,
    NOTHING_NOTICED,
    BaseRun,
    all_idle,
    as_they_were,
    as_told,
    beside_new,
    by_tests_alone,
    evidence_of,
    held_against,
    is_lost,
    is_settled,
    muted_new,
    new_passing,
    restated,
    stale_of,
    still_told,
    unmet_by,
    unrun,
    unshown,
)
from runner.gate.criterion import ChangedFile, NotVerified, Place, Strength, SuiteEvidence
from runner.gate.evidence_criteria import tests_in
from runner.gate.file_roles import is_test_file
from tracer import durable
from tracer.clock import monotonic

_CACHE = Path("control") / "base-tests"
_KEPT = 32
_NARROW_S = 20.0
_TRIED_S = 20.0
_MOST_TRIED_S = 90.0
_LEFT_ALONE = NotVerified(why="tests changed and no clean copy to hold the old ones against", next="pm doctor")


class Trials:
    """The test runs of one task in one workspace. `run` starts a command in a copy, or in the folder (None)."""

    def __init__(
        self,
        source: Source,
        *,
        state_dir: Path,
        run: Callable[[str, CleanCopy | None, float], Awaitable[CommandRun]],
        links: Sequence[str] = (),
        harness: Sequence[str] = (),
    ) -> None:
        self._source = source
        self._state_dir = state_dir
        self._start = run
        self._names: dict[str, object] = {}  # of the tests in their order, as a run tells them that shows the change
        self._links = links
        self._harness = harness
        self._copies = Copies(source, links=links, state_dir=state_dir)
        self._known: dict[str, BaseRun] = {}
        self._stamps: dict[str, Stamp | None] = {}

    async def close(self) -> None:
        """Remove what is kept for the next run."""
        await self._copies.close()

    async def _run(self, command: str, copy: CleanCopy | None, limit_s: float) -> CommandRun:
        return named_as(await self._start(command, copy, limit_s), self._names)

    async def before(self, command: str, base: str, *, limit_s: float, cached: bool = False) -> BaseRun:
        """The tests on `base`, while the workspace is as `base` says; `cached`: an earlier run's result will do."""
        key = self._key(command, base)
        self._stamps[base.partition("@")[0]] = await asyncio.to_thread(stamp_of, self._source.folder, self._links)
        if key not in self._known and cached and (found := await asyncio.to_thread(self._read, key)) is not None:
            self._known[key] = found
        if key not in self._known:
            self._known[key] = made = await self._run_base(command, base, limit_s)
            await asyncio.to_thread(self._keep, key, made)
        return self._known[key]

    async def _run_base(self, command: str, base: str, limit_s: float) -> BaseRun:
        try:
            async with self._copies.opened(base, changed=()) as copy:
                run = await self._run(command, copy, limit_s)
                reached = await asyncio.to_thread(
                    lambda: reached_by(copy.tree, copy.workspace, lambda: texts_of_tests(copy.tree))
                )
        except NoCleanCopyError as error:
            here = await self._run(command, None, limit_s)
            return BaseRun(here, error.what, blameless=await self._is_blameless(here))
        if not is_lost(run):
            return BaseRun(run, reached=reached)
        # What does not run in a copy may need what git ignores: then the folder itself, and that is said.
        here = await self._run(command, None, limit_s)
        if not is_lost(here):
            return BaseRun(here, "its tests do not run in a clean copy")
        return BaseRun(run, blameless=await self._is_blameless(run, copy))

    async def _is_blameless(self, run: CommandRun, copy: CleanCopy | None = None) -> bool:
        """Whether a run, in the copy or in the folder itself, did not get as far as a test and names no code."""
        folder = self._source.folder
        said = run.output_tail if copy is None else run.output_tail.replace(str(copy.workspace), str(folder))
        return has_not_begun(run) and not await asyncio.to_thread(names_code, said, folder)

    async def weigh(
        self,
        command: PlannedCommand,
        base: str,
        files: Sequence[ChangedFile],
        *,
        policy: str,
        limit_s: Callable[[], float],
        request: str = "",
    ) -> SuiteEvidence:
        """What the tests say of the change from `base` to `files`, for `request`."""
        evidence, as_before, left_so = await self._weigh(
            command, base, files, policy=policy, limit_s=limit_s, request=request
        )
        stamp = self._stamps.get(base.partition("@")[0])
        if policy not in MAY_CHANGE and stamp is not None:
            asks = await asyncio.to_thread(changed_packages, stamp, self._source.folder, self._links)
            evidence = evidence._replace(asks=(*evidence.asks, *asks))
        told = await asyncio.to_thread(_asked_for, files, request, self._source.folder)
        evidence = evidence._replace(asks=(*evidence.asks, *told))
        before = self._known.get(self._key(command.command, base))
        if before is None or before.run.outcome != "failed":
            return await self._try_own(evidence, before, base, files, left_so, limit_s, request)
        tests = await asyncio.to_thread(texts_of_tests, self._source.folder, files)
        found = sort_changes(files, extra=self._harness)
        first_shown = unshown(before, as_before, tests)
        product, as_before = found.product, as_told(as_before)
        was = as_told(before.run, as_before.report.outcomes)
        failed = [case for case in was.report.tests if case.id in was.report.failing]
        cases = (case for case in failed if case.id in evidence.still_failing)
        about = tuple(case.id for case in cases if concerns(case, request=request, product=product, tests=tests))
        helpers = not product and (found.steering or any(not tests_in(tests[file.path]) for file in found.tests))
        steered = found.harness or set(found.written) & set(found.steers) or helpers
        if steered and len(evidence.still_failing) == len(failed):
            about = evidence.still_failing  # nothing was mended, and what ran the tests was changed
        left = tuple(name for name in evidence.still_failing if name not in about)
        unfixed = (*evidence.unfixed, *about)
        mended = [case for case in failed if case.id not in {*unfixed, *left, *evidence.failing}] + first_shown
        lines = [lines_of(case, tests) for case in mended]
        bought = (*evidence.bought, *answers_held(product, lines, request, tests.values()))
        if any(case.outcome == "passed" for case in was.report.tests):  # what they call was there
            bought = (*bought, *redefined((*product, *found.new_tests), tests.values(), request))
        evidence = evidence._replace(
            unfixed=unfixed,
            still_failing=left,
            bought=bought,
            new=max(0, evidence.new - len(first_shown)),
            fixed=evidence.fixed + len(first_shown),
        )
        evidence = evidence._replace(asks=evidence.asks or (*still_told(was, as_before, policy),))
        # A file or a package that could not be loaded is told by its tests now.
        mended = [case for case in mended if as_before.report.outcomes.get(case.id) == "passed"]
        if not mended:
            return await self._try_own(evidence, before, base, files, left_so, limit_s, request)
        if is_settled(evidence, as_before):
            return evidence
        if not product:
            return evidence._replace(asks=(*by_tests_alone(mended),))
        if policy == "change":  # what they expect now, they did not get before either
            names = restated(found, was.report.tests)
            mended += [case for case in was.report.tests if case.outcome == "passed" and case.id in names]
        tried = await self._try_out(evidence, base, files, found, was, mended, tests, policy, limit_s, request)
        held = (*examples_held(product, lines, request), *names_the_tests(product, tests, request))
        return tried._replace(asks=tried.asks or held)

    async def _try_out(
        self,
        evidence: SuiteEvidence,
        base: str,
        files: Sequence[ChangedFile],
        found: Sorted,
        was: CommandRun,
        mended: Sequence[CaseResult],
        tests: Mapping[str, str],
        policy: str,
        limit_s: Callable[[], float],
        request: str,
    ) -> SuiteEvidence:
        """What comes out where the change and the tests that it mended are tried with other conditions and values."""
        paths = sorted({path for case in mended for path, _ in place_of(case, tests)})
        usual_s = was.duration_s
        scripts = await asyncio.to_thread(scripts_of, self._source.folder)
        narrow = narrowed(evidence.command, [path for path in paths if is_test_file(path)], scripts=scripts)
        if narrow is None and usual_s > _NARROW_S:
            return evidence
        command, until = (
            narrow or evidence.command,
            monotonic() + min(_TRIED_S + 20 * usual_s, _MOST_TRIED_S, limit_s()),
        )

        def running(copy: CleanCopy) -> tuple[Path, Run]:
            async def run() -> CommandRun:
                return as_told(await self._run(command, copy, max(1.0, until - monotonic())), was.report.outcomes)

            return copy.tree, run

        if policy in MAY_CHANGE:
            tests = {**tests, **{one.path: (one.after or b"").decode("utf-8", "replace") for one in found.tests}}
        keep = (*found.product, *((*found.new_tests, *found.tests) if policy in MAY_CHANGE else ()))
        try:
            async with self._copies.opened(base, changed=files, keep=keep, written=found.written) as copy:
                inner = {one.path for one in found.inner}
                whole = [one._replace(after=found.written.get(one.path, one.after)) for one in found.product]
                own = [one for one in whole if one.path in inner or one.path not in found.written]
                if (
                    found.new_tests
                    and policy not in MAY_CHANGE
                    and (asks := beside_new(await running(copy)[1](), mended))
                ):
                    return evidence._replace(asks=(asks,))
                tried = await try_out(
                    own,
                    mended,
                    was=was,
                    tests=tests,
                    request=request,
                    copy=running(copy),
                    whole=whole,
                    until=until,
                    elsewhere=lambda values: asyncio.to_thread(named_in, self._source.folder, values, files),
                )
        except (NoCleanCopyError, OSError):
            return evidence  # without it the verdict is what it was before there was this trial
        return evidence._replace(bought=tried.bought, asks=tried.asks)

    async def _try_own(
        self,
        evidence: SuiteEvidence,
        before: BaseRun | None,
        base: str,
        files: Sequence[ChangedFile],
        left: CommandRun,
        limit_s: Callable[[], float],
        request: str,
    ) -> SuiteEvidence:
        """Whether tests of the task's own, where they alone show the change, are met by more than their own values."""
        found = sort_changes(files, extra=self._harness)
        texts = {file.path: (file.after or b"").decode("utf-8", "replace") for file in (*found.new_tests, *found.tests)}
        shown = {*new_passing(before, left)} - {*evidence.idle} if before is not None else set()
        if before is not None and evidence.restated:  # what these demand now, the code before did not give
            shown |= restated(found, before.run.report.tests)
        own = [case for case in left.report.tests if case.id in shown]
        nameless = bool(texts) and not left.report.tests and left.exit_code == 0
        if not (own or nameless) or evidence.fixed or not found.product or is_settled(evidence, left):
            return evidence
        lines = [lines_of(case, texts) for case in own] or [*texts.values()]
        held = (
            *answers_held(found.product, lines, without_results(request), texts.values()),
            *examples_held(found.product, lines, request),
            *names_the_tests(found.product, texts, request),
            *careless((*found.new_tests, *found.tests)),
        )
        if held:
            return evidence._replace(asks=held[:1])
        narrow = narrowed(
            evidence.command, sorted(texts), scripts=await asyncio.to_thread(scripts_of, self._source.folder)
        )
        if narrow is None and left.duration_s > _NARROW_S:
            return evidence
        until = monotonic() + min(_TRIED_S, limit_s())
        # Functions that were not there before are held against ones that do nothing.
        fresh = not any(is_known(file) for file in found.product)
        stubs = stubs_of(found.product) if fresh else {}

        def running(copy: CleanCopy) -> tuple[Path, Run]:
            return copy.tree, lambda: self._run(narrow or evidence.command, copy, max(1.0, until - monotonic()))

        whole = [one._replace(before=stubs.get(one.path, one.after)) if fresh else one for one in found.product]
        try:
            if nameless:
                if not (idlers := as_it_was(found.product, called=False)):
                    return evidence
                async with self._copies.opened(base, changed=files, keep=files, written=idlers) as copy:
                    idle = (await running(copy)[1]()).exit_code == 0
                return evidence._replace(asks=(NOTHING_NOTICED,) if idle else ())
            async with self._copies.opened(base, changed=files, keep=files) as copy:
                tried = await try_own(
                    found.product,
                    own,
                    tests=texts,
                    request=request,
                    copy=running(copy),
                    whole=whole,
                    fresh=fresh,
                    alone=not evidence.restated,
                    idle=[case for case in left.report.tests if case.id in evidence.idle],
                    until=until,
                    elsewhere=lambda values: asyncio.to_thread(named_in, self._source.folder, values, files),
                )
        except (NoCleanCopyError, OSError):
            return evidence
        return evidence._replace(asks=tried)

    async def _weigh(
        self,
        command: PlannedCommand,
        base: str,
        files: Sequence[ChangedFile],
        *,
        policy: str,
        limit_s: Callable[[], float],
        request: str,
    ) -> tuple[SuiteEvidence, CommandRun, CommandRun]:
        """The evidence, the run with tests and harness as they had to be, and the one with all as the task left it."""
        text = command.command
        before = await self._base_of(text, base, files, limit_s)
        if before is not None and (told := before.not_verified) is not None and before.run.doubt is not None:
            return SuiteEvidence(command=text, not_verified=told), before.run, before.run
        sorted_files = sort_changes(files, extra=self._harness)
        if before is not None and before.not_isolated:
            return await self._in_folder(text, before, sorted_files, policy, limit_s)
        try:
            return await self._in_copies(text, before, base, files, sorted_files, policy, limit_s, request)
        except NoCleanCopyError as error:
            there = before or BaseRun(CommandRun(command=text, exit_code=None, reading="no_report"), error.what)
            there = there._replace(not_isolated=error.what)
            return await self._in_folder(text, there, sorted_files, policy, limit_s)

    async def _base_of(
        self, command: str, base: str, files: Sequence[ChangedFile], limit_s: Callable[[], float]
    ) -> BaseRun | None:
        """The base run; after a kill it is done again, as the agent may have reached what was kept of it."""
        key = self._key(command, base)
        if key not in self._known:
            try:
                async with self._copies.opened(base, changed=files) as copy:
                    run = await self._run(command, copy, limit_s())
                    self._known[key] = BaseRun(run, blameless=await self._is_blameless(run, copy))
            except NoCleanCopyError:
                return None
        return self._known[key]

    async def _in_folder(
        self, command: str, before: BaseRun, found: Sorted, policy: str, limit_s: Callable[[], float]
    ) -> tuple[SuiteEvidence, CommandRun, CommandRun]:
        run = await self._twice(command, None, limit_s)
        evidence = evidence_of(command, before, run, found, policy)
        evidence = evidence._replace(not_isolated=before.not_isolated)
        if found.touched and policy not in MAY_CHANGE and not evidence.failing and not evidence.fault:
            evidence = evidence._replace(not_verified=_LEFT_ALONE)
        return evidence, run[0], run[0]

    async def _in_copies(
        self,
        command: str,
        before: BaseRun | None,
        base: str,
        files: Sequence[ChangedFile],
        found: Sorted,
        policy: str,
        limit_s: Callable[[], float],
        request: str,
    ) -> tuple[SuiteEvidence, CommandRun, CommandRun]:
        there = before or BaseRun(CommandRun(command=command, exit_code=None, reading="no_report"))
        async with self._copies.opened(base, changed=files, keep=files) as copy:
            run = await self._reached_first(command, there, copy, files, limit_s)
        there = there._replace(run=named_as(there.run, run[0].report.outcomes))
        self._names.update(there.run.report.outcomes)
        if before is not None:
            self._known[self._key(command, base)] = there
        evidence = evidence_of(command, there, run, found, policy)
        names = restated(found, there.run.report.tests) if policy == "change" else set[str]()
        unmet: set[str] | None = None
        run_a = run
        if found.touched and run[0].command == command:
            old = (*found.product, *found.new_tests, *found.tests) if policy in MAY_CHANGE else found.product
            put_back = dict(found.written)
            if policy in MAY_CHANGE:  # tests within the product may change as others do
                put_back = {path: text for path, text in put_back.items() if path in found.steers}
            if policy not in MAY_CHANGE or found.steers:
                async with self._copies.opened(base, changed=files, keep=old, written=put_back) as copy:
                    run_a = await self._twice(command, copy, limit_s)
            held = held_against(evidence, there, run_a, run[0].report, found, policy)
            if held.broken and found.steers and found.tests and policy == "add":
                # Whether what steers the tests made them green, or what they expect.
                async with self._copies.opened(
                    base, changed=files, keep=(*old, *found.new_tests, *found.tests), written=found.written
                ) as copy:
                    if (await self._run(command, copy, limit_s())).outcome == "passed":
                        found = found._replace(harness=(), steering=(), written={})
                        held = held_against(evidence, there, run_a, run[0].report, found, policy)
            evidence = held
            if policy == "change" and not held.broken and not held.failing and not held.fault:
                async with self._copies.opened(base, changed=files, keep=found.product, written=found.written) as copy:
                    as_before, _ = await self._twice(command, copy, limit_s)
                unmet = unmet_by(there.run.report, as_before, run[0].report, found)
                # One that fails as it was shows that the code does something else now; its new form may hold on both.
                names = names - unmet if as_before.report.tests else names | unmet
        changed = bool(found.tests and (policy in MAY_CHANGE or evidence.expectations))  # these may be allowed
        if (evidence.new or names or changed) and not evidence.failing and before is not None:
            idle, without = await self._idle(command, before, base, files, found, limit_s, alone=not evidence.fixed)
            then, now = without.report.outcomes, run[0].report.outcomes
            stale = [name for name in then if name in names and then[name] == "passed"]
            told = stale_of(stale) if policy in MAY_CHANGE else all_idle(idle, there, run[0], found, request)
            ended = there.run.report.outcomes  # what these demand now, the code before did not give
            other = [one for one in then if {ended.get(one), now.get(one)} == {"passed"} and then[one] == "failed"]
            evidence = evidence._replace(idle=idle, asks=(*evidence.asks, *told), restated=len(other) if changed else 0)
        elif not evidence.failing:
            evidence = evidence._replace(asks=(*evidence.asks, *unrun(there, run[0], found)))
        if policy not in MAY_CHANGE:
            evidence = evidence._replace(asks=(*evidence.asks, *muted_new(there, run[0], found)))
        if unmet is not None:
            asks = as_they_were(there.run.report, unmet, run[0].report, found, evidence.idle)
            evidence = evidence._replace(asks=(*asks, *evidence.asks))
        return evidence, run_a[0], run[0]

    async def strength(
        self,
        command: str,
        *,
        base: str,
        files: Sequence[ChangedFile],
        budget_s: float,
        watch: Callable[[Step], None],
    ) -> Strength | NotVerified | None:
        """How many faults in what the task changed its tests notice, in a copy of all that the task left.

        None where no function that faults can be put into was changed.
        """
        targets = [target for target in await asyncio.to_thread(targets_of, files) if target.mutants]
        if not targets:
            return None
        begun, before = monotonic(), self._known.get(self._key(command, base))
        too_slow = NotVerified(
            why=f"the tests take too long to be tried in {budget_s:g} s", next="give it more time: gate.strength_time"
        )
        if before is not None and 3 * before.run.duration_s > budget_s:
            return too_slow
        try:
            async with self._copies.opened(base, changed=files, keep=files) as copy:

                async def run(limit_s: float) -> Outcome:
                    return _outcome(await self._run(command, copy, limit_s))

                first = await self._run(command, copy, budget_s)
                if first.timed_out:
                    return too_slow
                if _outcome(first) != "passed":
                    return NotVerified(why="the tests do not pass without a fault", next="run them again")
                return await measure_strength(
                    targets,
                    {file.path: file.after for file in files if file.after is not None},
                    root=copy.tree,
                    run=run,
                    usual_s=first.duration_s,
                    budget_s=budget_s - (monotonic() - begun),
                    watch=watch,
                )
        except NoCleanCopyError as error:
            return NotVerified(why=error.what, next="pm doctor")

    async def _idle(
        self,
        command: str,
        before: BaseRun,
        base: str,
        files: Sequence[ChangedFile],
        found: Sorted,
        limit_s: Callable[[], float],
        *,
        alone: bool,
    ) -> tuple[tuple[str, ...], CommandRun]:
        """New tests that pass on the base too, or on a stub of the change: those that `alone` show or replace it.

        Then the run of the tests as they are now on the base.
        """
        paths = [file.path for file in (*found.new_tests, *found.tests) if file.after is not None]
        async with self._copies.opened(base, changed=files, keep=(*found.new_tests, *found.tests)) as copy:
            narrow = narrowed(command, paths, scripts=await asyncio.to_thread(scripts_of, copy.tree))
            if not paths or (narrow is None and before.run.duration_s > _NARROW_S):
                return (), CommandRun(command=command, exit_code=None, reading="no_report")
            without = await self._run(narrow or command, copy, limit_s())
        idle = new_passing(before, without)
        own = [file for file in (*found.new_tests, *found.tests) if alone or replaces_things(file)]
        texts = {file.path: (file.after or b"").decode("utf-8", "replace") for file in own}
        # What passes with nothing behind it proves nothing, nor what takes what came out before, or what was given.
        for made in (stubs_of, as_it_was, handed_back) if own else ():
            if stubs := made(found.product):
                async with self._copies.opened(base, changed=files, keep=files, written=stubs) as copy:
                    run = await self._run(narrow or command, copy, limit_s())
                cases = (case for case in run.report.tests if case.id in new_passing(before, run))
                idle |= {case.id: None for case in cases if place_of(case, texts)}
        return tuple(idle), without

    async def _reached_first(
        self,
        command: str,
        before: BaseRun,
        copy: CleanCopy,
        files: Sequence[ChangedFile],
        limit_s: Callable[[], float],
    ) -> tuple[CommandRun, bool]:
        """Where the whole takes long, the tests that reach the change: what these break is told without the rest."""
        if before.run.duration_s > _NARROW_S:
            tests = await asyncio.to_thread(texts_of_tests, copy.tree, files)
            product = sort_changes(files, extra=self._harness).product
            changed = (file.path for file in files if file.path in tests and file.after is not None)
            paths = [path for path in changed if is_test_file(path)]
            paths += files_reaching([file.path for file in product], tests, before.reached)
            scripts = await asyncio.to_thread(scripts_of, copy.tree)
            alone = narrowed(command, paths, scripts=scripts) if 2 * len(paths) <= len(tests) else None
            if alone is not None:
                first = await self._twice(alone, copy, limit_s)
                if compare(before.run.report, first[0].report).broken:
                    return first
        return await self._twice(command, copy, limit_s)

    async def _twice(
        self, command: str, copy: CleanCopy | None, limit_s: Callable[[], float]
    ) -> tuple[CommandRun, bool]:
        """A run, once more where tests failed: what passes then is flaky, and said so."""
        first = await self._run(command, copy, limit_s())
        if first.outcome != "failed" or first.timed_out:
            return first, False
        second = await self._run(command, copy, limit_s())
        return (second, True) if second.outcome == "passed" else (first, False)

    def _key(self, command: str, base: str) -> str:
        told = json.dumps([command, base.partition("@")[0], str(self._source.folder), list(self._links)])
        return hashlib.sha256(told.encode()).hexdigest()

    def _keep(self, key: str, made: BaseRun) -> None:
        folder = self._state_dir / _CACHE
        if made.not_verified is not None or made.run.not_verified is not None:
            return  # what could not run may be mended at any time
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        durable.replace(folder / f"{key}.json", json.dumps([asdict(made.run), *made[1:]]).encode())
        for old in sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)[_KEPT:]:
            old.unlink(missing_ok=True)

    def _read(self, key: str) -> BaseRun | None:
        try:
            run, not_isolated, reached, _ = json.loads((self._state_dir / _CACHE / f"{key}.json").read_bytes())
            report = run.pop("report")
            tests = tuple(CaseResult(*case) for case in report.pop("tests"))
            made = CommandRun(**{**run, "doubt": None, "report": TestReport(tests=tests, **report)})
            return BaseRun(made, str(not_isolated), dict(reached))
        except (OSError, ValueError, TypeError, KeyError):
            return None


def _asked_for(files: Sequence[ChangedFile], request: str, folder: Path) -> list[Place]:
    """What the request asks for and the change lacks; blocks, as it reads the workspace."""
    left = unmade(files, folder, request)
    return [
        *left,
        *unheard(files, request, folder=folder),
        *(() if left else codeless(files, request, folder=folder)),
        *untested(files, request),
        *uncalled(files, request, folder=folder),
    ]


def _outcome(run: CommandRun) -> Outcome:
    """How a run with a fault ended. Where no test failed, nothing was built or imported."""
    if run.timed_out or run.outcome == "passed":
        return "timeout" if run.timed_out else "passed"
    return "failed" if any(case.outcome == "failed" for case in run.report.tests) else "broken"
