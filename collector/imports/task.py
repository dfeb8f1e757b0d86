"""A finished task as a captured session: request, answers, edits, verdicts and tests, in the same schema.

Edits are replayed from the tree that the task began with, so that they carry true hashes. A task that was split into
subtasks worked in several trees at once: of it the whole change is taken, at its end. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from collector.final.replay import Content
from collector.imports.draft import NO_COMMIT, FileStates, Imported, SessionDraft, stable_uuid
from collector.patches import PatchError, parse_patch
from tracer import facts
from tracer.clock import epoch_ms
from tracer.errors import ConflictError
from tracer.names import CHECKS
from tracer.redaction.cuts import beginning

_EXITED: Final = re.compile(r"\bexited (-?\d{1,9})\b")
_TITLE: Final = 200
_SHELLS: Final = frozenset(
    {"Bash", "shell", "exec", "exec_command", "local_shell", "run_shell_command", "shell_command"}
)
_READERS: Final = frozenset({"Read", "read_file", "read_many_files", "view_image"})


def imported_task(
    entries: Sequence[facts.Entry],
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
    if not isinstance(first, facts.UserRequest):
        raise ConflictError(f"{first.task_id} begins with {first.event}", next_step=f"pm trace verify {first.task_id}")
    if not isinstance(last, facts.FinalSummary):
        raise ConflictError(
            f"{first.task_id} has not ended", why="a captured session is a finished one", next_step="pm resume"
        )
    trace_id = stable_uuid("task", first.session_id, first.task_id, first.timestamp)
    whole = any(entry.subtask_id for entry in entries)
    fold = _Fold(trace_id, first, read_blob, base, read_agentic, whole=whole)
    for entry in entries:
        fold.take(entry)
    diff = fold.text(last.diff_blob)
    pr = {"title": _title(first), "description": f"{last.status}: {last.reason}".rstrip(": ")}
    return Imported(
        trace_id=trace_id,
        create=_create(trace_id, first, consent=consent, base_commit=base_commit),
        events=fold.draft.events,
        final_state={"commit_head": None, "pr": {**pr, **({"diff": diff} if diff else {})}},
        bundle=bundle if consent.get("store_raw_code") else None,
        notes=tuple(fold.notes),
    )


def _create(
    trace_id: str, first: facts.UserRequest, *, consent: dict[str, bool], base_commit: str | None
) -> dict[str, Any]:
    return {
        "trace_id": trace_id,
        "repo": {
            "repo_id": first.workspace.rstrip("/").rsplit("/", 1)[-1] or "unknown",
            "commit_base": base_commit or NO_COMMIT,
        },
        "task": {
            "task_id": first.task_id,
            "bug_report": {"title": _title(first), "description": first.prompt},
            "labels": ["pm-task", first.kind or "auto"],
        },
        "developer": {
            "developer_id": f"agent:{first.executor_name or 'unknown'}",
            "experience_level": "unknown",
            "consent_flags": consent,
        },
        "environment": {"language": []},
        "ingestion": {"mode": "batch", "client_session_id": first.session_id or "unknown"},
    }


def _title(first: facts.UserRequest) -> str:
    return beginning((first.title or first.prompt).strip().split("\n", 1)[0], _TITLE) or "task"


class _Fold:
    """Entries in file order become events."""

    def __init__(
        self,
        trace_id: str,
        first: facts.UserRequest,
        read_blob: Callable[[str], bytes | None],
        base: Callable[[str], Content],
        read_agentic: Callable[[str], Sequence[dict[str, Any]]],
        *,
        whole: bool,
    ) -> None:
        self.draft = SessionDraft(trace_id, root=first.workspace or None)
        self.notes: list[str] = []
        self._read = read_blob
        self._files = FileStates(base)
        self._whole = whole
        self._agent = first.executor_name or "agent"
        self._commands = {**first.checks.configured, **first.checks.given}
        self._answer = ""
        self._read_agentic = read_agentic
        self._told: dict[str, int] = {}

    def take(self, entry: facts.Entry) -> None:
        """One fact."""
        at = epoch_ms(entry.timestamp) or 0
        match entry:
            case facts.UserRequest() if entry.action:
                text = f"{entry.action}: {entry.prompt}".rstrip(": ")
                self.draft.think("decision", text, ts_ms=at, actor_id="person", human=True)
            case facts.ChunkingPlan():
                steps = "\n".join(f"{each.id}: {each.description}" for each in entry.subtasks)
                self.draft.think("plan", steps, ts_ms=at, actor_id=self._agent)
            case facts.LlmResponse():
                self._response(entry, at)
            case facts.QualityJudgment():
                self._judgment(entry, at)
            case facts.RejectionDetails():
                self.draft.think("plan", entry.modification_prompt, ts_ms=at, actor_id="pm")
            case facts.FinalSummary() if self._whole:
                self._edits(entry.diff_blob, at)

    def _response(self, entry: facts.LlmResponse, at: int) -> None:
        told: dict[str, Any] = {
            "status": entry.status,
            "iteration_index": entry.iteration_index,
            "subtask_id": entry.subtask_id,
        }
        extra = {key: value for key, value in told.items() if value is not None}
        self._session(entry.agentic_trace, at)
        self._answer = self.draft.think("interpretation", entry.output, ts_ms=at, actor_id=self._agent, **extra)
        if error := entry.error:
            self.draft.add("error", {"message": error.message, "source": self._agent}, ts_ms=at)
        if not self._whole:
            self._edits(entry.diff_blob, at)

    def _session(self, name: str | None, until: int) -> None:
        """What the agent thought, ran and read on the way to its answer; its edits stand in the answer's diff."""
        if name is None:
            return
        since = self._told.get(name, -1)
        for line in self._read_agentic(name):
            at = epoch_ms(str(line.get("ts"))) or 0
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

    def _edits(self, blob_id: str | None, at: int) -> None:
        diff = None if blob_id is None else self._read(blob_id)
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

    def _judgment(self, judged: facts.QualityJudgment, at: int) -> None:
        for result in judged.criteria_results:
            command = self._commands.get("test") if CHECKS.get(result.id) == "test" else None
            if command is not None and result.outcome != "not_verified":
                self._test(str(command), result, judged, at)
        if judged.failed:
            message = f"{judged.judgment}: {judged.summary}".rstrip(": ")
            self.draft.add("error", {"message": message, "source": "judge"}, ts_ms=at, actor_id="pm")

    def _test(self, command: str, result: facts.CriterionResult, judged: facts.QualityJudgment, at: int) -> None:
        """Q7 as a test run. The record tells pass or fail and how long all checks took, not the run's own time."""
        passed = result.passed is True
        exited = _EXITED.search(result.reason)
        payload = {
            "command": command,
            "runner": _runner(command),
            "exit_code": 0 if passed else int(exited[1]) if exited else 1,
            "duration_ms": judged.duration_ms or 0,
            "passed": passed,
            "duration_of": "all checks",
        }
        if result.reason:
            payload["report"] = result.reason
        self.draft.add("test_run", payload, ts_ms=at, actor_id="pm")

    def text(self, blob_id: str | None) -> str:
        """A blob as text; empty where it is not here."""
        data = None if blob_id is None else self._read(blob_id)
        return "" if data is None else data.decode("utf-8", "replace")


def _runner(command: str) -> str:
    known = (("pytest", "pytest"), ("go test", "go test"), ("npm test", "npm test"), ("make test", "make test"))
    return next((runner for sign, runner in known if sign in command), "custom")
