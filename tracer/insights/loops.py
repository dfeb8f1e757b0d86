"""Where an agent went in circles: the same call with the same result again and again, or edits that mend nothing. Pure.

A repeat is 3 or more calls of one tool with equal normalised arguments and an equal normalised result within 20 steps.
A cycle is 3 or more rounds of edit and failure of the same command (or of edits of one file that do not apply).
Steps are the tool calls of one agent: what a subagent does beside it counts for itself.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Literal, NamedTuple

from tracer.insights.agentic_trace import Step

WINDOW = 20
REPEATS = 3
CYCLE = 3

_NOISE = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\b"), "<time>"),
    (re.compile(r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:ms|s|sec|secs|seconds|µs|us)\b"), "<duration>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<address>"),
    (re.compile(r"(?<![\w/])/tmp/\S+"), "<temporary>"),
    (re.compile(r"\bpid[ =:]*\d+", re.IGNORECASE), "<pid>"),
)
# Only the project's own folder says nothing: `cd packages/web && npm test` asks something else than in `core`.
_FRAME = re.compile(
    r"^\s*cd\s+(?:\$PROJECT_ROOT|\.)/?\s*&&\s*"
    r"|\s*(?:2>&1|\|\s*(?:tail|head)(?:\s+-n?\s*\d+|\s+-\d+)?)\s*|\s*&\s*\Z",
    re.IGNORECASE,
)
# How much a test runner tells, and by what it is started.
_TELLING = re.compile(r"\s(?:-q+|-v+|-x|-s|--tb=\w+|--verbose|--quiet)(?=\s|\Z)|\bpython3?\s+-m\s+(?=pytest|unittest)")
# Shell commands that change files of the project.
_SHELL_EDIT = re.compile(
    r"\bsed\s+(?:-\w+\s+)*-i|\bperl\s+-p?i|\bgit\s+(?:apply|checkout|restore|revert|stash)\b|\bpatch\s+-"
)
_NUMBER = re.compile(r"\d+")
_FAILURES = re.compile(r"\b(\d+) (?:failed|failures?|errors?|failing)\b", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_PLACE = re.compile(r"(?:\$PROJECT_ROOT|\$HOME)/|(?<![\w.])\./")


class Loop(NamedTuple):
    """One loop: `lines` are the trace's line numbers of the calls in it, `tool` and `args` what was called."""

    kind: Literal["repeat", "edit-fail"]
    tool: str
    args: str
    lines: tuple[int, ...]
    agent: str | None

    @property
    def times(self) -> int:
        """How many calls, or rounds."""
        return len(self.lines)


def normal_args(args: str) -> str:
    """`args` without what changes from call to call by itself: spacing, the project's place, output trimming, times."""
    text = _FRAME.sub(" ", args)
    return _SPACE.sub(" ", _quiet(_PLACE.sub("", text))).strip()


def normal_result(step: Step) -> str:
    """The result without times, addresses and temporary names; a file's fingerprint counts where there is one."""
    return f"{step.status}\0{step.sha256}\0{_SPACE.sub(' ', _quiet(step.output)).strip()}"


def _quiet(text: str) -> str:
    for pattern, stand_in in _NOISE:
        text = pattern.sub(stand_in, text)
    return text


def find_loops(steps: Iterable[Step]) -> list[Loop]:
    """Every loop, by the line it begins in; a cycle that is a repeat as well is told once, as the cycle."""
    by_agent: dict[str | None, list[Step]] = {}
    for step in steps:
        if step.kind == "tool":
            by_agent.setdefault(step.agent, []).append(step)
    found: list[Loop] = []
    for agent, calls in by_agent.items():
        cycles = _cycles(agent, calls)
        found += cycles
        found += (loop for loop in _repeats(agent, calls) if not any(_tells(cycle, loop) for cycle in cycles))
    return sorted(found, key=lambda loop: loop.lines)


def _tells(cycle: Loop, repeat: Loop) -> bool:
    """Whether the cycle says what the repeat says: all its calls, or all but a failure before the first edit."""
    same = (repeat.tool, repeat.args) == (cycle.tool, cycle.args)
    return len(set(repeat.lines).difference(cycle.lines)) <= same


