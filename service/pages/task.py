"""The pages of tasks, and the template environment all pages share."""

from __future__ import annotations

import asyncio
import re
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from pydantic import ValidationError

from runner.core.evolve import fold
from runner.undo.undo import undo_task
from service.pages.diff import side_by_side
from service.pages.values import label_view, shown, task_view
from service.schemas import NewTask, UserAnswer
from service.security import WANTED, Session
from service.state import Doing, ServiceState, state_of
from tracer.blobs import DirectoryBlobs
from tracer.catalog.labels import read_labels
from tracer.clock import epoch_ms, now_epoch_ms
from tracer.conversation import ConversationTracer
from tracer.errors import ConflictError, NotFoundError, PmError, UsageError
from tracer.lookup import TaskRef, resolve_task
from tracer.redaction.cuts import clean_texts
from tracer.redaction.redactor import Clean
from tracer.statedir import StateDir

router = APIRouter(include_in_schema=False)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_PAGES: Final = (
    ("/", "Tasks"),
    ("/agentic", "Agent sessions"),
    ("/sessions", "Native sessions"),
    ("/captures", "Captures"),
    ("/insights", "Insights"),
    ("/compare", "Compare"),
    ("/docs", "API"),
)
_SCRIPT: Final = "text/javascript; charset=utf-8"
_STATIC: Final = {"pm.css": "text/css; charset=utf-8", "pm.js": _SCRIPT, "trace.js": _SCRIPT, "idiomorph.js": _SCRIPT}
_REASONS: Final = {
    "passed": "every criterion in force passed",
    "accepted": "accepted by a user",
    "max_iterations": "the limit of iterations was reached",
    "budget": "the budget was used up",
    "timeout": "the time limit was reached",
    "context": "the prompt is too long for the model",
    "retries": "the agent could not be reached, or gave no answer, several times in a row",
    "auth": "the agent refused the credentials or the request",
    "cancelled": "stopped for good by a user",
    "dependency": "something it depends on failed",
    "record": "the record could not be written",
    "undecided": "a user has to decide whether this is what was asked for",
    "asked": "it has a question",
}


