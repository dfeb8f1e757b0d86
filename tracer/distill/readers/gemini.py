"""Reads Gemini CLI's session files: one JSON document (0.20 to 0.38) or appended records (0.39 on).

A reply is written again under its id when its calls are done: the last writing counts, in the place of the first. A
document that is large, cut off or damaged is decoded message by message, so everything before the damage is read.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from tracer.distill.native import NativeSession
from tracer.distill.native_files import (
    MAX_LINE,
    Source,
    as_object,
    as_text,
    decode_record,
    epoch_ms,
    keep,
    open_native,
    short_id,
    too_dense,
)
from tracer.distill.readers.assembly import Assembly, Reader, Result
from tracer.distill.readers.summarize import fingerprint, line_count
from tracer.json_values import clean_json

_CHUNK: Final = 1 << 20
_SEPARATORS: Final = " \t\r\n,"


def document_messages(stream: IO[bytes], source: Source, note: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Each message object in order; trouble goes to `note` as one sentence."""
    head = _read(stream, source, MAX_LINE + 1)
    if len(head) <= MAX_LINE and not too_dense(head):
        document = decode_record(head)
        messages = document.get("messages") if document else None
        if isinstance(messages, list):
            source.records += len(messages)
            yield from (message for message in messages if isinstance(message, dict))
            return
    yield from _scan(head, stream, source, note)


