"""A coding agent's native session as a captured session: thoughts, commands, edits, searches. Pure.

Edit tools' arguments (replacements, whole files, Codex's patch language) become edits of files. The agent's request is
the bug report. Tools without an event in the schema are counted and left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from collector.final.replay import UNKNOWN
from collector.imports.draft import NO_COMMIT, FileStates, Imported, SessionDraft, edit_payload, stable_uuid
from collector.imports.session_reader import Item, ReadSession
from collector.patches import make_patch
from collector.recorder.command_lines import read_line
from collector.recorder.screen_text import test_run
from tracer.capture.fields import is_git_folder
from tracer.distill.native import PROVIDER_NAMES, NativeSession
from tracer.redaction.cuts import beginning

_PATHS: Final = ("file_path", "filePath", "path", "absolute_path", "notebook_path")
_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"


class Change(NamedTuple):
    """One file's change: `content` is the whole new file, `pieces` are (old, new, everywhere); else it `removes` it."""

    path: str
    content: str | None = None
    pieces: tuple[tuple[str, str, bool], ...] = ()
    removes: bool = False
    moved_to: str | None = None


def changes_of(arguments: Any) -> list[Change]:
    """The changes that a call with these arguments asks for; empty where it is no edit that can be told."""
    if isinstance(arguments, str):
        return _codex(arguments) if _BEGIN in arguments else []
    if not isinstance(arguments, Mapping):
        return []
    for value in (arguments.get("input"), arguments.get("patch"), arguments.get("command"), arguments.get("cmd")):
        text = value[-1] if isinstance(value, list) and value else value
        if isinstance(text, str) and _BEGIN in text:
            return _codex(text)
    path = _first(arguments, _PATHS)
    if path is None:
        return []
    content = arguments.get("content", arguments.get("file_text"))
    if isinstance(content, str):
        return [Change(path, content=content)]
    edits = arguments.get("edits")
    asked: list[Any] = edits if isinstance(edits, list) else [arguments]
    told = [
        (each.get("old_string", each.get("old_str")), each.get("new_string", each.get("new_str")), each)
        for each in asked
        if isinstance(each, Mapping)
    ]
    pieces = tuple(
        (old, new, each.get("replace_all") is True)
        for old, new, each in told
        if isinstance(old, str) and isinstance(new, str)
    )
    return [Change(path, pieces=pieces)] if pieces else []


def _first(arguments: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of these arguments that is a text."""
    return next((arguments[name] for name in names if isinstance(arguments.get(name), str)), None)


def payload_of(path: str, change: Change, files: FileStates) -> dict[str, Any]:
    """The payload of the edit of `path` (relative), with hashes where the contents are known."""
    before = files.content(path)
    if change.removes:
        if isinstance(before, bytes):
            return files.written(path, None)
        files.set(path, None)
        head = f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n"
        return {**edit_payload(path, head.encode()), "content_before": "unknown"}
    if change.content is not None:
        return files.written(path, change.content.encode("utf-8", "replace"))
    if isinstance(before, bytes):
        after = _replaced(before.decode("utf-8", "replace"), change.pieces)
        if after is not None:
            return files.written(path, after.encode())
    elif before is None and change.pieces[0][0] == "":
        return files.written(path, change.pieces[0][1].encode("utf-8", "replace"))
    files.set(path, UNKNOWN)
    old = "\n".join(piece[0] for piece in change.pieces)
    new = "\n".join(piece[1] for piece in change.pieces)
    patch = make_patch(path, old.encode("utf-8", "replace"), new.encode("utf-8", "replace"))
    return {**edit_payload(path, patch), "line_numbers": "unknown"}


def _replaced(text: str, pieces: tuple[tuple[str, str, bool], ...]) -> str | None:
    """`text` with the replacements made; None where one of them does not occur."""
    for old, new, everywhere in pieces:
        if old == "" or old not in text:
            return None
        text = text.replace(old, new) if everywhere else text.replace(old, new, 1)
    return text


def _codex(text: str) -> list[Change]:
    """Codex's patch language: `*** Add File`, `*** Update File` with hunks, `*** Delete File`."""
    body = text.partition(_BEGIN)[2].partition(_END)[0]
    changes: list[Change] = []
    path, kind, moved = "", "", None
    lines: list[str] = []

    def close() -> None:
        if kind == "Add File":
            changes.append(Change(path, content="".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))))
        elif kind == "Delete File":
            changes.append(Change(path, removes=True))
        elif kind == "Update File" and (pieces := _hunks(lines)):
            changes.append(Change(path, pieces=pieces, moved_to=moved))

    for line in body.split("\n"):
        head, mark, name = line.partition(": ")
        word = head.removeprefix("*** ")
        if mark and head.startswith("*** ") and word in {"Add File", "Update File", "Delete File"}:
            close()
            path, kind, moved, lines = name.strip(), word, None, []
        elif mark and head == "*** Move to":
            moved = name.strip()
        else:
            lines.append(line)
    close()
    return changes


def _hunks(lines: list[str]) -> tuple[tuple[str, str, bool], ...]:
    pieces: list[tuple[str, str, bool]] = []
    old: list[str] = []
    new: list[str] = []
    for line in [*lines, "@@"]:
        if line.startswith("@@"):
            if old != new:
                pieces.append(("".join(f"{each}\n" for each in old), "".join(f"{each}\n" for each in new), False))
            old, new = [], []
        elif line.startswith("***"):
            continue
        else:
            if not line.startswith("+"):
                old.append(line[1:])
            if not line.startswith("-"):
                new.append(line[1:])
    return tuple(pieces)


_TITLE: Final = 200
_FROM_SESSION_PATHS: Final = ("file_path", "filePath", "path", "absolute_path", "dir_path", "notebook_path")
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
                "bug_report": {
                    "title": beginning(asked.strip().split("\n", 1)[0], _TITLE) or "session",
                    "description": asked,
                },
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
        self._files = FileStates(lambda _path: UNKNOWN)
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
        elif item.operation in _READS or _first(arguments, (*_QUERIES, *_FROM_SESSION_PATHS)) is not None:
            if item.failed:  # in every export it would be done
                self.left_out[f"{item.name} that failed"] += 1
            else:
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
        path, query = _first(arguments, _FROM_SESSION_PATHS), _first(arguments, _QUERIES)
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
        return None if not parts or ".." in parts or any(map(is_git_folder, parts)) else "/".join(parts)
