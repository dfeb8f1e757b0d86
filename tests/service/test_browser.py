"""The pages in a real browser: live updates, filters, hostile content that runs nothing, and accessibility."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from service.security import Session
from tests.service.support import BAD, GOOD, TOKEN, Served, serving
from tests.support.browser import chromium

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

EVIL = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<svg onload=\"document.title='owned'\"></svg> [click](javascript:document.title='owned') \u202eabc\u0007\u001b[31m"
)


expect.set_options(timeout=60_000)


@pytest.fixture
def codes() -> Session:
    return Session(TOKEN)


@pytest.fixture
def served(project: Path, codes: Session, request: pytest.FixtureRequest) -> Iterator[Served]:
    evil = {"output": EVIL, "files": {"page<b>.html": f"<p>{EVIL}</p>\n"}}
    slow = {**GOOD, "delay_ms": getattr(request, "param", 1500)}
    with serving(project, [BAD, slow, evil, GOOD]) as running:
        yield running


@pytest.fixture
async def page(served: Served, codes: Session) -> AsyncIterator[Page]:
    async with chromium() as browser:
        opened = await browser.new_page()
        await opened.goto(f"{served.url}/login?code={codes.link_code()}")
        yield opened


def start(served: Served, prompt: str = "Write login.py") -> str:
    task_id: str = served.client.post("/api/tasks", json={"prompt": prompt}).json()["task_id"]
    return task_id


async def test_a_running_task_is_followed_to_its_end_without_a_reload(served: Served, page: Page) -> None:
    task_id = start(served)
    await page.goto(f"{served.url}/tasks/{task_id}")
    await expect(page.get_by_text("Why it was sent back:")).to_be_visible()
    await expect(page.locator("h1 + p .badge")).to_have_text("COMPLETE")
    await expect(page.locator(".timeline > li")).to_have_count(2)


@pytest.mark.parametrize("served", [30_000], indirect=True)  # it goes on while the user types
async def test_a_live_page_leaves_focus_folds_and_what_is_being_typed_alone(served: Served, page: Page) -> None:
    task_id = start(served)
    await page.goto(f"{served.url}/tasks/{task_id}")
    await expect(page.get_by_text("Why it was sent back:")).to_be_visible()
    hint = page.get_by_label("Hint for the next turn")
    await hint.fill("keep the public")
    score = page.locator("select").first
    await score.select_option("3", force=True)  # it is in a fold
    await page.locator("#answer-task-0 > summary").click()
    first = page.locator("#it-task-0")
    for focused in (False, True):  # an attribute that the page has not goes with its renewal, a property stays
        await first.evaluate("each => { each.dataset.old = each.same = 'yes' }")
        if focused:
            await hint.focus()
            await page.keyboard.type(" names")
        await expect(first).not_to_have_attribute("data-old", "yes")
    assert await first.evaluate("each => each.same") == "yes", "the node is a new one"
    assert not await page.locator("#answer-task-0").evaluate("each => each.open")
    assert await hint.input_value() == "keep the public names"
    assert await score.input_value() == "3"
    assert await page.evaluate("document.activeElement.id") == "hint"


async def test_a_task_is_started_and_undone_on_the_page(served: Served, page: Page) -> None:
    await page.get_by_text("New task").click()
    await page.get_by_label("What is to be done").fill("Write login.py")
    await page.get_by_role("button", name="Start").click()
    await expect(page.locator("h1 + p .badge")).to_have_text("COMPLETE")
    await page.reload()
    await page.get_by_role("button", name="Undo its work").click()
    await expect(page.locator("h1 + p .badge")).to_be_visible()
    assert not (served.project / "login.py").exists()


async def test_the_list_shows_a_new_task_by_itself(served: Served, page: Page) -> None:
    await expect(page.get_by_text("No tasks in this project yet")).to_be_visible()
    start(served, "Add a page")
    await expect(page.get_by_role("cell", name="Add a page")).to_be_visible()


async def test_a_list_follows_the_filter_while_it_is_typed(served: Served, page: Page) -> None:
    for prompt in ("Write login.py", "Add a page"):
        served.until_ended(start(served, prompt))
    await page.goto(served.url)
    await page.get_by_label("Filter").press_sequentially("prompt:pag")
    await expect(page.locator("tbody tr[id^=row-]")).to_have_count(1)
    await expect(page).to_have_url(f"{served.url}/?q=prompt%3Apag")
    assert await page.evaluate("document.activeElement.id") == "q"
    await page.get_by_label("Filter").fill("prompt:pag cost:")  # at once: what leads there finds nothing
    await page.wait_for_timeout(300)
    await expect(page.locator("tbody tr[id^=row-]")).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("cost:")


async def test_a_title_without_a_blank_hides_no_status_on_a_narrow_screen(served: Served, page: Page) -> None:
    served.until_ended(start(served, "T" * 200))
    await page.set_viewport_size({"width": 375, "height": 700})
    await page.goto(served.url)
    badge = await page.locator("tbody .badge").first.bounding_box()
    assert badge is not None
    assert badge["x"] + badge["width"] <= 375


async def test_facts_are_filtered_and_a_link_leads_to_one_fact(served: Served, page: Page) -> None:
    task_id = start(served)
    served.until_ended(task_id)
    await page.goto(f"{served.url}/tasks/{task_id}/trace")
    await page.get_by_label("Filter").fill("event:QUALITY_JUDGMENT failed")
    await page.get_by_role("button", name="Show").click()
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.goto(f"{served.url}/tasks/{task_id}/trace#fact-4")
    await expect(page.locator("#fact-4")).to_be_in_viewport()
    await page.goto(f"{served.url}/tasks/{task_id}/trace?q=colour:red")
    await expect(page.get_by_role("alert")).to_contain_text("colour")


def hostile_sessions(served: Served) -> tuple[str, str]:
    """Two distilled sessions with hostile text in every field and a word of a million letters, and a native one."""
    meta = {"type": "meta", "session_id": EVIL, "tools": 2, "errors": 1, "tokens": {"input": 1, "output": 1}}
    meta |= dict.fromkeys(("ts", "label", "provider", "model", "cwd", "prompt", "thoughts"), EVIL)
    step = dict.fromkeys(("ts", "text", "name", "args_summary", "output_tail", "status", "role"), EVIL)
    steps = [{**step, "type": kind} for kind in ("thought", "message", "tool", "tool", "tool", "error", EVIL)]
    steps.append({"type": "thought", "text": "W" * 1_000_000})
    names = ("trace_20260321_1457_a.jsonl", "trace_20260321_1458_b.jsonl")
    for name in names:
        path = served.project / ".pm-orchestrator" / "agentic-traces" / name
        path.write_text("".join(json.dumps(line) + "\n" for line in [meta, *steps]))
    native = Path(os.environ["HOME"]) / ".claude" / "projects" / "-w"
    native.mkdir(parents=True)
    line = {"type": "user", "sessionId": "5e6f7a8b-0000-4000-8000-000000000001", "cwd": f"/{EVIL}", "version": EVIL}
    (native / "5e6f7a8b-0000-4000-8000-000000000001.jsonl").write_text(json.dumps(line) + "\n")
    return names


async def test_hostile_text_runs_nothing_and_is_shown_as_text(served: Served, page: Page) -> None:
    first = start(served, "W" * 100_000)
    served.until_ended(first)
    task_id = start(served, EVIL)
    served.until_ended(task_id)
    one, other = hostile_sessions(served)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    for author in (EVIL, "B"):
        body = {"author": author, "flags": f"{EVIL},{'W' * 50}", "comment": EVIL + "W" * 5_000}
        for subject in (f"tasks/{task_id}", f"sessions/{one}"):
            assert served.client.post(f"/{subject}/labels", data=body).status_code == 303
    trace, evil = f"/tasks/{task_id}/trace", quote(EVIL)
    await page.set_viewport_size({"width": 375, "height": 800})
    for path, seen in (
        ("/docs", False),
        ("/insights", True),
        ("/sessions", True),
        ("/agentic", True),
        ("/agentic?q=labelled&sort=errors", True),
        (f"/agentic/{one}?audited=true", True),
        (f"/compare?kind=sessions&pick={one}&pick={other}", True),
        (f"/compare?kind={evil}", False),
        (f"/compare?a={evil}&b={evil}", True),
        ("/?q=labelled", True),
        (f"/?q={evil}", True),
        (f"/{evil}", False),
        ("/", True),
        (f"/tasks/{task_id}/review", True),
        (f"/tasks/{first}", False),
        (f"/compare?pick={task_id}&pick={first}", True),
        (f"{trace}?fact=3", True),
        (f"{trace}?q={evil}", True),
        (f"/tasks/{task_id}", True),
    ):
        await page.goto(served.url + path)
        await page.wait_for_timeout(100)
        assert await page.title() != "owned", path
        bad = "main script, main img, main svg[onload], main a[href^=javascript]"
        assert await page.locator(bad).count() == 0, path
        wide = "[...document.querySelectorAll('body *')].filter((e) => !e.closest('.scroll, pre, .skip')"
        wide += " && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80))"
        assert await page.evaluate(wide) == [], path
        text = await page.content()
        assert not {"\u202e", "\x1b", "\x07"} & set(text), path
        assert ("&lt;script&gt;" in text) or not seen, path
    assert not dialogs


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_serious_is_wrong_for_people_who_use_other_means(served: Served, page: Page, scheme: Any) -> None:
    task_id = start(served)
    served.until_ended(task_id)
    folder = served.project / ".pm-orchestrator" / "agentic-traces"
    name = "trace_20260321_1457_run__task_google.jsonl"
    call = {"type": "tool", "ts": "2026-03-21T14:55:47", "name": "run", "args_summary": "make", "status": "error"}
    meta = {"type": "meta", "ts": "2026-03-21T14:57:45", "label": "run:task", "provider": "google", "success": False}
    thought = {"type": "thought", "ts": "2026-03-21T14:55:46", "text": "Reading."}
    lines = [meta, thought, call, call, call]
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    await page.emulate_media(color_scheme=scheme)
    compared = f"/compare?a={task_id}&b={task_id}"
    own = ("/", "/?q=colour:red", f"/tasks/{task_id}", f"/tasks/{task_id}/trace?fact=4", f"/tasks/{task_id}/review")
    own += (f"/tasks/{task_id}/review?split=true",)
    sessions = f"/compare?kind=sessions&a={name}&b={name}"
    for path in (
        *own,
        "/captures",
        "/insights",
        compared,
        sessions,
        "/docs",
        "/nothing",
        "/agentic",
        f"/agentic/{name}",
    ):
        await page.goto(served.url + path)
        for width in (1440, 375):
            await page.set_viewport_size({"width": width, "height": 800})
            found = (await Axe().run(page)).response["violations"]
            assert not found, (path, width, json.dumps(found, indent=1)[:3000])
    await expect(page.get_by_role("heading", name="Loops")).to_be_visible()


async def test_keys_lead_through_a_long_trace_that_is_read_as_it_is_scrolled(served: Served, page: Page) -> None:
    task_id = start(served)
    served.until_ended(task_id)
    (path,) = (served.project / ".pm-orchestrator" / "traces").glob("*.jsonl")
    first, *body, last = path.read_bytes().splitlines(keepends=True)
    long = path.with_suffix(".new")
    long.write_bytes(first + b"".join(body) * 400 + last)
    long.replace(path)
    total = 2 + len(body) * 400
    await page.goto(f"{served.url}/tasks/{task_id}/trace")
    await expect(page.get_by_text(f"of {total:,} events")).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    assert await page.evaluate("document.activeElement.closest('tr').id") == "fact-1"
    await page.keyboard.press("n")
    assert await page.evaluate("document.activeElement.closest('tr').classList.contains('failed')")
    await page.keyboard.press("Enter")
    await expect(page.locator("tr.shown pre")).to_contain_text("QUALITY_JUDGMENT")
    for seen in range(400, 1600, 200):  # the rows that left make place
        await page.evaluate("document.getElementById('facts').scrollTop = 1e9")
        await expect(page.locator(f"#fact-{seen - 1}")).to_be_attached()
    assert await page.locator("#facts tbody tr[id]").count() <= 1000
    assert await page.locator("#fact-0").count() == 0
    await page.keyboard.press("G")
    await expect(page.locator(f"#fact-{total - 1}")).to_be_attached()
    await page.goto(f"{served.url}/tasks/{task_id}/trace#fact-1800")
    await expect(page.locator("#fact-1800")).to_be_in_viewport()


async def test_insights_draw_what_rejected_and_compare_shows_two_tasks(served: Served, page: Page) -> None:
    first, second = start(served), start(served, "Another one")
    served.until_ended(first)
    served.until_ended(second)
    await page.goto(f"{served.url}/insights")
    await expect(page.get_by_role("heading", name="Criteria that reject most")).to_be_visible()
    await expect(page.locator("svg .bar").first).to_be_visible()
    await page.goto(f"{served.url}/compare")
    await page.get_by_label("First").fill(first)
    await page.get_by_label("Second").fill(second)
    await page.get_by_role("button", name="Compare").click()
    await expect(page.get_by_role("row", name="Title Write login.py Another one")).to_be_visible()
    await page.goto(f"{served.url}/compare?a={first}&b=task-999")
    await expect(page.get_by_role("alert")).to_contain_text("task-999")


async def test_a_narrow_page_does_not_scroll_sideways(served: Served, page: Page) -> None:
    task_id = start(served)
    served.until_ended(task_id)
    await page.set_viewport_size({"width": 375, "height": 800})
    for path in ("/", f"/tasks/{task_id}", f"/tasks/{task_id}/trace"):
        await page.goto(served.url + path)
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path


def test_the_pages_are_complete_without_javascript(served: Served) -> None:
    task_id = start(served)
    served.until_ended(task_id)
    text = served.client.get(f"/tasks/{task_id}").text
    for expected in ("Why it was sent back", "Q2: TODO found", "Changes on disk", "COMPLETE"):
        assert expected in text
