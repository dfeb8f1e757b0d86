"""Redaction of streams, files and folders in bounded memory.

A secret split over two pieces of a stream is found: the newest 4 KB are held back until what follows is known. Files
are read by lines of bounded length; links are not followed; reports name rule and place, never the secret.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import orjson

from tracer.clock import now_epoch_ms
from tracer.durable import ensure_folder, output_file
from tracer.errors import NotFoundError, TraceError

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor

WRITING: Final = "something is writing to it"
_SQLITE: Final = b"SQLite format 3\0"
_MARGIN = 4096
_LONGEST_HELD = 1_000_000


class StreamRedactor:
    """One stream of text. `feed` each piece, then `close`; what they return, joined, is the redacted text.

    Memory is bounded: at most 1 MB is held, and only while one find (a private key block) goes on for that long.
    """

    def __init__(self, redactor: ProjectRedactor) -> None:
        self._redactor = redactor.untruncated()
        self._reader = self._redactor.reader()
        self._margin = max(_MARGIN, redactor.longest_known_value)
        self._seen = b""
        self._held = b""
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many marks each rule has left in what was returned so far."""
        return dict(self._counts)

    def feed(self, text: str) -> str:
        """Take the next piece; returns what can be told to be clean by now."""
        return self.feed_bytes(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def close(self) -> str:
        """Everything that was held back."""
        return self.close_bytes().decode("utf-8", "surrogatepass")

    def feed_bytes(self, data: bytes) -> bytes:
        """As `feed`, on bytes of any encoding that holds ASCII."""
        self._held += data
        if len(self._held) < 2 * self._margin:
            return b""
        return self._release(len(self._held) - self._margin)

    def close_bytes(self) -> bytes:
        """As `close`, for `feed_bytes`."""
        return self._release(len(self._held))

    def _release(self, upto: int) -> bytes:
        """Return the held bytes before `upto`, or before a find that reaches beyond it."""
        offset = len(self._seen)
        last = upto == len(self._held)
        marks = self._reader.marks(self._seen + self._held)
        crossing = [mark for mark in marks if mark.start - offset < upto and mark.end - offset >= upto]
        if crossing and not last and len(self._held) < _LONGEST_HELD:
            upto = max(crossing[0].start - offset, 0)
        elif crossing:
            upto = max(upto, crossing[0].end - offset)
        upto = self._boundary(upto)
        wanted = [
            mark._replace(start=max(mark.start - offset, 0), end=mark.end - offset)
            for mark in marks
            if mark.end > offset and mark.start - offset < upto
        ]
        text, counts = self._redactor.apply(self._held[:upto], wanted)
        self._counts.update(counts)
        passed = self._seen + self._held[:upto]
        self._reader.go_on(passed)
        self._seen = passed[-self._margin :]
        self._held = self._held[upto:]
        return text

    def _boundary(self, at: int) -> int:
        """`at`, moved back to where a UTF-8 character begins."""
        while 0 < at < len(self._held) and self._held[at] & 0xC0 == 0x80:
            at -= 1
        return at


_PIECE = 1 << 20
_LONGEST_LINE = 8 << 20
_OVERLAP = 4096
_BINARY_PROBE = 8192
_SIGNATURES: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LEAST_WIDE = 16
_MOSTLY = 0.7
_WRITTEN_MS = 60_000
# Key stores are secret as whole files: gitleaks' one rule that goes by the name (`pkcs12-file`).
_KEY_STORE = re.compile(r"\.p(?:12|fx)$", re.IGNORECASE)
_OURS = frozenset({"redaction.key", "serve-token"})


class Leak(NamedTuple):
    """What an audit found: so many `finds` of `rule` in one line (from 1; 0 for the file's name) of `path`."""

    path: str
    line: int
    rule: str
    finds: int


class RedactedFile(NamedTuple):
    """A redacted copy: where it is, and how many marks each rule left in it."""

    path: Path
    counts: dict[str, int]


def redact_file(redactor: ProjectRedactor, source: Path, target: Path) -> RedactedFile:
    """Write a redacted copy of `source` to `target`, whole or not at all; the two may be the same file.

    A link stays one: the file behind it is written, else the secrets would stay there. The copy's mode is 0600, or
    that of the file it replaces.
    JSON Lines are taken line by line, each string judged with its key, and stay JSON; any other text is taken as a
    stream. Raises `NotFoundError` when `source` cannot be read and `TraceError` when `target` cannot be written.
    """
    counts: Counter[str] = Counter()
    try:
        with output_file(target) as out:
            out.writelines(redacted_pieces(redactor, source, counts))
    except OSError as error:
        raise TraceError(
            f"the redacted copy {target} could not be written",
            why=str(error),
            next_step="choose another place with -o",
        ) from error
    return RedactedFile(target.resolve() if target.is_symlink() else target, dict(counts))


class Scrubbed(NamedTuple):
    """A file that was redacted where it is, or the reason why it was left as it is."""

    path: Path
    counts: dict[str, int]
    left: str = ""


def scrub(redactor: ProjectRedactor, source: Path, backup: Path, *, held: Container[str] = ()) -> Scrubbed:
    """Redact `source` in place, in one step; what it held is at `backup` before. Its times stay.

    It is left alone while something writes to it: where a process has it open (`held`, see `open_files`), it changed
    within the last minute, or it changes meanwhile.
    """
    counts: Counter[str] = Counter()
    try:
        before = source.stat()
        if os.path.realpath(source) in held or now_epoch_ms() - before.st_mtime_ns // 1_000_000 < _WRITTEN_MS:
            return Scrubbed(source, {}, WRITING)
        ensure_folder(backup.parent)
        with output_file(backup) as copy, source.open("rb") as file:
            shutil.copyfileobj(file, copy)
        with output_file(source) as out:
            out.writelines(redacted_pieces(redactor, source, counts))
            after = source.stat()
            if (after.st_mtime_ns, after.st_size, after.st_ino) != (before.st_mtime_ns, before.st_size, before.st_ino):
                raise _ChangedError  # what was written is dropped
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    except _ChangedError:
        return Scrubbed(source, {}, WRITING)
    except OSError as error:
        return Scrubbed(source, {}, error.strerror or str(error))
    return Scrubbed(source, dict(counts))


class _ChangedError(Exception):
    """A file changed while it was read."""


def open_files() -> frozenset[str]:
    """The files that processes have open, as far as the system tells (`/proc`)."""
    found: set[str] = set()
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                with contextlib.suppress(OSError):
                    found.add(str(Path(entry.path).readlink()))
    return frozenset(found)


def redacted_pieces(redactor: ProjectRedactor, source: Path, counts: Counter[str]) -> Iterator[bytes]:
    """The redacted bytes of `source`, piece by piece; `counts` grows as they come. Raises `NotFoundError`."""
    whole = redactor.untruncated()
    with _opened(source) as file:
        if wide := _wide(file):
            yield from _redacted_wide(whole, file, wide, counts)
        elif source.suffix == ".jsonl":
            yield from _redacted_lines(whole, file, counts)
        else:
            yield from _redacted_text(whole, file, counts)


def _opened(source: Path) -> BufferedReader:
    try:
        return source.open("rb")
    except OSError as error:
        raise NotFoundError(f"{source} cannot be read", why=str(error), next_step="check the path") from error


def _wide(file: BufferedReader) -> str | None:
    """The UTF-16 or UTF-32 that `file` begins in, where its signature or its zero bytes show one; nothing is read."""
    head = file.peek(_BINARY_PROBE)[:_BINARY_PROBE]
    if b"\0" not in head:
        return None
    for signature, encoding in _SIGNATURES:
        if head.startswith(signature):
            return encoding
    if len(head) < _LEAST_WIDE:
        return None
    half = len(head) // 2
    first, second = head[0::2].count(0) / half, head[1::2].count(0) / half
    if max(first, second) < _MOSTLY or min(first, second) > 1 - _MOSTLY:
        return None
    return "utf-16-be" if first > second else "utf-16-le"


def _redacted_wide(redactor: ProjectRedactor, file: BinaryIO, encoding: str, counts: Counter[str]) -> Iterator[bytes]:
    """As text, in the encoding it came in, and as the bytes it is: it may only look like text."""
    recoded, plain = _recoded(file, encoding), StreamRedactor(redactor)
    for piece in _redacted_text(redactor, recoded, counts):
        yield plain.feed_bytes(piece.decode("utf-8", "surrogatepass").encode(encoding, "surrogatepass"))
    yield plain.feed_bytes(recoded.reader.bytebuffer)  # half a character, where the file was cut off
    yield plain.close_bytes()
    counts.update(plain.counts)


def _recoded(file: BinaryIO, encoding: str) -> Any:
    return codecs.EncodedFile(file, "utf-8", encoding, "surrogatepass")


def _redacted_text(redactor: ProjectRedactor, file: BinaryIO, counts: Counter[str]) -> Iterator[bytes]:
    stream = StreamRedactor(redactor)
    while piece := file.read(_PIECE):
        yield stream.feed_bytes(piece)
    yield stream.close_bytes()
    counts.update(stream.counts)


def _redacted_lines(redactor: ProjectRedactor, file: BinaryIO, counts: Counter[str]) -> Iterator[bytes]:
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            yield from _redacted_long_line(redactor, line, file, counts)
            continue
        redacted, more = _redacted_line(redactor, line)
        counts.update(more)
        yield redacted


def _redacted_line(redactor: ProjectRedactor, line: bytes) -> tuple[bytes, dict[str, int]]:
    """A JSON line as JSON, unchanged to the byte where nothing was found; any other line as text."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return redactor.apply(line, redactor.marks(line))
    redacted, counts = redactor.redact_value(value)
    if redacted is value:
        return line, {}
    ending = line[len(line.rstrip(b"\r\n")) :]
    signature = codecs.BOM_UTF8 if line.startswith(codecs.BOM_UTF8) else b""
    try:
        text = orjson.dumps(redactor.redact_value(_with_numbers_as_written(line)).value)
    except TypeError:
        text = json.dumps(redacted, separators=(",", ":")).encode()
    return signature + text + ending, dict(counts)


def _with_numbers_as_written(line: bytes) -> Any:
    as_written = orjson.Fragment
    return json.loads(line, parse_float=as_written, parse_int=as_written, parse_constant=as_written)


def _redacted_long_line(
    redactor: ProjectRedactor, start: bytes, file: BinaryIO, counts: Counter[str]
) -> Iterator[bytes]:
    """A line too long to hold: as a stream of text, up to its end."""
    stream = StreamRedactor(redactor)
    yield stream.feed_bytes(start)
    while piece := file.readline(_PIECE):
        yield stream.feed_bytes(piece)
        if piece.endswith(b"\n"):
            break
    yield stream.close_bytes()
    counts.update(stream.counts)


def audit(redactor: ProjectRedactor, folder: Path, *, progress: Callable[[str], None] | None = None) -> list[Leak]:
    """Every leak in the text files and SQLite databases below `folder` (or in that one file), by path and line.

    Paths are relative to `folder`; of a database and a key store the line is 0. Other binary files and symbolic links
    are passed over; a file that cannot be read is reported under the rule `unreadable`, since it cannot be called
    clean. Raises `NotFoundError` without `folder`.
    """
    if not folder.exists():
        raise NotFoundError(f"{folder} does not exist", why="nothing to audit", next_step="check the path")
    leaks: list[Leak] = []
    for path in _files(folder):
        name = str(path.relative_to(folder)) if path != folder else path.name
        if progress is not None:
            progress(name)
        if _KEY_STORE.search(name):
            leaks.append(Leak(name, 0, "pkcs12-file", 1))
            continue
        try:
            leaks.extend(_leaks(redactor.untruncated(), path, name))
        except OSError:
            leaks.append(Leak(name, 0, "unreadable", 1))
    return _by_line(leaks)


def _by_line(leaks: list[Leak]) -> list[Leak]:
    """One entry for all finds of one rule in one line."""
    finds: Counter[tuple[str, int, str]] = Counter()
    for leak in leaks:
        finds[leak.path, leak.line, leak.rule] += leak.finds
    return [Leak(path, line, rule, count) for (path, line, rule), count in finds.items()]


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
        return
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(root) / name
            if name not in _OURS and path.is_file() and not path.is_symlink():
                yield path


def _leaks(redactor: ProjectRedactor, path: Path, name: str) -> Iterator[Leak]:
    with path.open("rb") as file:
        if wide := _wide(file):
            yield from _leaks_in_text(redactor, _recoded(file, wide), name)
            return
        head = file.read(_BINARY_PROBE)
        if head.startswith(_SQLITE):
            yield from _leaks_in_database(redactor, path, name)
            return
        if b"\0" in head:
            return
        file.seek(0)
        if path.suffix == ".jsonl":
            yield from _leaks_in_lines(redactor, file, name)
        else:
            yield from _leaks_in_text(redactor, file, name)


def _leaks_in_database(redactor: ProjectRedactor, path: Path, name: str) -> Iterator[Leak]:
    """Finds in the rows of a database, each with its columns for names.

    A copy is read, with what its journal holds: reading a database makes files beside it.
    """
    import sqlite3
    import tempfile  # with sqlite3 10 ms, for an audit alone

    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        for ending in ("", "-wal"):
            if (part := path.with_name(path.name + ending)).is_file():
                shutil.copyfile(part, f"{copy}{ending}")
        with contextlib.closing(sqlite3.connect(copy)) as database:
            database.text_factory = _readable
            try:
                database.execute("PRAGMA trusted_schema = OFF")
                tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")
                for (table,) in tables.fetchall():
                    rows = database.execute('SELECT * FROM "{}"'.format(table.replace('"', '""')))  # noqa: S608
                    columns = [column[0] for column in rows.description]
                    for row in rows:
                        values = (_readable(value) if isinstance(value, bytes) else value for value in row)
                        found.update(redactor.touched_value(dict(zip(columns, values, strict=True))))
            except sqlite3.Error:
                found["unreadable"] += 1
    yield from (Leak(name, 0, rule, count) for rule, count in sorted(found.items()))


def _readable(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _leaks_in_lines(redactor: ProjectRedactor, file: BinaryIO, name: str) -> Iterator[Leak]:
    number, before = 1, b""
    while line := file.readline(_LONGEST_LINE):
        found: Counter[str] = Counter()
        try:
            found.update(redactor.touched_value(json.loads(line)))
        except (ValueError, RecursionError):
            found.update(mark.rule for mark in redactor.marks(before + line) if mark.end > len(before))
        ended = line.endswith(b"\n")
        # A line too long to hold comes in pieces: each is seen together with the end of the one before.
        before = b"" if ended else line[-max(_OVERLAP, redactor.longest_known_value) :]
        yield from (Leak(name, number, rule, count) for rule, count in sorted(found.items()))
        number += ended


def _leaks_in_text(redactor: ProjectRedactor, file: BinaryIO, name: str) -> Iterator[Leak]:
    """Finds by line; pieces overlap, so that a find at a seam is seen whole (and told once)."""
    overlap = max(_OVERLAP, redactor.longest_known_value)
    held, first_line, told = b"", 1, 0
    offset, reader = 0, redactor.reader()
    while True:
        piece = file.read(_PIECE)
        data = held + piece
        line, counted = first_line, 0
        for mark in reader.marks(data):
            at = offset + mark.start
            line += data.count(b"\n", counted, mark.start)
            counted = mark.start
            if at >= told and (mark.end < len(data) - overlap or not piece):
                yield Leak(name, line, mark.rule, 1)
                told = offset + mark.end
        if not piece:
            return
        keep = min(len(data), 2 * overlap)
        reader.go_on(data[: len(data) - keep])
        first_line += data.count(b"\n", 0, len(data) - keep)
        offset += len(data) - keep
        held = data[-keep:]
