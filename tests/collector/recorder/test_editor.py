"""What editors add to the running recording through its socket; Neovim itself in `make torture`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from collector.client.spool import Spool
from collector.recorder.begin import open_repository
from collector.recorder.editor import LINK, LONGEST, EditorSocket
from collector.recorder.scribe import Item, Scribe
from collector.recorder.writer import ScribeOptions
from tests.collector.recorder.support import BUGGY, FIXED, Desk, Recording, desk, git, spool_in
from tests.repl.support import ROOT
from tests.support.tools import need_program
from tracer.redaction.engine import build_redactor

SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
HERE = {"kind": "open", "file_path": "cart.py", "line": 4}


@dataclass
class Line:
    """One connection of an editor."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes) -> dict[str, Any]:
        self.writer.write(data)
        await self.writer.drain()
        async with asyncio.timeout(60):
            answer: dict[str, Any] = json.loads(await self.reader.readline() or b"{}")
        return answer

    async def tell(self, kind: str, payload: Any, **more: Any) -> dict[str, Any]:
        return await self.say(json.dumps({"type": kind, "payload": payload, **more}).encode() + b"\n")


@dataclass
class Live:
    """A recording that runs, without a shell."""

    at: Desk
    spool: Spool
    scribe: Scribe
    editors: EditorSocket
    lines: list[Line] = field(default_factory=list)

    async def connect(self) -> Line:
        self.lines.append(Line(*await asyncio.open_unix_connection(self.editors.path)))
        return self.lines[-1]

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line.raw) for line in self.spool.lines()]


@asynccontextmanager
async def running(tmp_path: Path, **consent: bool) -> AsyncIterator[Live]:
    at = desk(tmp_path, _dot_gitignore=".pm-orchestrator\n.env\n")
    (at.repo / ".env").write_text("A=1\n", encoding="utf-8")
    flags = {"store_raw_code": False, "store_terminal_output": True, "allow_llm_judge": True, **consent}
    repo = {"repo_id": "shop", "commit_base": git(at.repo, "rev-parse", "HEAD")}
    developer = {"developer_id": "dev-1", "experience_level": "mid", "consent_flags": flags}
    spool = spool_in(at.state, repo=repo, developer=developer)
    options = ScribeOptions(
        shell="bash",
        redactor=build_redactor(state_dir=at.state, environ={}, persons=()),
        env_hash="0" * 64,
        keep_output=True,
        left_out=lambda path: path.startswith(".pm"),
    )
    scribe = Scribe(spool, open_repository(at.repo), options, tell=print)
    editors = EditorSocket(spool.folder, take=lambda line, answer: scribe.put(Item("told", 1, (line, answer))))
    assert await editors.start() == ""
    scribe.start()
    live = Live(at, spool, scribe, editors)
    try:
        yield live
    finally:
        editors.close()
        for line in live.lines:
            line.writer.close()
        await asyncio.gather(*(line.writer.wait_closed() for line in live.lines), return_exceptions=True)
        scribe.put(Item("end", 1))
        await asyncio.to_thread(scribe.join)
        assert scribe.failed is None


async def test_what_an_editor_says_is_recorded_and_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        assert stat.S_IMODE(Path(live.editors.path).stat().st_mode) == 0o600
        editor = await live.connect()
        cart = live.at.repo / "cart.py"
        assert (await editor.tell("navigation", {**HERE, "file_path": str(cart)}))["ok"]
        assert (await editor.tell("debug_action", {"action": "breakpoint", "file_path": "cart.py", "line": 5}))["ok"]
        cart.write_text(FIXED, encoding="utf-8")
        run = {"command": "uv run pytest -q", "exit_code": 0, "duration_ms": 7, "report": f"<a>{SECRET}</a>"}
        first = await editor.tell("test_run", run, event_id="11111111-2222-4333-8444-555555555555")
        again = await editor.tell("test_run", run, event_id="11111111-2222-4333-8444-555555555555")
        assert (await editor.tell("thought", {"kind": "plan", "content": f"use {SECRET}"}, ts_ms=5))["ok"]
        assert (first["ok"], first["event_id"], again.get("duplicate")) == (True, again["event_id"], True)
    events = live.events()
    told = [each["type"] for each in events if each["type"] != "file_snapshot"]
    assert told == ["navigation", "debug_action", "file_edit", "test_run", "thought"]
    by_type: Mapping[str, Any] = {each["type"]: each for each in events}
    assert by_type["navigation"]["payload"] == {"kind": "open", "file_path": "cart.py", "line": 4}
    assert by_type["navigation"]["actor"]["kind"] == "ide"
    assert by_type["navigation"]["context"]["branch"] == "main"
    assert (by_type["test_run"]["payload"]["runner"], by_type["test_run"]["payload"]["passed"]) == ("pytest", True)
    assert by_type["file_snapshot"]["payload"]["snapshot_reason"] == "post_test"
    assert by_type["thought"]["payload"]["links_to"] == [
        by_type[kind]["event_id"] for kind in ("file_edit", "test_run")
    ]
    assert (by_type["thought"]["ts_ms"], by_type["thought"]["actor"]["kind"]) == (5, "human")
    assert SECRET not in live.spool.events_path.read_text()


