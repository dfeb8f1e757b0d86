"""What the pages say, without a browser."""

from __future__ import annotations

import html
import io
import json
import os
import re
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from collector.judge.calibrate import given_labels
from runner.executors.executor_port import Live, Usage
from service.pages.charts import Plot, over_time
from service.pages.diff import hunk_lines, side_by_side
from tests.collector.http.scene import opening
from tests.runner.workspace.support import git
from tests.service.support import BAD, GOOD, serving
from tracer.catalog.labels import Label, add_label, read_labels
from tracer.conversation import default_redactor
from tracer.statedir import StateDir, user_state_folder

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


STEPS: list[dict[str, Any]] = [
    {"type": "meta", "ts": "2026-01-23T10:30:09", "label": EVIL, "provider": EVIL, "model": "m", "success": True,
     "cost_usd": 0.5, "tokens": {"input": 10, "output": 5}, "session_id": "s"},
    {"type": "thought", "text": f"a <thought> {EVIL}"},
    {"type": "tool", "name": "Bash", "args_summary": "ls", "status": "error"},
]  # fmt: skip


def stored_session(project: Path, name: str, steps: list[dict[str, Any]] = STEPS, **meta: Any) -> Path:
    """A distilled session, last written two minutes ago."""
    path = project / ".pm-orchestrator" / "agentic-traces" / name
    path.write_text("".join(json.dumps(step) + "\n" for step in [steps[0] | meta, *steps[1:]]))
    os.utime(path, (time.time() - 120, time.time() - 120))
    return path


def test_an_agent_session_is_labelled_audited_redacted_and_exported(project: Path) -> None:
    name, secret = "trace_20260123_103009_claude.jsonl", "ghp_" + "a1B2" * 9
    with serving(project, []) as served:
        path = stored_session(project, name, [*STEPS, {"type": "thought", "text": f"the token is {secret}"}])
        place = f"/agentic/{name}"
        page = served.client.get(place).text
        assert page.count(SEEN) >= 4
        assert "\u202e" not in page
        told = served.client.get(f"{place}/export").text
        assert "a <thought>" in told
        assert secret not in told
        assert served.client.post(f"{place}/redact", content="").status_code == 422
        assert secret in path.read_text()
        page = served.client.get(f"{place}?audited=true").text
        assert "line 4: github" in page
        assert secret not in page
        done = served.client.post(f"{place}/redact", content="confirmed=yes")
        assert done.status_code == 303, done.text
        assert secret not in path.read_text()
        assert "Nothing found." in served.client.get(f"{place}?audited=true").text
        assert [kept.read_text().count(secret) for kept in user_state_folder(os.environ).rglob(name)] == [1]
        body = "author=A&overall=4&flags=odd,+loop"
        assert served.client.post(f"/sessions/{name}/labels", content=body).headers["location"] == f"{place}#labels"
        for wanted, count in (("labelled flag:loop score:>3", 1), ("flag:lo", 0), ("flag:lo*", 1), ("run:x*", 0)):
            assert served.client.get(f"/agentic?q={wanted}").text.count('name="pick"') == count, wanted
        assert served.client.post("/sessions/no.jsonl/labels", content=body).status_code == 404
        assert served.client.get("/agentic/no.jsonl/export").status_code == 404


def test_a_native_session_is_distilled_by_a_button(project: Path) -> None:
    folder = Path(os.environ["HOME"]) / ".claude" / "projects" / "-w-shop"
    folder.mkdir(parents=True)
    line = {
        "type": "user",
        "sessionId": "5e6f7a8b-0000-4000-8000-000000000001",
        "cwd": str(project),
        "timestamp": "2026-03-21T14:55:46.000Z",
        "message": {"role": "user", "content": "Fix the total"},
    }
    native = folder / "5e6f7a8b-0000-4000-8000-000000000001.jsonl"
    native.write_text(json.dumps(line) + "\n")
    with serving(project, []) as served:
        assert f'value="{native}"' in served.client.get("/sessions").text
        for wrong in ("", str(project / "script.jsonl"), "/etc/passwd"):
            assert served.client.post("/sessions/distill", data={"session": wrong}).status_code == 404, wrong
        made = served.client.post("/sessions/distill", data={"session": str(native), "run": "fix:total"})
        assert made.status_code == 303, made.text
        page = served.client.get(made.headers["location"]).text
        assert "<h1>fix:total</h1>" in page
        assert served.client.post("/sessions/distill", data={"session": line["sessionId"]}).status_code == 303
        assert len(list((project / ".pm-orchestrator" / "agentic-traces").glob("*.jsonl"))) == 1


