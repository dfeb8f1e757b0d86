"""Texts of the kinds that redaction meets most, made up from one seed, 4 MB of each: no secret is in them."""

from __future__ import annotations

import importlib
import inspect
import json
import pydoc
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

__all__ = ["KINDS", "made"]

_ROOT = Path(__file__).parent.parent
_START = datetime(2026, 11, 2, 7, 0, tzinfo=UTC)
_TEXT = """
order total cart item price tax stock user page cache retry worker queue task batch index field value
file read write open close started finished skipped waiting connected timeout refused accepted moved
checked in of for with
"""
_WORDS = _TEXT.split()
_PARTS = [
    "api",
    "core",
    "util",
    "http",
    "store",
    "model",
    "view",
    "parse",
    "render",
    "query",
    "client",
    "server",
    "config",
    "handler",
    "service",
    "worker",
]
_PACKAGES = [
    "libc-bin",
    "libsystemd0",
    "libudev1",
    "perl-base",
    "openssl",
    "libssl3",
    "git",
    "curl",
    "man-db",
    "python3.11",
    "gcc-12",
    "tzdata",
]
_LEVELS = ("INFO", "INFO", "INFO", "DEBUG", "WARNING", "ERROR")
_MODULES = """
argparse ast asyncio.events collections configparser csv datetime decimal difflib email.message html
http.client inspect json logging mailbox optparse pathlib pickle random re shutil socket sqlite3 ssl
statistics string subprocess tarfile tempfile textwrap threading tkinter.ttk tokenize turtle typing
unittest.mock urllib.request uuid xml.dom.minidom zipfile
"""


def _words(draw: random.Random, least: int = 4, most: int = 12) -> str:
    return " ".join(draw.choices(_WORDS, k=draw.randint(least, most)))


def _name(draw: random.Random) -> str:
    return "_".join(draw.choices(_PARTS, k=draw.randint(2, 4)))


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value) + "\n"


def _version(draw: random.Random) -> str:
    return f"{draw.randint(1, 300)}.{draw.randint(0, 40)}-{draw.randint(1, 9)}~deb12u{draw.randint(1, 3)}"


def _times(draw: random.Random) -> Iterator[datetime]:
    now = _START
    while True:
        now += timedelta(milliseconds=draw.randint(1, 900))
        yield now


def _application(draw: random.Random) -> Iterator[str]:
    for now in _times(draw):
        level, place = draw.choice(_LEVELS), ".".join(draw.choices(_PARTS, k=3))
        told = f"{_words(draw)} id={draw.getrandbits(32):08x} took={draw.random():.3f}s"
        yield f"{now:%Y-%m-%d %H:%M:%S},{now:%f} {level:<8} {place}:{draw.randint(1, 900)} {told}\n"


def _json_lines(draw: random.Random) -> Iterator[str]:
    for now in _times(draw):
        yield _json({
            "ts": now.isoformat(), "level": draw.choice(_LEVELS).lower(), "logger": ".".join(draw.choices(_PARTS, k=2)),
            "msg": _words(draw), "request_id": str(uuid.UUID(int=draw.getrandbits(128))),
            "duration_ms": draw.randint(1, 9000), "ok": draw.random() > 0.1,
        })  # fmt: skip


def _java(draw: random.Random) -> Iterator[str]:
    for now in _times(draw):
        thread, place = f"http-nio-{draw.randint(1, 20)}", f"c.s.{draw.choice(_PARTS)}.Handler"
        yield f"{now:%H:%M:%S.%f} [{thread}] ERROR {place} - {_words(draw)}\n"
        yield f"java.lang.IllegalStateException: {_words(draw)}\n"
        for _call in range(draw.randint(8, 40)):
            first, second, third = draw.choices(_PARTS, k=3)
            name = f"{third.title()}Service"
            place = f"{name}.java:{draw.randint(1, 900)}"
            yield f"\tat com.shop.{first}.{second}.{name}.{draw.choice(_WORDS)}({place})\n"


