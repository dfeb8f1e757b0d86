"""Lists in the browser and `pm tasks WORDS`: one filter language, full text, sorting, pages by cursor, totals.

`status:COMPLETE agent:claude since:7d cost:>0.5 rejected finding:"deleted test"`: terms must all hold, a list inside a
term means any of them, a bare word is looked for in all texts. Texts are found by the beginnings of their words in an
FTS5 table beside the catalogue's rows. Like these it is a projection of redacted records; it is brought up to the files
when a text is first looked for, so that lists alone never pay for it.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from difflib import get_close_matches
from typing import Any, NamedTuple

from tracer import facts
from tracer.blobs import DirectoryBlobs
from tracer.catalog.agentic import AGENTIC_COLUMNS, agentic_row
from tracer.catalog.labels import labels_told
from tracer.catalog.store import MARK, continues, open_catalog, refresh
from tracer.catalog.tasks import task_row
from tracer.clock import since_iso
from tracer.errors import NotFoundError, PmError, UnavailableError, UsageError
from tracer.insights.agentic_trace import parse_trace
from tracer.rows.filters import TOKEN, unquoted
from tracer.statedir import StateDir

TEXTS = ("prompt", "answer", "finding", "thought", "call")
"""What a text can be; each is a term of its own, and a column of the table."""
_LONGEST_TEXT = 1 << 18
_NUMBER = re.compile(r"(>=|<=|>|<|)(\d{1,15}(?:\.\d{1,9})?)(?:-(\d{1,15}(?:\.\d{1,9})?))?")
_WORD = re.compile(r"\w+")

Condition = tuple[str, tuple[Any, ...]]


LABELLED = "label_flags is not null"
"""A row that people gave a label."""


class Kind(NamedTuple):
    """One kind of list: terms by the columns they ask about, flags by conditions, orders by expressions.

    `lists` are columns of many values, each between line ends.
    `rows` selects all of them as a table; `tie` are the columns that tell two of equal order apart, `columns` those of
    the result, `totals` the aggregates over all that is found, of the columns `summed`.
    Where rows are `given`, their column `texts` is looked through for words, else the index is.
    """

    rows: str
    key: str
    tie: str
    columns: str
    words: Mapping[str, str]
    numbers: Mapping[str, str]
    flags: Mapping[str, str]
    orders: Mapping[str, str]
    updated: str
    summed: str
    totals: Mapping[str, str]
    given: tuple[str, ...] = ()
    lists: Mapping[str, str] = {"flag": "label_flags"}

    @property
    def terms(self) -> list[str]:
        """Every term that this kind of list knows."""
        texts = [f"{name}:" for name in TEXTS] if not self.given else []
        named = [f"{name}:" for name in (*self.words, *self.numbers, *self.lists, "since", "until", "text")]
        return [*named, *texts, *self.flags]


class Found(NamedTuple):
    """A page of rows; `following` is the key of its last row where there are more.

    `totals` are of all pages, `days` the same by the day (`2026-01-31`) of the last update.
    """

    rows: list[Any]
    following: str | None
    totals: dict[str, Any]
    days: dict[str, dict[str, Any]]


TASKS = Kind(
    rows="""select t.*, coalesce(t.final_status, o.status, 'UNFINISHED') as status,
      (select min(created_at) from traces c where c.number = t.number and c.task_id = t.task_id) as began,
      (select count(*) - 1 from traces c where c.number = t.number and c.task_id = t.task_id) as older,
      l.score, l.flags as label_flags
    from traces t left join temp.open_now o on o.task_id = t.task_id
    left join temp.labels l on l.subject = t.task_id where not exists
      (select 1 from traces n where n.number = t.number and n.task_id = t.task_id and n.ordinal > t.ordinal)""",
    key="task_id",
    tie="number, task_id",
    columns="""task_id, title, status, awaiting, iterations, judgments, cost_usd, updated_at, executor, model, reason,
      last_event, seq, damaged, name, tokens, worked_ms, verification, sessions, began, older, used""",
    words={"status": "status", "agent": "executor", "model": "model", "task": "task_id", "reason": "reason",
           "verification": "verification", "event": "last_event"},
    numbers={"cost": "cost_usd", "tokens": "used", "time": "worked_ms / 1000.0", "it": "iterations",
             "score": "score"},
    flags={"failed": "status in ('INCOMPLETE', 'ERROR', 'CANCELLED')", "rejected": "rejected > 0",
           "verified": "verification = 'verified'", "open": "final_status is null",
           "labelled": LABELLED},
    orders={"number": "number", "updated": "updated_at", "started": "began", "cost": "coalesce(cost_usd, -1)",
            "tokens": "used", "time": "worked_ms", "iterations": "iterations", "title": "lower(title)",
            "status": "status", "agent": "executor"},
    updated="updated_at",
    summed="cost_usd, used, worked_ms, judged, rejected, verification",
    totals={"count": "count(*)", "cost_usd": "sum(cost_usd)", "tokens": "sum(used)", "worked_ms": "sum(worked_ms)",
            "judged": "sum(judged)", "rejected": "sum(rejected)", "verified": "sum(verification = 'verified')"},
)  # fmt: skip
SESSIONS = Kind(
    rows="""select a.*, case success when 1 then 'ok' when 0 then 'failed' else 'unknown' end as outcome,
      l.score, l.flags as label_flags from agentic a left join temp.labels l on l.subject = a.name""",
    key="name",
    tie="name",
    columns=AGENTIC_COLUMNS,
    words={"agent": "provider", "model": "model", "outcome": "outcome", "op": "operation", "module": "module",
           "session": "session_id", "run": "label"},
    numbers={"cost": "cost_usd", "tokens": "used", "time": "duration_s", "errors": "errors", "tools": "tools",
             "thoughts": "thoughts", "agents": "agents", "score": "score"},
    flags={"failed": "success = 0", "labelled": LABELLED},
    orders={"ended": "ts", "cost": "coalesce(cost_usd, -1)", "tokens": "coalesce(used, -1)",
            "time": "coalesce(duration_s, -1)", "errors": "coalesce(errors, -1)", "tools": "coalesce(tools, -1)",
            "thoughts": "coalesce(thoughts, -1)", "label": "lower(label)", "agent": "provider", "model": "model"},
    updated="ts",
    summed="cost_usd, used, duration_s, errors, success",
    totals={"count": "count(*)", "cost_usd": "sum(cost_usd)", "tokens": "sum(used)",
            "worked_ms": "sum(duration_s) * 1000", "errors": "sum(errors)", "failed": "sum(success = 0)"},
)  # fmt: skip


def search_tasks(
    state_dir: StateDir,
    text: str = "",
    *,
    sort: str = "",
    after: str | None = None,
    limit: int | None = None,
    status_of: Callable[[str], str | None] = lambda _task: None,
) -> Found:
    """The tasks that the filter `text` finds, newest first; `status_of` knows better about those of this process.

    Raises:
        UsageError: the filter or the order (`cost`, `-cost`) is none.
        NotFoundError: there is no task `after`.

    """
    with closing(open_catalog(state_dir)) as connection:
        refresh(connection, state_dir)
        connection.execute("create temp table open_now (task_id text primary key, status text)")
        for task_id, waits in connection.execute("select task_id, awaiting from traces where final_status is null"):
            told = status_of(task_id) or ("AWAITING_RESPONSE" if waits else "")
            told = told or ("UNFINISHED" if state_dir.writer_of(task_id) is None else "RUNNING")
            connection.execute("insert or replace into open_now values (?, ?)", (task_id, told))
        _with_labels(connection, state_dir, "task")
        found = _search(connection, TASKS, text, sort or "-number", after, limit, state_dir)
    return found._replace(rows=[task_row(row, state_dir) for row in found.rows])


def search_sessions(
    state_dir: StateDir, text: str = "", *, sort: str = "", after: str | None = None, limit: int | None = None
) -> Found:
    """The distilled sessions that the filter `text` finds, newest first. Raises as `search_tasks`."""
    folder = os.fspath(state_dir.agentic_traces)
    with closing(open_catalog(state_dir)) as connection:
        refresh(connection, state_dir)
        _with_labels(connection, state_dir, "session")
        found = _search(connection, SESSIONS, text, sort or "-ended", after, limit, state_dir)
    return found._replace(rows=[agentic_row(folder, row) for row in found.rows])


def _with_labels(connection: sqlite3.Connection, state_dir: StateDir, kind: str) -> None:
    connection.execute("create temp table labels (subject text primary key, score real, flags text)")
    connection.executemany("insert into labels values (?, ?, ?)", labels_told(state_dir, kind))


def search_rows(
    kind: Kind, rows: Sequence[Sequence[Any]], text: str, *, sort: str, after: str | None, limit: int
) -> Found:
    """Rows of another store by the same language: `kind.rows` selects from the table `given`, which has `kind.given`.

    Raises as `search_tasks`.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"create table given ({', '.join(kind.given)})")
        connection.executemany(f"insert into given values ({','.join('?' * len(kind.given))})", rows)
        return _search(connection, kind, text, sort, after, limit, None)


