"""The catalogue's database: one row per trace, folded from its lines, resumable at any line.

A projection: it can be deleted at any time and comes back with equal rows; a damaged or foreign one is replaced;
where none can be written it lives in memory. `refresh` reads only what is new. Written for the start-up path: json
and sqlite3 alone. A line of the wrong shape counts as damaged.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from tracer import facts
from tracer.clock import now_epoch_ms
from tracer.errors import TraceError, told_as
from tracer.names import ACTIONS, PLAN_SUFFIX, REVIEW
from tracer.statedir import AS_ITS_OWNER, StateDir, parse_trace_name

_TITLE = 80


def _fold_fact(fold: dict[str, Any], fact: facts.Entry | None) -> None:
    """Add one line's event to `fold`, in place; None is a damaged line."""
    if fact is None:
        fold["damaged"] = fold.get("damaged", 0) + 1
        return
    if fact.timestamp:
        fold.setdefault("created_at", fact.timestamp)
        fold["updated_at"] = fact.timestamp
    fold["last"] = fact.event
    if handler := _HANDLERS.get(type(fact)):
        handler(fold, fact)


def _awaiting(fold: dict[str, Any]) -> bool:
    """Whether the task waits for a person.

    With a plan, with a result that does not merge, or at the limit (or undecided) where `on_limit` is `ask`.
    """
    if "final" not in fold and (fold.get("proposed") or (fold.get("conflict") and not fold.get("action"))):
        return True
    if fold.get("on_limit") not in {"ask", "questions"} or fold.get("action") or "final" in fold:
        return False
    allowed = fold.get("allowed", 3)
    loops = {name: loop for name, loop in fold.get("loops", {}).items() if not name.endswith(PLAN_SUFFIX)}
    return all(loop[0] for loop in loops.values()) and any(  # while a subtask is being answered, the task is at work
        ended and not retries and (undecided or counted >= allowed if not passed else undecided and not name)
        for name, (ended, passed, retries, counted, undecided) in loops.items()
    )


def _user_request(fold: dict[str, Any], fact: facts.UserRequest) -> None:
    if "title" in fold:
        action, more = fact.action, fact.max_iterations
        if fold.get("proposed"):
            fold["proposed"] = fact.changes_only_terms
            return
        if action in {"continue", "hint"} and fact.into is None:
            fold["allowed"] += more if more is not None and more > 0 else max(1, fold["limit"])
        if action in ACTIONS:
            fold["action"] = action
        return
    words = (fact.title or fact.prompt).strip()
    first_line = words.split("\n", 1)[0].strip()
    fold["title"] = first_line if len(first_line) <= _TITLE else first_line[: _TITLE - 1] + "…"
    fold["limit"] = fold["allowed"] = fact.limits.max_iterations
    fold["on_limit"] = fact.limits.on_limit
    fold["executor"], fold["model"] = fact.executor_name, fact.executor.model or ""
    if fact.continues is not None and (spent := fact.continues.spent).answers:
        fold["ended"], fold["worked"], fold["used"] = [*spent.judgments], spent.duration_ms, spent.usage.total or 0
        fold["cost"], fold["cost_known"] = spent.cost_usd or 0.0, spent.cost_usd is not None
        fold["before"] = len(spent.judgments), fold["cost"], fold["cost_known"]


def _loop(fold: dict[str, Any], fact: facts.Entry) -> list[Any]:
    loops = fold.setdefault("loops", {})
    loop: list[Any] = loops.setdefault(fact.subtask_id or "", [False, False, 0, 0, False])
    return loop


def _llm_request(fold: dict[str, Any], fact: facts.LlmRequest) -> None:
    if fact.purpose == REVIEW:
        return
    _loop(fold, fact)[0] = False
    fold["action"] = ""


def _chunking_plan(fold: dict[str, Any], fact: facts.ChunkingPlan) -> None:
    fold["proposed"] = fact.proposed


def _llm_response(fold: dict[str, Any], fact: facts.LlmResponse) -> None:
    cost = fact.cost_usd
    used = (fact.usage.total if fact.usage else None) or 0
    fold["tokens"] = [*fold.get("tokens", ()), used][-_ANSWERS:]
    fold["used"] = fold.get("used", 0) + used
    fold["worked"] = fold.get("worked", 0) + (fact.duration_ms or 0)
    _session(fold, fact)
    if cost is None and fact.unbilled:
        return
    fold["cost"] = fold.get("cost", 0.0) + (cost or 0.0)
    fold["cost_known"] = fold.get("cost_known", True) and cost is not None


