"""Where completion finds what is not in the registry: tasks, files, executors, config keys, criteria, themes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from repl.commands.complete import Candidate, Sources
from repl.commands.registry import commands_for
from tracer.errors import PmError

if TYPE_CHECKING:
    from repl.commands.context import Context

__all__ = ["CRITERIA", "EVENTS", "EXECUTORS", "STATUSES", "THEMES", "sources_for"]

# The same names as tracer.events.EVENT_NAMES (a test compares): that module costs orjson.
EVENTS = (
    "USER_REQUEST",
    "SYSTEM_RULES",
    "CHUNKING_PLAN",
    "LLM_REQUEST",
    "LLM_RESPONSE",
    "QUALITY_JUDGMENT",
    "REJECTION_DETAILS",
    "ITERATION_END",
    "FINAL_SUMMARY",
)
EXECUTORS = ("auto", "anthropic", "claude", "codex", "gemini", "acp", "scripted", "replay")
STATUSES = ("QUEUED", "RUNNING", "AWAITING_RESPONSE", "UNFINISHED", "COMPLETE", "INCOMPLETE", "ERROR", "CANCELLED")
THEMES = ("auto", "dark", "light", "high-contrast", "mono")
CRITERIA = ("Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q9")
_FIXED = {"event": EVENTS, "executor": EXECUTORS, "status": STATUSES, "theme": THEMES, "criterion": CRITERIA}
_MOST = 200


def sources_for(context: Context, surface: str) -> Sources:
    """Look-ups in the project of `context`; one that fails offers nothing."""

    def look_up(kind: str, prefix: str) -> list[Candidate]:
        if kind in _FIXED:
            return [Candidate(name) for name in _FIXED[kind]]
        try:
            if kind == "task":
                return _tasks(context)
            if kind in {"file", "folder"}:
                return _files(context, prefix, folders_only=kind == "folder")
        except (PmError, OSError):
            return []
        if kind == "command":
            return [Candidate(command.name, command.summary) for command in commands_for(surface)]
        if kind == "config-key":
            from runner.settings.declared import SETTINGS

            return [Candidate(setting.key, setting.help) for setting in SETTINGS]
        return []

    return look_up


def _tasks(context: Context) -> list[Candidate]:
    from tracer.catalog import list_tasks

    rows = list_tasks(context.state_dir, limit=_MOST)
    return [Candidate(row.task_id, f"{row.status} {row.title}".strip()) for row in rows]


def _files(context: Context, prefix: str, *, folders_only: bool) -> list[Candidate]:
    parent, _, start = prefix.rpartition("/")
    folder = os.path.join(context.folder, os.path.expanduser(parent or ("/" if prefix.startswith("/") else "")))  # noqa: PTH118, PTH111
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(start) and (start.startswith(".") or not entry.name.startswith(".")):
                if entry.is_dir():
                    found.append(f"{entry.name}/")
                elif not folders_only:
                    found.append(entry.name)
    return [
        Candidate(f"{parent}/{name}" if parent or prefix.startswith("/") else name) for name in sorted(found)[:_MOST]
    ]
