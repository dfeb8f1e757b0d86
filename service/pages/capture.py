"""Pages of captured sessions: the values shown, their quality checks, and the routes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import orjson
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import RedirectResponse

from collector.collector import Collector
from collector.judge.port import WIRE_DIMENSIONS
from service.pages.diff import DiffLine, diff_lines
from service.pages.task import Page, render
from service.pages.values import Shown, label_view, line_of, shown
from service.state import state_of
from tracer.catalog.labels import read_labels
from tracer.clock import from_epoch_ms
from tracer.errors import PmError

_CUT: Final = 12_000
_COLOURS: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_TITLES: Final[Mapping[str, str]] = {
    "file_edit": "Edit",
    "file_snapshot": "Snapshot",
    "terminal_command": "Command",
    "terminal_output": "Output",
    "test_run": "Tests",
    "debug_action": "Debugger",
    "navigation": "Look",
    "thought": "Thought",
    "commit": "Commit",
    "pr_metadata": "Pull request",
    "error": "Error",
}
_BLOB_LABELS: Final[Mapping[str, str]] = {
    "patch_blob_id": "Change",
    "content_blob_id": "Content",
    "chunk_blob_id": "Output",
    "report_blob_id": "Report",
    "diff_blob_id": "Diff",
    "value_blob_id": "Value",
    "detail_blob_id": "Detail",
}
_DIFFS: Final = frozenset({"patch_blob_id", "diff_blob_id"})


class Content(NamedTuple):
    """A blob's beginning as text (None: no text, or not to be had), and its whole length in bytes."""

    text: str | None
    byte_length: int


class Part(NamedTuple):
    """A content of a step: a diff (`lines`) or a text."""

    label: str
    blob_id: str
    text: Shown
    lines: tuple[DiffLine, ...]
    byte_length: int


class Thought(NamedTuple):
    """A thought beside what it speaks of; `links` are the seqs of the events it names on this page."""

    seq: int
    kind: str
    part: Part | None
    links: tuple[int, ...]


class Step(NamedTuple):
    """One event of the timeline; output follows its command, thoughts stand beside."""

    seq: int
    event_id: str
    kind: str
    title: str
    time: str
    subject: str
    badge: tuple[str, str]
    facts: tuple[str, ...]
    parts: tuple[Part, ...]
    thoughts: tuple[Thought, ...]


def plain_terminal(text: str) -> str:
    """Terminal output as a user would see it: colours gone, an overwritten line as it was last, tabs as blanks."""
    lines = _COLOURS.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rpartition("\r")[2].expandtabs(8) for line in lines)


