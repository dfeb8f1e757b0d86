"""Gemini CLI, headless: `gemini -o stream-json`, and the usage in its session file.

Only a result record of success counts; the outcome of a shell call is unknown. It retries for minutes and says so
on standard error only: the first such line ends the run, and the loop waits instead.
"""

from __future__ import annotations

import json
import re
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
from runner.executors.agents.session_files import gemini_session, home_of, records_in
from runner.executors.executor_port import AnswerError, Live, Usage
from runner.executors.provider_errors import classify_message
from tracer.prices import Tokens, cost_usd

_MOST_AT_ONCE: Final = 32 << 20


class GeminiUsage:
    """The replies that a run adds to a session; `path` is the file of a session that goes on, None of a new one."""

    def __init__(self, path: Path | None) -> None:
        self._replies: dict[str, tuple[str, tuple[int, int, int, int]]] = {}
        self._offset = 0
        self._before: set[str] = set()
        if path is None:
            return
        if path.suffix == ".jsonl":
            self._offset = path.stat().st_size if path.is_file() else 0
        else:
            self._before = {as_text(record.get("id")) for record in _rewritten(path)}

    def read(self, path: Path) -> Spent | None:
        """What the run has used by now; None before its first reply."""
        for record in self._appended(path) if path.suffix == ".jsonl" else _rewritten(path):
            tokens, name = record.get("tokens"), as_text(record.get("id"))
            if record.get("type") == "gemini" and isinstance(tokens, dict) and name not in self._before:
                counts = [whole_number(tokens.get(key)) or 0 for key in ("input", "cached", "output", "thoughts")]
                self._replies[name] = (as_text(record.get("model")), (counts[0], counts[1], counts[2], counts[3]))
        if not self._replies:
            return None
        sums = [sum(counts[place] for _, counts in self._replies.values()) for place in range(4)]
        usage = Usage(input_tokens=sums[0], cached_tokens=sums[1], output_tokens=sums[2], thinking_tokens=sums[3])
        costs = [_cost(model, counts) for model, counts in self._replies.values()]
        known = [cost for cost in costs if cost is not None]
        model = next(reversed(self._replies.values()))[0]
        return Spent(usage, round(sum(known), 9) if len(known) == len(costs) else None, model or None)

    def _appended(self, path: Path) -> Iterable[dict[str, Any]]:
        """The whole lines that came since the last look."""
        try:
            with path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(_MOST_AT_ONCE)
        except OSError:
            return
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == _MOST_AT_ONCE:
            whole = len(data)  # one line longer than this: its end is no record, and is passed over
        self._offset += whole
        yield from records_in(line for line in data[:whole].split(b"\n") if b'"tokens"' in line)


def _rewritten(path: Path) -> Iterable[dict[str, Any]]:
    try:
        if path.stat().st_size > _MOST_AT_ONCE:
            return []
        messages = as_mapping(json.loads(path.read_bytes())).get("messages")
    except (OSError, ValueError, RecursionError):  # half written: the next look finds it whole
        return []
    return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def _cost(model: str, counts: tuple[int, int, int, int]) -> float | None:
    sent, cached, said, thought = counts
    return cost_usd(model, Tokens.of_prompt(sent, cached=cached, output=said + thought))


_EDITING: Final = frozenset({"write_file", "replace", "edit"})
_SHELL: Final = "run_shell_command"
_RETRYING: Final = re.compile(r"^Attempt \d+ failed.*?retrying .*$", re.IGNORECASE | re.MULTILINE)