def _search(
    connection: sqlite3.Connection,
    kind: Kind,
    text: str,
    sort: str,
    after: str | None,
    limit: int | None,
    state_dir: StateDir | None,
) -> Found:
    conditions = [("1", ()), *_conditions(kind, text)]
    if state_dir is not None and any("texts" in condition for condition, _ in conditions):
        refresh_texts(connection, state_dir)
    where = " and ".join(condition for condition, _ in conditions)
    values = [value for _, given in conditions for value in given]
    name = sort.removeprefix("-")
    if name not in kind.orders:
        orders = ", ".join(kind.orders)
        raise UsageError(f"nothing is sorted by {name!r}", next_step=f"sort by {orders}; -{name} begins with the most")
    descending = sort.startswith("-")
    order, less, turned = kind.orders[name], "<" if descending else ">", " desc" if descending else ""
    # What is found, once: totals, cursor and page are looked up in it.
    summed = f"select {kind.key} as key, {kind.tie}, {order} as sorted, {kind.summed}"
    summed += f", substr({kind.updated}, 1, 10) as day from ({kind.rows}) where {where}"
    connection.execute(f"create temp table found as {summed}", values)
    aggregates = ", ".join(kind.totals.values())
    totals = dict(zip(kind.totals, connection.execute(f"select {aggregates} from found").fetchone(), strict=True))
    daily = connection.execute(f"select day, {aggregates} from found group by day order by day")
    days = {day: dict(zip(kind.totals, told, strict=True)) for day, *told in daily}
    beyond, place = "1", ()
    if after is not None:
        at = f"select {order}, {kind.tie} from ({kind.rows}) where {kind.key} = ?"
        place = connection.execute(at, (after,)).fetchone()
        if place is None:
            raise NotFoundError(f"there is no {after!r} to go on from", next_step="begin with the first page")
        beyond = f"(sorted, {kind.tie}) {less} ({','.join('?' * len(place))})"
    ordered = ", ".join(f"{each.strip()}{turned}" for each in ("sorted", *kind.tie.split(",")))
    shown = f"from found where {beyond} order by {ordered} limit ?"
    given = (*place, -1 if limit is None else limit + 1)
    keys = [key for (key,) in connection.execute(f"select key {shown}", given)]
    page = f"select {kind.columns}, {kind.key} from ({kind.rows}) where ({kind.tie}) in (select {kind.tie} {shown})"
    rows = {row[-1]: row[:-1] for row in connection.execute(page, given)}
    following = keys[limit - 1] if limit is not None and len(keys) > limit else None
    return Found([rows[key] for key in keys[:limit]], following, totals, days)


