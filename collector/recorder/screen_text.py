"""Reads what a terminal showed: plain text, history lines, test summaries and reports."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from collector.client.spool import Draft
from collector.recorder.command_lines import Line, TestCommand, junit_path, status_of
from collector.recorder.shell_marks import Mark

_SEQUENCE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # two-character and charset sequences
    r"|[\x00-\x08\x0a-\x1a\x1c-\x1f\x7f]"
)
_UNFINISHED: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)$")
_ALTERNATE: Final = re.compile(r"\x1b\[\?(?:[0-9]+;)*(?:1049|1047|47)(?:;[0-9]+)*([hl])")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LONGEST_SEQUENCE: Final = 64 << 10
_LONGEST_LINE: Final = 64 << 10


class PlainText:
    """One command's output. `feed` bytes, then `close`; joined, what they return is the text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._line: list[str] = []
        self._at = 0
        self._drawn = 0
        self._alternate = False

    def feed(self, data: bytes) -> str:
        """Whole lines that are settled by now."""
        return self._take(self._held + self._decoder.decode(data), last=False)

    def close(self) -> str:
        """Everything left."""
        text = self._take(self._held + self._decoder.decode(b"", final=True), last=True)
        return text + self._leave() + self._flush_line()

    def _take(self, text: str, *, last: bool) -> str:
        self._held = ""
        if not last:
            open_end = _UNFINISHED.search(text, max(len(text) - _LONGEST_SEQUENCE, 0))
            if open_end:
                self._held, text = text[open_end.start() :], text[: open_end.start()]
            elif text.endswith("\r"):  # half a line end
                self._held, text = "\r", text[:-1]
        out: list[str] = []
        if self._line:  # the line that is open, up to its end
            end = text.find("\n") + 1
            self._interpret(text[:end], out)
            text = text[end:]
        self._interpret(self._plain_lines(text, out), out)
        return "".join(out)

    def _interpret(self, text: str, out: list[str]) -> None:
        """Do what the text and its control sequences say."""
        at = 0
        for match in _SEQUENCE.finditer(text):
            self._write(text[at : match.start()], out)
            self._control(match.group(), out)
            at = match.end()
        self._write(text[at:], out)

    def _plain_lines(self, text: str, out: list[str]) -> str:
        """Take whole lines without any control in one step (most output is such); what is left of `text`."""
        if self._alternate or self._line:
            return text
        end = text.rfind("\n") + 1
        lines = text[:end].replace("\r\n", "\n")
        if not lines or _CONTROL.search(lines):
            return text
        out.append(lines)
        return text[end:]

    def _write(self, text: str, out: list[str]) -> None:
        if not text:
            return
        if self._alternate:
            self._drawn += len(text)
            return
        text = text.replace("\x1b", "")
        self._line[self._at : self._at + len(text)] = text
        self._at += len(text)
        if len(self._line) > _LONGEST_LINE:
            out.append(self._flush_line())

    def _control(self, sign: str, out: list[str]) -> None:
        alternate = _ALTERNATE.fullmatch(sign)
        if alternate:
            if alternate[1] == "h":
                open_line = self._flush_line()
                out.append(open_line + "\n" if open_line else "")
                self._alternate = True
            else:
                out.append(self._leave())
        elif self._alternate:
            self._drawn += len(sign)
        elif sign == "\n":
            self._line.append("\n")
            out.append(self._flush_line())
        elif sign == "\r":
            self._at = 0
        elif sign == "\b":
            self._at = max(self._at - 1, 0)
        elif sign in {"\x1b[K", "\x1b[0K"}:
            del self._line[self._at :]
        elif sign == "\x1b[2K":
            self._line = [" "] * self._at

    def _leave(self) -> str:
        if not self._alternate:
            return ""
        self._alternate = False
        drawn, self._drawn = self._drawn, 0
        return f"[full-screen program: {drawn:,} characters drawn, not kept]\n"

    def _flush_line(self) -> str:
        text, self._line, self._at = "".join(self._line), [], 0
        return text


_HISTORY: Final = re.compile(rb"\s*(\d+)\*? {1,2}(.*)", re.DOTALL)
_SUMMARY_LINES: Final = 30
_RAN: Final = r"^Ran \d+ tests? in [\d.]+s\s+"
# Of each runner: what it prints where a test failed (one is enough), and where none did.
_SUMMARIES: Final = tuple(
    (re.compile(failed, re.MULTILINE), re.compile(passed, re.MULTILINE))
    for failed, passed in (
        (_RAN + r"FAILED \(", _RAN + r"OK\b"),  # unittest
        (r"^FAIL(?:\t|$)", r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))"),  # go test
        (r"^test result: FAILED\.", r"^test result: ok\."),  # cargo
        (r"^\s*Tests:?\s+(?:.*[,|] *)?\d+ failed\b", r"^\s*Tests:?\s+\d+ passed\b"),  # jest, vitest
        (r"^\s*\d+ failing\b", r"^\s*\d+ passing\b"),  # mocha
        (r"^[#ℹ] fail [1-9]", r"^[#ℹ] fail 0$"),  # node --test
    )
)


