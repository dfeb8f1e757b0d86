"""Two corpora of Claude Code sessions; the same arguments give the same bytes.

`native` repeats the lines of the real sessions kept with the tests, each round with ids of its own. `bulky` is made
up: whole files read and written (the standard library's sources), patches, shell output and thoughts between them.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import time
from pathlib import Path

_API_ID = re.compile(rb"(msg|toolu|req)_01[0-9a-z]{6}")
_UUID = re.compile(rb'"[0-9a-f]{8}((?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")')


def corpus(folder: Path, total: int, *, each: int) -> list[Path]:
    """Session files of about `each` bytes below `folder`, `total` bytes in all; made once."""
    project = folder / "projects" / "-home-dev-proj"
    project.mkdir(parents=True, exist_ok=True)
    library = sorted(Path(os.__file__).parent.glob("*.py"))
    sources = [text for path in library[:120] if 2_000 < len(text := path.read_text("utf-8", "replace")) < 40_000]
    files = []
    for number in range(max(1, total // each)):
        path = project / f"{number:08x}-0000-4000-8000-000000000000.jsonl"
        if not path.exists():
            aside = path.with_suffix(".part")
            with aside.open("w", encoding="utf-8") as file:
                _Session(file, path.stem, number, sources).write(each)
            aside.rename(path)
        files.append(path)
    return files


def native(folder: Path, total: int, *, each: int, version: str) -> list[Path]:
    """Session files made of the real ones' lines; `version` is Claude Code's, empty for the newest."""
    data = Path(__file__).parents[1] / "tests" / "tracer" / "distill" / "data" / "claude"
    suffix = f"@{version}" if version else ""
    found = [path for name in ("happy", "bugfix") for path in (data / f"{name}{suffix}" / "native").rglob("*.jsonl.gz")]
    mains = [path for path in found if not path.name.startswith("agent-")]
    lines = [line for path in mains for line in gzip.decompress(path.read_bytes()).split(b"\n")[:-1]]
    project = folder / f"native{suffix}" / "-home-dev-proj"
    project.mkdir(parents=True, exist_ok=True)
    files = []
    for number in range(max(1, total // each)):
        path = project / f"{number:08x}-0000-4000-8000-000000000000.jsonl"
        if not path.exists():
            aside = path.with_suffix(".part")
            with aside.open("wb") as file:
                _repeat(file, lines, number, path.stem.encode(), each)
            aside.rename(path)
        files.append(path)
    return files


def _repeat(file, lines: list[bytes], number: int, session_id: bytes, size: int) -> None:
    """Every identifier is this session's and this round's own: tools that drop what they saw before would drop it."""
    written, turn, last = 0, 0, b""
    while written < size:
        turn += 1
        mark = b"%03x%05x" % (number, turn)
        minutes = number * 1440 + turn
        minute = b"2026-%02d-%02dT%02d:%02d:" % (
            minutes // 40320 % 12 + 1,
            minutes // 1440 % 28 + 1,
            minutes // 60 % 24,
            minutes % 60,
        )
        for line in lines:
            line = _API_ID.sub(rb"\g<1>_" + mark, line)  # noqa: PLW2901 - the same line
            line = _UUID.sub(b'"' + mark + rb"\g<1>", line)  # noqa: PLW2901 - likewise
            line = re.sub(rb"2026-11-21T10:3\d:", minute, line)  # noqa: PLW2901 - likewise
            line = re.sub(rb'"sessionId":"[^"]*', b'"sessionId":"' + session_id, line)  # noqa: PLW2901 - likewise
            if last:  # one conversation, not one root for each round
                line = line.replace(b'"parentUuid":null', b'"parentUuid":"' + last + b'"', 1)  # noqa: PLW2901 - likewise
            uuid = re.search(rb'"uuid":"([^"]+)"', line)
            last = uuid.group(1) if uuid else last
            written += file.write(line + b"\n")


class _Session:
    def __init__(self, file, session_id: str, seed: int, sources: list[str]) -> None:
        self.file = file
        self.rng = random.Random(seed)
        self.sources = sources
        self.clock = 1_795_257_035_000 + self.rng.randrange(10**9)
        self.parent: str | None = None
        self.written = 0
        self.base = {
            "isSidechain": False, "userType": "external", "entrypoint": "sdk-cli", "cwd": "/home/dev/proj",
            "sessionId": session_id, "version": "2.1.197", "gitBranch": "main",
        }  # fmt: skip

    def write(self, size: int) -> None:
        self.put({"type": "user", "message": {"role": "user", "content": "Go through the modules, fix what fails."}})
        turn = 0
        while self.written < size:
            turn += 1
            self.turn(turn)

    def put(self, fields: dict) -> None:
        self.clock += self.rng.randrange(20, 4000)
        uuid = f"{self.rng.getrandbits(128):032x}"
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.clock / 1000)) + f".{self.clock % 1000:03d}Z"
        record = {"parentUuid": self.parent, **fields, "uuid": uuid, "timestamp": stamp, **self.base}
        self.parent = uuid
        self.written += self.file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")

    def reply(self, turn: int, blocks: list[dict]) -> None:
        identity = f"msg_{turn}_{self.rng.getrandbits(40):x}"
        for block in blocks:
            usage = {
                "input_tokens": 1200 + turn, "cache_creation_input_tokens": 250, "cache_read_input_tokens": 90_000,
                "cache_creation": {"ephemeral_5m_input_tokens": 250, "ephemeral_1h_input_tokens": 0},
                "output_tokens": 220, "service_tier": "standard",
            }  # fmt: skip
            message = {
                "id": identity, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-20250929",
                "content": [block], "stop_reason": "tool_use", "usage": usage,
            }  # fmt: skip
            self.put({"type": "assistant", "requestId": f"req_{turn}", "message": message})

    def words(self, count: int) -> str:
        words = self.rng.choice(self.sources).split()
        start = self.rng.randrange(max(1, len(words) - count))
        return " ".join(words[start : start + count])

    def turn(self, turn: int) -> None:
        rng = self.rng
        call = f"toolu_{turn:08d}_{rng.getrandbits(48):012x}"
        blocks = []
        if rng.random() < 0.7:
            thinking = self.words(rng.randrange(20, 120))
            blocks.append({"type": "thinking", "thinking": thinking, "signature": f"{rng.getrandbits(1600):0400x}"})
        source, kind = rng.choice(self.sources), rng.random()
        path = f"/home/dev/proj/pkg/module_{rng.randrange(400)}.py"
        if kind < 0.35:
            name, arguments, content, rich = self.read(path, source)
        elif kind < 0.55:
            name, arguments, content, rich = self.edit(path, source)
        else:
            name, arguments, content, rich = self.shell(source)
        self.reply(turn, [*blocks, {"type": "tool_use", "id": call, "name": name, "input": arguments}])
        result = {"tool_use_id": call, "type": "tool_result", "content": content}
        if isinstance(rich, str):
            result["is_error"] = True
        self.put({"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": rich})
        if turn % 10 == 0:
            listing = {"type": "skill_listing", "content": source[:6000]}
            self.put({"type": "attachment", "attachment": listing, "rendered": source[:6000]})

    def read(self, path: str, source: str) -> tuple:
        numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(source.split("\n"), 1))
        count = source.count("\n") + 1
        file = {"filePath": path, "content": source, "numLines": count, "startLine": 1, "totalLines": count}
        return "Read", {"file_path": path}, numbered, {"type": "text", "file": file}

    def edit(self, path: str, source: str) -> tuple:
        old, new = source[1000:1400], source[1000:1400].upper()
        rich = {"filePath": path, "oldString": old, "newString": new, "originalFile": source, "structuredPatch": []}
        return "Edit", {"file_path": path, "old_string": old, "new_string": new}, f"{path} has been updated.", rich

    def shell(self, source: str) -> tuple:
        lines = source.split("\n")
        start = self.rng.randrange(len(lines))
        output = "\n".join(lines[start : start + self.rng.randrange(3, 150)])
        arguments = {"command": f"python -m pytest tests/test_{self.rng.randrange(400)}.py -q", "description": "Run"}
        if self.rng.random() < 0.25:
            content = f"Exit code 1\n{output}\nE   AssertionError: 1 != 2"
            return "Bash", arguments, content, f"Error: {content}"
        rich = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        return "Bash", arguments, output, rich