# The language


def _conditions(kind: Kind, text: str) -> Iterator[Condition]:
    for term in TOKEN.findall(text):
        name, colon, rest = term.partition(":")
        if term.startswith('"') or not colon:
            yield (kind.flags[term], ()) if term in kind.flags else _text(kind, "text", unquoted(term, term))
        elif name == "text" or (name in TEXTS and not kind.given):
            yield _text(kind, name, unquoted(rest, term))
        elif name in kind.words:
            yield _words(kind.words[name], unquoted(rest, term))
        elif name in kind.lists:
            yield _words(kind.lists[name], unquoted(rest, term), around="%\n{}\n%")
        elif name in kind.numbers:
            yield _numbers(kind.numbers[name], unquoted(rest, term), term)
        elif name in {"since", "until"}:
            yield f"{kind.updated} {'>=' if name == 'since' else '<='} ?", (since_iso(unquoted(rest, term)),)
        else:
            near = get_close_matches(name, [one.rstrip(":") for one in kind.terms], n=1, cutoff=0.3)
            why = f"did you mean {near[0]}?" if near else ""
            raise UsageError(f"unknown filter term {name!r}", why=why, next_step=f"terms are {' '.join(kind.terms)}")


def _words(column: str, given: str, *, around: str = "{}") -> Condition:
    found = [value.lower() for value in given.split(",") if value]
    patterns = [around.format(re.sub(r"([\\%_])", r"\\\1", value).replace("*", "%")) for value in found]
    return "(" + " or ".join(rf"lower({column}) like ? escape '\'" for _ in patterns) + ")", tuple(patterns)


