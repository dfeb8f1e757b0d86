"""Turns what happens in a recorded session into events and writes each to the spool before the next is looked at.

Runs in one thread of its own and takes items from a queue, so that redaction, git and the disk never hold up the
terminal. A failure to record ends the recording and is told; the shell goes on.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from collector.recorder.bundle import ensure_base_bundle
from collector.recorder.entered import UNKNOWN, WITHHELD, Entered, Stopped
from collector.recorder.files import body
from collector.recorder.marks import Mark
from collector.recorder.output import CommandOutput
from collector.recorder.recognise import Line, read_line
from collector.recorder.record_writer import PERSON, TOOL, RecordWriter, ScribeOptions
from collector.recorder.shell_words import looks, placed
from collector.recorder.test_runs import report_of, test_run
from collector.spool import Draft, Spool
from runner.workspace.git import Git
from tracer.clock import monotonic, new_id
from tracer.errors import PmError

__all__ = ["Item", "Scribe", "ScribeOptions"]

_TICK_S: Final = 0.5
_FLUSH_S: Final = 2.0
_STOPPED: Final = 128 + signal.SIGTSTP


class Item(NamedTuple):
    """Something that happened at `ts_ms`: terminal output, a mark, changed paths, or the end."""

    kind: Literal["output", "mark", "files", "end"]
    ts_ms: int
    data: Any = None
    typed: bytes = b""
    """For a command's mark: the first bytes typed since the prompt."""


@dataclass(slots=True)
class _Running:
    """The command that runs now, as it was entered and what it does (after `fg`, what goes on).

    `event_id` is empty where it is not recorded.
    """

    text: str
    doing: str
    line: Line
    began_ms: int
    output: CommandOutput | None
    event_id: str = ""
    flushed: float = 0.0
    bytes_seen: int = 0


