"""A training set of traces: chosen by a condition, in shards, with a manifest.

The folder appears whole or not at all, and the same traces give the same bytes. All traces of a repository are in one
split. Every row is audited for secrets first: a trace with a find is left out, and named.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import orjson

from collector.final.consent import all_rows, revocations
from collector.final.qa_facts import fold_qa
from collector.handover.environments import unpack
from collector.handover.export import ExportFormat, export_pieces, fields_of, redaction_version, write_export
from collector.handover.export_filter import fields_in, parse_where
from collector.handover.near_duplicates import NearDuplicate, Sketch, Sketching, near_duplicates
from collector.handover.revoked import LIST, folder_digest, revocation_list
from collector.store.blobs import Contents
from collector.store.port import TraceRow, TraceStore
from tracer.capture.document import TRACE_VERSION
from tracer.clock import short_token
from tracer.durable import sync_folder
from tracer.errors import ConflictError, LockedError, NotFoundError, RecordError, TraceError, UsageError
from tracer.export.atif import ATIF_VERSION
from tracer.export.pieces import Leaf
from tracer.lock import FileLock
from tracer.pool import process_pool
from tracer.redaction.leaks import LeakError

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from collector.collector import Collector
    from tracer.redaction.engine import ProjectRedactor
    from tracer.redaction.gate import Compiled

_SHARD_BYTES: Final = 64 << 20
_CHUNK: Final = 1 << 20


@dataclass
class _Shard:
    path: Path
    file: BinaryIO
    rows: int = 0
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)


class Shards:
    """The shard files of each split; `written` are those that are closed."""

    def __init__(self, folder: Path, *, name: str, most_rows: int) -> None:
        self._folder = folder
        self._name = name
        self._most_rows = most_rows
        self._open: dict[str, _Shard] = {}
        self._numbers: Counter[str] = Counter()
        self.written: list[dict[str, Any]] = []

    def add(self, split: str, row: BinaryIO) -> tuple[str, int]:
        """Append a row; the shard's path and the row's number in it, from 0."""
        size = row.seek(0, os.SEEK_END)
        row.seek(0)
        shard = self._open.get(split)
        if shard is None or shard.rows >= self._most_rows or shard.size + size > _SHARD_BYTES:
            shard = self._next(split)
        while chunk := row.read(_CHUNK):
            shard.file.write(chunk)
            shard.digest.update(chunk)
        shard.rows += 1
        shard.size += size
        return shard.path.as_posix(), shard.rows - 1

    def add_folder(self, split: str, trace_id: str, row: BinaryIO) -> tuple[str, int]:
        """Unpack a row that holds the files of a task; the folder's path, and 0."""
        row.seek(0)
        path = Path(split) / trace_id
        size = unpack(row.read(), self._folder / path)
        told = {"path": path.as_posix(), "split": split, "rows": 1, "bytes": size}
        self.written.append({**told, "files_sha256": folder_digest(self._folder / path)})
        return path.as_posix(), 0

    def close(self) -> None:
        """Finish every shard."""
        for split in list(self._open):
            self._finish(split)
        self.written.sort(key=lambda shard: str(shard["path"]))

    def _next(self, split: str) -> _Shard:
        self._finish(split)
        path = Path(split) / f"{self._name}-{self._numbers[split]:05d}.jsonl"
        self._numbers[split] += 1
        (self._folder / split).mkdir(exist_ok=True)
        self._open[split] = _Shard(path, (self._folder / path).open("wb"))
        return self._open[split]

    def _finish(self, split: str) -> None:
        shard = self._open.pop(split, None)
        if shard is None:
            return
        with shard.file:
            shard.file.flush()
            os.fsync(shard.file.fileno())
        told = {"path": shard.path.as_posix(), "split": split, "rows": shard.rows, "bytes": shard.size}
        self.written.append({**told, "sha256": shard.digest.hexdigest()})


_ATTRIBUTES: Final = frozenset({"gen_ai.input.messages", "gen_ai.tool.call.arguments", "pm.text"})
_FIRST_MESSAGE: Final = "/messages/0"


def telling(form: ExportFormat, take: Callable[[str], None]) -> Callable[[Leaf], None]:
    """Called with each value of an export, hands `take` the texts in it that tell."""
    texts = _TELLING[form]

    def each(leaf: Leaf) -> None:
        for text in texts(leaf):
            take(text)

    return each


