"""An agentic trace as values that questions can be asked of: its meta line and its steps, in file order.

Reading is total and bounded: a line that is no object, is too long or has another shape counts as damaged.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from tracer.clock import epoch_ms
from tracer.errors import NotFoundError
from tracer.facts import Entry, FinalSummary, LlmResponse, QualityJudgment, SessionInterrupted, fact_in

Phase = Literal["think", "read", "edit", "run", "test", "plan", "other"]

_NAMED: Final[tuple[Phase, ...]] = ("run", "plan", "read", "edit")
_TOOLS: Final = tomllib.loads((Path(__file__).parent / "agent_tools.toml").read_text(encoding="utf-8"))
_PHASES: Final[dict[str, Phase]] = {name: phase for phase in _NAMED for name in _TOOLS[phase]}


@dataclass(frozen=True, slots=True)
class Step:
    """One line after the meta line. `seconds` counts from 1970, None where the line has no time; `line` from 1.

    `offset` is where a read was asked to begin, 0 for the beginning.
    """

    line: int
    kind: str
    seconds: int | None = None
    name: str = ""
    args: str = ""
    status: str = ""
    output: str = ""
    text: str = ""
    path: str = ""
    sha256: str = ""
    duration_ms: int | None = None
    agent: str | None = None
    offset: int = 0

    @property
    def failed(self) -> bool:
        """Whether this is a tool call that went wrong."""
        return self.kind == "tool" and self.status == "error"

    @property
    def phase(self) -> Phase:
        """What the step is for."""
        return phase_of(self.name, self.args) if self.kind == "tool" else "think"


@dataclass(frozen=True, slots=True)
class Trace:
    """One agentic trace. `name` is its file name; `damaged` counts lines that could not be read."""

    name: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    damaged: int = 0

    @property
    def success(self) -> bool | None:
        """How the run ended; None is not told."""
        told = self.meta.get("success")
        return told if isinstance(told, bool) else None

    @property
    def thoughts(self) -> int | None:
        """How many thoughts were recorded; None where no record of the agent's session tells."""
        unknown = "thoughts" in self.meta and self.meta["thoughts"] is None
        return None if unknown else sum(step.kind == "thought" for step in self.steps)

    def number(self, *path: str) -> float | None:
        """A number of the meta line, such as `number("tokens", "output")`; None where it is not told."""
        value: Any = self.meta
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None


_DONE: Final = {
    "terminal_command": "command",
    "file_edit": "file_path",
    "test_run": "command",
    "debug_action": "action",
}


def trace_of_capture(name: str, events: Iterable[Mapping[str, Any]]) -> Trace:
    """A captured session as one run: what was done counts as tool calls; its last tests say whether it succeeded."""
    steps: list[Step] = []
    times: list[int] = []
    success: bool | None = None
    for number, event in enumerate(events, 1):
        kind, given = str(event.get("type")), event.get("payload")
        payload: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        if isinstance(at := event.get("ts_ms"), int):
            times.append(at)
        if kind in {"thought", "error"}:
            steps.append(Step(number, kind, text=_text(payload, "content")))
        elif kind in _DONE:
            failed = kind == "test_run" and payload.get("passed") is False
            args, status = _text(payload, _DONE[kind]), "error" if failed else "ok"
            steps.append(Step(number, "tool", name=kind, args=args, status=status))
        if kind == "test_run" and isinstance(payload.get("passed"), bool):
            success = payload["passed"]
    return Trace(
        name, {"success": success, "duration_sec": (max(times) - min(times)) / 1000 if times else None}, tuple(steps)
    )


def phase_of(tool: str, args: str) -> Phase:
    """The phase a call of `tool` belongs to, by the names the three command lines use."""
    phase = _PHASES.get(tool.lower(), "other")
    return "test" if phase == "run" and any(word in args for word in _TOOLS["test"]) else phase


def parse_trace(name: str, lines: Iterable[bytes]) -> Trace:
    """The trace in `lines` (JSON Lines, the meta line first)."""
    meta: Mapping[str, Any] = {}
    steps: list[Step] = []
    damaged = 0
    for number, line in enumerate(lines, 1):
        record = _object(line)
        if record is None:
            damaged += bool(line.strip())
        elif record.get("type") == "meta":
            meta = meta or record
        else:
            steps.append(_step(number, record))
    return Trace(name, meta, tuple(steps), damaged)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("type"), str) else None


