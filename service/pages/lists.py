"""The lists of tasks, agent sessions and captures: filter bar, orders, columns that tell, totals, pages by cursor."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request

from collector.collector import Collector
from service.pages.capture import began, proof_of
from service.pages.charts import Plot, over_time
from service.pages.sessions import prompt_text
from service.pages.task import Page, render
from service.pages.values import line_of
from service.state import ServiceState, state_of
from tracer.catalog.agentic import AgenticRow
from tracer.catalog.labels import labels_told
from tracer.catalog.search import LABELLED, SESSIONS, TASKS, Found, Kind, search_rows, search_sessions, search_tasks
from tracer.catalog.tasks import TaskRow
from tracer.clock import from_epoch_ms, seconds_text
from tracer.errors import NotFoundError, PmError, UsageError
from tracer.statedir import StateDir

router = APIRouter(include_in_schema=False)

_PAGE: Final = 100
_CAPTURES: Final = 50
_ALL: Final = 10_000  # captures that a filter looks at
_VERDICTS: Final = {"PASS": ("✓", "good"), "REJECT": ("✗", "bad")}

Filter = Annotated[str, Query(max_length=500)]
Order = Annotated[str, Query(max_length=30)]
After = Annotated[str | None, Query(max_length=200)]

CAPTURES: Final = Kind(
    rows="select * from given",
    key="trace_id",
    tie="created_ms, trace_id",
    columns="trace_id",
    words={"status": "status", "repo": "repo", "developer": "developer", "tests": "tests", "mode": "mode"},
    numbers={"events": "events", "judge": "judge", "score": "score"},
    flags={"failed": "(status = 'qa_failed' or tests = 'failed')", "proven": "tests = 'passed'",
           "labelled": LABELLED},
    orders={"taken": "created_ms", "events": "events", "judge": "coalesce(judge, -1)", "title": "lower(title)",
            "repo": "repo", "status": "status"},
    updated="created",
    summed="events",
    totals={"count": "count(*)", "events": "sum(events)"},
    given=("trace_id", "title", "repo", "developer", "status", "mode", "events", "tests", "judge", "created_ms",
           "created", "texts", "score", "label_flags"),
)  # fmt: skip


class Cell(NamedTuple):
    """One cell: a text, a link, a tone for a badge, or marks (text and tone each)."""

    text: str
    href: str = ""
    badge: bool = False
    quiet: str = ""
    marks: tuple[tuple[str, str], ...] = ()


class Column(NamedTuple):
    """A column's head; `order` is what it is sorted by, `css` its class (`number`, `wide`)."""

    name: str
    order: str = ""
    css: str = ""


class Row(NamedTuple):
    """One row; `key` is what two of are compared by."""

    key: str
    cells: tuple[Cell, ...]


class Head(NamedTuple):
    """A column's head as a page shows it: where a click leads, and how it is sorted now (for `aria-sort`)."""

    name: str
    css: str
    href: str
    sorted: str


_TASK_COLUMNS: Final = (
    Column("Task", "number"), Column("Title", "title"), Column("Status", "status"), Column("Verdicts", "iterations"),
    Column("Agent", "agent", "wide"), Column("Tokens", "tokens", "number wide"), Column("Cost", "cost", "number wide"),
    Column("Time", "time", "number wide"), Column("Updated (UTC)", "updated", "wide when"),
)  # fmt: skip
_SESSION_COLUMNS: Final = (
    Column("Run label", "label"), Column("Asked"), Column("Agent", "model", "wide"), Column("Outcome"),
    Column("Tools", "tools", "number"), Column("Errors", "errors", "number wide"),
    Column("Thoughts", "thoughts", "number wide"), Column("Subagents", "", "number wide"),
    Column("Tokens", "tokens", "number wide"), Column("Cost", "cost", "number wide"),
    Column("Time", "time", "number wide"), Column("Ended (UTC)", "ended", "wide when"),
)  # fmt: skip
_CAPTURE_COLUMNS: Final = (
    Column("Bug", "title"), Column("Repository", "repo", "wide"), Column("Status", "status"), Column("Tests"),
    Column("Judge", "judge", "number"), Column("Events", "events", "number wide"),
    Column("Began (UTC)", "taken", "wide when"),
)  # fmt: skip