async def told_apart(row: TraceRow, take: Callable[[str], None], *, store: TraceStore, contents: Contents) -> None:
    """Hand `take` what tells of a trace whose final document is exported: it holds much more, and in another order.

    Raises as `export_pieces`.
    """
    each = telling("chat", take)
    async with aclosing(export_pieces(row, "chat", store=store, contents=contents)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Leaf):
                each(piece)


def _of_chat(leaf: Leaf) -> Iterator[str]:
    """Of a message that is neither the frame's nor what a command printed."""
    if leaf.pointer.startswith("/messages/") and leaf.pointer != _FIRST_MESSAGE and leaf.value.get("role") != "tool":
        yield str(leaf.value.get("content") or "")
        yield from (call["function"]["arguments"] for call in leaf.value.get("tool_calls") or ())


def _of_atif(leaf: Leaf) -> Iterator[str]:
    if leaf.pointer.startswith("/steps/"):
        yield leaf.value["message"]
        yield leaf.value.get("reasoning_content") or ""
        yield from (str(call["arguments"]) for call in leaf.value.get("tool_calls") or ())


def _of_otlp(leaf: Leaf) -> Iterator[str]:
    """Of a span or an event that is written whole, and of the root span, whose attributes are."""
    attributes = leaf.value if leaf.key == "attributes" and leaf.pointer.endswith("/spans/0/attributes") else ()
    if isinstance(leaf.value, dict):
        attributes = leaf.value.get("attributes", ())
    for pair in attributes:
        if pair["key"] in _ATTRIBUTES:
            yield str(pair["value"].get("stringValue"))


_TELLING: Final[Mapping[ExportFormat, Callable[[Leaf], Iterator[str]]]] = {
    "chat": _of_chat,
    "atif": _of_atif,
    "otlp": _of_otlp,
}
PROVEN: Final = 'qa.verdict == "proven"'
"""What a set holds where nobody says what it should."""
SPLITS: Final = ("train", "validation", "test")
_ROWS: Final = ".rows"
_PLACES: Final = 3  # finds of a trace that are named
_AT_ONCE: Final = 25  # rows that a process makes for the price of opening the store
_AHEAD: Final = 2  # parts that each process has: it need not wait for the next one
_SEVERAL: Final = 300  # rows below which starting processes costs more than it saves
_ASIDE: Final = ".part"
_FLAGS: Final = ("store_raw_code", "store_terminal_output", "allow_llm_judge")


@dataclass(frozen=True, kw_only=True)
class SetRequest:
    """What to put into a set. `shares` are the splits' percents; `redact` replaces finds in the copy.

    `version` is that of the program, whose own redaction rules are the ones that were looked with.
    """

    where: str
    form: ExportFormat
    shares: tuple[int, int, int] = (80, 10, 10)
    shard_rows: int = 1000
    redact: bool = False
    version: str = ""


@dataclass(frozen=True, kw_only=True)
class SetReport:
    """What was written: rows by split, traces left out with the reason, and how many pairs are near-duplicates."""

    path: Path
    rows: Mapping[str, int]
    shards: int
    left_out: Mapping[str, str]
    near_duplicates: int


def split_of(repo_id: str, shares: tuple[int, int, int]) -> str:
    """The split of a repository: decided by its name alone, so that it never moves."""
    place = int.from_bytes(hashlib.sha256(repo_id.encode()).digest()[:4]) % 100
    return SPLITS[0] if place < shares[0] else SPLITS[1] if place < shares[0] + shares[1] else SPLITS[2]


Opener = Callable[[], AbstractAsyncContextManager["Collector"]]


class _Making(NamedTuple):
    """What rows are made of, and how."""

    request: SetRequest
    store: TraceStore
    contents: Contents
    redactor: ProjectRedactor


class Helpers(NamedTuple):
    """Processes that make rows beside each other: at most `most`; each calls `open`, so it must be one to pickle."""

    open: Opener
    most: int


