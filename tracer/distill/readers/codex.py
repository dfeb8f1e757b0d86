"""Reads Codex's session files ("rollouts"), versions before 0.50 to 0.169, one file per thread.

Thoughts, texts, calls and outputs come from `response_item` lines; events repeat them but hold what the outputs lack:
exit codes, and in code mode the real commands. What only an event tells is kept.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from tracer.distill.native import Availability, NativeSession
from tracer.distill.native_files import Source, as_object, epoch_ms, keep, open_native, short_id
from tracer.distill.readers.assembly import Assembly, Reader, Result, Usage
from tracer.distill.readers.summarize import as_json, fingerprint

_HEADER_CODE: Final = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_REFUSED: Final = re.compile(
    r"apply_patch verification failed|unsupported call|unsupported custom tool|failed to parse|execution error|"
    r"exec_command failed|command rejected|err: |error: ",
    re.IGNORECASE,
)
_JS_CALL: Final = re.compile(r"tools\.(\w+)\(\s*")
_DECODER: Final = json.JSONDecoder()
_VERDICTS: Final = 2000
_SCRIPT_CHARS: Final = 8 * 1024 * 1024


class ToolBook:
    """The calls of one thread and what is known about them so far."""

    def __init__(self, assembly: Assembly, agent: str | None) -> None:
        self._assembly = assembly
        self._agent = agent
        self._verdicts: dict[str, bool] = {}
        self._whole: dict[str, str] = {}
        # Open code-mode calls: id -> JavaScript.
        self._scripts: dict[str, str] = {}
        self._script_chars = 0

    def call(self, item: dict[str, Any], at_ms: int | None) -> None:
        """A `*_call` item of any kind."""
        kind = str(item["type"])
        call_id = short_id(str(item.get("call_id") or item.get("id") or ""))
        name = str(item.get("name") or kind.removesuffix("_call"))
        arguments: Any = item.get("input")
        if kind == "function_call":
            arguments = _parsed(item.get("arguments"))
        elif arguments is None:
            arguments = item.get("action") or item.get("arguments")
        if kind == "custom_tool_call" and name == "exec" and isinstance(arguments, str):
            self._keep_script(call_id, arguments)
            arguments = _script_arguments(arguments)
        self._assembly.call(at_ms, call_id, name, arguments, agent=self._agent)
        if kind in {"web_search_call", "image_generation_call"}:
            failed = item.get("status") in ("failed", "incomplete")
            self._assembly.result(call_id, Result(failed=failed), agent=self._agent)

    def output(self, item: dict[str, Any], at_ms: int | None) -> None:
        """A `*_output` item: the model's copy of what came back."""
        call_id = short_id(str(item.get("call_id") or ""))
        text, failed, whole = _read_output(item.get("output"))
        failed = self._verdicts.pop(call_id, failed) or (failed and call_id in self._scripts)
        self._script_chars -= len(self._scripts.pop(call_id, ""))
        whole = self._whole.pop(call_id, whole)
        result = Result(output=text, failed=failed, at_ms=at_ms)
        call = self._assembly.pending_call(call_id, agent=self._agent)
        if call is not None and not failed:
            if call.operation in {"write", "edit"}:
                result.silent = True
            elif call.operation == "shell" and call.has_path and whole is not None:
                result.silent = result.whole_file = True
                result.extra = fingerprint(whole)
        self._assembly.result(call_id, result, agent=self._agent)

    def event(self, event: dict[str, Any]) -> None:
        """The older events about calls."""
        call_id = short_id(str(event.get("call_id") or ""))
        match event.get("type"):
            case "exec_command_end":
                self._verdict(call_id, failed=event.get("exit_code") not in (0, None))
            case "patch_apply_end":
                self._verdict(call_id, failed=event.get("success") is False or event.get("status") == "failed")
            case "mcp_tool_call_end":
                self._verdict(call_id, failed="Err" in as_object(event.get("result")))

    def completed(self, item: dict[str, Any]) -> None:
        """A completed item: a command, a file change, an MCP call."""
        kind, call_id = item.get("type"), short_id(str(item.get("id") or ""))
        if kind not in ("CommandExecution", "FileChange", "McpToolCall", "DynamicToolCall"):
            return
        failed = item.get("status") in ("failed", "declined") or item.get("exit_code") not in (0, None)
        if self._assembly.pending_call(call_id, agent=self._agent) is None and self._scripts:
            call_id = self._script_of(item)
            failed = failed or self._verdicts.get(call_id, False)
        output = item.get("aggregated_output")
        if kind == "CommandExecution" and isinstance(output, str) and len(output) < 64_000:
            keep(self._whole, call_id, output, 16)
        self._verdict(call_id, failed=failed)

    def _keep_script(self, call_id: str, script: str) -> None:
        """Remember a script until its output comes, the oldest ones not beyond what memory allows."""
        self._script_chars += len(script) - len(self._scripts.pop(call_id, ""))
        self._scripts[call_id] = script
        while self._script_chars > _SCRIPT_CHARS:
            self._script_chars -= len(self._scripts.pop(next(iter(self._scripts))))

    def _script_of(self, item: dict[str, Any]) -> str:
        """The open code-mode call that ran this: the one whose script holds the command, else the oldest."""
        command = item.get("command")
        words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
        wanted = [words[-1]] if words else []
        wanted += [str(path).rsplit("/", 1)[-1] for path in list(as_object(item.get("changes")))[:5]]
        for call_id, script in self._scripts.items():
            if any(word in script or as_json(word)[1:-1] in script for word in wanted):
                return call_id
        return next(iter(self._scripts))

    def _verdict(self, call_id: str, *, failed: bool) -> None:
        if failed and self._assembly.pending_call(call_id, agent=self._agent) is None:
            self._assembly.fail(call_id, agent=self._agent)
        else:
            keep(self._verdicts, call_id, failed, _VERDICTS)


