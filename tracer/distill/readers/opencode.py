"""Reads opencode's sessions (1.18): messages and their parts, JSON in the rows of one database.

A subagent's session names its parent. Input tokens leave out cached and written ones, output leaves out reasoning; each
reply holds what opencode took it to cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.distill.locate.opencode import opened
from tracer.distill.native import Availability, NativeSession
from tracer.distill.native_files import MAX_LINE, Source, as_object, as_text, decode_record, epoch_ms, too_dense
from tracer.distill.readers.assembly import FILE_OPERATIONS, Assembly, Reader, Result

if TYPE_CHECKING:
    import sqlite3

_ROWS = (
    "SELECT m.id, iif(length(m.data) <= :most, m.data, NULL), iif(length(p.data) <= :most, p.data, NULL),"
    " p.time_created, p.id IS NOT NULL FROM message m LEFT JOIN part p ON p.message_id = m.id"
    " WHERE m.session_id = :session ORDER BY m.time_created, m.id, p.id"
)


def read_opencode(session: NativeSession, assembly: Assembly, source: Source) -> None:
    """Read the session, and those of its subagents, into `assembly`."""
    with opened(session.path) as database:
        for agent in (None, *session.agents):
            if agent is not None:
                assembly.prompts.agent(agent.agent_id, kind=agent.kind)
            reader = _Reader(assembly, source, None if agent is None else agent.agent_id)
            reader.read(database, session.session_id if agent is None else agent.agent_id)


class _Reader(Reader):
    def read(self, database: sqlite3.Connection, session_id: str) -> None:
        last, message = None, None
        rows = database.execute(_ROWS, {"most": MAX_LINE, "session": session_id})
        for number, told, part, at_ms, has_part in rows:
            if number != last:
                last, message = number, self._record(told)
                if message is not None:
                    self._message(message)
            if has_part and message is not None and (record := self._record(part)) is not None:
                self._part(record, message, epoch_ms(at_ms))
        if self._damaged:
            self._note(f"{self._damaged} records left out: damaged, or too large")

    def _record(self, told: Any) -> dict[str, Any] | None:
        data = told.encode("utf-8", "surrogatepass") if isinstance(told, str) else told
        record = None
        if isinstance(data, bytes):
            self._source.size += len(data)
            self._source.records += 1
            self._source.digest.update(data + b"\n")
            record = None if too_dense(data) else decode_record(data)
        self._damaged += record is None
        return record

    def _message(self, message: dict[str, Any]) -> None:
        if message.get("role") != "assistant":
            self._ended(ok=None)
            return
        time, tokens, error = (as_object(message.get(key)) for key in ("time", "tokens", "error"))
        at_ms = epoch_ms(time.get("created"))
        if self._assembly.at(at_ms) is None:
            return
        self._assembly.used_model(message.get("modelID"), agent=self._agent)
        cache = as_object(tokens.get("cache"))
        for name, count in (
            ("input", tokens.get("input")),
            ("output", tokens.get("output")),
            ("cached", cache.get("read")),
            ("cache_write", cache.get("write")),
            ("thinking", tokens.get("reasoning")),
        ):
            if type(count) is int:
                self._assembly.usage.add(name, count)
        cost = message.get("cost")
        if isinstance(cost, int | float) and cost > 0:  # 0: it knows no price
            self._assembly.cost_usd = round((self._assembly.cost_usd or 0.0) + cost, 6)
        if error:
            self._assembly.error(at_ms, as_text(as_object(error.get("data")).get("message") or error.get("name")))
        finish = message.get("finish")
        self._ended(ok=False if error else True if finish == "stop" else None)

    def _part(self, part: dict[str, Any], message: dict[str, Any], at_ms: int | None) -> None:
        text = as_text(part.get("text"))
        match part.get("type"):
            case "text" if message.get("role") == "assistant":
                self._assembly.message(at_ms, "assistant", text, agent=self._agent)
            case "text" if not part.get("synthetic"):
                self._prompt(at_ms, text)
            case "reasoning":
                whole = message.get("providerID") == "anthropic"
                worth: Availability = "encrypted" if not text else "full" if whole else "summary"
                self._assembly.thought(at_ms, text, worth, agent=self._agent)
            case "tool":
                self._tool(part, as_object(part.get("state")), at_ms)

    def _tool(self, part: dict[str, Any], state: dict[str, Any], at_ms: int | None) -> None:
        call_id, status, time = as_text(part.get("callID")), state.get("status"), as_object(state.get("time"))
        began = epoch_ms(time.get("start")) or at_ms
        self._assembly.call(began, call_id, as_text(part.get("tool")), state.get("input"), agent=self._agent)
        if status not in {"completed", "error"}:
            return
        call = self._assembly.pending_call(call_id, agent=self._agent)
        metadata = as_object(state.get("metadata"))
        failed = status == "error" or metadata.get("exit") not in {0, None}
        output = as_text(state.get("error") if status == "error" else state.get("output"))
        result = Result(output=output, failed=failed, at_ms=epoch_ms(time.get("end")))
        if call is not None and call.operation in FILE_OPERATIONS and not failed:
            result.silent = True
            lines = as_object(metadata.get("display")).get("totalLines")
            result.lines_read = lines if type(lines) is int else None
        self._assembly.result(call_id, result, agent=self._agent)
