"""Collects what a reader finds in one session and turns it into the trace's lines and totals.

Lines wait, redacted, in the order of time until the session is read; beyond a few megabytes in a nameless temporary
database. Prompts are kept once each, named by the hash of their redacted text. What exceeds the bounds is dropped,
oldest first.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, Self, TypedDict

import orjson

from tracer.clock import from_epoch_ms
from tracer.distill.cleaner import Cleaner, cut
from tracer.distill.native import AVAILABILITIES, Availability
from tracer.distill.native_files import Source, Unreadable, decode_record, keep, read_lines, short_id, too_dense
from tracer.distill.readers.summarize import Call, Window, begun, describe, shown, window_of
from tracer.json_values import clean_text
from tracer.redaction.redactor import Clean, CleanLine

if TYPE_CHECKING:
    import sqlite3

_HELD_BYTES: Final = 4 * 1024 * 1024
_HELD_LINES: Final = 50_000


class Spool:
    """An ordered store of encoded lines. Not for more than one thread."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, CleanLine]] = {}
        self._held_bytes = 0
        self._database: sqlite3.Connection | None = None
        self._count = 0
        self._last_ms = 0
        self._in_order = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._database is not None:
            self._database.close()

    def __len__(self) -> int:
        return self._count

    def reserve(self, at_ms: int) -> int:
        """A place for a line that comes later; the number returned names it in `put`."""
        number = self._count
        self._count += 1
        if at_ms < self._last_ms:
            self._in_order = False
        self._last_ms = at_ms
        return number

    def put(self, number: int, at_ms: int, line: CleanLine) -> None:
        """Put `line` in the place `number`, reserved for the time `at_ms`; a second one replaces the first."""
        old = self._held.get(number)
        self._held[number] = (at_ms, line)
        self._held_bytes += len(line) - (len(old[1]) if old is not None else 0)
        if self._held_bytes > _HELD_BYTES or len(self._held) > _HELD_LINES:
            self._spill()

    def lines(self) -> Iterator[CleanLine]:
        """All lines, by time and then by order of arrival."""
        if self._database is None:
            numbers = sorted(self._held) if self._in_order else sorted(self._held, key=lambda n: (self._held[n][0], n))
            for number in numbers:
                yield self._held[number][1]
            return
        self._spill()
        order = "number" if self._in_order else "at_ms, number"
        for (line,) in self._database.execute(f"SELECT line FROM lines ORDER BY {order}"):  # noqa: S608 - two constants
            yield line

    def _spill(self) -> None:
        if self._database is None:
            import sqlite3  # 1.5 MB, for long sessions only

            # An empty name is a private on-disk database: it spills past its cache and needs no clean-up.
            self._database = sqlite3.connect("", isolation_level=None)
            self._database.execute("PRAGMA journal_mode=OFF")
            self._database.execute("PRAGMA synchronous=OFF")
            self._database.execute("PRAGMA cache_size=-8000")
            self._database.execute("CREATE TABLE lines (number INTEGER PRIMARY KEY, at_ms INTEGER, line BLOB)")
        rows = ((number, at_ms, line) for number, (at_ms, line) in self._held.items())
        self._database.execute("BEGIN")
        self._database.executemany("INSERT OR REPLACE INTO lines VALUES (?, ?, ?)", rows)
        self._database.execute("COMMIT")
        self._held.clear()
        self._held_bytes = 0


_AGENT_LIMIT: Final = 1000
_NAME: Final = 200
_EMPTY: Final = Clean("")
_SHOWN_CHARS: Final = 8000
_HELD_CHARS: Final = 16 * 1024 * 1024


class Line(TypedDict, total=False):
    """A line of the trace but the first: what came from the session stands in it clean."""

    type: Literal["thought", "message", "tool", "error"]
    ts: str
    role: str
    text: Clean
    availability: Availability
    name: Clean
    args_summary: Clean
    status: Literal["no_result", "error", "ok"]
    output_tail: Clean
    diagnostics: list[Clean]
    path: Clean
    offset: int
    lines: int
    sha256: str
    duration_ms: int
    agent: Clean


