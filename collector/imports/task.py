"""A finished task as a captured session: request, answers, edits, verdicts and tests, in the same schema.

Edits are replayed from the tree that the task began with, so that they carry true hashes. A task that was split into
subtasks worked in several trees at once: of it the whole change is taken, at its end. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from collector.final.replay import Content
from collector.imports.draft import NO_COMMIT, FileStates, Imported, SessionDraft, stable_uuid
from collector.patches import PatchError, parse_patch
from tracer.errors import ConflictError
from tracer.events import Entry

_EXITED: Final = re.compile(r"\bexited (-?\d{1,9})\b")
_TITLE: Final = 200
_SHELLS: Final = frozenset(
    {"Bash", "shell", "exec", "exec_command", "local_shell", "run_shell_command", "shell_command"}
)
_READERS: Final = frozenset({"Read", "read_file", "read_many_files", "view_image"})
_CHECKS: Final = {"Q7": "test", "Q8": "lint", "Q9": "typecheck"}


def imported_task(
    entries: Sequence[Entry],
    *,
    consent: dict[str, bool],
    read_blob: Callable[[str], bytes | None],
    base: Callable[[str], Content],
    base_commit: str | None = None,
    bundle: bytes | None = None,
    read_agentic: Callable[[str], Sequence[dict[str, Any]]] = lambda _path: (),
) -> Imported:
    """The task whose trace is `entries`.

    `read_blob` answers blobs by id, `base` the content of a path before the task began; `base_commit` is a commit of
    that tree and `bundle` holds it. `read_agentic` answers the lines of a distilled session by the name in the trace.
    """
    first, last = entries[0], entries[-1]
    if last.event != "FINAL_SUMMARY":
        raise ConflictError(
            f"{first.task_id} has not ended", why="a captured session is a finished one", next_step="pm resume"
        )
    trace_id = stable_uuid("task", first.session_id, first.task_id, first.timestamp)
    whole = any(entry.subtask_id for entry in entries)
    fold = _Fold(trace_id, first, read_blob, base, read_agentic, whole=whole)
    for entry in entries:
        fold.take(entry)
    diff = fold.text(last.data.get("diff_blob"))
    pr = {"title": _title(first), "description": f"{last.data['status']}: {last.data.get('reason') or ''}".rstrip(": ")}
    return Imported(
        trace_id=trace_id,
        create=_create(trace_id, first, consent=consent, base_commit=base_commit),
        events=fold.draft.events,
        final_state={"commit_head": None, "pr": {**pr, **({"diff": diff} if diff else {})}},
        bundle=bundle if consent.get("store_raw_code") else None,
        notes=tuple(fold.notes),
    )


def _create(trace_id: str, first: Entry, *, consent: dict[str, bool], base_commit: str | None) -> dict[str, Any]:
    executor = first.data.get("executor") or {}
    workspace = str(first.data.get("workspace") or "")
    return {
        "trace_id": trace_id,
        "repo": {
            "repo_id": workspace.rstrip("/").rsplit("/", 1)[-1] or "unknown",
            "commit_base": base_commit or NO_COMMIT,
        },
        "task": {
            "task_id": first.task_id,
            "bug_report": {"title": _title(first), "description": str(first.data["prompt"])},
            "labels": ["pm-task", str(first.data.get("kind") or "auto")],
        },
        "developer": {
            "developer_id": f"agent:{executor.get('name') or 'unknown'}",
            "experience_level": "unknown",
            "consent_flags": consent,
        },
        "environment": {"language": []},
        "ingestion": {"mode": "batch", "client_session_id": first.session_id or "unknown"},
    }


def _title(first: Entry) -> str:
    text = str(first.data.get("title") or first.data["prompt"])
    return text.strip().split("\n", 1)[0][:_TITLE] or "task"


class _Fold:
    """Entries in file order become events."""

    def __init__(
        self,
        trace_id: str,
        first: Entry,
        read_blob: Callable[[str], bytes | None],
        base: Callable[[str], Content],
        read_agentic: Callable[[str], Sequence[dict[str, Any]]],
        *,
        whole: bool,
    ) -> None:
        workspace = first.data.get("workspace")
        self.draft = SessionDraft(trace_id, root=workspace if isinstance(workspace, str) else None)
        self.notes: list[str] = []
        self._read = read_blob
        self._files = FileStates(base)
        self._whole = whole
        self._agent = str((first.data.get("executor") or {}).get("name") or "agent")
        self._commands = {**((first.data.get("checks") or {}).get("configured") or {})}
        self._commands |= (first.data.get("checks") or {}).get("given") or {}
        self._answer = ""
        self._read_agentic = read_agentic
        self._told: dict[str, int] = {}

    def take(self, entry: Entry) -> None:
        """One fact."""
        at, data = _ms(entry.timestamp), entry.data
        match entry.event:
            case "USER_REQUEST" if data.get("action"):
                text = f"{data['action']}: {data['prompt']}".rstrip(": ")
                self.draft.think("decision", text, ts_ms=at, actor_id="person", human=True)
            case "CHUNKING_PLAN":
                steps = "\n".join(f"{each.get('id')}: {each.get('description')}" for each in data["subtasks"])
                self.draft.think("plan", steps, ts_ms=at, actor_id=self._agent)
            case "LLM_RESPONSE":
                self._response(entry, at)
            case "QUALITY_JUDGMENT":
                self._judgment(data, at)
            case "REJECTION_DETAILS":
                self.draft.think("plan", data["modification_prompt"], ts_ms=at, actor_id="pm")
            case "FINAL_SUMMARY" if self._whole:
                self._edits(data.get("diff_blob"), at)

    def _response(self, entry: Entry, at: int) -> None:
        data = entry.data
        told = {"status": data["status"], "iteration_index": entry.iteration_index, "subtask_id": entry.subtask_id}
        extra = {key: value for key, value in told.items() if value is not None}
        self._session(data.get("agentic_trace"), at)
        self._answer = self.draft.think("interpretation", data["output"], ts_ms=at, actor_id=self._agent, **extra)
        if data.get("error"):
            error = data["error"]
            message = error.get("message") if isinstance(error, dict) else error
            self.draft.add("error", {"message": str(message), "source": self._agent}, ts_ms=at)
        if not self._whole:
            self._edits(data.get("diff_blob"), at)

    def _session(self, name: Any, until: int) -> None:
        """What the agent thought, ran and read on the way to its answer; its edits stand in the answer's diff."""
        if not isinstance(name, str):
            return
        since = self._told.get(name, -1)
        for line in self._read_agentic(name):
            at = _ms(f"{line.get('ts')}Z")
            if line.get("type") == "meta" or not since < at <= until:
                continue
            self._told[name] = max(self._told.get(name, -1), at)
            text = str(line.get("text") or "")
            if line["type"] == "thought":
                self.draft.think("hypothesis", text, ts_ms=at, actor_id=self._agent)
            elif line["type"] == "error":
                self.draft.add("error", {"message": text[:10_000], "source": self._agent}, ts_ms=at)
            elif line["type"] == "tool":
                self._tool(line, at)

    def _tool(self, line: dict[str, Any], at: int) -> None:
        """A command with the end of its output, or a look at a file. The distilled session holds no more."""
        told = {"tool": line.get("name"), "status": line.get("status")}
        if line.get("name") in _SHELLS:
            payload = {"cwd": self.draft.root or "", "command": str(line.get("args_summary")), "shell": "bash", **told}
            parent = self.draft.add("terminal_command", payload, ts_ms=at, actor_id=self._agent)
            tail = line.get("output_tail")
            if tail:
                output = {"stream": "stdout", "chunk": str(tail), "is_truncated": True}
                self.draft.add("terminal_output", output, ts_ms=at, actor_id=self._agent, parent=parent)
        elif line.get("name") in _READERS and isinstance(line.get("path"), str) and ".." not in line["path"]:
            payload = {"kind": "open", "file_path": line["path"], **told}
            self.draft.add("navigation", payload, ts_ms=at, actor_id=self._agent)

    def _edits(self, blob_id: Any, at: int) -> None:
        diff = self._read(blob_id) if isinstance(blob_id, str) else None
        if not diff:
            if blob_id:
                self.notes.append("a diff of the task is not stored here any more")
            return
        try:
            files = parse_patch(diff)
        except PatchError as error:
            self.notes.append(f"a diff of the task cannot be read: {error.what}")
            return
        for file in files:
            path = file.path.decode("utf-8", "backslashreplace")
            if path.encode() != file.path:
                self.notes.append(f"left out: {path!r}: its name is no text")
                continue
            if file.binary or (not file.hunks and not (file.creates or file.deletes)):
                self.notes.append(f"left out: {path!r}: {'binary' if file.binary else 'only its mode changed'}")
                continue
            payload = self._files.patched(path, file)
            if self._answer:
                payload["reason_ref"] = self._answer
            self.draft.add("file_edit", payload, ts_ms=at, actor_id=self._agent)

    def _judgment(self, data: dict[str, Any], at: int) -> None:
        for result in data["criteria_results"]:
            check = _CHECKS.get(str(result.get("id")))
            command = self._commands.get(check) if check == "test" else None
            if command is not None and result.get("outcome") != "not_verified":
                self._test(str(command), result, data, at)
        if data["judgment"] != "PASS":
            message = f"{data['judgment']}: {data.get('summary') or ''}".rstrip(": ")
            self.draft.add("error", {"message": message, "source": "judge"}, ts_ms=at, actor_id="pm")

    def _test(self, command: str, result: dict[str, Any], data: dict[str, Any], at: int) -> None:
        """Q7 as a test run. The record tells pass or fail and how long all checks took, not the run's own time."""
        passed = bool(result.get("passed"))
        reason = str(result.get("reason") or "")
        exited = _EXITED.search(reason)
        payload = {
            "command": command,
            "runner": _runner(command),
            "exit_code": 0 if passed else int(exited[1]) if exited else 1,
            "duration_ms": int(data.get("duration_ms") or 0),
            "passed": passed,
            "duration_of": "all checks",
        }
        if reason:
            payload["report"] = reason
        self.draft.add("test_run", payload, ts_ms=at, actor_id="pm")

    def text(self, blob_id: Any) -> str:
        """A blob as text; empty where it is not here."""
        data = self._read(blob_id) if isinstance(blob_id, str) else None
        return "" if data is None else data.decode("utf-8", "replace")


def _runner(command: str) -> str:
    known = (("pytest", "pytest"), ("go test", "go test"), ("npm test", "npm test"), ("make test", "make test"))
    return next((runner for sign, runner in known if sign in command), "custom")


def _ms(timestamp: str) -> int:
    return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
