"""What an ACP agent asks leave for: settled by the permissions, by the person, or refused; over the protocol's SDK."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.executors.executor_port import Answer, Ask, ExecutorSettings, Live, PermissionAnswer, PermissionQuestion
from runner.executors.registry import make_executor
from runner.processes.bubblewrap import probe
from tests.support.tools import need

AGENT = Path(__file__).parents[2] / "support" / "fake_acp_agent.py"


class Person:
    def __init__(self, *answers: PermissionAnswer) -> None:
        self.answers = list(answers)
        self.asked: list[PermissionQuestion] = []

    async def __call__(self, question: PermissionQuestion) -> PermissionAnswer:
        self.asked.append(question)
        return self.answers.pop(0)


async def told(project: Path, tmp_path: Path, steps: list[dict[str, Any]], *, times: int = 1, **fields: Any) -> Answer:
    script = tmp_path / "steps.json"
    script.write_text(json.dumps(steps))
    permissions = fields.pop("permissions", "edit")
    settings = ExecutorSettings(agents={"fake": (sys.executable, str(AGENT), str(script))}, **fields)
    executor = make_executor("acp:fake", settings)
    asking = Ask(task_id="task-001", prompt="please", workspace=str(project), permissions=permissions)
    for _ in range(times):
        answer = await executor.ask(asking, live=fields.get("live", lambda _update: None))
    return answer


async def test_what_the_person_allows_is_run(project: Path, tmp_path: Path) -> None:
    person = Person("yes")
    await told(project, tmp_path, [{"run": "touch made"}], ask_person=person)
    assert (project / "made").exists()
    (question,) = person.asked
    assert (question.task_id, question.agent, question.title, question.always) == (
        "task-001", "fake", "Run touch made", "",
    )  # fmt: skip


async def test_what_the_person_refuses_is_not_run(project: Path, tmp_path: Path) -> None:
    answer = await told(project, tmp_path, [{"run": "touch made"}], ask_person=Person("no"))
    assert not (project / "made").exists()
    assert answer.extra["denied_calls"] == 1


async def test_without_a_person_it_is_refused(project: Path, tmp_path: Path) -> None:
    await told(project, tmp_path, [{"run": "touch made"}])
    assert not (project / "made").exists()


@pytest.mark.parametrize(
    ("command", "ran"),
    [
        ("touch made", True),
        ("touch made; touch more", False),
        *(
            pytest.param(command, ran, marks=pytest.mark.torture)
            for command, ran in (
                ("touch  made", True),
                ("touch $(echo made)", False),
                ("touch 'made", False),
                ("touch made (", False),
                ("touched made", False),
            )
        ),
    ],
)
async def test_what_the_settings_allow_is_run_without_a_question(
    project: Path, tmp_path: Path, command: str, *, ran: bool
) -> None:
    person = Person("no")
    answer = await told(project, tmp_path, [{"run": command}], ask_person=person, allow_commands=("touch *",))
    assert ((project / "made").exists(), len(person.asked)) == (ran, 0 if ran else 1)
    assert answer.extra.get("denied_calls", 0) == (0 if ran else 1)


@pytest.mark.torture
@pytest.mark.parametrize(("permissions", "ran"), [("read", False), ("full", True)])
async def test_read_and_full_settle_everything_without_a_question(
    project: Path, tmp_path: Path, permissions: str, *, ran: bool
) -> None:
    person = Person()
    await told(project, tmp_path, [{"run": "touch made"}], ask_person=person, permissions=permissions)
    assert (project / "made").exists() is ran
    assert person.asked == []


async def test_always_holds_for_the_same_request_in_later_answers_of_the_task_and_no_other(
    project: Path, tmp_path: Path
) -> None:
    person = Person("always", "no", "no")
    steps = [{"run": "echo x >> made"}, {"run": "touch other"}]
    await told(project, tmp_path, steps, ask_person=person, times=2)
    assert (project / "made").read_text() == "x\nx\n"
    assert not (project / "other").exists()
    assert [question.title for question in person.asked] == ["Run echo x >> made", "Run touch other", "Run touch other"]


@pytest.mark.torture
async def test_always_takes_the_agents_own_offer_and_names_it(project: Path, tmp_path: Path) -> None:
    person = Person("always")
    await told(project, tmp_path, [{"offer_always": "Always allow touch"}, {"run": "touch made"}], ask_person=person)
    assert person.asked[0].always == "Always allow touch"
    assert (project / "made").read_text() == "", "the agent takes its own option for a yes"


@pytest.mark.torture  # its times must be long enough for an agent to start on a busy machine
async def test_an_agent_that_waits_for_a_person_is_not_silent(project: Path, tmp_path: Path) -> None:
    async def slowly(_question: PermissionQuestion) -> PermissionAnswer:
        await asyncio.sleep(15)
        return "yes"

    answer = await told(project, tmp_path, [{"run": "touch made"}], ask_person=slowly, silence_s=12)
    assert answer.status == "COMPLETE"
    assert (project / "made").exists()


@pytest.mark.torture
async def test_a_cancelled_question_is_given_up_and_nothing_is_run(project: Path, tmp_path: Path) -> None:
    asked, given_up = asyncio.Event(), asyncio.Event()

    async def never(_question: PermissionQuestion) -> PermissionAnswer:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return "yes"

    task = asyncio.create_task(told(project, tmp_path, [{"run": "touch made"}], ask_person=never))
    await asyncio.wait_for(asked.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(given_up.wait(), 5)
    assert not (project / "made").exists()


@pytest.mark.torture
async def test_time_up_while_a_person_is_asked_gives_the_question_up(project: Path, tmp_path: Path) -> None:
    given_up = asyncio.Event()

    async def never(_question: PermissionQuestion) -> PermissionAnswer:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return "yes"

    script = tmp_path / "steps.json"
    script.write_text(json.dumps([{"run": "touch made"}]))
    settings = ExecutorSettings(agents={"fake": (sys.executable, str(AGENT), str(script))}, ask_person=never)
    asking = Ask(task_id="t", prompt="please", workspace=str(project), timeout_s=12)
    answer = await make_executor("acp:fake", settings).ask(asking)
    assert answer.status == "TIMEOUT"
    await asyncio.wait_for(given_up.wait(), 5)


@pytest.mark.torture
@pytest.mark.machine
async def test_in_the_sandbox_an_agent_works_in_the_workspace_and_cannot_write_outside_whatever_it_was_allowed(
    project: Path, tmp_path: Path
) -> None:
    need(probe().available, "bubblewrap", how="apt-get install bubblewrap")
    outside = Path.home() / "outside"
    (Path.home()).mkdir(exist_ok=True)
    steps = [{"edit": [str(project / "made.txt"), "new"]}, {"run": "touch ran"}, {"run": f"touch {outside}"}]
    answer = await told(project, tmp_path, steps, ask_person=Person("yes", "yes"), sandbox="on")
    assert answer.error is None
    assert (project / "made.txt").read_text() == "new"
    assert (project / "ran").exists()
    assert not outside.exists()


async def test_a_refusal_is_told_while_it_happens(project: Path, tmp_path: Path) -> None:
    updates: list[Live] = []
    script = tmp_path / "steps.json"
    script.write_text(json.dumps([{"run": "touch made"}]))
    settings = ExecutorSettings(agents={"fake": (sys.executable, str(AGENT), str(script))})
    await make_executor("acp:fake", settings).ask(
        Ask(task_id="t", prompt="please", workspace=str(project)), live=updates.append
    )
    assert "refused: Run touch made" in [update.text for update in updates if update.kind == "notice"]


@pytest.mark.torture
async def test_the_model_is_chosen_in_a_session_that_goes_on_too(project: Path, tmp_path: Path) -> None:
    script = tmp_path / "steps.json"
    script.write_text(json.dumps([{"models": ["small", "large"]}, {"say": "Done."}]))
    executor = make_executor("acp:fake", ExecutorSettings(agents={"fake": (sys.executable, str(AGENT), str(script))}))
    asking = Ask(task_id="task-001", prompt="please", workspace=str(project), model="large")
    first = await executor.ask(asking)
    second = await executor.ask(asking._replace(session_ref=first.session_ref))
    assert second.extra["session_resumed"] is True
    seen = [json.loads(line) for line in Path(f"{script}.seen.json").read_text().splitlines()]
    assert [one["model"] for one in seen] == ["large", "large"]
