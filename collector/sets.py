"""A set of traces for training: chosen by a condition, in shards, with a manifest that says exactly what is in it.

The folder appears whole or not at all, and the same traces give the same bytes. All traces of a repository are in one
split. Every row is looked at for leaks first: one find and nothing is written.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import orjson

from collector.contents import Contents
from collector.duplicates import NearDuplicate, Sketch, near_duplicates, sketch_of
from collector.exporting import ExportFormat, fields_of, redaction_version, render_trace, to_audit
from collector.qa_fold import fold_qa
from collector.store.port import TraceRow, TraceStore
from collector.where import parse_where
from tracer.capture.document import TRACE_VERSION
from tracer.clock import short_token
from tracer.durable import sync_folder
from tracer.errors import ConflictError, NotFoundError, RecordError, UsageError
from tracer.export.atif import ATIF_VERSION
from tracer.export.audit import audit_value

if TYPE_CHECKING:
    from tracer.redaction.engine import ProjectRedactor

__all__ = ["SPLITS", "SetReport", "SetRequest", "checked_row", "export_set", "split_of"]

SPLITS: Final = ("train", "validation", "test")
_PAGE: Final = 500
_SHARD_BYTES: Final = 64 << 20
_TELLING: Final = frozenset({"gen_ai.input.messages", "gen_ai.tool.call.arguments", "pm.text"})
_FLAGS: Final = ("store_raw_code", "store_terminal_output", "allow_llm_judge")


@dataclass(frozen=True, kw_only=True)
class SetRequest:
    """What to put into a set. `shares` are the splits' percents; `redact` replaces finds in the copy."""

    where: str
    form: ExportFormat
    shares: tuple[int, int, int] = (80, 10, 10)
    shard_rows: int = 1000
    redact: bool = False


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


def checked_row(
    value: dict[str, Any], form: ExportFormat, *, redactor: ProjectRedactor, redact: bool, what: str
) -> dict[str, Any]:
    """`value` after the leak audit (and, on request, with what it finds replaced first).

    Raises:
        LeakError: something in it looks like a secret; says where.

    """
    if redact:
        value = redactor.redact_value(value).value
    audit_value(redactor, to_audit(value, form), what=what)
    return value


async def export_set(
    request: SetRequest, *, store: TraceStore, contents: Contents, redactor: ProjectRedactor, target: Path
) -> SetReport:
    """Write the set into the new folder `target`.

    Raises:
        UsageError: the condition makes no sense, or the folder is there and not empty.
        NotFoundError: no trace fulfils the condition.
        LeakError: a row looks like it holds a secret; nothing was written.
        RecordError: the folder could not be written.

    """
    _check(request, target)
    aside = target.with_name(f".{target.name}.{short_token()}")
    try:
        aside.mkdir(parents=True)
        report = await _write(request, store, contents, redactor, aside)
        if target.exists():
            target.rmdir()
        aside.rename(target)
        sync_folder(target.parent)
    except OSError as error:
        raise RecordError(
            f"cannot write the set {str(target)!r}", why=error.strerror or str(error), next_step="name another folder"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return SetReport(
        path=target,
        rows=report["counts"]["by_split"],
        shards=len(report["shards"]),
        left_out={each["trace_id"]: each["reason"] for each in report["left_out"]},
        near_duplicates=report["near_duplicates"]["pairs"],
    )


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


async def _write(
    request: SetRequest, store: TraceStore, contents: Contents, redactor: ProjectRedactor, folder: Path
) -> dict[str, Any]:
    chosen, left_out = await _choose(request, store)
    shards = _Shards(folder, request)
    sketches: dict[str, Sketch] = {}
    entries: list[dict[str, Any]] = []
    try:
        for trace_id in chosen:
            row = await store.get_trace(trace_id)
            if row is None or row.status == "deleted":
                left_out[trace_id] = "deleted meanwhile"
                continue
            try:
                value = await render_trace(row, request.form, store=store, contents=contents)
            except ConflictError as error:
                left_out[trace_id] = error.why or error.what
                continue
            what = f"trace {trace_id}"
            value = await asyncio.to_thread(
                checked_row, value, request.form, redactor=redactor, redact=request.redact, what=what
            )
            repo = row.metadata["repo"]["repo_id"]
            split = split_of(repo, request.shares)
            shard, line = await asyncio.to_thread(shards.add, split, orjson.dumps(value) + b"\n")
            sketches[trace_id] = await asyncio.to_thread(sketch_of, _telling_text(value, request.form))
            entries.append(await _entry(row, store, split=split, shard=shard, line=line))
    finally:
        shards.close()
    if not entries:
        raise NotFoundError(
            "no trace to export", why=_why_none(left_out), next_step="widen --where, or finalize the traces first"
        )
    pairs = await asyncio.to_thread(near_duplicates, sketches)
    manifest = _manifest(request, entries, shards, left_out, pairs)
    splits = {entry["trace_id"]: entry["split"] for entry in entries}
    await asyncio.to_thread(_put, folder / "near_duplicates.json", [_told(pair, splits) for pair in pairs])
    await asyncio.to_thread(_put, folder / "manifest.json", manifest)
    return manifest


async def _choose(request: SetRequest, store: TraceStore) -> tuple[list[str], dict[str, str]]:
    """Ids of the traces that fulfil the condition, ascending; of those, the ones still open are left out."""
    where = parse_where(request.where)
    chosen: list[str] = []
    left_out: dict[str, str] = {}
    async for row in _all_rows(store):
        if not where(fields_of(row, fold_qa(await store.qa_facts(row.trace_id)))):
            continue
        if row.status == "open":
            left_out[row.trace_id] = "not finalized"
        else:
            chosen.append(row.trace_id)
    return sorted(chosen), left_out


async def _all_rows(store: TraceStore) -> AsyncIterator[TraceRow]:
    after: str | None = None
    while rows := await store.list_traces(after=after, limit=_PAGE):
        after = rows[-1].trace_id
        for row in rows:
            if row.status != "deleted":
                yield row


@dataclass
class _Shard:
    path: Path
    file: BinaryIO
    rows: int = 0
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)


