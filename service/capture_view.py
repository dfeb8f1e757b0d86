"""A captured session as its page shows it: what was done, in order, with the thoughts beside it. Pure values.

Text stays text: control and direction characters are made visible, colour sequences of terminals are left out, and
templates escape the rest. Long contents are cut and say how much is hidden; the blob is one link away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from service.views import DiffLine, Shown, diff_lines, shown
from tracer.clock import from_epoch_ms

__all__ = ["Content", "Part", "Step", "Thought", "blobs_named", "plain_terminal", "timeline"]

_CUT: Final = 12_000
_COLOURS: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_TITLES: Final[Mapping[str, str]] = {
    "file_edit": "Edit",
    "file_snapshot": "Snapshot",
    "terminal_command": "Command",
    "terminal_output": "Output",
    "test_run": "Tests",
    "debug_action": "Debugger",
    "navigation": "Look",
    "thought": "Thought",
    "commit": "Commit",
    "pr_metadata": "Pull request",
    "error": "Error",
}
_BLOB_LABELS: Final[Mapping[str, str]] = {
    "patch_blob_id": "Change",
    "content_blob_id": "Content",
    "chunk_blob_id": "Output",
    "report_blob_id": "Report",
    "diff_blob_id": "Diff",
    "value_blob_id": "Value",
    "detail_blob_id": "Detail",
}
_DIFFS: Final = frozenset({"patch_blob_id", "diff_blob_id"})


class Content(NamedTuple):
    """A blob's beginning as text (None: no text, or not to be had), and its whole length in bytes."""

    text: str | None
    byte_length: int


class Part(NamedTuple):
    """A content of a step: a diff (`lines`) or a text."""

    label: str
    blob_id: str
    text: Shown
    lines: tuple[DiffLine, ...]
    byte_length: int


class Thought(NamedTuple):
    """A thought beside what it speaks of; `links` are the seqs of the events it names on this page."""

    seq: int
    kind: str
    part: Part | None
    links: tuple[int, ...]


class Step(NamedTuple):
    """One event of the timeline; output follows its command, thoughts stand beside."""

    seq: int
    event_id: str
    kind: str
    title: str
    time: str
    subject: str
    badge: tuple[str, str]
    facts: tuple[str, ...]
    parts: tuple[Part, ...]
    thoughts: tuple[Thought, ...]


def plain_terminal(text: str) -> str:
    """Terminal output as a person would see it: colours gone, an overwritten line as it was last, tabs as blanks."""
    lines = _COLOURS.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rpartition("\r")[2].expandtabs(8) for line in lines)


