"""The only output of the product: results to stdout, messages to stderr, secrets redacted in both."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from repl.present.text import ascii_only, escape
from tracer.errors import PmError, RecordError
from tracer.redaction.cuts import clean
from tracer.redaction.redactor import NO_ADDITIONS, RedactionSettings

if TYPE_CHECKING:
    from repl.present.blocks import Block


Form = Literal["human", "json", "jsonl"]
SCHEMA_VERSION = 1
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Stream(Protocol):
    """What text is written to."""

    def write(self, text: str, /) -> Any: ...
    def flush(self) -> Any: ...


class Output:
    """Where a command's words go. `colour`, `plain`, `interactive` and `columns` say how they may look."""

    def __init__(
        self,
        *,
        stdout: Stream,
        stderr: Stream,
        form: Form = "human",
        quiet: bool = False,
        verbose: bool = False,
        plain: bool = False,
        colour: bool = False,
        interactive: bool = False,
        columns: int = 80,
    ) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.form: Form = form
        self.quiet = quiet
        self.verbose = verbose
        self.plain = plain
        self.colour = colour
        self.interactive = interactive
        self.columns = columns
        self.ended = False
        self.lost = False
        self.redaction: RedactionSettings = NO_ADDITIONS
        """What the settings add to redaction, once a command has read them."""
        self.rephrase: Callable[[str], str] | None = None
        """How a next step is said at the prompt, where a command begins with a slash."""

    @property
    def human(self) -> bool:
        """Whether people read stdout; in the JSON forms only records go there."""
        return self.form == "human"

    def line(self, text: str = "") -> None:
        """One line of the result, for people. Recorded text in it must have been escaped by the caller's renderer."""
        if self.human:
            self._write(self.stdout, text + "\n")

    def lines(self, texts: list[str]) -> None:
        if self.human and texts:
            self._write(self.stdout, "\n".join(texts) + "\n")

    def block(self, block: Block) -> None:
        """Part of the result that views render by its kind."""
        if self.human and (take := getattr(self.stdout, "take_block", None)) is not None:
            take(block)
        elif self.human:
            self.lines(self.rendered(block))

    def rendered(self, block: Block) -> list[str]:
        from repl.present.blocks import block_lines  # 2 ms, only where there is something to show

        return block_lines(block, columns=self.columns, colour=self.colour)

    def data(self, chunk: bytes) -> None:
        """Stored bytes to stdout as they are, in every form (`trace --raw`, `--jsonl` lines)."""
        with self._kept(self.stdout):
            self.stdout.flush()
            raw = getattr(self.stdout, "buffer", None)
            if raw is None:
                self.stdout.write(escape(chunk.decode("utf-8", "backslashreplace")))
            else:
                raw.write(chunk)
            self.stdout.flush()

    def note(self, text: str) -> None:
        """Narration and hints, to stderr unless `--quiet`."""
        if self.rephrase is not None and text.lstrip().startswith("next:"):
            text = self.rephrase(text)
        if not self.quiet:
            self._write(self.stderr, text + "\n")

    def warn(self, text: str) -> None:
        """What must be known whatever was asked for; to stderr, also under `--quiet`."""
        self._write(self.stderr, text + "\n")

    def detail(self, text: str) -> None:
        """Narration that only `--verbose` shows."""
        if self.verbose:
            self._write(self.stderr, text + "\n")

    def record(self, fields: Mapping[str, Any]) -> None:
        """One JSON line among several, under `--jsonl`."""
        if self.form == "jsonl":
            self._json(fields)

    def result(self, command: str, fields: Mapping[str, Any]) -> None:
        """The closing record of a run that ended with 0; nothing in the human form."""
        if not self.human and not self.ended:
            self.ended = True
            self._json({"type": "result", "schema_version": SCHEMA_VERSION, "command": command, **fields})

    def failure(self, command: str, error: PmError, code: int, fields: Mapping[str, Any] | None = None) -> None:
        """The closing record of a run that did not end with 0; no human text (see `error`)."""
        if not self.human and not self.ended:
            self.ended = True
            told = {"message": error.what, "why": error.why, "next": error.next_step}
            body = {"code": error.code, "exit": int(code)} | {
                name: escape(clean(text, self.redaction)) for name, text in told.items()
            }
            record = {"type": "error", "schema_version": SCHEMA_VERSION}
            record |= {"command": clean(command, self.redaction), "error": body}
            self._json({**record, **(fields or {})})

    def error(self, error: PmError) -> None:
        """The three lines of an error: what, why, next step; to stderr, also under `--quiet`."""
        self._write(self.stderr, clean("\n".join(error_lines(error)), self.redaction) + "\n")

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text

    def tinted(self, text: str, *, good: bool) -> str:
        """`text` green or red where colour is on; the word itself must carry the meaning."""
        return f"\x1b[{32 if good else 31}m{text}\x1b[0m" if self.colour else text

    def _json(self, fields: Mapping[str, Any]) -> None:
        import json  # 15 ms, not needed by `pm version`

        with self._kept(self.stdout):
            self.stdout.write(json.dumps(fields, ensure_ascii=False, separators=(",", ":"), default=str) + "\n")
            self.stdout.flush()

    def _write(self, stream: Stream, text: str) -> None:
        with self._kept(stream):
            stream.write(ascii_only(text) if self.plain else text)
            stream.flush()

    @contextmanager
    def _kept(self, stream: Stream) -> Iterator[None]:
        """A full disk under a result is an error that is said; under narration it costs the narration only."""
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            if stream is not self.stdout or self.lost:
                return
            self.lost = True
            raise RecordError(
                "cannot write the output", why=error, next_step="free space, or send the output elsewhere"
            ) from error


def error_lines(error: PmError) -> list[str]:
    """`pm: what`, then `why` and `next:` where there are any, each kept on its own line and escaped."""
    lines = [f"pm: {escape(error.what)}"]
    lines.extend(f"  {escape(part)}" for part in error.why.split("\n") if part)
    if error.next_step:
        lines.append(f"  next:  {escape(error.next_step)}")
    return lines


def make_output(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Output:
    """The output of this process. NO_COLOR counts when set and not empty; away from a terminal there is no colour."""
    form: Form = "json" if flags.get("json") else "jsonl" if flags.get("jsonl") else "human"
    terminal = _is_terminal(sys.stdout)
    dumb = environ.get("TERM", "") in {"dumb", ""} if terminal else False
    narrow = not (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "").startswith("utf8")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    plain = bool(flags.get("plain")) or dumb or narrow
    columns = _columns(terminal)
    colour = terminal and not plain and not flags.get("no_color") and not environ.get("NO_COLOR") and form == "human"
    return Output(
        stdout=sys.stdout,
        stderr=sys.stderr,
        form=form,
        quiet=bool(flags.get("quiet")),
        verbose=bool(flags.get("verbose")),
        plain=plain,
        colour=colour,
        interactive=terminal and not plain and form == "human",
        columns=max(columns - 2, 0) if plain else columns,  # the mark of a cut is three letters in ASCII
    )


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _columns(terminal: bool) -> int:  # noqa: FBT001 - the one question is whether there is a terminal
    if not terminal:
        return 0
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 80