def _session(fold: dict[str, Any], fact: facts.LlmResponse | facts.SessionStarted) -> None:
    if fact.session_ref and fact.session_ref not in fold.setdefault("sessions", []):
        fold["sessions"].append(fact.session_ref)


def _session_interrupted(fold: dict[str, Any], fact: facts.SessionInterrupted) -> None:
    fold["tokens"] = [*fold.get("tokens", ()), (fact.usage.total if fact.usage else None) or 0][-_ANSWERS:]
    fold["cost"] = fold.get("cost", 0.0) + (fact.cost_usd or 0.0)
    fold["cost_known"] = fold.get("cost_known", True) and fact.cost_usd is not None


def _quality_judgment(fold: dict[str, Any], fact: facts.QualityJudgment) -> None:
    fold.setdefault("judged", []).append(fact.judgment)
    if fact.spenders:
        spent = fact.spent_usd
        fold["cost"] = fold.get("cost", 0.0) + (spent or 0.0)
        fold["cost_known"] = fold.get("cost_known", True) and spent is not None
    if fact.conflict and fact.subtask_id is None:
        fold["conflict"], fold["action"] = True, ""
    else:
        _loop(fold, fact)[4] = fact.question is not None


def _iteration_end(fold: dict[str, Any], fact: facts.IterationEnd) -> None:
    judgment, loop = fact.judgment, _loop(fold, fact)
    if fact.subtask_id is None:
        fold["conflict"] = False
    fold.setdefault("ended", []).append(judgment)
    loop[0], loop[1] = True, judgment == "PASS"
    loop[2] = loop[2] + 1 if judgment == "RETRY" else 0
    loop[3] += judgment != "RETRY"


def _final_summary(fold: dict[str, Any], fact: facts.FinalSummary) -> None:
    fold["final"], fold["reason"], fold["verification"] = fact.status, fact.reason, fact.verification
    iterations, cost, known = fold.get("before", (0, 0.0, True))
    if fact.total_iterations is not None:
        fold["total"] = iterations + fact.total_iterations
    if fact.cost_usd is not None:
        fold["cost"], fold["cost_known"] = cost + fact.cost_usd, known


_HANDLERS: dict[type[facts.Entry], Callable[[dict[str, Any], Any], None]] = {
    facts.UserRequest: _user_request,
    facts.ChunkingPlan: _chunking_plan,
    facts.LlmRequest: _llm_request,
    facts.SessionStarted: _session,
    facts.SessionInterrupted: _session_interrupted,
    facts.LlmResponse: _llm_response,
    facts.QualityJudgment: _quality_judgment,
    facts.IterationEnd: _iteration_end,
    facts.FinalSummary: _final_summary,
}


SCHEMA_VERSION = 8
_ANSWERS = 32  # whose tokens a row shows
_SETTLED_NS = 2_000_000_000
MARK = 64