def _container_events(draw: random.Random) -> Iterator[str]:
    for now in _times(draw):
        what = f"{draw.choice(('create', 'start', 'die', 'exec_create', 'kill'))} {draw.getrandbits(256):064x}"
        image = f"shop/{_name(draw)}:{draw.randint(1, 9)}.{draw.randint(0, 40)}"
        attributes = f"exitCode={draw.randint(0, 2)}, image={image}, name={_name(draw)}-{draw.randint(1, 99)}"
        yield f"{now:%Y-%m-%dT%H:%M:%S.%f}000+00:00 container {what} ({attributes})\n"


def _syslog(draw: random.Random) -> Iterator[str]:
    for now in _times(draw):
        by = f"web-{draw.randint(1, 9):02d} {draw.choice(_PARTS)}d[{draw.randint(300, 32000)}]"
        yield f"{now:%b %d %H:%M:%S} {by}: {_words(draw)} (uid={draw.randint(0, 2000)})\n"


def _web_server(draw: random.Random) -> Iterator[str]:
    for now in _times(draw):
        address = ".".join(str(draw.randint(1, 254)) for _part in range(4))
        path = "/".join(draw.choices(_PARTS, k=draw.randint(1, 4)))
        asked = f"GET /{path}?page={draw.randint(1, 40)}&sort={draw.choice(_WORDS)} HTTP/1.1"
        answered = f"{draw.choice((200, 200, 304, 404))} {draw.randint(100, 90000)}"
        by = f'"https://shop.example/{draw.choice(_PARTS)}" "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Firefox/128.0"'
        yield f'{address} - - [{now:%d/%b/%Y:%H:%M:%S} +0000] "{asked}" {answered} {by}\n'


def _dpkg(draw: random.Random) -> Iterator[str]:
    for now in _times(draw):
        package, version = draw.choice(_PACKAGES), _version(draw)
        old = f"{draw.randint(1, 300)}.{draw.randint(0, 40)}-1"
        yield f"{now:%Y-%m-%d %H:%M:%S} " + draw.choice((
            f"upgrade {package}:amd64 {old} {version}", f"configure {package}:amd64 {version} <none>",
            f"status half-configured {package}:amd64 {version}", f"status unpacked {package}:amd64 {version}",
            f"status installed {package}:amd64 {version}", "startup archives unpack",
        )) + "\n"  # fmt: skip


def _apt(draw: random.Random) -> Iterator[str]:
    for now in _times(draw):
        yield f"Log started: {now:%Y-%m-%d  %H:%M:%S}\n"
        for package in draw.choices(_PACKAGES, k=draw.randint(1, 12)):
            version = _version(draw)
            reading = "".join(f"(Reading database ... {part}%\r" for part in range(5, 101, 5))
            files = draw.randint(6000, 90000)
            yield f"(Reading database ... \r{reading}(Reading database ... {files} files currently installed.)\r\n"
            yield f"Preparing to unpack .../{package}_{version}_amd64.deb ...\r\n"
            yield f"Unpacking {package}:amd64 ({version}) over ({draw.randint(1, 300)}.{draw.randint(0, 40)}-1) ...\r\n"
            yield f"Setting up {package}:amd64 ({version}) ...\r\n"
        yield f"Log ended: {now:%Y-%m-%d  %H:%M:%S}\n\n"


def _container_json(draw: random.Random) -> Iterator[str]:
    lines = _application(draw)
    for now in _times(draw):
        at = f"{now:%Y-%m-%dT%H:%M:%S.%f}000Z"
        yield _json({"log": next(lines), "stream": draw.choice(("stdout", "stderr")), "time": at})


def _test_lines(draw: random.Random) -> Iterator[tuple[str, str, str]]:
    while True:
        path = "/".join(["tests", *draw.choices(_PARTS, k=draw.randint(1, 2)), f"test_{draw.choice(_PARTS)}.py"])
        for number in range(draw.randint(3, 30)):
            case = f"[{draw.choice(_WORDS)}-{number}]" if draw.random() < 0.3 else ""
            name = "_".join(draw.choices(_WORDS, k=draw.randint(3, 9)))
            yield path, f"test_{name}{case}", draw.choice((*("PASSED",) * 9, "SKIPPED"))