def _cost_told(told: Mapping[str, Any]) -> str:
    return "cost n/a" if told.get("cost_usd") is None else f"${told['cost_usd']:,.2f}"


def _verdicts_told(told: Mapping[str, Any]) -> str:
    judged, rejected = told.get("judged", 0), told.get("rejected", 0)
    return f"{judged - rejected:,} passed, {rejected:,} rejected ({rejected / (judged or 1):.0%})"


def _sum_of(name: str) -> Callable[[Mapping[str, Any]], float]:
    return lambda told: told.get(name) or 0


_COST: Final = Plot("Cost", (("", _sum_of("cost_usd")),), _cost_told)
_TOKENS: Final = Plot("Tokens", (("", _sum_of("tokens")),), lambda told: f"{told.get('tokens') or 0:,} tok")
_TIME: Final = Plot("Time", (("", _sum_of("worked_ms")),), lambda told: seconds_text(told.get("worked_ms") or 0))
_PLOTS: Final[Mapping[str, Sequence[Plot]]] = {
    "tasks": (
        Plot(
            "Verdicts",
            (("bad", _sum_of("rejected")), ("good", lambda told: told.get("judged", 0) - told.get("rejected", 0))),
            _verdicts_told,
        ),
        _COST, _TOKENS, _TIME,
    ),
    "sessions": (
        Plot("Sessions", (("bad", _sum_of("failed")), ("", lambda told: told.get("count", 0) - told.get("failed", 0))),
             lambda told: f"{_count(told['count'], 'session')}, {told.get('failed', 0):,} failed"),
        _COST, _TOKENS, _TIME,
    ),
    "captures": (
        Plot("Captures", (("", _sum_of("count")),), lambda told: _count(told["count"], "capture")),
        Plot("Events", (("", _sum_of("events")),), lambda told: _count(told.get("events", 0), "event")),
    ),
}  # fmt: skip


@router.get("/")
async def tasks_page(request: Request, q: Filter = "", sort: Order = "", after: After = None) -> Page:
    state = state_of(request)
    find = partial(search_tasks, state.state_dir, after=after, limit=_PAGE, status_of=state.supervisor.status)
    found, problem = await asyncio.to_thread(_found, find, q, sort)
    return _page(
        kind=TASKS,
        what="tasks",
        heading=f"Tasks in {state.state_dir.project.name}",
        columns=_TASK_COLUMNS,
        rows=[_task(row) for row in found.rows],
        labels=await asyncio.to_thread(_labels, state.state_dir, "task"),
        totals=[*_totals(found.totals, "task"), *_judged(found.totals)],
        empty='No tasks in this project yet. Start one here, or with pm run "…"; pm demo shows how it goes.',
        found=found, q=q, sort=sort, problem=problem,
    )  # fmt: skip


@router.get("/agentic")
async def agentic_page(request: Request, q: Filter = "", sort: Order = "", after: After = None) -> Page:
    state_dir = state_of(request).state_dir
    find = partial(search_sessions, state_dir, after=after, limit=_PAGE)
    found, problem = await asyncio.to_thread(_found, find, q, sort)
    rows = await asyncio.to_thread(lambda: [_session(row, state_dir) for row in found.rows])
    return _page(
        kind=SESSIONS,
        what="sessions",
        heading="Agent sessions",
        columns=_SESSION_COLUMNS,
        rows=rows,
        labels=await asyncio.to_thread(_labels, state_dir, "session"),
        totals=[*_totals(found.totals, "session"), f"{found.totals['failed'] or 0:,} failed"],
        empty="No distilled agent sessions yet. pm distill --latest makes one from an agent's own session file.",
        found=found, q=q, sort=sort, problem=problem,
    )  # fmt: skip


