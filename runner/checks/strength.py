"""Q11: plants mutants into a private copy, runs its tests, and counts which faults they notice.

The copy is ours to spoil: each mutant replaces its file, and the file is put back when the next one has its turn, or at
the end. A file's new time is always later than the last one's, in whole seconds: build tools and Python's bytecode
take a file for unchanged by its time and size.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runner.checks.mutants import Mutant, Target, in_turns
from runner.gate.criterion import (
    Criterion,
    Evidence,
    Finding,
    Models,
    NotVerified,
    Place,
    Strength,
    Survivor,
    at,
)
from tracer.clock import monotonic, now_epoch_ms

Outcome = Literal["passed", "failed", "timeout", "broken"]
"""How the tests ended. `broken`: nothing could be built or imported, so no test ran."""
RunTests = Callable[[float], Awaitable[Outcome]]
"""Runs the tests of the copy once, for at most so many seconds."""

_NAMED = 3
_USUAL_BUDGET_S = 20.0
_TO_END_S = 30.0
_BAR = 20


def _longest(usual_s: float) -> float:
    """How long one run may take before it counts as hanging."""
    return 2.0 + 4.0 * usual_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where the count stands, for who watches."""

    done: int
    of: int
    killed: int
    now: Mutant

    @property
    def text(self) -> str:
        """`trying the tests [#####...............] 3/12 faults, 2 noticed · total in src/shop.py`."""
        filled = _BAR * self.done // max(self.of, 1)
        bar = f"[{'#' * filled}{'.' * (_BAR - filled)}]"
        where = f"{self.now.function} in {self.now.path}"
        return f"trying the tests {bar} {self.done}/{self.of} faults, {self.killed} noticed · {where}"


def strength_criterion(
    criterion: Criterion,
    measure: Callable[..., Awaitable[Strength | NotVerified | None]],
    *,
    required: float | None,
    budget_s: float | None,
) -> Criterion:
    """Q11 for a task: `measure` (command, budget_s) counts. It waits until nothing else failed."""
    seconds = budget_s or _USUAL_BUDGET_S

    async def check(evidence: Evidence, _models: Models) -> Finding:
        tests = evidence.tests
        if tests is None:
            return Finding(passed=True, not_verified=NotVerified(why="no tests were run", next="--test CMD"))
        if (told := tests.not_verified) is not None or tests.not_isolated:
            why = NotVerified(why=f"no copy to put faults into: {tests.not_isolated}", next="pm doctor")
            return Finding(passed=True, not_verified=told or why)
        found = await measure(tests.command, budget_s=seconds)
        return strength_finding(found, required=required, budget_s=seconds)

    return criterion._replace(check=check, advisory=required is None, timeout_s=2 * seconds + _TO_END_S)


def strength_finding(found: Strength | NotVerified | None, *, required: float | None, budget_s: float) -> Finding:
    """What Q11 says of a count; `required` is the percentage of faults that must be noticed, None where it informs."""
    if found is None:
        return Finding(passed=True, reason="no function to try was changed")
    if isinstance(found, NotVerified):
        return Finding(passed=True, not_verified=found)
    reason = f"{found.killed} of {found.total} faults noticed by the tests"
    if found.survivors:
        named = [f"{one.path}:{one.line} {one.function}: {one.old} → {one.new}" for one in found.survivors[:_NAMED]]
        more = len(found.survivors) - _NAMED
        reason += f"; not noticed: {', '.join(named)}" + (f" and {more} more" if more > 0 else "")
    if required is not None and found.percent < required:
        places = tuple(map(_place, found.survivors))
        return Finding(passed=False, reason=f"{reason} (wanted: {required:g} %)", places=places, strength=found)
    if not found.total or (required is not None and found.functions < found.of_functions):
        why = f"only {found.functions} of {found.of_functions} changed functions tried in {budget_s:g} s"
        more_time = NotVerified(why=why, next="give it more time: gate.strength_time")
        return Finding(passed=True, not_verified=more_time, strength=found)
    return Finding(passed=True, reason=reason, strength=found)


def _place(one: Survivor) -> Place:
    message = f"no test fails when {one.old} of {one.function} becomes {one.new}"
    advice = f"add a test that fails when {one.old} becomes {one.new} in {one.function}"
    return at("survivor", message, path=one.path, line=one.line, excerpt=f"{one.old} → {one.new}", suggestion=advice)


