"""A program that stands in for an agent's command line: it plays the steps of the JSON file beside it.

`install(folder, name, steps)` writes the program; each step is one of {"line": object}, {"raw": text},
{"stderr": text}, {"sleep": seconds}, {"files": {path: content}}, {"fill": bytes of noise}, {"child": seconds},
{"exit": code}, {"signal": number}. What it was given (arguments, input, environment) is left in `<name>.seen.json`.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["install", "seen"]

_PROGRAM = """#!{python} -IS
import json, os, signal, subprocess, sys, time
own = os.path.realpath(__file__)
given = sys.stdin.read() if "{reads}" else ""
count = 1
try:
    with open(own + ".seen.json", "a") as file:
        told = {{"argv": sys.argv[1:], "stdin": given, "env": dict(os.environ), "pid": os.getpid()}}
        file.write(json.dumps(told) + "\\n")
    count = sum(1 for _ in open(own + ".seen.json"))
except OSError:
    pass  # in a sandbox that can write the workspace only
plays = json.load(open(own + ".json"))
for step in plays[min(count, len(plays)) - 1]:
    (kind, value), = step.items()
    if kind == "line":
        sys.stdout.write(json.dumps(value) + "\\n")
    elif kind == "raw":
        sys.stdout.write(value)
    elif kind == "stderr":
        sys.stderr.write(value)
        sys.stderr.flush()
    elif kind == "sleep":
        sys.stdout.flush()
        time.sleep(value)
    elif kind == "files":
        for path, content in value.items():
            with open(path, "w") as file:
                file.write(content)
    elif kind == "fill":
        piece = json.dumps({{"type": "noise", "text": "x" * 9_980}}) + "\\n"
        for _ in range(value // len(piece)):
            sys.stdout.write(piece)
    elif kind == "child":
        child = subprocess.Popen(["sleep", str(value)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(own + ".child", "w") as file:
            file.write(str(child.pid))
    elif kind == "exit":
        sys.stdout.flush()
        os._exit(value)
    elif kind == "signal":
        sys.stdout.flush()
        os.kill(os.getpid(), value)
    sys.stdout.flush()
"""


def install(folder: Path, name: str, *plays: Sequence[Mapping[str, Any]], version: str, package: str) -> Path:
    """The program's path. Its first start plays the first of `plays`, the second the second, and so on."""
    root = folder / name
    root.mkdir(parents=True, exist_ok=True)
    (root / "package.json").write_text(json.dumps({"name": package, "version": version}))
    program = root / name
    program.write_text(_PROGRAM.format(python=os.path.realpath(sys.executable), reads="yes"))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    Path(f"{program}.json").write_text(json.dumps(plays))
    Path(f"{program}.seen.json").unlink(missing_ok=True)
    return Path(os.path.realpath(program))


def seen(program: Path) -> list[dict[str, Any]]:
    """What each start was given."""
    path = Path(f"{program}.seen.json")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
