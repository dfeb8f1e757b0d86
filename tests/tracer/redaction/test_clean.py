"""Only what a redactor gave back becomes part of a record, a row, an answer or a page: mypy holds it."""

from __future__ import annotations

import pickle
import re
import traceback
from pathlib import Path

import pytest
from mypy import api

from tracer.errors import NotFoundError

ROOT = Path(__file__).parents[3]

SNIPPET = """
from collector.store.port import StoredEvent
from service.pages.task import Page
from service.problems import Problem
from tracer.distill.cleaner import cut
from tracer.distill.readers.assembly import Line, Spool
from tracer.errors import PmError
from tracer.events import clean_line
from tracer.journal.writer import Journal
from tracer.redaction.redactor import Clean, CleanLine, Redacted

raw, line = "words", b"{}"

async def record(journal: Journal, spool: Spool) -> None:
    await journal.append(line)
    spool.put(0, 0, line)
    Line(text=raw)
    cut(raw, 10)
    clean_line({}, {"prompt": raw})
    await journal.append(clean_line({}, Redacted({}, {})))
    Line(text=Clean(raw))
    StoredEvent("id", 1, 0, "thought", line, line)
    Problem(title="Not Found", status=404, code="not_found", detail=raw)
    Page(raw)
    Page(Clean(raw))
    Line(text=PmError(raw).why)
"""

# Who may say that a text is clean: redaction itself, and what puts cleaned pieces together or cuts them.
DECLARED = {
    "collector/intake/prepare.py",  # a row's JSON, of values that `redactors` gave back
    "collector/intake/redactors.py",
    "collector/store/postgres/store.py",  # what was stored clean
    "service/pages/task.py",  # `render` cleans every text of a page
    "service/problems.py",
    "tracer/distill/cleaner.py",
    "tracer/distill/one.py",
    "tracer/distill/readers/assembly.py",
    "tracer/distill/readers/summarize.py",
    "tracer/events.py",
}


def test_mypy_refuses_text_that_no_redactor_gave_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    told, _, code = api.run(
        ["--config-file=", "--follow-imports=silent", f"--cache-dir={tmp_path / 'cache'}", str(snippet)]
    )
    refused = {int(line.split(":")[1]) for line in told.splitlines() if ": error: " in line and "snippet.py" in line}
    assert (code, refused) == (1, {15, 16, 17, 18, 19, 22, 23, 24})


def test_an_error_tells_nobody_a_secret_in_whatever_way_it_is_read() -> None:
    token = "ghp_" + "a8F3kLq0ZxYw2VbN5mTr7UsPq1WeRtYuIo34"
    for cut in range(len(token) + 1):  # and no part of one that is cut when it is told
        error = NotFoundError(f"no {token} {'w ' * cut}", why=OSError(2, f"{token} is bad"), next_step=f"take {token}")
        error.next_step = f"{error.next_step} or {token}"
        for one in (error, pickle.loads(pickle.dumps(error))):
            told = [one.what, one.why, one.next_step, one.line, str(one), repr(one), *traceback.format_exception(one)]
            assert not [text for text in told if token[:12] in text]
            assert not [text for text in (one.what[:cut], one.line[:cut], str(one)[:cut]) if token[:6] in text]


def test_nobody_else_says_that_a_text_is_clean() -> None:
    said = re.compile(
        r"\b(?:Clean|CleanLine|Redacted)\((?!NamedTuple)|cast\(.{0,3}Clean|_replace\(.*(?:envelope|payload)="
    )
    told = {
        str(path.relative_to(ROOT))
        for room in ("collector", "pm_orchestrator", "repl", "runner", "service", "tracer", "plugins")
        for path in (ROOT / room).rglob("*.py")
        if said.search(path.read_text()) and path.parent.name != "redaction"
    }
    assert told == DECLARED
