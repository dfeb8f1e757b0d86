"""`pm trace verify`: framing, order, values, chain of a task's trace, or balance and transitions of a session's log."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

from repl.context import Context
from repl.present.text import count_text, escape
from tracer.errors import TraceError, UsageError
from tracer.journal.tracepack import find_session, read_session
from tracer.journal.verify_trace import Finding, check_session, verify_trace

_HEX = re.compile(r"\s*[0-9A-Fa-f]{64}\s*")


def verify(context: Context, arguments: Namespace) -> int:
    if arguments.session is not None:
        return _session(context, arguments.session)
    if arguments.head and not _HEX.fullmatch(arguments.head):
        raise UsageError(f"{arguments.head!r} is no chain head", why="a head is 64 hexadecimal digits")
    task = context.task(arguments.task)
    damaged: list[Finding] = []
    records: list[dict[str, Any]] = []
    for number, path in enumerate(task.files):
        report = verify_trace(path, head=arguments.head if number == 0 else None, task_id=task.task_id)
        chain = report.chain
        context.output.line(
            f"{path.name}   {report.facts} events, chain {chain.state}, {'ok' if report.ok else 'DAMAGED'}"
        )
        _say(context, report.findings)
        if number == 0:
            context.output.line(
                f"  head {chain.head}" + {True: "   matches", False: "   DIFFERS", None: ""}[chain.head_matches]
            )
        damaged += [finding for finding in report.findings if finding.level == "damage"]
        records.append(
            {
                "file": str(path),
                "ok": report.ok,
                "facts": report.facts,
                "chain": chain._asdict(),
                "findings": [finding._asdict() for finding in report.findings],
            }
        )
    return _end(context, damaged, {"task_id": task.task_id, "files": records}, task.task_id)


def _session(context: Context, selector: str) -> int:
    path: Path = find_session(context.state_dir, None if selector == "last" else selector)
    events = read_session(path)
    findings = check_session(events)
    damaged = [finding for finding in findings if finding.level == "damage"]
    context.output.line(f"{path.name}   {len(events)} events, {'DAMAGED' if damaged else 'ok'}")
    _say(context, findings)
    fields = {"session": str(path), "events": len(events), "findings": [finding._asdict() for finding in findings]}
    return _end(context, damaged, fields, path.name)


def _say(context: Context, findings: tuple[Finding, ...] | list[Finding]) -> None:
    for finding in findings:
        where = f"line {finding.line}: " if finding.line else ""
        context.output.line(f"  {finding.level:<7} {where}{escape(finding.text)}")


def _end(context: Context, damaged: list[Finding], fields: dict[str, Any], name: str) -> int:
    if not damaged:
        context.output.result("trace verify", {"ok": True, **fields})
        return 0
    first = damaged[0]
    error = TraceError(
        f"{name}: {count_text(len(damaged), 'finding')} of damage",
        why=(f"line {first.line}: " if first.line else "") + first.text,
        next_step=f"an incomplete last line is moved aside by: pm resume {name}" if "incomplete" in first.text else "",
    )
    context.output.failure("trace verify", error, 8, {"ok": False, **fields})
    context.output.error(error)
    return 8