def _numbers(column: str, given: str, term: str) -> Condition:
    found = _NUMBER.fullmatch(given)
    if found is None or (found[1] and found[3]):
        raise UsageError(f"{term!r} asks for no number", next_step="write cost:>0.5, cost:<=2 or cost:0.5-2")
    if found[3]:
        return f"({column} between ? and ?)", (float(found[2]), float(found[3]))
    return f"({column} {found[1] or '='} ?)", (float(found[2]),)


def _text(kind: Kind, name: str, words: str) -> Condition:
    """What holds these words, one after the other, the last one by its beginning."""
    if kind.given:
        return r"(texts like ? escape '\')", ("%" + re.sub(r"([\\%_])", r"\\\1", words) + "%",)
    parts = _WORD.findall(words)
    if not parts:  # nothing but signs, which are in no index
        return "0", ()
    phrase = f'{"" if name == "text" else f"{name} : "}"{" ".join(parts)}" *'
    hits = f"select f.key from texts join text_files f on f.id = texts.rowid / {_PARTS} where texts match ?"
    # What a task's agents thought and called stands in their distilled sessions.
    linked = f"select f.key from text_links l join text_files f on f.id = l.file where l.name in ({hits})"
    before = f"select l.name from text_links l join text_files f on f.id = l.file where f.key in ({hits})"
    linked += f" or l.name in ({before} and f.source = 'agentic')"
    return f"({kind.key} in ({hits}) or {kind.key} in ({linked}) or {kind.key} = ?)", (phrase, phrase, phrase, words)


# The texts

_PARTS = 1 << 20
_TABLES = (
    """create table text_files (
      id integer primary key, source text not null, name text not null, key text not null, parts integer not null,
      offset integer not null, mark text not null, unique (source, name))""",
    "create table text_links (file integer not null, name text not null, primary key (name, file)) without rowid",
    # Which files changed since is noted by the catalogue itself: to compare ten thousand takes longer than to search.
    "create table text_dirty (source text not null, name text not null, primary key (source, name)) without rowid",
    *(
        f"""create trigger texts_{source}_{how} after {how} on {source} begin
          insert or ignore into text_dirty values ('{source}', {row}.name); end"""
        for source in ("traces", "agentic")
        for how, row in (("insert", "new"), ("delete", "old"))
    ),
    "insert into text_dirty select 'traces', name from traces union select 'agentic', name from agentic",
    f"create virtual table texts using fts5 ({', '.join(TEXTS)}, tokenize = 'unicode61 remove_diacritics 2')",
)
_CHANGED = """
select d.source, d.name, coalesce(t.task_id, a.name), coalesce(a.prompt, ''), f.id, f.parts, f.offset, f.mark
from text_dirty d
left join traces t on d.source = 'traces' and t.name = d.name
left join agentic a on d.source = 'agentic' and a.name = d.name
left join text_files f on f.source = d.source and f.name = d.name
"""


def refresh_texts(connection: sqlite3.Connection, state_dir: StateDir) -> int:
    """Bring the texts up to the catalogue's rows; the number of files that were read.

    Raises UnavailableError: this Python's SQLite has no full-text index.
    """
    read = 0
    try:
        if connection.execute("select 1 from sqlite_master where name = 'texts'").fetchone() is None:
            connection.execute("begin immediate")
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute("commit")
        changed = connection.execute(_CHANGED).fetchall()
        if not changed:
            return 0
        connection.execute("begin immediate")
        for source, name, key, prompt, *known in changed:
            if key is None:
                _forget(connection, known[0])
            else:
                read += _index(connection, state_dir, source, name, key, prompt, *known)
            connection.execute("delete from text_dirty where source = ? and name = ?", (source, name))
        connection.execute("commit")
    except sqlite3.OperationalError as error:
        if connection.in_transaction:  # another process refreshes, or the disk is full: the texts stay as they were
            connection.execute("rollback")
        if "fts5" in str(error):
            raise UnavailableError("texts cannot be searched", why="this Python's SQLite has no FTS5") from error
    return read


