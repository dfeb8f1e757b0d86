"""The gate and the records of one project as tools of the Model Context Protocol: what `pm mcp` serves.

Everything an agent gets here is on record and redacted already; nothing here changes a task.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tracer.conversation import ConversationTracer
from tracer.errors import NotFoundError, PmError, needs_extra
from tracer.facts import Entry, QualityJudgment, RejectionDetails
from tracer.lookup import resolve_task, task_ids
from tracer.names import LAST
from tracer.redaction.cuts import ending
from tracer.statedir import StateDir
from tracer.trace_text import trace_text

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_MOST_TASKS = 500  # the newest ones are what past failures are looked for in
_MOST_FOUND = 100
_GATE_S = 1800.0


def mcp_server(state_dir: StateDir, *, version: str) -> MCPServer:
    """The server of the project that `state_dir` belongs to."""
    with needs_extra("mcp", wanted_by="pm mcp"):
        from mcp.server.mcpserver import MCPServer  # 600 ms, paid by this command alone

    told = "Judge the work in this project before you say that it is done, and see why earlier work was rejected."
    server: MCPServer = MCPServer("pm", version=version, instructions=told, log_level="WARNING")

    @server.tool()
    async def gate(since: str = "HEAD", *, fast: bool = False) -> str:
        """Judge what differs from a commit, with the project's tests; `fast` runs no commands. The verdict as JSON."""
        words = ["gate", "--json", *(["--since", since] if since != "HEAD" else []), *(["--fast"] if fast else [])]
        with _told():
            return await _pm(state_dir, words)

    @server.tool()
    async def explain_rejection(task: str = LAST) -> str:
        """Why the last answer of a task was rejected, and what is required; without a task of the newest one."""
        with _told():
            entries = await asyncio.to_thread(_entries, state_dir, task)
        found = next((entry for entry in reversed(entries) if isinstance(entry, RejectionDetails)), None)
        return found.modification_prompt if found is not None else f"{entries[0].task_id} was not rejected"

    @server.tool()
    async def past_failures(file: str = "", words: str = "", limit: int = 20) -> list[dict[str, Any]]:
        """What was found wrong in this project before, newest first: in a file, or where these words stand."""
        most = max(1, min(limit, _MOST_FOUND))
        return await asyncio.to_thread(lambda: list(_failures(state_dir, file, words, most)))

    @server.tool()
    async def trace(task: str = LAST) -> str:
        """The record of a task, a line for each event."""
        with _told():
            return trace_text(await asyncio.to_thread(_entries, state_dir, task))

    @server.resource("pm://traces", mime_type="application/json")
    async def traces() -> str:
        """The ids of all tasks on record, newest first."""
        return json.dumps(await asyncio.to_thread(task_ids, state_dir))

    @server.resource("pm://traces/{task_id}", mime_type="application/jsonl")
    async def trace_file(task_id: str) -> str:
        """The trace of a task as it is stored."""
        with _told():
            path = (await asyncio.to_thread(resolve_task, state_dir, task_id)).path
            return await asyncio.to_thread(path.read_text, encoding="utf-8")

    return server


@contextmanager
def _told() -> Iterator[None]:
    """Have the client told what is wrong and what to do: of any other exception the SDK gives it the tool's name."""
    from mcp.server.mcpserver.exceptions import ResourceError  # a tool's as well

    try:
        yield
    except (PmError, OSError, UnicodeDecodeError) as error:
        raise ResourceError("; next: ".join(filter(None, (str(error), getattr(error, "next_step", ""))))) from error


def _entries(state_dir: StateDir, task: str) -> list[Entry]:
    return ConversationTracer.read_trace(resolve_task(state_dir, None if task == LAST else task).path)


def _failures(state_dir: StateDir, file: str, words: str, limit: int) -> Iterator[dict[str, Any]]:
    wanted, count = words.lower().split(), 0
    for task_id in task_ids(state_dir)[:_MOST_TASKS]:
        try:
            entries = _entries(state_dir, task_id)
        except (PmError, OSError):  # one damaged trace hides no other
            continue
        for entry in reversed(entries):
            if not isinstance(entry, QualityJudgment):
                continue
            places = [dict(issue.data) for issue in entry.issues if not issue.preexisting]
            places += [{"criterion": one.id, "message": one.reason} for one in entry.failures if not entry.issues]
            for place in places:
                told = " ".join(map(str, place.values())).lower()
                if (file and not str(place.get("path", "")).endswith(file)) or not all(word in told for word in wanted):
                    continue
                yield {"task_id": task_id, "at": entry.timestamp, **place}
                count += 1
                if count >= limit:
                    return


async def _pm(state_dir: StateDir, words: list[str]) -> str:
    """What this `pm` says in a process of its own, which a client that gives up ends."""
    command = [sys.executable, "-P", "-m", "pm_orchestrator", "--state-dir", str(state_dir.root), *words]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=state_dir.project,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_GATE_S):
            said, complaint = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
    if not said:
        raise NotFoundError("the gate gave no verdict", why=ending(complaint.decode("utf-8", "replace"), 500))
    return said.decode()