def _read(stream: IO[bytes], source: Source, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (chunk := stream.read(min(size, _CHUNK))):
        source.digest.update(chunk)
        source.size += len(chunk)
        size -= len(chunk)
        parts.append(chunk)
    return b"".join(parts)


def _scan(head: bytes, stream: IO[bytes], source: Source, note: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    begin = head.find(b"[", head.find(b'"messages"')) if b'"messages"' in head else -1
    if begin < 0:
        _drain(stream, source)
        note("no messages found: the file is damaged or not a session")
        return
    decoder, utf8 = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8")("replace")
    window = utf8.decode(head[begin + 1 :])
    del head
    while True:
        at, ended = 0, False
        while True:
            while at < len(window) and window[at] in _SEPARATORS:
                at += 1
            if window[at : at + 1] == "]":
                ended = True
                break
            try:
                message, at = decoder.raw_decode(window, at)
            except (ValueError, RecursionError):
                break
            source.records += 1
            if isinstance(message, dict):
                yield clean_json(message)
        window = window[at:]
        if ended or len(window) > MAX_LINE:
            break
        more = _read(stream, source, _CHUNK)
        if not more:
            break
        window += utf8.decode(more)
    _drain(stream, source)
    if not ended:
        note(f"the file is damaged or cut off after {source.records} messages")


def _drain(stream: IO[bytes], source: Source) -> None:
    """Read to the end for the provenance's sake."""
    while chunk := stream.read(_CHUNK):
        source.digest.update(chunk)
        source.size += len(chunk)


# The last such line counts; what follows it is the command line's own.
_EXIT: Final = re.compile(
    r"^Exit Code: (-?\d+|\(none\))$(?=\n(?:Signal|Background PIDs|Process Group PGID|</untrusted_context>)|\s*\Z)",
    re.MULTILINE,
)
_SIGNAL: Final = re.compile(r"^Signal: (?!0$|\(none\)$)\S+$", re.MULTILINE)
_FRAME: Final = re.compile(
    r"\A(?:<untrusted_context>\n)?(?:Command: .*?\nDirectory: [^\n]*\n)?(?:Output|Stdout): "
    r"(.*?)(?:\n(?:Error: \(none\)\n)?(?:Exit Code|Signal|Background PIDs|Process Group PGID): .*)?\Z",
    re.DOTALL,
)
_SHELLS: Final = frozenset({"run_shell_command", "shell", "ShellTool"})
_INJECTED: Final = ("<session_context>", "<system_reminder>", "<state_snapshot>", "This is the Gemini CLI. We are")


def read_gemini(session: NativeSession, assembly: Assembly, source: Source) -> None:
    """Read the main file and then each subagent's file into `assembly`."""
    _Reader(assembly, source, None).read(session.path)
    for file in session.agents:
        assembly.prompts.agent(file.agent_id, kind=file.kind)
        _Reader(assembly, source, file.agent_id).read(file.path)


def thought_text(subject: Any, description: Any) -> str:
    """`**subject**`, blank line, description; either alone where the other is empty."""
    parts = (f"**{subject}**" if as_text(subject) else "", as_text(description))
    return "\n\n".join(filter(None, parts))


class _Reader(Reader):
    """Reads one file; `agent` is the subagent whose file it is, None for the main one."""

    def __init__(self, assembly: Assembly, source: Source, agent: str | None) -> None:
        super().__init__(assembly, source, agent)
        self._tokens: dict[str, dict[str, int]] = {}
        self._prompted = False

    def read(self, path: Path) -> None:
        """Every message of the file; damage becomes one `error` line."""
        with open_native(path) as stream:
            if path.suffix == ".json":
                for message in document_messages(stream, self._source, self._note):
                    self._message(message)
            else:
                for record in self._records(stream, _is_noise):
                    self._record(record)
        self._report_damage(path)

    def _record(self, record: dict[str, Any]) -> None:
        changes = record.get("$set")
        if isinstance(changes, dict):
            messages = changes.get("messages")
            for message in messages if isinstance(messages, list) else ():
                if isinstance(message, dict):
                    self._rewritten(message)
        elif record.get("type") in ("user", "gemini", "error"):
            self._message(record)

    def _message(self, message: dict[str, Any]) -> None:
        at_ms = epoch_ms(message.get("timestamp"))
        match message.get("type"):
            case "gemini":
                self._reply(message, at_ms)
            case "user":
                self._user(message, at_ms)
            case "error":
                if self._assembly.new("notice", message.get("id")):
                    self._assembly.error(at_ms, _plain(message.get("content")), agent=self._agent)
                    self._ended(ok=False)

    def _rewritten(self, message: dict[str, Any]) -> None:
        """A reply that history was rewritten with: known ones stay as they were, unknown ones are read from parts."""
        identity = message.get("id")
        if message.get("type") != "gemini" or not self._assembly.new("rewritten", self._agent, identity):
            return
        if not self._assembly.new("reply", self._agent, identity):
            return
        at_ms = epoch_ms(message.get("timestamp"))
        if message.get("thoughts") or message.get("toolCalls"):
            self._reply(message, at_ms)
            return
        for index, part in enumerate(_parts(message.get("content"))):
            text = part.get("text")
            if part.get("thought") is True and isinstance(text, str):
                self._assembly.thought(at_ms, text, "summary", agent=self._agent)
            elif isinstance(text, str):
                self._assembly.message(at_ms, "assistant", text, agent=self._agent)
            elif isinstance(part.get("functionCall"), dict):
                call = part["functionCall"]
                name = str(call.get("name"))
                call_id = str(call.get("id") or f"{identity}:{index}")
                self._assembly.call(at_ms, call_id, name, call.get("args"), agent=self._agent)

    def _reply(self, message: dict[str, Any], at_ms: int | None) -> None:
        assembly, identity = self._assembly, short_id(str(message.get("id") or ""))
        assembly.new("reply", self._agent, message.get("id"))
        assembly.used_model(message.get("model"), agent=self._agent)
        thoughts = message.get("thoughts")
        for index, thought in enumerate(thoughts if isinstance(thoughts, list) else ()):
            if isinstance(thought, dict):
                text = thought_text(thought.get("subject"), thought.get("description"))
                if assembly.new("thought", self._agent, identity, index, text):
                    when = epoch_ms(thought.get("timestamp")) or at_ms
                    assembly.thought(when, text, "summary", agent=self._agent)
        text = _plain(message.get("content"))
        if text and assembly.new("text", self._agent, identity, text):
            assembly.message(at_ms, "assistant", text, agent=self._agent)
        self._count_tokens(identity, message.get("tokens"), at_ms)
        calls = message.get("toolCalls")
        calls = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        for index, call in enumerate(calls):
            self._tool(call, f"{identity}:{index}", at_ms)
        self._ended(ok=True if text and not calls else None)

    def _tool(self, call: dict[str, Any], place: str, at_ms: int | None) -> None:
        assembly, name = self._assembly, str(call.get("name"))
        call_id = str(call.get("id") or place)
        assembly.call(at_ms, call_id, name, call.get("args"), agent=self._agent)
        known = assembly.pending_call(call_id, agent=self._agent)
        if isinstance(call.get("agentId"), str):
            kind = as_object(call.get("args")).get("agent_name")
            assembly.prompts.agent(call["agentId"], kind=kind if isinstance(kind, str) else name)
        if known is None or call.get("status") not in ("success", "error", "cancelled"):
            return
        output, told_error = _response(call.get("result"))
        result = Result(output=output, failed=told_error or call["status"] != "success")
        result.at_ms = epoch_ms(call.get("timestamp"))
        if name in _SHELLS:
            _shell(result, call.get("resultDisplay"))
        elif not result.failed and known.operation in {"read", "write", "edit"}:
            result.silent = True
            if known.operation == "read":
                _whole_file(result, call.get("args"))
        assembly.result(call_id, result, agent=self._agent)

    def _user(self, message: dict[str, Any], at_ms: int | None) -> None:
        if not self._assembly.new("user", self._agent, message.get("id")):
            return
        text = "\n".join(part["text"] for part in _parts(message.get("content")) if isinstance(part.get("text"), str))
        if text.strip() and not text.lstrip().startswith(_INJECTED):
            self._prompt(at_ms, text)

    def _count_tokens(self, identity: str, tokens: Any, at_ms: int | None) -> None:
        if not isinstance(tokens, dict) or self._assembly.at(at_ms) is None:
            return
        if (before := self._tokens.get(identity)) is None:
            keep(self._tokens, identity, before := {}, 2000)
        for name, key in (("input", "input"), ("output", "output"), ("cached", "cached"), ("thinking", "thoughts")):
            count = tokens.get(key)
            if isinstance(count, int) and not isinstance(count, bool):
                self._assembly.usage.add(name, count - before.get(name, 0))
                before[name] = count


def _is_noise(line: bytes) -> bool:
    return line.startswith(b'{"$set":{"lastUpdated"') and len(line) < 100


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"text": content}]
    if isinstance(content, dict):
        return [content]
    return [part if isinstance(part, dict) else {"text": part} for part in content] if isinstance(content, list) else []


