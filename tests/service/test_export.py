"""A task as one file: whole, safe to open, and without secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.export import FORMATS, export_task
from tests.service.support import BAD, GOOD, serving
from tracer.lookup import TaskRef, resolve_task
from tracer.redaction.engine import build_redactor
from tracer.redaction.leaks import LeakError
from tracer.statedir import StateDir

EVIL = "<script>alert(1)</script> ```` # not a heading\n````\n[x](javascript:alert(1)) \u202e"


def recorded(project: Path, replies: list[dict[str, Any]], prompt: str = "Write login.py") -> tuple[StateDir, TaskRef]:
    with serving(project, replies) as served:
        served.until_ended(served.client.post("/api/tasks", json={"prompt": prompt}).json()["task_id"])
    state_dir = StateDir(project / ".pm-orchestrator")
    return state_dir, resolve_task(state_dir, "task-001")


def redactor(state_dir: StateDir, **options: Any) -> Any:
    return build_redactor(state_dir=state_dir.root, environ={}, host="", persons=(), truncate=False, **options)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_holds_the_story(project: Path, form: Any) -> None:
    state_dir, ref = recorded(project, [BAD, GOOD])
    text = export_task(state_dir, ref, form=form, redactor=redactor(state_dir)).text
    for expected in ("Write login.py", "TODO: implement this", "Fully implemented", "REJECT", "COMPLETE", "login.py"):
        assert expected in text


def test_json_is_the_api_document(project: Path) -> None:
    state_dir, ref = recorded(project, [BAD, GOOD])
    document = json.loads(export_task(state_dir, ref, form="json", redactor=redactor(state_dir)).text)
    assert document["summary"] == {"total_iterations": 2, "judgments": ["REJECT", "PASS"], "final_status": "COMPLETE"}
    assert document["entries"][0]["event"] == "USER_REQUEST"


def test_hostile_text_is_neither_markup_nor_script(project: Path) -> None:
    state_dir, ref = recorded(project, [{"output": EVIL, "files": {"a.py": "A = 1\n"}}], EVIL)
    page = export_task(state_dir, ref, form="html", redactor=redactor(state_dir)).text
    assert "<script" not in page
    assert "\u202e" not in page
    text = export_task(state_dir, ref, form="md", redactor=redactor(state_dir)).text
    assert "`````\n" in text
    assert "\n# not a heading" not in text


def test_the_page_needs_nothing_beside_itself(project: Path) -> None:
    state_dir, ref = recorded(project, [GOOD])
    page = export_task(state_dir, ref, form="html", redactor=redactor(state_dir)).text
    assert "<style>" in page
    for foreign in ("<link", "src=", "http://", "https://", "/api/", 'href="/'):
        assert foreign not in page


def test_paths_are_rewritten_and_counted(project: Path) -> None:
    state_dir, ref = recorded(project, [{"output": f"See {project}/login.py", "files": {"login.py": "A = 1\n"}}])
    exported = export_task(
        state_dir, ref, form="md", redactor=redactor(state_dir, project_root=project, rewrite_paths=True)
    )
    assert str(project) not in exported.text
    assert "$PROJECT_ROOT/login.py" in exported.text


def test_a_copy_that_would_still_hold_a_secret_is_not_made(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state_dir, ref = recorded(project, [GOOD])
    secret = "-".join(["sk", "ant", "api03", "A1b2C3d4E5f6G7h8" * 6 + "AA"])
    first = redactor(state_dir)
    monkeypatch.setattr("service.export.explained", lambda _status, _reason: secret)
    with pytest.raises(LeakError, match="nothing was written"):
        export_task(state_dir, ref, form="md", redactor=first)


def test_the_page_keeps_its_style_sheet_whole(project: Path) -> None:
    state_dir, ref = recorded(project, [GOOD])
    page = export_task(state_dir, ref, form="html", redactor=redactor(state_dir)).text
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert ".card > h3" in style
    assert "&gt;" not in style
