"""The scripted executor: answers from a JSONL file, so that tests, demos and bug reports need no model and no key.

Each line is one reply (contracts 3). Replies with `match` are tried first, in file order, each once, on any request of
the task; other requests take the remaining replies in order. A reply is used up when its LLM_RESPONSE is recorded:
the answer's `session_ref` is `scripted:<line>`, and a resumed task hands all recorded ones back in `Ask.history`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from runner.agent_report import clean_report
from runner.core.chunk_plan import PLAN_HEADLINE, plan_of_text
from runner.executors.executor_port import Answer, AnswerError, Ask, Live, LiveSink, Usage, ignore_live
from runner.executors.workspace_files import confined_path
from runner.reviewer.review import REVIEW_HEADLINE, review_in
from tracer.errors import ConfigError, UsageError
from tracer.names import AnswerStatus, ErrorKind

_PREFIX: Final = "scripted:"
_KEYS: Final = frozenset(
    {"output", "status", "files", "delay_ms", "usage", "match", "error", "cost_usd", "model", "report"}
)
_USAGE_KEYS: Final = frozenset({"input_tokens", "output_tokens", "cached_tokens", "thinking_tokens"})
_ERRORS: Final = frozenset({"timeout", "rate_limit", "overloaded", "network", "auth", "context", "crash"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One line of a script. `files` maps a workspace path to its new text, None deletes it."""

    line: int
    output: str = ""
    status: AnswerStatus = "COMPLETE"
    files: Mapping[str, str | None]
    delay_ms: int = 0
    usage: Usage | None = None
    cost_usd: float | None = None
    match: re.Pattern[str] | None = None
    report: Mapping[str, Any] | None = None
    error: AnswerError | None = None


