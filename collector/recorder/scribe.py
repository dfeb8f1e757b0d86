"""Turns what happens in a recorded session into events and writes each to the spool before the next is looked at.

Runs in one thread of its own and takes items from a queue, so that redaction, git and the disk never hold up the
terminal. What another process adds (`pm think`, `pm snapshot`) is read under the same lock, so all see one state. A
failure to record ends the recording and is told; the shell goes on.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson

from collector.client_events import acceptable
from collector.recorder.bundle import ensure_base_bundle, final_bundle
from collector.recorder.commits import Head
from collector.recorder.files import FileTracker, body
from collector.recorder.marks import Mark
from collector.recorder.output import CommandOutput
from collector.recorder.recognise import Line, junit_path, read_line, status_of
from collector.recorder.shell_words import looks, numbered, shows, told_by_summary
from collector.spool import Draft, Spool
from runner.workspace.git import Git
from tracer.clock import monotonic, new_id
from tracer.errors import PmError
from tracer.redaction.engine import ProjectRedactor

__all__ = ["Item", "Scribe", "ScribeOptions"]

_TICK_S: Final = 0.5
_FLUSH_S: Final = 2.0
_PROMPT_BYTES: Final = 64 << 10
_LARGEST_REPORT: Final = 5 << 20
_WITHHELD: Final = "[not recorded: typed with a leading space]"
_UNKNOWN: Final = "[not recorded: the shell keeps no history]"
_TOOL: Final = {"kind": "tool", "id": "pm record"}


class Item(NamedTuple):
    """Something that happened at `ts_ms`: terminal output, a mark, changed paths, or the end."""

    kind: Literal["output", "mark", "files", "end"]
    ts_ms: int
    data: Any = None
    typed: bytes = b""
    """For a command's mark: the first bytes typed since the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScribeOptions:
    """How a recording is written. `redactor` None keeps everything as it is (raw mode)."""

    shell: str
    redactor: ProjectRedactor | None = field(repr=False)
    env_hash: str
    keep_output: bool
    left_out: Callable[[str], bool]
    snapshots: bool = True
    text_only: bool = True
    file_limit: int = 1 << 20
    output_head: int = 1 << 20
    output_tail: int = 64 << 10


@dataclass(slots=True)
class _Running:
    """The command that runs now; `event_id` is empty where it is not recorded."""

    text: str
    line: Line
    began_ms: int
    output: CommandOutput | None
    event_id: str = ""
    flushed: float = 0.0
    bytes_seen: int = 0


