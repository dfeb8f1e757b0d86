"""Turns what happens in a recorded session into events, in one thread fed by a queue, and writes each at once.

So redaction, git and the disk never hold up the terminal. A failure to record ends the recording, not the shell.
"""

from __future__ import annotations

import queue
import re
import shlex
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from collector.client.spool import Draft, Spool
from collector.recorder.command_lines import Line, read_line, target_lines
from collector.recorder.editor import Editor, refusal
from collector.recorder.files import body
from collector.recorder.screen_text import PlainText, looks, numbered, placed, report_of, shows, test_run
from collector.recorder.shell_marks import Mark
from collector.recorder.writer import PERSON, TOOL, RecordWriter, ScribeOptions, ensure_base_bundle
from runner.workspace.git.repository import Git
from tracer.clock import monotonic, new_id
from tracer.errors import PmError, UsageError
from tracer.redaction.cuts import beginning
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.streams import StreamRedactor

WITHHELD: Final = "[not recorded: typed with a leading space]"
UNKNOWN: Final = "[not recorded: the shell keeps no history]"
_PROMPT_BYTES: Final = 64 << 10


class Entered:
    """The lines of one shell. `drawn` takes what the terminal shows at the prompt, `prompt` begins a new one."""

    def __init__(self) -> None:
        self._history = -1
        self._at_prompt = b""

    def drawn(self, data: bytes) -> None:
        """More was drawn at the prompt."""
        self._at_prompt = (self._at_prompt + data)[-_PROMPT_BYTES:]

    def prompt(self) -> None:
        """A new prompt begins."""
        self._at_prompt = b""

    def passed_over(self, mark: Mark) -> None:
        """A line that is not recorded, but counts in the shell's history."""
        self._history = numbered(mark)[0]

    def text_of(self, mark: Mark, typed: bytes) -> str:
        """The line, or `WITHHELD` or `UNKNOWN`; `typed` is what was typed first since the prompt."""
        if mark.fields[:1] != ("bash",):
            withheld = mark.fields[:1] == ("withheld",)
            return WITHHELD if withheld else mark.text.decode("utf-8", "replace").strip("\n")
        number, text = numbered(mark)
        same, self._history = number == self._history, number
        if not text:
            return UNKNOWN
        if not same:
            return text
        # Left out of the history: a repetition (the prompt shows the same text again), or a line with a leading space.
        spaced = typed.removeprefix(b"\x1b[200~").startswith(b" ")
        return text if not spaced and shows(self._at_prompt, text) else WITHHELD


class Stopped:
    """The commands that Ctrl+Z stopped, in the order in which they were."""

    def __init__(self) -> None:
        self._jobs: list[tuple[str, Line]] = []

    def stop(self, text: str, line: Line) -> None:
        """The command was stopped."""
        self._jobs.append((text, line))

    def resumed_by(self, text: str) -> tuple[str, Line] | None:
        """Take the stopped command (text, line) that `fg`, `fg %2` or `%vim` resumes; without a name the last."""
        try:
            words = shlex.split(text)
        except ValueError:
            return None
        if not words or (words[0] != "fg" and not words[0].startswith("%")) or not self._jobs:
            return None
        wanted = next((word for word in words if word.startswith("%")), "").lstrip("%+")
        if wanted.isdigit():
            place = int(wanted) - 1
        else:
            place = next((at for at, job in enumerate(self._jobs) if wanted and job[0].startswith(wanted)), -1)
        return self._jobs.pop(place if place < len(self._jobs) else -1)


_CHUNK = 32 << 10
_MARGIN = 8 << 10
_NEWEST = 2048
# zsh's sign for output without a last newline, a line of blanks, and the way back (option PROMPT_SP).
_PROMPT_SP = re.compile(rb"(?:\x1b\[[0-9;]*m)*[%#](?:\x1b\[[0-9;]*m)* +\r \r\Z")


