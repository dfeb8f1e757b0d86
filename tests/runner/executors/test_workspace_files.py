"""The file tools of the anthropic executor: what is done, and what is refused."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.executors.anthropic.tools import CommandTool
from runner.executors.workspace_files import MAX_READ_BYTES, Refused, WorkspaceFiles


@pytest.fixture
def files(project: Path) -> WorkspaceFiles:
    return WorkspaceFiles(project)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../outside.txt",
        "a/../../outside.txt",
        "~/.ssh/id_rsa",
        "",
        ".",
        "a\0b",
        ".pm-orchestrator/serve-token",
        "link/outside.txt",
        "file-link",
        "loop",
    ],
)
def test_a_path_outside_or_private_is_refused_for_reading_and_writing(project: Path, path: str) -> None:
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "outside.txt").write_text("secret")
    (project.parent / "outside.txt").write_text("secret")
    (project / "link").symlink_to(outside)
    (project / "file-link").symlink_to(outside / "outside.txt")
    (project / "loop").symlink_to("loop")
    (project / ".pm-orchestrator").mkdir()
    (project / ".pm-orchestrator" / "serve-token").write_text("t")
    files = WorkspaceFiles(project)
    with pytest.raises(Refused):
        files.read(path)
    with pytest.raises(Refused):
        files.write(path, "changed")
    assert (outside / "outside.txt").read_text() == "secret"
    assert (project / ".pm-orchestrator" / "serve-token").read_text() == "t"


def test_a_state_folder_elsewhere_in_the_workspace_is_private_too(project: Path) -> None:
    (project / "state").mkdir()
    files = WorkspaceFiles(project, state_dir=project / "state")
    with pytest.raises(Refused, match="off limits"):
        files.write("state/traces/x.jsonl", "forged")


def test_gits_own_data_can_be_read_but_not_written(project: Path, files: WorkspaceFiles) -> None:
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert files.read(".git/HEAD").startswith("ref:")
    with pytest.raises(Refused, match="git"):
        files.write(".git/hooks/pre-commit", "#!/bin/sh\n")


def test_a_link_inside_the_workspace_is_followed(project: Path, files: WorkspaceFiles) -> None:
    (project / "real").mkdir()
    (project / "alias").symlink_to("real")
    files.write("alias/a.txt", "through the link\n")
    assert (project / "real" / "a.txt").read_text() == "through the link\n"


def test_a_pipe_is_refused_instead_of_waited_for(project: Path, files: WorkspaceFiles) -> None:
    os.mkfifo(project / "pipe")
    with pytest.raises(Refused, match="regular file"):
        files.read("pipe")


def test_a_written_file_keeps_its_permission_bits(project: Path, files: WorkspaceFiles) -> None:
    (project / "run.sh").write_text("old")
    (project / "run.sh").chmod(0o755)
    files.write("run.sh", "new")
    assert (project / "run.sh").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in project.iterdir()] == ["run.sh"], "no temporary file is left"


def test_a_new_file_has_the_ordinary_permission_bits(project: Path, files: WorkspaceFiles) -> None:
    files.write("new.txt", "x")
    (project / "reference").write_text("x")
    assert (project / "new.txt").stat().st_mode == (project / "reference").stat().st_mode


def test_an_edit_that_is_not_unique_changes_nothing(project: Path, files: WorkspaceFiles) -> None:
    (project / "a.txt").write_text("x = 1\nx = 1\n")
    with pytest.raises(Refused, match="2 times"):
        files.edit("a.txt", "x = 1", "x = 2")
    assert (project / "a.txt").read_text() == "x = 1\nx = 1\n"
    files.edit("a.txt", "x = 1", "x = 2", everywhere=True)
    assert (project / "a.txt").read_text() == "x = 2\nx = 2\n"


def test_a_binary_file_is_not_edited_as_text(project: Path, files: WorkspaceFiles) -> None:
    (project / "a.bin").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(Refused, match="UTF-8"):
        files.edit("a.bin", "a", "b")


def test_a_long_file_is_cut_and_says_so(project: Path, files: WorkspaceFiles) -> None:
    (project / "big.txt").write_text("line\n" * 200_000)
    text = files.read("big.txt")
    assert len(text) < MAX_READ_BYTES + 200
    assert "cut here" in text
    assert files.read("big.txt", first_line=199_999, line_count=2) == "line\nline"


_NAMES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=12)


@given(parts=st.lists(st.one_of(_NAMES, st.sampled_from(["..", ".", "/", "~", "a", "link"])), min_size=1, max_size=5))
def test_whatever_the_path_nothing_outside_changes(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    base = tmp_path_factory.mktemp("confined")
    (base / "outside").mkdir()
    (base / "inside").mkdir()
    (base / "inside" / "link").symlink_to(base / "outside")
    with suppress(Refused):
        WorkspaceFiles(base / "inside").write("/".join(parts), "x")
    assert list((base / "outside").iterdir()) == []
    assert sorted(path.name for path in base.iterdir()) == ["inside", "outside"]


def tool(project: Path, **fields: object) -> CommandTool:
    return CommandTool(**{"workspace": project, "wrap": None, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["rm -rf /", "ls; rm x", "ls && id", "git diff --no-index a b", "ls $(id)", "'"])
async def test_without_a_sandbox_only_listed_commands_run(project: Path, command: str) -> None:
    with pytest.raises(Refused):
        await tool(project).run(command, timeout_s=None)


async def test_a_listed_command_runs_without_a_shell(project: Path) -> None:
    (project / "a.txt").write_text("x")
    assert await tool(project).run("ls", timeout_s=None) == ("exit code 0\na.txt\n", True)


async def test_an_entry_with_a_star_permits_further_arguments(project: Path) -> None:
    text, ok = await tool(project, allowed=("echo *",)).run("echo a b", timeout_s=None)
    assert (text, ok) == ("exit code 0\na b\n", True)


async def test_a_failing_command_tells_its_exit_code(project: Path) -> None:
    text, ok = await tool(project, permissions="full").run("echo no >&2; exit 3", timeout_s=None)
    assert (text, ok) == ("exit code 3\nno\n", False)


async def test_a_command_past_its_time_is_ended(project: Path) -> None:
    text, ok = await tool(project, permissions="full").run("echo begun; sleep 60", timeout_s=1)
    assert text.startswith("ended after 1 s")
    assert "begun" in text
    assert not ok


async def test_a_command_sees_no_providers_key(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-visible-0123")
    text, _ = await tool(project, permissions="full").run("env", timeout_s=None)
    assert "sk-ant" not in text


async def test_fifty_megabytes_of_output_stay_bounded(project: Path) -> None:
    text, ok = await tool(project, permissions="full").run("head -c 50000000 /dev/zero | tr '\\0' x", timeout_s=60)
    assert ok
    assert len(text) < 70_000
