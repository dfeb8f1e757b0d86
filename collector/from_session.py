"""An agent's own session as a captured session: thoughts, commands with their output, edits, searches. Pure.

What the agent was asked is the bug report. Tools that the schema has no event for are counted and left out. Nobody
recorded the base commit, so the first edit of a file that was there before has no hash; later ones have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from collector.imported import NO_COMMIT, FileStates, Imported, SessionDraft, Unknown, stable_uuid
from collector.recorder.recognise import read_line
from collector.recorder.test_runs import test_run
from collector.session_edits import changes_of, payload_of
from collector.session_reading import Item, ReadSession
from tracer.distill.model import PROVIDER_NAMES, NativeSession

__all__ = ["imported_session"]

_TITLE: Final = 200
_PATHS: Final = ("file_path", "filePath", "path", "absolute_path", "dir_path", "notebook_path")
_QUERIES: Final = ("pattern", "query", "regex", "glob")
_READS: Final = frozenset({"read", "list"})


def imported_session(session: NativeSession, read: ReadSession, *, consent: dict[str, bool]) -> Imported:
    """The session of which `read` is everything."""
    trace_id = stable_uuid("session", session.provider, session.session_id)
    prompts = [item for item in read.items if item.kind == "prompt"]
    asked = prompts[0].text if prompts else "(the session does not hold what was asked)"
    fold = _Fold(trace_id, session, first=prompts[0] if prompts else None)
    for item in read.items:
        fold.take(item)
    notes = [f"left out: {count} x {name}" for name, count in sorted(fold.left_out.items())]
    if read.left_out:
        notes.append(f"left out: {read.left_out} records beyond the size limit")
    project = (session.cwd or "").rstrip("/").rsplit("/", 1)[-1]
    return Imported(
        trace_id=trace_id,
        create={
            "trace_id": trace_id,
            "repo": {"repo_id": project or "unknown", "commit_base": NO_COMMIT},
            "task": {
                "task_id": None,
                "bug_report": {"title": asked.strip().split("\n", 1)[0][:_TITLE] or "session", "description": asked},
                "labels": ["agent-session", session.provider],
            },
            "developer": {
                "developer_id": f"agent:{PROVIDER_NAMES[session.provider]}",
                "experience_level": "unknown",
                "consent_flags": consent,
            },
            "environment": {"ide": {"name": f"{session.provider} cli", "version": read.cli_version}, "language": []},
            "ingestion": {"mode": "batch", "client_session_id": session.session_id},
        },
        events=fold.draft.events,
        notes=tuple(notes),
    )


class _Fold:
    """Items in file order become events."""

    def __init__(self, trace_id: str, session: NativeSession, *, first: Item | None) -> None:
        self.draft = SessionDraft(trace_id, root=session.cwd)
        self.left_out: Counter[str] = Counter()
        self._root = PurePosixPath(session.cwd) if session.cwd else None
        self._first = first
        self._files = FileStates(lambda _path: Unknown())
        self._who = f"agent:{PROVIDER_NAMES[session.provider]}"
        self._thought = ""

    def take(self, item: Item) -> None:
        """One item."""
        who = f"{self._who}/{item.agent}" if item.agent else self._who
        match item.kind:
            case "prompt":
                if item is not self._first:
                    self.draft.think("decision", item.text, ts_ms=item.at_ms, actor_id="person", human=True)
            case "thought":
                self._thought = self.draft.think("hypothesis", item.text, ts_ms=item.at_ms, actor_id=who)
            case "message":
                self._thought = self.draft.think("interpretation", item.text, ts_ms=item.at_ms, actor_id=who)
            case "error":
                self.draft.add("error", {"message": item.text[:10_000], "source": who}, ts_ms=item.at_ms, actor_id=who)
            case "call":
                self._call(item, who)

    def _call(self, item: Item, who: str) -> None:
        if item.content is not None and (shown := self._relative(item.path)) is not None:
            self._files.seen(shown, item.content)
        changes = changes_of(item.arguments) if item.operation != "read" else []
        arguments = item.arguments if isinstance(item.arguments, Mapping) else {}
        if changes:
            for change in changes if not item.failed else ():
                self._edit(change, item, who)
            if item.failed:
                self.left_out[f"{item.name} that failed"] += 1
        elif item.operation == "shell" or "command" in arguments or "cmd" in arguments:
            self._command(item, arguments, who)
        elif item.operation in _READS or any(isinstance(arguments.get(key), str) for key in (*_QUERIES, *_PATHS)):
            self._look(item, arguments, who)
        else:
            self.left_out[item.name] += 1

    def _edit(self, change: Any, item: Item, who: str) -> None:
        path = self._relative(change.path)
        if path is None:
            self.left_out[f"{item.name} outside the project"] += 1
            return
        payload = payload_of(path, change, self._files)
        if not payload["patch"]:
            return  # it wrote what was there
        if self._thought:
            payload["reason_ref"] = self._thought
        self.draft.add("file_edit", payload, ts_ms=item.at_ms, actor_id=who)
        moved = self._relative(change.moved_to) if change.moved_to else None
        if moved is not None:
            content = self._files.content(path)
            if isinstance(content, bytes):
                for name, after in ((moved, content), (path, None)):
                    self.draft.add("file_edit", self._files.written(name, after), ts_ms=item.at_ms, actor_id=who)

    def _command(self, item: Item, arguments: Mapping[str, Any], who: str) -> None:
        command = arguments.get("command") or arguments.get("cmd") or item.arguments
        if isinstance(command, list):
            command = command[-1] if len(command) == 3 else " ".join(str(word) for word in command)
        cwd = arguments.get("workdir") or arguments.get("cwd") or (str(self._root) if self._root else "")
        payload = {"cwd": str(cwd), "command": str(command), "shell": "bash"}
        parent = self.draft.add("terminal_command", payload, ts_ms=item.at_ms, actor_id=who)
        ended = item.ended_ms if item.ended_ms is not None else item.at_ms
        if item.output:
            output = {"stream": "stdout", "chunk": item.output, "is_truncated": False}
            self.draft.add("terminal_output", output, ts_ms=ended, actor_id=who, parent=parent)
        self._test(str(command), item, who, parent=parent, ended=ended)

    def _test(self, command: str, item: Item, who: str, *, parent: str, ended: int) -> None:
        test = read_line(command).test
        if test is None or item.output is None:
            return
        status = 1 if item.failed else 0
        told = test_run(test, status=status, pipe=(), printed=item.output, took=(item.at_ms, ended))
        if told is not None:
            payload = {"command": command, **told, "exit_code_from": "whether the tool call failed"}
            self.draft.add("test_run", payload, ts_ms=item.at_ms, actor_id=who, parent=parent)

    def _look(self, item: Item, arguments: Mapping[str, Any], who: str) -> None:
        path = next((arguments[key] for key in _PATHS if isinstance(arguments.get(key), str)), None)
        query = next((arguments[key] for key in _QUERIES if isinstance(arguments.get(key), str)), None)
        line = next((arguments[key] for key in ("offset", "start_line") if type(arguments.get(key)) is int), None)
        shown = None if path is None else self._relative(path) or path
        if shown is not None and ".." in shown.split("/"):
            shown = None
        payload = {
            "kind": "open" if query is None else "search",
            "file_path": shown or None,
            "line": line if line is not None and line >= 0 else None,
            "query": query,
            "tool": item.name,
        }
        self.draft.add("navigation", payload, ts_ms=item.at_ms, actor_id=who)

    def _relative(self, path: str) -> str | None:
        """`path` from the project's folder, with slashes; None outside it."""
        pure = PurePosixPath(path.replace("\\", "/"))
        if pure.is_absolute():
            if self._root is None or not pure.is_relative_to(self._root):
                return None
            pure = pure.relative_to(self._root)
        parts = [part for part in pure.parts if part != "."]
        return None if not parts or ".." in parts or any(part.lower() == ".git" for part in parts) else "/".join(parts)
