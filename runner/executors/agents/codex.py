"""Codex, headless: `codex exec --json`.

Reasoning summaries are asked for by a setting; without it there is no text of thoughts at all. The usage it prints is
the whole thread's, so what earlier runs used is read from the thread's file and taken off. It tells no cost.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

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
from runner.executors.agents.session_files import CodexTotals, codex_home, codex_model, codex_session, codex_totals
from runner.executors.executor_port import AnswerError, Live, Usage
from runner.executors.provider_errors import classify_message, parse_retry_after
from runner.processes.environment import agent_environment
from runner.processes.probe import run_probe
from tracer.durable import ensure_folder, replace
from tracer.prices import Tokens, cost_usd

_ANSWERS_LOG: Final = "codex_http_client::client"
_RETRY_AFTER: Final = re.compile(r'"(retry-after(?:-ms)?)": "([^"]{1,40})"', re.IGNORECASE)


class CodexDialect:
    """How Codex is started and read."""

    name = "codex"
    provider: Final = "openai"
    package = "@openai/codex"
    oldest = Version(0, 50, 0)
    session_id_since = None
    login_hint = "run `codex login`, or set CODEX_API_KEY"

    def arguments(self, launch: Launch) -> list[str]:
        """Options stand before `resume`, where old versions want them."""
        request = launch.request
        argv = [launch.program, "exec", "--json", "--skip-git-repo-check"]
        argv += ["-c", "check_for_update_on_startup=false"]
        if request.model:
            argv += ["-m", request.model]
        if request.thinking:
            argv += ["-c", 'model_reasoning_summary="detailed"']
        base_url = launch.base_url or launch.environ.get("OPENAI_BASE_URL")
        if base_url:
            argv += _provider_options(base_url, launch.environ)
        if launch.schema_file is not None:
            argv += ["--output-schema", str(launch.schema_file)]
        argv += self._permissions(launch)
        if launch.session is not None:
            argv += ["resume", launch.session.id]
        return [*argv, "-"]

    def _permissions(self, launch: Launch) -> list[str]:
        if launch.request.permissions == "full" or launch.confinement == "ours":
            return ["--dangerously-bypass-approvals-and-sandbox"]
        if launch.request.permissions == "read":
            return ["--sandbox", "read-only"]
        network = ["-c", "sandbox_workspace_write.network_access=true"] if launch.network else []
        return ["--sandbox", "workspace-write", *network]

    def environment(self, launch: Launch) -> dict[str, str]:
        """The headers of answers are told nowhere but in this log, on standard error."""
        return {} if "RUST_LOG" in launch.environ else {"RUST_LOG": f"error,{_ANSWERS_LOG}=debug"}

    def prompt(self, launch: Launch) -> str:
        """The rules are in a thread already when it goes on."""
        return with_rules(launch.request, fresh=launch.session is None)

    def reader(self, launch: Launch, progress: Progress) -> Reader:
        progress.model = launch.request.model
        before = codex_totals(launch.session.path) if launch.session is not None else CodexTotals()
        return CodexReader(progress, before=before)

    def find_session(self, environ: Mapping[str, str], session_id: str, workspace: str) -> Path | None:  # noqa: ARG002 - a thread is found by its id alone
        return codex_session(environ, session_id)

    def complete(self, progress: Progress, *, path: Path | None, stderr: str) -> str:
        """The model, which sets the price, where none was asked for; and how long the provider asked to wait."""
        usage, error = progress.usage, progress.error
        if error is not None and error.kind in {"rate_limit", "overloaded"} and error.retry_after_s is None:
            found = _RETRY_AFTER.findall(stderr)  # of the last answer that had one
            wait_s = parse_retry_after({found[-1][0].lower(): found[-1][1]}) if found else None
            progress.error = error._replace(retry_after_s=wait_s)
        if progress.model is None and path is not None:
            progress.model = codex_model(path)
        if usage is not None and progress.cost_usd is None and path is not None:
            sent, cached = usage.input_tokens or 0, usage.cached_tokens or 0
            tokens = Tokens.of_prompt(sent, cached=cached, output=usage.output_tokens or 0)
            progress.cost_usd = cost_usd(progress.model, tokens, one_request=False)
        return "\n".join(line for line in stderr.splitlines() if _ANSWERS_LOG not in line)

    def trouble_in(self, stderr: str) -> AnswerError | None:  # noqa: ARG002 - records tell it all
        return None

    def private_folders(self, environ: Mapping[str, str]) -> tuple[Path, ...]:
        return (codex_home(environ),)


def _provider_options(base_url: str, environ: Mapping[str, str]) -> list[str]:
    """A provider of our own for a base URL that is not OpenAI's; the key stays in the environment.

    Nothing is tried again by Codex itself: it would sit out a rate limit without a word about how long.
    """
    key = "CODEX_API_KEY" if environ.get("CODEX_API_KEY") else "OPENAI_API_KEY"
    values = {
        "name": "pm",
        "base_url": base_url.rstrip("/"),
        "env_key": key,
        "wire_api": "responses",
    }
    inner = ",".join(f"{name}={json.dumps(value)}" for name, value in values.items())
    table = f"model_providers.pm={{{inner},request_max_retries=0,stream_max_retries=0}}"
    return ["-c", 'model_provider="pm"', "-c", table]


class CodexReader:
    """Folds `codex exec --json` records."""

    def __init__(self, progress: Progress, *, before: CodexTotals | None) -> None:
        self.progress = progress
        self._before = before
        self._last_error = ""

    def feed(self, record: Mapping[str, Any]) -> Iterable[Live]:
        match record.get("type"):
            case "thread.started":
                self.progress.session_id = as_text(record.get("thread_id")) or None
            case "item.started":
                yield from self._started(as_mapping(record.get("item")))
            case "item.completed":
                yield from self._completed(as_mapping(record.get("item")))
            case "turn.completed":
                self.progress.finished = True
                self.progress.stop_reason = "end_turn"
                self._count(as_mapping(record.get("usage")))
                yield Live(kind="usage", usage=self.progress.usage, cost_usd=self.progress.cost_usd)
            case "error":
                self._last_error = as_text(record.get("message"))
                yield Live(kind="notice", text=self._last_error)
            case "turn.failed":
                told = as_text(as_mapping(record.get("error")).get("message")) or self._last_error
                self.progress.finished = False
                self.progress.error = classify_message(told)
            case _:
                pass

    def _started(self, item: Mapping[str, Any]) -> Iterable[Live]:
        named = _named(item)
        if named is not None:
            yield Live(kind="tool_started", tool=named[0], text=named[1])

    def _completed(self, item: Mapping[str, Any]) -> Iterable[Live]:
        text = as_text(item.get("text"))
        match item.get("type"):
            case "agent_message":
                self.progress.output = text
                yield Live(kind="text", text=text)
            case "reasoning":
                yield Live(kind="thinking", text=text)
            case "error":
                yield Live(kind="notice", text=as_text(item.get("message")))
            case _:
                named = _named(item)
                if named is not None:
                    name, summary = named
                    code = item.get("exit_code")
                    ok = item.get("status") != "failed" and code in {None, 0}
                    self.progress.note_call(name, summary, ok=ok, edit=name == "file_change")
                    yield Live(kind="tool_finished", tool=name, text=summary, ok=ok)

    def spent(self, path: Path) -> Spent | None:
        total = codex_totals(path)
        if total is None or total in {CodexTotals(), self._before}:
            return None
        return self._spent_of(total, self.progress.model or codex_model(path))

    def _count(self, told: Mapping[str, Any]) -> None:
        """Count this run; the price needs a model name."""
        total = CodexTotals(
            whole_number(told.get("input_tokens")) or 0,
            whole_number(told.get("cached_input_tokens")) or 0,
            whole_number(told.get("output_tokens")) or 0,
            whole_number(told.get("reasoning_output_tokens")) or 0,
        )
        spent = self._spent_of(total, self.progress.model) if told else None
        if spent is not None:
            told_all = "reasoning_output_tokens" in told  # not before version 0.146
            usage = spent.usage if told_all else spent.usage._replace(thinking_tokens=None)
            self.progress.usage, self.progress.cost_usd = usage, spent.cost_usd

    def _spent_of(self, total: CodexTotals, model: str | None) -> Spent | None:
        """Counts of the thread less those of its earlier runs; None where these are unknown."""
        before = self._before
        if before is None:
            return None
        spent = total
        if all(now >= then for now, then in zip(total, before, strict=True)):  # else it counts this run only
            spent = CodexTotals(*(now - then for now, then in zip(total, before, strict=True)))
        usage = Usage(
            input_tokens=spent.input,
            output_tokens=spent.output,
            cached_tokens=spent.cached,
            thinking_tokens=spent.reasoning,
        )
        tokens = Tokens.of_prompt(spent.input, cached=spent.cached, output=spent.output)
        return Spent(usage, cost_usd(model, tokens, one_request=False), model)


def _named(item: Mapping[str, Any]) -> tuple[str, str] | None:
    """A tool item's name and summary; None for what is no tool."""
    match item.get("type"):
        case "command_execution":
            return "command", as_text(item.get("command"))
        case "file_change":
            changes = item.get("changes")
            paths = [as_text(as_mapping(change).get("path")) for change in changes] if isinstance(changes, list) else []
            return "file_change", ", ".join(paths)
        case "mcp_tool_call":
            name = f"{as_text(item.get('server'))}.{as_text(item.get('tool'))}"
            return name, summarize_arguments(as_mapping(item.get("arguments")))
        case "web_search":
            return "web_search", as_text(item.get("query"))
        case _:
            return None