def _repeats(agent: str | None, calls: list[Step]) -> list[Loop]:
    """Runs of equal calls whose every REPEATS neighbours lie within WINDOW steps.

    Edits are left out: a trace keeps how much an edit replaced, not what, so two that look equal need not be.
    """
    places: dict[tuple[str, str, str], list[int]] = {}
    latest: dict[tuple[str, str], str] = {}
    # The places of calls whose answer was not the one the same call got before, in rising order.
    turns: dict[tuple[str, str], list[int]] = {}
    every: list[int] = []
    for place, step in enumerate(calls):
        if step.phase == "edit":
            continue
        call, result = _call(step), normal_result(step)
        if latest.setdefault(call, result) != result:
            turns.setdefault(call, []).append(place)
            every.append(place)
            latest[call] = result
        places.setdefault((*call, result), []).append(place)
    loops: list[Loop] = []
    for (tool, args, _), where in places.items():
        loops += (
            Loop("repeat", tool, normal_args(calls[run[0]].args), tuple(calls[place].line for place in run), agent)
            for run in _dense(_without_progress(where, calls, turns.get((tool, args), []), every))
        )
    return loops


def _call(step: Step) -> tuple[str, str]:
    """What is asked, however it is put: a test is the same test with other flags for what it tells."""
    args = normal_args(step.args)
    if step.phase == "test":
        args = _SPACE.sub(" ", _TELLING.sub(" ", args)).strip()
    return step.name, f"{args}\0{step.offset}" if step.offset else args


def _without_progress(where: list[int], calls: list[Step], own: list[int], every: list[int]) -> list[list[int]]:
    """`where` in runs without progress; `own` and `every` are the turns of this call and of all.

    A call that succeeds again after an edit that succeeded looks at new work. One that answered otherwise in between
    is worth asking again. An act that only says it is done (a click) got on where a look showed something new.
    """
    runs: list[list[int]] = [[]]
    for place in where:
        run = runs[-1]
        turns = every if calls[place].phase == "other" else own
        edited = run and calls[place].status == "ok" and any(map(_changed, calls[run[-1] + 1 : place]))
        if edited or (run and bisect_right(turns, place) > bisect_right(turns, run[-1])):
            runs.append([place])
        else:
            run.append(place)
    return runs


def _changed(step: Step) -> bool:
    return step.status == "ok" and (
        step.phase == "edit" or (step.phase == "run" and _SHELL_EDIT.search(step.args) is not None)
    )


def _dense(runs: list[list[int]]) -> list[list[int]]:
    """The parts of each run in which every REPEATS neighbours lie within WINDOW steps."""
    dense: list[list[int]] = []
    for run in runs:
        part: list[int] = []
        for at in range(len(run) - REPEATS + 1):
            group = run[at : at + REPEATS]
            if group[-1] - group[0] < WINDOW:
                part += [place for place in group if place not in part]
            elif part:
                dense.append(part)
                part = []
        if part:
            dense.append(part)
    return dense


def _cycles(agent: str | None, calls: list[Step]) -> list[Loop]:
    """The same command fails after each of CYCLE edits, or CYCLE edits of one file do not apply."""
    open_rounds: dict[tuple[str, str], list[int]] = {}
    loops: list[Loop] = []

    def close(key: tuple[str, str]) -> None:
        """End the rounds of `key`; they are a loop if there were enough of them."""
        places = open_rounds.pop(key, [])
        if len(places) >= CYCLE and not _mending([calls[place] for place in places]):
            first = calls[places[0]]
            args = key[1] if first.phase == "edit" else normal_args(first.args)
            loops.append(Loop("edit-fail", first.name, args, tuple(calls[place].line for place in places), agent))

    last_edit = -1
    for place, step in enumerate(calls):
        if _changed(step):
            last_edit = place
            close(("edit", step.path or normal_args(step.args)))
            continue
        if step.phase not in {"edit", "run", "test"}:
            continue
        key = ("edit", step.path or _file_of(step)) if step.phase == "edit" else _call(step)
        if not step.failed:
            close(key)
            continue
        rounds = open_rounds.setdefault(key, [])
        if rounds and place - rounds[-1] >= WINDOW:
            close(key)
            rounds = open_rounds.setdefault(key, [])
        if step.phase == "edit" or last_edit > (rounds[-1] if rounds else -1):
            rounds.append(place)
    for key in list(open_rounds):
        close(key)
    return loops


def _mending(rounds: list[Step]) -> bool:
    """Whether the rounds get on: each left fewer failures than the one before, or hardly any complaint came back."""
    complaints = {_NUMBER.sub("#", normal_result(step)) for step in rounds}
    if len(rounds) - len(complaints) < CYCLE - 1:
        return True
    counts = [int(match[1]) if (match := _FAILURES.search(step.output)) else None for step in rounds]
    told = [count for count in counts if count is not None]
    return len(told) == len(rounds) and all(later < earlier for earlier, later in itertools.pairwise(told))


def _file_of(step: Step) -> str:
    """The file an edit names: its summary is `path (N replacements)`."""
    return normal_args(step.args.split(" (", 1)[0])