class GeminiDialect:
    """How Gemini CLI is started and read."""

    name = "gemini"
    provider: Final = "google"
    package = "@google/gemini-cli"
    oldest = Version(0, 20, 2)
    session_id_since = Version(0, 61, 0)  # the oldest that it was tried with
    login_hint = (
        "run `gemini` once and log in, or set GEMINI_API_KEY (with a base URL also security.auth.selectedType = "
        '"gemini-api-key" in ~/.gemini/settings.json)'
    )

    def arguments(self, launch: Launch) -> list[str]:
        request = launch.request
        argv = [launch.program, "-o", "stream-json"]
        if request.model:
            argv += ["-m", request.model]
        if launch.session is not None:
            argv += ["--resume", launch.session.id]
        elif launch.new_id:
            argv += ["--session-id", launch.new_id]
        return [*argv, *self._permissions(launch)]

    def _permissions(self, launch: Launch) -> list[str]:
        match launch.request.permissions:
            case "full":
                return ["--approval-mode", "yolo"]
            case "read":
                return ["--approval-mode", "default"]
            case _ if launch.confinement == "ours":
                return ["--approval-mode", "yolo"]
            case _:
                allowed = [f"{_SHELL}({command.removesuffix(' *')})" for command in launch.allowed_commands]
                chosen = ["--allowed-tools", ",".join(allowed)] if allowed else []
                return ["--approval-mode", "auto_edit", *chosen]

    def environment(self, launch: Launch) -> dict[str, str]:
        """Asking for a run here is trust in this folder."""
        values = {"GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        if launch.base_url:
            values["GOOGLE_GEMINI_BASE_URL"] = launch.base_url
        return values

    def prompt(self, launch: Launch) -> str:
        """The rules are in a session already when it goes on."""
        return with_rules(launch.request, fresh=launch.session is None)

    def reader(self, launch: Launch, progress: Progress) -> Reader:
        progress.model = launch.request.model
        return GeminiReader(progress, session=launch.session.path if launch.session is not None else None)

    def find_session(self, environ: Mapping[str, str], session_id: str, workspace: str) -> Path | None:  # noqa: ARG002 - ids are unique
        return gemini_session(environ, session_id)

    def complete(self, progress: Progress, *, path: Path | None, stderr: str) -> str:  # noqa: ARG002 - records tell it all
        return stderr

    def trouble_in(self, stderr: str) -> AnswerError | None:
        """A rate limit or overload that it would sit out for minutes."""
        found = _RETRYING.search(stderr)
        error = classify_message(found[0]) if found is not None else None
        return error if error is not None and error.kind in {"rate_limit", "overloaded"} else None

    def private_folders(self, environ: Mapping[str, str]) -> tuple[Path, ...]:
        return (home_of(environ) / ".gemini",)


class GeminiReader:
    """Folds stream-json records."""

    def __init__(self, progress: Progress, *, session: Path | None = None) -> None:
        """`session` is the file of the session that goes on, None of a new one."""
        self.progress = progress
        self._usage = GeminiUsage(session)
        self._open: dict[str, tuple[str, str]] = {}
        self._text = ""
        self._last_error = ""

    def feed(self, record: Mapping[str, Any]) -> Iterable[Live]:
        progress = self.progress
        match record.get("type"):
            case "init":
                progress.session_id = as_text(record.get("session_id")) or None
                progress.model = as_text(record.get("model")) or progress.model
            case "message" if record.get("role") == "assistant":
                piece = as_text(record.get("content"))
                self._text = self._text + piece if record.get("delta") else piece
                progress.output = self._text
                yield Live(kind="text", text=piece)
            case "tool_use":
                self._text = ""
                name = as_text(record.get("tool_name"))
                summary = summarize_arguments(as_mapping(record.get("parameters")))
                self._open[as_text(record.get("tool_id"))] = (name, summary)
                yield Live(kind="tool_started", tool=name, text=summary)
            case "tool_result":
                yield self._tool_result(record)
            case "error":
                self._last_error = as_text(record.get("message"))
                yield Live(kind="notice", text=self._last_error)
            case "result":
                yield from self._result(record)
            case _:
                pass

    def spent(self, path: Path) -> Spent | None:
        return self._usage.read(path)

    def _tool_result(self, record: Mapping[str, Any]) -> Live:
        name, summary = self._open.pop(as_text(record.get("tool_id")), ("tool", ""))
        failed = record.get("status") != "success"
        # A shell command that failed is reported as a success: nobody can tell from here.
        ok = False if failed else None if name == _SHELL else True
        if as_mapping(record.get("error")).get("type") == "tool_not_registered":
            self.progress.denied += 1
        self.progress.note_call(name, summary, ok=ok, edit=name in _EDITING)
        return Live(kind="tool_finished", tool=name, text=summary, ok=ok)

    def _result(self, record: Mapping[str, Any]) -> Iterable[Live]:
        progress = self.progress
        progress.finished = record.get("status") == "success"
        if progress.finished:
            progress.stop_reason = "end_turn"
        else:
            told = as_text(as_mapping(record.get("error")).get("message")) or self._last_error
            progress.error = classify_message(told or "Gemini CLI reported an error without a reason")
        self._count(as_mapping(record.get("stats")))
        yield Live(kind="usage", usage=progress.usage, cost_usd=progress.cost_usd)

    def _count(self, stats: Mapping[str, Any]) -> None:
        """Count this run. `total` holds the thoughts, which are billed as output and told nowhere else."""
        total = whole_number(stats.get("total_tokens"))
        if not total:
            return
        models = {name: as_mapping(row) for name, row in as_mapping(stats.get("models")).items()}
        rows = {name: _row(row) for name, row in (models or {self.progress.model or "": stats}).items()}
        self.progress.usage = Usage(**_row(stats))
        costs = [_gemini_cost(name, row) for name, row in rows.items()]
        self.progress.cost_usd = None if None in costs else round(sum(cost or 0.0 for cost in costs), 9)
        self.progress.by_model = {name: {**row, "cost_usd": _gemini_cost(name, row)} for name, row in rows.items()}


def _row(stats: Mapping[str, Any]) -> dict[str, int | None]:
    """Counts; `cached_tokens` None in versions that do not tell them."""
    sent = whole_number(stats.get("input_tokens")) or 0
    said = whole_number(stats.get("output_tokens")) or 0
    total = whole_number(stats.get("total_tokens")) or 0
    return {
        "input_tokens": sent,
        "output_tokens": said,
        "cached_tokens": whole_number(stats.get("cached")),
        "thinking_tokens": max(total - sent - said, 0),
    }


def _gemini_cost(model: str, row: Mapping[str, int | None]) -> float | None:
    """The price of a row; None too where nobody tells how much of it came cheaper from the cache."""
    sent, cached = row["input_tokens"] or 0, row["cached_tokens"]
    if cached is None:
        return None
    output = (row["output_tokens"] or 0) + (row["thinking_tokens"] or 0)
    return cost_usd(model, Tokens.of_prompt(sent, cached=cached, output=output), one_request=False)
