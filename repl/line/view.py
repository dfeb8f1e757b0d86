"""Line mode: the `pm>` prompt of prompt_toolkit over a session, with its key bindings, prompt, toolbar and history.

`run` returns what comes next: `screen` (the same session goes on there) or an empty text (leave).
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from errno import EIO
from functools import partial
from typing import Any, Final, Literal

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition, FilterOrBool
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History as PromptHistory
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_bindings import KeyHandlerCallable
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.patch_stdout import StdoutProxy
from prompt_toolkit.shortcuts import PromptSession
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import is_dumb_terminal

from repl.actions import KeyRow, key_name, key_rows, live_keys
from repl.editing import Pastes, edit_text
from repl.history import History, HistorySearch
from repl.line.completer import LineCompleter, ProjectFiles
from repl.notify import Notifier, reports
from repl.permissions import choices_text
from repl.present.blocks import Block
from repl.present.feed import Feed
from repl.present.live import stream_lines
from repl.present.output import Output, Stream
from repl.present.progress import fit, numbered, running_parts, short_id, status_lines
from repl.present.task_blocks import last_session
from repl.present.text import one_line, width_cut
from repl.registry.complete import sources_for
from repl.session import Session, warm_up
from repl.shell import Shell
from runner.core.task import TaskOutcome
from tracer.clock import monotonic
from tracer.errors import ConfigError, PmError

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class KeptStream:
    """Hands text on to `stream`, and whole lines without their colours to `lines`."""

    def __init__(self, stream: Stream, lines: deque[str]) -> None:
        self._stream = stream
        self._lines = lines
        self._open = ""

    def write(self, text: str) -> int:
        self._stream.write(text)
        *whole, self._open = (self._open + text).split("\n")
        self._lines.extend(_COLOURS.sub("", line) for line in whole)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if isinstance(self._stream, StdoutProxy):
            self._stream.close()


def kept_stream(stdout: Stream, lines: deque[str]) -> KeptStream:
    """What line mode prints to: above the prompt, or straight out where a dumb terminal draws no prompt again."""
    return KeptStream(stdout if is_dumb_terminal() else StdoutProxy(sleep_between_writes=0.03, raw=True), lines)


class Remembered(PromptHistory):
    """The inputs of the project, newest first."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def load_history_strings(self) -> list[str]:
        return list(reversed(self._history.entries("project")))

    def store_string(self, string: str) -> None:  # noqa: ARG002
        return


def message(view: LineView) -> FormattedText:
    if view.done:
        return FormattedText([("class:prompt", "pm> ")])
    if view.search is not None:
        found = one_line(view.search.match(view.buffer.text), 100) or "(nothing)"
        return FormattedText([("class:moving", f"search {view.search.scope}: {found}\n"), ("class:prompt", "find> ")])
    if view.leaving:
        names = ", ".join(view.session.running) or "a task"
        question = f"{names} still runs: w wait · s stop and leave (resumable) · c cancel "
        return FormattedText([("class:prompt", question)])
    return FormattedText([*((style, f"{line}\n") for style, line in moving(view)), ("class:prompt", view.session.mark)])


