"""Shortens what an agent did to one line: arguments, output, fingerprints of files. Pure but for the cleaner's counts.

A call is known by the shape of its arguments, so that new tools of a provider are summarised sensibly too.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson

from tracer.distill.clean import MARGIN, Cleaner, cut

__all__ = ["Call", "Digest", "describe", "digest_output", "fingerprint", "patch_summary"]

Operation = Literal["read", "write", "edit", "shell", "agent", "other"]

_COMMAND_LIMIT: Final = 500
_VALUE_LIMIT: Final = 80
_PATH_KEYS: Final = ("file_path", "absolute_path", "notebook_path", "filePath", "path")
_COMMAND_KEYS: Final = ("command", "cmd")
_READS: Final = re.compile(r"read|view|open|cat|notebookread", re.IGNORECASE)
_AGENT_TOOLS: Final = frozenset({"Task", "Agent", "invoke_agent", "spawn_agent", "delegate_to_agent"})
# `cat FILE`, the way agents without a read tool look at a whole file.
_CAT: Final = re.compile(r"cat\s+(?:--\s+)?(?:'([^'\n]+)'|\"([^\"$`\n]+)\"|([\w./@%+:,~-]+))\s*")
_PATCH_FILE: Final = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Call:
    """A call in one line, cleaned. `path` is relative to the project; `native_path` is as the agent wrote it."""

    summary: str
    operation: Operation = "other"
    path: str | None = None
    native_path: str | None = None


@dataclass(frozen=True, slots=True)
class Digest:
    """What is kept of an output: its tail and, from before the tail, the lines that report trouble."""

    tail: str = ""
    diagnostics: list[str] = field(default_factory=list)


def describe(name: str, arguments: Any, cleaner: Cleaner) -> Call:
    """The one-line form of a call of `name` with its native arguments (an object, a text, or anything)."""
    if isinstance(arguments, str):
        if "*** Begin Patch" in arguments:
            return patch_summary(arguments, cleaner)
        return Call(cut(cleaner.clean(arguments[: _COMMAND_LIMIT + MARGIN]), _COMMAND_LIMIT))
    if not isinstance(arguments, Mapping):
        return Call("")
    command = next((arguments[key] for key in _COMMAND_KEYS if arguments.get(key)), None)
    if command is not None:
        return _command(command, cleaner)
    for key in _PATH_KEYS:
        path = arguments.get(key)
        if isinstance(path, str) and path:
            return _file(name, path, arguments, cleaner)
    if isinstance(arguments.get("input"), str) and "*** Begin Patch" in arguments["input"]:
        return patch_summary(arguments["input"], cleaner)
    return Call(_pairs(name, arguments, cleaner), "agent" if name in _AGENT_TOOLS else "other")


def _command(command: Any, cleaner: Cleaner) -> Call:
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
        if len(words) == 3 and words[1].startswith("-") and words[1].endswith("c"):
            command = words[2]
        elif len(words) == 2 and words[0] == "apply_patch":
            return patch_summary(words[1], cleaner)
        else:
            command = shlex.join(words)
    if not isinstance(command, str):
        command = orjson.dumps(command).decode()
    if "*** Begin Patch" in command:
        return patch_summary(command, cleaner)
    summary = cut(cleaner.clean(command[: _COMMAND_LIMIT + MARGIN]), _COMMAND_LIMIT)
    reading = _CAT.fullmatch(command.strip()) if len(command) < MARGIN else None
    if reading is None:
        return Call(summary, "shell")
    path = next(group for group in reading.groups() if group)
    return Call(summary, "shell", cleaner.path(path), path)


def _file(name: str, path: str, arguments: Mapping[str, Any], cleaner: Cleaner) -> Call:
    shown = cleaner.path(path)
    content = next((arguments[key] for key in ("content", "file_text", "new_source") if key in arguments), None)
    if isinstance(content, str):
        return Call(f"{shown} ({_line_count(content)} lines)", "write", shown, path)
    edits = arguments.get("edits")
    if isinstance(edits, list) or "old_string" in arguments or "new_string" in arguments or "old_str" in arguments:
        expected = arguments.get("expected_replacements")
        count = len(edits) if isinstance(edits, list) else expected if isinstance(expected, int) else 1
        return Call(f"{shown} ({count} replacements)", "edit", shown, path)
    others = {key: value for key, value in arguments.items() if value != path}
    if _READS.search(name):
        return Call(shown, "read", shown, path)
    rest = _pairs(name, others, cleaner)
    return Call(f"{shown} {rest}".strip(), "other", shown, path)


def _pairs(name: str, arguments: Mapping[str, Any], cleaner: Cleaner) -> str:
    pairs: list[str] = []
    for key, value in list(arguments.items())[:20]:
        if name in _AGENT_TOOLS and key in {"prompt", "message", "task"}:
            continue  # kept once, in the meta line's agents
        text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
        pairs.append(f"{cut(str(key), 40)}={cut(cleaner.clean(text[: _VALUE_LIMIT + MARGIN]), _VALUE_LIMIT)}")
    return cut(" ".join(pairs), _COMMAND_LIMIT)


def patch_summary(patch: str, cleaner: Cleaner) -> Call:
    """An `apply_patch` text: each file with its lines or hunks."""
    marks = list(_PATCH_FILE.finditer(patch))
    shown: list[str] = []
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        body = patch[mark.end() : following.start() if following else len(patch)]
        path = cleaner.path(mark.group(2))
        match mark.group(1):
            case "Add":
                shown.append(f"{path} ({sum(line.startswith('+') for line in body.split(chr(10)))} lines)")
            case "Update":
                hunks = sum(line.startswith("@@") for line in body.split("\n"))
                shown.append(f"{path} ({hunks or 1} replacements)")
            case _:
                shown.append(f"{path} (deleted)")
    operation: Operation = "write" if len(marks) == 1 and marks[0].group(1) == "Add" else "edit"
    if len(marks) == 1:
        return Call(shown[0], operation, cleaner.path(marks[0].group(2)), marks[0].group(2))
    return Call(cut(", ".join(shown), _COMMAND_LIMIT) if shown else "apply_patch", operation)


def _line_count(text: str) -> int:
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def fingerprint(content: str) -> dict[str, Any] | None:
    """`lines` and `sha256` of a whole file's text, or None where its bytes cannot be told from the text."""
    if "\ufffd" in content:
        return None
    return {"lines": _line_count(content), "sha256": hashlib.sha256(content.encode()).hexdigest()}


