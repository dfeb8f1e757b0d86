"""The first process inside every sandbox and the capability probe: scripts and the reading of their output.

The script is process 1 of its namespace: it unpacks the tree, looks for the tool, runs the command, kills what is left
and reports; marks with a random word part its words from the command's. Pure.
"""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

from collector.qa.sandbox.port import Guarantee, Limits

PROBE = Path(__file__).with_name("probe.sh").read_text(encoding="utf-8")


def held_from(text: str, limits: Limits) -> tuple[Guarantee, ...]:
    """The guarantees that the probe's answer shows, run under `limits`."""
    said = dict(line.replace(":", " ", 1).split(None, 1) for line in text.splitlines() if len(line.split()) > 1)
    words = said.get("map", "").split()
    shown: dict[Guarantee, bool] = {
        "memory": _at_most(said.get("memory"), limits.memory_bytes),
        "pids": _at_most(said.get("pids"), limits.pids),
        "cpu": _at_most(said.get("cpu"), 10**9) and not said.get("cpu", "").startswith("-"),
        "network": said.get("devices", "").strip() == "0",
        "read_only": "uid" in said and "writable" not in said,
        "capabilities": _is_zero(said.get("CapEff")) and _is_zero(said.get("CapBnd")),
        "no_new_privileges": said.get("NoNewPrivs", "").strip() == "1",
        "not_root": said.get("uid", "0").strip() != "0",
        "seccomp": said.get("Seccomp", "").strip() == "2",
        "user_mapping": len(words) >= 2 and words[0] != words[1],  # ids inside are other ids outside
    }
    return tuple(name for name, holds in shown.items() if holds)


def _at_most(shown: str | None, limit: int) -> bool:
    first = (shown or "max").split()[0]
    return first.isdigit() and int(first) <= limit


def _is_zero(shown: str | None) -> bool:
    return shown is not None and set(shown.strip()) == {"0"}


def process_limit(text: str) -> int | None:
    """The soft limit on processes (RLIMIT_NPROC) that the probe saw; None where there is none."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["processes"] and len(words) > 1:
            return int(words[1]) if words[1].isdigit() else None
    return None


_LONGEST_LINE = 4096
# Where the tree under test stands inside every sandbox.
WORKSPACE = "/code"
# The trap: dash would end at an interrupt, and what is ignored instead would be ignored by the tests too.
# Arguments: the words that start a command as another user, probe, reports, save, then the command. POSIX sh, as in
# dash, bash and busybox.
SCRIPT = Path(__file__).with_name("inside.sh").read_text(encoding="utf-8").replace("WORKSPACE", WORKSPACE)


def script_arguments(
    command: tuple[str, ...], *, probe: str, reports: tuple[str, ...], save: bool, become: tuple[str, ...] = ()
) -> list[str]:
    """The words after `sh -c`: script, its name, and what it is told; `become` starts a command as another user."""
    return [SCRIPT, "sandbox", " ".join(become), probe, " ".join(reports), "yes" if save else "", *command]


@dataclass(frozen=True, slots=True)
class End:
    """What the script said after the command: its exit code and how often the kernel killed for memory."""

    exit_code: int
    killed_for_memory: int


class FrameReader:
    """Splits marks, command output and the tar after it as bytes come; holds no more than one mark.

    `stage`: `setup` (nothing ran yet), `unpack_failed`, `missing`, `running`, `ended`.
    """

    def __init__(self, word: str) -> None:
        self._word = word.encode("ascii")
        self._held = b""
        self.stage = "setup"
        self.end: End | None = None

    def feed(self, chunk: bytes) -> tuple[bytes, bytes]:
        """The command's output and the bytes of the tar in `chunk` (either may be empty)."""
        data, self._held = self._held + chunk, b""
        if self.stage == "setup":
            data = self._begin(data)
        if self.stage == "ended":
            return b"", data
        if self.stage != "running":
            return b"", b""
        return self._split(data)

    def rest(self) -> bytes:
        """What was held back in case a mark followed, once the stream has ended."""
        held, self._held = self._held, b""
        return held if self.stage == "running" else b""

    def _begin(self, data: bytes) -> bytes:
        for mark, stage in ((b" start\n", "running"), (b" missing\n", "missing"), (b" setup\n", "unpack_failed")):
            _, found, after = data.partition(self._word + mark)
            if found:
                self.stage = stage
                return after
        self._held = data[-(len(self._word) + 16) :]
        return b""

    def _split(self, data: bytes) -> tuple[bytes, bytes]:
        mark = b"\n" + self._word + b" end "
        at = data.find(mark)
        if at < 0:
            keep = _overlap(data, mark)
            self._held = data[len(data) - keep :] if keep else b""
            return data[: len(data) - keep], b""
        line, newline, after = data[at + len(mark) :].partition(b"\n")
        if not newline and len(data) - at < _LONGEST_LINE:
            self._held = data[at:]
            return data[:at], b""
        code, _, memory = line.partition(b" ")
        self.end = End(_number(code, otherwise=255), _number(memory, otherwise=0))
        self.stage = "ended"
        return data[:at], after


def _overlap(data: bytes, mark: bytes) -> int:
    """How many bytes at the end of `data` could be the beginning of `mark`."""
    for length in range(min(len(data), len(mark) - 1), 0, -1):
        if mark.startswith(data[-length:]):
            return length
    return 0


def _number(text: bytes, *, otherwise: int) -> int:
    return int(text) if text.isdigit() and len(text) < 10 else otherwise


def reports_of(archive: bytes) -> dict[str, bytes]:
    """The regular files of a tar by name; links, devices and whatever cannot be read are left out."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isreg() and not member.issparse() else None
                if file is not None:
                    found[member.name] = file.read()
    except (tarfile.TarError, EOFError, ValueError, OSError):
        return found  # a report that a program spoiled is a report that is not there
    return found