def _plain(content: Any) -> str:
    texts = [part["text"] for part in _parts(content) if isinstance(part.get("text"), str) and not part.get("thought")]
    return "".join(texts)


def _response(result: Any) -> tuple[str, bool]:
    """The output told to the model, and whether it was an error."""
    for part in result if isinstance(result, list) else [result]:
        response = as_object(as_object(as_object(part).get("functionResponse")).get("response"))
        for key in ("error", "output"):
            if isinstance(response.get(key), str):
                return response[key], key == "error"
    return "", False


def _shell(result: Result, shown: Any) -> None:
    """Recognise a failed command, unless the line that says so is the command's own last output."""
    text = result.output
    own = as_text(shown).rstrip()
    tail = text[-2000:]
    exits = list(_EXIT.finditer(tail))
    if exits and exits[-1].group(1) not in {"0", "(none)"} and not own.endswith(f"Exit Code: {exits[-1].group(1)}"):
        result.failed = True
    if exits and _SIGNAL.search(tail, exits[-1].end()):
        result.failed = True
    if own:
        result.output = own
        return
    text = text.removesuffix("\n</untrusted_context>")
    framed = _FRAME.match(text)
    result.output = framed.group(1) if framed else text
    if result.output == "(empty)":
        result.output = ""


def _whole_file(result: Result, arguments: Any) -> None:
    text = result.output
    result.lines_read = line_count(text)
    asked = as_object(arguments)
    partial = any(asked.get(key) is not None for key in ("offset", "limit", "start_line", "end_line"))
    if not partial and not text.startswith(
        ("IMPORTANT: The file content has been truncated", "[File content truncated")
    ):
        result.extra = fingerprint(text)