_TAIL_LINES: Final = {False: 5, True: 20}
_TAIL_CHARS: Final = {False: 400, True: 2000}
_DIAGNOSTICS: Final = {False: 5, True: 20}
_DIAGNOSTIC_CHARS: Final = 200
_TROUBLE: Final = (
    "error",
    "fail",
    "exception",
    "traceback",
    "warning",
    "panic",
    "fatal",
    "denied",
    "not found",
    "cannot",
)


def digest_output(text: str, cleaner: Cleaner, *, failed: bool) -> Digest:
    """The tail and diagnostic lines of an output, cleaned in windows that reach 4 KB beyond every cut."""
    text = text.rstrip()
    if not text:
        return Digest()
    chars = _TAIL_CHARS[failed]
    start = max(0, len(text) - chars - MARGIN)
    window = cleaner.clean(text[start:])
    lines = window.split("\n")
    kept = lines[-_TAIL_LINES[failed] :]
    tail = "\n".join(kept)
    if len(tail) > chars:
        tail = "…" + tail[-chars:]
    earlier = len(text) - len(tail)
    if earlier <= 0 or (start == 0 and len(kept) == len(lines)):
        return Digest(tail)
    return Digest(tail, _diagnostics(text, earlier, cleaner, limit=_DIAGNOSTICS[failed], shown=tail))


def _diagnostics(text: str, end: int, cleaner: Cleaner, *, limit: int, shown: str) -> list[str]:
    windows = _trouble_windows(text, end, limit)
    found: dict[str, None] = {}
    for start, stop in windows:
        for line in cleaner.clean(text[start:stop]).split("\n"):
            low = line.lower()
            if any(word in low for word in _TROUBLE):
                short = cut(line.strip(), _DIAGNOSTIC_CHARS)
                if short not in shown:
                    found[short] = None
        if len(found) >= limit:
            break
    return list(found)[:limit]


def _trouble_windows(text: str, end: int, limit: int) -> list[tuple[int, int]]:
    low = text[:end].lower()
    if len(low) != end:
        low = text[:end]  # a letter that changes its length in lower case: offsets must stay true
    hits: set[int] = set()
    for word in _TROUBLE:
        at = low.find(word)
        while at >= 0 and len(hits) < limit * 4:
            line_start = low.rfind("\n", 0, at) + 1
            hits.add(line_start)
            line_end = low.find("\n", at)
            at = low.find(word, line_end) if line_end >= 0 else -1
    merged: list[tuple[int, int]] = []
    for at in sorted(hits)[:limit]:
        start, stop = max(0, at - MARGIN), min(len(text), at + MARGIN)
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged
