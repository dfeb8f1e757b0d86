"""`pm sessions insights`: where agents went in circles and what failed; `pm compare`: two runs or groups."""

from __future__ import annotations

import asyncio
import re
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from repl.context import Context
from repl.present.text import count_text, escape, one_line, width_cut
from tracer.clock import seconds_text, since_iso
from tracer.distill.stored import stored_at
from tracer.errors import NotFoundError, UsageError
from tracer.insights.agentic_trace import Trace, judgments, read_agentic, task_run, trace_of_capture
from tracer.insights.loops import Loop
from tracer.insights.report import (
    TOO_FEW,
    Comparison,
    FailedCommand,
    Insights,
    Measured,
    Omen,
    PhaseShare,
    Rejections,
    compare,
    insights,
)

_NEWEST = 200
_SHOWN = 10
_ARGS = 60
_THOUGHT = 100
_TASK = re.compile(r"task-\S+|#?\d{1,5}")
_SHA = re.compile(r"(?:sha256:)?([0-9a-f]{6,64})")


def show_insights(context: Context, arguments: Namespace) -> None:
    since = since_iso(arguments.since) if arguments.since else None
    if arguments.traces:
        if since or arguments.op:
            raise UsageError(
                "traces by name and --since or --op exclude each other", next_step="pm sessions insights --since 7d"
            )
        paths = [path for name in arguments.traces for path in named_traces(context, name)]
        judged: Iterable[Path] = ()
    else:
        paths = _newest(context, since, arguments.op)
        judged = () if arguments.op else sorted(context.state_dir.traces.glob("conversation-*.jsonl"))
    told = insights((read_agentic(path) for path in paths), judgments(judged, since=since))
    _print(context, told)
    if not told.traces:
        context.output.note("  next:  pm distill --latest   makes the trace of an agent's own session")
    context.output.result("sessions insights", told.to_dict())


def _newest(context: Context, since: str | None, operation: str | None) -> list[Path]:
    from tracer.catalog.agentic import TraceQuery, find_traces

    rows = find_traces(context.state_dir, TraceQuery(since=since, operation=operation), limit=_NEWEST + 1)
    if len(rows) > _NEWEST:
        context.output.note(f"the newest {_NEWEST} traces; --since and --op choose others")
    return [Path(row.path) for row in rows[:_NEWEST]]


def show_session(context: Context, arguments: Namespace) -> None:
    traces = [read_agentic(path) for path in named_traces(context, arguments.trace)]
    for trace in traces:
        context.output.lines(_told(trace, whole=arguments.thoughts))
    shown = [{"name": it.name, "meta": dict(it.meta), "steps": [asdict(step) for step in it.steps]} for it in traces]
    context.output.result("sessions show", {"traces": shown})


def _told(trace: Trace, *, whole: bool) -> list[str]:
    """A session to read: thoughts and messages as they are, a line a call, the output of what failed.

    `whole`: the thoughts alone.
    """
    ending = {True: "ok", False: "failed", None: "outcome unknown"}[trace.success]
    head = [str(trace.meta.get(key) or "") for key in ("provider", "model", "label")]
    lines = [one_line(" · ".join(part for part in (trace.name, *head, ending) if part)), ""]
    began = next((step.seconds for step in trace.steps if step.seconds is not None), 0)
    for step in trace.steps:
        if whole and step.kind != "thought":
            continue
        at = "" if step.seconds is None else f"+{seconds_text((step.seconds - began) * 1000)}"
        failed = "failed" if step.failed else ""
        name = step.name if step.kind == "tool" else step.kind
        said = width_cut(one_line(step.args or step.path), _THOUGHT)
        lines.append(f"{step.line:>5} {at:>12}  {one_line(name)}  {said}  {failed}".rstrip())
        text = step.output if step.failed else step.text
        lines += [f"{'':20}{escape(line)}" for line in text.splitlines()]
    return [*lines, ""]


def named_traces(context: Context, name: str) -> list[Path]:
    """The traces `name` means: a file, or a name (wildcards allowed) in the folder of agentic traces."""
    folder = context.state_dir.agentic_traces
    for path in (context.path(name), stored_at(folder / Path(name).name)):
        if path.is_file():
            return [path]
    found = [path for path in sorted(folder.glob("*.jsonl")) if fnmatchcase(path.name, f"{name}*")]
    if not found:
        raise NotFoundError(
            f"no trace {name!r}", why=f"no such file, and none in {folder}", next_step="pm sessions find"
        )
    return found


def _print(context: Context, told: Insights) -> None:
    output = context.output
    failed = f", {told.failed} failed" if told.failed else ""
    damaged = f", {count_text(told.damaged, 'damaged line')} left out" if told.damaged else ""
    output.line(f"{count_text(told.traces, 'trace')}{failed}{damaged}")
    _section(context, "loops", [_loop(name, loop) for name, loop in told.loops] or ["none found"] * bool(told.traces))
    _section(context, "what failed most", [_failed(row) for row in told.failed_commands])
    _section(context, "thoughts before a failure", [_omen(omen) for omen in told.omens])
    title = "time and output tokens by phase (tokens shared out by characters, an estimate)"
    _section(context, title, [_phase(share) for share in told.phases])
    _section(context, "criteria that reject most", [_rejection(row) for row in told.rejections if row.rejected])


