"""A model at the far end of a real wire: a loopback HTTP server that plays scripted turns, and keeps every request.

`Turn` says what the model does in one request; the dialect (Messages, Responses, Gemini) follows from the path asked.
Use it as a context manager: `with ModelServer([Turn(text="hello")]) as server: … server.url … server.requests`.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

__all__ = ["Call", "ModelServer", "Recorded", "Turn", "counts"]


def counts(
    fresh: int = 100, output: int = 20, *, cached: int = 0, written: int = 0, thinking: int = 0
) -> dict[str, int]:
    """Token counts of a turn; `fresh` leaves out cached and written ones, `output` includes thinking."""
    return {"input": fresh, "output": output, "cached": cached, "written": written, "thinking": thinking}


@dataclass(frozen=True)
class Call:
    """A tool call of the model, in the names and arguments of the program that is asked."""

    name: str
    arguments: Mapping[str, Any]
    freeform: str | None = None


@dataclass(frozen=True)
class Turn:
    """One reply. `status` other than 200 answers with an error of `error_type` before the stream begins.

    `error_in_stream` ends the stream with an error event, `mangled` with an event that is no JSON; `cut` drops the
    connection after the text; `delay_s` waits before the first byte, `pause_s` between any two pieces of text.
    """

    text: str = ""
    thinking: str = ""
    calls: Sequence[Call] = ()
    stop: str | None = None
    usage: Mapping[str, int] = field(default_factory=counts)
    status: int = 200
    error_type: str = "api_error"
    message: str = "scripted error"
    headers: Mapping[str, str] = field(default_factory=dict)
    error_in_stream: bool = False
    cut: bool = False
    mangled: bool = False
    delay_s: float = 0.0
    pause_s: float = 0.0
    refusal: str = ""


@dataclass(frozen=True)
class Recorded:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    side: bool = False


Chooser = Callable[[Recorded], Turn]


class ModelServer:
    """Plays `turns` in order (or asks `turns(request)` for each); when they run out it says `(no more turns)`."""

    def __init__(self, turns: Sequence[Turn] | Chooser, *, sides: bool = True) -> None:
        """`sides=False`: no request is taken for a title or a warm-up; the judge's have no tools either."""
        self.sides = sides
        self.requests: list[Recorded] = []
        self.side_requests: list[Recorded] = []
        self.disconnects = 0
        self._lock = threading.Lock()
        self._turns = turns if callable(turns) else _in_order(turns)
        self._ids = itertools.count(1)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        """The base URL, without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def next_id(self) -> int:
        with self._lock:
            return next(self._ids)

    def take(self, request: Recorded) -> Turn:
        with self._lock:
            if request.side:
                self.side_requests.append(request)
                return Turn(text="ok")
            self.requests.append(request)
            return self._turns(request)


def _in_order(turns: Sequence[Turn]) -> Chooser:
    left = iter(turns)

    def choose(_request: Recorded) -> Turn:
        return next(left, Turn(text="(no more turns)"))

    return choose


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model: ModelServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is what many tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_POST(self) -> None:
        from tests.support import gemini_api, messages_api, responses_api

        length = int(self.headers.get("content-length", 0))
        raw = self.rfile.read(length) if length else self._chunks()
        if self.headers.get("content-encoding") == "zstd":
            raise ValueError("compressed requests are not read here")
        body = json.loads(raw or b"{}")
        for dialect in (messages_api, responses_api, gemini_api):
            if dialect.speaks(self.path):
                self._answer(dialect, body)
                return
        self._json(404, {"error": {"type": "not_found_error", "message": f"no such path {self.path}"}}, {})

    def do_GET(self) -> None:
        self._json(200, {"data": [], "models": []}, {})

    def _chunks(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return b""
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, dialect: Any, body: Mapping[str, Any]) -> None:
        model = self.server.model
        request = Recorded(
            path=self.path,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body,
            side=model.sides and dialect.is_side_request(self.path, body),
        )
        turn = model.take(request)
        if turn.delay_s and model.closing.wait(turn.delay_s):
            return
        if turn.status != 200:
            self._json(turn.status, dialect.error_body(turn), turn.headers)
            return
        if not dialect.streams(self.path, body):
            self._json(200, dialect.whole(turn, body, model.next_id), turn.headers)
            return
        try:
            self._stream(dialect, turn, body)
        except OSError:
            model.disconnects += 1
            self.close_connection = True

    def _stream(self, dialect: Any, turn: Turn, body: Mapping[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        for name, value in turn.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        for event in dialect.events(turn, body, self.server.model.next_id):
            self.wfile.write(event)
            self.wfile.flush()
            if turn.pause_s:
                time.sleep(turn.pause_s)

    def _json(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
