"""Repositories to record in, spools to fill, and a collector's wire with answers of the test's choosing."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from collector.client.spool import Draft, Spool, captures_folder, list_spools
from tests.repl.support import ROOT, command_line
from tests.repl.terminal import Terminal
from tracer.clock import new_id

BUGGY = '"""A cart."""\n\n\ndef total(prices):\n    return sum(prices[1:])\n'
FIXED = BUGGY.replace("prices[1:]", "prices")
TEST = "from cart import total\n\n\ndef test_total():\n    assert total([1, 2, 3]) == 6\n"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def repository(folder: Path, **files: str) -> Path:
    """A repository with one commit; `files` by name with `__` for `/` and `_dot_` for `.`."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main", ".")
    git(folder, "config", "user.name", "Ann")
    git(folder, "config", "user.email", "ann@example.com")
    contents = {"cart.py": BUGGY, "test_cart.py": TEST, ".gitignore": ".pm-orchestrator\n__pycache__\n*.log\n"}
    contents |= {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "A cart")
    return folder


def create_request(**changes: Any) -> dict[str, Any]:
    request = {
        "repo": {"repo_id": "shop", "commit_base": "0" * 40},
        "task": {"bug_report": {"title": "empty cart", "description": ""}},
        "developer": {
            "developer_id": "dev-1",
            "consent_flags": {"store_raw_code": False, "store_terminal_output": True, "allow_llm_judge": False},
        },
        "environment": {},
        "ingestion": {"mode": "incremental", "client_session_id": "s-1", "dedupe_policy": "event_id"},
        "store": "redacted",
    }
    return {**request, **changes}


def spool_in(state: Path, *, server: str = "http://127.0.0.1:1", **changes: Any) -> Spool:
    return Spool.create(
        captures_folder(state),
        {"trace_id": new_id(), "server": server, "kind": "client", "request": create_request(**changes)},
    )


def thought(text: str, **more: Any) -> Draft:
    return Draft(type="thought", payload={"content": text, "kind": "plan", "links_to": []}, **more)


