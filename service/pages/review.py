"""The review page: what a task changed hunk by hunk; each is kept or discarded, and what is kept is committed."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse

from runner.changed_paths import in_reading_order, is_made
from runner.undo.review import Review, ReviewedFile, commit_review, decide, read_review
from service.pages.diff import DiffLine, findings_at, hunk_lines
from service.pages.task import Page, explained, find_task, form_of, render
from service.pages.values import shown
from service.state import state_of
from tracer.errors import ConflictError, UsageError
from tracer.facts import Issue
from tracer.redaction.cuts import clean_pieces
from tracer.trace_text import escape_controls
from tracer.verification import unverified_text

router = APIRouter(include_in_schema=False)

_MOST = 2_000


class HunkView(NamedTuple):
    """One hunk; `state` is open, kept or discarded."""

    id: str
    state: str
    lines: tuple[DiffLine, ...]
    left_out: int


class FileView(NamedTuple):
    """One file; `about` says what else there is to know of it."""

    path: str
    anchor: str
    status: str
    about: tuple[str, ...]
    hunks: tuple[HunkView, ...]
    findings: tuple[str, ...]
    decided: bool


@router.get("/tasks/{task_id}/review")
async def review_page(request: Request, task_id: str, *, split: bool = False) -> Page:
    state_dir = state_of(request).state_dir
    await asyncio.to_thread(find_task, state_dir, task_id)
    found = await asyncio.to_thread(read_review, state_dir, task_id)
    return Page(render("review.html", split=split, **_view(found)))


@router.post("/tasks/{task_id}/review")
async def review(request: Request, task_id: str) -> RedirectResponse:
    """Keep or discard what is named, or commit; the page then shows the review again."""
    state_dir = state_of(request).state_dir
    await asyncio.to_thread(find_task, state_dir, task_id)
    given = await form_of(request)
    place = f"/tasks/{quote(task_id)}/review"
    if name := given.get("keep") or given.get("discard"):
        chosen: dict[str, Any] = {"keep" if "keep" in given else "discard": [name]}
        done = await asyncio.to_thread(decide, state_dir, task_id, **chosen)
        if not done.whole:
            told = "; ".join([f"{each.path}: yours stays" for each in done.conflicts] + list(done.lost))
            raise ConflictError("it meets your later edits", why=told, next_step="go back, or edit the file")
        return RedirectResponse(f"{place}#{_anchor(name)}", status_code=303)
    if "commit" not in given:
        raise UsageError("this is no decision", next_step="go back")
    message = given.get("message", "").strip()
    if not message:
        raise UsageError("a commit needs a message", next_step="go back and write it")
    found = await asyncio.to_thread(read_review, state_dir, task_id)
    leave = [file.path for file in found.files if is_made(file.path) and not file.decided]
    await asyncio.to_thread(commit_review, state_dir, task_id, message, leave=leave)
    return RedirectResponse(f"{place}?committed=1", status_code=303)


def _view(found: Review) -> dict[str, Any]:
    outcome = found.outcome
    files = {file.path: file for file in found.files}
    made = [path for path in files if is_made(path)]
    return {
        "task_id": outcome.task_id,
        "status": outcome.status,
        "explained": explained(outcome.status, outcome.reason),
        "unverified": unverified_text(outcome.not_verified),
        "answer": shown(outcome.answer),
        "undone": found.undone,
        "away": found.away,
        "message": found.message,
        "findings": _words(found.findings),
        "files": [_file(files[path]) for path in in_reading_order(path for path in files if path not in made)],
        "made": len(made),
    }


def _file(file: ReviewedFile) -> FileView:
    at = findings_at(one for hunk in file.hunks for one in hunk.findings)
    about = [file.moved and f"moved: {file.moved}", "changed since" if file.edited else ""]
    return FileView(
        path=file.path,
        anchor=_anchor(file.path),
        status=file.status,
        about=tuple(filter(None, about)),
        hunks=tuple(
            HunkView(
                hunk.id,
                "discarded" if hunk.id in file.discarded else "kept" if hunk.id in file.decided else "open",
                tuple(hunk_lines(file.path, hunk.old_start, hunk.new_start, _texts(hunk.lines[:_MOST]), at)),
                max(0, len(hunk.lines) - _MOST),
            )
            for hunk in file.hunks
        ),
        findings=_words(file.findings),
        decided=bool(file.decided),
    )


def _texts(lines: tuple[bytes, ...]) -> list[str]:
    """The lines as the user is shown them: a key block in them is seen over several lines."""
    told = clean_pieces([line.decode("utf-8", "backslashreplace") + "\n" for line in lines])
    return [line.removesuffix("\n") for line in told]


def _words(issues: tuple[Issue, ...]) -> tuple[str, ...]:
    told = (" ".join(filter(None, (one.criterion, one.place, one.excerpt, one.suggestion))) for one in issues)
    return tuple(escape_controls(line) for line in told)


def _anchor(name: str) -> str:
    return "in-" + quote(name, safe="").replace("%", ".")
