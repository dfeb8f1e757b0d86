"""What a capture holds, for the person who decides whether it is sent: counts, files, tests, thoughts, marks, sizes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson

from collector.spool import Spool
from repl.present.escape import escape
from repl.present.words import count_text
from tracer.redaction.placeholder import PLACEHOLDER

__all__ = ["event_line", "preview_fields", "preview_lines"]

_MOST_LINES = 8
_WIDTH = 100


def preview_fields(spool: Spool) -> dict[str, Any]:
    """The facts of the preview, for programs."""
    types: Counter[str] = Counter()
    marks: Counter[str] = Counter()
    files: Counter[str] = Counter()
    tests: list[dict[str, Any]] = []
    thoughts: list[dict[str, Any]] = []
    commits: list[str] = []
    size = 0
    for line in spool.lines():
        event = orjson.loads(line.raw)
        kind, payload = str(event.get("type")), event.get("payload") or {}
        size += len(line.raw)
        types[kind] += 1
        marks.update(match.decode("ascii") for match in PLACEHOLDER.findall(line.raw))
        if kind == "file_edit":
            files[str(payload.get("file_path"))] += 1
        elif kind == "test_run":
            tests.append({"command": payload.get("command"), "passed": payload.get("passed")})
        elif kind == "thought":
            thoughts.append({"kind": payload.get("kind"), "text": payload.get("content")})
        elif kind == "commit":
            commits.append(str(payload.get("message", "")).split("\n")[0])
    blobs = sum(spool.blobs.path_of(blob_id).stat().st_size for blob_id in spool.blobs.ids())
    return {
        "trace_id": spool.trace_id,
        "events": dict(types),
        "files": dict(files),
        "tests": tests,
        "thoughts": thoughts,
        "commits": commits,
        "replaced": dict(marks),
        "bytes": size,
        "blob_bytes": blobs,
        "bundle": bool(spool.header["request"]["repo"].get("bundle_blob_id")),
        "commits_bundle": bool(((spool.final or {}).get("final_state") or {}).get("bundle_blob_id")),
    }


def preview_lines(spool: Spool) -> list[str]:
    """The preview for people."""
    facts = preview_fields(spool)
    total = sum(facts["events"].values())
    lines = [f"recording {spool.trace_id[:8]}: {count_text(total, 'event')}, {facts['bytes']:,} bytes"]
    counted = " · ".join(f"{count} {kind}" for kind, count in sorted(facts["events"].items()))
    lines.append(f"  events    {counted or 'none'}")
    lines += _some("files", [f"{name} ({count_text(count, 'edit')})" for name, count in facts["files"].items()])
    passed = [f"{'passed' if test['passed'] else 'failed'}  {test['command']}" for test in facts["tests"]]
    lines += _some("tests", passed)
    lines += _some("commits", facts["commits"])
    lines += _some("thoughts", [f"{each['kind']}: {each['text']}" for each in facts["thoughts"]])
    marks = " · ".join(f"{count} {rule}" for rule, count in sorted(facts["replaced"].items()))
    raw = spool.header["request"].get("store") == "raw"
    lines.append(f"  replaced  {'nothing: raw mode' if raw else marks or 'nothing was found'}")
    if facts["bundle"]:
        since = ", and your commits" if facts["commits_bundle"] else ""
        lines.append(f"  bundle    the repository's history up to where you began{since}, as it is")
    return lines


def _some(name: str, items: list[str]) -> list[str]:
    shown = [_line(item) for item in items[:_MOST_LINES]]
    if len(items) > _MOST_LINES:
        shown.append(f"… {len(items) - _MOST_LINES} more: pm record preview --full")
    return [f"  {name if not number else '':<9} {text}" for number, text in enumerate(shown)]


def _line(text: Any) -> str:
    first = str(text).strip().split("\n")[0]
    return escape(first if len(first) <= _WIDTH else first[: _WIDTH - 1] + "…")


def event_line(event: dict[str, Any]) -> str:
    """One event in a line, by the row interface of the trace viewer."""
    from tracer.rows.heads import head_of_fields
    from tracer.rows.summaries import mark_and_summary

    _mark, summary = mark_and_summary(head_of_fields(event), event)
    return escape(f"{event.get('seq'):>5}  {event.get('type', ''):<17} {summary}")