class Prompts:
    """Prompts of one session. `texts` maps sha256 to the redacted text that belongs into the blob store."""

    def __init__(self, cleaner: Cleaner) -> None:
        self._cleaner = cleaner
        self._task: str | None = None
        self.task_sha256: str | None = None
        self.texts: dict[str, Clean] = {}
        self._agents: dict[str, dict[str, Any]] = {}
        self._held = 0

    def take_task(self, text: str) -> bool:
        """Keep `text` as the task's prompt if there is none yet, else say no."""
        if self._task is None:
            self._task = text
            self.task_sha256 = self.store(text)
            return True
        return False

    def store(self, text: str) -> str:
        """Redact and keep `text` (the first 16 million characters of all prompts); the sha256 of the redacted UTF-8."""
        redacted = self._cleaner.clean(text)
        sha256 = hashlib.sha256(redacted.encode()).hexdigest()
        if sha256 not in self.texts and self._held < _HELD_CHARS:
            self.texts[sha256] = redacted
            self._held += len(redacted)
        return sha256

    def agent(self, agent_id: str, *, kind: str | None = None, prompt: str | None = None) -> None:
        """Note a subagent; what is known already stays."""
        agent_id = short_id(agent_id)
        entry = self._agents.get(agent_id)
        if entry is None:
            if len(self._agents) >= _AGENT_LIMIT:
                return
            entry = self._agents[agent_id] = {"id": self._cleaner.clean(agent_id), "type": None, "prompt_sha256": None}
        if kind and entry["type"] is None:
            entry["type"] = shown(self._cleaner.clean(begun(kind, _NAME)), _NAME)
        if prompt and entry["prompt_sha256"] is None:
            sha256 = entry["prompt_sha256"] = self.store(prompt)
            if prompt != self._task:
                entry["prompt"] = cut(self.texts.get(sha256, _EMPTY), _SHOWN_CHARS)

    def to_list(self) -> list[dict[str, Any]]:
        """As `meta.agents` holds them."""
        return list(self._agents.values())


_SEEN_LIMIT: Final = 100_000
_PENDING_LIMIT: Final = 20_000
_PENDING_CHARS: Final = 16 * 1024 * 1024
_DONE_LIMIT: Final = 512
_MOST_TOKENS: Final = 1 << 53
_AGENT_NAMES: Final = 1000
_EARLY_BYTES: Final = 8 * 1024 * 1024

_SECONDS: Final = tuple(f":{second:02d}" for second in range(60))

FILE_OPERATIONS: Final = frozenset({"read", "write", "edit"})
"""What gives back files: their contents are left out."""

Key = tuple[str | None, str]


