"""`pm capture qa`, `… status` and `… show`: run the quality checks of a captured session, show their results."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from repl.commands.captures.collector import find_row, opened_collector
from repl.commands.captures.judge import find_judge
from repl.exit_codes import code_of
from repl.present.text import age_text, count_text, one_line
from tracer.clock import now_epoch_ms
from tracer.errors import LockedError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collector.collector import Collector
    from collector.final.qa_facts import Step, StepFacts
    from repl.context import Context
    from tracer.capture.document import Qa

_ROWS: Final = 20
_OF_SOURCE: Final = frozenset({"consent", "no_source", "no_patch", "patch_does_not_apply", "redacted"})
_VERDICTS: Final = {
    "proven": "proven: the tests fail without the fix and pass with it, every time",
    "passes_at_base": "not proven: the tests pass without the fix too",
    "fails_at_head": "the tests fail with the fix",
    "flaky": "not proven: the same code passes and fails",
    "unchanged": "not proven: the session changed nothing",
    "no_report": "not proven: the tests ended well without the report that they owe",
    "steered": "not proven: the fix changed what decides over its tests",
}


async def qa(context: Context, arguments: Namespace) -> int:
    from collector.qa.pipeline import assign_profile, note_alternatives, request_step, run_qa
    from collector.qa.sandbox.choose import SandboxChooser
    from collector.qa.settings import qa_settings

    chosen = qa_settings(context.settings(), cache=context.state_dir.root / "qa-cache")
    profile = _profile(context, arguments.profile)
    given = _alternatives(context, arguments.alternative or ())
    if given and arguments.where is not None:
        raise UsageError("--alternative is for one trace", next_step="name the trace instead of --where")
    if arguments.where is not None and arguments.trace is not None:
        raise UsageError("a trace and --where exclude each other", next_step="give one of them")
    results: list[dict[str, Any]] = []
    held: list[LockedError] = []
    async with opened_collector(context, create=True) as collector:
        judge, why = find_judge(context)
        sandbox = SandboxChooser(chosen.sandbox, pull=chosen.pull)
        try:
            for trace_id in await _chosen(collector, arguments):
                if profile is not None:
                    await assign_profile(collector, trace_id, profile, approved=True)
                if given:
                    await note_alternatives(collector, trace_id, given)
                if arguments.again:
                    await collector.request_qa(trace_id)
                for step in arguments.step or ():
                    await request_step(collector, trace_id, step)
                if arguments.where is not None:
                    context.output.line(f"capture {trace_id}")
                checks = run_qa(
                    trace_id,
                    collector=collector,
                    settings=chosen,
                    judge=judge,
                    sandbox=sandbox,
                    progress=lambda text: context.output.note(one_line(text)),
                    no_judge=why or "no judge is set up",
                )
                noted = bool(profile is not None or given or arguments.again or arguments.step)
                found = await _unless_held(checks, held if arguments.where is not None else None, noted=noted)
                if found is None:
                    context.output.line("another process checks it now")
                    continue
                status = (await collector.row(trace_id)).status
                shown = found.model_dump(mode="json")
                no_score = await _why_no_score(collector, shown)
                print_results(context, shown, table=arguments.table, no_score=no_score)
                if status == "qa_failed" and not shown["tests"]["not_testable"]:
                    context.output.line("the checks could not be made now; this is what earlier ones found")
                results.append({"trace_id": trace_id, "status": status, "qa": shown})
        finally:
            if judge is not None:
                await judge.close()
    context.output.result("capture qa", results[0] if arguments.where is None else {"captures": results})
    codes = [_exit_code(each["qa"]["tests"], each["status"]) for each in results]
    return max([*codes, *(int(code_of(error.code)) for error in held)])


async def _unless_held(checks: Awaitable[Qa], held: list[LockedError] | None, *, noted: bool) -> Qa | None:
    """What the checks find; None, and the error in `held`, where another process makes them: of many the others go on.

    `noted`: that process makes another run of them, for what was given here.
    """
    try:
        return await checks
    except LockedError as error:
        if noted:
            error.next_step = "what you gave is noted: another run follows that one by itself; pm capture qa show TRACE"
        if held is None:
            raise
        held.append(error)
        return None


def _exit_code(tests: dict[str, Any], status: str) -> int:
    """Where the checks could not be made, what earlier ones found is no answer."""
    code = {"sandbox": 9, "source_unavailable": 5}.get(tests["not_testable"] or "", 9 if status == "qa_failed" else 0)
    return code or int(not tests["final_passed"])


def _profile(context: Context, text: str | None) -> str | dict[str, Any] | None:
    """What `--profile` says: `repository`, `recorded`, or the `[qa]` of a file."""
    from collector.qa.profiles import Refusal, read_profile, repository_profile

    if text is None or text in {"repository", "recorded"}:
        return text
    path = context.folder / text
    try:
        found = repository_profile(path.read_bytes(), name=text)
    except OSError as error:
        next_step = "--profile repository, recorded, or a file with a [qa] table"
        raise UsageError(f"the profile {text!r} cannot be read", why=error, next_step=next_step) from error
    if not isinstance(found, Refusal):
        profile = read_profile(found, name=text)
        if not isinstance(profile, Refusal):
            return found
        found = profile
    raise UsageError(f"the profile {text!r} cannot be used", why=found.detail, next_step="docs/qa.md has its keys")


def _alternatives(context: Context, names: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in names:
        try:
            found[name.rpartition("/")[2]] = (context.folder / name).read_bytes()
        except OSError as error:
            why, next_step = str(error.strerror), "--alternative FILE.patch, a diff of the base"
            raise UsageError(f"the alternative {name!r} cannot be read", why=why, next_step=next_step) from error
    return found


async def _chosen(collector: Collector, arguments: Namespace) -> list[str]:
    if arguments.where is None:
        return [await find_capture(collector, arguments.trace)]
    from collector.handover.export_filter import check_stated
    from collector.handover.sets import choose

    chosen, _ = await choose(check_stated(arguments.where), collector.store)
    if not chosen:
        raise NotFoundError("no finalized capture fulfils the condition", next_step="pm capture list")
    return chosen


async def find_capture(collector: Collector, text: str | None) -> str:
    """The trace with this id or this beginning of one; the newest without.

    Raises NotFoundError: none, or more than one.
    """
    if text:
        return (await find_row(collector.store, text)).trace_id
    for row in await collector.store.list_traces(after=None, limit=1):
        return row.trace_id
    raise NotFoundError("no capture is stored here", next_step="pm capture list")


async def _why_no_score(collector: Collector, shown: dict[str, Any]) -> str:
    judge = shown["judge"] or {}
    if judge.get("overall") is not None or not judge.get("rationale_blob_id"):
        return ""
    with suppress(NotFoundError):  # gone with the consent to it
        return (await collector.contents.read(judge["rationale_blob_id"])).decode("utf-8", "replace")
    return ""


def print_results(context: Context, shown: dict[str, Any], *, table: bool, no_score: str = "") -> None:
    """Print a trace's `qa`: schema, proof and scores, or why there are none; with `table` every test."""
    output, tests = context.output, shown["tests"]
    output.line(f"schema  {'valid' if shown['schema_valid'] else 'NOT VALID'}")
    if tests["not_testable"]:
        output.line(f"tests   not testable: {tests['not_testable']}")
        output.note(f"        {one_line(str(tests['detail'].get('why', '')))}")
    else:
        _print_proof(context, tests, table=table)
    if refused := tests["detail"].get("refused"):
        what = "a later run tested nothing" if refused["reason"] in _OF_SOURCE else "a later profile was not taken"
        output.line(f"        {what}: {refused['reason']}")
        output.note(f"        {one_line(str(refused['why']))}")
    judge = shown["judge"]
    if judge is not None:
        overall = "no scores" if judge["overall"] is None else f"{judge['overall']:.1f} overall"
        flags = f"  ({', '.join(judge['flags'])})" if judge["flags"] else ""
        output.line(f"judge   {overall}{flags}")
        if no_score:
            output.line(f"        {one_line(no_score)}")