def _parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments


def _script_arguments(script: str) -> Any:
    """The arguments of a script's one tool call, or the commands of several, or the script itself."""
    found: list[tuple[str, Any]] = []
    for match in _JS_CALL.finditer(script[: 1 << 20]):
        try:
            found.append((match.group(1), _DECODER.raw_decode(script, match.end())[0]))
        except (ValueError, RecursionError):
            continue
        if len(found) >= 20:
            break
    if len(found) == 1:
        return found[0][1]
    commands = [value["cmd"] for _, value in found if isinstance(value, dict) and isinstance(value.get("cmd"), str)]
    return {"cmd": "; ".join(commands)} if commands else script


def _read_output(output: Any) -> tuple[str, bool, str | None]:
    """(text, failed, the whole output where it is known to be whole) of an output item's `output`."""
    if isinstance(output, dict):
        text, failed, whole = _read_output(output.get("content"))
        return text, failed or output.get("success") is False, whole
    if isinstance(output, list):
        return _read_parts(output)
    if not isinstance(output, str):
        return "", False, None
    if output.startswith('{"output":'):
        parsed = as_object(_parsed(output))
        if isinstance(parsed.get("output"), str):
            code = as_object(parsed.get("metadata")).get("exit_code")
            return parsed["output"], code not in (0, None), _whole(parsed["output"])
    header, mark, body = output.partition("Output:\n")
    code_line = _HEADER_CODE.search(header) if mark else None
    if code_line is not None or (mark and header.startswith(("Chunk ID:", "Wall time:", "Exit code:"))):
        return body, code_line is not None and code_line.group(1) != "0", _whole(body)
    return output, _REFUSED.match(output) is not None, None


def _read_parts(parts: list[Any]) -> tuple[str, bool, str | None]:
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    failed = bool(texts) and texts[0].startswith("Script failed")
    shown: list[str] = []
    for text in texts[1:] if texts and texts[0].startswith("Script ") else texts:
        parsed = _parsed(text) if text.startswith("{") else None
        if isinstance(parsed, dict):
            failed = failed or parsed.get("exit_code") not in (0, None)
            text = parsed["output"] if isinstance(parsed.get("output"), str) else ""  # noqa: PLW2901 - unwrapped
        shown.append(text.removeprefix("Script error:\n"))
    text = "\n".join(piece for piece in shown if piece)
    return text, failed, _whole(text) if len(shown) == 1 else None


def _whole(text: str) -> str | None:
    cut_off = "tokens truncated" in text or text.startswith(("Warning: truncated output", "Total output lines:"))
    return None if cut_off else text


