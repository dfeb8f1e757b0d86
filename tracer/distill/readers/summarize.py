"""Shortens what an agent did to one line: arguments, output, fingerprints of files. Pure.

Cutting comes after cleaning: each function gives the raw pieces that are to be cleaned and the function that makes the
short form of the cleaned ones. A call is known by the shape of its arguments, so that new tools fare well too.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import orjson

from tracer.distill.cleaner import MARGIN, Cleaner, cut
from tracer.redaction.redactor import Clean

Operation = Literal["read", "write", "edit", "shell", "agent", "other"]

_COMMAND_LIMIT: Final = 500
_CUT: Final = "\x1f"
_MARK: Final = "[REDACTED:"
_VALUE_LIMIT: Final = 80
_LAST_LINE: Final = 1 << 53
_NAME_LIMIT: Final = 200
_CONTENT_KEYS: Final = ("content", "file_text", "new_source")
_PATH_KEYS: Final = ("file_path", "absolute_path", "notebook_path", "filePath", "path")
_READS: Final = re.compile(r"read|view|open|cat|notebookread", re.IGNORECASE)
_AGENT_TOOLS: Final = frozenset({"Task", "Agent", "invoke_agent", "spawn_agent", "delegate_to_agent"})
# `cat FILE`, the way agents without a read tool look at a whole file.
_CAT: Final = re.compile(r"cat\s+(?:--\s+)?(?:'([^'\n]+)'|\"([^\"$`\n]+)\"|([\w./@%+:,~-]+))\s*")
_PATCH_FILE: Final = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)


class Call(NamedTuple):
    """A call: `summary(cleaned pieces)` is its line; the last piece is the path where `has_path`.

    `offset` is where a read was asked to begin, as the provider counts; 0 for the beginning.
    """

    pieces: tuple[str, ...]
    summary: Callable[[Sequence[Clean]], Clean]
    operation: Operation = "other"
    has_path: bool = False
    offset: int = 0


def begun(text: str, limit: int) -> str:
    """As much of `text` as is cleaned to show `limit` characters of it, and a sign where that is not all."""
    return text if len(text) <= limit + MARGIN else text[: limit + MARGIN] + _CUT


def shown(cleaned: Clean, limit: int) -> Clean:
    """`limit` characters of what `begun` began.

    Marks may have made it so short that the cut, and half a secret at it, would be seen: then it ends with a mark.
    """
    if cleaned.endswith(_CUT) and len(cleaned) <= limit + len(_CUT):
        last = cleaned.find("]", cleaned.rfind(_MARK))
        return Clean(cleaned[: last + 1] + "…")
    return cut(cleaned, limit)


def _first(pieces: Sequence[Clean]) -> Clean:
    return shown(pieces[0], _COMMAND_LIMIT)


def describe(name: str, arguments: Any, cleaner: Cleaner) -> Call:
    """The one-line form of a call of `name` with its native arguments (an object, a text, or anything)."""
    if isinstance(arguments, str):
        if "*** Begin Patch" in arguments:
            return _patch(arguments, cleaner)
        return Call((begun(arguments, _COMMAND_LIMIT),), _first)
    if not isinstance(arguments, dict):
        return Call(("",), _first)
    command = arguments.get("command") or arguments.get("cmd")
    if command:
        return _command(command, cleaner)
    for key in _PATH_KEYS:
        path = arguments.get(key)
        if isinstance(path, str) and path:
            return _file(name, path, arguments, cleaner)
    if isinstance(arguments.get("input"), str) and "*** Begin Patch" in arguments["input"]:
        return _patch(arguments["input"], cleaner)
    return Call(_pairs(name, arguments), _joined, "agent" if name in _AGENT_TOOLS else "other")


def _command(command: Any, cleaner: Cleaner) -> Call:
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
        if len(words) == 3 and words[1].startswith("-") and words[1].endswith("c"):
            command = words[2]
        elif len(words) == 2 and words[0] == "apply_patch":
            return _patch(words[1], cleaner)
        else:
            command = shlex.join(words)
    if not isinstance(command, str):
        command = as_json(command)
    if "*** Begin Patch" in command:
        return _patch(command, cleaner)
    shown = begun(command, _COMMAND_LIMIT)
    reading = _CAT.fullmatch(command.strip()) if command.startswith("cat") and len(command) < MARGIN else None
    if reading is None:
        return Call((shown,), _first, "shell")
    path = next(group for group in reading.groups() if group)
    return Call((shown, cleaner.relative(path)), _first, "shell", has_path=True)


def _file(name: str, path: str, arguments: Mapping[str, Any], cleaner: Cleaner) -> Call:
    pieces = (cleaner.relative(path),)
    for key in _CONTENT_KEYS:
        if key in arguments:
            if isinstance(content := arguments[key], str):
                return Call(pieces, _counted(line_count(content), "lines"), "write", has_path=True)
            break
    edits = arguments.get("edits")
    if isinstance(edits, list) or "old_string" in arguments or "new_string" in arguments or "old_str" in arguments:
        expected = arguments.get("expected_replacements")
        count = len(edits) if isinstance(edits, list) else expected if isinstance(expected, int) else 1
        return Call(pieces, _counted(count, "replacements"), "edit", has_path=True)
    if _reads(name[:_NAME_LIMIT]):
        begins = arguments.get("offset")
        offset = begins if type(begins) is int and 0 < begins < _LAST_LINE else 0
        return Call(pieces, _first, "read", has_path=True, offset=offset)
    others = {key: value for key, value in arguments.items() if value != path}
    return Call((*_pairs(name, others), *pieces), _path_and_pairs, has_path=True)


@lru_cache(maxsize=64)
def _reads(name: str) -> bool:
    """Whether a tool of this name reads files."""
    return _READS.search(name) is not None


def _counted(count: int, what: str) -> Callable[[Sequence[Clean]], Clean]:
    return lambda pieces: Clean(f"{pieces[0]} ({count} {what})")


def _joined(pieces: Sequence[Clean]) -> Clean:
    return cut(Clean(" ".join(shown(piece, _VALUE_LIMIT) for piece in pieces)), _COMMAND_LIMIT)


def _path_and_pairs(pieces: Sequence[Clean]) -> Clean:
    return Clean(f"{pieces[-1]} {_joined(pieces[:-1])}".rstrip())


def _pairs(name: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    pairs: list[str] = []
    for key, value in list(arguments.items())[:20]:
        if name in _AGENT_TOOLS and key in {"prompt", "message", "task"}:
            continue  # kept once, in the meta line's agents
        text = value if isinstance(value, str) else as_json(value)
        pairs.append(begun(f"{key}={text}", _VALUE_LIMIT))
    return tuple(pairs)


def _patch(patch: str, cleaner: Cleaner) -> Call:
    """An `apply_patch` text: each file with its lines or hunks."""
    marks = list(_PATCH_FILE.finditer(patch))[:200]
    if not marks:
        return Call(("apply_patch",), _first, "edit")
    paths, notes = [], []
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        body = patch[mark.end() : following.start() if following else len(patch)]
        paths.append(cleaner.relative(mark.group(2)))
        match mark.group(1):
            case "Add":
                notes.append(f"({body.count(chr(10) + '+')} lines)")
            case "Update":
                notes.append(f"({body.count(chr(10) + '@@') or 1} replacements)")
            case _:
                notes.append("(deleted)")
    operation: Operation = "write" if len(marks) == 1 and marks[0].group(1) == "Add" else "edit"

    def summary(pieces: Sequence[Clean]) -> Clean:
        told = ", ".join(f"{path} {note}" for path, note in zip(pieces, notes, strict=True))
        return cut(Clean(told), _COMMAND_LIMIT)

    return Call(tuple(paths), summary, operation, has_path=len(marks) == 1)


def as_json(value: Any) -> str:
    """`value` as compact JSON; `…` where it is too deep or holds what JSON cannot."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return "…"


