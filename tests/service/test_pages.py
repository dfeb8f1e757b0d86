"""What the pages say, without a browser."""

from __future__ import annotations

import json
from pathlib import Path

from collector.judge.calibrate import given_labels
from collector.judge.labels import Label, add_label, read_labels
from service.pages.task import render
from service.pages.values import Shown
from tests.collector.http.scene import opening
from tests.runner.workspace.support import git
from tests.service.support import BAD, GOOD, serving
from tracer.conversation import default_redactor
from tracer.statedir import StateDir

EVIL = "\u202egnp.exe\x1b[31m\x07"
SEEN = r"\u202egnp.exe\x1b[31m\x07"


def test_titles_file_names_and_errors_show_control_and_direction_characters(project: Path) -> None:
    reply = {"output": "done", "files": {f"a{EVIL}.txt": "x\n"}}
    broken = {"error": {"kind": "crash", "message": f"went {EVIL}"}}
    with serving(project, [reply, broken]) as served:
        for _each in range(2):
            body = {"prompt": "write it", "title": f"title {EVIL}"}
            served.until_ended(served.client.post("/api/tasks", json=body).json()["task_id"])
        for path in ("/", "/tasks/task-001", "/tasks/task-002", "/compare?a=task-001&b=task-002"):
            page = served.client.get(path).text
            assert f"title {SEEN}" in page, path
            for character in "\u202e\x1b\x07":
                assert character not in page, path
        assert f"a{SEEN}.txt" in served.client.get("/tasks/task-001").text
        assert f"went {SEEN}" in served.client.get("/tasks/task-002").text


def test_a_task_s_page_says_which_tests_did_not_run(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\n")
    with serving(project, [{"output": "done", "files": {"a.txt": "x\n"}}]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "write it"}).json()["task_id"]
        served.until_ended(task_id)
        page = served.client.get(f"/tasks/{task_id}").text
        assert "tests not run: folder not trusted (pm config trust)" in page
        assert "not verified</span>" in page.partition("Q7 Test Passed")[2][:200]


def test_what_agents_wrote_into_a_session_s_label_is_shown_too() -> None:
    meta = {"label": EVIL, "provider": EVIL, "model": "", "success": None, "ts": "", "cost_usd": None}
    page = render("agentic.html", meta=meta, loops=[EVIL], steps=[], left_out=0, counts=[], asked=Shown(""))
    assert page.count(SEEN) == 4
    assert "\u202e" not in page


def test_a_very_long_title_does_not_bury_the_page(project: Path) -> None:
    with serving(project, [{"output": "done", "files": {"a.txt": "x\n"}}]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "write it"}).json()["task_id"]
        served.until_ended(task_id)
        (path,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
        path.write_text(path.read_text().replace('"title":"write it"', f'"title":"{"T" * 5000}"'))  # pm run --title
        heading = served.client.get(f"/tasks/{task_id}").text.partition("<h1>")[2].partition("</h1>")[0]
        assert 200 < len(heading) < 300
        assert heading.endswith("…")


ASKS = {"output": "I read login.py.\n\nWhich hash?\n\n1. argon2\n2. bcrypt <b>"}
DONE = {"output": "Done with argon2.", "files": {"login.py": "HASH = 'argon2'\n"}}


def test_a_question_is_shown_and_answered_on_the_task_s_page(project: Path) -> None:
    with serving(project, [ASKS, DONE], on_limit="ask") as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "store passwords"}).json()["task_id"]
        found = served.until_ended(task_id)
        assert (found["status"], found["reason"], found["question"]) == ("AWAITING_RESPONSE", "", "Which hash?")
        assert found["choices"] == ["argon2", "bcrypt <b>"]
        page = served.client.get(f"/tasks/{task_id}").text
        assert "It asks you" in page
        assert 'value="bcrypt &lt;b&gt;"' in page
        for bad in ("", "action=hint&text=+", "action=fly", "text=%00"):
            assert served.client.post(f"/tasks/{task_id}/respond", content=bad).status_code in {400, 422}, bad
        foreign = {"origin": "http://evil.example"}
        path = f"/tasks/{task_id}/respond"
        assert served.client.post(path, content="choice=argon2", headers=foreign).status_code == 403
        answered = served.client.post(path, content="choice=argon2", follow_redirects=False)
        assert (answered.status_code, answered.headers["location"]) == (303, f"/tasks/{task_id}")
        assert served.until_ended(task_id)["status"] == "COMPLETE"
        page = served.client.get(f"/tasks/{task_id}").text
        assert "It asks you" not in page
        assert "The user answers: argon2" in page


def test_a_question_that_nobody_could_answer_is_answered_over_http_later(project: Path) -> None:
    with serving(project, [ASKS, DONE]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "store passwords"}).json()["task_id"]
        found = served.until_ended(task_id)
        assert (found["status"], found["reason"], found["question"]) == ("INCOMPLETE", "asked", "Which hash?")
        assert "Accept it" not in served.client.get(f"/tasks/{task_id}").text
        body = {"action": "hint", "text": "argon2"}
        assert served.client.post(f"/api/tasks/{task_id}/respond", json=body).status_code == 202
        assert served.until_ended(task_id)["status"] == "COMPLETE"
        assert served.client.post(f"/api/tasks/{task_id}/respond", json=body).status_code == 409