async def export_set(
    request: SetRequest,
    *,
    store: TraceStore,
    contents: Contents,
    redactor: ProjectRedactor,
    target: Path,
    helpers: Helpers | None = None,
) -> SetReport:
    """Write the set into the new folder `target`; `helpers` make a large one faster, and of the same bytes.

    Raises:
        UsageError: the condition makes no sense, or the folder is there and not empty.
        NotFoundError: no trace fulfils the condition.
        LockedError: another export writes there.
        RecordError: the folder could not be written.

    """
    _check(request, target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):
            for left in target.parent.iterdir():  # of exports to the same place that were killed
                if left.name.startswith(f".{target.name}.") and left.name.endswith(_ASIDE):
                    shutil.rmtree(left, ignore_errors=True)
            report = await _appearing(_Making(request, store, contents, redactor), target, helpers)
    except OSError as error:
        raise RecordError(
            f"cannot write the set {str(target)!r}", why=error, next_step="name another folder"
        ) from error
    return SetReport(
        path=target,
        rows=report["counts"]["by_split"],
        shards=len(report["shards"]),
        left_out={each["trace_id"]: each["reason"] for each in report["left_out"]},
        near_duplicates=report["near_duplicates"]["pairs"],
    )


async def _appearing(making: _Making, target: Path, helpers: Helpers | None) -> dict[str, Any]:
    """Write beside the target, and rename when all of it is there."""
    aside = target.with_name(f".{target.name}.{short_token()}{_ASIDE}")
    try:
        aside.mkdir()
        report = await _write(making, aside, helpers)
        if target.exists():
            target.rmdir()
        aside.rename(target)
        sync_folder(target.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return report


def _check(request: SetRequest, target: Path) -> None:
    parse_where(request.where)
    if len(request.shares) != len(SPLITS) or sum(request.shares) != 100 or min(request.shares) < 0:
        raise UsageError("the split makes no sense", why="three percents must add up to 100", next_step="80/10/10")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{str(target)!r} is there and not empty", next_step="name a new folder with -o")
    if request.form == "json" and request.redact:
        raise UsageError(
            "--redact cannot be used with --format json",
            why="the document's blobs are named by their hashes",
            next_step="use another format, or leave the trace out",
        )


async def _write(making: _Making, folder: Path, helpers: Helpers | None) -> dict[str, Any]:
    request, store, *_ = making
    chosen, left_out = await choose(request.where, store)
    shards = Shards(folder, name=request.form, most_rows=request.shard_rows)
    sketches: dict[str, Sketch] = {}
    entries: list[dict[str, Any]] = []
    rows = folder / _ROWS
    rows.mkdir()
    try:
        async with aclosing(_made_rows(chosen, making, rows, helpers)) as made_rows:
            async for part in made_rows:
                left_out |= {made.trace_id: made.left_out for made in part if made.left_out}
                sketches |= {made.trace_id: made.sketch for made in part if not made.left_out}
                entries += await asyncio.to_thread(_placed, shards, request.form, part, rows)
    finally:
        shards.close()
    shutil.rmtree(rows)
    if not entries:
        raise NotFoundError(
            "no trace to export",
            why=await _why_none(request.where, left_out, store),
            next_step="widen --where, or finalize the traces first",
        )
    pairs = await asyncio.to_thread(near_duplicates, sketches)
    manifest = _manifest(request, entries, shards, left_out, pairs)
    splits = {entry["trace_id"]: entry["split"] for entry in entries}
    told = [{**pair._asdict(), "splits": [splits[pair.one], splits[pair.other]]} for pair in pairs]
    await asyncio.to_thread(_put, folder / "near_duplicates.json", told)
    await asyncio.to_thread(_put, folder / "manifest.json", manifest)
    revoked = revocation_list(await revocations(store), at_ms=0)
    await asyncio.to_thread((folder / LIST).write_bytes, revoked)
    return manifest


class _Made(NamedTuple):
    """What became of a trace: its row in a file of its id, what tells it apart, its entry; or why it is left out."""

    trace_id: str
    left_out: str
    sketch: Sketch = ()
    entry: dict[str, Any] = {}  # noqa: RUF012 - never changed


async def _made_rows(
    chosen: Sequence[str], making: _Making, rows: Path, helpers: Helpers | None
) -> AsyncGenerator[list[_Made]]:
    """All rows in order, some at a time, made here or by several processes."""
    redactor = making.redactor

    async def here(part: Sequence[str]) -> list[_Made]:
        return [await _made(each, making, rows) for each in part]

    if helpers is None or helpers.most < 2 or len(chosen) < _SEVERAL:
        for each in chosen:
            yield await here([each])
        return
    parts = [chosen[at : at + _AT_ONCE] for at in range(0, len(chosen), _AT_ONCE)]
    most = min(helpers.most, len(parts))
    with ExitStack() as begun:

        async def start() -> ProcessPoolExecutor:
            await asyncio.to_thread(redactor.prepare)
            bare = replace(redactor, parts=replace(redactor.parts))  # without what cannot be sent
            begin = partial(_begin, helpers.open, bare, redactor.parts.gate.compiled())
            return begun.enter_context(process_pool(most - 1, preload=[__name__, "collector.opening"], begin=begin))

        async def there(part: Sequence[str]) -> list[_Made]:
            pool = await asyncio.shield(starting)
            done = await asyncio.to_thread(pool.submit, _in_a_process, part, making.request, rows)
            return await asyncio.wrap_future(done)

        # This process is one of them, at work while the others are still starting (which `submit` waits for).
        starting = asyncio.create_task(start())
        free: asyncio.Queue[Callable[[Sequence[str]], Awaitable[list[_Made]]]] = asyncio.Queue()
        for maker in (here, *[there] * (_AHEAD * (most - 1))):
            free.put_nowait(maker)

        async def made_by_one(part: Sequence[str]) -> list[_Made]:
            maker = await free.get()
            try:
                return await maker(part)
            finally:
                free.put_nowait(maker)

        waiting = [asyncio.create_task(made_by_one(part)) for part in parts]
        try:
            for task in waiting:
                yield await task
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(starting, *waiting, return_exceptions=True)


_HELD: Final[list[tuple[Opener, ProjectRedactor]]] = []
"""In a process of the pool, what it was begun with: compiling rules for each part took longer than the part."""


def _begin(opened: Opener, redactor: ProjectRedactor, compiled: Compiled | None) -> None:
    if compiled is not None:
        redactor.parts.gate.take(compiled)
    _HELD.append((opened, redactor))


def _in_a_process(chosen: Sequence[str], request: SetRequest, rows: Path) -> list[_Made]:
    opened, redactor = _HELD[0]

    async def made() -> list[_Made]:
        async with opened() as collector:
            making = _Making(request, collector.store, collector.contents, redactor)
            return [await _made(trace_id, making, rows) for trace_id in chosen]

    return asyncio.run(made())


async def _made(trace_id: str, making: _Making, rows: Path) -> _Made:
    request, store, contents, redactor = making
    row = await store.get_trace(trace_id)
    if row is None or row.status == "deleted":
        return _Made(trace_id, "deleted meanwhile")
    sketching = Sketching()
    told = telling(request.form, sketching.take) if request.form in _TELLING else None
    with (rows / trace_id).open("wb") as file:
        try:
            await write_export(
                file,
                row,
                request.form,
                store=store,
                contents=contents,
                redactor=redactor,
                redact=request.redact,
                what=f"trace {trace_id}",
                each=told,
            )
            if told is None:
                await told_apart(row, sketching.take, store=store, contents=contents)
        except ConflictError as error:
            return _Made(trace_id, error.why or error.what)
        except LeakError as error:  # nothing of it leaves, and it keeps no other back
            places = "; ".join(error.why.splitlines()[:_PLACES])
            why = f"looks like it holds secrets: {places} ({error.next_step})"
            return _Made(trace_id, redactor.redact_text(why)[0])
        except (RecordError, LockedError):
            raise
        except (NotFoundError, TraceError) as error:  # damage of one trace keeps no other back either
            why = f"cannot be read: {error.line} (pm capture verify {trace_id} names all that is damaged)"
            return _Made(trace_id, redactor.redact_text(why)[0])
    return _Made(trace_id, "", sketching.sketch(), await _entry(row, store, request))


def _placed(shards: Shards, form: ExportFormat, part: Sequence[_Made], rows: Path) -> list[dict[str, Any]]:
    """Put rows into their shards, or tasks' files into their folders; their entries."""
    entries: list[dict[str, Any]] = []
    for made in (made for made in part if not made.left_out):
        path, split = rows / made.trace_id, made.entry["split"]
        with path.open("rb") as file:
            add = partial(shards.add_folder, split, made.trace_id) if form == "harbor" else partial(shards.add, split)
            shard, line = add(file)
        path.unlink()
        entries.append({**made.entry, "shard": shard, "row": line})
    return entries


async def choose(condition: str, store: TraceStore) -> tuple[list[str], dict[str, str]]:
    """Ids of the traces that fulfil the condition, ascending; of those, the ones still open are left out."""
    where = parse_where(condition)
    chosen: list[str] = []
    left_out: dict[str, str] = {}
    async for row in all_rows(store):
        if not where(fields_of(row, fold_qa(await store.qa_facts(row.trace_id)))):
            continue
        if row.status == "open":
            left_out[row.trace_id] = "not finalized"
        else:
            chosen.append(row.trace_id)
    return sorted(chosen), left_out


async def _entry(row: TraceRow, store: TraceStore, request: SetRequest) -> dict[str, Any]:
    fields = fields_of(row, fold_qa(await store.qa_facts(row.trace_id)))
    return {
        "trace_id": row.trace_id,
        "repo": fields["repo"],
        "split": split_of(row.metadata["repo"]["repo_id"], request.shares),
        "shard": "",  # where it stands: told when it is there
        "row": 0,
        "final_trace_blob_id": row.final_blob_id,
        "store": fields["store"],
        "consent": {flag: fields[f"consent.{flag}"] for flag in _FLAGS},
        "final_passed": fields["qa.final_passed"],
        "verdict": fields["qa.verdict"],
        "strength": fields["qa.strength"],
        "overall": fields["overall"],
        "rubric": fields["rubric"],
    }


def _manifest(
    request: SetRequest,
    entries: list[dict[str, Any]],
    shards: Shards,
    left_out: Mapping[str, str],
    pairs: list[NearDuplicate],
) -> dict[str, Any]:
    splits = {entry["trace_id"]: entry["split"] for entry in entries}
    by_split = Counter(entry["split"] for entry in entries)
    return {
        "manifest_version": 1,
        "format": request.form,
        "where": request.where,
        "split": dict(zip(SPLITS, request.shares, strict=True)),
        "counts": {
            "traces": len(entries),
            "repositories": len({entry["repo"] for entry in entries}),
            "by_split": {split: by_split[split] for split in SPLITS},
            "final_passed": sum(entry["final_passed"] is True for entry in entries),
        },
        "versions": {
            "trace": TRACE_VERSION,
            "format": ATIF_VERSION if request.form == "atif" else None,
            "rubrics": sorted({entry["rubric"] for entry in entries if entry["rubric"]}),
            "redaction": ", ".join([redaction_version(), *([f"pm {request.version}"] if request.version else [])]),
        },
        "redaction": {
            "stored": dict(sorted(Counter(entry["store"] for entry in entries).items())),
            "again_at_export": request.redact,
            "audit": "clean",
        },
        "consent": {flag: sum(entry["consent"][flag] for entry in entries) for flag in _FLAGS},
        "near_duplicates": {
            "pairs": len(pairs),
            "across_splits": sum(splits[pair.one] != splits[pair.other] for pair in pairs),
            "report": "near_duplicates.json",
        },
        "left_out": [{"trace_id": trace_id, "reason": left_out[trace_id]} for trace_id in sorted(left_out)],
        "shards": shards.written,
        "traces": entries,
    }


async def _why_none(condition: str, left_out: Mapping[str, str], store: TraceStore) -> str:
    if not left_out:
        rows = [fields_of(row, fold_qa(await store.qa_facts(row.trace_id))) async for row in all_rows(store)]
        unknown = [name for name in sorted(fields_in(condition)) if rows and all(row[name] is None for row in rows)]
        told = f"; null in each (not checked, or no judge?): {', '.join(unknown)}" if unknown else ""
        return f"no trace fulfils the condition{told}"
    reasons = Counter(left_out.values())
    return "; ".join(f"{count} left out: {reason}" for reason, count in sorted(reasons.items()))


def _put(path: Path, value: Any) -> None:
    with path.open("wb") as file:
        file.write(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