def line_count(text: str) -> int:
    """Lines of a text; the last one counts also without a newline."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def fingerprint(content: str, lines: int | None = None) -> dict[str, Any] | None:
    """`lines` and `sha256` of a whole file's text, or None where its bytes cannot be told from the text."""
    if "\ufffd" in content:
        return None
    return {
        "lines": line_count(content) if lines is None else lines,
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
    }


_TAIL_LINES: Final = {False: 5, True: 20}
_TAIL_CHARS: Final = {False: 400, True: 2000}
_DIAGNOSTICS: Final = {False: 5, True: 20}
_DIAGNOSTIC_CHARS: Final = 200
_TROUBLE: Final = ("error", "fail", "exception", "traceback", "warning", "panic", "fatal", "denied", "not found")
# A line that reports trouble, rather than one that only speaks of it (source code, a list of file names).
_REPORT: Final = re.compile(
    r"(?i:^\W{0,8}(?:error|failed|failure|fail|fatal|panicked|panic|warning|traceback|npm err!)\b(?!\s*[=(.,]))"
    r"|(?i:\b(?:error|warning|fatal)(?:\[\w+\]|\s+\w{1,3}\d+)?:\s)"
    r"|(?:Error|Exception|Warning)(?::\s|$)"
    r"|: (?i:command not found|no such file or directory|permission denied|not found)\b"
    r"|\b(?:FAILED|FAIL|ERROR|FATAL)\b|\bpanicked at\b",
    re.MULTILINE,  # `^` is to hold where a line begins, not where the text does
)