class Scribe:
    """The writer of one recording. `put` from any thread; `start` and `join` as of a thread.

    `tell` is called with one line for the person when something goes wrong; `failed` is why recording ended early;
    `begun` is set once the capture may be created at a collector (its bundle is there, if it is to have one).
    """

    def __init__(self, spool: Spool, git: Git, options: ScribeOptions, *, tell: Callable[[str], None]) -> None:
        self._spool = spool
        self._git = git
        self._options = options
        self._tell = tell
        self._items: queue.Queue[Item] = queue.Queue(maxsize=1024)
        self._thread = threading.Thread(target=self._run, name="scribe", daemon=True)
        begun = int(spool.header.get("created_at_ms") or 0) if spool.last_event() else None
        self._head = Head(git, since_ms=begun)
        self._base = str(spool.header["request"]["repo"]["commit_base"])
        self.files = FileTracker(
            git,
            base=self._base,
            blobs=spool.blobs,
            store=self.stored,
            left_out=options.left_out,
            limit=options.file_limit,
            snapshots=options.snapshots,
            text_only=options.text_only,
        )
        self._running: _Running | None = None
        self._history = -1
        self._at_prompt = b""
        self._committed: set[str] = set()
        self._cwd = str(git.top)
        self._was_paused = False
        self.failed: PmError | None = None
        self.begun = threading.Event()

    def look_first(self) -> None:
        """Take what was changed before the session; called before its shell starts, whose changes are others.

        Raises:
            RecordError: the spool cannot be written.

        """
        paths = self.files.changed_paths()
        context = self._context(command=False)
        self._record(
            lambda: [
                _noted(draft, "before_recording") for draft in self.files.observe(paths, actor=_TOOL, context=context)
            ]
        )

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, item: Item) -> None:
        """Hand over something that happened; waits where the scribe is far behind."""
        if self._thread.is_alive() or not self._thread.ident:
            self._items.put(item)

    def join(self) -> None:
        """Wait until everything handed over is written and the recording is closed."""
        self._thread.join()

    def stored(self, data: bytes) -> bytes:
        """The stored form of a file's bytes: secrets replaced unless this recording is raw."""
        redactor = self._options.redactor
        if redactor is None:
            return data
        whole = redactor.untruncated()
        return whole.apply(data, whole.marks(data))[0]

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
        except PmError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - top of the thread: a defect here must be told, not lost with it
            self._fail(PmError(f"{type(error).__name__}: {error}"))

    def _fail(self, error: PmError) -> None:
        self.failed = error
        self._tell(
            f"recording has stopped: {error.what}{f' ({error.why})' if error.why else ''}; what was recorded is safe"
        )
        while self._items.get().kind != "end":  # nobody who hands something over may wait for ever
            pass

    def _take(self, item: Item) -> None:
        if self._paused(item):
            return
        if item.kind == "output":
            self._output(item.data)
        elif item.kind == "files":
            self._saved(item.data)
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
            self._sweep(_TOOL, note="while_paused")
            self._head.moved()
        self._was_paused = paused
        if paused and item.kind == "mark" and item.data.kind == "command":
            self._history = numbered(item.data)[0]
        return paused

    def _tick(self) -> None:
        if self._spool.paused != self._was_paused:
            self._paused(Item("output", 0))
        running = self._running
        if running is not None and running.output is not None and monotonic() - running.flushed > _FLUSH_S:
            self._keep(running, running.output.flush())

    # -- commands ---------------------------------------------------------------------------------------------------

    def _command(self, mark: Mark, item: Item) -> None:
        text = self._text_of(mark, item.typed)
        withheld = text in {_WITHHELD, _UNKNOWN}
        line = Line() if withheld else read_line(text)
        running = _Running(text, line, item.ts_ms, None, flushed=monotonic())
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
            self._sweep({"kind": "human", "id": None})
        self._record(lambda: self._command_drafts(running, withheld=withheld))

    def _command_drafts(self, running: _Running, *, withheld: bool) -> list[Draft]:
        context = {**self._context(command=False), "correlation_id": running.event_id}
        payload = {
            "cwd": self._clean(self._cwd),
            "command": self._clean(running.text),
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
        if withheld:
            return drafts
        context = self._context()
        drafts += looks(running.line, self._clean, context=context, ts_ms=running.began_ms)
        if running.line.test is not None:
            drafts += self.files.snapshot(sorted(self.files.known), "pre_test", context=context)
        return drafts

    def _text_of(self, mark: Mark, typed: bytes) -> str:
        """The command's line. bash says it through its history, which tells nothing new for a line it leaves out."""
        if mark.fields[:1] != ("bash",):
            withheld = mark.fields[:1] == ("withheld",)
            return _WITHHELD if withheld else mark.text.decode("utf-8", "replace").strip("\n")
        number, text = numbered(mark)
        same, self._history = number == self._history, number
        if not text:
            return _UNKNOWN
        if not same:
            return text
        # Left out of the history: a repetition (the prompt shows the same text again), or a line with a leading space.
        spaced = typed.removeprefix(b"\x1b[200~").startswith(b" ")
        return text if not spaced and shows(self._at_prompt, text) else _WITHHELD

    def _output(self, data: bytes) -> None:
        running = self._running
        if running is None:
            self._at_prompt = (self._at_prompt + data)[-_PROMPT_BYTES:]
        if running is None or running.output is None:
            return
        running.bytes_seen += len(data)
        self._keep(running, running.output.feed(data))

    def _keep(self, running: _Running, chunks: Sequence[str], *, truncated: bool = False) -> None:
        running.flushed = monotonic()
        if not self._options.keep_output or not chunks:
            return
        context = {**self._context(), "parent_event_id": running.event_id}
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
        self._record(lambda: drafts)

    def _end_output(self) -> None:
        running = self._running
        if running is None or running.output is None:
            return
        chunks = running.output.close()
        if self._options.keep_output:
            self._keep(running, chunks, truncated=running.output.dropped > 0)
        elif running.output.total:  # what was printed is nobody's business, that something was is
            payload = {"stream": "stdout", "chunk": "", "is_truncated": True, "characters": running.output.total}
            context = {**self._context(), "parent_event_id": running.event_id}
            self._record(lambda: [Draft(type="terminal_output", payload=payload, actor=_TOOL, context=context)])

    def _prompt(self, mark: Mark, ts_ms: int) -> None:
        status, pipe, folder = (*mark.fields, "", "", "")[:3]
        self._cwd = ";".join(mark.fields[2:]) or folder or self._cwd
        self._at_prompt = b""
        running = self._running
        if running is None:
            self._commits()
            return
        self._end_output()
        code = int(status) if status.lstrip("-").isdigit() else 0
        statuses = [int(part) for part in pipe.split() if part.isdigit()]
        self._sweep(self._actor(running))
        if running.line.test is not None:
            self._test(running, code, statuses, ts_ms)
        self._commits()
        self._running = None

    def _actor(self, running: _Running) -> dict[str, Any]:
        """Who changed files while the command ran: the person in an editor, else the command."""
        if running.line.editor:
            return {"kind": "human", "id": None}
        return {"kind": "tool", "id": running.line.program[:100] or None}

    def _test(self, running: _Running, line_status: int, pipe: Sequence[int], ts_ms: int) -> None:
        test = running.line.test
        if test is None:
            return
        code = status_of(test, line_status=line_status, pipe=pipe)
        if code is None and running.output is not None:
            code = told_by_summary(running.output.end)
        context = {**self._context(), "parent_event_id": running.event_id}
        drafts: list[Draft] = []
        if code is not None:
            payload: dict[str, Any] = {
                "command": self._clean(running.text),
                "runner": test.runner,
                "exit_code": code,
                "duration_ms": max(ts_ms - running.began_ms, 0),
                "passed": code == 0,
                **self._report(test.words, running.began_ms),
            }
            drafts.append(Draft(type="test_run", payload=payload, actor=_TOOL, context=context, ts_ms=ts_ms))

        def make() -> list[Draft]:
            return drafts + self.files.snapshot(sorted(self.files.known), "post_test", context=context)

        self._record(make)

    def _report(self, words: Sequence[str], began_ms: int) -> dict[str, Any]:
        """The JUnit report that the run was told to write, where it did."""
        named = junit_path(words)
        if named is None or not self._options.keep_output:
            return {}
        path = Path(self._cwd) / named
        try:
            facts = path.stat()
            if facts.st_size > _LARGEST_REPORT or facts.st_mtime_ns // 1_000_000 < began_ms - 1000:
                return {}
            return body("report", self.stored(path.read_bytes()), self._spool.blobs)
        except OSError:
            return {}

    # -- files and commits ------------------------------------------------------------------------------------------

    def _saved(self, paths: Sequence[str]) -> None:
        running = self._running
        actor = self._actor(running) if running is not None else {"kind": "human", "id": None}
        wanted = self.files.not_ignored(paths)
        if wanted:
            self._record(lambda: self.files.observe(wanted, actor=actor, context=self._context()))

    def _sweep(self, actor: Mapping[str, Any], *, note: str = "") -> None:
        """Look at everything that git says differs: what the watcher has not told yet, or never will."""
        paths = self.files.changed_paths()

        def make() -> list[Draft]:
            drafts = self.files.observe(paths, actor=actor, context=self._context())
            return [_noted(draft, note) for draft in drafts] if note else drafts

        self._record(make)

    def _commits(self) -> None:
        for made in self._head.moved():
            if made.sha in self._committed or made.sha == self._base:
                continue
            self._committed.add(made.sha)
            payload: dict[str, Any] = {
                "commit_sha": made.sha,
                "parent_sha": made.parent or None,
                "message": self._clean(made.message),
                **body("diff", self.files.commit_diff(made.parent, made.sha), self._spool.blobs),
            }
            self._record(lambda said=payload: [Draft(type="commit", payload=said, context=self._context())])  # type: ignore[misc] # mypy cannot infer a default of a lambda

    # -- writing ----------------------------------------------------------------------------------------------------

    def _record(self, make: Callable[[], list[Draft]]) -> None:
        """Append what `make` drafts, in one step with what it looked at."""
        with self._spool.writing() as others:
            for line in others:
                self._learn(orjson.loads(line.raw))
            drafts = make()
            if drafts:
                self._spool.append_held(acceptable(drafts))

    def _learn(self, event: Mapping[str, Any]) -> None:
        """Take over what stands in the spool already: by us before a crash, or by another process."""
        self.files.learn(event)
        if event.get("type") == "commit":
            self._committed.add(str(event["payload"].get("commit_sha")))

    def _context(self, *, command: bool = True) -> dict[str, Any]:
        running = self._running if command else None
        root = str(self._git.top)
        return {
            "workspace_root": self._clean(root),
            "branch": self._clean(self._head.branch) or None,
            "commit_head": self._head.commit or None,
            "correlation_id": running.event_id or None if running is not None else None,
        }

    def _clean(self, text: str) -> str:
        redactor = self._options.redactor
        return redactor.redact_text(text)[0] if redactor is not None and text else text

    def _close(self) -> None:
        """The end of the session: what still runs is closed, the last edits are taken, the final state is noted."""
        if not self._spool.paused:
            if self._running is not None:
                self._end_output()
            self._sweep({"kind": "human", "id": None})
            self._commits()
        self._running = None
        bug = self._spool.header["request"]["task"]["bug_report"]
        difference = self.files.difference()
        title = str(bug.get("title") or "")
        state: dict[str, Any] = {
            "commit_head": self._head.commit or None,
            "pr": {"title": title or None, "description": None, **body("diff", difference, self._spool.blobs)},
        }
        bundle = final_bundle(self._spool, self._git, head=self._head.commit)
        if bundle is not None:
            state["bundle_blob_id"] = bundle
        self._spool.close(state)


def _noted(draft: Draft, note: str) -> Draft:
    return replace(draft, payload={**draft.payload, "found": note})
