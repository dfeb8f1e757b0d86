"""Which command lines are found, in which version and login state, and what is said of one that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.executors.agents.detection import DIALECTS, detect
from runner.executors.agents.dialect import Version, parse_version
from tests.support import fake_agent

KEYS = {"claude": "ANTHROPIC_API_KEY", "codex": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}


def environ(tmp_path: Path, **extra: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), **extra}


@pytest.fixture(params=sorted(KEYS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def program(tmp_path: Path, name: str, version: str) -> dict[str, str]:
    made = fake_agent.install(tmp_path, name, [], version=version, package=DIALECTS[name].package)
    return {name: str(made)}


def test_a_missing_program_says_how_to_install_it(tmp_path: Path, name: str) -> None:
    found = detect(name, {"PATH": str(tmp_path)})
    assert not found.usable
    assert found.problem == f"{name} is not installed"
    assert DIALECTS[name].package in found.next_step


def test_an_old_version_is_named_with_the_oldest_that_works(tmp_path: Path, name: str) -> None:
    found = detect(name, environ(tmp_path, **{KEYS[name]: "k"}), programs=program(tmp_path, name, "0.0.9"))
    assert "0.0.9 is too old" in found.problem
    assert str(DIALECTS[name].oldest) in found.problem


def test_without_any_credentials_it_is_not_logged_in(tmp_path: Path, name: str) -> None:
    found = detect(name, environ(tmp_path), programs=program(tmp_path, name, "9.9.9"))
    assert (found.login, found.problem) == ("no", f"{name} is not logged in")
    assert found.next_step == DIALECTS[name].login_hint


def test_a_key_in_the_environment_is_named_but_never_shown(tmp_path: Path, name: str) -> None:
    secret = "sk-very-secret-0123456789"
    found = detect(name, environ(tmp_path, **{KEYS[name]: secret}), programs=program(tmp_path, name, "9.9.9"))
    assert (found.version, found.login, found.login_detail, found.usable) == ("9.9.9", "yes", KEYS[name], True)
    assert secret not in repr(found)


@pytest.mark.parametrize(
    ("name", "path"),
    [("claude", ".claude/.credentials.json"), ("codex", ".codex/auth.json"), ("gemini", ".gemini/oauth_creds.json")],
)
def test_a_stored_login_is_found(tmp_path: Path, name: str, path: str) -> None:
    stored = tmp_path / "home" / path
    stored.parent.mkdir(parents=True)
    stored.write_text("{}")
    found = detect(name, environ(tmp_path), programs=program(tmp_path, name, "9.9.9"))
    assert (found.login, found.login_detail) == ("yes", str(stored))


def test_a_program_outside_a_package_is_asked_for_its_version(tmp_path: Path) -> None:
    tool = tmp_path / "claude"
    tool.write_text("#!/bin/sh\necho '2.1.300 (Claude Code)'\n")
    tool.chmod(0o755)
    assert detect("claude", environ(tmp_path), programs={"claude": str(tool)}).version == "2.1.300"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.1.329 (Claude Code)", Version(2, 1, 329)),
        ("codex-cli 0.169.0", Version(0, 169, 0)),
        ("v0.61.0-nightly.3", Version(0, 61, 0)),
        ("no version here", None),
    ],
)
def test_versions_are_read_from_what_programs_print(text: str, version: Version | None) -> None:
    assert parse_version(text) == version
