"""Line mode: the `pm>` prompt of prompt_toolkit over a session. Finished lines scroll; only the last lines move.

`run` returns what comes next: `screen` (the same session goes on there) or an empty text (leave). Every key's action is
a method here. Nothing is written to the terminal while nothing changes; output goes above the prompt in order.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.shortcuts import PromptSession
from prompt_toolkit.styles import Style

from repl.commands.editing import edit_text
from repl.commands.values import sources_for
from repl.history import History
from repl.line.bindings import make_bindings
from repl.line.completer import LineCompleter
from repl.line.drawing import message, moving, toolbar
from repl.line.feed import Feed
from repl.line.files import ProjectFiles
from repl.line.kept import kept_stream
from repl.line.keymap import key_rows, keymap, shown
from repl.line.notify import Notifier, reports
from repl.line.paste import Pastes
from repl.line.remembered import Remembered
from repl.line.search import HistorySearch
from repl.present.escape import width_cut
from repl.present.output import Output
from repl.session import Session, warm_up
from repl.shell import Shell
from runner.task import TaskOutcome
from tracer.clock import monotonic
from tracer.errors import PmError

__all__ = ["LineView"]

_HINT_S: Final = 2.0
_TICK_S: Final = 0.25
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
        self.keys = keymap(session.settings.family("repl.keys"))
        self.shell = Shell(session, output=self.output, view=self)
        self.feed = Feed(
            session, self.output, changed=self.redraw, ended=self._task_ended, table=not model.plain, asked=self._asked
        )
        self.history = History(session)
        self.notifier = Notifier(session.settings, write=self._write_raw)
        self._next: str | None = None
        self._hint, self._hint_until, self._armed = "", 0.0, 0.0
        self._waiting_to_leave = False
        self._kept = ""
        self._moved = ""
        self._background: set[asyncio.Task[Any]] = set()
        self._prompt: PromptSession[str] = self._make_prompt(model)

    @property
    def buffer(self) -> Buffer:
        """The line being edited."""
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
            tempfile_suffix=".md",
        )
        prompt.app.ttimeoutlen = 0.05
        return prompt

    async def run(self, *, greeting: list[str]) -> str:
        """Prompt until the person leaves; what comes next."""
        width = self.size.columns - (3 if self.output.plain else 1)  # the mark of a cut is three letters in ASCII
        self.output.lines([width_cut(line, max(width, 20)) for line in greeting])
        ticker = asyncio.create_task(self._tick())
        asyncio.get_running_loop().call_later(0.3, lambda: self._start(asyncio.to_thread(warm_up)))
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

    def _ask_before_leaving(self) -> None:
        if self._next == "" and self.session.running and not self._waiting_to_leave:
            self._next, self.leaving = None, True

    async def _one_line(self) -> None:
        try:
            text = await self._prompt.prompt_async(default=self._kept, handle_sigint=True, set_exception_handler=False)
        except EOFError:
            self._waiting_to_leave, self._next = True, ""
            return
        self._kept = ""
        line = self.pastes.expand(text)
        self.pastes.clear()
        if line.strip():
            self.session.printed.append(f"pm> {text}")
            self._start(asyncio.to_thread(self.history.add, line))
            await self._interruptible(line)

    async def _interruptible(self, line: str) -> None:
        """Run a command; Ctrl+C ends it and nothing else."""
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
        """Whether the line was submitted: then only the prompt and the line stay."""
        return self._prompt.app.is_done

    @property
    def size(self) -> Size:
        """The terminal's rows and columns now."""
        return self._prompt.app.output.get_size()

    @property
    def hint(self) -> str:
        """The hint of the last two seconds, or an empty text."""
        return self._hint if monotonic() < self._hint_until else ""

    def redraw(self) -> None:
        """Draw again soon, if a prompt is on the screen."""
        if self._prompt.app.is_running:
            self._prompt.app.invalidate()

    async def _tick(self) -> None:
        """Repaint when the moving lines say something new; silent while nothing runs."""
        while True:
            await asyncio.sleep(_TICK_S)
            moved = "\n".join(line for _, line in moving(self)) if self.session.running else ""
            if moved != self._moved:
                self._moved = moved
                self.redraw()
            if (self._waiting_to_leave or self.leaving) and not self.session.running and self._next is None:
                self._end("")

    def _tell(self, text: str) -> None:
        """A hint for two seconds."""
        self._hint, self._hint_until = text, monotonic() + _HINT_S
        asyncio.get_running_loop().call_later(_HINT_S + 0.05, self.redraw)
        if self.output.plain:
            self.output.note(text)
        self.redraw()

    # What keys do.

    def submit(self) -> None:
        """Enter: run the line; a backslash at its end breaks it instead."""
        buffer = self.buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        buffer.validate_and_handle()

    def escape(self) -> None:
        """Close the menu; while a task runs, stop it at the second press within two seconds."""
        if self.buffer.complete_state is not None:
            self.buffer.cancel_completion()
            return
        progress = self.feed.shown
        if progress is None:
            return
        if monotonic() < self._armed:
            self._armed = 0.0
            self._tell(f"stopping {progress.task_id}")
            self._start(self.session.stop(progress.task_id))
        else:
            self._armed = monotonic() + _HINT_S
            self._tell(f"{shown(self.keys['stop'][0])} again to stop {progress.task_id}")

    def interrupt(self) -> None:
        """Ctrl+C and SIGINT alike: clear the line; an empty one says how to leave, or works like Esc."""
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
            self._tell(f"{shown(self.keys['leave'][0])} or /exit leaves")

    def end_of_input(self) -> None:
        """Ctrl+D on an empty line: leave, or ask first while tasks run."""
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
        """Take the last queued input back for editing."""
        self.buffer.text = self.session.queue.pop()
        self.buffer.cursor_position = len(self.buffer.text)

    def start_search(self) -> None:
        """Ctrl+R: the line becomes the query."""
        self.search = HistorySearch(self.history.entries, saved=self.buffer.text)
        self.buffer.reset()

    def cycle_scope(self) -> None:
        """Ctrl+R again."""
        if self.search is not None:
            self.search.cycle()

    def move_match(self, by: int) -> None:
        """To an older or newer match."""
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
        """Open the line in the person's editor."""
        self.expand_pastes()
        self.buffer.open_in_editor(validate_and_handle=False)

    def expand_pastes(self) -> None:
        """Show folded pastes in full."""
        self.buffer.text = self.pastes.expand(self.buffer.text)
        self.buffer.cursor_position = len(self.buffer.text)
        self.pastes.clear()

    def paste(self, text: str) -> None:
        """A bracketed paste: never submits; folded where it is long."""
        self.buffer.insert_text(self.pastes.insert(text))

    def toggle_detail(self) -> None:
        """Ctrl+O: what the agent does in this answer, shown or folded."""
        self.feed.detail = not self.feed.detail
        self.redraw()

    def show_trace(self) -> None:
        """Ctrl+T: the trace of the current or last task in full screen; the line is kept."""
        self._kept = self.buffer.text
        self.buffer.reset()
        self._prompt.app.exit(result="/trace --screen")

    def print_keys(self) -> None:
        """`?` on an empty line."""
        self._start(self.shell.run("?"))

    def focus(self, *, inside: bool) -> None:
        """The terminal gained or lost the focus."""
        self.notifier.focused = inside

    # What commands ask of the view.

    def leave(self, to: str = "") -> None:
        """End line mode after the present command."""
        self._next = to

    def clear(self) -> None:
        """Empty the screen."""
        self._prompt.app.renderer.clear()

    def set_option(self, name: str, value: Any) -> None:
        """`live`, `plain`; themes are the full screen's."""
        if name == "live":
            self.live = bool(value)
        elif name == "plain":
            self.output.plain = bool(value)
            self.output.colour = False if value else self.output.colour
            self._prompt.bottom_toolbar = None if value else partial(toolbar, self)

    def key_rows(self) -> list[tuple[str, str, str]]:
        """The live keymap."""
        return key_rows(self.keys)

    async def open_trace(self, task_id: str) -> None:
        """The trace viewer over the whole terminal, in this process."""
        from repl.screen.viewer_app import ViewerApp  # textual, 150 ms: only when it is asked for

        path, theme = self.session.resolve(task_id).path, str(self.session.settings.get("repl.theme"))
        following = task_id in self.session.running
        await ViewerApp(path, follow=following, theme=theme, colour=self.output.colour).run_async()

    async def edit_text(self, text: str, *, suffix: str) -> str | None:
        """The person's editor over the terminal; what tasks say waits until it is left."""
        with self.feed.held():
            return await asyncio.to_thread(edit_text, text, self.session.environ, suffix=suffix)

    def _end(self, to: str) -> None:
        self._next = to
        if self._prompt.app.is_running:
            self._prompt.app.exit(result="")

    def _task_ended(self, outcome: TaskOutcome, seconds: float) -> None:
        self.notifier.task_rests(outcome, seconds)
        self._start(self.shell.run_queued())

    def _asked(self, task_id: str) -> None:
        self.notifier.needs_answer(task_id)

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and isinstance(task.exception(), PmError):
            self.output.note(str(task.exception()))
