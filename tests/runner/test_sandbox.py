"""The sandbox, tried from inside: what a program can reach, and that there is never quietly less of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runner.processes import bubblewrap
from runner.processes.bubblewrap import (
    SandboxCapability,
    SandboxPolicy,
    probe,
    wrap,
)
from runner.processes.command import run_command
from tests.runner.workspace.support import git, repository, state_dir
from tests.support.tools import need
from tracer.errors import SandboxError

pytestmark = pytest.mark.machine


@pytest.fixture
def workspace(tmp_path) -> Path:
    need(probe().available, "bwrap", how="apt-get install bubblewrap; user namespaces must be allowed")
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def inside(script: str, policy: SandboxPolicy):
    return await run_command(wrap(["/bin/sh", "-c", script], policy), cwd=policy.workspace, timeout_s=20)


async def test_the_workspace_is_writable_and_nothing_else_is(workspace, tmp_path):
    script = f"touch made; touch {tmp_path}/outside; touch /usr/made || echo refused"
    result = await inside(script, SandboxPolicy(workspace=workspace))
    assert "refused" in result.text
    assert (workspace / "made").exists()
    assert not (tmp_path / "outside").exists()


async def test_a_workspace_that_may_only_be_read_is_read_only_to_every_program(workspace):
    repository(workspace, {"a.py": "a = 1\n"})
    script = (
        "echo b > b.py || echo refused; echo b >> a.py || echo refused; git add -A || echo refused; git log | head -1"
    )
    result = await inside(script, SandboxPolicy(workspace=workspace, read_only=True))
    assert result.text.count("refused") == 3, result.text
    assert "commit" in result.text, "reading it works"
    assert (workspace / "a.py").read_text() == "a = 1\n"
    assert not (workspace / "b.py").exists()


async def test_home_is_hidden_unless_asked_for(workspace, tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("private")
    (home / ".agent").mkdir()
    (home / ".agent" / "settings").write_text("wanted")
    monkeypatch.setenv("HOME", str(home))
    read = f"cat {home}/.ssh/id {home}/.agent/settings"
    hidden = await inside(read, SandboxPolicy(workspace=workspace, readable=(home / ".agent",)))
    assert "private" not in hidden.text
    assert "wanted" in hidden.text


async def test_the_network_is_cut_unless_asked_for(workspace):
    cut = await inside("cat /proc/net/dev", SandboxPolicy(workspace=workspace))
    assert [line.split(":")[0].strip() for line in cut.text.splitlines()[2:]] == ["lo"]
    ours = Path("/proc/net/dev").read_text()
    shared = await inside("cat /proc/net/dev", SandboxPolicy(workspace=workspace, network=True))
    assert len(shared.text.splitlines()) == len(ours.splitlines())


async def test_other_processes_cannot_be_seen(workspace):
    result = await inside("ls /proc | grep -c '^[0-9]*$'", SandboxPolicy(workspace=workspace))
    assert int(result.text) < 8


async def test_hooks_and_settings_of_git_and_our_own_state_are_read_only(workspace):
    repository(workspace, {"a.py": "a = 1\n"})
    state = state_dir(workspace)
    (state / "serve-token").write_text("the-token")
    script = """
    echo evil > .git/hooks/pre-commit || echo hooks refused
    git config core.pager evil || echo settings refused
    echo evil > .pm-orchestrator/config.toml || echo state refused
    cat .pm-orchestrator/serve-token
    echo b > b.py && git add b.py && git -c user.name=t -c user.email=t commit -qm b && echo committed
    """
    result = await inside(script, SandboxPolicy(workspace=workspace, state_dir=state))
    assert [part in result.text for part in ("hooks refused", "settings refused", "state refused", "committed")] == (
        [True] * 4
    ), result.text
    assert "the-token" not in result.text


async def test_commits_work_in_a_worktree_of_a_repository_elsewhere(workspace, tmp_path):
    main = repository(tmp_path / "main", {"a.py": "a = 1\n"})
    tree = tmp_path / "tree"
    git(main, "worktree", "add", "-q", str(tree), "-b", "side")
    script = "echo b > b.py; git add -A; git -c user.name=t -c user.email=t commit -qm b && git log --oneline | wc -l"
    result = await inside(script, SandboxPolicy(workspace=tree))
    assert result.text.strip() == "2"


async def test_a_git_file_that_points_anywhere_else_opens_nothing(workspace, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (workspace / ".git").write_text(f"gitdir: {elsewhere}\n")
    await inside(f"touch {elsewhere}/made", SandboxPolicy(workspace=workspace))
    assert not (elsewhere / "made").exists()


async def test_the_exit_code_and_the_time_limit_are_those_of_the_program(workspace):
    policy = SandboxPolicy(workspace=workspace)
    assert (await inside("exit 7", policy)).exit_code == 7
    late = await run_command(wrap(["sleep", "60"], policy), cwd=workspace, timeout_s=0.3, grace_s=0.2)
    assert late.kind == "timeout"


def test_without_a_sandbox_nothing_runs_and_the_error_says_why(monkeypatch, tmp_path):
    missing = SandboxCapability(available=False, why="bubblewrap (bwrap) is not installed", next_step="install it")
    monkeypatch.setattr(bubblewrap, "probe", lambda: missing)
    with pytest.raises(SandboxError) as caught:
        wrap(["true"], SandboxPolicy(workspace=tmp_path))
    assert (caught.value.why, caught.value.next_step) == (missing.why, missing.next_step)


def test_a_machine_without_bubblewrap_is_told_what_to_install(monkeypatch, tmp_path):
    need(sys.platform == "linux", "linux", how="elsewhere there is no bubblewrap at all")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = probe.__wrapped__()
    assert (found.available, "install" in found.next_step) == (False, True)


async def test_what_an_agent_keeps_in_the_home_folder_is_made_before_it_starts_and_outlives_it(workspace, tmp_path):
    home = tmp_path / "home"
    own = (home / ".agent", home / ".agent.json")
    argv = ["/bin/sh", "-c", f"touch {home}/.agent/session; echo '{{\"seen\": 1}}' > {home}/.agent.json"]
    for _ in range(2):
        wrapped = bubblewrap.wrap_agent(
            argv, workspace=str(workspace), read_only=False, state_dir=None, readable=(), own=own
        )
        assert own[1].read_text() in {"{}\n", '{"seen": 1}\n'}
        await run_command(wrapped, cwd=workspace, timeout_s=20)
    assert (home / ".agent" / "session").exists()
    assert own[1].read_text() == '{"seen": 1}\n'