@router.get("/captures")
async def captures_page(request: Request, q: Filter = "", sort: Order = "", after: After = None) -> Page:
    state = state_of(request)
    problem = ""
    try:
        found = await find_captures(state, q, sort=sort, after=after, limit=_CAPTURES)
    except (UsageError, NotFoundError) as error:
        found, problem = _nothing(error)
    await _add_qa(state.collector, found.rows)
    rows = [_capture(row, await began(state.collector, row)) for row in found.rows]
    ids = ",".join(f'"{row.key}"' for row in rows)
    return _page(
        kind=CAPTURES,
        command=f"pm capture export --where 'trace_id in [{ids}]' -o set-1",
        what="captures",
        heading="Captured sessions",
        columns=_CAPTURE_COLUMNS,
        rows=rows,
        labels=await asyncio.to_thread(_labels, state.state_dir, "capture"),
        totals=[_count(found.totals["count"], "capture"), _count(found.totals["events"] or 0, "event")],
        empty="No captured sessions yet. pm record opens a recorded shell; what you do in it to fix a bug comes here.",
        found=found, q=q, sort=sort, problem=problem,
    )  # fmt: skip


async def find_captures(
    state: ServiceState, q: str, *, sort: str = "", after: str | None = None, limit: int = _ALL
) -> Found:
    """The captures that the filter finds, each row as the collector lists it. Raises as `search_tasks`."""
    listed, _ = await state.collector.listing(limit=_ALL, qa=False)
    if any(word in f"{q} {sort}" for word in ("tests:", "judge", "failed", "proven")):
        await _add_qa(state.collector, listed)
    told = await asyncio.to_thread(labels_told, state.state_dir, "capture")
    labels = {subject: (score, flags) for subject, score, flags in told}
    rows = [_given(each) + labels.get(each["trace_id"], (None, None)) for each in listed]
    found = await asyncio.to_thread(search_rows, CAPTURES, rows, q, sort=sort or "-taken", after=after, limit=limit)
    by_id = {each["trace_id"]: each for each in listed}
    return found._replace(rows=[by_id[row[0]] for row in found.rows])


def _found(find: Callable[..., Found], q: str, sort: str) -> tuple[Found, str]:
    """What the filter finds; one that is none finds nothing, and the page says why."""
    try:
        return find(q, sort=sort), ""
    except (UsageError, NotFoundError) as error:
        return _nothing(error)


def _nothing(error: PmError) -> tuple[Found, str]:
    told = "; ".join(part for part in (error.what, error.why, error.next_step) if part)
    return Found([], None, defaultdict(int), {}), told


def _labels(state_dir: StateDir, kind: str) -> dict[str, str]:
    """What people said of each, in short: the mean score and the flags."""
    return {
        subject: ", ".join([*([f"{score:.1f}"] if score is not None else []), *filter(None, flags.split("\n"))])
        or "comment"
        for subject, score, flags in labels_told(state_dir, kind)
    }


def _page(
    *,
    kind: Kind,
    what: str,
    columns: Sequence[Column],
    rows: list[Row],
    labels: Mapping[str, str],
    found: Found,
    q: str,
    sort: str,
    problem: str,
    command: str = "",
    **more: Any,
) -> Page:
    if labels:
        columns = (*columns, Column("Labels", css="wide"))
        rows = [row._replace(cells=(*row.cells, Cell(labels.get(row.key, "")))) for row in rows]
    heads = []
    for column in columns:
        now = sort.removeprefix("-") == column.order and bool(sort)
        # The most first, then the least: what one looks for in numbers and times.
        turned = column.order if now and sort.startswith("-") else f"-{column.order}"
        href = _address(q=q, sort=turned) if column.order else ""
        heads.append(
            Head(column.name, column.css, href, ("descending" if sort[0] == "-" else "ascending") if now else "")
        )
    following = _address(q=q, sort=sort, after=found.following) if found.following else ""
    page = render(
        "list.html",
        what=what,
        heads=heads,
        q=q,
        sort=sort,
        problem=problem,
        terms=kind.terms,
        following=following,
        rows=rows,
        command=command,
        charts=over_time(found.days, _PLOTS[what]),
        **more,
    )
    return Page(page, status_code=422 if problem else 200)


