"""What the judge's tests share: a packet of a small trace, and replies about it."""

from __future__ import annotations

import json
from typing import Any

from collector.judge.models import RecordedJudgeModel, RecordedReply
from collector.judge.packet import BugText, Excerpt, Material, Packet, build_packet
from collector.judge.verdict import DIMENSIONS

__all__ = ["EVENTS", "a_packet", "a_reply", "material", "recorded"]

EVENTS = tuple(f"00000000-0000-4000-8000-{number:012d}" for number in range(1, 7))


def material(**fields: Any) -> Material:
    thought, plan, test, edit, command, fixed = EVENTS
    given: dict[str, Any] = {
        "bug": BugText(title="half() is a third", description="half(6) gives 2", expected="3", actual="2"),
        "thoughts": (
            Excerpt(event_id=thought, seq=1, type="thought", kind="hypothesis", text="The divisor is wrong."),
            Excerpt(event_id=plan, seq=2, type="thought", kind="plan", text="Run the test, then change it."),
        ),
        "tests": (
            Excerpt(event_id=test, seq=3, type="test_run", note="pytest -q: failed, exit 1", text="assert 2 == 3"),
            Excerpt(event_id=fixed, seq=6, type="test_run", note="pytest -q: passed, exit 0"),
        ),
        "actions": (
            Excerpt(
                event_id=edit, seq=4, type="file_edit", note="calc.py", text="-    return x / 3\n+    return x / 2"
            ),
            Excerpt(event_id=command, seq=5, type="terminal_command", note="git diff"),
        ),
        "diff": "--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-    return x / 3\n+    return x / 2\n",
        "diff_events": (edit,),
        "proof": "fails at base, passes at head, stable over 3 runs",
    }
    return Material(**{**given, **fields})


def a_packet(**fields: Any) -> Packet:
    return build_packet(material(**fields))


def a_reply(score: Any = 4, *, cite: Any = None, **fields: Any) -> dict[str, Any]:
    cited = [EVENTS[0]] if cite is None else cite
    reply: dict[str, Any] = {
        name: {"score": score, "reason": f"because of {name}", "event_ids": list(cited)} for name in DIMENSIONS
    }
    return {**reply, "rationale": "Tight work.", "flags": [], **fields}


def recorded(*replies: Any) -> RecordedJudgeModel:
    """A model that answers attempt 0, 1 … with the replies given (objects are written as JSON, texts are not)."""
    lines = [
        RecordedReply(attempt=number, text=reply if isinstance(reply, str) else json.dumps(reply))
        for number, reply in enumerate(replies)
    ]
    return RecordedJudgeModel(lines, name="recorded")
