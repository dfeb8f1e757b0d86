"""Labels in the browser: a form on the pages of what they are of, their history, and all of them as JSON Lines."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from fastapi.responses import RedirectResponse, Response

from collector.judge.port import WIRE_DIMENSIONS
from service.pages.sessions import find_session
from service.pages.task import find_task, form_of
from service.state import state_of
from tracer.catalog.labels import Label, add_label, read_labels
from tracer.conversation import default_redactor
from tracer.errors import UsageError

router = APIRouter(include_in_schema=False)

DIMENSIONS: Final = (*WIRE_DIMENSIONS, "overall")
_MOST: Final = 5.0
_SAID: Final = 10_000

Subject = Annotated[str, Path(max_length=200)]


@router.post("/{kind}s/{subject}/labels")
async def label(request: Request, kind: Literal["task", "session", "capture"], subject: Subject) -> RedirectResponse:
    """Append a label; the page then shows it."""
    state = state_of(request)
    if kind == "task":
        await asyncio.to_thread(find_task, state.state_dir, subject)
    elif kind == "session":
        await asyncio.to_thread(find_session, state.state_dir, subject)
    else:
        subject = (await state.collector.metadata(subject.lower()))["trace_id"]
    given = {name: text.strip() for name, text in (await form_of(request, most=20)).items()}
    made = Label(
        kind,
        subject,
        given.get("author", "")[:100],
        {name: _score(given[name]) for name in DIMENSIONS if given.get(name)},
        tuple(flag.strip()[:50] for flag in given.get("flags", "").split(",")[:20] if flag.strip()),
        given.get("comment", "")[:_SAID],
        int(step) if (step := given.get("step", "")).isdecimal() and len(step) < 10 else None,
    )
    if not made.author:
        raise UsageError("a label needs its author", next_step="go back and write your name")
    if not (made.scores or made.flags or made.comment):
        raise UsageError("the label is empty", next_step="go back and give a score, a flag or a comment")
    redactor = default_redactor(state.state_dir, state.supervisor.redaction)
    await asyncio.to_thread(add_label, state.state_dir, made, redactor=redactor)
    place = "agentic" if kind == "session" else f"{kind}s"
    return RedirectResponse(f"/{place}/{quote(subject)}#labels", status_code=303)


@router.get("/labels.jsonl")
async def labels(request: Request) -> Response:
    """Every label with its history, oldest first."""
    found = await asyncio.to_thread(read_labels, state_of(request).state_dir)
    lines = "".join(json.dumps(each._asdict(), ensure_ascii=False) + "\n" for each in found)
    named = {"content-disposition": 'attachment; filename="labels.jsonl"'}
    return Response(lines, media_type="application/x-ndjson", headers=named)


def _score(text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = -1.0
    if not 0 <= score <= _MOST:
        raise UsageError(f"{text!r} is no score", next_step="go back and give one from 0 to 5")
    return score