class CommandOutput:
    """A command's output in chunks (`redactor` None: as is); `dropped`, `total` count characters, `end` is its tail."""

    def __init__(self, redactor: ProjectRedactor | None, *, head: int, tail: int, zsh: bool = False) -> None:
        self._zsh = zsh
        self._newest = b""
        self._redactor = redactor
        self._stream = StreamRedactor(redactor) if redactor is not None else None
        self._plain = PlainText()
        self._head, self._tail = head, tail
        self._ready = ""
        self._ring = ""
        self._beyond = 0
        self._told_beyond = 0
        self._whole = True
        self.total = 0
        self.dropped = 0
        self.end = ""

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes of the terminal."""
        if self._zsh:  # what it draws before a prompt comes without a mark: the end is looked at when it is one
            data = self._newest + data
            self._newest = data[-_NEWEST:]
            data = data[: len(data) - len(self._newest)]
        return self._take(self._plain.feed(data))

    def flush(self) -> list[str]:
        """What is ready now, however little."""
        ready, self._ready = self._ready, ""
        return [ready] if ready else []

    def close(self) -> list[str]:
        """Everything left, the end of what was too long included."""
        chunks = self._take(self._plain.feed(_PROMPT_SP.sub(b"", self._newest)) + self._plain.close())
        if self._whole:
            self._ready += self._last(self._ring)
        else:
            self._end_of_long()
        self._ring = ""
        return chunks + self._split(last=True)

    def _take(self, text: str) -> list[str]:
        if not text:
            return []
        self.total += len(text)
        self.end = (self.end + text)[-4096:]
        room = max(self._head - (self.total - len(text)), 0)
        self._ready += self._clean(text[:room]) if room else ""
        if room < len(text):
            self._keep_tail(text[room:])
        return self._split(last=False)

    def _clean(self, text: str) -> str:
        return self._stream.feed(text) if self._stream is not None else text

    def _last(self, text: str) -> str:
        return self._stream.feed(text) + self._stream.close() if self._stream is not None else text

    def _keep_tail(self, text: str) -> None:
        self._beyond += len(text)
        ring, most = self._ring + text, self._tail + _MARGIN
        if self._whole and len(ring) > most:
            self._whole = False
            self._close_head(ring[:_MARGIN])
        self._ring = ring[-most:]

    def _close_head(self, after: str) -> None:
        """Something will be missing: close the head at the end of a line, judged with what comes after the cut."""
        self._ready += self._last(after)
        limit = max(len(self._ready) - len(after), 0)
        end = (self._ready.rfind("\n", 0, limit) + 1) or (self._ready.rfind("\n") + 1)
        self._told_beyond = len(after) - len(self._ready[end:])
        self._ready = self._ready[:end]

    def _end_of_long(self) -> None:
        ring = self._ring
        if self._redactor is not None:
            ring = self._redactor.untruncated().redact_text(ring)[0]
        start = ring.find("\n", max(len(ring) - self._tail, 0)) + 1
        kept = ring[start:]
        self.dropped = max(self._beyond - self._told_beyond - len(kept), 1)
        self._ready += f"[... {self.dropped:,} characters not kept ...]\n{kept}"

    def _split(self, *, last: bool) -> list[str]:
        chunks: list[str] = []
        while len(self._ready) >= _CHUNK:
            chunks.append(self._ready[:_CHUNK])
            self._ready = self._ready[_CHUNK:]
        if last and self._ready:
            chunks.append(self._ready)
            self._ready = ""
        return chunks


_TICK_S: Final = 0.5
_FLUSH_S: Final = 2.0
_TIME: Final = re.compile(rb"(\d{1,11})[.,](\d{3})\d*")
_LATE_MS: Final = 60_000
_STOPPED: Final = 128 + signal.SIGTSTP


class Item(NamedTuple):
    """Something that happened at `ts_ms`: terminal output, a mark, changed paths, an editor's line, or the end."""

    kind: Literal["output", "mark", "files", "told", "end"]
    ts_ms: int
    data: Any = None
    typed: bytes = b""
    """For a command's mark: the first bytes typed since the prompt."""