def _print_proof(context: Context, tests: dict[str, Any], *, table: bool) -> None:
    output, proof, box = context.output, tests["detail"]["proof"], tests["detail"]["sandbox"]
    passed = sum(run["passed"] for run in tests["invocations"] if run["phase"] == "head")
    output.line(f"tests   {_VERDICTS[proof['verdict']]}")
    output.line(f"        {passed} of {proof['repeats']} runs passed with the fix, in {box['name']} {box['version']}")
    if box["lesser"]:
        output.line(f"        a lesser sandbox: it lacks {', '.join(box['lacks'])}")
    if proof.get("flags") and not proof.get("trials"):
        output.line(f"        {', '.join(proof['flags'])}")
    if proof["level"] == "run":
        output.line("        no report of single tests: exit codes alone were compared")
        return
    counts = proof["counts"]
    output.line(
        f"        {count_text(counts['tests'], 'test')}: {counts['fail_to_pass']} fixed, "
        f"{counts['pass_to_pass']} passed before, {counts['pass_to_fail']} broken, {counts['flaky']} flaky"
    )
    if trials := proof.get("trials"):
        noticed = f"{trials['noticed']} of {count_text(trials['faults'], 'planted fault')} noticed"
        flags = f"  ({', '.join(proof['flags'])})" if proof["flags"] else ""
        output.line(f"        {noticed}, {len(trials['cheated'])} of {trials['cheats']} cheats pass{flags}")
        for name, told in (("refused", "refused though right"), ("not_applied", "does not apply to the base")):
            if names := trials.get(name):
                output.line(f"        {told}: {one_line('; '.join(names))}")
    rows = proof["tests"]
    if not table:
        rows = [row for row in rows if row["touched"] or row["flaky"] or row["before"] != row["after"]][:_ROWS]
    for row in rows:
        mark = " *" if row["touched"] else ""
        output.line(f"          {row['before']:>8} -> {row['after']:<8} {one_line(row['id'])}{mark}")
    if any(row["touched"] for row in rows):
        output.line("        * in a file that the fix changed")