def _address(**query: str | None) -> str:
    return "?" + urlencode({name: value for name, value in query.items() if value})


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _totals(totals: Mapping[str, Any], noun: str) -> list[str]:
    """What the rows found come to; costs and tokens that nobody told are in none of it."""
    told = [_count(totals["count"], noun)]
    if totals["cost_usd"] is not None:
        told.append(f"${totals['cost_usd']:,.2f}")
    if totals["tokens"]:
        told.append(f"{totals['tokens']:,} tok")
    if totals["worked_ms"]:
        told.append(seconds_text(totals["worked_ms"]))
    return told


def _judged(totals: Mapping[str, Any]) -> list[str]:
    judged, rejected = totals["judged"] or 0, totals["rejected"] or 0
    rate = [f"{rejected / judged:.0%} of {judged:,} answers rejected"] if judged else []
    return [*rate, f"{totals['verified'] or 0:,} verified"]


def _cost(value: float | None) -> Cell:
    return Cell("" if value is None else f"${value:,.2f}")


def _whole(value: int | None) -> Cell:
    return Cell("" if value is None else f"{value:,}")


def _time(iso: str) -> Cell:
    return Cell(iso[:16].replace("T", " "))


def _task(row: TaskRow) -> Row:
    verified = {"verified": "verified", "not_verified": "not verified", "failed": "checks failed"}.get(
        row.verification, ""
    )
    cells = (
        Cell(row.task_id, href=f"/tasks/{quote(row.task_id)}"),
        Cell(row.title),
        Cell(row.status, badge=True, quiet=verified),
        Cell("", marks=tuple(_VERDICTS.get(one, ("?", "warn")) for one in row.judgments[-8:])),
        Cell(row.executor, quiet=row.model),
        Cell(f"{row.used:,}" if row.used else ""),
        _cost(row.cost_usd),
        Cell(seconds_text(row.worked_ms or None)),
        _time(row.updated_at),
    )
    return Row(row.task_id, cells)


def _session(row: AgenticRow, state_dir: StateDir) -> Row:
    name = Path(row.path).name
    cells = (
        Cell(row.label or name, href=f"/agentic/{quote(name)}"),
        Cell(line_of(prompt_text(state_dir, row.prompt), limit=120)),
        Cell(row.provider, quiet=row.model),
        Cell("not told" if row.success is None else "ok" if row.success else "error", badge=True),
        _whole(row.tools),
        _whole(row.errors),
        _whole(row.thoughts),
        _whole(row.agents),
        _whole(row.used),
        _cost(row.cost_usd),
        Cell("" if row.duration_s is None else seconds_text(row.duration_s * 1000)),
        _time(row.ts),
    )
    return Row(name, cells)


async def _add_qa(collector: Collector, listed: list[dict[str, Any]]) -> None:
    for each in listed:
        if each.get("qa") is None:
            each["qa"] = await collector.qa_of(each["trace_id"])


def _given(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """A capture as the filter sees it: `CAPTURES.given` without the labels."""
    qa, report = row.get("qa") or {}, row["task"]["bug_report"]
    final = (row["final_state"] or {}).get("pr") or {}
    proof = proof_of(qa.get("tests"))
    repo, developer = row["repo"]["repo_id"], row["developer"]["developer_id"]
    texts = [row["trace_id"], repo, developer, *report.values(), *final.values()]
    return (
        row["trace_id"], line_of(report["title"]), repo, developer, row["status"], row["store"], row["event_count"],
        proof.outcome if proof else "", (qa.get("judge") or {}).get("overall"), row["created_at_ms"],
        from_epoch_ms(row["created_at_ms"]), "\n".join(str(text) for text in texts if text),
    )  # fmt: skip


def _capture(row: Mapping[str, Any], began: str) -> Row:
    qa = row["qa"] or {}
    proof, overall = proof_of(qa.get("tests")), (qa.get("judge") or {}).get("overall")
    cells = (
        Cell(line_of(row["task"]["bug_report"]["title"]) or row["trace_id"], href=f"/captures/{row['trace_id']}"),
        Cell(line_of(row["repo"]["repo_id"]), quiet=line_of(row["developer"]["developer_id"])),
        Cell(row["status"], badge=True),
        Cell(proof.outcome, badge=True) if proof else Cell(""),
        Cell("" if overall is None else f"{overall:.1f}"),
        _whole(row["event_count"]),
        Cell(began),
    )
    return Row(row["trace_id"], cells)
