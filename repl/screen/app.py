"""The full-screen session, one view of a `repl.session.Session`. `run_screen` shows it and returns what comes next."""

from __future__ import annotations

import asyncio
import signal
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from textual import work
from textual.app import ComposeResult
from textual.events import AppBlur, AppFocus, Resize
from textual.screen import Screen
from textual.widgets import Static
from typing_extensions import override

from repl.actions import KeyRow, key_name, key_rows, live_keys
from repl.context import Context
from repl.history import History
from repl.notify import Notifier
from repl.present.blocks import Block
from repl.present.feed import Feed
from repl.present.output import Output
from repl.present.task_blocks import last_session
from repl.registry.complete import Candidate, candidates, sources_for
from repl.screen.home import HomeScreen
from repl.screen.keymap import KEYS
from repl.screen.outside import edit_outside
from repl.screen.pickers import Question
from repl.screen.themes import Themed, theme_for
from repl.screen.transcript import TranscriptStream
from repl.session import Session
from repl.shell import Shell, captured, interpret
from tracer.catalog.tasks import TaskRow, list_tasks
from tracer.errors import PmError

if TYPE_CHECKING:
    from repl.screen.lists import Page
    from runner.core.task import TaskOutcome


class TooSmall(Screen[None]):
    """Says the needed size; tasks go on behind it."""

    def __init__(self, width: int, height: int, *, leave: str) -> None:
        super().__init__()
        self._text = f"pm needs {width}x{height}:\nmake it larger\nor {leave} and pm --line"

    @override
    def compose(self) -> ComposeResult:
        yield Static(self._text, markup=False)


class ScreenView:
    """The view of `app`. Commands that only read run in threads; those that call this one run in the app's loop."""

    name: Literal["line", "screen", "pipe"] = "screen"

    def __init__(self, app: PmApp) -> None:
        self._app = app

    def leave(self, to: str = "") -> None:
        if to != "screen":
            self._app.action_quit_asking(to)

    def clear(self) -> None:
        self._app.call_later(self._app.action_clear)

    def set_option(self, name: str, value: Any) -> None:
        app = self._app
        if name == "live":
            app.live_text = bool(value)
        elif name == "theme":
            app.choose_theme(str(value))
        elif name == "plain":
            app.set_class(bool(value), "-ascii")
            app.choose_theme("mono" if value else str(app.session.settings.get("repl.theme")))

    def key_rows(self) -> list[KeyRow]:
        return key_rows(self._app.keymap_changes, mode="screen")

    def take_back(self, text: str) -> None:
        if not self._app.home.prompt.text:
            self._app.home.prompt.put(text)

    async def edit_text(self, text: str, *, suffix: str) -> str | None:
        return await edit_outside(self._app, text, suffix=suffix)

    async def open_trace(self, task_id: str) -> None:
        session = self._app.session
        self._app.show_trace(session.resolve(task_id).path, follow=task_id in session.running)


_SMALLEST = (60, 15)
# What the transcript held when a session last left the full screen, for when it comes back from line mode.
_KEPT: WeakKeyDictionary[Session, list[Block]] = WeakKeyDictionary()


