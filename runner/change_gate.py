"""Judges a change that anybody made, by the same verdict as a task's (invariant 14), and keeps each verdict on record.

The record is `gate.jsonl` in the state directory: one line for each verdict with the change it is about (base and
tree), so that `pm gate --status` can tell what holds. It has places and messages, no excerpts: those may be secrets.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.gate.criterion import Criterion, Evidence, Finding, Place, Verdict, finding_of
from runner.gate.verdict import LISTED, criteria_in_force, judge, team_criteria
from tracer import durable
from tracer.clock import now_iso
from tracer.drafts import quality_judgment
from tracer.errors import ConfigError, RecordError
from tracer.facts import QualityJudgment, Unverified
from tracer.names import Verification
from tracer.verification import NO_TESTS, unverified_in, verification_of

if TYPE_CHECKING:
    from runner.core.request import Request
    from runner.workspace.changes import Changes
    from runner.workspace.workspace import Workspace
    from tracer.statedir import StateDir

# What is judged by an answer and by what came before a task: a change alone has neither.
_OF_TASKS = frozenset({"Q1", "Q6", "Q10"})
_FAST = Unverified(criterion="Q7", why="--fast runs no commands", next="pm gate")
_LAST_BYTES = 1 << 20


class Gated(NamedTuple):
    """The verdict on a change as every form of output tells it."""

    verdict: Verdict
    verification: Verification
    not_verified: tuple[Unverified, ...]
    fast: bool = False

    @property
    def passed(self) -> bool:
        """Whether nothing failed and nothing was left unchecked but what `--fast` leaves out."""
        return self.verification == "verified" or (self.fast and self.not_verified == (_FAST,))

    @property
    def exit_code(self) -> int:
        """0 verified, 1 failed, 6 not verified."""
        return 1 if self.verification == "failed" else 0 if self.passed else 6

    @classmethod
    def of(cls, verdict: Verdict, *, fast: bool = False) -> Gated:
        """The same reading of a verdict as of a task's record."""
        draft = quality_judgment(
            verdict.judgment, verdict.criteria_results, verdict.summary, iteration_index=0, subtask_id=None
        )
        judged = QualityJudgment("", "QUALITY_JUDGMENT", "", "", draft.data)
        untested = not any(result.id == "Q7" for result in judged.criteria_results)
        lacking = (_FAST if fast else NO_TESTS,) if untested else ()
        return cls(verdict, verification_of([judged]), (*unverified_in([judged]), *lacking), fast)


def judge_fast(
    changes: Changes,
    *,
    options: Mapping[str, Any],
    known: frozenset[str],
    of_task: bool = False,
    whole: bool = False,
) -> Gated:
    """The verdict without commands: what structure, syntax and words show.

    `of_task`: what it harmed counts too. `whole`: no list of places is cut.
    """
    evidence = Evidence(
        request="",
        answer="",
        files=changes.files,
        diff=changes.diff,
        protected_changes=changes.protected,
        lost_records=changes.lost,
        harm=changes.harm,
        options=options,
    )
    criteria = criteria_in_force(team=[one for one in team_criteria() if not one.waits])
    applied = chosen(criteria, known=known, of_task=of_task)
    return Gated.of(judge(evidence, applied, listed=None if whole else LISTED), fast=True)


async def judge_change(
    workspace: Workspace,
    changes: Changes,
    *,
    base: str,
    request: Request,
    state_dir: Path,
    known: frozenset[str],
    of_task: bool = False,
) -> Gated:
    """The verdict with tests, lint and type checks, as a task gets it."""
    from runner.core.state import NO_ANSWER, TaskState  # 250 ms: the fast verdict does without
    from runner.core.steps import Judge
    from runner.judging import judge_answer, open_trials

    trials = open_trials(workspace, request=request, state_dir=state_dir, task_id="gate")
    try:
        verdict = await judge_answer(
            TaskState(task_id="gate", request=request),
            Judge(0, NO_ANSWER, base),
            request=request,
            changes=changes,
            state_dir=state_dir,
            base=base,
            trials=trials,
            choose=lambda criteria: chosen(criteria, known=known, of_task=of_task),
        )
    finally:
        await trials.close()
    return Gated.of(verdict)


def chosen(criteria: Iterable[Criterion], *, known: frozenset[str], of_task: bool) -> tuple[Criterion, ...]:
    """Those that a change alone can be judged by; places whose marks are `known` were there before."""
    left_out = _OF_TASKS - {"Q10"} if of_task else _OF_TASKS
    kept = [one for one in criteria if one.id not in left_out]
    return tuple(one._replace(check=_forgiving(one.check, known)) if known and not one.waits else one for one in kept)


def _forgiving(check: Callable[..., Any], known: frozenset[str]) -> Callable[[Evidence], Finding]:
    def forgive(evidence: Evidence) -> Finding:
        found: Finding = check(evidence)
        if found.passed or not any(_mark(place) in known for place in found.places):
            return found
        return finding_of(place._replace(preexisting=_mark(place) in known) for place in found.places)

    return forgive


def _mark(place: Place) -> str:
    return mark_of({"type": place.type, "path": place.path, "excerpt": place.excerpt, "message": place.message})


