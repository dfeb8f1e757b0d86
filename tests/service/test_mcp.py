"""`pm mcp`, driven by the SDK's own client: over stdio, and over HTTP behind the token."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.repl.scripts import GOOD, run_scripted
from tests.repl.support import command_line, environment
from tests.repl.test_gate_command import MENDED, OLD_MARK, shop
from tests.support.tools import need

__all__ = ["shop"]

LAZY = {"output": "Done.", "files": {"hello.py": "def greet() -> str:\n    # TODO: say it\n    return ''\n"}}


@pytest.fixture
def recorded(shop: Path) -> Path:
    need(find_spec("mcp"), "mcp", how="make, which installs requirements/dev.txt")
    assert run_scripted(shop, LAZY, GOOD).code == 0
    return shop


@pytest.fixture
def recorded_twice(recorded: Path) -> Path:
    assert run_scripted(recorded, LAZY).code == 6
    return recorded


@pytest.mark.torture
async def test_failures_are_told_newest_first(recorded_twice: Path) -> None:
    async with over_stdio(recorded_twice) as client:
        found = (await client.call_tool("past_failures", {"limit": 1})).structured_content["result"]
    assert [one["task_id"] for one in found] == ["task-002"]


@asynccontextmanager
async def over_stdio(folder: Path) -> AsyncIterator[Any]:
    from mcp import Client, StdioServerParameters

    program, *words = command_line("-C", str(folder), "mcp")
    async with Client(StdioServerParameters(command=program, args=words, env=environment(), cwd=str(folder))) as client:
        yield client


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content)


async def test_an_agent_is_told_why_it_was_rejected_and_what_failed_before(recorded: Path) -> None:
    (recorded / "calc.py").write_text(OLD_MARK + MENDED + "# TODO: more\n")
    from mcp import MCPError

    async with over_stdio(recorded) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == {"gate", "explain_rejection", "past_failures", "trace"}
        judged = json.loads(text_of(await client.call_tool("gate", {"fast": True})))
        assert (judged["verification"], judged["issues"][0]["path"]) == ("failed", "calc.py")
        assert "hello.py:2: TODO found" in text_of(await client.call_tool("explain_rejection", {}))
        assert "FINAL_SUMMARY: COMPLETE" in text_of(await client.call_tool("trace", {"task": "1"}))
        for asked in ({"file": "hello.py"}, {"words": "todo SAY"}):
            found = await client.call_tool("past_failures", asked)
            assert [(one["task_id"], one["line"]) for one in found.structured_content["result"]] == [("task-001", 2)]
        assert (await client.call_tool("past_failures", {"file": "calc.py"})).structured_content["result"] == []
        missing = await client.call_tool("trace", {"task": "no-such-task"})
        assert missing.is_error
        assert text_of(missing).endswith(
            ": no task matches 'no-such-task'; newest: task-001; next: list them with: pm tasks"
        )
        with pytest.raises(MCPError, match="no task matches 'nope'"):
            await client.read_resource("pm://traces/nope")
        listed = (await client.read_resource("pm://traces")).contents[0].text
        assert json.loads(listed) == ["task-001"]
        stored = (await client.read_resource("pm://traces/task-001")).contents[0].text
        assert json.loads(stored.splitlines()[-1])["event"] == "FINAL_SUMMARY"


async def test_over_http_only_the_token_lets_in(recorded: Path) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    words = command_line("mcp", "--http")
    with subprocess.Popen(words, cwd=recorded, env=environment(), stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            address = re.search(r"http://\S+/mcp", served.stdout.readline())
            assert address is not None
            token = (recorded / ".pm-orchestrator" / "serve-token").read_text().strip()
            async with httpx2.AsyncClient() as stranger:
                assert (await stranger.post(address[0], json={})).status_code == 401
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as known,
                Client(streamable_http_client(address[0], http_client=known)) as client,  # type: ignore[arg-type]
            ):
                assert "QUALITY_JUDGMENT[0]: REJECT" in text_of(await client.call_tool("trace", {}))
        finally:
            served.terminate()


def test_without_the_package_its_name_is_told(shop: Path) -> None:
    hidden = "import sys; sys.modules['mcp'] = None; from repl.cli import main; sys.exit(main(['mcp']))"
    done = subprocess.run(
        [sys.executable, "-c", hidden], cwd=shop, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "pm-orchestrator[mcp]" in done.stderr
