"""A task's page in Chromium while its record grows by ten events a second: nothing that the reader did is undone.

`PM_TEST_LIVE_S=300` for as long as one reads a page; the default is short.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from service.security import Session
from tests.service.support import TOKEN, Served, serving
from tests.support.browser import chromium
from tracer.conversation import ConversationTracer

SECONDS = float(os.environ.get("PM_TEST_LIVE_S", "6"))
pytestmark = [pytest.mark.browser, pytest.mark.torture, pytest.mark.timeout(SECONDS + 240)]
TASK = "task-900"
FAILED = [{"id": "Q2", "name": "No TODOs", "passed": False, "reason": "TODO left"}]

expect.set_options(timeout=60_000)

READ = """() => {
  const pre = document.querySelector('#prompt-task-0 pre');
  return {
    focus: document.activeElement.id, typed: document.getElementById('hint').value,
    selected: getSelection().toString(), same: window.kept === document.getElementById('it-task-0'),
    folds: [...document.querySelectorAll('#it-task-0 details')].map((each) => each.open),
    inside: pre.scrollTop, still: Math.abs(document.getElementById('it-task-0').getBoundingClientRect().top) < 2,
  };
}"""


@pytest.fixture
def served(project: Path) -> Iterator[Served]:
    with serving(project, []) as running:
        yield running


@pytest.fixture
async def page(served: Served) -> AsyncIterator[Page]:
    async with chromium() as browser:
        opened = await browser.new_page(viewport={"width": 1200, "height": 700})
        await opened.goto(f"{served.url}/login?code={Session(TOKEN).link_code()}")
        yield opened


async def iteration(tracer: ConversationTracer, index: int, pause: float) -> None:
    """Five events, each after the pause."""
    await tracer.log_llm_request("\n".join(f"Write line {line}" for line in range(200)), index)
    await asyncio.sleep(pause)
    await tracer.log_llm_response(f"Answer {index}", "COMPLETE", ["a.py"], index)
    await asyncio.sleep(pause)
    await tracer.log_quality_judgment("REJECT", FAILED, index)
    await asyncio.sleep(pause)
    await tracer.log_rejection_details(["Q2"], "Fix: Q2", index)
    await asyncio.sleep(pause)
    await tracer.log_iteration_end(index, "REJECT")
    await asyncio.sleep(pause)


async def test_ten_events_a_second_leave_focus_selection_folds_and_scroll(served: Served, page: Page) -> None:
    tracer = ConversationTracer(state_dir=served.project / ".pm-orchestrator", session_id="s", task_id=TASK)
    await tracer.log_user_request("Write it " + "word " * 40, extra={"title": "Write it"})
    await tracer.log_system_rules("rules")
    await iteration(tracer, 0, 0)
    await page.goto(f"{served.url}/tasks/{TASK}")
    await expect(page.locator("#it-task-0 .badge").first).to_have_text("REJECT")
    await page.get_by_label("Hint for the next turn").fill("keep the names")
    await page.locator("#criteria-task-0 > summary").click()
    await page.locator("#prompt-task-0 > summary").click()
    await page.evaluate("""() => {
      document.querySelector('#prompt-task-0 pre').scrollTop = 300;
      window.kept = document.getElementById('it-task-0');
      document.getElementById('hint').focus({preventScroll: true});
      getSelection().selectAllChildren(document.querySelector('#answer-task-0 .prose'));
      document.getElementById('it-task-0').scrollIntoView();
      document.getElementById('hint').focus({preventScroll: true});
    }""")
    before = await page.evaluate(READ)
    assert (before["inside"], before["focus"], before["selected"]) == (300, "hint", "Answer 0")
    until = asyncio.get_running_loop().time() + SECONDS

    async def work() -> int:
        index = 0
        while asyncio.get_running_loop().time() < until:
            index += 1
            await iteration(tracer, index, 0.1)
        return index

    working = asyncio.create_task(work())
    try:
        while not working.done():
            await asyncio.wait({working}, timeout=1)
            assert await page.evaluate(READ) == before
    finally:
        last = await working
    await expect(page.locator(f"#it-task-{last} .badge").first).to_have_text("REJECT")
    assert await page.evaluate(READ) == before
    await tracer.close()