def _test_run(draw: random.Random) -> Iterator[str]:
    for number, (path, test, outcome) in enumerate(_test_lines(draw)):
        line = f"{path}::{test} {outcome}"
        yield f"{line}{' ' * max(73 - len(line), 1)}[{number % 101:3d}%]\n"


def _test_run_in_colours(draw: random.Random) -> Iterator[str]:
    for number, (path, test, outcome) in enumerate(_test_lines(draw)):
        line = f"{path}::{test} {outcome}"
        done = f"{' ' * max(73 - len(line), 1)}[{number % 101:3d}%]"
        yield f"{path}::{test} \x1b[32m{outcome}\x1b[0m\x1b[32m{done}\x1b[0m\n"


def _json_escapes(draw: random.Random) -> Iterator[str]:
    for now in _times(draw):
        path = "\\".join(draw.choices(_PARTS, k=3))
        inner = json.dumps({"op": draw.choice(_WORDS), "path": path, "note": _words(draw)})
        yield _json({"at": now.isoformat(), "body": inner, "text": f"{_words(draw)}\n\t{_words(draw)}"})


def _colours(draw: random.Random) -> Iterator[str]:
    for now in _times(draw):
        level = f"\x1b[3{draw.randint(1, 6)}m{draw.choice(_LEVELS):>5}\x1b[0m"
        place = f"\x1b[2m{'::'.join(draw.choices(_PARTS, k=2))}\x1b[0m\x1b[2m:\x1b[0m"
        took = f"\x1b[3mtook\x1b[0m\x1b[2m=\x1b[0m{draw.randint(1, 900)}"
        yield f"\x1b[2m{now:%Y-%m-%dT%H:%M:%S.%fZ}\x1b[0m {level} {place} {_words(draw)} {took}\n"


def _trace(draw: random.Random) -> Iterator[str]:
    sources = "".join(inspect.getsource(importlib.import_module(name)) for name in _MODULES.split())
    for now in _times(draw):
        start = draw.randrange(len(sources) - 13_000)
        data = {"output": sources[start : start + 13_000], "status": "COMPLETE", "files_modified": ["src/a.py"]}
        yield _json({"timestamp": now.isoformat(), "event": "LLM_RESPONSE", "task_id": "task-001", "data": data})


def _html(draw: random.Random) -> Iterator[str]:
    writer = pydoc.HTMLDoc()
    pages = [writer.docmodule(importlib.import_module(name)) for name in _MODULES.split()]
    while True:
        yield draw.choice(pages)


def _markdown(draw: random.Random) -> Iterator[str]:
    pages = [path.read_text(encoding="utf-8") for path in sorted((*_ROOT.glob("docs/**/*.md"), *_ROOT.glob("*.md")))]
    while True:
        yield draw.choice(pages)


KINDS: Final[Mapping[str, Callable[[random.Random], Iterator[str]]]] = {
    "application": _application,
    "JSON lines": _json_lines,
    "Java": _java,
    "containers' events": _container_events,
    "syslog": _syslog,
    "web server": _web_server,
    "dpkg": _dpkg,
    "apt's terminal log": _apt,
    "containers' JSON": _container_json,
    "test run": _test_run,
    "trace text": _trace,
    "JSON with escapes": _json_escapes,
    "colours": _colours,
    "test run in colours": _test_run_in_colours,
    "HTML": _html,
    "Markdown": _markdown,
}


def made(kind: str, size: int = 4_000_000) -> bytes:
    """About `size` bytes of a kind, whole lines of it, always the same."""
    pieces, length = [], 0
    for piece in KINDS[kind](random.Random(kind)):
        pieces.append(piece.encode())
        length += len(pieces[-1])
        if length >= size:
            break
    return b"".join(pieces)
