"""A day in the browser, by mouse and by keyboard alone, through nginx with TLS under a host name of its own."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Locator, Page, expect

from tests.collector.http.scene import events, opening
from tests.runner.workspace.support import git
from tests.service.test_proxy import NAME, proxied, sign_in_link
from tests.support.browser import chromium

pytestmark = [pytest.mark.browser, pytest.mark.torture, pytest.mark.machine, pytest.mark.timeout(300)]
expect.set_options(timeout=60_000)

TEST = "from shop import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
REPLIES = [
    {"match": "User's answer|argon2", "output": "Done with argon2.", "files": {"login.py": "HASH = 'argon2'\n"}},
    {"match": "passwords", "output": "I read login.py.\n\nWhich hash?\n\n1. argon2\n2. bcrypt"},
    {"match": "slowly", "output": "Late", "delay_ms": 600_000},
    {"match": "faster", "output": "Fast now", "files": {"shop.py": "total = sum\n", "test_shop.py": None}},
    {"output": "The sign-up form is there", "files": {"signup.py": "READY = True\n"}},
]


class Mouse:
    """One who clicks."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def press(self, what: Locator) -> None:
        """Follow a link, press a button, open a fold, tick a box."""
        await what.click()

    async def write(self, what: Locator, text: str) -> None:
        """Write into a field."""
        await what.click()
        await self.page.keyboard.type(text)

    async def choose(self, what: Locator, value: str) -> None:
        """Choose from a list."""
        await what.select_option(value)


class Keyboard(Mouse):
    """One who has no mouse: Tab until it has the focus."""

    async def _reach(self, what: Locator) -> None:
        await expect(what).to_be_visible()
        for _step in range(300):
            if await what.evaluate("each => each === document.activeElement"):
                return
            await self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab never leads to {what}")

    async def press(self, what: Locator) -> None:
        await self._reach(what)
        ticked = await what.evaluate("each => each.type === 'checkbox'")
        await self.page.keyboard.press("Space" if ticked else "Enter")

    async def write(self, what: Locator, text: str) -> None:
        await self._reach(what)
        await self.page.keyboard.type(text)

    async def choose(self, what: Locator, value: str) -> None:
        await self._reach(what)
        await self.page.keyboard.type(value)


@pytest.fixture
def behind(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    (project / "shop.py").write_text("def total(prices):\n    return sum(prices)\n")
    (project / "test_shop.py").write_text(TEST)
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "-c", "user.name=U", "-c", "user.email=u@example.com", "commit", "-qm", "base")
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in REPLIES))
    monkeypatch.setenv("PM_EXECUTOR", "scripted")
    monkeypatch.setenv("PM_SCRIPT", str(script))
    monkeypatch.setenv("PM_TEST", "true")
    with proxied(project, tmp_path) as (port, _cert):
        token = (project / ".pm-orchestrator" / "serve-token").read_text().strip()
        headers = {"authorization": f"Bearer {token}", "host": NAME}
        with httpx2.Client(base_url=f"https://127.0.0.1:{port}", verify=False, headers=headers) as client:
            for _each in range(2):
                trace_id = client.post("/traces", json=opening()).json()["trace_id"]
                client.post(f"/traces/{trace_id}/events", json={"events": events()}).raise_for_status()
                client.post(f"/traces/{trace_id}/finalize", json={}).raise_for_status()
        yield port


@pytest.fixture
async def page(behind: int) -> AsyncIterator[Page]:
    async with chromium(f"--host-resolver-rules=MAP {NAME}:443 127.0.0.1:{behind}") as browser:
        context = await browser.new_context(ignore_https_errors=True, accept_downloads=True)
        yield await context.new_page()


@pytest.mark.parametrize("hand", [Mouse, Keyboard])
async def test_a_day_in_the_browser(project: Path, page: Page, hand: type[Mouse]) -> None:
    me = hand(page)

    async def begin(prompt: str) -> str:
        await me.press(page.get_by_role("link", name="Tasks", exact=True))
        await me.press(page.locator("#new > summary"))
        await me.write(page.get_by_label("What is to be done"), prompt)
        await me.press(page.get_by_role("button", name="Start"))
        await expect(page.locator("h1")).to_contain_text(prompt)
        return (await page.locator("h1").inner_text()).partition(" ")[0]

    status = page.locator("h1 + p .badge")
    await page.goto(sign_in_link(project))
    # A waiting task is answered.
    asked = await begin("Store the passwords")
    await me.press(page.get_by_role("button", name="argon2"))
    await expect(status).to_have_text("COMPLETE")
    # One is started and stopped.
    await begin("Do it slowly")
    await me.press(page.get_by_role("button", name="Stop", exact=True))
    await expect(status).to_have_text(re.compile("UNFINISHED|INCOMPLETE"))
    # One is reviewed and undone.
    made = await begin("Make a sign-up form")
    await expect(status).to_have_text("COMPLETE")
    assert (project / "signup.py").exists()
    await me.press(page.get_by_role("link", name="Review what it changed"))
    await expect(page.get_by_text("READY").first).to_be_visible()
    await me.press(page.get_by_role("link", name=made))
    await me.press(page.get_by_role("button", name="Undo its work"))
    await expect(page).to_have_url(f"https://{NAME}/tasks/{made}")
    assert not (project / "signup.py").exists()
    # The task of last week in which the agent deleted a test: the list, the filter, the task.
    deleted = await begin("Make it faster")
    await expect(page.get_by_text("Why it was sent back").first).to_be_visible()
    await me.press(page.get_by_role("link", name="Tasks", exact=True))
    await me.write(page.get_by_label("Filter"), "since:7d finding:deleted finding:test")
    await page.keyboard.press("Enter")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await me.press(page.get_by_role("link", name=deleted))
    await expect(page.get_by_text("test_shop.py").first).to_be_visible()
    # Two are compared.
    await me.press(page.get_by_role("link", name="Tasks", exact=True))
    for task_id in (asked, deleted):
        await me.press(page.get_by_label(f"Compare {task_id}"))
    await me.press(page.get_by_role("button", name="Compare the two"))
    await expect(page.get_by_role("row", name="Title Make it faster Store the passwords")).to_be_visible()
    # A capture is labelled, and what is labelled is exported.
    await me.press(page.get_by_role("link", name="Captures", exact=True))
    await me.press(page.get_by_role("link", name="Order total counts only the first item").first)
    await me.press(page.locator("#add-label > summary"))
    await me.choose(page.get_by_label("overall"), "4")
    await me.write(page.get_by_label("Flags"), "odd")
    await me.write(page.get_by_label("Your name"), "Ann")
    await me.press(page.get_by_role("button", name="Add"))
    await expect(page.locator("#labels + ul")).to_contain_text("Ann")
    await me.press(page.get_by_role("link", name="Captures", exact=True))
    await me.write(page.get_by_label("Filter"), "flag:odd")
    await page.keyboard.press("Enter")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await me.press(page.locator("#export > summary"))
    async with page.expect_download(timeout=60_000) as waiting:
        await me.press(page.get_by_role("button", name="Export", exact=True))
    saved = await (await waiting.value).path()
    with zipfile.ZipFile(io.BytesIO(saved.read_bytes())) as found:
        assert len(found.read("set.jsonl").splitlines()) == 1
        assert [json.loads(line)["author"] for line in found.read("labels.jsonl").splitlines()] == ["Ann"]