def _forget(connection: sqlite3.Connection, file: int | None) -> None:
    if file is not None:
        connection.execute("delete from texts where rowid between ? and ?", (file * _PARTS, (file + 1) * _PARTS - 1))
        connection.execute("delete from text_links where file = ?", (file,))
        connection.execute("delete from text_files where id = ?", (file,))


def _index(
    connection: sqlite3.Connection,
    state_dir: StateDir,
    source: str,
    name: str,
    key: str,
    prompt: str,
    file: int | None,
    parts: int | None,
    offset: int | None,
    mark: str | None,
) -> bool:
    """Read a file, where it has only grown from where it was read to."""
    folder = state_dir.traces if source == "traces" else state_dir.agentic_traces
    try:
        with (folder / name).open("rb") as stream:
            if not (offset and source == "traces" and continues(stream, offset, {"mark": mark or ""})):
                _forget(connection, file)
                file, parts, offset, mark = None, 0, 0, ""
            stream.seek(offset)
            whole, newline, _ = stream.read().rpartition(b"\n")
    except OSError:
        return False
    lines = whole.split(b"\n")
    texts, links = (_of_task(lines), _links(lines)) if source == "traces" else _of_session(name, lines)
    if prompt:
        with suppress(PmError):
            stored = DirectoryBlobs(state_dir.blobs).read(f"sha256:{prompt.removeprefix('sha256:')}")
            texts["prompt"].append(stored.decode("utf-8", "replace"))
    read = whole + newline
    row = (file, source, name, key, (parts or 0) + 1, offset + len(read), read[-MARK:].hex() or mark)
    file = connection.execute("insert or replace into text_files values (?,?,?,?,?,?,?)", row).lastrowid or 0
    said = ["\n".join(dict.fromkeys(texts[column]))[:_LONGEST_TEXT] for column in TEXTS]
    if any(said):
        values = (file * _PARTS + (parts or 0) % _PARTS, *said)
        connection.execute(f"insert or replace into texts (rowid, {', '.join(TEXTS)}) values (?,?,?,?,?,?)", values)
    connection.executemany("insert or ignore into text_links values (?, ?)", [(file, link) for link in links])
    return True


def _of_task(lines: list[bytes]) -> dict[str, list[str]]:
    """What the user asked, the agents answered and the criteria found."""
    found: dict[str, list[str]] = {name: [] for name in TEXTS}
    for line in lines:
        match facts.fact_in(line) if line else None:
            case facts.UserRequest() as fact:
                found["prompt"] += [fact.title, fact.prompt]
            case facts.LlmRequest() as fact if not fact.purpose:
                found["prompt"].append(fact.prompt)
            case facts.LlmResponse() as fact if not fact.purpose:
                found["answer"].append(fact.output)
                found["call"] += [f"{call.name} {call.summary}" for call in fact.tool_calls]
            case facts.QualityJudgment() as fact:
                failed = [one for one in fact.criteria_results if one.outcome != "pass" and one.passed is not True]
                found["finding"] += [fact.summary, *(f"{one.id} {one.name} {one.reason}" for one in failed)]
                for one in fact.issues:
                    found["finding"].append(f"{one.place} {one.type} {one.excerpt} {one.message} {one.suggestion}")
    return found


def _links(lines: list[bytes]) -> set[str]:
    """The distilled sessions that answers name, by the names of their files."""
    told = (facts.fact_in(line) for line in lines if b'"agentic_trace"' in line)
    paths = (fact.agentic_trace for fact in told if isinstance(fact, facts.LlmResponse))
    return {os.path.basename(path) for path in paths if path}


def _of_session(name: str, lines: list[bytes]) -> tuple[dict[str, list[str]], set[str]]:
    """What the agent thought, called and said, and the names by which tasks may know the file."""
    found: dict[str, list[str]] = {column: [] for column in TEXTS}
    trace = parse_trace(name, lines)
    found["prompt"].append(str(trace.meta.get("label") or ""))
    for step in trace.steps:
        match step.kind:
            case "tool":
                found["call"] += [f"{step.name} {step.args}", step.output]
            case "thought":
                found["thought"].append(step.text)
            case _:
                found["answer"].append(step.text)
    before = trace.meta.get("formerly")
    return found, {str(one) for one in before} if isinstance(before, list) else set()