class Window(NamedTuple):
    """The parts of an output that are kept, each with its 4 KB of surroundings; the last one holds the tail."""

    pieces: tuple[str, ...]
    failed: bool
    whole: bool

    def digest(self, cleaned: Sequence[Clean]) -> tuple[Clean, list[Clean]]:
        """What is kept of the cleaned pieces: the tail and, from before the tail, the lines that report trouble."""
        chars = _TAIL_CHARS[self.failed]
        text = cleaned[-1] if self.whole else _behind_cut(cleaned[-1])
        lines = text.split("\n")
        fits = self.whole and len(lines) <= _TAIL_LINES[self.failed] and len(text) <= chars
        if fits and max(map(len, lines)) <= _DIAGNOSTIC_CHARS:
            return text, []  # every line stands in the tail
        tail = "\n".join(lines[-_TAIL_LINES[self.failed] :])
        if len(tail) > chars:
            tail = "…" + tail[-chars:]
        found: dict[Clean, None] = {}
        for piece in cleaned if not self.whole else (cleaned[-1],):
            for begin, stop in _places(piece, len(piece), 20):
                line = cut(Clean(piece[begin:stop].strip()), _DIAGNOSTIC_CHARS)
                if line not in tail:
                    found[line] = None
        return Clean(tail), list(found)[: _DIAGNOSTICS[self.failed]]


def _behind_cut(piece: Clean) -> Clean:
    """`piece` without its first line (or what stands before its first mark): half a secret may stand there."""
    _, newline, rest = piece.partition("\n")
    return Clean(rest if newline else piece[max(piece.find(_MARK), 0) :])


def window_of(output: str, *, failed: bool) -> Window | None:
    """The pieces of `output` to clean; None where there is nothing."""
    text = output.rstrip()
    if not text:
        return None
    start = max(0, len(text) - _TAIL_CHARS[failed] - MARGIN)
    if start == 0:
        return Window((text,), failed, whole=True)
    spans = _trouble_spans(text, start, _DIAGNOSTICS[failed])
    if spans and spans[-1][1] >= start:
        start = spans.pop()[0]
    return Window((*(text[low:high] for low, high in spans), text[start:]), failed, whole=False)


def _places(text: str, end: int, limit: int) -> list[tuple[int, int]]:
    """Begin and end of the first lines before `end` that report trouble."""
    low = text.lower()
    if len(low) != len(text):
        low = text  # a letter that changes its length in lower case: offsets must stay true
    found: set[tuple[int, int]] = set()
    harmless: set[int] = set()  # lines that another word led to: few words name one trouble
    for word in _TROUBLE:
        at, tried = low.find(word, 0, end), 0
        while at >= 0 and tried < 50:
            tried += 1
            begin, stop = low.rfind("\n", 0, at) + 1, low.find("\n", at)
            stop = stop if stop >= 0 else len(low)
            if stop - begin < 2000 and begin not in harmless:
                if (begin, stop) in found or _REPORT.search(text, begin, stop) is not None:
                    found.add((begin, stop))
                    if len(found) >= 4 * limit:
                        break
                else:
                    harmless.add(begin)
            at = low.find(word, stop, end)
    return sorted(found)[:limit]


def _trouble_spans(text: str, end: int, limit: int) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, stop in _places(text, end, limit):
        low, high = max(0, begin - MARGIN), min(len(text), stop + MARGIN)
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged
