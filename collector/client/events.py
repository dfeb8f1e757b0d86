"""Events of other programs on their way into a spool: checked against the schema and redacted before they are kept.

One event that the collector refuses would hold up everything behind it. Patches and snapshots share one map
(`collector.intake.redact_code`), so that they still fit. Program output needs consent; without it, its length is kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from collector.client.spool import Draft, Spool
from collector.config import IntakeLimits
from collector.errors import IntakeError, other_content
from collector.final.replay import LEFT_OUT
from collector.intake.parse import parse_events
from collector.intake.prepare import TEXTS
from collector.intake.redact_code import TraceMap
from tracer.clock import new_id, now_epoch_ms
from tracer.errors import UsageError
from tracer.redaction.engine import ProjectRedactor

_KEY: Final = b"spool"  # identities are not kept here
_BATCH: Final = 500


def read_events(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The events in JSON lines, in one list, or in one `{"events": [...]}`."""
    whole = b"".join(pieces)
    try:
        found = orjson.loads(whole)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict) and isinstance(found.get("events"), list):
        found = found["events"]
    if isinstance(found, list):
        yield from (_event(item, number) for number, item in enumerate(found, 1))
        return
    for number, line in enumerate(whole.split(b"\n"), 1):
        if line.strip():
            try:
                yield _event(orjson.loads(line), number)
            except orjson.JSONDecodeError as error:
                raise UsageError(f"line {number} is no JSON", why=str(error), next_step=_NEXT) from error


_NEXT: Final = "one event a line: pm schema trace prints the schema"


def checked_drafts(
    events: Iterable[Mapping[str, Any]], spool: Spool, *, redactor: ProjectRedactor | None
) -> Iterator[Draft]:
    """Drafts of `events` the spool lacks, redacted unless `redactor` is None; call within `spool.writing()`.

    Raises EventConflictError: an event's id is known, and it says something else.
    """
    known = {orjson.loads(line.raw)["event_id"].lower(): line.seq for line in spool.lines()}
    given: dict[str, Mapping[str, Any]] = {}
    seq = spool.last_event()
    batch: list[dict[str, Any]] = []
    numbers: list[int] = []
    trace_map = TraceMap(redactor) if redactor is not None else None
    outputs = spool.header["request"]["developer"].get("consent_flags", {}).get("store_terminal_output") is True
    for number, event in enumerate(events, 1):
        name = str(event.get("event_id", "")).lower()
        full = {"event_id": new_id(), "ts_ms": now_epoch_ms(), "actor": _HUMAN, "context": {}, **event}
        if name in known:
            full.setdefault("seq", known[name])
            (draft,) = redacted_drafts([full], redactor, trace_map, outputs=outputs, numbers=[number])
            check_repeated(draft, spool, known[name], filled={"seq", "ts_ms"} - event.keys())
            continue
        if name in given:
            if event != given[name]:
                raise other_content(name, seq=seq)
            continue
        full.setdefault("seq", seq + 1)
        if isinstance(full["seq"], int) and full["seq"] <= seq:
            raise UsageError(
                f"event {number} has seq {full['seq']}, and seq {seq} is there already",
                why="seq ascends within a trace",
                next_step="leave seq out: it is given in order",
            )
        seq = full["seq"] if isinstance(full["seq"], int) else seq
        given |= {name: event} if name else {}
        batch.append(full)
        numbers.append(number)
        if len(batch) >= _BATCH:
            yield from redacted_drafts(batch, redactor, trace_map, outputs=outputs, numbers=numbers)
            batch, numbers = [], []
    if batch:
        yield from redacted_drafts(batch, redactor, trace_map, outputs=outputs, numbers=numbers)


def check_repeated(draft: Draft, spool: Spool, seq: int, *, filled: Collection[str]) -> dict[str, Any]:
    """The event at `seq`, whose id the draft has. Raises EventConflictError: the draft says something else.

    It is read anew, as consent that was taken back may have narrowed it. What was `filled` in here is not compared.
    """
    event: dict[str, Any] = orjson.loads(next(spool.lines(after=seq - 1)).raw)
    again = draft.event(seq)
    if not again["payload"].get("links_to"):  # the recorder finds them
        event["payload"]["links_to"] = again["payload"]["links_to"] = None
    if any(event[name] != again[name] for name in again.keys() - {"event_id", *filled}):
        raise other_content(event["event_id"], seq=seq)
    return event


_HUMAN: Final = {"kind": "human", "id": None}


