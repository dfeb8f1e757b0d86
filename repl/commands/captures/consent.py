"""Bug, user and consent of a capture, asked for where they are missing, and the preview shown before it is sent."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from collector.client.send import holds
from collector.client.spool import Spool
from repl.present.text import count_text, escape
from tracer.blobs import text_of
from tracer.errors import UsageError
from tracer.redaction.marks import PLACEHOLDER

if TYPE_CHECKING:
    from collector.recorder.begin import Bug, Person
    from collector.recorder.consent import Consent
    from repl.context import Context
    from runner.workspace.git.repository import Git


def can_ask(context: Context) -> bool:
    """Whether somebody is there to answer: a terminal on both sides, and no `--no-input` or JSON form."""
    return (
        not getattr(context.arguments, "no_input", False)
        and context.output.human
        and sys.stdin.isatty()
        and sys.stderr.isatty()
    )


def ask_line(context: Context, question: str) -> str:
    sys.stderr.write(f"{question} ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    context.output.detail("")
    return line.strip()


def ask_yes(context: Context, question: str, *, default: bool) -> bool:
    if getattr(context.arguments, "yes", False):
        return True
    return _answer(context, question, default=default)


def _answer(context: Context, question: str, *, default: bool) -> bool:
    while True:
        answer = ask_line(context, f"{question} [{'Y/n' if default else 'y/N'}]").lower()
        if answer in {"", "y", "yes", "n", "no"}:
            return default if not answer else answer.startswith("y")


def bug_from(context: Context, arguments: Namespace, *, default_title: str) -> Bug:
    """The bug report of the flags; a missing title is asked for, else `default_title`."""
    from collector.recorder.begin import Bug

    title = arguments.title or ""
    if not title and can_ask(context):
        title = ask_line(context, "What is the bug, in a line? (Enter: say it later)")
    return Bug(
        title=title or default_title,
        description=arguments.description or "",
        repro_steps=arguments.repro or "",
        expected=arguments.expected or "",
        actual=arguments.actual or "",
        links=tuple(arguments.link or ()),
        labels=tuple(arguments.label or ()),
        task_id=arguments.task_id or "",
    )


def person_from(context: Context, arguments: Namespace, git: Git) -> Person:
    """Who records, with their consent: of the flag, else as given before, else asked now (and kept).

    Raises UsageError: nobody consented yet and nobody can be asked.
    """
    from collector.recorder.begin import Person, head_commit, repo_block
    from collector.recorder.consent import keep_consent, parse_consent, stored_consent

    repo_id = str(repo_block(git, commit=head_commit(git))["repo_id"])
    consent = None if arguments.consent else stored_consent(context.state_root, repo_id)
    if consent is None:
        consent = parse_consent(arguments.consent) if arguments.consent else _asked_consent(context, repo_id)
        keep_consent(context.state_root, repo_id, consent)
    return Person(developer_id=arguments.developer or "", experience=arguments.experience or "", consent=consent)


def _asked_consent(context: Context, repo_id: str) -> Consent:
    from collector.recorder.consent import QUESTIONS, Consent

    if not can_ask(context):
        raise UsageError(
            f"nobody consented yet to captures of {repo_id}",
            why="a capture holds commands, edits and thoughts; what else it may hold is yours to say, once",
            next_step="--consent output,judge   (or all, none; of code, output, judge)",
        )
    context.output.note(f"A capture of {repo_id} holds your commands, edits, commits and thoughts, secrets replaced.")
    answers: dict[str, Any] = {word: _answer(context, question, default=False) for word, question in QUESTIONS.items()}
    return Consent(**answers)


_MOST_LINES = 8
_WIDTH = 100


def preview_fields(spool: Spool) -> dict[str, Any]:
    types, marks, files = Counter[str](), Counter[str](), Counter[str]()
    tests, thoughts, commits, size = list[dict[str, Any]](), list[dict[str, Any]](), list[str](), 0
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
    elif facts["commits_bundle"]:
        lines.append("  tree      the files of the commit where you began, secrets replaced, without its history")
    return lines


def _some(name: str, items: list[str]) -> list[str]:
    shown = [_line(item) for item in items[:_MOST_LINES]]
    if len(items) > _MOST_LINES:
        shown.append(f"… {len(items) - _MOST_LINES} more: pm record preview --full")
    return [f"  {name if not number else '':<9} {text}" for number, text in enumerate(shown)]


def _line(text: Any) -> str:
    first = str(text).strip().split("\n")[0]
    return escape(first if len(first) <= _WIDTH else first[: _WIDTH - 1] + "…")


def whole_lines(spool: Spool) -> list[str]:
    """Everything that would be sent, to the last line: what the trace is begun with, its events, its end."""
    from tracer.rows.line import head_of_fields, mark_and_summary

    lines = ["the trace", *_leaves(spool.header["request"], spool)]
    for line in spool.lines():
        event = orjson.loads(line.raw)
        _mark, summary = mark_and_summary(head_of_fields(event), event)
        lines.append(escape(f"{event.pop('seq'):>5}  {event.pop('type', ''):<17} {summary}"))
        lines += _leaves(event, spool)
    return [*lines, "the end", *_leaves(spool.final or {}, spool)]


def _leaves(value: dict[str, Any], spool: Spool, indent: str = "       ") -> Iterator[str]:
    """Each member that says something, a text over as many lines as it has, a blob by its content."""
    for name, held in value.items():
        inner = held
        if isinstance(held, str) and name.endswith("_blob_id") and holds(spool.blobs, held):
            data = spool.blobs.read(held)
            text = text_of(data)
            inner = f"{len(data):,} bytes that are no text" if text is None else text
        if isinstance(inner, dict):
            yield f"{indent}{escape(name)}"
            yield from _leaves(inner, spool, indent + "  ")
        elif isinstance(inner, str) and "\n" in inner:
            yield f"{indent}{escape(name)}"
            yield from (f"{indent}  {escape(line)}" for line in inner.rstrip("\n").split("\n"))
        elif inner not in (None, "", []):
            yield f"{indent}{escape(name)}  {escape(inner if isinstance(inner, str) else orjson.dumps(inner).decode())}"