def _step(line: int, record: Mapping[str, Any]) -> Step:
    duration, offset = record.get("duration_ms"), record.get("offset")
    return Step(
        line=line,
        kind=record["type"],
        seconds=_seconds(record.get("ts")),
        name=_text(record, "name"),
        args=_text(record, "args_summary"),
        status=_text(record, "status"),
        output="\n".join(part for part in (_text(record, "diagnostics"), _text(record, "output_tail")) if part),
        text=_text(record, "text"),
        path=_text(record, "path"),
        sha256=_text(record, "sha256"),
        duration_ms=duration if isinstance(duration, int) and not isinstance(duration, bool) else None,
        agent=_text(record, "agent") or None,
        offset=offset if isinstance(offset, int) else 0,
    )


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if isinstance(value, list):
        return "\n".join(item for item in value if isinstance(item, str))
    return value if isinstance(value, str) else ""


def _seconds(stamp: object) -> int | None:
    moment = epoch_ms(str(stamp))
    return None if moment is None else moment // 1000


def task_run(task_id: str, entries: Sequence[Entry], *, project: Path) -> Trace:
    """A task of pm's as one run, from its record and the agentic traces that it names, below `project`."""
    answers = [one for one in entries if isinstance(one, LlmResponse)]
    final = next((one for one in entries if isinstance(one, FinalSummary)), None)
    used = [one.usage for one in answers if one.usage is not None]
    costs = [one.cost_usd for one in answers]
    meta: dict[str, Any] = {
        "success": None if final is None else final.status == "COMPLETE",
        "duration_sec": (sum(one.duration_ms or 0 for one in answers) if final is None else final.duration_ms or 0)
        / 1000,
        "cost_usd": sum(filter(None, costs)) if costs and None not in costs else None,
        "tokens": {
            "input": sum(one.input_tokens or 0 for one in used) if used else None,
            "output": sum(one.output_tokens or 0 for one in used) if used else None,
        },
    }
    read = steps_below(project)
    named = dict.fromkeys(one.agentic_trace for one in entries if isinstance(one, LlmResponse | SessionInterrupted))
    sessions = {path: read(path) for path in named if path}
    calls = [call for one in answers if not sessions.get(one.agentic_trace or "") for call in one.tool_calls]
    steps = [
        Step(number, "tool", name=call.name, args=call.summary, status="error" if call.ok is False else "ok")
        for number, call in enumerate(calls, 1)
    ]
    if not any(sessions.values()):
        meta["thoughts"] = None
    return Trace(task_id, meta, (*steps, *(step for each in sessions.values() for step in each)))


_LONGEST_LINE = 16 << 20
_JUDGMENT = b'"QUALITY_JUDGMENT"'


def read_agentic(path: Path) -> Trace:
    """The agentic trace at `path`, or that had this name; lines over 16 MB count as damaged. Raises `NotFoundError`."""
    if not path.exists():
        from tracer.distill.stored import stored_at  # 20 ms, only where another label has renamed it

        path = stored_at(path)
    try:
        with path.open("rb") as file:
            return parse_trace(path.name, _lines(file))
    except OSError as error:
        raise NotFoundError(
            f"{path} cannot be read", why=str(error), next_step="pm sessions find lists those there are"
        ) from error


def steps_below(project: Path) -> Callable[[str], tuple[Step, ...]]:
    """Reads the steps of a session by the path that a task's trace names; none where there is no such file."""

    def steps(path: str) -> tuple[Step, ...]:
        try:
            return read_agentic(project / path).steps
        except NotFoundError:
            return ()

    return steps


def judgments(paths: Iterable[Path], *, since: str | None = None) -> Iterator[QualityJudgment]:
    """Every QUALITY_JUDGMENT in conversation traces, file by file; from `since` (ISO time) on.

    A file that vanishes or cannot be read is passed over: it tells nothing.
    """
    for path in paths:
        try:
            with path.open("rb") as file:
                for line in _lines(file):
                    fact = fact_in(line) if _JUDGMENT in line else None
                    if isinstance(fact, QualityJudgment) and (since is None or fact.timestamp >= since):
                        yield fact
        except OSError:
            continue


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of `file`; of one that is too long only its beginning, which is then no whole JSON."""
    while line := file.readline(_LONGEST_LINE):
        yield line
        while len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            line = file.readline(_LONGEST_LINE)
