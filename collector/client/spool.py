"""The offline spool: captures on this machine, durable before anybody is told, and sent from here.

Several processes may append, each under the lock and with the next seq; a torn last line is cut off first. What the
server has is a high-water mark beside the events. Damaged spools are left out of lists. What the server has whole is
removed after a while: renamed first, so that a kill leaves no half capture, and the next removal takes what it left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from tracer.blobs import DirectoryBlobs
from tracer.clock import new_id, now_epoch_ms
from tracer.durable import ensure_folder, publish, replacing, sync_file, sync_folder, write_all
from tracer.durable import replace as replace_file
from tracer.errors import ConflictError, NotFoundError, RecordError, TraceError
from tracer.lock import FileLock, Holder, each_unheld, holder_of
from tracer.redaction.cuts import beginning

EVENTS: Final = "events.jsonl"
HEADER: Final = "capture.json"
_PATIENCE_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An event before it has its place. Empty id, no seq and no time are filled in; `extra` is kept as given."""

    type: str
    payload: Mapping[str, Any]
    actor: Mapping[str, Any] = field(default_factory=lambda: {"kind": "human", "id": None})
    context: Mapping[str, Any] = field(default_factory=dict)
    ts_ms: int | None = None
    event_id: str = ""
    seq: int | None = None

    def event(self, seq: int) -> dict[str, Any]:
        """The event as it goes over the wire."""
        return {
            "event_id": self.event_id or new_id(),
            "seq": seq if self.seq is None else self.seq,
            "ts_ms": now_epoch_ms() if self.ts_ms is None else self.ts_ms,
            "type": self.type,
            "actor": dict(self.actor),
            "context": dict(self.context),
            "payload": dict(self.payload),
        }


class Line(NamedTuple):
    """One spooled event: its seq and its bytes without the newline."""

    seq: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Sent:
    """What the server is known to have: `created`, all events up to `seq`, `finalized`; `deleted`: nothing any more."""

    created: bool = False
    seq: int = 0
    finalized: bool = False
    deleted: bool = False


def captures_folder(state_root: Path) -> Path:
    """Where the spools of a project are."""
    return state_root / "captures"