def _loop(name: str, loop: Loop) -> str:
    return f"{loop.times:>3} x {loop.kind:<9}  {_call(loop.tool, loop.args)}  {one_line(name)}:{loop.lines[0]}"


def _failed(row: FailedCommand) -> str:
    where = count_text(row.traces, "trace")
    return f"{row.failed:>3} of {count_text(row.calls, 'call')}, {where}  {_call(row.tool, row.args)}"


def _omen(omen: Omen) -> str:
    thought = width_cut(one_line(omen.thought), _THOUGHT)
    return f"{one_line(omen.trace)}:{omen.line}  {_call(omen.tool, omen.args)}\n      {thought}"


def _phase(share: PhaseShare) -> str:
    tokens = "?" if share.output_tokens is None else f"{share.output_tokens:,}"
    return f"{share.phase:<6}  {share.seconds:>7,} s  {share.calls:>5,} calls  {tokens:>9} tokens"


def _rejection(row: Rejections) -> str:
    reason = width_cut(one_line(row.last_reason), _ARGS)
    return f"{row.rejected:>3} of {row.judged}  {row.criterion} {one_line(row.name)}  {reason}"


def _section(context: Context, title: str, lines: list[str]) -> None:
    if not lines:
        return
    context.output.line()
    context.output.line(context.output.bold(title))
    context.output.lines([f"  {line}" for line in lines[:_SHOWN]])
    if len(lines) > _SHOWN:
        context.output.line(f"  and {len(lines) - _SHOWN} more; --json has all")


def _call(tool: str, args: str) -> str:
    return f"{one_line(tool)}  {width_cut(one_line(args), _ARGS)}"


async def compare_runs(context: Context, arguments: Namespace) -> None:
    a, b = [await _side(context, name) for name in (arguments.a, arguments.b)]
    told = compare(a, b)
    _print_comparison(context, told, arguments.a, arguments.b)
    context.output.result("compare", told.to_dict())


async def _side(context: Context, name: str) -> list[Trace]:
    try:
        return await asyncio.to_thread(_runs, context, name)
    except NotFoundError:
        if (captured := await _captured(context, name)) is None:
            raise
        return [captured]


async def _captured(context: Context, name: str) -> Trace | None:
    """The capture of this id or beginning of one, from this machine or the collector."""
    import orjson  # 5 ms, with the rest only for captures

    from collector.client.spool import find_spool
    from repl.commands.captures.collector import find_row, opened_collector

    try:
        path = find_spool(context.state_root, name).events_path
        return trace_of_capture(name, map(orjson.loads, path.read_bytes().splitlines()))
    except (NotFoundError, OSError):
        pass
    try:
        async with opened_collector(context) as collector:
            row = await find_row(collector.store, name)
            events: list[dict[str, Any]] = []
            after = 0
            while page := (await collector.events_page(row.trace_id, after=after)).events:
                events += [orjson.loads(stored.body) for stored in page]
                after = page[-1].seq
            return trace_of_capture(name, events)
    except NotFoundError:
        return None


def _runs(context: Context, name: str) -> list[Trace]:
    if _TASK.fullmatch(name):
        from tracer.journal.reading import scan

        task = context.task(name)
        return [task_run(task.task_id, scan(task.path).entries, project=context.state_dir.project)]
    match = _SHA.fullmatch(name)
    if match is not None and not (context.folder / name).is_file():
        paths = sorted(context.state_dir.agentic_traces.glob("trace_*.jsonl"))
        traces = [trace for path in paths if _asked(trace := read_agentic(path), match[1])]
        if traces:
            return traces
        raise NotFoundError(
            f"no trace of the prompt {name!r}",
            why="no meta line has a prompt_sha256 that begins so",
            next_step="pm sessions find lists the traces; their first line holds prompt_sha256",
        )
    return [read_agentic(path) for path in named_traces(context, name)]


def _asked(trace: Trace, beginning: str) -> bool:
    told = trace.meta.get("prompt_sha256")
    return isinstance(told, str) and told.removeprefix("sha256:").startswith(beginning)


def _print_comparison(context: Context, told: Comparison, a: str, b: str) -> None:
    output = context.output
    output.line(f"A: {one_line(a)}  ({count_text(told.a_runs, 'run')})")
    output.line(f"B: {one_line(b)}  ({count_text(told.b_runs, 'run')})")
    output.line()
    cells = [(row.measure, _value(row.a, row.unit), _value(row.b, row.unit), row.verdict) for row in told.rows]
    table = [("", "A: median [95 %]", "B: median [95 %]", "B against A"), *cells]
    first, second, third = (max(len(line[column]) for line in table) for column in range(3))
    output.lines([f"{line[0]:<{first}} {line[1]:<{second}} {line[2]:<{third}} {line[3]}" for line in table])
    if any(row.verdict == TOO_FEW for row in told.rows):
        output.note(f"{TOO_FEW}: under 5 a side, a difference says nothing about the prompts")


def _value(measured: Measured, unit: str) -> str:
    if measured.median is None:
        return "not told"
    interval = ""
    if measured.low is not None and measured.high is not None:
        interval = f" [{_figure(measured.low)} to {_figure(measured.high)}]"
    return f"{_figure(measured.median)}{interval} {unit if unit in {'s', 'USD'} else ''} n={measured.n}".replace(
        "  ", " "
    )


def _figure(value: float) -> str:
    """Four digits that tell, and no exponent: 24,810 or 0.01234."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
