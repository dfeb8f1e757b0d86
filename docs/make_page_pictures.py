"""Makes the pictures of the browser pages in docs/pictures from the running service, so that they stay true.

    python docs/make_page_pictures.py

Needs Chromium. A scripted task and a made-up captured session stand in; no key and no network are needed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from playwright.async_api import async_playwright  # noqa: E402 - the checkout comes first on the path

from collector.opening import open_collector  # noqa: E402
from service.security import Session  # noqa: E402
from tests.collector.http.scene import checked, events, opening  # noqa: E402
from tests.service.support import TOKEN, Served, serving  # noqa: E402
from tracer.settings.layers import load_settings  # noqa: E402
from tracer.statedir import StateDir  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
WIDTH, HEIGHT = 1200, 900
BAD = "def validate_email(address):\n    # TODO: implement\n    return True\n"
GOOD = """def validate_email(address):
    name, at, host = address.partition("@")
    return bool(name and at and "." in host)
"""
REPLIES: list[dict[str, Any]] = [
    {"output": "I added validate_email() to src/signup.py.", "files": {"src/signup.py": BAD},
     "usage": {"input_tokens": 2000, "output_tokens": 140}},
    {"output": "validate_email() now checks the name and the host.", "files": {"src/signup.py": GOOD},
     "usage": {"input_tokens": 2500, "output_tokens": 110}},
]  # fmt: skip


async def captured(served: Served) -> str:
    """A captured session with its checks."""
    trace_id: str = served.client.post("/traces", json=opening()).json()["trace_id"]
    served.client.post(f"/traces/{trace_id}/events", json={"events": events()}).raise_for_status()
    state_dir = StateDir(served.project / ".pm-orchestrator")
    settings = load_settings(project=state_dir.root, environ=os.environ)
    async with open_collector(state_dir, settings, environ=os.environ) as collector:
        await checked(collector, trace_id)
    return trace_id


async def pictures() -> None:
    """Serve, open each page, keep its picture."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("Chromium is not on PATH")
    with tempfile.TemporaryDirectory() as place:
        os.environ["HOME"] = place
        folder = Path(place) / "shop-api"
        folder.mkdir()
        with serving(folder, REPLIES) as served:
            body = {"prompt": "add input validation to the signup form"}
            task_id = served.client.post("/api/tasks", json=body).json()["task_id"]
            served.until_ended(task_id)
            trace_id = await captured(served)
            pages = {
                "tasks": "/",
                "task": f"/tasks/{task_id}",
                "trace": f"/tasks/{task_id}/trace",
                "review": f"/tasks/{task_id}/review",
                "captures": "/captures",
                "capture": f"/captures/{trace_id}",
            }
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(
                    executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
                )
                page = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
                await page.goto(f"{served.url}/login?code={Session(TOKEN).link_code()}")
                for name, path in pages.items():
                    await page.goto(served.url + path)
                    await page.wait_for_timeout(300)
                    whole = name in {"task", "capture"}
                    target = PICTURES / f"page-{name}.jpg"
                    await page.screenshot(path=target, type="jpeg", quality=70, full_page=whole)
                await browser.close()


if __name__ == "__main__":
    asyncio.run(pictures())
