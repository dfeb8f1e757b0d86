"""Many texts redacted together: the same as one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracer.redaction.engine import build_redactor

_KEY = "sk-ant-api03-" + "AbC9dEf2gHi5jKl8" * 2
_PARTS = st.sampled_from([
    "plain words\n", "token = ", _KEY, _KEY[:14], _KEY[14:], "x@example.com", "/home/alice/app/src/a.py", "\\n", "%41",
    '"password": "', 'hunter22hunter22"', "[REDACTED:email:0a1b2c]", "é😀", "\n", "-----BEGIN PRIVATE KEY-----\n",
    "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=", "",
])  # fmt: skip
_ROWS = st.lists(st.lists(st.lists(_PARTS, max_size=4).map("".join), min_size=1, max_size=3), max_size=8)


@pytest.fixture(scope="module")
def redactor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    base = build_redactor(state_dir=folder, environ={"HOME": "/home/alice"}, persons=(), host="", project_root=None)
    return base.with_paths()


@settings(max_examples=40, deadline=None)
@given(rows=_ROWS)
def test_rows_together_become_what_they_become_alone(redactor, rows):
    _same_alone(redactor, rows)


@pytest.mark.torture
@settings(max_examples=200, deadline=None)
@given(rows=_ROWS)
def test_many_rows_together_become_what_they_become_alone(redactor, rows):
    _same_alone(redactor, rows)


def _same_alone(redactor, rows):
    alone = [redactor.redact_chunks(row) for row in rows]
    changed, counts = redactor.redact_rows(rows)
    assert [changed.get(at, row) for at, row in enumerate(rows)] == [list(pieces) for pieces, _counts in alone]
    assert all(pieces != rows[at] for at, pieces in changed.items())
    total: dict[str, int] = {}
    for _pieces, found in alone:
        for rule, count in found.items():
            total[rule] = total.get(rule, 0) + count
    assert counts == total


def test_a_secret_over_a_seam_is_found_whole(redactor):
    changed, counts = redactor.redact_rows([["nothing here"], [_KEY[:20], _KEY[20:]]])
    assert list(changed) == [1]
    assert _KEY[:20] not in changed[1][0]
    assert _KEY[20:] not in changed[1][1]
    assert sum(counts.values()) == 1
