"""Claude Code's session files, versions 1.0 to 2.1: one JSON line per content block, subagents inside or beside.

Only `user`, `assistant`, `cost-state` and interruptions tell anything new; every other type repeats or injects and is
passed over, most of it without being parsed. A reply's usage stands on each of its lines and is counted once.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from tracer.distill.native import Availability, NativeSession
from tracer.distill.native_files import (
    DENSE_FROM,
    Source,
    Unreadable,
    as_object,
    as_text,
    decode_record,
    epoch_ms,
    keep,
    open_native,
    read_batches,
    short_id,
    too_dense,
)
from tracer.distill.readers.assembly import FILE_OPERATIONS, Assembly, Reader, Result
from tracer.distill.readers.summarize import fingerprint, line_count

_REMINDER: Final = re.compile(r"\s*<system-reminder>.*?</system-reminder>\s*\Z", re.DOTALL)
_WRAPPED: Final = re.compile(r"\A<tool_use_error>(.*)</tool_use_error>\Z", re.DOTALL)
_INJECTED: Final = (
    "<command-", "<local-command-", "<bash-", "<system-reminder>", "<task-notification>",
    "Caveat: The messages below were generated", "This session is being continued from a previous conversation",
)  # fmt: skip
_INTERRUPTED: Final = "[Request interrupted by user"
_SAFE_NAME: Final = re.compile(r"[\w.-]{1,128}\.txt")
_NOISE: Final = (
    b'{"type":"api-request', b'{"type":"queue-operation"', b'{"type":"last-prompt"', b'{"type":"summary"',
    b'{"type":"file-history-snapshot"', b'{"type":"tools-used"', b'{"type":"atis-latch"', b'{"type":"mode"',
)  # fmt: skip
_TYPE: Final = b'{"type":"'
_ATTACHMENT: Final = b'"attachment":{'
_COUNTS: Final = (
    ("input", "input_tokens"), ("cached", "cache_read_input_tokens"), ("cache_write", "cache_creation_input_tokens"),
    ("output", "output_tokens"),
)  # fmt: skip
_REPLIES: Final = 512
_ENDINGS: Final = {"end_turn": True, "stop_sequence": True, "refusal": False, "max_tokens": False}
_TAIL_BYTES: Final = 64 * 1024
_SIDECHAINS: Final = 50_000
_SPAWNED: Final = 1000


def read_claude(session: NativeSession, assembly: Assembly, source: Source) -> None:
    """Read the main file and then each subagent's file into `assembly`."""
    _Reader(session, assembly, source, None).read(session.path)
    for file in session.agents:
        reader = _Reader(session, assembly, source, file.agent_id)
        if not reader.is_warmup(file.path):
            assembly.prompts.agent(file.agent_id, kind=file.kind)
            reader.read(file.path)


