"""Claude Code, headless: `claude -p --output-format stream-json`.

Flags follow the version: thinking is asked for with `--thinking-display` where the program knows it. `usage` of the
result is this run's; `total_cost_usd` is the whole session's in versions that keep a `cost-state`, which is told by
the session file and taken off. Retries of its own are kept short, so that a rate limit becomes a fact of the task.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from runner.executors.agents.dialect import Launch, Version, with_rules
from runner.executors.agents.progress import (
    Progress,
    Reader,
    Spent,
    as_mapping,
    as_text,
    summarize_arguments,
    whole_number,
)
from runner.executors.agents.session_files import claude_cost_before, claude_session, home_of
from runner.executors.executor_port import AnswerError, Live, Usage
from runner.executors.provider_errors import classify_message
from tracer.prices import Tokens, cost_usd

_EDITING: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_WRITING: Final = ("Bash", "Edit", "MultiEdit", "Write", "NotebookEdit")
_PARTIAL_SINCE: Final = Version(2, 0, 0)
_THINKING_SINCE: Final = Version(2, 1, 114)
_BUDGET_SINCE: Final = Version(2, 1, 197)
_SCHEMA_SINCE: Final = Version(2, 1, 0)
_LONGEST_ARGUMENT: Final = 100_000


class ClaudeDialect:
    """How Claude Code is started and read."""

    name = "claude"
    provider: Final = "anthropic"
    package = "@anthropic-ai/claude-code"
    oldest = Version(1, 0, 128)
    session_id_since = Version()
    login_hint = "run `claude` once and log in, or set ANTHROPIC_API_KEY"

    def arguments(self, launch: Launch) -> list[str]:
        request, version = launch.request, launch.version
        argv = [launch.program, "-p", "--output-format", "stream-json", "--verbose"]
        if version >= _PARTIAL_SINCE:
            argv.append("--include-partial-messages")
        if request.thinking and version >= _THINKING_SINCE:
            argv += ["--thinking-display", "summarized"]
        if request.model:
            argv += ["--model", request.model]
        if request.budget_usd is not None and version >= _BUDGET_SINCE:
            argv += ["--max-budget-usd", f"{request.budget_usd:.4f}"]
        if request.rules and len(request.rules) < _LONGEST_ARGUMENT:
            argv += ["--append-system-prompt", request.rules]
        if request.answer_schema is not None and version >= _SCHEMA_SINCE:
            argv += ["--json-schema", json.dumps(request.answer_schema)]
        if launch.session is not None:
            argv += ["--resume", launch.session.id]
        elif launch.new_id:
            argv += ["--session-id", launch.new_id]
        return [*argv, *self._permissions(launch)]

    def _permissions(self, launch: Launch) -> list[str]:
        match launch.request.permissions:
            case "full":
                return ["--dangerously-skip-permissions"]
            case "read":
                return ["--permission-mode", "default", "--disallowedTools", *_WRITING]
            case _ if launch.confinement == "ours":
                return ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"]
            case _:
                allowed = [f"Bash({command[:-2]}:*)" if command.endswith(" *") else f"Bash({command})"
                           for command in launch.allowed_commands]  # fmt: skip
                return ["--permission-mode", "acceptEdits", "--allowedTools", *(allowed or ["Read"])]

    def environment(self, launch: Launch) -> dict[str, str]:
        values = {"DISABLE_AUTOUPDATER": "1"}
        if "CLAUDE_CODE_MAX_RETRIES" not in launch.environ:
            values["CLAUDE_CODE_MAX_RETRIES"] = "1"
        if launch.base_url:
            values["ANTHROPIC_BASE_URL"] = launch.base_url
        if launch.confinement == "ours":
            values["IS_SANDBOX"] = "1"
        return values

    def prompt(self, launch: Launch) -> str:
        """Rules too long for an argument come first."""
        long_rules = len(launch.request.rules) >= _LONGEST_ARGUMENT
        return with_rules(launch.request, fresh=long_rules and launch.session is None)

    def reader(self, launch: Launch, progress: Progress) -> Reader:
        before = claude_cost_before(launch.session.path) if launch.session is not None else None
        return ClaudeReader(progress, cost_before=before or 0.0)

    def find_session(self, environ: Mapping[str, str], session_id: str, workspace: str) -> Path | None:
        return claude_session(environ, session_id, workspace)

    def complete(self, progress: Progress, *, path: Path | None, stderr: str) -> str:  # noqa: ARG002 - records tell it all
        return stderr

    def trouble_in(self, stderr: str) -> AnswerError | None:  # noqa: ARG002 - records tell it all
        return None

    def private_folders(self, environ: Mapping[str, str]) -> tuple[Path, ...]:
        home = home_of(environ)
        config = environ.get("CLAUDE_CONFIG_DIR")
        return (Path(config) if config else home / ".claude", home / ".claude.json", home / ".cache" / "claude")


class ClaudeReader:
    """Folds stream-json records."""

    def __init__(self, progress: Progress, *, cost_before: float = 0.0) -> None:
        self.progress = progress
        self._cost_before = cost_before
        self._open: dict[str, tuple[str, str]] = {}
        self._partial = False
        self._usage: dict[str, Mapping[str, Any]] = {}
        self._message = ""
        self._wait_s: float | None = None

    def spent(self, path: Path) -> Spent | None:  # noqa: ARG002 - the records tell it as they go
        return None

    def feed(self, record: Mapping[str, Any]) -> Iterable[Live]:
        progress = self.progress
        if progress.session_id is None and record.get("session_id"):
            progress.session_id = as_text(record.get("session_id"))
        match record.get("type"):
            case "system":
                return self._system(record)
            case "stream_event":
                self._partial = True
                return self._delta(as_mapping(record.get("event")))
            case "assistant":
                return self._assistant(record)
            case "user":
                return self._results(as_mapping(record.get("message")))
            case "result":
                return self._result(record)
            case _:
                return ()

    def _system(self, record: Mapping[str, Any]) -> Iterable[Live]:
        match record.get("subtype"):
            case "init":
                self.progress.model = as_text(record.get("model")) or None
            case "api_retry":
                seconds = self._wait_s = (whole_number(record.get("retry_delay_ms")) or 0) / 1000
                yield Live(kind="waiting", text=as_text(record.get("error")) or "the provider is busy", wait_s=seconds)
            case "permission_denied":
                self.progress.denied += 1
                yield Live(kind="notice", text=as_text(record.get("message")))
            case "informational":
                yield Live(kind="notice", text=as_text(record.get("content")))
            case _:
                pass

    def _delta(self, event: Mapping[str, Any]) -> Iterable[Live]:
        match event.get("type"):
            case "message_start":
                message = as_mapping(event.get("message"))
                self._message = as_text(message.get("id"))
                self._count(self._message, message.get("usage"))
            case "message_delta":
                self._count(self._message, event.get("usage"))
                yield self._usage_update()
            case "content_block_delta":
                delta = as_mapping(event.get("delta"))
                if delta.get("type") == "text_delta":
                    yield Live(kind="text", text=as_text(delta.get("text")))
                elif delta.get("type") == "thinking_delta":
                    yield Live(kind="thinking", text=as_text(delta.get("thinking")))
            case _:
                pass

    def _count(self, message_id: str, usage: object) -> None:
        if isinstance(usage, Mapping):
            self._usage[message_id] = {**self._usage.get(message_id, {}), **usage}

    def _usage_update(self) -> Live:
        """Totals while the run goes on; the result record replaces them."""
        totals = [Tokens.of_anthropic(usage) for usage in self._usage.values()]
        self.progress.usage = Usage.of(totals)
        costs = [cost_usd(self.progress.model, tokens) for tokens in totals]
        if all(cost is not None for cost in costs):
            self.progress.cost_usd = round(sum(cost or 0.0 for cost in costs), 9)
        return Live(kind="usage", usage=self.progress.usage, cost_usd=self.progress.cost_usd)

    def _assistant(self, record: Mapping[str, Any]) -> Iterable[Live]:
        message = as_mapping(record.get("message"))
        if record.get("is_api_error_message") or message.get("model") == "<synthetic>":
            return
        if not self._partial:
            self._count(as_text(message.get("id")), message.get("usage"))
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            block = as_mapping(block)  # noqa: PLW2901 - the raw one is of no use
            match block.get("type"):
                case "text" if not record.get("parent_tool_use_id"):
                    self.progress.output = as_text(block.get("text"))
                    if not self._partial:
                        yield Live(kind="text", text=self.progress.output)
                case "thinking" if not self._partial:
                    yield Live(kind="thinking", text=as_text(block.get("thinking")))
                case "tool_use":
                    name = as_text(block.get("name"))
                    summary = summarize_arguments(as_mapping(block.get("input")))
                    self._open[as_text(block.get("id"))] = (name, summary)
                    yield Live(kind="tool_started", tool=name, text=summary)
                case _:
                    pass
        if not self._partial:
            yield self._usage_update()

    def _results(self, message: Mapping[str, Any]) -> Iterable[Live]:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            block = as_mapping(block)  # noqa: PLW2901 - as above
            if block.get("type") != "tool_result":
                continue
            name, summary = self._open.pop(as_text(block.get("tool_use_id")), ("tool", ""))
            ok = block.get("is_error") is not True
            self.progress.note_call(name, summary, ok=ok, edit=name in _EDITING)
            yield Live(kind="tool_finished", tool=name, text=summary, ok=ok)

    def _result(self, record: Mapping[str, Any]) -> Iterable[Live]:
        progress = self.progress
        progress.finished = record.get("subtype") == "success" and record.get("is_error") is not True
        progress.stop_reason = as_text(record.get("api_error")) or as_text(record.get("stop_reason")) or None
        text = as_text(record.get("result"))
        usage = record.get("usage")
        if isinstance(usage, Mapping) and ((tokens := Tokens.of_anthropic(usage)).prompt or tokens.output):
            details = as_mapping(usage.get("output_tokens_details"))
            progress.usage = Usage.of([tokens], thinking=whole_number(details.get("thinking_tokens")))
        total = record.get("total_cost_usd")
        if isinstance(total, int | float):
            progress.cost_usd = round(max(float(total) - self._cost_before, 0.0), 9)
        progress.by_model = _by_model(record.get("modelUsage"))
        if progress.finished:
            progress.output = text or progress.output
        else:
            error = _error_of(record, text)
            if error.kind in {"rate_limit", "overloaded"} and error.retry_after_s is None:
                error = error._replace(retry_after_s=self._wait_s)
            progress.error = error
            if record.get("subtype") == "error_max_turns":
                progress.stop_reason = "max_turns"
        yield Live(kind="usage", usage=progress.usage, cost_usd=progress.cost_usd)


def _error_of(record: Mapping[str, Any], text: str) -> AnswerError:
    if record.get("subtype") == "error_max_budget_usd":
        return AnswerError(kind="budget", message="Claude Code reached the budget", next_step="raise --budget-usd")
    if record.get("stop_reason") == "refusal":
        message = text or "the model refused the request"
        return AnswerError(kind="refusal", message=message, next_step="put the request differently")
    errors = record.get("errors")
    told = text or "; ".join(str(error) for error in errors) if isinstance(errors, list) else text
    return classify_message(told, status=whole_number(record.get("api_error_status")))


def _by_model(told: object) -> dict[str, dict[str, Any]]:
    """The program's own sums by model (of the whole session where it keeps one)."""
    names = {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "cacheReadInputTokens": "cached_tokens",
        "cacheCreationInputTokens": "cache_write_tokens",
        "costUSD": "cost_usd",
    }
    return {
        model: {names[name]: value for name, value in as_mapping(row).items() if name in names}
        for model, row in as_mapping(told).items()
    }