_TRIAL_S: Final = 20.0
_NEW_COMMAND_SINCE: Final = Version(0, 100, 0)


class OwnSandbox(NamedTuple):
    """`works` False: `why` says in one line what the agent's sandbox cannot do here."""

    works: bool
    why: str = ""


def probe_own_sandbox(
    name: str, program: str, version: Version, *, environ: Mapping[str, str], cache: Path | None
) -> OwnSandbox:
    """Try the sandbox of executor `name`, once per version; `cache` is a folder for the answers, None to ask each time.

    Codex confines commands by the operating system; where that is missing every edit fails quietly. The trial writes a
    file through its sandbox in a folder like the workspace. Claude Code and Gemini CLI confine by permission: there is
    nothing to try.
    """
    if name != "codex":
        return OwnSandbox(works=True)
    remembered = cache / f"sandbox-{name}-{version}.json" if cache is not None else None
    if remembered is not None and (told := _told_before(remembered, program, environ)) is not None:
        return told
    answer = _try_codex(program, version, environ)
    if remembered is not None:
        note = json.dumps({"of": _identity(program, environ), "works": answer.works, "why": answer.why})
        with suppress(OSError):  # a lost note only means that it is tried again
            ensure_folder(remembered.parent)
            replace(remembered, note.encode())
    return answer