@dataclass(slots=True)
class _Running:
    """The command that runs now, as entered and as resumed by `fg`; `event_id` is empty where it is not recorded."""

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

    `tell` gets one line for the user when something fails; `failed` is why recording ended early, and then `gave_up` is
    called; `begun` is set once the capture may be created at a collector.
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
        self._editor = Editor(spool, self._writer, options, top=str(git.top), narrowed=self._narrowed)
        self._entered = Entered()
        self._stopped = Stopped()
        self._running: _Running | None = None
        self._cwd = str(git.top)
        self._was_paused = False
        self._prompts_put = self._prompts_done = 0
        self.failed: PmError | None = None
        self.begun = threading.Event()

    def look_first(self) -> None:
        """Take what was changed before the session; called before its shell starts, whose changes are others."""
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
                self._take(item)
                self._prompts_done += item.kind == "mark" and item.data.kind != "command"
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
            if item.kind == "told":
                item.data[1](refusal(error))
            elif item.kind == "output":
                printed = True
            elif printed and told and item.kind == "mark" and item.data.kind != "command":
                self._tell(told)  # once more at the prompt: what the command printed may have carried it away
                told = ""

    def _take(self, item: Item) -> None:
        paused = self._paused(item)
        if item.kind == "told":
            self._told(*item.data)
            return
        if paused:
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

    def _told(self, line: bytes, answer: Callable[[Mapping[str, Any]], None]) -> None:
        try:
            answer(self._editor.take(line, command=self._command_id))
        except PmError as error:
            answer(refusal(error))
            if not isinstance(error, UsageError):  # ours, not the editor's
                raise

    def _narrowed(self, flags: Mapping[str, bool]) -> None:
        self._options = replace(self._options, keep_output=flags["store_terminal_output"])
        self.files.text_only = not flags["store_raw_code"]

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
        inside = partial(target_lines, self._cwd, top=str(self._git.top))
        line = Line() if withheld else read_line(text, inside=inside)
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
        self._look_after(running, ts_ms)
        if running.line.test is not None:
            self._test(running, None, (), ts_ms)
        self._writer.commits(self._actor(running), command=running.event_id, until_ms=ts_ms)

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
                actor={"kind": "tool", "id": beginning(running.line.program, 100) or None},
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
        running, until_ms = self._running, _ended_ms(mark, ts_ms)
        if running is None:
            self._writer.commits(until_ms=until_ms)
            return
        self._end_output()
        code = int(status) if status.lstrip("-").isdigit() else 0
        statuses = [int(part) for part in pipe.split() if part.isdigit()]
        self._look_after(running, until_ms)
        if code == _STOPPED:
            self._stopped.stop(running.doing, running.line)
        elif running.line.test is not None:
            self._test(running, code, statuses, ts_ms)
        self._writer.commits(self._actor(running), command=running.event_id, until_ms=until_ms)
        self._running = None

    def _look_after(self, running: _Running, until_ms: int) -> None:
        """Look at what the command changed until its end: what came later, of a line typed ahead, is not its doing."""
        self._writer.sweep(self._actor(running), command=running.event_id, until_ms=until_ms)

    def _actor(self, running: _Running) -> Mapping[str, Any]:
        """Who changed files while the command ran: the user in an editor, else the command."""
        if running.line.editor:
            return PERSON
        return {"kind": "tool", "id": beginning(running.line.program, 100) or None}

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
    def _command_id(self) -> str:
        return self._running.event_id if self._running is not None else ""


def _ended_ms(mark: Mark, read_ms: int) -> int:
    """When a command ended, by the shell; when its mark was read, where the shell does not tell it."""
    told = _TIME.fullmatch(mark.text)
    ended_ms = int(told[1] + told[2]) if told is not None else read_ms
    return ended_ms if read_ms - _LATE_MS <= ended_ms <= read_ms else read_ms