def blobs_named(events: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The blobs whose contents a page of `events` shows, each once."""
    named = (value for each in events for field, value in each["payload"].items() if field in _BLOB_LABELS and value)
    return tuple(dict.fromkeys(named))


def timeline(events: Sequence[Mapping[str, Any]], contents: Mapping[str, Content]) -> tuple[Step, ...]:
    seq_of = {each["event_id"]: each["seq"] for each in events}
    beside = _thoughts_beside(events, contents, seq_of)
    outputs = _outputs_of(events)
    steps: list[Step] = []
    owned = {output["seq"] for found in outputs.values() for output in found}
    for each in events:
        if each["seq"] in owned or (each["type"] == "thought" and each["seq"] not in beside):
            continue
        parts = _parts(each, contents)
        for output in outputs.get(each["seq"], ()):
            parts += _parts(output, contents, label=str(output["payload"].get("stream", "Output")))
        steps.append(_step(each, parts, beside.get(each["seq"], ())))
    return tuple(steps)


def _step(event: Mapping[str, Any], parts: tuple[Part, ...], thoughts: tuple[Thought, ...]) -> Step:
    kind, payload = event["type"], event["payload"]
    alone = kind == "thought"  # nothing on the page that it could stand beside
    return Step(
        seq=event["seq"],
        event_id=event["event_id"],
        kind=kind,
        title=_TITLES.get(kind, kind),
        time=from_epoch_ms(event["ts_ms"])[:23].replace("T", " "),
        subject=line_of(_SUBJECTS[kind](payload) if kind in _SUBJECTS else ""),
        badge=_badge(kind, payload),
        facts=tuple(line_of(fact) for fact in _facts(event)),
        parts=() if alone else parts,
        thoughts=thoughts,
    )


def _thoughts_beside(
    events: Sequence[Mapping[str, Any]], contents: Mapping[str, Content], seq_of: Mapping[str, int]
) -> dict[int, tuple[Thought, ...]]:
    """Thoughts by the seq they stand beside: the first event they name, else the next thing done, else themselves."""
    found: dict[int, list[Thought]] = {}
    explains = {each["payload"].get("reason_ref"): each["seq"] for each in events if each["type"] == "file_edit"}
    actions = [each["seq"] for each in events if each["type"] not in {"thought", "terminal_output"}]
    for each in events:
        if each["type"] != "thought":
            continue
        links = tuple(seq_of[name] for name in each["payload"].get("links_to", ()) if name in seq_of)
        action_links = [seq for seq in links if seq in actions]
        after = next((seq for seq in actions if seq > each["seq"]), None)
        place = (action_links[0] if action_links else None) or explains.get(each["event_id"]) or after or each["seq"]
        parts = _parts(each, contents, label="Thought")
        thought = Thought(each["seq"], str(each["payload"].get("kind", "")), parts[0] if parts else None, links)
        found.setdefault(place, []).append(thought)
    return {seq: tuple(thoughts) for seq, thoughts in found.items()}


def _outputs_of(events: Sequence[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    """Output events by the seq of the command on this page that they belong to."""
    by_event: dict[str, int] = {}
    by_correlation: dict[str, int] = {}
    found: dict[int, list[Mapping[str, Any]]] = {}
    last: int | None = None
    for each in events:
        context = each.get("context") or {}
        if each["type"] in {"terminal_command", "test_run"}:
            last = by_event[each["event_id"]] = each["seq"]
            if context.get("correlation_id") and each["type"] == "terminal_command":
                by_correlation[context["correlation_id"]] = each["seq"]
        elif each["type"] == "terminal_output":
            parent, shared = context.get("parent_event_id") or "", context.get("correlation_id") or ""
            owner = by_event.get(parent) or by_event.get(shared) or by_correlation.get(shared) or last
            if owner is not None:
                found.setdefault(owner, []).append(each)
    return found


def _parts(event: Mapping[str, Any], contents: Mapping[str, Content], *, label: str = "") -> tuple[Part, ...]:
    parts: list[Part] = []
    for field, blob_id in event["payload"].items():
        if field not in _BLOB_LABELS or not blob_id:
            continue
        content = contents.get(blob_id, Content(None, 0))
        text = content.text
        name = label or _BLOB_LABELS[field]
        if text is None:
            parts.append(Part(name, blob_id, Shown(""), (), content.byte_length))
        elif field in _DIFFS:
            lines = diff_lines(text.expandtabs(4).rstrip("\n"))
            parts.append(Part(name, blob_id, Shown(""), lines, content.byte_length))
        else:
            plain = shown(plain_terminal(text), limit=_CUT)
            hidden = max(plain.hidden, content.byte_length - len(text.encode("utf-8", "replace")))
            parts.append(Part(name, blob_id, Shown(plain.text, hidden), (), content.byte_length))
    return tuple(parts)


def _place(payload: Mapping[str, Any]) -> str:
    path, line = payload.get("file_path") or "", payload.get("line")
    return f"{path}:{line}" if path and line is not None else str(path)


_SUBJECTS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "file_edit": _place,
    "file_snapshot": _place,
    "terminal_command": lambda payload: str(payload.get("command", "")),
    "test_run": lambda payload: str(payload.get("command", "")),
    "debug_action": lambda payload: f"{payload.get('action', '')} {payload.get('expression') or _place(payload)}",
    "navigation": lambda payload: f"{payload.get('kind', '')} {payload.get('query') or _place(payload)}",
    "commit": lambda payload: f"{str(payload.get('commit_sha', ''))[:12]} {payload.get('message', '')}",
    "pr_metadata": lambda payload: str(payload.get("title", "")),
    "error": lambda payload: str(payload.get("message", "")),
}


def _badge(kind: str, payload: Mapping[str, Any]) -> tuple[str, str]:
    if kind == "test_run":
        return ("passed", "good") if payload.get("passed") else (f"failed, exit {payload.get('exit_code')}", "bad")
    if kind == "error":
        return ("error", "bad")
    return ("", "")


def _facts(event: Mapping[str, Any]) -> list[str]:
    payload, kind = event["payload"], event["type"]
    told = [str(payload[name]) for name in ("runner", "snapshot_reason", "source", "url") if payload.get(name)]
    if kind == "test_run":
        told.append(f"{payload.get('duration_ms', 0) / 1000:.1f} s")
    if payload.get("is_truncated"):
        told.append("cut by the recorder")
    actor = event.get("actor") or {}
    if actor.get("kind") not in {None, "human"}:
        told.append(f"by {actor.get('id') or actor['kind']}")
    return told


_VERDICTS: Final[Mapping[str, str]] = {
    "proven": "The tests tell the fix from the bug: they fail at the base commit and pass with the fix, each time.",
    "passes_at_base": "The tests pass at the base commit too, so they do not show the bug.",
    "fails_at_head": "The tests still fail with the fix.",
    "flaky": "The tests give different results when they are repeated, so they prove nothing.",
    "unchanged": "Nothing was changed, so there is nothing to prove.",
    "no_report": "The tests ended well without the report that they owe.",
    "steered": "The fix changed what decides over its tests, and nothing else shows that it is one.",
}
_REASONS: Final[Mapping[str, str]] = {
    "redacted": "something in the fix was replaced by redaction, so its failing would say nothing",
    "sandbox": "the sandbox could not be used; that says nothing about the tests",
    "no_source": "there is no bundle, and no repository address that may be fetched",
    "no_patch": "the session holds no change",
    "no_tests": "the command found no tests",
    "patch_does_not_apply": "the change does not fit the base commit",
    "build_failed": "the build before the tests failed",
    "source_unavailable": "the repository could not be fetched",
    "tool_missing": "the test runner is not in the sandbox",
    "policy": "the server's rules do not allow it",
    "profile": "no test command is known for this repository",
}
_NAMES: Final[Mapping[str, str]] = {
    "root_cause_identification": "Root cause",
    "plan_quality": "Plan",
    "experiment_iterate_loop": "Experiment and iterate",
    "use_of_signals_tests_logs": "Use of tests and logs",
    "minimality_of_fix": "Minimality of the fix",
    "clarity": "Clarity",
}
_MOST_TESTS: Final = 200


class Run(NamedTuple):
    """One run of the test command; the blobs are ids or empty."""

    phase: str
    command: str
    exit_code: str
    seconds: float
    passed: bool
    blobs: tuple[tuple[str, str], ...]


class CaseRow(NamedTuple):
    """One test before and after the fix."""

    name: str
    before: str
    after: str
    flaky: bool


class Proof(NamedTuple):
    """What the tests said. `outcome` is passed, failed or not tested; `sentence` says what that means."""

    outcome: str
    tone: str
    sentence: str
    runner: str
    image: str
    sandbox: str
    counts: tuple[tuple[str, int], ...]
    runs: tuple[Run, ...]
    tests: tuple[CaseRow, ...]
    left_out: int


class Evidence(NamedTuple):
    """An event that a score rests on; `seq` None where it is not on hand."""

    event_id: str
    seq: int | None


class Score(NamedTuple):
    """One dimension; `value` None where the judge gave none, `spread` the distance between the votes."""

    name: str
    value: float | None
    spread: float
    evidence: tuple[Evidence, ...]


class Judged(NamedTuple):
    """What the judge said."""

    model: str
    rubric: str
    overall: float | None
    scores: tuple[Score, ...]
    flags: tuple[str, ...]
    reason: str
    rationale: Shown
    votes: int
    blobs: tuple[tuple[str, str], ...]


def proof_of(tests: Mapping[str, Any] | None) -> Proof | None:
    """The proof in `qa.tests`; None where no tests were looked at."""
    if not tests:
        return None
    detail = _object(tests.get("detail"))
    proof, sandbox = _object(detail.get("proof")), _object(detail.get("sandbox"))
    untestable, final = tests.get("not_testable"), tests.get("final_passed")
    if untestable or final is None:
        outcome, tone = "not tested", "warn"
        word = str(untestable or "")
        sentence = f"Nothing could be tested: {detail.get('why') or _REASONS.get(word, word.replace('_', ' '))}."
    else:
        outcome, tone = ("passed", "good") if final else ("failed", "bad")
        sentence = _sentence(proof, passed=bool(final))
    counts = tuple(
        (name.replace("_", " "), count)
        for name, count in _object(proof.get("counts")).items()
        if isinstance(count, int) and not isinstance(count, bool)
    )
    rows = [row for row in _list(proof.get("tests")) if isinstance(row, dict)]
    return Proof(
        outcome=outcome,
        tone=tone,
        sentence=line_of(sentence),
        runner=line_of(tests.get("runner")),
        image=line_of(tests.get("container_image")),
        sandbox=line_of(sandbox.get("name")),
        counts=counts,
        runs=tuple(_run(run) for run in _list(tests.get("invocations")) if isinstance(run, dict)),
        tests=tuple(
            CaseRow(
                line_of(row.get("id")), line_of(row.get("before")), line_of(row.get("after")), bool(row.get("flaky"))
            )
            for row in rows[:_MOST_TESTS]
        ),
        left_out=max(0, len(rows) - _MOST_TESTS) + _number(proof.get("tests_left_out")),
    )


def _sentence(proof: Mapping[str, Any], *, passed: bool) -> str:
    verdict = str(proof.get("verdict", ""))
    told = _VERDICTS.get(verdict) or verdict.replace("_", " ")
    return told or ("The tests pass with the fix." if passed else "The tests fail with the fix.")


def _run(run: Mapping[str, Any]) -> Run:
    names = (("stdout_blob_id", "stdout"), ("stderr_blob_id", "stderr"), ("report_blob_id", "report"))
    return Run(
        phase="base commit" if run.get("phase") == "base" else "with the fix",
        command=line_of(run.get("command")),
        exit_code="cut off" if run.get("exit_code") is None else str(run.get("exit_code")),
        seconds=_number(run.get("duration_ms")) / 1000,
        passed=bool(run.get("passed")),
        blobs=tuple((label, str(run[name])) for name, label in names if run.get(name)),
    )


def judged(judge: Mapping[str, Any] | None, *, rationale: str, seqs: Mapping[str, int]) -> Judged | None:
    """The verdict in `qa.judge`; `rationale` is its blob's text, `seqs` tells where cited events stand."""
    if not judge:
        return None
    detail, scores = _object(judge.get("detail")), _object(judge.get("scores"))
    spread, citations = _object(detail.get("spread")), _object(detail.get("citations"))
    names = (("rationale_blob_id", "rationale"), ("request_blob_id", "request"), ("response_blob_id", "response"))
    return Judged(
        model=line_of(judge.get("model")),
        rubric=line_of(judge.get("rubric_version")),
        overall=_score(judge.get("overall")),
        scores=tuple(
            Score(
                label,
                _score(scores.get(name)),
                _score(spread.get(name)) or 0.0,
                tuple(Evidence(str(each), seqs.get(str(each))) for each in _list(citations.get(name))[:50]),
            )
            for name, label in _NAMES.items()
        ),
        flags=tuple(line_of(flag).replace("_", " ") for flag in _list(judge.get("flags"))),
        reason=line_of(detail.get("reason")),
        rationale=shown(rationale),
        votes=_number(detail.get("votes")),
        blobs=tuple((label, str(judge[name])) for name, label in names if judge.get(name)),
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _score(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


router = APIRouter(include_in_schema=False)

_EVENTS: Final = 150
_SHOWN: Final = 64 * 1024  # bytes of a content that a page reads
_LOOKED_AT: Final = 4 << 20  # longer blobs are only linked: reading one checks the whole of it
_CITABLE: Final = 5  # pages of 1,000 events searched for the events that scores rest on

TraceId = Annotated[str, Path(pattern=r"^[0-9a-fA-F-]{36}$")]


@router.get("/captures/{trace_id}")
async def capture_page(
    request: Request, trace_id: TraceId, after: Annotated[int, Query(ge=0, le=2**53 - 1)] = 0
) -> Page:
    collector = state_of(request).collector
    metadata = await collector.metadata(trace_id.lower())
    page = await collector.events_page(trace_id.lower(), after=after, limit=_EVENTS)
    events: list[dict[str, Any]] = [orjson.loads(event.body) for event in page.events]
    qa, final = metadata["qa"] or {}, metadata["final_state"] or {}
    diff_id = (final.get("pr") or {}).get("diff_blob_id")
    rationale_id = (qa.get("judge") or {}).get("rationale_blob_id")
    wanted = (*blobs_named(events), *(blob for blob in (diff_id, rationale_id) if blob))
    contents = {blob_id: await content_of(collector, blob_id) for blob_id in wanted}
    diff = contents[diff_id].text if diff_id else None
    state_dir = state_of(request).state_dir
    given = await asyncio.to_thread(read_labels, state_dir, kind="capture", subject=metadata["trace_id"])
    rationale = (contents[rationale_id].text if rationale_id else None) or ""
    return Page(
        render(
            "capture.html",
            **_head(metadata, await began(collector, metadata)),
            proof=proof_of(qa.get("tests")),
            judged=judged(qa.get("judge"), rationale=rationale, seqs=await _seqs(collector, metadata)),
            diff=diff_lines(diff.expandtabs(4).rstrip("\n")) if diff else (),
            diff_id=diff_id,
            steps=timeline(events, contents),
            first=after == 0,
            following=page.next_after,
            page_events=len(events),
            labels=label_view(given),
            dimensions=(*WIRE_DIMENSIONS, "overall"),
            live=metadata["status"] in {"open", "finalized", "qa_running"},
        )
    )


@router.post("/captures/{trace_id}/qa")
async def check_again(request: Request, trace_id: TraceId) -> RedirectResponse:
    """Run the checks of a finalized capture again."""
    await state_of(request).collector.request_qa(trace_id.lower())
    return RedirectResponse(f"/captures/{trace_id.lower()}", status_code=303)


def _head(metadata: Mapping[str, Any], started: str) -> dict[str, Any]:
    report, developer = metadata["task"]["bug_report"], metadata["developer"]
    consent = developer.get("consent_flags") or {}
    final = metadata["final_state"] or {}
    parts = (("Description", "description"), ("Steps", "repro_steps"), ("Expected", "expected"), ("Actual", "actual"))
    return {
        "capture": {
            "trace_id": metadata["trace_id"],
            "title": line_of(report["title"]) or metadata["trace_id"],
            "repo": line_of(metadata["repo"]["repo_id"]),
            "developer": line_of(developer["developer_id"]),
            "status": metadata["status"],
            "events": metadata["event_count"],
            "created": started,
            "commit_base": metadata["repo"]["commit_base"][:12],
            "commit_head": str(final.get("commit_head") or "")[:12],
            "experience": developer.get("experience_level", "unknown"),
            "mode": metadata["store"].replace("_", " "),
            "consent": [name.replace("_", " ") for name, given in consent.items() if given],
            "gaps": sum(last - first + 1 for first, last in metadata["ingestion"]["gaps"]),
            "skew_s": metadata["ingestion"]["clock_skew_ms_est"] / 1000,
            "finalized": from_epoch_ms(at)[:19].replace("T", " ") if (at := metadata["finalized_at_ms"]) else "",
            "pr_title": line_of((final.get("pr") or {}).get("title")),
            "pr_description": shown((final.get("pr") or {}).get("description")),
            "final_blob": final.get("final_trace_blob_id"),
        },
        "report": [(label, shown(report[name])) for label, name in parts if report.get(name)],
    }


async def began(collector: Collector, row: Mapping[str, Any]) -> str:
    """When a session's first event happened; before any came, when the trace was made."""
    page = await collector.events_page(row["trace_id"], limit=1) if row["event_count"] else None
    first = page.events[0].ts_ms if page and page.events else row["created_at_ms"]
    return from_epoch_ms(first)[:16].replace("T", " ")


async def content_of(collector: Collector, blob_id: str) -> Content:
    row = await collector.store.get_blob_row(blob_id)
    if row is None or row.byte_len > _LOOKED_AT:
        return Content(None, row.byte_len if row else 0)
    try:
        data = await collector.contents.read(blob_id)
    except PmError:  # a content is a convenience here: the page stays, and the link says what is wrong
        return Content(None, row.byte_len)
    head = data[:_SHOWN]
    if b"\0" in head:
        return Content(None, row.byte_len)
    return Content(head.decode("utf-8", "replace"), row.byte_len)


async def _seqs(collector: Collector, metadata: Mapping[str, Any]) -> dict[str, int]:
    """Where the events stand that the scores rest on, as far as a few pages tell."""
    detail = ((metadata["qa"] or {}).get("judge") or {}).get("detail") or {}
    citations = detail.get("citations")
    lists = citations.values() if isinstance(citations, dict) else ()
    wanted = {name for names in lists if isinstance(names, list) for name in names if isinstance(name, str)}
    found: dict[str, int] = {}
    after = 0
    for _page in range(_CITABLE):
        if len(found) == len(wanted):
            break
        page = await collector.events_page(metadata["trace_id"], after=after, limit=1000)
        found |= {event.event_id: event.seq for event in page.events if event.event_id in wanted}
        if page.next_after is None:
            break
        after = page.next_after
    return found
