"""What people say of tasks, agent sessions and captures, or of one of their events: scores, flags, comments.

One JSON object a line in `labels.jsonl` of the state directory, appended and never changed, redacted before it is
written. Of what one author says of one subject the newest counts; all of it stays as the history.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tracer.clock import now_iso
from tracer.durable import sync_file, write_all
from tracer.errors import RecordError
from tracer.redaction.redactor import Redactor
from tracer.statedir import StateDir


class Label(NamedTuple):
    """One label; `kind` is task, session or capture, `step` the number of the event it is about, None for the whole."""

    kind: str
    subject: str
    author: str
    scores: Mapping[str, float] = {}
    flags: tuple[str, ...] = ()
    comment: str = ""
    step: int | None = None
    at: str = ""


def add_label(state_dir: StateDir, label: Label, *, redactor: Redactor) -> Label:
    """Append it, durable on return; as it was written.

    Raises RecordError: it cannot be written.
    """
    told = {**label._asdict(), "at": now_iso()}
    words, _ = redactor.redact_value({name: told[name] for name in ("author", "comment", "flags")})
    told |= words
    line = json.dumps(told, ensure_ascii=False).encode() + b"\n"
    try:
        descriptor = os.open(state_dir.labels, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":  # a line that a crash cut off
                line = b"\n" + line
            write_all(descriptor, line)
            sync_file(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RecordError("the label could not be written", why=str(error)) from error
    return _label(told)


def read_labels(state_dir: StateDir, *, kind: str = "", subject: str = "") -> list[Label]:
    """The labels in the order they came; what is damaged is left out."""
    try:
        lines = state_dir.labels.read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            label = _label(json.loads(line))
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
        if (not kind or label.kind == kind) and (not subject or label.subject == subject):
            found.append(label)
    return found


def newest(labels: Iterable[Label]) -> dict[str, list[Label]]:
    """By subject, the newest of each author of the whole of it."""
    last = {(one.subject, one.author): one for one in labels if one.step is None}
    found: dict[str, list[Label]] = {}
    for (subject, _), one in last.items():
        found.setdefault(subject, []).append(one)
    return found


def mean_scores(labels: Iterable[Label]) -> dict[str, float]:
    """The mean of each score over its authors."""
    given: dict[str, list[float]] = {}
    for one in labels:
        for name, score in one.scores.items():
            given.setdefault(name, []).append(score)
    return {name: sum(scores) / len(scores) for name, scores in given.items()}


def labels_told(state_dir: StateDir, kind: str) -> list[tuple[str, float | None, str]]:
    """By subject what a filter asks of labels: the mean overall score, and the flags, each between line ends."""
    return [
        (
            subject,
            mean_scores(given).get("overall"),
            "\n".join(["", *(flag for one in given for flag in one.flags), ""]),
        )
        for subject, given in newest(read_labels(state_dir, kind=kind)).items()
    ]


def _label(told: Mapping[str, Any]) -> Label:
    scores = {str(name): float(score) for name, score in told["scores"].items()}
    flags = tuple(str(flag) for flag in told["flags"])
    step = told.get("step")
    return Label(
        str(told["kind"]), str(told["subject"]), str(told["author"]), scores, flags, str(told["comment"]),
        step if isinstance(step, int) else None, str(told["at"]),
    )  # fmt: skip