class _Shards:
    """The shard files of each split; `done` and `open` shards together are what was written."""

    def __init__(self, folder: Path, request: SetRequest) -> None:
        self._folder = folder
        self._request = request
        self._open: dict[str, _Shard] = {}
        self._numbers: Counter[str] = Counter()
        self.written: list[dict[str, Any]] = []

    def add(self, split: str, row: bytes) -> tuple[str, int]:
        """Append a row; the shard's path and the row's number in it, from 0."""
        shard = self._open.get(split)
        if shard is None or shard.rows >= self._request.shard_rows or shard.size + len(row) > _SHARD_BYTES:
            shard = self._next(split)
        shard.file.write(row)
        shard.digest.update(row)
        shard.rows += 1
        shard.size += len(row)
        return shard.path.as_posix(), shard.rows - 1

    def close(self) -> None:
        """Finish every shard."""
        for split in list(self._open):
            self._finish(split)
        self.written.sort(key=lambda shard: str(shard["path"]))

    def _next(self, split: str) -> _Shard:
        self._finish(split)
        path = Path(split) / f"{self._request.form}-{self._numbers[split]:05d}.jsonl"
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


async def _entry(row: TraceRow, store: TraceStore, *, split: str, shard: str, line: int) -> dict[str, Any]:
    fields = fields_of(row, fold_qa(await store.qa_facts(row.trace_id)))
    return {
        "trace_id": row.trace_id,
        "repo": fields["repo"],
        "split": split,
        "shard": shard,
        "row": line,
        "final_trace_blob_id": row.final_blob_id,
        "store": fields["store"],
        "consent": {flag: fields[f"consent.{flag}"] for flag in _FLAGS},
        "final_passed": fields["qa.final_passed"],
        "overall": fields["overall"],
        "rubric": fields["rubric"],
    }


def _manifest(
    request: SetRequest,
    entries: list[dict[str, Any]],
    shards: _Shards,
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
            "redaction": redaction_version(),
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


def _told(pair: NearDuplicate, splits: Mapping[str, str]) -> dict[str, Any]:
    return {**pair._asdict(), "splits": [splits[pair.one], splits[pair.other]]}


def _telling_text(value: dict[str, Any], form: ExportFormat) -> str:
    """What makes one session like another: its report and its patches, not the frame of the format."""
    strings: list[str] = []
    if form == "chat":
        for message in value["messages"][1:]:
            strings.append(str(message.get("content") or ""))
            strings += [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    elif form == "atif":
        for step in value["steps"]:
            strings += [step["message"], step.get("reasoning_content") or ""]
            strings += [str(call["arguments"]) for call in step.get("tool_calls") or ()]
    elif form == "otlp":
        (spans,) = (scope["spans"] for each in value["resourceSpans"] for scope in each["scopeSpans"])
        told = [part for span in spans for part in (span, *span["events"])]
        pairs = [pair for part in told for pair in part["attributes"] if pair["key"] in _TELLING]
        strings += [str(pair["value"].get("stringValue")) for pair in pairs]
    else:
        strings += value["task"]["bug_report"].values()
        strings += [text for text in to_audit(value, form)[1].values() if not text.startswith("blob:")]
    return "\n".join(str(text) for text in strings)


def _why_none(left_out: Mapping[str, str]) -> str:
    if not left_out:
        return "no trace fulfils the condition"
    reasons = Counter(left_out.values())
    return "; ".join(f"{count} left out: {reason}" for reason, count in sorted(reasons.items()))


def _put(path: Path, value: Any) -> None:
    with path.open("wb") as file:
        file.write(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