_INJECTED: Final = (
    "<environment_context>", "<user_instructions>", "<permissions instructions>", "<skills_instructions>",
    "# AGENTS.md instructions", "<INSTRUCTIONS>", "<turn_aborted>", "<user_shell_command>", "<subagent_notification>",
    "<collaboration_mode>", "<multi_agent", "<skill>", "<tools>", "<apps_instructions>",
)  # fmt: skip
_NOISE: Final = (b'"type":"world_state"', b'"type":"compacted"', b'"type":"additional_tools"')
_ECHOES: Final = 5000
_ECHO_CHARS: Final = 8 * 1024 * 1024


class _Echo(NamedTuple):
    """How many more events than items told one text; the text itself only where there were more."""

    surplus: int
    at_ms: int | None
    text: str


def read_codex(session: NativeSession, assembly: Assembly, source: Source) -> None:
    """Read the thread's file and then each subagent's file into `assembly`."""
    _Reader(assembly, source, None).read(session.path)
    for file in session.agents:
        assembly.prompts.agent(file.agent_id, kind=file.kind)
        _Reader(assembly, source, file.agent_id).read(file.path)


class _Reader(Reader):
    """Reads one thread; `agent` is the subagent whose thread it is, None for the main one."""

    def __init__(self, assembly: Assembly, source: Source, agent: str | None) -> None:
        super().__init__(assembly, source, agent)
        self._tools = ToolBook(assembly, agent)
        self._total: dict[str, int] = {}
        self._before: dict[str, int] = {}
        # Events seen minus items seen, by kind and text: what is left over at the end only an event told.
        self._echoes: dict[tuple[str, int], _Echo] = {}
        self._echo_chars = 0
        self._items = 0

    def read(self, path: Path) -> None:
        """Every record of the file; damage becomes one `error` line."""
        with open_native(path) as stream:
            for record in self._records(stream, lambda line: any(mark in line[:160] for mark in _NOISE)):
                self._record(record)
        for (kind, _), echo in self._echoes.items():
            self._tell(kind, echo)
        self._sum_usage()
        self._report_damage(path)

    def _record(self, record: dict[str, Any]) -> None:
        at_ms, kind, payload = epoch_ms(record.get("timestamp")), record.get("type"), record.get("payload")
        if not isinstance(payload, dict):
            if "payload" not in record:  # before the envelope: bare items, the first one is the header
                self._header(record) if "instructions" in record and "id" in record else self._item(record, None)
            return
        match kind:
            case "response_item":
                self._item(payload, at_ms)
            case "event_msg":
                self._event(payload, at_ms)
            case "session_meta":
                self._header(payload)
            case "turn_context":
                self._assembly.used_model(payload.get("model"), agent=self._agent)
            case "token_usage_record":
                self._cumulative(payload.get("thread_token_usage"), at_ms)

    def _header(self, payload: dict[str, Any]) -> None:
        if self._agent is None and isinstance(payload.get("cli_version"), str):
            self._assembly.cli_version = short_id(payload["cli_version"])

    def _item(self, item: dict[str, Any], at_ms: int | None) -> None:
        match item.get("type"):
            case "message":
                self._message(item, at_ms)
            case "reasoning":
                self._reasoning(item, at_ms)
            case str() as kind if kind.endswith("_output"):
                self._tools.output(item, at_ms)
                self._ended(ok=None)
            case str() as kind if kind.endswith("_call"):
                self._tools.call(item, at_ms)
                self._ended(ok=None)

    def _new(self, item: dict[str, Any], *place: object) -> bool:
        """Items with an id are taken once (a forked or resumed file may repeat them); the others always."""
        identity = item.get("id")
        return not isinstance(identity, str) or self._assembly.new("codex", identity, *place)

    def _reasoning(self, item: dict[str, Any], at_ms: int | None) -> None:
        summary, content = _texts(item.get("summary")), _texts(item.get("content"))
        for index, text in enumerate(summary):
            if self._new(item, "summary", index):
                self._echo("thought", text, -1, at_ms)
                self._assembly.thought(at_ms, text, "summary", agent=self._agent)
        for index, text in enumerate(content):
            if self._new(item, "content", index):
                self._echo("raw", text, -1, at_ms)
                self._assembly.thought(at_ms, text, "full", agent=self._agent)
        if not summary and not content and self._new(item, "none"):
            availability: Availability = "encrypted" if item.get("encrypted_content") else "withheld"
            self._assembly.thought(at_ms, "", availability, agent=self._agent)

    def _message(self, item: dict[str, Any], at_ms: int | None) -> None:
        role, text = item.get("role"), "".join(_texts(item.get("content")))
        if not self._new(item, "message"):
            return
        if role == "assistant":
            self._echo("message", text, -1, at_ms)
            self._assembly.message(at_ms, "assistant", text, agent=self._agent)
            self._ended(ok=True if item.get("phase") in (None, "final_answer") else None)
        elif role == "user" and not _is_injected(item, text):
            self._prompt(at_ms, text)

    def _echo(self, kind: str, text: str, change: int, at_ms: int | None) -> None:
        if not text:
            return
        if change > 0 and at_ms is not None and not self._assembly.new("event", self._agent, kind, text, at_ms):
            return  # the same line again
        key = (kind, hash(text))
        known = self._echoes.pop(key, _Echo(0, None, ""))
        self._echo_chars -= len(known.text)
        if surplus := known.surplus + change:
            held = text if surplus > 0 else ""
            self._echoes[key] = _Echo(surplus, at_ms if known.at_ms is None else known.at_ms, held)
            self._echo_chars += len(held)
        while len(self._echoes) > _ECHOES or self._echo_chars > _ECHO_CHARS:
            oldest = next(iter(self._echoes))
            echo = self._echoes.pop(oldest)
            self._echo_chars -= len(echo.text)
            self._tell(oldest[0], echo)

    def _tell(self, kind: str, echo: _Echo) -> None:
        """Write what only events told."""
        for _ in range(max(0, echo.surplus)):
            if kind == "thought":
                self._assembly.thought(echo.at_ms, echo.text, "summary", agent=self._agent)
            else:
                self._assembly.message(echo.at_ms, "assistant", echo.text, agent=self._agent)

    def _event(self, event: dict[str, Any], at_ms: int | None) -> None:
        match event.get("type"):
            case "agent_reasoning":
                self._echo("thought", str(event.get("text") or ""), 1, at_ms)
            case "agent_message":
                self._echo("message", str(event.get("message") or ""), 1, at_ms)
            case "item_completed":
                self._completed(event.get("item"), at_ms)
            case "token_count":
                self._cumulative(as_object(event.get("info")).get("total_token_usage"), at_ms)
            case "task_complete" | "turn_complete":
                error = event.get("error")
                if error:
                    text = error if isinstance(error, str) else as_json(error)
                    self._assembly.error(at_ms, text, agent=self._agent)
                self._ended(ok=not error)
            case "turn_aborted":
                reason = event.get("reason") or "no reason given"
                self._assembly.error(at_ms, f"turn aborted: {reason}", agent=self._agent)
                self._ended(ok=False)
            case "error" | "stream_error":
                self._assembly.error(at_ms, str(event.get("message") or "error"), agent=self._agent)
            case _:
                self._tools.event(event)

    def _completed(self, item: Any, at_ms: int | None) -> None:
        if not isinstance(item, dict):
            return
        match item.get("type"):
            case "Reasoning":
                for text in _texts(item.get("summary_text")):
                    self._echo("thought", text, 1, at_ms)
            case "AgentMessage":
                self._echo("message", "".join(_texts(item.get("content"))), 1, at_ms)
            case _:
                self._tools.completed(item)

    def _cumulative(self, usage: Any, at_ms: int | None) -> None:
        """The newest running total; what was used before the window opened is put aside."""
        if not isinstance(usage, dict):
            return
        counts = {key: value for key, value in usage.items() if isinstance(value, int) and not isinstance(value, bool)}
        since_ms = self._assembly.since_ms
        if since_ms is not None and at_ms is not None and at_ms < since_ms:
            self._before = counts
        else:
            self._total = counts

    def _sum_usage(self) -> None:
        names = {
            "input": "input_tokens",
            "cached": "cached_input_tokens",
            "output": "output_tokens",
            "thinking": "reasoning_output_tokens",
            "cache_write": "cache_write_input_tokens",
        }
        usage: Usage = self._assembly.usage
        for name, key in names.items():
            if key in self._total:
                usage.add(name, max(0, self._total[key] - self._before.get(key, 0)))


def _texts(parts: Any) -> list[str]:
    if not isinstance(parts, list):
        return [parts] if isinstance(parts, str) and parts else []
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return [text for text in texts if isinstance(text, str) and text]


def _is_injected(item: dict[str, Any], text: str) -> bool:
    kinds = as_object(item.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds")
    if isinstance(kinds, list) and kinds:
        return not any(isinstance(kind, str) and kind.startswith("user.") for kind in kinds)
    return text.lstrip().startswith(_INJECTED)
