"""What a line at `pm>` means, apart from any terminal."""

from __future__ import annotations

import asyncio
import threading
from argparse import Namespace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repl.actions import ACTIONS, key_name, key_rows, live_keys
from repl.context import Context
from repl.editing import Pastes
from repl.history import HistorySearch
from repl.present.output import Output
from repl.present.progress import Progress, fit, running_parts, status_lines
from repl.registry.commands import find_command
from repl.screen.home import status_text
from repl.session import Session
from repl.shell import Shell, View, for_session, interpret, meant_by, run_handler, slashed
from runner.executors.executor_port import Live, Usage
from tests.repl.scripts import GOOD, run_scripted
from tests.repl.support import pm
from tracer.errors import ConfigError, NotFoundError, UsageError
from tracer.facts import Entry, read_fact


@pytest.mark.parametrize(
    ("line", "kind", "name", "words"),
    [
        ("", "nothing", "", ()),
        ("   ", "nothing", "", ()),
        ("?", "keys", "", ()),
        ("add a test", "task", "", ()),
        ("//usr/bin is broken", "task", "", ()),
        ("/run don't stop", "task", "", ()),
        ("/trace 15 --latest", "command", "trace", ("15", "--latest")),
        ("/trace verify 15", "command", "trace verify", ("15",)),
        ("/config set run.model 'a b'", "command", "config set", ("run.model", "a b")),
        ("/respond 15 hint don't rename it", "command", "respond", ("15", "hint", "don't", "rename", "it")),
        ("/quit", "command", "exit", ()),
        ("/record status", "command", "record status", ()),
        ("/capture verify 3f9a 'a b'", "command", "capture verify", ("3f9a", "a b")),
        ("/capture qa 3f9a --step tests", "command", "capture qa", ("3f9a", "--step", "tests")),
        ("/qa 3f9a", "command", "capture qa", ("3f9a",)),
        ("/capture", "command", "capture list", ()),
        ("/captures --remote", "command", "capture list", ("--remote",)),
    ],
)
def test_a_line_means(line: str, kind: str, name: str, words: tuple[str, ...]) -> None:
    typed = interpret(line)
    assert typed.kind == kind
    assert (typed.command.name if typed.command else "") == name
    assert typed.words == words


def test_commands_of_the_session_run_in_the_thread_of_the_view_and_others_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: dict[str, bool] = {}

    def handler(context: Context, _arguments: Namespace) -> int:
        ran[context.command] = threading.current_thread() is threading.main_thread()
        return 0

    monkeypatch.setattr("repl.shell.load_handler", lambda _command: handler)
    for name in ("exit", "theme", "tasks"):
        command = find_command(name)
        assert command is not None
        output = Output(stdout=StringIO(), stderr=StringIO())
        asyncio.run(run_handler(command, Context(output=output, environ={}, arguments=Namespace(), command=name)))
    assert ran == {"exit": True, "theme": True, "tasks": False}


def test_a_unique_prefix_runs_and_is_echoed_in_full() -> None:
    typed = interpret("/doct --json")
    assert typed.command is not None
    assert (typed.command.name, typed.echo) == ("doctor", "/doctor")


def test_a_prefix_reaches_commands_of_two_words_too() -> None:
    typed = interpret("/conf get run.model")
    assert typed.command is not None
    assert (typed.command.name, typed.words, typed.echo) == ("config get", ("run.model",), "/config")


def test_a_command_word_that_many_begin_with_runs_nothing_and_lists_them() -> None:
    with pytest.raises(UsageError, match="could be") as caught:
        interpret("/re 15")
    assert "/resume" in caught.value.what
    assert "/retry" in caught.value.what


