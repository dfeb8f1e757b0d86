"""`pm doctor`: who could do the work here, in which version, logged in or not, and in which sandbox."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from repl.commands.setup.running import Running, announced
from repl.executor_choice import choose_executor
from repl.exit_codes import ExitCode
from runner.processes.bubblewrap import SandboxCapability
from tests.repl.support import pm
from tests.support import fake_agent
from tracer.errors import ConfigError, adding, needs_extra
from tracer.settings.layers import load_settings


def found(project: Path, check: str, **extra: str) -> dict[str, str]:
    ran = pm("doctor", "--json", cwd=project, **extra)
    checks = {one["name"]: one for one in json.loads(ran.out)["checks"]}
    return checks[check]


def agents(folder: Path) -> str:
    """A PATH with an old Claude Code, a Gemini CLI that is not logged in, and no Codex."""
    old = fake_agent.install(folder, "claude", [], version="0.2.9", package="@anthropic-ai/claude-code")
    out = fake_agent.install(folder, "gemini", [], version="0.61.0", package="@google/gemini-cli")
    return os.pathsep.join([str(old.parent), str(out.parent), "/usr/bin", "/bin"])


def test_each_executor_is_shown_with_its_version_and_what_keeps_it_from_being_used(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    pm("config", "set", "agents.goose", '["sh", "-c", "exit"]', cwd=project)
    pm("config", "set", "agents.gone", '["no-such-program-here"]', cwd=project)
    row = found(project, "executors", PATH=agents(tmp_path / "bin"), HOME=str(tmp_path))
    text = row["found"]
    assert "claude 0.2.9 (claude 0.2.9 is too old" in text
    assert "gemini 0.61.0 (gemini is not logged in)" in text
    assert "codex (not found)" in text
    assert "acp:gone (not found)" in text
    assert "acp:goose /" in text
    assert row["status"] == "ok", "one that could be asked is enough"


def test_the_places_of_the_collector_are_tried_and_nothing_is_made(project: Path, tmp_path: Path) -> None:
    assert found(project, "collector")["found"] == "none here"
    row = found(project, "collector", PM_COLLECTOR_DATABASE=str(tmp_path / "c.sqlite"))
    assert (row["status"], f"SQLite {tmp_path}/c.sqlite, blobs in " in row["found"]) == ("ok", True)
    assert not (tmp_path / "c.sqlite").exists()
    row = found(project, "collector", PM_COLLECTOR_DATABASE="postgresql://pm:hidden@127.0.0.1:1/pm")
    assert (row["status"], "hidden" in str(row)) == ("fail", False)
    assert "the collector's database cannot be reached: " in row["found"]
    bucket = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    row = found(project, "collector", PM_COLLECTOR_BLOBS="s3://captures/blobs", **bucket)
    assert (row["status"], "s3://captures/blobs" in row["found"]) == ("fail", True)
    assert "AWS_ENDPOINT_URL" in row["next_step"]


def test_a_key_without_its_package_is_said_and_an_agent_that_is_here_is_taken_instead(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"ANTHROPIC_API_KEY": "sk-test-0123456789", "HOME": str(tmp_path), "PATH": agents(tmp_path / "bin")}
    settings = load_settings(project=project, environ=environ)
    assert choose_executor(settings, environ) == "claude", "whose key that is as well"
    own = environ | {"PM_API_KEY": "sk-test-0123456789"}
    assert choose_executor(settings, own) == choose_executor(settings, environ | {"PATH": ""}) == "anthropic"
    monkeypatch.setitem(sys.modules, "anthropic", None)
    assert choose_executor(settings, own) == "claude"
    assert choose_executor(settings, environ | {"PATH": ""}) == "anthropic", "which names its package when it is made"
    assert found(project, "credentials", **environ)["status"] == "ok", "there is nothing to choose or to add"
    row = found(project, "credentials", **environ | {"PATH": ""})
    assert (row["status"], row["next_step"]) == ("warn", "pip install 'pm-orchestrator[anthropic]'")
    row = found(project, "credentials", **environ | {"PATH": "", "ANTHROPIC_API_KEY": ""})
    both = "export ANTHROPIC_API_KEY=... and pip install 'pm-orchestrator[anthropic]'"
    assert row["next_step"].startswith(both)
    ran = pm("run", "x", cwd=project, **environ | {"PATH": "", "ANTHROPIC_API_KEY": ""})
    assert (ran.code, both in ran.err) == (4, True)


PIPX = '{\n    "main_package": {\n        "package": "pm-orchestrator",\n        "package_or_url": "%s",\n'
UV = (
    '[tool]\nrequirements = [{ name = "pm-orchestrator"%s }, { name = "acme", extras = ["rules"] }]\nentrypoints = []\n'
)


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("pip", "", "pip install 'pm-orchestrator[acp]'"),
        ("pipx_metadata.json", PIPX % "pm-orchestrator", "pipx install --force 'pm-orchestrator[acp]'"),
        (
            "pipx_metadata.json",
            PIPX % "/a/pm_orchestrator-1-py3.whl[s3]",
            "pipx install --force 'pm-orchestrator[acp,s3]'",
        ),
        ("uv-receipt.toml", UV % "", "uv tool install 'pm-orchestrator[acp]'"),
        ("uv-receipt.toml", UV % ', extras = ["mcp", "s3"]', "uv tool install 'pm-orchestrator[acp,mcp,s3]'"),
    ],
)
def test_what_is_missing_is_added_with_the_tool_that_installed_pm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, command: str
) -> None:
    (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(ConfigError) as told, needs_extra("acp", wanted_by="the executor acp"):
        raise ImportError("no acp")
    assert told.value.next_step == command


def test_the_test_command_is_shown_and_what_keeps_it_from_running_with_the_next_step(project: Path) -> None:
    assert found(project, "tests")["next_step"] == "pm config set run.test CMD"
    (project / "Makefile").write_text("test:\n\ttrue\n")
    row = found(project, "tests")
    assert (row["found"].partition(":")[0], row["status"], row["next_step"]) == ("make test", "warn", "pm config trust")
    assert "\n  test: make test\n" in pm("config", "trust", cwd=project).out
    row = found(project, "tests")
    assert (row["found"], row["status"]) == ("make test", "ok")


def test_what_is_missing_is_added_by_uv_where_uv_installed_pm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "pm_orchestrator-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pm-orchestrator\nVersion: 0.1\n")
    (info / "INSTALLER").write_text("uv\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert adding("acp") == "uv pip install 'pm-orchestrator[acp]'"


def test_the_service_that_runs_here_holds_its_port_by_right(project: Path) -> None:
    state = project / ".pm-orchestrator"
    state.mkdir(exist_ok=True)
    with announced(state, Running("http://127.0.0.1:9001", "here", "token")):
        row = found(project, "ports")
    assert (row["status"], row["found"]) == ("ok", "pm serve answers at http://127.0.0.1:9001")


def test_looking_changes_nothing(project: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in project.iterdir())
    program = fake_agent.install(tmp_path, "codex", [], version="0.169.0", package="@openai/codex")
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    environ["OPENAI_API_KEY"] = "sk-test-0123456789"
    text = found(project, "executors", **environ)["found"]
    assert "codex 0.169.0" in text
    assert "log-in" in text
    assert sorted(path.name for path in project.iterdir()) == before


@pytest.mark.parametrize(
    ("mode", "works", "status"),
    [("auto", True, "ok"), ("auto", False, "warn"), ("on", True, "ok"), ("on", False, "fail"), ("off", False, "ok")],
)
def test_the_sandbox_is_tried_and_a_missing_one_told_as_the_settings_want_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, mode: str, *, works: bool, status: str
) -> None:
    told = SandboxCapability(works, "" if works else "bubblewrap (bwrap) is not installed", "install it")
    monkeypatch.setattr("runner.processes.bubblewrap.probe", lambda: told)
    pm("config", "set", "sandbox.mode", mode, cwd=project)
    row = found(project, "sandbox")
    assert row["status"] == status
    if not works and mode != "off":
        assert "bwrap" in row["found"]
        assert row["next_step"] == "install it"
        assert pm("doctor", cwd=project).code == (ExitCode.CONFIG if mode == "on" else ExitCode.OK)


def test_an_engine_that_works_counts_beside_one_that_refuses(project: Path, tmp_path: Path) -> None:
    for name, status in (("docker", 1), ("podman", 0)):
        engine = tmp_path / name
        engine.write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
        engine.chmod(0o755)
    check = found(project, "container", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (check["status"], check["found"]) == ("ok", "podman answers")
    (tmp_path / "podman").write_text("#!/bin/sh\necho 'no subuid ranges' >&2\nexit 125\n", encoding="utf-8")
    check = found(project, "container", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert check["found"] == "podman is installed but refuses: no subuid ranges"