REFUSED = {
    b"\n": "JSON object",
    b"\xff\xfe\x00\n": "JSON object",
    b"[" * 5000 + b"\n": "JSON object",
    b'{"type": "thought"}\n': "type and payload",
    b'{"type": "file_edit", "payload": {}}\n': "no 'file_edit'",
    b'{"type": ["thought"], "payload": {}}\n': "no \"['thought']\"",
    b'{"type": "thought", "payload": {}, "seq": 9}\n': "unknown key 'seq'",
    b'{"type": "thought", "payload": {"kind": "guess", "content": "x"}}\n': "kind",
    b'{"type": "navigation", "payload": {"kind": "open", "line": -1}}\n': "line",
    b'{"type": "navigation", "payload": {"kind": "open", "file_path": ".env"}}\n': "not recorded",
    b'{"type": "navigation", "payload": {"kind": "open", "x": ' + b"[" * 900 + b"]" * 900 + b"}}\n": "no JSON",
    b'{"type": "test_run", "payload": {"command": "x"}}\n': "exit_code",
    b'{"type": "thought", "payload": {"kind": "plan", "content": "x"}, "event_id": "no uuid"}\n': "event_id",
    b'{"type": "thought", "payload": {"kind": "plan", "content": "x"}, "event_id": [1]}\n': "event_id",
    b'{"type": "consent", "payload": {"withdraw": ["everything"]}}\n': "withdraw takes a list",
    b'{"type": "consent", "payload": {"withdraw": [["code"]]}}\n': "withdraw takes a list",
}


async def test_what_is_no_event_of_an_editor_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        editor = await live.connect()
        for line, why in REFUSED.items():
            answer = await editor.say(line)
            assert not answer["ok"]
            assert why in f"{answer['error']} {answer['why']}", (line, answer)
        assert (await editor.tell("navigation", HERE))["ok"], "the connection goes on"
    assert [each["type"] for each in live.events()] == ["navigation"]


async def test_a_refusal_names_the_place_in_the_line_that_was_sent(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        editor = await live.connect()
        for kind, payload, place in (
            ("thought", {"kind": "guess", "content": "x"}, "payload.kind: "),
            ("navigation", {**HERE, "line": "4"}, "payload.line: "),
            ("debug_action", {"action": "jump"}, "payload.action: "),
        ):
            answer = await editor.tell(kind, payload)
            assert answer["error"].startswith(place), answer
        assert (await editor.tell("thought", {"kind": "plan", "content": "x"}, ts_ms="now"))["error"].startswith(
            "ts_ms: "
        )


async def test_an_id_that_is_known_with_other_content_is_a_conflict_and_no_repetition(tmp_path: Path) -> None:
    ids = [f"11111111-2222-4333-8444-{number:012}" for number in range(4)]
    run = {"command": "pytest", "exit_code": 1, "duration_ms": 7, "report": "<failure/>"}
    said: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("thought", {"kind": "plan", "content": f"use {SECRET}"}, {"ts_ms": 5}),
        ("navigation", HERE, {}),
        ("test_run", run, {"actor": {"kind": "ide", "id": "my-editor"}}),
    ]
    other: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("thought", {"kind": "plan", "content": "use another"}, {"ts_ms": 5}),
        ("thought", {"kind": "plan", "content": f"use {SECRET}"}, {"ts_ms": 6}),
        ("navigation", {**HERE, "line": 9}, {}),
        ("debug_action", {"action": "breakpoint", "file_path": "cart.py", "line": 4}, {}),
        ("test_run", {**run, "report": "<skipped/>"}, {"actor": {"kind": "ide", "id": "my-editor"}}),
        ("test_run", run, {}),
    ]
    async with running(tmp_path) as live:
        editor = await live.connect()
        for event_id, (kind, payload, more) in zip(ids, said, strict=False):
            assert (await editor.tell(kind, payload, event_id=event_id, **more))["ok"]
        for event_id, (kind, payload, more) in zip([*ids[:1] * 2, *ids[1:2] * 2, *ids[2:3] * 2], other, strict=True):
            answer = await editor.tell(kind, payload, event_id=event_id, **more)
            assert answer == {
                "ok": False,
                "error": f"the event '{event_id}' is already there with other content",
                "why": "an event id stands for one content",
                "next": "give the new event an id of its own",
            }
        before = len(live.events())
        await editor.tell("consent", {"withdraw": ["output"]})
        for event_id, (kind, payload, more) in zip(ids, said, strict=False):
            assert (await editor.tell(kind, payload, event_id=event_id.upper(), **more)).get("duplicate"), kind
        assert len(live.events()) == before