class Spool:
    """One capture on this machine; `header` is what the server is told at creation. Each thread opens its own."""

    def __init__(self, folder: Path, header: dict[str, Any]) -> None:
        self.folder = folder
        self.header = header
        self.blobs = DirectoryBlobs(folder / "blobs")
        self.last_seq = 0
        self._end = 0
        self._passed = (0, 0)  # a seq, and the byte after it: where `lines` need not look again

    @property
    def trace_id(self) -> str:
        """The capture's id, here and on the server."""
        return str(self.header["trace_id"])

    @property
    def title(self) -> str:
        """What the bug is called; empty where nobody said it."""
        try:
            return str(self.header["request"]["task"]["bug_report"]["title"] or "")
        except (KeyError, TypeError):
            return ""

    @property
    def events_path(self) -> Path:
        """The events, one JSON object a line."""
        return self.folder / EVENTS

    @classmethod
    def create(cls, root: Path, header: Mapping[str, Any]) -> Spool:
        """A new spool below `root`; `header` holds `trace_id`, `server` and `request` (the create request's body)."""
        folder = root / str(header["trace_id"])
        body = {"version": 1, "created_at_ms": now_epoch_ms(), **header}
        try:
            ensure_folder(folder)
            with contextlib.suppress(FileExistsError):  # a kill before the header left it: it is empty
                publish(folder / EVENTS, b"")
            publish(folder / HEADER, _json(body))
        except FileExistsError as error:
            raise ConflictError(
                f"there is a capture {header['trace_id']} already",
                why=f"in {str(folder)!r}",
                next_step="leave the id out to get a new one",
            ) from error
        except OSError as error:
            raise _unwritable(folder, error) from error
        return cls(folder, body)

    @classmethod
    def open(cls, folder: Path) -> Spool:
        """The spool in `folder`; NotFoundError without one, TraceError for a damaged header."""
        try:
            header = orjson.loads((folder / HEADER).read_bytes())
        except FileNotFoundError as error:
            raise NotFoundError(f"no capture in {str(folder)!r}", next_step="pm capture list") from error
        except (OSError, orjson.JSONDecodeError) as error:
            raise TraceError(f"the capture in {str(folder)!r} cannot be read", why=str(error)) from error
        if not isinstance(header, dict) or not isinstance(header.get("trace_id"), str):
            raise TraceError(f"the capture in {str(folder)!r} has no header")
        return cls(folder, header)

    def update_header(self, **changes: Any) -> None:
        """Change fields of the header, durably."""
        self.header = {**self.header, **changes}
        self._replace(HEADER, self.header)

    # -- events -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def writing(self) -> Iterator[list[Line]]:
        """Hold the pen: yields what others have written since this object last looked. Appending needs it."""
        lock = FileLock(self.folder / "writer.lock")
        lock.acquire(what="this capture", patience_s=_PATIENCE_S)
        try:
            yield self._catch_up()
        finally:
            lock.release()

    def append(self, drafts: Iterable[Draft]) -> list[dict[str, Any]]:
        """Append the events, all or (LockedError, RecordError) none; they are durable on return."""
        with self.writing():
            return self.append_held(drafts)

    def append_held(self, drafts: Iterable[Draft]) -> list[dict[str, Any]]:
        """As `append`, for a caller that is inside `writing`."""
        events: list[dict[str, Any]] = []
        seq = self.last_seq
        for draft in drafts:
            events.append(draft.event(seq + 1))
            seq = events[-1]["seq"]
        if events:
            self._write(b"".join(orjson.dumps(event) + b"\n" for event in events))
            self.last_seq = seq
        return events

    def rewrite_held(self, change: Callable[[bytes], bytes]) -> None:
        """Replace events by shorter ones, inside `writing`; blanks fill each line: readers keep their places."""
        with self._failures(), self.events_path.open("rb") as file, replacing(self.events_path) as new:
            for raw in file:
                new.write(change(raw[:-1]).ljust(len(raw) - 1) + b"\n")

    def _write(self, data: bytes) -> None:
        with self._failures():
            descriptor = os.open(self.events_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                write_all(descriptor, data)
                sync_file(descriptor)
            except OSError:
                with contextlib.suppress(OSError):  # half an event must not stand before the next one
                    os.ftruncate(descriptor, self._end)
                raise
            finally:
                os.close(descriptor)
        self._end += len(data)

    def _catch_up(self) -> list[Line]:
        """Read what was appended since the last look, and cut a torn tail off; the lines that are new."""
        lines: list[Line] = []
        try:
            with self.events_path.open("rb") as file:
                file.seek(self._end)
                whole = self._end
                for raw in file:
                    if raw.endswith(b"\n"):
                        whole += len(raw)
                        lines.append(_line(raw))
                size = file.tell()
            if size > whole:
                with self.events_path.open("r+b") as torn:
                    torn.truncate(whole)
                    sync_file(torn.fileno())
        except FileNotFoundError:
            whole = 0
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        self._end = whole
        if lines:
            self.last_seq = lines[-1].seq
        return lines

    def lines(self, *, after: int = 0) -> Iterator[Line]:
        """The whole events with a seq above `after`, in order; an open tail is left out. Needs no lock."""
        try:
            with self.events_path.open("rb") as file:
                at = self._passed[1] if after >= self._passed[0] else 0
                file.seek(at)
                for raw in file:
                    if not raw.endswith(b"\n"):
                        return
                    line, at = _line(raw), at + len(raw)
                    if line.seq > after:
                        yield line
                    else:
                        self._passed = (line.seq, at)
        except FileNotFoundError:
            return

    def last_event(self) -> int:
        """The highest seq that stands in the spool, read from its end; 0 where there is none."""
        try:
            with self.events_path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                reach = 4096
                while size:
                    start = max(size - reach, 0)
                    file.seek(start)
                    tail = file.read(size - start)
                    whole = tail[: tail.rfind(b"\n") + 1]
                    before = whole.rfind(b"\n", 0, -1)
                    if whole and (before >= 0 or start == 0):
                        return _line(whole[before + 1 :]).seq
                    if start == 0:
                        return 0
                    reach *= 8
        except FileNotFoundError:
            pass
        return 0

    # -- what the server has ----------------------------------------------------------------------------------------

    @property
    def sent(self) -> Sent:
        """What the server was last known to have."""
        found = self._read("sent.json")
        if not isinstance(found, dict):
            return Sent()
        created, finalized, deleted = (bool(found.get(name)) for name in ("created", "finalized", "deleted"))
        return Sent(created, int(found.get("seq") or 0), finalized, deleted)

    def note_sent(self, **changes: Any) -> Sent:
        """Change what the server is known to have, durably."""
        now = replace(self.sent, **changes)
        self._replace("sent.json", asdict(now))
        return now

    def bind(self, server: str) -> None:
        """Forget what another collector has of this capture; once it is created at `server`, it belongs there."""
        if self.sent.created and self.header.get("server") != server:
            (self.folder / "ingest-key").unlink(missing_ok=True)
            self.note_sent(created=False, seq=0, finalized=False, deleted=False)

    @property
    def ingest_key(self) -> str:
        """The key that the server gave for this capture; empty before it was created there."""
        try:
            return (self.folder / "ingest-key").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def keep_key(self, key: str) -> None:
        """Keep the server's key, readable by the owner only."""
        with self._failures():
            replace_file(self.folder / "ingest-key", key.encode("ascii") + b"\n")

    @property
    def final(self) -> dict[str, Any] | None:
        """What finalizing is to say ({final_state}), or None while the capture is open."""
        found = self._read("final.json")
        return found if isinstance(found, dict) else None

    def close(self, final_state: Mapping[str, Any] | None) -> None:
        """Note, durably, that nothing more comes."""
        self._replace("final.json", {"final_state": dict(final_state)} if final_state is not None else {})

    def reopen(self) -> None:
        """Take the end back, while the server has not heard of it."""
        (self.folder / "final.json").unlink(missing_ok=True)

    # -- signs between processes --------------------------------------------------------------------------------------

    @property
    def recorder(self) -> Holder | None:
        """The process that records into this spool now."""
        return holder_of(self.folder / "recorder.lock")

    @property
    def paused(self) -> bool:
        """Whether recording is paused."""
        return (self.folder / "paused").exists()

    def state(self) -> dict[str, Any]:
        """What is in the spool and what of it the collector has.

        `state`: recording, paused, open, closed, sent, deleted (at the collector).
        """
        sent, last = self.sent, self.last_event()
        if self.recorder is not None:
            state = "paused" if self.paused else "recording"
        elif sent.deleted or sent.finalized:
            state = "deleted" if sent.deleted else "sent"
        else:
            state = "open" if self.final is None else "closed"
        return {"state": state, "events": last, "sent": min(sent.seq, last), "finalized": sent.finalized}

    def pause(self, *, on: bool) -> None:
        """Pause or go on; a running recorder sees it at once."""
        with self._failures():
            if on:
                (self.folder / "paused").touch(mode=0o600)
            else:
                (self.folder / "paused").unlink(missing_ok=True)
            sync_folder(self.folder)

    def _read(self, name: str) -> Any:
        try:
            return orjson.loads((self.folder / name).read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return None

    def _replace(self, name: str, value: Mapping[str, Any]) -> None:
        with self._failures():
            replace_file(self.folder / name, _json(value))

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _unwritable(self.folder, error) from error


def _line(raw: bytes) -> Line:
    try:
        seq = orjson.loads(raw)["seq"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise TraceError(
            "a line of the capture is no event", why=beginning(raw.decode("utf-8", "replace"), 80)
        ) from error
    return Line(int(seq), raw[:-1])


def _json(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"


def _unwritable(folder: Path, error: OSError) -> RecordError:
    return RecordError(
        f"the capture in {str(folder)!r} cannot be written",
        why=error,
        next_step="free space or make the state directory writable; what was recorded before is safe",
    )


def list_spools(state_root: Path) -> list[Spool]:
    """Every capture of the project, newest first; damaged ones are left out."""
    found: list[Spool] = []
    try:
        folders = [folder for folder in captures_folder(state_root).iterdir() if not folder.name.startswith(".")]
    except OSError:
        return []
    for folder in folders:
        with contextlib.suppress(NotFoundError, TraceError):
            found.append(Spool.open(folder))
    return sorted(found, key=lambda spool: -int(spool.header.get("created_at_ms") or 0))


def find_spool(state_root: Path, selector: str) -> Spool:
    """The only capture whose id is or begins with `selector`, else NotFoundError."""
    spools = list_spools(state_root)
    exact = [spool for spool in spools if spool.trace_id == selector]
    matching = exact or [spool for spool in spools if selector and spool.trace_id.startswith(selector)]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise NotFoundError(
            f"no capture {selector!r} on this machine",
            why=f"newest: {spools[0].trace_id}" if spools else "there is none in this project",
            next_step="pm capture list",
        )
    raise NotFoundError(
        f"{selector!r} could be {len(matching)} captures",
        why=", ".join(spool.trace_id for spool in matching[:5]),
        next_step="type more of the id",
    )


_GONE: Final = ".gone-"


class Kept(NamedTuple):
    """A capture that was sent whole: when (ms since 1970), and what it takes here (bytes)."""

    spool: Spool
    sent_at_ms: int
    size: int


class Unsent(NamedTuple):
    """A capture that the collector does not have whole: how many of its events are missing there."""

    spool: Spool
    events: int


def gone_name(folder: Path) -> Path:
    """The name under which a capture's folder is removed: nobody lists it any more."""
    return folder.with_name(f"{_GONE}{folder.name}")


def unsent(state_root: Path) -> list[Unsent]:
    """The captures that are to be sent, or the rest of them, newest first; running ones are left out."""
    return [
        Unsent(spool, max(spool.last_event() - spool.sent.seq, 0))
        for spool in list_spools(state_root)
        if spool.recorder is None and not _is_sent(spool) and not spool.sent.deleted
    ]


def sent_before(state_root: Path, *, older_than_ms: int) -> list[Kept]:
    """The captures that were sent whole longer than `older_than_ms` ago, oldest first."""
    before = now_epoch_ms() - older_than_ms
    found = [
        Kept(spool, sent_at_ms, _size(spool.folder))
        for spool in list_spools(state_root)
        if _is_sent(spool) and spool.recorder is None
        if (sent_at_ms := _sent_at_ms(spool)) is not None and sent_at_ms < before
    ]
    return sorted(found, key=lambda kept: kept.sent_at_ms)


def prune_sent(state_root: Path, chosen: Sequence[Kept]) -> list[Kept]:
    """Remove them; those that somebody writes to now, or that changed since, stay. What was removed."""
    removed: list[Kept] = []
    for kept in each_unheld(chosen, lambda kept: kept.spool.folder / "writer.lock"):
        try:
            if _is_sent(kept.spool) and _sent_at_ms(kept.spool) == kept.sent_at_ms:
                kept.spool.folder.rename(gone_name(kept.spool.folder))
                removed.append(kept)
        except OSError as error:
            raise RecordError(f"{str(kept.spool.folder)!r} cannot be removed", why=error) from error
    folder = captures_folder(state_root)
    with contextlib.suppress(OSError):
        for gone in folder.glob(f"{_GONE}*"):  # what was renamed, by us or by one that was killed
            shutil.rmtree(gone, ignore_errors=True)
        sync_folder(folder)
    return removed


def _is_sent(spool: Spool) -> bool:
    sent = spool.sent
    return sent.finalized and not sent.deleted and sent.seq >= spool.last_event()


def _sent_at_ms(spool: Spool) -> int | None:
    try:
        return (spool.folder / "sent.json").stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def _size(folder: Path) -> int:
    total = 0
    for place, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(place) / name).lstat().st_size
    return total
