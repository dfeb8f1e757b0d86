"""Run `pm` by its launcher until the task's first line is durable, and print what of ours was executed by then.

The first line is durable when `RecordFile.write_batch` returns for the first time. Printed as JSON: modules (an empty
`__init__` counts for none), functions entered, and calls of them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

ROOT = str(Path(__file__).resolve().parent.parent)
_PACKAGES = ("tracer", "runner", "collector", "service", "repl", "pm_orchestrator")
_OURS = tuple(f"{ROOT}{os.sep}{package}{os.sep}" for package in _PACKAGES)
_FUNCTION = 0x1  # CO_OPTIMIZED, which the bodies of modules and classes have not
_calls: dict[CodeType, int] = {}


def _profile(frame: FrameType, event: str, _argument: object) -> None:
    code = frame.f_code
    if event not in ("call", "return") or not code.co_filename.startswith(_OURS):
        return
    if event == "call" and code.co_flags & _FUNCTION:
        _calls[code] = _calls.get(code, 0) + 1
    elif event == "return" and code.co_qualname == "RecordFile.write_batch":
        _report()


def _report() -> None:
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    modules = [file for file in files if file.startswith(_OURS) and Path(file).stat().st_size]
    counts = {"modules": len(modules), "functions": len(_calls), "calls": sum(_calls.values())}
    os.write(1, json.dumps(counts).encode())
    os._exit(0)  # the task itself is of no interest


sys.path[0] = ROOT  # in place of this folder, whose names are those of packages
threading.setprofile(_profile)
sys.setprofile(_profile)

from pm_orchestrator.launch import main  # noqa: E402 - counted too

main()
sys.exit("pm ended before its first line was durable")