def mark_of(issue: Mapping[str, Any]) -> str:
    """What a finding is known by in a baseline file: its line may move."""
    from hashlib import sha256  # 4 ms, only for a baseline file

    told = [str(issue.get(key) or "") for key in ("type", "path", "excerpt")]
    return sha256(json.dumps(told if told[2] else [*told, str(issue.get("message"))]).encode()).hexdigest()[:24]


def read_marks(path: Path, text: bytes | None = None) -> frozenset[str]:
    """The findings that a baseline file holds; `text` is what a commit has of it."""
    try:
        return frozenset(map(str, json.loads(path.read_bytes() if text is None else text)["known"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{str(path)!r} is no baseline of the gate", why=str(error), next_step=f"pm gate --write-baseline {path}"
        ) from error


def write_marks(path: Path, issues: Iterable[Mapping[str, Any]]) -> int:
    """Keep what was found as known; returns how many findings."""
    marks = sorted({mark_of(issue) for issue in issues})
    try:
        durable.replace(path, json.dumps({"version": 1, "known": marks}, indent=1).encode() + b"\n", 0o644)
    except OSError as error:
        raise RecordError(f"cannot write {str(path)!r}", why=error) from error
    return len(marks)


def record(state_dir: StateDir, fact: Mapping[str, Any]) -> None:
    """Append one line to the gate's record; it is on the device when this returns."""
    line = json.dumps({"timestamp": now_iso(), "event": "GATE", **fact}, separators=(",", ":")).encode() + b"\n"
    try:
        handle = os.open(state_dir.ensure().root / "gate.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # of a writer that was killed
            durable.write_all(handle, b"\n" + line if torn else line)
            durable.sync_file(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise RecordError(
            "the gate's record cannot be written", why=error, next_step="free space, then again"
        ) from error


def records(state_dir: StateDir) -> Iterator[dict[str, Any]]:
    """The whole lines of the gate's record, the newest first."""
    try:
        with (state_dir.root / "gate.jsonl").open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LAST_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return
    for line in reversed(lines):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


class Standing(NamedTuple):
    """The verdict on the change that is there; `lacking` says why it does not hold for it."""

    fact: Mapping[str, Any]
    lacking: str = ""


def standing(known: Sequence[Mapping[str, Any]], tree: str, *, head: str) -> Standing | None:
    """What the record (`known`, the newest first) says of the change from `head` to `tree`; None: it is empty.

    A verdict on an empty change says nothing, one on a narrower change nothing of the wider: what failed stays failed
    until the same change, or one as wide, is judged again.
    """
    if not known:
        return None
    ended: set[Any] = set()
    for fact in known:
        if fact.get("tree"):
            ended.add(fact.get("task_id"))
            if fact["tree"] == tree and not _is_empty(fact):
                break
        elif fact.get("task_id") not in ended - {None}:
            return Standing(fact, "nothing could be judged since")
    return _standing(known, tree, head=head, seen=frozenset()) or Standing(known[0], "the files have changed since")


def _standing(known: Sequence[Mapping[str, Any]], tree: str, *, head: str, seen: frozenset[str]) -> Standing | None:
    newest: dict[tuple[str, bool], Mapping[str, Any]] = {}
    for fact in known:
        if fact.get("tree") == tree and not _is_empty(fact) and _base_tree(fact) not in seen:
            newest.setdefault((_base_tree(fact), bool(fact.get("fast"))), fact)
    # What runs no commands takes nothing away from what ran them.
    facts = [one for (base, fast), one in newest.items() if _failed(one) or not (fast and (base, False) in newest)]
    wide = [one for one in facts if "since" in one]  # against a commit: what a session changed is a part of that
    if wide:
        ran = [one for one in wide if not one.get("fast")]
        return Standing(next(filter(_failed, ran or facts), wide[0]))
    if not facts:
        return None
    fact = next(filter(_failed, facts), facts[0])
    base = _base_tree(fact)
    if _failed(fact) or head in {base, tree}:
        return Standing(fact)
    before = _standing(known, base, head=head, seen=seen | {tree})
    if before is None:
        return Standing(fact, "it is about what the session changed; what differed from HEAD before it was not judged")
    if _failed(before.fact):
        return Standing(before.fact, "only what changed since was judged again")
    return before if before.lacking else Standing(fact)


def _base_tree(fact: Mapping[str, Any]) -> str:
    return str(fact.get("base") or "").removeprefix("git:").partition("@")[0]


def _is_empty(fact: Mapping[str, Any]) -> bool:
    return _base_tree(fact) in {"", fact.get("tree")}


def _failed(fact: Mapping[str, Any]) -> bool:
    return fact.get("verification") == "failed"


def fact_of(gated: Gated, *, tree: str, base: str, by: str, **more: Any) -> dict[str, Any]:
    """A verdict as the record holds it."""
    verdict = gated.verdict
    told = ("criterion", "type", "message", "path", "line")
    results = [
        {key: one[key] for key in ("id", "name", "passed", "outcome") if key in one} for one in verdict.criteria_results
    ]
    return {
        "by": by,
        "tree": tree,
        "base": base,
        "fast": gated.fast,
        "judgment": verdict.judgment,
        "verification": gated.verification,
        "not_verified": [one.to_dict() for one in gated.not_verified],
        "criteria_results": results,
        "issues": [{key: issue[key] for key in told if key in issue} for issue in verdict.issues],
        **({"tests": dict(verdict.tests)} if verdict.tests else {}),
        **more,
    }