async def test_a_hostile_client_harms_neither_the_recording_nor_other_editors(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        editor = await live.connect()
        assert (await editor.tell("navigation", HERE))["ok"]
        huge = await live.connect()
        assert "65,536 bytes" in (await huge.say(b"x" * (3 * LONGEST) + b"\n"))["error"]
        half = await live.connect()
        half.writer.write(b'{"type": "thought", "payload": {"kind": "plan", "content": "cut')
        half.writer.close()
        slow = [await live.connect() for _ in range(40)]  # of which one writes a byte now and then
        for each in slow:
            each.writer.write(b"{")
        many = []
        for _ in range(1000):
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            await asyncio.get_running_loop().sock_connect(one, live.editors.path)
            many.append(one)
        later = await live.connect()
        assert (await later.tell("navigation", {**HERE, "line": 2}))["ok"]
        assert len(live.editors._open) <= 16
        for one in many:
            one.close()
    assert [each["payload"].get("line") for each in live.events()] == [4, 2]


async def test_the_client_of_the_page_is_heard(tmp_path: Path) -> None:
    (client,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "editors.md").read_text(), re.MULTILINE | re.DOTALL
    )
    async with running(tmp_path) as live:
        environ = {**os.environ, "PM_RECORD_SOCKET": live.editors.path}
        ran = await asyncio.create_subprocess_exec(sys.executable, "-c", client, env=environ, stdout=subprocess.PIPE)
        said = (await ran.communicate())[0].decode().splitlines()
        assert [line[:11] for line in said] == ["{'ok': True"] * 2
    assert [each["type"] for each in live.events()] == ["debug_action", "thought"]


async def test_another_user_is_not_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as live:
        own = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
        stranger = await live.connect()
        assert "another user" in (await stranger.tell("navigation", HERE))["error"]
        assert live.events() == []


async def test_who_writes_fast_waits_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async with running(tmp_path) as live:
        editor = await live.connect()
        monkeypatch.setattr("collector.recorder.editor._BURST", 3)
        monkeypatch.setattr("collector.recorder.editor.asyncio.sleep", sleep)
        answers = [await editor.tell("navigation", {**HERE, "query": "x" * 30_000}) for _ in range(3)]
        assert all(answer["ok"] for answer in answers)
    assert len(waited) >= 2
    assert max(waited) > 0.3, "a long line counts for its length"


async def test_a_socket_that_a_killed_recorder_left_is_replaced_and_a_long_path_is_made_short(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / ("long" * 30)):
        folder.mkdir(exist_ok=True)
        heard: list[bytes] = []

        def take(line: bytes, answer: Any, *, heard: list[bytes] = heard) -> None:
            heard.append(line)
            answer({"ok": True})

        killed = EditorSocket(folder, take=lambda _line, _answer: None)
        assert await killed.start() == ""
        next_one = EditorSocket(folder, take=take)
        assert await next_one.start() == ""
        assert len(next_one.path) < 108
        told = Line(*await asyncio.open_unix_connection(next_one.path))
        assert (await told.tell("navigation", HERE), len(heard)) == ({"ok": True}, 1)
        next_one.close()
        told.writer.close()
        assert await told.reader.read() == b""
        killed.close()
        assert not os.path.lexists(folder / LINK)
        assert not Path(next_one.path).parent.exists() or Path(next_one.path).parent == folder