def redacted_drafts(
    batch: list[dict[str, Any]],
    redactor: ProjectRedactor | None,
    trace_map: TraceMap | None,
    *,
    outputs: bool,
    numbers: Sequence[int] = (),
) -> Iterator[Draft]:
    """Drafts of whole events (IntakeError: not valid), redacted; `outputs`: whether what programs printed may stay.

    `numbers` are those of the events in what was given, from 1; without, one event was given alone.
    """
    try:
        parse_events(batch, key=_KEY, limits=IntakeLimits())
    except IntakeError as error:
        _tell_place(error, numbers)
        error.next_step = error.next_step or _NEXT
        error.why = "" if error.why and error.why in error.what else error.why
        raise
    for event in batch:
        payload = event["payload"] if outputs else _without_output(event["type"], event["payload"])
        if redactor is not None and trace_map is not None:
            payload = _redacted(event["type"], payload, redactor, trace_map)
            event["context"] = redactor.redact_value(event["context"]).value
            event["actor"] = redactor.redact_value(event["actor"]).value
        yield Draft(payload=payload, **{name: event[name] for name in _AS_SENT})


IN_BATCH: Final = re.compile(r"\bevents\[(\d{1,9})\](\.?)")


def _tell_place(error: IntakeError, numbers: Sequence[int]) -> None:
    """Turn places in a batch of ours into places in what was given: there the giver can look."""

    def found(match: re.Match[str]) -> str:
        if numbers:
            return f"events[{numbers[int(match[1])] - 1}]{match[2]}"
        return "" if match[2] else "the event"

    error.what, error.why = IN_BATCH.sub(found, error.what), IN_BATCH.sub(found, error.why)
    error.place = IN_BATCH.sub(found, error.place)
    error.problems = tuple((IN_BATCH.sub(found, place), rule, why) for place, rule, why in error.problems)


_AS_SENT: Final = ("type", "actor", "context", "ts_ms", "event_id", "seq")


def _without_output(kind: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    if kind == "terminal_output" and isinstance(chunk := payload.get("chunk"), str):
        return {**payload, "chunk": "", "is_truncated": True, "characters": len(chunk)}
    if kind == "test_run" and "report" in payload:
        return {name: value for name, value in payload.items() if name != "report"}
    return payload


def without(raw: bytes, words: Collection[str], gone: set[str]) -> bytes:
    """An event without what the consent by these names covered; `gone` takes the blobs that it named."""
    event = orjson.loads(raw)
    payload = event["payload"]
    if "output" in words and event["type"] == "terminal_output":
        payload |= {"chunk": "", "is_truncated": True}
    elif "output" in words and event["type"] == "test_run":
        payload.pop("report", None)
        gone |= {blob_id} if (blob_id := payload.pop("report_blob_id", None)) else set()
    elif "code" in words and isinstance(payload.get(LEFT_OUT), list):
        payload[LEFT_OUT] = len(payload[LEFT_OUT])
    else:
        return raw
    return orjson.dumps(event)


def _redacted(kind: str, payload: Mapping[str, Any], redactor: ProjectRedactor, trace_map: TraceMap) -> dict[str, Any]:
    clean = dict(payload)
    for name, value in payload.items():
        if kind == "file_edit" and name == "patch" and isinstance(value, str):
            clean |= _edit(payload, value, trace_map)
        elif kind == "file_snapshot" and name == "content" and isinstance(value, str):
            clean[name] = trace_map.snapshot(value.encode("utf-8")).decode("utf-8", "replace")
        elif isinstance(value, str) and (name in TEXTS[kind] or not name.endswith(_KEPT_NAMES)):
            clean[name] = redactor.redact_text(value)[0]
        elif isinstance(value, dict | list):
            clean[name] = redactor.redact_value(value).value
    return clean


_KEPT_NAMES: Final = ("_hash", "_id", "_ref", "_sha", "kind", "format", "reason", "stream", "runner", "shell", "action")


def _edit(payload: Mapping[str, Any], patch: str, trace_map: TraceMap) -> dict[str, Any]:
    """The patch as it is kept, with the hashes that hold for it."""
    original = patch.encode("utf-8")
    redacted = trace_map.patch(original)
    hashes = trace_map.edit(
        original=original, redacted=redacted, pre_hash=payload.get("pre_hash"), post_hash=payload.get("post_hash")
    )
    told: dict[str, Any] = {"patch": redacted.decode("utf-8", "replace")}
    held = {"pre_hash": hashes.pre_hash, "post_hash": hashes.post_hash}
    return {**told, **{name: value for name, value in held.items() if name in payload}, **hashes.extra}


def acceptable(drafts: Sequence[Draft]) -> list[Draft]:
    """`drafts`, with an `error` event in the place of each that the collector would refuse (an odd file name …)."""
    try:
        parse_events([draft.event(number) for number, draft in enumerate(drafts, 1)], key=_KEY, limits=IntakeLimits())
    except IntakeError as error:
        if len(drafts) > 1:
            return [kept for draft in drafts for kept in acceptable([draft])]
        _tell_place(error, ())
        payload = {"message": f"a {drafts[0].type} event could not be recorded: {error.what}", "source": "pm record"}
        return [Draft(type="error", payload=payload, ts_ms=drafts[0].ts_ms, actor={"kind": "tool", "id": "pm record"})]
    return list(drafts)


def _event(item: Any, number: int) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise UsageError(f"event {number} is no JSON object", next_step=_NEXT)
    return item
