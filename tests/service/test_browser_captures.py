"""The pages of captures and native sessions in a real browser: what they tell, hostile content, accessibility."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from collector.opening import open_collector
from service.security import Session
from tests.collector.http.scene import checked, events, opening
from tests.service.support import TOKEN, Served, serving
from tests.support.browser import chromium
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

EVIL = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<svg onload=\"document.title='owned'\"></svg> [click](javascript:document.title='owned') \u202eabc\u0007\u001b[31m"
)

expect.set_options(timeout=60_000)


CODES = Session(TOKEN)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("pages") / "project"
    folder.mkdir()
    with serving(folder, []) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def page(served: Served, browser: Browser) -> AsyncIterator[Page]:
    context = await browser.new_context()
    opened = await context.new_page()
    await opened.goto(f"{served.url}/login?code={CODES.link_code()}")
    yield opened
    await context.close()


async def captured(served: Served, *, note: str = "", finished: bool = True, **more: Any) -> str:
    """A captured session on the running service; the checks' results come from another process's door."""
    trace_id: str = served.client.post("/traces", json=opening(**more)).json()["trace_id"]
    answer = served.client.post(f"/traces/{trace_id}/events", json={"events": events(note)})
    assert answer.status_code == 200, answer.text
    if finished:
        state_dir = StateDir(served.project / ".pm-orchestrator")
        settings = load_settings(project=state_dir.root, environ=os.environ)
        async with open_collector(state_dir, settings, environ=os.environ) as collector:
            await checked(collector, trace_id, note=note)
    return trace_id


async def test_a_capture_tells_what_was_done_proved_and_scored(served: Served, page: Page) -> None:
    trace_id = await captured(served)
    await page.goto(f"{served.url}/captures")
    row = page.get_by_role("row", name="Order total counts only the first item").first
    await expect(row).to_contain_text("passed")
    await expect(row).to_contain_text("4.5")
    await row.get_by_role("link").click()
    await expect(page).to_have_url(f"{served.url}/captures/{trace_id}")
    await expect(page.get_by_text("fail at the base commit and pass with the fix")).to_be_visible()
    proof = page.get_by_role("region", name="Tests before and after the fix")
    await expect(proof.get_by_role("row", name="tests/test_total.py::test_two_items failed passed")).to_be_visible()
    scores = page.get_by_role("region", name="Scores")
    await expect(scores.get_by_role("row", name="Root cause 5.0 event 3 event 4")).to_be_visible()
    await scores.get_by_role("link", name="event 3").first.click()
    await expect(page.locator("#event-3")).to_be_in_viewport()


async def test_thoughts_stand_beside_what_they_speak_of_and_output_follows_its_command(
    served: Served, page: Page
) -> None:
    trace_id = await captured(served)
    await page.set_viewport_size({"width": 1280, "height": 900})
    await page.goto(f"{served.url}/captures/{trace_id}")
    command = page.locator("#event-1 .card")
    await expect(command).to_contain_text("1 failed, 1 passed")
    assert "\x1b" not in await command.inner_text()
    assert "[31m" not in await command.inner_text()
    failing, edit = page.locator("#event-3"), page.locator("#event-7")
    await expect(failing.locator("aside")).to_contain_text("nothing adds up")
    await expect(edit.locator("aside")).to_contain_text("Sum the prices")
    await expect(edit.locator("pre.diff .added").last).to_have_text("+    return sum(item.price for item in items)")
    card, aside = await edit.locator(".card").bounding_box(), await edit.locator("aside").bounding_box()
    assert card is not None
    assert aside is not None
    assert aside["x"] >= card["x"] + card["width"]
    await expect(page.locator("#event-12")).to_contain_text("A test with two items")


async def test_an_open_capture_follows_what_comes(served: Served, page: Page) -> None:
    trace_id = await captured(served, finished=False)
    await page.goto(f"{served.url}/captures/{trace_id}")
    more = {**events()[0], "seq": 20, "event_id": "3f0c4a52-7d1e-4c55-9b11-0a2f6f1f8a10"}
    more["payload"] = {**more["payload"], "command": "git push"}
    served.client.post(f"/traces/{trace_id}/events", json={"events": [more]})
    await expect(page.locator("#event-20")).to_contain_text("git push")


async def test_a_long_capture_is_read_in_pages(served: Served, page: Page) -> None:
    trace_id = await captured(served, finished=False)
    first = events()[0]
    more = [{**first, "seq": 20 + at, "event_id": f"3f0c4a52-7d1e-4c55-9b11-{at:012d}"} for at in range(400)]
    served.client.post(f"/traces/{trace_id}/events", json={"events": more})
    await page.goto(f"{served.url}/captures/{trace_id}")
    await page.get_by_role("link", name="Later events").click()
    await expect(page.locator("#event-200")).to_be_visible()
    await page.get_by_role("link", name="First events").click()
    await expect(page.locator("#event-1")).to_be_visible()


async def test_hostile_captures_run_nothing_and_are_shown_as_text(served: Served, page: Page) -> None:
    report = {"title": EVIL, "description": EVIL, "links": ["javascript:document.title='owned'"]}
    trace_id = await captured(served, note=EVIL, task={"bug_report": report, "labels": [EVIL]})
    body = {"author": EVIL, "flags": EVIL, "comment": EVIL + "W" * 5_000}
    assert served.client.post(f"/captures/{trace_id}/labels", data=body).status_code == 303
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    for path in ("/captures", f"/captures/{trace_id}", f"/compare?kind=captures&a={trace_id}&b={trace_id}"):
        await page.goto(served.url + path)
        await page.wait_for_timeout(300)
        assert await page.title() != "owned"
        assert await page.locator("main script, main img, main svg[onload], main a[href^=javascript]").count() == 0
        text = await page.locator("main").inner_text()
        assert "<script>" in text
        assert "\u202e" not in text
        assert "\x1b" not in text
    assert not dialogs
    blob = served.client.get(f"/traces/{trace_id}").json()["events"][3]["payload"]["content_blob_id"]
    answer = served.client.get(f"/blobs/{blob}")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def native_session(home: Path) -> None:
    """A session as Claude Code keeps it."""
    folder = home / ".claude" / "projects" / "-w-shop"
    folder.mkdir(parents=True)
    line = {
        "type": "user",
        "sessionId": "5e6f7a8b-0000-4000-8000-000000000001",
        "cwd": "/w/shop<b>",
        "version": "2.0.0",
        "timestamp": "2026-03-21T14:55:46.000Z",
        "message": {"role": "user", "content": "Fix the total"},
    }
    (folder / "5e6f7a8b-0000-4000-8000-000000000001.jsonl").write_text(json.dumps(line) + "\n")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_serious_is_wrong_for_people_who_use_other_means(served: Served, page: Page, scheme: Any) -> None:
    native_session(Path(os.environ["HOME"]))
    trace_id = await captured(served)
    await page.emulate_media(color_scheme=scheme)
    for path in ("/captures", f"/captures/{trace_id}", "/sessions"):
        await page.goto(served.url + path)
        for width in (1440, 375):
            await page.set_viewport_size({"width": width, "height": 800})
            found = (await Axe().run(page)).response["violations"]
            assert not found, (path, width, json.dumps(found, indent=1)[:3000])


async def test_narrow_pages_do_not_scroll_sideways(served: Served, page: Page) -> None:
    native_session(Path(os.environ["HOME"]))
    trace_id = await captured(served, note="x" * 300)
    await page.set_viewport_size({"width": 375, "height": 800})
    for path in ("/captures", f"/captures/{trace_id}", "/sessions"):
        await page.goto(served.url + path)
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path


async def test_native_sessions_are_listed_with_how_to_distill_them(served: Served, page: Page) -> None:
    await page.goto(f"{served.url}/sessions")
    await expect(page.get_by_text("No native sessions found")).to_be_visible()
    native_session(Path(os.environ["HOME"]))
    await page.reload()
    row = page.locator("tbody tr")
    await expect(row).to_contain_text("claude")
    await expect(row).to_contain_text("/w/shop<b>")
    await row.get_by_text("5e6f7a8b", exact=True).click()
    await expect(row).to_contain_text("pm distill --session")
    await page.goto(f"{served.url}/sessions?here=true")
    await expect(page.get_by_text("No native sessions found for this project")).to_be_visible()


async def test_the_pages_need_the_token_and_say_when_there_is_nothing(project: Path) -> None:
    with serving(project, []) as served:
        assert "No captured sessions yet" in served.client.get("/captures").text
        unknown = served.client.get("/captures/3f0c4a52-7d1e-4c55-9b11-0a2f6f1f8a10")
        assert unknown.status_code == 404
        for path in ("/captures", "/sessions", "/captures/3f0c4a52-7d1e-4c55-9b11-0a2f6f1f8a10"):
            assert served.client.get(path, headers={"authorization": ""}).status_code == 401
