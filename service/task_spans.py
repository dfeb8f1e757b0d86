"""A task's trace as spans by the GenAI conventions: one for the task, one for each time the agent was asked. Pure.

No prompt, answer or diff is in them: names, models, tokens, verdicts and reasons only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from tracer.events import Entry

__all__ = ["SpanPlan", "task_spans"]

Value = str | int | float | bool | Sequence[str]

_PROVIDERS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "claude": "anthropic",
    "codex": "openai",
    "gemini": "gcp.gemini",
}
_ENDS: Final = frozenset({"COMPLETE", "INCOMPLETE", "ERROR", "CANCELLED"})


class SpanPlan(NamedTuple):
    """A span to be written; times are nanoseconds since 1970-01-01 UTC, `error` is empty where all went well."""

    name: str
    kind: Literal["internal", "client"]
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    events: tuple[tuple[str, int, Mapping[str, Value]], ...]
    error: str


def task_spans(entries: Sequence[Entry], *, since: int = 0) -> tuple[SpanPlan, ...]:
    """The task's own span and those of its calls that were answered in `entries[since:]`; empty where nothing was.

    The first is the parent of the others. A call that was never answered has no span.
    """
    if len(entries) <= since:
        return ()
    requests: dict[tuple[str | None, int | None], Entry] = {}
    calls: list[SpanPlan] = []
    open_calls: dict[tuple[str | None, int | None], int] = {}
    for seq, entry in enumerate(entries):
        key = (entry.subtask_id, entry.iteration_index)
        if entry.event == "LLM_REQUEST":
            requests[key] = entry
        elif seq >= since and entry.event == "LLM_RESPONSE" and key in requests:
            open_calls[key] = len(calls)
            calls.append(_call(requests[key], entry))
        elif seq >= since and entry.event == "QUALITY_JUDGMENT" and key in open_calls:
            at = open_calls[key]
            calls[at] = calls[at]._replace(events=(_evaluation(entry),))
    return (_task(entries, since), *calls)


def _task(entries: Sequence[Entry], since: int) -> SpanPlan:
    first, last = entries[0], entries[-1]
    executor = first.data.get("executor")
    agent = str(executor.get("name") or "agent") if isinstance(executor, dict) else "agent"
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "pm",
        "gen_ai.conversation.id": first.task_id,
        "gen_ai.provider.name": _PROVIDERS.get(agent, agent),
        "pm.session_id": first.session_id,
    }
    status = str(last.data.get("status", "")) if last.event == "FINAL_SUMMARY" else ""
    if status in _ENDS:
        attributes |= {"pm.task.status": status, "pm.task.iterations": int(last.data.get("total_iterations") or 0)}
        attributes |= _cost(last.data) | _usage(last.data)
        if last.data.get("reason"):
            attributes["pm.task.reason"] = str(last.data["reason"])
    error = status if status in {"ERROR", "CANCELLED"} else ""
    name = f"invoke_workflow pm {first.task_id}"
    return SpanPlan(name, "internal", _ns(entries[since]), _ns(last), attributes, (), error)


def _call(request: Entry, response: Entry) -> SpanPlan:
    asked, data = request.data, response.data
    executor = str(asked.get("executor") or "agent")
    operation = "chat" if executor == "anthropic" else "invoke_agent"
    model = str(data.get("model") or asked.get("model") or "")
    status = str(data.get("status", ""))
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDERS.get(executor, executor),
        "gen_ai.agent.name": executor,
        "gen_ai.conversation.id": response.task_id,
        "gen_ai.response.finish_reasons": [status],
        "pm.iteration": response.iteration_index or 0,
        **_usage(data),
        **_cost(data),
    }
    if asked.get("model"):
        attributes["gen_ai.request.model"] = str(asked["model"])
    if model:
        attributes["gen_ai.response.model"] = model
    if response.subtask_id:
        attributes["pm.subtask_id"] = response.subtask_id
    problem = data.get("error")
    error = "" if status == "COMPLETE" else str(problem.get("kind") or status) if isinstance(problem, dict) else status
    if error:
        attributes["error.type"] = error
    subject = model if operation == "chat" and model else executor
    return SpanPlan(f"{operation} {subject}", "client", _ns(request), _ns(response), attributes, (), error)


def _evaluation(entry: Entry) -> tuple[str, int, Mapping[str, Value]]:
    data = entry.data
    results = [each for each in data.get("criteria_results") or [] if isinstance(each, dict)]
    failed = [str(each.get("id", "")) for each in results if not each.get("passed")]
    told: dict[str, Value] = {
        "gen_ai.evaluation.name": "quality gate",
        "gen_ai.evaluation.score.label": str(data.get("judgment", "")),
        "pm.criteria_failed": failed,
    }
    return ("gen_ai.evaluation.result", _ns(entry), told)


def _usage(data: Mapping[str, Any]) -> dict[str, Value]:
    usage = data.get("usage")
    names = {"input_tokens": "gen_ai.usage.input_tokens", "output_tokens": "gen_ai.usage.output_tokens"}
    found = usage if isinstance(usage, dict) else {}
    return {name: found[key] for key, name in names.items() if isinstance(found.get(key), int)}


def _cost(data: Mapping[str, Any]) -> dict[str, Value]:
    cost = data.get("cost_usd")
    return {"pm.cost_usd": float(cost)} if isinstance(cost, int | float) else {}


def _ns(entry: Entry) -> int:
    """The fact's time; a damaged one counts as the beginning of time."""
    try:
        moment = datetime.fromisoformat(entry.timestamp)
    except ValueError:
        return 0
    return int(moment.timestamp() * 1000) * 1_000_000
