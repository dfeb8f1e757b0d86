"""What agents cost, and the small pictures of a list: verdicts and tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from repl.commands.look.diff import _pair
from repl.present.subtasks import subtask_line
from repl.present.text import ascii_only, padded, spark_text, strip_text, width_cut, width_of
from runner.core.subtasks import Standing
from tests.repl.scripts import BAD, GOOD, USAGE, run_scripted
from tests.repl.support import pm
from tests.tracer.distill.support import unpack
from tracer.distill.locate.find import session_at
from tracer.distill.native import Request
from tracer.distill.one import distill


def test_verdicts_and_tokens_as_pictures_and_in_ascii() -> None:
    strip, spark = strip_text(["REJECT", "RETRY", "PASS"]), spark_text([100, 400, 800])
    assert (strip, spark) == ("✗~✓", "▂▅█")
    assert (ascii_only(strip), ascii_only(spark)) == ("x~v", ":+#")
    assert spark_text([5]) == spark_text([0, 0]) == ""


@pytest.mark.parametrize("by", ["day", "project", "model", "task"])
def test_what_tasks_cost_is_summed_and_the_unknown_is_not_zero(project: Path, by: str) -> None:
    run_scripted(project, {**BAD, **USAGE, "cost_usd": 0.25}, {**GOOD, **USAGE, "cost_usd": 0.5})
    run_scripted(project, GOOD)
    told = json.loads(pm("sessions", "cost", "--by", by, "--json", cwd=project).out)
    assert told["usd"] == 0.75
    assert sum(row["runs"] for row in told["rows"]) == 2
    text = pm("sessions", "cost", "--by", by, cwd=project).out
    assert "$0.75" in text
    assert "█" in text
    if by == "task":
        assert [row["usd"] for row in told["rows"]] == [0.75, None]
        assert "task-002       n/a" in text


def test_wide_letters_are_shown_whole_and_keep_their_column(project: Path) -> None:
    wide = project.rename(project.with_name("日本"))
    run_scripted(wide, {**GOOD, **USAGE, "cost_usd": 0.25})
    rows = pm("sessions", "cost", "--by", "project", cwd=wide).out.splitlines()
    assert [row.split()[0] for row in rows] == ["日本", "all"]
    assert {cell_len(row.partition("$")[0]) for row in rows} == {cell_len("日本 ") + len("    ")}


@given(st.text(alphabet="ab日本é\u0301…", max_size=12), st.integers(min_value=1, max_value=14))
def test_a_column_is_measured_in_cells(text: str, columns: int) -> None:
    cut = width_cut(text, columns)
    assert width_of(text) == cell_len(text)
    assert cell_len(cut) <= columns
    assert cell_len(padded(cut, columns)) == columns
    if cut != text:
        assert cell_len(text) > columns
        assert cell_len(cut) >= columns - 1  # a wide letter may leave one cell


def test_the_lists_keep_their_columns_beside_wide_letters() -> None:
    subtasks = [Standing(name, 1, title, "wait") for name, title in (("a", "日本語の文字列"), ("b", "API"))]
    lists = [
        [subtask_line(one, "it 1", width=14).partition("it 1")[0] for one in subtasks],
        [_pair(left, "right", "|", 12).partition("|")[0] for left in ("日本語の文字列", "e\u0301a", "abc")],
    ]
    for rows in lists:
        assert len({cell_len(row) for row in rows}) == 1


# What each run's last line told, in `total_cost_usd`; 2.1.329 writes it into the session, too.
_OWN = {
    "claude/bugfix": 0.076605,
    "claude/happy": 0.0925725,
    "claude/bugfix@2.1.197": 0.076605,
    "claude/happy@2.1.197": 0.0925725,
}


@pytest.mark.parametrize("scenario", _OWN)
@pytest.mark.parametrize("told", [True, False])
def test_what_sessions_cost_agrees_with_the_agents_own_figure(
    project: Path, tmp_path: Path, scenario: str, told: bool
) -> None:
    path = unpack(scenario, tmp_path / "home").path
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if told or '"cost-state"' not in line))
    distill(session_at(path, "claude"), Request(project_root=project))
    assert json.loads(pm("sessions", "cost", "--json", cwd=project).out)["usd"] == pytest.approx(
        _OWN[scenario], rel=0.01
    )
    by_project = pm("sessions", "cost", "--by", "project", cwd=project)
    assert by_project.out.startswith("proj ")
    assert "platform.claude.com/docs/en/about-claude/pricing, 2026-" in by_project.err


def test_a_task_that_only_failed_before_anything_was_counted_cost_nothing_that_is_known(project: Path) -> None:
    refused = {"output": "", "status": "INCOMPLETE", "error": {"kind": "context", "message": "prompt is too long"}}
    run_scripted(project, {**refused, "cost_usd": 0.0})
    (task,) = json.loads(pm("tasks", "--json", cwd=project).out)["tasks"]
    assert task["cost_usd"] is None
    assert "$0.00" not in pm("tasks", cwd=project).out
    told = json.loads(pm("sessions", "cost", "--by", "task", "--json", cwd=project).out)
    assert [row["usd"] for row in told["rows"]] == [None]
    assert "$0.00" not in pm("sessions", "cost", "--by", "task", cwd=project).out


def test_projects_of_one_folder_name_are_told_apart(project: Path, tmp_path: Path) -> None:
    for number, scenario in enumerate(("claude/bugfix", "claude/happy")):
        path = unpack(scenario, tmp_path / f"home{number}").path
        text = path.read_text()
        cwd = next(json.loads(line)["cwd"] for line in text.splitlines() if '"cwd"' in line)
        path.write_text(text.replace(cwd, f"/srv/x{number}/app").replace('"sessionId":"', f'"sessionId":"{number}'))
        distill(session_at(path, "claude"), Request(project_root=project))
    rows = json.loads(pm("sessions", "cost", "--by", "project", "--json", cwd=project).out)["rows"]
    assert [row["runs"] for row in rows] == [1, 1]
    assert all(row["project"].startswith("app (") for row in rows)
    assert pm("sessions", "cost", "--by", "project", cwd=project).out.count("app (") == 2


def test_a_model_without_a_price_is_n_a(project: Path, tmp_path: Path) -> None:
    native = unpack("codex/happy@0.169.0-codemode", tmp_path / "home")
    distill(session_at(native.path, "codex"), Request(project_root=project))
    assert json.loads(pm("sessions", "cost", "--by", "model", "--json", cwd=project).out)["usd"] is None
    assert "n/a" in pm("sessions", "cost", cwd=project).out


def test_two_tasks_are_compared(project: Path) -> None:
    run_scripted(project, {**BAD, **USAGE}, {**GOOD, **USAGE})
    run_scripted(project, {**GOOD, **USAGE})
    rows = {row["measure"]: row for row in json.loads(pm("compare", "1", "2", "--json", cwd=project).out)["measures"]}
    assert (rows["output tokens"]["a"]["median"], rows["output tokens"]["b"]["median"]) == (200, 100)
    assert pm("compare", "1", "9", cwd=project).code == 7