class PmApp(Themed):
    """The app. Its result is what comes next."""

    TITLE = "pm"
    BINDINGS = KEYS["app"]

    def __init__(self, session: Session, *, greeting: list[str] | None = None) -> None:
        given = session.context.arguments
        super().__init__(theme=str(session.settings.get("repl.theme")), colour=not getattr(given, "no_color", False))
        self.session = session
        self.history = History(session)
        self.log_lines: list[str] = []
        self.live_text = bool(session.settings.get("repl.live"))
        self.nothing = Namespace(directory=None, state_dir=None, config=None, online=False)
        self.enter_breaks = session.settings.get("repl.multiline") == "always"
        self.shown_greeting = greeting or []
        self.stream = TranscriptStream(self.printed)
        self.output = Output(stdout=self.stream, stderr=self.stream, columns=80)
        self.shell = Shell(session, output=self.output, view=ScreenView(self))
        self.feed = Feed(
            session, self.output, changed=self.changed, ended=self._task_rests, table=True, asked=self._asked
        )
        self.home = HomeScreen(self)
        self.notifier = Notifier(session.settings, write=self.write_terminal)
        self._waiting_to_leave = False
        self._past: list[str] | None = None

    @override
    def get_default_screen(self) -> HomeScreen:
        return self.home

    def on_mount(self) -> None:
        self.stream.bind()
        self.feed.adopt()
        if self.session not in _KEPT and not self.session.printed:
            self._show_last_session()
        self.home.transcript.take([*_KEPT.get(self.session, self.shown_greeting), *self.session.printed])
        self.session.printed.clear()
        self.apply_keys()
        self.call_after_refresh(self.set_title)

    @work
    async def _show_last_session(self) -> None:
        """What the session before this one showed stands above what this one shows."""
        blocks = await asyncio.to_thread(lambda: last_session(self.read_tasks(), columns=self.output.columns))
        if blocks:
            self.home.transcript.put_before(blocks)

    async def on_unmount(self) -> None:
        await self.feed.close()
        _KEPT[self.session] = list(self.home.transcript.kept)

    def on_resize(self, event: Resize) -> None:
        beside = min(max(event.size.width * 2 // 5, 42), 90) if event.size.width >= 100 else 0  # the list of tasks
        self.output.columns = max(event.size.width - 4 - beside, 40)
        too_small = event.size.width < _SMALLEST[0] or event.size.height < _SMALLEST[1]
        if too_small and not isinstance(self.screen, TooSmall):
            leave = key_name(live_keys(self.keymap_changes)["app.quit"][0])
            self.push_screen(TooSmall(*_SMALLEST, leave=leave))
        elif not too_small and isinstance(self.screen, TooSmall):
            self.pop_screen()

    def apply_keys(self) -> None:
        """Bindings by id, as `repl.keys.<id>` sets them."""
        keys = live_keys(self.keymap_changes)
        self.set_keymap({name: ",".join(keys[name]) for name in self.keymap_changes})
        self.home.prompt.rebind(keys)

    # -- lines ------------------------------------------------------------------------------------------------------

    def run_line(self, text: str, *, typed: bool = True) -> None:
        if typed:
            first, *rest = text.split("\n")
            self.home.transcript.take([Block("typed", "\n".join([f"pm> {first}", *(f"    {line}" for line in rest)]))])
        self._run(text, typed=typed)

    @work(group="lines")
    async def _run(self, text: str, *, typed: bool) -> None:
        if typed:
            self._past = [*self.past(), text]
            await asyncio.to_thread(self.history.add, text)
        if not self._goes_to_viewer(text):
            await self.shell.run(text)
        self.changed()
        self.home.look_at_tasks()

    def _goes_to_viewer(self, text: str) -> bool:
        """`/review T` and `/trace T --follow` (or `--screen`) open a screen instead of filling the transcript."""
        try:
            typed = interpret(text)
            name, flags = typed.command.name if typed.command else "", {word for word in typed.words if word[:1] == "-"}
            if not (name == "trace" and flags & {"--follow", "--screen"}) and not (name == "review" and not flags):
                return False
            words = [word for word in typed.words if word not in flags]
            task = self.session.resolve(words[0] if words else None)
        except PmError:
            return False
        if name == "review":
            self.show_review(task.task_id)
        else:
            self.show_trace(task.path, follow="--follow" in flags)
        return True

    def put(self, text: str) -> None:
        while self.screen is not self.home:
            self.pop_screen()
        self.home.prompt.put(text)
        self.home.prompt.focus()

    def printed(self, blocks: list[Block]) -> None:
        self.home.transcript.take(blocks)
        self.log_lines += [block.text for block in blocks if block.kind == "error"]

    def past(self) -> list[str]:
        if self._past is None:
            self._past = self.history.entries("project")
        return self._past

    def completions(self, before: str) -> list[Candidate]:
        context = Context(
            output=self.output, environ=self.session.environ, arguments=self.nothing, session=self.session
        )
        sources = sources_for(context, "slash")

        def look_up(kind: str, prefix: str) -> list[Candidate]:
            if kind == "task":
                return [Candidate(row.task_id, f"{row.status}  {row.title}") for row in self.home.all_rows]
            return sources(kind, prefix)

        last = before.rpartition(" ")[2]
        if last.startswith("@") and not before.startswith("/"):
            return [Candidate(found.text, found.help) for found in look_up("file", last[1:])]
        return candidates(before[1:].split(" "), surface="slash", sources=look_up)

    # -- tasks ------------------------------------------------------------------------------------------------------

    def read_tasks(self) -> list[TaskRow]:
        """The tasks of the project, newest first; what is wrong goes to the log. Blocks: call it in a thread."""
        try:
            return list_tasks(self.session.state_dir)
        except PmError as error:
            line = f"tasks cannot be read: {error.what}"
            if line not in self.log_lines:
                self.log_lines.append(line)
            return []

    @property
    def rows(self) -> list[TaskRow]:
        return self.home.all_rows

    def changed(self) -> None:
        if self.home.is_mounted and self.is_running:
            self.home.show_status()
            self.home.show_top()
            self.home.refresh_bindings()

    def _task_rests(self, outcome: TaskOutcome, seconds: float) -> None:
        self.home.look_at_tasks()
        self.set_title()
        self.notifier.task_rests(outcome, seconds)
        if self._waiting_to_leave and not self.session.running and not self.session.queue:
            self.exit("")
        else:
            self._next_queued()

    def _asked(self, task_id: str) -> None:
        """An agent asks permission: the question stands above the prompt, and is told wherever the user is."""
        self.notifier.needs_answer(task_id)
        if self.screen is not self.home:
            self.notify(f"{task_id} asks for permission: answer at pm>", severity="warning", markup=False)

    @work(group="lines")
    async def _next_queued(self) -> None:
        if self.session.queue and not self.session.running:
            self.home.transcript.take([Block("typed", f"pm> {self.session.queue[0]}")])
        await self.shell.run_queued()

    # -- screens ----------------------------------------------------------------------------------------------------

    def show_trace(self, path: Path, *, follow: bool = False) -> None:
        from repl.screen.trace.view import TraceScreen

        try:
            self.push_screen(TraceScreen(path, follow=follow))
        except PmError as error:
            self.notify(error.what, severity="error", markup=False)

    @work(exclusive=True, group="diff")
    async def show_diff(self, task_id: str) -> None:
        from repl.screen.diff import DiffScreen, from_unified

        found = await captured(self.session, f"/diff {task_id} --json")
        if found.problem:
            self.notify(found.problem, severity="warning", markup=False)
            return
        parts = found.record.get("parts", [])
        text = "\n".join(str(part.get("diff", "")) for part in parts if isinstance(part, dict) and part.get("diff"))
        if text.strip():
            await self.push_screen(DiffScreen(f" {task_id}: what it changed", from_unified(text)))
        else:
            self.notify(f"{task_id} changed no file", severity="information", markup=False)

    @work(exclusive=True, group="diff")
    async def show_review(self, task_id: str) -> None:
        from repl.screen.review import ReviewScreen

        found = await captured(self.session, f"/review {task_id} --json")
        if found.problem:
            self.notify(found.problem, severity="warning", markup=False)
        else:
            await self.push_screen(ReviewScreen(self, found.record))

    def action_last_trace(self) -> None:
        try:
            running = self.session.running
            task = self.session.resolve(running[-1] if running else None)
        except PmError as error:
            self.notify(f"{error.what}. {error.next_step}", severity="information", markup=False)
            return
        self.show_trace(task.path, follow=task.task_id in self.session.running)

    def action_page(self, name: str) -> None:
        from repl.screen import lists

        if isinstance(self.screen, lists.Page) and self.screen.page_name == name:
            return
        page: Page = lists.PAGES[name](self)
        self.push_screen(page)

    def action_palette(self) -> None:
        from repl.screen.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(self, self.screen))

    def action_clear(self) -> None:
        self.home.transcript.clear()

    def action_detail(self) -> None:
        self.feed.detail = not self.feed.detail
        self.home.transcript.unfold(whole=self.feed.detail)
        self.changed()

    def action_refresh_now(self) -> None:
        self.home.look_at_tasks()
        self.refresh(layout=True)

    # -- leaving ----------------------------------------------------------------------------------------------------

    @work(exclusive=True, group="leave")
    async def action_quit_asking(self, to: str = "") -> None:
        running = self.session.running
        if not running or to == "line":
            self.exit(to)
            return
        text = f"{', '.join(running)} still runs\n\n w wait, then leave   s stop and leave (resumable)   c cancel"
        answer = await self.push_screen_wait(Question(text, "wsc"))
        if answer == "w":
            self._waiting_to_leave = True
            self.notify("leaving when everything has ended")
        elif answer == "s":
            await asyncio.gather(*(self.session.stop(task_id) for task_id in running), return_exceptions=True)
            self.exit("")

    @property
    def keymap_changes(self) -> dict[str, str]:
        """What the settings rebind: keys by action id."""
        return {key: str(value) for key, value in self.session.settings.family("repl.keys").items()}

    def choose_theme(self, wanted: str) -> None:
        self.theme = theme_for(wanted, no_colour=self.no_color)

    # -- the terminal -----------------------------------------------------------------------------------------------

    def on_app_focus(self, _event: AppFocus) -> None:
        self.notifier.focused = True

    def on_app_blur(self, _event: AppBlur) -> None:
        self.notifier.focused = False

    def set_title(self) -> None:
        running = len(self.session.running)
        self.write_terminal(f"\x1b]2;pm · {self.session.folder.name}{f' · {running} running' if running else ''}\x07")

    def write_terminal(self, text: str) -> None:
        """A sequence for the terminal itself; nothing where there is none."""
        if self._driver is not None and not self.is_headless and self.outside is None:
            self._driver.write(text)
            self._driver.flush()


async def run_screen(session: Session, *, greeting: list[str] | None = None) -> str:
    """Show the full screen until the user leaves it; `line` or an empty text is what comes next."""
    app = PmApp(session, greeting=greeting)
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, app.home.action_interrupt)
    try:
        result = await app.shown(mouse=bool(session.settings.get("repl.mouse")))
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        with suppress(TypeError, ValueError):
            signal.signal(signal.SIGINT, before)
    if app.defect is not None:
        raise app.defect
    return str(result or "")