class _Reader(Reader):
    """Reads one file; `agent` is the subagent whose file it is, None for the main one."""

    def __init__(self, session: NativeSession, assembly: Assembly, source: Source, agent: str | None) -> None:
        self._session = session
        super().__init__(assembly, source, agent)
        self._outputs: dict[tuple[str | None, str], dict[str, int]] = {}
        self._last_usage: object = None
        self._kinds: dict[int, str] = {}
        self._chains: dict[str, str] = {}
        self._cost_before: float | None = None

    def is_warmup(self, path: Path) -> bool:
        """Whether this is one of 2.0's warm-up agents: noise in every session."""
        with open_native(path) as stream:
            head = stream.read(4096)
        record = decode_record(head.split(b"\n", 1)[0]) or {}
        return as_object(record.get("message")).get("content") == "Warmup"

    def read(self, path: Path) -> None:
        """Every record of the file, in file order; damage becomes one `error` line."""
        with open_native(path) as stream:
            for lines in read_batches(stream, self._source):
                for line in lines:
                    if isinstance(line, Unreadable):
                        self._left_out(line.length, "too large", agent=self._agent)
                    elif (line.startswith(_TYPE) and line.startswith(_NOISE)) or line.find(_ATTACHMENT, 0, 200) > 0:
                        continue
                    elif len(line) > DENSE_FROM and too_dense(line):
                        self._left_out(len(line.removesuffix(b"\n")), "too many values", agent=None)
                    elif (record := decode_record(line)) is not None:
                        kind = record.get("type")
                        if kind == "assistant":
                            self._assistant(record)
                        elif kind == "user":
                            self._user(record)
                        elif kind == "cost-state":
                            self._cost(record)
                    else:
                        self._damaged += 1
        self._report_damage(path)

    def _left_out(self, length: int, why: str, *, agent: str | None) -> None:
        self._assembly.error(None, f"a record of {length} bytes left out: {why}", agent=agent)

    def _agent_of(self, record: dict[str, Any]) -> str | None:
        """The subagent that a line belongs to: in a main file of version 1.0 the chain that began with its prompt."""
        if self._agent is not None or not record.get("isSidechain"):
            return self._agent
        uuid, parent = record.get("uuid"), record.get("parentUuid")
        if isinstance(record.get("agentId"), str):
            agent = short_id(record["agentId"])
        else:
            known = self._chains.get(short_id(parent)) if isinstance(parent, str) else None
            agent = known or str(uuid or "sidechain")[:8]
        if isinstance(uuid, str):
            keep(self._chains, short_id(uuid), agent, _SIDECHAINS)
        return agent

    def _assistant(self, record: dict[str, Any]) -> None:
        message = record.get("message")
        if not isinstance(message, dict):
            return
        assembly, agent, at_ms = self._assembly, self._agent_of(record), epoch_ms(record.get("timestamp"))
        version = record.get("version")
        if isinstance(version, str):
            assembly.cli_version = short_id(version)
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if type(content) is str else content
        if type(blocks) is not list:
            return
        model = message.get("model")
        if record.get("isApiErrorMessage") or model == "<synthetic>":
            self._synthetic(record, blocks, at_ms, agent)
            return
        if assembly.at(at_ms) is None:
            return  # an earlier run's: neither its words nor its model
        reply = short_id(str(message.get("id") or record.get("uuid") or ""))
        if model != assembly.model or agent is not None:
            assembly.used_model(model, agent=agent)
        self._count_usage(agent, reply, message.get("usage"))
        for index, block in enumerate(blocks):
            if isinstance(block, dict):
                place = record.get("apiBlockIndex") if len(blocks) == 1 else index
                self._block(block, (agent, reply, place), at_ms, agent, record.get("thinkingDisplay"))
        if agent is None:
            assembly.success = _ENDINGS.get(str(message.get("stop_reason")))

    def _synthetic(self, record: dict[str, Any], blocks: list[Any], at_ms: int | None, agent: str | None) -> None:
        text = "\n".join(str(block.get("text") or "") for block in blocks if isinstance(block, dict)).strip()
        if record.get("isApiErrorMessage"):
            if self._assembly.new("api-error", agent, record.get("uuid"), text):
                self._assembly.error(at_ms, text or "the request failed", agent=agent)
            if agent is None:
                self._assembly.success = False

    def _block(self, block: dict[str, Any], reply: object, at_ms: int | None, agent: str | None, display: Any) -> None:
        assembly, kind = self._assembly, block.get("type")
        if kind == "tool_use":
            self._note_spawn(block.get("input"))
            assembly.call(at_ms, str(block.get("id") or ""), str(block.get("name")), block.get("input"), agent=agent)
            return
        text = as_text(block.get("thinking" if kind == "thinking" else "text"))
        if kind in ("thinking", "redacted_thinking"):
            mark = text or block.get("signature") or block.get("data")
            if assembly.new(reply, kind, mark):
                assembly.thought(at_ms, text, _availability(kind, text, display), agent=agent)
        elif kind == "text":
            if assembly.new(reply, kind, text):
                assembly.message(at_ms, "assistant", text, agent=agent)
        elif kind in ("server_tool_use", "mcp_tool_use"):
            assembly.call(at_ms, str(block.get("id") or ""), str(block.get("name")), block.get("input"), agent=agent)
        elif isinstance(kind, str) and kind.endswith("_tool_result"):
            failed = "error" in str(block.get("content"))[:200]
            assembly.result(str(block.get("tool_use_id") or ""), Result(failed=failed, at_ms=at_ms), agent=agent)

    def _note_spawn(self, arguments: Any) -> None:
        """Remember what sort of agent a prompt was given to: in version 1.0 the prompt is all that links the two."""
        asked = as_object(arguments)
        kind, prompt = asked.get("subagent_type"), asked.get("prompt")
        if isinstance(kind, str) and isinstance(prompt, str):
            keep(self._kinds, hash(prompt), kind[:4096], _SPAWNED)

    def _count_usage(self, agent: str | None, reply: str, usage: Any) -> None:
        """Add what `usage` tells beyond what was known of the same reply."""
        if not isinstance(usage, dict):
            return
        mark = (agent, reply, usage.get("output_tokens"))
        if mark == self._last_usage:
            return  # the same reply's next block
        self._last_usage = mark
        total = self._assembly.usage
        if (before := self._outputs.get((agent, reply))) is None:
            keep(self._outputs, (agent, reply), before := {}, _REPLIES)
        told = [(name, usage.get(key)) for name, key in _COUNTS]
        thinking = as_object(usage.get("output_tokens_details")).get("thinking_tokens")
        for name, count in (*told, ("thinking", thinking)):
            if type(count) is int and count >= (known := before.get(name, 0)):
                total.add(name, count - known)
                before[name] = count

    def _user(self, record: dict[str, Any]) -> None:
        message = record.get("message")
        if not isinstance(message, dict):
            return
        agent, at_ms = self._agent_of(record), epoch_ms(record.get("timestamp"))
        content = message.get("content")
        if isinstance(content, str):
            self._said(record, content, at_ms, agent)
        elif isinstance(content, list):
            for block in content:
                if not isinstance(block, dict):
                    continue
                if block.get("type") == "tool_result":
                    self._result(record, block, at_ms, agent, alone=len(content) == 1)
                elif block.get("type") == "text" and isinstance(block.get("text"), str):
                    self._said(record, block["text"], at_ms, agent)

    def _said(self, record: dict[str, Any], text: str, at_ms: int | None, agent: str | None) -> None:
        assembly = self._assembly
        if not assembly.new("said", agent, record.get("uuid"), text):
            return
        if text.startswith(_INTERRUPTED):
            assembly.error(at_ms, "interrupted by the user", agent=agent)
            assembly.success = False if agent is None else assembly.success
            return
        if record.get("isMeta") or record.get("isCompactSummary") or text.lstrip().startswith(_INJECTED):
            return
        if assembly.at(at_ms) is None:
            return
        if agent is not None:
            assembly.prompts.agent(agent, prompt=text, kind=self._kinds.get(hash(text)))
            return
        assembly.success = None
        assembly.prompt(at_ms, text)

    def _result(
        self, record: dict[str, Any], block: dict[str, Any], at_ms: int | None, agent: str | None, *, alone: bool
    ) -> None:
        call_id = str(block.get("tool_use_id") or "")
        call = self._assembly.pending_call(call_id, agent=agent)
        rich = record.get("toolUseResult") if alone else None
        failed = block.get("is_error") is True or (isinstance(rich, dict) and rich.get("interrupted") is True)
        result = Result("", failed, at_ms)
        if call is not None and call.operation in FILE_OPERATIONS and not failed:
            result.silent = True
        if not result.silent or self._assembly.wants_silent_output:
            result.output = _text_of(block.get("content"))
        if isinstance(rich, dict):
            self._enrich(result, rich, agent)
        self._assembly.result(call_id, result, agent=agent)
        if agent is None:
            self._assembly.success = None

    def _enrich(self, result: Result, rich: dict[str, Any], agent: str | None) -> None:
        """Take from the rich form what the model's copy lacks: whole files, separate streams, spilled output."""
        file = as_object(rich.get("file"))
        if isinstance(file.get("content"), str):
            text = file["content"]
            result.lines_read = line_count(text)
            if file.get("startLine") == 1 and file.get("numLines") == file.get("totalLines"):
                result.extra = fingerprint(text, result.lines_read)
        elif isinstance(rich.get("stdout"), str):
            tail = self._spilled(rich.get("persistedOutputPath"))
            streams = (rich["stdout"] if tail is None else tail, as_text(rich.get("stderr")))
            result.output = "\n".join(stream.rstrip("\n") for stream in streams if stream)
        if isinstance(rich.get("agentId"), str) and agent is None:
            self._assembly.prompts.agent(rich["agentId"], kind=as_text(rich.get("agentType")))

    def _spilled(self, named: Any) -> str | None:
        """The tail of an output too long for the session file, only from the session's own folder."""
        if not isinstance(named, str):
            return None
        name = named.replace("\\", "/").rsplit("/", 1)[-1]
        folder = self._session.path.with_suffix("") / "tool-results"
        if not _SAFE_NAME.fullmatch(name) or folder.is_symlink() or not (folder / name).is_file():
            return None
        with open_native(folder / name) as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - _TAIL_BYTES))
            return stream.read(_TAIL_BYTES).decode("utf-8", "replace")

    def _cost(self, record: dict[str, Any]) -> None:
        """Running totals of the whole session: what was spent before the window opened is not this run's."""
        total, since_ms = record.get("totalCostUSD"), self._assembly.since_ms
        if not isinstance(total, int | float) or isinstance(total, bool):
            return
        if since_ms is not None and (self._assembly.last_ms is None or self._assembly.last_ms < since_ms):
            self._cost_before = float(total)
            return
        self._assembly.cost_usd = round(total - (self._cost_before or 0.0), 6)


def _availability(kind: str, text: str, display: Any) -> Availability:
    if kind == "redacted_thinking":
        return "encrypted"
    if not text:
        return "withheld"
    return "full" if display in (None, "full", "raw") else "summary"


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        content = "\n".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    if not isinstance(content, str):
        return ""
    text = content
    if "</system-reminder>" in text[-64:] and "<system-reminder>" in text[-4096:]:
        text = _REMINDER.sub("", text)
    wrapped = _WRAPPED.match(text) if text.startswith("<tool_use_error>") else None
    return wrapped.group(1) if wrapped else text
