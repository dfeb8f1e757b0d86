"""The supervisor with a real record: submit, wait, stop, resume, respond, many at once, failures to record."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.core.evolve import fold
from runner.core.request import Request
from runner.effects import TaskEffects
from runner.executors.executor_port import Answer, Ask, Live, LiveSink, ignore_live
from runner.executors.scripted import ScriptedExecutor
from runner.supervisor import Supervisor, request_stop
from runner.task_log import begin_session
from tests.runner.memory import run_task
from tracer.clock import monotonic
from tracer.conversation import ConversationTracer
from tracer.drafts import executor_choice
from tracer.errors import RecordError, UsageError
from tracer.events import parse_line
from tracer.facts import Limits
from tracer.journal.tracepack import TracePack
from tracer.journal.verify_trace import check_order
from tracer.lookup import trace_files
from tracer.statedir import StateDir

BAD = {"output": "TODO: implement this", "files": {"a.py": "# TODO: implement this\n"}}
GOOD = {"output": "Implemented a.py", "files": {"a.py": "VALUE = 1\n"}}


def script(tmp_path: Path, *replies: dict[str, Any]) -> str:
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return str(path)


def supervisor(project: Path, **options: Any) -> Supervisor:
    state_dir = StateDir(project / ".pm-orchestrator")

    def make(request: Request) -> ScriptedExecutor:
        return ScriptedExecutor(Path(request.executor.script or ""), state_dir=state_dir.root)

    options.setdefault("make_executor", make)
    return Supervisor(state_dir, make_effects=TaskEffects, **options)


def asked(project: Path, path: str, *, kind: str = "auto", **limits: Any) -> Request:
    executor = executor_choice("scripted", script=path)
    return Request(prompt="Write a.py", workspace=str(project), kind=kind, executor=executor, limits=Limits(**limits))


async def test_a_task_runs_to_its_end_and_says_so(project: Path, tmp_path: Path) -> None:
    async with supervisor(project) as supervised:
        outcome = await run_task(supervised, asked(project, script(tmp_path, BAD, GOOD)))
    assert (outcome.task_id, outcome.status, outcome.judgments) == ("task-001", "COMPLETE", ("REJECT", "PASS"))
    assert outcome.files_modified == ("a.py",)
    assert outcome.chain_head is not None
    assert Path(outcome.trace_file).is_file()


async def test_many_tasks_at_once_each_have_their_own_record(project: Path, tmp_path: Path) -> None:
    path = script(tmp_path, {"output": "The answer is 42.", "delay_ms": 5})
    async with supervisor(project, concurrency=3) as supervised:
        ids = [await supervised.submit(asked(project, path, kind="question")) for _ in range(8)]
        outcomes = await asyncio.gather(*(supervised.wait(task_id) for task_id in ids))
    assert len(set(ids)) == 8
    assert {outcome.status for outcome in outcomes} == {"COMPLETE"}


async def test_a_stopped_task_is_unfinished_and_resume_ends_it(project: Path, tmp_path: Path) -> None:
    path = script(tmp_path, {**GOOD, "delay_ms": 400})
    async with supervisor(project) as supervised:
        task_id = await supervised.submit(asked(project, path))
        while "LLM_REQUEST" not in trace_files(supervised.state_dir, task_id)[0].read_text():
            await asyncio.sleep(0.01)
        assert await supervised.stop(task_id)
        outcome = supervised.look(task_id)
        assert outcome.status == "UNFINISHED"
        assert not await supervised.stop(task_id)
        outcome = await supervised.wait(await supervised.resume(task_id))
    assert outcome.status == "COMPLETE"
    entries = ConversationTracer.read_trace(outcome.trace_file)
    assert [entry.data["attempt"] for entry in entries if entry.event == "LLM_REQUEST"] == [0, 1]


@pytest.mark.parametrize("asked_by", ["stop", "another process"])
async def test_a_stop_before_the_work_has_begun_holds(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_by: str
) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slow(*given: Any) -> TracePack:
        reached.set()
        await go_on.wait()
        return await begin_session(*given)

    monkeypatch.setattr("runner.task_log.begin_session", slow)
    async with supervisor(project) as supervised:
        submitting = asyncio.create_task(supervised.submit(asked(project, script(tmp_path, GOOD))))
        await reached.wait()
        stopping = asyncio.create_task(supervised.stop("task-001")) if asked_by == "stop" else None
        if asked_by == "another process":
            assert request_stop(supervised.state_dir, "task-001")
        await asyncio.sleep(0)
        go_on.set()
        outcome = await supervised.wait(await submitting)
        assert stopping is None or await stopping
    assert outcome.status == "UNFINISHED"


async def test_resume_opens_the_trace_once_for_its_writer(project: Path, tmp_path: Path) -> None:
    path = script(tmp_path, BAD, {**GOOD, "delay_ms": 400})
    async with supervisor(project) as supervised:
        task_id = await supervised.submit(asked(project, path))
        trace = trace_files(supervised.state_dir, task_id)[0]
        while trace.read_text().count("LLM_REQUEST") < 2:
            await asyncio.sleep(0.01)
        await supervised.stop(task_id)
    before, opened = len(trace.read_bytes().splitlines()), []

    def note(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and watching and given[0] == str(trace):
            opened.append(given)

    watching = True
    sys.addaudithook(note)  # it cannot be taken away again
    try:
        async with supervisor(project) as supervised:
            assert await supervised.resume(task_id) == task_id
            assert supervised.recorded(task_id) == before
            outcome = await supervised.wait(task_id)
    finally:
        watching = False
    assert outcome.status == "COMPLETE"
    assert len(opened) == 1


async def test_another_process_can_ask_for_a_stop(project: Path, tmp_path: Path) -> None:
    path = script(tmp_path, {**GOOD, "delay_ms": 30_000})
    async with supervisor(project) as supervised, supervisor(project) as other:
        task_id = await supervised.submit(asked(project, path))
        assert await other.stop(task_id)
        outcome = await asyncio.wait_for(supervised.wait(task_id), 10)
    assert (outcome.status, outcome.reason) == ("UNFINISHED", "stopped")


async def test_a_stop_that_its_process_was_killed_before_seeing_does_not_stop_the_next_run(
    project: Path, tmp_path: Path
) -> None:
    path = script(tmp_path, {**GOOD, "delay_ms": 60_000})
    async with supervisor(project) as supervised:
        task_id = await supervised.submit(asked(project, path))
        supervised.state_dir.task_lock(task_id).write_text("{}")  # what a killed process leaves
    script(tmp_path, {**GOOD, "delay_ms": 500})
    state_dir = StateDir(project / ".pm-orchestrator")
    (state_dir.control / f"stop-{task_id}").touch()
    await asyncio.sleep(0.02)
    async with supervisor(project) as supervised:
        outcome = await supervised.wait(await supervised.resume(task_id))
    assert outcome.status == "COMPLETE"


async def test_a_session_that_cannot_be_recorded_leaves_its_task_free_for_the_next_try(
    project: Path, tmp_path: Path
) -> None:
    path = script(tmp_path, GOOD)
    async with supervisor(project) as supervised:
        state_dir = supervised.state_dir.ensure()
        state_dir.tracepack.rmdir()
        state_dir.tracepack.write_text("in the way")
        with pytest.raises(RecordError):
            await supervised.submit(asked(project, path))
        assert supervised.status("task-001") is None
        state_dir.tracepack.unlink()
        outcome = await asyncio.wait_for(supervised.wait(await supervised.resume("task-001")), 20)
    assert outcome.status == "COMPLETE"


async def test_a_task_whose_record_was_removed_meanwhile_can_be_stopped_and_has_its_record_again(
    project: Path, tmp_path: Path
) -> None:
    path = script(tmp_path, {"match": "a.py", **GOOD, "delay_ms": 60_000}, {"match": "b.py", **GOOD, "delay_ms": 500})
    async with supervisor(project) as supervised:
        removed = await supervised.submit(asked(project, path))
        other = await supervised.submit(asked(project, path)._replace(prompt="Write b.py", kind="question"))
        trace = Path(supervised.look(removed).trace_file)
        before = trace.read_bytes()
        trace.unlink()
        assert await supervised.stop(removed)
        assert (await supervised.wait(removed)).status == "UNFINISHED"
        assert trace.read_bytes().startswith(before)
        assert (await supervised.wait(other)).status != "UNFINISHED"


async def test_an_agent_that_takes_its_time_to_close_does_not_keep_a_stop_from_ending(
    project: Path, tmp_path: Path
) -> None:
    path = script(tmp_path, {**GOOD, "delay_ms": 60_000})

    class Slow(ScriptedExecutor):
        async def close(self) -> None:
            await asyncio.sleep(0.6)

    slow = Slow(Path(path), state_dir=project / ".pm-orchestrator")
    async with supervisor(project, make_executor=lambda _request: slow) as supervised:
        task_id = await supervised.submit(asked(project, path))
        assert request_stop(supervised.state_dir, task_id)  # looked at several times while the agent closes
        outcome = await asyncio.wait_for(supervised.wait(task_id), 10)
        assert outcome.status == "UNFINISHED"
        assert supervised.state_dir.writer_of(task_id) is None


async def test_resume_of_a_failed_task_goes_on_in_a_new_file_and_of_a_complete_one_changes_nothing(
    project: Path, tmp_path: Path
) -> None:
    path = script(tmp_path, BAD, GOOD)
    async with supervisor(project) as supervised:
        first = await run_task(supervised, asked(project, path, max_iterations=1))
        assert (first.status, first.reason) == ("INCOMPLETE", "max_iterations")
        second = await supervised.wait(await supervised.resume(first.task_id))
        assert second.status == "COMPLETE"
        files = trace_files(supervised.state_dir, first.task_id)
        assert len(files) == 2
        newest = ConversationTracer.read_trace(files[0])
        assert newest[0].data["continues"]["file"] == files[1].name
        assert newest[0].data["continues"]["reason"] == "max_iterations"
        prompt = next(entry.data["prompt"] for entry in newest if entry.event == "LLM_REQUEST")
        assert "Q2" in prompt
        before = files[0].read_bytes()
        third = await supervised.wait(await supervised.resume(first.task_id))
        assert third.status == "COMPLETE"
        assert files[0].read_bytes() == before


async def test_a_person_is_asked_at_the_limit_and_accepts(project: Path, tmp_path: Path) -> None:
    path = script(tmp_path, BAD, GOOD)
    async with supervisor(project) as supervised:
        first = await run_task(supervised, asked(project, path, max_iterations=1, on_limit="ask"))
        assert first.status == "AWAITING_RESPONSE"
        second = await supervised.wait(await supervised.respond(first.task_id, "accept"))
        assert (second.status, second.reason) == ("COMPLETE", "accepted")
        with pytest.raises(UsageError, match="has ended"):
            await supervised.respond(first.task_id, "continue")


async def test_a_person_gives_a_hint_and_the_task_goes_on(project: Path, tmp_path: Path) -> None:
    path = script(tmp_path, BAD, GOOD)
    async with supervisor(project) as supervised:
        first = await run_task(supervised, asked(project, path, max_iterations=1, on_limit="ask"))
        second = await supervised.wait(await supervised.respond(first.task_id, "hint", text="VALUE is 1"))
    assert second.status == "COMPLETE"


async def test_cancel_ends_the_task_for_good(project: Path, tmp_path: Path) -> None:
    path = script(tmp_path, {**GOOD, "delay_ms": 30_000})
    async with supervisor(project) as supervised:
        task_id = await supervised.submit(asked(project, path))
        outcome = await supervised.cancel(task_id)
    assert (outcome.status, outcome.reason) == ("CANCELLED", "cancelled")


async def test_invariant_07_live_updates_are_never_facts(project: Path, tmp_path: Path) -> None:
    seen: list[Live] = []
    async with supervisor(project, live=seen.append) as supervised:
        outcome = await run_task(supervised, asked(project, script(tmp_path, GOOD)))
    assert [update.text for update in seen if update.kind == "text"] == ["Implemented a.py"]
    silent = tmp_path / "silent"
    silent.mkdir()
    async with supervisor(silent) as supervised:
        unseen = await run_task(supervised, asked(silent, script(tmp_path, GOOD)))
    events = [[entry.event for entry in ConversationTracer.read_trace(each.trace_file)] for each in (outcome, unseen)]
    assert events[0] == events[1]


async def test_invariant_09_a_failure_to_record_stops_the_task_before_the_next_call(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    class Counting:
        name = "counting"

        async def ask(self, request: Ask, *, live: LiveSink = ignore_live) -> Answer:
            calls.append(request.prompt)
            return Answer(output="TODO: implement this", status="COMPLETE")

        async def close(self) -> None:
            """Nothing is open."""

    append = ConversationTracer.append

    async def full_disk(self: ConversationTracer, draft: Any) -> Any:
        if draft.event == "QUALITY_JUDGMENT":
            raise RecordError("cannot write the trace", why="no space left on device", next_step="free space")
        return await append(self, draft)

    monkeypatch.setattr(ConversationTracer, "append", full_disk)
    async with supervisor(project, make_executor=lambda _request: Counting()) as supervised:
        task_id = await supervised.submit(asked(project, ""))
        with pytest.raises(RecordError):
            await supervised.wait(task_id)
        with pytest.raises(RecordError):  # a late caller is told as well
            await supervised.wait(task_id)
    assert len(calls) == 1


async def test_the_time_limit_of_a_task_ends_it_as_incomplete(project: Path, tmp_path: Path) -> None:
    path = script(tmp_path, {**GOOD, "delay_ms": 30_000})
    async with supervisor(project) as supervised:
        outcome = await run_task(supervised, asked(project, path, timeout_s=0.2))
    assert (outcome.status, outcome.reason) == ("INCOMPLETE", "timeout")


async def test_waiting_to_ask_again_ends_with_the_time_of_the_task(project: Path, tmp_path: Path) -> None:
    trouble = {"error": {"kind": "overloaded", "message": "busy"}}
    began = monotonic()
    async with supervisor(project) as supervised:
        outcome = await run_task(supervised, asked(project, script(tmp_path, *[trouble] * 6), timeout_s=2.0))
    assert (outcome.status, outcome.reason) == ("INCOMPLETE", "timeout")
    assert monotonic() - began < 3.4


async def test_running_out_of_replies_is_an_error_answer_and_not_a_pass(project: Path, tmp_path: Path) -> None:
    async with supervisor(project) as supervised:
        outcome = await run_task(supervised, asked(project, script(tmp_path, BAD)))
    entries = ConversationTracer.read_trace(outcome.trace_file)
    statuses = [entry.data["status"] for entry in entries if entry.event == "LLM_RESPONSE"]
    assert statuses == ["COMPLETE", "ERROR", "ERROR"]
    assert outcome.status == "INCOMPLETE"


@pytest.mark.parametrize("reply", [BAD, GOOD])
@pytest.mark.parametrize("from_elsewhere", [False, True])
async def test_a_hint_to_a_running_task_is_in_its_next_request_even_where_the_answer_was_good(
    project: Path, tmp_path: Path, reply: dict[str, Any], *, from_elsewhere: bool
) -> None:
    path = script(tmp_path, {**reply, "delay_ms": 300}, {"output": "Changed a.py", "files": {"a.py": "VALUE = 2\n"}})
    async with supervisor(project) as supervised, supervisor(project) as other:
        task_id = await supervised.submit(asked(project, path))
        file = trace_files(supervised.state_dir, task_id)[0]
        while "LLM_REQUEST" not in file.read_text():
            await asyncio.sleep(0.01)
        for text in ("VALUE is 2", "and no docstring"):
            assert await (other if from_elsewhere else supervised).respond(task_id, "hint", text=text) == task_id
        with pytest.raises(UsageError, match="is running"):
            await supervised.respond(task_id, "accept")
        outcome = await supervised.wait(task_id)
    assert outcome.status == "COMPLETE"
    assert (project / "a.py").read_text() == "VALUE = 2\n"
    prompts = [entry.data["prompt"] for entry in ConversationTracer.read_trace(file) if entry.event == "LLM_REQUEST"]
    assert len(prompts) == 2
    assert "VALUE is 2" in prompts[1]
    assert "and no docstring" in prompts[1]
    assert not list(supervised.state_dir.control.glob("hint-*"))
    assert [
        one for one in check_order(list(enumerate(ConversationTracer.read_trace(file)))) if one.level == "damage"
    ] == []


def test_a_hint_that_came_while_the_request_was_made_waits_for_the_next_one() -> None:
    entries = [("USER_REQUEST", {"prompt": "Write a.py"}), ("SYSTEM_RULES", {"rules": "r"})]
    entries += [("USER_REQUEST", {"prompt": "be brief", "action": "hint"}), ("LLM_REQUEST", {"prompt": "Write a.py"})]
    kept = {"timestamp": "2026-11-01T10:00:00.000Z", "session_id": "s", "task_id": "task-001"}
    state = fold(parse_line(json.dumps({**kept, "event": name, "data": data}).encode()) for name, data in entries)
    assert (state.action, state.hint) == ("hint", "be brief")
