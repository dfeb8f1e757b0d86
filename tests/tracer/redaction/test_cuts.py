"""A text is cut before its secrets are replaced: what is left of it shows no part of one."""

from __future__ import annotations

import pytest

from tests.tracer.redaction.test_canaries import POSITIVES, leaks
from tracer.redaction.cuts import beginning, ending
from tracer.redaction.engine import build_redactor

# Of values that hold blanks nobody can tell where they end before they are recognised: key blocks, phrases, passwords.
_WITH_BLANKS = {"openvpn-static-key", "password-option", "private-key", "recovery-phrase", "secret-key-setting"}


def test_a_cut_at_any_place_of_any_secret_shows_nothing_of_it(tmp_path):
    redactor = build_redactor(state_dir=tmp_path, environ={}, host="wonderbox", persons=())
    leaked, tried = set(), 0
    for canary in POSITIVES:
        text = f"words before {canary.text} and words after it\nnext line\n"
        start = text.find(canary.secret)
        if start < 0:
            continue
        for at in range(start + 1, start + len(canary.secret), max(len(canary.secret) // 7, 1)):
            for kept in (beginning(text, at), ending(text, len(text) - at)):
                tried += 1
                if leaks(canary, redactor.redact_text(kept)[0]):
                    leaked.add(canary.rule)
    assert leaked <= _WITH_BLANKS
    assert tried > 4000


@pytest.mark.parametrize(
    ("text", "limit", "first", "last"),
    [
        ("short", 9, "short", "short"),
        ("one two three", 9, "one two…", "one two…"),
        ("one two three", 8, "one two…", "one two…"),
        ("aaaaaaaaaaaa", 5, "…", "…"),
        ("残り省略します", 3, "残り省…", "残り省…"),
        ("a b\nlast line\n", 11, "a b\nlast…", "last line\n"),
    ],
)
def test_what_is_kept_ends_with_a_word_and_begins_with_a_line(text, limit, first, last):
    assert beginning(text, limit) == first
    assert ending(text, limit) == last
