"""What the catalogue keeps of a file: a fold over its lines, resumable at any line, as one JSON-able dict. Pure.

Written for the start-up path: it knows dicts, not the event classes, and imports next to nothing. It never raises on a
line of the wrong shape: such a line counts as damaged and is otherwise passed over. The awaiting rule is
`runner.decide`'s.
"""

from __future__ import annotations

from typing import Any

from tracer.unbilled import is_unbilled

__all__ = ["awaiting", "cost_of", "fold_fact", "iterations_of", "judgments_of", "title_of"]

_TITLE = 80


def fold_fact(fold: dict[str, Any], fact: Any) -> None:
    """Add one line's decoded JSON to `fold`, in place."""
    data = fact.get("data") if isinstance(fact, dict) else None
    if not isinstance(data, dict):
        fold["damaged"] = fold.get("damaged", 0) + 1
        return
    event, stamp = fact.get("event"), fact.get("timestamp")
    if isinstance(stamp, str):
        fold.setdefault("created_at", stamp)
        fold["updated_at"] = stamp
    fold["last"] = event
    handler = _HANDLERS.get(event) if isinstance(event, str) else None
    if handler:
        handler(fold, fact, data)


def awaiting(fold: dict[str, Any]) -> bool:
    """Whether the task waits for a person: with a plan, or at the limit (or undecided) where `on_limit` is `ask`."""
    if fold.get("proposed") and "final" not in fold:
        return True
    if fold.get("on_limit") != "ask" or fold.get("action") or "final" in fold:
        return False
    allowed = fold.get("allowed", 3)
    loops = [loop for name, loop in fold.get("loops", {}).items() if not name.endswith("-plan")]
    return all(loop[0] for loop in loops) and any(  # while another subtask is being answered, the task is at work
        ended and not passed and not retries and (counted >= allowed or undecided)
        for ended, passed, retries, counted, undecided in loops
    )


def cost_of(fold: dict[str, Any]) -> float | None:
    """Dollars over all answers; None where one of them is unknown or there is none."""
    return fold.get("cost") if fold.get("cost_known") else None


def title_of(fold: dict[str, Any]) -> str:
    """The request's title, else the first line of its prompt, at most 80 characters."""
    return str(fold.get("title", ""))


def judgments_of(fold: dict[str, Any]) -> list[str]:
    """One for every ITERATION_END; a trace without any (the seed's sample) counts its judgments."""
    found: list[str] = fold.get("ended") or fold.get("judged") or []
    return found


def iterations_of(fold: dict[str, Any]) -> int:
    """FINAL_SUMMARY's count, else that of the judgments."""
    total: int = fold.get("total", len(judgments_of(fold)))
    return total


def _user_request(fold: dict[str, Any], _fact: dict[str, Any], data: dict[str, Any]) -> None:
    if "title" in fold:
        action, more = str(data.get("action")), data.get("max_iterations")
        if fold.get("proposed"):
            fold["proposed"] = "limits" in data or "into" in data  # other limits are no word about the plan
            return
        if action in {"continue", "hint"} and "into" not in data:
            given = more if type(more) is int and more > 0 else max(1, fold["limit"])
            fold["allowed"] += given
        if action in {"continue", "hint", "accept", "stop"}:
            fold["action"] = action
        return
    words = str(data.get("title") or data.get("prompt") or "").strip()
    first_line = words.split("\n", 1)[0].strip()
    fold["title"] = first_line if len(first_line) <= _TITLE else first_line[: _TITLE - 1] + "…"
    limits, executor = data.get("limits"), data.get("executor")
    limits = limits if isinstance(limits, dict) else {}
    most = limits.get("max_iterations")
    fold["limit"] = fold["allowed"] = most if type(most) is int and most >= 0 else 3
    fold["on_limit"] = limits.get("on_limit")
    if isinstance(executor, dict):
        fold["executor"] = str(executor.get("name") or "")
        fold["model"] = str(executor.get("model") or "")
    elif isinstance(executor, str):
        fold["executor"] = executor


def _loop(fold: dict[str, Any], fact: dict[str, Any]) -> list[Any]:
    loops = fold.setdefault("loops", {})
    loop: list[Any] = loops.setdefault(str(fact.get("subtask_id") or ""), [False, False, 0, 0, False])
    return loop


def _llm_request(fold: dict[str, Any], fact: dict[str, Any], _data: dict[str, Any]) -> None:
    _loop(fold, fact)[0] = False
    fold["action"] = ""


def _chunking_plan(fold: dict[str, Any], _fact: dict[str, Any], data: dict[str, Any]) -> None:
    fold["proposed"] = data.get("proposed") is True


def _llm_response(fold: dict[str, Any], _fact: dict[str, Any], data: dict[str, Any]) -> None:
    cost = data.get("cost_usd")
    known = type(cost) in {int, float}
    if not known and is_unbilled(data):
        return
    fold["cost"] = fold.get("cost", 0.0) + (cost if known else 0.0)
    fold["cost_known"] = fold.get("cost_known", True) and known


def _quality_judgment(fold: dict[str, Any], fact: dict[str, Any], data: dict[str, Any]) -> None:
    fold.setdefault("judged", []).append(str(data.get("judgment", "")))
    _loop(fold, fact)[4] = bool(data.get("ask_person"))


def _iteration_end(fold: dict[str, Any], fact: dict[str, Any], data: dict[str, Any]) -> None:
    judgment, loop = data.get("judgment"), _loop(fold, fact)
    fold.setdefault("ended", []).append(str(judgment or ""))
    loop[0], loop[1] = True, judgment == "PASS"
    loop[2] = loop[2] + 1 if judgment == "RETRY" else 0
    loop[3] += judgment != "RETRY"


def _final_summary(fold: dict[str, Any], _fact: dict[str, Any], data: dict[str, Any]) -> None:
    fold["final"] = str(data.get("status", ""))
    fold["reason"] = str(data.get("reason") or "")
    if type(data.get("total_iterations")) is int:
        fold["total"] = data["total_iterations"]
    if type(data.get("cost_usd")) in {int, float}:
        fold["cost"], fold["cost_known"] = data["cost_usd"], True


_HANDLERS = {
    "USER_REQUEST": _user_request,
    "CHUNKING_PLAN": _chunking_plan,
    "LLM_REQUEST": _llm_request,
    "LLM_RESPONSE": _llm_response,
    "QUALITY_JUDGMENT": _quality_judgment,
    "ITERATION_END": _iteration_end,
    "FINAL_SUMMARY": _final_summary,
}
