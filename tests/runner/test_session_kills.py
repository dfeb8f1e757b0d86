"""Real command lines, killed at random moments: every session that began has its trace, no fact and no cost is lost.

PM_TEST_SESSION_KILLS is the number of kills over all command lines; a few of them by default.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.runner.executors.test_real_cli import MENDED, MODELS, Place
from tests.support.clis import VERSIONS, cli_program
from tests.support.model_server import ModelServer, Recorded, Turn, counts
from tracer.distill.locate.find import find_sessions
from tracer.distill.native import PROVIDER_NAMES
from tracer.distill.stored import stored_traces
from tracer.journal.verify_trace import verify_trace

pytestmark = [pytest.mark.torture, pytest.mark.real_cli]

KILLS = int(os.environ.get("PM_TEST_SESSION_KILLS", "6"))
VICTIMS = ("pm", "agent", "ctrl-c")


class Model:
    """Reads and writes calc.py, one call a request, then says so; reads again where nothing was written."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.asked = self.sent = 0
        self.looked = False

    def __call__(self, _request: Recorded) -> Turn:
        self.asked += 1
        path = self.place.project / "calc.py"
        if path.exists() and path.read_text() == MENDED:
            self.sent += 10
            return Turn(thinking="It divides by 2.", text="I mended half().", usage=counts(50, 10, thinking=2))
        self.sent += 20
        calls = self.place.writes(MENDED)
        write, self.looked = self.looked or not path.exists(), not self.looked
        return Turn(thinking="**Look** first.", calls=[calls[-1 if write else 0]], usage=counts(100, 20, cached=5))


def conversation(project: Path) -> list[bytes]:
    traces = list((project / ".pm-orchestrator" / "traces").glob("conversation-*.jsonl"))
    return traces[0].read_bytes().splitlines(keepends=True) if traces else []


def kill(place: Place, victim: str, pm: Any) -> None:
    """Kill the agent's whole group where one runs, else pm."""
    if victim == "agent":
        for path in (place.project / ".pm-orchestrator" / "control" / "processes").glob("*.json"):
            told = json.loads(path.read_text())
            os.killpg(int(told["pid"]), signal.SIGKILL)
            return
    pm.send_signal(signal.SIGINT if victim == "ctrl-c" else signal.SIGKILL)


def killed_once(place: Place, chance: random.Random) -> tuple[Mapping[str, Any], int]:
    """One task whose agent or pm is killed at a random moment, resumed to its end: its FINAL_SUMMARY, and the output
    tokens that the model sent.
    """
    victim, after_request = chance.choice(VICTIMS), chance.choice([0, 0, 1, 1, 2, 3])
    delay_s = chance.uniform(0, 0.4 if after_request else 3)
    model = Model(place)
    flags = ("--executor", place.name, "--model", MODELS[place.name], "--no-input", "--kind", "change")
    with ModelServer(model) as server:
        pm = place.pm(server, "run", *flags, "Mend half() in calc.py")
        deadline = time.monotonic() + 60
        while model.asked < after_request and time.monotonic() < deadline and pm.poll() is None:
            time.sleep(0.01)
        time.sleep(delay_s)
        if pm.poll() is None:
            kill(place, victim, pm)
        said = "".join(pm.communicate(timeout=120))
        before = conversation(place.project)
        if not before:
            _code, said = place.run(server, "run", *flags, "Mend half() in calc.py")
        elif b'"FINAL_SUMMARY"' not in before[-1]:
            if not before[-1].endswith(b"\n"):
                before.pop()  # it was being written: no confirmed fact
            _code, said = place.run(server, "resume", "1", "--no-input")
    whole = conversation(place.project)
    assert whole[: len(before)] == before, (
        f"{victim} after {after_request} requests and {delay_s:.2f} s: facts are lost"
    )
    final = json.loads(whole[-1])
    assert (final["event"], final["data"]["status"]) == ("FINAL_SUMMARY", "COMPLETE"), (victim, said)
    return final["data"], model.sent + sum(Turn().usage["output"] for _ in server.side_requests)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_every_session_of_a_killed_agent_has_a_trace(name: str, tmp_path: Path) -> None:
    program = cli_program(name)
    for number in range(max(1, KILLS // len(VERSIONS))):
        (base := tmp_path / str(number)).mkdir()
        place = Place(name, program, base)
        final, sent = killed_once(place, random.Random(f"{name}-{number}"))
        (trace,) = (place.project / ".pm-orchestrator" / "traces").glob("conversation-*.jsonl")
        assert verify_trace(trace).ok
        began = find_sessions(environ={"HOME": str(place.home)})
        traced = {
            meta["session_id"]: meta for _, meta in stored_traces(place.project / ".pm-orchestrator" / "agentic-traces")
        }
        assert began, number
        assert {one.session_id for one in began} == set(traced), f"number {number}"
        assert all(meta["provider"] == PROVIDER_NAMES[name] for meta in traced.values())
        used = sum(meta["tokens"]["output"] or 0 for meta in traced.values())
        # A reply that was cut off is told by the agent's output and may be missing in its session's file.
        assert used <= final["usage"]["output_tokens"] <= sent, (
            f"number {number}: {[json.loads(x)['event'] for x in conversation(place.project)]}"
        )