@dataclass(slots=True)
class Usage:
    """Token totals as the provider counts them; None where it never told."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    thinking: int | None = None
    cache_write: int | None = None

    def add(self, name: str, count: int) -> None:
        """Add `count` to one of the totals; from then on it is known. Totals no session can have are left alone."""
        known = getattr(self, name)
        if known is not None and not count:
            return
        total = (known or 0) + count
        if 0 <= total < _MOST_TOKENS:
            setattr(self, name, total)

    def to_dict(self) -> dict[str, int | None]:
        """As `meta.tokens` holds it."""
        return {"input": self.input, "output": self.output, "cached": self.cached, "thinking": self.thinking}


class Pending(NamedTuple):
    """A call whose result is awaited: its place in the spool and what it is."""

    number: int
    at_ms: int
    name: str
    call: Call
    chars: int


@dataclass(slots=True)
class Result:
    """What came back for a call.

    `output` is shortened, or left out where `silent` (a file's content); `extra` (lines, sha256) is taken as it is;
    `lines_read` is the number of lines a read returned; `whole_file` says that a shell's output was a file.
    """

    output: str = ""
    failed: bool = False
    at_ms: int | None = None
    extra: dict[str, Any] | None = None
    silent: bool = False
    lines_read: int | None = None
    whole_file: bool = False


class Assembly:
    """The growing trace of one session."""

    wants_silent_output: ClassVar[bool] = False
    """Whether readers are to fill in the output of a `silent` result too."""

    def __init__(self, spool: Spool, cleaner: Cleaner, *, since_ms: int | None = None) -> None:
        self.spool = spool
        self.cleaner = cleaner
        self.since_ms = since_ms
        self.cut_off = False  # whether anything lay before `since_ms`
        self.prompts = Prompts(cleaner)
        self.usage = Usage()
        self.thoughts: Counter[str] = Counter(dict.fromkeys(AVAILABILITIES, 0))
        self.tools = 0
        self.errors = 0
        self.error_lines = 0
        self.cost_usd: float | None = None
        self.success: bool | None = None
        self.model: str | None = None
        self.models: set[str] = set()
        self.cli_version: str | None = None
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self._now_ms = 0
        # Two generations: taking the oldest out of one dictionary, again and again, means walking over the gaps.
        self._seen: set[int] = set()
        self._seen_before: set[int] = set()
        self._pending: dict[Key, Pending] = {}
        self._pending_chars = 0
        # Answered calls whose status may still turn out wrong, and unanswered ones that were too many to wait for.
        self._done: dict[Key, tuple[int, int, Line]] = {}
        self._early: dict[Key, Result] = {}
        self._early_bytes = 0
        self._agent_names: dict[str, Clean] = {}

    def at(self, at_ms: int | None) -> int | None:
        """The moment to file a record under (without a time: that of the record before), None if it is too early."""
        if at_ms is None:
            at_ms = self._now_ms
        elif at_ms == self._now_ms and self.since_ms is None:
            return at_ms  # the same record's next part
        else:
            self._now_ms = at_ms
        if self.since_ms is not None and at_ms < self.since_ms:
            self.cut_off = True
            return None
        if at_ms:
            if self.last_ms is None or at_ms > self.last_ms:
                self.last_ms = at_ms
            if self.first_ms is None or at_ms < self.first_ms:
                self.first_ms = at_ms
        return at_ms

    def used_model(self, name: Any, *, agent: str | None) -> None:
        """Note the model of a reply; the main conversation's last one is the trace's."""
        if name == self.model and agent is None:
            return
        if isinstance(name, str) and len(self.models) < 100:
            name = short_id(name)
            self.models.add(name)
            if agent is None:
                self.model = name

    def new(self, *key: object) -> bool:
        """Whether `key` was not seen before; from now on it is."""
        try:
            number = hash(key)
        except TypeError:  # a stranger's list or object where an id belongs
            number = hash(repr(key))
        if number in self._seen or number in self._seen_before:
            return False
        self._seen.add(number)
        if len(self._seen) >= _SEEN_LIMIT:
            self._seen_before, self._seen = self._seen, set()
        return True

    def thought(self, at_ms: int | None, text: str, availability: Availability, *, agent: str | None = None) -> None:
        """A thought, whole; with empty text where something was thought but is not shown."""
        if (moment := self.at(at_ms)) is None:
            return
        self.thoughts[availability] += 1
        fields: Line = {"type": "thought", "ts": _ts(moment), "text": _EMPTY, "availability": availability}
        self._submit(moment, fields, text, agent)

    def message(self, at_ms: int | None, role: str, text: str, *, agent: str | None = None) -> None:
        """A message in the conversation."""
        if not text.strip() or (moment := self.at(at_ms)) is None:
            return
        self._submit(moment, {"type": "message", "ts": _ts(moment), "role": role, "text": _EMPTY}, text, agent)

    def error(self, at_ms: int | None, text: str, *, agent: str | None = None) -> None:
        """Trouble that is no tool's result: a failed request, a damaged record."""
        if (moment := self.at(at_ms)) is None:
            return
        self.errors += 1
        self.error_lines += 1
        # A file's name may stand in it.
        self._submit(moment, {"type": "error", "ts": _ts(moment), "text": _EMPTY}, clean_text(text), agent)

    def _submit(self, moment: int, fields: Line, text: str, agent: str | None) -> None:
        """Write the line `fields` in the next place, once its `text` is clean."""
        if agent is not None:
            fields["agent"] = self._agent_name(agent)
        self.cleaner.submit((text,), self._cleaned, (self.spool.reserve(moment), moment, fields))

    def _agent_name(self, agent: str) -> Clean:
        """What stands on the lines of `agent`: a stranger's name for it, clean."""
        name = self._agent_names.get(agent)
        if name is None:
            if len(self._agent_names) >= _AGENT_NAMES:
                self._agent_names.clear()
            name = self._agent_names[agent] = self.cleaner.clean(short_id(agent))
        return name

    def _cleaned(self, cleaned: Sequence[Clean], at: int, context: tuple[int, int, Line]) -> None:
        number, moment, fields = context
        fields["text"] = cleaned[at]
        self.spool.put(number, moment, _encode(fields))

    def prompt(self, at_ms: int | None, text: str) -> None:
        """What a person asked: the first one is the task, later ones are messages."""
        if not text.strip() or (moment := self.at(at_ms)) is None:
            return
        if not self.prompts.take_task(text):
            self.message(moment, "user", text)

    def call(self, at_ms: int | None, call_id: str, name: str, arguments: Any, *, agent: str | None = None) -> None:
        """A tool call; its result is joined by (agent, call_id). A repeated one is left out."""
        key = _key(agent, call_id)
        if not call_id:  # Codex's web searches have none: each is a call of its own
            if not self.new("nameless", agent, at_ms, name, repr(arguments)):
                return
            if key in self._pending:
                self._settle(key, self._take(key), None)
        elif key in self._pending or key in self._done or not self.new("call", agent, call_id):
            return
        if (moment := self.at(at_ms)) is None:
            return
        call = describe(name, arguments, self.cleaner)
        self.tools += 1
        chars = sum(map(len, call.pieces))
        self._pending[key] = Pending(self.spool.reserve(moment), moment, begun(name, _NAME), call, chars)
        self._pending_chars += chars
        while len(self._pending) > _PENDING_LIMIT or self._pending_chars > _PENDING_CHARS:
            oldest = next(iter(self._pending))
            self._settle(oldest, self._take(oldest), None)
        early = self._early.pop(key, None) if self._early else None
        if early is not None:
            self._early_bytes -= len(early.output)
            # Its reader did not know yet what had been asked for.
            early.silent = early.silent or (call.operation in FILE_OPERATIONS and not early.failed)
            self.result(call_id, early, agent=agent)

    def _take(self, key: Key) -> Pending:
        pending = self._pending.pop(key)
        self._pending_chars -= pending.chars
        return pending

    def pending_call(self, call_id: str, *, agent: str | None = None) -> Call | None:
        """The call that waits for this result, if any."""
        pending = self._pending.get(_key(agent, call_id))
        return pending.call if pending else None

    def result(self, call_id: str, result: Result, *, agent: str | None = None) -> None:
        """Join a result to its call. One that comes before its call waits; a second one is ignored."""
        key = _key(agent, call_id)
        if key not in self._pending:
            if not self.new("early", key) or self._early_bytes >= _EARLY_BYTES:
                return
            if self.at(result.at_ms) is not None:
                self._early[key] = result
                self._early_bytes += len(result.output) + 100
            return
        if result.at_ms is not None:
            self.at(result.at_ms)
        self.errors += result.failed
        self.new("early", key)  # a second answer is no early one
        self._settle(key, self._take(key), result)

    def fail(self, call_id: str, *, agent: str | None = None) -> None:
        """A call already answered turns out to have failed (a command that ended after its first output)."""
        self.cleaner.flush()
        number, at_ms, fields = self._done.get(_key(agent, call_id), (0, 0, Line()))
        if fields.get("status") == "ok":
            fields["status"] = "error"
            self.errors += 1
            self.spool.put(number, at_ms, _encode(fields))

    def finish(self) -> None:
        """Write what still waits, and say what was left over once everything is read."""
        for key in list(self._pending):
            self._settle(key, self._take(key), None)
        if self._early:
            self.error(None, f"{len(self._early)} tool results without a call in this session")
        self.cleaner.flush()

    def _settle(self, key: Key, pending: Pending, result: Result | None) -> None:
        pieces, window = (pending.name, *pending.call.pieces), None
        if result is not None and result.output and not result.silent:
            window = window_of(result.output, failed=result.failed)
        if result is not None:
            result.output = ""
        texts = pieces if window is None else (*pieces, *window.pieces)
        self.cleaner.submit(texts, self._settled, (key, pending, result, window))

    def _settled(
        self, cleaned: Sequence[Clean], at: int, context: tuple[Key, Pending, Result | None, Window | None]
    ) -> None:
        key, pending, result, window = context
        call = pending.call
        end = at + 1 + len(call.pieces)
        own = cleaned[at + 1 : end]
        fields: Line = {
            "type": "tool",
            "ts": _ts(pending.at_ms),
            "name": shown(cleaned[at], _NAME),
            "args_summary": call.summary(own),
            "status": "no_result" if result is None else "error" if result.failed else "ok",
        }
        if window is not None:
            tail, diagnostics = window.digest(cleaned[end : end + len(window.pieces)])
            fields["output_tail"] = tail
            if diagnostics:
                fields["diagnostics"] = diagnostics
        if call.has_path and (call.operation != "shell" or (result is not None and result.whole_file)):
            fields["path"] = own[-1]
        if call.offset:
            fields["offset"] = call.offset
        if result is not None:
            if result.extra:
                fields["lines"], fields["sha256"] = result.extra["lines"], result.extra["sha256"]
            if result.lines_read is not None and call.operation == "read":
                fields["args_summary"] = Clean(f"{fields['args_summary']} ({result.lines_read} lines)")
            if result.at_ms is not None and result.at_ms >= pending.at_ms:
                fields["duration_ms"] = result.at_ms - pending.at_ms
        if key[0] is not None:
            fields["agent"] = self._agent_name(key[0])
        self.spool.put(pending.number, pending.at_ms, _encode(fields))
        keep(self._done, key, (pending.number, pending.at_ms, fields), _DONE_LIMIT)


def _key(agent: str | None, call_id: str) -> Key:
    return agent and short_id(agent), short_id(call_id)


def _ts(moment: int) -> str:
    minute, second = divmod(moment // 1000, 60)
    return _minute_text(minute) + _SECONDS[second]


@lru_cache(maxsize=64)
def _minute_text(minute: int) -> str:
    """`YYYY-MM-DDTHH:MM`; neighbouring lines share it."""
    return from_epoch_ms(minute * 60_000)[:16]


def _encode(fields: Line) -> CleanLine:
    return CleanLine(orjson.dumps(fields) + b"\n")  # a copy of its own length: orjson's keeps a buffer of 4 kB alive


class Reader:
    """What the providers' readers share: one file read into `assembly`, by a subagent or (None) the main agent."""

    def __init__(self, assembly: Assembly, source: Source, agent: str | None) -> None:
        self._assembly = assembly
        self._source = source
        self._agent = agent
        self._damaged = 0

    def _records(self, stream: IO[bytes], is_noise: Callable[[bytes], bool]) -> Iterator[dict[str, Any]]:
        """The records of a file that holds one a line; what is too large is told, what is damaged counted."""
        for line in read_lines(stream, self._source):
            if isinstance(line, Unreadable):
                self._note(f"a record of {line.length} bytes left out: too large")
            elif is_noise(line):
                continue
            elif too_dense(line):
                self._note(f"a record of {len(line)} bytes left out: too many values")
            elif (record := decode_record(line)) is None:
                self._damaged += 1
            else:
                yield record

    def _note(self, text: str) -> None:
        self._assembly.error(None, text, agent=self._agent)

    def _ended(self, *, ok: bool | None) -> None:
        if self._agent is None:
            self._assembly.success = ok

    def _prompt(self, at_ms: int | None, text: str) -> None:
        """What this agent was asked: by the user, or by the agent above it."""
        if self._agent is not None:
            self._assembly.prompts.agent(self._agent, prompt=text)
        else:
            self._assembly.success = None
            self._assembly.prompt(at_ms, text)

    def _report_damage(self, path: Path) -> None:
        if self._damaged:
            self._note(f"{self._damaged} damaged records left out of {path.name}")