def looks(
    line: Line, clean: Callable[[str], str], *, place: Callable[[str], str], context: Mapping[str, Any], ts_ms: int
) -> list[Draft]:
    """Looking at files and starting debuggers, as events of their own; `place` resolves a path, `clean` redacts."""
    drafts: list[Draft] = []
    if line.viewed is not None:
        kind, path, number, query = line.viewed
        payload: dict[str, Any] = {"kind": kind}
        if path:
            payload["file_path"] = clean(place(path))
        if number is not None:
            payload["line"] = number
        if query:
            payload["query"] = clean(query)
        drafts.append(Draft(type="navigation", payload=payload, context=context, ts_ms=ts_ms))
    if line.debugger:
        payload = {"action": "attach", "expression": clean(line.debugger)}
        drafts.append(Draft(type="debug_action", payload=payload, context=context, ts_ms=ts_ms))
    return drafts


def placed(path: str, *, cwd: str, top: str) -> str:
    """`path`, as it is named in the folder `cwd`, from the workspace `top`; one that lies elsewhere in full."""
    if path.startswith("~"):
        return path
    full = os.path.normpath(os.path.join(os.path.realpath(cwd), path))  # noqa: PTH118 - a text; nothing need be there
    inside = os.path.relpath(full, os.path.realpath(top))
    return full if inside.split("/")[0] == ".." else inside


def numbered(mark: Mark) -> tuple[int, str]:
    """The number and the text of a line of bash's history."""
    match = _HISTORY.fullmatch(mark.text.rstrip(b"\r\n"))
    if match is None:
        return -1, ""
    return int(match[1]), match[2].decode("utf-8", "replace")


def shows(drawn: bytes, text: str) -> bool:
    """Whether what was drawn at the prompt ends with the command `text`; wrapping and blanks do not count."""
    plain = PlainText()
    lines = plain.feed(drawn.replace(b"\r", b"")) + plain.close()
    return "".join(lines.split()).endswith("".join(text.split()))


def told_by_summary(end: str) -> int | None:
    """0 or 1 where the last lines are the summary of a test runner; None where nobody can tell."""
    last = end.splitlines()[-_SUMMARY_LINES:]
    for line in reversed(last[-8:]):
        if re.search(r"\b\d+ (?:failed|errors?)\b.* in [\d.]+s", line):
            return 1
        if re.search(r"\b\d+ passed\b.* in [\d.]+s", line):
            return 0
    text = "\n".join(last)
    for failed, passed in _SUMMARIES:
        if failed.search(text):
            return 1
        if passed.search(text):
            return 0
    return None


_LARGEST_REPORT: Final = 5 << 20
_NOT_STARTED: Final = (126, 127)  # the shell found no such program, or may not run it
_NO_FOLDER: Final = re.compile(r"\S+ cd: [^\n]+|cd: [^\n]+")  # all that `cd nowhere && pytest` prints


def test_run(
    test: TestCommand, *, status: int | None, pipe: Sequence[int], printed: str, took: tuple[int, int]
) -> dict[str, Any] | None:
    """The payload without its command; None where nobody can tell how the tests themselves ended.

    `status` is the line's exit code (None: unknown), `pipe` those of its last pipe, `took` start and end (ms).
    """
    code = None if status is None else status_of(test, line_status=status, pipe=pipe)
    if code is None or (code and _NO_FOLDER.fullmatch(printed.strip())):
        code = told_by_summary(printed)
    if code is None or code in _NOT_STARTED:
        return None
    began_ms, ended_ms = took
    return {"runner": test.runner, "exit_code": code, "duration_ms": max(ended_ms - began_ms, 0), "passed": code == 0}


def report_of(words: Sequence[str], *, cwd: str, began_ms: int) -> bytes | None:
    """The JUnit report that the run was told to write, where it did."""
    named = junit_path(words)
    if named is None:
        return None
    path = Path(cwd) / named
    try:
        facts = path.stat()
        if facts.st_size > _LARGEST_REPORT or facts.st_mtime_ns // 1_000_000 < began_ms - 1000:
            return None
        return path.read_bytes()
    except OSError:
        return None