def blobs_named(events: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The blobs whose contents a page of `events` shows, each once."""
    named = (value for each in events for field, value in each["payload"].items() if field in _BLOB_LABELS and value)
    return tuple(dict.fromkeys(named))


def timeline(events: Sequence[Mapping[str, Any]], contents: Mapping[str, Content]) -> tuple[Step, ...]:
    """The steps of a page of events (complete, as stored)."""
    seq_of = {each["event_id"]: each["seq"] for each in events}
    beside = _thoughts_beside(events, contents, seq_of)
    outputs = _outputs_of(events)
    steps: list[Step] = []
    owned = {output["seq"] for found in outputs.values() for output in found}
    for each in events:
        if each["seq"] in owned or (each["type"] == "thought" and each["seq"] not in beside):
            continue
        parts = _parts(each, contents)
        for output in outputs.get(each["seq"], ()):
            parts += _parts(output, contents, label=str(output["payload"].get("stream", "Output")))
        steps.append(_step(each, parts, beside.get(each["seq"], ())))
    return tuple(steps)


def _step(event: Mapping[str, Any], parts: tuple[Part, ...], thoughts: tuple[Thought, ...]) -> Step:
    kind, payload = event["type"], event["payload"]
    alone = kind == "thought"  # nothing on the page that it could stand beside
    return Step(
        seq=event["seq"],
        event_id=event["event_id"],
        kind=kind,
        title=_TITLES.get(kind, kind),
        time=from_epoch_ms(event["ts_ms"])[:23].replace("T", " "),
        subject=_line(_SUBJECTS.get(kind, _nothing)(payload)),
        badge=_badge(kind, payload),
        facts=tuple(_line(fact) for fact in _facts(event)),
        parts=() if alone else parts,
        thoughts=thoughts,
    )


def _thoughts_beside(
    events: Sequence[Mapping[str, Any]], contents: Mapping[str, Content], seq_of: Mapping[str, int]
) -> dict[int, tuple[Thought, ...]]:
    """Thoughts by the seq they stand beside: the first event they name, else the next thing done, else themselves."""
    found: dict[int, list[Thought]] = {}
    explains = {each["payload"].get("reason_ref"): each["seq"] for each in events if each["type"] == "file_edit"}
    actions = [each["seq"] for each in events if each["type"] not in {"thought", "terminal_output"}]
    for each in events:
        if each["type"] != "thought":
            continue
        links = tuple(seq_of[name] for name in each["payload"].get("links_to", ()) if name in seq_of)
        action_links = [seq for seq in links if seq in actions]
        after = next((seq for seq in actions if seq > each["seq"]), None)
        place = (action_links[0] if action_links else None) or explains.get(each["event_id"]) or after or each["seq"]
        parts = _parts(each, contents, label="Thought")
        thought = Thought(each["seq"], str(each["payload"].get("kind", "")), parts[0] if parts else None, links)
        found.setdefault(place, []).append(thought)
    return {seq: tuple(thoughts) for seq, thoughts in found.items()}


def _outputs_of(events: Sequence[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    """Output events by the seq of the command on this page that they belong to."""
    by_event: dict[str, int] = {}
    by_correlation: dict[str, int] = {}
    found: dict[int, list[Mapping[str, Any]]] = {}
    last: int | None = None
    for each in events:
        context = each.get("context") or {}
        if each["type"] in {"terminal_command", "test_run"}:
            last = by_event[each["event_id"]] = each["seq"]
            if context.get("correlation_id") and each["type"] == "terminal_command":
                by_correlation[context["correlation_id"]] = each["seq"]
        elif each["type"] == "terminal_output":
            parent, shared = context.get("parent_event_id") or "", context.get("correlation_id") or ""
            owner = by_event.get(parent) or by_event.get(shared) or by_correlation.get(shared) or last
            if owner is not None:
                found.setdefault(owner, []).append(each)
    return found


def _parts(event: Mapping[str, Any], contents: Mapping[str, Content], *, label: str = "") -> tuple[Part, ...]:
    parts: list[Part] = []
    for field, blob_id in event["payload"].items():
        if field not in _BLOB_LABELS or not blob_id:
            continue
        content = contents.get(blob_id, Content(None, 0))
        text = content.text
        name = label or _BLOB_LABELS[field]
        if text is None:
            parts.append(Part(name, blob_id, Shown(""), (), content.byte_length))
        elif field in _DIFFS:
            lines = diff_lines(text.expandtabs(4).rstrip("\n"))
            parts.append(Part(name, blob_id, Shown(""), lines, content.byte_length))
        else:
            plain = shown(plain_terminal(text), limit=_CUT)
            hidden = max(plain.hidden, content.byte_length - len(text.encode("utf-8", "replace")))
            parts.append(Part(name, blob_id, Shown(plain.text, hidden), (), content.byte_length))
    return tuple(parts)


def _nothing(_payload: Mapping[str, Any]) -> str:
    return ""


def _place(payload: Mapping[str, Any]) -> str:
    path, line = payload.get("file_path") or "", payload.get("line")
    return f"{path}:{line}" if path and line is not None else str(path)


_SUBJECTS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "file_edit": _place,
    "file_snapshot": _place,
    "terminal_command": lambda payload: str(payload.get("command", "")),
    "test_run": lambda payload: str(payload.get("command", "")),
    "debug_action": lambda payload: f"{payload.get('action', '')} {payload.get('expression') or _place(payload)}",
    "navigation": lambda payload: f"{payload.get('kind', '')} {payload.get('query') or _place(payload)}",
    "commit": lambda payload: f"{str(payload.get('commit_sha', ''))[:12]} {payload.get('message', '')}",
    "pr_metadata": lambda payload: str(payload.get("title", "")),
    "error": lambda payload: str(payload.get("message", "")),
}


def _badge(kind: str, payload: Mapping[str, Any]) -> tuple[str, str]:
    """A word and its tone; empty where nothing is to be said."""
    if kind == "test_run":
        return ("passed", "good") if payload.get("passed") else (f"failed, exit {payload.get('exit_code')}", "bad")
    if kind == "error":
        return ("error", "bad")
    return ("", "")


def _facts(event: Mapping[str, Any]) -> list[str]:
    """What else is worth a word."""
    payload, kind = event["payload"], event["type"]
    told = [str(payload[name]) for name in ("runner", "snapshot_reason", "source", "url") if payload.get(name)]
    if kind == "test_run":
        told.append(f"{payload.get('duration_ms', 0) / 1000:.1f} s")
    if payload.get("is_truncated"):
        told.append("cut by the recorder")
    actor = event.get("actor") or {}
    if actor.get("kind") not in {None, "human"}:
        told.append(f"by {actor.get('id') or actor['kind']}")
    return told


def _line(text: str) -> str:
    return shown(" ".join(text.split()), limit=400).text