def moving(view: LineView) -> list[tuple[str, str]]:
    """(style, line) above the prompt that say what goes on; none at rest or in plain mode."""
    progress = view.feed.shown
    if progress is None or view.output.plain:
        return []
    waiting = view.session.permissions.open_question()
    if waiting is not None:
        return [("class:moving", fit([f"  {choices_text(waiting.question)}, then Enter"], view.size.columns - 1))]
    size = view.size
    now, detail = monotonic(), view.feed.detail
    streamed = stream_lines(
        progress.stream, now=now, live=view.live, detail=detail, columns=size.columns, rows=size.rows
    )
    standing = status_lines(progress, now=now, columns=size.columns, most=max(size.rows // 3, 4))
    running = [view.feed.progress[one] for one in view.session.running if one in view.feed.progress]
    if len(running) > 1:
        streamed, standing = numbered(streamed, progress.task_id), numbered(standing, progress.task_id)
        others = [f"  #{short_id(one.task_id)} {one.status(now)}" for one in running if one is not progress][:3]
        standing = [width_cut(line, size.columns - 1) for line in [*others, *standing]]
    return [*(("class:live", line) for line in streamed), *(("class:moving", line) for line in standing)]


def toolbar(view: LineView) -> str:
    """The line below the prompt; parts drop from the right where it is narrow."""
    if view.hint:
        return fit([view.hint], view.size.columns)
    progress = view.feed.shown
    if progress is None:
        asking = f"{len(view.session.asking)} waiting for your answer" if view.session.asking else ""
        return fit([view.shell.status_line(), asking, "? keys"], view.size.columns)
    others, queued = len(view.session.running) - 1, len(view.session.queue)
    parts = running_parts(progress, others=others, queued=queued, budget=view.session.chosen("budget_usd")[0])
    return fit([*parts, f"{key_name(view.keys['prompt.escape'][0])} stop", "? keys"], view.size.columns)


# What terminals send for Shift+Enter where they tell it apart, and for focus in and out.
ANSI_SEQUENCES["\x1b[13;2u"] = Keys.ControlJ
ANSI_SEQUENCES["\x1b[27;2;13~"] = Keys.ControlJ
ANSI_SEQUENCES["\x1b[I"] = Keys.F23
ANSI_SEQUENCES["\x1b[O"] = Keys.F24


_KEYS: Final = {"question_mark": "?", "shift+enter": "c-j"}  # as prompt_toolkit names them; Shift+Enter: see above


def _sequence(keys: str) -> list[str]:
    """`ctrl+x alt+enter` as prompt_toolkit names it: `c-x escape enter`."""
    found: list[str] = []
    for key in keys.split():
        name = _KEYS.get(key, key).replace("ctrl+", "c-").replace("shift+", "s-")
        found += ["escape", name.removeprefix("alt+")] if name.startswith("alt+") else [name]
    return found


def make_bindings(view: LineView, keys: Mapping[str, tuple[str, ...]]) -> KeyBindings:
    """The bindings for a live keymap. Raises ConfigError: a key that prompt_toolkit does not know."""
    found = KeyBindings()
    searching = Condition(lambda: view.search is not None)
    leaving = Condition(lambda: view.leaving)
    editing = ~searching & ~leaving
    empty = Condition(lambda: not view.buffer.text)
    pull = Condition(lambda: not view.buffer.text and bool(view.session.queue) and bool(view.session.running))

    def bind(action: str, handler: Callable[[KeyPressEvent], None], when: FilterOrBool) -> None:
        for sequence in keys[action]:
            try:
                found.add(*_sequence(sequence), filter=when)(handler)
            except ValueError as error:
                raise ConfigError(f"repl.keys.{action}: {sequence!r} is no key", why=str(error)) from error

    submit, newline = ("prompt.submit", "prompt.newline")[:: -1 if view.swap_enter else 1]
    bind(submit, lambda _event: view.submit(), editing)
    bind(newline, lambda event: event.current_buffer.insert_text("\n"), editing)
    bind("prompt.escape", lambda _event: view.escape(), editing)
    bind("prompt.interrupt", lambda _event: view.interrupt(), ~searching)
    found.add(Keys.SIGINT)(lambda _event: view.interrupt())
    bind("prompt.leave", lambda _event: view.end_of_input(), editing & empty)
    bind("prompt.previous", lambda _event: view.pull_back(), editing & pull)
    bind("prompt.search", lambda _event: view.start_search(), editing)
    bind("prompt.editor", lambda _event: view.edit_outside(), editing)
    bind("prompt.expand", lambda _event: view.expand(), editing)
    bind("app.trace", lambda _event: view.show_trace(), editing)
    bind("app.clear", lambda event: event.app.renderer.clear(), editing)
    bind("app.suspend", lambda event: event.app.suspend_to_background(), editing)
    bind("prompt.help", lambda _event: view.print_keys(), editing & empty)
    _bind_search(found, view, searching)
    _bind_leaving(found, view, leaving)
    found.add(Keys.BracketedPaste, filter=editing)(lambda event: view.paste(event.data))
    found.add(Keys.F23)(lambda _event: view.focus(inside=True))
    found.add(Keys.F24)(lambda _event: view.focus(inside=False))
    return found


def _bind_search(found: KeyBindings, view: LineView, searching: Condition) -> None:
    def handler(work: Callable[[], None]) -> KeyHandlerCallable:
        return lambda _event: work()

    works: dict[str, Callable[[], None]] = {
        "c-r": view.cycle_scope,
        "up": lambda: view.move_match(1),
        "down": lambda: view.move_match(-1),
        **dict.fromkeys(("enter", "tab"), lambda: view.end_search(take=True)),
        **dict.fromkeys(("escape", "c-c", "c-g"), lambda: view.end_search(take=False)),
    }
    for key, work in works.items():
        found.add(key, filter=searching)(handler(work))


def _bind_leaving(found: KeyBindings, view: LineView, leaving: Condition) -> None:
    found.add(Keys.Any, filter=leaving)(lambda event: view.answer_leaving(event.data))
    for key in ("escape", "enter", "c-d"):
        found.add(key, filter=leaving)(lambda _event: view.answer_leaving("c"))


_HINT_S: Final = 2.0
_TICK_S: Final = 0.25
_BESIDE: Final = 8  # rows that stay for greeting, prompt and menu beside the last session
_EDIT: Final = "\0edit"  # what the prompt gives for its line to be edited outside
_STYLE = Style.from_dict({"bottom-toolbar": "noreverse", "prompt": "bold", "moving": "nobold", "live": "nobold dim"})


class LineView:
    """A `repl.shell.View`. `plain` means ASCII, no colour, no moving lines."""

    name: Literal["line", "screen", "pipe"] = "line"

    def __init__(self, session: Session, *, model: Output) -> None:
        self.session = session
        self.search: HistorySearch | None = None
        self.leaving = False
        self.live = bool(session.settings.get("repl.live"))
        self.swap_enter = session.settings.get("repl.multiline") == "always"
        self.pastes = Pastes()
        self.kept = kept_stream(model.stdout, session.printed)
        self.output = Output(
            stdout=self.kept,
            stderr=self.kept,
            quiet=model.quiet,
            verbose=model.verbose,
            plain=model.plain,
            colour=model.colour,
            columns=model.columns,
        )
        self.keys = live_keys(session.settings.family("repl.keys"))
        self.shell = Shell(session, output=self.output, view=self)
        self.notifier = Notifier(session.settings, write=self._write_raw)
        self.feed = Feed(
            session,
            self.output,
            changed=self.redraw,
            ended=self._task_ended,
            table=not model.plain,
            asked=self.notifier.needs_answer,
        )
        self.history = History(session)
        self._next: str | None = None
        self._hint, self._hint_until, self._armed = "", 0.0, 0.0
        self._waiting_to_leave = False
        self._kept = ""
        self._moved = ""
        self._background: set[asyncio.Task[Any]] = set()
        self._prompt: PromptSession[str] = self._make_prompt(model)

    @property
    def buffer(self) -> Buffer:
        return self._prompt.default_buffer

    def _make_prompt(self, model: Output) -> PromptSession[str]:
        completing = Condition(
            lambda: self.buffer.text.startswith("/") or "@" in self.buffer.document.current_line_before_cursor
        )
        prompt: PromptSession[str] = PromptSession(
            message=partial(message, self),
            multiline=True,
            completer=LineCompleter(
                sources=sources_for(self.session.context, "slash"), files=ProjectFiles(self.session.folder).listed
            ),
            complete_in_thread=True,
            complete_while_typing=True,
            enable_history_search=~completing,
            history=Remembered(self.history),
            key_bindings=make_bindings(self, self.keys),
            bottom_toolbar=None if model.plain else partial(toolbar, self),
            prompt_continuation="... ",
            reserve_space_for_menu=6,
            style=_STYLE,
            color_depth=None if model.colour else ColorDepth.DEPTH_1_BIT,
        )
        prompt.app.ttimeoutlen = 0.05
        return prompt

    async def run(self, *, greeting: list[str]) -> str:
        width = self.size.columns - (3 if self.output.plain else 1)  # ASCII cuts by three letters
        self.output.lines([width_cut(line, max(width, 20)) for line in greeting])
        ticker = asyncio.create_task(self._tick())
        asyncio.get_running_loop().call_later(0.3, lambda: self._start(asyncio.to_thread(warm_up)))
        if greeting:  # else the full screen has shown it
            asyncio.get_running_loop().call_later(0.2, lambda: self._start(self._show_last_session()))
        self.feed.adopt()
        try:
            with reports(self.session.folder.name, write=None if self.output.plain else self._write_raw):
                while self._next is None:
                    await self._one_line()
                    self._ask_before_leaving()
            return self._next
        finally:
            ticker.cancel()
            with suppress(asyncio.CancelledError):
                await ticker
            await self.feed.close()
            await asyncio.to_thread(self.notifier.wait)
            self.kept.close()

    async def _show_last_session(self) -> None:
        """What the session before this one showed at its end."""
        from tracer.catalog.tasks import list_tasks

        def read() -> list[Block]:
            try:
                return last_session(list_tasks(self.session.state_dir), columns=self.output.columns)
            except PmError:  # the greeting has said so
                return []

        lines = [line for block in await asyncio.to_thread(read) for line in self.output.rendered(block)]
        room = max(self.size.rows - _BESIDE, _BESIDE)
        more = [f"  … {len(lines) - room:,} more lines   /tasks   /show N"] if len(lines) > room else []
        self.output.lines([*more, *lines[-room:]])

    def _ask_before_leaving(self) -> None:
        if self._next == "" and self.session.running and not self._waiting_to_leave:
            self._next, self.leaving = None, True

    async def _one_line(self) -> None:
        try:
            text = await self._prompt.prompt_async(default=self._kept, handle_sigint=True, set_exception_handler=False)
        except (EOFError, OSError) as end:
            if getattr(end, "errno", EIO) != EIO:  # the terminal is gone
                raise
            self._waiting_to_leave, self._next = True, ""
            return
        if text is _EDIT:
            self._prompt.app.erase_when_done = False
            try:
                self._kept = (await self.edit_text(self._kept, suffix=".md")).rstrip("\n")
            except PmError as error:
                self.output.note(error.what)
            return
        self._kept = ""
        line = self.pastes.expand(text)
        self.pastes.clear()
        if line.strip():
            self.session.printed.append(f"pm> {text}")
            self._start(asyncio.to_thread(self.history.add, line))
            await self._interruptible(line)

    def _fit(self) -> None:
        self.output.columns = self.size.columns - 2 * self.output.plain  # as `make_output` has it

    async def _interruptible(self, line: str) -> None:
        self._fit()
        command = asyncio.create_task(self.shell.run(line))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, command.cancel)
        try:
            await asyncio.wait({command})
            if command.cancelled():
                self.output.note("interrupted")
            elif error := command.exception():
                raise error
        except asyncio.CancelledError:
            command.cancel()
            await asyncio.wait({command})
            raise
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _write_raw(self, text: str) -> None:
        with suppress(OSError):
            self._prompt.app.output.write_raw(text)
            self._prompt.app.output.flush()

    # What is drawn.

    @property
    def done(self) -> bool:
        return self._prompt.app.is_done

    @property
    def size(self) -> Size:
        return self._prompt.app.output.get_size()

    @property
    def hint(self) -> str:
        return self._hint if monotonic() < self._hint_until else ""

    def redraw(self) -> None:
        if self._prompt.app.is_running:
            self._prompt.app.invalidate()

    async def _tick(self) -> None:
        """Repaint when the moving lines say something new; silent while nothing runs."""
        while True:
            await asyncio.sleep(_TICK_S)
            self._fit()
            moved = "\n".join(line for _, line in moving(self)) if self.session.running else ""
            if moved != self._moved:
                self._moved = moved
                self.redraw()
            if (self._waiting_to_leave or self.leaving) and not self.session.running and self._next is None:
                self._end("")

    def _tell(self, text: str) -> None:
        self._hint, self._hint_until = text, monotonic() + _HINT_S
        asyncio.get_running_loop().call_later(_HINT_S + 0.05, self.redraw)
        if self.output.plain:
            self.output.note(text)
        self.redraw()

    # What keys do.

    def submit(self) -> None:
        buffer = self.buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        buffer.validate_and_handle()

    def escape(self) -> None:
        """Close the menu; stop the task at the second press within two seconds, at the first if nobody was asked."""
        if self.buffer.complete_state is not None:
            self.buffer.cancel_completion()
            return
        progress = self.feed.shown
        if progress is None:
            return
        if self.session.unasked(progress.task_id):
            self._tell(f"{progress.task_id} is taken back")
            self._start(self.session.take_back(progress.task_id))
        elif monotonic() < self._armed:
            self._armed = 0.0
            self._tell(f"stopping {progress.task_id}")
            self._start(self.session.stop(progress.task_id))
        else:
            self._armed = monotonic() + _HINT_S
            self._tell(f"{key_name(self.keys['prompt.escape'][0])} again to stop {progress.task_id}")

    def interrupt(self) -> None:
        if self.leaving:
            self.answer_leaving("c")
        elif self.search is not None:
            self.end_search(take=False)
        elif self.buffer.text:
            self.buffer.reset()
            self.pastes.clear()
        elif self.session.running:
            self.escape()
        else:
            self._tell(f"{key_name(self.keys['prompt.leave'][0])} or /exit leaves")

    def end_of_input(self) -> None:
        if self.session.running:
            self.leaving = True
        else:
            self._end("")

    def answer_leaving(self, key: str) -> None:
        """The answer to "still runs": w, s or c; anything else changes nothing."""
        if key == "w":
            self._waiting_to_leave, self.leaving = True, False
            self._tell("leaving when everything has ended")
        elif key == "s":
            self.leaving, self._waiting_to_leave = False, True
            for task_id in self.session.running:
                self._start(self.session.stop(task_id))
        elif key == "c":
            self.leaving = False
        self.redraw()

    def pull_back(self) -> None:
        self.buffer.text = self.session.queue.pop()
        self.buffer.cursor_position = len(self.buffer.text)

    def start_search(self) -> None:
        self.search = HistorySearch(self.history.entries, saved=self.buffer.text)
        self.buffer.reset()

    def cycle_scope(self) -> None:
        if self.search is not None:
            self.search.cycle()

    def move_match(self, by: int) -> None:
        if self.search is not None:
            self.search.move(self.buffer.text, by)

    def end_search(self, *, take: bool) -> None:
        """Put the match on the line (a second Enter runs it), or bring the old line back."""
        if self.search is None:
            return
        text = (self.search.match(self.buffer.text) if take else "") or self.search.saved
        self.search = None
        self.buffer.text = text
        self.buffer.cursor_position = len(text)

    def edit_outside(self) -> None:
        self._unfold_pastes()
        self._leave_prompt(_EDIT)
        self._prompt.app.erase_when_done = True  # the line comes back, edited

    def expand(self) -> None:
        """Unfold pastes; where there are none, show or hide what the agent does."""
        if not self._unfold_pastes():
            self.feed.detail = not self.feed.detail
            self.redraw()

    def _unfold_pastes(self) -> bool:
        text, folded = self.pastes.expand(self.buffer.text), self.buffer.text
        self.buffer.text = text
        self.buffer.cursor_position = len(text)
        self.pastes.clear()
        return text != folded

    def paste(self, text: str) -> None:
        """A paste: never submits; folded where long."""
        self.buffer.insert_text(self.pastes.insert(text))

    def show_trace(self) -> None:
        self._leave_prompt("/trace --screen")

    def _leave_prompt(self, result: str) -> None:
        self._kept = self.buffer.text
        self.buffer.reset()
        self._prompt.app.exit(result=result)

    def print_keys(self) -> None:
        self._start(self.shell.run("?"))

    def focus(self, *, inside: bool) -> None:
        self.notifier.focused = inside

    # What commands ask of the view.

    def leave(self, to: str = "") -> None:
        self._next = to

    def clear(self) -> None:
        self._prompt.app.renderer.clear()

    def set_option(self, name: str, value: Any) -> None:
        if name == "live":
            self.live = bool(value)
        elif name == "plain":
            self.output.plain = bool(value)
            self.output.colour = False if value else self.output.colour
            self._prompt.bottom_toolbar = None if value else partial(toolbar, self)

    def key_rows(self) -> list[KeyRow]:
        return key_rows(self.session.settings.family("repl.keys"), mode="line")

    async def open_trace(self, task_id: str) -> None:
        from repl.screen.trace.view import ViewerApp  # textual, 150 ms: only when it is asked for

        path, theme = self.session.resolve(task_id).path, str(self.session.settings.get("repl.theme"))
        following = task_id in self.session.running
        await ViewerApp(path, follow=following, theme=theme, colour=self.output.colour).shown()

    def take_back(self, text: str) -> None:
        self._kept = text

    async def edit_text(self, text: str, *, suffix: str) -> str:
        with self.feed.held():
            return await edit_text(text, self.session.environ, suffix=suffix)

    def _end(self, to: str) -> None:
        self._next = to
        if self._prompt.app.is_running:
            self._prompt.app.exit(result="")

    def _task_ended(self, outcome: TaskOutcome, seconds: float) -> None:
        self.notifier.task_rests(outcome, seconds)
        self._start(self.shell.run_queued())

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and isinstance(task.exception(), PmError):
            self.output.note(str(task.exception()))