async def show(context: Context, arguments: Namespace) -> None:
    from collector.final.document import shown_qa

    async with opened_collector(context, create=True) as collector:
        trace_id = await find_capture(collector, arguments.trace)
        row = await collector.row(trace_id)
        found = shown_qa(await collector.store.qa_facts(trace_id))
        why = await _why_no_score(collector, found) if found is not None else ""
    if found is None:
        context.output.line(f"no check of {trace_id[:8]} has a result yet ({row.status})")
        context.output.note(_next(trace_id, row.status))
    else:
        print_results(context, found, table=arguments.table, no_score=why)
    context.output.result("capture qa show", {"trace_id": trace_id, "status": row.status, "qa": found})


async def status(context: Context, arguments: Namespace) -> None:
    from collector.final.qa_facts import STEPS, StepFacts

    async with opened_collector(context, create=True) as collector:
        trace_id = await find_capture(collector, arguments.trace)
        row = await collector.row(trace_id)
        facts = StepFacts(await collector.store.qa_facts(trace_id))
    steps = [_state(facts, step) for step in STEPS]
    now_ms = now_epoch_ms()
    context.output.line(f"capture      {trace_id}  {row.status}")
    for step in steps:
        age = f"{age_text(now_ms - step['at_ms'])} ago".replace("now ago", "now") if step["at_ms"] else ""
        context.output.line(f"{step['step']:<12} {step['state']:<20} {age}".rstrip())
    if row.status != "complete" or any(step["state"] == "due again" for step in steps):
        context.output.note(_next(trace_id, row.status))
    context.output.result("capture qa status", {"trace_id": trace_id, "status": row.status, "steps": steps})


def _state(facts: StepFacts, step: Step) -> dict[str, Any]:
    latest = facts.latest(step)
    if latest is None:
        state = "not done"
    elif facts.asked_since(step):
        state = "due again"
    else:
        judged = latest.result.get("judge") or {}
        skipped = "judge_skipped" in (judged.get("flags") or ())
        state = "could not be made" if ":trouble-" in latest.input_hash else "skipped" if skipped else "done"
    return {"step": step, "state": state, "at_ms": latest.ts_ms if latest is not None else None}


def _next(trace_id: str, capture_status: str) -> str:
    verb = "finalize it first: pm capture finalize" if capture_status == "open" else "pm capture qa"
    return f"  next:  {verb} {trace_id[:8]}"