def test_hunks_are_kept_discarded_and_committed_on_the_review_page(project: Path) -> None:
    old = "".join(f"line {number}\n" for number in range(40))
    new = old.replace("line 3\n", "line <three>\n").replace("line 30\n", "line thirty\n")
    (project / "a.py").write_text(old)
    git(project, "init", "-q")
    for name, value in (("user.name", "U"), ("user.email", "u@example.com")):
        git(project, "config", name, value)
    git(project, "add", ".")
    git(project, "commit", "-qm", "base")
    with serving(project, [{"output": "done", "files": {"a.py": new, "b.py": "# TODO: implement\n"}}]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "write it"}).json()["task_id"]
        served.until_ended(task_id)
        place = f"/tasks/{task_id}/review"
        page = served.client.get(place).text
        assert page.index(">a.py<") < page.index(">b.py<")
        assert "line &lt;three&gt;" in page
        assert page.count('value="a.py:') == 4
        for bad in ("", "keep=nothing", "commit=1&message=+", "keep=%00"):
            assert served.client.post(place, content=bad).status_code in {404, 422}, bad
        answer = served.client.post(place, content="discard=a.py:1", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{place}#in-a.py.3A1")
        assert "line 3\n" in (project / "a.py").read_text()
        assert "line thirty\n" in (project / "a.py").read_text()
        assert served.client.post(place, content="discard=b.py", follow_redirects=False).status_code == 303
        assert not (project / "b.py").exists()
        assert 'badge bad">discarded' in served.client.get(place).text
        done = served.client.post(place, content="commit=1&message=Say+thirty", follow_redirects=False)
        assert done.status_code == 303, done.text
        assert git(project, "log", "--format=%s", "-1").strip() == "Say thirty"
        assert git(project, "status", "--porcelain", "--", "a.py") == ""


def test_two_of_a_kind_stand_side_by_side(project: Path) -> None:
    lines = [
        {"type": "meta", "ts": "2025-01-23T10:30:09", "label": "fix:login", "provider": "anthropic", "model": "m",
         "success": True, "cost_usd": 0.5, "tokens": {"input": 10, "output": 5}},
        {"type": "thought", "text": "a <thought>"},
        {"type": "tool", "name": "Bash", "args_summary": "ls", "status": "error"},
        {"type": "message", "role": "assistant", "text": "It is mended."},
    ]  # fmt: skip
    folder = project / ".pm-orchestrator" / "agentic-traces"
    with serving(project, [BAD, GOOD, GOOD]) as served:
        for prompt in ("Write login.py", "Again"):
            served.until_ended(served.client.post("/api/tasks", json={"prompt": prompt}).json()["task_id"])
        for number in (1, 2):
            name = f"trace_20250123_10300{number}_claude.jsonl"
            (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines[: number + 2]))
        listed = served.client.get("/agentic?q=fix&sort=-cost").text
        assert listed.count('name="pick"') == 2
        page = served.client.get("/compare?kind=tasks&pick=task-001&pick=task-002").text
        for told in ("Rejected for", "Answer of iteration 1", "Changes of iteration 0", "failed calls"):
            assert told in page, told
        page = served.client.get(f"/compare?kind=sessions&pick={name}&pick={name.replace('02_', '01_')}").text
        for told in ("It is mended.", "a &lt;thought&gt;", "✗ Bash ls", "cost, USD"):
            assert told in page, told
        assert "1 are ticked" in served.client.get("/compare?kind=tasks&pick=task-001").text
        for kind in ("tasks", "sessions", "captures"):
            assert 'role="alert"' in served.client.get(f"/compare?kind={kind}&a=none&b=none").text, kind
        assert served.client.get("/compare?kind=cats").status_code == 422


def test_labels_are_appended_with_author_and_history_and_calibrate_the_judge(project: Path) -> None:
    state_dir = StateDir(project / ".pm-orchestrator")
    secret = "ghp_" + "a1B2" * 9
    with serving(project, [GOOD]) as served:
        trace_id = served.client.post("/traces", json=opening()).json()["trace_id"]
        task_id = served.client.post("/api/tasks", json={"prompt": "Write login.py"}).json()["task_id"]
        served.until_ended(task_id)
        place = f"/captures/{trace_id}/labels"
        for bad in ("", "author=A", "author=A&overall=6", "author=A&clarity=x", "overall=3"):
            assert served.client.post(place, content=bad).status_code == 422, bad
        assert served.client.post("/tasks/task-9/labels", content="author=A&overall=1").status_code == 404
        for body in (
            "author=A&overall=1&clarity=4",
            "author=A&overall=3&flags=odd,+b",
            f"author=B&overall=4&comment={secret}",
        ):
            told = served.client.post(place, content=body, follow_redirects=False)
            assert (told.status_code, told.headers["location"]) == (303, f"/captures/{trace_id}#labels")
        served.client.post(f"/tasks/{task_id}/labels", content="author=<b>&overall=2&step=3&comment=why")
        page = served.client.get(f"/captures/{trace_id}").text
        assert page.count("<strong>A</strong>") == 2
        page = served.client.get(f"/tasks/{task_id}").text
        assert "<strong>&lt;b&gt;</strong>" in page
        assert "event 3" in page
        kept = served.client.get("/labels.jsonl").text
        assert secret not in kept
        assert [json.loads(line)["kind"] for line in kept.splitlines()] == ["capture"] * 3 + ["task"]
        for wanted, count in (("labelled", 1), ("score:3.5", 1), ("score:>4", 0), ("flag:*odd*", 1)):
            assert served.client.get(f"/captures?q={wanted}").text.count('name="pick"') == count, wanted
    with state_dir.labels.open("ab") as file:
        file.write(b'{"torn')
    add_label(state_dir, Label("task", "task-1", "C", {"overall": 1.0}), redactor=default_redactor(state_dir))
    assert [one.author for one in read_labels(state_dir)] == ["A", "A", "B", "<b>", "C"]
    (found,) = given_labels(state_dir)
    assert (found.trace_id, found.scores) == (trace_id, {"overall": 3.5})
