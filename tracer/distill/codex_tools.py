"""Codex's tool calls: shells of three generations, patches, and code mode, each with the status it really had.

The model's copy of an output, the events beside it and the order in the file all say part of what happened. In code
mode the call is JavaScript; the real commands are events between the call and its output, matched by their text.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

from tracer.distill.assembly import Assembly, Result
from tracer.distill.records import short_id
from tracer.distill.summarize import as_json, fingerprint

__all__ = ["ToolBook"]

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

    def event(self, event: dict[str, Any], at_ms: int | None) -> None:
        """The older events about calls."""
        call_id = short_id(str(event.get("call_id") or ""))
        match event.get("type"):
            case "exec_command_end":
                self._verdict(call_id, failed=event.get("exit_code") not in (0, None))
            case "patch_apply_end":
                self._verdict(call_id, failed=event.get("success") is False or event.get("status") == "failed")
            case "mcp_tool_call_end":
                outcome = event.get("result")
                self._verdict(call_id, failed=isinstance(outcome, dict) and "Err" in outcome)
        del at_ms

    def completed(self, item: dict[str, Any], at_ms: int | None) -> None:
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
            self._whole[call_id] = output
            if len(self._whole) > 16:
                del self._whole[next(iter(self._whole))]
        self._verdict(call_id, failed=failed)
        del at_ms

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
        changes = item.get("changes")
        if isinstance(changes, dict):
            wanted += [str(path).rsplit("/", 1)[-1] for path in list(changes)[:5]]
        for call_id, script in self._scripts.items():
            if any(word in script or as_json(word)[1:-1] in script for word in wanted):
                return call_id
        return next(iter(self._scripts))

    def _verdict(self, call_id: str, *, failed: bool) -> None:
        if failed and self._assembly.pending_call(call_id, agent=self._agent) is None:
            self._assembly.fail(call_id, agent=self._agent)
            return
        self._verdicts[call_id] = failed
        if len(self._verdicts) > _VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]


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
        parsed = _parsed(output)
        if isinstance(parsed, dict) and isinstance(parsed.get("output"), str):
            metadata = parsed.get("metadata")
            code = metadata.get("exit_code") if isinstance(metadata, dict) else None
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