def explained(status: str, reason: str) -> str:
    if status == "AWAITING_RESPONSE":
        return f"waits for a user: {_REASONS.get(reason, reason)}"
    return _REASONS.get(reason, reason)


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("service"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=_placed,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["pages"] = _PAGES
    made.globals |= {"prose": Prose, "side_by_side": side_by_side}
    return made


class Prose(str):
    """A text that its page shows as Markdown."""

    __slots__ = ()


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # 30 ms, once an answer is shown

    parser = MarkdownIt("commonmark", {"breaks": True}).enable(["strikethrough", "table"])
    # Nothing is hidden that was said, and nothing leads or reaches elsewhere.
    return parser.disable(["html_block", "html_inline", "entity", "reference", "link", "autolink", "image"])


def _markdown(text: str) -> str:
    """What an agent wrote as HTML, every part of it escaped; its headings are none of the page's."""
    tokens = _parser().parse(text)
    for token in tokens:
        token.attrs.pop("style", None)  # the Content-Security-Policy takes none
        if token.type in {"heading_open", "heading_close"}:
            token.tag = "p"
            if token.nesting > 0:
                token.attrs["class"] = "heading"
    made: str = _parser().renderer.render(tokens, _parser().options, {})
    return made


_written: ContextVar[list[str]] = ContextVar("_written")
_PLACE: Final = re.compile("\x02([0-9]+)\x03")


def _placed(value: object) -> object:
    """What a template writes: of a text its place among those that `render` cleans all at once."""
    if not isinstance(value, str) or hasattr(value, "__html__"):  # a macro's result has been through here
        return value
    texts = _written.get()
    texts.append(value)
    return Markup(f"\x02{len(texts) - 1}\x03")  # noqa: S704 - two signs and a number


def render(template: str, **values: Any) -> Clean:
    """The page: every text in it without secrets, its control and direction characters visible, whoever it is from."""
    texts: list[str] = []
    token = _written.set(texts)
    try:
        page = _templates().get_template(template).render(**values)
    finally:
        _written.reset(token)
    cleaned = clean_texts(texts)

    def put(place: re.Match[str]) -> str:
        text: str = cleaned[int(place[1])]
        text = text if text.isascii() and text.isprintable() else shown(text, limit=len(text)).text
        return _markdown(text) if isinstance(texts[int(place[1])], Prose) else escape(text)

    return Clean(_PLACE.sub(put, page))


class Page(HTMLResponse):
    """An answer with a page that `render` made."""

    def __init__(self, page: Clean, status_code: int = 200) -> None:
        super().__init__(page, status_code)


def static_text(name: str) -> str:
    """A static file's text; only the listed ones exist."""
    return resources.files("service").joinpath("static", name).read_text(encoding="utf-8")


@router.get("/static/{name}")
async def static(name: str) -> Response:
    if name not in _STATIC:
        raise NotFoundError(f"no file {name!r}")
    return Response(static_text(name), media_type=_STATIC[name], headers={"cache-control": "private, max-age=3600"})


@router.get("/sign-in")
async def sign_in(request: Request) -> Page:
    """What a browser without a session gets for every page; the address stays that of the page."""
    return _sign_in(request, request.scope.get(WANTED, "/"), "")


@router.post("/login")
async def login(request: Request) -> Response:
    """Begin a session with the token."""
    given = await form_of(request)
    session: Session = request.app.state.session
    if session.is_token(given.get("token", "").encode("utf-8", "replace")):
        return session.begin(given.get("next", "/"), secure=request.url.scheme == "https")
    return _sign_in(request, given.get("next", "/"), "This is not the token")


def _sign_in(request: Request, wanted: str, problem: str) -> Page:
    project = state_of(request).state_dir.project.name
    return Page(render("sign_in.html", next=wanted, problem=problem, project=project), status_code=401)


@router.get("/tasks/{task_id}")
async def task_page(request: Request, task_id: str) -> Page:
    state = state_of(request)
    doing = state.doing.get(task_id)
    return Page(await asyncio.to_thread(_task_page, state.state_dir, task_id, state.supervisor.status(task_id), doing))


@router.post("/tasks/{task_id}/respond")
async def respond(request: Request, task_id: str) -> RedirectResponse:
    """The question box: a choice, an answer in words, or a decision; the page then shows the task again."""
    state = state_of(request)
    await asyncio.to_thread(find_task, state.state_dir, task_id)
    given = await form_of(request)
    if choice := given.get("choice"):
        given |= {"action": "hint", "text": choice}
    try:
        answer = UserAnswer.model_validate({"action": given.get("action"), "text": given.get("text", "").strip()})
    except ValidationError as error:
        raise UsageError("this is no answer", why=str(error.errors()[0]["msg"]), next_step="go back") from error
    if answer.action == "hint" and not answer.text:
        raise UsageError("the answer is empty", next_step="go back and write it, or choose to go on without one")
    await state.supervisor.respond(task_id, answer.action, text=answer.text)
    return RedirectResponse(f"/tasks/{quote(task_id)}", status_code=303)


@router.post("/tasks")
async def start(request: Request) -> RedirectResponse:
    """Start a task from the list's form; the answer leads to it."""
    given = {name: text.strip() for name, text in (await form_of(request)).items()}
    if not given.get("prompt"):
        raise UsageError("the request is empty", next_step="go back and write what is to be done")
    task_id = await _start(state_of(request), given["prompt"])
    return RedirectResponse(f"/tasks/{quote(task_id)}", status_code=303)


async def _start(state: ServiceState, prompt: str) -> str:
    try:
        wanted = NewTask(prompt=prompt)
    except ValidationError as error:
        raise UsageError("this is no request", why=str(error.errors()[0]["msg"]), next_step="go back") from error
    return await state.supervisor.submit(state.task_request(wanted))


@router.post("/tasks/{task_id}/act")
async def act(request: Request, task_id: str) -> RedirectResponse:
    """Stop, resume, undo or retry; the page then shows the task, of a retry the new one."""
    state = state_of(request)
    ref = await asyncio.to_thread(find_task, state.state_dir, task_id)
    match (await form_of(request)).get("action"):
        case "stop":
            await state.supervisor.stop(task_id)
        case "resume":
            await state.supervisor.resume(task_id)
        case "retry":
            entries = await asyncio.to_thread(ConversationTracer.read_trace, ref.path)
            task_id = await _start(state, fold(entries).request.prompt)
        case "undo":
            done = await asyncio.to_thread(undo_task, state.state_dir, task_id)
            if not done.whole:
                told = [f"{each.path}: yours stays" for each in done.conflicts] + list(done.lost)
                raise ConflictError("not all of it could be put back", why="; ".join(told), next_step="go back")
        case _:
            raise UsageError("this is no action", next_step="go back")
    return RedirectResponse(f"/tasks/{quote(task_id)}", status_code=303)


async def form_of(request: Request, *, most: int = 10) -> dict[str, str]:
    """The fields of a plain form; of those that come twice, the last."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=most)
    return {name: values[-1].replace("\r\n", "\n") for name, values in fields.items()}


def find_task(state_dir: StateDir, task_id: str) -> TaskRef:
    """The task of exactly this id; raises NotFoundError."""
    ref = resolve_task(state_dir, task_id)
    if ref.task_id != task_id:
        raise NotFoundError(f"no task {task_id!r}", next_step="open the list of tasks")
    return ref


def _task_page(state_dir: StateDir, task_id: str, running: str | None, doing: Doing | None) -> Clean:
    ref = find_task(state_dir, task_id)
    entries = ConversationTracer.read_trace(ref.path)
    view = task_view(entries, diff_of=diff_reader(state_dir))
    ended = entries[-1].event == "FINAL_SUMMARY" if entries else False
    status = view.status if ended or view.status == "AWAITING_RESPONSE" else running
    if status is None:
        status = "RUNNING" if state_dir.writer_of(task_id) is not None else view.status
    if status == "RUNNING" and entries:
        now_ms = now_epoch_ms()
        waited_ms = now_ms - (epoch_ms(entries[-1].timestamp) or now_ms)
        view = replace(view, duration_s=view.duration_s + max(0, waited_ms) / 1000)
    return render(
        "task.html",
        task=view,
        status=status,
        explained=explained(view.status, view.reason),
        doing=doing if status == "RUNNING" else None,
        ended=ended,
        exported=False,
        redactions=0,
        labels=label_view(read_labels(state_dir, kind="task", subject=task_id)),
        dimensions=("overall",),
    )


def diff_reader(state_dir: StateDir) -> Any:
    """Reads a diff blob's text; None where the blob is gone (a diff is a convenience, the facts are in the trace)."""
    blobs = DirectoryBlobs(state_dir.blobs)

    def read(blob_id: str) -> str | None:
        try:
            return blobs.read(blob_id).decode("utf-8", "replace")
        except PmError:
            return None

    return read
