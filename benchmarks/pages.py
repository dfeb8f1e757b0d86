"""How long the browser's pages take on the server, beside a bare Starlette page in the same process and client.

    python -m benchmarks pages

A project of 10,000 tasks (one of 100,000 events), 1,000 agent sessions and 1,000 captures; each address is asked
for once to warm it, then 15 times. Prints the median, its ratio to the bare page, the least CPU time of server and
client (which says more on a machine with other work), and the size; then, where Chromium is there, how long a letter
in a list's filter takes to its rows.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from service.security import Session
from service.server import without_delay
from tests.collector.http.scene import opening
from tests.service.support import TOKEN, serving
from tests.tracer.support import SEED_LINES
from tracer.catalog.tasks import list_tasks
from tracer.statedir import StateDir

TASKS, SESSIONS, CAPTURES, EVENTS, ROUNDS = 10_000, 1_000, 1_000, 100_000, 15
ADDRESSES = (
    "/",
    "/?sort=-cost",
    "/?q=login",
    "/?q=login55+rejected",
    "/?q=finding:todo&sort=title&after=task-05000",
    "/agentic",
    "/agentic?q=thought:race&sort=-tokens",
    "/captures",
    "/captures?q=order&sort=-events",
    "/tasks/task-00001/trace",
    "/tasks/task-00001/trace?fact=77777",
    "/tasks/task-00001/trace?q=event:FINAL_SUMMARY",
    "/tasks/task-00002",
)


def fill(project: Path) -> None:
    """Write the tasks and sessions."""
    state_dir = StateDir(project / ".pm-orchestrator")
    state_dir.ensure()
    first, *body, last = SEED_LINES.splitlines(keepends=True)
    for number in range(1, TASKS + 1):
        task = f"task-{number:05d}"
        lines = first + b"".join(body) * (EVENTS // len(body) if number == 1 else 1) + last
        told = lines.replace(b"task-001", task.encode()).replace(b"login", b"login%d" % (number % 97))
        (state_dir.traces / f"conversation-{task}-2025-01-23T10-30-00.jsonl").write_bytes(told)
    for number in range(SESSIONS):
        steps = [
            {"type": "meta", "ts": f"2025-01-{number % 28 + 1:02d}T10:30:09", "label": f"fix:part{number}",
             "provider": "anthropic", "model": "m", "success": number % 3 > 0, "cost_usd": number / 1000,
             "tokens": {"input": number, "output": 5}, "tools": 40, "errors": number % 5},
            *({"type": "thought", "text": f"a race in part {number % 50}?"} for _ in range(20)),
            *({"type": "tool", "name": "Bash", "args_summary": "pytest -q", "status": "ok"} for _ in range(40)),
        ]  # fmt: skip
        path = state_dir.agentic_traces / f"trace_20250123_{number:06d}_claude.jsonl"
        path.write_text("".join(json.dumps(step) + "\n" for step in steps))


@contextmanager
def bare() -> Iterator[httpx2.Client]:
    """A page of Starlette's own of 40 kB."""
    import socket

    text = "<!doctype html><title>bare</title>" + "<p>text</p>" * 3_600

    async def page(_request: object) -> HTMLResponse:
        return HTMLResponse(text)

    listener = without_delay(socket.create_server(("127.0.0.1", 0)))
    config = uvicorn.Config(Starlette(routes=[Route("/", page)]), log_level="error", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


def measured(client: httpx2.Client, address: str) -> tuple[float, float, int]:
    """The median in ms, the least CPU time, and the size."""
    times, busy, size = [], [], 0
    for _round in range(ROUNDS + 1):
        began, worked = time.perf_counter(), time.process_time()
        answer = client.get(address)
        times.append((time.perf_counter() - began) * 1000)
        busy.append((time.process_time() - worked) * 1000)
        answer.raise_for_status()
        size = len(answer.content)
    return statistics.median(times[1:]), min(busy[1:]), size


# Until the list shows what the letter found.
_TYPED = """letter => new Promise(done => {
  const field = document.querySelector("form.filter input[name=q]"), began = performance.now();
  const shown = () => requestAnimationFrame(() => { seen.disconnect(); done(performance.now() - began); });
  const seen = new MutationObserver(shown);
  const all = {childList: true, subtree: true, characterData: true, attributes: true};
  seen.observe(document.querySelector("[data-refresh]"), all);
  field.value += letter;
  field.dispatchEvent(new InputEvent("input", {bubbles: true}));
})"""


def typed(url: str, chromium: str) -> Iterator[tuple[str, float]]:
    """Each list, and the median ms from a letter in its filter to the list that it leads to."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page()
        page.goto(f"{url}/login?code={Session(TOKEN).link_code()}")
        for address, words in (("/", "login55"), ("/agentic", "part 7"), ("/captures", "order")):
            page.goto(url + address)
            yield address, statistics.median(page.evaluate(_TYPED, letter) for letter in words)
        browser.close()


def main() -> None:
    """Fill a project, serve it, ask."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, bare() as plain:
        project = Path(folder) / "project"
        project.mkdir()
        fill(project)
        list_tasks(StateDir(project / ".pm-orchestrator"), limit=1)
        time.sleep(2.1)  # a folder that changed within two seconds is looked through again
        os.chdir(project)
        try:
            with serving(project, []) as served:
                for _ in range(CAPTURES):
                    served.client.post("/traces", json=opening()).raise_for_status()
                least, worked, _ = measured(plain, "/")
                print(f"{'bare Starlette page':<46} {least:8.1f} ms {1:6.1f}x {worked:7.1f} ms CPU")
                for address in ADDRESSES:
                    took, worked, size = measured(served.client, address)
                    ratio, kilobytes = took / least, size / 1000
                    print(f"{address:<46} {took:8.1f} ms {ratio:6.1f}x {worked:7.1f} ms CPU {kilobytes:5.0f} kB")
                for address, took in typed(served.url, chromium) if (chromium := which("chromium")) else ():
                    print(f"{f'a letter in the filter of {address}':<46} {took:8.1f} ms")
        finally:
            os.chdir(here)
