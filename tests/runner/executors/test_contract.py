"""The port's contract, run against every executor with a stand-in at its far end."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.agent_report import prose_of, read_report
from runner.executors.executor_port import Answer, Ask, Live
from runner.processes.orphans import end_orphans
from tests.runner.executors.rigs import RIGS, CommandLineRig, Rig

HAPPY = (("think", "Hm."), ("edit", "made.txt", "new\n"), ("say", "Done."), ("usage", 100, 20))


@pytest.fixture(params=RIGS, ids=lambda rig: rig.name)
def rig(request: pytest.FixtureRequest, project: Path, tmp_path: Path) -> Iterator[Rig]:
    made = request.param(project, tmp_path / "far-end")
    yield made
    made.close()


def request_in(rig: Rig, **fields: Any) -> Ask:
    return Ask(**{"task_id": "task-001", "prompt": "please", "workspace": str(rig.project), **fields})


async def ask(rig: Rig, *play: tuple[Any, ...], live: list[Live] | None = None, **fields: Any) -> Answer:
    executor = rig.executor(play)
    updates = [] if live is None else live
    try:
        return await executor.ask(request_in(rig, **fields), live=updates.append)
    finally:
        await executor.close()


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def test_a_good_run_is_complete_with_output_usage_and_a_session(rig: Rig) -> None:
    live: list[Live] = []
    answer = await ask(rig, *HAPPY, live=live)
    assert (answer.status, answer.error, answer.output) == ("COMPLETE", None, "Done.")
    assert (rig.project / "made.txt").read_text() == "new\n"
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (100, 20)
    assert answer.session_ref is not None
    assert answer.session_ref.startswith(f"{rig.name}:")
    assert answer.extra["edits"] == {"attempted": 1, "failed": 0}
    assert "".join(update.text for update in live if update.kind == "text").endswith("Done.")
    kinds = [update.kind for update in live]
    assert kinds.index("tool_started") < kinds.index("tool_finished")
    assert {update.task_id for update in live} == {"task-001"}
    assert rig.prompts() == ["please"]


async def test_a_report_at_the_end_of_an_answer_comes_through_whole(rig: Rig) -> None:
    told = {"status": "partial", "left": ["the `docs`"], "commands": [{"run": "pytest -q", "exit": 1}]}
    text = f"Done, but for the docs.\n\n```pm-report\n{json.dumps(told)}\n```\n"
    answer = await ask(rig, ("edit", "made.txt", "new\n"), ("say", text))
    report = read_report(answer.output)
    assert report is not None
    assert {key: report[key] for key in told} == told
    assert prose_of(answer.output) == "Done, but for the docs."


async def test_a_failing_command_is_not_shown_as_a_success(rig: Rig) -> None:
    live: list[Live] = []
    answer = await ask(rig, ("command", 3), ("say", "It failed."), live=live)
    assert answer.status == "COMPLETE"
    assert [update.ok for update in live if update.kind == "tool_finished"] in ([False], [None])


async def test_a_claim_of_success_after_failed_edits_is_incomplete(rig: Rig) -> None:
    answer = await ask(rig, ("bad_edit", "absent.txt"), ("say", "All done!"))
    assert answer.status == "INCOMPLETE"
    assert answer.extra["edits"] == {"attempted": 1, "failed": 1}


@pytest.mark.parametrize(
    ("end", "status", "kind"),
    [
        ("refuse", "BLOCKED", "refusal"),
        ("auth", "ERROR", "auth"),
        ("rate_limit", "ERROR", "rate_limit"),
        ("overloaded", "ERROR", "overloaded"),
    ],
)
async def test_trouble_has_a_kind(rig: Rig, end: str, status: str, kind: str) -> None:
    answer = await ask(rig, ("say", "Let me see."), (end,))
    assert answer.error is not None
    assert (answer.status, answer.error.kind) == (status, kind)
    assert answer.error.message
    if kind == "rate_limit":
        assert answer.error.retry_after_s == 7.0
    if kind == "auth":
        assert answer.error.next_step


async def test_a_stream_that_stops_short_is_an_error(rig: Rig) -> None:
    answer = await ask(rig, ("say", "half of it"), ("cut",))
    assert answer.status == "ERROR"
    assert answer.error is not None


async def test_a_line_that_is_no_record_is_passed_over(rig: Rig) -> None:
    answer = await ask(rig, ("garbage", "{not json at all"), *HAPPY)
    assert answer.status == "COMPLETE"
    if isinstance(rig, CommandLineRig):
        assert answer.extra["unreadable_lines"] == {"count": 1, "first": ["{not json at all"]}


@pytest.mark.torture
async def test_fifty_megabytes_of_output_are_read_in_bounded_memory(rig: Rig) -> None:
    for library in {"anthropic": ("anthropic", "httpx2"), "acp": ("runner.executors.acp.client",)}.get(rig.name, ()):
        importlib.import_module(library)  # 40 MB of code that would be counted where this test is the first
    tracemalloc.start()
    try:
        executor = rig.executor((("fill", 50_000_000), ("say", "Done.")))
        answer = await executor.ask(request_in(rig))
        await executor.close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status == "COMPLETE"
    assert peak < 40_000_000


async def test_time_is_up(rig: Rig) -> None:
    answer = await ask(rig, ("wait", 60), ("say", "late"), timeout_s=1.2)
    assert answer.error is not None
    assert (answer.status, answer.error.kind) == ("TIMEOUT", "timeout")


@pytest.mark.parametrize("when", ["at once", "before an answer", "while a child runs"])
async def test_cancelling_ends_everything_that_was_started(rig: Rig, when: str) -> None:
    play = (("child", 600),) if when == "while a child runs" else (("wait", 60), ("say", "late"))
    executor = rig.executor(play)
    task = asyncio.create_task(executor.ask(request_in(rig, permissions="full")))
    child = None
    if when == "before an answer":
        await asyncio.sleep(0.3)
    elif when == "while a child runs":
        child = await asyncio.to_thread(rig.child)
        assert not gone(child)
    else:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await executor.close()
    assert child is None or gone(child)
    assert list((rig.state_dir / "control" / "processes").glob("*.json")) == []


async def test_concurrent_tasks_in_one_project_do_not_mix(rig: Rig) -> None:
    executor = rig.executor((("say", "Done."),), (("say", "Done."),), (("say", "Done."),))
    asks = [executor.ask(request_in(rig, task_id=f"task-{n}", prompt=f"prompt {n}")) for n in range(3)]
    answers = await asyncio.gather(*asks)
    await executor.close()
    assert [answer.status for answer in answers] == ["COMPLETE"] * 3
    assert sorted(rig.prompts()) == [f"prompt {n}" for n in range(3)]


_ORPHANING = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from tests.runner.executors.rigs import RIGS
from runner.executors.executor_port import Ask

async def main():
    kind = next(rig for rig in RIGS if rig.name == {name!r})
    rig = kind(Path({project!r}), Path({folder!r}))
    executor = rig.executor((("child", 600),))
    await executor.ask(Ask(task_id="task-001", prompt="please", workspace={project!r}, permissions="full"))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "rig",
    [RIGS[1], *(pytest.param(rig, marks=pytest.mark.torture) for rig in RIGS if rig is not RIGS[1])],
    indirect=True,
)
async def test_an_agent_left_running_by_a_killed_pm_is_found_and_ended(
    request: pytest.FixtureRequest, rig: Rig, tmp_path: Path
) -> None:
    folder = tmp_path / "orphan"
    program = textwrap.dedent(_ORPHANING).format(
        paths=[str(Path(__file__).parents[3])], name=rig.name, project=str(rig.project), folder=str(folder)
    )
    killed = subprocess.Popen([sys.executable, "-c", program], env=dict(os.environ), stderr=subprocess.DEVNULL)
    try:
        if isinstance(rig, CommandLineRig):
            rig.program = folder / rig.name / rig.name
        else:
            rig.folder = folder
            rig.steps = folder / "steps.json"  # type: ignore[attr-defined]
        child = await asyncio.to_thread(rig.child)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    assert not gone(child), "the agent outlives the pm that was killed"
    ended = await end_orphans(rig.state_dir)
    assert [orphan.label for orphan in ended if orphan.ended] == ["task-001"]
    assert gone(child)
