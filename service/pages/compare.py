"""Two tasks, agent sessions or captures side by side: what they were asked, answered and changed, verdicts and cost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from fastapi import APIRouter, Query, Request

from collector.collector import Collector
from service.pages.capture import began, content_of, judged, proof_of
from service.pages.diff import DiffLine, diff_lines
from service.pages.sessions import find_session, prompt_text
from service.pages.task import Page, diff_reader, find_task, render
from service.pages.values import Shown, line_of, shown, task_view
from service.state import ServiceState, state_of
from tracer.conversation import ConversationTracer
from tracer.errors import NotFoundError
from tracer.insights.agentic_trace import Trace, read_agentic, task_run
from tracer.insights.report import Measured, compare
from tracer.statedir import StateDir

router = APIRouter(include_in_schema=False)

Kind = Literal["tasks", "sessions", "captures"]
_MOST: Final = 50  # texts of one side


class Text(NamedTuple):
    """One text of a side, or a diff (`lines`)."""

    text: Shown = Shown("")
    lines: tuple[DiffLine, ...] = ()


class Side(NamedTuple):
    """One of two: `rows` are its facts by name, `texts` its texts; `run` is what its measures are taken from."""

    name: str
    href: str
    rows: Mapping[str, str]
    texts: Mapping[str, Text]
    run: Trace | None = None


@router.get("/compare")
async def compare_page(
    request: Request,
    a: Annotated[str, Query(max_length=200)] = "",
    b: Annotated[str, Query(max_length=200)] = "",
    pick: Annotated[list[str] | None, Query(max_length=100)] = None,
    kind: Kind = "tasks",
) -> Page:
    picked = [name.strip() for name in pick or (a, b)]
    problem, sides = "", []
    if pick is not None and len(pick) != 2:
        problem = f"{len(pick)} are ticked; two can be compared"
    elif all(picked):
        try:
            sides = [await _side(state_of(request), kind, name) for name in picked]
        except NotFoundError as error:
            problem = error.what
    runs = [side.run for side in sides if side.run is not None]
    told = compare(runs[:1], runs[1:]) if len(runs) == 2 else None
    units = {"share", "s", "USD"}
    measures = [
        (f"{row.measure}, {row.unit}" if row.unit in units else row.measure, _value(row.a), _value(row.b))
        for row in (told.rows if told else ())
    ]
    page = render(
        "compare.html",
        kind=kind,
        a=next(iter(picked), ""),
        b=next(iter(picked[1:]), ""),
        problem=problem,
        sides=sides,
        rows=list(dict.fromkeys(name for side in sides for name in side.rows)),
        texts=list(dict.fromkeys(name for side in sides for name in side.texts)),
        measures=measures,
    )
    return Page(page, status_code=422 if problem and not sides and pick is not None else 200)


def _value(measured: Measured) -> str:
    return "not told" if measured.median is None else f"{measured.median:,.4g}"


async def _side(state: ServiceState, kind: Kind, name: str) -> Side:
    if kind == "captures":
        return await _capture(state.collector, name)
    return await asyncio.to_thread(_task if kind == "tasks" else _session, state.state_dir, name)


def _task(state_dir: StateDir, task_id: str) -> Side:
    entries = ConversationTracer.read_trace(find_task(state_dir, task_id).path)
    view = task_view(entries, diff_of=diff_reader(state_dir))
    rejected = [f"[{each.index}] {each.summary}" for each in view.iterations if each.judgment == "REJECT"]
    rows = {
        "Title": view.title,
        "Status": f"{view.status} {view.reason}".strip(),
        "Not verified": view.unverified,
        "Agent": view.executor,
        "Verdicts": ", ".join(view.verdicts),
        "Rejected for": "\n".join(rejected),
        "Tokens": "" if view.tokens is None else f"{view.tokens:,}",
        "Cost": "" if view.cost_usd is None else f"${view.cost_usd:,.2f}",
        "Time": f"{view.duration_s:.1f} s",
        "Files": "\n".join(view.files),
    }
    texts = {"Request": Text(view.request)}
    for each in view.iterations[:_MOST]:
        name = f"iteration {each.index}" + (f" of {each.subtask_id}" if each.subtask_id else "")
        texts |= {f"Prompt of {name}": Text(each.prompt), f"Answer of {name}": Text(each.output)}
        texts[f"Changes of {name}"] = Text(lines=each.diff)
    run = task_run(task_id, entries, project=state_dir.project)
    return Side(task_id, f"/tasks/{task_id}", rows, _filled(texts), run)


def _session(state_dir: StateDir, name: str) -> Side:
    row = find_session(state_dir, name)
    trace = read_agentic(Path(row.path))
    said = [step.text for step in trace.steps if step.kind == "message"]
    calls = [f"{'✗ ' if step.failed else ''}{step.name} {step.args}" for step in trace.steps if step.kind == "tool"]
    outcome = "not told" if row.success is None else "ok" if row.success else "failed"
    rows = {"Session": row.label, "Agent": f"{row.provider} {row.model}", "Outcome": outcome, "Ended (UTC)": row.ts}
    thoughts = "\n\n".join(step.text for step in trace.steps if step.kind == "thought")
    texts = {
        "Asked": Text(shown(prompt_text(state_dir, row.prompt))),
        "Last message": Text(shown(said[-1] if said else "")),
        "Thoughts": Text(shown(thoughts)),
        "Tool calls": Text(shown("\n".join(calls))),
    }
    return Side(name, f"/agentic/{name}", rows, _filled(texts), trace)


async def _capture(collector: Collector, name: str) -> Side:
    metadata = await collector.metadata(name.lower())
    qa, final, report = metadata["qa"] or {}, metadata["final_state"] or {}, metadata["task"]["bug_report"]
    proof, scores = proof_of(qa.get("tests")), judged(qa.get("judge"), rationale="", seqs={})
    rows = {
        "Bug": line_of(report["title"]),
        "Repository": f"{metadata['repo']['repo_id']} at {metadata['repo']['commit_base'][:12]}",
        "Developer": line_of(metadata["developer"]["developer_id"]),
        "Status": metadata["status"],
        "Began (UTC)": await began(collector, metadata),
        "Events": f"{metadata['event_count']:,}",
        "Tests": f"{proof.outcome}: {proof.sentence}" if proof else "",
        "Judge": f"{scores.overall:.1f} of 5" if scores and scores.overall is not None else "",
        **({score.name: f"{score.value:.1f}" for score in scores.scores if score.value is not None} if scores else {}),
    }
    diff_id = (final.get("pr") or {}).get("diff_blob_id")
    diff = (await content_of(collector, diff_id)).text if diff_id else None
    texts = {
        "Bug report": Text(shown(report.get("description"))),
        "Pull request": Text(shown((final.get("pr") or {}).get("description"))),
        "The whole change": Text(lines=diff_lines(diff.expandtabs(4).rstrip("\n")) if diff else ()),
    }
    return Side(name, f"/captures/{metadata['trace_id']}", rows, _filled(texts))


def _filled(texts: Mapping[str, Text]) -> dict[str, Text]:
    return {name: text for name, text in texts.items() if text.lines or text.text.text}
