"""ConversationTracer: every round trip of one task, redacted, durable and in order (seed 001, contracts 1).

Thin over the journal: it completes drafts with time, session and task, cleans and redacts them, and returns the entry
as it was written, which is what state must be folded from. One writer per task across processes; the file appears with
its first fact; after FINAL_SUMMARY nothing is added. Timestamps may step backwards with the clock; order is file order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from tracer import clock
from tracer.drafts import Draft
from tracer.errors import EndedError, RecordError, TraceError, UsageError
from tracer.events import clean_line, counted, parse_line
from tracer.facts import Entry, entry_of
from tracer.journal.reading import entries_of, read_entries
from tracer.journal.record_file import TornTail
from tracer.journal.writer import Closing, Journal
from tracer.json_values import clean_json, clean_text
from tracer.lookup import trace_files
from tracer.redaction.redactor import NO_ADDITIONS, CleanLine, RedactionSettings, Redactor
from tracer.statedir import StateDir, TraceName, parse_trace_name, valid_id

Extra = Mapping[str, Any] | None
_LARGE: Final = 1 << 18  # characters from which cleaning and redacting leave the event loop's thread


def default_redactor(state_dir: StateDir, redaction: RedactionSettings = NO_ADDITIONS) -> Redactor:
    """The product's redactor for this project, with the environment's secrets known to it."""
    from tracer.redaction.engine import build_redactor  # rules compile in 60 ms: only writers pay it

    return build_redactor(state_dir=state_dir.root, environ=os.environ, **redaction._asdict())


class ConversationTracer(Closing):
    """The writer of one task's trace; belongs to one event loop; close it to let others write.

    `state_dir` is a path or a StateDir; a new file is named by task and time, and made by the first `log_*` call. Use
    `open_existing` to go on in a file without FINAL_SUMMARY. `extra` adds keys of contracts 1 to a fact's data.
    """

    def __init__(
        self,
        *,
        state_dir: StateDir | Path | str,
        session_id: str,
        task_id: str,
        redactor: Redactor | None = None,
    ) -> None:
        for kind, text in (("session", session_id), ("task", task_id)):
            if not valid_id(text):
                raise UsageError(
                    f"{text!r} cannot be a {kind} id",
                    why="an id is 1 to 100 letters, digits, dots, dashes, underscores",
                )
        self.state_dir = state_dir if isinstance(state_dir, StateDir) else StateDir(Path(state_dir))
        self.session_id = session_id
        self.task_id = task_id
        self._redactor = redactor
        self._journal: Journal | None = None
        self._opening = asyncio.Lock()
        self._path: Path | None = None
        self._existing = False
        self._closed = False

    @classmethod
    async def open_existing(
        cls,
        path: Path | str,
        *,
        state_dir: StateDir | Path | str,
        session_id: str,
        redactor: Redactor | None = None,
    ) -> ConversationTracer:
        """Become the writer of an unfinished trace; a torn tail is moved aside (see `torn`).

        Raises:
            NotFoundError: no such file.
            LockedError: another process writes this task.
            EndedError: it has its FINAL_SUMMARY.
            TraceError: it is no conversation trace.
            RecordError: it cannot be written.

        """
        name = parse_trace_name(Path(path).name)
        if name is None:
            raise TraceError(f"{os.fspath(path)!r} is not a conversation trace", why="its name says no task")
        tracer = cls(state_dir=state_dir, session_id=session_id, task_id=name.task_id, redactor=redactor)
        tracer._path, tracer._existing = Path(path), True
        await tracer._ready()
        return tracer

    async def recorded(self) -> list[Entry]:
        """Every event in the file, read in a thread through the writer's own descriptor. Raises `TraceError`."""
        journal = await self._ready()
        return await asyncio.to_thread(lambda: entries_of(enumerate(journal.lines()), path=journal.path))

    @staticmethod
    def read_trace(path: Path | str) -> list[Entry]:
        """Every fact of a trace, in file order; a torn tail is left out.

        Raises:
            NotFoundError: no such file.
            TraceError: unreadable, or a line is damaged.

        """
        return read_entries(path)

    def get_trace_file_path(self) -> Path:
        """Where this task's facts are or will be written."""
        if self._path is None:
            self._path = self._free_path()
        return self._path

    @property
    def chain_head(self) -> str:
        """sha256 over the durable lines, 64 hex digits ("" before the first)."""
        return self._journal.chain_head if self._journal and self._journal.next_seq else ""

    @property
    def next_seq(self) -> int:
        """The sequence the next fact gets."""
        return self._journal.next_seq if self._journal else 0

    @property
    def torn(self) -> TornTail | None:
        """The torn tail that was moved aside when the trace was opened."""
        return self._journal.torn if self._journal else None

    @property
    def finished(self) -> bool:
        """Whether FINAL_SUMMARY is recorded."""
        return self._journal is not None and self._journal.finished

    async def open(self) -> None:
        """Become the task's writer now instead of at the first fact.

        Raises:
            LockedError: another process writes this task.
            RecordError: the state directory cannot be written.

        """
        await self._ready()

    async def append(self, draft: Draft) -> Entry:
        """Record `draft`; returns the entry as written (cleaned, redacted) once it is durable.

        Raises:
            RecordError: it is not recorded: stop before the next effect.
            LockedError: another process writes this task.
            TraceError: the trace has ended, or the draft has no JSON form or not its event's shape.

        """
        journal = self._journal or await self._ready()
        if sum(len(value) for value in draft.data.values() if isinstance(value, str | list | dict)) > _LARGE:
            entry, line = await asyncio.to_thread(self._complete, draft)
        else:
            entry, line = self._complete(draft)
        await journal.append(line, last=entry.event == "FINAL_SUMMARY")
        if journal.finished:
            with contextlib.suppress(RecordError):  # the fact is durable; a lost chain line is added when it is missed
                await journal.sync_chain()
        return entry

    def _complete(self, draft: Draft) -> tuple[Entry, CleanLine]:
        data = counted(self._rules().redact_value(clean_json(draft.data)))
        subtask_id = None if draft.subtask_id is None else clean_text(draft.subtask_id)
        made = entry_of(
            clock.now_iso(), draft.event, self.session_id, self.task_id, data.value, subtask_id, draft.iteration_index
        )
        return made, clean_line(made.to_dict(), data)

    def _rules(self) -> Redactor:
        if self._redactor is None:
            self._redactor = default_redactor(self.state_dir)
        return self._redactor

    async def _ready(self) -> Journal:
        async with self._opening:
            if self._closed:
                raise TraceError(f"the trace of {self.task_id!r} is closed")
            if self._journal is None:
                await asyncio.to_thread(self.state_dir.ensure)
                await asyncio.to_thread(self._rules().redact_text, "")  # its first use compiles the rules
                path, lock = self.get_trace_file_path(), self.state_dir.task_lock(self.task_id)
                if self._existing:
                    self._journal = await Journal.open(
                        path, lock_path=lock, copies=self.state_dir.copies, refuse=partial(_refuse_ended, path)
                    )
                else:
                    while path.exists():  # named before another writer of the same task came and went
                        self._path = path = self._free_path()
                    self._journal = await Journal.create(path, lock_path=lock, copies=self.state_dir.copies)
            return self._journal

    def _free_path(self) -> Path:
        """A name later in order than every file of this task, even if the clock stepped back."""
        stamp = clock.now_iso()[:19].replace(":", "-")
        name = TraceName(self.task_id, stamp, 1)
        newest = next(iter(trace_files(self.state_dir, self.task_id)), None)
        latest = parse_trace_name(newest.name) if newest else None
        if latest and latest.order >= name.order:
            name = TraceName(self.task_id, latest.stamp, latest.number + 1)
        return self.state_dir.traces / name.file_name()

    async def close(self) -> None:
        """Wait for appends under way and give the task's lock back; harmless when repeated."""
        async with self._opening:
            self._closed = True
            if self._journal is not None:
                await self._journal.close()

    async def log_user_request(self, prompt: str, *, extra: Extra = None) -> Entry:
        """Record USER_REQUEST: the user's words, or a person's later answer (`extra={"action": …}`)."""
        return await self.append(Draft("USER_REQUEST", {"prompt": prompt, **(extra or {})}))

    async def log_system_rules(self, rules: str, *, extra: Extra = None) -> Entry:
        """Record SYSTEM_RULES: the mandatory rules as they are sent."""
        return await self.append(Draft("SYSTEM_RULES", {"rules": rules, **(extra or {})}))

    async def log_chunking_plan(self, subtasks: Sequence[Mapping[str, Any]], *, extra: Extra = None) -> Entry:
        """Record CHUNKING_PLAN."""
        return await self.append(Draft("CHUNKING_PLAN", {"subtasks": list(subtasks), **(extra or {})}))

    async def log_llm_request(
        self, prompt: str, iteration_index: int, *, extra: Extra = None, subtask_id: str | None = None
    ) -> Entry:
        """Record LLM_REQUEST before the call leaves."""
        data: dict[str, Any] = {"prompt": prompt, **(extra or {})}
        if subtask_id is not None:
            data["subtask_id"] = subtask_id
        return await self.append(Draft("LLM_REQUEST", data, iteration_index, subtask_id))

    async def log_llm_response(
        self,
        output: str,
        status: str,
        files_modified: Sequence[str],
        iteration_index: int,
        *,
        extra: Extra = None,
        subtask_id: str | None = None,
    ) -> Entry:
        """Record LLM_RESPONSE before it is judged; `files_modified` comes from comparing the workspace."""
        data = {"output": output, "status": status, "files_modified": list(files_modified), **(extra or {})}
        return await self.append(Draft("LLM_RESPONSE", data, iteration_index, subtask_id))

    async def log_quality_judgment(
        self,
        judgment: str,
        criteria_results: Sequence[Mapping[str, Any]],
        iteration_index: int,
        *,
        summary: str | None = None,
        extra: Extra = None,
        subtask_id: str | None = None,
    ) -> Entry:
        """Record QUALITY_JUDGMENT (PASS, REJECT or RETRY); without `summary` the failed criteria are named."""
        failed = [result["id"] for result in criteria_results if not result["passed"]]
        text = summary if summary is not None else f"{judgment}: {', '.join(failed)}" if failed else judgment
        data = {"judgment": judgment, "criteria_results": list(criteria_results), "summary": text, **(extra or {})}
        return await self.append(Draft("QUALITY_JUDGMENT", data, iteration_index, subtask_id))

    async def log_rejection_details(
        self,
        criteria_failed: Sequence[str],
        modification_prompt: str,
        iteration_index: int,
        *,
        extra: Extra = None,
        subtask_id: str | None = None,
    ) -> Entry:
        """Record REJECTION_DETAILS: what failed and what is sent back."""
        data = {"criteria_failed": list(criteria_failed), "modification_prompt": modification_prompt, **(extra or {})}
        return await self.append(Draft("REJECTION_DETAILS", data, iteration_index, subtask_id))

    async def log_iteration_end(
        self, iteration_index: int, judgment: str, *, extra: Extra = None, subtask_id: str | None = None
    ) -> Entry:
        """Record ITERATION_END."""
        data = {"iteration_index": iteration_index, "judgment": judgment, **(extra or {})}
        return await self.append(Draft("ITERATION_END", data, iteration_index, subtask_id))

    async def log_final_summary(
        self, status: str, total_iterations: int, files_modified: Sequence[str], *, extra: Extra = None
    ) -> Entry:
        """Record FINAL_SUMMARY; nothing can be recorded after it."""
        data = {"status": status, "total_iterations": total_iterations, "files_modified": list(files_modified)}
        return await self.append(Draft("FINAL_SUMMARY", {**data, **(extra or {})}))


def _refuse_ended(path: Path, last: bytes) -> None:
    if parse_line(last).event == "FINAL_SUMMARY":
        raise EndedError(
            f"{os.fspath(path)!r} has ended",
            why="its FINAL_SUMMARY is recorded",
            next_step="resume goes on in a new file",
        )