def read_script(path: Path) -> tuple[Reply, ...]:
    """All replies of the script at `path`.

    Raises:
        UsageError: the file is missing or unreadable.
        ConfigError: a line is not a reply; the message names the line and the key.

    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the script {str(path)!r}", why=str(error), next_step="give --script a JSONL file of replies"
        ) from error
    # Split on "\n" alone: U+2028 and its like may stand inside a JSON string.
    return tuple(_reply(line, number) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _reply(line: str, number: int) -> Reply:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad(number, f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise _bad(number, "not a JSON object")
    unknown = sorted(fields.keys() - _KEYS)
    if unknown:
        raise _bad(number, f"unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}")
    if "output" not in fields and "error" not in fields:
        raise _bad(number, "a reply needs 'output' or 'error'")
    error_reply = _error(fields["error"], number) if "error" in fields else None
    status = fields.get("status", "ERROR" if error_reply else "COMPLETE")
    if error_reply is not None and error_reply.kind == "timeout" and "status" not in fields:
        status = "TIMEOUT"
    if status not in get_args(AnswerStatus):
        raise _bad(number, f"status must be one of {', '.join(get_args(AnswerStatus))}")
    return Reply(
        line=number,
        output=_typed(fields, "output", str, number, ""),
        status=status,
        files=_files(fields.get("files", {}), number),
        delay_ms=_typed(fields, "delay_ms", int, number, 0),
        usage=_usage(fields.get("usage"), number),
        cost_usd=_cost(fields.get("cost_usd"), number),
        match=_pattern(fields.get("match"), number),
        report=_report(fields.get("report"), number),
        error=error_reply,
    )


def _bad(number: int, why: str) -> ConfigError:
    return ConfigError(
        f"line {number} of the script is not a reply",
        why=why,
        next_step='write one JSON object a line, such as {"output": "...", "files": {"path": "content"}}',
    )


def _typed(fields: Mapping[str, Any], key: str, kind: type, number: int, default: Any) -> Any:
    value = fields.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise _bad(number, f"{key!r} must be a {kind.__name__}")
    return value


def _files(value: object, number: int) -> Mapping[str, str | None]:
    if not isinstance(value, dict) or not all(text is None or isinstance(text, str) for text in value.values()):
        raise _bad(number, "'files' must map paths to text or null")
    return value


def _report(value: object, number: int) -> Mapping[str, Any] | None:
    if value is not None and clean_report(value) is None:
        raise _bad(number, "'report' must be an object with a status (pm schema report)")
    return value if isinstance(value, dict) else None


def _usage(value: object, number: int) -> Usage | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _bad(number, "'usage' must be an object")
    if not value.keys() <= _USAGE_KEYS or not all(isinstance(count, int) for count in value.values()):
        raise _bad(number, f"'usage' has whole numbers under {', '.join(sorted(_USAGE_KEYS))}")
    return Usage(**value)


def _cost(value: object, number: int) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise _bad(number, "'cost_usd' must be a number of dollars")
    return float(value)


def _pattern(value: object, number: int) -> re.Pattern[str] | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _bad(number, "'match' must be a regular expression")
    try:
        return re.compile(value)
    except re.error as error:
        raise _bad(number, f"'match' is no regular expression: {error}") from error


def _error(value: object, number: int) -> AnswerError:
    if not isinstance(value, dict) or value.get("kind") not in _ERRORS:
        raise _bad(number, f"'error' needs a 'kind' of {', '.join(sorted(_ERRORS))}")
    retry_after = value.get("retry_after_s")
    if retry_after is not None and (isinstance(retry_after, bool) or not isinstance(retry_after, int | float)):
        raise _bad(number, "'retry_after_s' must be a number of seconds")
    kind: ErrorKind = value["kind"]
    message = str(value.get("message", f"scripted {kind}"))
    return AnswerError(kind=kind, message=message, retry_after_s=retry_after)


class ScriptedExecutor:
    """Answers from a script. One instance serves one task: replies in flight are claimed in it.

    A request for a plan is answered only by a reply that is meant for it: one whose output is a plan in JSON, or whose
    `match` fits the request's first line. A script without one has no planner.
    """

    name = "scripted"
    continues_sessions = False

    def __init__(self, script: Path, *, state_dir: Path | None = None) -> None:
        self._replies = read_script(script)
        self._state_dir = state_dir
        self._in_flight: set[int] = set()
        self.plans = any(_is_plan(reply) for reply in self._replies)

    async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
        """The next unused reply that fits `request`; status ERROR when there is none."""
        used = {_line_of(ref) for ref in request.history} | self._in_flight
        what, reply = self._pick_for(request, used)
        if reply is None:
            message = f"the script has no {what} left ({len(self._replies)} in all)"
            return Answer.failed("replies", message)
        self._in_flight.add(reply.line)
        try:
            if reply.delay_ms:
                async with asyncio.timeout(request.timeout_s):
                    await asyncio.sleep(reply.delay_ms / 1000)
            return self._answer(reply, request, live)
        except TimeoutError:
            self._in_flight.discard(reply.line)
            return Answer.failed("timeout", f"no reply within {request.timeout_s or 0:g} s", status="TIMEOUT")
        except asyncio.CancelledError:
            self._in_flight.discard(reply.line)
            raise

    async def close(self) -> None:
        """Nothing is held open."""

    def _pick_for(self, request: Ask, used: set[int]) -> tuple[str, Reply | None]:
        """What is asked for, and the reply: a plan and a review take none that is meant for the work."""
        free = [one for one in self._replies if one.line not in used]
        if request.prompt.startswith(REVIEW_HEADLINE):
            return "review", next(filter(_is_review, free), None)
        if request.answer_schema is not None:
            return "plan", next(filter(_is_plan, free), None)
        free = [one for one in free if not _is_review(one)]
        fitting = (one for one in free if one.match is not None and one.match.search(request.prompt))
        return "reply", next(fitting, None) or next((one for one in free if one.match is None), None)

    def _answer(self, reply: Reply, request: Ask, live: LiveSink) -> Answer:
        try:
            for path, text in reply.files.items():
                _write(path, text, workspace=Path(request.workspace), state_dir=self._state_dir)
        except (OSError, UsageError) as error:
            message = error.what if isinstance(error, UsageError) else str(error)
            return Answer(
                output=reply.output,
                status="ERROR",
                session_ref=f"{_PREFIX}{reply.line}",
                error=AnswerError(kind="crash", message=message),
            )
        if reply.output:
            live(Live(kind="text", text=reply.output, task_id=request.task_id, subtask_id=request.subtask_id))
        return Answer(
            output=reply.output,
            status=reply.status,
            usage=reply.usage,
            cost_usd=reply.cost_usd,
            session_ref=f"{_PREFIX}{reply.line}",
            error=reply.error,
            report=reply.report,
        )


def _is_plan(reply: Reply) -> bool:
    """Whether the reply is meant for a request for a plan; a `match` that fits anything is not."""
    if reply.match is not None and reply.match.search(PLAN_HEADLINE) and not reply.match.search("x"):
        return True
    return reply.error is None and plan_of_text(reply.output) is not None


def _is_review(reply: Reply) -> bool:
    """Whether the reply is meant for a reviewer: it is a review, or its `match` asks for one."""
    if reply.match is not None:
        return reply.match.search(REVIEW_HEADLINE) is not None and not reply.match.search("x")
    return review_in(reply.output) is not None


def _line_of(ref: str) -> int:
    digits = ref.removeprefix(_PREFIX)
    return int(digits) if ref.startswith(_PREFIX) and digits.isascii() and digits.isdigit() else -1


def _write(path: str, text: str | None, *, workspace: Path, state_dir: Path | None) -> None:
    target = confined_path(path, workspace=workspace, state_dir=state_dir)
    if text is None:
        target.unlink(missing_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text.encode("utf-8", "surrogatepass"))
