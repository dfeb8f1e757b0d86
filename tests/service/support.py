"""The service on a real loopback port, with tasks that a script answers."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import uvicorn

from collector.opening import open_collector
from collector.qa.settings import qa_settings
from runner.core.request import Request
from runner.effects import TaskEffects
from runner.executors.scripted import ScriptedExecutor
from runner.supervisor import Supervisor
from service.app import create_app
from service.schemas import NewTask
from service.server import HeadInTime, without_delay
from tracer.drafts import executor_choice
from tracer.facts import CheckChoice, Limits
from tracer.settings.layers import load_settings
from tracer.statedir import StateDir

TOKEN = "test-token-" + "0" * 32
BAD = {"output": "TODO: implement this", "files": {"login.py": "# TODO: implement this\n"}}
GOOD = {"output": "Fully implemented", "files": {"login.py": "READY = True\n"}}


class Served(NamedTuple):
    """A running service: an authorised client, its address and its project."""

    client: httpx2.Client
    url: str
    project: Path
    app: Any

    def until_ended(self, task_id: str) -> dict[str, Any]:
        """The task once it stands still."""
        for _attempt in range(400):
            found: dict[str, Any] = self.client.get(f"/api/tasks/{task_id}").json()
            if found["status"] not in {"QUEUED", "RUNNING", "UNFINISHED"}:
                return found
            threading.Event().wait(0.02)
        raise AssertionError(f"{task_id} did not end: {found}")


def build_app(
    project: Path,
    replies: list[dict[str, Any]],
    *,
    given: dict[str, str] | None = None,
    **limits: Any,
) -> Any:
    """The application over `project`, its tasks answered by `replies`; `given` are settings by environment name."""
    state_dir = StateDir(project / ".pm-orchestrator")
    script = project.parent / "script.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))

    def make_executor(_request: Request) -> ScriptedExecutor:
        return ScriptedExecutor(script, state_dir=state_dir.root)

    def task_request(body: NewTask) -> Request:
        return Request(
            prompt=body.prompt,
            title=body.title or "",
            workspace=str(project),
            executor=executor_choice("scripted"),
            checks=CheckChoice({"criteria": body.criteria}),
            limits=Limits(max_iterations=body.max_iterations or 3, **limits),
        )

    supervisor = Supervisor(state_dir, make_executor=make_executor, make_effects=TaskEffects)
    environ = {**os.environ, **(given or {})}
    chosen = load_settings(project=state_dir.root, environ=environ)
    return create_app(
        state_dir=state_dir,
        supervisor=supervisor,
        task_request=task_request,
        collector=lambda: open_collector(state_dir, chosen, environ=environ),
        allowed=qa_settings(chosen).lists,
        token=TOKEN,
        version="0.0.0",
        metrics=bool(chosen.get("service.metrics")),
        otel_endpoint=chosen.get("service.otel_endpoint") or "",
        access_log=Path(log) if (log := chosen.get("service.access_log")) else None,
    )


@contextmanager
def serving(project: Path, replies: list[dict[str, Any]], **limits: Any) -> Iterator[Served]:
    """Serve on a free loopback port while the block runs."""
    app = build_app(project, replies, **limits)
    listener = without_delay(socket.create_server(("127.0.0.1", 0)))
    port = listener.getsockname()[1]
    config = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=1, http=HeadInTime)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        url = f"http://127.0.0.1:{port}"
        with httpx2.Client(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
            while not server.started:
                threading.Event().wait(0.01)
            yield Served(client, url, project, app)
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
