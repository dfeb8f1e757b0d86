"""`pm qa status|show TRACE`: what the quality checks of a captured session came to. Nothing is run or changed."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from repl.commands.capture_qa import find_capture, print_results
from repl.present.words import age_text

if TYPE_CHECKING:
    from collector.qa.pipeline_facts import Step, StepFacts
    from repl.commands.context import Context

__all__ = ["show", "status"]


async def show(context: Context, arguments: Namespace) -> int:
    """The results, as the last run left them."""
    from collector.opening import open_collector  # as in `capture_qa`
    from collector.shown import shown_qa

    async with open_collector(context.state_dir, context.settings(), environ=context.environ) as collector:
        trace_id = await find_capture(collector, arguments.trace)
        row = await collector.row(trace_id)
        found = shown_qa(await collector.store.qa_facts(trace_id))
    if found is None:
        context.output.line(f"no check of {trace_id[:8]} has a result yet ({row.status})")
        context.output.note(_next(trace_id, row.status))
    else:
        print_results(context, found, table=arguments.table)
    context.output.result("qa show", {"trace_id": trace_id, "status": row.status, "qa": found})
    return 0


async def status(context: Context, arguments: Namespace) -> int:
    """Which steps are done."""
    from collector.opening import open_collector
    from collector.qa.pipeline_facts import STEPS, StepFacts
    from tracer.clock import now_epoch_ms

    async with open_collector(context.state_dir, context.settings(), environ=context.environ) as collector:
        trace_id = await find_capture(collector, arguments.trace)
        row = await collector.row(trace_id)
        facts = StepFacts(await collector.store.qa_facts(trace_id))
    steps = [_state(facts, step) for step in STEPS]
    now_ms = now_epoch_ms()
    context.output.line(f"capture      {trace_id}  {row.status}")
    for step in steps:
        age = f"{age_text(now_ms - step['at_ms'])} ago" if step["at_ms"] else ""
        context.output.line(f"{step['step']:<12} {step['state']:<20} {age}".rstrip())
    if row.status != "complete" or any(step["state"] == "due again" for step in steps):
        context.output.note(_next(trace_id, row.status))
    context.output.result("qa status", {"trace_id": trace_id, "status": row.status, "steps": steps})
    return 0


def _state(facts: StepFacts, step: Step) -> dict[str, Any]:
    latest = facts.latest(step)
    if latest is None:
        state = "not done"
    elif facts.asked_since(step):
        state = "due again"
    else:
        state = "could not be made" if ":trouble-" in latest.input_hash else "done"
    return {"step": step, "state": state, "at_ms": latest.ts_ms if latest is not None else None}


def _next(trace_id: str, capture_status: str) -> str:
    verb = "finalize it first: pm capture finalize" if capture_status == "open" else "pm qa run"
    return f"  next:  {verb} {trace_id[:8]}"