async def test_what_killed_recorders_left_in_the_temporary_folder_is_cleared_up_and_what_is_heard_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        found = []
        for name in ("a" * 120, "b" * 120):
            (tmp_path / name).mkdir()
            found.append(EditorSocket(tmp_path / name, take=lambda _line, _answer: None))
        left = Path(short, "pm-record-killed")
        left.mkdir()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(left / LINK))
        assert await found[0].start() == ""
        assert left.exists(), "it may be about to listen"
        os.utime(left, (0, 0))
        os.utime(Path(found[0].path).parent, (0, 0))
        assert await found[1].start() == ""
        assert not left.exists()
        told = Line(*await asyncio.open_unix_connection(found[0].path))
        told.writer.close()
        for one in found:
            one.close()
        assert not any(Path(short).iterdir())


async def test_consent_taken_back_removes_what_it_covered_here(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        editor = await live.connect()
        run = {"command": "pytest", "exit_code": 1, "duration_ms": 7, "report": "<failure>private</failure>"}
        await editor.tell("test_run", run)
        early = Spool.open(live.spool.folder)
        assert len(list(early.lines(after=0))) == 1
        assert (await editor.tell("consent", {"withdraw": ["output"]})) == {"ok": True, "consent": ["judge"]}
        await editor.tell("test_run", run)
        flags = Spool.open(live.spool.folder).header["request"]["developer"]["consent_flags"]
        assert (flags["store_terminal_output"], flags["allow_llm_judge"]) == (False, True)
        assert [line.seq for line in early.lines(after=1)] == [2], "a reader's place is still right"
        assert "private" not in live.spool.events_path.read_text()
        live.spool.note_sent(created=True)
        refused = await editor.tell("consent", {"withdraw": ["judge"]})
        assert "pm capture withdraw" in refused["next"]
        live.spool.pause(on=True)
        assert "paused" in (await editor.tell("navigation", HERE))["error"]


STEPS = r"""
PmBreakpoint
call feedkeys("/sum\<CR>", "tx")
PmThink hypothesis the first price is sliced off
PmTest python -m unittest -q test_cart_unit
let s:waited = wait(60000, {-> execute('messages') =~ 'exit code 1'})
wincmd p
%s/\[1:\]//
write
PmTest python -m unittest -q test_cart_unit
let s:waited = wait(60000, {-> execute('messages') =~ 'exit code 0'})
PmWithdraw judge
let s:waited = wait(60000, {-> execute('messages') =~ 'taken back'})
qa!
"""
UNIT = (
    "import unittest\nfrom cart import total\n\n\nclass Cart(unittest.TestCase):\n"
    "    def test_total(self):\n        self.assertEqual(total([1, 2, 3]), 6)\n"
)


@pytest.mark.torture
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_neovim_with_the_plug_in_tells_what_was_done_in_it(tmp_path: Path, shell: str) -> None:
    need_program("nvim", how="apt-get install neovim")
    need_program(shell, how=f"install {shell}")
    at = desk(tmp_path, test_cart_unit_dot_py=UNIT)
    (tmp_path / "steps.vim").write_text(STEPS, encoding="utf-8")
    with Recording(at, shell, "--no-upload") as recording:
        recording.run("mkdir -p ~/.config/nvim/plugin && pm record --plugin nvim > ~/.config/nvim/plugin/pm-record.lua")
        recording.run(f"nvim --headless -S {tmp_path / 'steps.vim'} cart.py", seconds=120)
        assert recording.leave() == 0
    ide = [each for each in at.events() if each["actor"] == {"kind": "ide", "id": "neovim"}]
    (nvim,) = [each["event_id"] for each in at.events("terminal_command") if "headless" in each["payload"]["command"]]
    during = [each for each in ide if each["payload"].get("kind") != "close"]  # which may come after its end
    assert {each["context"]["correlation_id"] for each in during} == {nvim}
    told = [(each["type"], each["payload"]) for each in ide]
    assert ("debug_action", {"action": "breakpoint", "file_path": "cart.py", "line": 1}) in told
    assert ("navigation", {"kind": "search", "file_path": "cart.py", "query": "sum"}) in told
    assert [(run["runner"], run["passed"]) for kind, run in told if kind == "test_run"] == [
        ("custom", False),
        ("custom", True),
    ]
    (thought,) = at.payloads("thought")
    assert (thought["kind"], thought["content"]) == ("hypothesis", "the first price is sliced off")
    (edit,) = at.payloads("file_edit")
    assert BUGGY.splitlines()[-1] in edit["patch"]
    assert at.spool.header["request"]["developer"]["consent_flags"]["allow_llm_judge"] is False
