"""Reads GitHub Copilot CLI's sessions (1.0): events, one a line, as its `session-events.schema.json` describes them.

A subagent's events stand among the main agent's, under its `agentId`. Input tokens include cached and written ones;
what the file calls cost is a count of premium requests, no money.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from tracer.distill.native import NativeSession
from tracer.distill.native_files import Source, as_object, as_text, epoch_ms, open_native
from tracer.distill.readers.assembly import FILE_OPERATIONS, Assembly, Reader, Result
from tracer.distill.readers.summarize import fingerprint, line_count

_TOKENS: Final = (
    ("input", "inputTokens"),
    ("output", "outputTokens"),
    ("cached", "cacheReadTokens"),
    ("cache_write", "cacheWriteTokens"),
    ("thinking", "reasoningTokens"),
)
# What the command line adds to a shell's output.
_FRAME: Final = re.compile(r"\n?<(?:shellId: \S+ )?(?:exited|completed) with exit code -?\d+>\s*\Z")


def read_copilot(session: NativeSession, assembly: Assembly, source: Source) -> None:
    """Read the session's file into `assembly`."""
    _Reader(assembly, source, None).read(session.path)


class _Reader(Reader):
    def read(self, path: Path) -> None:
        with open_native(path) as stream:
            for event in self._records(stream, lambda _line: False):
                self._event(event)
        self._agent = None
        self._report_damage(path)

    def _event(self, event: dict[str, Any]) -> None:
        data = event.get("data")
        if not isinstance(data, dict):
            self._damaged += 1
            return
        if not self._assembly.new("event", event.get("id") or repr(event)):
            return
        at_ms, self._agent = epoch_ms(event.get("timestamp")), as_text(event.get("agentId")) or None
        match event.get("type"):
            case "user.message" if self._agent is not None or data.get("source") in {None, "user"}:
                self._prompt(at_ms, as_text(data.get("content")))
            case "assistant.message":
                self._reply(data, at_ms)
            case "session.usage_record":
                self._usage(data.get("usage"), at_ms)
            case "tool.execution_start":
                self._call(data.get("toolName"), data, at_ms)
            case "tool.execution_complete":
                self._result(data, at_ms)
            case "subagent.started":
                if self._agent is not None:
                    self._assembly.prompts.agent(self._agent, kind=as_text(data.get("agentName")))
            case "session.error" | "abort":
                self._assembly.error(at_ms, as_text(data.get("message") or data.get("reason")), agent=self._agent)
                self._ended(ok=False)

    def _reply(self, data: dict[str, Any], at_ms: int | None) -> None:
        assembly, agent = self._assembly, self._agent
        assembly.used_model(data.get("model"), agent=agent)
        thought = as_text(data.get("reasoningText"))
        whole = as_object(data.get("reasoningBlocks")).get("provider") == "anthropic-messages"
        if thought:
            assembly.thought(at_ms, thought, "full" if whole else "summary", agent=agent)
        elif data.get("reasoningOpaque") or data.get("encryptedContent"):
            assembly.thought(at_ms, "", "encrypted", agent=agent)
        assembly.message(at_ms, "assistant", as_text(data.get("content")), agent=agent)
        asked = data.get("toolRequests")
        calls = [call for call in asked if isinstance(call, dict)] if isinstance(asked, list) else []
        for call in calls:
            self._call(call.get("name"), call, at_ms)
        self._ended(ok=None if calls else True)

    def _call(self, name: Any, told: dict[str, Any], at_ms: int | None) -> None:
        self._assembly.call(
            at_ms, as_text(told.get("toolCallId")), as_text(name), told.get("arguments"), agent=self._agent
        )

    def _result(self, data: dict[str, Any], at_ms: int | None) -> None:
        call_id = as_text(data.get("toolCallId"))
        call = self._assembly.pending_call(call_id, agent=self._agent)
        failed = data.get("success") is not True
        output = as_object(data.get("result")).get("content")
        if failed:
            output = as_object(data.get("error")).get("message") or output
        failed = failed or as_object(data.get("shellExecution")).get("exitCode") not in {0, None}
        result = Result(output=_FRAME.sub("", as_text(output)), failed=failed, at_ms=at_ms)
        if call is not None and call.operation in FILE_OPERATIONS and not failed:
            result.silent = True
            if call.operation == "read":
                _read_file(result, data)
        self._assembly.result(call_id, result, agent=self._agent)

    def _usage(self, usage: Any, at_ms: int | None) -> None:
        if not isinstance(usage, dict) or self._assembly.at(at_ms) is None:
            return
        self._assembly.used_model(usage.get("model"), agent=self._agent)
        for name, key in _TOKENS:
            if type(count := usage.get(key)) is int:
                self._assembly.usage.add(name, count)


def _read_file(result: Result, data: dict[str, Any]) -> None:
    """Lines and hash of a file that was shown whole: its whole length went to the model, as the event says."""
    result.lines_read = line_count(result.output)
    told = as_object(data.get("toolTelemetry"))
    metrics, inputs = told.get("metrics"), as_object(told.get("properties")).get("inputs")
    whole = isinstance(metrics, dict) and metrics.get("resultLength") == metrics.get("resultForLlmLength")
    if whole and isinstance(inputs, str) and "view_range" not in inputs:
        result.extra = fingerprint(result.output)