def open_catalog(state_dir: StateDir) -> sqlite3.Connection:
    """A connection to the project's catalogue, made or replaced where needed; in memory where none can be written.

    The caller closes it.
    """
    path = os.fspath(state_dir.catalog)
    for _ in range(2):
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(path, timeout=5.0, isolation_level=None)
            _prepare(connection, path)
        except sqlite3.OperationalError:  # read-only, no such folder, not ours
            if connection is not None:
                connection.close()
            break
        except sqlite3.DatabaseError:  # damaged: it is only a projection
            if connection is not None:
                connection.close()
            for suffix in ("", "-wal", "-shm", "-journal"):
                with contextlib.suppress(OSError):
                    os.unlink(path + suffix)
        else:
            return connection
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _prepare(connection, "")
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    version = connection.execute("pragma user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        connection.execute("pragma journal_mode = wal")
        connection.execute("begin immediate")
        if connection.execute("pragma user_version").fetchone()[0] != SCHEMA_VERSION:
            # Virtual tables first: they take tables of their own along.
            tables = "select name from sqlite_master where type = 'table' order by sql not like 'create virtual%'"
            for (name,) in connection.execute(tables).fetchall():
                connection.execute(f'drop table if exists "{name}"')
            for statement in Path(__file__).with_name("schema.sql").read_text(encoding="utf-8").split(";"):
                connection.execute(statement)
            connection.execute(f"pragma user_version = {SCHEMA_VERSION}")
        connection.execute("commit")
        if path:
            os.chmod(path, 0o600)
    connection.execute("pragma synchronous = off")  # rows can always be made again


def refresh(connection: sqlite3.Connection, state_dir: StateDir) -> int:
    """Bring the rows up to the files; the number of files that had to be read."""
    return sum(_refresh_source(connection, source, os.fspath(getattr(state_dir, source.folder))) for source in _SOURCES)


def _refresh_source(connection: sqlite3.Connection, source: _Source, folder: str) -> int:
    settled, table = _settled_time(folder), source.table
    positions = f"select name, size, mtime_ns from {table}"
    row = connection.execute("select mtime_ns from folders where name = ?", (folder,)).fetchone()
    if settled and row is not None and row[0] == settled:
        changed = _changed_files(folder, connection.execute(f"{positions} where {source.unfinished}"))
        gone: set[str] = set()
        if not changed:
            return 0
    else:
        known = {name: (size, mtime) for name, size, mtime in connection.execute(positions)}
        changed = _changed_in(folder, known)
        gone = set(known)  # what remains was not found
    read = 0
    try:
        connection.execute("begin immediate")
        connection.executemany(f"delete from {table} where name = ?", [(name,) for name in gone])
        for name, size, mtime in changed:
            earlier = connection.execute(f"select * from {table} where name = ?", (name,)).fetchone()
            row = source.make(folder, name, size, mtime, earlier)
            if row is not None:
                connection.execute(f"insert or replace into {table} values ({','.join('?' * source.columns)})", row)
                read += 1
        connection.execute("insert or replace into folders values (?, ?)", (folder, settled))
        connection.execute("commit")
    except sqlite3.OperationalError:  # another process refreshes, or the disk is full: the rows stay as they were
        if connection.in_transaction:
            connection.execute("rollback")
    return read


def _settled_time(folder: str) -> int:
    """The folder's modification time if no name can have changed since within its resolution, else 0.

    While it stands, no file came or went; and only files without FINAL_SUMMARY grow. That spares a look at each of
    ten thousand finished files (40 ms).
    """
    try:
        modified = os.stat(folder).st_mtime_ns
    except OSError:
        return 0
    return modified if now_epoch_ms() * 1_000_000 - modified > _SETTLED_NS else 0


def _changed_files(folder: str, known: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    changed = []
    for name, size, mtime in known:
        try:
            status = os.lstat(os.path.join(folder, name))
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and (status.st_size, status.st_mtime_ns) != (size, mtime):
            changed.append((name, status.st_size, status.st_mtime_ns))
    return changed


def _changed_in(folder: str, known: dict[str, tuple[int, int]]) -> list[tuple[str, int, int]]:
    """Files whose size or time differ from `known`; what was found is removed from it."""
    changed = []
    with (
        told_as(TraceError, f"cannot read {folder!r}", next_step=AS_ITS_OWNER),
        contextlib.suppress(FileNotFoundError),
        os.scandir(folder) as entries,
    ):
        for entry in entries:
            name = entry.name
            if not name.endswith(".jsonl") or name.startswith("."):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(status.st_mode):  # a pipe or a link that an agent put there
                continue
            if known.pop(name, None) != (status.st_size, status.st_mtime_ns):
                changed.append((name, status.st_size, status.st_mtime_ns))
    return sorted(changed)


def _trace_row(
    folder: str, name: str, size: int, mtime: int, earlier: tuple[Any, ...] | None
) -> tuple[Any, ...] | None:
    parts = parse_trace_name(name)
    if parts is None:
        return None
    fold: dict[str, Any] = {}
    seq = offset = 0
    if earlier is not None and earlier[-4] <= size and earlier[-2] != mtime:
        seq, offset, fold = earlier[-5], earlier[-4], json.loads(earlier[-1])
    try:
        with open(os.path.join(folder, name), "rb") as file:
            if offset and not continues(file, offset, fold):
                seq, offset, fold = 0, 0, {}
            file.seek(offset)
            last = b""
            for line in file:
                if not line.endswith(b"\n"):
                    break
                seq += 1
                offset += len(line)
                _fold_fact(fold, facts.fact_in(line))
                last = line
            if last:
                fold["mark"] = last[-MARK:].hex()
    except OSError:
        fold["damaged"] = fold.get("damaged", 0) + 1
    number = parts.task_id.removeprefix("task-")
    # A trace without ITERATION_END (the seed's sample) counts its judgments.
    judgments: list[str] = fold.get("ended") or fold.get("judged") or []
    return (
        int(number) if number.isdigit() and len(number) < 18 else -1,
        parts.task_id,
        f"{parts.stamp}_{parts.number:09d}",
        name,
        fold.get("title", ""),
        fold.get("executor", ""),
        fold.get("model", ""),
        fold.get("created_at", ""),
        fold.get("updated_at", ""),
        fold.get("total", len(judgments)),
        "\n".join(judgment.replace("\n", " ") for judgment in judgments),
        # A zero beside which nothing was counted is no cost that is known.
        fold.get("cost") if fold.get("cost_known") and (fold.get("cost") or fold.get("used")) else None,
        fold.get("final"),
        fold.get("reason", ""),
        int(_awaiting(fold)),
        str(fold.get("last") or ""),
        fold.get("damaged", 0),
        " ".join(map(str, fold.get("tokens", ()))),
        fold.get("worked", 0),
        fold.get("verification", ""),
        "\n".join(fold.get("sessions", ())),
        fold.get("used", 0),
        len(judgments),
        judgments.count("REJECT"),
        seq,
        offset,
        size,
        mtime,
        json.dumps(fold, sort_keys=True),
    )


def continues(file: BinaryIO, offset: int, fold: dict[str, Any]) -> bool:
    """Whether the file still holds, before `offset`, the end of the last line that was folded: it has only grown."""
    mark = bytes.fromhex(fold.get("mark", ""))
    file.seek(offset - len(mark))
    return bool(mark) and file.read(len(mark)) == mark


def _agentic_row(folder: str, name: str, size: int, mtime: int, _earlier: object) -> tuple[Any, ...] | None:
    if not name.startswith("trace_"):
        return None
    meta: Any = None
    with contextlib.suppress(OSError, ValueError, RecursionError), open(os.path.join(folder, name), "rb") as file:
        meta = json.loads(file.readline(1 << 24))
    meta = meta if isinstance(meta, dict) and meta.get("type") == "meta" else {}
    label = str(meta.get("label") or "")
    operation, _, module = label.partition(":")
    success, source = meta.get("success"), meta.get("source")
    source = source if isinstance(source, dict) else {}
    return (
        name,
        str(meta.get("ts") or ""),
        label,
        operation,
        module,
        str(meta.get("provider") or ""),
        str(meta.get("model") or ""),
        int(success) if isinstance(success, bool) else None,
        _number(meta.get("cost_usd")),
        _number(meta.get("duration_sec")),
        str(meta.get("session_id") or ""),
        _count(meta.get("tools")),
        _count(meta.get("errors")),
        _total(meta.get("thoughts")),
        _count(source.get("bytes")),
        _tokens(meta.get("tokens")),
        len(agents) if isinstance(agents := meta.get("agents"), list) else None,
        str(meta.get("prompt_sha256") or ""),
        str(source.get("project_sha256") or ""),
        size,
        mtime,
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def _total(value: Any) -> int | None:
    return sum(count for count in value.values() if type(count) is int) if isinstance(value, dict) else None


def _tokens(value: Any) -> int | None:
    """Input and output; None where one is unknown."""
    both = [_count(value.get(name)) for name in ("input", "output")] if isinstance(value, dict) else [None]
    return None if None in both else sum(count for count in both if count is not None)


def _number(value: Any) -> float | None:
    return float(value) if type(value) in {int, float} else None


class _Source(NamedTuple):
    """One kind of file: the property of StateDir that names its folder, its table, and what makes its row.

    `unfinished` is the condition of rows whose files may grow.
    """

    folder: str
    table: str
    columns: int
    unfinished: str
    make: Callable[[str, str, int, int, tuple[Any, ...] | None], tuple[Any, ...] | None]


_SOURCES = (
    _Source("traces", "traces", 29, "final_status is null", _trace_row),
    _Source("agentic_traces", "agentic", 21, "0", _agentic_row),
)


def rebuild(state_dir: StateDir) -> int:
    """Forget every row and read all files again; the number of files read."""
    with contextlib.closing(open_catalog(state_dir)) as connection:
        kept = "name glob 'text*' and name not glob 'texts_*' or type = 'trigger'"  # of tracer.catalog.search
        for kind, name in connection.execute(f"select type, name from sqlite_master where {kept}").fetchall():
            connection.execute(f"drop {kind} {name}")
        connection.executescript("delete from traces; delete from agentic; delete from folders")
        return refresh(connection, state_dir)
