"""The content-addressed store: `sha256:<hex>` names bytes for ever; the directory store is the default.

A blob appears whole (temporary file, sync, link, folder sync), mode 0600, and is never changed. Every read is checked
against the name, so a damaged blob is an error and never wrong bytes. Putting what is there already only renews its
time, under a lock shared with `gc`, so what was just put is never collected. Where programs may delete the store
(an agent in the project), a folder of second links outside brings back what was put.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from tracer.clock import now_epoch_ms
from tracer.durable import ensure_folder, link_new, replace, sync_file, sync_folder, write_all, written_aside
from tracer.errors import NotFoundError, RecordError, TraceError, UsageError, told_as

_ID: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_CHUNK: Final = 1 << 20
_FOLDER: Final = 2  # of a name's first digits
_KEPT_MS: Final = 14 * 24 * 3600 * 1000


def blob_id_of(data: bytes) -> str:
    """The id that `data` has in every store."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def text_of(data: bytes, *, probe: int = 8192) -> str | None:
    """`data` as text; None where it is not UTF-8, or a NUL byte among the first `probe` says that it is binary."""
    try:
        return None if b"\0" in data[:probe] else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


class DirectoryBlobs:
    """Blobs as files `<root>/sha256/ab/cd…`; `second` is the folder of second links, if there is one."""

    def __init__(self, root: Path | str, *, second: Path | None = None) -> None:
        self.root = Path(root)
        self._second = second
        self._put_here: set[str] = set()

    def path_of(self, blob_id: str) -> Path:
        """The file that holds (or would hold) `blob_id`."""
        match = _ID.fullmatch(blob_id)
        if match is None:
            raise UsageError(f"{blob_id!r} is not a blob id", why="an id is sha256: and 64 hexadecimal digits")
        return self.root / "sha256" / match[1][:2] / match[1][2:]

    def put_bytes(self, data: bytes) -> str:
        """Store `data` durably; its id."""
        return self.put_chunks(iter((data,)))

    def put_chunks(self, chunks: Iterator[bytes]) -> str:
        """Store a stream in bounded memory; its id."""
        next_step = "free space or make the state directory writable"
        with told_as(RecordError, f"cannot store a blob in {str(self.root)!r}", next_step=next_step):
            ensure_folder(self.root / "sha256")
            with self.sharing():
                blob_id = self._put(chunks)
                self._link(blob_id)
                return blob_id

    def _put(self, chunks: Iterator[bytes]) -> str:
        digest, length = hashlib.sha256(), 0
        with written_aside(self.root / "sha256" / "incoming") as (descriptor, aside):
            for chunk in chunks:
                write_all(descriptor, chunk)
                digest.update(chunk)
                length += len(chunk)
            blob_id = f"sha256:{digest.hexdigest()}"
            target = self.path_of(blob_id)
            if _is_whole(target, length, blob_id):
                os.utime(target)
            else:
                sync_file(descriptor)
                ensure_folder(target.parent)
                try:
                    link_new(aside, target)
                except FileExistsError:
                    if not _is_whole(target, length, blob_id):  # damaged: a whole one takes its place, in one step
                        os.replace(aside, target)
                        sync_folder(target.parent)
        return blob_id

    def _link(self, blob_id: str) -> None:
        """Give the blob its second name; one that cannot be made is done without."""
        if self._second is None:
            return
        if not self._put_here:
            _forget_old(self._second)
        self._put_here.add(blob_id)
        with contextlib.suppress(OSError):
            ensure_folder(self._second)
            _copy(self.path_of(blob_id), self._second / blob_id.removeprefix("sha256:"))

    def put_back(self, *, every: bool = False) -> None:
        """Bring back deleted blobs: those that were put here, or `every` one that has a second link. OSError."""
        if self._second is None or not self._second.is_dir():
            return
        names = os.listdir(self._second) if every else [one.removeprefix("sha256:") for one in self._put_here]
        for name in names:
            if _ID.fullmatch(name) and not self.has(name):
                self._bring_back(name)

    def link_all(self) -> dict[str, int]:
        """Give every blob its second link where that is no copy; by folder of blobs, how many have none."""
        held = set(_listed(self._second)) if self._second is not None else set()
        without = {}
        for folder in _listed(self.root / "sha256"):
            if len(folder) != _FOLDER:
                continue
            names = [folder + name for name in _listed(self.root / "sha256" / folder) if _ID.fullmatch(folder + name)]
            without[folder] = sum(name not in held and not self._linked(name) for name in names)
        return without

    def _linked(self, name: str) -> bool:
        if self._second is None:
            return False
        try:
            ensure_folder(self._second)
            os.link(self.path_of(name), self._second / name)
        except FileExistsError:
            return True
        except OSError:
            return False
        return True

    def put_back_folders(self, folders: Iterable[str]) -> None:
        """Bring back what has a second link of these folders of blobs. OSError."""
        gone = frozenset(folders)
        for name in _listed(self._second) if gone and self._second is not None else ():
            if name[:_FOLDER] in gone and _ID.fullmatch(name) and not self.has(name):
                self._bring_back(name)

    def _bring_back(self, blob_id: str) -> bool:
        target = self.path_of(blob_id)
        if self._second is None or not (kept := self._second / blob_id.removeprefix("sha256:")).is_file():
            return False
        ensure_folder(target.parent)
        _copy(kept, target)
        return True

    @contextlib.contextmanager
    def sharing(self, *, exclusive: bool = False) -> Iterator[None]:
        """Hold the store's lock: shared while putting, exclusive while collecting."""
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    def has(self, blob_id: str) -> bool:
        """Whether the blob is here (its bytes are checked when they are read)."""
        return self.path_of(blob_id).is_file()

    def get_uri(self, blob_id: str) -> str:
        """The blob's `file:` URI."""
        return self.path_of(blob_id).absolute().as_uri()

    def open(self, blob_id: str) -> BinaryIO:
        """The blob as a file at its start, its bytes checked against the id first, in bounded memory."""
        path = self.path_of(blob_id)
        try:
            if not path.exists():
                self._bring_back(blob_id)
            file = path.open("rb")
        except FileNotFoundError as error:
            raise NotFoundError(f"no blob {blob_id!r}", why=f"{str(path)!r} does not exist") from error
        except OSError as error:
            raise TraceError(f"cannot read blob {blob_id!r}", why=error) from error
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
        if digest.hexdigest() != blob_id.removeprefix("sha256:"):
            file.close()
            raise TraceError(
                f"blob {blob_id!r} is damaged", why="its bytes have another sha256", next_step="restore it from a copy"
            )
        file.seek(0)
        return file

    def read(self, blob_id: str) -> bytes:
        """The blob's bytes. Raises `NotFoundError`."""
        with self.open(blob_id) as file:
            return file.read()

    def ids(self) -> Iterator[str]:
        """Every stored id, in no order."""
        for folder in sorted((self.root / "sha256").glob("[0-9a-f][0-9a-f]")):
            for path in folder.iterdir():
                if _ID.fullmatch(folder.name + path.name):
                    yield f"sha256:{folder.name}{path.name}"


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _copy(source: Path, target: Path) -> None:
    """A second name, or where the file system has none a copy."""
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}:
            raise
        replace(target, source.read_bytes())


def _forget_old(second: Path) -> None:
    """Remove second links whose blob went long ago."""
    with contextlib.suppress(OSError):
        for path in second.iterdir():
            facts = path.stat()
            if facts.st_nlink == 1 and facts.st_ctime_ns // 1_000_000 < now_epoch_ms() - _KEPT_MS:
                path.unlink()


def _is_whole(path: Path, length: int, blob_id: str) -> bool:
    """Whether the file holds what its name says; its length alone would leave a damaged one there for good."""
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_size == length and blob_id.endswith(
                hashlib.file_digest(file, "sha256").hexdigest()
            )
    except FileNotFoundError:
        return False