@pytest.mark.parametrize("line", ["/record", "/record begin", "/capture verfy 3f9a"])
def test_a_family_without_a_command_of_its_own_lists_what_it_has(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        interpret(line)
    assert ("status" if "record" in line else "verify") in caught.value.why.split(", ")


def test_a_misspelt_command_runs_nothing_and_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown command /trcae · did you mean /trace\?"):
        interpret("/trcae")


@given(st.text(max_size=40))
def test_any_line_is_understood_or_a_usage_error(line: str) -> None:
    try:
        typed = interpret(line)
    except UsageError:
        return
    assert typed.kind in {"nothing", "task", "command", "keys"}


def test_next_steps_are_said_as_they_are_typed_at_the_prompt() -> None:
    error = for_session(NotFoundError("x", next_step="pm trace 15   pm diff 15"))
    assert error.next_step == "/trace 15   /diff 15"


@pytest.mark.parametrize(
    ("hint", "typed"),
    [
        ("  next:  pm diff 1   pm trace 1", "  next:  /diff 1   /trace 1"),
        ("list them with: pm tasks", "list them with: /tasks"),
        ('  next:  pm run "..."   or   pm demo', '  next:  /run "..."   or   /demo'),
        ("  next:  pm record   or   pm capture new", "  next:  pm record   or   /capture new"),
        ("pm serve --new-token", "pm serve --new-token"),
        ("start pm in a terminal", "start pm in a terminal"),
    ],
)
def test_a_next_step_names_what_can_be_typed_at_the_prompt(hint: str, typed: str) -> None:
    assert slashed(hint) == typed


def test_show_at_the_prompt_names_the_prompt_s_commands(project: Path) -> None:
    run_scripted(project, GOOD)
    ran = pm("repl", stdin="/show 1\n/tasks nothing-like-it\n/show 99\n", cwd=project)
    assert "next:  /review 1   /trace 1" in ran.err
    assert "list them with: /tasks" in ran.err
    assert "pm diff" not in ran.err + ran.out


def test_no_review_is_suggested_where_no_file_changed(project: Path) -> None:
    answer = {"output": "It greets whoever is named.", "files": {}}
    ran = run_scripted(project, answer, words=("what does it do?", "--kind", "question"))
    assert (ran.code, "pm trace 1" in ran.err) == (0, True)
    assert "review" not in ran.err + pm("show", "1", cwd=project).err


@given(st.lists(st.text(max_size=20), min_size=1, max_size=60))
def test_a_folded_paste_comes_back_whole(lines: list[str]) -> None:
    text = "\n".join(line.replace("\r", "").replace("\n", "") for line in lines).rstrip("\n")
    pastes = Pastes()
    mark = pastes.insert(text)
    assert pastes.expand(f"before {mark} after") == f"before {text} after"
    assert (mark == text) is (text.count("\n") < 20)


def test_two_pastes_of_one_length_are_kept_apart() -> None:
    pastes = Pastes()
    first, second = ("\n".join(letter * 3 for _ in range(30)) for letter in "ab")
    line = pastes.insert(first) + pastes.insert(second)
    assert pastes.expand(line) == first + second


def test_the_keymap_can_be_changed_and_says_so_everywhere() -> None:
    changes = {"prompt.escape": "ctrl+x  ctrl+x, f2"}
    assert live_keys(changes)["prompt.escape"] == ("ctrl+x ctrl+x", "f2")
    line, screen = ({row.id: row.keys for row in key_rows(changes, mode=mode)} for mode in ("line", "screen"))
    assert (line["prompt.escape"], screen["prompt.escape"]) == ("Ctrl+X Ctrl+X, F2", "F2")
    assert "home.open" in screen
    assert "home.open" not in line
    assert [key_name(key) for key in ("alt+enter", "question_mark", "Y", "pageup")] == ["Alt+Enter", "?", "Y", "PgUp"]


@pytest.mark.parametrize(
    "changes",
    [{"nothing": "ctrl+x"}, {"prompt.escape": ""}, {"prompt.escape": "enter"}, {"home.diff": "t"}, {"app.trace": "up"}],
)
def test_an_impossible_keymap_is_a_clear_error(changes: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        live_keys(changes)


def test_every_action_has_one_row_and_says_what_it_does() -> None:
    live_keys({"app.log": "f9"})  # no two actions of one place share a key
    ids = [(place, action.id) for place, actions in ACTIONS.items() for action in actions]
    assert len(set(ids)) == len(ids)
    assert [action.id for actions in ACTIONS.values() for action in actions if not action.what] == []


def test_search_goes_through_scopes_and_matches_newest_first() -> None:
    entries = {"session": ["a1"], "project": ["fix a", "fix b", "fix a"], "all": ["other"]}
    search = HistorySearch(lambda scope: entries[scope], saved="draft")
    assert search.match("FIX") == "fix a"
    search.move("fix", 1)
    assert search.match("fix") == "fix b"
    search.cycle()
    assert (search.scope, search.match("oth")) == ("all", "other")
    search.cycle()
    assert (search.scope, search.match("oth")) == ("session", "")


@given(st.lists(st.text(alphabet="abc·日", max_size=12), max_size=6), st.integers(min_value=1, max_value=60))
def test_a_toolbar_never_wraps(parts: list[str], columns: int) -> None:
    from unicodedata import east_asian_width

    text = fit(parts, columns)
    assert len(text) <= columns
    assert sum(2 if east_asian_width(char) in "WF" else 1 for char in text) <= columns + 1


def fact(event: str, subtask: str | None = None, index: int | None = None, **data: object) -> Entry:
    found = {"timestamp": "2026-01-01T00:00:00.000Z", "event": event, "session_id": "s", "task_id": "task-015"}
    named = {name: value for name, value in (("subtask_id", subtask), ("iteration_index", index)) if value is not None}
    made = read_fact({**found, **named, "data": data})
    assert made is not None
    return made


def chunked() -> Progress:
    progress = Progress("task-015", prefix="/", table=True)
    plan = [{"id": "a", "title": "schema", "dependencies": []}, {"id": "b", "title": "API", "dependencies": ["a"]}]
    request = {"prompt": "x", "workspace": "/w", "limits": {"max_iterations": 3}, "executor": {"name": "claude"}}
    progress.fact(fact("USER_REQUEST", **request), now=0)
    progress.fact(fact("CHUNKING_PLAN", subtasks=plan), now=0)
    progress.fact(fact("LLM_REQUEST", "a", 0, prompt="x"), now=1)
    return progress


def test_subtasks_are_a_table_that_changes_in_place_with_a_bar() -> None:
    progress = chunked()
    assert progress.table()[0].split() == ["run", "1", "schema", "it", "0", "asking"]
    assert progress.table()[1].split() == ["wait", "2", "API", "after", "1"]
    progress.fact(fact("LLM_RESPONSE", "a", 0, output="done", status="COMPLETE"), now=2)
    progress.fact(fact("QUALITY_JUDGMENT", "a", 0, judgment="PASS", criteria_results=[]), now=2)
    progress.fact(fact("ITERATION_END", "a", 0, iteration_index=0, judgment="PASS"), now=2)
    lines = status_lines(progress, now=31, columns=80)
    assert lines[0].split() == ["done", "1", "schema", "1", "it"]
    assert lines[2] == "  [##########..........] 1/2 subtasks · 31 s"


def test_the_status_line_says_more_the_longer_it_waits() -> None:
    progress = chunked()
    progress.executor = "claude"
    progress.fact(fact("LLM_REQUEST", None, 0, prompt="x"), now=100)
    assert progress.status(105) == "asking claude · 5 s"
    assert progress.status(112) == "asking claude · 12 s · still waiting"
    progress.live(Live(kind="tool_finished", tool="Read"), now=113)
    assert progress.status(115) == "working on 1 · 15 s"
    assert progress.status(170) == "working on 1 · 70 s · Esc stops, nothing is lost"


def waiting(left: float, *, attempt: int | None = None, of: int | None = None) -> Live:
    return Live(kind="waiting", text="rate_limit", wait_s=left, attempt=attempt, attempts=of)


def test_a_wait_before_the_next_try_counts_down_and_says_which_try_it_is() -> None:
    progress = chunked()
    progress.live(waiting(7.6, attempt=2, of=5))
    assert progress.status(100.0) == "rate limited, next try in 8 s (2/5)"
    progress.live(waiting(6.6, attempt=2, of=5))
    assert progress.status(101.0) == "rate limited, next try in 7 s (2/5)"


def test_an_agents_own_wait_counts_down_by_itself_and_ends_when_it_goes_on() -> None:
    progress = chunked()
    progress.live(waiting(5.0))
    assert progress.status(100.0) == "rate limited, next try in 5 s"
    assert progress.status(103.2) == "rate limited, next try in 2 s"
    assert "next try" not in progress.status(105.0), "nobody tells when it ends"
    progress.live(waiting(5.0))
    progress.live(Live(kind="notice", text="still there"))
    assert "next try" in progress.status(106.0)
    progress.live(Live(kind="text", text="So"))
    assert "next try" not in progress.status(106.0)


def test_what_an_answer_has_cost_so_far_is_shown_before_it_ends_and_counted_once() -> None:
    progress = chunked()
    progress.tokens, progress.cost = 1_000, 0.5
    progress.live(Live(kind="usage", usage=Usage(input_tokens=200, output_tokens=50), cost_usd=0.25, subtask_id="a"))
    assert "1,250 tok" in progress.status(1.0, spent=True)
    parts = running_parts(progress, others=0, queued=0, budget=None)
    assert {"1,250 tok", "$0.75"} <= set(parts)
    usage = {"input_tokens": 200, "output_tokens": 50}
    progress.fact(fact("LLM_RESPONSE", "a", 0, output="", status="COMPLETE", usage=usage, cost_usd=0.25), now=2)
    assert (progress.tokens_so_far, progress.cost_so_far) == (1_250, 0.75)


def test_permissions_other_than_the_usual_are_shown_as_long_as_the_task_runs() -> None:
    for level, told in (("edit", []), ("full", ["permissions full"]), ("read", ["permissions read"])):
        progress = Progress("task-015")
        asked = {"prompt": "x", "workspace": "/w", "executor": {"name": "claude", "permissions": level}}
        (line,) = progress.fact(fact("USER_REQUEST", **asked), now=0)
        assert line.split(" · ")[2:] == told
        parts = running_parts(progress, others=0, queued=0, budget=None)
        assert [part for part in parts if "permissions" in part] == told
        assert (f"permissions {level}" in status_text(progress, now=0)) is bool(told)


def test_a_budget_nearly_spent_is_marked_with_more_than_colour() -> None:
    progress = chunked()
    progress.tokens, progress.cost = 14_200, 0.85
    parts = running_parts(progress, others=0, queued=1, budget=1.0)
    assert "! $0.85 of $1.00" in parts
    assert "14.2k tok" in parts
    assert "queued 1" in parts


class _Known:
    """A session in which task 3 exists."""

    def resolve(self, selector: str | None) -> str:
        if selector not in {"3", None}:
            raise NotFoundError(f"no task {selector}")
        return "task-003"


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("tasks", "/tasks"),
        ("taks", "/tasks"),
        ("task", "/tasks"),
        ("atsks", "/tasks"),
        ("show 3", "/show 3"),
        ("shwo 3", "/show 3"),
        ("undo 3 --iteration 0", "/undo 3 --iteration 0"),
        ("respond 3 accept", "/respond 3 accept"),
        (":q", "/help"),
        (":tasks", "/tasks"),
        ("& make test", "/help"),
        ("//trace", "/trace"),
        ("//trace 3", "/trace 3"),
        ("//usr/bin is broken", ""),
        ("show 4", ""),
        ("show me where half() is used", ""),
        ("stop using globals", ""),
        ("run the tests and mend what fails", ""),
        ("undo the last change to a.py", ""),
        ("respond to clicks in the menu", ""),
        ("add a test", ""),
        ("修正して", ""),
    ],
)
def test_a_line_that_looks_like_a_command_is_asked_about(line: str, meant: str) -> None:
    assert meant_by(interpret(line).text, cast("Session", _Known())) == meant