class Scribe:
    """The writer of one recording. `put` from any thread; `start` and `join` as of a thread.

    `tell` is called with one line for the person when something goes wrong; `failed` is why recording ended early;
    `begun` is set once the capture may be created at a collector (its bundle is there, if it is to have one); `gave_up`
    is called when recording ends early.
    """

    def __init__(
        self,
        spool: Spool,
        git: Git,
        options: ScribeOptions,
        *,
        tell: Callable[[str], None],
        gave_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._spool = spool
        self._git = git
        self._options = options
        self._tell = tell
        self._gave_up = gave_up
        self._items: queue.Queue[Item] = queue.Queue(maxsize=1024)
        self._thread = threading.Thread(target=self._run, name="scribe", daemon=True)
        self._writer = RecordWriter(spool, git, options)
        self.files = self._writer.files
        self._entered = Entered()
        self._stopped = Stopped()
        self._running: _Running | None = None
        self._cwd = str(git.top)
        self._was_paused = False
        self._prompts_put = self._prompts_taken = self._prompts_done = 0
        self.failed: PmError | None = None
        self.begun = threading.Event()

    def look_first(self) -> None:
        """Take what was changed before the session; called before its shell starts, whose changes are others.

        Raises:
            RecordError: the spool cannot be written.

        """
        left_alone = self._writer.leave_alone()
        if left_alone:
            self._tell(left_alone)
        self._writer.sweep(TOOL, found="before_recording")

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, item: Item) -> None:
        """Hand over something that happened; waits where the scribe is far behind."""
        if self._thread.is_alive() or not self._thread.ident:
            self._prompts_put += item.kind == "mark" and item.data.kind != "command"
            self._items.put(item)

    def join(self) -> None:
        """Wait until everything handed over is written and the recording is closed."""
        self._thread.join()

    # -- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            ensure_base_bundle(self._spool, self._git)
            self.begun.set()
            while True:
                try:
                    item = self._items.get(timeout=_TICK_S)
                except queue.Empty:
                    self._tick()
                    continue
                if item.kind == "end":
                    self._close()
                    return
                is_prompt = item.kind == "mark" and item.data.kind != "command"
                self._prompts_taken += is_prompt
                self._take(item)
                self._prompts_done += is_prompt
        except PmError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - top of the thread: a defect here must be told, not lost with it
            self._fail(PmError(f"{type(error).__name__}: {error}"))

    def _fail(self, error: PmError) -> None:
        self.failed = error
        self._gave_up()
        told = f"recording has stopped: {error.what}{f' ({error.why})' if error.why else ''}; what was recorded is safe"
        self._tell(told)
        printed = False
        while (item := self._items.get()).kind != "end":  # nobody who hands something over may wait for ever
            if item.kind == "output":
                printed = True
            elif printed and told and item.kind == "mark" and item.data.kind != "command":
                self._tell(told)  # once more at the prompt: what the command printed may have carried it away
                told = ""

    def _take(self, item: Item) -> None:
        if self._paused(item):
            return
        if item.kind == "output":
            self._output(item.data)
        elif item.kind == "files":
            actor = self._actor(self._running) if self._running is not None else PERSON
            self._writer.saved(item.data, actor, command=self._command_id)
        elif item.data.kind == "command":
            self._command(item.data, item)
        else:
            self._prompt(item.data, item.ts_ms)

    def _paused(self, item: Item) -> bool:
        paused = self._spool.paused
        if paused and not self._was_paused:
            self._end_output()
            self._running = None
        if self._was_paused and not paused:
            self._writer.sweep(TOOL, found="while_paused")
            self._writer.head.moved()
        self._was_paused = paused
        if paused and item.kind == "mark" and item.data.kind == "command":
            self._entered.passed_over(item.data)
        return paused

    def _tick(self) -> None:
        if self._spool.paused != self._was_paused:
            self._paused(Item("output", 0))
        running = self._running
        if running is not None and running.output is not None and monotonic() - running.flushed > _FLUSH_S:
            self._keep(running, running.output.flush())

    # -- commands ---------------------------------------------------------------------------------------------------

    def _command(self, mark: Mark, item: Item) -> None:
        if self._running is not None:
            self._overtaken(self._running, item.ts_ms)
        text = self._entered.text_of(mark, item.typed)
        withheld = text in {WITHHELD, UNKNOWN}
        line = Line() if withheld else read_line(text)
        resumed = None if withheld else self._stopped.resumed_by(text)
        doing, line = resumed or (text, line)
        running = _Running(text, doing, line, item.ts_ms, None, flushed=monotonic())
        if line.ours:
            self._running = None
            return
        self._running = running
        running.event_id = new_id()
        if not withheld:
            options = self._options
            running.output = CommandOutput(
                options.redactor, head=options.output_head, tail=options.output_tail, zsh=options.shell == "zsh"
            )
        if line.test is not None:
            self._writer.sweep(PERSON)
        self._writer.record(lambda: self._command_drafts(running, begins=not withheld and resumed is None))

    def _overtaken(self, running: _Running, ts_ms: int) -> None:
        """Close a command that ended without a prompt: of lines pasted at once bash tells only the beginnings."""
        self._end_output()
        self._writer.sweep(self._actor(running), command=running.event_id)
        if running.line.test is not None:
            self._test(running, None, (), ts_ms)

    def _command_drafts(self, running: _Running, *, begins: bool) -> list[Draft]:
        context = self._writer.context(running.event_id)
        payload = {
            "cwd": self._writer.clean(self._cwd),
            "command": self._writer.clean(running.text),
            "shell": self._options.shell,
            "env_hash": self._options.env_hash,
        }
        drafts = [
            Draft(
                type="terminal_command",
                payload=payload,
                context=context,
                ts_ms=running.began_ms,
                event_id=running.event_id,
            )
        ]
        if not begins:
            return drafts
        place = partial(placed, cwd=self._cwd, top=str(self._git.top))
        drafts += looks(running.line, self._writer.clean, place=place, context=context, ts_ms=running.began_ms)
        if running.line.test is not None:
            drafts += self.files.snapshot(sorted(self.files.known), "pre_test", context=context)
        return drafts

    def _output(self, data: bytes) -> None:
        running = self._running
        if running is None:
            self._entered.drawn(data)
        if running is None or running.output is None:
            return
        running.bytes_seen += len(data)
        self._keep(running, running.output.feed(data))

    def _keep(self, running: _Running, chunks: Sequence[str], *, truncated: bool = False) -> None:
        running.flushed = monotonic()
        if not self._options.keep_output or not chunks:
            return
        context = {**self._writer.context(self._command_id), "parent_event_id": running.event_id}
        last = len(chunks) - 1
        drafts = [
            Draft(
                type="terminal_output",
                payload={"stream": "stdout", "chunk": chunk, "is_truncated": truncated and number == last},
                actor={"kind": "tool", "id": running.line.program[:100] or None},
                context=context,
            )
            for number, chunk in enumerate(chunks)
        ]
        self._writer.record(lambda: drafts)

    def _end_output(self) -> None:
        running = self._running
        if running is None or running.output is None:
            return
        chunks = running.output.close()
        if self._options.keep_output:
            self._keep(running, chunks, truncated=running.output.dropped > 0)
        elif running.output.total:  # what was printed is nobody's business, that something was is
            payload = {"stream": "stdout", "chunk": "", "is_truncated": True, "characters": running.output.total}
            context = {**self._writer.context(self._command_id), "parent_event_id": running.event_id}
            self._writer.record(lambda: [Draft(type="terminal_output", payload=payload, actor=TOOL, context=context)])

    def _prompt(self, mark: Mark, ts_ms: int) -> None:
        status, pipe, folder = (*mark.fields, "", "", "")[:3]
        self._cwd = ";".join(mark.fields[2:]) or folder or self._cwd
        self._entered.prompt()
        running = self._running
        if running is None:
            if not self._behind:
                self._writer.commits()
            return
        self._end_output()
        code = int(status) if status.lstrip("-").isdigit() else 0
        statuses = [int(part) for part in pipe.split() if part.isdigit()]
        self._writer.sweep(self._actor(running), command=running.event_id)
        if code == _STOPPED:
            self._stopped.stop(running.doing, running.line)
        elif running.line.test is not None:
            self._test(running, code, statuses, ts_ms)
        if not self._behind or running.line.commits:
            self._writer.commits(self._actor(running), command=running.event_id)
        self._running = None

    def _actor(self, running: _Running) -> Mapping[str, Any]:
        """Who changed files while the command ran: the person in an editor, else the command."""
        if running.line.editor:
            return PERSON
        return {"kind": "tool", "id": running.line.program[:100] or None}

    def _test(self, running: _Running, status: int | None, pipe: Sequence[int], ts_ms: int) -> None:
        """Record how a test run ended, if anybody can tell, and the touched files as they were after it."""
        test = running.line.test
        if test is None:
            return
        command_id, began_ms, printed = running.event_id, running.began_ms, running.output
        payload = test_run(
            test, status=status, pipe=pipe, printed=printed.end if printed is not None else "", took=(began_ms, ts_ms)
        )
        if payload is not None:
            payload["command"] = self._writer.clean(running.doing)
            report = report_of(test.words, cwd=self._cwd, began_ms=began_ms) if self._options.keep_output else None
            if report is not None:
                payload |= body("report", self._writer.stored(report), self._spool.blobs)
        context = {**self._writer.context(command_id), "parent_event_id": command_id}

        told = [Draft(type="test_run", payload=payload, actor=TOOL, context=context, ts_ms=ts_ms)] if payload else []
        self._writer.record(lambda: told + self.files.snapshot(sorted(self.files.known), "post_test", context=context))

    # -- the end ------------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """The end of the session: what still runs is closed, the last edits are taken, the final state is noted."""
        if not self._spool.paused:
            if self._running is not None:
                self._end_output()
            self._writer.sweep(PERSON, command=self._command_id)
            self._writer.commits(command=self._command_id)
        self._running = None
        self._writer.close()

    def settled(self) -> bool:
        """Whether what came before the last prompt is recorded, or nothing is any more; from any thread."""
        return self._prompts_done == self._prompts_put or self.failed is not None

    @property
    def _behind(self) -> bool:
        """Whether later commands have ended already: a commit that is seen now may be theirs."""
        return self._prompts_put > self._prompts_taken

    @property
    def _command_id(self) -> str:
        return self._running.event_id if self._running is not None else ""
