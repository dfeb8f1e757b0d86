"""Consent that a developer takes back: what of a stored trace it covered, and what stays. Revocations for buyers.

A withdrawal is a fact of the trace and stands in its metadata; every later reader goes by what is left. Events stay as
they were sent, and name contents that are gone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import Any, Final, Literal

import orjson

from collector.collector import Collector
from collector.final.document import BEGINNING, DOCUMENT_TYPE, materialize
from collector.store.plan import named_blobs
from collector.store.port import QaFact, TraceRow, TraceStore
from tracer.clock import new_id, now_epoch_ms
from tracer.errors import NotFoundError, TraceError

Flag = Literal["store_raw_code", "store_terminal_output", "allow_llm_judge"]
FLAGS: Final[Mapping[str, Flag]] = {
    "code": "store_raw_code",
    "output": "store_terminal_output",
    "judge": "allow_llm_judge",
}
"""Each by the short name that people use."""
_PAGE: Final = 1000
_PRINTED: Final = frozenset({"terminal_output", "test_run"})


async def withdraw(collector: Collector, trace_id: str, flags: Collection[Flag]) -> dict[str, bool]:
    """Take consent back: what it covered is removed and never leaves again; what is consented to now.

    A raw trace holds nothing that may stay without consent to code: it is deleted. Raises as `Collector.row`.
    """
    row = await collector.row(trace_id)
    consent = row.metadata["developer"]["consent_flags"]
    taken = sorted(flag for flag in flags if consent.get(flag))
    if not taken:
        return dict(consent)
    if "store_raw_code" in taken and row.metadata.get("store") == "raw":
        await collector.erase(trace_id)
        return dict.fromkeys(consent, False)
    now = now_epoch_ms()
    metadata = narrowed(row.metadata, taken, at_ms=now)
    await collector.store.append_qa_fact(trace_id, QaFact("consent", new_id(), now, {"withdrawn": taken}))
    await _forget(collector, row, taken, metadata)
    return dict(metadata["developer"]["consent_flags"])


async def forget_withdrawn(collector: Collector, trace_id: str) -> None:
    """Remove what the checks of a trace stored although its consent was taken back while they ran."""
    row = await collector.row(trace_id)
    flags = (row.metadata.get("withdrawn") or {}).get("flags")
    if flags:
        await _forget(collector, row, flags, row.metadata)


async def _forget(collector: Collector, row: TraceRow, flags: Collection[str], metadata: dict[str, Any]) -> None:
    store, trace_id = collector.store, row.trace_id
    released = await covered(row, flags, store)
    await collector.narrow(trace_id, metadata, released=released)
    if "allow_llm_judge" in flags:  # now that no text is held any more, which the results name
        await _forget_scores(trace_id, store)
    if row.final_blob_id is not None:
        written = await materialize(trace_id, store=store, blobs=collector.blobs)
        await collector.narrow(trace_id, metadata, released=await _superseded(collector, trace_id, written.blob_id))
    await collector.remove_released()


async def _forget_scores(trace_id: str, store: TraceStore) -> None:
    """Take what a judge came to out of the results, earlier ones too; that the judge was skipped stays."""
    judged = [fact for fact in await store.qa_facts(trace_id) if fact.step == "judge"]
    scored = [fact for fact in judged if fact.result["judge"] and "judge_skipped" not in fact.result["judge"]["flags"]]
    if scored and scored[-1] is judged[-1]:
        await store.append_qa_fact(trace_id, QaFact("judge", new_id(), now_epoch_ms(), {"judge": None}))
    for fact in scored:
        await store.replace_qa_result(trace_id, fact._replace(result={"judge": None}))


async def _superseded(collector: Collector, trace_id: str, newest: str) -> set[str]:
    """The final documents that a trace had before: each run of its checks that came to something else left one."""
    found: set[str] = set()
    for row in await collector.store.unnamed_blobs(trace_id):
        if row.content_type == DOCUMENT_TYPE and row.blob_id != newest:
            try:
                with await collector.contents.open(row.blob_id) as file:
                    if file.read(len(BEGINNING)) != BEGINNING:
                        continue
            except (NotFoundError, TraceError):  # whatever it was cannot be read any more
                pass
            found.add(row.blob_id)
    return found


async def covered(row: TraceRow, flags: Collection[str], store: TraceStore) -> set[str]:
    """The blobs of a trace that may not stay without this consent."""
    found: set[str] = set()
    others: set[str] = set()
    facts = await store.qa_facts(row.trace_id)
    if "store_terminal_output" in flags:
        after = 0
        while page := await store.read_events(row.trace_id, after=after, limit=_PAGE):
            after = page[-1].seq
            for event in page:
                named = named_blobs(orjson.loads(event.payload))
                (found if event.type in _PRINTED else others).update(named)
        for fact in facts:
            tests = fact.result.get("tests") or {}
            found |= named_blobs([tests.get("invocations"), (tests.get("detail") or {}).get("build")])
    if "allow_llm_judge" in flags:
        for fact in facts:
            found |= named_blobs(fact.result.get("judge"))
    if "store_raw_code" in flags:
        bundles = (row.metadata["repo"].get("bundle_blob_id"), (row.final_state or {}).get("bundle_blob_id"))
        found |= {blob_id for blob_id in bundles if blob_id}
    return found - others


def narrowed(metadata: Mapping[str, Any], flags: Iterable[str], *, at_ms: int) -> dict[str, Any]:
    """The metadata with this consent taken back."""
    taken = set(flags)
    developer = dict(metadata["developer"])
    developer["consent_flags"] = {**developer["consent_flags"], **dict.fromkeys(taken, False)}
    repo = dict(metadata["repo"])
    if "store_raw_code" in taken:
        repo["bundle_blob_id"] = None
    before = (metadata.get("withdrawn") or {}).get("flags") or []
    withdrawn = {"at_ms": at_ms, "flags": sorted({*before, *taken})}
    return {**metadata, "developer": developer, "repo": repo, "withdrawn": withdrawn}


async def revocations(store: TraceStore) -> list[dict[str, Any]]:
    """Every trace that was deleted or whose consent was narrowed, by id: for who has a copy of it."""
    found = [
        {"trace_id": row.trace_id, "at_ms": row.deleted_at_ms, "what": "deleted"}
        async for row in all_rows(store, status="deleted")
    ]
    async for row in all_rows(store):
        withdrawn = row.metadata.get("withdrawn")
        if withdrawn:
            found.append({"trace_id": row.trace_id, "what": "consent", **withdrawn})
    return sorted(found, key=lambda each: str(each["trace_id"]))


async def all_rows(store: TraceStore, *, status: str | None = None) -> AsyncIterator[TraceRow]:
    """Every trace of a status, newest first; by default each that was not deleted."""
    after: str | None = None
    while rows := await store.list_traces(after=after, limit=_PAGE, status=status):
        after = rows[-1].trace_id
        for row in rows:
            yield row
