"""Run `pm` by its launcher: how often it opens the trace, and the longest it blocks the event loop.

Blocked is CPU time of the loop's thread between two ticks of a task that ticks every millisecond, so that a loaded
machine does not count; what that thread spends on imports is left out. Printed as JSON after pm's own output.
"""

from __future__ import annotations

import _frozen_importlib  # type: ignore[import-not-found]  # every import of both kinds goes through it
import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

_find_and_load = _frozen_importlib._find_and_load  # noqa: SLF001 - nothing public sees both kinds of import
_opened: list[Path] = []
_importing = {"depth": 0, "seconds": 0.0}
_blocked = [0.0]


def _count_open(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        place = Path(os.fsdecode(arguments[0]))
        if place.suffix == ".jsonl" and place.parent.name == "traces":
            _opened.append(place)


def _timed_import(name: str, importer: Callable[..., object]) -> object:
    if threading.current_thread() is not threading.main_thread():
        return _find_and_load(name, importer)
    began = time.thread_time()
    _importing["depth"] += 1
    try:
        return _find_and_load(name, importer)
    finally:
        _importing["depth"] -= 1
        if not _importing["depth"]:
            _importing["seconds"] += time.thread_time() - began


def _busy() -> float:
    return time.thread_time() - _importing["seconds"]


async def _tick() -> None:
    last = _busy()
    while True:
        await asyncio.sleep(0.001)
        _blocked.append((now := _busy()) - last)
        last = now


def _ticking(run: Callable[..., int]) -> Callable[..., int]:
    async def both(main: Coroutine[object, object, int]) -> int:
        ticks = asyncio.create_task(_tick())
        try:
            return await main
        finally:
            ticks.cancel()

    return lambda main, **options: run(both(main), **options)


sys.path[0] = str(Path(__file__).resolve().parent.parent)  # in place of this folder, whose names are those of packages
asyncio.run = _ticking(asyncio.run)
_frozen_importlib._find_and_load = _timed_import  # noqa: SLF001
sys.addaudithook(_count_open)

from pm_orchestrator.launch import main  # noqa: E402 - as the launcher itself is imported

code = main()
sys.stdout.write("\n" + json.dumps({"opens": len(_opened), "blocked_ms": max(_blocked) * 1000}) + "\n")
sys.exit(code)
