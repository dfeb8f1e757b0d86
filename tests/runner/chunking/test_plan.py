"""Plans from models, people and lists: what is taken, what is refused and why."""

from __future__ import annotations

import json

import pytest

from runner.core.chunk_plan import (
    check_plan,
    is_work_list,
    list_items,
    listed_plan,
    plan_of_text,
    plan_text,
    read_plan,
)
from tracer.errors import UsageError
from tracer.facts import Subtask


def test_subtasks_get_the_tasks_ids_and_dependencies_follow_them() -> None:
    plan = {"subtasks": [{"id": "db", "description": "Schema"}, {"description": "API", "dependencies": ["db"]}]}
    checked = check_plan(plan, task_id="task-007")
    assert checked.problem == ""
    assert [item["id"] for item in checked.subtasks] == ["task-007-sub-1", "task-007-sub-2"]
    assert checked.subtasks[1]["dependencies"] == ["task-007-sub-1"]


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (None, "no list"),
        ({"subtasks": "all"}, "no list"),
        ([{"description": "a"}, "b"], "subtask 2 is not an object"),
        ([{"description": " "}], "subtask 1 has no description"),
        ([{"id": 1, "description": "a"}, {"id": "1", "description": "b"}], "the id '1'"),
        ([{"description": "a", "dependencies": [3]}], "'3', which is not in the plan"),
        ([{"description": "a", "dependencies": "b"}], "not a list"),
        ([{"description": "a", "dependencies": [1]}], "wait for each other"),
        ([{"description": "a", "dependencies": [2]}, {"description": "b", "dependencies": [1]}], "wait for each other"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_says_why(plan: object, why: str) -> None:
    checked = check_plan(plan, task_id="t")
    assert checked.subtasks == ()
    assert why in checked.problem


@pytest.mark.parametrize("wrap", ["{}", "Here it is:\n```json\n{}\n```\nDone.", "I think {} is best."])
def test_a_plan_is_found_in_a_models_answer_however_it_is_wrapped(wrap: str) -> None:
    plan = json.dumps({"subtasks": [{"description": "a"}]})
    assert plan_of_text(wrap.replace("{}", plan)) == {"subtasks": [{"description": "a"}]}


def test_an_answer_without_a_plan_holds_none() -> None:
    assert plan_of_text("I would start with the schema {and} then go on.") is None


def test_what_is_shown_for_editing_reads_back_as_the_same_plan() -> None:
    plan = check_plan(
        [{"description": "a"}, {"description": "b", "dependencies": [1], "files_expected": ["b.py"]}],
        task_id="task-001",
    )
    recorded = tuple(map(Subtask, plan.subtasks))
    again = check_plan(read_plan(plan_text(recorded)), task_id="task-001")
    assert again == plan


def test_a_persons_plan_may_be_a_plain_list_and_a_faulty_one_names_the_fault() -> None:
    assert [item["id"] for item in read_plan("1. Add a\n2. Add b (after 1)\n")["subtasks"]] == [1, 2]
    with pytest.raises(UsageError, match="cannot be carried out") as caught:
        read_plan('{"subtasks": [{"description": "a", "dependencies": [9]}]}')
    assert "'9'" in str(caught.value.why)
    with pytest.raises(UsageError, match="not JSON"):
        read_plan('{"subtasks": [')
    with pytest.raises(UsageError):
        read_plan("just words")


@pytest.mark.parametrize(
    "request_text",
    [
        "1. Add the schema\n2. Write the API\n3. Create the page",
        "Build a shop:\n\n- Add the schema\n- Write the API\n  with paging\n- Please create the page\n\nThanks.",
        "1) Add the schema\n\n2) Write the API\n\n3) Create the page",
        "- [ ] Add the schema\n- [ ] **Write** the API\n- [ ] Then create the page",
        "1. スキーマを追加する\n2. APIを実装\n3. ページを作成してください",
    ],
)
def test_an_explicit_list_of_work_is_recognised(request_text: str) -> None:
    items = list_items(request_text)
    assert len(items) == 3
    assert is_work_list(items)


@pytest.mark.parametrize(
    "request_text",
    [
        "Use the latest version of everything",
        "Fix the crash. Steps to reproduce:\n1. Open the page\n2. Click on Save\n3. Wait",
        "Add a login page. Constraints:\n- Python 3.11 only\n- no new dependency\n- tests stay green",
        "Rewrite the parser so that this works:\n```\n1. Add a\n2. Add b\n```",
        "1. Add the schema",
    ],
)
def test_what_is_no_list_of_work_does_not_split(request_text: str) -> None:
    assert not is_work_list(list_items(request_text))


def test_items_depend_on_what_they_name() -> None:
    plan = listed_plan(["Create a.py", "Write tests for a.py", "Create b.py", "Wire it all up (after 1 and 3)"])
    assert [item["dependencies"] for item in plan["subtasks"]] == [[], [1], [], [1, 3]]