async def measure_strength(
    targets: Sequence[Target],
    texts: Mapping[str, bytes],
    *,
    root: Path,
    run: RunTests,
    usual_s: float,
    budget_s: float,
    watch: Callable[[Step], None] = lambda _step: None,
) -> Strength | NotVerified:
    """How strong the tests are for the functions `targets`, found in `texts` (path to content).

    `usual_s` is what one run of the tests takes; one that takes much longer with a fault has noticed it. No run begins
    that would not end within `budget_s`. Nothing is concluded from tests that fail without a fault too.

    Raises:
        OSError: the copy cannot be written.

    """
    copy = SpoiltCopy(root, texts)
    try:
        return await _try_all(copy, texts, [*in_turns(targets)], targets, run, usual_s, budget_s, watch)
    finally:
        copy.restore()


async def _try_all(
    copy: SpoiltCopy,
    texts: Mapping[str, bytes],
    mutants: Sequence[Mutant],
    targets: Sequence[Target],
    run: RunTests,
    usual_s: float,
    budget_s: float,
    watch: Callable[[Step], None],
) -> Strength | NotVerified:
    until = monotonic() + budget_s
    ends: list[tuple[Mutant, bool | None]] = []
    killed = 0
    waiting, later = deque(mutants), set[Mutant]()
    unseen: set[tuple[str, str]] = set()
    # The last run, without a fault, must fit in too.
    while waiting and monotonic() + 2 * usual_s <= until:
        mutant = waiting.popleft()
        if (mutant.path, mutant.function) in unseen and mutant not in later:
            later.add(mutant)  # no test sees what the function does: other functions have more to tell
            waiting.append(mutant)
            continue
        watch(Step(done=len(ends), of=len(mutants), killed=killed, now=mutant))
        if not copy.plant({mutant.path: mutant.applied(texts[mutant.path])}):
            ends.append((mutant, None))
            continue
        limit = min(_longest(usual_s), until - monotonic())
        outcome = await run(limit)
        if outcome == "timeout" and limit < _longest(usual_s):
            break  # the budget ended, which says nothing of the tests
        noticed = None if outcome == "broken" and mutant.compiled else outcome != "passed"
        ends.append((mutant, noticed))
        killed += noticed is True
        if noticed is False and mutant.kind == "stub":
            unseen.add((mutant.path, mutant.function))
    copy.restore()
    if killed and (end := await run(_longest(usual_s))) != "passed":
        return NotVerified(
            why=f"the tests, run again without a fault, ended as {end!r}", next="make the tests pass every time"
        )
    return _strength(ends, targets, untried=len(mutants) - len(ends))


def _strength(ends: Sequence[tuple[Mutant, bool | None]], targets: Sequence[Target], *, untried: int) -> Strength:
    survivors = [
        Survivor(path=one.path, line=one.line, function=one.function, kind=one.kind, old=one.old, new=one.new)
        for one, noticed in ends
        if noticed is False
    ]
    return Strength(
        killed=sum(noticed is True for _, noticed in ends),
        survivors=tuple(sorted(survivors, key=lambda one: (one.path, one.kind != "stub", one.line))),
        functions=len({(one.path, one.function) for one, _ in ends}),
        of_functions=len({(one.path, one.function) for one in targets}),
        untried=untried,
        refused=sum(noticed is None for _, noticed in ends),
    )


class SpoiltCopy:
    """A private copy and what is put into it for a time. `texts` are its files without that; None: there is none."""

    def __init__(self, root: Path, texts: Mapping[str, bytes | None]) -> None:
        self._root = root.resolve()
        self._texts = texts
        self._modes: dict[str, int] = {}
        self._stamp = now_epoch_ms() // 1000

    def plant(self, changed: Mapping[str, bytes | None]) -> bool:
        """Give these files other content; False where the copy does not hold one as `texts` has it."""
        self.restore()
        modes: dict[str, int] = {}
        for name in changed:
            path = self._root / name
            if path.is_symlink() or not path.resolve().is_relative_to(self._root):
                return False
            try:
                modes[name] = path.stat().st_mode & 0o7777
                if path.read_bytes() != self._texts[name]:
                    return False
            except FileNotFoundError:
                modes[name] = 0o644
                if self._texts[name] is not None:
                    return False
            except OSError:
                return False
        self._modes = modes
        for name, text in changed.items():
            self._write(name, text)
        return True

    def restore(self) -> None:
        """All is as it was."""
        for name in self._modes:
            self._write(name, self._texts[name])
        self._modes = {}

    def _write(self, name: str, text: bytes | None) -> None:
        """Replaced, not written through: the copy may share files with another by hard links."""
        path = self._root / name
        if text is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        there = int(path.stat().st_mtime) if path.exists() else 0
        aside = path.with_name(f".{path.name}.pm-fault")
        aside.write_bytes(text)
        aside.chmod(self._modes[name])
        self._stamp = max(self._stamp, now_epoch_ms() // 1000, there) + 1
        os.utime(aside, (self._stamp, self._stamp))
        aside.replace(path)
