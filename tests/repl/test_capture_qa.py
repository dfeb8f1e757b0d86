"""`pm capture qa` as a person uses it: the proof in words, exit codes, one step again."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from collector.final.qa_facts import STEPS
from collector.qa.pipeline import request_step
from tests.collector.qa.rigs import CALM, TEST, a_collector, a_repository, send_session
from tests.repl.support import pm
from tests.support.tools import need_program

pytestmark = pytest.mark.machine  # bubblewrap
_ENVIRON = {
    "PM_QA_SANDBOX": "bubblewrap",
    "PM_QA_COMMANDS": "sh run.sh",
    "PM_QA_REPEATS": "2",
    "PM_QA_PYTHON_IMAGE": "docker.io/library/python:3.11-slim",
}


def _captured(folder: Path, **repository: dict[str, str]) -> str:
    async def send() -> str:
        async with a_collector(folder, state=".pm-orchestrator") as collector:
            return await send_session(collector, a_repository(folder, **repository))

    return asyncio.run(send())


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    need_program("bwrap", how="apt-get install bubblewrap")


def test_the_proof_is_shown_in_words_and_the_exit_code_is_0(project: Path) -> None:
    trace_id = _captured(project)
    ran = pm("capture", "qa", trace_id[:8], cwd=project, **_ENVIRON)
    assert ran.code == 0
    assert "schema  valid" in ran.out
    assert "proven: the tests fail without the fix and pass with it, every time" in ran.out
    assert "a lesser sandbox: it lacks memory" in ran.out
    assert "failed -> passed   tests.half::half *" in ran.out
    assert "judge   no scores  (judge_skipped)" in ran.out
    assert "tests: head 2 of 2 passed" in ran.err


def test_the_results_say_why_there_is_no_score_and_when_each_step_was_made(project: Path) -> None:
    trace_id = _captured(project)
    assert pm("capture", "qa", trace_id[:8], cwd=project, **_ENVIRON).code == 0
    shown = pm("capture", "qa", "show", trace_id[:8], cwd=project, **_ENVIRON)
    assert "No verdict: no judge is set up" in shown.out
    status = pm("capture", "qa", "status", trace_id[:8], cwd=project, **_ENVIRON)
    assert status.out.splitlines()[1].split() == ["schema", "done", "now"]


def test_failing_tests_end_with_exit_code_1(project: Path) -> None:
    _captured(project, head={"tests/half.sh": TEST, "tests/zero.sh": CALM})
    ran = pm("capture", "qa", cwd=project, **_ENVIRON)
    assert ran.code == 1
    assert "the tests fail with the fix" in ran.out


def test_a_sandbox_that_is_not_there_ends_with_exit_code_9(project: Path, tmp_path: Path) -> None:
    _captured(project)
    engine = tmp_path / "podman"
    engine.write_text("#!/bin/sh\necho no engine here >&2\nexit 125\n", encoding="utf-8")
    engine.chmod(0o755)
    environ = {**_ENVIRON, "PM_QA_SANDBOX": "podman", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = pm("capture", "qa", cwd=project, **environ)
    assert ran.code == 9
    assert "tests   not testable: sandbox" in ran.out
    assert "no engine here" in ran.err
    assert pm("capture", "qa", cwd=project, **_ENVIRON).code == 0
    again = pm("capture", "qa", "--step", "tests", cwd=project, **environ)
    assert (again.code, "proven" in again.out) == (9, True), "an earlier verdict stays, and is no answer now"
    assert "the checks could not be made now; this is what earlier ones found" in again.out


def test_one_step_is_done_again_and_the_record_says_what_came_of_it(project: Path) -> None:
    trace_id = _captured(project)
    pm("capture", "qa", trace_id, cwd=project, **_ENVIRON)
    ran = pm("capture", "qa", trace_id, "--step", "tests", "--json", cwd=project, **_ENVIRON)
    assert "schema: done before" in ran.err
    assert "tests: done before" not in ran.err
    record = json.loads(ran.out)
    assert record["status"] == "complete"
    assert record["qa"]["tests"]["detail"]["proof"]["verdict"] == "proven"


def test_of_many_captures_one_that_another_process_checks_holds_up_no_other(project: Path) -> None:
    async def prepare() -> list[str]:
        async with a_collector(project, state=".pm-orchestrator") as collector:
            repository = a_repository(project)
            made = sorted([await send_session(collector, repository) for _ in range(3)])
            await collector.store.take_lease(made[1], "elsewhere/1", now_ms=1, until_ms=1 << 50)
            return made

    made = asyncio.run(prepare())
    ran = pm("capture", "qa", "--where", "true", "--json", cwd=project, **_ENVIRON)
    assert ran.code == 8
    assert {each["trace_id"] for each in json.loads(ran.out)["captures"]} == {made[0], made[2]}


def test_a_profile_given_while_another_process_checks_is_told_to_be_noted(project: Path) -> None:
    async def prepare() -> None:
        async with a_collector(project, state=".pm-orchestrator") as collector:
            made = await send_session(collector, a_repository(project))
            await collector.store.take_lease(made, "elsewhere/1", now_ms=1, until_ms=1 << 50)

    asyncio.run(prepare())
    noted = "what you gave is noted: another run follows that one by itself"
    for words, told in ((["--profile", "recorded"], True), (["--again"], True), ([], False)):
        ran = pm("capture", "qa", *words, cwd=project, **_ENVIRON)
        assert (ran.code, noted in ran.err) == (8, told), ran.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[tests]\n", "own.toml has no [qa] table"),
        ("[qa\n", "own.toml cannot be read: "),
        ('[qa]\nrunner = "rake"\n', "own.toml cannot be read: runner: "),
        (
            '[qa]\nrunner = "custom"\ncommand = "a"\ncommands = ["b"]\n',
            "own.toml cannot be read: commands: it and command exclude each other: name all in commands",
        ),
    ],
)
def test_what_is_wrong_with_a_profile_s_file_names_that_file(project: Path, text: str, why: str) -> None:
    (project / "own.toml").write_text(text)
    ran = pm("capture", "qa", "--profile", "own.toml", cwd=project, **_ENVIRON)
    assert ran.code == 2
    assert why in ran.err
    assert "qa.toml" not in ran.err.replace("own.toml", "")


def test_a_profile_that_was_not_taken_is_told_beside_the_verdict(project: Path) -> None:
    _captured(project)
    assert pm("capture", "qa", cwd=project, **_ENVIRON).code == 0
    (project / "own.toml").write_text('[qa]\nrunner = "custom"\ncommand = "sh ./run.sh"\nbuild = ["false"]\n')
    ran = pm("capture", "qa", "--profile", "own.toml", cwd=project, **_ENVIRON)
    assert "tests   proven" in ran.out
    assert "        a later profile was not taken: build_failed" in ran.out.splitlines()


def test_a_run_after_the_code_was_withdrawn_tells_the_consent_and_no_profile(project: Path) -> None:
    trace_id = _captured(project)
    assert pm("capture", "qa", cwd=project, **_ENVIRON).code == 0
    assert pm("capture", "withdraw", trace_id, "--consent", "code", cwd=project, **_ENVIRON).code == 0
    environ = {**_ENVIRON, "PM_QA_COMMANDS": "pytest"}
    for words in (["--step", "tests"], [], ["show"]):
        ran = pm("capture", "qa", *words[:1], *([trace_id] if words == ["show"] else words[1:]), cwd=project, **environ)
        assert "tests   proven" in ran.out
        assert "        a later run tested nothing: consent" in ran.out.splitlines()
        assert "profile" not in ran.out
    assert "consent to it (store_raw_code) was withdrawn on 20" in ran.err


def test_a_capture_that_is_not_there_ends_with_exit_code_7(project: Path) -> None:
    assert pm("capture", "qa", "ffffffff", cwd=project, **_ENVIRON).code == 7


def test_results_are_shown_again_without_a_run_and_the_status_says_which_steps_are_done(project: Path) -> None:
    trace_id = _captured(project)
    early = pm("capture", "qa", "show", cwd=project, **_ENVIRON)
    assert (early.code, early.out) == (0, f"no check of {trace_id[:8]} has a result yet (finalized)\n")
    assert f"pm capture qa {trace_id[:8]}" in early.err
    assert _states(project) == dict.fromkeys(STEPS, "not done")
    ran = pm("capture", "qa", "--table", cwd=project, **_ENVIRON)
    shown = pm(
        "capture", "qa", "show", trace_id[:8], "--table", cwd=project, PATH=""
    )  # not even a sandbox is looked for
    assert (shown.code, shown.out, shown.err) == (0, ran.out, "")
    done = {**dict.fromkeys(STEPS, "done"), "judge": "skipped"}
    assert _states(project) == done
    _ask_again(project, trace_id)
    assert _states(project) == {**done, "tests": "due again"}
    lines = pm("capture", "qa", "status", trace_id, cwd=project, **_ENVIRON).out.splitlines()
    assert lines[0] == f"capture      {trace_id}  complete"
    assert lines[3].startswith("tests        due again")


def _states(project: Path) -> dict[str, str]:
    record = json.loads(pm("capture", "qa", "status", "--json", cwd=project, **_ENVIRON).out)
    return {step["step"]: step["state"] for step in record["steps"]}


def _ask_again(project: Path, trace_id: str) -> None:
    async def ask() -> None:
        async with a_collector(project, state=".pm-orchestrator") as collector:
            await request_step(collector, trace_id, "tests")

    asyncio.run(ask())