async def test_what_looks_like_a_command_is_not_sent_and_the_same_line_again_is() -> None:
    sent: list[str] = []
    back: list[str] = []

    async def submit(prompt: str) -> str:
        sent.append(prompt)
        return "task-001"

    session = SimpleNamespace(
        running=[], queue=[], environ={}, submit=submit, permissions=SimpleNamespace(open_question=lambda: None)
    )
    view = SimpleNamespace(name="line", take_back=back.append)
    output = Output(stdout=StringIO(), stderr=StringIO())
    shell = Shell(cast("Session", session), output=output, view=cast("View", view))
    assert await shell.run("tasks") == 2
    assert (sent, back) == ([], ["tasks"])
    assert await shell.run("//trace") == 2
    assert (sent, back) == ([], ["tasks", "//trace"])
    assert await shell.run("//trace") == 0
    assert await shell.run("/run tasks") == 0
    assert sent == ["/trace", "tasks"]
    assert await shell.run("tasks") == 2
    session.queue.append("tasks")  # it was confirmed when it was typed
    assert await shell.run_queued()
    assert sent == ["/trace", "tasks", "tasks"]


@pytest.mark.parametrize(("chosen", "shown"), [(None, "scripted · max 3"), (["Q1", "Q7"], "scripted · max 3 · Q1,Q7")])
def test_the_line_below_names_criteria_only_where_the_user_chose_some(chosen: list[str] | None, shown: str) -> None:
    values = {"max_iterations": 3, "criteria": chosen, "permissions": "edit"}
    session = SimpleNamespace(
        executor_text=lambda: "scripted", chosen=lambda key: (values[key], "default"), current="", environ={}
    )
    output = Output(stdout=StringIO(), stderr=StringIO())
    shell = Shell(cast("Session", session), output=output, view=cast("View", SimpleNamespace(name="line")))
    assert shell.status_line() == shown
