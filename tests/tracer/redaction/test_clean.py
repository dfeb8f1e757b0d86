"""Only what a redactor gave back becomes part of a record, a row, an answer or a page: mypy holds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[3]

SNIPPET = """
from collector.store.port import StoredEvent
from tracer.distill.cleaner import cut
from tracer.distill.readers.assembly import Line, Spool
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
"""


def test_mypy_refuses_text_that_no_redactor_gave_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    told, _, code = api.run(
        ["--config-file=", "--follow-imports=silent", f"--cache-dir={tmp_path / 'cache'}", str(snippet)]
    )
    refused = {int(line.split(":")[1]) for line in told.splitlines() if ": error: " in line and "snippet.py" in line}
    assert (code, refused) == (1, {12, 13, 14, 15, 16, 19})