def _try_codex(program: str, version: Version, environ: Mapping[str, str]) -> OwnSandbox:
    command = ["/bin/sh", "-c", "echo tried > made"]
    argv: Sequence[str]
    if version >= _NEW_COMMAND_SINCE:
        argv = [program, "sandbox", "-c", 'sandbox_mode="workspace-write"', "--", *command]
    else:
        argv = [program, "sandbox", "linux", "--full-auto", *command]
    with tempfile.TemporaryDirectory(prefix="pm-probe-") as folder:
        try:
            done = run_probe(argv, limit_s=_TRIAL_S, env=agent_environment("openai", environ), cwd=folder)
        except OSError as error:
            return OwnSandbox(works=False, why=f"codex's own sandbox could not be tried: {error}")
        if done.returncode == 0 and Path(folder, "made").is_file():
            return OwnSandbox(works=True)
    said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line and "WARNING" not in line]
    return OwnSandbox(works=False, why=f"codex's own sandbox cannot write here: {said[-1] if said else 'no reason'}")


def _identity(program: str, environ: Mapping[str, str]) -> list[object]:
    status = Path(os.path.realpath(program)).stat()
    return [program, status.st_mtime_ns, status.st_size, environ.get("CODEX_HOME") or environ.get("HOME")]


def _told_before(path: Path, program: str, environ: Mapping[str, str]) -> OwnSandbox | None:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["of"] == _identity(program, environ):
            return OwnSandbox(works=bool(told["works"]), why=str(told["why"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
