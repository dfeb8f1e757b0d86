"""Trust in a folder, asked once on a terminal before an agent is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repl.scripts import GOOD, run_scripted, script
from tests.repl.support import pm
from tests.repl.terminal import CTRL_D, ENTER, Terminal

ASKED = "y trust the folder and run them, n go on without (then Enter)?"
NOT_RUN = "tests not run: folder not trusted (pm config trust)"


def start(project: Path, *words: str, **extra: str) -> Terminal:
    path = script(project, {**GOOD, "match": ""})
    return Terminal(project, *words, columns=160, PM_EXECUTOR="scripted", PM_SCRIPT=str(path), **extra)


@pytest.fixture
def tested(project: Path) -> Path:
    (project / "Makefile").write_text("test:\n\t@printf '1..1\\nok 1 - greets\\n'\nlint:\n\t@true\n")
    return project


def test_pm_run_shows_the_commands_and_yes_trusts_the_folder(tested: Path) -> None:
    (tested / ".pm-orchestrator").mkdir()
    (tested / ".pm-orchestrator" / "config.toml").write_text('[run]\ntypecheck = "true"\n')
    with start(tested, "run", "write hello.py") as terminal:
        shown = terminal.wait_for(ASKED)
        assert "  test       make test\n  lint       make lint\n" in shown
        assert "ignored until you trust this folder: run.typecheck" in shown
        assert "task-001" not in shown
        terminal.send(b"what" + ENTER)
        terminal.pump(0.2)
        terminal.send(b"y" + ENTER)
        assert "tests passed (1, none shows the change)" in terminal.wait_for("task-001 COMPLETE")
        assert terminal.ends() == 0
    assert "run.typecheck" in pm("config", "show", cwd=tested).out
    (tested / "hello.py").unlink()
    with start(tested, "run", "write hello.py") as terminal:
        assert ASKED not in terminal.wait_for("task-002 COMPLETE")


@pytest.mark.torture
def test_no_goes_on_without_and_is_asked_in_no_later_sitting(tested: Path) -> None:
    with start(tested, "run", "write hello.py") as terminal:
        terminal.wait_for(ASKED)
        terminal.send(b"n" + ENTER)
        assert f"task-001 COMPLETE, {NOT_RUN}" in terminal.wait_for("task-001 COMPLETE")
        assert terminal.ends() == 0
    with start(tested, "--line") as terminal:
        assert ASKED not in terminal.wait_for("pm>")
    assert pm("config", "trust", cwd=tested).code == 0
    assert "tests passed (1, none shows the change)" in run_scripted(tested, {**GOOD, "files": {"b.py": "B = 1\n"}}).out


@pytest.mark.torture
@pytest.mark.parametrize("mode", ["--line", "--screen"])
def test_both_prompts_ask_before_they_open(tested: Path, mode: str) -> None:
    with start(tested, mode) as terminal:
        terminal.wait_for(ASKED)
        terminal.send(b"y" + ENTER)
        terminal.wait_for("0 tasks")
        terminal.send(CTRL_D)
        assert terminal.ends() == 0
    assert "tests passed (1, none shows the change)" in run_scripted(tested, GOOD).out


@pytest.mark.torture
def test_ctrl_d_leaves_it_open_and_nothing_is_asked_where_nobody_answers_or_nothing_is_held_back(tested: Path) -> None:
    with start(tested, "run", "write hello.py") as terminal:
        terminal.wait_for(ASKED)
        terminal.send(CTRL_D)
        terminal.wait_for(NOT_RUN)
        assert terminal.ends() == 0
    for words, extra in (
        (("--no-input",), {}),
        (("--json",), {}),
        ((), {"PM_ORCHESTRATOR_PROCESS": "an-agent"}),
        (("--test", "true", "--lint", "true"), {}),
        (("--kind", "question"), {}),
    ):
        (tested / "hello.py").unlink()
        with start(tested, "run", *words, "write hello.py", **extra) as terminal:
            assert terminal.ends() in {0, 4}
            assert "COMPLETE" in terminal.text()
            assert ASKED not in terminal.text()
    assert ASKED not in run_scripted(tested, GOOD).err
    with start(tested, "--line") as terminal:
        terminal.wait_for(ASKED)
