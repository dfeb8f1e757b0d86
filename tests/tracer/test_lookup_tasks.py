"""Look-up: exact, by number, by unique prefix; nothing answers for another."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from tests.tracer.support import SEED_LINES, with_traces
from tracer.errors import ConfigError, NotFoundError
from tracer.events import parse_line
from tracer.lookup import latest_iteration, resolve_task, summarize, task_ids, trace_files
from tracer.statedir import StateDir, parse_trace_name


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("task-001", "task-001"), ("1", "task-001"), ("#1", "task-001"), ("001", "task-001"),
        ("task-0010", "task-0010"), ("10", "task-0010"), ("task-001-sub-1", "task-001-sub-1"),
        ("task-001-s", "task-001-sub-1"), ("fix", "fix-login"), (" task-001 ", "task-001"), (None, "task-015"),
    ],
)  # fmt: skip
def test_a_selector_finds_its_task(tmp_path: Path, selector: str | None, found: str) -> None:
    state_dir = with_traces(tmp_path, "task-001", "task-001-sub-1", "task-0010", "task-015", "fix-login")
    assert resolve_task(state_dir, selector).task_id == found


@pytest.mark.parametrize("selector", ["task-001", "1", "#1", "", "task-0010-sub-1", "99", "../x"])
def test_a_complete_id_never_answers_for_another(tmp_path: Path, selector: str) -> None:
    state_dir = with_traces(tmp_path, "task-001-sub-1", "task-0010")
    with pytest.raises(NotFoundError, match="no task matches") as caught:
        resolve_task(state_dir, selector)
    assert "newest: task-0010" in caught.value.what


def test_an_ambiguous_prefix_lists_the_candidates(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-014", "task-015")
    with pytest.raises(NotFoundError, match="could be 2 tasks: task-015, task-014"):
        resolve_task(state_dir, "task-01")


@pytest.mark.parametrize("selector", ["fix", "2"])
def test_more_than_one_candidate_is_never_chosen_from(tmp_path: Path, selector: str) -> None:
    state_dir = with_traces(tmp_path, "fix-login", "fixture", "task-002", "task-0002")
    with pytest.raises(NotFoundError, match="could be 2 tasks"):
        resolve_task(state_dir, selector)


def test_without_any_task_the_next_step_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no task is recorded"):
        resolve_task(StateDir(tmp_path / "absent"), None)


def test_the_newest_file_of_a_task_answers_and_names_the_older_ones(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-001")
    with_traces(tmp_path, "task-001", stamp="2025-01-23T10-30-00_2")
    with_traces(tmp_path, "task-001", stamp="2025-01-23T10-30-00_10")
    found = resolve_task(state_dir, "1")
    assert [path.stem[-2:] for path in (found.path, *found.older)] == ["10", "_2", "00"]
    assert trace_files(state_dir, "task-0") == []
    assert task_ids(state_dir) == ["task-001"]


@pytest.mark.parametrize(
    "name",
    [
        "conversation-task-001.jsonl", "conversation--2025-01-23T10-30-00.jsonl", "x.jsonl",
        "conversation-task-001-2025-01-23T10-30-00.jsonl.chain", "conversation-task-001-2025-01-23T10-30-00_0.jsonl",
    ],
)  # fmt: skip
def test_other_files_are_no_traces(name: str) -> None:
    assert parse_trace_name(name) is None


def test_summary_and_latest_iteration_of_the_seeds_sample() -> None:
    entries = [parse_line(line) for line in SEED_LINES.split(b"\n")[:-1]]
    assert summarize(entries).to_dict() == {
        "total_iterations": 2,
        "judgments": ["REJECT", "PASS"],
        "final_status": "COMPLETE",
    }
    assert [entry.event for entry in latest_iteration(entries)] == [
        "LLM_REQUEST", "LLM_RESPONSE", "QUALITY_JUDGMENT", "FINAL_SUMMARY",
    ]  # fmt: skip
    assert summarize(entries[:6]).to_dict() == {
        "total_iterations": 1,
        "judgments": ["REJECT"],
        "final_status": None,
    }


def test_latest_iteration_is_per_subtask() -> None:
    entries = [parse_line(line) for line in SEED_LINES.split(b"\n")[2:4]]
    one = [entry.__class__(**{**fields(entry), "subtask_id": "a", "iteration_index": 0}) for entry in entries]
    two = [entry.__class__(**{**fields(entry), "subtask_id": "b", "iteration_index": 3}) for entry in entries]
    old = [entry.__class__(**{**fields(entry), "subtask_id": "b", "iteration_index": 2}) for entry in entries]
    assert latest_iteration([*old, *one, *two]) == [*one, *two]


def fields(entry: object) -> dict[str, object]:
    return entry._asdict()  # type: ignore[attr-defined, no-any-return]


def _allot(root: str, count: int, queue: multiprocessing.Queue[list[str]]) -> None:
    state_dir = StateDir(Path(root))
    queue.put([state_dir.allot_task_id() for _ in range(count)])


def test_processes_that_allot_at_once_get_different_ids(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[list[str]] = context.Queue()
    processes = [context.Process(target=_allot, args=(str(tmp_path / ".pm"), 8, queue)) for _ in range(3)]
    for process in processes:
        process.start()
    ids = [one for _ in processes for one in queue.get(timeout=30)]
    for process in processes:
        process.join()
    assert sorted(ids) == [f"task-{number:03d}" for number in range(1, 25)]


def test_a_lost_or_damaged_counter_never_repeats_a_recorded_task(tmp_path: Path) -> None:
    state_dir = with_traces(tmp_path, "task-041")
    assert state_dir.allot_task_id() == "task-042"
    state_dir.task_counter.write_bytes(b"\x00\x00")
    assert state_dir.allot_task_id() == "task-042"
    state_dir.task_counter.unlink()
    with_traces(tmp_path, "task-1200")
    assert state_dir.allot_task_id() == "task-1201"


@pytest.mark.parametrize("mark", ["a folder", "a file"])
def test_the_state_dir_is_found_from_below_and_else_placed_beside_git(tmp_path: Path, mark: str) -> None:
    project, deep = tmp_path / "project", tmp_path / "project" / "src" / "deep"
    deep.mkdir(parents=True)
    (project / ".git").mkdir() if mark == "a folder" else (project / ".git").write_text("gitdir: elsewhere\n")
    found = StateDir.find(deep)
    assert found.root == project / ".pm-orchestrator"
    assert not found.root.exists()
    (project / "src" / ".pm-orchestrator").mkdir()
    assert StateDir.find(deep).root == project / "src" / ".pm-orchestrator"


def test_no_state_dir_above_the_repository_is_used(tmp_path: Path) -> None:
    (tmp_path / ".pm-orchestrator").mkdir()
    deep = tmp_path / "project" / "src"
    deep.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    assert StateDir.find(deep).root == tmp_path / "project" / ".pm-orchestrator"


def test_outside_of_a_repository_only_the_folder_itself_counts(tmp_path: Path) -> None:
    (tmp_path / ".pm-orchestrator").mkdir()
    (tmp_path / "notes").mkdir()
    assert StateDir.find(tmp_path / "notes").root == tmp_path / "notes" / ".pm-orchestrator"
    assert StateDir.find(tmp_path).root == tmp_path / ".pm-orchestrator"


def test_a_state_dir_of_another_user_is_passed_over_below_the_root_and_refused_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / ".pm-orchestrator").mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert StateDir.find(tmp_path / "src").root == tmp_path / ".pm-orchestrator"
    (tmp_path / ".pm-orchestrator").mkdir()
    with pytest.raises(ConfigError, match="belongs to user") as caught:
        StateDir.find(tmp_path / "src")
    assert "--state-dir" in caught.value.next_step


def test_folders_are_private_and_ignored_and_the_users_files_untouched(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    (tmp_path / ".pdd").mkdir()
    state_dir = StateDir(tmp_path / ".pm-orchestrator").ensure()
    assert state_dir.root.stat().st_mode & 0o777 == 0o700
    assert state_dir.traces.stat().st_mode & 0o777 == 0o700
    assert (state_dir.root / ".gitignore").read_text() == "*\n!config.toml\n!rules.md\n!qa.toml\n"
    assert (tmp_path / ".pdd" / "agentic-traces" / ".gitignore").read_text() == "*\n"
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    assert not (tmp_path / ".pdd" / ".gitignore").exists()
