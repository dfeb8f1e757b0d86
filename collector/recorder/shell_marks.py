"""Prompt and command marks in a shell's output, both ends: start-up files that print them, the reader.

A mark is `ESC ] 7717 ; <nonce> ; <kind> [; fields] BEL` (after OSC 133); the nonce keeps printed files from faking one.
The user's start-up files run first and as usual; no prompt variable is touched.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tracer.durable import ensure_folder, replace
from tracer.errors import RecordError, UsageError

ShellName = Literal["bash", "zsh"]
_OLDEST_BASH: Final = (4, 4)  # PS0
_BASH: Final = Path(__file__).with_name("marks.bash").read_text(encoding="utf-8")
_ZSH_SOURCE: Final = r"""# made by pm record: your own file, as if it had been read from its own place
__pm_home="@ZDOTDIR@"
ZDOTDIR="$__pm_home"
if [[ -f "$ZDOTDIR/@FILE@" ]]; then . "$ZDOTDIR/@FILE@"; fi
"""
_ZSH_BACK: Final = r"""__pm_home="${ZDOTDIR:-$HOME}"
ZDOTDIR="@OURS@"
"""
_ZSH_RC: Final = Path(__file__).with_name("marks.zsh").read_text(encoding="utf-8")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A shell to record: its kind, its program, and how to start it."""

    name: ShellName
    program: str
    arguments: tuple[str, ...] = ()
    environ: Mapping[str, str] | None = None


def find_shell(wanted: str, environ: Mapping[str, str]) -> Shell:
    """The shell called `wanted` (`bash`, `zsh` or a path), else `$SHELL`."""
    chosen = wanted or environ.get("SHELL") or "bash"
    name = Path(chosen).name
    program = chosen if "/" in chosen else shutil.which(chosen, path=environ.get("PATH"))
    if name not in {"bash", "zsh"}:
        raise UsageError(
            f"pm record does not know the shell {name!r}", why="it knows bash and zsh", next_step="--shell bash"
        )
    if not program or not Path(program).is_file():
        raise UsageError(f"there is no {chosen!r} here", next_step="--shell /path/to/bash")
    shell = Shell(name="bash" if name == "bash" else "zsh", program=program)
    if shell.name == "bash" and _bash_version(program) < _OLDEST_BASH:
        raise UsageError(
            f"{program!r} is older than bash 4.4",
            why="it cannot mark commands",
            next_step="--shell zsh, or a newer bash",
        )
    return shell


def prepare(shell: Shell, folder: Path, *, nonce: str, environ: Mapping[str, str]) -> Shell:
    """Write the start-up files into `folder`; the shell with its arguments and environment."""
    try:
        ensure_folder(folder)
        if shell.name == "bash":
            path = folder / "bashrc"
            replace(path, _BASH.replace("@NONCE@", nonce).encode())
            return dataclasses.replace(shell, arguments=("--rcfile", str(path), "-i"), environ=dict(environ))
        return _prepare_zsh(shell, folder, nonce=nonce, environ=environ)
    except OSError as error:
        raise RecordError(f"the shell's start-up files cannot be written in {str(folder)!r}", why=error) from error


def _prepare_zsh(shell: Shell, folder: Path, *, nonce: str, environ: Mapping[str, str]) -> Shell:
    home = environ.get("ZDOTDIR") or environ.get("HOME") or "/"

    def filled(text: str, name: str) -> bytes:
        unset = "" if environ.get("ZDOTDIR") else "1"
        for mark, value in (("@ZDOTDIR@", _quoted(home)), ("@OURS@", _quoted(str(folder))), ("@FILE@", name)):
            text = text.replace(mark, value)
        return text.replace("@NONCE@", nonce).replace("@UNSET@", unset).encode("utf-8", "surrogateescape")

    replace(folder / ".zshenv", filled(_ZSH_SOURCE + _ZSH_BACK, ".zshenv"))
    replace(folder / ".zshrc", filled(_ZSH_RC, ".zshrc"))
    return dataclasses.replace(shell, arguments=("-i",), environ={**environ, "ZDOTDIR": str(folder)})


