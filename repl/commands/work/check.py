"""`pm check`: files or an answer judged without running a task, for hooks and CI."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from repl.commands.gate.gate import issue_line
from repl.context import Context
from repl.present.text import count_text, escape
from runner.judging import check_paths
from tracer.errors import NotAcceptedError, NotFoundError


async def check(context: Context, arguments: Namespace) -> int:
    settings = context.settings()
    answer = await asyncio.to_thread(_answer, context.folder, arguments.output) if arguments.output else None
    report = await check_paths(
        root=context.folder,
        paths=tuple(arguments.path or ()),
        answer=answer,
        exclude=tuple(settings.get("check.exclude") or ()),
        options=settings.family("criteria.options"),
    )
    verdict = report.verdict
    for issue in verdict.issues:
        context.output.line(issue_line(issue))
        context.output.record({"type": "issue", **issue})
    for path, why in report.unread:
        context.output.note(f"not judged: {escape(path)}: {escape(why)}")
    for note in verdict.notes:
        context.output.note(escape(note))
    fields: dict[str, Any] = {
        "passed": report.passed,
        "files": report.files,
        "judgment": verdict.judgment,
        "criteria_results": list(verdict.criteria_results),
        "issues": list(verdict.issues),
        "unread": [{"path": path, "why": why} for path, why in report.unread],
    }
    judged = count_text(report.files, "file") + (" and an answer" if answer is not None else "")
    if report.passed:
        context.output.line(f"{judged}: nothing found")
        context.output.result("check", fields)
        return 0
    what = f"{count_text(len(verdict.issues), 'place')} found in {judged}"
    failed = next((str(result["id"]) for result in verdict.criteria_results if not result["passed"]), "Q2")
    error = NotAcceptedError(what, next_step=f"pm criteria explain {failed}")
    context.output.note(f"{what}; {error.next_step} says what is looked for")
    context.output.failure("check", error, 1, fields)
    return 1


def _answer(folder: Path, name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return (folder / name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise NotFoundError(
            f"cannot read the answer {name!r}", why=error.strerror or "", next_step="--output FILE"
        ) from error