def test_what_a_filter_finds_is_exported_with_its_labels_and_what_was_left_out(project: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    with serving(project, [GOOD, GOOD]) as served:
        stored_session(project, "trace_20260123_103009_claude.jsonl")
        for prompt in ("Write login.py", "Again"):
            served.until_ended(served.client.post("/api/tasks", json={"prompt": prompt}).json()["task_id"])
        served.client.post("/tasks/task-001/labels", content="author=A&flags=good&comment=yes")
        kept = [served.client.post("/traces", json=opening()).json()["trace_id"] for _ in range(3)]
        for trace_id in kept[:2]:
            served.client.post(f"/traces/{trace_id}/finalize", json={})
        for trace_id in kept:
            served.client.post(f"/captures/{trace_id}/labels", content="author=A&overall=4")

        def archive(address: str) -> dict[str, list[dict[str, Any]]]:
            answer = served.client.get(address)
            assert answer.status_code == 200, answer.text
            with zipfile.ZipFile(io.BytesIO(answer.content)) as found:
                return {name: list(map(json.loads, found.read(name).splitlines())) for name in found.namelist()}

        found = archive("/export/tasks?q=flag:good")
        assert [row["task_id"] for row in found["set.jsonl"]] == ["task-001"]
        assert [row["comment"] for row in found["labels.jsonl"]] == ["yes"]
        (row,) = archive("/export/sessions")["set.jsonl"]
        assert [line["type"] for line in row["lines"]] == ["meta", "thought", "tool"]
        found = archive("/export/captures?q=labelled+score:4&format=chat")
        assert len(found["set.jsonl"]) == len(found["labels.jsonl"]) == 2
        assert [row["key"] for row in found["left_out.jsonl"]] == kept[2:]
        assert served.client.get("/export/tasks?q=colour:red").status_code == 422
        assert served.client.get("/export/tasks?q=flag:none").status_code == 404
        assert served.client.get(f"/export/captures?q={kept[2]}").status_code == 409
        for form, begins in (("md", b"# task-001"), ("json", b"{"), ("html", b"<!doctype html>")):
            answer = served.client.get(f"/tasks/task-001/export?format={form}")
            assert answer.content.startswith(begins)
            assert answer.headers["content-disposition"].startswith("attachment")
        assert json.loads(served.client.get(f"/captures/{kept[0]}/export?format=otlp").content)
        assert secret not in served.client.get("/labels.jsonl").text


def test_charts_follow_the_filter_and_have_every_value(project: Path) -> None:
    with serving(project, []) as served:
        for day, cost in ((1, 0.5), (3, 1_234_567.891), (3, None)):
            name = f"trace_202601{day:02d}_10300{day}_{cost}.jsonl"
            stored_session(project, name, ts=f"2026-01-{day:02d}T10:30:09", cost_usd=cost, provider="anthropic")
        stored_session(project, "trace_no_time.jsonl", ts="9999-12-31T00:00:00", cost_usd=3.0, provider="openai")
        page = served.client.get("/agentic").text
        assert "most: $1,234,567.89 on 2026-01-03" in page
        assert "<title>2026-01-01: $0.50</title>" in page
        assert page.count("<figure>") == 3  # nobody told a time
        (link,) = re.findall(r'href="(\?q=[^"]*)">2026-01-03', page)
        assert served.client.get(f"/agentic{html.unescape(link)}").text.count('name="pick"') == 2
        assert "<figure>" not in served.client.get("/agentic?q=agent:openai").text


@pytest.mark.parametrize(
    ("days", "unit", "columns"),
    [
        (["2026-01-31", "2026-03-01"], "day", 30),
        (["2024-01-31", "2026-03-01"], "month", 27),
        (["0001-01-31", "2026-03-01"], "year", 62),
        (["2026-01-31", "", "later", "9999-12-31"], None, 0),
    ],
)
def test_time_is_drawn_to_scale(days: list[str], unit: str | None, columns: int) -> None:
    plot = Plot("Count", (("", lambda told: told.get("count", 0)),), lambda told: str(told.get("count", 0)))
    found = over_time({day: {"count": 1} for day in days}, [plot])
    assert (found and (found.unit, found.width // 10)) == (unit and (unit, columns))


def test_a_task_is_tried_again_and_a_capture_checked_again(project: Path) -> None:
    with serving(project, [{"error": {"kind": "crash", "message": "no"}}, GOOD]) as served:
        served.until_ended(served.client.post("/api/tasks", json={"prompt": "Write login.py"}).json()["task_id"])
        answer = served.client.post("/tasks/task-001/act", content="action=retry")
        assert answer.headers["location"] == "/tasks/task-002"
        served.until_ended("task-002")
        assert "Write login.py</pre>" in served.client.get("/tasks/task-002").text
        trace_id = served.client.post("/traces", json=opening()).json()["trace_id"]
        assert served.client.post(f"/captures/{trace_id}/qa").status_code == 409
        served.client.post(f"/traces/{trace_id}/finalize", json={})
        assert served.client.post(f"/captures/{trace_id}/qa").headers["location"] == f"/captures/{trace_id}"


def test_a_very_long_title_does_not_bury_the_page(project: Path) -> None:
    with serving(project, [{"output": "done", "files": {"a.txt": "x\n"}}]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "write it"}).json()["task_id"]
        served.until_ended(task_id)
        (path,) = (project / ".pm-orchestrator" / "traces").glob("*.jsonl")
        path.write_text(path.read_text().replace('"title":"write it"', f'"title":"{"T" * 5000}"'))  # pm run --title
        heading = served.client.get(f"/tasks/{task_id}").text.partition("<h1>")[2].partition("</h1>")[0]
        assert 200 < len(heading) < 300
        assert heading.endswith("…")


def test_an_answer_is_shown_as_markdown_and_nothing_in_it_leads_elsewhere(project: Path) -> None:
    site = "https://evil.example"
    answer = (
        "# Done <b>\n\nI *mended* `login.py`:\nline two\n\n| a | b |\n|--:|---|\n| 1 | <i> |\n\n"
        f"```python\nx = '<script>'\n```\n[click]({site}) ![x]({site}/y) <{site}> &lt;u&gt; {EVIL}\n\n[ref]: {site}\n"
    )
    with serving(project, [{"output": answer, "files": {"a.txt": "x\n"}}]) as served:
        served.until_ended(served.client.post("/api/tasks", json={"prompt": "write it"}).json()["task_id"])
        page = served.client.get("/tasks/task-001").text
        exported = served.client.get("/tasks/task-001/export?format=html").text
    for told in (
        '<p class="heading">Done &lt;b&gt;</p>',
        "<em>mended</em> <code>login.py</code>:<br />\nline two",
        "<td>1</td>",
        "<code class=\"language-python\">x = '&lt;script&gt;'",
        f"[click]({site}) ![x]({site}/y)",
        f"&amp;lt;u&amp;gt; {SEEN}",
        f"[ref]: {site}",
    ):
        assert told in page, told
        assert told in exported, told
    assert "style=" not in page
    assert 'href="https://evil' not in page


def test_a_running_task_tells_its_tool_calls_and_how_long_it_takes(project: Path) -> None:
    with serving(project, [{**GOOD, "delay_ms": 600_000}]) as served:
        task_id = served.client.post("/api/tasks", json={"prompt": "write it"}).json()["task_id"]
        supervisor = served.app.state.service.supervisor
        for number in range(5):
            supervisor.live(Live(kind="tool_started", text=f"<b> {number}", tool="Bash", task_id=task_id))
        supervisor.live(Live(kind="usage", usage=Usage(input_tokens=1200), task_id=task_id))
        for _attempt in range(600):
            page = served.client.get(f"/tasks/{task_id}").text
            if "Now: 5 tool calls, 1,200 tok · <code>Bash &lt;b&gt; 4</code>" in page:
                break
            time.sleep(0.1)
        else:
            raise AssertionError(page)
        assert "Bash &lt;b&gt; 1" not in page
        served.client.post(f"/tasks/{task_id}/act", content="action=stop")


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
        beside = re.sub("<[^>]*>", "", served.client.get(f"{place}?split=true").text)
        assert "4-line 34+line &lt;three&gt;" in beside
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


def test_what_was_removed_stands_beside_what_came_in_its_place() -> None:
    lines = hunk_lines("a.txt", 1, 1, [" a", "-b", "-c", "+B", " d", "+e", "-f", "+g"])
    told = [tuple(line.text if line else "" for line in pair) for pair in side_by_side(lines)]
    assert told == [(" a", " a"), ("-b", "+B"), ("-c", ""), (" d", " d"), ("", "+e"), ("-f", "+g")]


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