def _quoted(path: str) -> str:
    """`path` for the inside of double quotes."""
    return re.sub(r'(["\\$`])', r"\\\1", path)


def _bash_version(program: str) -> tuple[int, int]:
    try:
        said = subprocess.run(
            [program, "--norc", "--noprofile", "-c", 'echo "${BASH_VERSINFO[0]} ${BASH_VERSINFO[1]}"'],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        ).stdout.split()
        return int(said[0]), int(said[1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return (0, 0)


_LONGEST_MARK: Final = 64 << 10
_LONGEST_TEXT: Final = 1 << 20
_BEL: Final = b"\x07"


class Mark(NamedTuple):
    """A mark. `prompt`: fields are exit code, pipe status, folder; `text` is the shell's clock in seconds, or empty.

    `command`: `text` is its line, fields are flags.
    """

    kind: str
    fields: tuple[str, ...]
    text: bytes = b""


Token = Mark | bytes


class Cut:
    """Cuts one stream. `feed` returns (shown, tokens); bytes between marks are tokens too, in order."""

    def __init__(self, nonce: str) -> None:
        self._start = b"\x1b]7717;" + nonce.encode("ascii") + b";"
        self._held = b""
        self._open: Mark | None = None
        self._text = b""

    def feed(self, data: bytes) -> tuple[bytes, list[Token]]:
        """Take the next bytes."""
        data, self._held = self._held + data, b""
        shown: list[bytes] = []
        tokens: list[Token] = []
        while data:
            at = data.find(self._start)
            if at < 0:
                keep = _partial(data, self._start)
                self._held = data[len(data) - keep :]
                self._plain(data[: len(data) - keep], shown, tokens)
                break
            self._plain(data[:at], shown, tokens)
            end = data.find(_BEL, at)
            if end < 0:
                if len(data) - at <= _LONGEST_MARK:
                    self._held = data[at:]
                else:  # no mark of ours is that long
                    self._plain(data[at:], shown, tokens)
                break
            self._mark(data[at + len(self._start) : end], tokens)
            data = data[end + 1 :]
        return b"".join(shown), tokens

    def close(self) -> tuple[bytes, list[Token]]:
        """What was held back, at the end of the stream."""
        rest, self._held = self._held, b""
        shown: list[bytes] = []
        tokens: list[Token] = []
        self._plain(rest, shown, tokens)
        return b"".join(shown), tokens

    def _plain(self, data: bytes, shown: list[bytes], tokens: list[Token]) -> None:
        if not data:
            return
        if self._open is None:
            shown.append(data)
            tokens.append(data)
            return
        self._text += data
        if len(self._text) > _LONGEST_TEXT:  # the end mark was lost: what was swallowed must be seen again
            shown.append(self._text)
            tokens.append(self._text)
            self._open, self._text = None, b""

    def _mark(self, body: bytes, tokens: list[Token]) -> None:
        kind, *fields = body.decode("utf-8", "replace").split(";")
        if kind == "C":
            self._open, self._text = Mark("command", tuple(fields)), b""
        elif kind == "/" and self._open is not None:
            text = self._text.replace(b"\r\n", b"\n")  # the terminal's line discipline put the CRs in
            tokens.append(self._open._replace(text=text))
            self._open, self._text = None, b""
        elif kind == "A":
            status, _, ended = (fields or [""])[0].partition("@")
            tokens.append(Mark("prompt", (status, *fields[1:]), ended.encode()))


def _partial(data: bytes, start: bytes) -> int:
    """How many bytes at the end of `data` may be the beginning of `start`."""
    for length in range(min(len(start) - 1, len(data)), 0, -1):
        if data.endswith(start[:length]):
            return length
    return 0