@dataclass
class Asked:
    """One request as the server saw it."""

    method: str
    path: str
    body: bytes
    key: str

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Wire:
    """A collector's wire. It keeps events as a collector does; `answers` takes the place of its own, once each."""

    address: str = ""
    asked: list[Asked] = field(default_factory=list)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    blobs: set[str] = field(default_factory=set)
    answers: list[Callable[[Asked], tuple[int, dict[str, str], bytes] | None]] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    finalized: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    key: str = "admin-token-of-the-test"

    def answer(self, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(asked)
        while self.answers:
            given = self.answers.pop(0)(asked)
            if given is not None:
                return given
        return self._own(asked)

    def _own(self, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        if asked.key not in {self.key, "ingest-key-of-the-test"}:
            return problem(401, "credentials", "the key is unknown or was revoked")
        path = asked.path.split("?")[0]
        if asked.method == "POST" and path == "/traces":
            self.created.append(asked.json()["trace_id"])
            return ok({"trace_id": self.created[-1], "ingest_key": "ingest-key-of-the-test"}, 201)
        if asked.method == "DELETE":
            self.deleted.append(path.split("/")[2])
            return 204, {}, b""
        if asked.method == "GET" and path == "/traces":
            return self._page(asked.path)
        if asked.method == "PUT":
            self.blobs.add(path.rsplit("/", 1)[1])
            return ok({}, 201)
        if path.endswith("/events"):
            return self._append(asked.json()["events"])
        if path.endswith("/finalize"):
            self.finalized.append(path.split("/")[2])
            return ok({"status": "finalized"}, 202)
        return ok({"status": "finalized" if self.finalized else "open", "ingestion": {"seq_last": self.last}})

    def _page(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Two traces a page, whatever was asked for."""
        after = path.partition("after=")[2]
        start = self.created.index(after) + 1 if after else 0
        shown = self.created[start : start + 2]
        rows = [{"trace_id": trace_id, "status": "open", "event_count": 3} for trace_id in shown]
        return ok({"traces": rows, "next": shown[-1] if start + 2 < len(self.created) else None})

    def _append(self, events: list[dict[str, Any]]) -> tuple[int, dict[str, str], bytes]:
        fresh = [event for event in events if event["event_id"] not in self.events]
        for event in fresh:
            if event["seq"] <= self.last:
                return problem(409, "usage", f"seq {event['seq']} is taken")
            self.events[event["event_id"]] = event
        return ok({"accepted": len(fresh), "duplicates": len(events) - len(fresh), "seq_last": self.last, "gaps": []})

    @property
    def last(self) -> int:
        return max((event["seq"] for event in self.events.values()), default=0)


def ok(value: Any, status: int = 200) -> tuple[int, dict[str, str], bytes]:
    return status, {"content-type": "application/json"}, json.dumps(value).encode()


def problem(
    status: int, code: str, detail: str, *, rule: str = "", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    body = {"status": status, "code": code, "detail": detail, "next": "", "errors": [{"rule": rule}]}
    return status, {"content-type": "application/problem+json", **headers}, json.dumps(body).encode()


@contextmanager
def wire() -> Iterator[Wire]:
    """A running one, on loopback."""
    told = Wire()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            key = (self.headers.get("authorization") or "").removeprefix("Bearer ")
            status, headers, answer = told.answer(Asked(self.command, self.path, body, key))
            if status == 0:  # the answer is lost on its way
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815 - the names that http.server calls

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    told.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Desk:
    """A person's machine: home with start-up files, a `pm` on PATH, a repository, and the events that were spooled."""

    home: Path
    repo: Path
    bin: Path

    def environ(self, shell: str, **extra: str) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "PATH": f"{self.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SHELL": str(shutil.which(shell)),
            "PYTHONDONTWRITEBYTECODE": "1",
            **extra,
        }

    @property
    def state(self) -> Path:
        return self.repo / ".pm-orchestrator"

    @property
    def spool(self) -> Spool:
        (spool,) = list_spools(self.state)
        return spool

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        found = [json.loads(line.raw) for line in self.spool.lines()]
        return [event for event in found if not kinds or event["type"] in kinds]

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        return [event["payload"] for event in self.events(kind)]

    def output_of(self, command: str) -> str:
        """What was recorded of the output of the (last) command that begins so."""
        ids = [
            each["event_id"]
            for each in self.events("terminal_command")
            if each["payload"]["command"].startswith(command)
        ]
        return "".join(
            each["payload"]["chunk"]
            for each in self.events("terminal_output")
            if each["context"]["parent_event_id"] == ids[-1]
        )


PROMPT = "mine>"


def desk(folder: Path, **files: str) -> Desk:
    home, bin_folder = folder / "home", folder / "bin"
    home.mkdir()
    bin_folder.mkdir()
    common = f"PS1='{PROMPT} '\nexport PYTHONDONTWRITEBYTECODE=1\nalias mine='echo my own alias'\nHISTFILE=\n"
    (home / ".bashrc").write_text(common + "HISTCONTROL=ignoreboth\n", encoding="utf-8")
    (home / ".zshrc").write_text(common + "setopt histignorespace\nHISTSIZE=100\n", encoding="utf-8")
    script = bin_folder / "pm"
    words = shlex.join(command_line())
    script.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {words} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return Desk(home, repository(folder / "shop", **files), bin_folder)


class Recording:
    """`pm record` in a terminal. `run` types a line and waits for the next prompt."""

    def __init__(self, at: Desk, shell: str, *words: str, consent: str = "output,judge", **extra: str) -> None:
        self.desk = at
        given = ("--consent", consent) if consent else ()
        self.terminal = Terminal(
            at.repo,
            "record",
            "--shell",
            shell,
            *given,
            "--title",
            "total is wrong",
            *words,
            **at.environ(shell, **extra),
        )
        self.prompts = 0

    def __enter__(self) -> Self:
        self.terminal.__enter__()
        self.prompt()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.terminal.__exit__(kind, error, traceback)

    def prompt(self, *, seconds: float = 60) -> None:
        """Wait for one prompt more."""
        self.prompts += 1
        deadline = time.monotonic() + seconds
        while self.shown() < self.prompts:
            alive = self.terminal.pump()
            assert alive, f"ended:\n{self.terminal.text()}"
            assert time.monotonic() < deadline, f"no prompt {self.prompts} in:\n{self.terminal.text()}"

    def shown(self) -> int:
        # what the shell itself wrote; zsh draws a prompt again while a line is edited
        return len(re.findall(rb"(?:\r\n|\r|\x1b\[J|\x1b\[\?2004h)mine> ", self.terminal.raw))

    def run(self, line: str, *, seconds: float = 60) -> None:
        self.terminal.send(line.encode() + b"\r")
        self.prompts = self.shown()
        self.prompt(seconds=seconds)

    def leave(self) -> int:
        self.terminal.send(b"exit\r")
        return self.terminal.ends(seconds=40)
